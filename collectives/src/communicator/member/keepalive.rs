//! When a member tells the others that it is there.
//!
//! It tells all by one frame to the group. Where switches police what goes to groups that may not arrive, so who has
//! not heard another for a third of the time that it is given asks it alone, and is answered alone.

use crate::communicator::config::period;
use crate::membership::timing::HURRY;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::collections::{BTreeMap, VecDeque};

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
    /// Who was asked last.
    asked_last: Option<Rank>,
    /// When a rank was answered last.
    answered: BTreeMap<Rank, Instant>,
}

impl Keepalive {
    /// The first is due at `now`.
    pub(super) fn new(now: Instant, rank: Rank, size: u16) -> Keepalive {
        Keepalive {
            rank,
            size,
            due: now,
            hurried: 0,
            is_pending: false,
            is_first: true,
            alone: VecDeque::new(),
            asked_last: None,
            answered: BTreeMap::new(),
        }
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

    /// So many are asked in a period: all in turn before they count as gone, and among a thousand no more frames come
    /// to each than eighty in a second.
    fn most_asked(&self) -> usize {
        usize::from(self.size.div_ceil(8))
    }

    /// These ranks, by number, have not been heard for long. Those whose turn it is are asked for a sign: one that does
    /// not answer keeps no turn from the others.
    pub(super) fn ask_in_turn(&mut self, silent: Vec<Rank>) {
        let next = silent.partition_point(|rank| Some(*rank) <= self.asked_last);
        let turns = silent[next..].iter().chain(&silent[..next]);
        for &rank in turns.take(self.most_asked()) {
            self.asked_last = Some(rank);
            self.tell_alone(Sign { to: Some(rank), asks: true });
        }
    }

    /// Rank `rank` has asked for a sign, or somebody in its name: it gets one, but not again within a quarter of a
    /// period.
    pub(super) fn answer(&mut self, now: Instant, rank: Rank) {
        let pause = period(self.size) / 4;
        if self.answered.get(&rank).is_none_or(|&at| now.since(at) >= pause) {
            self.answered.insert(rank, now);
            self.tell_alone(Sign { to: Some(rank), asks: false });
        }
    }

    fn tell_alone(&mut self, sign: Sign) {
        if !self.alone.iter().any(|waiting| waiting.to == sign.to) {
            self.alone.push_back(sign);
        }
    }

    /// Nothing is to be sent any more.
    pub(super) fn forget(&mut self) {
        self.is_pending = false;
        self.alone.clear();
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

    fn signs(keepalive: &mut Keepalive) -> Vec<(Option<u16>, bool)> {
        std::iter::from_fn(|| keepalive.take()).map(|sign| (sign.to.map(|rank| rank.0), sign.asks)).collect()
    }

    #[test]
    fn all_are_told_first_and_nobody_twice_or_too_often() {
        let (start, mut keepalive) = (Instant::START, Keepalive::new(Instant::START, Rank(1), 20));
        keepalive.ask_in_turn(vec![Rank(4)]);
        keepalive.answer(start, Rank(4));
        (0..3).for_each(|_| keepalive.answer(start, Rank(2)));
        keepalive.give(start);
        assert_eq!(signs(&mut keepalive), [(None, false), (Some(4), true), (Some(2), false)]);
        keepalive.answer(start + period(20) / 5, Rank(2));
        assert!(signs(&mut keepalive).is_empty());
        keepalive.answer(start + period(20) / 4, Rank(2));
        assert_eq!(signs(&mut keepalive), [(Some(2), false)]);
        keepalive.give(start);
        keepalive.forget();
        assert!(signs(&mut keepalive).is_empty());
    }

    #[test]
    fn who_never_answers_keeps_no_turn_from_the_others() {
        let mut keepalive = Keepalive::new(Instant::START, Rank(1), 8);
        let silent = [0, 3, 6].map(Rank).to_vec();
        let mut asked = Vec::new();
        for _ in 0..4 {
            keepalive.ask_in_turn(silent.clone());
            asked.extend(signs(&mut keepalive).into_iter().filter_map(|(to, _)| to));
        }
        assert_eq!(asked, [0, 3, 6, 0]);
    }
}
