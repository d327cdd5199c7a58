//! Receivers that acknowledge directly to the sender of a broadcast, and the frames sent to all of
//! them. The slowest one is chosen as *acker*: it acknowledges for all and never waits for the
//! others.

use super::pace::{LossReport, Pace, PacedRound};
use super::remote::Remote;
use crate::arq::loss_detection::LossDetection;
use crate::arq::stamp::{Stamp, StampRing, Stamps};
use crate::feed::Feed;
use crate::stream::boundaries::Boundaries;
use crate::stream::readers::AckContext;
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::{Ack, MacAddr, Peer, Rank};
use std::time::Duration;

const IN_A_ROW: u8 = 3;

/// Number of listeners that must have lost a frame for the loss to lie before the paths diverge. It
/// is also the factor by which they must outnumber the listeners that received it.
const MANY_LOSERS: usize = 3;

/// A receiver of a cast. `counted` is one past the highest frame whose loss has been counted, so
/// that each counts once. `IN_A_ROW` consecutive acknowledgements must show that it is slower than
/// the acker: a single loss delays any listener once.
#[derive(Clone, Debug)]
pub(super) struct Listener {
    pub(super) remote: Remote,
    counted: u64,
    owed: u64,
    slower: u8,
    round: PacedRound,
    pub(super) lost: u64,
}

impl Listener {
    fn new(remote: Remote) -> Listener {
        Listener {
            counted: remote.cursor,
            owed: 0,
            slower: 0,
            remote,
            round: PacedRound::default(),
            lost: 0,
        }
    }

    fn is_made_whole(&self) -> bool {
        self.remote.cursor >= self.owed
    }

    pub(super) fn end(&self, window: u64) -> u64 {
        self.remote
            .limit
            .min(self.remote.cursor.saturating_add(window))
    }

    pub(super) fn lose(&mut self, sequence: u64) -> bool {
        self.owed = self.owed.max(sequence + 1);
        self.remote.outstanding.queue(sequence)
    }

    pub(super) fn on_losses(
        &mut self,
        lost: &[u64],
        ack: &Ack<'_>,
        since_last: Duration,
        pace: &mut Pace,
        next: u64,
    ) {
        self.lost += lost.len() as u64;
        let mut count = 0;
        for &sequence in lost {
            if sequence >= self.counted.max(pace.from()) {
                count += 1;
                self.counted = sequence + 1;
            }
        }
        let (known, arrived) = (
            self.counted.max(ack.covered()),
            ack.cursor + ack.arrived_beyond(),
        );
        pace.on_ack(
            &mut self.round,
            LossReport {
                known,
                arrived,
                lost: count,
                since_last,
            },
            next,
        );
    }

    pub(super) fn proves_slower(&mut self, slower: bool) -> bool {
        self.slower = if slower { self.slower + 1 } else { 0 };
        let proves = self.slower >= IN_A_ROW;
        if proves {
            self.slower = 0;
        }
        proves
    }
}

/// Receivers of a cast that acknowledge to this host. `window` is in frames beyond the slowest
/// one's cursor (the paper's go-back-n window), unlimited where holes are allowed. A listener that
/// echoes `sent`, the newest stamp, has received the last frame sent. The first `push_frames` of a
/// message do not wait for credit (EQA §3.3).
#[derive(Clone, Debug)]
pub(super) struct Listeners {
    pub(super) all: Vec<Listener>,
    pub(super) policy: Policy,
    pub(super) window: u64,
    pub(super) next: u64,
    pub(super) credit: u64,
    awaited: u64,
    pub(super) cast_at: StampRing,
    sent: Stamp,
    push_frames: Option<u64>,
    block_frames: u64,
}

