//! Identity of a host in the protocol: name, addresses, MTU, and the group whose hosts work together. Hosts with
//! another version or key are detected by it.

use crate::keys::KeyName;
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{self, EtherType, Guard, Identity, Rank, StreamId, VERSION};
use std::fmt;

/// Smallest MTU, in bytes: below it a frame has no room for an acknowledgement's bitmap (protocol
/// §2).
pub const MIN_MTU_BYTES: u16 = 576;
/// Longest name of a group, in bytes.
pub const MAX_GROUP_BYTES: usize = 64;

/// Identity of this host on the wire.
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
    pub non_members: u64,
    /// Frames that did not parse.
    pub malformed: u64,
}

/// A host with another build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherBuild {
    /// Address of the host.
    pub mac: MacAddr,
    /// Name of the host, if readable in that version's frames.
    pub host: Option<String>,
    /// Protocol version of the host.
    pub version: u8,
    /// Difference of keys, if that is the obstacle.
    pub keys: Option<KeyDifference>,
}

/// Difference between the keys of this host and another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDifference {
    /// Only the other host has a key.
    OnlyTheirs(KeyName),
    /// Only this host has a key.
    OnlyOwn(KeyName),
    /// Each has another key.
    Both {
        /// Key of the other host.
        theirs: KeyName,
        /// Key of this host.
        own: KeyName,
    },
    /// The other announces a session with this host's key, but is none of the permitted senders.
    NoSender,
}

impl fmt::Display for OtherBuild {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherBuild { mac, host, version, keys } = self;
        match host {
            Some(host) => write!(formatter, "{host} ({mac})")?,
            None => write!(formatter, "{mac}")?,
        }
        match keys {
            None => {
                write!(formatter, " speaks version {version} of the protocol, this ethbcast {VERSION}: ")?;
                formatter.write_str("install the same build")
            }
            Some(KeyDifference::OnlyTheirs(theirs)) => {
                write!(formatter, " speaks with key {theirs}, and this host has none: give it the file, `--key FILE`")
            }
            Some(KeyDifference::OnlyOwn(own)) => {
                write!(formatter, " speaks without a key, and this host has key {own}: ")?;
                formatter.write_str("give that host the file, `--key FILE`")
            }
            Some(KeyDifference::Both { theirs, own }) => {
                write!(formatter, " speaks with key {theirs}, and this host has key {own}: ")?;
                formatter.write_str("copy one file to both, `ethbcast key show` says which is which")
            }
            Some(KeyDifference::NoSender) => {
                formatter
                    .write_str(" invites with the right cluster key, but is not among the senders in the key file: ")?;
                formatter.write_str("add its `sender` line if it is to send")
            }
        }
    }
}
