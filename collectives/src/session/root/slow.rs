//! Who is slower than the others and holds them up.

use super::OnSlow;
use super::members::{Entry, Members};
use super::watch::{Finding, Scene, TOLD_AFTER};
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
    /// Who takes frames more slowly than they could be sent, be it by the root or by a relay, and not because of who
    /// comes behind it: whoever has got least. A relay at the end of a long chain is held up long before the root is.
    fn last_blocked(&self, members: &Members) -> Option<Brake> {
        let waits = |rank: Rank| {
            let status = members.in_place(rank)?.status();
            status.waits_for.filter(|_| status.state == MemberState::WaitsForChild)
        };
        let by_root = self.delivery.blocks().blocked_by(self.now).map(|child| (Rank::ROOT, child));
        let by_relay = members.entries().iter().filter_map(|relay| Some((relay.rank(), waits(relay.rank())?)));
        let last = by_root.into_iter().chain(by_relay).filter(|&(_, child)| waits(child).is_none());
        let brake = |(from, rank)| {
            let status = members.in_place(rank)?.status();
            let why = if status.state == MemberState::Blocked { SLOW_DISK } else { SLOW_CABLE };
            Some((status.consumed, Brake { rank, from, why }))
        };
        last.filter_map(brake).min_by_key(|&(consumed, _)| consumed).map(|(_, brake)| brake)
    }

    /// The member in place that holds up the others, unless many do.
    pub(super) fn brake(&self, members: &Members) -> Option<Brake> {
        let open = |entry: &&Entry| entry.standing() == Standing::InPlace && !entry.is_reported();
        let in_place: Vec<&Entry> = members.entries().iter().filter(open).collect();
        let brake = self.last_blocked(members).filter(|_| in_place.len() > 1)?;
        let exceptional = if brake.why == SLOW_DISK {
            let blocked = in_place.iter().filter(|entry| entry.status().state == MemberState::Blocked).count();
            blocked * 2 < in_place.len()
        } else if self.view.via == Via::Cast {
            let mut arrived: Vec<u64> = in_place.iter().map(|entry| entry.status().arrived).collect();
            arrived.sort_unstable();
            let ahead = members.entry(brake.rank)?.status().arrived + self.delivery.blocks().slots() / 4;
            ahead < arrived[arrived.len() / 2]
        } else {
            true
        };
        exceptional.then_some(brake)
    }

    /// Whether a member has taken less than `best` for so long.
    fn is_below(&self, members: &Members, rank: Rank, period: Duration, best: f64) -> bool {
        let rate = members.entry(rank).and_then(|entry| entry.pace().consuming(self.now, period));
        rate.is_some_and(|rate| rate < best * SLOW_BELOW)
    }

    fn is_slow(&self, members: &Members, rank: Rank, period: Duration) -> bool {
        self.is_below(members, rank, period, members.rates().best())
    }

    /// Whether the root has sent faster than a member of its own takes frames: that may be the member, or all of them.
    fn is_doubtful(&self, members: &Members, brake: Brake) -> bool {
        let period = self.timing.slow / 4;
        brake.from == Rank::ROOT && self.is_below(members, brake.rank, period, members.rates().best_sent())
    }

    /// The child of a doubtful member that is to show what others can take, and what it has.
    pub(super) fn to_be_tried(&self, members: &Members, brake: Brake) -> Option<(Rank, u64)> {
        let doubtful = !self.is_slow(members, brake.rank, self.timing.slow / 4) && self.is_doubtful(members, brake);
        let child = *self.view.trees().first().filter(|_| doubtful)?.children(brake.rank).first()?;
        Some((child, members.in_place(child)?.status().arrived))
    }

    /// Who sends to a slow member, if nothing at all gets through between them for no reason that shows.
    fn stuck_with(&self, members: &Members, slow: Brake) -> Option<Rank> {
        let stuck = members.entry(slow.rank).is_some_and(|entry| entry.idle_for(self.now) >= TOLD_AFTER / 2);
        self.other_end(members, (slow.from, slow.rank)).filter(|_| stuck)
    }
}

/// For how long somebody has been slower than the others.
#[derive(Clone, Debug, Default)]
pub(super) struct Slow {
    found: Option<(Rank, Duration)>,
}

impl Slow {
    /// Takes who holds up the others, at `scene`'s time; what is to become of it and of whoever sends to it, once it
    /// has been slow for as long as a member may be.
    pub(super) fn look(
        &mut self,
        scene: &Scene<'_>,
        members: &Members,
        brake: Option<Brake>,
        on_slow: OnSlow,
    ) -> Vec<Finding> {
        let Some(slow) = self.take_turn(scene, members, brake, scene.timing.status) else { return Vec::new() };
        let text = format!("holds up the others: {}", slow.why);
        match (scene.stuck_with(members, slow), on_slow) {
            // One of the two is not to blame: both are served alone, and whoever does not move then is given up.
            (Some(from), _) => scene.ends_aside(members, (from, slow.rank)),
            (None, OnSlow::Evict) => vec![Finding::GiveUp(slow.rank, format!("it {text}"))],
            (None, _) => vec![Finding::StepAside(slow.rank, text)],
        }
    }

    /// The same brake again, once it has been slow for long enough. Now and then it may be missed: what was found then,
    /// `period` after the last look, counts down.
    fn take_turn(
        &mut self,
        scene: &Scene<'_>,
        members: &Members,
        brake: Option<Brake>,
        period: Duration,
    ) -> Option<Brake> {
        let limit = scene.timing.slow;
        let (known, lasted) = self.found.unwrap_or((Rank::ROOT, Duration::ZERO));
        let slow = brake.filter(|brake| scene.is_slow(members, brake.rank, limit / 2));
        // A doubt counts for half of the time, so that proof need not begin from nothing.
        let doubtful = brake.filter(|&brake| lasted < limit / 2 && scene.is_doubtful(members, brake));
        let found = slow.or(doubtful);
        self.found = match found {
            Some(Brake { rank, .. }) if rank == known => Some((rank, lasted + period)),
            _ if lasted > period => Some((known, lasted - period)),
            Some(Brake { rank, .. }) => Some((rank, period)),
            None => None,
        };
        let lasting =
            |slow: &Brake| slow.rank == known && lasted + period >= limit && scene.is_slow(members, slow.rank, limit);
        let enough = slow.filter(lasting)?;
        self.found = None;
        Some(enough)
    }
}
