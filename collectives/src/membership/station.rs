//! What every host of a group knows about itself.

use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{self, EtherType, HEADER_BYTES, Identity, Rank, StreamId};

/// The smallest MTU there is, in bytes: below it a frame has no room for an acknowledgement's bitmap (protocol §2).
pub const LEAST_MTU_BYTES: u16 = 576;
/// The longest name of a group, in bytes.
pub const MAX_GROUP_BYTES: usize = 64;

/// This host's place on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    /// Host name, as it appears in reports and topology files.
    pub host: String,
    /// Name of the group.
    pub group: String,
    /// The interface.
    pub mac: MacAddr,
    /// The group's multicast address.
    pub group_mac: MacAddr,
    /// The EtherType in use.
    pub ether_type: EtherType,
    /// The link's MTU, in bytes.
    pub mtu_bytes: u16,
}

impl Station {
    /// A host in `group`, with the group's usual address and the EtherType for local use.
    pub fn new(group: &str, host: &str, mac: MacAddr, mtu_bytes: u16) -> Station {
        let (group_mac, ether_type) = (wire::group_mac(group), EtherType::DEFAULT);
        Station { host: host.to_owned(), group: group.to_owned(), mac, group_mac, ether_type, mtu_bytes }
    }

    /// The longest payload of its frames, in bytes.
    pub fn payload_bytes(&self) -> u16 {
        self.mtu_bytes.saturating_sub(HEADER_BYTES as u16)
    }

    /// What its control frames say about it; those of its streams say the same, but for the stream's number.
    pub fn identity(&self, session: u32, rank: Rank) -> Identity {
        Identity { session, stream: StreamId(0), rank, mac: self.mac, ether_type: self.ether_type }
    }
}

/// Counters of a session's frames, stream frames not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlStats {
    /// Control frames sent.
    pub sent: u64,
    /// Control frames received and understood.
    pub received: u64,
    /// Frames of another session or from hosts that are no members.
    pub strangers: u64,
    /// Frames that did not parse.
    pub malformed: u64,
}
