//! Receivers in a broadcast that acknowledge to another receiver, which repairs their losses by
//! unicast. It repairs only frames that it has.
//!
//! New frames reach this host and its children directly from the root, so this host's timestamps
//! say nothing about them. A repair child has lost a frame if a later one has arrived there, or if
//! it echoes a timestamp drawn here well after the frame arrived here, but never before the frame
//! has had time to arrive. This host reports frames that it lacks itself to its own parent, so that
//! nothing is sent twice.

use super::remote::Remote;
use crate::arq::echo::Behind;
use crate::arq::loss_detection::{News, ProbeTimer};
use crate::arq::stamp::{Stamp, StampRing, Stamps};
use crate::feed::Feed;
use crate::machine::{Deadline, Timer};
use crate::stream::boundaries::Boundaries;
use crate::stream::readers::{
    AckContext, AckFrom, Departure, Frontier, Outgoing, ReaderState, Readers, Trouble,
};
use crate::stream::terms::Memory;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, Peer, Rank};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(in crate::stream) struct RepairChildren {
    children: Vec<RepairChild>,
    arrivals: OwnArrivals,
    first: usize,
}

impl RepairChildren {
    pub(in crate::stream) fn new(
        peers: &[Peer],
        feed: &mut Feed,
        tuning: &Tuning,
    ) -> RepairChildren {
        let children = peers
            .iter()
            .map(|&peer| RepairChild::new(peer, feed, tuning))
            .collect();
        RepairChildren {
            children,
            arrivals: OwnArrivals::new(feed.slots(), tuning),
            first: 0,
        }
    }

    fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.children.iter().map(|child| &child.remote)
    }
}

impl Readers for RepairChildren {
    fn boxed(&self) -> Box<dyn Readers> {
        Box::new(self.clone())
    }

    fn on_ack(&mut self, context: AckContext<'_>) -> AckFrom {
        let child = self
            .children
            .iter_mut()
            .find(|child| child.remote.peer == context.from);
        let Some(child) = child else {
            return AckFrom::NonMember;
        };
        // A child may be ahead of this host, but not of the credit that this host gave the root for
        // both.
        let (ack, forged) = context.believe(context.feed.limit());
        child
            .on_ack(
                AckContext {
                    ack: &ack,
                    ..context
                },
                &self.arrivals,
            )
            .forged_if(forged)
    }

    fn on_data(
        &mut self,
        now: Instant,
        sequence: u64,
        late: bool,
        feed: &mut Feed,
        boundaries: &Boundaries,
    ) {
        self.arrivals
            .note(now, sequence, boundaries.reported_before(feed.head()));
        self.children
            .iter_mut()
            .for_each(|child| child.on_data(now, sequence, late, feed, &self.arrivals));
    }

    fn on_timeout(&mut self, now: Instant, feed: &Feed) {
        self.children
            .iter_mut()
            .for_each(|child| child.on_timeout(now, feed));
    }

    fn poll_timeout(
        &self,
        now: Instant,
        _feed: &Feed,
        _boundaries: &Boundaries,
    ) -> Option<Deadline> {
        let due =
            |child: &RepairChild| [child.question.due(), child.held_until(now, &self.arrivals)];
        let due = self.children.iter().flat_map(due).flatten().min();
        due.map(|at| Deadline {
            at,
            why: Timer::HEARTBEAT,
        })
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        feed: &Feed,
        _boundaries: &Boundaries,
        stamps: &mut Stamps,
    ) -> Option<Departure> {
        let (count, first) = (self.children.len(), self.first);
        (0..count)
            .map(|step| (first + step) % count)
            .find_map(|at| {
                let departure =
                    self.children[at].poll_transmit(now, feed, &self.arrivals, stamps)?;
                self.first = (at + 1) % count;
                Some(departure)
            })
    }

