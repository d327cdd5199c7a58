//! Progress and receive rate of each receiver, from its status reports.

use crate::session::message::{MemberState, Status};
use crate::session::view::View;
use ethbcast_planning::plan::Via;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::collections::VecDeque;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ReportedProgress {
    arrived: u64,
    consumed: u64,
    phase: u8,
}

impl ReportedProgress {
    fn of(status: &Status) -> ReportedProgress {
        ReportedProgress {
            arrived: status.arrived,
            consumed: status.consumed,
            phase: phase(status.state),
        }
    }

    fn most(self, other: ReportedProgress) -> ReportedProgress {
        ReportedProgress {
            arrived: self.arrived.max(other.arrived),
            consumed: self.consumed.max(other.consumed),
            phase: self.phase.max(other.phase),
        }
    }
}

/// Maximum that a member has reported. A report above it is progress, and a replayed one is not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Advance {
    most: ReportedProgress,
}

impl Advance {
    pub fn note(&mut self, status: &Status) -> bool {
        let most = self.most.most(ReportedProgress::of(status));
        std::mem::replace(&mut self.most, most) != most
    }

    pub fn begin(&mut self, status: &Status) {
        self.most = ReportedProgress::of(status);
    }
}

fn phase(state: MemberState) -> u8 {
    match state {
        MemberState::Alive
        | MemberState::Blocked
        | MemberState::Starved
        | MemberState::WaitsForChild => 0,
        MemberState::Verifying => 1,
        MemberState::Syncing => 2,
        MemberState::Settled => 3,
        MemberState::Done => 4,
    }
}

/// Time over which rates are compared: a shorter one would show losses, a longer one earlier rates.
pub const RATE_OVER: Duration = Duration::from_millis(800);

const MARK_SPACING: Duration = Duration::from_millis(90);

const MAX_MARKS: u32 = 20;

/// Periods over which a rate is measured; the slowest result counts. In the shorter ones, a member
/// that paused for a moment catches up with a backlog, which is no rate it can keep.
const RATE_PERIODS: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(600),
];

#[derive(Clone, Copy, Debug)]
struct PaceMark {
    at: Instant,
    arrived: u64,
    consumed: u64,
}

/// Recent reports of a member, from which its rates follow, in frames per second. Members report
/// every 100 ms. The last mark moves along until it is far enough from the one before. A rate is
/// unknown until two marks are.
#[derive(Clone, Debug)]
pub struct Pace {
    marks: VecDeque<PaceMark>,
}

impl Pace {
    pub fn new(now: Instant) -> Pace {
        Pace {
            marks: VecDeque::from([PaceMark {
                at: now,
                arrived: 0,
                consumed: 0,
            }]),
        }
    }

    pub fn note(&mut self, now: Instant, status: &Status, kept: Duration) {
        let kept = kept.max(RATE_PERIODS[2]);
        let spacing = MARK_SPACING.max(kept / MAX_MARKS);
        let before = self
            .marks
            .len()
            .checked_sub(2)
            .map(|before| self.marks[before].at);
        if before.is_some_and(|before| {
            self.marks
                .back()
                .is_some_and(|last| last.at < before + spacing)
        }) {
            self.marks.pop_back();
        }
        self.marks.push_back(PaceMark {
            at: now,
            arrived: status.arrived,
            consumed: status.consumed,
        });
        while self
            .marks
            .get(1)
            .is_some_and(|second| second.at + kept <= now)
        {
            self.marks.pop_front();
        }
    }

    fn mark(&self, now: Instant, period: Duration) -> Option<&PaceMark> {
        self.marks
            .iter()
            .rev()
            .find(|mark| mark.at + period <= now)
            .or(self.marks.front())
    }

    pub fn arriving(&self) -> Option<f64> {
        let last = self.marks.back()?;
        let of = |period| {
            let mark = self
                .mark(last.at, period)
                .filter(|mark| mark.at + RATE_PERIODS[0] <= last.at)?;
            Some(
                last.arrived.saturating_sub(mark.arrived) as f64
                    / last.at.since(mark.at).as_secs_f64(),
            )
        };
        RATE_PERIODS
            .into_iter()
            .map(of)
            .try_fold(f64::INFINITY, |least, rate| Some(least.min(rate?)))
    }

    pub fn reported_at(&self) -> Option<Instant> {
        self.marks.back().map(|mark| mark.at)
    }

    /// Mean arrival rate over the last `period`, or over all known history if that is less. Unlike
    /// the recent rate, it does not show frames that wait for a lost one.
    pub fn mean(&self, period: Duration) -> Option<f64> {
        let last = self.marks.back()?;
        let mark = self
            .mark(last.at, period)
            .filter(|mark| mark.at + RATE_PERIODS[0] <= last.at)?;
        Some(
            last.arrived.saturating_sub(mark.arrived) as f64 / last.at.since(mark.at).as_secs_f64(),
        )
    }

    /// Consumption rate over the last `period` in frames per second; `None` if less history is
    /// known. A last report that is not older than `lag` counts as new.
    pub fn consuming(&self, now: Instant, period: Duration, lag: Duration) -> Option<f64> {
        let mark = self
            .mark(now, period)
            .filter(|mark| mark.at + period <= now)?;
        let last = self.marks.back()?;
        let end = last.at.max(now - lag);
        Some(last.consumed.saturating_sub(mark.consumed) as f64 / end.since(mark.at).as_secs_f64())
    }
}

