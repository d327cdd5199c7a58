//! Changes of the broadcast tree during a transfer: for a better one, or when a switch limits
//! broadcast.

pub mod neighbours;
pub mod other_way;
pub mod planner;
pub mod slow_hosts;
pub mod stall_watch;
pub mod stragglers;

use super::config::{OnSlow, RootConfig, RootEvent};
use super::delivery::Delivery;
use super::members::{MemberEntry, Members};
use crate::Route;
use crate::measure::RateComparison;
use crate::membership::Timing;
use crate::session::message::MemberState;
use crate::session::view::{MemberRole, View};
use ethbcast_planning::model::Broadcast;
use ethbcast_planning::plan::Via;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::{Identity, Rank};
use other_way::HostSurvey;
use planner::Planner;
use stall_watch::{StallVerdict, WatchContext};
use std::collections::VecDeque;
use std::time::Duration;

/// Periods over which the frame rate is measured, and those over which losses count: pacing makes
/// losses rare after a while.
const RATE_PERIODS: usize = 3;
const LOSS_PERIODS: usize = 10;
const HEAVY_PART: u64 = 10;
const MIN_LOST: u64 = 16;
const ON_ITS_WAY_FRAMES: u64 = 64;
/// Fraction of the unicast rate below which a rate is low. Above it, repairs cost less than a
/// fallback in doubt.
const LOW_PART: f64 = 0.5;
/// Minimum saving of a fallback, in status periods: bringing all members to one frame, and the new
/// view, take some.
const WORTH_PERIODS: u32 = 4;

const WORSE: f64 = 1.5;
const MAX_TRIALS: u32 = 2;
const MAX_COMPARING: Duration = Duration::from_secs(3);
const TRIAL_PART: u64 = 200;

const MANY_RECEIVERS_TEXT: &str =
    "most receivers lose most of the frames that are sent to all: switches police broadcast";
const FEW_RECEIVERS_TEXT: &str = "loses most of the frames that are sent to all: its port polices \
    broadcast, or its cable is slow";

const SLOW_TEXT: &str = "frames to all take far longer than frames to one: they are copied at the \
    sender's end, or sent slowly";