    fn graft(&mut self, now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning) {
        if self.remotes().any(|remote| remote.rank() == peer.rank) {
            return;
        }
        // Its former parent is a repair child here, and passed on no more credit than it had
        // itself.
        let limit = self
            .remotes()
            .map(|remote| remote.limit)
            .min()
            .unwrap_or(feed.highest());
        self.children
            .push(RepairChild::graft(now, peer, limit, feed, tuning));
    }

    fn remove(&mut self, _now: Instant, rank: Rank, feed: &mut Feed) {
        let at = self.remotes().position(|remote| remote.rank() == rank);
        if let Some(at) = at {
            feed.remove_reader(self.children.remove(at).remote.reader);
        }
    }

    fn states(&self, _feed: &Feed) -> Vec<ReaderState> {
        let state = |&Remote { peer, cursor, .. }: &Remote| ReaderState {
            rank: peer.rank,
            cursor,
            flight: None,
            turn: None,
            lost: None,
        };
        self.remotes().map(state).collect()
    }

    fn frontier(&self) -> Frontier {
        let least = |of: fn(&Remote) -> u64| self.remotes().map(of).min().unwrap_or(u64::MAX);
        // A repair child acknowledges for every host behind it: a cast has no relay whose death
        // could be survived by keeping more.
        let below = if planted!("repair-children-not-counted") {
            u64::MAX
        } else {
            least(|remote| remote.below)
        };
        Frontier {
            below,
            consumed: least(|remote| remote.consumed),
            limit: least(|remote| remote.limit),
        }
    }

    fn blamed(&self, _now: Instant, feed: &Feed, trouble: Trouble) -> Option<Rank> {
        let holds_up = |child: &&RepairChild| trouble != Trouble::Mute && child.holds_up(feed);
        let holding = self
            .children
            .iter()
            .filter(holds_up)
            .map(|child| &child.remote);
        holding
            .min_by_key(|remote| (remote.limit, remote.below))
            .map(Remote::rank)
    }

    fn memory(&self) -> Memory {
        Memory {
            stamps_bytes: self.arrivals.bytes(),
            readers_bytes: self.children.capacity() * size_of::<RepairChild>(),
            repairs_bytes: self.remotes().map(Remote::repairs_bytes).sum(),
            ..Memory::default()
        }
    }
}

#[derive(Clone, Debug)]
struct OwnArrivals {
    at: StampRing,
    tolerance: Duration,
    awaited: u64,
}

impl OwnArrivals {
    fn new(slots: u64, tuning: &Tuning) -> OwnArrivals {
        OwnArrivals {
            at: StampRing::new(slots),
            tolerance: tuning.cast.arrival_tolerance,
            awaited: 0,
        }
    }

    fn note(&mut self, now: Instant, sequence: u64, awaited: u64) {
        self.at.set(sequence, Stamp::of(now));
        self.awaited = awaited;
    }

    fn get(&self, sequence: u64) -> Stamp {
        self.at.get(sequence)
    }

    fn wait(&self, now: Instant, sequence: u64, tolerance: Duration) -> Duration {
        tolerance.saturating_sub(self.get(sequence).age(now))
    }

    fn bytes(&self) -> usize {
        self.at.bytes()
    }
}

#[derive(Clone, Debug)]
struct RepairChild {
    remote: Remote,
    asked: Stamp,
    question: ProbeTimer,
}

impl RepairChild {
    fn new(peer: Peer, feed: &mut Feed, tuning: &Tuning) -> RepairChild {
        // Hosts behind it are repaired by frames, not by parity.
        let remote = Remote::new(peer, 1, feed, tuning);
        RepairChild {
            remote,
            asked: Stamp::NONE,
            question: ProbeTimer::default(),
        }
    }

    fn graft(
        now: Instant,
        peer: Peer,
        limit: u64,
        feed: &mut Feed,
        tuning: &Tuning,
    ) -> RepairChild {
        let mut child = RepairChild::new(peer, feed, tuning);
        child.remote = child.remote.grafted(limit);
        child.question.on_probe();
        child
            .question
            .arm(now, |tries| child.remote.rtt().timeout(tries));
        child
    }

