//! Common interface of a stream's remote receivers, whether served by unicast, by broadcast, or
//! only repaired.

use super::boundaries::Boundaries;
use super::terms::{Ending, Flight, Memory, StreamStats};
use crate::arq::loss_detection::Sent;
use crate::arq::stamp::{Stamp, Stamps};
use crate::feed::Feed;
use crate::machine::Deadline;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, Flags, MacAddr, Parity, Peer, Rank};
use std::fmt::Debug;
use std::time::Duration;

const A_MOMENT: Duration = Duration::from_millis(250);

pub(super) trait Readers: Debug + Send + Sync {
    fn boxed(&self) -> Box<dyn Readers>;

    fn on_ack(&mut self, context: AckContext<'_>) -> AckFrom;

    fn on_data(
        &mut self,
        _now: Instant,
        _sequence: u64,
        _late: bool,
        _feed: &mut Feed,
        _boundaries: &Boundaries,
    ) {
    }

    fn on_timeout(&mut self, now: Instant, feed: &Feed);

    fn poll_timeout(&self, now: Instant, feed: &Feed, boundaries: &Boundaries) -> Option<Deadline>;

    fn poll_transmit(
        &mut self,
        now: Instant,
        feed: &Feed,
        boundaries: &Boundaries,
        stamps: &mut Stamps,
    ) -> Option<Departure>;

    fn graft(&mut self, now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning);

    fn remove(&mut self, now: Instant, rank: Rank, feed: &mut Feed);

    fn states(&self, feed: &Feed) -> Vec<ReaderState>;

    fn frontier(&self) -> Frontier;

    fn everywhere(&self, feed: &Feed) -> u64 {
        feed.tail()
    }

    fn blamed(&self, now: Instant, feed: &Feed, trouble: Trouble) -> Option<Rank>;

    fn sending(&self, _feed: &Feed, _boundaries: &Boundaries) -> Sending {
        Sending {
            halfway: false,
            next: u64::MAX,
            pausing: false,
        }
    }

    fn retire(&mut self) {}

    fn memory(&self) -> Memory;
}

impl Clone for Box<dyn Readers> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

#[derive(Debug)]
pub(super) struct AckContext<'a> {
    pub now: Instant,
    pub from: Peer,
    pub ack: &'a Ack<'a>,
    pub newest: Stamp,
    pub feed: &'a mut Feed,
    pub boundaries: &'a Boundaries,
    /// Set to the round trip that the acknowledgement shows.
    pub round_trip: &'a mut Option<Duration>,
}

impl<'a> AckContext<'a> {
    /// Returns the possible part of the acknowledgement of a reader that can have no frame from
    /// `below` on, and whether anything in it is impossible.
    pub(super) fn believe(&self, below: u64) -> (Ack<'a>, bool) {
        Sent {
            below,
            newest: self.newest,
            credit: self.feed.slots(),
        }
        .believe(self.ack)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckFrom {
    Known,
    LostRange(LostRange),
    /// Sender is a reader, and the contents are or were impossible; the possible part was used.
    Forged,
    NonMember,
}

impl AckFrom {
    pub(super) fn known(rank: Rank, cursor: u64, limit: u64, base: u64) -> AckFrom {
        let to = base.min(limit);
        if cursor < to {
            AckFrom::LostRange(LostRange {
                rank,
                from: cursor,
                to,
            })
        } else {
            AckFrom::Known
        }
    }

    /// Returns the gap shown, `Some(None)` if there is none; `None` if the acknowledgement gives no
    /// information about it.
    pub(super) fn gap(self) -> Option<Option<LostRange>> {
        match self {
            AckFrom::LostRange(orphan) => Some(Some(orphan)),
            AckFrom::Known => Some(None),
            AckFrom::Forged | AckFrom::NonMember => None,
        }
    }

    pub(super) fn forged_if(self, forged: bool) -> AckFrom {
        if forged && self == AckFrom::Known {
            AckFrom::Forged
        } else {
            self
        }
    }

    pub(super) fn counter(self, stats: &mut StreamStats) -> &mut u64 {
        match self {
            AckFrom::Known | AckFrom::LostRange(_) => &mut stats.acks_received,
            AckFrom::Forged => &mut stats.forged_acks,
            AckFrom::NonMember => &mut stats.non_members,
        }
    }
}

/// State of a reader. It has no `flight` if another host sends it new frames; `lost` counts a
/// cast's frames lost on their way to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReaderState {
    pub rank: Rank,
    pub cursor: u64,
    pub flight: Option<Flight>,
    pub turn: Option<u64>,
    pub lost: Option<u64>,
}

/// Lowest positions of all readers; `u64::MAX` where none binds. `below` is the lowest cursor of
/// the readers and of the hosts behind them that they acknowledge for. `limit` is the smallest
/// credit of those that acknowledge to this host but are sent new frames by another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frontier {
    pub below: u64,
    pub consumed: u64,
    pub limit: u64,
}

