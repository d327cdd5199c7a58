//! Detection of receivers that stall a transfer, and the sender's reaction.

use crate::membership::Timing;
use crate::session::message::MemberState;
use crate::session::root::delivery::Delivery;
use crate::session::root::members::{MemberEntry, Members};
use crate::session::view::{MemberRole, View};
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

pub const NOTICE_AFTER: Duration = Duration::from_secs(2);

const NOTICE_INTERVAL: Duration = Duration::from_secs(5);

const APART_AFTER: Duration = Duration::from_millis(500);

/// Delay of a check which proves that this host itself has slept, however short the dead limit is.
/// A busy host is late by less.
const ASLEEP_AFTER: Duration = Duration::from_millis(500);

#[derive(Debug, PartialEq, Eq)]
pub enum StallVerdict {
    Notify(Rank, String),
    Demote(Rank, String),
    Apart(Rank, Rank),
    GiveUp(Rank, String),
}

/// Duty in which a member is behind. Without its `Wants`, the report of the chunks that it lacks,
/// the root goes on by itself. A member that has everything and does not confirm the `End` got it
/// damaged or forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obligation {
    Confirmation,
    Wants,
    Frames,
    End,
    Check,
    Sync,
    Report,
}

impl Obligation {
    fn by(entry: &MemberEntry, scene: &WatchContext<'_>) -> Option<Obligation> {
        let (status, blocks, epoch) = (entry.status(), scene.delivery.blocks(), scene.view.epoch);
        // The root serves many children a segment each in turn. A child that has acknowledged all
        // it was sent waits for its turn at the root's link, not the root for it.
        let waits = entry.standing() == MemberRole::InPlace
            && blocks.waits_for_turn(entry.rank(), status.arrived);
        if entry.is_reported() || entry.standing() == MemberRole::Gone {
            return None;
        }
        if !entry.is_ready(epoch) {
            return Some(Obligation::Confirmation);
        }
        if scene.undecided.contains(&entry.rank()) {
            return Some(Obligation::Wants);
        }
        match status.state {
            // Others are still checking what they have, and all wait for them.
            MemberState::Verifying if !scene.undecided.is_empty() => None,
            MemberState::Verifying => Some(Obligation::Check),
            MemberState::Syncing => Some(Obligation::Sync),
            MemberState::Settled | MemberState::Done => Some(Obligation::Report),
            _ if status.consumed < status.arrived => Some(Obligation::Frames),
            _ if status.arrived < blocks.frames() => (!waits).then_some(Obligation::Frames),
            _ => blocks.has_end().then_some(Obligation::End),
        }
    }

    fn limit(self, timing: &Timing) -> Duration {
        if self == Obligation::Sync {
            timing.sync
        } else {
            timing.stall
        }
    }

    fn words(self, entry: &MemberEntry, from: &str) -> String {
        let state = entry.status().state;
        match self {
            Obligation::Wants => "is still checking what it has".to_owned(),
            Obligation::Confirmation => {
                "has not confirmed the view: frames to it or from it are lost".to_owned()
            }
            Obligation::Frames if state == MemberState::Blocked => {
                "takes no frames: its disk, or the reader of its output, stands still".to_owned()
            }
            Obligation::Frames => {
                format!("makes no progress: nothing gets through between {from} and it")
            }
            Obligation::End => {
                "has everything, and does not know that it is all: the end came to it damaged"
                    .to_owned()
            }
            Obligation::Check => {
                "has received everything, and its check of it makes no progress".to_owned()
            }
            Obligation::Sync => state.words().to_owned(),
            Obligation::Report => format!("{}, but its report does not arrive", state.words()),
        }
    }
}

#[derive(Debug)]
pub struct WatchContext<'a> {
    pub now: Instant,
    pub view: &'a View,
    pub timing: &'a Timing,
    pub delivery: &'a Delivery,
    pub undecided: &'a [Rank],
}

