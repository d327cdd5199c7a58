//! A running transfer at its sender: member list, stream, and the receivers' reports.

use super::admission::join_requests::REBOOT_SILENCE;
use super::config::{MemberReport, OnSlow, Proved, RootConfig, RootEndpoint, RootEvent};
use super::delivery::Delivery;
use super::members::announcement::{LivenessReplies, REPLY_INTERVAL, ViewAnnouncement};
use super::members::{MemberEntry, Members};
use super::policy::neighbours::{Neighbours, OtherTraffic};
use super::policy::other_way::{CastChange, TreeChange};
use super::policy::planner::Planner;
use super::policy::slow_hosts::SlowHosts;
use super::policy::stall_watch::{StallVerdict, WatchContext};
use super::policy::stragglers::{Stragglers, rate_text};
use super::policy::{Replanning, StormControl};
use super::repair::Fetches;
use crate::measure::RateComparison;
use crate::measure::kind::REPORT;
use crate::membership::presence::Change;
use crate::membership::timers::{TimerTable, Wait};
use crate::session::link_share::LinkShare;
use crate::session::message::{Done, Message, Outcome, Status, Trailer};
use crate::session::throttle::Rate;
use crate::session::verified::{ChunkSet, Form};
use crate::session::view::{MemberRole, View, ViewMember};
use ethbcast_planning::model::{Broadcast, HostCost};
use ethbcast_transport::wire::{Frame, Rank};
use ethbcast_transport::{Deadline, Instant, MacAddr, SplitFrame, planted};
use std::time::Duration;

/// Verdicts in the time by which a report may be older among many receivers: 9 ms lie between two
/// among 10 000, and nothing among 800.
const VERDICTS_IN_LAG: u32 = 128;

#[derive(Clone, Debug)]
pub(super) struct SessionPhase {
    view: View,
    announcement: ViewAnnouncement,
    changed: bool,
    replanning: Replanning,
    storm_control: StormControl,
    neighbours: Neighbours,
    members: Members,
    delivery: Delivery,
    fetches: Fetches,
    liveness: LivenessReplies,
    last_report: Option<Instant>,
    last_message: Option<Message>,
    watched_at: Instant,
    stragglers: Stragglers,
    slow_hosts: SlowHosts,
    cast_change: CastChange,
    tree_change: TreeChange,
    broadcast: Option<Broadcast>,
    timers: TimerTable,
}

impl SessionPhase {
    pub(super) fn new(
        now: Instant,
        view: View,
        planner: Planner,
        mut timers: TimerTable,
        trailer: Option<Trailer>,
        endpoint: &mut RootEndpoint,
    ) -> SessionPhase {
        endpoint.config_mut().timing = endpoint.config().timing.among(view.members.len() - 1);
        let config = endpoint.config();
        timers.set(Wait::Status, now + config.timing.status);
        let mut running = SessionPhase {
            announcement: ViewAnnouncement::default(),
            changed: false,
            replanning: Replanning::new(planner),
            storm_control: StormControl::new(&view, config),
            neighbours: Neighbours::default(),
            members: Members::of_view(now, &view, &config.timing),
            delivery: Delivery::new(&view, trailer, endpoint),
            fetches: Fetches::default(),
            liveness: LivenessReplies::default(),
            last_report: None,
            last_message: None,
            watched_at: now,
            stragglers: Stragglers::default(),
            slow_hosts: SlowHosts::default(),
            cast_change: CastChange::new(&view, config),
            tree_change: TreeChange::new(&view, config),
            broadcast: None,
            timers,
            view,
        };
        running.neighbours.set_timing(endpoint.config().timing);
        running.members.rates_mut().forget(&running.view);
        running.report_known_slow(endpoint);
        running.publish(now, endpoint);
        running
    }

    fn report_known_slow(&self, endpoint: &mut RootEndpoint) {
        for (rank, [rate, usual]) in self.replanning.planner().slow_receivers() {
            let member = &self.view.members[rank.index()];
            if member.standing == MemberRole::Demoted {
                let [rate, usual] = [rate, usual].map(rate_text);
                let text = format!(
                    "would hold up the others: by earlier measurements its cable carries {rate}, theirs {usual}"
                );
                endpoint.push_event(RootEvent::Demoted {
                    host: member.host.clone(),
                    text,
                });
            }
        }
    }

