//! What a stream sends to its readers, and what it finds their acknowledgements to be.

use super::boundaries::Boundaries;
use super::stats::StreamStats;
use crate::arq::stamp::Stamp;
use crate::feed::Feed;
use crate::wire::{Flags, MacAddr, Rank};

/// What a reader is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// Frame `sequence`; `urgent` asks for an acknowledgement at once.
    Data { sequence: u64, again: bool, urgent: bool },
    /// The last sequence number, to be answered; with the rank of the designated receiver, if there is one.
    Heartbeat { highest: u64, designated: Option<Rank> },
}

impl Outgoing {
    /// The flags of frame `sequence`.
    pub(super) fn flags(sequence: u64, again: bool, urgent: bool, feed: &Feed, boundaries: &Boundaries) -> Flags {
        let bits = [
            (feed.last() == Some(sequence), Flags::LAST),
            (boundaries.has(sequence), Flags::FLUSH),
            (boundaries.is_reported(sequence), Flags::REPORT),
            (urgent, Flags::ACK_NOW),
            (again, Flags::RESENT),
        ];
        bits.iter().filter(|(set, _)| *set).fold(Flags::default(), |flags, (_, bit)| flags.with(*bit))
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
    Orphan,
    /// One of them, who says what cannot be, now or before: what can be true was used.
    Forged,
    /// Nobody of them.
    Stranger,
}

impl AckFrom {
    /// The same, of an acknowledgement in which something cannot be true.
    pub(super) fn forged_if(self, forged: bool) -> AckFrom {
        if forged && self == AckFrom::Known { AckFrom::Forged } else { self }
    }

    /// What counts such acknowledgements.
    pub(super) fn counter(self, stats: &mut StreamStats) -> &mut u64 {
        match self {
            AckFrom::Known | AckFrom::Orphan => &mut stats.acks_received,
            AckFrom::Forged => &mut stats.forged_acks,
            AckFrom::Stranger => &mut stats.strangers,
        }
    }
}
