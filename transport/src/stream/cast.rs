//! All remote readers served by one broadcast frame (EQA §3.2), with per-receiver cursors and repairs.
//!
//! New frames go to the group address, bounded by the smallest credit, and paced only when a receiver proves too slow. Each
//! listener's acknowledgements say what it lost (`hearing`); a frame one listener lost is repaired by unicast to it, a frame several
//! lost by another broadcast. Who does not acknowledge is asked (`asking`).

use super::designated::Designation;
use super::lane::Outgoing;
use super::listener::Listener;
use super::marks::Marks;
use super::pace::Pace;
use super::repairs::{Losers, Repairs};
use crate::arq::stamp::Stamp;
use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::MacAddr;
use crate::wire::Peer;
use std::time::Duration;

/// The sending end of a broadcast.
#[derive(Debug)]
pub(super) struct Cast {
    pub(super) group: MacAddr,
    pub(super) listeners: Vec<Listener>,
    /// Frames beyond the slowest listener's cursor: the paper's go-back-n window; without limit where holes are allowed.
    window: u64,
    pub(super) policy: Policy,
    pub(super) next: u64,
    /// The smallest credit among the listeners, or the end of the window.
    pub(super) credit: u64,
    /// The end of the newest message sent: everybody is to say when it has been passed.
    pub(super) awaited: u64,
    pub(super) cast_at: Box<[Stamp]>,
    pub(super) repairs: Repairs,
    pub(super) hold: Duration,
    /// Hundredths of a repair that may go out before the next new frame.
    allowance: u64,
    pub(super) pace: Pace,
    /// Frames at the beginning of a message that do not wait for credit (EQA §3.3).
    pub(super) push_frames: Option<u64>,
    pub(super) designation: Option<Designation>,
    pub(super) due: Option<Instant>,
    pub(super) tries: u32,
    pub(super) heartbeat: bool,
}

impl Cast {
    pub(super) fn new(group: MacAddr, peers: &[Peer], feed: &mut Feed, tuning: &Tuning) -> Cast {
        let listeners: Vec<Listener> = peers.iter().map(|&peer| Listener::new(peer, feed, tuning)).collect();
        let mut cast = Cast {
            group,
            window: tuning.strict_window(),
            policy: tuning.policy,
            next: feed.head(),
            credit: 0,
            awaited: 0,
            cast_at: vec![Stamp::NONE; feed.slots() as usize].into_boxed_slice(),
            repairs: Repairs::new(feed.slots()),
            hold: if listeners.len() > 1 { tuning.cast.repair_hold } else { Duration::ZERO },
            allowance: 0,
            pace: Pace::new(tuning),
            push_frames: tuning.cast.push_frames,
            designation: if tuning.designates() { Designation::new(&listeners, feed.slots()) } else { None },
            listeners,
            due: None,
            tries: 0,
            heartbeat: false,
        };
        cast.count_credit();
        cast
    }

    /// Every listener's rank and cursor.
    pub(super) fn cursors(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.listeners.iter().map(|listener| (listener.remote.peer.rank, listener.remote.cursor))
    }

    /// Bytes that it takes to know when frames were sent, and which are to be sent again.
    pub(super) fn stamps_bytes(&self) -> usize {
        size_of_val(&*self.cast_at) + self.repairs.bytes()
    }

    /// Bytes that the listeners take, beside what they have to be repaired.
    pub(super) fn listeners_bytes(&self) -> usize {
        self.listeners.capacity() * size_of::<Listener>()
    }

    /// Bytes that the listeners' holes and repairs take.
    pub(super) fn repairs_bytes(&self) -> usize {
        self.listeners.iter().map(|listener| listener.remote.repairs_bytes()).sum()
    }

    /// The next frame to be sent for the first time.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// What every listener's application has passed, and everybody's behind it.
    pub(super) fn passed(&self) -> u64 {
        self.listeners.iter().map(|listener| listener.remote.passed).min().unwrap_or(u64::MAX)
    }

    /// Takes a listener away, and what only it needed with it.
    pub(super) fn remove(&mut self, now: Instant, rank: u16, feed: &mut Feed) {
        if let Some(at) = self.listeners.iter().position(|listener| listener.remote.peer.rank == rank) {
            let listener = self.listeners.swap_remove(at);
            feed.remove_reader(listener.remote.reader);
            self.repairs.forget_rank(rank);
            self.repairs.forget_below(feed.tail());
            self.count_credit();
            if let Some(designation) = &mut self.designation {
                designation.on_removed(&self.listeners, rank);
            }
            self.rearm(now, feed);
        }
    }

    /// Hears from now on one that acknowledged to another host, itself a listener here.
    pub(super) fn graft(&mut self, now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning) {
        if self.listeners.iter().any(|listener| listener.remote.peer.rank == peer.rank) {
            return;
        }
        // Whoever it acknowledged to has passed on no more credit than it was given.
        let limit = self.listeners.iter().map(|listener| listener.remote.limit).min().unwrap_or(self.next);
        self.listeners.push(Listener::graft(peer, limit, feed, tuning));
        self.count_credit();
        self.heartbeat = true;
        self.arm(now, feed);
    }

    /// When the next frame may go, if pacing or the wait for other losers is what holds it back; what waits for room in the
    /// driver needs no timer.
    pub(super) fn held_until(&self, now: Instant, feed: &Feed, marks: &Marks) -> Option<Instant> {
        let repair = self.repairs.ready_at();
        let paced = self.next < self.bound(feed, marks) || repair.is_some_and(|at| at <= now);
        let pace = paced.then(|| self.pace.ready_at(now)).flatten();
        pace.or(repair.filter(|&at| at > now))
    }

