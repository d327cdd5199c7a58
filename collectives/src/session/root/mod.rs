//! The sender (*root*) of a transfer: announces it, admits receivers, sends, collects results.
//!
//! The module is the interface to its user and its driver. The behaviour is that of the phase:
//! `gathering` receivers, `running` the session, `closing` it. Each phase has its own fields and
//! timers.

mod admission;
mod config;
mod delivery;
mod members;
mod phase;
mod policy;
mod repair;
mod running;

use super::blocks::Blocks;
use super::endpoint::{ControlMemory, Endpoint};
use super::keyring::Keyring;
use super::kind::{ANNOUNCE, JOIN, LEAVE, REFUSE};
use super::message::{Message, Outcome, ROOT_ASKS, Stage, Status, Trailer};
use super::throttle::Rate;
use super::verified::ChunkSet;
use super::view::View;
pub use crate::Route;
use crate::census::CensusRequest;
use crate::census::kind::WHO;
use crate::keys::ContentCipher;
use crate::membership::ControlStats;
use admission::join_requests::JoinRequest;
use admission::non_members::NonMembers;
use admission::{Gathering, GatheringStep};
use config::RootEndpoint;
pub use config::{
    Carousel, Learnt, MemberReport, NamesError, NoPlan, OnSlow, Proved, RootConfig, RootEvent,
    RootFailure, TurnedAway, Wanted, size_class,
};
use ethbcast_planning::model::Choice;
use ethbcast_planning::plan::Via;
use ethbcast_transport::stream::{Ending, StreamStats};
use ethbcast_transport::wire::{self, Frame, Rank};
use ethbcast_transport::{
    Deadline, Instant, Kept, LinkReading, MacAddr, Machine, Part, SplitFrame,
};
use phase::{Closing, RootPhase};
pub use policy::neighbours::OtherTraffic;
pub use repair::wants::{Damage, Lacking};
use running::SessionPhase;
use std::ops::Range;
use std::time::Duration;

const PLANNED: &str = "the sender shows its plan, and sends nothing now (--dry-run)";

/// State machine of a session's root.
#[derive(Clone, Debug)]
pub struct Root {
    endpoint: RootEndpoint,
    phase: RootPhase,
    trailer: Option<Trailer>,
    choice: Option<Choice>,
    failure: Option<RootFailure>,
    non_members: NonMembers,
}

impl Root {
    /// Creates a root that starts announcing at `now`.
    ///
    /// # Panics
    /// If [`Tuning::check`](ethbcast_transport::Tuning::check) finds a wrong number, or
    /// [`RootConfig::check_names`] a name that does not fit.
    pub fn new(now: Instant, mut config: RootConfig) -> Root {
        config
            .tuning
            .check()
            .expect("the root's tuning passes its check");
        let keyring = config
            .keys
            .take()
            .map(|keys| Keyring::of_root(keys, &config.station, config.session));
        config.station.guard = keyring
            .as_ref()
            .and_then(Keyring::group_guard)
            .unwrap_or_default();
        config.form = config.form.signed(keyring.is_some());
        config
            .check_names()
            .expect("the root's names pass their check");
        let phase = RootPhase::Gathering(Box::new(Gathering::new(now, &config)));
        let (station, session, rate) = (config.station.clone(), config.session, config.rate);
        let mut endpoint = Endpoint::new(config, station, session, Rank::ROOT, keyring);
        endpoint.throttle_mut().set(rate);
        Root {
            endpoint,
            phase,
            trailer: None,
            choice: None,
            failure: None,
            non_members: NonMembers::default(),
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<RootEvent> {
        self.endpoint.poll_event()
    }

    /// Returns the reason why the session failed to start, if it did.
    pub fn failure(&self) -> Option<&RootFailure> {
        self.failure.as_ref()
    }

    /// Returns the hosts that requested to join and were turned away, or came too late.
    pub fn turned_away(&self) -> impl Iterator<Item = &TurnedAway> + '_ {
        self.non_members.refusals().all()
    }

    /// Starts with the receivers present, or with the first that comes.
    pub fn start_now(&mut self, now: Instant) {
        if let RootPhase::Gathering(gathering) = &mut self.phase {
            gathering.start_now();
            self.go_on(now);
        }
    }

    /// Whether enough receivers are there for a session that is [held](RootConfig::held).
    pub fn is_ready(&self) -> bool {
        matches!(&self.phase, RootPhase::Gathering(gathering) if gathering.is_ready())
    }

    /// Lets a session start that was [held](RootConfig::held).
    pub fn release(&mut self, now: Instant) {
        if std::mem::take(&mut self.endpoint.config_mut().held) {
            self.go_on(now);
        }
    }

    /// Whether the session is over: nothing more will be sent.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, RootPhase::Ended(_)) && self.endpoint.is_quiet()
    }

