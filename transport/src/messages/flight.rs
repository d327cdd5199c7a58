//! Frames sent to one peer and not yet acknowledged: what each carries, and the evidence that it is lost.
//!
//! As in a lane of a stream: a frame is lost when one sent later has arrived (RFC 8985); a timeout asks and never repeats. No
//! payload is kept: a lost frame is made again from the message, or from the present room for messages.

use super::body::Word;
use super::settings::SPAN_FRAMES;
use super::window::Window;
use crate::arq::rtt::Rtt;
use crate::arq::stamp::{STALE, Stamp, Stamps};
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::Ack;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Part of a message; `pushed_bytes` is how much of the message was pushed.
    Part { message: u64, offset: u64, bytes: u32, pushed_bytes: u32 },
    /// A note.
    Word(Word),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Flying,
    Lost,
    Arrived,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    piece: Piece,
    stamp: Stamp,
    state: State,
}

/// Questions without an answer after which a peer may be given up.
const PATIENT_TRIES: u32 = 12;

/// See the module's description.
#[derive(Debug)]
pub(super) struct Flight {
    policy: Policy,
    /// The first frame that is not known to have arrived.
    cursor: u64,
    /// Frames from `cursor` on.
    frames: VecDeque<Sent>,
    repairs: BTreeSet<u64>,
    flying: u64,
    window: Window,
    rtt: Rtt,
    echo: Stamp,
    echo_at: Instant,
    due: Option<Instant>,
    tries: u32,
    ask: bool,
    /// Since when the peer owes an answer and has been silent.
    waiting_since: Instant,
}

impl Flight {
    pub(super) fn new(tuning: &Tuning) -> Flight {
        Flight {
            policy: tuning.policy,
            cursor: 0,
            frames: VecDeque::new(),
            repairs: BTreeSet::new(),
            flying: 0,
            window: Window::new(tuning, SPAN_FRAMES),
            rtt: Rtt::new(tuning),
            echo: Stamp::NONE,
            echo_at: Instant::START,
            due: None,
            tries: 0,
            ask: false,
            waiting_since: Instant::START,
        }
    }

    /// One past the highest frame sent.
    pub(super) fn next(&self) -> u64 {
        self.cursor + self.frames.len() as u64
    }

    /// When to ask, if nothing is heard.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// How many frames are on their way, as far as is known.
    pub(super) fn flying(&self) -> u64 {
        self.flying
    }

