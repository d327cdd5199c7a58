//! A receiver of a session: answers an invitation, takes and relays the stream, says what became of it.

use super::message::{Digest, Message, Outcome, Refusal, State, Trailer};
use super::post::{ControlStats, Outbox, Station};
use super::root::STREAM;
use super::timing::{Timing, take_due};
use super::view::{Assembler, View};
use crate::plan::Via;
use ethbcast_transport::stream::{Identity, Outlet, Peer, Stream, StreamStats};
use ethbcast_transport::wire::{self, Frame, Header, Kind};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine, Timer, Tuning};
use std::collections::VecDeque;
use std::time::Duration;

/// What a receiver is told at its creation.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Its place on the wire.
    pub station: Station,
    /// A random number that names this run.
    pub nonce: u64,
    /// Room for the data, in bytes.
    pub free_bytes: u64,
    /// How long to wait for a root; `None` for as long as it takes.
    pub patience: Option<Duration>,
    /// The engine's numbers; the root's view decides the policy.
    pub tuning: Tuning,
    /// The session's clockwork.
    pub timing: Timing,
}

/// What the receiver's user wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A root was found and asked.
    Invited {
        /// The root's name.
        host: String,
        /// What it offers.
        source: String,
        /// Its bytes, if known in advance.
        size: Option<u64>,
    },
    /// This host is a member: data will come.
    Started {
        /// This host's rank.
        rank: u16,
        /// How many receivers there are.
        receivers: usize,
        /// How the bytes travel.
        via: Via,
        /// How many bytes, if known in advance.
        size: Option<u64>,
    },
    /// The session is over for this host.
    Ended(End),
}

/// How a session ended for a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The root has this host's verdict.
    Confirmed,
    /// The verdict was given, but the root fell silent or gave this host up before it confirmed it.
    Unconfirmed,
    /// The root turned this host away.
    Refused(Refusal, String),
    /// The root gave up.
    Aborted(String),
    /// The root took this host off the list.
    Dropped,
    /// The root fell silent.
    RootSilent,
    /// No root was heard of in time.
    NobodyThere,
}

/// What the stream holds for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// The next bytes.
    Bytes(&'a [u8]),
    /// The end: what all bytes must add up to.
    End(Trailer),
}

#[derive(Debug)]
enum Phase {
    Listening,
    Joining,
    Running,
    Ended,
}

/// The root as this host knows it.
#[derive(Clone, Debug)]
struct Known {
    mac: MacAddr,
    session: u32,
    heard_at: Instant,
}

/// The receiver's state machine.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    phase: Phase,
    root: Option<Known>,
    view: Option<View>,
    view_digest: Digest,
    rank: u16,
    assembler: Assembler,
    stream: Option<Stream>,
    ended: bool,
    outbox: Outbox,
    events: VecDeque<ReceiverEvent>,
    stats: ControlStats,
    verdict: Option<Message>,
    confirmed: bool,
    leaving_until: Option<Instant>,
    now: Instant,
    began: Instant,
    join_due: Option<Instant>,
    status_due: Option<Instant>,
    done_due: Option<Instant>,
}

impl Receiver {
    /// A receiver that listens from `now` on.
    pub fn new(now: Instant, config: ReceiverConfig) -> Receiver {
        Receiver {
            config,
            phase: Phase::Listening,
            root: None,
            view: None,
            view_digest: [0; 32],
            rank: Header::NO_RANK,
            assembler: Assembler::default(),
            stream: None,
            ended: false,
            outbox: Outbox::default(),
            events: VecDeque::new(),
            stats: ControlStats::default(),
            verdict: None,
            confirmed: false,
            leaving_until: None,
            now,
            began: now,
            join_due: None,
            status_due: None,
            done_due: None,
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }

    /// Whether everything has been said: nothing more will be sent.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ended) && self.outbox.is_empty()
    }

    /// This host's end of the stream, once it is a member.
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

    /// This host's rank, once it is a member.
    pub fn rank(&self) -> Option<u16> {
        self.view.is_some().then_some(self.rank)
    }

