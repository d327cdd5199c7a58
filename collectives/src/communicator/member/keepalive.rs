//! When a member tells the others that it is there.
//!
//! It tells all by one frame to the group. Where switches police what goes to groups that may not arrive, so who has not
//! heard another for half of the time that it is given asks it alone, and is answered alone.

use crate::communicator::config::period;
use crate::membership::timing::HURRY;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::collections::VecDeque;

/// How often a reason to stop is repeated at once.
const REPEATS: u8 = 2;

/// A sign of life that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sign {
    /// To this rank alone; else to all.
    pub to: Option<Rank>,
    /// Whether it asks for one in return.
    pub asks: bool,
}

/// The signs of life of one member.
#[derive(Clone, Debug)]
pub(super) struct Keepalive {
    rank: Rank,
    size: u16,
    due: Instant,
    /// How many more are to follow soon, because there is something that all should know.
    hurried: u8,
    /// Whether one waits to be sent.
    is_pending: bool,
    is_first: bool,
    /// Those for one rank alone, one for each at most.
    alone: VecDeque<Sign>,
}

impl Keepalive {
    /// The first is due at `now`.
    pub(super) fn new(now: Instant, rank: Rank, size: u16) -> Keepalive {
        Keepalive { rank, size, due: now, hurried: 0, is_pending: false, is_first: true, alone: VecDeque::new() }
    }

    /// There is something that all should know at once.
    pub(super) fn hurry(&mut self, now: Instant) {
        (self.due, self.hurried) = (now, REPEATS);
    }

    /// When the next is due; one that is alone need not say that it is there.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.size > 1).then_some(self.due)
    }

    /// A sign is to be sent now; the next soon if there is something that all should know.
    pub(super) fn give(&mut self, now: Instant) {
        let mut pause = period(self.size);
        if std::mem::take(&mut self.is_first) {
            // Not all in the same moment.
            pause += pause * u32::from(self.rank.0) / u32::from(self.size);
        }
        if let Some(hurried) = self.hurried.checked_sub(1) {
            (self.hurried, pause) = (hurried, HURRY);
        }
        (self.is_pending, self.due) = (true, now + pause);
    }

    /// Of so many ranks that are silent so many are asked in a period: all in turn before they count as gone, and among a
    /// thousand no more frames come to each than eighty in a second.
    pub(super) fn most_asked(&self) -> usize {
        usize::from(self.size.div_ceil(8))
    }

    /// Rank `rank` has not been heard for long: it is asked for a sign.
    pub(super) fn ask(&mut self, rank: Rank) {
        self.tell_alone(Sign { to: Some(rank), asks: true });
    }

    /// Rank `rank` has asked for a sign. One frame comes of one, no longer than that.
    pub(super) fn answer(&mut self, rank: Rank) {
        self.tell_alone(Sign { to: Some(rank), asks: false });
    }

    fn tell_alone(&mut self, sign: Sign) {
        if !self.alone.iter().any(|waiting| waiting.to == sign.to) {
            self.alone.push_back(sign);
        }
    }

    /// The next sign that is to be sent; it is taken as sent.
    pub(super) fn take(&mut self) -> Option<Sign> {
        if std::mem::take(&mut self.is_pending) {
            return Some(Sign { to: None, asks: false });
        }
        self.alone.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_told_first_and_nobody_twice() {
        let mut keepalive = Keepalive::new(Instant::START, Rank(1), 20);
        assert_eq!((keepalive.take(), keepalive.most_asked()), (None, 3));
        (0..3).for_each(|_| keepalive.ask(Rank(4)));
        keepalive.answer(Rank(4));
        keepalive.answer(Rank(2));
        keepalive.give(Instant::START);
        let signs: Vec<_> = std::iter::from_fn(|| keepalive.take()).map(|sign| (sign.to, sign.asks)).collect();
        assert_eq!(signs, [(None, false), (Some(Rank(4)), true), (Some(Rank(2)), false)]);
    }
}
