//! Types that describe a stream: its outlet, boundaries, flights and counters.

use crate::wire::{Flags, MacAddr, Peer, Rank};

/// Remote readers of this host's feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlet {
    /// Children, each by unicast, in sending order; none for a leaf.
    Lanes(Vec<Peer>),
    /// All receivers at once through the group address.
    Cast {
        /// The group address.
        group: MacAddr,
        /// Receivers that acknowledge to this host: all of them, or the first level of the ack
        /// tree.
        listeners: Vec<Peer>,
    },
    /// Receivers of the same cast that acknowledge to this one; it sends them repairs and nothing
    /// else.
    RepairChildren(Vec<Peer>),
}

impl Outlet {
    pub(super) fn peers(&self) -> &[Peer] {
        let (Outlet::Lanes(peers) | Outlet::Cast { listeners: peers, .. } | Outlet::RepairChildren(peers)) = self;
        peers
    }

    pub(super) fn without_peers(&self) -> Outlet {
        match self {
            Outlet::Lanes(_) => Outlet::Lanes(Vec::new()),
            Outlet::Cast { group, .. } => Outlet::Cast { group: *group, listeners: Vec::new() },
            Outlet::RepairChildren(_) => Outlet::RepairChildren(Vec::new()),
        }
    }
}

/// Boundary after a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// None: more follows.
    #[default]
    None,
    /// End of a message whose consumption needs no report of its own: it shows with what follows.
    Quiet,
    /// End of a message. The frame is sent without waiting for its segment to fill, and
    /// [`Stream::consumed`](super::Stream::consumed) soon reports when every application has
    /// consumed it.
    Message,
    /// End of the stream.
    Stream,
}

impl Ending {
    pub(super) fn flags(self) -> Flags {
        match self {
            Ending::None => Flags::default(),
            Ending::Quiet => Flags::FLUSH,
            Ending::Message => Flags::FLUSH.with(Flags::REPORT),
            Ending::Stream => Flags::LAST,
        }
    }
}

/// Frames sent to a remote reader for the first time, and the part still in flight.
///
/// Whenever a frame leaves, `in_flight` is at most `window`; a window that has just been cut may be
/// smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The reader.
    pub rank: Rank,
    /// One past the last frame sent to it for the first time.
    pub next: u64,
    /// Frames in flight, as far as is known here.
    pub in_flight: u64,
    /// Frames that may be in flight; `u64::MAX` if only its credit bounds them.
    pub window: u64,
}

summed! {
    /// Counters of one stream; all in frames.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct StreamStats {
        /// Data frames sent for the first time.
        pub data_sent: u64,
        /// Data frames sent again, and parity frames sent instead.
        pub data_resent: u64,
        /// Parity frames among `data_resent`.
        pub parity_sent: u64,
        /// Acknowledgements sent.
        pub acks_sent: u64,
        /// Acknowledgements among `acks_sent` that reported a loss.
        pub nacks_sent: u64,
        /// Heartbeats sent.
        pub heartbeats_sent: u64,
        /// Data frames received and stored, or brought back by parity frames.
        pub data_received: u64,
        /// Frames among `data_received` that came by a repeat or by parity: the first copy was
        /// lost.
        pub data_repaired: u64,
        /// Frames among `data_received` that parity recovered.
        pub data_recovered: u64,
        /// Parity frames received and kept.
        pub parity_received: u64,
        /// Acknowledgements received and used.
        pub acks_received: u64,
        /// Heartbeats received.
        pub heartbeats_received: u64,
        /// Data frames that had already arrived, and parity frames of complete blocks.
        pub duplicates: u64,
        /// Data frames beyond the credit.
        pub beyond_credit: u64,
        /// Data frames dropped because they were out of order (strict go-back-n only).
        pub out_of_order_dropped: u64,
        /// Acknowledgements for frames or stamps that were never sent.
        pub forged_acks: u64,
        /// Frames of this stream from a host that is neither parent nor child.
        pub strangers: u64,
        /// Frames whose body did not parse or did not fit.
        pub malformed: u64,
    }
}