impl Listeners {
    pub(super) fn new(
        peers: &[Peer],
        block_frames: u64,
        feed: &mut Feed,
        tuning: &Tuning,
    ) -> Listeners {
        let listener = |&peer| Listener::new(Remote::new(peer, block_frames, feed, tuning));
        let all = peers.iter().map(listener).collect();
        let mut listeners = Listeners {
            all,
            policy: tuning.policy,
            window: tuning.strict_window(),
            next: feed.head(),
            credit: 0,
            awaited: 0,
            cast_at: StampRing::new(feed.slots()),
            sent: Stamp::NONE,
            push_frames: tuning.cast.push_frames,
            block_frames,
        };
        listeners.count_credit();
        listeners
    }

    pub(super) fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.all.iter().map(|listener| &listener.remote)
    }

    pub(super) fn find(&self, rank: Rank) -> Option<usize> {
        self.remotes().position(|remote| remote.rank() == rank)
    }

    pub(super) fn graft(&mut self, peer: Peer, feed: &mut Feed, tuning: &Tuning) {
        // Its former parent passed on no more credit than it had itself.
        let limit = self
            .remotes()
            .map(|remote| remote.limit)
            .min()
            .unwrap_or(self.next);
        self.all.push(Listener::new(
            Remote::new(peer, self.block_frames, feed, tuning).grafted(limit),
        ));
        // With no listener left nothing was kept or sent.
        self.next = self.next.max(feed.tail());
        self.count_credit();
    }

    pub(super) fn remove(&mut self, at: usize, feed: &mut Feed) {
        feed.remove_reader(self.all.swap_remove(at).remote.reader);
        self.count_credit();
    }

    pub(super) fn count_credit(&mut self) {
        let ends = self.all.iter().map(|listener| listener.end(self.window));
        self.credit = if planted!("credit-of-the-fastest") {
            ends.max()
        } else {
            ends.min()
        }
        .unwrap_or(u64::MAX);
    }

    pub(super) fn draw(&mut self, now: Instant, stamps: &mut Stamps) -> Stamp {
        self.sent = stamps.draw(now);
        self.sent
    }

    pub(super) fn send_new(&mut self, stamp: Stamp, boundaries: &Boundaries) -> u64 {
        let sequence = self.next;
        self.next += 1;
        if boundaries.is_reported(sequence) {
            self.awaited = self.next;
        }
        self.cast_at.set(sequence, stamp);
        sequence
    }

    /// Measures reordering if the frame at the cursor has arrived, unless it was `recovered` by
    /// parity sent at that time: that was not reordered.
    pub(super) fn note_arrival(&mut self, at: usize, ack: &Ack<'_>, recovered: Option<Stamp>) {
        let remote = &mut self.all[at].remote;
        let by_parity = recovered.is_some_and(|sent| !sent.is_after(Stamp(ack.echo)));
        if self.policy == Policy::HolesAllowed && ack.cursor > remote.cursor && !by_parity {
            let cast_at = self.cast_at.get(remote.cursor);
            let (before, last) = remote.outstanding.transmissions(remote.cursor, cast_at);
            remote.echo.on_arrival(before, last, ack);
        }
    }

    pub(super) fn evidence(&self, at: usize, ack: &Ack<'_>) -> LossDetection {
        let remote = &self.all[at].remote;
        // In the push phase receivers drop what a frame overtook, so there is no reordering to
        // tolerate.
        let tolerance = if self.push_frames.is_some() {
            Duration::ZERO
        } else {
            remote.echo.tolerance()
        };
        remote.evidence(tolerance, ack.covered())
    }

    pub(super) fn find_lost(
        &self,
        at: usize,
        evidence: LossDetection,
        context: &AckContext<'_>,
    ) -> Vec<u64> {
        let (remote, ack, feed) = (&self.all[at].remote, context.ack, &*context.feed);
        if self.policy == Policy::InOrderOnly && ack.cursor < remote.from(feed) {
            return Vec::new(); // It would throw away all that is here.
        }
        let sent_at = |sequence: u64| {
            remote
                .outstanding
                .get(sequence)
                .unwrap_or(self.cast_at.get(sequence))
        };
        evidence
            .missing(ack, remote.from(feed)..self.next, sent_at)
            .collect()
    }

    pub(super) fn is_lost_by_most(&self, sequence: u64, with_acker: bool) -> bool {
        let count = |(lost, got): (usize, usize), remote: &Remote| {
            if remote.lacks(sequence) {
                (lost + 1, got)
            } else {
                (lost, got + 1)
            }
        };
        let (lost, got) = self
            .remotes()
            .filter(|remote| remote.has_reported(sequence))
            .fold((0, 0), count);
        // With an acker, listeners without losses hardly report, while those with losses do.
        let many = if with_acker {
            2
        } else {
            MANY_LOSERS.min(self.all.len())
        };
        lost >= many && lost > MANY_LOSERS * got
    }

    pub(super) fn push_end(&self, boundaries: &Boundaries) -> Option<u64> {
        self.push_frames
            .map(|frames| boundaries.before(self.next) + frames)
    }

    /// Whether the pull phase may go on (EQA §3.3): the acker, and every listener known to have
    /// lost a frame since the push began, has received it.
    pub(super) fn may_pull(&self, push_end: u64, acker: Option<Rank>) -> bool {
        self.all.iter().all(|listener| {
            let is_acker = Some(listener.remote.rank()) == acker;
            listener.is_made_whole() && !(is_acker && listener.remote.cursor < push_end)
        })
    }

    /// Returns the only listener that a heartbeat must probe; `None` if it goes to the group.
    pub(super) fn probed(&self, with_acker: bool, feed: &Feed) -> Option<MacAddr> {
        // With one acker the others lag as a matter of course; only those that hold up the stream
        // matter. But if they lack only room, others may be waiting for repairs.
        let end = |listener: &Listener| listener.end(self.window);
        let holds_up =
            |listener: &Listener| end(listener) <= self.next && listener.remote.cursor < self.next;
        let blocked = with_acker && self.next >= self.credit && self.all.iter().any(holds_up);
        let asked = |listener: &&Listener| {
            if blocked {
                end(listener) <= self.next
            } else {
                self.lags(listener, feed)
            }
        };
        let mut asked = self
            .all
            .iter()
            .filter(asked)
            .map(|listener| listener.remote.peer.mac);
        asked.next().filter(|_| asked.next().is_none())
    }

    fn is_behind(&self, listener: &Listener) -> bool {
        listener.remote.cursor < self.next || listener.remote.consumed < self.awaited
    }

    fn lags(&self, listener: &Listener, feed: &Feed) -> bool {
        self.is_behind(listener)
            || listener.remote.limit <= self.next
            || listener.remote.retains(feed)
    }

    pub(super) fn is_waiting(&self, feed: &Feed) -> bool {
        let starved = self.next >= self.credit && feed.head() > self.next;
        starved
            || self
                .all
                .iter()
                .any(|listener| self.is_behind(listener) || listener.remote.retains(feed))
    }

    pub(super) fn timeout(&self, tries: u32, feed: &Feed) -> Duration {
        // The end is acknowledged at once.
        let ended = feed.is_complete() && self.next == feed.head();
        let strict = self.policy == Policy::InOrderOnly;
        let left = self
            .remotes()
            .any(|remote| remote.has_acknowledged_since(self.sent));
        let timeout = |listener: &Listener| match &listener.remote {
            remote if strict => remote.timeout(ended, tries),
            remote => remote.rtt().shared_timeout(ended, left, tries),
        };
        let lagging = self
            .all
            .iter()
            .filter(|listener| self.lags(listener, feed))
            .map(timeout)
            .max();
        // A listener that seemed to have everything may have been probed because of a doubtful
        // acknowledgement.
        lagging
            .or_else(|| self.all.iter().map(timeout).max())
            .unwrap_or_default()
    }

    /// Returns the listener that delays the stream. It is the one with the least credit, if that is
    /// used up. Else it is one that keeps the feed full or, once everything has been sent, the one
    /// furthest behind.
    pub(super) fn held_up_by(&self, feed: &Feed) -> Option<Rank> {
        let full = feed.head() == feed.limit();
        let of = |listener: &Listener| Some(listener.remote.rank());
        if self.next >= self.credit {
            return self
                .all
                .iter()
                .min_by_key(|listener| listener.end(self.window))
                .and_then(of);
        }
        // Readers stand at the beginning of a block, so several may share a position that only one
        // needs.
        let keeps_full =
            |listener: &&Listener| full && feed.position(listener.remote.reader) == feed.tail();
        let keeping = || {
            self.all
                .iter()
                .filter(keeps_full)
                .min_by_key(|listener| listener.remote.below)
        };
        let lags = |listener: &&Listener| self.next == feed.head() && self.lags(listener, feed);
        let last = || {
            self.all
                .iter()
                .filter(lags)
                .min_by_key(|listener| listener.remote.cursor)
        };
        keeping().or_else(last).and_then(of)
    }
}

