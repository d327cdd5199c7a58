//! One receiver of a cast that acknowledges to another: what it lost and this host has is repaired from here, by
//! unicast.
//!
//! New frames come to both from the root, so this host's stamps say nothing about them. A repair child has lost a frame
//! if a later one has arrived there, or if it echoes a stamp drawn here well after the frame arrived here; and never
//! before it has had time to arrive. What this host lacks as well it reports itself, so that nothing is sent twice.

use super::remote::Remote;
use crate::arq::echo::Behind;
use crate::arq::question::{News, Question};
use crate::arq::stamp::{Stamp, StampRing, Stamps};
use crate::feed::Feed;
use crate::stream::outgoing::{AckFrom, Departure, Outgoing};
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, Peer};
use std::time::Duration;

/// What has arrived here: when each frame did that is kept, as a stamp.
#[derive(Clone, Debug)]
pub(super) struct OwnArrivals {
    at: StampRing,
    tolerance: Duration,
    /// The end of the newest message here that is to be consumed.
    awaited: u64,
}

impl OwnArrivals {
    pub(super) fn new(slots: u64, tuning: &Tuning) -> OwnArrivals {
        OwnArrivals { at: StampRing::new(slots), tolerance: tuning.cast.arrival_tolerance, awaited: 0 }
    }

    /// Frame `sequence` has arrived; the newest message to be consumed ends at `awaited`.
    pub(super) fn note(&mut self, now: Instant, sequence: u64, awaited: u64) {
        self.at.set(sequence, Stamp::of(now));
        self.awaited = awaited;
    }

    fn get(&self, sequence: u64) -> Stamp {
        self.at.get(sequence)
    }

    /// How much longer a frame may be on its way to a repair child, of which so much is tolerated.
    fn wait(&self, now: Instant, sequence: u64, tolerance: Duration) -> Duration {
        tolerance.saturating_sub(self.get(sequence).age(now))
    }

    pub(super) fn bytes(&self) -> usize {
        self.at.bytes()
    }
}

/// A receiver that acknowledges to this one.
#[derive(Clone, Debug)]
pub(super) struct RepairChild {
    remote: Remote,
    /// The newest stamp sent to it.
    asked: Stamp,
    question: Question,
}

impl RepairChild {
    /// One that stands at the stream's beginning.
    pub(super) fn new(peer: Peer, feed: &mut Feed, tuning: &Tuning) -> RepairChild {
        RepairChild::of(Remote::new(peer, feed, tuning))
    }

    /// One that acknowledged to another host until now, and has given credit up to `limit`: it is asked where it
    /// stands.
    pub(super) fn graft(now: Instant, peer: Peer, limit: u64, feed: &mut Feed, tuning: &Tuning) -> RepairChild {
        let mut child = RepairChild::of(Remote::graft(peer, limit, feed, tuning));
        child.question.ask();
        child.question.arm(now, |tries| child.remote.rtt().timeout(tries));
        child
    }

    fn of(remote: Remote) -> RepairChild {
        RepairChild { remote, asked: Stamp::NONE, question: Question::default() }
    }

    /// Where it stands.
    pub(super) fn remote(&self) -> &Remote {
        &self.remote
    }

    /// When it is to be asked where it stands.
    pub(super) fn due(&self) -> Option<Instant> {
        self.question.due()
    }

    /// When the first repair that may still be on its way from the root may go from here.
    pub(super) fn held_until(&self, now: Instant, arrivals: &OwnArrivals) -> Option<Instant> {
        let tolerance = self.tolerance(arrivals);
        let waits = self.remote.outstanding().queued().map(|sequence| arrivals.wait(now, sequence, tolerance));
        waits.min().filter(|wait| !wait.is_zero()).map(|wait| now + wait)
    }

    /// Takes a valid acknowledgement.
    pub(super) fn on_ack(&mut self, now: Instant, ack: &Ack<'_>, feed: &mut Feed, arrivals: &OwnArrivals) -> AckFrom {
        let behind = self.remote.is_behind(ack);
        if behind {
            let judged = self.remote.judge_behind(ack, feed);
            if judged != Behind::Contradiction {
                let prompt = self.is_prompt(feed);
                self.question.doubt(now, judged, |tries| self.remote.timeout(prompt, tries));
                return self.remote.known(feed);
            }
        }
        self.note_arrival(ack, arrivals);
        let remote = &self.remote;
        let standing = remote.is_synced() && remote.cursor() == ack.cursor && ack.cursor >= feed.head();
        let only_consuming = standing && ack.body.consumed <= remote.consumed();
        let more = remote.is_more(ack);
        let fresh = self.remote.on_ack(now, ack, feed).is_some();
        self.find_lost(ack, feed, arrivals);
        self.ask_if_in_doubt(now, ack, feed, arrivals);
        let (awaited, prompt) = (self.is_waiting(feed, arrivals), self.is_prompt(feed));
        let news = News::new(fresh, more, only_consuming);
        self.question.on_ack(now, news, awaited, |tries| self.remote.timeout(prompt, tries));
        self.remote.known(feed).forged_if(behind)
    }

    /// How much later than here a frame may arrive there.
    fn tolerance(&self, arrivals: &OwnArrivals) -> Duration {
        self.remote.tolerance_from_elsewhere(arrivals.tolerance)
    }

    /// If the frame at its cursor has arrived, and nothing sent as late as the repair has, the repair was for nothing:
    /// the wait for the root's frame had been too short.
    fn note_arrival(&mut self, ack: &Ack<'_>, arrivals: &OwnArrivals) {
        let cursor = self.remote.cursor();
        let repaired = self.remote.outstanding().get(cursor).filter(|&stamp| stamp != Stamp::NONE);
        if let Some(repaired) = repaired.filter(|stamp| ack.cursor > cursor && stamp.is_after(Stamp(ack.echo))) {
            self.remote.echo_mut().on_late(repaired.since(arrivals.get(cursor)));
        }
    }

