//! Identity of a host in the protocol: name, addresses, MTU, and the group whose hosts work
//! together. Hosts with another version or key are detected by it.

use crate::keys::KeyName;
use ethbcast_transport::MacAddr;
use ethbcast_transport::packet::OptionName;
use ethbcast_transport::wire::{
    self, EtherType, Guard, Header, Identity, Kind, Rank, StreamId, VERSION,
};
use std::collections::VecDeque;
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
        Station {
            host,
            group,
            mac,
            group_mac,
            ether_type,
            mtu_bytes,
            guard,
        }
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
        let OtherBuild {
            mac,
            host,
            version,
            keys,
        } = self;
        let who = match host {
            Some(host) => format!("{host} ({mac})"),
            None => mac.to_string(),
        };
        // Anybody may have sent frames that do not open, also under the address of another host.
        match keys {
            None => write!(
                formatter,
                "{who} speaks version {version} of the protocol, this ethbcast {VERSION}: install the same build"
            ),
            Some(KeyDifference::OnlyTheirs(theirs)) => write!(
                formatter,
                "frames with key {theirs} were heard from {who}, and this host has none: give it the file, `{} FILE`",
                OptionName("key")
            ),
            Some(KeyDifference::OnlyOwn(own)) => write!(
                formatter,
                "frames without a key were heard from {who}, and this host has key {own}: give that host the file, \
                 `{} FILE`",
                OptionName("key")
            ),
            Some(KeyDifference::Both { theirs, own }) => write!(
                formatter,
                "frames with key {theirs} were heard from {who}, and this host has key {own}: copy one file to both, \
                 `ethbcast key show` says which is which"
            ),
            Some(KeyDifference::NoSender) => write!(
                formatter,
                "{who} invites with the right cluster key, but is not among the senders in the key file: add its \
                 `sender` line if it is to send"
            ),
        }
    }
}

/// Control messages that wait to be sent. Messages without room are dropped: all are repeated or
/// requested again.
#[derive(Clone, Debug)]
pub(crate) struct ControlQueue {
    queue: VecDeque<(MacAddr, Header, Vec<u8>)>,
    room: usize,
}

impl ControlQueue {
    pub(crate) fn new(room: usize) -> ControlQueue {
        ControlQueue {
            queue: VecDeque::new(),
            room,
        }
    }

    pub(crate) fn put(&mut self, to: MacAddr, header: Header, body: Vec<u8>) {
        if self.queue.len() < self.room {
            self.queue.push_back((to, header, body));
        }
    }

    /// Queues a message in place of a waiting one of its kind for `to`.
    pub(crate) fn put_newest(&mut self, to: MacAddr, header: Header, body: Vec<u8>) {
        let same = |(other, waiting, _): &&mut (MacAddr, Header, Vec<u8>)| {
            *other == to && waiting.kind == header.kind
        };
        match self.queue.iter_mut().find(same) {
            Some(waiting) => *waiting = (to, header, body),
            None => self.put(to, header, body),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<(MacAddr, Header, Vec<u8>)> {
        self.queue.pop_front()
    }

    pub(crate) fn waiting(&self) -> (usize, usize) {
        (
            self.queue.len(),
            self.queue.iter().map(|(_, _, body)| body.len()).sum(),
        )
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }
}

/// Returns the header of a control message sent under view `epoch`; only the epoch's lowest byte is
/// sent.
pub(crate) fn control_header(from: &Identity, kind: Kind, epoch: u32) -> Header {
    Header {
        epoch: epoch as u8,
        ..from.header(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::Station;
    use ethbcast_transport::wire::Rank;

    #[test]
    fn among_queued_signs_of_life_the_newest_counts_and_no_queue_grows_without_limit() {
        let station = Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let [a, b] = [2, 3].map(|last| MacAddr::new(2, 0, 0, 0, 0, last));
        let of_kind = |kind| control_header(&station.identity(1, Rank::ROOT), Kind(kind), 0);
        let mut queue = ControlQueue::new(4);
        (0..9).for_each(|number| queue.put_newest(a, of_kind(21), vec![number]));
        (0..9).for_each(|number| queue.put(a, of_kind(19), vec![number]));
        queue.put_newest(b, of_kind(21), vec![7]);
        let sent: Vec<_> = std::iter::from_fn(|| queue.pop())
            .map(|(_, header, body)| (header.kind.0, body[0]))
            .collect();
        assert_eq!(sent, [(21, 8), (19, 0), (19, 1), (19, 2)]);
        assert!(queue.is_empty());
    }
}
