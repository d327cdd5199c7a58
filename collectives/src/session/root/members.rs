//! During a session: what the root knows of each member.

use crate::membership::Timing;
use crate::membership::presence::{Change, Presence};
use crate::session::message::{Digest, MemberState, Outcome};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

/// How one receiver fared, for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// Host name.
    pub host: String,
    /// Rank in the group.
    pub rank: Rank,
    /// What became of it.
    pub outcome: Outcome,
    /// Bytes it received, as it reported them.
    pub bytes: u64,
    /// BLAKE3 of what it received.
    pub digest: Digest,
    /// Its own words on a failure.
    pub text: String,
    /// From the first data frame to its verdict; zero if there was no data.
    pub took: Duration,
}

/// A member as the root sees it.
#[derive(Debug)]
struct Entry {
    rank: Rank,
    /// False once it is no longer part of the view.
    present: bool,
    /// The last view it has confirmed.
    ready_epoch: u32,
    state: MemberState,
    /// Frames its application has taken.
    frames: u64,
    report: Option<MemberReport>,
}

/// All members but the root.
#[derive(Debug)]
pub(super) struct Members {
    entries: Vec<Entry>,
    presence: Presence,
}

impl Members {
    /// So many receivers, all of them there.
    pub(super) fn new(now: Instant, receivers: u16, timing: &Timing) -> Members {
        let entry =
            |rank| Entry { rank, present: true, ready_epoch: 0, state: MemberState::Alive, frames: 0, report: None };
        let presence = Presence::new(now, Rank::ROOT, receivers + 1, timing.dead).suspecting_after(timing.suspect);
        Members { entries: (1..=receivers).map(Rank).map(entry).collect(), presence }
    }

    fn entry(&mut self, rank: Rank) -> Option<&mut Entry> {
        self.entries.get_mut(rank.index().checked_sub(1)?)
    }

    /// A sign of life of a member.
    pub(super) fn hear(&mut self, now: Instant, rank: Rank) {
        if self.entry(rank).is_some() {
            self.presence.hear(now, rank);
        }
    }

    /// Looks who has been silent for long.
    pub(super) fn look(&mut self, now: Instant) -> Vec<Change> {
        self.presence.look(now)
    }

    /// When the next member would be suspected or counted as dead.
    pub(super) fn next_silence(&self) -> Option<Instant> {
        self.presence.next_silence()
    }

    /// A member has confirmed view `epoch`.
    pub(super) fn set_ready(&mut self, rank: Rank, epoch: u32) {
        if let Some(entry) = self.entry(rank) {
            entry.ready_epoch = epoch;
        }
    }

    /// What a member says it is busy with, and how many frames its application has taken.
    pub(super) fn set_state(&mut self, rank: Rank, state: MemberState, frames: u64) {
        if let Some(entry) = self.entry(rank) {
            (entry.state, entry.frames) = (state, frames);
        }
    }

    /// Notes how a member fared; false if that was known, or there is no such member.
    pub(super) fn set_report(&mut self, report: &MemberReport) -> bool {
        let entry = self.entry(report.rank).filter(|entry| entry.report.is_none());
        entry.map(|entry| entry.report = Some(report.clone())).is_some()
    }

    /// A member is no part of the view any more; false if it was none before.
    pub(super) fn remove(&mut self, rank: Rank) -> bool {
        self.presence.remove(rank);
        self.entry(rank).is_some_and(|entry| std::mem::take(&mut entry.present))
    }

    /// How many are part of the view.
    pub(super) fn present(&self) -> usize {
        self.entries.iter().filter(|entry| entry.present).count()
    }

    /// Whether every member still present has confirmed view `epoch`.
    pub(super) fn all_ready(&self, epoch: u32) -> bool {
        self.entries.iter().all(|entry| !entry.present || entry.ready_epoch == epoch)
    }

    /// Whether every member's fate is known.
    pub(super) fn all_reported(&self) -> bool {
        self.entries.iter().all(|entry| entry.report.is_some())
    }

    /// One bit for each rank whose verdict the root has; rank 0 is bit 0.
    pub(super) fn heard(&self) -> Vec<u8> {
        let mut heard = vec![0_u8; self.entries.len() / 8 + 1];
        for report in self.reports() {
            heard[report.rank.index() / 8] |= 1 << (report.rank.0 % 8);
        }
        heard
    }

    /// How every member fared that is known so far, by rank.
    pub(super) fn reports(&self) -> impl Iterator<Item = &MemberReport> + '_ {
        self.entries.iter().filter_map(|entry| entry.report.as_ref())
    }

    /// What each present member is busy with, and the frames its application has taken, by rank.
    pub(super) fn states(&self) -> impl Iterator<Item = (Rank, MemberState, u64)> + '_ {
        self.entries.iter().filter(|entry| entry.present).map(|entry| (entry.rank, entry.state, entry.frames))
    }
}
