//! Problems of a `topology.conf` or a list of topology addresses, beyond not being a tree.

use crate::topology::nodeset::NodeSetError;
use thiserror::Error;

/// Problem of Slurm's topology data.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SlurmProblem {
    /// A word where `KEY=VALUE` has to stand.
    #[error("expected `KEY=VALUE` such as `Nodes=n[0-7]`, found `{0}`")]
    NoKey(String),
    /// A key, as written, has no value.
    #[error("`{0}=` has no value; give one, such as `{0}=n[0-7]`")]
    NoValue(String),
    /// A quotation mark in the value of this key that is never closed.
    #[error("the value of `{0}=` opens a quotation mark and does not close it; close it on the same line")]
    OpenQuote(String),
    /// A key, as written, that `SwitchName` lines do not have.
    #[error("unknown key `{0}`, expected one of `SwitchName`, `Switches`, `Nodes`, `LinkSpeed`")]
    UnknownKey(String),
    /// A line begins with this key instead of its switch.
    #[error("expected `SwitchName=` at the beginning of the line, found `{0}=`")]
    NoSwitchName(String),
    /// A key, as written, occurs twice in one line.
    #[error("`{0}=` stands twice in this line; join its values with a comma")]
    KeyTwice(String),
    /// The file is for another topology plugin, as this key shows.
    #[error("`{0}=` is for Slurm's block plugin; expected the tree plugin's `SwitchName=` lines")]
    BlockPlugin(String),
    /// The text is no `topology.yaml`, or none about switches; the message says what was expected.
    #[error("{0}")]
    Yaml(String),
    /// A `LinkSpeed` is no rate.
    #[error("`LinkSpeed={0}` is no rate; write a number of Mbit/s, such as LinkSpeed=10000, or a rate such as 10gbit")]
    LinkSpeed(String),
    /// An `Include` line.
    #[error("`Include` is not followed; put the `SwitchName=` lines of all files into one")]
    Include,
    /// A `Switches=` value is no node set.
    #[error("child switches of `{switch}`: {error}")]
    Switches {
        /// Switch whose children they are.
        switch: String,
        error: NodeSetError,
    },
    /// No `SwitchName=` in the whole file.
    #[error("expected lines such as `SwitchName=s0 Nodes=n[0-7]`, found none")]
    NoSwitch,
    /// No `Nodes=` in the whole file.
    #[error("no switch has hosts; give at least one a `Nodes=n[0-7]`")]
    NoNodes,
    /// The text has no address.
    #[error("expected lines such as `s0.s4.n3 switch.switch.node`, found none")]
    NoAddress,
    /// A line has a word behind an address and a pattern.
    #[error("expected an address and at most a pattern, found a third word `{0}`")]
    ThirdWord(String),
    /// A pattern is not `switch.….node`.
    #[error("expected a pattern of `switch` and a last `node`, such as switch.switch.node, found `{0}`")]
    Pattern(String),
    /// An address has fewer parts than its pattern.
    #[error("the address `{address}` has fewer parts than its pattern `{pattern}`; copy both from one host")]
    ShortAddress {
        address: String,
        /// Pattern of the address.
        pattern: String,
    },
    /// An address that ends without a host.
    #[error("the address `{0}` names no host; expected one such as s0.s4.n3")]
    NoHost(String),
    /// An address passes several switches of one level, which Slurm folds.
    #[error("the address goes through several switches at once, `{0}`; only a tree of switches can be read")]
    SeveralSwitches(String),
    /// An address has no switches, while others have some.
    #[error("the address `{0}` names no switch, though others do; collect the addresses from one job")]
    NoSwitches(String),
}