    /// Returns the current view, once there is one.
    pub fn view(&self) -> Option<&View> {
        self.phase.running().map(SessionPhase::view)
    }

    /// Returns the plan and its predicted time, once members are there.
    pub fn choice(&self) -> Option<&Choice> {
        self.choice.as_ref()
    }

    /// Returns the root's end of the streams, once members are there.
    pub fn streams(&self) -> Option<&Blocks> {
        self.phase
            .running()
            .map(|running| running.delivery().blocks())
    }

    /// Returns the frame counters of the streams.
    pub fn stream_stats(&self) -> StreamStats {
        self.phase
            .running()
            .map(|running| running.delivery().stats())
            .unwrap_or_default()
    }

    /// Returns the counters of control frames.
    pub fn control_stats(&self) -> ControlStats {
        self.endpoint.stats()
    }

    /// Returns the amount of state kept beside the streams.
    pub fn control_memory(&self) -> ControlMemory {
        let asking = if let RootPhase::Gathering(gathering) = &self.phase {
            gathering.entries()
        } else {
            0
        };
        ControlMemory {
            non_member_entries: asking + self.non_members.refusals().len(),
            ..self.endpoint.memory()
        }
    }

    /// Returns the time from the first data frame to the last report, once all are in.
    pub fn took(&self) -> Duration {
        self.phase
            .running()
            .map(SessionPhase::took)
            .unwrap_or_default()
    }

    /// Returns the time from the first data frame, zero if there was none.
    pub fn since_first_data(&self, now: Instant) -> Duration {
        self.phase
            .running()
            .map(|running| running.since_first_data(now))
            .unwrap_or_default()
    }