const ROUND_TRIP_MARGIN: Duration = Duration::from_micros(500);

#[derive(Clone, Debug)]
pub(super) struct AckerChoice {
    pub(super) rank: Rank,
    untold: Vec<Rank>,
    /// Frames that a candidate must be behind the acker to replace it, so that equals do not
    /// alternate.
    margin_frames: u64,
}

impl AckerChoice {
    pub(super) fn new(listeners: &[Listener], slots: u64) -> Option<AckerChoice> {
        let rank = listeners.first()?.remote.rank();
        Some(AckerChoice {
            rank,
            untold: Vec::new(),
            margin_frames: slots / 8,
        })
    }

    pub(super) fn next_unannounced(&mut self) -> Option<Rank> {
        self.untold.pop()
    }

    /// Compares the listener at `at` with the acker if it has just acknowledged `newly` frames:
    /// only then both positions are equally fresh.
    pub(super) fn on_ack(&mut self, listeners: &mut [Listener], at: usize, newly: u64) {
        let rank = listeners[at].remote.rank();
        if rank == self.rank {
            // The acker acknowledges far more often: after a jump this large the listener does not
            // know yet that it is the acker.
            if newly > self.margin_frames {
                self.note_untold(rank);
            }
            return;
        }
        let present = listeners
            .iter()
            .find(|listener| listener.remote.rank() == self.rank);
        let slower = present.is_some_and(|present| self.is_slower(&listeners[at], present));
        if listeners[at].proves_slower(slower) {
            let before = std::mem::replace(&mut self.rank, rank);
            log::debug!("rank {rank} acknowledges for all, in the place of rank {before}");
            self.note_untold(before);
            self.note_untold(rank);
        }
    }

