//! The host that is measured: echoes test frames, and counts and reports them.

use super::body::{ProbeBody, ReportBody, Task, address};
use super::kind;
use super::probe::{FramedMessage, header};
use super::processor::Processors;
use crate::membership::codec::BodyReader;
use crate::membership::timers::Wait;
use ethbcast_transport::stream::{Outlet, Stream};
use ethbcast_transport::wire::{Flags, Frame, Guard, Identity, Peer, Rank, StreamId};
use ethbcast_transport::{Deadline, Instant, Kept, MacAddr, Part, SplitFrame, Tuning};
use std::collections::VecDeque;
use std::time::Duration;

const MAX_ANSWERS: usize = 64;
/// Maximum number of probers whose trains are counted at once; a further one replaces the one whose
/// last frame is oldest.
const MAX_PROBERS: usize = 16;
/// Limits of a message that is echoed, in bytes and in frames. They bound the effect of one forged
/// frame.
const MAX_ECHO_BYTES: usize = 1 << 20;
const MAX_ECHO_FRAMES: u64 = 256;
/// Limit of frames in a requested flow (10 ms at 1 Gbit/s), and of flows that wait to be sent.
pub(super) const MAX_FLOW_FRAMES: u32 = 1024;
const MAX_FLOWS: usize = 2;

/// Divisor of a flow's leading part, which does not count towards its rate: token buckets were
/// full, and another flow may not have begun.
const FLOW_LEAD_IN_PART: u32 = 4;

/// Host information sent in reply to an invitation to this group; invitations to others are
/// ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInfo {
    pub group: String,
    pub host: String,
}

/// Replies to PROBE frames: echoes, counts, reports.
///
/// Its owner chooses the frames it receives (those of a session, of a group). If embedded in a
/// machine, it gets frames from that machine; [`Alone`](ethbcast_transport::Alone) it takes all
/// frames of its driver.
#[derive(Clone, Debug)]
pub struct Responder {
    identity: Identity,
    mtu_bytes: usize,
    info: Option<HostInfo>,
    /// Random number that orders have to carry.
    token: Option<u64>,
    answers: VecDeque<Reply>,
    tallies: Vec<TrainTally>,
    frames_sent: u64,
    processors: Option<Processors>,
    listener: Option<Listener>,
    application: Vec<u8>,
    ended: Option<(MacAddr, u32, u32)>,
}

#[derive(Clone, Debug)]
struct Reply {
    guard: Guard,
    to: MacAddr,
    session: u32,
    test: u32,
    what: ResponderTask,
}

#[derive(Clone, Debug)]
enum ResponderTask {
    Info,
    Echo {
        framed: FramedMessage,
        next: u64,
    },
    Report {
        seen: u64,
        body: ReportBody,
        asked: bool,
    },
    Flow {
        frames: u32,
        payload_bytes: usize,
        next: u32,
    },
}

#[derive(Clone, Debug)]
struct TrainTally {
    prober: MacAddr,
    session: u32,
    test: u32,
    seen: u64,
    counts: ReportBody,
}

impl Responder {
    /// Creates a responder on an interface with this MTU; without `info` it does not reply to
    /// invitations.
    ///
    /// The identity's session is unused: a reply carries the session of its PROBE.
    pub fn new(identity: Identity, mtu_bytes: usize, info: Option<HostInfo>) -> Responder {
        let (answers, tallies) = (VecDeque::new(), Vec::new());
        Responder {
            identity,
            mtu_bytes,
            info,
            token: None,
            answers,
            tallies,
            frames_sent: 0,
            processors: None,
            listener: None,
            application: Vec::new(),
            ended: None,
        }
    }

    /// Also reports the processor time used and the computer's identifier, if `processors` are
    /// given.
    pub fn with_processors(self, processors: Option<Processors>) -> Responder {
        Responder { processors, ..self }
    }

    /// Takes orders to send flows and to receive streams only if they carry this random number,
    /// which the reply to an invitation tells: with keys, a recorded order has no effect.
    pub fn with_token(self, token: u64) -> Responder {
        Responder {
            token: Some(token),
            ..self
        }
    }