    fn held_until(&self, now: Instant, arrivals: &OwnArrivals) -> Option<Instant> {
        let tolerance = self.tolerance(arrivals);
        let waits = self
            .remote
            .outstanding
            .queued()
            .map(|sequence| arrivals.wait(now, sequence, tolerance));
        waits
            .min()
            .filter(|wait| !wait.is_zero())
            .map(|wait| now + wait)
    }

    fn on_ack(
        &mut self,
        AckContext { now, ack, feed, .. }: AckContext<'_>,
        arrivals: &OwnArrivals,
    ) -> AckFrom {
        let behind = self.remote.is_behind(ack);
        if behind {
            let judged = self.remote.judge_behind(ack, feed);
            if judged != Behind::Contradiction {
                let prompt = self.is_prompt(feed);
                self.question
                    .doubt(now, judged, |tries| self.remote.timeout(prompt, tries));
                return self.remote.known(feed);
            }
        }
        self.note_arrival(ack, arrivals);
        let remote = &self.remote;
        let standing = remote.synced && remote.cursor == ack.cursor && ack.cursor >= feed.head();
        let only_consuming = standing && ack.body.consumed <= remote.consumed;
        let more = remote.is_more(ack);
        let fresh = self.remote.on_ack(now, ack, feed).is_some();
        self.find_lost(ack, feed, arrivals);
        self.query_if_in_doubt(now, ack, feed, arrivals);
        let (awaited, prompt) = (self.is_waiting(feed, arrivals), self.is_prompt(feed));
        let news = News::new(fresh, more, only_consuming);
        self.question.on_ack(now, news, awaited, |tries| {
            self.remote.timeout(prompt, tries)
        });
        self.remote.known(feed).forged_if(behind)
    }

    fn tolerance(&self, arrivals: &OwnArrivals) -> Duration {
        self.remote.tolerance_from_elsewhere(arrivals.tolerance)
    }

    /// Recognizes a needless repair: the frame at the cursor has arrived although nothing sent as
    /// late as the repair has. The wait for the root's frame was too short.
    fn note_arrival(&mut self, ack: &Ack<'_>, arrivals: &OwnArrivals) {
        let cursor = self.remote.cursor;
        let repaired = self
            .remote
            .outstanding
            .get(cursor)
            .filter(|&stamp| stamp != Stamp::NONE);
        if let Some(repaired) =
            repaired.filter(|stamp| ack.cursor > cursor && stamp.is_after(Stamp(ack.echo)))
        {
            self.remote
                .echo
                .on_late(repaired.since(arrivals.get(cursor)));
        }
    }

    /// Finds losses whether the echo is new or not: a later frame from the root proves a loss
    /// without an echo.
    fn find_lost(&mut self, ack: &Ack<'_>, feed: &Feed, arrivals: &OwnArrivals) {
        let from_root = self
            .remote
            .evidence(self.tolerance(arrivals), ack.covered());
        let repaired = self
            .remote
            .evidence(self.remote.echo.tolerance(), ack.covered());
        let judged = from_root.search(
            self.remote.from(feed)..feed.highest(),
            |evidence, sequence| evidence.overtook(arrivals.get(sequence)),
        );
        for (sequence, _) in judged {
            let lacks = self.remote.lacks(sequence);
            let outstanding = &mut self.remote.outstanding;
            let lost = outstanding
                .get(sequence)
                .is_none_or(|sent_at| sent_at != Stamp::NONE && repaired.overtook(sent_at));
            if lost && lacks && feed.keeps(sequence) && !outstanding.queue(sequence) {
                return;
            }
        }
    }

