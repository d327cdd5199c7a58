//! Who is slower than the others and holds them up.

use super::members::{Entry, Members};
use super::watch::{Scene, TOLD_AFTER};
use crate::session::message::MemberState;
use crate::session::view::Standing;
use ethbcast_planning::plan::Via;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

/// A member is slow if it takes less than this part of what some member has taken at its best since the view changed
/// last. All are as slow as the slowest: only by what they did before it held them up is it seen what they can.
const SLOW_BELOW: f64 = 0.7;

const SLOW_DISK: &str = "its disk, or whoever reads its output, is slower than the frames come";
const SLOW_CABLE: &str = "its cable or its processor is slower than the frames come";

/// A member that holds up the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Brake {
    pub rank: Rank,
    /// Who sends to it.
    pub from: Rank,
    /// What it is short of.
    pub why: &'static str,
}

impl Scene<'_> {
    /// Follows who takes frames more slowly than they could be sent, from the root on, past all who do so only because
    /// of who comes behind them.
    fn brake(&self, members: &Members) -> Option<Brake> {
        let (mut from, mut at) = (Rank::ROOT, self.delivery.blocks().blocked_by(self.now)?);
        // A circle cannot be, but what members say is no proof.
        for _ in members.entries() {
            let status = members.in_place(at)?.status();
            match status.waits_for.filter(|_| status.state == MemberState::WaitsForChild) {
                Some(next) => (from, at) = (at, next),
                None => break,
            }
        }
        let disk = members.in_place(at)?.status().state == MemberState::Blocked;
        Some(Brake { rank: at, from, why: if disk { SLOW_DISK } else { SLOW_CABLE } })
    }

    /// The member in place that is slower than the rest and holds them up.
    pub(super) fn slowest(&self, members: &Members) -> Option<Brake> {
        let open = |entry: &&Entry| entry.standing() == Standing::InPlace && !entry.is_reported();
        let in_place: Vec<&Entry> = members.entries().iter().filter(open).collect();
        let brake = self.brake(members).filter(|_| in_place.len() > 1)?;
        if brake.why == SLOW_DISK {
            let blocked = in_place.iter().filter(|entry| entry.status().state == MemberState::Blocked).count();
            if blocked * 2 >= in_place.len() {
                return None; // That is no exception.
            }
        } else if self.view.via == Via::Cast {
            let mut arrived: Vec<u64> = in_place.iter().map(|entry| entry.status().arrived).collect();
            arrived.sort_unstable();
            let behind = members.entry(brake.rank)?.status().arrived + self.delivery.blocks().slots() / 4;
            if behind >= arrived[arrived.len() / 2] {
                return None;
            }
        }
        self.is_slow(members, brake.rank, self.timing.slow / 2).then_some(brake)
    }

    /// Whether a member has been slow for so long.
    fn is_slow(&self, members: &Members, rank: Rank, period: Duration) -> bool {
        if std::env::var("DBG").is_ok() {
            let states: Vec<_> = members.states().map(|(_, s)| (s.state, s.waits_for.map(|r| r.0), s.arrived, s.consumed)).collect();
            eprintln!("{:?} {rank:?} {:?} of {:.0} | {states:?}", self.now, members.entry(rank).map(|e| e.pace().consuming(self.now, period)), members.best_rate());
        }
        let rate = members.entry(rank).and_then(|entry| entry.pace().consuming(self.now, period));
        rate.is_some_and(|rate| rate < members.best_rate() * SLOW_BELOW)
    }

    /// Who is to step aside for a slow member: itself, and whoever sends to it if nothing at all gets through between
    /// them, for then which end is at fault does not show.
    pub(super) fn ends(&self, members: &Members, slow: Brake) -> Vec<Rank> {
        let stuck = members.entry(slow.rank).is_some_and(|entry| entry.stuck_for(self.now) >= TOLD_AFTER / 2);
        let from = Some(slow.from).filter(|&from| stuck && from != Rank::ROOT && slow.why != SLOW_DISK);
        from.into_iter().chain([slow.rank]).collect()
    }
}

/// For how long somebody has been slower than the others.
#[derive(Debug, Default)]
pub(super) struct Slow {
    found: Option<(Rank, Duration)>,
}

impl Slow {
    /// Takes what a look has found, at `scene`'s time and `period` after the last; the same, once it has been found for
    /// as long as a member may be slow. Now and then it may be missed: what was found then counts down.
    pub(super) fn take_turn(
        &mut self,
        scene: &Scene<'_>,
        members: &Members,
        slow: Option<Brake>,
        period: Duration,
    ) -> Option<Brake> {
        let (rank, lasted) = match (slow, self.found) {
            (Some(Brake { rank, .. }), Some((known, lasted))) if rank == known => (rank, lasted + period),
            (_, Some((known, lasted))) if lasted > period => (known, lasted - period),
            (Some(Brake { rank, .. }), _) => (rank, period),
            (None, _) => {
                self.found = None;
                return None;
            }
        };
        self.found = Some((rank, lasted));
        let limit = scene.timing.slow;
        let lasting = |slow: &Brake| slow.rank == rank && lasted >= limit && scene.is_slow(members, rank, limit);
        let enough = slow.filter(lasting)?;
        self.found = None;
        Some(enough)
    }
}