    fn is_fresh(&self, rest: &mut BodyReader<'_>) -> bool {
        self.token.is_none_or(|token| rest.u64() == Some(token))
    }

    pub(super) fn counted(
        &self,
        prober: MacAddr,
        (session, test): (u32, u32),
    ) -> (u64, ReportBody) {
        let is_it = |tally: &&TrainTally| {
            (tally.prober, tally.session, tally.test) == (prober, session, test)
        };
        self.tallies
            .iter()
            .find(is_it)
            .map_or((0, ReportBody::default()), |tally| {
                (tally.seen, tally.counts)
            })
    }

    pub(super) fn flow(
        &mut self,
        to: MacAddr,
        (session, test): (u32, u32),
        frames: u32,
        payload_bytes: usize,
    ) {
        let payload_bytes = payload_bytes.clamp(ProbeBody::BYTES, self.most_payload_bytes());
        let is_flow = |answer: &&Reply| matches!(answer.what, ResponderTask::Flow { .. });
        let has_room = self.answers.len() < MAX_ANSWERS
            && self.answers.iter().filter(is_flow).count() < MAX_FLOWS;
        if has_room
            && (1..=MAX_FLOW_FRAMES).contains(&frames)
            && !to.is_multicast()
            && to != self.identity.mac
        {
            let (guard, what) = (
                self.identity.guard.clone(),
                ResponderTask::Flow {
                    frames,
                    payload_bytes,
                    next: 0,
                },
            );
            self.answers.push_back(Reply {
                guard,
                to,
                session,
                test,
                what,
            });
        }
    }

    fn most_payload_bytes(&self) -> usize {
        self.identity
            .guard
            .payload_bytes(self.mtu_bytes)
            .max(ProbeBody::BYTES)
    }

    /// Protects the replies to later frames by this guard.
    pub fn set_guard(&mut self, guard: Guard) {
        self.identity.guard = guard;
    }

    fn payload_bytes(&self, body: &ProbeBody) -> usize {
        usize::from(body.payload_bytes).clamp(ProbeBody::BYTES, self.most_payload_bytes())
    }

    /// Starts, queries or ends a stream. Only a responder with `info` takes streams, and one at a
    /// time.
    fn on_bulk(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        body: ProbeBody,
        mut rest: BodyReader<'_>,
    ) {
        let (prober, session, test) = (frame.source, frame.header.session, frame.header.stamp);
        let own = self.identity.mac;
        let Some(place) = StreamPlace::read(&mut rest, own, prober).filter(|_| self.info.is_some())
        else {
            return;
        };
        let known = self.listener.as_ref();
        // The order is another prober's, or was delayed on its way, or recorded.
        if !self.is_fresh(&mut rest)
            || known.is_some_and(|known| !known.is_for(prober, session) || known.ahead(test) < 0)
        {
            return;
        }
        let is_over = frame.header.flags.has(Flags::LAST);
        let was_ended = self.ended.is_some_and(|(by, of, ended)| {
            (by, of) == (prober, session) && test.wrapping_sub(ended) as i32 <= 0
        });
        if !is_over && !was_ended && known.is_none_or(|known| known.ahead(test) > 0) {
            let payload_bytes = self.payload_bytes(&body) as u16;
            let body = ProbeBody {
                payload_bytes,
                ..body
            };
            self.drop_listener();
            let application = std::mem::take(&mut self.application);
            self.listener = Some(Listener::new(
                now,
                &self.identity,
                frame,
                (&body, &place),
                application,
            ));
        }
        let (taken, counts) = self
            .listener
            .as_ref()
            .map_or_else(Default::default, Listener::counted);
        self.answer_report(
            frame,
            (
                taken,
                ReportBody {
                    late_nanos: frame.header.sequence,
                    ..counts
                },
            ),
            true,
        );
        if is_over {
            self.ended = Some((prober, session, test));
            self.drop_listener();
        }
    }