/// Sending state of all readers: whether one is in the middle of a segment (`halfway`) and has to
/// acknowledge before it goes on (`pausing`), and the lowest frame not yet sent to all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sending {
    pub halfway: bool,
    pub next: u64,
    pub pausing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    HeldUp,
    Crowded,
    Mute,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    Data {
        sequence: u64,
        again: bool,
        urgent: bool,
    },
    Parity {
        parity: Parity,
        urgent: bool,
    },
    Heartbeat {
        highest: u64,
        designated: Option<Rank>,
    },
}

impl Outgoing {
    pub(super) fn flags(
        sequence: u64,
        again: bool,
        urgent: bool,
        feed: &Feed,
        boundaries: &Boundaries,
    ) -> Flags {
        let bits = [(urgent, Flags::ACK_NOW), (again, Flags::RESENT)];
        let ending = if again && planted!("flags-lost-when-sent-again") {
            Ending::None
        } else if feed.last() == Some(sequence) {
            Ending::Stream
        } else {
            boundaries.ending(sequence)
        };
        bits.iter()
            .filter(|(set, _)| *set)
            .fold(ending.flags(), |flags, (_, bit)| flags.with(*bit))
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub outgoing: Outgoing,
    pub to: MacAddr,
    pub stamp: Stamp,
}

/// A child that lacks frames below those its parent keeps: another host must send `from..to`, as
/// far as the child's credit goes; the parent serves it from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct LostRange {
    pub rank: Rank,
    pub from: u64,
    pub to: u64,
}

/// Gaps not yet taken, each the newest of its child.
#[derive(Clone, Debug, Default)]
pub(super) struct LostRanges {
    news: Vec<LostRange>,
}

impl LostRanges {
    pub(super) fn note(&mut self, rank: Rank, gap: Option<LostRange>) {
        self.news.retain(|orphan| orphan.rank != rank);
        self.news.extend(gap);
    }

    pub(super) fn take(&mut self) -> Vec<LostRange> {
        std::mem::take(&mut self.news)
    }

    pub(super) fn bytes(&self) -> usize {
        self.news.capacity() * size_of::<LostRange>()
    }
}

/// Back-pressure attribution: whether the readers or the host's own link hold up a stream.
/// `A_MOMENT` is longer than the interval between a slow child's acknowledgements, so that it does
/// not seem fast in between.
#[derive(Clone, Debug, Default)]
pub(super) struct BackPressure {
    spent_at: Option<Instant>,
}

impl BackPressure {
    pub(super) fn spent(&mut self, now: Instant) {
        self.spent_at = Some(now);
    }

    pub(super) fn by(&self, now: Instant, feed: &Feed, readers: &dyn Readers) -> Option<Rank> {
        let crowded = feed.head() - feed.tail() >= feed.slots() / 4 * 3;
        let spent = self.spent_at.is_some_and(|at| now.since(at) < A_MOMENT);
        if crowded && spent {
            readers.blamed(now, feed, Trouble::Crowded)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_gap_of_each_child_is_reported() {
        let gap = |rank, from| LostRange {
            rank: Rank(rank),
            from,
            to: 9,
        };
        let mut orphans = LostRanges::default();
        [gap(1, 3), gap(2, 4), gap(3, 5), gap(2, 6)]
            .into_iter()
            .for_each(|gap| orphans.note(gap.rank, Some(gap)));
        orphans.note(Rank(3), None);
        assert_eq!(orphans.take(), [gap(1, 3), gap(2, 6)]);
    }
}
