//! Detection of receivers that slow a transfer down (stragglers).

use super::stall_watch::{NOTICE_AFTER, StallVerdict, WatchContext};
use crate::session::message::MemberState;
use crate::session::root::config::OnSlow;
use crate::session::root::members::{MemberEntry, Members};
use crate::session::view::{MemberRole, View};
use ethbcast_planning::plan::Via;
use ethbcast_transport::wire::{OVERHEAD_BYTES, Rank};
use std::collections::BTreeMap;
use std::time::Duration;

/// Fraction of the best rate since the last view change below which a member is slow. All members
/// are as slow as the slowest, so only rates from before it held them up show their capacity.
const SLOW_BELOW: f64 = 0.7;

const SLOW_DISK: &str = "its disk, or the reader of its output, is slower than the frames come";
const SLOW_CABLE: &str = "its cable or its processor is slower than the frames come";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Straggler {
    pub rank: Rank,
    pub from: Rank,
    /// Whether `from` reports that it waits for `rank`; else only its frames show so.
    pub is_named: bool,
    pub why: &'static str,
}

impl Straggler {
    pub(super) fn is_of_its_disk(&self) -> bool {
        self.why == SLOW_DISK
    }
}

impl WatchContext<'_> {
    /// Returns the straggler that has received least. Its parent, the root or a relay, could send
    /// it frames faster, and its own children are not the cause. A relay at the end of a long chain
    /// is blocked long before the root is.
    fn last_blocked(&self, members: &Members) -> Option<Straggler> {
        let said = |rank: Rank| {
            let status = members.in_place(rank)?.status();
            status
                .waits_for
                .filter(|_| status.state == MemberState::WaitsForChild)
        };
        let by_root = self
            .delivery
            .blocks()
            .blocked_by(self.now)
            .map(|child| (Rank::ROOT, child));
        let by_relay = members
            .entries()
            .iter()
            .filter_map(|relay| Some((relay.rank(), said(relay.rank())?)));
        let behind = self.far_behind(members);
        let end = |(mut from, mut rank): (Rank, Rank)| {
            let named = rank;
            while let Some(&child) = behind.get(&rank) {
                (from, rank) = (rank, child);
            }
            (from, rank, rank == named)
        };
        let last = by_root
            .into_iter()
            .chain(by_relay)
            .filter(|&(_, child)| said(child).is_none())
            .map(end);
        let straggler = |(from, rank, is_named)| {
            let status = members.in_place(rank)?.status();
            let why = if status.state == MemberState::Blocked {
                SLOW_DISK
            } else {
                SLOW_CABLE
            };
            Some((
                status.consumed,
                Straggler {
                    rank,
                    from,
                    is_named,
                    why,
                },
            ))
        };
        last.filter_map(straggler)
            .min_by_key(|&(consumed, _)| consumed)
            .map(|(_, straggler)| straggler)
    }

    /// Returns, by relay, the child for which it keeps half a feed of frames or more; of several,
    /// the last. A relay that a switch pauses, or whose kernel holds its frames, takes its own
    /// cable for the limit and reports no child.
    fn far_behind(&self, members: &Members) -> BTreeMap<Rank, Rank> {
        let mut found = BTreeMap::new();
        let is_tree = self.view.via != Via::Cast && !self.view.via.is_in_blocks();
        let mut arrivals: Vec<(u64, Rank)> = members
            .entries()
            .iter()
            .filter(|entry| {
                is_tree && entry.standing() == MemberRole::InPlace && !entry.is_reported()
            })
            .map(|entry| (entry.arrived_by(self.now, self.timing), entry.rank()))
            .collect();
        arrivals.sort_unstable();
        for (arrived, rank) in arrivals {
            let parent = self.parent(rank);
            let ahead = members
                .in_place(parent)
                .map_or(0, |parent| parent.arrived_by(self.now, self.timing));
            if arrived + self.delivery.blocks().slots() / 2 <= ahead {
                found.entry(parent).or_insert(rank);
            }
        }
        found
    }

    pub fn straggler(&self, members: &Members) -> Option<Straggler> {
        let open =
            |entry: &&MemberEntry| entry.standing() == MemberRole::InPlace && !entry.is_reported();
        let in_place: Vec<&MemberEntry> = members.entries().iter().filter(open).collect();
        let straggler = self.last_blocked(members).filter(|_| in_place.len() > 1)?;
        let exceptional = if straggler.why == SLOW_DISK {
            let blocked = in_place
                .iter()
                .filter(|entry| entry.status().state == MemberState::Blocked)
                .count();
            blocked * 2 < in_place.len()
        } else if self.view.via == Via::Cast {
            let by_now = |entry: &MemberEntry| entry.arrived_by(self.now, self.timing);
            let mut arrived: Vec<u64> = in_place.iter().copied().map(by_now).collect();
            arrived.sort_unstable();
            let ahead = by_now(members.entry(straggler.rank)?) + self.delivery.blocks().slots() / 4;
            ahead < arrived[arrived.len() / 2]
        } else {
            true
        };
        exceptional.then_some(straggler)
    }

    fn is_below(&self, members: &Members, rank: Rank, period: Duration, best: f64) -> bool {
        let rate = members
            .entry(rank)
            .and_then(|entry| entry.pace().consuming(self.now, period, self.timing.lag()));
        rate.is_some_and(|rate| rate < best * SLOW_BELOW)
    }

    fn is_slow(&self, members: &Members, rank: Rank, period: Duration) -> bool {
        self.is_below(members, rank, period, members.rates().best())
    }

    /// Whether the root has sent faster than its child consumes frames: that child may be slow, or
    /// all members.
    fn is_doubtful(&self, members: &Members, straggler: Straggler) -> bool {
        let period = self.timing.slow / 4;
        straggler.from == Rank::ROOT
            && self.is_below(members, straggler.rank, period, members.rates().best_sent())
    }

    /// Returns the child of a suspected straggler that gets a probe transfer, and the number of
    /// frames it has.
    pub fn to_be_tried(&self, members: &Members, straggler: Straggler) -> Option<(Rank, u64)> {
        let doubtful = !self.is_slow(members, straggler.rank, self.timing.slow / 4)
            && self.is_doubtful(members, straggler);
        let child = *self
            .view
            .trees()
            .first()
            .filter(|_| doubtful)?
            .children(straggler.rank)
            .first()?;
        Some((child, members.in_place(child)?.status().arrived))
    }

    fn stuck_with(&self, members: &Members, slow: Straggler) -> Option<Rank> {
        let least = self.timing.or_reports(NOTICE_AFTER / 2, 3);
        let stuck = members
            .entry(slow.rank)
            .is_some_and(|entry| entry.idle_for(self.now) >= least);
        self.other_end(members, (slow.from, slow.rank))
            .filter(|_| stuck)
    }
}