    /// The present view, once this host is a member.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// What has arrived and not been consumed.
    pub fn peek(&self) -> Option<Arrival<'_>> {
        let (payload, last) = self.stream.as_ref()?.peek()?;
        match last {
            false => Some(Arrival::Bytes(payload)),
            true => Some(Arrival::End(Trailer::decode(payload).unwrap_or(Trailer { bytes: u64::MAX, digest: [0; 32] }))),
        }
    }

    /// The application is done with what [`peek`](Receiver::peek) showed.
    ///
    /// # Panics
    /// If it showed nothing.
    pub fn consume(&mut self) {
        let stream = self.stream.as_mut().expect("something was shown");
        self.ended |= stream.peek().is_some_and(|(_, last)| last);
        stream.consume();
    }

    /// Lets the root know of room, after one or more [`consume`](Receiver::consume)s.
    pub fn drained(&mut self, now: Instant) {
        if let Some(stream) = &mut self.stream {
            stream.drained(now);
        }
    }

    /// The application's verdict on what it received. Anything but [`Outcome::Delivered`] makes this host leave the session.
    pub fn conclude(&mut self, now: Instant, outcome: Outcome, bytes: u64, digest: Digest, text: &str) {
        self.now = now;
        if self.verdict.is_some() || !matches!(self.phase, Phase::Running) {
            self.leave_early(outcome);
            return;
        }
        self.verdict = Some(Message::Done { outcome, bytes, digest, text: text.to_owned() });
        self.done_due = Some(now);
        if outcome != Outcome::Delivered {
            // Long enough for the root to answer and the others to take over; not so long that a user waits.
            self.leaving_until = Some(now + self.config.timing.status * 5);
        }
    }

    fn leave_early(&mut self, outcome: Outcome) {
        if outcome == Outcome::Interrupted {
            self.end(End::Dropped);
        }
    }

    fn end(&mut self, end: End) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        log::debug!("session ended: {end:?}");
        self.phase = Phase::Ended;
        self.join_due = None;
        self.status_due = None;
        self.done_due = None;
        self.leaving_until = None;
        self.events.push_back(ReceiverEvent::Ended(end));
    }

    fn send(&mut self, message: &Message) {
        let Some(root) = &self.root else { return };
        let epoch = self.view.as_ref().map_or(0, |view| view.epoch);
        self.outbox.put(root.mac, root.session, self.rank, epoch, message);
    }

    fn on_announce(&mut self, frame: &Frame<'_>, message: &Message) {
        let Message::Announce { group, host, source, size, .. } = message else { return };
        if *group != self.config.station.group || !matches!(self.phase, Phase::Listening) {
            return;
        }
        log::info!("{host} invites to group {group}: {source}, {size:?} bytes");
        self.root = Some(Known { mac: frame.source, session: frame.header.session, heard_at: self.now });
        self.phase = Phase::Joining;
        self.join_due = Some(self.now);
        self.events.push_back(ReceiverEvent::Invited { host: host.clone(), source: source.clone(), size: *size });
    }

    fn on_control(&mut self, message: Message) {
        match message {
            Message::Refuse { nonce, why, text } if nonce == self.config.nonce && matches!(self.phase, Phase::Joining) => {
                self.end(End::Refused(why, text));
            }
            Message::View { epoch, digest, part, parts, bytes } => self.on_view_part(epoch, digest, part, parts, bytes),
            Message::Verdict { over, heard } => self.on_verdict(over, &heard),
            Message::Abort { text } => self.end(End::Aborted(text)),
            _ => {}
        }
    }

    fn on_view_part(&mut self, epoch: u32, digest: Digest, part: u16, parts: u16, bytes: Vec<u8>) {
        let present = self.view.as_ref().map_or(0, |view| view.epoch);
        if epoch < present || matches!(self.phase, Phase::Ended | Phase::Listening) {
            return;
        }
        if epoch > present {
            if let Some(view) = self.assembler.take(digest, part, parts, bytes) {
                self.adopt(view, digest);
            }
        }
        // Confirmed once for each repetition, when its last part comes by.
        if self.view.as_ref().is_some_and(|view| view.epoch == epoch) && digest == self.view_digest && part + 1 == parts {
            self.send(&Message::Ready { epoch, digest });
        }
    }

    fn adopt(&mut self, view: View, digest: Digest) {
        let own = |member: &super::view::Member| member.nonce == self.config.nonce && member.mac == self.config.station.mac && member.present;
        let Some(rank) = view.members.iter().position(own) else {
            if matches!(self.phase, Phase::Running) {
                self.end(match (self.confirmed, &self.verdict) {
                    (true, _) => End::Confirmed,
                    (false, Some(_)) => End::Unconfirmed,
                    (false, None) => End::Dropped,
                });
            }
            return;
        };
        self.rank = rank as u16;
        self.view_digest = digest;
        let parent = view.parent(self.rank).map(|parent| Peer { rank: parent, mac: view.members[usize::from(parent)].mac });
        let Some(parent) = parent else { return };
        let children: Vec<Peer> = view.children(self.rank).into_iter().map(|rank| Peer { rank, mac: view.members[usize::from(rank)].mac }).collect();
        if let Some(stream) = &mut self.stream {
            reshape(self.now, stream, parent, &children);
            stream.set_epoch(view.epoch as u8);
        } else {
            self.begin(&view, parent, children);
        }
        self.view = Some(view);
    }

    fn begin(&mut self, view: &View, parent: Peer, children: Vec<Peer>) {
        let station = &self.config.station;
        let session = self.root.as_ref().map_or(0, |root| root.session);
        let identity = Identity { session, stream: STREAM, rank: self.rank, mac: station.mac, ether_type: station.ether_type };
        let tuning = tuned(&self.config.tuning, view, self.rank);
        let mut stream = Stream::receiver(identity, usize::from(view.payload_bytes), parent, &Outlet::Lanes(children), tuning);
        stream.set_epoch(view.epoch as u8);
        self.stream = Some(stream);
        self.phase = Phase::Running;
        self.join_due = None;
        self.status_due = Some(self.now + self.config.timing.status);
        let receivers = view.members.len() - 1;
        log::info!("rank {} of {receivers} receivers, parent {}", self.rank, parent.rank);
        self.events.push_back(ReceiverEvent::Started { rank: self.rank, receivers, via: view.via, size: view.size });
    }

    fn on_verdict(&mut self, over: bool, heard: &[u8]) {
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        let mine = heard.get(usize::from(self.rank) / 8).is_some_and(|byte| byte >> (self.rank % 8) & 1 == 1);
        if mine && self.verdict.is_some() {
            self.confirmed = true;
            self.done_due = None;
        }
        if over {
            self.end(if self.confirmed { End::Confirmed } else { End::Dropped });
        } else if self.confirmed && self.leaving_until.is_some() {
            self.end(End::Confirmed);
        }
    }

    fn state(&self) -> State {
        let Some(stream) = &self.stream else { return State::Alive };
        if self.ended && self.verdict.is_none() {
            State::Verifying
        } else if stream.backlog_frames() > stream.feed().slots() / 2 {
            State::Blocked
        } else if stream.backlog_frames() == 0 && !self.ended {
            State::Starved
        } else {
            State::Alive
        }
    }

    fn watch_root(&mut self) {
        let silence = self.root.as_ref().map(|root| self.now.since(root.heard_at));
        match (&self.phase, silence) {
            (Phase::Listening, _) if self.config.patience.is_some_and(|patience| self.now.since(self.began) >= patience) => {
                self.end(End::NobodyThere);
            }
            (Phase::Joining, Some(silence)) if silence >= self.config.timing.dead => {
                // The root went away before it began; there may be another.
                self.root = None;
                self.join_due = None;
                self.phase = Phase::Listening;
            }
            (Phase::Running, Some(silence)) if silence >= self.config.timing.dead => {
                let end = match (&self.verdict, self.confirmed) {
                    (_, true) => End::Confirmed,
                    (Some(_), false) => End::Unconfirmed,
                    (None, false) => End::RootSilent,
                };
                self.end(end);
            }
            _ => {}
        }
        if self.leaving_until.is_some_and(|until| until <= self.now) {
            self.end(if self.confirmed { End::Confirmed } else { End::Unconfirmed });
        }
    }

    fn deadlines(&self) -> impl Iterator<Item = Deadline> + '_ {
        let live = !matches!(self.phase, Phase::Ended);
        let patience = self.config.patience.filter(|_| matches!(self.phase, Phase::Listening)).map(|patience| self.began + patience);
        let dead = self.root.as_ref().filter(|_| live).map(|root| root.heard_at + self.config.timing.dead);
        let stream = self.stream.as_ref().filter(|_| live).and_then(|stream| stream.deadline(self.now));
        [
            (self.join_due, Timer::Join),
            (self.status_due, Timer::Status),
            (self.done_due, Timer::Verdict),
            (self.leaving_until, Timer::Verdict),
            (patience, Timer::Announce),
            (dead, Timer::Dead),
        ]
        .into_iter()
        .filter_map(|(at, why)| at.map(|at| Deadline { at, why }))
        .chain(stream)
    }

    fn on_session_frame(&mut self, frame: &Frame<'_>) {
        match frame.header.kind {
            Kind::Data | Kind::Ack | Kind::Heartbeat => {
                if let (Some(stream), Phase::Running) = (&mut self.stream, &self.phase) {
                    stream.on_frame(self.now, frame);
                    for rank in stream.take_orphans() {
                        self.send(&Message::Orphan { rank });
                    }
                }
            }
            kind => match Message::decode(kind, frame.payload) {
                Some(message) => {
                    self.stats.received += 1;
                    self.on_control(message);
                }
                None => self.stats.malformed += 1,
            },
        }
    }
}

