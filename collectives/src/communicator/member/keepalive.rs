//! Keepalive messages between the ranks of a communicator.
//!
//! Each goes to the whole group in one frame. Where switches police broadcast, such frames may be
//! lost. A member that has received nothing from another for a third of the time after which that
//! one counts as gone therefore probes it by unicast, and gets a unicast reply.

use crate::communicator::config::period;
use crate::membership::timers::URGENT_INTERVAL;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::collections::{BTreeMap, VecDeque};

/// Extra keepalives sent at once when a failure has to be announced.
const REPEATS: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sign {
    pub to: Option<Rank>,
    pub asks: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Keepalive {
    rank: Rank,
    size: u16,
    due: Instant,
    hurried: u8,
    is_pending: bool,
    is_first: bool,
    alone: VecDeque<Sign>,
    last_queried: Option<Rank>,
    answered: BTreeMap<Rank, Instant>,
}

impl Keepalive {
    pub(super) fn new(now: Instant, rank: Rank, size: u16) -> Keepalive {
        Keepalive {
            rank,
            size,
            due: now,
            hurried: 0,
            is_pending: false,
            is_first: true,
            alone: VecDeque::new(),
            last_queried: None,
            answered: BTreeMap::new(),
        }
    }

    pub(super) fn hurry(&mut self, now: Instant) {
        (self.due, self.hurried) = (now, REPEATS);
    }

    /// Returns when the next keepalive is due; `None` in a group of one.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.size > 1).then_some(self.due)
    }

    pub(super) fn give(&mut self, now: Instant) {
        let mut pause = period(self.size);
        if std::mem::take(&mut self.is_first) {
            // Spreads members over the period.
            pause += pause * u32::from(self.rank.0) / u32::from(self.size);
        }
        if let Some(hurried) = self.hurried.checked_sub(1) {
            (self.hurried, pause) = (hurried, URGENT_INTERVAL);
        }
        (self.is_pending, self.due) = (true, now + pause);
    }

    /// Limit of probes per period. All are probed in turn before they count as gone, and among a
    /// thousand ranks each receives at most eighty frames per second.
    fn max_queries(&self) -> usize {
        usize::from(self.size.div_ceil(8))
    }

    /// Probes the next of the `silent` ranks (sorted). A rank that never replies takes no turn from
    /// the others.
    pub(super) fn query_in_turn(&mut self, silent: Vec<Rank>) {
        let next = silent.partition_point(|rank| Some(*rank) <= self.last_queried);
        let turns = silent[next..].iter().chain(&silent[..next]);
        for &rank in turns.take(self.max_queries()) {
            self.last_queried = Some(rank);
            self.send_alone(Sign {
                to: Some(rank),
                asks: true,
            });
        }
    }

    /// Replies to a probe from `rank`, at most once per quarter of a period: the probe may be
    /// forged.
    pub(super) fn reply(&mut self, now: Instant, rank: Rank) {
        let pause = period(self.size) / 4;
        if self
            .answered
            .get(&rank)
            .is_none_or(|&at| now.since(at) >= pause)
        {
            self.answered.insert(rank, now);
            self.send_alone(Sign {
                to: Some(rank),
                asks: false,
            });
        }
    }

    fn send_alone(&mut self, sign: Sign) {
        if !self.alone.iter().any(|waiting| waiting.to == sign.to) {
            self.alone.push_back(sign);
        }
    }

    pub(super) fn forget(&mut self) {
        self.is_pending = false;
        self.alone.clear();
    }

    pub(super) fn take(&mut self) -> Option<Sign> {
        if std::mem::take(&mut self.is_pending) {
            return Some(Sign {
                to: None,
                asks: false,
            });
        }
        self.alone.pop_front()
    }
}

/// Repetitions of BYE. They last 75 ms, in which a sender whose acknowledgement was lost asks for
/// it three times.
pub(super) const FAREWELLS: u8 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeavingStage {
    Staying,
    /// Waits until the others have what this member has sent, until `by` at most.
    Settling {
        by: Instant,
    },
    /// Sends BYE `repeats` more times, next at `due`. Starts again if another rank needs something,
    /// until `by`.
    Parting {
        repeats: u8,
        due: Instant,
        by: Instant,
    },
    Over,
}