impl WatchContext<'_> {
    fn host(&self, rank: Rank) -> &str {
        &self.view.members[rank.index()].host
    }

    pub(super) fn frames_left(&self) -> Option<u64> {
        let all = self
            .view
            .size?
            .div_ceil(u64::from(self.view.payload_bytes.max(1)));
        Some(all.saturating_sub(self.delivery.blocks().frames()))
    }

    /// Whether the content comes more slowly than it could be sent.
    pub(super) fn is_starved(&self) -> bool {
        let blocks = self.delivery.blocks();
        blocks.frames_sent() == blocks.frames() && !blocks.is_full() && !blocks.has_end()
    }

    fn waits_for(&self, members: &Members, rank: Rank) -> Option<Rank> {
        let status = members.in_place(rank)?.status();
        let next = status
            .waits_for
            .filter(|_| status.state != MemberState::Blocked);
        next.filter(|&next| members.in_place(next).is_some())
    }

    /// Follows the chain of waits from the root to its end. Returns the last waiting host and the
    /// member that holds all up.
    fn bottleneck(&self, members: &Members) -> Option<(Rank, Rank)> {
        let (mut from, mut at) = (Rank::ROOT, self.delivery.blocks().held_up_by()?);
        members.entry(at)?;
        // A cycle is impossible, but status reports prove nothing.
        for _ in members.entries() {
            let Some(next) = self.waits_for(members, at) else {
                break;
            };
            (from, at) = (at, next);
        }
        Some((from, at))
    }

    /// Finds the members among `wait` that hold up the others, with their upstream peers, if that
    /// does not show from the root. Reports of the member itself or of its parent decide. Otherwise
    /// the one nearest to the root is taken that has no member of `behind` above it: frames that a
    /// host above lacks cannot be below it.
    fn holders(&self, members: &Members, wait: &[Rank], behind: &[Rank]) -> Vec<(Rank, Rank)> {
        let waits = |rank: &Rank| wait.binary_search(rank).is_ok();
        let is_blocked = |rank: Rank| {
            members
                .entry(rank)
                .is_some_and(|one| one.status().state == MemberState::Blocked)
        };
        let own = wait
            .iter()
            .filter(|&&rank| is_blocked(rank))
            .map(|&rank| (self.parent(rank), rank));
        let named = members.entries().iter().filter_map(|from| {
            let at = self
                .waits_for(members, from.rank())
                .filter(|at| waits(at) && !is_blocked(*at))?;
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
        // No parent reports waiting for it: it alone must show progress.
        wait.iter()
            .copied()
            .filter(|&rank| above(rank).all(|at| behind.binary_search(&at).is_err()))
            .min_by_key(|&rank| (above(rank).count(), rank))
            .map(|rank| (Rank::ROOT, rank))
            .into_iter()
            .collect()
    }

    pub(super) fn parent(&self, rank: Rank) -> Rank {
        self.view
            .trees()
            .first()
            .and_then(|tree| tree.parent(rank))
            .unwrap_or(Rank::ROOT)
    }

    /// Returns the upstream end of a hop over which nothing reaches `at`, since either end may be
    /// at fault. `None` if it is the root, or if `at` waits for its own disk.
    pub fn other_end(&self, members: &Members, (from, at): (Rank, Rank)) -> Option<Rank> {
        let blocked = members.entry(at)?.status().state == MemberState::Blocked;
        (from != Rank::ROOT && !blocked).then_some(from)
    }

    pub fn look(&self, members: &mut Members, period: Duration) -> Vec<StallVerdict> {
        if period >= ASLEEP_AFTER.max(self.timing.dead / 2) {
            // This host was asleep: reports of progress in that time are still to come.
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
            let Some(entry) = members.entry_mut(rank) else {
                continue;
            };
            let waits =
                entry.standing() == MemberRole::Demoted && !self.delivery.serves_alone(rank);
            let owed =
                Obligation::by(entry, self).filter(|&owed| !(waits && owed == Obligation::Frames));
            let from = bottleneck
                .filter(|&(_, at)| at == rank)
                .map(|(from, _)| from);
            // All members may have the frames, and the sender, the root or a relay, waits for their
            // acknowledgements.
            let unheard = full && from.is_some() && !entry.is_reported();
            let owed = owed.or(unheard.then_some(Obligation::Frames));
            let in_place = entry.standing() == MemberRole::InPlace;
            behind.extend(
                (in_place && matches!(owed, Some(Obligation::Frames | Obligation::Confirmation)))
                    .then_some(rank),
            );
            match owed {
                None => entry.moved(self.now),
                Some(_) if silence >= self.timing.suspect => {
                    entry.pause(period);
                    findings.extend(self.of_silent(entry, silence));
                }
                // A member behind or beside the bottleneck cannot progress.
                Some(Obligation::Frames) if in_place && from.is_none() => {
                    wait.extend(self.has_waited(entry).then_some(rank));
                }
                Some(owed) => {
                    findings.extend(self.of_stuck(entry, owed, from.unwrap_or(Rank::ROOT)))
                }
            }
        }
        self.add_hops(members, bottleneck, (&wait, &behind), &mut findings);
        findings
    }

    /// Pairs between whom no frame ever got through, each in place, alive and with the present
    /// view. If hosts wait for each other in a circle, as in blocks, only this shows where it
    /// began.
    fn apart(&self, members: &mut Members) -> Vec<StallVerdict> {
        let is_there = |rank: Rank| {
            let entry = members
                .in_place(rank)
                .filter(|entry| entry.is_ready(self.view.epoch));
            entry.is_some() && members.silence(self.now, rank) < self.timing.suspect
        };
        let there: Vec<bool> = (0..self.view.members.len() as u16)
            .map(|rank| is_there(Rank(rank)))
            .collect();
        members.restart_mute(self.now, &there);
        let is_there = |rank: Rank| there.get(rank.index()).is_some_and(|&there| there);
        let apart_after = self.timing.or_reports(APART_AFTER, 2);
        let child = |entry: &MemberEntry| {
            entry
                .mute_child(self.now, apart_after)
                .map(|child| (entry.rank(), child))
        };
        let pairs = members.entries().iter().filter_map(child);
        let mut parted = Vec::new();
        pairs
            .filter(|&(from, at)| self.view.serves(from, at) && is_there(from) && is_there(at))
            // A child with a final report is left out; its parent may have sent one and still serve
            // it.
            .filter(|&(_, at)| !members.is_reported(at))
            // One pair per host at a time: once it is demoted, the others may reach each other.
            .filter(|&(from, at)| {
                let is_new = !parted.contains(&from) && !parted.contains(&at);
                parted.extend(is_new.then_some([from, at]).into_iter().flatten());
                is_new
            })
            .map(|(from, at)| StallVerdict::Apart(from, at))
            .collect()
    }

    /// Adds members to demote because of others: the upstream end of the bottleneck's hop if the
    /// bottleneck is demoted; if none was found, those that hold up waiting members.
    fn add_hops(
        &self,
        members: &Members,
        bottleneck: Option<(Rank, Rank)>,
        (wait, behind): (&[Rank], &[Rank]),
        findings: &mut Vec<StallVerdict>,
    ) {
        let demoted = |finding: &StallVerdict| match finding {
            StallVerdict::Demote(rank, _) => Some(*rank),
            _ => None,
        };
        let found: Vec<Rank> = findings.iter().filter_map(demoted).collect();
        let mut hops: Vec<(Rank, Rank)> = bottleneck
            .into_iter()
            .filter(|(_, at)| found.contains(at))
            .collect();
        if found.is_empty() {
            hops = self.holders(members, wait, behind);
            findings.extend(hops.iter().filter_map(|&(from, at)| {
                Some(StallVerdict::Demote(
                    at,
                    Obligation::Frames.words(members.entry(at)?, self.host(from)),
                ))
            }));
        }
        findings.extend(hops.into_iter().filter_map(|hop| {
            self.other_end(members, hop)?;
            Some(self.demote_sender(hop))
        }));
    }

    fn demote_sender(&self, (from, at): (Rank, Rank)) -> StallVerdict {
        let text = format!(
            "gets nothing through to {}, or receives nothing from it",
            self.host(at)
        );
        StallVerdict::Demote(from, text)
    }

    pub fn demote_ends(&self, members: &Members, hop: (Rank, Rank)) -> Vec<StallVerdict> {
        let words = members
            .entry(hop.1)
            .map(|entry| Obligation::Frames.words(entry, self.host(hop.0)));
        let receiver = words.map(|words| StallVerdict::Demote(hop.1, words));
        std::iter::once(self.demote_sender(hop))
            .chain(receiver)
            .collect()
    }

    fn has_waited(&self, entry: &MemberEntry) -> bool {
        let limit = Obligation::Frames.limit(self.timing);
        entry.idle_for(self.now) >= limit * 3 / 2 && entry.stuck_for(self.now) >= limit
    }

    fn of_silent(&self, entry: &mut MemberEntry, silence: Duration) -> Option<StallVerdict> {
        let left = (self.timing.dead + self.timing.patience)
            .saturating_sub(silence)
            .as_secs();
        (silence >= NOTICE_AFTER && entry.needs_notice(self.now, NOTICE_INTERVAL)).then(|| {
            let text = format!(
                "has been silent for {} s and is waited for, for {left} s at most",
                silence.as_secs()
            );
            StallVerdict::Notify(entry.rank(), text)
        })
    }

    fn of_stuck(
        &self,
        entry: &mut MemberEntry,
        owed: Obligation,
        from: Rank,
    ) -> Option<StallVerdict> {
        let (rank, idle, stuck) = (
            entry.rank(),
            entry.idle_for(self.now),
            entry.stuck_for(self.now),
        );
        let limit = owed.limit(self.timing);
        if stuck
            < self
                .timing
                .or_reports(NOTICE_AFTER.min(self.timing.stall), 3)
        {
            return None;
        }
        let words = owed.words(entry, self.host(from));
        let may_step = entry.standing() == MemberRole::InPlace
            && matches!(owed, Obligation::Frames | Obligation::Confirmation);
        if may_step && stuck >= limit {
            return Some(StallVerdict::Demote(rank, words));
        }
        if !may_step && owed != Obligation::Wants && idle >= limit.max(self.timing.patience) {
            return Some(StallVerdict::GiveUp(
                rank,
                format!("it {words} ({} s)", idle.as_secs()),
            ));
        }
        entry
            .needs_notice(self.now, NOTICE_INTERVAL)
            .then(|| StallVerdict::Notify(rank, format!("{words} (for {} s)", idle.as_secs())))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::HOW_MANY;
    use super::*;
    use crate::membership::Station;
    use crate::session::message::Status;
    use crate::session::root::config::RootConfig;
    use crate::session::root::config::RootEndpoint;
    use crate::session::view::tests::chain;
    use ethbcast_transport::MacAddr;

    fn holders(said: [(MemberState, Option<u16>); 4]) -> Vec<(Rank, Rank)> {
        holders_above(said, &[2, 3, 4].map(Rank), &[2, 3, 4].map(Rank))
    }

    fn holders_above(
        said: [(MemberState, Option<u16>); 4],
        wait: &[Rank],
        behind: &[Rank],
    ) -> Vec<(Rank, Rank)> {
        let station = Station::new("group", "n0", MacAddr::new(2, 0, 0, 0, 0, 0), 1500);
        let endpoint = RootEndpoint::new(
            RootConfig::new(station.clone(), 1, "file"),
            station,
            1,
            Rank::ROOT,
            None,
        );
        let (now, timing, view) = (Instant::START, Timing::default(), chain(5));
        let mut members = Members::new(now, 4, &timing);
        for (rank, (state, waits_for)) in (1..).map(Rank).zip(said) {
            let status = Status {
                state,
                waits_for: waits_for.map(Rank),
                ..Status::default()
            };
            members.set_status(now, rank, status, 0);
        }
        let delivery = Delivery::new(&view, None, &endpoint);
        let scene = WatchContext {
            now,
            view: &view,
            timing: &timing,
            delivery: &delivery,
            undecided: &[],
        };
        scene.holders(&members, wait, behind)
    }

    #[test]
    fn however_rarely_a_member_reports_one_lost_report_is_no_stall() {
        let station = Station::new("group", "n0", MacAddr::new(2, 0, 0, 0, 0, 0), 1500);
        let endpoint = RootEndpoint::new(
            RootConfig::new(station.clone(), 1, "file"),
            station,
            1,
            Rank::ROOT,
            None,
        );
        let view = chain(5);
        let delivery = Delivery::new(&view, None, &endpoint);
        for receivers in HOW_MANY {
            let timing = Timing::default().among(receivers);
            let mut members = Members::new(Instant::START, 4, &timing);
            let mut of_stuck = |idle: Duration| {
                let now = Instant::START + idle;
                let scene = WatchContext {
                    now,
                    view: &view,
                    timing: &timing,
                    delivery: &delivery,
                    undecided: &[],
                };
                let entry = members.entry_mut(Rank(1)).expect("a member");
                scene.of_stuck(entry, Obligation::Frames, Rank::ROOT)
            };
            assert_eq!(of_stuck(timing.status * 2), None, "{receivers}");
            let text =
                "makes no progress: nothing gets through between n0 and it (for 4 s)".to_owned();
            assert_eq!(
                of_stuck(Duration::from_secs(4)),
                Some(StallVerdict::Notify(Rank(1), text))
            );
        }
    }

    #[test]
    fn a_member_that_checks_what_it_has_is_named_and_not_those_that_wait_for_it() {
        let station = Station::new("group", "n0", MacAddr::new(2, 0, 0, 0, 0, 0), 1500);
        let endpoint = RootEndpoint::new(
            RootConfig::new(station.clone(), 1, "file"),
            station,
            1,
            Rank::ROOT,
            None,
        );
        let (now, timing, view) = (Instant::START, Timing::default(), chain(5));
        let mut members = Members::new(now, 4, &timing);
        let verifies = Status {
            state: MemberState::Verifying,
            ..Status::default()
        };
        for rank in (1..=4).map(Rank) {
            members.set_ready(now, rank, view.epoch);
            members.set_status(now, rank, verifies, 0);
        }
        let delivery = Delivery::new(&view, None, &endpoint);
        let owed = |undecided: &[Rank]| {
            let scene = WatchContext {
                now,
                view: &view,
                timing: &timing,
                delivery: &delivery,
                undecided,
            };
            [1, 2].map(|rank| Obligation::by(members.entry(Rank(rank)).expect("a member"), &scene))
        };
        assert_eq!(owed(&[]), [Some(Obligation::Check); 2]);
        assert_eq!(owed(&[Rank(2)]), [None, Some(Obligation::Wants)]);
        let words = Obligation::Wants.words(members.entry(Rank(2)).expect("a member"), "n0");
        assert_eq!(words, "is still checking what it has");
    }

    #[test]
    fn among_many_waiting_members_those_reported_by_others_hold_up_the_rest() {
        use MemberState::{Blocked, Starved, WaitsForChild};
        let of = |from, at| vec![(Rank(from), Rank(at))];
        assert_eq!(
            holders([
                (Starved, None),
                (WaitsForChild, Some(3)),
                (Starved, None),
                (Starved, None)
            ]),
            of(2, 3)
        );
        assert_eq!(
            holders([
                (Starved, Some(2)),
                (Starved, Some(3)),
                (Starved, Some(4)),
                (Starved, None)
            ]),
            of(3, 4)
        );
        assert_eq!(
            holders([
                (Starved, None),
                (Starved, Some(3)),
                (Blocked, Some(4)),
                (Starved, None)
            ]),
            of(2, 3)
        );
        // No report names one: the one nearest to the root comes first.
        assert_eq!(holders([(Starved, None); 4]), of(0, 2));
        // Only among those that have waited long enough; a member above them that lacks frames
        // itself must show progress first.
        assert_eq!(
            holders_above([(Starved, None); 4], &[3, 4].map(Rank), &[3, 4].map(Rank)),
            of(0, 3)
        );
        assert_eq!(
            holders_above(
                [(Starved, None); 4],
                &[3, 4].map(Rank),
                &[2, 3, 4].map(Rank)
            ),
            []
        );
        // A cycle in the reports does not count either.
        assert_eq!(
            holders([
                (Starved, None),
                (Starved, Some(3)),
                (Starved, Some(2)),
                (Starved, None)
            ]),
            of(0, 2)
        );
    }
}