/// Brings the lanes in line with a new view.
fn reshape(now: Instant, stream: &mut Stream, parent: Peer, children: &[Peer]) {
    stream.set_parent(parent);
    let gone: Vec<u16> = stream.children().filter(|rank| children.iter().all(|child| child.rank != *rank)).collect();
    // New children first: what a dead child was keeping here is what its own children may still need.
    for &child in children {
        stream.graft_child(now, child);
    }
    for rank in gone {
        stream.remove_reader(now, rank);
    }
}

/// The engine's numbers for one member of a view: under a cast acknowledgements become rarer and staggered as receivers grow
/// in number (DESIGN §8), so that at full speed the root hears about one for every 32 frames.
pub(super) fn tuned(tuning: &Tuning, view: &View, rank: u16) -> Tuning {
    let mut tuning = Tuning { policy: view.policy, ..tuning.clone() };
    if view.via == Via::Cast {
        let receivers = view.members.len().saturating_sub(1).max(1) as u32;
        let spread = receivers.div_ceil(8);
        tuning.ack_every_frames = (u64::from(receivers) * 32).clamp(tuning.ack_every_frames, 512);
        tuning.ack_delay *= 2 * spread;
        tuning.timeout_min *= 2 * spread;
        // A step of 37 spreads neighbouring ranks over the 100 µs.
        tuning.gap_delay = Duration::from_micros(u64::from(rank) * 37 % 100) * spread;
    }
    tuning
}

