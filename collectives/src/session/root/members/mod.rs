//! List at a transfer's sender of all receivers, each with its state, progress and rate.

pub mod announcement;
pub mod progress;

use super::config::MemberReport;
use crate::membership::Timing;
use crate::membership::presence::{Attendance, Change, Presence};
use crate::session::message::{Behind, MemberState, Outcome, Status, Taken, Trailer, Verdict};
use crate::session::view::{MemberRole, View};
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Instant, planted};
use progress::{Advance, Pace, RATE_OVER, Rates};
use std::time::Duration;

const KEPT_REPORTS: u32 = 10;
/// Number of reports below which most of them show nothing.
const LEAST_REPORTS: u32 = 3;

/// State of a member. The `mute_child`, from which it reports that it never received a frame,
/// stands with the time of the first such report. The bits of `waits` tell for each of the last ten
/// reports, of one second, whether it names a child as the cause of waiting: a single report says
/// little. `moved_at` is the time of its last progress, or of the last moment at which it had
/// nothing to do, and `tried_at` that of the last change that may let it progress: it confirmed a
/// view, or another member was moved.
#[derive(Clone, Debug)]
pub(super) struct MemberEntry {
    rank: Rank,
    standing: MemberRole,
    ready_epoch: u32,
    status: Status,
    mute_child: Option<(Rank, Instant)>,
    waits: u16,
    /// The number of reports so far, ten at most.
    reports: u32,
    advance: Advance,
    pace: Pace,
    accepted: bool,
    moved_at: Instant,
    tried_at: Instant,
    told_at: Option<Instant>,
    taken: Option<Taken>,
    behind: Behind,
    report: Option<MemberReport>,
}

impl MemberEntry {
    fn new(now: Instant, rank: Rank, standing: MemberRole) -> MemberEntry {
        MemberEntry {
            rank,
            standing,
            ready_epoch: 0,
            status: Status::default(),
            mute_child: None,
            waits: 0,
            reports: 0,
            advance: Advance::default(),
            pace: Pace::new(now),
            accepted: false,
            moved_at: now,
            tried_at: now,
            told_at: None,
            taken: None,
            behind: Behind::default(),
            report: None,
        }
    }

    pub(super) fn rank(&self) -> Rank {
        self.rank
    }

    pub(super) fn standing(&self) -> MemberRole {
        self.standing
    }

    pub(super) fn status(&self) -> Status {
        self.status
    }

    pub(super) fn mute_child(&self, now: Instant, lasts: Duration) -> Option<Rank> {
        self.mute_child
            .filter(|&(_, since)| now.since(since) >= lasts)
            .map(|(child, _)| child)
    }

    /// Whether it waits for a child by most reports of the last second; `None` while there are too
    /// few of them.
    pub(super) fn mostly_waits(&self) -> Option<bool> {
        (self.reports >= LEAST_REPORTS).then_some(self.waits.count_ones() * 2 > self.reports)
    }

    /// Returns the frames that have arrived by `now` if they have come as fast as before the last
    /// report. Reports of two members have different ages.
    pub(super) fn arrived_by(&self, now: Instant, timing: &Timing) -> u64 {
        let age = self
            .pace
            .reported_at()
            .map_or(Duration::ZERO, |told_at| now.since(told_at));
        let rate = self.pace.mean(RATE_OVER).unwrap_or_default();
        self.status.arrived + (rate * age.min(timing.status * 2).as_secs_f64()) as u64
    }

    pub(super) fn pace(&self) -> &Pace {
        &self.pace
    }

    pub(super) fn is_ready(&self, epoch: u32) -> bool {
        self.ready_epoch == epoch
    }

    pub(super) fn is_accepted(&self) -> bool {
        self.accepted
    }

    pub(super) fn is_reported(&self) -> bool {
        self.report.is_some()
    }

    pub(super) fn has_reported(&self, outcome: Outcome) -> bool {
        self.is_reported() || (self.accepted && outcome == Outcome::Verified)
    }

