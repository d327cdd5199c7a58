//! All remote readers served by one broadcast frame (EQA §3.2), with per-receiver cursors and repairs.
//!
//! New frames go to the group address, bounded by the smallest credit, and paced only when a receiver proves too slow. Each
//! listener's acknowledgements say what it lost; a frame one listener lost is repaired by unicast to it, a frame several lost by
//! another broadcast.

use super::lane::{Outgoing, missing};
use super::listener::{Listener, Progress};
use super::marks::Marks;
use super::memory::tree_bytes;
use super::pace::Pace;
use super::stamp::{Stamp, Stamps};
use super::stats::StreamStats;
use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::Ack;
use pnet::util::MacAddr;
use std::collections::BTreeMap;
use std::time::Duration;

/// Who is to be sent a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Losers {
    /// One rank, so far; others have until then to report the same loss.
    One {
        rank: u16,
        until: Instant,
    },
    Several,
}

impl Losers {
    fn is_only(self, loser: u16) -> bool {
        matches!(self, Losers::One { rank, .. } if rank == loser)
    }

    /// When the repair may go.
    fn ready_at(self) -> Instant {
        match self {
            Losers::One { until, .. } => until,
            Losers::Several => Instant::START,
        }
    }
}

/// The sending end of a broadcast.
#[derive(Debug)]
pub(super) struct Cast {
    group: MacAddr,
    listeners: Vec<Listener>,
    /// Frames beyond the slowest listener's cursor: the paper's go-back-n window; without limit where holes are allowed.
    window: u64,
    policy: Policy,
    next: u64,
    /// The end of the newest message sent: everybody is to say when it has been passed.
    awaited: u64,
    cast_at: Box<[Stamp]>,
    repairs: BTreeMap<u64, Losers>,
    hold: Duration,
    /// Hundredths of a repair that may go out before the next new frame.
    allowance: u64,
    pace: Pace,
    due: Option<Instant>,
    tries: u32,
    heartbeat: bool,
}

impl Cast {
    pub(super) fn new(group: MacAddr, members: &[(u16, MacAddr)], feed: &mut Feed, tuning: &Tuning) -> Cast {
        Cast {
            group,
            listeners: members.iter().map(|&(rank, mac)| Listener::new(rank, mac, feed, tuning)).collect(),
            window: if tuning.policy == Policy::InOrderOnly { tuning.window_max_frames } else { u64::MAX },
            policy: tuning.policy,
            next: feed.head(),
            awaited: 0,
            cast_at: vec![Stamp::NONE; feed.slots() as usize].into_boxed_slice(),
            repairs: BTreeMap::new(),
            hold: if members.len() > 1 { tuning.repair_hold } else { Duration::ZERO },
            allowance: 0,
            pace: Pace::new(tuning),
            due: None,
            tries: 0,
            heartbeat: false,
        }
    }

    /// Every listener's rank and cursor.
    pub(super) fn cursors(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.listeners.iter().map(|listener| (listener.rank, listener.cursor))
    }

    /// Bytes that the stamps of what was sent take.
    pub(super) fn stamps_bytes(&self) -> usize {
        size_of_val(&*self.cast_at)
    }

    /// Bytes that the listeners take, beside what they have to be repaired.
    pub(super) fn listeners_bytes(&self) -> usize {
        self.listeners.capacity() * size_of::<Listener>()
    }

    /// Bytes that the queued repairs take at most, and what listeners know of theirs.
    pub(super) fn repairs_bytes(&self) -> usize {
        let queued = tree_bytes(self.repairs.len(), size_of::<(u64, Losers)>());
        queued + self.listeners.iter().map(Listener::repairs_bytes).sum::<usize>()
    }

    /// The next frame to be sent for the first time.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// What every listener's application has passed.
    pub(super) fn passed(&self) -> u64 {
        self.listeners.iter().map(|listener| listener.passed).min().unwrap_or(u64::MAX)
    }

