//! The root of a session: invites, decides the view, feeds the stream, collects the verdicts.

use super::gathering::{Answer, Candidate, Gathering, Offer, Wanted};
use super::message::{Digest, Message, Outcome, Refusal, State, Trailer};
use super::post::{ControlStats, Outbox, Station};
use super::roster::{MemberReport, Roster};
use super::timing::Timing;
use super::view::{Member, View};
use crate::plan::{Plan, Via};
use crate::topology::Topology;
use ethbcast_transport::stream::{Identity, Outlet, Peer, Stream, StreamStats};
use ethbcast_transport::wire::{self, Frame, HEADER_BYTES, Kind};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine, Timer, Tuning};
use std::collections::VecDeque;
use std::time::Duration;

/// The number of the only stream a session has so far.
pub(super) const STREAM: u16 = 1;

const ORPHANED: &str = "the frames it needed died with the host before it";

/// What a root is told at its creation.
#[derive(Clone, Debug)]
pub struct RootConfig {
    /// Its place on the wire.
    pub station: Station,
    /// The session's number, drawn at random.
    pub session: u32,
    /// What is being sent, for the receivers' information.
    pub source: String,
    /// Bytes in the stream, if known in advance.
    pub size: Option<u64>,
    /// How many receivers, and how long to wait for them.
    pub wanted: Wanted,
    /// How the bytes travel.
    pub via: Via,
    /// The cluster; without one all hosts are taken to be on one switch.
    pub topology: Option<Topology>,
    /// The engine's numbers.
    pub tuning: Tuning,
    /// The session's clockwork.
    pub timing: Timing,
}

/// What the root's user wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootEvent {
    /// A receiver joined; so many are there now.
    Joined { host: String, receivers: usize },
    /// A receiver was turned away.
    Refused { host: String, text: String },
    /// A candidate fell silent before the start.
    Left { host: String },
    /// All members hold the view: data may flow.
    Started { receivers: usize },
    /// A member's fate is known.
    Reported(MemberReport),
    /// Every member's fate is known.
    AllReported,
}

/// Why a session did not come about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootFailure {
    /// Too few receivers when patience ended.
    #[error("{} of {wanted} receivers joined within {} s{}; start `ethbcast recv` on the missing hosts, or ask for fewer with --min-receivers",
        joined.len(), patience.as_secs_f64(), listed(joined, refused))]
    TooFew {
        /// Who was there.
        joined: Vec<String>,
        /// Who was turned away, and why.
        refused: Vec<(String, Refusal)>,
        /// How many it takes.
        wanted: usize,
        /// How long the root waited.
        patience: Duration,
    },
    /// No plan can be made for these members.
    #[error("{0}")]
    NoPlan(String),
}

