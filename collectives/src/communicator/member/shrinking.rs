//! Shrinking of a communicator to the ranks that survive, as ULFM's `MPIX_Comm_shrink` does. They
//! agree on the lost ranks and go on without them, with the same ports and no new assembly.
//!
//! Each rank states which ranks it considers lost, and adopts the others' statements, until all are
//! equal. A rank that has received equal statements from all that are left has *agreed*; one that
//! knows that all have agreed is *done* and goes on. Others may have found another rank lost
//! meanwhile: a rank that receives *done* adopts its list. A single frame may be forged, so a
//! statement counts when it comes twice.

use crate::communicator::body::{ShrinkBody, ShrinkStage};
use crate::communicator::config::period;
use crate::communicator::error::CommunicatorError;
use crate::communicator::roster::{RankSet, Roster};
use crate::membership::timers::{URGENT_INTERVAL, Wait};
use ethbcast_transport::wire::{Frame, Rank};
use ethbcast_transport::{Deadline, Instant};
use std::time::Duration;

/// Frames of one statement before it counts.
const CREDIBLE_REPEATS: u32 = 2;
const REPEATS: u8 = 2;

/// A statement that is repeated: soon while it is new, then at each period, if it has one.
#[derive(Clone, Debug)]
struct Repeater {
    due: Option<Instant>,
    hurried: u8,
    every: Option<Duration>,
    is_pending: bool,
}

impl Repeater {
    fn new(now: Instant, every: Option<Duration>) -> Repeater {
        Repeater {
            due: Some(now),
            hurried: REPEATS,
            every,
            is_pending: false,
        }
    }

    fn hurry(&mut self, now: Instant) {
        (self.due, self.hurried) = (Some(now), REPEATS);
    }

    /// Sends the statement once more, as one reply to all requests within a short time.
    fn reply(&mut self, now: Instant) {
        self.due.get_or_insert(now + URGENT_INTERVAL);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.is_pending = true;
        let hurried = self.hurried.checked_sub(1);
        self.hurried = hurried.unwrap_or(0);
        self.due = hurried
            .map(|_| URGENT_INTERVAL)
            .or(self.every)
            .map(|pause| now + pause);
    }

    fn take(&mut self) -> bool {
        std::mem::take(&mut self.is_pending)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.due.map(|at| Wait::Status.at(at))
    }
}

#[derive(Clone, Debug)]
struct ReceivedShrink {
    word: ShrinkBody,
    times: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The others go on without these ranks, and so does this one.
    Without(RankSet),
    Outlawed,
}

#[derive(Clone, Debug)]
pub(super) struct Shrinking {
    own: Rank,
    word: ShrinkBody,
    heard: Vec<Option<ReceivedShrink>>,
    repeater: Repeater,
    /// Time until which a rank that would be alone waits for others that have gone on without it.
    asks_until: Instant,
    error: Option<CommunicatorError>,
}

impl Shrinking {
    pub(super) fn new(now: Instant, own: Rank, size: u16) -> Shrinking {
        let word = ShrinkBody {
            stage: ShrinkStage::Proposed,
            lost: RankSet::none(size),
        };
        let (repeater, asks_until) = (Repeater::new(now, Some(period(size))), now + period(size));
        Shrinking {
            own,
            word,
            heard: vec![None; usize::from(size)],
            repeater,
            asks_until,
            error: None,
        }
    }

    pub(super) fn on_shrink_report(&mut self, rank: Rank, word: &ShrinkBody) {
        match &mut self.heard[rank.index()] {
            Some(heard) if heard.word == *word => heard.times = heard.times.saturating_add(1),
            heard => {
                *heard = Some(ReceivedShrink {
                    word: word.clone(),
                    times: 1,
                })
            }
        }
    }

    fn others(&self) -> impl Iterator<Item = Rank> + use<> {
        let own = self.own;
        (0..self.heard.len() as u16)
            .map(Rank)
            .filter(move |&rank| rank != own)
    }

    fn shrink_of(&self, rank: Rank) -> Option<&ShrinkBody> {
        self.heard[rank.index()]
            .as_ref()
            .filter(|heard| heard.times >= CREDIBLE_REPEATS)
            .map(|heard| &heard.word)
    }

    fn announce(&mut self, now: Instant, word: ShrinkBody) {
        self.word = word;
        self.repeater.hurry(now);
    }

