//! One remote reader served by unicast with a window: EQA's lightweight directed point, a sender that owns no buffer.
//!
//! Two cursors: `cursor` follows the reader's acknowledgements, `next` is the go-back-n cursor of first transmissions. What is
//! lost is found by evidence only (RFC 8985): a frame is lost when one sent later has arrived. Timeouts send a heartbeat, never
//! data; the answer to it is the evidence. Under `InOrderOnly` a loss rewinds `next`; the stamps drawn on the way forward make
//! that one rewind per gap. Under `HolesAllowed` just the missing frames are queued as repairs.

use super::hearing::Heard;
use super::marks::Marks;
use super::memory::tree_bytes;
use crate::arq::rtt::Rtt;
use crate::arq::stamp::{STALE, Stamp};
use crate::arq::window::Window;
use crate::feed::{Feed, ReaderId};
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::Ack;
use crate::wire::MacAddr;
use std::collections::BTreeSet;

/// A child served by unicast.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) rank: u16,
    pub(super) mac: MacAddr,
    reader: ReaderId,
    policy: Policy,
    cursor: u64,
    next: u64,
    highest: u64,
    limit: u64,
    /// What every application behind the child has passed.
    passed: u64,
    /// The end of the newest message sent: the child is to say when it has been passed.
    awaited: u64,
    in_flight: u64,
    sent_at: Box<[Stamp]>,
    repairs: BTreeSet<u64>,
    window: Window,
    rtt: Rtt,
    echo: Stamp,
    echo_at: Instant,
    due: Option<Instant>,
    tries: u32,
    heartbeat: bool,
    /// False from a graft until the child's first acknowledgement says where it stands.
    synced: bool,
    grafted: bool,
}

/// What a lane wants to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// Frame `sequence`; `urgent` asks for an acknowledgement at once.
    Data { sequence: u64, again: bool, urgent: bool },
    /// The last sequence number, to be answered; with the rank of the designated receiver, if there is one.
    Heartbeat { highest: u64, designated: Option<u16> },
}

impl Lane {
    /// A lane to a child that stands at the stream's beginning.
    pub(super) fn new(rank: u16, mac: MacAddr, feed: &mut Feed, tuning: &Tuning) -> Lane {
        let tail = feed.tail();
        let reader = feed.add_reader(tail).expect("the tail can always be read");
        Lane {
            rank,
            mac,
            reader,
            policy: tuning.policy,
            cursor: tail,
            next: tail,
            highest: tail,
            limit: tail + tuning.window.start_frames,
            passed: 0,
            awaited: 0,
            in_flight: 0,
            sent_at: vec![Stamp::NONE; feed.slots() as usize].into_boxed_slice(),
            repairs: BTreeSet::new(),
            window: Window::new(tuning),
            rtt: Rtt::new(tuning),
            echo: Stamp::NONE,
            echo_at: Instant::START,
            due: None,
            tries: 0,
            heartbeat: false,
            synced: true,
            grafted: false,
        }
    }

    /// A lane to a child that another host served until now: everything still here is kept until it says where it stands.
    pub(super) fn graft(now: Instant, rank: u16, mac: MacAddr, feed: &mut Feed, tuning: &Tuning) -> Lane {
        let mut lane = Lane::new(rank, mac, feed, tuning);
        lane.synced = false;
        lane.grafted = true;
        lane.heartbeat = true;
        lane.due = Some(now + lane.rtt.timeout(0));
        lane
    }

    /// The feed's reader that stands for this lane.
    pub(super) fn reader(&self) -> ReaderId {
        self.reader
    }

    /// Bytes that the stamps of what was sent take.
    pub(super) fn stamps_bytes(&self) -> usize {
        size_of_val(&*self.sent_at)
    }

    /// Bytes that the queued repairs take at most.
    pub(super) fn repairs_bytes(&self) -> usize {
        tree_bytes(self.repairs.len(), size_of::<u64>())
    }