    /// Returns what was measured and proved of the network. The loss is counted by the receivers.
    pub(super) fn proved(&self, full_bytes: u16) -> Proved {
        let frame_ns = |rate: f64| {
            let part = f64::from(self.view.payload_bytes) / f64::from(full_bytes);
            (1e9 / (rate * part).max(1.0)) as u64
        };
        let cost = |&(rank, rate): &(Rank, f64)| HostCost {
            name: self.host(rank).to_owned(),
            injection_ns: frame_ns(rate).max(1),
        };
        Proved {
            costs: self.replanning.planner().measured().cloned(),
            loss: None,
            broadcast: self.broadcast,
            slow: self.slow_hosts.proved().iter().map(cost).collect(),
        }
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    pub(super) fn members(&self) -> &Members {
        &self.members
    }

    pub(super) fn delivery(&self) -> &Delivery {
        &self.delivery
    }

    pub(super) fn fetches(&self) -> &Fetches {
        &self.fetches
    }

    pub(super) fn delivery_mut(&mut self) -> &mut Delivery {
        &mut self.delivery
    }

    pub(super) fn took(&self) -> Duration {
        self.last_report
            .map(|end| self.delivery.since_first_data(end))
            .unwrap_or_default()
    }

    pub(super) fn since_first_data(&self, now: Instant) -> Duration {
        self.delivery.since_first_data(now)
    }

    pub(super) fn deaf(&self) -> impl Iterator<Item = MacAddr> + use<> {
        self.announcement.deaf()
    }

    pub(super) fn take_last_message(&mut self) -> Option<Message> {
        self.last_message.take()
    }

    pub(super) fn give_up_waiting(&mut self, now: Instant, endpoint: &mut RootEndpoint) -> bool {
        let dead = endpoint.config().timing.dead;
        let Some(silent) = self.members.open_if_silent(now, dead) else {
            return false;
        };
        silent.into_iter().for_each(|rank| {
            self.lose(
                now,
                rank,
                Outcome::Silent,
                "nothing was heard of it",
                endpoint,
            )
        });
        true
    }

    /// Counts the join request of a member that has not understood the view yet as a sign of life.
    /// Returns false for a non-member.
    pub(super) fn on_join(&mut self, now: Instant, nonce: u64, from: MacAddr) -> bool {
        self.view
            .rank_of(nonce, from)
            .map(|rank| self.members.on_frame(now, rank))
            .is_some()
    }

    pub(super) fn set_rate(&mut self, now: Instant, rate: Rate, endpoint: &mut RootEndpoint) {
        (self.view.rate, self.changed) = (Some(rate), true);
        self.follow_up(now, endpoint);
    }

    pub(super) fn on_leave(
        &mut self,
        now: Instant,
        who: (u64, MacAddr),
        text: &str,
        endpoint: &mut RootEndpoint,
    ) {
        let Some(rank) = self.view.rank_of(who.0, who.1) else {
            return endpoint.count_non_member();
        };
        // One that came late may find that its DEST cannot hold it.
        let is_refusal = Outcome::WriteFailed.status_and_reason(text).0 == Outcome::REFUSED;
        let outcome = if is_refusal {
            Outcome::WriteFailed
        } else {
            Outcome::Died
        };
        self.lose(now, rank, outcome, text, endpoint);
        self.follow_up(now, endpoint);
    }

    pub(super) fn admit(
        &mut self,
        now: Instant,
        (host, mac, nonce): (String, MacAddr, u64),
        endpoint: &mut RootEndpoint,
    ) -> bool {
        let timing = endpoint.config().timing.among(self.view.members.len());
        let fits = !self.delivery.is_shut() && self.members.admit(now, &timing);
        if fits {
            endpoint.config_mut().timing = timing;
            self.neighbours.set_timing(timing);
            self.view.members.push(ViewMember::late(host, mac, nonce));
            self.delivery.admit(mac);
            self.changed = true;
        }
        fits
    }

    /// Handles a join request of another run from a member's address: if the member is silent, its
    /// receiver was restarted.
    pub(super) fn on_other_run(
        &mut self,
        now: Instant,
        from: MacAddr,
        endpoint: &mut RootEndpoint,
    ) {
        let Some(rank) = self.view.rank_at(from).filter(|&rank| rank != Rank::ROOT) else {
            return;
        };
        if self.members.silence(now, rank) >= REBOOT_SILENCE.max(endpoint.config().timing.suspect) {
            self.lose(
                now,
                rank,
                Outcome::Died,
                "its receiver was started again",
                endpoint,
            );
            self.follow_up(now, endpoint);
        }
    }

    pub(super) fn choose(
        &mut self,
        now: Instant,
        stretch: u64,
        limit: Duration,
        form: Form,
    ) -> Option<ChunkSet> {
        self.fetches
            .choose(now, stretch, (&self.view, &self.members), limit, form)
    }

    pub(super) fn deny(&mut self, now: Instant, text: &str, endpoint: &mut RootEndpoint) {
        self.fetches
            .on_denial(now, text, (&self.view, &self.members), &self.delivery);
        self.follow_up(now, endpoint);
    }

    fn trials_mut(&mut self) -> impl Iterator<Item = &mut RateComparison> {
        let SessionPhase {
            slow_hosts,
            storm_control,
            cast_change,
            replanning,
            ..
        } = self;
        let trials = [
            slow_hosts.trial_mut(),
            storm_control.trial_mut(),
            cast_change.trial_mut(),
            replanning.trial_mut(),
        ];
        trials.into_iter().flatten()
    }

    pub(super) fn poll_transmit_split(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        endpoint: &mut RootEndpoint,
    ) -> Option<SplitFrame> {
        let trial = self
            .trials_mut()
            .find_map(|trial| trial.poll_transmit(buffer))
            .map(SplitFrame::whole);
        trial.or_else(|| self.delivery.poll_transmit_split(now, buffer, endpoint))
    }

    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        endpoint: &mut RootEndpoint,
    ) {
        let rank = frame.header.rank;
        if frame.header.kind == REPORT {
            self.trials_mut()
                .for_each(|trial| trial.handle_frame(now, frame));
            if self.replanning.trial().is_some() {
                self.follow_up(now, endpoint);
            }
            return;
        }
        if rank == Rank::ROOT || !self.view.names(rank, frame.source) {
            return endpoint.count_non_member();
        }
        if endpoint.shows_life(frame) {
            self.members.on_frame(now, rank);
        }
        if frame.header.kind.is_of_stream() {
            if let Some(round_trip) = self.delivery.take_frame(now, frame, &self.view) {
                endpoint.throttle_mut().on_round_trip(now, rank, round_trip);
            }
            if self.storm_control.is_falling_back() {
                self.follow_up(now, endpoint);
            }
        } else if let Some(message) = endpoint.read(frame) {
            self.on_control(now, rank, message, endpoint);
            self.follow_up(now, endpoint);
        }
    }

