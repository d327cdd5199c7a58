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

/// A member says for so long that nothing was ever heard of a child, before it is believed.
const APART_AFTER: Duration = Duration::from_millis(500);

/// A root that looks so late has slept itself, however short the dead limit is: a busy one is late by less.
const ASLEEP_AFTER: Duration = Duration::from_millis(500);

/// What a look at the members has found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// It is waited for, and why.
    Tell(Rank, String),
    /// It holds up the others: it is to step aside.
    StepAside(Rank, String),
    /// Nothing gets through between the two, though both are heard: both are to step aside.
    Apart(Rank, Rank),
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
    /// What a member owes of what this scene's root has sent; nothing if nothing can move.
    fn by(entry: &Entry, scene: &Scene<'_>) -> Option<Owed> {
        let (status, blocks, epoch) = (entry.status(), scene.delivery.blocks(), scene.view.epoch);
        // Of many children of the root each is served a segment after the other: one that has answered for all that it
        // was sent waits for its turn at the root's link, and the root not for it.
        let waits = entry.standing() == Standing::InPlace && blocks.waits_for_turn(entry.rank(), status.arrived);
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
            _ if status.consumed < status.arrived => Some(Owed::Frames),
            _ if status.arrived < blocks.frames() => (!waits).then_some(Owed::Frames),
            _ => blocks.has_end().then_some(Owed::End),
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
            Owed::Check => "has received everything, and its check of it makes no progress".to_owned(),
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

    /// For whom a member in place cannot go on, if not for its own disk.
    fn waits_for(&self, members: &Members, rank: Rank) -> Option<Rank> {
        let status = members.in_place(rank)?.status();
        let next = status.waits_for.filter(|_| status.state != MemberState::Blocked);
        next.filter(|&next| members.in_place(next).is_some())
    }

    /// Follows who waits for whom, from the root on, to where it ends: who waits, and the member that holds all up.
    fn bottleneck(&self, members: &Members) -> Option<(Rank, Rank)> {
        let (mut from, mut at) = (Rank::ROOT, self.delivery.blocks().held_up_by()?);
        members.entry(at)?;
        // A circle cannot be, but what members say is no proof.
        for _ in members.entries() {
            let Some(next) = self.waits_for(members, at) else { break };
            (from, at) = (at, next);
        }
        Some((from, at))
    }

    /// Who of those that `wait` holds up the others, and who sends to it, where that does not show from the root on:
    /// whoever's own state says so, or what its parent says; else the one nearest to the root, of those above whom
    /// nobody is `behind`: what one above has not got nobody can have below, however long one waits there.
    fn holders(&self, members: &Members, wait: &[Rank], behind: &[Rank]) -> Vec<(Rank, Rank)> {
        let waits = |rank: &Rank| wait.binary_search(rank).is_ok();
        let is_blocked = |rank: Rank| members.entry(rank).is_some_and(|one| one.status().state == MemberState::Blocked);
        let own = wait.iter().filter(|&&rank| is_blocked(rank)).map(|&rank| (self.parent(rank), rank));
        let named = members.entries().iter().filter_map(|from| {
            let at = self.waits_for(members, from.rank()).filter(|at| waits(at) && !is_blocked(*at))?;
            let is_last = self.waits_for(members, at).is_none_or(|next| !waits(&next));
            is_last.then_some((from.rank(), at))
        });
        let holders: Vec<(Rank, Rank)> = own.chain(named).collect();
        if !holders.is_empty() {
            return holders;
        }
        let above = |rank: Rank| {
            let parent = |&at: &Rank| Some(self.parent(at)).filter(|&at| at != Rank::ROOT);
            std::iter::successors(parent(&rank), parent).take(members.entries().len())
        };
        // Nothing says that its parent waits for it: it alone is to show what it can do.
        wait.iter()
            .copied()
            .filter(|&rank| above(rank).all(|at| behind.binary_search(&at).is_err()))
            .min_by_key(|&rank| (above(rank).count(), rank))
            .map(|rank| (Rank::ROOT, rank))
            .into_iter()
            .collect()
    }

    /// Who sends to a member in place, in the first of several trees.
    fn parent(&self, rank: Rank) -> Rank {
        self.view.trees().first().and_then(|tree| tree.parent(rank)).unwrap_or(Rank::ROOT)
    }

    /// The other end of a hop over which nothing gets through to `at`: which of them is at fault does not show. Nobody,
    /// if it is the root, or if `at` waits for its own disk.
    pub(super) fn other_end(&self, members: &Members, (from, at): (Rank, Rank)) -> Option<Rank> {
        let blocked = members.entry(at)?.status().state == MemberState::Blocked;
        (from != Rank::ROOT && !blocked).then_some(from)
    }

    /// Looks who makes no progress, `period` after the last look.
    pub(super) fn look(&self, members: &mut Members, period: Duration) -> Vec<Finding> {
        if period >= ASLEEP_AFTER.max(self.timing.dead / 2) {
            // This host has slept itself: what moved meanwhile is still to be heard.
            members.all_moved(self.now);
            return Vec::new();
        }
        let apart = self.apart(members);
        if !apart.is_empty() {
            return apart;
        }
        let bottleneck = self.bottleneck(members);
        let full = self.delivery.blocks().is_full();
        let (mut findings, mut wait, mut behind) = (Vec::new(), Vec::new(), Vec::new());
        for rank in (1..=members.entries().len() as u16).map(Rank) {
            let silence = members.silence(self.now, rank);
            let Some(entry) = members.entry_mut(rank) else { continue };
            let waits = entry.standing() == Standing::Aside && !self.delivery.serves_alone(rank);
            let owed = Owed::by(entry, self).filter(|&owed| !(waits && owed == Owed::Frames));
            let from = bottleneck.filter(|&(_, at)| at == rank).map(|(from, _)| from);
            // Everybody may have what was sent, and whoever sent it, the root or a relay, waits to be told so.
            let unheard = full && from.is_some() && !entry.is_reported();
            let owed = owed.or(unheard.then_some(Owed::Frames));
            let in_place = entry.standing() == Standing::InPlace;
            behind.extend((in_place && matches!(owed, Some(Owed::Frames | Owed::Confirmation))).then_some(rank));
            match owed {
                None => entry.moved(self.now),
                Some(_) if silence >= self.timing.suspect => {
                    entry.pause(period);
                    findings.extend(self.of_silent(entry, silence));
                }
                // Whoever is behind or beside the one that holds all up cannot move.
                Some(Owed::Frames) if in_place && from.is_none() => {
                    wait.extend(self.has_waited(entry).then_some(rank));
                }
                Some(owed) => findings.extend(self.of_stuck(entry, owed, from.unwrap_or(Rank::ROOT))),
            }
        }
        self.add_hops(members, bottleneck, (&wait, &behind), &mut findings);
        findings
    }

    /// Pairs between whom nothing ever got through, each in place, heard and with the present view: where hosts wait
    /// for each other in a circle, as in blocks, nothing else shows where it began.
    fn apart(&self, members: &Members) -> Vec<Finding> {
        let is_there = |rank: Rank| {
            let entry = members.in_place(rank).filter(|entry| entry.is_ready(self.view.epoch));
            entry.is_some() && members.silence(self.now, rank) < self.timing.suspect
        };
        let child = |entry: &Entry| entry.mute_child(self.now, APART_AFTER).map(|child| (entry.rank(), child));
        let pairs = members.entries().iter().filter_map(child);
        pairs
            .filter(|&(from, at)| self.view.serves(from, at) && is_there(from) && is_there(at))
            // Who sends may have everything; who is sent to would have to say so.
            .filter(|&(_, at)| !members.is_reported(at))
            .map(|(from, at)| Finding::Apart(from, at))
            .collect()
    }

    /// Adds who is to step aside because of others: with the bottleneck, if that does, the other end of its hop; where
    /// nobody is found and some of those that are `behind` wait, who holds those up.
    fn add_hops(
        &self,
        members: &Members,
        bottleneck: Option<(Rank, Rank)>,
        (wait, behind): (&[Rank], &[Rank]),
        findings: &mut Vec<Finding>,
    ) {
        let aside = |finding: &Finding| match finding {
            Finding::StepAside(rank, _) => Some(*rank),
            _ => None,
        };
        let found: Vec<Rank> = findings.iter().filter_map(aside).collect();
        let mut hops: Vec<(Rank, Rank)> = bottleneck.into_iter().filter(|(_, at)| found.contains(at)).collect();
        if found.is_empty() {
            hops = self.holders(members, wait, behind);
            findings.extend(hops.iter().filter_map(|&(from, at)| {
                Some(Finding::StepAside(at, Owed::Frames.words(members.entry(at)?, self.host(from))))
            }));
        }
        findings.extend(hops.into_iter().filter_map(|hop| {
            self.other_end(members, hop)?;
            Some(self.sender_aside(hop))
        }));
    }

    fn sender_aside(&self, (from, at): (Rank, Rank)) -> Finding {
        let text = format!("gets nothing through to {}, or hears nothing of it", self.host(at));
        Finding::StepAside(from, text)
    }

    /// The ends of a hop over which nothing gets through, of which one is to blame.
    pub(super) fn ends_aside(&self, members: &Members, hop: (Rank, Rank)) -> Vec<Finding> {
        let words = members.entry(hop.1).map(|entry| Owed::Frames.words(entry, self.host(hop.0)));
        let receiver = words.map(|words| Finding::StepAside(hop.1, words));
        std::iter::once(self.sender_aside(hop)).chain(receiver).collect()
    }

    /// Whether one that cannot be blamed has waited for so long that somebody must be.
    fn has_waited(&self, entry: &Entry) -> bool {
        let limit = Owed::Frames.limit(self.timing);
        entry.idle_for(self.now) >= limit * 3 / 2 && entry.stuck_for(self.now) >= limit
    }

    /// What to say of one that is silent.
    fn of_silent(&self, entry: &mut Entry, silence: Duration) -> Option<Finding> {
        let left = (self.timing.dead + self.timing.patience).saturating_sub(silence).as_secs();
        (silence >= TOLD_AFTER && entry.is_to_be_told(self.now, TOLD_EVERY)).then(|| {
            let text = format!("has been silent for {} s and is waited for, for {left} s at most", silence.as_secs());
            Finding::Tell(entry.rank(), text)
        })
    }

    /// What to do about one that is heard and makes no progress; `from` is who sends to it.
    fn of_stuck(&self, entry: &mut Entry, owed: Owed, from: Rank) -> Option<Finding> {
        let (rank, idle, stuck) = (entry.rank(), entry.idle_for(self.now), entry.stuck_for(self.now));
        let limit = owed.limit(self.timing);
        if stuck < TOLD_AFTER.min(self.timing.stall) {
            return None;
        }
        let words = owed.words(entry, self.host(from));
        let may_step = entry.standing() == Standing::InPlace && matches!(owed, Owed::Frames | Owed::Confirmation);
        if may_step && stuck >= limit {
            return Some(Finding::StepAside(rank, words));
        }
        if !may_step && idle >= limit.max(self.timing.patience) {
            return Some(Finding::GiveUp(rank, format!("it {words} ({} s)", idle.as_secs())));
        }
        entry
            .is_to_be_told(self.now, TOLD_EVERY)
            .then(|| Finding::Tell(rank, format!("{words} (for {} s)", idle.as_secs())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RootConfig, RootEndpoint};
    use super::*;
    use crate::membership::Station;
    use crate::session::message::Status;
    use crate::session::view::tests::chain;
    use ethbcast_transport::MacAddr;

    /// Of a chain of four receivers, of whom each has said this, those that hold up the last three; nothing has been
    /// sent.
    fn holders(said: [(MemberState, Option<u16>); 4]) -> Vec<(Rank, Rank)> {
        holders_above(said, &[2, 3, 4].map(Rank), &[2, 3, 4].map(Rank))
    }

    fn holders_above(said: [(MemberState, Option<u16>); 4], wait: &[Rank], behind: &[Rank]) -> Vec<(Rank, Rank)> {
        let station = Station::new("group", "n0", MacAddr::new(2, 0, 0, 0, 0, 0), 1500);
        let endpoint = RootEndpoint::new(RootConfig::new(station.clone(), 1, "file"), station, 1, Rank::ROOT);
        let (now, timing, view) = (Instant::START, Timing::default(), chain(5));
        let mut members = Members::new(now, 4, &timing);
        for (rank, (state, waits_for)) in (1..).map(Rank).zip(said) {
            let status = Status { state, waits_for: waits_for.map(Rank), ..Status::default() };
            members.set_status(now, rank, status, 0);
        }
        let delivery = Delivery::new(&view, None, &endpoint);
        let scene = Scene { now, view: &view, timing: &timing, delivery: &delivery };
        scene.holders(&members, wait, behind)
    }

    #[test]
    fn of_many_who_wait_those_hold_up_the_others_of_whom_somebody_says_so() {
        use MemberState::{Blocked, Starved, WaitsForChild};
        let of = |from, at| vec![(Rank(from), Rank(at))];
        assert_eq!(holders([(Starved, None), (WaitsForChild, Some(3)), (Starved, None), (Starved, None)]), of(2, 3));
        assert_eq!(holders([(Starved, Some(2)), (Starved, Some(3)), (Starved, Some(4)), (Starved, None)]), of(3, 4));
        assert_eq!(holders([(Starved, None), (Starved, Some(3)), (Blocked, Some(4)), (Starved, None)]), of(2, 3));
        // Nobody says so: the one nearest to the root first.
        assert_eq!(holders([(Starved, None); 4]), of(0, 2));
        // Of those that have waited for long enough; but who is above them and lacks frames itself is to show first
        // what it can do.
        assert_eq!(holders_above([(Starved, None); 4], &[3, 4].map(Rank), &[3, 4].map(Rank)), of(0, 3));
        assert_eq!(holders_above([(Starved, None); 4], &[3, 4].map(Rank), &[2, 3, 4].map(Rank)), []);
        // Nor is a circle a word that counts.
        assert_eq!(holders([(Starved, None), (Starved, Some(3)), (Starved, Some(2)), (Starved, None)]), of(0, 2));
    }
}
