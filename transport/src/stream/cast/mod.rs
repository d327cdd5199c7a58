//! Broadcast mode (*cast*): one broadcast frame serves all receivers, and losses are repaired (EQA
//! §3.2).
//!
//! New frames go to the group address, bounded by the smallest credit, and paced only when a
//! receiver proves too slow. Acknowledgements report losses. A frame that one receiver lost is
//! repaired by unicast, a frame that several lost by another broadcast. If several lost different
//! frames of a block, its parity goes to all. A receiver that does not acknowledge gets a
//! heartbeat.

mod listeners;
mod pace;
mod parity;
mod remote;
mod repair_children;
mod repairs;

use super::boundaries::Boundaries;
use super::readers::{
    AckContext, AckFrom, Departure, Frontier, Outgoing, ReaderState, Readers, Sending, Trouble,
};
use super::terms::{Flight, Memory};
use crate::arq::echo::Behind;
use crate::arq::loss_detection::{News, ProbeTimer};
use crate::arq::stamp::Stamps;
use crate::feed::Feed;
use crate::machine::{Deadline, Timer};
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::{MacAddr, Peer, Rank};
use listeners::{AckerChoice, Listener, Listeners};
use pace::Pace;
use parity::Blocks;
use remote::Remote;
pub(super) use repair_children::RepairChildren;
use repairs::Repairs;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct Cast {
    group: MacAddr,
    listeners: Listeners,
    repairs: Repairs,
    parity: Blocks,
    pace: Pace,
    acker: Option<AckerChoice>,
    timer: ProbeTimer,
    retired: bool,
}

impl Cast {
    pub(super) fn new(group: MacAddr, peers: &[Peer], feed: &mut Feed, tuning: &Tuning) -> Cast {
        let shares_repairs = tuning.policy == Policy::HolesAllowed;
        let hold = if shares_repairs && peers.len() > 1 {
            tuning.cast.repair_hold
        } else {
            Duration::ZERO
        };
        let parity = Blocks::new(tuning.block_frames_for(feed.slots()), hold);
        let listeners = Listeners::new(peers, parity.block_frames, feed, tuning);
        Cast {
            group,
            repairs: Repairs::new(feed.slots(), shares_repairs, hold),
            parity,
            pace: Pace::new(tuning),
            acker: if tuning.designates() {
                AckerChoice::new(&listeners.all, feed.slots())
            } else {
                None
            },
            listeners,
            timer: ProbeTimer::default(),
            retired: false,
        }
    }

    fn on_believed(&mut self, at: usize, context: AckContext<'_>) -> AckFrom {
        let (now, ack) = (context.now, context.ack);
        let remote = &mut self.listeners.all[at].remote;
        let behind = remote.is_behind(ack);
        if behind {
            let (judged, known) = (
                remote.judge_behind(ack, context.feed),
                remote.known(context.feed),
            );
            if judged != Behind::Contradiction {
                self.timer.doubt(now, judged, |tries| {
                    self.listeners.timeout(tries, context.feed)
                });
                return known;
            }
        }
        let newly = ack.cursor.saturating_sub(remote.cursor);
        let only_consuming =
            remote.cursor == self.listeners.next && ack.body.consumed <= remote.consumed;
        let more = remote.is_more(ack);
        let recovered = self.parity.first_sent(remote.cursor);
        self.listeners.note_arrival(at, ack, recovered);
        let remote = &mut self.listeners.all[at].remote;
        let (echo, rank) = (remote.on_ack(now, ack, context.feed), remote.rank());
        self.forget_below(context.feed.tail());
        self.parity.settle(rank, ack);
        if let Some(echo) = echo {
            *context.round_trip = echo.round_trip;
            self.on_evidence(at, echo.since_last, &context);
            self.parity.note_ack(now, at, &self.listeners);
        }
        self.listeners.count_credit();
        if let Some(acker) = &mut self.acker {
            acker.on_ack(&mut self.listeners.all, at, newly);
        }
        let news = News::new(echo.is_some(), more, only_consuming);
        let waiting = self.listeners.is_waiting(context.feed);
        self.timer.on_ack(now, news, waiting, |tries| {
            self.listeners.timeout(tries, context.feed)
        });
        self.listeners.all[at]
            .remote
            .known(context.feed)
            .forged_if(behind)
    }