    fn drop_listener(&mut self) {
        if let Some(listener) = self.listener.take() {
            self.application = listener.into_application();
        }
    }

    /// Counts a frame of a train, or reports the count. A member of a running session performs no
    /// other task, because one may have this host send much.
    pub(crate) fn count_train(&mut self, now: Instant, frame: &Frame<'_>) {
        let task = ProbeBody::read(frame.payload).map(|(body, _)| body.task);
        if matches!(task, Some(Task::Train | Task::Ask)) {
            self.handle_frame(now, frame);
        }
    }

    pub fn frames_sent(&self) -> u64 {
        self.frames_sent
    }

    /// Echoes a message when its last frame has arrived, as between processes (§5.1).
    fn on_ping(&mut self, frame: &Frame<'_>, body: ProbeBody) {
        let payload_bytes = self.payload_bytes(&body);
        let framed = FramedMessage {
            bytes: (body.number as usize).min(MAX_ECHO_BYTES + 1),
            payload_bytes,
        };
        let allowed = framed.bytes <= MAX_ECHO_BYTES && framed.frames() <= MAX_ECHO_FRAMES;
        if frame.header.flags.has(Flags::LAST) && allowed {
            self.reply(frame, ResponderTask::Echo { framed, next: 0 });
        }
    }

    /// Sends a requested flow. Only a responder with `info` does so, and only if it is addressed,
    /// so that no single frame to the group makes all hosts send.
    fn on_flow(&mut self, frame: &Frame<'_>, body: ProbeBody, mut rest: BodyReader<'_>) {
        let (to, sender) = (address(&mut rest), address(&mut rest));
        let is_fresh = self.is_fresh(&mut rest);
        if let (Some(to), true, Some(_)) = (
            to,
            is_fresh && sender == Some(self.identity.mac),
            &self.info,
        ) {
            let (session, test) = (frame.header.session, frame.header.stamp);
            self.flow(to, (session, test), body.number, body.payload_bytes.into());
        }
    }

    fn on_train(&mut self, now: Instant, frame: &Frame<'_>, body: ProbeBody) {
        let Some(tally) = self.tally(frame) else {
            return;
        };
        let (index, nanos) = (frame.header.sequence, now.as_nanos());
        let counts = &mut tally.counts;
        if counts.arrived == 0 {
            counts.first_nanos = nanos;
        }
        counts.arrived += 1;
        if index >= u64::from(body.number) {
            if counts.arrived_late == 0 {
                counts.late_nanos = nanos;
            }
            counts.arrived_late += 1;
        }
        if index >= tally.seen {
            tally.seen = index.saturating_add(1);
            counts.last_nanos = nanos;
        }
        if frame.header.flags.has(Flags::ACK_NOW) {
            self.report(frame, frame.source, false);
        }
    }

    /// Returns the count for the frame's train, and begins it if it is new; `None` for a late frame
    /// of a finished one.
    fn tally(&mut self, frame: &Frame<'_>) -> Option<&mut TrainTally> {
        let (prober, session, test) = (frame.source, frame.header.session, frame.header.stamp);
        let fresh = TrainTally {
            prober,
            session,
            test,
            seen: 0,
            counts: ReportBody::default(),
        };
        let known = self
            .tallies
            .iter()
            .position(|tally| tally.prober == prober && tally.session == session);
        if known.is_none() && self.tallies.len() >= MAX_PROBERS {
            self.tallies.remove(0);
        }
        let mut tally = known.map_or(fresh, |at| self.tallies.remove(at));
        let newer = test.wrapping_sub(tally.test);
        if newer != 0 && newer < 1 << 31 {
            tally = TrainTally {
                test,
                seen: 0,
                counts: ReportBody::default(),
                ..tally
            };
        }
        // The prober whose frame came last is at the end.
        self.tallies.push(tally);
        self.tallies.last_mut().filter(|tally| tally.test == test)
    }

    fn report(&mut self, frame: &Frame<'_>, prober: MacAddr, asked: bool) {
        let counted = self.counted(prober, (frame.header.session, frame.header.stamp));
        self.answer_report(frame, counted, asked);
    }