    /// Returns the reports of all members whose outcome is known, by rank.
    pub fn reports(&self) -> impl Iterator<Item = &MemberReport> + '_ {
        self.phase
            .running()
            .into_iter()
            .flat_map(|running| running.members().reports())
    }

    /// Returns the hosts that have the content, each with its address.
    pub fn delivered(&self) -> impl Iterator<Item = (MacAddr, &str)> + '_ {
        let members = self.view().map_or(&[][..], |view| &view.members);
        let has_it = |report: &&MemberReport| report.outcome == Outcome::Delivered;
        self.reports().filter(has_it).map(|report| {
            let mac = members[report.rank.index()].mac;
            (mac, report.host.as_str())
        })
    }

    /// Returns the last status report of each member that is not gone, by rank.
    pub fn states(&self) -> impl Iterator<Item = (Rank, Status)> + '_ {
        self.phase
            .running()
            .into_iter()
            .flat_map(|running| running.members().states())
    }

    /// Whether [`push`](Root::push) can take anything now.
    pub fn wants_data(&self) -> bool {
        self.phase
            .running()
            .is_some_and(|running| running.delivery().wants_data())
    }

    /// Whether every application has consumed all that was pushed; guaranteed to become true after
    /// [`end_message`](Root::end_message).
    pub fn is_consumed(&self) -> bool {
        self.streams().is_some_and(Blocks::is_consumed)
    }

    /// Takes as many of `bytes` as there is room for and returns how many. A last partial frame
    /// waits for more bytes, or for an end.
    #[must_use = "what was not taken is to be pushed again"]
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        self.phase
            .running_mut()
            .map_or(0, |running| running.delivery_mut().push(bytes))
    }

    /// Ends a message after the bytes pushed last: its frames go out at once, and
    /// [`is_consumed`](Root::is_consumed) soon reports when every application has consumed them.
    /// Returns false, and ends nothing, while there is no room.
    #[must_use = "false says that the message has not been ended"]
    pub fn end_message(&mut self) -> bool {
        self.phase
            .running_mut()
            .is_some_and(|running| running.delivery_mut().end_message(Ending::Message))
    }

    /// Ends a message like [`end_message`](Root::end_message) without an early confirmation: the
    /// report that it was consumed comes with later messages.
    #[must_use = "false says that the message has not been ended"]
    pub fn end_message_quietly(&mut self) -> bool {
        self.phase
            .running_mut()
            .is_some_and(|running| running.delivery_mut().end_message(Ending::Quiet))
    }

    /// Returns the cipher of the content.
    pub fn content_cipher(&self) -> ContentCipher {
        self.endpoint.content_cipher()
    }

    /// Ends the stream, whose length and digest `trailer` gives.
    pub fn finish(&mut self, trailer: Trailer) {
        self.trailer = Some(trailer);
        if let Some(running) = self.phase.running_mut() {
            running
                .delivery_mut()
                .finish(trailer, self.endpoint.close_trailer(trailer.encode()));
        }
    }

    /// Returns the range of the source to re-read for members that lack it;
    /// [`supply`](Root::supply) takes the bytes.
    pub fn wants_again(&self) -> Option<Range<u64>> {
        self.phase
            .running()
            .and_then(|running| running.fetches().wanted(running.delivery()))
    }

    /// Takes the bytes of the source that [`wants_again`](Root::wants_again) named.
    ///
    /// # Panics
    /// If the length differs.
    pub fn supply(&mut self, bytes: &[u8]) {
        if let Some(running) = self.phase.running_mut() {
            running.delivery_mut().supply(bytes);
        }
    }

    /// Reports that the range named by [`wants_again`](Root::wants_again) cannot be re-read:
    /// members that may have kept it are queried. If none has it, the members that lack it are
    /// lost, with `text` as the reason.
    pub fn deny(&mut self, now: Instant, text: &str) {
        if let RootPhase::Running(running) = &mut self.phase {
            running.deny(now, text, &mut self.endpoint);
            self.watch_reports(now);
        }
    }

    /// Ends the wait for silent members. If all other outcomes are known, the session ends with a
    /// verdict, else with [`abort`](Root::abort). Returns whether there is a verdict, or the
    /// session is over anyway.
    pub fn stop_waiting(&mut self, now: Instant, text: &str) -> bool {
        let decided = match &mut self.phase {
            RootPhase::Running(running) => running.give_up_waiting(now, &mut self.endpoint),
            RootPhase::Closing(..) | RootPhase::Ended(_) => true,
            RootPhase::Gathering(_) => false,
        };
        if decided {
            self.watch_reports(now);
        } else {
            self.abort(now, text);
        }
        decided
    }

    /// Aborts the session and sends `text` to all as the reason.
    pub fn abort(&mut self, now: Instant, text: &str) {
        if matches!(self.phase, RootPhase::Gathering(_) | RootPhase::Running(_)) {
            self.close(
                now,
                Message::Abort {
                    text: text.to_owned(),
                },
            );
        }
    }

    /// Returns a whole frame with which another process, which outlives this one, can announce this
    /// one's end: an abort with `text`, or the final message if one is being sent. `None` once the
    /// session has ended.
    pub fn final_frame(&self, text: &str) -> Option<Vec<u8>> {
        let message = match &self.phase {
            RootPhase::Gathering(_) | RootPhase::Running(_) => Message::Abort {
                text: text.to_owned(),
            },
            RootPhase::Closing(closing, _) => closing.last_message().clone(),
            RootPhase::Ended(_) => return None,
        };
        self.endpoint
            .frame(self.endpoint.station().group_mac, &message)
    }

    fn close(&mut self, now: Instant, last_word: Message) {
        let mut members = self.phase.take();
        let closing = Closing::new(
            now,
            last_word,
            self.endpoint.config().timing.farewells,
            members.as_deref(),
        );
        members
            .iter_mut()
            .for_each(|members| members.delivery_mut().shut());
        self.phase = RootPhase::Closing(closing, members);
    }

    /// Handles a join request, which a receiver with a key sends to the group if it has sent some in
    /// vain.
    fn on_join(&mut self, now: Instant, frame: &Frame<'_>, is_to_group: bool) {
        let Some(mut message) = self.endpoint.read(frame) else {
            return;
        };
        if let Message::Join { host, .. } = &mut message
            && let Some(name) = self.endpoint.config().other_name(host, frame.source)
        {
            host.clone_from(name);
        }
        let Message::Join {
            nonce,
            group,
            host,
            features,
            ..
        } = &message
        else {
            return;
        };
        if *group != self.endpoint.station().group {
            self.endpoint.count_non_member();
            return;
        }
        if matches!(self.phase, RootPhase::Ended(_)) {
            // The session has ended. A receiver without a reply sends its request to another root.
            self.endpoint.count_non_member();
            return;
        }
        if features & ROOT_ASKS != 0 {
            if self.phase.has_group() {
                self.non_members
                    .reply_to_root(frame.source, *nonce, host, &mut self.endpoint);
            }
            return;
        }
        match &mut self.phase {
            RootPhase::Gathering(gathering) => {
                gathering.on_join(
                    now,
                    (frame.source, is_to_group && self.endpoint.is_keyed()),
                    &message,
                    self.non_members.refusals_mut(),
                    &mut self.endpoint,
                );
            }
            phase => {
                if phase
                    .running_mut()
                    .is_some_and(|running| running.on_join(now, *nonce, frame.source))
                {
                    self.endpoint.send_keys(frame.source, *nonce);
                } else {
                    if let RootPhase::Running(running) = phase {
                        running.on_other_run(now, frame.source, &mut self.endpoint);
                        let late =
                            self.endpoint.config().late && !running.view().via.is_in_blocks();
                        let non_members = &mut self.non_members;
                        if late
                            && non_members.welcome(
                                now,
                                frame.source,
                                &message,
                                running,
                                &mut self.endpoint,
                            )
                        {
                            self.endpoint.send_keys(frame.source, *nonce);
                            self.watch_reports(now);
                            return;
                        }
                    }
                    let members = self
                        .phase
                        .running()
                        .map_or(&[][..], |running| &running.view().members);
                    self.non_members.refuse_late(
                        now,
                        (host, frame.source, *nonce),
                        members,
                        &mut self.endpoint,
                    );
                    self.watch_reports(now);
                }
            }
        }
    }

    fn on_leave(&mut self, now: Instant, frame: &Frame<'_>) {
        let Some(Message::Leave { nonce, text }) = self.endpoint.read(frame) else {
            return;
        };
        match &mut self.phase {
            RootPhase::Gathering(gathering) => {
                let refusals = self.non_members.refusals_mut();
                gathering.on_leave(
                    now,
                    (nonce, frame.source),
                    &text,
                    refusals,
                    &mut self.endpoint,
                );
            }
            RootPhase::Running(running) => {
                running.on_leave(now, (nonce, frame.source), &text, &mut self.endpoint);
                self.watch_reports(now);
            }
            _ => self.endpoint.count_non_member(),
        }
    }

    /// Announces the session to a host that has asked for it, whose address may be forged: by no
    /// more bytes than came.
    fn on_seek(&mut self, now: Instant, frame: &Frame<'_>) {
        let (stage, age) = match &self.phase {
            RootPhase::Gathering(gathering) => (Stage::Gathering, gathering.age(now)),
            RootPhase::Running(_) => (self.endpoint.config().stage(), Duration::MAX),
            RootPhase::Closing(..) | RootPhase::Ended(_) => return,
        };
        let config = self.endpoint.config();
        let is_meant = |question: CensusRequest| question.group == config.station.group;
        let invitation = config.invitation(stage, age);
        let bytes = config.announced_bytes(&invitation);
        if bytes <= frame.payload.len()
            && CensusRequest::decode(frame.payload).is_some_and(is_meant)
        {
            self.endpoint.reply(frame.source, &invitation);
        } else {
            self.endpoint.count_non_member();
        }
    }

    fn on_answer(&mut self, now: Instant, frame: &Frame<'_>) {
        let RootPhase::Gathering(gathering) = &self.phase else {
            self.endpoint.count_non_member();
            return;
        };
        let taken = gathering.on_reply(frame, &mut self.endpoint);
        taken
            .into_iter()
            .for_each(|failure| self.give_up(now, failure));
    }

    fn go_on(&mut self, now: Instant) {
        let RootPhase::Gathering(gathering) = &mut self.phase else {
            return;
        };
        match gathering.go_on(now, self.non_members.refusals_mut(), &mut self.endpoint) {
            GatheringStep::Wait => {}
            GatheringStep::Start => self.start(now),
            GatheringStep::GiveUp(failure) => self.give_up(now, failure),
        }
    }

    fn give_up(&mut self, now: Instant, failure: RootFailure) {
        self.fail(now, format!("the sender gave up: {failure}"), failure);
    }

    fn fail(&mut self, now: Instant, text: String, failure: RootFailure) {
        self.failure = Some(failure);
        self.close(now, Message::Abort { text });
    }

    /// Assigns ranks, plans and publishes the first view. A dry run ends here, unless some receivers
    /// already hold a part: those report what they lack.
    fn start(&mut self, now: Instant) {
        let RootPhase::Gathering(gathering) = &mut self.phase else {
            return;
        };
        match gathering.first_view(self.endpoint.config()) {
            Ok((view, choice, _)) if self.endpoint.config().dry_run && !view.selective => {
                self.choice = Some(choice);
                let text = PLANNED.to_owned();
                self.close(now, Message::Abort { text });
            }
            Ok((view, choice, planner)) => {
                log::info!(
                    "view 1: {} receivers via {}",
                    view.members.len() - 1,
                    view.via
                );
                self.choice = Some(choice);
                let (timers, rest) = (gathering.take_timers(), gathering.take_rest());
                if !self.endpoint.config().late {
                    for JoinRequest {
                        host, mac, nonce, ..
                    } in rest
                    {
                        self.non_members.refuse_late(
                            now,
                            (&host, mac, nonce),
                            &view.members,
                            &mut self.endpoint,
                        );
                    }
                }
                let running =
                    SessionPhase::new(now, view, planner, timers, self.trailer, &mut self.endpoint);
                self.phase = RootPhase::Running(Box::new(running));
            }
            Err(error) => self.fail(now, error.to_string(), error.into()),
        }
    }

    fn of_member(&mut self, now: Instant, frame: &Frame<'_>) {
        let (RootPhase::Running(running) | RootPhase::Closing(_, Some(running))) = &mut self.phase
        else {
            return self.endpoint.count_non_member();
        };
        running.handle_frame(now, frame, &mut self.endpoint);
        self.watch_reports(now);
    }

    fn watch_reports(&mut self, now: Instant) {
        if let Some(verdict) = self
            .phase
            .running_mut()
            .and_then(SessionPhase::take_last_message)
        {
            self.close(now, verdict);
        }
    }

    /// Whether some member already has part of the content, so that only missing chunks are sent.
    pub fn is_selective(&self) -> bool {
        self.view().is_some_and(|view| view.selective)
    }

    /// Returns the chunks to send to all of a stretch whose hash lists have been pushed; `None`
    /// while undecided.
    pub fn chosen(&mut self, now: Instant, stretch: u64) -> Option<ChunkSet> {
        let RootPhase::Running(running) = &mut self.phase else {
            return None;
        };
        let config = self.endpoint.config();
        running.choose(now, stretch, config.timing.stall, config.form)
    }

    /// Returns how much members lack of the content, as far as known, in a selective session.
    pub fn lacking(&self) -> Option<Lacking> {
        let running = self
            .phase
            .running()
            .filter(|running| running.view().selective)?;
        Some(running.fetches().lacking())
    }

    /// Returns the bytes sent for the content in a selective session, hash lists included, to all
    /// and to single members.
    pub fn sent_bytes(&self) -> Option<u64> {
        let running = self
            .phase
            .running()
            .filter(|running| running.view().selective)?;
        Some(running.delivery().sent_bytes())
    }

    /// Whether positions of [`wants_again`](Root::wants_again) are those in the verified stream of
    /// the whole content, not in the pushed stream.
    pub fn wants_of_whole(&self) -> bool {
        self.phase.running().is_some_and(|running| {
            running
                .fetches()
                .wants_of_whole(running.view(), running.delivery())
        })
    }

    /// Returns the ranges that a member received damaged and were re-sent, each with its hop as far
    /// as known.
    pub fn damages(&self) -> Vec<Damage> {
        let form = self.endpoint.config().form;
        self.phase
            .running()
            .map(|running| running.fetches().damages(running.view(), form))
            .unwrap_or_default()
    }

    /// Returns the algorithm that replaced the one chosen at the start, if one did.
    pub fn rerouted(&self) -> Option<Via> {
        let via = self.view()?.via;
        (self.choice.as_ref()?.plan.via() != via).then_some(via)
    }

    /// Returns what the session measured and proved of its network, once there are members.
    pub fn proved(&self) -> Proved {
        let full_bytes = self.endpoint.config().station.payload_bytes();
        let running = self.phase.running();
        running.map_or_else(Proved::default, |running| running.proved(full_bytes))
    }

    /// Returns the rate limit of each host, if there is one.
    pub fn rate(&self) -> Option<Rate> {
        self.endpoint.config().rate
    }

    /// Whether no receiver has joined yet.
    pub fn awaits_first(&self) -> bool {
        matches!(&self.phase, RootPhase::Gathering(gathering) if gathering.is_empty())
    }

    /// Sets the largest MTU, in bytes, of the first hop behind the root's interface. Hosts that
    /// long frames do not reach are then refused because of the root's path, not theirs.
    pub fn set_first_hop(&mut self, mtu_bytes: usize) {
        if let RootPhase::Gathering(gathering) = &mut self.phase {
            gathering.checks_mut().set_first_hop(mtu_bytes);
        }
    }

    /// Takes a reading of the interface's counters, which show other traffic.
    pub fn note_link(&mut self, now: Instant, reading: LinkReading) {
        self.endpoint.note_link(now, reading);
        if let RootPhase::Running(running) = &mut self.phase {
            running.note_own_link(now, &mut self.endpoint);
        }
    }

    /// Returns the other traffic seen on the members' links, if there was some.
    pub fn other_traffic(&self) -> Option<OtherTraffic> {
        self.phase.running().and_then(SessionPhase::other_traffic)
    }

    /// Sets another limit: for this host at once, for the members with the next view.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) {
        if self.rate() == Some(rate) {
            return;
        }
        self.endpoint.config_mut().rate = Some(rate);
        self.endpoint.throttle_mut().set(Some(rate));
        if let RootPhase::Running(running) = &mut self.phase {
            running.set_rate(now, rate, &mut self.endpoint);
        }
    }
}