    /// Probes the child if an echo cannot settle the doubt. The root's frames carry no stamps of
    /// this host: a lost repair, or the loss of the last frame, shows only by an echo of something
    /// sent later from here.
    fn query_if_in_doubt(
        &mut self,
        now: Instant,
        ack: &Ack<'_>,
        feed: &Feed,
        arrivals: &OwnArrivals,
    ) {
        let rtt = self.remote.rtt();
        let answer_within = rtt.smoothed().unwrap_or_default() * 2
            + self.remote.tolerance_from_elsewhere(rtt.reordering_max());
        let beyond = ack.covered();
        let should_be_there = feed.keeps(beyond) && arrivals.get(beyond).age(now) > answer_within;
        if self.asked.age(now) > answer_within
            && (self.remote.outstanding.is_sent() || should_be_there)
        {
            self.question.on_probe();
        }
    }

    fn on_data(
        &mut self,
        now: Instant,
        sequence: u64,
        late: bool,
        feed: &mut Feed,
        arrivals: &OwnArrivals,
    ) {
        self.remote.follow(feed);
        if late && self.remote.lacks(sequence) {
            // The copy that arrived here may have reached the child as well.
            let tolerance = self
                .remote
                .tolerance_from_elsewhere(self.remote.rtt().reordering_max());
            self.question.hasten(now + tolerance);
        } else if self.question.due().is_none() || self.is_prompt(feed) && self.question.tries == 0
        {
            self.rearm(now, feed, arrivals);
        }
    }

    fn on_timeout(&mut self, now: Instant, feed: &Feed) {
        let prompt = self.is_prompt(feed);
        self.question
            .on_timeout(now, |tries| self.remote.timeout(prompt, tries));
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        feed: &Feed,
        arrivals: &OwnArrivals,
        stamps: &mut Stamps,
    ) -> Option<Departure> {
        let outgoing = if self.question.take() {
            self.asked = stamps.draw(now);
            Outgoing::Heartbeat {
                highest: feed.highest(),
                designated: None,
            }
        } else {
            let tolerance = self.tolerance(arrivals);
            let may_go = |sequence: &u64| arrivals.wait(now, *sequence, tolerance).is_zero();
            let outstanding = &mut self.remote.outstanding;
            let sequence = outstanding.queued().find(may_go)?;
            self.asked = stamps.draw(now);
            outstanding.sent(sequence, self.asked);
            Outgoing::Data {
                sequence,
                again: true,
                urgent: outstanding.is_used_up(),
            }
        };
        let prompt = self.is_prompt(feed);
        self.question
            .arm(now, |tries| self.remote.timeout(prompt, tries));
        Some(Departure {
            outgoing,
            to: self.remote.peer.mac,
            stamp: self.asked,
        })
    }

    /// Whether only the child's acknowledgement allows progress: it lacks frames that are here, has
    /// no credit left, keeps the feed full for hosts behind it, or has not consumed a message. In
    /// each case the acknowledgement may be lost.
    fn is_waiting(&self, feed: &Feed, arrivals: &OwnArrivals) -> bool {
        let remote = &self.remote;
        let unconsumed = remote.consumed < arrivals.awaited;
        let lacks = !remote.synced || remote.cursor < feed.head();
        lacks || self.is_starved(feed) || unconsumed || remote.retains(feed)
    }

    fn holds_up(&self, feed: &Feed) -> bool {
        let last = feed.is_complete() && self.remote.cursor < feed.head();
        self.is_starved(feed) || self.remote.retains(feed) || last
    }

    fn is_starved(&self, feed: &Feed) -> bool {
        self.remote.limit <= feed.highest() && !feed.is_complete()
    }

    fn is_prompt(&self, feed: &Feed) -> bool {
        self.is_starved(feed) || (feed.is_complete() && self.remote.cursor < feed.head())
    }

    fn rearm(&mut self, now: Instant, feed: &Feed, arrivals: &OwnArrivals) {
        let (awaited, prompt) = (self.is_waiting(feed, arrivals), self.is_prompt(feed));
        self.question
            .rearm(now, awaited, |tries| self.remote.timeout(prompt, tries));
    }
}
