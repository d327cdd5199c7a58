//! Outcomes of single members during the session: lost, reported or demoted.

use super::super::member_report::MemberReport;
use super::super::members::MemberEntry;
use super::super::{RootEndpoint, RootEvent};
use super::SessionPhase;
use crate::session::message::{Done, Message, Outcome};
use crate::session::view::Standing;
use ethbcast_transport::Instant;
use ethbcast_transport::wire::Rank;

impl SessionPhase {
    pub(super) fn lose(&mut self, now: Instant, rank: Rank, outcome: Outcome, text: &str, endpoint: &mut RootEndpoint) {
        log::warn!("lost {}: {text}", self.host(rank));
        // Its last status report gives the amount.
        let frames = self.members.entry(rank).map_or(0, |entry| entry.status().consumed);
        let bytes = frames.saturating_mul(self.view.payload_bytes.into()).min(self.view.size.unwrap_or(u64::MAX));
        self.report(now, rank, Done { outcome, bytes, digest: [0; 32], text: text.to_owned() }, endpoint);
        self.place(now, rank, Standing::Gone);
    }

    pub(super) fn report(&mut self, now: Instant, rank: Rank, done: Done, endpoint: &mut RootEndpoint) {
        let (form, took) = (endpoint.config().form, self.delivery.since_first_data(now));
        let taken = self.members.taken(rank);
        let report = MemberReport { taken, ..MemberReport::new(self.host(rank), rank, done, form, took) };
        if !self.members.set_report(&report) {
            return;
        }
        self.last_report = Some(now);
        self.delivery.stop_serving(&self.view, rank);
        self.fetches.forget(rank);
        endpoint.push_event(RootEvent::Reported(report));
        if self.members.all_reported() {
            self.fetches.send_next(now, true, &self.view, endpoint);
            endpoint.push_event(RootEvent::AllReported);
            self.delivery.shut();
            self.last_word = Some(Message::Verdict(self.members.verdict(self.delivery.trailer(), true)));
        }
    }

    pub(super) fn place(&mut self, now: Instant, rank: Rank, standing: Standing) {
        if !self.delivery.is_shut() && self.members.set_standing(rank, standing) {
            self.view.members[rank.index()].standing = standing;
            self.changed = true;
            self.replanning.on_change();
            // The other members get new time to show progress: their wait may have been for this
            // one.
            self.members.all_tried(now, rank);
        }
    }

    /// Demotes two members between which no frame gets through: both are served alone from now on. The sending one
    /// stays in place if nobody else does: without a reader nothing holds back a source that can be read only once.
    pub(super) fn part(&mut self, now: Instant, pair: [Rank; 2], endpoint: &mut RootEndpoint) {
        let [one, other] = pair.map(|rank| self.host(rank).to_owned());
        endpoint.push_event(RootEvent::Apart { one, other });
        let stays = |entry: &MemberEntry| {
            entry.standing() == Standing::InPlace && !entry.is_reported() && !pair.contains(&entry.rank())
        };
        let first = usize::from(!self.members.entries().iter().any(stays) && !self.members.is_reported(pair[0]));
        pair[first..].iter().for_each(|&rank| self.place(now, rank, Standing::Aside));
    }

    pub(super) fn step_aside(&mut self, now: Instant, rank: Rank, text: &str, endpoint: &mut RootEndpoint) {
        let Some(entry) = self.members.in_place(rank) else { return };
        if !entry.is_reported() {
            endpoint.push_event(RootEvent::Aside { host: self.host(rank).to_owned(), text: text.to_owned() });
        }
        self.place(now, rank, Standing::Aside);
    }
}
