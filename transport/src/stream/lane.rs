//! One remote reader served by unicast with a window: EQA's lightweight directed point, a sender that owns no buffer.
//!
//! Two cursors: `cursor` follows the reader's acknowledgements, `next` is the go-back-n cursor of first transmissions.
//! What is lost is found by evidence only (RFC 8985): a frame is lost when one sent later has arrived. Timeouts send a
//! heartbeat, never data; the answer to it is the evidence. Under `InOrderOnly` a loss rewinds `next`; the stamps drawn
//! on the way forward make that one rewind per gap. Under `HolesAllowed` just the missing frames are queued as repairs.

use super::boundaries::Boundaries;
use super::memory::{Memory, tree_bytes};
use super::outgoing::{AckFrom, Departure, Outgoing};
use crate::arq::echo::{Behind, Echo};
use crate::arq::evidence::{Evidence, Sent};
use crate::arq::question::Question;
use crate::arq::stamp::{Stamp, StampRing, Stamps};
use crate::arq::window::{LossRound, Window};
use crate::feed::{Feed, ReaderId};
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::{Ack, Peer};
use std::collections::BTreeSet;

/// A child served by unicast.
#[derive(Debug)]
pub(super) struct Lane {
    peer: Peer,
    reader: ReaderId,
    policy: Policy,
    cursor: u64,
    next: u64,
    highest: u64,
    limit: u64,
    /// What every application behind the child has consumed.
    consumed: u64,
    /// The end of the newest message sent: the child is to say when it has been consumed.
    awaited: u64,
    in_flight: u64,
    sent_at: StampRing,
    repairs: BTreeSet<u64>,
    window: Window,
    round: LossRound,
    echo: Echo,
    question: Question,
    /// False from a graft until the child's first acknowledgement says where it stands.
    synced: bool,
    grafted: bool,
}

impl Lane {
    /// A lane to a child that stands at the stream's beginning.
    pub(super) fn new(peer: Peer, feed: &mut Feed, tuning: &Tuning) -> Lane {
        let tail = feed.tail();
        let reader = feed.add_reader(tail).expect("the tail can always be read");
        Lane {
            peer,
            reader,
            policy: tuning.policy,
            cursor: tail,
            next: tail,
            highest: tail,
            limit: tail + tuning.window.start_frames,
            consumed: 0,
            awaited: 0,
            in_flight: 0,
            sent_at: StampRing::new(feed.slots()),
            repairs: BTreeSet::new(),
            window: Window::new(&tuning.window, u64::MAX),
            round: LossRound::new(&tuning.window),
            echo: Echo::new(tuning),
            question: Question::default(),
            synced: true,
            grafted: false,
        }
    }

    /// A lane to a child that another host served until now: everything still here is kept until it says where it
    /// stands.
    pub(super) fn graft(now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning) -> Lane {
        let mut lane = Lane { synced: false, grafted: true, ..Lane::new(peer, feed, tuning) };
        lane.question.ask();
        lane.arm(now);
        lane
    }

    /// The child.
    pub(super) fn peer(&self) -> Peer {
        self.peer
    }

    /// The feed's reader that stands for this lane.
    pub(super) fn reader(&self) -> ReaderId {
        self.reader
    }

    /// Bytes of the stamps of what was sent, and at most of the queued repairs, beside the lane itself.
    pub(super) fn memory(&self) -> Memory {
        let repairs_bytes = tree_bytes(self.repairs.len(), size_of::<u64>());
        Memory { readers_bytes: self.sent_at.bytes(), repairs_bytes, ..Memory::default() }
    }

    /// All frames below this have been acknowledged.
    pub(super) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// What every application behind the child has consumed.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The next frame to be sent for the first time.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// When the child is to be asked where it stands.
    pub(super) fn due(&self) -> Option<Instant> {
        self.question.due()
    }

