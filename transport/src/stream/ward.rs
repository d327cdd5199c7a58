//! One receiver of a cast that acknowledges to another: what it lost and this host has is repaired from here, by unicast.
//!
//! New frames come to both from the root, so this host's stamps say nothing about them. A ward has lost a frame if a later one has
//! arrived there, or if it echoes a stamp drawn here well after the frame arrived here; and never before it has had time to arrive.
//! What this host lacks as well it reports itself, so that nothing is sent twice.

use super::hearing::Heard;
use super::lane::Outgoing;
use super::marks::Marks;
use super::remote::Remote;
use crate::arq::stamp::Stamp;
use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::Ack;
use crate::wire::Peer;
use std::time::Duration;

/// When each frame that is kept arrived here, as a stamp.
#[derive(Debug)]
pub(super) struct Arrivals {
    at: Box<[Stamp]>,
    tolerance: Duration,
}

impl Arrivals {
    pub(super) fn new(slots: u64, tuning: &Tuning) -> Arrivals {
        Arrivals { at: vec![Stamp::NONE; slots as usize].into_boxed_slice(), tolerance: tuning.cast.arrival_tolerance }
    }

    fn slot(&self, sequence: u64) -> usize {
        (sequence & (self.at.len() as u64 - 1)) as usize
    }

    pub(super) fn note(&mut self, now: Instant, sequence: u64) {
        let slot = self.slot(sequence);
        self.at[slot] = Stamp(now.as_micros() as u32);
    }

    fn get(&self, sequence: u64) -> Stamp {
        self.at[self.slot(sequence)]
    }

    /// How much longer a frame may be on its way to a ward.
    fn wait(&self, now: Instant, sequence: u64) -> Duration {
        self.tolerance.saturating_sub(Stamp(now.as_micros() as u32).since(self.get(sequence)))
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.at)
    }
}

/// A receiver that acknowledges to this one.
#[derive(Debug)]
pub(super) struct Ward {
    pub(super) remote: Remote,
    /// The newest stamp sent to it.
    asked: Stamp,
    due: Option<Instant>,
    tries: u32,
    heartbeat: bool,
}

impl Ward {
    /// A ward at the stream's beginning.
    pub(super) fn new(peer: Peer, feed: &mut Feed, tuning: &Tuning) -> Ward {
        Ward::of(Remote::new(peer, feed, tuning))
    }

    /// One that acknowledged to another host until now, and has given credit up to `limit`: it is asked where it stands.
    pub(super) fn graft(now: Instant, peer: Peer, limit: u64, feed: &mut Feed, tuning: &Tuning) -> Ward {
        let mut ward = Ward::of(Remote::graft(peer, limit, feed, tuning));
        ward.heartbeat = true;
        ward.due = Some(now + ward.remote.rtt.timeout(0));
        ward
    }

    fn of(remote: Remote) -> Ward {
        Ward { remote, asked: Stamp::NONE, due: None, tries: 0, heartbeat: false }
    }

    /// When it is to be asked where it stands.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// When the first repair that may still be on its way from the root may go from here.
    pub(super) fn held_until(&self, now: Instant, arrivals: &Arrivals) -> Option<Instant> {
        let waits = self.remote.outstanding.queued().map(|sequence| arrivals.wait(now, sequence));
        waits.min().filter(|wait| !wait.is_zero()).map(|wait| now + wait)
    }