    fn on_evidence(&mut self, at: usize, since_last: Duration, context: &AckContext<'_>) {
        let (now, ack, next) = (context.now, context.ack, self.listeners.next);
        let evidence = self.listeners.evidence(at, ack);
        let found = self.listeners.find_lost(at, evidence, context);
        let remote = &self.listeners.all[at].remote;
        let is_new = |&sequence: &u64| {
            !self.parity.knows(remote.rank(), sequence) && !remote.awaits(sequence)
        };
        let new: Vec<u64> = found.iter().copied().filter(is_new).collect();
        for sequence in self.repeated(at, &found, context) {
            // A repeat serves every listener that reported this loss.
            for other in self.parity.awaited_by(sequence, &self.listeners) {
                self.repairs.lose(now, other, sequence, &mut self.listeners);
            }
            self.repairs.lose(now, at, sequence, &mut self.listeners);
        }
        // Strict go-back-n: receivers dropped everything after the gap, so that is sent again
        // before new frames.
        if self.listeners.policy == Policy::InOrderOnly && found.first() == Some(&ack.cursor) {
            (ack.cursor..next)
                .for_each(|sequence| self.repairs.lose(now, at, sequence, &mut self.listeners));
        }
        self.listeners.all[at].on_losses(&new, ack, since_last, &mut self.pace, next);
    }

    fn repeated(&mut self, at: usize, found: &[u64], context: &AckContext<'_>) -> Vec<u64> {
        if self.listeners.all.len() < 2 || !self.repairs.are_shared {
            self.parity
                .forget_rank(self.listeners.all[at].remote.rank());
            return found.to_vec();
        }
        self.parity
            .gather(at, found, self.acker.is_some(), &self.listeners, context)
    }

    fn forget_below(&mut self, tail: u64) {
        self.repairs.forget_below(tail);
        self.parity.forget_below(tail);
    }

    fn arm(&mut self, now: Instant, feed: &Feed) {
        if !self.listeners.all.is_empty() {
            self.timer
                .arm(now, |tries| self.listeners.timeout(tries, feed));
        }
    }

    fn send_new(
        &mut self,
        now: Instant,
        feed: &Feed,
        boundaries: &Boundaries,
        stamps: &mut Stamps,
    ) -> Departure {
        let stamp = self.listeners.draw(now, stamps);
        let push_end = self.listeners.push_end(boundaries);
        let sequence = self.listeners.send_new(stamp, boundaries);
        let pushed = push_end == Some(sequence + 1);
        self.pace.on_sent(now, true);
        self.arm(now, feed);
        let urgent = pushed || self.listeners.next == self.listeners.credit;
        Departure {
            outgoing: Outgoing::Data {
                sequence,
                again: false,
                urgent,
            },
            to: self.group,
            stamp,
        }
    }

    fn send_repair(
        &mut self,
        now: Instant,
        bound: u64,
        stamps: &mut Stamps,
        feed: &Feed,
    ) -> Option<Departure> {
        for (rank, sequence) in self.parity.judge(now, bound, &self.listeners, feed) {
            if let Some(at) = self.listeners.find(rank) {
                self.repairs.lose(now, at, sequence, &mut self.listeners);
            }
        }
        let repair = self.repairs.next(now, &self.listeners);
        let stamp = (repair.is_some() || self.parity.going().is_some())
            .then(|| self.listeners.draw(now, stamps))?;
        self.pace.on_sent(now, false);
        self.arm(now, feed);
        let Some((sequence, loser)) = repair else {
            let (parity, urgent) = self.parity.going()?.send(stamp);
            return Some(Departure {
                outgoing: Outgoing::Parity { parity, urgent },
                to: self.group,
                stamp,
            });
        };
        let Some(loser) = loser else {
            self.listeners.cast_at.set(sequence, stamp);
            self.parity.repeated(sequence, None);
            self.listeners
                .all
                .iter_mut()
                .for_each(|listener| listener.remote.outstanding.remove(sequence));
            let outgoing = Outgoing::Data {
                sequence,
                again: true,
                urgent: false,
            };
            return Some(Departure {
                outgoing,
                to: self.group,
                stamp,
            });
        };
        let last = self.listeners.next >= bound;
        let remote = &mut self.listeners.all[loser].remote;
        remote.outstanding.sent(sequence, stamp);
        let urgent = (last && remote.outstanding.queued().next().is_none())
            || remote.outstanding.is_used_up();
        self.parity.repeated(sequence, Some(remote.rank()));
        Some(Departure {
            outgoing: Outgoing::Data {
                sequence,
                again: true,
                urgent,
            },
            to: remote.peer.mac,
            stamp,
        })
    }