    pub(super) fn idle_for(&self, now: Instant) -> Duration {
        now.since(self.moved_at)
    }

    pub(super) fn stuck_for(&self, now: Instant) -> Duration {
        now.since(self.moved_at.max(self.tried_at))
    }

    pub(super) fn moved(&mut self, now: Instant) {
        (self.moved_at, self.told_at) = (now, None);
    }

    pub(super) fn tried(&mut self, now: Instant) {
        (self.tried_at, self.told_at) = (now, None);
    }

    /// Excludes `period` from its stall time: progress cannot be seen while it is silent.
    pub(super) fn pause(&mut self, period: Duration) {
        self.moved_at += period;
        self.tried_at += period;
    }

    pub(super) fn needs_notice(&mut self, now: Instant, every: Duration) -> bool {
        let due = self.told_at.is_none_or(|at| now.since(at) >= every);
        if due {
            self.told_at = Some(now);
        }
        due
    }
}

/// Maximum number of members admitted after the start that have not confirmed a view: requests
/// under forged names cannot fill the list.
const MAX_COMING: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Members {
    entries: Vec<MemberEntry>,
    presence: Presence,
    rates: Rates,
}

impl Members {
    pub(super) fn of_view(now: Instant, view: &View, timing: &Timing) -> Members {
        let mut members = Members::new(now, view.members.len() as u16 - 1, timing);
        let standings = view.members.iter().skip(1).map(|member| member.standing);
        members
            .entries
            .iter_mut()
            .zip(standings)
            .for_each(|(entry, standing)| entry.standing = standing);
        members
    }

    pub(super) fn new(now: Instant, receivers: u16, timing: &Timing) -> Members {
        let presence = Presence::new(now, Rank::ROOT, receivers + 1, timing.dead)
            .suspecting_after(timing.suspect)
            .with_patience(timing.patience)
            .together_within(timing.status)
            .forgiving_own_sleep();
        let entry = |rank| MemberEntry::new(now, Rank(rank), MemberRole::InPlace);
        Members {
            entries: (1..=receivers).map(entry).collect(),
            presence,
            rates: Rates::new(now, timing.slow),
        }
    }

    /// Adds a late member, which starts demoted; the times are then those of `timing`. Returns
    /// false if too many are still on their way in.
    pub(super) fn admit(&mut self, now: Instant, timing: &Timing) -> bool {
        let coming = self
            .entries
            .iter()
            .filter(|entry| entry.ready_epoch == 0 && !entry.is_reported())
            .count();
        let fits = coming < MAX_COMING;
        if fits {
            self.presence.admit(now, timing);
            self.entries.push(MemberEntry::new(
                now,
                Rank(self.entries.len() as u16 + 1),
                MemberRole::Demoted,
            ));
        }
        fits
    }

    pub(super) fn entries(&self) -> &[MemberEntry] {
        &self.entries
    }

    pub(super) fn entry(&self, rank: Rank) -> Option<&MemberEntry> {
        self.entries.get(rank.index().checked_sub(1)?)
    }

    pub(super) fn is_reported(&self, rank: Rank) -> bool {
        self.entry(rank).is_some_and(MemberEntry::is_reported)
    }

    pub(super) fn in_place(&self, rank: Rank) -> Option<&MemberEntry> {
        self.entry(rank)
            .filter(|entry| entry.standing == MemberRole::InPlace)
    }

    pub(super) fn entry_mut(&mut self, rank: Rank) -> Option<&mut MemberEntry> {
        self.entries.get_mut(rank.index().checked_sub(1)?)
    }

    pub(super) fn on_frame(&mut self, now: Instant, rank: Rank) {
        if self.entry(rank).is_some() {
            self.presence.on_frame(now, rank);
        }
    }

    pub(super) fn is_here(&self, rank: Rank) -> bool {
        self.presence.standing(rank) == Attendance::Here
    }

    pub(super) fn silence(&self, now: Instant, rank: Rank) -> Duration {
        self.presence.silence(now, rank)
    }