    /// All frames below this have been acknowledged.
    pub(super) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// What every application behind the child has passed.
    pub(super) fn passed(&self) -> u64 {
        self.passed
    }

    /// The next frame to be sent for the first time.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// When the lane wants to send a heartbeat.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Takes an acknowledgement; `newest` is the last stamp drawn here. A forged one changes nothing.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed, newest: Stamp) -> Heard {
        let echo = Stamp(ack.echo);
        // Frames of a grafted child's former parent may still be on their way: it can know more than was sent from here.
        let known = if self.grafted { feed.head() } else { self.highest };
        if ack.cursor > known || ack.covered() > known || echo.is_after(newest) {
            return Heard::Forged;
        }
        if !self.synced && !self.sync(ack) {
            return Heard::Orphan;
        }
        if ack.cursor < self.cursor {
            return Heard::Known;
        }
        if self.grafted {
            self.highest = self.highest.max(ack.covered());
            self.next = self.next.max(self.highest);
        }
        let limiting = self.in_flight * 2 >= self.window.frames();
        let newly = ack.cursor - self.cursor;
        self.cursor = ack.cursor;
        self.next = self.next.max(ack.cursor);
        self.limit = self.limit.max(ack.body.limit);
        let only_passing = self.cursor == self.highest && ack.body.passed <= self.passed && newly == 0;
        self.passed = self.passed.max(ack.body.passed);
        feed.advance(self.reader, ack.body.below.max(feed.position(self.reader)));
        self.repairs.retain(|&sequence| sequence >= ack.cursor && !ack.has(sequence));
        let fresh = echo.is_after(self.echo) || (echo != Stamp::NONE && now.since(self.echo_at) > STALE);
        let mut lost = 0;
        if fresh {
            (self.echo, self.echo_at) = (echo, now);
            let round_trip =
                Stamp(now.as_micros() as u32).since(echo).saturating_sub(std::time::Duration::from_micros(ack.body.held_us.into()));
            // A stamp drawn ahead of the clock in a burst would look like an enormous round trip.
            if round_trip < std::time::Duration::from_secs(60) {
                self.rtt.sample(round_trip);
            }
            lost = self.find_lost(ack, echo);
        }
        if self.policy == Policy::HolesAllowed {
            self.in_flight = (self.next - self.cursor).saturating_sub(ack.arrived_beyond() + self.repairs.len() as u64);
        } else {
            self.in_flight = self.next - self.cursor;
        }
        self.window.on_ack(newly, lost, echo, newest, limiting);
        // An application that takes its time is asked less and less often.
        if !only_passing {
            self.tries = 0;
        }
        self.rearm(now, feed);
        Heard::Known
    }

    /// A grafted child has said where it stands; false if what it needs is gone.
    fn sync(&mut self, ack: &Ack<'_>) -> bool {
        if ack.cursor < self.cursor {
            return false;
        }
        self.synced = true;
        self.cursor = ack.cursor;
        self.highest = ack.covered();
        self.next = self.highest;
        self.repairs = (ack.cursor..self.highest).filter(|&sequence| !ack.has(sequence)).collect();
        true
    }

    /// Finds what the echo proves lost; returns how many frames.
    fn find_lost(&mut self, ack: &Ack<'_>, echo: Stamp) -> u64 {
        let tolerance = self.rtt.reordering();
        let mut found = missing(ack, self.next, |sequence| self.sent_at[slot(&self.sent_at, sequence)], echo, tolerance);
        match self.policy {
            Policy::HolesAllowed => {
                let before = self.repairs.len();
                let found: Vec<u64> = found.collect();
                self.repairs.extend(found);
                (self.repairs.len() - before) as u64
            }
            // Only the cursor itself is judged: what follows it was thrown away by the receiver and goes out again anyway.
            Policy::InOrderOnly => {
                let rewind = found.next() == Some(self.cursor);
                drop(found);
                if rewind {
                    self.next = self.cursor;
                }
                u64::from(rewind)
            }
        }
    }

    /// A heartbeat that is due becomes the next thing to send.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.heartbeat = true;
            self.tries += 1;
            self.due = Some(now + self.rtt.timeout(self.tries));
        }
    }

    /// Whether the lane is in the middle of a segment and goes on as soon as the child has acknowledged some of it.
    pub(super) fn is_pausing(&self, feed: &Feed, marks: &Marks) -> bool {
        let more = self.next < marks.whole_segments(feed.head(), feed.is_complete());
        self.synced && more && self.tries == 0 && self.cursor < self.next && !marks.ends_at(self.next)
    }

    /// What to send next, if anything; the caller sends it under `stamp`. Only if it is its turn is that anything new.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        turn: bool,
        feed: &Feed,
        marks: &Marks,
        stamp: impl FnOnce() -> Stamp,
    ) -> Option<(Outgoing, Stamp)> {
        if std::mem::take(&mut self.heartbeat) {
            return Some((Outgoing::Heartbeat { highest: self.highest, designated: None }, stamp()));
        }
        if !self.synced || self.in_flight >= self.window.frames() {
            return None;
        }
        let (sequence, again) = match self.repairs.pop_first() {
            Some(sequence) => (sequence, true),
            None if turn && self.next < marks.whole_segments(feed.head(), feed.is_complete()).min(self.limit) => {
                self.next += 1;
                (self.next - 1, self.next <= self.highest)
            }
            None => {
                if self.due.is_none() {
                    self.rearm(now, feed);
                }
                return None;
            }
        };
        if marks.is_reported(sequence) {
            self.awaited = self.awaited.max(sequence + 1);
        }
        let stamp = stamp();
        let slot = slot(&self.sent_at, sequence);
        self.sent_at[slot] = stamp;
        self.highest = self.highest.max(self.next);
        self.in_flight += 1;
        let blocked = self.in_flight >= self.window.frames() || self.next >= self.limit;
        if self.due.is_none() {
            self.due = Some(now + self.rtt.timeout(self.tries));
        }
        Some((Outgoing::Data { sequence, again, urgent: blocked && self.repairs.is_empty() }, stamp))
    }

    /// Whether only the child's answer can move things on: frames unacknowledged, credit used up, or the feed full of frames
    /// that are kept for the child's own children alone, or a message has not been passed. In each case the acknowledgement that would
    /// help may be lost.
    fn is_waiting(&self, feed: &Feed) -> bool {
        let starved = self.next >= self.limit && feed.head() > self.next;
        let retained = feed.position(self.reader) < self.cursor && feed.head() == feed.limit();
        self.cursor < self.highest || starved || retained || self.passed < self.awaited
    }

    fn rearm(&mut self, now: Instant, feed: &Feed) {
        self.due = self.is_waiting(feed).then(|| now + self.rtt.timeout(self.tries));
    }
}

fn slot(ring: &[Stamp], sequence: u64) -> usize {
    (sequence & (ring.len() as u64 - 1)) as usize
}

/// The frames below `end` that an acknowledgement proves lost: they have not arrived, and one sent later by more than
/// `tolerance` has. First transmissions carry rising stamps, so the search ends at the first young one beyond what is covered.
pub(super) fn missing<'a>(
    ack: &'a Ack<'a>,
    end: u64,
    sent_at: impl Fn(u64) -> Stamp + 'a,
    echo: Stamp,
    tolerance: std::time::Duration,
) -> impl Iterator<Item = u64> + 'a {
    let covered = ack.covered();
    (ack.cursor..end)
        .map(move |sequence| {
            let stamp = sent_at(sequence);
            (sequence, echo.is_after(stamp) && echo.since(stamp) > tolerance)
        })
        .take_while(move |&(sequence, overtaken)| overtaken || sequence < covered)
        .filter(move |&(sequence, overtaken)| overtaken && !ack.has(sequence))
        .map(|(sequence, _)| sequence)
}
