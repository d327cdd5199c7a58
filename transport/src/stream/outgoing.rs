//! What a stream sends to its readers, and what it finds their acknowledgements to be.

use super::boundaries::Boundaries;
use super::orphan::Orphan;
use super::stats::StreamStats;
use super::terms::Ending;
use crate::arq::stamp::Stamp;
use crate::feed::Feed;
use crate::wire::{Flags, MacAddr, Parity, Rank};

/// What a reader is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// Frame `sequence`; `urgent` asks for an acknowledgement at once.
    Data { sequence: u64, again: bool, urgent: bool },
    /// A parity frame; `urgent` asks whom it does not make whole to say so.
    Parity { parity: Parity, urgent: bool },
    /// The last sequence number, to be answered; with the rank of the designated receiver, if there is one.
    Heartbeat { highest: u64, designated: Option<Rank> },
}

impl Outgoing {
    /// The flags of frame `sequence`.
    pub(super) fn flags(sequence: u64, again: bool, urgent: bool, feed: &Feed, boundaries: &Boundaries) -> Flags {
        let bits = [(urgent, Flags::ACK_NOW), (again, Flags::RESENT)];
        let ending = if again && planted!("flags-lost-when-sent-again") {
            Ending::None
        } else if feed.last() == Some(sequence) {
            Ending::Stream
        } else {
            boundaries.ending(sequence)
        };
        bits.iter().filter(|(set, _)| *set).fold(ending.flags(), |flags, (_, bit)| flags.with(*bit))
    }
}

/// A frame on its way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub outgoing: Outgoing,
    pub to: MacAddr,
    pub stamp: Stamp,
}

/// Who an acknowledgement turned out to be from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckFrom {
    /// One of those who acknowledge to this host.
    Known,
    /// One of them, who needs frames that are gone.
    Orphan(Orphan),
    /// One of them, who says what cannot be, now or before: what can be true was used.
    Forged,
    /// Nobody of them.
    Stranger,
}

impl AckFrom {
    /// From one of those who acknowledge here, which stands at `cursor`, has given credit up to `limit` and is served
    /// from frame `base` on.
    pub(super) fn known(rank: Rank, cursor: u64, limit: u64, base: u64) -> AckFrom {
        let to = base.min(limit);
        if cursor < to { AckFrom::Orphan(Orphan { rank, from: cursor, to }) } else { AckFrom::Known }
    }

    /// The gap that it shows, or that there is none; `None` if it says nothing.
    pub(super) fn gap(self) -> Option<Option<Orphan>> {
        match self {
            AckFrom::Orphan(orphan) => Some(Some(orphan)),
            AckFrom::Known => Some(None),
            AckFrom::Forged | AckFrom::Stranger => None,
        }
    }

    /// The same, of an acknowledgement in which something cannot be true.
    pub(super) fn forged_if(self, forged: bool) -> AckFrom {
        if forged && self == AckFrom::Known { AckFrom::Forged } else { self }
    }

    /// What counts such acknowledgements.
    pub(super) fn counter(self, stats: &mut StreamStats) -> &mut u64 {
        match self {
            AckFrom::Known | AckFrom::Orphan(_) => &mut stats.acks_received,
            AckFrom::Forged => &mut stats.forged_acks,
            AckFrom::Stranger => &mut stats.strangers,
        }
    }
}
