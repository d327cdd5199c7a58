//! Who makes no progress though it is heard, and what is to be done about it.

use super::delivery::Delivery;
use super::members::{Entry, Members};
use crate::membership::Timing;
use crate::session::message::MemberState;
use crate::session::view::{Standing, View};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

/// Without progress for so long a member is spoken of.
pub(super) const TOLD_AFTER: Duration = Duration::from_secs(2);

/// And again each time after so much more.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// A root that looks so late has slept itself, however short the dead limit is: a busy one is late by less.
const ASLEEP_AFTER: Duration = Duration::from_millis(500);

/// What a look at the members has found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// It is waited for, and why.
    Tell(Rank, String),
    /// It holds up the others: it is to step aside.
    StepAside(Rank, String),
    /// It has been waited for long enough.
    GiveUp(Rank, String),
}

/// What a member has still to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owed {
    /// To confirm the present view.
    Confirmation,
    /// To take frames that have been sent.
    Frames,
    /// To notice that it has all: what said so was damaged or made up on its way.
    End,
    /// To write and verify what it has.
    Check,
    /// To sync what it has, or to make it visible.
    Sync,
    /// To report what it says it has done.
    Report,
}

impl Owed {
    /// What a member owes while `frames` frames have been sent under view `epoch`, which are all if that `is_all`;
    /// nothing if nothing can move.
    fn by(entry: &Entry, epoch: u32, frames: u64, is_all: bool) -> Option<Owed> {
        let status = entry.status();
        if entry.is_reported() || entry.standing() == Standing::Gone {
            return None;
        }
        if !entry.is_ready(epoch) {
            return Some(Owed::Confirmation);
        }
        match status.state {
            MemberState::Verifying => Some(Owed::Check),
            MemberState::Syncing => Some(Owed::Sync),
            MemberState::Settled | MemberState::Done => Some(Owed::Report),
            _ if status.arrived < frames || status.consumed < status.arrived => Some(Owed::Frames),
            _ => is_all.then_some(Owed::End),
        }
    }

    /// How long nothing may move.
    fn limit(self, timing: &Timing) -> Duration {
        if self == Owed::Sync { timing.sync } else { timing.stall }
    }

    /// What holds a member up, to be read after its name; `from` is who sends to it.
    fn words(self, entry: &Entry, from: &str) -> String {
        let state = entry.status().state;
        match self {
            Owed::Confirmation => "has not confirmed the view: frames to it or from it are lost".to_owned(),
            Owed::Frames if state == MemberState::Blocked => {
                "takes no frames: its disk, or whoever reads its output, stands still".to_owned()
            }
            Owed::Frames => format!("makes no progress: nothing gets through between {from} and it"),
            Owed::End => "has everything, and does not know that it is all: the end came to it damaged".to_owned(),
            Owed::Check => "has everything, and whoever is to take the rest of it stands still".to_owned(),
            Owed::Sync => state.words().to_owned(),
            Owed::Report => format!("{}, but its report does not arrive", state.words()),
        }
    }
}

/// The root's own side of a look at the members.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    pub now: Instant,
    pub view: &'a View,
    pub timing: &'a Timing,
    pub delivery: &'a Delivery,
}