impl Machine for Root {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let is_to_group = || wire::destination(frame).is_some_and(MacAddr::is_multicast);
        let mut plain = Vec::new();
        let frame = match self.endpoint.open(now, frame, &mut plain) {
            Ok(frame) => frame,
            Err(why) => {
                self.non_members.on_reject(frame, why, &mut self.endpoint);
                return;
            }
        };
        if let (true, is_news) = self.endpoint.is_own(&frame) {
            self.endpoint.count_non_member();
            if is_news {
                self.endpoint
                    .push_event(RootEvent::OwnAddress(frame.source));
            }
            return;
        }
        let kind = frame.header.kind;
        // A receiver that has not joined yet knows this session's number from the announcement.
        if frame.header.session != self.endpoint.config().session {
            match kind {
                ANNOUNCE => {
                    self.non_members
                        .on_announce(now, &frame, &mut self.phase, &mut self.endpoint)
                }
                REFUSE => self.on_answer(now, &frame),
                WHO => self.on_seek(now, &frame),
                _ => self.endpoint.count_non_member(),
            }
        } else if kind == JOIN {
            self.on_join(now, &frame, is_to_group());
        } else if kind == LEAVE {
            self.on_leave(now, &frame);
        } else if let RootPhase::Gathering(gathering) = &mut self.phase {
            gathering.handle_frame(now, &frame, &mut self.endpoint);
            self.go_on(now);
        } else {
            self.of_member(now, &frame);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.throttle_mut().handle_timeout(now);
        match &mut self.phase {
            RootPhase::Gathering(gathering) => {
                gathering.handle_timeout(now, self.non_members.refusals_mut(), &mut self.endpoint);
                self.go_on(now);
            }
            RootPhase::Running(running) => {
                running.handle_timeout(now, &mut self.endpoint);
                self.watch_reports(now);
            }
            RootPhase::Closing(closing, _) => {
                if closing.handle_timeout(now, &mut self.endpoint) {
                    self.phase = RootPhase::Ended(self.phase.take());
                    self.endpoint.end(now);
                }
            }
            RootPhase::Ended(_) => self.endpoint.handle_end(now),
        }
    }

    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        let first = self
            .endpoint
            .poll_transmit(now, buffer)
            .map(SplitFrame::whole);
        let frame = match &mut self.phase {
            _ if first.is_some() => first,
            RootPhase::Gathering(gathering) if self.endpoint.throttle_mut().admits(now) => {
                gathering.poll_transmit(now, buffer).map(SplitFrame::whole)
            }
            RootPhase::Running(running) if self.endpoint.throttle_mut().admits(now) => {
                running.poll_transmit_split(now, buffer, &mut self.endpoint)
            }
            _ => None,
        }?;
        self.endpoint.throttle_mut().spend(now, frame.bytes());
        Some(frame)
    }

    /// # Panics
    /// If no stream is being sent, or `kept` is no longer kept.
    fn payload(&self, kept: Kept) -> &[u8] {
        let RootPhase::Running(running) = &self.phase else {
            panic!("only what is delivered is kept")
        };
        running.delivery().payload(kept)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let of_phase = match &self.phase {
            RootPhase::Gathering(gathering) => gathering.poll_timeout(now, self.endpoint.config()),
            RootPhase::Running(running) => running.poll_timeout(now),
            RootPhase::Closing(closing, _) => closing.poll_timeout(),
            RootPhase::Ended(_) => return self.endpoint.next_end(),
        };
        let own = of_phase
            .into_iter()
            .chain(self.endpoint.next_reply(now))
            .min();
        self.endpoint.throttle().deadline(own)
    }

    fn is_urgent(&self) -> bool {
        self.streams().is_some_and(Part::is_urgent)
    }
}
