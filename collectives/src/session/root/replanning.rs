//! A tree in which members have left more children to others than its kind allows is planned anew.
//!
//! Who steps out of a tree is bridged at once, and its children slow down whoever serves them now, and with that all.
//! So the root pauses until all in place have got and consumed what was sent, tells a view with a plan among those in
//! place, and goes on when all have confirmed it. As all stand at the same frame then, nobody lacks what a new parent
//! has freed. If they do not come to stand so soon, that is given up, and the bridges stay.

use super::delivery::Delivery;
use super::members::{Entry, Members};
use super::planner::Planner;
use crate::membership::Timing;
use crate::session::view::{Standing, View};
use ethbcast_planning::plan::Via;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

/// How far it has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is done about it.
    Settled,
    /// Nothing new is sent until all stand at the same frame; given up at this time.
    Draining(Instant),
    /// A new plan is being confirmed by all in place: who does not is put aside, as at the start.
    Confirming,
}

/// What the root does about a tree that members have stepped out of.
#[derive(Clone, Debug)]
pub(super) struct Replanning {
    planner: Planner,
    stage: Stage,
    /// Whether somebody has left children to others since it was looked at last: each such change is one reason.
    changed: bool,
    /// Whether parents may not be those that a member knows from the views it has seen.
    rearranged: bool,
}

impl Replanning {
    pub(super) fn new(planner: Planner) -> Replanning {
        Replanning { planner, stage: Stage::Settled, changed: false, rearranged: false }
    }

    /// Who plans.
    pub(super) fn planner(&self) -> &Planner {
        &self.planner
    }

    /// A chain among those in place carries on what was cast, frame by frame.
    pub(super) fn reroute(&mut self, view: &mut View) {
        let ranks: Vec<Rank> = view.ranks().collect();
        (view.via, view.segment_frames) = (Via::Chain, 1);
        view.replan(&ranks, &self.planner.chain(&ranks));
        self.rearranged = true;
    }

    /// Somebody stands elsewhere.
    pub(super) fn on_change(&mut self) {
        self.changed = true;
    }

    /// A member was told other parents by somebody else.
    pub(super) fn on_false_view(&mut self) {
        self.rearranged = true;
    }

    /// Makes a view fit to be told: whoever has missed the one before, or was told another, has to find it sound.
    pub(super) fn prepare(&self, view: &mut View) {
        if self.rearranged {
            view.name_parents();
        }
    }

    /// Looks whether the present view, which all have been told, is to be planned anew, and how far that is; whether it
    /// was just now.
    pub(super) fn go_on(
        &mut self,
        now: Instant,
        view: &mut View,
        members: &Members,
        delivery: &mut Delivery,
        timing: &Timing,
    ) -> bool {
        match self.stage {
            // How fast it is has to be seen first.
            Stage::Settled if !self.changed || delivery.since_first_data(now) < timing.status * 2 => return false,
            Stage::Settled => {
                let crowd = Crowd::of(view).filter(|_| self.planner.can_again(view.ranks().count()));
                let lasts = crowd.and_then(|crowd| crowd.pause(now, view, delivery, timing));
                self.stage = lasts.map_or(Stage::Settled, |lasts| Stage::Draining(now + lasts));
                self.changed = false;
            }
            Stage::Draining(until) if now >= until || delivery.trailer().is_some() => {
                log::info!("the tree stays as it is: not everybody has got what was sent");
                self.stage = Stage::Settled;
            }
            Stage::Draining(_) if delivery.rests() && are_even(members, view.epoch, delivery.blocks().frames()) => {
                (self.stage, self.changed) = (Stage::Settled, false);
                if self.plan(view) {
                    self.stage = Stage::Confirming;
                    return true;
                }
            }
            Stage::Confirming if members.all_ready(view.epoch) => self.stage = Stage::Settled,
            Stage::Draining(_) | Stage::Confirming => return false,
        }
        delivery.pause(self.stage != Stage::Settled);
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

/// Long enough for a word of every member, and for one that is lost.
fn periods(timing: &Timing) -> Duration {
    timing.status * 4
}

/// Whether all in place know the view and have consumed all frames.
fn are_even(members: &Members, epoch: u32, frames: u64) -> bool {
    let in_place = members.entries().iter().filter(|entry| entry.standing() == Standing::InPlace);
    let is_even = |entry: &Entry| entry.is_ready(epoch) && entry.status().consumed >= frames;
    in_place.into_iter().all(is_even)
}

/// A tree in which a member has more children than its kind allows.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    most: usize,
    allowed: usize,
}

impl Crowd {
    /// That of a view, if it is one.
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

    /// How long the root may pause, if what is left of the stream is worth it.
    fn pause(&self, now: Instant, view: &View, delivery: &Delivery, timing: &Timing) -> Option<Duration> {
        let (took, sent) = (delivery.since_first_data(now), delivery.pushed_bytes().max(1));
        // Of a stream without an end in sight as much again is expected as there has been.
        let rest = view.size.map_or(sent, |size| size.saturating_sub(sent));
        let gain = took.mul_f64(rest as f64 / sent as f64 * (1.0 - self.allowed as f64 / self.most as f64));
        let worth = delivery.trailer().is_none() && gain >= timing.status + timing.view * 2;
        // What is in stock goes out before, at this tree's rate, and those whose relay was slow are behind by as much.
        let stock = delivery.blocks().slots().min(delivery.blocks().frames());
        let share = stock as f64 / delivery.blocks().frames().max(1) as f64;
        let drain = took.mul_f64(2.0 * share * self.most as f64 / self.allowed as f64);
        worth.then_some(drain + periods(timing))
    }
}