    fn on_control(
        &mut self,
        now: Instant,
        rank: Rank,
        message: Message,
        endpoint: &mut RootEndpoint,
    ) {
        match message {
            Message::Ready {
                epoch,
                digest,
                arrived,
            } if epoch == self.view.epoch && digest == self.announcement.digest()
                || planted!("ready-of-an-old-view") =>
            {
                self.on_ready(now, rank, arrived, endpoint);
            }
            Message::Ready { epoch, digest, .. }
                if epoch >= self.view.epoch && digest != self.announcement.digest() =>
            {
                log::warn!("{} got view {epoch} from another host", self.host(rank));
                self.members.set_ready(now, rank, 0);
                // The member may have demoted itself, and block algorithms have no way back.
                if self.view.via.is_in_blocks() {
                    self.demote(now, rank, "got a view from another host", endpoint);
                }
                self.replanning.on_false_view();
                self.changed |= self.view.outnumber(epoch);
            }
            Message::Status(status) => {
                self.members
                    .set_status(now, rank, status, self.delivery.blocks().frames());
                self.note_link(now, rank, status.link, endpoint);
            }
            // Only a child's parent may report this, and a member that has everything or is gone
            // lacks nothing.
            Message::Orphan { stream, gap }
                if self.view.serves(rank, gap.rank) && !self.members.is_reported(gap.rank) =>
            {
                self.delivery.on_gap(now, stream, gap);
            }
            Message::Done(done, taken, behind) => {
                self.members.took(rank, taken, behind);
                self.on_done(now, rank, done, endpoint);
            }
            Message::Fetch(fetch) if fetch.rank == rank => {
                self.fetches.on_fetch(
                    now,
                    &fetch,
                    (&self.view, &mut self.members, &mut self.delivery),
                    endpoint,
                );
            }
            Message::Piece(piece) => self.fetches.on_piece(now, rank, &piece),
            Message::Challenge(challenge) => {
                self.liveness.on_challenge(rank, challenge);
                self.timers
                    .set_unless_set(Wait::LivenessReply, now + REPLY_INTERVAL);
            }
            Message::Needs(word) => {
                self.fetches.on_needs(
                    now,
                    (rank, &word),
                    (&self.view, &mut self.members),
                    endpoint,
                );
            }
            _ => {}
        }
    }