    fn answer_report(&mut self, frame: &Frame<'_>, (seen, counts): (u64, ReportBody), asked: bool) {
        let worked_nanos = self.processors.map_or(0, Processors::nanos);
        let body = ReportBody {
            worked_nanos,
            computer: self.processors.and_then(Processors::computer),
            ..counts
        };
        self.reply(frame, ResponderTask::Report { seen, body, asked });
    }

    fn reply(&mut self, frame: &Frame<'_>, what: ResponderTask) {
        if self.answers.len() < MAX_ANSWERS {
            let (session, test) = (frame.header.session, frame.header.stamp);
            let guard = self.identity.guard.clone();
            self.answers.push_back(Reply {
                guard,
                to: frame.source,
                session,
                test,
                what,
            });
        }
    }
}

impl Part for Responder {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        if let Some(listener) = &mut self.listener
            && listener.is_session(frame.header.session)
        {
            listener.handle_frame(now, frame);
        }
        if frame.header.kind != kind::PROBE || frame.source.is_multicast() {
            return;
        }
        let Some((body, mut rest)) = ProbeBody::read(frame.payload) else {
            return;
        };
        match body.task {
            Task::Invite => {
                if self
                    .info
                    .as_ref()
                    .is_some_and(|info| rest.text().is_some_and(|group| group == info.group))
                {
                    self.reply(frame, ResponderTask::Info);
                }
            }
            Task::Ping => self.on_ping(frame, body),
            Task::Train => self.on_train(now, frame, body),
            Task::Ask => self.report(frame, address(&mut rest).unwrap_or(frame.source), true),
            Task::Flow => self.on_flow(frame, body, rest),
            Task::Bulk => self.on_bulk(now, frame, body, rest),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.listener
            .iter_mut()
            .for_each(|listener| listener.handle_timeout(now));
        self.listener.take_if(|listener| listener.is_over(now));
    }

    /// Sends reports before a stream, which may never leave room for them, and other replies after
    /// it.
    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        let is_report = |answer: &Reply| matches!(answer.what, ResponderTask::Report { .. });
        let report = if self.listener.is_some() {
            self.answers.iter().position(is_report)
        } else {
            None
        };
        if let Some(report) = report.and_then(|at| self.answers.remove(at)) {
            self.answers.push_front(report);
            self.frames_sent += 1;
            return self.poll_answer(buffer).map(SplitFrame::whole);
        }
        let listener = self.listener.as_mut();
        let streamed = listener.and_then(|listener| listener.poll_transmit_split(now, buffer));
        let split = streamed.or_else(|| self.poll_answer(buffer).map(SplitFrame::whole))?;
        self.frames_sent += 1;
        Some(split)
    }

    fn payload(&self, kept: Kept) -> &[u8] {
        self.listener
            .as_ref()
            .map_or(&[], |listener| listener.payload(kept))
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        self.listener
            .as_ref()
            .and_then(|listener| listener.poll_timeout(now))
    }

    /// Whether to reply at once: a stream is received as in a session, everything else is urgent.
    fn is_urgent(&self) -> bool {
        self.listener.as_ref().is_none_or(Listener::is_urgent)
    }
}

