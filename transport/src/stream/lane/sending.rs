//! The sending side of a lane: the next frame, and whether its child owes an answer.

use super::super::boundaries::Boundaries;
use super::super::outgoing::{Departure, Outgoing};
use super::Lane;
use crate::arq::stamp::Stamps;
use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::Policy;
use std::time::Duration;

/// A child of which nothing has been heard for so long, and after so many questions, is mute: with a third of all
/// frames lost each way one in a thousand would seem to be.
const MUTE_AFTER: Duration = Duration::from_secs(1);
const MUTE_TRIES: u8 = 3;

impl Lane {
    pub(in crate::stream) fn on_timeout(&mut self, now: Instant) {
        self.question.on_timeout(now, |tries| self.echo.rtt().emptied_timeout(tries));
    }

    pub(in crate::stream) fn is_pausing(&self, feed: &Feed, boundaries: &Boundaries) -> bool {
        let more = self.next < boundaries.whole_segments(feed.head(), feed.is_complete());
        self.synced && more && self.question.tries() == 0 && self.cursor < self.next && !boundaries.ends_at(self.next)
    }

    pub(in crate::stream) fn poll(
        &mut self,
        now: Instant,
        turn: bool,
        feed: &Feed,
        boundaries: &Boundaries,
        stamps: &mut Stamps,
    ) -> Option<Departure> {
        if self.question.take() {
            self.asked = self.asked.saturating_add(1);
            self.arm(now);
            let outgoing = Outgoing::Heartbeat { highest: self.highest, designated: None };
            return Some(Departure { outgoing, to: self.peer.mac, stamp: stamps.draw(now) });
        }
        if !self.synced || self.in_flight >= self.window.frames() {
            return None;
        }
        let next = self.next_queued(feed).or_else(|| turn.then(|| self.next_in_order(feed, boundaries))?);
        let Some((sequence, again)) = next else {
            if self.question.due().is_none() {
                self.rearm(now, feed);
            }
            return None;
        };
        if boundaries.is_reported(sequence) {
            self.awaited = self.awaited.max(sequence + 1);
        }
        let stamp = stamps.draw(now);
        self.sent.sent(sequence, stamp);
        self.highest = self.highest.max(self.next);
        self.in_flight += 1;
        let blocked = self.in_flight >= self.window.frames() || self.next >= self.limit;
        self.arm(now);
        let outgoing = Outgoing::Data { sequence, again, urgent: blocked && self.next_queued(feed).is_none() };
        Some(Departure { outgoing, to: self.peer.mac, stamp })
    }

    fn next_queued(&self, feed: &Feed) -> Option<(u64, bool)> {
        let again = self.sent.next_repair(|sequence| feed.has(sequence)).map(|sequence| (sequence, true));
        again.or_else(|| self.sent.next_late(|sequence| feed.has(sequence)).map(|sequence| (sequence, false)))
    }

    fn next_in_order(&mut self, feed: &Feed, boundaries: &Boundaries) -> Option<(u64, bool)> {
        let end = match self.policy {
            Policy::HolesAllowed => boundaries.sendable(feed),
            Policy::InOrderOnly => boundaries.whole_segments(feed.head(), feed.is_complete()),
        };
        let end = if self.is_of_use(feed) { end.min(self.limit) } else { self.next };
        let sequence = (self.next..end).find(|&sequence| feed.has(sequence))?;
        self.sent.pass_over(self.next..sequence);
        self.next = sequence + 1;
        Some((sequence, sequence < self.highest))
    }

    /// Whether only the child's answer can move things on: frames are unacknowledged, credit is
    /// used up, the feed is full of frames kept for the child's own children, or a message is not
    /// consumed.
    pub(super) fn is_waiting(&self, feed: &Feed) -> bool {
        let starved = self.next >= self.limit && feed.highest() > self.next;
        let retained = feed.position(self.reader) < self.cursor && feed.head() == feed.limit();
        // Then this host itself lacks what the child lacks, and cannot give credit without it.
        let lacking_here = self.in_flight == 0 && self.sent.has_passed_over() && !self.is_orphaned(feed);
        let owes = (self.cursor < self.highest || starved) && !lacking_here;
        // A child cannot consume a message that has not all arrived.
        owes || retained || self.consumed < self.awaited.min(self.cursor)
    }

    pub(in crate::stream) fn waiting_since(&self, feed: &Feed) -> Option<Instant> {
        (!self.synced || self.is_waiting(feed)).then_some(self.moved_at)
    }

    /// Whether the child has been asked again and again, and nothing was ever heard of it.
    pub(in crate::stream) fn is_mute(&self, now: Instant, feed: &Feed) -> bool {
        let waits_for_long = self.waiting_since(feed).is_some_and(|since| now.since(since) >= MUTE_AFTER);
        !self.heard && waits_for_long && self.asked >= MUTE_TRIES
    }

    pub(super) fn arm(&mut self, now: Instant) {
        if self.question.arm(now, |tries| self.echo.rtt().emptied_timeout(tries)) {
            self.moved_at = now;
        }
    }

    fn rearm(&mut self, now: Instant, feed: &Feed) {
        let waiting = self.is_waiting(feed);
        self.question.rearm(now, waiting, |tries| self.echo.rtt().emptied_timeout(tries));
    }
}
