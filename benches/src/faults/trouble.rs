//! What can be done to a host, its cable and its disk.

use std::time::Duration;

use ethbcast_collectives::session::kind;
use ethbcast_lab::{Lab, LabError, LinkFault};
use ethbcast_transport::wire::Kind;

/// Where a frame says its kind: behind the Ethernet header, the magic and the version.
const KIND_BYTE: usize = 17;

/// Which way frames go, seen from the host in trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They arrive there.
    To,
    /// They leave it.
    From,
    /// Both.
    Both,
}

/// Which frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Which {
    /// All of them.
    All,
    /// Those of one kind.
    Kind(Kind),
    /// Those to one host's address.
    Unicast,
    /// Those to the group's address.
    Multicast,
    /// Those with more than so many bytes behind their Ethernet header.
    Large(u32),
    /// Those from or to this host.
    Peer(&'static str),
}

impl Which {
    /// Its name in a cell's.
    pub fn name(self) -> String {
        match self {
            Which::All => "all".into(),
            Which::Unicast => "unicast".into(),
            Which::Multicast => "multicast".into(),
            Which::Large(_) => "large".into(),
            Which::Peer(host) => format!("pair-{host}"),
            Which::Kind(of) => name_of(of).into(),
        }
    }
}

fn name_of(of: Kind) -> &'static str {
    match of {
        Kind::DATA => "data",
        Kind::ACK => "ack",
        Kind::HEARTBEAT => "heartbeat",
        kind::ANNOUNCE => "announce",
        kind::JOIN => "join",
        kind::VIEW => "view",
        kind::READY => "ready",
        kind::STATUS => "status",
        kind::DONE => "done",
        kind::VERDICT => "verdict",
        kind::ORPHAN => "orphan",
        _ => "other",
    }
}

/// How receivers die that do not die alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Any of them, at once.
    Together,
    /// Neighbours in a chain, at once.
    Neighbours,
    /// Neighbours in a chain, each 0.1 s after the one before.
    InARow,
    /// Any of them, each at a moment of its own.
    Apart,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trouble {
    /// Nothing.
    Nothing,
    /// Frames are lost on the host's cable, this fraction of them.
    Frames(Which, Way, f64),
    /// The switch's port goes down; the host's interface loses its carrier.
    Port,
    /// The interface is switched off.
    Interface,
    /// SIGSTOP.
    Stopped,
    /// SIGKILL to so many receivers.
    Killed(usize, Spread),
    /// SIGKILL to all that runs on the host at once, a watcher of the process too.
    PoweredOff,
    /// Who reads the receiver's stdout takes so many bytes per second.
    SlowReader(u64),
    /// Who reads the receiver's stdout takes so many bytes and then no more.
    StoppedReader(u64),
    /// The process is let run for one part in so many of the time.
    LittleCpu(u32),
}

impl Trouble {
    /// Whether the host's receiver writes to a pipe.
    pub fn is_of_reader(self) -> bool {
        matches!(self, Trouble::SlowReader(_) | Trouble::StoppedReader(_))
    }

    /// Whether the host's process cannot be expected to end once this has come over it, unless it is taken back.
    pub fn ends_nothing(self) -> bool {
        matches!(self, Trouble::Stopped)
    }
}

/// The faults of a cable that make these frames get lost.
///
/// # Errors
/// If the peer's address is not to be had.
pub fn faults(lab: &Lab, which: Which, way: Way, fraction: f64) -> Result<Vec<LinkFault>, LabError> {
    let both = [(Way::To, LinkFault::arriving()), (Way::From, LinkFault::leaving())];
    let wanted = both.into_iter().filter(|(of, _)| way == Way::Both || way == *of);
    let limited = |fault: LinkFault| {
        Ok(match which {
            Which::All => fault,
            Which::Kind(of) => fault.byte(KIND_BYTE, &[of.0]),
            Which::Unicast => fault.unicast(),
            Which::Multicast => fault.multicast(),
            Which::Large(bytes) => fault.longer_than(bytes),
            Which::Peer(host) => fault.peer(lab.mac(host)?),
        })
    };
    wanted.map(|(_, fault)| limited(fault.fraction(fraction))).collect()
}

/// How long neighbours that die in a row wait for each other.
pub const IN_A_ROW: Duration = Duration::from_millis(100);