    pub(super) fn note_own_link(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        self.note_link(now, Rank::ROOT, endpoint.link_share(now), endpoint);
    }

    pub(super) fn note_session(
        &mut self,
        now: Instant,
        session: (MacAddr, u32),
        host: &str,
        endpoint: &mut RootEndpoint,
    ) {
        if self.neighbours.note_session(now, session, host) {
            self.timers.set(Wait::Announce, now);
            self.give_way(now, endpoint);
        }
    }

    pub(super) fn other_traffic(&self) -> Option<OtherTraffic> {
        self.neighbours.seen(&self.view)
    }

    fn give_way(&self, now: Instant, endpoint: &mut RootEndpoint) {
        let config = endpoint.config();
        if !config.greedy && !config.rate.is_some_and(Rate::is_yielding) {
            let own = (self.delivery.since_first_data(now), endpoint.best_sent());
            let limit = self.neighbours.limit(now, &self.view, own);
            endpoint.throttle_mut().share(limit);
        }
    }

    fn note_link(
        &mut self,
        now: Instant,
        rank: Rank,
        link: Option<LinkShare>,
        endpoint: &mut RootEndpoint,
    ) {
        let were_suspected = self.neighbours.are_suspected(now);
        self.neighbours.note(now, rank, link);
        if !were_suspected && self.neighbours.are_suspected(now) {
            self.timers.set(Wait::Announce, now);
        }
        self.give_way(now, endpoint);
    }

    fn on_ready(&mut self, now: Instant, rank: Rank, arrived: u64, endpoint: &mut RootEndpoint) {
        self.members.set_ready(now, rank, self.view.epoch);
        let entry = self.members.entry(rank);
        if entry
            .is_some_and(|entry| entry.standing() == MemberRole::Demoted && !entry.is_reported())
        {
            self.members.stands_at(rank, arrived);
            self.delivery.serve_alone(&self.view, rank, arrived);
        }
        self.check_ready(endpoint);
    }