    /// Returns the destination of the next heartbeat, if one is due: a listener that must be
    /// notified of the acker, the only listener that lags, or the group.
    fn next_probed(&mut self, feed: &Feed) -> Option<MacAddr> {
        if self.timer.take() {
            return Some(
                self.listeners
                    .probed(self.acker.is_some(), feed)
                    .unwrap_or(self.group),
            );
        }
        let rank = self.acker.as_mut()?.next_unannounced()?;
        self.listeners
            .find(rank)
            .map(|at| self.listeners.all[at].remote.peer.mac)
    }

    fn bound(&self, feed: &Feed, boundaries: &Boundaries) -> u64 {
        let Listeners { next, credit, .. } = self.listeners;
        if self.listeners.all.is_empty() || self.retired {
            return next; // Nobody would keep it, nor does the feed.
        }
        let bound = feed.head().min(credit);
        let acker = self.acker.as_ref().map(|acker| acker.rank);
        match self.listeners.push_end(boundaries) {
            Some(end) if next < end => bound.min(end),
            Some(end) if !self.listeners.may_pull(end, acker) => bound.min(next),
            _ => bound,
        }
    }

    fn paced_until(&self, now: Instant) -> Option<Instant> {
        self.pace.ready_at(now).filter(|_| !self.retired)
    }

    /// Returns the end of the wait for a repair or for the pace. A frame that waits only for room
    /// in the driver needs no timer.
    fn held_until(&self, now: Instant, feed: &Feed, boundaries: &Boundaries) -> Option<Instant> {
        let bound = self.bound(feed, boundaries);
        let parity = self.parity.ready_at(now, bound, &self.listeners);
        let repair = [self.repairs.ready_at(), parity]
            .into_iter()
            .flatten()
            .min();
        let paced = self.listeners.next < bound || repair.is_some_and(|at| at <= now);
        let pace = paced.then(|| self.paced_until(now)).flatten();
        pace.or(repair.filter(|&at| at > now))
    }
}

impl Readers for Cast {
    fn boxed(&self) -> Box<dyn Readers> {
        Box::new(self.clone())
    }

    fn on_ack(&mut self, context: AckContext<'_>) -> AckFrom {
        let Some(at) = self
            .listeners
            .remotes()
            .position(|remote| remote.peer == context.from)
        else {
            return AckFrom::NonMember;
        };
        let (ack, forged) = context.believe(self.listeners.next);
        self.on_believed(
            at,
            AckContext {
                ack: &ack,
                ..context
            },
        )
        .forged_if(forged)
    }

    fn on_timeout(&mut self, now: Instant, feed: &Feed) {
        self.timer
            .on_timeout(now, |tries| self.listeners.timeout(tries, feed));
    }

    fn poll_timeout(&self, now: Instant, feed: &Feed, boundaries: &Boundaries) -> Option<Deadline> {
        let heartbeat = self.timer.due().map(|at| Deadline {
            at,
            why: Timer::HEARTBEAT,
        });
        let pace = self.held_until(now, feed, boundaries).map(|at| Deadline {
            at,
            why: Timer::PACE,
        });
        [heartbeat, pace].into_iter().flatten().min()
    }

