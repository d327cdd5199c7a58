//! Frames that a stream sends to its readers, and classes of received acknowledgements.

use super::boundaries::Boundaries;
use super::orphan::Orphan;
use super::stats::StreamStats;
use super::terms::Ending;
use crate::arq::stamp::Stamp;
use crate::feed::Feed;
use crate::wire::{Flags, MacAddr, Parity, Rank};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Data { sequence: u64, again: bool, urgent: bool },
    Parity { parity: Parity, urgent: bool },
    Heartbeat { highest: u64, designated: Option<Rank> },
}

impl Outgoing {
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

#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub outgoing: Outgoing,
    pub to: MacAddr,
    pub stamp: Stamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckFrom {
    Known,
    Orphan(Orphan),
    /// Sender is a reader, and the contents are or were impossible; the possible part was used.
    Forged,
    Stranger,
}

impl AckFrom {
    pub(super) fn known(rank: Rank, cursor: u64, limit: u64, base: u64) -> AckFrom {
        let to = base.min(limit);
        if cursor < to { AckFrom::Orphan(Orphan { rank, from: cursor, to }) } else { AckFrom::Known }
    }

    /// Returns the gap shown, `Some(None)` if there is none; `None` if the acknowledgement says
    /// nothing about it.
    pub(super) fn gap(self) -> Option<Option<Orphan>> {
        match self {
            AckFrom::Orphan(orphan) => Some(Some(orphan)),
            AckFrom::Known => Some(None),
            AckFrom::Forged | AckFrom::Stranger => None,
        }
    }

    pub(super) fn forged_if(self, forged: bool) -> AckFrom {
        if forged && self == AckFrom::Known { AckFrom::Forged } else { self }
    }

    pub(super) fn counter(self, stats: &mut StreamStats) -> &mut u64 {
        match self {
            AckFrom::Known | AckFrom::Orphan(_) => &mut stats.acks_received,
            AckFrom::Forged => &mut stats.forged_acks,
            AckFrom::Stranger => &mut stats.strangers,
        }
    }
}
