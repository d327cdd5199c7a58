//! The words a stream is described with.

use crate::wire::{Flags, MacAddr, Peer, Rank};

/// Who reads this host's feed over the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlet {
    /// Children, each by unicast, in sending order; none for a leaf.
    Lanes(Vec<Peer>),
    /// All receivers at once through the group address.
    Cast {
        /// The group address.
        group: MacAddr,
        /// Those that acknowledge to this host: all receivers, or the first level of the ack tree over them.
        listeners: Vec<Peer>,
    },
    /// Receivers of the same cast that acknowledge to this one, and are sent by it what they lost and nothing else.
    RepairChildren(Vec<Peer>),
}

impl Outlet {
    /// Those who are sent to, or acknowledge.
    pub(super) fn peers(&self) -> &[Peer] {
        let (Outlet::Lanes(peers) | Outlet::Cast { listeners: peers, .. } | Outlet::RepairChildren(peers)) = self;
        peers
    }

    /// The same way, with nobody there yet.
    pub(super) fn without_peers(&self) -> Outlet {
        match self {
            Outlet::Lanes(_) => Outlet::Lanes(Vec::new()),
            Outlet::Cast { group, .. } => Outlet::Cast { group: *group, listeners: Vec::new() },
            Outlet::RepairChildren(_) => Outlet::RepairChildren(Vec::new()),
        }
    }
}

/// What ends with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Nothing: more follows.
    #[default]
    None,
    /// A message that nobody waits for: its passing will show with what follows.
    Quiet,
    /// A message. The frame goes out without waiting for its segment to fill, and
    /// [`Stream::consumed`](super::Stream::consumed) soon says when every application has consumed it.
    Message,
    /// The stream.
    Stream,
}

impl Ending {
    /// The flags of a frame with which it ends.
    pub(super) fn flags(self) -> Flags {
        match self {
            Ending::None => Flags::default(),
            Ending::Quiet => Flags::FLUSH,
            Ending::Message => Flags::FLUSH.with(Flags::REPORT),
            Ending::Stream => Flags::LAST,
        }
    }
}

/// What has been sent to a remote reader for the first time, and how much of it may be on its way.
///
/// Whenever a frame leaves `in_flight` is at most `window`; one that is cut may be smaller than what is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The reader.
    pub rank: Rank,
    /// One past the last frame that has been sent to it for the first time.
    pub next: u64,
    /// Frames that are on their way, as far as is known here.
    pub in_flight: u64,
    /// Frames that may be on their way; `u64::MAX` if its credit alone bounds them.
    pub window: u64,
}
