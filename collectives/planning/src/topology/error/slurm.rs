//! What can be wrong with a `topology.conf` or a list of topology addresses, beyond not being a tree.

use crate::topology::nodeset::NodeSetError;
use thiserror::Error;

/// What can be wrong with what Slurm says, or is said to say.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SlurmProblem {
    /// A word where `KEY=VALUE` has to stand.
    #[error("expected `KEY=VALUE` such as `Nodes=n[0-7]`, found `{0}`")]
    NoKey(String),
    /// A key, as written, with nothing after it.
    #[error("`{0}=` has no value; give one, such as `{0}=n[0-7]`")]
    NoValue(String),
    /// A quotation mark in the value of this key that is never closed.
    #[error("the value of `{0}=` opens a quotation mark and does not close it; close it on the same line")]
    OpenQuote(String),
    /// A key, as written, that no `SwitchName` line has.
    #[error("unknown key `{0}`, expected one of `SwitchName`, `Switches`, `Nodes`, `LinkSpeed`")]
    UnknownKey(String),
    /// A line that begins with this key and not with the switch it is about.
    #[error("expected `SwitchName=` at the beginning of the line, found `{0}=`")]
    NoSwitchName(String),
    /// A key, as written, twice in one line.
    #[error("`{0}=` stands twice in this line; join its values with a comma")]
    KeyTwice(String),
    /// The file is for another topology plugin, as this key tells.
    #[error("`{0}=` is for Slurm's block plugin; expected the tree plugin's `SwitchName=` lines")]
    BlockPlugin(String),
    /// A `topology.yaml` that is none, or none about switches; the text says what was expected.
    #[error("{0}")]
    Yaml(String),
    /// A `LinkSpeed` that is no rate.
    #[error("`LinkSpeed={0}` is no rate; write a number of Mbit/s, such as LinkSpeed=10000, or a rate such as 10gbit")]
    LinkSpeed(String),
    /// An `Include` line.
    #[error("`Include` is not followed; put the `SwitchName=` lines of all files into one")]
    Include,
    /// A `Switches=` that is no node set.
    #[error("child switches of `{switch}`: {error}")]
    Switches {
        /// The switch whose children they are.
        switch: String,
        /// What is wrong with the node set.
        error: NodeSetError,
    },
    /// No `SwitchName=` in the whole file.
    #[error("expected lines such as `SwitchName=s0 Nodes=n[0-7]`, found none")]
    NoSwitch,
    /// No `Nodes=` in the whole file.
    #[error("no switch has hosts; give at least one a `Nodes=n[0-7]`")]
    NoNodes,
    /// No address at all.
    #[error("expected lines such as `s0.s4.n3 switch.switch.node`, found none")]
    NoAddress,
    /// A word behind an address and a pattern in one line.
    #[error("expected an address and at most a pattern, found a third word `{0}`")]
    ThirdWord(String),
    /// A pattern that is not `switch.….node`.
    #[error("expected a pattern of `switch` and a last `node`, such as switch.switch.node, found `{0}`")]
    Pattern(String),
    /// An address with fewer parts than its pattern.
    #[error("the address `{address}` has fewer parts than its pattern `{pattern}`; copy both from one host")]
    ShortAddress {
        /// The address.
        address: String,
        /// Its pattern.
        pattern: String,
    },
    /// An address that ends without a host.
    #[error("the address `{0}` names no host; expected one such as s0.s4.n3")]
    NoHost(String),
    /// An address through several switches of one level, which Slurm folds.
    #[error("the address goes through several switches at once, `{0}`; only a tree of switches can be read")]
    SeveralSwitches(String),
    /// An address without switches among others that have some.
    #[error("the address `{0}` names no switch, though others do; collect the addresses from one job")]
    NoSwitches(String),
}
