//! Common parts of a root and a receiver.

use super::ControlMemory;
use super::kind;
use super::message::Message;
use super::throttle::Throttle;
use crate::membership::control::{self, ControlQueue};
use crate::membership::{ControlStats, Station};
use ethbcast_transport::wire::{self, Identity, Kind, Rank};
use ethbcast_transport::{Deadline, Instant, MacAddr, Timer};
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of waiting control messages: the parts of the longest view, a few times.
const MAX_WAITING: usize = 8192;
/// Maximum number of waiting replies to non-members, which repeat their requests.
const MAX_ANSWERS: usize = 64;
/// Minimum time between two such replies: a thousandth of a fast link's frames.
const BETWEEN_ANSWERS: Duration = Duration::from_millis(1);
/// Time for the final messages to leave when the session is over; after it they are dropped, so
/// that no link delays the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// One end of a session: its configuration, its identity in control messages, the queue of these,
/// and events for its user.
#[derive(Clone, Debug)]
pub(super) struct Endpoint<C, E> {
    config: C,
    station: Station,
    identity: Identity,
    /// Epoch of the view under which control messages are sent; 0 before there is one.
    epoch: u32,
    control: ControlQueue,
    /// Replies to non-members, in a queue of their own so that they do not delay members.
    answers: ControlQueue,
    next_answer: Instant,
    events: VecDeque<E>,
    stats: ControlStats,
    throttle: Throttle,
    has_heard_itself: bool,
    silent_at: Option<Instant>,
}

impl<C, E> Endpoint<C, E> {
    pub(super) fn new(config: C, station: Station, session: u32, rank: Rank) -> Endpoint<C, E> {
        let identity = station.identity(session, rank);
        Endpoint {
            config,
            station,
            identity,
            epoch: 0,
            control: ControlQueue::new(MAX_WAITING),
            answers: ControlQueue::new(MAX_ANSWERS),
            next_answer: Instant::START,
            events: VecDeque::new(),
            stats: ControlStats::default(),
            throttle: Throttle::default(),
            has_heard_itself: false,
            silent_at: None,
        }
    }

    pub(super) fn config(&self) -> &C {
        &self.config
    }

    pub(super) fn config_mut(&mut self) -> &mut C {
        &mut self.config
    }

    pub(super) fn station(&self) -> &Station {
        &self.station
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    pub(super) fn enter(&mut self, session: u32) {
        self.identity.session = session;
    }

    pub(super) fn adopt(&mut self, rank: Rank, epoch: u32) {
        self.identity.rank = rank;
        self.epoch = epoch;
    }

    pub(super) fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    pub(super) fn throttle_mut(&mut self) -> &mut Throttle {
        &mut self.throttle
    }

    pub(super) fn send(&mut self, to: MacAddr, message: &Message) {
        let (kind, body) = message.encode();
        let header = control::header(&self.identity, kind, self.epoch);
        if is_superseded(kind) {
            self.control.put_newest(to, header, body);
        } else {
            self.control.put(to, header, body);
        }
    }

    /// Encodes a control message as a whole frame, which another process may send for this host.
    pub(super) fn frame(&self, to: MacAddr, message: &Message) -> Vec<u8> {
        let (kind, body) = message.encode();
        let mut frame = vec![0; wire::OVERHEAD_BYTES + body.len()];
        let length = self.identity.write(&mut frame, to, &control::header(&self.identity, kind, self.epoch), &body);
        frame.truncate(length);
        frame
    }

    pub(super) fn write(&mut self, buffer: &mut [u8], to: MacAddr, message: &Message) -> usize {
        let (kind, body) = message.encode();
        self.stats.sent += 1;
        self.identity.write(buffer, to, &control::header(&self.identity, kind, self.epoch), &body)
    }

    pub(super) fn send_in(&mut self, session: u32, to: MacAddr, message: &Message) {
        let (kind, body) = message.encode();
        let identity = Identity { session, ..self.identity };
        self.control.put(to, control::header(&identity, kind, self.epoch), body);
    }

    pub(super) fn reply(&mut self, to: MacAddr, message: &Message) {
        let (kind, body) = message.encode();
        self.answers.put_newest(to, control::header(&self.identity, kind, self.epoch), body);
    }

    pub(super) fn send_to_group(&mut self, message: &Message) {
        self.send(self.station().group_mac, message);
    }

    /// Writes the oldest control message as a frame, or now and then a reply to a non-member.
    pub(super) fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let control = self.control.poll(&self.station, &mut self.stats, buffer);
        if control.is_some() || now < self.next_answer {
            return control;
        }
        let answer = self.answers.poll(&self.station, &mut self.stats, buffer)?;
        self.next_answer = now + BETWEEN_ANSWERS;
        Some(answer)
    }

    pub(super) fn next_reply(&self, now: Instant) -> Option<Deadline> {
        let waits = !self.answers.is_empty() && self.next_answer > now;
        waits.then_some(Deadline { at: self.next_answer, why: Timer("answer") })
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.control.is_empty()
    }

    pub(super) fn end(&mut self, now: Instant) {
        self.silent_at = Some(now + LAST_WORDS);
    }

    pub(super) fn next_end(&self) -> Option<Deadline> {
        let at = self.silent_at.filter(|_| !self.is_quiet())?;
        Some(Deadline { at, why: Timer("last words") })
    }

    pub(super) fn handle_end(&mut self, now: Instant) {
        if self.silent_at.is_some_and(|at| at <= now) {
            self.silence();
        }
    }

    pub(super) fn silence(&mut self) {
        self.control.clear();
        self.answers.clear();
    }

    /// Whether a frame has this host's own address as its source, which no received frame should
    /// have; and whether that is the first one.
    pub(super) fn is_own(&mut self, source: MacAddr) -> (bool, bool) {
        let is_own = source == self.station.mac;
        (is_own, is_own && !std::mem::replace(&mut self.has_heard_itself, true))
    }

    pub(super) fn push_event(&mut self, event: E) {
        self.events.push_back(event);
    }

    pub(super) fn poll_event(&mut self) -> Option<E> {
        self.events.pop_front()
    }

    pub(super) fn waiting_frames(&self) -> usize {
        self.control.waiting().0
    }

    pub(super) fn memory(&self) -> ControlMemory {
        let of = |queue: &ControlQueue| {
            let (waiting_frames, waiting_bytes) = queue.waiting();
            ControlMemory { waiting_frames, waiting_bytes, ..ControlMemory::default() }
        };
        of(&self.control) + of(&self.answers)
    }

    pub(super) fn stats(&self) -> ControlStats {
        self.stats
    }

    pub(super) fn read(&mut self, frame: &ethbcast_transport::wire::Frame<'_>) -> Option<Message> {
        let message = Message::decode(frame.header.kind, frame.payload);
        *(if message.is_some() { &mut self.stats.received } else { &mut self.stats.malformed }) += 1;
        message
    }

    pub(super) fn count_malformed(&mut self) {
        self.stats.malformed += 1;
    }

    pub(super) fn count_stranger(&mut self) {
        self.stats.strangers += 1;
    }
}

fn is_superseded(kind: Kind) -> bool {
    matches!(
        kind,
        kind::ANNOUNCE
            | kind::JOIN
            | kind::READY
            | kind::STATUS
            | kind::DONE
            | kind::VERDICT
            | kind::ABORT
            | kind::FETCH
            | kind::CHALLENGE
            | kind::RESPONSE
    )
}