fn listed(joined: &[String], refused: &[(String, Refusal)]) -> String {
    let mut parts = Vec::new();
    if !joined.is_empty() {
        parts.push(joined.join(", "));
    }
    if !refused.is_empty() {
        let refused: Vec<String> = refused.iter().map(|(host, why)| format!("{host}: {why:?}")).collect();
        parts.push(format!("refused {}", refused.join(", ")));
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

#[derive(Debug)]
enum Phase {
    Gathering(Gathering),
    /// Members hold or are getting their view; `flowing` once all have held the first one.
    Running { flowing: bool },
    /// All is known; the last word is repeated.
    Closing { left: u32 },
    Ended,
}

/// The root's state machine.
#[derive(Debug)]
pub struct Root {
    config: RootConfig,
    phase: Phase,
    view: Option<View>,
    view_digest: Digest,
    roster: Roster,
    stream: Option<Stream>,
    outbox: Outbox,
    events: VecDeque<RootEvent>,
    failure: Option<RootFailure>,
    stats: ControlStats,
    /// Bytes pushed that do not fill a frame yet.
    partial: Vec<u8>,
    trailer: Option<Trailer>,
    aborted: bool,
    first_data: Option<Instant>,
    last_verdict: Option<Instant>,
    now: Instant,
    began: Instant,
    announce_due: Option<Instant>,
    view_due: Option<Instant>,
    status_due: Option<Instant>,
    verdict_due: Option<Instant>,
}

impl Root {
    /// A root that starts inviting at `now`.
    pub fn new(now: Instant, config: RootConfig) -> Root {
        Root {
            phase: Phase::Gathering(Gathering::default()),
            view: None,
            view_digest: [0; 32],
            roster: Roster::default(),
            stream: None,
            outbox: Outbox::default(),
            events: VecDeque::new(),
            failure: None,
            stats: ControlStats::default(),
            partial: Vec::new(),
            trailer: None,
            aborted: false,
            first_data: None,
            last_verdict: None,
            now,
            began: now,
            announce_due: Some(now),
            view_due: None,
            status_due: None,
            verdict_due: None,
            config,
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<RootEvent> {
        self.events.pop_front()
    }

    /// Why the session did not come about, if it did not.
    pub fn failure(&self) -> Option<&RootFailure> {
        self.failure.as_ref()
    }

    /// Whether everything has been said: nothing more will be sent.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ended) && self.outbox.is_empty()
    }

    /// The present view, once there is one.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// The root's end of the stream, once members are there.
    pub fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    /// Frames of the stream so far.
    pub fn stream_stats(&self) -> StreamStats {
        self.stream.as_ref().map(Stream::stats).unwrap_or_default()
    }

    /// Control frames so far.
    pub fn control_stats(&self) -> ControlStats {
        self.stats
    }

    /// From the first data frame to the last verdict, once all are in.
    pub fn took(&self) -> Duration {
        self.last_verdict.zip(self.first_data).map(|(end, start)| end.since(start)).unwrap_or_default()
    }

    /// How every member fared that is known so far, by rank.
    pub fn reports(&self) -> impl Iterator<Item = &MemberReport> + '_ {
        self.roster.entries.iter().filter_map(|entry| entry.report.as_ref())
    }

    /// What each present member is busy with, by rank.
    pub fn states(&self) -> impl Iterator<Item = (u16, State, u64)> + '_ {
        self.roster.entries.iter().filter(|entry| entry.present).map(|entry| (entry.rank, entry.state, entry.frames))
    }

    /// Whether [`push`](Root::push) can take anything now.
    pub fn wants_data(&self) -> bool {
        let flowing = matches!(self.phase, Phase::Running { flowing: true }) && self.trailer.is_none();
        flowing && self.stream.as_ref().is_some_and(|stream| stream.feed().head() < stream.feed().limit())
    }

    /// Takes as many of `bytes` as there is room for and returns how many.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        if !self.wants_data() {
            return 0;
        }
        let stream = self.stream.as_mut().expect("a root that wants data has a stream");
        let payload_bytes = stream.payload_bytes();
        let mut taken = 0;
        if !self.partial.is_empty() {
            taken = (payload_bytes - self.partial.len()).min(bytes.len());
            self.partial.extend_from_slice(&bytes[..taken]);
            if self.partial.len() == payload_bytes {
                if !stream.push(&self.partial, false) {
                    self.partial.truncate(payload_bytes - taken);
                    return 0;
                }
                self.partial.clear();
            }
        }
        while bytes.len() - taken >= payload_bytes {
            if !stream.push(&bytes[taken..taken + payload_bytes], false) {
                return taken;
            }
            taken += payload_bytes;
        }
        if self.partial.is_empty() {
            self.partial.extend_from_slice(&bytes[taken..]);
            taken = bytes.len();
        }
        taken
    }

    /// Ends the stream: what was pushed has this many bytes and this digest.
    pub fn finish(&mut self, trailer: Trailer) {
        self.trailer = Some(trailer);
        self.flush_end();
    }

    fn flush_end(&mut self) {
        let (Some(trailer), Some(stream)) = (self.trailer, self.stream.as_mut()) else { return };
        if stream.feed().last().is_some() || (!self.partial.is_empty() && !stream.push(&self.partial, false)) {
            return;
        }
        self.partial.clear();
        stream.push(&trailer.encode(), true);
    }

    /// Gives up and tells everybody why.
    pub fn abort(&mut self, now: Instant, text: &str) {
        self.now = now;
        if matches!(self.phase, Phase::Closing { .. } | Phase::Ended) {
            return;
        }
        self.aborted = true;
        self.say_goodbye(text);
    }

    fn say_goodbye(&mut self, text: &str) {
        let message = if self.aborted {
            Message::Abort { text: text.to_owned() }
        } else {
            Message::Verdict { over: true, heard: self.roster.heard() }
        };
        for _ in 0..self.config.timing.farewells {
            self.send_to_group(&message);
        }
        self.announce_due = None;
        self.view_due = None;
        self.status_due = None;
        self.phase = Phase::Closing { left: self.config.timing.farewells };
        self.verdict_due = Some(self.now + self.config.timing.verdict / 4);
    }

    fn epoch(&self) -> u32 {
        self.view.as_ref().map_or(0, |view| view.epoch)
    }

    fn send(&mut self, to: MacAddr, message: &Message) {
        let epoch = self.epoch();
        self.outbox.put(to, self.config.session, 0, epoch, message);
    }

    fn send_to_group(&mut self, message: &Message) {
        self.send(self.config.station.group_mac, message);
    }

    fn on_control(&mut self, frame: &Frame<'_>, message: Message) {
        self.stats.received += 1;
        let rank = frame.header.rank;
        match message {
            Message::Join { .. } => self.on_join(frame.source, &message),
            Message::Ready { epoch, digest } if epoch == self.epoch() && digest == self.view_digest => self.on_ready(rank, epoch),
            Message::Status { state, frames } => {
                if let Some(entry) = self.roster.entry(rank) {
                    entry.state = state;
                    entry.frames = frames;
                }
            }
            Message::Orphan { rank } => self.lose(rank, Outcome::Orphaned, ORPHANED),
            Message::Done { outcome, bytes, digest, text } => self.on_done(rank, outcome, bytes, digest, text),
            _ => {}
        }
    }

    fn on_join(&mut self, source: MacAddr, join: &Message) {
        let Message::Join { nonce, group, host, .. } = join else { return };
        if *group != self.config.station.group {
            self.stats.strangers += 1;
            return;
        }
        let Phase::Gathering(gathering) = &mut self.phase else {
            let member = self.view.as_ref().is_some_and(|view| view.members.iter().any(|member| member.nonce == *nonce));
            if !member {
                let text = format!("the session of group {group} has started without {host}; run `ethbcast recv` before `ethbcast send`");
                self.send(source, &Message::Refuse { nonce: *nonce, why: Refusal::Late, text });
            }
            return;
        };
        let known_hosts = self.config.topology.as_ref().map(Topology::hosts);
        let offer = Offer { mtu_bytes: self.config.station.mtu_bytes, size: self.config.size, known_hosts };
        let answer = gathering.on_join(self.now, source, join, offer, self.config.timing.join * 5);
        let receivers = gathering.candidates.len();
        match answer {
            Answer::Known => {}
            Answer::New => {
                log::info!("{host} ({source}) joined");
                self.events.push_back(RootEvent::Joined { host: host.clone(), receivers });
                if self.config.wanted.enough.is_some_and(|enough| receivers >= enough) {
                    self.start();
                }
            }
            Answer::Refused { why, text, first_time } => {
                self.send(source, &Message::Refuse { nonce: *nonce, why, text: text.clone() });
                if first_time {
                    self.events.push_back(RootEvent::Refused { host: host.clone(), text });
                }
            }
        }
    }

    /// Makes ranks and plan of the candidates and sends the first view.
    fn start(&mut self) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        let candidates = gathering.in_rank_order();
        self.announce_due = None;
        match self.first_view(&candidates) {
            Ok(view) => {
                log::info!("view 1: {} receivers via {}", candidates.len(), view.via);
                self.phase = Phase::Running { flowing: false };
                self.roster = Roster::new(self.now, 1..=candidates.len() as u16);
                self.stream = Some(self.origin(&view));
                self.status_due = Some(self.now + self.config.timing.status);
                self.publish(view);
            }
            Err(text) => {
                self.failure = Some(RootFailure::NoPlan(text.clone()));
                self.aborted = true;
                self.say_goodbye(&text);
            }
        }
    }

    fn first_view(&self, candidates: &[Candidate]) -> Result<View, String> {
        let station = &self.config.station;
        let names: Vec<&str> = std::iter::once(station.host.as_str()).chain(candidates.iter().map(|candidate| candidate.host.as_str())).collect();
        let plan = self.plan(&names)?;
        let macs = std::iter::once((station.mac, 0)).chain(candidates.iter().map(|candidate| (candidate.mac, candidate.nonce)));
        let members = names.iter().zip(macs).enumerate().map(|(rank, (host, (mac, nonce)))| {
            let parent = plan.parent(rank);
            let order = parent.and_then(|parent| plan.children(parent).iter().position(|&child| child == rank));
            Member {
                host: (*host).to_owned(),
                mac,
                nonce,
                parent: parent.map(|parent| parent as u16),
                order: order.unwrap_or(0) as u16,
                present: true,
            }
        });
        Ok(View {
            epoch: 1,
            via: self.config.via,
            policy: self.config.tuning.policy,
            payload_bytes: station.mtu_bytes - HEADER_BYTES as u16,
            size: self.config.size,
            members: members.collect(),
        })
    }

    fn plan(&self, names: &[&str]) -> Result<Plan, String> {
        let everybody: Vec<usize> = (0..names.len()).collect();
        let plan = match (self.config.via, &self.config.topology) {
            (Via::Cast, _) => crate::plan::cast(0, names.len()),
            (Via::Chain, None) => {
                let topology = Topology::single_switch(names.iter().map(|name| (*name).to_owned())).map_err(|error| error.to_string())?;
                crate::plan::chain(&topology, 0, &everybody)
            }
            (Via::Chain, Some(topology)) => {
                let hosts = names.iter().map(|name| find_host(topology, name)).collect::<Result<Vec<usize>, String>>()?;
                crate::plan::chain(topology, hosts[0], &hosts)
            }
        };
        plan.map_err(|error| error.to_string())
    }

    fn origin(&self, view: &View) -> Stream {
        let station = &self.config.station;
        let identity = Identity { session: self.config.session, stream: STREAM, rank: 0, mac: station.mac, ether_type: station.ether_type };
        let peer = |rank: u16| Peer { rank, mac: view.members[usize::from(rank)].mac };
        let outlet = match view.via {
            Via::Cast => Outlet::Cast { group: station.group_mac, listeners: view.children(0).into_iter().map(peer).collect() },
            Via::Chain => Outlet::Lanes(view.children(0).into_iter().map(peer).collect()),
        };
        let tuning = super::receiver::tuned(&self.config.tuning, view, 0);
        Stream::origin(identity, usize::from(view.payload_bytes), &outlet, tuning)
    }

    fn publish(&mut self, view: View) {
        let (digest, _) = view.parts(usize::from(view.payload_bytes));
        self.view_digest = digest;
        if let Some(stream) = &mut self.stream {
            stream.set_epoch(view.epoch as u8);
        }
        self.view = Some(view);
        self.repeat_view();
    }

    fn repeat_view(&mut self) {
        let Some(view) = &self.view else { return };
        let (_, parts) = view.parts(usize::from(view.payload_bytes));
        for part in parts {
            self.send_to_group(&part);
        }
        self.view_due = Some(self.now + self.config.timing.view);
    }

    fn on_ready(&mut self, rank: u16, epoch: u32) {
        if let Some(entry) = self.roster.entry(rank) {
            entry.ready_epoch = epoch;
        }
        self.check_ready();
    }

    fn check_ready(&mut self) {
        if !self.roster.all_ready(self.epoch()) {
            return;
        }
        self.view_due = None;
        if let Phase::Running { flowing } = &mut self.phase
            && !std::mem::replace(flowing, true)
        {
            let receivers = self.roster.entries.iter().filter(|entry| entry.present).count();
            self.events.push_back(RootEvent::Started { receivers });
        }
    }

    fn on_done(&mut self, rank: u16, outcome: Outcome, bytes: u64, digest: Digest, text: String) {
        self.verdict_due = self.verdict_due.or(Some(self.now));
        if outcome == Outcome::Delivered {
            self.report(rank, outcome, bytes, digest, &text);
        } else {
            self.report(rank, outcome, bytes, digest, &text);
            self.drop_member(rank);
        }
    }

    /// A member is gone for a reason the root found itself.
    fn lose(&mut self, rank: u16, outcome: Outcome, text: &str) {
        let host = self.view.as_ref().and_then(|view| view.members.get(usize::from(rank))).map(|member| member.host.clone());
        log::warn!("lost {}: {text}", host.unwrap_or_default());
        self.report(rank, outcome, 0, [0; 32], text);
        self.drop_member(rank);
    }

    fn report(&mut self, rank: u16, outcome: Outcome, bytes: u64, digest: Digest, text: &str) {
        let took = self.first_data.map(|start| self.now.since(start)).unwrap_or_default();
        let Some(view) = &self.view else { return };
        let Some(entry) = self.roster.entry(rank).filter(|entry| entry.report.is_none()) else { return };
        let host = view.members[usize::from(rank)].host.clone();
        let report = MemberReport { host, rank, outcome, bytes, digest, text: text.to_owned(), took };
        entry.report = Some(report.clone());
        self.last_verdict = Some(self.now);
        self.events.push_back(RootEvent::Reported(report));
        if self.roster.all_reported() {
            self.events.push_back(RootEvent::AllReported);
            self.verdict_due = None;
            self.say_goodbye("");
        }
    }

    /// Takes a member out of the view; its parent takes over its children.
    fn drop_member(&mut self, rank: u16) {
        let running = matches!(self.phase, Phase::Running { .. });
        let Some(entry) = self.roster.entry(rank).filter(|entry| entry.present && running) else { return };
        entry.present = false;
        let Some(mut view) = self.view.take() else { return };
        view.members[usize::from(rank)].present = false;
        view.epoch += 1;
        if let Some(stream) = &mut self.stream {
            // New children first: what the dead one was keeping here is what its own children may still need.
            if view.via != Via::Cast {
                for child in view.children(0) {
                    stream.graft_child(self.now, Peer { rank: child, mac: view.members[usize::from(child)].mac });
                }
            }
            stream.remove_reader(self.now, rank);
        }
        self.publish(view);
        self.check_ready();
    }

    fn watch_silence(&mut self) {
        let Timing { suspect, dead, .. } = self.config.timing;
        let mut gone = Vec::new();
        for entry in self.roster.entries.iter_mut().filter(|entry| entry.present) {
            let silence = self.now.since(entry.heard_at);
            if silence >= dead {
                gone.push(entry.rank);
            } else if silence >= suspect && !std::mem::replace(&mut entry.suspected, true) {
                log::warn!("rank {} has been silent for {silence:?}", entry.rank);
            }
        }
        for rank in gone {
            self.lose(rank, Outcome::Silent, "nothing was heard of it any more");
        }
    }

    fn watch_gathering(&mut self) {
        let Phase::Gathering(gathering) = &mut self.phase else { return };
        for host in gathering.drop_silent(self.now, self.config.timing.dead) {
            self.events.push_back(RootEvent::Left { host });
        }
        let wanted = self.config.wanted;
        if self.now.since(self.began) < wanted.patience {
            return;
        }
        if gathering.candidates.len() >= wanted.at_least.max(1) {
            self.start();
            return;
        }
        let joined: Vec<String> = gathering.in_rank_order().into_iter().map(|candidate| candidate.host).collect();
        let refused = std::mem::take(&mut gathering.refused);
        let failure = RootFailure::TooFew { joined, refused, wanted: wanted.at_least, patience: wanted.patience };
        self.aborted = true;
        self.say_goodbye(&format!("the sender gave up: {failure}"));
        self.failure = Some(failure);
    }

    fn announce(&mut self) {
        let station = &self.config.station;
        let message = Message::Announce {
            group: station.group.clone(),
            host: station.host.clone(),
            source: self.config.source.clone(),
            size: self.config.size,
            mtu_bytes: station.mtu_bytes,
        };
        self.send_to_group(&message);
    }

    fn deadlines(&self) -> impl Iterator<Item = Deadline> + '_ {
        let running = matches!(self.phase, Phase::Running { .. });
        let gathering = matches!(self.phase, Phase::Gathering(_));
        let Timing { suspect, dead, .. } = self.config.timing;
        let silence = running.then(|| self.roster.next_silence(suspect, dead)).flatten();
        let patience = gathering.then(|| self.began + self.config.wanted.patience);
        let stream = self.stream.as_ref().filter(|_| running).and_then(|stream| stream.deadline(self.now));
        [
            (self.announce_due, Timer::Announce),
            (patience, Timer::Join),
            (self.view_due, Timer::View),
            (self.status_due, Timer::Status),
            (self.verdict_due, Timer::Verdict),
            (silence, Timer::Dead),
        ]
        .into_iter()
        .filter_map(|(at, why)| at.map(|at| Deadline { at, why }))
        .chain(stream)
    }

    fn on_verdict_timer(&mut self) {
        let Timing { verdict, .. } = self.config.timing;
        match &mut self.phase {
            Phase::Closing { left } => {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.phase = Phase::Ended;
                    return;
                }
                if !self.aborted {
                    let message = Message::Verdict { over: true, heard: self.roster.heard() };
                    self.send_to_group(&message);
                }
                self.verdict_due = Some(self.now + verdict / 4);
            }
            Phase::Running { .. } => {
                let message = Message::Verdict { over: false, heard: self.roster.heard() };
                self.send_to_group(&message);
            }
            Phase::Gathering(_) | Phase::Ended => {}
        }
    }
}