    /// Unlike other senders' evidence this is judged whether the echo is new or not: what shows that a frame was lost
    /// may have come from the root.
    fn find_lost(&mut self, ack: &Ack<'_>, feed: &Feed, arrivals: &OwnArrivals) {
        let from_root = self.remote.evidence(self.tolerance(arrivals), ack.covered());
        let repaired = self.remote.evidence(self.remote.tolerance(), ack.covered());
        let judged = from_root.search(self.remote.from(feed)..feed.highest(), |evidence, sequence| {
            evidence.overtook(arrivals.get(sequence))
        });
        for (sequence, _) in judged {
            let outstanding = self.remote.outstanding_mut();
            let lost =
                outstanding.get(sequence).is_none_or(|sent_at| sent_at != Stamp::NONE && repaired.overtook(sent_at));
            if lost && !ack.has(sequence) && feed.keeps(sequence) && !outstanding.queue(sequence) {
                return;
            }
        }
    }

    /// The root's frames carry no stamps of this host: whether a repair was lost, or what came last, only shows by an
    /// echo of something sent later from here. If nothing was, a question is.
    fn ask_if_in_doubt(&mut self, now: Instant, ack: &Ack<'_>, feed: &Feed, arrivals: &OwnArrivals) {
        let rtt = self.remote.rtt();
        let answer_within =
            rtt.smoothed().unwrap_or_default() * 2 + self.remote.tolerance_from_elsewhere(rtt.reordering_max());
        let beyond = ack.covered();
        let should_be_there = feed.keeps(beyond) && arrivals.get(beyond).age(now) > answer_within;
        if self.asked.age(now) > answer_within && (self.remote.outstanding().is_sent() || should_be_there) {
            self.question.ask();
        }
    }

    /// Frame `sequence` has arrived here, late if others were missing because of it.
    pub(super) fn on_data(&mut self, now: Instant, sequence: u64, late: bool, feed: &mut Feed, arrivals: &OwnArrivals) {
        self.remote.follow(feed);
        if late && self.remote.lacks(sequence) {
            // Whatever brought it here may have brought it there as well.
            let tolerance = self.remote.tolerance_from_elsewhere(self.remote.rtt().reordering_max());
            self.question.hasten(now + tolerance);
        } else if self.question.due().is_none() || self.is_prompt(feed) && self.question.tries() == 0 {
            self.rearm(now, feed, arrivals);
        }
    }

    /// A question that is due becomes the next thing to send.
    pub(super) fn on_timeout(&mut self, now: Instant, feed: &Feed) {
        let prompt = self.is_prompt(feed);
        self.question.on_timeout(now, |tries| self.remote.timeout(prompt, tries));
    }

    /// What to send next, if anything.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        feed: &Feed,
        arrivals: &OwnArrivals,
        stamps: &mut Stamps,
    ) -> Option<Departure> {
        let outgoing = if self.question.take() {
            self.asked = stamps.draw(now);
            Outgoing::Heartbeat { highest: feed.highest(), designated: None }
        } else {
            let tolerance = self.tolerance(arrivals);
            let may_go = |sequence: &u64| arrivals.wait(now, *sequence, tolerance).is_zero();
            let outstanding = self.remote.outstanding_mut();
            let sequence = outstanding.queued().find(may_go)?;
            self.asked = stamps.draw(now);
            outstanding.sent(sequence, self.asked);
            Outgoing::Data { sequence, again: true, urgent: outstanding.is_used_up() }
        };
        let prompt = self.is_prompt(feed);
        self.question.arm(now, |tries| self.remote.timeout(prompt, tries));
        Some(Departure { outgoing, to: self.remote.peer().mac, stamp: self.asked })
    }

    /// Whether only its answer can move things on: it lacks what is here, has given no more credit, keeps the feed full
    /// for those behind it, or has not consumed a message. In each case the acknowledgement that would help may be
    /// lost.
    fn is_waiting(&self, feed: &Feed, arrivals: &OwnArrivals) -> bool {
        let remote = &self.remote;
        let unconsumed = remote.consumed() < arrivals.awaited;
        let lacks = !remote.is_synced() || remote.cursor() < feed.head();
        lacks || self.is_starved(feed) || unconsumed || remote.retains(feed)
    }

    /// Whether nothing goes on here without it: it has no credit, or keeps the feed full, or there is nothing else to
    /// wait for.
    pub(super) fn holds_up(&self, feed: &Feed) -> bool {
        let last = feed.is_complete() && self.remote.cursor() < feed.head();
        self.is_starved(feed) || self.remote.retains(feed) || last
    }

    /// Whether its credit is used up, as far as is known.
    fn is_starved(&self, feed: &Feed) -> bool {
        self.remote.limit() <= feed.highest() && !feed.is_complete()
    }

    /// Whether it lacks the end of the stream or credit: it is to acknowledge either at once.
    fn is_prompt(&self, feed: &Feed) -> bool {
        self.is_starved(feed) || (feed.is_complete() && self.remote.cursor() < feed.head())
    }

    fn rearm(&mut self, now: Instant, feed: &Feed, arrivals: &OwnArrivals) {
        let (awaited, prompt) = (self.is_waiting(feed, arrivals), self.is_prompt(feed));
        self.question.rearm(now, awaited, |tries| self.remote.timeout(prompt, tries));
    }
}