    fn poll_transmit(
        &mut self,
        now: Instant,
        feed: &Feed,
        boundaries: &Boundaries,
        stamps: &mut Stamps,
    ) -> Option<Departure> {
        if let Some(to) = self.next_probed(feed) {
            let designated = self.acker.as_ref().map(|acker| acker.rank);
            let outgoing = Outgoing::Heartbeat {
                highest: self.listeners.next,
                designated,
            };
            return Some(Departure {
                outgoing,
                to,
                stamp: self.listeners.draw(now, stamps),
            });
        }
        if self.paced_until(now).is_some() {
            return None;
        }
        let bound = self.bound(feed, boundaries);
        let (strict, ended) = (
            self.listeners.policy == Policy::InOrderOnly,
            self.listeners.next >= bound,
        );
        if (strict || self.pace.allows_repair() || ended)
            && let Some(repair) = self.send_repair(now, bound, stamps, feed)
        {
            return Some(repair);
        }
        if strict && !self.repairs.is_empty() {
            return None;
        }
        if !ended {
            return Some(self.send_new(now, feed, boundaries, stamps));
        }
        if feed.head() > self.listeners.next {
            self.arm(now, feed);
        }
        None
    }

    fn graft(&mut self, now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning) {
        if self.listeners.find(peer.rank).is_none() {
            self.listeners.graft(peer, feed, tuning);
            self.timer.on_probe();
            self.arm(now, feed);
        }
    }

    fn remove(&mut self, now: Instant, rank: Rank, feed: &mut Feed) {
        let Some(at) = self.listeners.find(rank) else {
            return;
        };
        self.listeners.remove(at, feed);
        self.repairs.forget_rank(rank);
        self.parity.remove(rank);
        self.forget_below(feed.tail());
        self.pace.release(self.listeners.next);
        if let Some(acker) = &mut self.acker {
            acker.on_removed(&self.listeners.all, rank);
        }
        let waiting = self.listeners.is_waiting(feed);
        self.timer
            .rearm(now, waiting, |tries| self.listeners.timeout(tries, feed));
    }

    fn states(&self, _feed: &Feed) -> Vec<ReaderState> {
        let Listeners { next, window, .. } = self.listeners;
        let state = |listener: &Listener| {
            let (rank, cursor) = (listener.remote.rank(), listener.remote.cursor);
            let flight = Some(Flight {
                rank,
                next,
                in_flight: next.saturating_sub(cursor),
                window,
            });
            ReaderState {
                rank,
                cursor,
                flight,
                turn: None,
                lost: Some(listener.lost),
            }
        };
        self.listeners.all.iter().map(state).collect()
    }

    fn frontier(&self) -> Frontier {
        let consumed = self.listeners.remotes().map(|remote| remote.consumed).min();
        Frontier {
            below: u64::MAX,
            consumed: consumed.unwrap_or(u64::MAX),
            limit: u64::MAX,
        }
    }

    fn everywhere(&self, feed: &Feed) -> u64 {
        let below = self
            .listeners
            .remotes()
            .map(|remote| remote.below.min(remote.cursor));
        below.min().unwrap_or(u64::MAX).min(feed.head())
    }

    fn blamed(&self, _now: Instant, feed: &Feed, trouble: Trouble) -> Option<Rank> {
        if trouble == Trouble::Mute {
            None
        } else {
            self.listeners.held_up_by(feed)
        }
    }

    fn sending(&self, _feed: &Feed, _boundaries: &Boundaries) -> Sending {
        Sending {
            halfway: false,
            next: self.listeners.next,
            pausing: false,
        }
    }

    fn retire(&mut self) {
        self.retired = true;
        self.repairs.are_shared = false;
        self.parity.retire();
    }

    fn memory(&self) -> Memory {
        Memory {
            stamps_bytes: self.listeners.cast_at.bytes()
                + self.repairs.bytes()
                + self.parity.stamps_bytes(),
            readers_bytes: self.listeners.all.capacity() * size_of::<Listener>(),
            repairs_bytes: self
                .listeners
                .remotes()
                .map(Remote::repairs_bytes)
                .sum::<usize>()
                + self.parity.losses_bytes(),
            ..Memory::default()
        }
    }
}