    fn on_done(&mut self, now: Instant, rank: Rank, done: Done, endpoint: &mut RootEndpoint) {
        let sent = self.delivery.trailer();
        let same =
            sent == Some(Trailer {
                bytes: done.bytes,
                digest: done.digest,
            }) || planted!("digest-not-compared");
        // Each verdict goes to all: among thousands it waits for other reports.
        let apart = endpoint.config().timing.lag() / VERDICTS_IN_LAG;
        self.timers.set_unless_set(Wait::Verdict, now + apart);
        if self
            .members
            .entry(rank)
            .is_some_and(|entry| entry.has_reported(done.outcome))
        {
            // Group frames have not reached it.
            let mac = self.view.members[rank.index()].mac;
            self.announcement.does_not_reach(mac);
            endpoint.send(
                mac,
                &Message::Verdict(self.members.verdict(self.delivery.trailer(), false)),
            );
        }
        match done.outcome {
            // A stream that has not been sent to its end cannot have been verified.
            Outcome::Verified | Outcome::Delivered if sent.is_none() => {}
            // A member delivers only after its digest was accepted, so this report counts as a
            // request to accept it.
            Outcome::Verified | Outcome::Delivered if same && self.members.accept(now, rank) => {}
            Outcome::Delivered if same => self.report(now, rank, done, endpoint),
            Outcome::Verified if same => {}
            _ => {
                self.report(now, rank, done.into_failure(), endpoint);
                self.place(now, rank, MemberRole::Gone);
            }
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        let timing = endpoint.config().timing;
        if self.timers.take_due(Wait::Announce, now) {
            // A late receiver sends a join request when it receives this.
            let invitation = endpoint
                .config()
                .invitation(endpoint.config().stage(), Duration::MAX);
            endpoint.send_to_group(&invitation);
            // Another session may have sent the frames that were seen; it is notified of this one.
            if self.neighbours.are_suspected(now) {
                endpoint.send(MacAddr::BROADCAST, &invitation);
            }
            self.timers.set(
                Wait::Announce,
                now + timing.announce * if endpoint.config().late { 1 } else { 5 },
            );
        }
        if self.timers.take_due(Wait::View, now) {
            if self.announcement.put_off(endpoint) {
                self.timers.set(Wait::View, now + timing.view);
            } else {
                self.send_view(now, endpoint);
            }
        }
        self.timers.take_due(Wait::Change, now);
        self.watch_silence(now, endpoint);
        if self.timers.take_due(Wait::Status, now) {
            endpoint.send_to_group(&Message::Status(Status::default()));
            self.timers.set(Wait::Status, now + timing.status);
            self.watch_progress(now, endpoint);
        }
        if self.timers.take_due(Wait::Verdict, now) {
            endpoint.send_to_group(&Message::Verdict(
                self.members.verdict(self.delivery.trailer(), false),
            ));
        }
        if self.timers.take_due(Wait::LivenessReply, now)
            && self.liveness.send_replies(&self.view, endpoint)
        {
            self.timers.set(Wait::LivenessReply, now + REPLY_INTERVAL);
        }
        self.trials_mut()
            .for_each(|trial| trial.handle_timeout(now));
        self.delivery.handle_timeout(now);
        self.follow_up(now, endpoint);
    }

    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let silence = self.members.next_silence().map(|at| Wait::Silence.at(at));
        let deadlines = [
            self.timers.next(),
            silence,
            self.delivery.poll_timeout(now),
            self.fetches.poll_timeout(),
        ];
        let trials = [
            self.slow_hosts.trial(),
            self.storm_control.trial(),
            self.cast_change.trial(),
            self.replanning.trial(),
        ];
        deadlines
            .into_iter()
            .flatten()
            .chain(
                trials
                    .into_iter()
                    .flatten()
                    .filter_map(|trial| trial.poll_timeout(now)),
            )
            .min()
    }

    /// Publishes one view for all changes since the last, with a minimum time between views.
    fn follow_up(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        for (rank, text) in self
            .fetches
            .go_on(now, &self.view, &mut self.delivery, endpoint)
        {
            self.lose(now, rank, Outcome::Lost, &text, endpoint);
            // Its earlier outcome does not matter: bytes that no host has are not requested again.
            self.delivery.stop_serving(&self.view, rank);
        }
        let held = self.timers.is_set(Wait::Change) || self.delivery.is_shut();
        let timing = endpoint.config().timing;
        if !held && !self.changed {
            let rerouted =
                self.storm_control
                    .go_on(&mut self.view, &mut self.delivery, &mut self.replanning);
            self.changed = rerouted.is_some();
            if let Some((event, broadcast, cast_rate)) = rerouted {
                self.broadcast = Some(broadcast);
                self.cast_change.watch(cast_rate);
                endpoint.push_event(event);
            }
        }
        if !held && !self.changed {
            self.changed = self.replanning.go_on(
                now,
                &mut self.view,
                &self.members,
                &mut self.delivery,
                &timing,
            );
            if let Some(text) = self.replanning.take_reason() {
                endpoint.push_event(RootEvent::Rerouted {
                    via: self.view.via,
                    text: text.to_owned(),
                });
            }
        }
        if !held && std::mem::take(&mut self.changed) {
            self.timers.set(Wait::Change, now + timing.view);
            self.replanning.prepare(&mut self.view);
            self.view.epoch += 1;
            self.delivery.reshape(now, &self.view);
            self.members.rates_mut().forget(&self.view);
            self.publish(now, endpoint);
            self.check_ready(endpoint);
        }
    }