    /// Takes a listener away, and what only it needed with it.
    pub(super) fn remove(&mut self, now: Instant, rank: u16, feed: &mut Feed) {
        if let Some(at) = self.listeners.iter().position(|listener| listener.rank == rank) {
            let listener = self.listeners.swap_remove(at);
            feed.remove_reader(listener.reader);
            self.repairs.retain(|_, losers| !losers.is_only(rank));
            self.rearm(now, feed);
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// When the next frame may go, if pacing or the wait for other losers is what holds it back; what waits for room in the
    /// driver needs no timer.
    pub(super) fn held_until(&self, now: Instant, feed: &Feed) -> Option<Instant> {
        let repair = self.repairs.values().map(|losers| losers.ready_at()).min();
        let paced = self.next < self.bound(feed) || repair.is_some_and(|at| at <= now);
        let pace = paced.then(|| self.pace.ready_at(now)).flatten();
        pace.or(repair.filter(|&at| at > now))
    }

    /// Takes an acknowledgement from listener `rank`.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        rank: u16,
        ack: &Ack<'_>,
        feed: &mut Feed,
        stamps: &Stamps,
        stats: &mut StreamStats,
    ) {
        let Some(listener) = self.listeners.iter_mut().find(|listener| listener.rank == rank) else {
            stats.strangers += 1;
            return;
        };
        let echo = Stamp(ack.echo);
        if ack.cursor > self.next || ack.covered() > self.next || echo.is_after(stamps.newest()) {
            stats.forged_acks += 1;
            return;
        }
        stats.acks_received += 1;
        if ack.cursor < listener.cursor {
            return;
        }
        let lowest_before = feed.tail();
        let only_passing = listener.cursor == self.next && ack.body.passed <= listener.passed;
        if let Some(since_last) = listener.on_ack(now, ack, feed) {
            let (ring, unicast) = (&self.cast_at, &listener.unicast_at);
            let sent_at =
                |sequence: u64| unicast.get(&sequence).copied().unwrap_or(ring[(sequence & (ring.len() as u64 - 1)) as usize]);
            let (mut lost, mut counted) = (0, listener.counted);
            for sequence in missing(ack, self.next, sent_at, echo, listener.rtt.reordering()) {
                if sequence >= counted.max(self.pace.from()) {
                    lost += 1;
                    counted = sequence + 1;
                }
                lose(&mut self.repairs, sequence, rank, now + self.hold);
            }
            listener.counted = counted;
            // Strict go-back-n: what was sent after the gap was thrown away, and goes again before anything new.
            if self.policy == Policy::InOrderOnly && self.repairs.contains_key(&ack.cursor) {
                (ack.cursor..self.next).for_each(|sequence| lose(&mut self.repairs, sequence, rank, now + self.hold));
            }
            let arrived = ack.cursor + ack.arrived_beyond();
            let progress = Progress { known: counted.max(ack.covered()), arrived, lost, since_last };
            self.pace.on_ack(listener, progress, self.next);
        }
        if feed.tail() > lowest_before {
            self.repairs = self.repairs.split_off(&feed.tail());
        }
        // An application that takes its time is asked less and less often.
        if !only_passing {
            self.tries = 0;
        }
        self.rearm(now, feed);
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.due.is_some_and(|due| due <= now) {
            self.heartbeat = true;
            self.tries += 1;
            self.due = Some(now + self.timeout());
        }
    }

    /// What to send next and to whom, if anything; the caller sends it under the stamp drawn.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        feed: &Feed,
        marks: &Marks,
        stamp: impl FnOnce() -> Stamp,
    ) -> Option<(Outgoing, MacAddr, Stamp)> {
        if std::mem::take(&mut self.heartbeat) {
            return Some((Outgoing::Heartbeat { highest: self.next }, self.heartbeat_to(), stamp()));
        }
        let bound = self.bound(feed);
        if self.pace.ready_at(now).is_some() {
            return None;
        }
        let strict = self.policy == Policy::InOrderOnly;
        let repairs_may_go = strict || self.allowance >= 100 || self.next >= bound;
        if let Some((sequence, to)) = repairs_may_go.then(|| self.next_repair(now)).flatten() {
            let stamp = stamp();
            self.note_repair(now, sequence, to, stamp);
            let mac = to.map_or(self.group, |listener| self.listeners[listener].mac);
            return Some((Outgoing::Data { sequence, again: true, urgent: false }, mac, stamp));
        }
        if strict && !self.repairs.is_empty() {
            return None;
        }
        if self.next >= bound {
            if feed.head() > self.next {
                self.arm(now);
            }
            return None;
        }
        let (sequence, stamp) = (self.next, stamp());
        self.next += 1;
        if marks.is_reported(sequence) {
            self.awaited = self.next;
        }
        self.allowance = (self.allowance + self.pace.repair_percent()).min(3200);
        self.pace.on_sent(now, true);
        let slot = self.slot(sequence);
        self.cast_at[slot] = stamp;
        self.arm(now);
        Some((Outgoing::Data { sequence, again: false, urgent: self.next == self.credit() }, self.group, stamp))
    }