pub fn frames_text(view: &View, frames_per_second: f64) -> String {
    rate_text(frames_per_second * 8.0 * (f64::from(view.payload_bytes) + OVERHEAD_BYTES as f64))
}

pub fn rate_text(bits_per_second: f64) -> String {
    match bits_per_second {
        rate if rate >= 1e9 => format!("{:.2} Gbit/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.1} Mbit/s", rate / 1e6),
        rate => format!("{:.0} kbit/s", rate / 1e3),
    }
}

#[derive(Clone, Debug, Default)]
pub struct Stragglers {
    found: Option<(Rank, Duration)>,
}

impl Stragglers {
    pub fn look(
        &mut self,
        scene: &WatchContext<'_>,
        members: &Members,
        straggler: Option<Straggler>,
        on_slow: OnSlow,
    ) -> Vec<StallVerdict> {
        let Some(slow) = self.take_turn(scene, members, straggler, scene.timing.status) else {
            return Vec::new();
        };
        let (slow_after, lag) = (scene.timing.slow, scene.timing.lag());
        let rate = members
            .entry(slow.rank)
            .and_then(|entry| entry.pace().consuming(scene.now, slow_after, lag));
        let [rate, best] =
            [rate.unwrap_or(0.0), members.rates().best()].map(|rate| frames_text(scene.view, rate));
        let text = format!("holds up the others: {} ({rate} of {best})", slow.why);
        match (scene.stuck_with(members, slow), on_slow) {
            // One of the two is at fault: both are demoted, and the one that makes no progress then
            // is given up.
            (Some(from), _) => scene.demote_ends(members, (from, slow.rank)),
            (None, OnSlow::Evict) => vec![StallVerdict::GiveUp(slow.rank, format!("it {text}"))],
            (None, _) => vec![StallVerdict::Demote(slow.rank, text)],
        }
    }

    /// Returns the straggler once it has been slow for long enough. A check that misses it only
    /// counts down by `period`.
    fn take_turn(
        &mut self,
        scene: &WatchContext<'_>,
        members: &Members,
        straggler: Option<Straggler>,
        period: Duration,
    ) -> Option<Straggler> {
        let limit = scene.timing.slow;
        let (known, lasted) = self.found.unwrap_or((Rank::ROOT, Duration::ZERO));
        let slow = straggler.filter(|straggler| scene.is_slow(members, straggler.rank, limit / 2));
        // A suspicion counts for half of the time, so that proof need not start from zero.
        let doubtful = straggler
            .filter(|&straggler| lasted < limit / 2 && scene.is_doubtful(members, straggler));
        let found = slow.or(doubtful);
        self.found = match found {
            Some(Straggler { rank, .. }) if rank == known => Some((rank, lasted + period)),
            _ if lasted > period => Some((known, lasted - period)),
            Some(Straggler { rank, .. }) => Some((rank, period)),
            None => None,
        };
        let lasting = |slow: &Straggler| {
            slow.rank == known
                && lasted + period >= limit
                && scene.is_slow(members, slow.rank, limit)
        };
        let enough = slow.filter(lasting)?;
        self.found = None;
        Some(enough)
    }
}
