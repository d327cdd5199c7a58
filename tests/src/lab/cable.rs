//! Selection of the frames that a cable loses, by name.

use ethbcast_collectives::session::kind;
use ethbcast_lab::{Lab, LabError, LinkFault};
use ethbcast_transport::wire::Kind;

/// Position of the kind in a frame: behind the Ethernet header, the magic and the version.
pub const KIND_BYTE: usize = 17;

/// Direction of frames, seen from the affected host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    To,
    From,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Which {
    All,
    Kind(Kind),
    /// Frames to a host's address.
    Unicast,
    /// Frames to the group's address.
    Multicast,
    /// Frames with more than this number of bytes behind their Ethernet header.
    Large(u32),
    /// Frames from or to this host.
    Peer(&'static str),
}

impl Which {
    /// Returns its part of a cell's name.
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

/// Returns the cable's faults that lose these frames.
///
/// # Errors
/// Fails if the peer's address cannot be determined.
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
