//! Detection of ranks that disagree whether ethbcast or the MPI carries a collective call.
//!
//! All ranks make equal calls, and each decides by a call's bytes whether it uses ethbcast (the
//! *wire*), the MPI, or is tried first. If the bytes differ, so may the decision. Ranks on the wire
//! then wait for one inside the MPI, which does not notice them. A rank that has been inside the
//! MPI for long announces its call. If this rank makes that call another way, it is a
//! contradiction, which no correct program causes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Duration after which a call is announced or listened for: shorter ones most likely end by
/// themselves.
const WARNING_DELAY: Duration = Duration::from_secs(1);
/// Recent calls remembered. A rank ahead of the others is in one of the next few, because a barrier
/// holds it.
const REMEMBERED: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Wire,
    Mpi,
    /// A trial of which is faster, mostly inside the MPI.
    Trial,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub number: u64,
    pub is_trial: bool,
}

impl Announcement {
    pub fn encode(self) -> u64 {
        self.number << 1 | u64::from(self.is_trial)
    }

    pub fn of(word: u64) -> Announcement {
        Announcement {
            number: word >> 1,
            is_trial: word & 1 == 1,
        }
    }

    fn kind(self) -> Kind {
        if self.is_trial {
            Kind::Trial
        } else {
            Kind::Mpi
        }
    }
}

/// A call in which another rank waits inside the MPI, while this one makes it by another route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    pub leader_rank: u16,
    pub number: u64,
}

#[derive(Debug, Default)]
pub struct Order {
    begun: u64,
    kinds: VecDeque<Kind>,
    present: Option<(Instant, bool)>,
    ahead: Vec<(u16, Announcement)>,
    found: Option<Contradiction>,
    pub limit: Option<Instant>,
}

impl Order {
    pub fn begin(&mut self, kind: Kind, now: Instant) {
        self.begun += 1;
        self.kinds.truncate(REMEMBERED - 1);
        self.kinds.push_front(kind);
        self.present = Some((now, false));
        let due = std::mem::take(&mut self.ahead);
        due.into_iter()
            .for_each(|(leader_rank, told)| self.on_announcement(leader_rank, told));
    }

    pub fn end(&mut self) {
        self.present = None;
    }

    /// Returns the announcement of the present call if that has been inside the MPI for long;
    /// `None` at later calls.
    pub fn announce(&mut self, now: Instant) -> Option<Announcement> {
        let kind = *self.kinds.front()?;
        let (since, told) = self.present.as_mut().filter(|_| kind != Kind::Wire)?;
        let is_due = now.duration_since(*since) >= WARNING_DELAY && !*told;
        *told |= is_due;
        is_due.then_some(Announcement {
            number: self.begun,
            is_trial: kind == Kind::Trial,
        })
    }

    /// Whether the present call has lasted long enough for others to have announced theirs.
    pub fn listens(&self, now: Instant) -> bool {
        self.present
            .is_some_and(|(since, _)| now.duration_since(since) >= WARNING_DELAY)
    }

    pub fn on_announcement(&mut self, leader_rank: u16, told: Announcement) {
        let Some(back) = self.begun.checked_sub(told.number) else {
            self.ahead.retain(|(earlier, _)| *earlier != leader_rank);
            self.ahead.push((leader_rank, told));
            return;
        };
        let own = usize::try_from(back)
            .ok()
            .and_then(|back| self.kinds.get(back));
        if own.is_some_and(|own| *own != told.kind()) {
            self.found.get_or_insert(Contradiction {
                leader_rank,
                number: told.number,
            });
        }
    }

    pub fn contradiction(&self) -> Option<Contradiction> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(kinds: &[Kind], now: Instant) -> Order {
        let mut order = Order::default();
        for kind in kinds {
            order.end();
            order.begin(*kind, now);
        }
        order
    }

    fn mpi(number: u64) -> Announcement {
        Announcement {
            number,
            is_trial: false,
        }
    }

    #[test]
    fn the_mpis_own_call_is_announced_once_when_it_has_lasted_for_long() {
        let now = Instant::now();
        let mut own = order(&[Kind::Wire, Kind::Mpi], now);
        assert_eq!(
            [
                Duration::ZERO,
                WARNING_DELAY / 2,
                WARNING_DELAY,
                WARNING_DELAY * 2
            ]
            .map(|later| own.announce(now + later)),
            [None, None, Some(mpi(2)), None]
        );
        own.end();
        assert_eq!(
            (
                own.announce(now + WARNING_DELAY * 3),
                own.listens(now + WARNING_DELAY * 3)
            ),
            (None, false),
            "it has ended"
        );
        let mut wire = order(&[Kind::Mpi, Kind::Wire], now);
        assert_eq!(wire.announce(now + WARNING_DELAY), None);
        assert!(wire.listens(now + WARNING_DELAY) && !wire.listens(now));
    }

    #[test]
    fn a_call_that_is_the_mpis_there_and_the_wires_here_is_found_whether_it_is_past_present_or_to_come()
     {
        let now = Instant::now();
        let found = Some(Contradiction {
            leader_rank: 3,
            number: 2,
        });
        for ways in [
            &[Kind::Mpi, Kind::Wire][..],
            &[Kind::Mpi, Kind::Wire, Kind::Mpi, Kind::Wire],
        ] {
            let mut order = order(ways, now);
            order.on_announcement(3, mpi(2));
            order.on_announcement(4, mpi(2));
            assert_eq!(order.contradiction(), found);
        }
        let mut order = order(&[Kind::Mpi], now);
        order.on_announcement(3, mpi(2));
        assert_eq!(order.contradiction(), None, "nothing is known of that call");
        order.begin(Kind::Wire, now);
        assert_eq!(order.contradiction(), found);
    }

    #[test]
    fn a_trial_is_neither_the_mpis_call_nor_the_wires() {
        let now = Instant::now();
        let told = order(&[Kind::Mpi, Kind::Trial], now)
            .announce(now + WARNING_DELAY)
            .expect("it waits inside the MPI");
        assert_eq!(Announcement::of(told.encode()), told);
        assert_eq!(
            Announcement::of(mpi(u64::MAX >> 1).encode()),
            mpi(u64::MAX >> 1)
        );
        for (second, is_found) in [(Kind::Trial, false), (Kind::Mpi, true), (Kind::Wire, true)] {
            let mut here = order(&[Kind::Mpi, second, Kind::Wire], now);
            here.on_announcement(1, told);
            assert_eq!(here.contradiction().is_some(), is_found, "{second:?}");
        }
        let mut here = order(&[Kind::Mpi, Kind::Trial, Kind::Wire], now);
        here.on_announcement(1, mpi(2));
        assert!(here.contradiction().is_some());
    }

    #[test]
    fn ranks_that_make_the_same_calls_contradict_nobody_however_long_they_wait() {
        let now = Instant::now();
        let ways = [Kind::Mpi, Kind::Wire, Kind::Wire, Kind::Mpi].repeat(50);
        for (here, there) in [(7, 200), (200, 150), (200, 1), (60, 61)] {
            let mut order = order(&ways[..here], now);
            let own = (1..=there)
                .rev()
                .find(|number| ways[number - 1] == Kind::Mpi)
                .expect("there is one");
            order.on_announcement(0, mpi(own as u64));
            ways[here..].iter().for_each(|way| order.begin(*way, now));
            assert_eq!(
                order.contradiction(),
                None,
                "{here} calls made, {own} heard"
            );
        }
    }
}