#[derive(Clone, Debug)]
struct StormControlMark {
    at: Instant,
    everywhere: u64,
    sent: u64,
    lost: Vec<(Rank, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum StormControlStage {
    Watching,
    Fallback(Broadcast, f64),
    Settled,
}

/// Detection of storm control: switches that drop broadcast above some rate, and the fallback to a
/// chain. An algorithm that the user chose is not replaced.
///
/// Its sign is loss at many receivers at once, while all of them get far fewer frames than unicast
/// carries. Then the root sends nothing new to the group, repairs losses host by host, and when all
/// members are at the same frame it publishes a view in which the same stream continues down a
/// chain. If only few lose that much (one port is policed), they are demoted and served alone. A
/// single report decides nothing: a majority over several periods does, and the frames that all
/// have acknowledged.
///
/// A cast that is as slow for [`LOSS_PERIODS`] though nothing is lost is compared with unicast, by
/// a short train to each of two receivers. If that is faster by the factor [`WORSE`], the stream
/// continues down a chain, too.
#[derive(Clone, Debug)]
pub(super) struct StormControl {
    stage: StormControlStage,
    marks: VecDeque<StormControlMark>,
    slow_looks: usize,
    trial: Option<RateComparison>,
    trials: u32,
}

impl StormControl {
    pub(super) fn new(view: &View, config: &RootConfig) -> StormControl {
        let watched =
            matches!(config.route, Route::Auto) && view.via == Via::Cast && view.may_reroute();
        StormControl {
            stage: if watched {
                StormControlStage::Watching
            } else {
                StormControlStage::Settled
            },
            marks: VecDeque::new(),
            slow_looks: 0,
            trial: None,
            trials: 0,
        }
    }

    pub(super) fn is_falling_back(&self) -> bool {
        matches!(self.stage, StormControlStage::Fallback(..))
    }

    pub(super) fn trial_mut(&mut self) -> Option<&mut RateComparison> {
        self.trial.as_mut()
    }

    pub(super) fn trial(&self) -> Option<&RateComparison> {
        self.trial.as_ref()
    }

    pub(super) fn forget(&mut self) {
        self.marks.clear();
    }

    pub(super) fn look(
        &mut self,
        scene: &WatchContext<'_>,
        members: &Members,
        (planner, identity): (&Planner, &Identity),
        on_slow: OnSlow,
    ) -> Vec<StallVerdict> {
        if self.stage != StormControlStage::Watching {
            return Vec::new();
        }
        let blocks = scene.delivery.blocks();
        let (sent, everywhere) = (blocks.frames_sent(), blocks.frames_everywhere());
        if scene.is_starved()
            || everywhere == blocks.frames()
            || scene.delivery.since_first_data(scene.now).is_zero()
        {
            // The source is the bottleneck.
            self.marks.clear();
            return Vec::new();
        }
        self.marks.push_back(StormControlMark {
            at: scene.now,
            everywhere,
            sent,
            lost: blocks.lost(),
        });
        if self.marks.len() > LOSS_PERIODS + 1 {
            self.marks.pop_front();
        }
        let Some(rate) = self
            .rate()
            .filter(|&rate| is_low(rate, planner.frame_time()))
        else {
            self.slow_looks = 0;
            return Vec::new();
        };
        let losers = self.losers();
        let listeners = self.marks.back().map_or(0, |mark| mark.lost.len());
        self.slow_looks = if losers.is_empty() {
            self.slow_looks + 1
        } else {
            0
        };
        self.compare_with_unicast(scene, members, (rate, planner.frame_time()), identity);
        if losers.len() * 2 > listeners {
            if is_worth_it(scene, rate, planner.frame_time(), listeners) {
                log::info!("{MANY_RECEIVERS_TEXT}: {rate:.0} frames a second");
                // About every second frame of a policed cast is lost.
                let policed = Broadcast::Policed((rate * 2.0).max(1.0) as u64);
                self.stage = StormControlStage::Fallback(policed, rate);
            }
            return Vec::new();
        }
        // The other receivers have all frames but those in flight: the few policed ones hold them
        // up.
        let has_all = |&(_, cursor): &(Rank, u64)| cursor + ON_ITS_WAY_FRAMES >= sent;
        let with_all = blocks
            .cursors()
            .iter()
            .filter(|reader| has_all(reader))
            .count();
        if losers.is_empty() || on_slow != OnSlow::Demote || with_all * 2 <= listeners {
            return Vec::new();
        }
        self.marks.clear();
        losers
            .into_iter()
            .map(|rank| StallVerdict::Demote(rank, FEW_RECEIVERS_TEXT.to_owned()))
            .collect()
    }

    fn compare_with_unicast(
        &mut self,
        scene: &WatchContext<'_>,
        members: &Members,
        (rate, frame_time): (f64, Duration),
        identity: &Identity,
    ) {
        if members.has_silent(scene.now, scene.timing) {
            (self.slow_looks, self.trial) = (0, None);
        }
        let open =
            |entry: &&MemberEntry| entry.standing() == MemberRole::InPlace && !entry.is_reported();
        let listeners: Vec<&MemberEntry> = members.entries().iter().filter(open).collect();
        if let Some(trial) = self.trial.take_if(|trial| trial.is_over(scene.now)) {
            let gap = trial
                .gaps()
                .map(|gaps| Duration::from_nanos(gaps.usual_nanos.max(gaps.suspect_nanos) as u64));
            log::info!(
                "frames to one take {gap:?}, to all {:?}",
                Duration::from_secs_f64(1.0 / rate.max(1.0))
            );
            let is_worse = |gap: &Duration| rate * gap.as_secs_f64() * WORSE < 1.0;
            if gap
                .filter(is_worse)
                .is_some_and(|gap| is_worth_it(scene, rate, gap, listeners.len()))
            {
                let slower = Broadcast::Slower(rate.max(1.0) as u64);
                self.stage = StormControlStage::Fallback(slower, rate);
            }
            self.slow_looks = 0;
        }
        let left = scene.frames_left().unwrap_or(0);
        let is_due =
            self.slow_looks >= LOSS_PERIODS && self.trial.is_none() && self.trials < MAX_TRIALS;
        let is_blocked = |entry: &&MemberEntry| entry.status().state == MemberState::Blocked;
        if let ([one, .., other], Some(frames)) = (
            &listeners[..],
            RateComparison::train_frames(frame_time, left / TRIAL_PART),
        ) && is_due
            && !listeners.iter().any(is_blocked)
        {
            self.trials += 1;
            let macs = [one, other].map(|entry| scene.view.members[entry.rank().index()].mac);
            let payload_bytes = usize::from(scene.view.payload_bytes);
            self.trial = Some(RateComparison::new(
                scene.now,
                identity.clone(),
                macs,
                (frames, payload_bytes),
            ));
        }
    }

    fn rate(&self) -> Option<f64> {
        let last = self.marks.back()?;
        let first = self
            .marks
            .len()
            .checked_sub(RATE_PERIODS + 1)
            .map(|at| &self.marks[at])?;
        let seconds = last.at.since(first.at).as_secs_f64();
        Some(last.everywhere.saturating_sub(first.everywhere) as f64 / seconds.max(1e-6))
    }

    fn losers(&self) -> Vec<Rank> {
        let (Some(first), Some(last)) = (self.marks.front(), self.marks.back()) else {
            return Vec::new();
        };
        let heavy = (last.sent.saturating_sub(first.sent) / HEAVY_PART).max(MIN_LOST);
        let before = |rank| {
            first
                .lost
                .iter()
                .find(|(listener, _)| *listener == rank)
                .map_or(0, |&(_, lost)| lost)
        };
        let loses = |&&(rank, lost): &&(Rank, u64)| lost.saturating_sub(before(rank)) >= heavy;
        last.lost
            .iter()
            .filter(loses)
            .map(|&(rank, _)| rank)
            .collect()
    }

    /// Switches to the chain as soon as all members are at the same frame. Returns the event if it
    /// did, the behaviour of broadcast that caused it, and the frames of the cast that arrived
    /// everywhere in a second.
    pub(super) fn go_on(
        &mut self,
        view: &mut View,
        delivery: &mut Delivery,
        replanning: &mut Replanning,
    ) -> Option<(RootEvent, Broadcast, f64)> {
        let StormControlStage::Fallback(broadcast, rate) = self.stage else {
            return None;
        };
        if !delivery.blocks().is_level() {
            return None;
        }
        self.stage = StormControlStage::Settled;
        let blocks = delivery.blocks();
        if blocks.has_end() && blocks.frames_everywhere() == blocks.frames() {
            return None; // The stream is complete everywhere.
        }
        replanning.reroute(view);
        delivery.hold();
        let text = match broadcast {
            Broadcast::Slower(_) => SLOW_TEXT,
            _ => MANY_RECEIVERS_TEXT,
        };
        let event = RootEvent::Rerouted {
            via: view.via,
            text: text.to_owned(),
        };
        Some((event, broadcast, rate))
    }
}

fn is_low(rate: f64, frame_time: Duration) -> bool {
    rate * frame_time.as_secs_f64() < LOW_PART
}

fn is_worth_it(
    scene: &WatchContext<'_>,
    rate: f64,
    frame_time: Duration,
    listeners: usize,
) -> bool {
    let blocks = scene.delivery.blocks();
    let (sent, everywhere) = (blocks.frames_sent(), blocks.frames_everywhere());
    // If the size is unknown, the rest is taken to be as long as the part sent so far.
    let all = scene.view.size.map_or(2 * sent, |size| {
        size.div_ceil(blocks.payload_bytes().max(1) as u64)
    });
    let left = all.max(blocks.frames()).saturating_sub(sent);
    // The part sent so far is repaired host by host; the rest goes down the chain.
    let repaired = sent.saturating_sub(everywhere) * listeners as u64;
    let other = (left + repaired) as f64 * frame_time.as_secs_f64();
    let fixed = if left > 0 {
        (scene.timing.status * WORTH_PERIODS).as_secs_f64()
    } else {
        0.0
    };
    all.saturating_sub(everywhere) as f64 / rate.max(1.0) > other + fixed
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplanningStage {
    Settled,
    Draining(Instant),
    Comparing(Instant),
    Confirming,
}

/// Tree or cast that follows a pause: the same kind of tree, a cast, or the tree that a comparison
/// of the hosts shows to be better.
#[derive(Clone, Debug, Default)]
enum Aim {
    #[default]
    SameKind,
    Cast,
    OtherTree(Box<HostSurvey>),
}

/// New plans for a tree in which a member has more children than the algorithm allows.
///
/// A member that leaves a tree is bridged at once. Its children then slow down the bridge, and with
/// it the whole tree. So the root pauses until all members in place have consumed all sent frames,
/// publishes a view with a new plan among them, and goes on when all have confirmed it. All are at
/// the same frame then, so nobody lacks what a new parent has freed. If they do not get there in
/// time, the bridges stay.
#[derive(Clone, Debug)]
pub(super) struct Replanning {
    planner: Planner,
    stage: ReplanningStage,
    changed: bool,
    /// Whether parents may differ from those that a member derives from the views it has seen.
    rearranged: bool,
    aim: Aim,
    reason: Option<&'static str>,
}

impl Replanning {
    pub(super) fn new(planner: Planner) -> Replanning {
        Replanning {
            planner,
            stage: ReplanningStage::Settled,
            changed: false,
            rearranged: false,
            aim: Aim::default(),
            reason: None,
        }
    }

    pub(super) fn planner(&self) -> &Planner {
        &self.planner
    }

    pub(super) fn reroute(&mut self, view: &mut View) {
        let ranks: Vec<Rank> = view.ranks().collect();
        let plan = self.planner.chain(&ranks);
        (view.via, view.segment_frames) = (plan.via(), 1);
        view.replan(&ranks, &plan);
        self.rearranged = true;
    }

    pub(super) fn go_over_to_cast(&mut self, now: Instant, drain: Duration, timing: &Timing) {
        self.begin(Aim::Cast, now + drain * 2 + periods(timing));
    }

    /// Pauses to compare all hosts, and continues with another tree if one is far better.
    pub(super) fn compare_hosts(
        &mut self,
        now: Instant,
        (drain, survey): (Duration, HostSurvey),
        timing: &Timing,
    ) {
        let aim = Aim::OtherTree(Box::new(survey));
        self.begin(aim, now + drain * 2 + periods(timing));
    }

    fn begin(&mut self, aim: Aim, until: Instant) {
        if self.stage == ReplanningStage::Settled {
            (self.aim, self.stage) = (aim, ReplanningStage::Draining(until));
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.stage == ReplanningStage::Settled
    }

    fn survey(&self) -> Option<&HostSurvey> {
        match &self.aim {
            Aim::OtherTree(survey) => Some(survey),
            Aim::SameKind | Aim::Cast => None,
        }
    }

    pub(super) fn trial(&self) -> Option<&RateComparison> {
        self.survey()?.running()
    }

    pub(super) fn trial_mut(&mut self) -> Option<&mut RateComparison> {
        match &mut self.aim {
            Aim::OtherTree(survey) => survey.running_mut(),
            Aim::SameKind | Aim::Cast => None,
        }
    }

    /// Returns why the view has just become a cast or another tree.
    pub(super) fn take_reason(&mut self) -> Option<&'static str> {
        self.reason.take()
    }

    pub(super) fn on_change(&mut self) {
        self.changed = true;
    }

    pub(super) fn on_false_view(&mut self) {
        self.rearranged = true;
    }

    /// Completes a view before it is published: a member that missed the previous view, or got a
    /// forged one, must find it consistent.
    pub(super) fn prepare(&mut self, view: &mut View) {
        self.rearranged |= self.planner.reconnect(view);
        if self.rearranged {
            view.name_parents();
        }
    }

    /// Checks whether the published view needs a new plan, and advances one in progress. Returns
    /// whether the view has just been replanned.
    pub(super) fn go_on(
        &mut self,
        now: Instant,
        view: &mut View,
        members: &Members,
        delivery: &mut Delivery,
        timing: &Timing,
    ) -> bool {
        match self.stage {
            // The rate of this tree has to be measured first.
            ReplanningStage::Settled
                if !self.changed || delivery.since_first_data(now) < timing.status * 2 =>
            {
                return false;
            }
            ReplanningStage::Settled => {
                let excess = ExcessChildren::of(view)
                    .filter(|_| self.planner.can_again(view.ranks().count()));
                let lasts = excess.and_then(|excess| excess.pause(now, view, delivery, timing));
                self.stage = lasts.map_or(ReplanningStage::Settled, |lasts| {
                    ReplanningStage::Draining(now + lasts)
                });
                self.changed = false;
            }
            ReplanningStage::Draining(until) | ReplanningStage::Comparing(until)
                if now >= until || delivery.trailer().is_some() =>
            {
                log::info!("the tree stays as it is: some receivers still lack sent data");
                (self.stage, self.aim) = (ReplanningStage::Settled, Aim::default());
            }
            ReplanningStage::Draining(_) | ReplanningStage::Comparing(_)
                if delivery.rests()
                    && are_even(members, view.epoch, delivery.blocks().frames()) =>
            {
                if !self.are_compared(now) {
                    delivery.pause(true);
                    return false;
                }
                let is_other = matches!(self.aim, Aim::OtherTree(_));
                let changed = std::mem::take(&mut self.changed);
                self.stage = ReplanningStage::Settled;
                if self.plan(view) {
                    self.stage = ReplanningStage::Confirming;
                    return true;
                }
                // A death meanwhile is planned for next.
                self.changed = changed && is_other;
            }
            ReplanningStage::Confirming if members.all_ready(view.epoch) => {
                self.stage = ReplanningStage::Settled
            }
            ReplanningStage::Draining(_) | ReplanningStage::Comparing(_) => {}
            ReplanningStage::Confirming => return false,
        }
        delivery.pause(self.stage != ReplanningStage::Settled);
        false
    }

    /// Whether nothing is left to be compared.
    fn are_compared(&mut self, now: Instant) -> bool {
        let Aim::OtherTree(survey) = &mut self.aim else {
            return true;
        };
        if matches!(self.stage, ReplanningStage::Draining(_)) {
            self.stage = ReplanningStage::Comparing(now + MAX_COMPARING);
        }
        survey.go_on(now)
    }

    fn plan(&mut self, view: &mut View) -> bool {
        let ranks: Vec<Rank> = view.ranks().collect();
        let plan = match std::mem::take(&mut self.aim) {
            Aim::Cast => {
                other_way::reroute(view);
                (self.rearranged, self.reason) = (true, Some(other_way::CAST_IS_FASTER));
                return true;
            }
            Aim::OtherTree(survey) => {
                let better = survey.better_tree(&self.planner, view);
                better.map(|(planner, plan, why)| {
                    (self.planner, self.reason) = (planner, Some(why));
                    (view.via, view.segment_frames) = (plan.via(), 1);
                    plan
                })
            }
            Aim::SameKind => self.planner.again(view.via, &ranks),
        };
        if let Some(plan) = &plan {
            log::info!("the tree is planned anew for {} receivers", ranks.len() - 1);
            view.replan(&ranks, plan);
            self.rearranged = true;
        }
        plan.is_some()
    }
}

/// Time for a status report of every member, with one of them lost.
fn periods(timing: &Timing) -> Duration {
    timing.status * 4
}

fn are_even(members: &Members, epoch: u32, frames: u64) -> bool {
    let in_place = members
        .entries()
        .iter()
        .filter(|entry| entry.standing() == MemberRole::InPlace);
    let is_even = |entry: &MemberEntry| entry.is_ready(epoch) && entry.status().consumed >= frames;
    in_place.into_iter().all(is_even)
}

#[derive(Clone, Copy, Debug)]
struct ExcessChildren {
    most: usize,
    allowed: usize,
}

impl ExcessChildren {
    fn of(view: &View) -> Option<ExcessChildren> {
        let allowed = match view.via {
            Via::Binary | Via::BinaryBest | Via::BinaryUnaware => 2,
            Via::Kary(children) => usize::from(children),
            // A bridged chain is a chain; the others have no bound, or no tree.
            _ => return None,
        };
        let most = view.degrees().into_iter().max().unwrap_or(0);
        (most > allowed).then_some(ExcessChildren { most, allowed })
    }

    fn pause(
        &self,
        now: Instant,
        view: &View,
        delivery: &Delivery,
        timing: &Timing,
    ) -> Option<Duration> {
        let (took, sent) = (
            delivery.since_first_data(now),
            delivery.pushed_bytes().max(1),
        );
        // If the size is unknown, the rest is taken to be as long as the part sent so far.
        let rest = view.size.map_or(sent, |size| size.saturating_sub(sent));
        let gain = took
            .mul_f64(rest as f64 / sent as f64 * (1.0 - self.allowed as f64 / self.most as f64));
        let worth = delivery.trailer().is_none() && gain >= timing.status + timing.view * 2;
        // Buffered frames go out before the pause, at this tree's rate; members behind a slow relay
        // lag by as much.
        let stock = delivery.blocks().slots().min(delivery.blocks().frames());
        let share = stock as f64 / delivery.blocks().frames().max(1) as f64;
        let drain = took.mul_f64(2.0 * share * self.most as f64 / self.allowed as f64);
        worth.then_some(drain + periods(timing))
    }
}

#[cfg(test)]
mod tests;
