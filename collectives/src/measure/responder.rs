//! The host that answers.

use super::body::{ProbeBody, ReportBody, Task, read_name, write_name};
use super::parcel::Parcel;
use super::post::{header, link};
use ethbcast_transport::wire::Identity;
use ethbcast_transport::wire::{self, Flags, Frame, HEADER_BYTES, OVERHEAD_BYTES};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine};
use std::collections::VecDeque;

/// Answers that may wait for room to send; more are not given.
const MAX_ANSWERS: usize = 64;
/// Probers whose trains are counted at the same time; one more takes the place of the one heard least recently.
const MAX_PROBERS: usize = 16;
/// The longest message that is echoed, in bytes and in frames: what one forged frame can bring about at most.
const MAX_ECHO_BYTES: usize = 1 << 20;
const MAX_ECHO_FRAMES: u64 = 256;

/// What a responder says to an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// Name of the group it listens to; invitations to others are ignored.
    pub group: String,
    /// Its host name.
    pub host: String,
}

/// Answers PROBE frames: echoes, counts, reports.
///
/// Which frames it gets to see (those of a session, of a group) is for its owner to decide: embedded, it is handed frames by
/// [`on_frame`](Responder::on_frame); as a [`Machine`] it takes whatever its driver lets through.
#[derive(Debug)]
pub struct Responder {
    identity: Identity,
    mtu_bytes: usize,
    card: Option<Card>,
    answers: VecDeque<Answer>,
    tallies: Vec<Tally>,
    frames_sent: u64,
}

#[derive(Debug)]
struct Answer {
    to: MacAddr,
    session: u32,
    test: u32,
    what: What,
}

#[derive(Debug)]
enum What {
    Card,
    Echo { parcel: Parcel, next: u64 },
    Report { seen: u64, body: ReportBody, asked: bool },
}

/// What has arrived of one prober's present train.
#[derive(Debug)]
struct Tally {
    prober: MacAddr,
    session: u32,
    test: u32,
    /// One past the highest number.
    seen: u64,
    counts: ReportBody,
}

impl Responder {
    /// A responder on an interface with this MTU; without a card it does not answer invitations.
    ///
    /// Of the identity's session nothing is used: an answer carries the session of its PROBE.
    pub fn new(identity: Identity, mtu_bytes: usize, card: Option<Card>) -> Responder {
        Responder { identity, mtu_bytes, card, answers: VecDeque::new(), tallies: Vec::new(), frames_sent: 0 }
    }

    /// Frames it has sent.
    pub fn frames_sent(&self) -> u64 {
        self.frames_sent
    }