#[derive(Clone, Debug)]
pub struct Rates {
    kept: Duration,
    sent: Pace,
    best_sent: f64,
    best_taken: f64,
    shares: Vec<f64>,
}

impl Rates {
    pub fn new(now: Instant, slow_after: Duration) -> Rates {
        Rates {
            kept: slow_after,
            sent: Pace::new(now),
            best_sent: 0.0,
            best_taken: 0.0,
            shares: Vec::new(),
        }
    }

    pub fn kept(&self) -> Duration {
        self.kept
    }

    pub fn forget(&mut self, view: &View) {
        (self.best_sent, self.best_taken, self.shares) = (0.0, 0.0, shares(view));
    }

    fn share(&self, rank: Rank) -> f64 {
        self.shares.get(rank.index()).copied().unwrap_or(1.0)
    }

    pub fn took(&mut self, rank: Rank, rate: f64) {
        self.best_taken = self.best_taken.max(rate * self.share(rank));
    }

    pub fn sent(&mut self, now: Instant, frames: u64) {
        let sent = Status {
            arrived: frames,
            consumed: frames,
            ..Status::default()
        };
        self.sent.note(now, &sent, self.kept);
        self.best_sent = self
            .best_sent
            .max(self.sent.arriving().unwrap_or_default() * self.share(Rank::ROOT));
    }

    pub fn best_sent(&self) -> f64 {
        self.best_sent
    }

    /// Highest sustainable receive rate of a member in place, in frames per second. After a lost
    /// frame a member receives many at once; no member can keep receiving more than the root has
    /// sent.
    pub fn best(&self) -> f64 {
        self.best_taken.min(self.best_sent)
    }
}

/// Share of a host's link rate that all links of the plan can carry, by rank; the root's entry is
/// for its sending. A relay with several children gives each a share of its link. A host that gets
/// a whole link for a moment, because its siblings are demoted or have everything, cannot pass that
/// rate on.
fn shares(view: &View) -> Vec<f64> {
    if view.via == Via::Cast || view.via.is_in_blocks() {
        return vec![1.0; view.members.len()];
    }
    let tree = view.trees()[0];
    let parents: Vec<usize> = (0..view.members.len() as u16)
        .map(|rank| tree.parent(Rank(rank)).map_or(0, Rank::index))
        .collect();
    let children = view.degrees();
    let most = children.iter().copied().max().unwrap_or(0).max(1);
    parents
        .into_iter()
        .map(|parent| children[parent] as f64 / most as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(arrived: u64, consumed: u64) -> Status {
        Status {
            arrived,
            consumed,
            ..Status::default()
        }
    }

    #[test]
    fn a_replayed_old_report_is_no_progress_and_hides_none() {
        let mut advance = Advance::default();
        assert!((1..=10).all(|step| advance.note(&said(step, step))));
        for step in 11..200 {
            assert!(!advance.note(&said(step % 7, step % 5)), "an old report");
            assert!(!advance.note(&said(10, 10)), "and the true one behind it");
        }
        assert!(advance.note(&said(11, 10)) && advance.note(&said(11, 11)));
        let verifies = Status {
            state: MemberState::Verifying,
            ..said(11, 11)
        };
        assert!(advance.note(&verifies) && !advance.note(&verifies));
        advance.begin(&said(5, 5));
        assert!(
            !advance.note(&said(5, 5)) && advance.note(&said(6, 5)),
            "it is served from there"
        );
    }
}

#[cfg(test)]
mod pace_tests {
    use super::*;

    const KEPT: Duration = Duration::from_secs(2);

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_millis(ms)
    }

    fn told(pace: &mut Pace, ms: u64, frames: u64) {
        pace.note(
            at(ms),
            &Status {
                arrived: frames,
                consumed: frames,
                ..Status::default()
            },
            KEPT,
        );
    }

    #[test]
    fn a_steady_member_has_its_rate_and_no_more_after_a_pause() {
        let mut pace = Pace::new(at(0));
        assert_eq!(pace.arriving(), None);
        (1..=20).for_each(|step| told(&mut pace, step * 100, step * 100));
        let rate = pace.arriving().expect("it has spoken");
        assert!((999.0..1001.0).contains(&rate), "{rate}");
        // The member pauses for 300 ms, and then takes the backlog at once.
        [2100, 2200, 2300]
            .into_iter()
            .for_each(|ms| told(&mut pace, ms, 2000));
        told(&mut pace, 2310, 2310);
        let rate = pace.arriving().expect("it has spoken");
        assert!(rate < 1001.0, "{rate}");
        let rate = pace
            .consuming(at(2310), Duration::from_secs(1), Duration::ZERO)
            .expect("it is known for so long");
        assert!((900.0..1001.0).contains(&rate), "{rate}");
        assert_eq!(
            pace.consuming(at(2310), Duration::from_secs(3), Duration::ZERO),
            None
        );
        assert!(pace.marks.len() <= 24, "{}", pace.marks.len());
    }

    #[test]
    fn a_burst_at_the_beginning_is_seen() {
        let mut pace = Pace::new(at(0));
        told(&mut pace, 90, 90);
        assert_eq!(pace.arriving(), None, "too early to tell");
        told(&mut pace, 200, 200);
        assert_eq!(pace.arriving().map(f64::round), Some(1000.0));
    }
}