    /// Bytes of memory that the frames take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.frames.capacity() * size_of::<Sent>()
    }

    /// Whether a note may be sent: only the receiver's span holds it back.
    pub(super) fn has_span(&self) -> bool {
        (self.frames.len() as u64) < SPAN_FRAMES
    }

    /// Whether a part of a message may be sent.
    pub(super) fn has_window(&self) -> bool {
        self.has_span() && self.flying < self.window.frames()
    }

    /// A lost frame to be sent again; it flies from now on under `stamp`.
    pub(super) fn repair(&mut self, now: Instant, stamp: impl FnOnce() -> Stamp) -> Option<(u64, Piece, Stamp)> {
        if self.flying >= self.window.frames() {
            return None;
        }
        let sequence = self.repairs.pop_first()?;
        let stamp = stamp();
        let frame = &mut self.frames[(sequence - self.cursor) as usize];
        (frame.stamp, frame.state) = (stamp, State::Flying);
        let piece = frame.piece;
        self.flying += 1;
        self.arm(now);
        Some((sequence, piece, stamp))
    }

    /// Sends a new frame under `stamp`; returns its number.
    pub(super) fn send(&mut self, now: Instant, piece: Piece, stamp: Stamp) -> u64 {
        let sequence = self.next();
        self.frames.push_back(Sent { piece, stamp, state: State::Flying });
        self.flying += 1;
        self.arm(now);
        sequence
    }

    /// Whether the sender cannot go on without an acknowledgement.
    pub(super) fn is_blocked(&self) -> bool {
        !self.has_window() && self.repairs.is_empty()
    }

    /// Takes an acknowledgement; `arrived` is told what has newly arrived. False if it is forged.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, stamps: &Stamps, arrived: impl FnMut(Piece)) -> bool {
        let echo = Stamp(ack.echo);
        if ack.cursor > self.next() || ack.covered() > self.next() || echo.is_after(stamps.newest()) {
            return false;
        }
        if ack.cursor < self.cursor {
            return true;
        }
        let limiting = self.flying * 2 >= self.window.frames();
        let newly = self.mark_arrived(ack, arrived);
        self.window.on_acknowledged(newly, limiting);
        let fresh = echo.is_after(self.echo) || (echo != Stamp::NONE && now.since(self.echo_at) > STALE);
        if fresh {
            (self.echo, self.echo_at) = (echo, now);
            let held = Duration::from_micros(ack.body.held_us.into());
            let round_trip = Stamp(now.as_micros() as u32).since(echo).saturating_sub(held);
            // A stamp drawn ahead of the clock in a burst would look like an enormous round trip.
            if round_trip < Duration::from_secs(60) {
                self.rtt.sample(round_trip);
            }
            self.find_lost(ack.covered(), echo, stamps.newest());
        }
        self.tries = 0;
        self.due = None;
        if !self.frames.is_empty() {
            self.arm(now);
        }
        true
    }

    fn mark_arrived(&mut self, ack: &Ack<'_>, mut arrived: impl FnMut(Piece)) -> u64 {
        let mut newly = 0;
        let covered = (ack.covered() - self.cursor) as usize;
        for (sequence, frame) in (self.cursor..).zip(self.frames.iter_mut().take(covered)) {
            if frame.state == State::Arrived || !ack.has(sequence) {
                continue;
            }
            match frame.state {
                State::Flying => self.flying -= 1,
                _ => {
                    self.repairs.remove(&sequence);
                }
            }
            frame.state = State::Arrived;
            newly += 1;
            arrived(frame.piece);
        }
        while self.frames.front().is_some_and(|frame| frame.state == State::Arrived) {
            self.frames.pop_front();
            self.cursor += 1;
        }
        newly
    }

    /// What the echo proves lost. First transmissions carry rising stamps, so the search ends at the first young frame beyond
    /// what is `covered`; under `InOrderOnly` only the first frame is judged, and what follows it was thrown away with it.
    fn find_lost(&mut self, covered: u64, echo: Stamp, newest: Stamp) {
        let tolerance = self.rtt.reordering();
        let overtaken = |frame: &Sent| echo.is_after(frame.stamp) && echo.since(frame.stamp) > tolerance;
        let strict = self.policy == Policy::InOrderOnly;
        if strict && !self.frames.front().is_some_and(|first| first.state == State::Flying && overtaken(first)) {
            return;
        }
        for (sequence, frame) in (self.cursor..).zip(self.frames.iter_mut()) {
            let lost = overtaken(frame) || strict;
            if !lost && sequence >= covered {
                break;
            }
            if lost && frame.state == State::Flying {
                self.window.on_lost(frame.stamp, newest);
                frame.state = State::Lost;
                self.flying -= 1;
                self.repairs.insert(sequence);
            }
        }
    }

    /// The peer has been heard: it is not silent.
    pub(super) fn heard(&mut self, now: Instant) {
        self.waiting_since = now;
    }

    /// An answer that is overdue is asked for. True if that has been in vain for `silent_after` and several times: who was away
    /// itself for so long has asked only once.
    pub(super) fn on_timeout(&mut self, now: Instant, silent_after: Duration) -> bool {
        if self.due.is_none_or(|due| due > now) {
            return false;
        }
        self.ask = true;
        self.tries += 1;
        self.due = Some(now + self.rtt.timeout(self.tries));
        self.tries >= PATIENT_TRIES && now.since(self.waiting_since) >= silent_after
    }

    /// Whether to ask for a receipt now; asked once.
    pub(super) fn take_ask(&mut self) -> bool {
        std::mem::take(&mut self.ask)
    }

    fn arm(&mut self, now: Instant) {
        if self.due.is_none() {
            self.waiting_since = now;
            self.due = Some(now + self.rtt.timeout(self.tries));
        }
    }

    /// Recounts; a sentence that names the first disagreement.
    pub(super) fn audit(&self) -> Result<(), String> {
        let count = |state| self.frames.iter().filter(|frame| frame.state == state).count() as u64;
        if (count(State::Flying), count(State::Lost)) != (self.flying, self.repairs.len() as u64) {
            return Err(format!("{} flying and {} lost counted, {:?}", self.flying, self.repairs.len(), self.frames));
        }
        if self.frames.len() as u64 > SPAN_FRAMES || (!self.frames.is_empty() && self.due.is_none()) {
            return Err(format!("{} frames unacknowledged, the next question due {:?}", self.frames.len(), self.due));
        }
        Ok(())
    }
}