    /// Whether a member that has not reported its end is silent: it may be dead, and holds up the
    /// others until that is known.
    pub(super) fn has_silent(&self, now: Instant, timing: &Timing) -> bool {
        let open =
            |entry: &&MemberEntry| entry.standing == MemberRole::InPlace && !entry.is_reported();
        self.entries
            .iter()
            .filter(open)
            .any(|entry| self.silence(now, entry.rank()) >= timing.suspect)
    }

    pub(super) fn look(&mut self, now: Instant) -> Vec<Change> {
        self.presence.look(now)
    }

    pub(super) fn next_silence(&self) -> Option<Instant> {
        self.presence.next_silence()
    }

    pub(super) fn all_moved(&mut self, now: Instant) {
        for entry in &mut self.entries {
            entry.moved(now);
            entry.mute_child = None;
        }
    }

    /// Restarts the wait of members that report a mute child while either of the two is not
    /// `there`.
    pub(super) fn restart_mute(&mut self, now: Instant, there: &[bool]) {
        let is_there = |rank: Rank| there.get(rank.index()).is_some_and(|&there| there);
        for MemberEntry {
            rank, mute_child, ..
        } in &mut self.entries
        {
            let restarted = mute_child
                .as_mut()
                .filter(|(child, _)| !(is_there(*rank) && is_there(*child)));
            restarted.into_iter().for_each(|(_, since)| *since = now);
        }
    }

    /// Gives members in place, and `moved` itself, new time to show progress after `moved` was
    /// moved.
    pub(super) fn all_tried(&mut self, now: Instant, moved: Rank) {
        let served =
            |entry: &&mut MemberEntry| entry.standing == MemberRole::InPlace || entry.rank == moved;
        self.entries
            .iter_mut()
            .filter(served)
            .for_each(|entry| entry.tried(now));
    }

    pub(super) fn set_ready(&mut self, now: Instant, rank: Rank, epoch: u32) {
        if let Some(entry) = self
            .entry_mut(rank)
            .filter(|entry| entry.ready_epoch != epoch)
        {
            entry.ready_epoch = epoch;
            entry.tried(now);
        }
    }

    /// Records a status report, received after `frames` frames have been sent. Reports with
    /// impossible counters are ignored.
    pub(super) fn set_status(&mut self, now: Instant, rank: Rank, status: Status, frames: u64) {
        let kept = self.rates.kept();
        let Some(entry) = self.entry_mut(rank) else {
            return;
        };
        if status.arrived > frames || status.consumed > status.arrived {
            return;
        }
        if entry.advance.note(&status) {
            entry.moved(now);
        }
        entry.status = status;
        let waits = status.state == MemberState::WaitsForChild;
        entry.waits = (entry.waits << 1 | u16::from(waits)) & ((1 << KEPT_REPORTS) - 1);
        entry.reports = KEPT_REPORTS.min(entry.reports + 1);
        let known = entry.mute_child.take();
        let mute = status.waits_for.filter(|_| status.is_mute);
        entry.mute_child = mute.map(|child| {
            known
                .filter(|&(known, _)| known == child)
                .unwrap_or((child, now))
        });
        entry.pace.note(now, &status, kept);
        if entry.standing == MemberRole::InPlace {
            let rate = entry.pace.arriving().unwrap_or_default();
            self.rates.took(rank, rate);
        }
    }

    pub(super) fn rates(&self) -> &Rates {
        &self.rates
    }

    pub(super) fn rates_mut(&mut self) -> &mut Rates {
        &mut self.rates
    }

    pub(super) fn stands_at(&mut self, rank: Rank, arrived: u64) {
        if let Some(entry) = self.entry_mut(rank) {
            (entry.status.arrived, entry.status.consumed) =
                (arrived, arrived.min(entry.status.consumed));
            entry.advance.begin(&entry.status);
        }
    }

    pub(super) fn accept(&mut self, now: Instant, rank: Rank) -> bool {
        let Some(entry) = self.entry_mut(rank).filter(|entry| !entry.accepted) else {
            return false;
        };
        entry.accepted = true;
        entry.moved(now);
        true
    }