fn find_host(topology: &Topology, name: &str) -> Result<usize, String> {
    let help = "add it, or run it with --host NAME as it is spelt there";
    topology.host_named(name).ok_or_else(|| format!("the topology file names no host {name}; {help}"))
}

/// Takes a timer's moment if it has come.
pub(super) fn take_due(due: &mut Option<Instant>, now: Instant) -> bool {
    let is_due = due.is_some_and(|at| at <= now);
    if is_due {
        *due = None;
    }
    is_due
}

impl Machine for Root {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.now = now;
        let Ok(frame) = wire::parse(frame) else {
            self.stats.malformed += 1;
            return;
        };
        // A receiver that has not joined yet knows our session number from the invitation.
        if frame.header.session != self.config.session {
            self.stats.strangers += 1;
            return;
        }
        let member = self.view.as_ref().and_then(|view| view.members.get(usize::from(frame.header.rank)));
        let member = member.is_some_and(|member| member.mac == frame.source);
        if frame.header.kind != Kind::Join && !member {
            self.stats.strangers += 1;
            return;
        }
        if member && let Some(entry) = self.roster.entry(frame.header.rank) {
            entry.heard_at = now;
            entry.suspected = false;
        }
        match frame.header.kind {
            Kind::Data | Kind::Ack | Kind::Heartbeat => {
                if let Some(stream) = &mut self.stream {
                    stream.on_frame(now, &frame);
                }
                for rank in self.stream.as_mut().map(Stream::take_orphans).unwrap_or_default() {
                    self.lose(rank, Outcome::Orphaned, ORPHANED);
                }
            }
            kind => match Message::decode(kind, frame.payload) {
                Some(message) => self.on_control(&frame, message),
                None => self.stats.malformed += 1,
            },
        }
        self.flush_end();
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if take_due(&mut self.announce_due, now) {
            self.announce();
            self.announce_due = Some(now + self.config.timing.announce);
        }
        self.watch_gathering();
        if take_due(&mut self.view_due, now) {
            self.repeat_view();
        }
        if take_due(&mut self.status_due, now) {
            self.send_to_group(&Message::Status { state: State::Alive, frames: 0 });
            self.status_due = Some(now + self.config.timing.status);
        }
        if take_due(&mut self.verdict_due, now) {
            self.on_verdict_timer();
        }
        if matches!(self.phase, Phase::Running { .. }) {
            self.watch_silence();
            if let Some(stream) = &mut self.stream {
                stream.on_timeout(now);
            }
        }
        self.flush_end();
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.now = now;
        if let Some(length) = self.outbox.poll(&self.config.station, &mut self.stats, buffer) {
            return Some(length);
        }
        if !matches!(self.phase, Phase::Running { flowing: true }) {
            return None;
        }
        let stream = self.stream.as_mut()?;
        let length = stream.poll(now, buffer)?;
        if self.first_data.is_none() && stream.stats().data_sent > 0 {
            self.first_data = Some(now);
        }
        Some(length)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.deadlines().min()
    }
}