    fn publish(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        self.announcement
            .begin(&self.view, endpoint.control_bytes());
        endpoint.adopt(Rank::ROOT, self.view.epoch);
        self.send_view(now, endpoint);
    }

    fn send_view(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        let mac = |rank: Rank| self.view.members[rank.index()].mac;
        self.announcement
            .send(self.members.unready(self.view.epoch).map(mac), endpoint);
        self.timers
            .set(Wait::View, now + endpoint.config().timing.view);
    }

    fn check_ready(&mut self, endpoint: &mut RootEndpoint) {
        let epoch = self.view.epoch;
        if self.members.unready(epoch).next().is_none() {
            self.timers.clear(Wait::View);
        }
        if self.members.all_ready(epoch)
            && self.delivery.open()
            && self.delivery.stats().data_sent == 0
        {
            let (View { via, selective, .. }, size) = (&self.view, endpoint.config().size);
            let (receivers, via, selective) = (self.members.present(), *via, *selective);
            endpoint.push_event(RootEvent::Started {
                receivers,
                via,
                size,
                selective,
            });
        }
    }

    fn host(&self, rank: Rank) -> &str {
        &self.view.members[rank.index()].host
    }

    fn lose(
        &mut self,
        now: Instant,
        rank: Rank,
        outcome: Outcome,
        text: &str,
        endpoint: &mut RootEndpoint,
    ) {
        log::warn!("lost {}: {text}", self.host(rank));
        // Its last status report gives the amount.
        let frames = self
            .members
            .entry(rank)
            .map_or(0, |entry| entry.status().consumed);
        let bytes = frames
            .saturating_mul(self.view.payload_bytes.into())
            .min(self.view.size.unwrap_or(u64::MAX));
        self.report(
            now,
            rank,
            Done {
                outcome,
                bytes,
                digest: [0; 32],
                text: text.to_owned(),
            },
            endpoint,
        );
        self.place(now, rank, MemberRole::Gone);
    }