#[derive(Clone, Debug)]
pub(super) struct Leaving {
    stage: LeavingStage,
    bye: Option<u8>,
}

impl Leaving {
    pub(super) fn new() -> Leaving {
        Leaving {
            stage: LeavingStage::Staying,
            bye: None,
        }
    }

    pub(super) fn begin(&mut self, by: Instant) {
        self.stage = LeavingStage::Settling { by };
    }

    /// Extends the BYEs because another rank still needs something.
    pub(super) fn linger(&mut self, now: Instant) {
        if let LeavingStage::Parting { repeats, by, .. } = &mut self.stage
            && now < *by
        {
            *repeats = FAREWELLS;
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        match self.stage {
            LeavingStage::Settling { by: at } | LeavingStage::Parting { due: at, .. } => Some(at),
            LeavingStage::Staying | LeavingStage::Over => None,
        }
    }

    pub(super) fn is_settling(&self) -> bool {
        matches!(self.stage, LeavingStage::Settling { .. })
    }

    pub(super) fn is_parting(&self) -> bool {
        matches!(self.stage, LeavingStage::Parting { .. })
    }

    pub(super) fn has_parted(&self) -> bool {
        self.is_parting() || self.is_over()
    }

    /// Takes the next step: the others have everything (`settled`), there are no others (`alone`),
    /// or the next BYE is due.
    pub(super) fn advance(&mut self, now: Instant, alone: bool, settled: bool) {
        match self.stage {
            LeavingStage::Settling { .. } if alone => self.stage = LeavingStage::Over,
            LeavingStage::Settling { by } if by <= now || settled => self.part(now, FAREWELLS, by),
            LeavingStage::Parting { repeats, due, by } if due <= now => {
                match repeats.checked_sub(1) {
                    Some(repeats) => self.part(now, repeats, by),
                    None => self.stage = LeavingStage::Over,
                }
            }
            _ => {}
        }
    }

    fn part(&mut self, now: Instant, repeats: u8, by: Instant) {
        self.stage = LeavingStage::Parting {
            repeats,
            due: now + URGENT_INTERVAL,
            by,
        };
        self.bye = Some(repeats);
    }

    pub(super) fn take_bye(&mut self) -> Option<u8> {
        self.bye.take()
    }

    pub(super) fn has_begun(&self) -> bool {
        self.stage != LeavingStage::Staying
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == LeavingStage::Over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs(keepalive: &mut Keepalive) -> Vec<(Option<u16>, bool)> {
        std::iter::from_fn(|| keepalive.take())
            .map(|sign| (sign.to.map(|rank| rank.0), sign.asks))
            .collect()
    }

    #[test]
    fn all_are_told_first_and_nobody_twice_or_too_often() {
        let (start, mut keepalive) = (Instant::START, Keepalive::new(Instant::START, Rank(1), 20));
        keepalive.query_in_turn(vec![Rank(4)]);
        keepalive.reply(start, Rank(4));
        (0..3).for_each(|_| keepalive.reply(start, Rank(2)));
        keepalive.give(start);
        assert_eq!(
            signs(&mut keepalive),
            [(None, false), (Some(4), true), (Some(2), false)]
        );
        keepalive.reply(start + period(20) / 5, Rank(2));
        assert!(signs(&mut keepalive).is_empty());
        keepalive.reply(start + period(20) / 4, Rank(2));
        assert_eq!(signs(&mut keepalive), [(Some(2), false)]);
        keepalive.give(start);
        keepalive.forget();
        assert!(signs(&mut keepalive).is_empty());
    }

    #[test]
    fn a_member_that_never_replies_takes_no_turn_from_the_others() {
        let mut keepalive = Keepalive::new(Instant::START, Rank(1), 8);
        let silent = [0, 3, 6].map(Rank).to_vec();
        let mut asked = Vec::new();
        for _ in 0..4 {
            keepalive.query_in_turn(silent.clone());
            asked.extend(signs(&mut keepalive).into_iter().filter_map(|(to, _)| to));
        }
        assert_eq!(asked, [0, 3, 6, 0]);
    }
}