    /// Takes a PROBE that has been parsed; all other frames are ignored.
    pub fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        if frame.header.kind != crate::measure::kind::PROBE || frame.source.is_multicast() {
            return;
        }
        let Some((body, rest)) = ProbeBody::read(frame.payload) else { return };
        match body.task {
            Task::Invite => {
                if self.card.as_ref().is_some_and(|card| read_name(rest).is_some_and(|group| group == card.group)) {
                    self.answer(frame, What::Card);
                }
            }
            Task::Ping => self.on_ping(frame, body),
            Task::Train => self.on_train(now, frame, body),
            Task::Ask => self.report(frame, true),
        }
    }

    /// The echo goes out when the message's last frame is there, as it does between processes (§5.1).
    fn on_ping(&mut self, frame: &Frame<'_>, body: ProbeBody) {
        let own_payload_bytes = self.mtu_bytes.saturating_sub(HEADER_BYTES).max(ProbeBody::BYTES);
        let payload_bytes = usize::from(body.payload_bytes).clamp(ProbeBody::BYTES, own_payload_bytes);
        let parcel = Parcel { bytes: (body.number as usize).min(MAX_ECHO_BYTES + 1), payload_bytes };
        let allowed = parcel.bytes <= MAX_ECHO_BYTES && parcel.frames() <= MAX_ECHO_FRAMES;
        if frame.header.flags.has(Flags::LAST) && allowed {
            self.answer(frame, What::Echo { parcel, next: 0 });
        }
    }

    fn on_train(&mut self, now: Instant, frame: &Frame<'_>, body: ProbeBody) {
        let Some(tally) = self.tally(frame) else { return };
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
            self.report(frame, false);
        }
    }

    /// The count for the frame's train, begun if it is a new one; `None` for a straggler of one that is over.
    fn tally(&mut self, frame: &Frame<'_>) -> Option<&mut Tally> {
        let (prober, session, test) = (frame.source, frame.header.session, frame.header.stamp);
        let fresh = Tally { prober, session, test, seen: 0, counts: ReportBody::default() };
        let mut tally = match self.tallies.iter().position(|tally| tally.prober == prober && tally.session == session) {
            Some(at) => self.tallies.remove(at),
            None => fresh_place(&mut self.tallies, fresh),
        };
        let newer = test.wrapping_sub(tally.test);
        if newer != 0 && newer < 1 << 31 {
            tally = Tally { test, seen: 0, counts: ReportBody::default(), ..tally };
        }
        // The one heard last is at the end.
        self.tallies.push(tally);
        self.tallies.last_mut().filter(|tally| tally.test == test)
    }

    /// Says what has been counted of the frame's train: zeros, if none of it has come.
    fn report(&mut self, frame: &Frame<'_>, asked: bool) {
        let (prober, session, test) = (frame.source, frame.header.session, frame.header.stamp);
        let counted = self.tallies.iter().find(|tally| tally.prober == prober && tally.session == session && tally.test == test);
        let (seen, body) = counted.map_or((0, ReportBody::default()), |tally| (tally.seen, tally.counts));
        self.answer(frame, What::Report { seen, body, asked });
    }

    fn answer(&mut self, frame: &Frame<'_>, what: What) {
        if self.answers.len() < MAX_ANSWERS {
            self.answers.push_back(Answer { to: frame.source, session: frame.header.session, test: frame.header.stamp, what });
        }
    }

    /// Writes the next answer's frame into `buffer`, which must hold the largest frame of the link; `None` if there is none.
    pub fn poll(&mut self, _now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let answer = self.answers.front_mut()?;
        let payload = &mut buffer[OVERHEAD_BYTES..];
        let (kind, index, payload_bytes, over, last) = match &mut answer.what {
            What::Card => (crate::measure::kind::ECHO, 0, write_card(payload, self.mtu_bytes, self.card.as_ref()), true, true),
            What::Report { seen, body, asked } => {
                body.write(payload);
                (crate::measure::kind::REPORT, *seen, ReportBody::BYTES, true, *asked)
            }
            What::Echo { parcel, next } => {
                let (index, length) = (*next, parcel.payload_of(*next));
                payload[..length].fill(0);
                ProbeBody::plain(Task::Ping).write(payload);
                *next += 1;
                let over = *next == parcel.frames();
                (crate::measure::kind::ECHO, index, length, over, over)
            }
        };
        let flags = if last { Flags::LAST } else { Flags::default() };
        let identity = Identity { session: answer.session, ..self.identity };
        let header = header(&identity, kind, answer.test, index, flags);
        let length = wire::seal(buffer, link(&identity, answer.to), &header, payload_bytes);
        if over {
            self.answers.pop_front();
        }
        self.frames_sent += 1;
        Some(length)
    }
}

/// Makes room for another prober, if need be.
fn fresh_place(tallies: &mut Vec<Tally>, fresh: Tally) -> Tally {
    if tallies.len() >= MAX_PROBERS {
        tallies.remove(0);
    }
    fresh
}

/// The answer to an invitation: task, MTU, name.
fn write_card(payload: &mut [u8], mtu_bytes: usize, card: Option<&Card>) -> usize {
    let number = u32::try_from(mtu_bytes).unwrap_or(u32::MAX);
    ProbeBody { task: Task::Invite, payload_bytes: 0, number }.write(payload);
    let host = card.map_or("", |card| &card.host);
    ProbeBody::BYTES + write_name(&mut payload[ProbeBody::BYTES..], host)
}

impl Machine for Responder {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        if let Ok(frame) = wire::parse(frame) {
            self.on_frame(now, &frame);
        }
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.poll(now, buffer)
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        None
    }
}