    /// Continues as far as received statements allow. `is_absent` returns whether this rank knows
    /// another to be gone, or to have left.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        is_absent: impl Fn(Rank) -> bool,
    ) -> Option<Settled> {
        if self.error.is_some() {
            return None;
        }
        let done = self
            .others()
            .filter_map(|rank| self.shrink_of(rank))
            .find(|word| word.stage == ShrinkStage::Done);
        if let Some(ShrinkBody { lost, .. }) = done {
            let lost = lost.clone();
            return Some(if lost.has(self.own) {
                Settled::Outlawed
            } else {
                Settled::Without(lost)
            });
        }
        let lost = self.lost(is_absent);
        if lost.has(self.own) {
            return Some(Settled::Outlawed);
        }
        if lost != self.word.lost {
            self.announce(
                now,
                ShrinkBody {
                    stage: ShrinkStage::Proposed,
                    lost: lost.clone(),
                },
            );
        }
        let stage = |rank| {
            self.shrink_of(rank)
                .filter(|word| word.lost == lost)
                .map(|word| word.stage)
        };
        let least = self
            .others()
            .filter(|&rank| !lost.has(rank))
            .map(stage)
            .min();
        if least.is_none() && self.heard.len() > 1 && now < self.asks_until {
            return None;
        }
        // A rank that is left alone agrees with itself.
        let least = least.unwrap_or(Some(ShrinkStage::Agreed));
        if least.is_some() && self.word.stage == ShrinkStage::Proposed {
            self.announce(
                now,
                ShrinkBody {
                    stage: ShrinkStage::Agreed,
                    lost: lost.clone(),
                },
            );
        }
        (least >= Some(ShrinkStage::Agreed)).then_some(Settled::Without(lost))
    }

    /// Returns the ranks considered lost by this rank, or by one that it does not consider lost
    /// itself.
    fn lost(&self, is_absent: impl Fn(Rank) -> bool) -> RankSet {
        let mut lost = self.word.lost.clone();
        self.others()
            .filter(|&rank| is_absent(rank))
            .for_each(|rank| lost.insert(rank));
        loop {
            let known = lost.clone();
            let heard = self
                .others()
                .filter(|&rank| !known.has(rank))
                .filter_map(|rank| self.shrink_of(rank));
            heard
                .filter(|word| word.lost != known)
                .for_each(|word| lost.join(&word.lost));
            if lost == known {
                return lost;
            }
        }
    }

    pub(super) fn missing(&self) -> Vec<Rank> {
        self.others()
            .filter(|&rank| !self.word.lost.has(rank) && self.heard[rank.index()].is_none())
            .collect()
    }

    pub(super) fn fail(&mut self, error: CommunicatorError) {
        self.error = Some(error);
    }

    pub(super) fn take_error(&mut self) -> Option<CommunicatorError> {
        self.error.take()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.repeater.handle_timeout(now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.repeater.poll_timeout()
    }

    pub(super) fn take_shrink(&mut self) -> Option<ShrinkBody> {
        self.repeater.take().then(|| self.word.clone())
    }
}

pub(super) struct ShrinkMessage {
    pub session: u32,
    pub rank: Rank,
    pub body: ShrinkBody,
}

/// A group that this rank has left behind; ranks that still shrink it are sent the result.
#[derive(Clone, Debug)]
pub(super) struct Former {
    roster: Roster,
    rank: Rank,
    word: ShrinkBody,
    repeater: Repeater,
}

impl Former {
    pub(super) fn new(now: Instant, roster: Roster, rank: Rank, lost: RankSet) -> Former {
        let word = ShrinkBody {
            stage: ShrinkStage::Done,
            lost,
        };
        Former {
            roster,
            rank,
            word,
            repeater: Repeater::new(now, None),
        }
    }

    pub(super) fn has(&self, frame: &Frame<'_>) -> bool {
        frame.header.session == self.roster.session()
            && self.roster.is(frame.header.rank, frame.source)
    }

