//! New plans for a tree in which a member has more children than the algorithm allows.
//!
//! A member that leaves a tree is bridged at once. Its children then slow down the bridge, and with
//! it the whole tree. So the root pauses until all members in place have consumed what was sent,
//! publishes a view with a new plan among them, and goes on when all have confirmed it. All are at
//! the same frame then, so nobody lacks what a new parent has freed. If they do not get there in
//! time, the bridges stay.

use super::delivery::Delivery;
use super::members::{MemberEntry, Members};
use super::planner::Planner;
use crate::membership::Timing;
use crate::session::view::{Standing, View};
use ethbcast_planning::plan::Via;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplanningStage {
    Settled,
    /// New data is held back until all members are at the same frame; given up at this time.
    Draining(Instant),
    Confirming,
}

#[derive(Clone, Debug)]
pub(super) struct Replanning {
    planner: Planner,
    stage: ReplanningStage,
    changed: bool,
    /// Whether parents may differ from those that a member derives from the views it has seen.
    rearranged: bool,
}

impl Replanning {
    pub(super) fn new(planner: Planner) -> Replanning {
        Replanning { planner, stage: ReplanningStage::Settled, changed: false, rearranged: false }
    }

    pub(super) fn planner(&self) -> &Planner {
        &self.planner
    }

    pub(super) fn reroute(&mut self, view: &mut View) {
        let ranks: Vec<Rank> = view.ranks().collect();
        (view.via, view.segment_frames) = (Via::Chain, 1);
        view.replan(&ranks, &self.planner.chain(&ranks));
        self.rearranged = true;
    }

    pub(super) fn on_change(&mut self) {
        self.changed = true;
    }

    pub(super) fn on_false_view(&mut self) {
        self.rearranged = true;
    }

    /// Completes a view before it is published: a member that missed the previous view, or got a
    /// forged one, must find it consistent.
    pub(super) fn prepare(&self, view: &mut View) {
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
            ReplanningStage::Settled if !self.changed || delivery.since_first_data(now) < timing.status * 2 => {
                return false;
            }
            ReplanningStage::Settled => {
                let crowd = Crowd::of(view).filter(|_| self.planner.can_again(view.ranks().count()));
                let lasts = crowd.and_then(|crowd| crowd.pause(now, view, delivery, timing));
                self.stage = lasts.map_or(ReplanningStage::Settled, |lasts| ReplanningStage::Draining(now + lasts));
                self.changed = false;
            }
            ReplanningStage::Draining(until) if now >= until || delivery.trailer().is_some() => {
                log::info!("the tree stays as it is: not everybody has got what was sent");
                self.stage = ReplanningStage::Settled;
            }
            ReplanningStage::Draining(_)
                if delivery.rests() && are_even(members, view.epoch, delivery.blocks().frames()) =>
            {
                (self.stage, self.changed) = (ReplanningStage::Settled, false);
                if self.plan(view) {
                    self.stage = ReplanningStage::Confirming;
                    return true;
                }
            }
            ReplanningStage::Confirming if members.all_ready(view.epoch) => self.stage = ReplanningStage::Settled,
            ReplanningStage::Draining(_) | ReplanningStage::Confirming => return false,
        }
        delivery.pause(self.stage != ReplanningStage::Settled);
        false
    }

    fn plan(&mut self, view: &mut View) -> bool {
        let ranks: Vec<Rank> = view.ranks().collect();
        let plan = self.planner.again(view.via, &ranks);
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
    let in_place = members.entries().iter().filter(|entry| entry.standing() == Standing::InPlace);
    let is_even = |entry: &MemberEntry| entry.is_ready(epoch) && entry.status().consumed >= frames;
    in_place.into_iter().all(is_even)
}

#[derive(Clone, Copy, Debug)]
struct Crowd {
    most: usize,
    allowed: usize,
}

impl Crowd {
    fn of(view: &View) -> Option<Crowd> {
        let allowed = match view.via {
            Via::Binary | Via::BinaryBest | Via::BinaryUnaware => 2,
            Via::Kary(children) => usize::from(children),
            // A bridged chain is a chain; the others have no bound, or no tree.
            _ => return None,
        };
        let most = view.degrees().into_iter().max().unwrap_or(0);
        (most > allowed).then_some(Crowd { most, allowed })
    }

    fn pause(&self, now: Instant, view: &View, delivery: &Delivery, timing: &Timing) -> Option<Duration> {
        let (took, sent) = (delivery.since_first_data(now), delivery.pushed_bytes().max(1));
        // If the size is unknown, the rest is taken to be as long as the part sent so far.
        let rest = view.size.map_or(sent, |size| size.saturating_sub(sent));
        let gain = took.mul_f64(rest as f64 / sent as f64 * (1.0 - self.allowed as f64 / self.most as f64));
        let worth = delivery.trailer().is_none() && gain >= timing.status + timing.view * 2;
        // Buffered frames go out before the pause, at this tree's rate; members behind a slow relay
        // lag by as much.
        let stock = delivery.blocks().slots().min(delivery.blocks().frames());
        let share = stock as f64 / delivery.blocks().frames().max(1) as f64;
        let drain = took.mul_f64(2.0 * share * self.most as f64 / self.allowed as f64);
        worth.then_some(drain + periods(timing))
    }
}
