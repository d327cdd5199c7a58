//! Periodic checks for silent members and members without progress.

use super::SessionPhase;
use crate::membership::presence::Change;
use crate::membership::timers::Wait;
use crate::session::message::Outcome;
use crate::session::root::stall_watch::{StallFinding, WatchContext};
use crate::session::root::{OnSlow, RootConfig, RootEndpoint, RootEvent};
use ethbcast_transport::Instant;

impl SessionPhase {
    pub(super) fn watch_silence(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        for change in self.members.look(now) {
            match change {
                Change::Suspected(rank, silence) => log::warn!("rank {rank} has been silent for {silence:?}"),
                Change::Away(rank) => self.step_aside(now, rank, "is silent", endpoint),
                Change::Gone(rank) => self.lose(now, rank, Outcome::Silent, "nothing was heard of it", endpoint),
                Change::Left(_) => {}
            }
        }
        if !self.timers.is_set(Wait::View) && self.members.unready(self.view.epoch).next().is_some() {
            self.timers.set(Wait::View, now);
        }
    }

    pub(super) fn watch_progress(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        let RootConfig { timing, on_slow, .. } = *endpoint.config();
        self.members.rates_mut().sent(now, self.delivery.frames_sent());
        let scene = WatchContext { now, view: &self.view, timing: &timing, delivery: &self.delivery };
        let since_last = now.since(std::mem::replace(&mut self.watched_at, now));
        let mut findings = scene.look(&mut self.members, since_last);
        let brake = scene.brake(&self.members).filter(|_| on_slow != OnSlow::Wait);
        findings.extend(self.policing.look(&scene, self.replanning.planner(), on_slow));
        let to_try = brake.and_then(|brake| scene.to_be_tried(&self.members, brake));
        findings.extend(self.slow.look(&scene, &self.members, brake, on_slow));
        if self.policing.is_levelling() {
            self.delivery.retire();
        }
        to_try.into_iter().for_each(|(rank, arrived)| self.delivery.try_out(&self.view, rank, arrived));
        for finding in findings {
            match finding {
                StallFinding::Tell(rank, text) => {
                    endpoint.push_event(RootEvent::HeldUp { host: self.host(rank).to_owned(), text })
                }
                StallFinding::StepAside(rank, text) => self.step_aside(now, rank, &text, endpoint),
                StallFinding::Apart(from, at) => self.part(now, [from, at], endpoint),
                StallFinding::GiveUp(rank, text) => self.lose(now, rank, Outcome::Stalled, &text, endpoint),
            }
        }
    }
}