    /// Takes a valid acknowledgement.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed, marks: &Marks, arrivals: &Arrivals) -> Heard {
        if ack.cursor < self.remote.cursor {
            return if self.remote.is_orphaned_by(ack) { Heard::Orphan } else { Heard::Known };
        }
        let remote = &self.remote;
        let only_passing =
            remote.synced && remote.cursor == ack.cursor && ack.cursor >= feed.head() && ack.body.passed <= remote.passed;
        self.remote.on_ack(now, ack, feed);
        self.find_lost(ack, feed, arrivals);
        self.ask_if_in_doubt(now, ack, feed, arrivals);
        // An application that takes its time is asked less and less often.
        if !only_passing {
            self.tries = 0;
        }
        self.rearm(now, feed, marks);
        Heard::Known
    }

    fn find_lost(&mut self, ack: &Ack<'_>, feed: &Feed, arrivals: &Arrivals) {
        let (echo, covered) = (self.remote.echo, ack.covered());
        let overtaken = |stamp: Stamp, tolerance: Duration| echo.is_after(stamp) && echo.since(stamp) > tolerance;
        for sequence in ack.cursor..feed.highest() {
            let late = overtaken(arrivals.get(sequence), arrivals.tolerance);
            if sequence >= covered && !late {
                // What came after it came later still.
                return;
            }
            let lost = match self.remote.outstanding.get(sequence) {
                Some(Stamp::NONE) => false,
                Some(repaired) => overtaken(repaired, self.remote.rtt.reordering()),
                None => true,
            };
            if lost && !ack.has(sequence) && feed.keeps(sequence) && !self.remote.outstanding.queue(sequence) {
                return;
            }
        }
    }

    /// The root's frames carry no stamps of this host: whether a repair was lost, or what came last, only shows by an echo of
    /// something sent later from here. If nothing was, a question is.
    fn ask_if_in_doubt(&mut self, now: Instant, ack: &Ack<'_>, feed: &Feed, arrivals: &Arrivals) {
        let Remote { outstanding, rtt, .. } = &self.remote;
        let answer_within = rtt.smoothed().unwrap_or_default() * 2 + rtt.reordering_max();
        let since = |stamp: Stamp| Stamp(now.as_micros() as u32).since(stamp);
        let beyond = ack.covered();
        let should_be_there = feed.keeps(beyond) && since(arrivals.get(beyond)) > answer_within;
        self.heartbeat |= since(self.asked) > answer_within && (outstanding.is_sent() || should_be_there);
    }

    /// Frame `sequence` has arrived here, late if others were missing because of it.
    pub(super) fn on_data(&mut self, now: Instant, sequence: u64, late: bool, feed: &mut Feed, marks: &Marks) {
        if self.remote.below > feed.position(self.remote.reader) {
            self.remote.follow(feed);
        }
        if late && self.remote.lacks(sequence) {
            // Whatever brought it here may have brought it there as well.
            let soon = now + self.remote.rtt.reordering_max();
            self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        } else if self.due.is_none() || self.is_prompt(feed) && self.tries == 0 {
            self.rearm(now, feed, marks);
        }
    }

    /// A question that is due becomes the next thing to send.
    pub(super) fn on_timeout(&mut self, now: Instant, feed: &Feed) {
        if self.due.is_some_and(|due| due <= now) {
            self.heartbeat = true;
            self.tries += 1;
            self.due = Some(now + self.timeout(feed));
        }
    }

    /// What to send next, if anything; the caller sends it under the stamp drawn.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        feed: &Feed,
        arrivals: &Arrivals,
        stamp: impl FnOnce() -> Stamp,
    ) -> Option<(Outgoing, Stamp)> {
        let mut outgoing = if std::mem::take(&mut self.heartbeat) {
            Outgoing::Heartbeat { highest: feed.highest(), designated: None }
        } else {
            let may_go = |sequence: &u64| arrivals.wait(now, *sequence).is_zero();
            let sequence = self.remote.outstanding.queued().find(may_go)?;
            Outgoing::Data { sequence, again: true, urgent: false }
        };
        self.asked = stamp();
        if let Outgoing::Data { sequence, urgent, .. } = &mut outgoing {
            self.remote.outstanding.sent(*sequence, self.asked);
            *urgent = self.remote.outstanding.is_used_up();
        }
        self.due = self.due.or_else(|| Some(now + self.timeout(feed)));
        Some((outgoing, self.asked))
    }

    /// Whether only its answer can move things on: it lacks what is here, has given no more credit, keeps the feed full for those
    /// behind it, or has not passed a message. In each case the acknowledgement that would help may be lost.
    fn is_waiting(&self, feed: &Feed, marks: &Marks) -> bool {
        let remote = &self.remote;
        let unpassed = remote.passed < marks.reported_before(feed.head());
        !remote.synced || remote.cursor < feed.head() || self.is_starved(feed) || unpassed || remote.retains(feed)
    }

    /// Whether its credit is used up, as far as is known.
    fn is_starved(&self, feed: &Feed) -> bool {
        self.remote.limit <= feed.highest() && !feed.is_complete()
    }

    /// Whether it lacks the end of the stream or credit: it is to acknowledge either at once.
    fn is_prompt(&self, feed: &Feed) -> bool {
        self.is_starved(feed) || (feed.is_complete() && self.remote.cursor < feed.head())
    }

    fn timeout(&self, feed: &Feed) -> Duration {
        let rtt = &self.remote.rtt;
        if self.is_prompt(feed) { rtt.prompt_timeout(self.tries) } else { rtt.timeout(self.tries) }
    }

    fn rearm(&mut self, now: Instant, feed: &Feed, marks: &Marks) {
        self.due = self.is_waiting(feed, marks).then(|| now + self.timeout(feed));
    }
}