impl Machine for Receiver {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.now = now;
        let Ok(frame) = wire::parse(frame) else {
            self.stats.malformed += 1;
            return;
        };
        if frame.header.kind == Kind::Announce && matches!(self.phase, Phase::Listening) {
            match Message::decode(Kind::Announce, frame.payload) {
                Some(message) => self.on_announce(&frame, &message),
                None => self.stats.malformed += 1,
            }
            return;
        }
        let Some(root) = self.root.as_mut().filter(|root| root.session == frame.header.session) else {
            self.stats.strangers += 1;
            return;
        };
        if frame.source == root.mac {
            root.heard_at = now;
        }
        let from_root = frame.source == root.mac;
        let member = self.view.as_ref().and_then(|view| view.members.get(usize::from(frame.header.rank)));
        let from_member = member.is_some_and(|member| member.mac == frame.source);
        let stream_frame = matches!(frame.header.kind, Kind::Data | Kind::Ack | Kind::Heartbeat);
        if !(from_root || stream_frame && from_member) {
            self.stats.strangers += 1;
            return;
        }
        self.on_session_frame(&frame);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        if take_due(&mut self.join_due, now) {
            let config = &self.config;
            let message = Message::Join {
                nonce: config.nonce,
                group: config.station.group.clone(),
                host: config.station.host.clone(),
                mtu_bytes: config.station.mtu_bytes,
                free_bytes: config.free_bytes,
            };
            self.join_due = Some(now + config.timing.join);
            self.send(&message);
        }
        if take_due(&mut self.status_due, now) {
            let frames = self.stream.as_ref().map_or(0, |stream| stream.feed().head() - stream.backlog_frames());
            self.send(&Message::Status { state: self.state(), frames });
            self.status_due = Some(now + self.config.timing.status);
        }
        if take_due(&mut self.done_due, now) {
            if let Some(verdict) = self.verdict.clone() {
                self.send(&verdict);
                self.done_due = Some(now + self.config.timing.verdict);
            }
        }
        if let (Some(stream), Phase::Running) = (&mut self.stream, &self.phase) {
            stream.on_timeout(now);
        }
        self.watch_root();
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.now = now;
        if let Some(length) = self.outbox.poll(&self.config.station, &mut self.stats, buffer) {
            return Some(length);
        }
        let running = matches!(self.phase, Phase::Running);
        self.stream.as_mut().filter(|_| running)?.poll(now, buffer)
    }

    fn poll_timeout(&self) -> Option<Deadline> {
        self.deadlines().min()
    }
}
