//! Which frames a cable loses, by name.

use ethbcast_collectives::session::kind;
use ethbcast_lab::{Lab, LabError, LinkFault};
use ethbcast_transport::wire::Kind;

/// Where a frame says its kind: behind the Ethernet header, the magic and the version.
pub const KIND_BYTE: usize = 17;

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