impl Responder {
    fn poll_answer(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let answer = self.answers.front_mut()?;
        let guard = answer.guard.clone();
        let identity = Identity {
            session: answer.session,
            guard,
            ..self.identity.clone()
        };
        let (length, over) = match &mut answer.what {
            ResponderTask::Info => {
                let number = u32::try_from(self.mtu_bytes).unwrap_or(u32::MAX);
                let host = self.info.as_ref().map_or("", |info| info.host.as_str());
                let mut body = ProbeBody {
                    task: Task::Invite,
                    payload_bytes: 0,
                    number,
                }
                .named(host);
                body.extend(self.token.iter().flat_map(|token| token.to_be_bytes()));
                let header = header(&identity, kind::ECHO, answer.test, 0, Flags::LAST);
                (identity.write(buffer, answer.to, &header, &body), true)
            }
            ResponderTask::Report { seen, body, asked } => {
                let flags = if *asked {
                    Flags::LAST
                } else {
                    Flags::default()
                };
                let header = header(&identity, kind::REPORT, answer.test, *seen, flags);
                (
                    identity.write(buffer, answer.to, &header, &body.encode()),
                    true,
                )
            }
            ResponderTask::Echo { framed, next } => {
                let (index, payload_bytes) = (*next, framed.payload_of(*next));
                *next += 1;
                let over = *next == framed.frames();
                let payload = &mut identity.payload_of(buffer)[..payload_bytes];
                payload.fill(0);
                ProbeBody::plain(Task::Ping).write(payload);
                let flags = if over { Flags::LAST } else { Flags::default() };
                let header = header(&identity, kind::ECHO, answer.test, index, flags);
                (
                    identity.seal(buffer, answer.to, &header, payload_bytes),
                    over,
                )
            }
            ResponderTask::Flow {
                frames,
                payload_bytes,
                next,
            } => {
                let (index, lead_in) = (*next, *frames / FLOW_LEAD_IN_PART);
                *next += 1;
                let payload = &mut identity.payload_of(buffer)[..*payload_bytes];
                payload.fill(0);
                ProbeBody {
                    task: Task::Train,
                    payload_bytes: 0,
                    number: lead_in,
                }
                .write(payload);
                let header = header(
                    &identity,
                    kind::PROBE,
                    answer.test,
                    index.into(),
                    Flags::default(),
                );
                (
                    identity.seal(buffer, answer.to, &header, *payload_bytes),
                    *next == *frames,
                )
            }
        };
        if over {
            self.answers.pop_front();
        }
        Some(length)
    }
}

const PATIENCE: Duration = Duration::from_secs(2);
/// Size of the application's ring of memory: more than caches hold, because a file would not stay
/// there either.
const APPLICATION_BYTES: usize = 16 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamPlace {
    pub parent: Option<Peer>,
    pub child: Option<Peer>,
    pub listeners: u16,
    pub position: u16,
}

impl StreamPlace {
    /// Returns an order's payload: its body, both neighbours as rank and address (zeros for none),
    /// and the cast's numbers.
    pub(super) fn behind(&self, body: &ProbeBody) -> Vec<u8> {
        let nobody = Peer {
            rank: Rank(0),
            mac: MacAddr::default(),
        };
        let mut out = body.encode();
        for peer in [self.parent, self.child].map(|peer| peer.unwrap_or(nobody)) {
            out.u16(peer.rank.0).bytes(&peer.mac.octets());
        }
        out.u16(self.listeners).u16(self.position);
        out.into_bytes()
    }

    /// Reads the neighbours behind an order's body. Returns `None` if one is a group address or the
    /// receiver's `own`, or if parent and child are the same.
    pub(super) fn read(
        from: &mut BodyReader<'_>,
        own: MacAddr,
        prober: MacAddr,
    ) -> Option<StreamPlace> {
        let mut peer = || Some((Rank(from.u16()?), address(from)));
        let (parent, child) = (peer()?, peer()?);
        let [parent, child] = [parent, child].map(|(rank, mac)| Some(Peer { rank, mac: mac? }));
        let mut macs = [parent, child].into_iter().flatten().map(|peer| peer.mac);
        let sane = macs.all(|mac| !mac.is_multicast() && mac != own)
            && child.is_none_or(|child| child.mac != parent.map_or(prober, |parent| parent.mac));
        let (listeners, position) = (from.u16()?, from.u16()?);
        sane.then_some(StreamPlace {
            parent,
            child,
            listeners,
            position,
        })
    }
}

pub(super) fn stream_of(test: u32) -> StreamId {
    StreamId(test as u16)
}

pub(super) fn tuned(listeners: usize, position: usize) -> Tuning {
    let own = Tuning::default();
    if listeners > 0 {
        own.for_cast(listeners, position)
    } else {
        own
    }
}