    /// Takes an acknowledgement, as far as it can be true; `newest` is the last stamp drawn here.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed, newest: Stamp) -> AckFrom {
        // Frames of a grafted child's former parent may still be on their way: it can know more than was sent from
        // here.
        let below = if self.grafted { feed.head() } else { self.highest };
        let (ack, forged) = Sent { below, newest, credit: feed.slots() }.believe(ack);
        self.on_believed(now, &ack, feed, newest).forged_if(forged)
    }

    fn on_believed(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed, newest: Stamp) -> AckFrom {
        let behind = self.synced && ack.cursor < self.cursor;
        if behind && !self.is_contradicted(now, ack, feed) {
            return AckFrom::Known;
        }
        if !self.synced && !self.sync(ack) {
            return AckFrom::Orphan;
        }
        if self.grafted {
            self.highest = self.highest.max(ack.covered());
            self.next = self.next.max(self.highest);
        }
        let limiting = self.window.is_limiting(self.in_flight);
        let newly = ack.cursor - self.cursor;
        let only_consuming = ack.cursor == self.highest && ack.body.consumed <= self.consumed && newly == 0;
        self.cursor = ack.cursor;
        self.next = self.next.max(ack.cursor);
        self.limit = self.limit.max(ack.body.limit);
        self.consumed = self.consumed.max(ack.body.consumed);
        feed.advance(self.reader, ack.body.below.max(feed.position(self.reader)));
        self.repairs.retain(|&sequence| sequence >= ack.cursor && !ack.has(sequence));
        let lost = if self.echo.take(now, ack).is_some() { self.find_lost(ack) } else { 0 };
        self.in_flight = self.next - self.cursor;
        if self.policy == Policy::HolesAllowed {
            self.in_flight = self.in_flight.saturating_sub(ack.arrived_beyond() + self.repairs.len() as u64);
        }
        if limiting {
            self.window.grow(newly);
        }
        if self.round.is_heavy(newly, lost, Stamp(ack.echo), newest) {
            self.window.cut();
        }
        self.question.answered(only_consuming);
        self.rearm(now, feed);
        AckFrom::Known.forged_if(behind)
    }

    /// Whether an acknowledgement behind the cursor proves that the child does not stand there: then it is served as if
    /// it had been grafted anew, from what is still kept. A word in doubt is asked for again.
    fn is_contradicted(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed) -> bool {
        let judged = self.echo.judge_behind(ack);
        let contradicted = judged == Behind::Contradiction;
        if contradicted {
            feed.rewind(self.reader);
            let tail = feed.tail();
            (self.cursor, self.next, self.limit, self.consumed) = (tail, tail, tail, 0);
            (self.synced, self.grafted) = (false, true);
        } else {
            self.question.doubt(now, judged, |tries| self.echo.rtt().timeout(tries));
        }
        contradicted
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
    fn find_lost(&mut self, ack: &Ack<'_>) -> u64 {
        let evidence =
            Evidence { echo: self.echo.newest(), tolerance: self.echo.rtt().reordering(), covered: ack.covered() };
        let sent_at = &self.sent_at;
        let mut found = evidence.missing(ack, self.next, |sequence| sent_at.get(sequence));
        match self.policy {
            Policy::HolesAllowed => {
                let before = self.repairs.len();
                self.repairs.extend(found);
                (self.repairs.len() - before) as u64
            }
            // Only the cursor itself is judged: what follows it was thrown away by the receiver and goes out again
            // anyway.
            Policy::InOrderOnly => {
                let rewind = found.next() == Some(self.cursor);
                if rewind {
                    self.next = self.cursor;
                }
                u64::from(rewind)
            }
        }
    }

    /// A question that is due becomes the next thing to send.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.question.on_timeout(now, |tries| self.echo.rtt().timeout(tries));
    }

    /// Whether the lane is in the middle of a segment and goes on as soon as the child has acknowledged some of it.
    pub(super) fn is_pausing(&self, feed: &Feed, boundaries: &Boundaries) -> bool {
        let more = self.next < boundaries.whole_segments(feed.head(), feed.is_complete());
        self.synced && more && self.question.tries() == 0 && self.cursor < self.next && !boundaries.ends_at(self.next)
    }

    /// What to send next, if anything. Only if it is its turn is that anything new.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        turn: bool,
        feed: &Feed,
        boundaries: &Boundaries,
        stamps: &mut Stamps,
    ) -> Option<Departure> {
        let to = self.peer.mac;
        if self.question.take() {
            let outgoing = Outgoing::Heartbeat { highest: self.highest, designated: None };
            return Some(Departure { outgoing, to, stamp: stamps.draw(now) });
        }
        if !self.synced || self.in_flight >= self.window.frames() {
            return None;
        }
        let (sequence, again) = match self.repairs.pop_first() {
            Some(sequence) => (sequence, true),
            None if turn && self.next < boundaries.whole_segments(feed.head(), feed.is_complete()).min(self.limit) => {
                self.next += 1;
                (self.next - 1, self.next <= self.highest)
            }
            None => {
                if self.question.due().is_none() {
                    self.rearm(now, feed);
                }
                return None;
            }
        };
        if boundaries.is_reported(sequence) {
            self.awaited = self.awaited.max(sequence + 1);
        }
        let stamp = stamps.draw(now);
        self.sent_at.set(sequence, stamp);
        self.highest = self.highest.max(self.next);
        self.in_flight += 1;
        let blocked = self.in_flight >= self.window.frames() || self.next >= self.limit;
        self.arm(now);
        let outgoing = Outgoing::Data { sequence, again, urgent: blocked && self.repairs.is_empty() };
        Some(Departure { outgoing, to, stamp })
    }

    /// Whether only the child's answer can move things on: frames unacknowledged, credit used up, or the feed full of
    /// frames that are kept for the child's own children alone, or a message has not been consumed. In each case the
    /// acknowledgement that would help may be lost.
    fn is_waiting(&self, feed: &Feed) -> bool {
        let starved = self.next >= self.limit && feed.head() > self.next;
        let retained = feed.position(self.reader) < self.cursor && feed.head() == feed.limit();
        self.cursor < self.highest || starved || retained || self.consumed < self.awaited
    }

    fn arm(&mut self, now: Instant) {
        self.question.arm(now, |tries| self.echo.rtt().timeout(tries));
    }

    fn rearm(&mut self, now: Instant, feed: &Feed) {
        let waiting = self.is_waiting(feed);
        self.question.rearm(now, waiting, |tries| self.echo.rtt().timeout(tries));
    }
}