    fn report(&mut self, now: Instant, rank: Rank, done: Done, endpoint: &mut RootEndpoint) {
        let (form, took) = (endpoint.config().form, self.delivery.since_first_data(now));
        let (taken, behind) = self.members.taken(rank);
        let report = MemberReport {
            taken,
            behind,
            ..MemberReport::new(self.host(rank), rank, done, form, took)
        };
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
            self.last_message = Some(Message::Verdict(
                self.members.verdict(self.delivery.trailer(), true),
            ));
        }
    }

    fn place(&mut self, now: Instant, rank: Rank, standing: MemberRole) {
        if !self.delivery.is_shut() && self.members.set_standing(rank, standing) {
            self.view.members[rank.index()].standing = standing;
            self.changed = true;
            self.replanning.on_change();
            // The other members get new time to show progress: they may have waited for this one.
            self.members.all_tried(now, rank);
        }
    }

    /// Demotes two members between which no frame gets through: both are served alone from now on.
    /// The sending one stays in place if no other member does: without a reader, nothing holds back
    /// a source that can be read only once.
    fn part(&mut self, now: Instant, pair: [Rank; 2], endpoint: &mut RootEndpoint) {
        let [one, other] = pair.map(|rank| self.host(rank).to_owned());
        endpoint.push_event(RootEvent::Apart { one, other });
        let stays = |entry: &MemberEntry| {
            entry.standing() == MemberRole::InPlace
                && !entry.is_reported()
                && !pair.contains(&entry.rank())
        };
        let first = usize::from(
            !self.members.entries().iter().any(stays) && !self.members.is_reported(pair[0]),
        );
        pair[first..]
            .iter()
            .for_each(|&rank| self.place(now, rank, MemberRole::Demoted));
    }

    fn demote(&mut self, now: Instant, rank: Rank, text: &str, endpoint: &mut RootEndpoint) {
        let Some(entry) = self.members.in_place(rank) else {
            return;
        };
        if !entry.is_reported() {
            endpoint.push_event(RootEvent::Demoted {
                host: self.host(rank).to_owned(),
                text: text.to_owned(),
            });
        }
        self.place(now, rank, MemberRole::Demoted);
    }

    fn watch_silence(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        for change in self.members.look(now) {
            match change {
                Change::Suspected(rank, silence) => {
                    log::warn!("rank {rank} has been silent for {silence:?}")
                }
                Change::Away(rank) => self.demote(now, rank, "is silent", endpoint),
                Change::Gone(rank) => self.lose(
                    now,
                    rank,
                    Outcome::Silent,
                    "nothing was heard of it",
                    endpoint,
                ),
                Change::Left(_) => {}
            }
        }
        if !self.timers.is_set(Wait::View) && self.members.unready(self.view.epoch).next().is_some()
        {
            self.timers.set(Wait::View, now);
        }
    }

    fn watch_progress(&mut self, now: Instant, endpoint: &mut RootEndpoint) {
        let RootConfig {
            timing, on_slow, ..
        } = *endpoint.config();
        self.members
            .rates_mut()
            .sent(now, self.delivery.frames_sent());
        let undecided = self.fetches.undecided();
        let scene = WatchContext {
            now,
            view: &self.view,
            timing: &timing,
            delivery: &self.delivery,
            undecided,
        };
        let since_last = now.since(std::mem::replace(&mut self.watched_at, now));
        let mut findings = scene.look(&mut self.members, since_last);
        let straggler = scene
            .straggler(&self.members)
            .filter(|_| on_slow != OnSlow::Wait);
        let identity = endpoint.identity();
        let way = (self.replanning.planner(), &identity);
        if self.neighbours.crowd(now) {
            // Losses that other traffic causes in a switch are no policing.
            self.storm_control.forget();
        } else {
            findings.extend(self.storm_control.look(&scene, &self.members, way, on_slow));
        }
        let to_try = straggler.and_then(|straggler| scene.to_be_tried(&self.members, straggler));
        if on_slow != OnSlow::Wait {
            let found = self.slow_hosts.look(&scene, &self.members, straggler, way);
            // Before it evicts a host the root waits for the user's whole limit.
            findings.extend(found.filter(|_| on_slow == OnSlow::Demote));
        }
        let straggler =
            straggler.and_then(|straggler| self.slow_hosts.blame(&scene, straggler, on_slow));
        findings.extend(
            self.stragglers
                .look(&scene, &self.members, straggler, on_slow),
        );
        let is_suspecting = self.slow_hosts.is_suspecting();
        // A stream that pauses is not slow.
        let is_resting = is_suspecting || !self.replanning.is_settled();
        let drain = self
            .cast_change
            .look(&scene, &self.members, way, is_resting);
        let is_excused = self.slow_hosts.is_deciding()
            || drain.is_some()
            || self.cast_change.is_considered()
            || self.storm_control.is_falling_back()
            || self.neighbours.are_suspected(now)
            || !self.replanning.is_settled();
        let survey = self
            .tree_change
            .look(&scene, &self.members, way, is_excused);
        if self.storm_control.is_falling_back() {
            self.delivery.retire();
        }
        drain
            .into_iter()
            .for_each(|drain| self.replanning.go_over_to_cast(now, drain, &timing));
        survey
            .into_iter()
            .for_each(|survey| self.replanning.compare_hosts(now, survey, &timing));
        to_try
            .into_iter()
            .for_each(|(rank, arrived)| self.delivery.try_out(&self.view, rank, arrived));
        for finding in findings {
            match finding {
                StallVerdict::Notify(rank, text) => endpoint.push_event(RootEvent::HeldUp {
                    host: self.host(rank).to_owned(),
                    text,
                }),
                StallVerdict::Demote(rank, text) => self.demote(now, rank, &text, endpoint),
                StallVerdict::Apart(from, at) => self.part(now, [from, at], endpoint),
                StallVerdict::GiveUp(rank, text) => {
                    self.lose(now, rank, Outcome::Stalled, &text, endpoint)
                }
            }
        }
    }
}