/// Receives a prober's stream with the engine, like a receiver of a session, and has an application
/// that copies all of it.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    prober: MacAddr,
    session: u32,
    test: u32,
    stream: Box<Stream>,
    first_nanos: u64,
    last_nanos: u64,
    application: Vec<u8>,
    filled: usize,
    last_received_at: Instant,
}

impl Listener {
    /// Creates a listener for the stream announced by `order`. It reuses an earlier listener's
    /// application memory, whose pages have been touched.
    pub(super) fn new(
        now: Instant,
        identity: &Identity,
        order: &Frame<'_>,
        (body, place): (&ProbeBody, &StreamPlace),
        application: Vec<u8>,
    ) -> Listener {
        let (session, test) = (order.header.session, order.header.stamp);
        let identity = Identity {
            session,
            stream: stream_of(test),
            rank: Rank(body.number as u16),
            ..identity.clone()
        };
        let parent = place.parent.unwrap_or(Peer {
            rank: order.header.rank,
            mac: order.source,
        });
        let children = place.child.into_iter().collect();
        let outlet = if place.listeners == 0 {
            Outlet::Lanes(children)
        } else {
            Outlet::RepairChildren(children)
        };
        let tuning = tuned(place.listeners.into(), place.position.into());
        let payload_bytes = body.payload_bytes.into();
        Listener {
            prober: order.source,
            session,
            test,
            stream: Box::new(Stream::receiver(
                identity,
                payload_bytes,
                parent,
                &outlet,
                tuning,
            )),
            first_nanos: 0,
            last_nanos: 0,
            application: if application.is_empty() {
                vec![1; APPLICATION_BYTES]
            } else {
                application
            },
            filled: 0,
            last_received_at: now,
        }
    }

    pub(super) fn is_for(&self, prober: MacAddr, session: u32) -> bool {
        (self.prober, self.session) == (prober, session)
    }

    pub(super) fn is_session(&self, session: u32) -> bool {
        self.session == session
    }

    /// Returns how far `test` is ahead of this stream's test, in serial arithmetic; 0 if equal.
    pub(super) fn ahead(&self, test: u32) -> i32 {
        test.wrapping_sub(self.test) as i32
    }

    pub(super) fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let before = self.stream.stats().data_received;
        self.stream.handle_frame(now, frame);
        if self.stream.stats().data_received > before {
            self.last_received_at = now;
        }
    }

    pub(super) fn poll_transmit_split(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Option<SplitFrame> {
        while let Some(run) = self.stream.peek_run(u64::MAX) {
            let fits = self.filled + run.bytes.len() <= self.application.len();
            let begin = if fits { self.filled } else { 0 };
            self.filled = begin + run.bytes.len();
            self.application[begin..self.filled].copy_from_slice(run.bytes);
            let frames = run.frames;
            self.stream.consume_run(now, frames);
            self.first_nanos = if self.first_nanos == 0 {
                now.as_nanos()
            } else {
                self.first_nanos
            };
            self.last_nanos = now.as_nanos();
        }
        self.stream.poll_transmit_split(now, buffer)
    }

    pub(super) fn payload(&self, kept: Kept) -> &[u8] {
        self.stream.payload(kept)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.stream.handle_timeout(now);
    }

    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let end = Wait::Silence.at(self.last_received_at + PATIENCE);
        Some(
            self.stream
                .poll_timeout(now)
                .map_or(end, |deadline| deadline.min(end)),
        )
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.last_received_at + PATIENCE <= now
    }

    pub(super) fn is_urgent(&self) -> bool {
        self.stream.is_urgent()
    }

    pub(super) fn into_application(self) -> Vec<u8> {
        self.application
    }

    pub(super) fn counted(&self) -> (u64, ReportBody) {
        let taken = self.stream.position();
        let (first_nanos, last_nanos) = (self.first_nanos, self.last_nanos);
        (
            taken,
            ReportBody {
                arrived: taken,
                first_nanos,
                last_nanos,
                ..ReportBody::default()
            },
        )
    }
}