    pub(super) fn on_shrink_report(&mut self, now: Instant, word: &ShrinkBody) {
        if word.stage != ShrinkStage::Done {
            self.repeater.reply(now);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.repeater.handle_timeout(now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        self.repeater.poll_timeout()
    }

    pub(super) fn take_shrink(&mut self) -> Option<ShrinkMessage> {
        let is_due = self.repeater.take();
        is_due.then(|| ShrinkMessage {
            session: self.roster.session(),
            rank: self.rank,
            body: self.word.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::START;

    fn lost(ranks: &[u16]) -> RankSet {
        let mut lost = RankSet::none(4);
        ranks.iter().for_each(|&rank| lost.insert(Rank(rank)));
        lost
    }

    /// Statements of ranks, each as often as it takes to be believed.
    fn say(shrinking: &mut Shrinking, stage: ShrinkStage, ranks: &[u16], without: &[u16]) {
        for &rank in ranks {
            let word = ShrinkBody {
                stage,
                lost: lost(without),
            };
            (0..CREDIBLE_REPEATS).for_each(|_| shrinking.on_shrink_report(Rank(rank), &word));
        }
    }

    fn settle(shrinking: &mut Shrinking, absent: &[u16]) -> Option<Settled> {
        shrinking.settle(NOW, |rank| absent.contains(&rank.0))
    }

    #[test]
    fn those_who_are_left_name_the_same_then_agree_then_go_on() {
        use ShrinkStage::{Agreed, Proposed};
        let mut own = Shrinking::new(NOW, Rank(0), 4);
        assert_eq!(
            (settle(&mut own, &[3]), own.missing()),
            (None, [Rank(1), Rank(2)].to_vec())
        );
        say(&mut own, Proposed, &[1], &[3]);
        own.on_shrink_report(
            Rank(2),
            &ShrinkBody {
                stage: Proposed,
                lost: lost(&[3]),
            },
        );
        assert_eq!(
            (settle(&mut own, &[3]), own.word.stage),
            (None, Proposed),
            "rank 2 may be forged"
        );
        say(&mut own, Proposed, &[2], &[3]);
        assert_eq!((settle(&mut own, &[3]), own.word.stage), (None, Agreed));
        say(&mut own, Agreed, &[1], &[3]);
        assert_eq!(settle(&mut own, &[3]), None);
        // Another rank dies: all begin again.
        assert_eq!(
            (settle(&mut own, &[2, 3]), own.word.stage),
            (None, Proposed)
        );
        say(&mut own, Agreed, &[1], &[2, 3]);
        assert_eq!(
            settle(&mut own, &[2, 3]),
            Some(Settled::Without(lost(&[2, 3])))
        );
    }

    #[test]
    fn who_is_done_is_followed_and_who_is_accused_by_one_that_counts_is_out() {
        use ShrinkStage::{Agreed, Done, Proposed};
        let mut own = Shrinking::new(NOW, Rank(0), 4);
        say(&mut own, Proposed, &[2], &[0]);
        assert_eq!(settle(&mut own, &[2, 3]), None, "rank 2 is lost itself");
        say(&mut own, Done, &[2], &[3]);
        assert_eq!(
            settle(&mut own, &[2, 3]),
            Some(Settled::Without(lost(&[3]))),
            "it was there when all agreed"
        );
        let mut own = Shrinking::new(NOW, Rank(0), 4);
        say(&mut own, Agreed, &[1], &[0, 3]);
        assert_eq!(settle(&mut own, &[3]), Some(Settled::Outlawed));
        let mut own = Shrinking::new(NOW, Rank(0), 4);
        say(&mut own, Done, &[1], &[0]);
        assert_eq!(settle(&mut own, &[1]), Some(Settled::Outlawed));
    }

    #[test]
    fn a_statement_is_repeated_soon_then_rarely_and_one_that_is_done_only_on_request() {
        let count = |repeater: &mut Repeater, from: u64, millis: u64| {
            let at = |milli| NOW + Duration::from_millis(milli);
            (from..from + millis)
                .filter(|&milli| (repeater.handle_timeout(at(milli)), repeater.take()).1)
                .count()
        };
        let mut own = Repeater::new(NOW, Some(Duration::from_millis(100)));
        assert_eq!((count(&mut own, 0, 100), count(&mut own, 100, 500)), (3, 5));
        let mut former = Repeater::new(NOW, None);
        assert_eq!(
            (count(&mut former, 0, 100), former.poll_timeout()),
            (3, None)
        );
        (0..9).for_each(|_| former.reply(NOW + Duration::from_millis(100)));
        assert_eq!(
            (count(&mut former, 100, 100), former.poll_timeout()),
            (1, None)
        );
    }
}