impl Scene<'_> {
    fn host(&self, rank: Rank) -> &str {
        &self.view.members[rank.index()].host
    }

    /// Follows who waits for whom, from the root on, to where it ends: who waits, and the member that holds all up.
    fn bottleneck(&self, members: &Members) -> Option<(Rank, Rank)> {
        let (mut from, mut at) = (Rank::ROOT, self.delivery.blocks().held_up_by()?);
        // A circle cannot be, but what members say is no proof.
        for _ in members.entries() {
            let status = members.entry(at)?.status();
            let next = status.waits_for.filter(|_| status.state != MemberState::Blocked);
            let in_place = |next: &Rank| members.entry(*next).is_some_and(|one| one.standing() == Standing::InPlace);
            match next.filter(in_place) {
                Some(next) => (from, at) = (at, next),
                None => break,
            }
        }
        Some((from, at))
    }

    /// Looks who makes no progress, `period` after the last look.
    pub(super) fn look(&self, members: &mut Members, period: Duration) -> Vec<Finding> {
        if period >= ASLEEP_AFTER.max(self.timing.dead / 2) {
            // This host has slept itself: what moved meanwhile is still to be heard.
            members.all_moved(self.now);
            return Vec::new();
        }
        let bottleneck = self.bottleneck(members);
        let blocks = self.delivery.blocks();
        let (frames, full, is_all) = (blocks.frames(), blocks.is_full(), blocks.has_end());
        let mut findings = Vec::new();
        for rank in (1..=members.entries().len() as u16).map(Rank) {
            let silence = members.silence(self.now, rank);
            let Some(entry) = members.entry_mut(rank) else { continue };
            let waits = entry.standing() == Standing::Aside && !self.delivery.serves_alone(rank);
            let owed =
                Owed::by(entry, self.view.epoch, frames, is_all).filter(|&owed| !(waits && owed == Owed::Frames));
            // Everybody may have what was sent, and whoever sent it, the root or a relay, waits to be told so.
            let unheard = full && bottleneck.is_some_and(|(_, at)| at == rank) && !entry.is_reported();
            let owed = owed.or(unheard.then_some(Owed::Frames));
            match owed {
                None => entry.moved(self.now),
                Some(_) if silence >= self.timing.suspect => {
                    entry.pause(period);
                    findings.extend(self.of_silent(entry, silence));
                }
                Some(owed) => findings.extend(self.of_stuck(entry, owed, bottleneck)),
            }
        }
        if let Some((from, at)) = bottleneck
            && from != Rank::ROOT
            && members.entry(at).is_some_and(|entry| entry.status().state != MemberState::Blocked)
            && findings.iter().any(|finding| matches!(finding, Finding::StepAside(rank, _) if *rank == at))
        {
            // Which end of a hop is at fault does not show: both are served by the root from now on.
            let text = format!("gets nothing through to {}, or hears nothing of it", self.host(at));
            findings.push(Finding::StepAside(from, text));
        }
        findings
    }

    /// What to say of one that is silent.
    fn of_silent(&self, entry: &mut Entry, silence: Duration) -> Option<Finding> {
        let left = (self.timing.dead + self.timing.patience).saturating_sub(silence).as_secs();
        (silence >= TOLD_AFTER && entry.is_to_be_told(self.now, TOLD_EVERY)).then(|| {
            let text = format!("has been silent for {} s and is waited for, for {left} s at most", silence.as_secs());
            Finding::Tell(entry.rank(), text)
        })
    }

    /// What to do about one that is heard and makes no progress.
    fn of_stuck(&self, entry: &mut Entry, owed: Owed, bottleneck: Option<(Rank, Rank)>) -> Option<Finding> {
        let (rank, stuck) = (entry.rank(), entry.stuck_for(self.now));
        if stuck < TOLD_AFTER.min(self.timing.stall) {
            return None;
        }
        let in_place = entry.standing() == Standing::InPlace;
        let limit = owed.limit(self.timing);
        let from = bottleneck.filter(|&(_, at)| at == rank).map(|(from, _)| from);
        // Those behind or beside the one that holds all up cannot move; half as long again, and they are spoken of.
        if in_place && owed == Owed::Frames && from.is_none() && stuck < limit * 3 / 2 {
            return None;
        }
        let words = owed.words(entry, self.host(from.unwrap_or(Rank::ROOT)));
        if in_place && stuck >= limit && matches!(owed, Owed::Frames | Owed::Confirmation) {
            return Some(Finding::StepAside(rank, words));
        }
        if stuck >= limit.max(self.timing.patience) {
            return Some(Finding::GiveUp(rank, format!("it {words} ({} s)", stuck.as_secs())));
        }
        entry
            .is_to_be_told(self.now, TOLD_EVERY)
            .then(|| Finding::Tell(rank, format!("{words} (for {} s)", stuck.as_secs())))
    }
}