    /// The oldest repair that is still wanted and may go now: its number, and the listener if it is just one.
    fn next_repair(&mut self, now: Instant) -> Option<(u64, Option<usize>)> {
        loop {
            let (&sequence, &losers) = self.repairs.iter().find(|(_, losers)| losers.ready_at() <= now)?;
            self.repairs.remove(&sequence);
            match losers {
                Losers::Several if self.listeners.iter().any(|listener| listener.lacks(sequence)) => return Some((sequence, None)),
                Losers::One { rank, .. } => {
                    let loser = self.listeners.iter().position(|listener| listener.rank == rank && listener.lacks(sequence));
                    if loser.is_some() {
                        return Some((sequence, loser));
                    }
                }
                Losers::Several => {}
            }
        }
    }

    fn note_repair(&mut self, now: Instant, sequence: u64, to: Option<usize>, stamp: Stamp) {
        self.allowance = self.allowance.saturating_sub(100);
        self.pace.on_sent(now, false);
        self.arm(now);
        match to {
            Some(listener) => {
                self.listeners[listener].unicast_at.insert(sequence, stamp);
            }
            None => {
                let slot = self.slot(sequence);
                self.cast_at[slot] = stamp;
                self.listeners.iter_mut().for_each(|listener| {
                    listener.unicast_at.remove(&sequence);
                });
            }
        }
    }

    fn slot(&self, sequence: u64) -> usize {
        (sequence & (self.cast_at.len() as u64 - 1)) as usize
    }

    /// The smallest credit among the listeners, or the end of the window.
    fn credit(&self) -> u64 {
        let end = |listener: &Listener| listener.limit.min(listener.cursor.saturating_add(self.window));
        self.listeners.iter().map(end).min().unwrap_or(u64::MAX)
    }

    /// One past the last frame that may be sent now.
    fn bound(&self, feed: &Feed) -> u64 {
        feed.head().min(self.credit())
    }

    /// A heartbeat goes to the only listener that lags, or to all.
    fn heartbeat_to(&self) -> MacAddr {
        let mut lagging = self.lagging();
        match (lagging.next(), lagging.next()) {
            (Some(only), None) => only.mac,
            _ => self.group,
        }
    }

    /// Those who have not acknowledged everything, have no credit, or whose application has not passed the last message.
    fn lagging(&self) -> impl Iterator<Item = &Listener> + '_ {
        let lags =
            |listener: &&Listener| listener.cursor < self.next || listener.limit <= self.next || listener.passed < self.awaited;
        self.listeners.iter().filter(lags)
    }

    fn timeout(&self) -> Duration {
        self.lagging().map(|listener| listener.rtt.timeout(self.tries)).max().unwrap_or_default()
    }

    fn arm(&mut self, now: Instant) {
        if self.due.is_none() && !self.listeners.is_empty() {
            self.due = Some(now + self.timeout());
        }
    }

    fn rearm(&mut self, now: Instant, feed: &Feed) {
        let unacknowledged = self.listeners.iter().any(|listener| listener.cursor < self.next || listener.passed < self.awaited);
        let starved = self.next >= self.credit() && feed.head() > self.next;
        self.due = (unacknowledged || starved).then(|| now + self.timeout());
    }
}

/// Notes that `rank` lost a frame; whoever else lost it has until `until` to say so.
fn lose(repairs: &mut BTreeMap<u64, Losers>, sequence: u64, rank: u16, until: Instant) {
    let one_more = |losers: &mut Losers| {
        if !losers.is_only(rank) {
            *losers = Losers::Several;
        }
    };
    repairs.entry(sequence).and_modify(one_more).or_insert(Losers::One { rank, until });
}
