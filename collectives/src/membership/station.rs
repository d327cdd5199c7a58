//! Identity of a host in its group on the wire, and detection of hosts that run another build.

use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{self, EtherType, Guard, Identity, Rank, StreamId, VERSION};
use std::fmt;

/// Smallest MTU, in bytes: below it a frame has no room for an acknowledgement's bitmap (protocol
/// §2).
pub const MIN_MTU_BYTES: u16 = 576;
/// Longest name of a group, in bytes.
pub const MAX_GROUP_BYTES: usize = 64;

/// This host's identity on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    /// Host name, as it appears in reports and topology files.
    pub host: String,
    /// Name of the group.
    pub group: String,
    /// Address of the interface.
    pub mac: MacAddr,
    /// The group's multicast address.
    pub group_mac: MacAddr,
    /// The EtherType in use.
    pub ether_type: EtherType,
    /// MTU of the link, in bytes.
    pub mtu_bytes: u16,
    /// Protection of its frames.
    pub guard: Guard,
}

impl Station {
    /// Returns a host in `group`, with the group's usual address and the EtherType for local use.
    pub fn new(group: &str, host: &str, mac: MacAddr, mtu_bytes: u16) -> Station {
        let (group_mac, ether_type) = (wire::group_mac(group), EtherType::DEFAULT);
        let (host, group, guard) = (host.to_owned(), group.to_owned(), Guard::Plain);
        Station { host, group, mac, group_mac, ether_type, mtu_bytes, guard }
    }

    /// Returns the longest payload of its frames, in bytes.
    pub fn payload_bytes(&self) -> u16 {
        self.guard.payload_bytes(self.mtu_bytes.into()) as u16
    }

    /// Returns the identity in its control frames; streams differ in the stream number only.
    pub fn identity(&self, session: u32, rank: Rank) -> Identity {
        Identity {
            session,
            stream: StreamId(0),
            rank,
            mac: self.mac,
            ether_type: self.ether_type,
            guard: self.guard.clone(),
        }
    }
}

/// Counters of a session's frames, without stream frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControlStats {
    /// Control frames sent.
    pub sent: u64,
    /// Control frames received and understood.
    pub received: u64,
    /// Frames of another session or from non-members.
    pub strangers: u64,
    /// Frames that did not parse.
    pub malformed: u64,
}

/// A host with another build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherBuild {
    /// Its address.
    pub mac: MacAddr,
    /// Its name, if readable in that version's frames.
    pub host: Option<String>,
    /// Its protocol version.
    pub version: u8,
}

impl fmt::Display for OtherBuild {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherBuild { mac, host, version } = self;
        match host {
            Some(host) => write!(formatter, "{host} ({mac})")?,
            None => write!(formatter, "{mac}")?,
        }
        write!(formatter, " speaks version {version} of the protocol, this ethbcast {VERSION}: install the same build")
    }
}