    /// What to send next and to whom, if anything; the caller sends it under the stamp drawn.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        feed: &Feed,
        marks: &Marks,
        stamp: impl FnOnce() -> Stamp,
    ) -> Option<(Outgoing, MacAddr, Stamp)> {
        if let Some(to) = self.next_asked(feed) {
            let designated = self.designation.as_ref().map(|designation| designation.rank);
            return Some((Outgoing::Heartbeat { highest: self.next, designated }, to, stamp()));
        }
        if self.pace.ready_at(now).is_some() {
            return None;
        }
        let bound = self.bound(feed, marks);
        let strict = self.policy == Policy::InOrderOnly;
        let repairs_may_go = strict || self.allowance >= 100 || self.next >= bound;
        if let Some((sequence, to)) = repairs_may_go.then(|| self.next_repair(now)).flatten() {
            let stamp = stamp();
            self.note_repair(now, sequence, to, stamp, feed);
            let loser = to.map(|listener| &self.listeners[listener].remote);
            let urgent = loser.is_some_and(|remote| {
                let last = self.next >= bound && remote.outstanding.queued().next().is_none();
                last || remote.outstanding.is_used_up()
            });
            let mac = loser.map_or(self.group, |remote| remote.peer.mac);
            return Some((Outgoing::Data { sequence, again: true, urgent }, mac, stamp));
        }
        if strict && !self.repairs.is_empty() {
            return None;
        }
        if self.next >= bound {
            if feed.head() > self.next {
                self.arm(now, feed);
            }
            return None;
        }
        let stamp = stamp();
        Some((self.send_new(now, stamp, feed, marks), self.group, stamp))
    }

    fn send_new(&mut self, now: Instant, stamp: Stamp, feed: &Feed, marks: &Marks) -> Outgoing {
        let sequence = self.next;
        let pushed = self.push_end(marks) == Some(sequence + 1);
        self.next += 1;
        if marks.is_reported(sequence) {
            self.awaited = self.next;
        }
        self.allowance = (self.allowance + self.pace.repair_percent()).min(3200);
        self.pace.on_sent(now, true);
        let slot = self.slot(sequence);
        self.cast_at[slot] = stamp;
        self.arm(now, feed);
        Outgoing::Data { sequence, again: false, urgent: pushed || self.next == self.credit }
    }

    /// The oldest repair that is still wanted and may go now: its number, and the listener if it is just one.
    fn next_repair(&mut self, now: Instant) -> Option<(u64, Option<usize>)> {
        loop {
            let (sequence, losers) = self.repairs.first_ready(now)?;
            self.repairs.remove(sequence);
            let mut listeners = self.listeners.iter();
            match losers {
                Losers::Several if listeners.any(|listener| listener.remote.lacks(sequence)) => return Some((sequence, None)),
                Losers::One { rank, .. } => {
                    let loses = |listener: &Listener| listener.remote.peer.rank == rank && listener.remote.lacks(sequence);
                    if let Some(loser) = listeners.position(loses) {
                        return Some((sequence, Some(loser)));
                    }
                }
                Losers::Several => {}
            }
        }
    }

    fn note_repair(&mut self, now: Instant, sequence: u64, to: Option<usize>, stamp: Stamp, feed: &Feed) {
        self.allowance = self.allowance.saturating_sub(100);
        self.pace.on_sent(now, false);
        self.arm(now, feed);
        match to {
            Some(listener) => self.listeners[listener].remote.outstanding.sent(sequence, stamp),
            None => {
                let slot = self.slot(sequence);
                self.cast_at[slot] = stamp;
                self.listeners.iter_mut().for_each(|listener| listener.remote.outstanding.remove(sequence));
            }
        }
    }

    pub(super) fn slot(&self, sequence: u64) -> usize {
        (sequence & (self.cast_at.len() as u64 - 1)) as usize
    }

    /// One past the last frame that may be sent while nothing more is heard of this listener.
    pub(super) fn end(&self, listener: &Listener) -> u64 {
        listener.remote.limit.min(listener.remote.cursor.saturating_add(self.window))
    }

    pub(super) fn count_credit(&mut self) {
        self.credit = self.listeners.iter().map(|listener| self.end(listener)).min().unwrap_or(u64::MAX);
    }

    /// One past the last frame that may be sent now.
    fn bound(&self, feed: &Feed, marks: &Marks) -> u64 {
        let bound = feed.head().min(self.credit);
        match self.push_end(marks) {
            Some(end) if self.next < end => bound.min(end),
            Some(end) if !self.may_pull(end) => bound.min(self.next),
            _ => bound,
        }
    }

    /// Where the push phase of the present message ends, if there are such phases.
    fn push_end(&self, marks: &Marks) -> Option<u64> {
        self.push_frames.map(|frames| marks.before(self.next) + frames)
    }

    /// Whether the pull phase may go on (EQA §3.3): the designated receiver has what was pushed, and so has everybody who is known to
    /// have lost any of it, or of what was sent since.
    fn may_pull(&self, push_end: u64) -> bool {
        let designated = self.designation.as_ref().map(|designation| designation.rank);
        self.listeners.iter().all(|listener| {
            let is_designated = Some(listener.remote.peer.rank) == designated;
            listener.remote.cursor >= listener.owed && !(is_designated && listener.remote.cursor < push_end)
        })
    }
}