    pub(super) fn on_removed(&mut self, listeners: &[Listener], gone: Rank) {
        if gone != self.rank {
            return;
        }
        let slowest = listeners
            .iter()
            .min_by_key(|listener| (listener.remote.limit, listener.remote.cursor));
        if let Some(slowest) = slowest {
            self.rank = slowest.remote.rank();
            self.note_untold(self.rank);
        }
    }

    fn is_slower(&self, candidate: &Listener, present: &Listener) -> bool {
        let (candidate, present) = (&candidate.remote, &present.remote);
        let behind = |theirs: u64, ours: u64| theirs + self.margin_frames < ours;
        let ahead =
            behind(present.limit, candidate.limit) || behind(present.cursor, candidate.cursor);
        let farther = || {
            let round_trips = candidate.rtt().smoothed().zip(present.rtt().smoothed());
            round_trips.is_some_and(|(theirs, ours)| theirs > ours * 2 + ROUND_TRIP_MARGIN)
        };
        behind(candidate.limit, present.limit)
            || (!behind(present.limit, candidate.limit) && behind(candidate.cursor, present.cursor))
            || (!ahead && farther())
    }

    fn note_untold(&mut self, rank: Rank) {
        if !self.untold.contains(&rank) {
            self.untold.push(rank);
        }
    }
}
