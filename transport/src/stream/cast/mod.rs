//! All remote readers served by one broadcast frame (EQA §3.2), with per-receiver cursors and
//! repairs.
//!
//! New frames go to the group address, bounded by the smallest credit, and paced only when a
//! receiver proves too slow. Acknowledgements report losses: a frame that one listener lost is
//! repaired by unicast, a frame that several lost by another broadcast; where several lost
//! different frames of a block, its parity goes to all. A listener that does not acknowledge gets a
//! heartbeat.

mod acker;
mod asking;
mod blocks;
mod listener;
mod pace;
mod parity;
mod readers;
mod remote;
mod repair_child;
mod repair_children;
mod repairs;

pub(super) use repair_children::RepairChildren;

use super::boundaries::Boundaries;
use super::outgoing::{AckFrom, Departure, Outgoing};
use crate::arq::echo::Behind;
use crate::arq::loss_detection::LossDetection;
use crate::arq::probe_timer::{News, ProbeTimer};
use crate::arq::stamp::{Stamp, StampRing, Stamps};
use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::{Ack, MacAddr, Peer};
use acker::AckerChoice;
use blocks::Blocks;
use listener::Listener;
use pace::Pace;
use remote::Remote;
use repairs::{Losers, Repairs};
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct Cast {
    group: MacAddr,
    listeners: Vec<Listener>,
    /// Frames beyond the slowest listener's cursor (the paper's go-back-n window); unlimited where
    /// holes are allowed.
    window: u64,
    policy: Policy,
    next: u64,
    credit: u64,
    awaited: u64,
    cast_at: StampRing,
    /// Newest stamp: a listener that echoes it has received the last frame sent.
    sent: Stamp,
    repairs: Repairs,
    blocks: Blocks,
    hold: Duration,
    /// Hundredths of a repair that may go out before the next new frame.
    allowance: u64,
    pace: Pace,
    /// Frames at the beginning of a message that do not wait for credit (EQA §3.3).
    push_frames: Option<u64>,
    designation: Option<AckerChoice>,
    question: ProbeTimer,
    /// Whether the cast sends nothing new, and only heartbeats to the group.
    retired: bool,
}

impl Cast {
    pub(super) fn new(group: MacAddr, peers: &[Peer], feed: &mut Feed, tuning: &Tuning) -> Cast {
        let blocks = Blocks::new(tuning.block_frames_for(feed.slots()));
        let listener = |&peer| Listener::new(peer, feed, tuning).in_blocks(blocks.block_frames());
        let listeners: Vec<Listener> = peers.iter().map(listener).collect();
        let shares_repairs = tuning.policy == Policy::HolesAllowed;
        let mut cast = Cast {
            group,
            window: tuning.strict_window(),
            policy: tuning.policy,
            next: feed.head(),
            credit: 0,
            awaited: 0,
            cast_at: StampRing::new(feed.slots()),
            sent: Stamp::NONE,
            repairs: Repairs::new(feed.slots()),
            blocks,
            hold: if shares_repairs && listeners.len() > 1 { tuning.cast.repair_hold } else { Duration::ZERO },
            allowance: 0,
            pace: Pace::new(tuning),
            push_frames: tuning.cast.push_frames,
            designation: if tuning.designates() { AckerChoice::new(&listeners, feed.slots()) } else { None },
            listeners,
            question: ProbeTimer::default(),
            retired: false,
        };
        cast.count_credit();
        cast
    }

    fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.listeners.iter().map(Listener::remote)
    }

    fn on_believed(
        &mut self,
        now: Instant,
        at: usize,
        ack: &Ack<'_>,
        feed: &mut Feed,
        boundaries: &Boundaries,
    ) -> AckFrom {
        let remote = self.listeners[at].remote_mut();
        let behind = remote.is_behind(ack);
        if behind {
            let (judged, known) = (remote.judge_behind(ack, feed), remote.known(feed));
            if judged != Behind::Contradiction {
                let timeout = self.timeout(self.question.tries(), feed);
                self.question.doubt(now, judged, |_| timeout);
                return known;
            }
        }
        let newly = ack.cursor.saturating_sub(remote.cursor());
        let only_consuming = remote.cursor() == self.next && ack.body.consumed <= remote.consumed();
        let more = remote.is_more(ack);
        self.note_arrival(at, ack);
        let since_last = self.listeners[at].on_ack(now, ack, feed);
        self.forget_below(feed.tail());
        self.settle_blocks(at, ack);
        if let Some(since_last) = since_last {
            self.on_evidence(now, at, ack, since_last, feed, boundaries);
            self.note_ack(now, at);
        }
        self.count_credit();
        if let Some(designation) = &mut self.designation {
            designation.on_ack(&mut self.listeners, at, newly);
        }
        let news = News::new(since_last.is_some(), more, only_consuming);
        let mut question = std::mem::take(&mut self.question);
        question.on_ack(now, news, self.is_waiting(feed), |tries| self.timeout(tries, feed));
        self.question = question;
        self.listeners[at].remote().known(feed).forged_if(behind)
    }

    fn on_evidence(
        &mut self,
        now: Instant,
        at: usize,
        ack: &Ack<'_>,
        since_last: Duration,
        feed: &Feed,
        boundaries: &Boundaries,
    ) {
        let found = self.find_lost(at, ack, feed);
        let rank = self.listeners[at].remote().rank();
        let is_new =
            |&sequence: &u64| !self.blocks.knows(rank, sequence) && !self.listeners[at].remote().awaits(sequence);
        let new: Vec<u64> = found.iter().copied().filter(is_new).collect();
        let repeated = self.gather(at, &found, self.evidence(at, ack), feed, boundaries);
        for &sequence in &repeated {
            // A repeat serves every listener that reported this loss.
            self.waiting_for_parity(sequence).into_iter().for_each(|other| self.lose(now, other, sequence));
            self.lose(now, at, sequence);
        }
        // Strict go-back-n: receivers dropped everything after the gap, so it goes again before
        // anything new.
        if self.policy == Policy::InOrderOnly && found.first() == Some(&ack.cursor) {
            (ack.cursor..self.next).for_each(|sequence| self.lose(now, at, sequence));
        }
        self.listeners[at].on_losses(&new, ack, since_last, &mut self.pace, self.next);
    }

    fn forget_below(&mut self, tail: u64) {
        self.repairs.forget_below(tail);
        self.blocks.forget_below(tail);
    }

    fn note_arrival(&mut self, at: usize, ack: &Ack<'_>) {
        let remote = self.listeners[at].remote_mut();
        let cursor = remote.cursor();
        // A frame recovered by parity was not reordered.
        let by_parity = self.blocks.first_sent(cursor).is_some_and(|sent| !sent.is_after(Stamp(ack.echo)));
        if self.policy == Policy::HolesAllowed && ack.cursor > cursor && !by_parity {
            let (before, last) = remote.outstanding().transmissions(cursor, self.cast_at.get(cursor));
            remote.echo_mut().on_arrival(before, last, ack);
        }
    }

    fn count_credit(&mut self) {
        let ends = self.listeners.iter().map(|listener| listener.end(self.window));
        self.credit = if planted!("credit-of-the-fastest") { ends.max() } else { ends.min() }.unwrap_or(u64::MAX);
    }

    fn find_lost(&self, at: usize, ack: &Ack<'_>, feed: &Feed) -> Vec<u64> {
        let remote = self.listeners[at].remote();
        if self.policy == Policy::InOrderOnly && ack.cursor < remote.from(feed) {
            return Vec::new(); // It would throw away all that is here.
        }
        let sent_at = |sequence: u64| remote.outstanding().get(sequence).unwrap_or(self.cast_at.get(sequence));
        self.evidence(at, ack).missing(ack, remote.from(feed)..self.next, sent_at).collect()
    }

    fn evidence(&self, at: usize, ack: &Ack<'_>) -> LossDetection {
        let remote = self.listeners[at].remote();
        // In the push phase receivers drop what a frame overtook, so there is no reordering to
        // tolerate.
        let tolerance = if self.push_frames.is_some() { Duration::ZERO } else { remote.tolerance() };
        remote.evidence(tolerance, ack.covered())
    }

    fn lose(&mut self, now: Instant, at: usize, sequence: u64) {
        let listener = &mut self.listeners[at];
        let rank = listener.remote().rank();
        if !listener.lose(sequence) {
            return;
        }
        let served = |stamp: Stamp| stamp != Stamp::NONE;
        let mut others = self.listeners.iter().enumerate().filter(|&(other, _)| other != at);
        // The first reporter has been served by unicast; from the second on they share a broadcast.
        let shared = self.shares_repairs()
            && others.any(|(_, other)| other.remote().outstanding().get(sequence).is_some_and(served));
        let losers = if shared { Losers::Several } else { Losers::One { rank, until: now + self.hold } };
        self.repairs.lose(sequence, losers);
    }

    fn shares_repairs(&self) -> bool {
        self.policy == Policy::HolesAllowed && !self.retired
    }

    fn draw(&mut self, now: Instant, stamps: &mut Stamps) -> Stamp {
        self.sent = stamps.draw(now);
        self.sent
    }

    fn send_new(&mut self, now: Instant, stamp: Stamp, feed: &Feed, boundaries: &Boundaries) -> Outgoing {
        let sequence = self.next;
        let pushed = self.push_end(boundaries) == Some(sequence + 1);
        self.next += 1;
        if boundaries.is_reported(sequence) {
            self.awaited = self.next;
        }
        self.allowance = (self.allowance + self.pace.repair_percent()).min(3200);
        self.pace.on_sent(now, true);
        self.cast_at.set(sequence, stamp);
        self.arm(now, feed);
        Outgoing::Data { sequence, again: false, urgent: pushed || self.next == self.credit }
    }

    fn next_repair(&mut self, now: Instant) -> Option<(u64, Option<usize>)> {
        loop {
            let (sequence, losers) = self.repairs.first_ready(now)?;
            self.repairs.remove(sequence);
            let mut remotes = self.remotes();
            match losers {
                // The paper repairs by unicast (EQA §3.2): one loser after the other.
                Losers::Several if !self.shares_repairs() => {
                    let mut owed = remotes.enumerate().filter(|(_, remote)| remote.is_owed(sequence)).map(|(at, _)| at);
                    let (loser, another) = (owed.next(), owed.next());
                    drop(owed);
                    if another.is_some() {
                        self.repairs.lose(sequence, Losers::Several);
                    }
                    if loser.is_some() {
                        return Some((sequence, loser));
                    }
                }
                Losers::Several if remotes.any(|remote| remote.lacks(sequence)) => return Some((sequence, None)),
                Losers::One { .. } if planted!("repair-dropped") => {}
                Losers::One { rank, .. } => {
                    if let Some(loser) = remotes.position(|remote| remote.rank() == rank && remote.lacks(sequence)) {
                        return Some((sequence, Some(loser)));
                    }
                }
                Losers::Several => {}
            }
        }
    }

    fn send_repair(&mut self, now: Instant, bound: u64, stamps: &mut Stamps, feed: &Feed) -> Option<Departure> {
        self.judge_blocks(now, bound, feed);
        let Some((sequence, to)) = self.next_repair(now) else { return self.send_parity(now, stamps, feed) };
        let stamp = self.draw(now, stamps);
        self.allowance = self.allowance.saturating_sub(100);
        self.pace.on_sent(now, false);
        self.arm(now, feed);
        let Some(loser) = to else {
            self.cast_at.set(sequence, stamp);
            self.blocks.repeated(sequence, None);
            self.listeners.iter_mut().for_each(|listener| listener.remote_mut().outstanding_mut().remove(sequence));
            return Some(Departure {
                outgoing: Outgoing::Data { sequence, again: true, urgent: false },
                to: self.group,
                stamp,
            });
        };
        let last = self.next >= bound;
        let remote = self.listeners[loser].remote_mut();
        let outstanding = remote.outstanding_mut();
        outstanding.sent(sequence, stamp);
        let urgent = (last && outstanding.queued().next().is_none()) || outstanding.is_used_up();
        self.blocks.repeated(sequence, Some(remote.rank()));
        Some(Departure { outgoing: Outgoing::Data { sequence, again: true, urgent }, to: remote.peer().mac, stamp })
    }

    fn bound(&self, feed: &Feed, boundaries: &Boundaries) -> u64 {
        if self.listeners.is_empty() || self.retired {
            return self.next; // Nobody would keep it, nor does the feed.
        }
        let bound = feed.head().min(self.credit);
        match self.push_end(boundaries) {
            Some(end) if self.next < end => bound.min(end),
            Some(end) if !self.may_pull(end) => bound.min(self.next),
            _ => bound,
        }
    }

    fn paced_until(&self, now: Instant) -> Option<Instant> {
        self.pace.ready_at(now).filter(|_| !self.retired)
    }

    fn push_end(&self, boundaries: &Boundaries) -> Option<u64> {
        self.push_frames.map(|frames| boundaries.before(self.next) + frames)
    }

    /// Whether the pull phase may go on (EQA §3.3): the acker, and every listener known to have
    /// lost anything since the push began, has received it.
    fn may_pull(&self, push_end: u64) -> bool {
        let designated = self.designation.as_ref().map(AckerChoice::rank);
        self.listeners.iter().all(|listener| {
            let is_designated = Some(listener.remote().rank()) == designated;
            listener.is_made_whole() && !(is_designated && listener.remote().cursor() < push_end)
        })
    }
}