    pub(super) fn took(&mut self, rank: Rank, taken: Option<Taken>, behind: Behind) {
        if let Some(entry) = self.entry_mut(rank).filter(|entry| entry.report.is_none()) {
            entry.taken = taken.or(entry.taken);
            entry.behind = behind;
        }
    }

    /// Returns what the last report of a member says of its frames and of the hosts behind it.
    pub(super) fn taken(&self, rank: Rank) -> (Option<Taken>, Behind) {
        self.entry(rank)
            .map(|entry| (entry.taken, entry.behind.clone()))
            .unwrap_or_default()
    }

    pub(super) fn set_report(&mut self, report: &MemberReport) -> bool {
        let entry = self
            .entry_mut(report.rank)
            .filter(|entry| entry.report.is_none());
        entry
            .map(|entry| entry.report = Some(report.clone()))
            .is_some()
    }

    /// Moves a member within the view. Returns false if it was there already, or is gone. Its stall
    /// time in place ends at the last change around it, because until then another member was the
    /// cause.
    pub(super) fn set_standing(&mut self, rank: Rank, standing: MemberRole) -> bool {
        if standing == MemberRole::Gone {
            self.presence.remove(rank);
        }
        let entry = self
            .entry_mut(rank)
            .filter(|entry| entry.standing != standing && entry.standing != MemberRole::Gone);
        let changed = |entry: &mut MemberEntry| {
            (entry.standing, entry.moved_at) = (standing, entry.moved_at.max(entry.tried_at));
        };
        entry.map(changed).is_some()
    }

    pub(super) fn present(&self) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.standing != MemberRole::Gone)
            .count()
    }

    pub(super) fn all_ready(&self, epoch: u32) -> bool {
        let ready =
            |entry: &MemberEntry| entry.standing != MemberRole::InPlace || entry.is_ready(epoch);
        self.entries.iter().all(ready)
    }

    pub(super) fn unready(&self, epoch: u32) -> impl Iterator<Item = Rank> + '_ {
        let lacks = move |entry: &&MemberEntry| {
            entry.standing != MemberRole::Gone && self.is_here(entry.rank) && !entry.is_ready(epoch)
        };
        self.entries.iter().filter(lacks).map(MemberEntry::rank)
    }

    pub(super) fn all_reported(&self) -> bool {
        self.entries.iter().all(MemberEntry::is_reported)
            || planted!("over-after-one-report")
                && self.entries.iter().any(MemberEntry::is_reported)
    }

    pub(super) fn open_if_silent(&self, now: Instant, silence: Duration) -> Option<Vec<Rank>> {
        let open = self
            .entries
            .iter()
            .filter(|entry| !entry.is_reported())
            .map(MemberEntry::rank);
        open.map(|rank| (self.silence(now, rank) >= silence).then_some(rank))
            .collect()
    }

    pub(super) fn verdict(&self, trailer: Option<Trailer>, over: bool) -> Verdict {
        let (heard, accepted) = (
            self.bitmap(MemberEntry::is_reported),
            self.bitmap(MemberEntry::is_accepted),
        );
        Verdict {
            over,
            trailer,
            heard,
            accepted,
        }
    }

    fn bitmap(&self, has: impl Fn(&MemberEntry) -> bool) -> Vec<u8> {
        let mut bits = vec![0_u8; self.entries.len() / 8 + 1];
        for entry in self.entries.iter().filter(|&entry| has(entry)) {
            bits[entry.rank.index() / 8] |= 1 << (entry.rank.0 % 8);
        }
        bits
    }

    pub(super) fn reports(&self) -> impl Iterator<Item = &MemberReport> + '_ {
        self.entries
            .iter()
            .filter_map(|entry| entry.report.as_ref())
    }

    pub(super) fn states(&self) -> impl Iterator<Item = (Rank, Status)> + '_ {
        let there = self
            .entries
            .iter()
            .filter(|entry| entry.standing != MemberRole::Gone);
        there.map(|entry| (entry.rank, entry.status))
    }
}
