//! A cast as the readers of a stream: what it takes, sends and waits for.

use super::Cast;
use super::acker::AckerChoice;
use super::listener::Listener;
use super::remote::Remote;
use crate::arq::loss_detection::Sent;
use crate::arq::stamp::{Stamp, Stamps};
use crate::feed::Feed;
use crate::stream::boundaries::Boundaries;
use crate::stream::memory::Memory;
use crate::stream::outgoing::{AckFrom, Departure, Outgoing};
use crate::stream::readers::Readers;
use crate::stream::terms::Flight;
use crate::time::Instant;
use crate::tuning::{Policy, Tuning};
use crate::wire::{Ack, Peer, Rank};

impl Readers for Cast {
    fn boxed(&self) -> Box<dyn Readers> {
        Box::new(self.clone())
    }

    fn on_ack(
        &mut self,
        now: Instant,
        from: Peer,
        ack: &Ack<'_>,
        newest: Stamp,
        feed: &mut Feed,
        boundaries: &Boundaries,
    ) -> AckFrom {
        let Some(at) = self.remotes().position(|remote| remote.peer() == from) else { return AckFrom::Stranger };
        let (ack, forged) = Sent { below: self.next, newest, credit: feed.slots() }.believe(ack);
        self.on_believed(now, at, &ack, feed, boundaries).forged_if(forged)
    }

    fn on_timeout(&mut self, now: Instant, feed: &Feed) {
        if self.question.due().is_some_and(|due| due <= now) {
            let timeout = self.timeout(self.question.tries() + 1, feed);
            self.question.on_timeout(now, |_| timeout);
        }
    }

    fn due(&self, _now: Instant) -> Option<Instant> {
        self.question.due()
    }

    /// A frame that waits only for room in the driver needs no timer.
    fn held_until(&self, now: Instant, feed: &Feed, boundaries: &Boundaries) -> Option<Instant> {
        let bound = self.bound(feed, boundaries);
        let repair = [self.repairs.ready_at(), self.parity_at(now, bound)].into_iter().flatten().min();
        let paced = self.next < bound || repair.is_some_and(|at| at <= now);
        let pace = paced.then(|| self.paced_until(now)).flatten();
        pace.or(repair.filter(|&at| at > now))
    }

    fn poll(&mut self, now: Instant, feed: &Feed, boundaries: &Boundaries, stamps: &mut Stamps) -> Option<Departure> {
        if let Some(to) = self.next_probed(feed) {
            let designated = self.designation.as_ref().map(AckerChoice::rank);
            let outgoing = Outgoing::Heartbeat { highest: self.next, designated };
            return Some(Departure { outgoing, to, stamp: self.draw(now, stamps) });
        }
        if self.paced_until(now).is_some() {
            return None;
        }
        let bound = self.bound(feed, boundaries);
        let strict = self.policy == Policy::InOrderOnly;
        if (strict || self.allowance >= 100 || self.next >= bound)
            && let Some(repair) = self.send_repair(now, bound, stamps, feed)
        {
            return Some(repair);
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
        let stamp = self.draw(now, stamps);
        Some(Departure { outgoing: self.send_new(now, stamp, feed, boundaries), to: self.group, stamp })
    }

    fn graft(&mut self, now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning) {
        if self.remotes().any(|remote| remote.rank() == peer.rank) {
            return;
        }
        // Its former parent passed on no more credit than it had itself.
        let limit = self.remotes().map(Remote::limit).min().unwrap_or(self.next);
        self.listeners.push(Listener::graft(peer, limit, feed, tuning).in_blocks(self.blocks.block_frames()));
        // With no listener left nothing was kept or sent.
        self.next = self.next.max(feed.tail());
        self.count_credit();
        self.question.on_probe();
        self.arm(now, feed);
    }

    fn remove(&mut self, now: Instant, rank: Rank, feed: &mut Feed) {
        let at = self.remotes().position(|remote| remote.rank() == rank);
        if let Some(at) = at {
            feed.remove_reader(self.listeners.swap_remove(at).remote().reader());
            self.repairs.forget_rank(rank);
            self.blocks.remove(rank);
            self.forget_below(feed.tail());
            self.pace.release(self.next);
            self.count_credit();
            if let Some(designation) = &mut self.designation {
                designation.on_removed(&self.listeners, rank);
            }
            self.rearm(now, feed);
        }
    }

    fn cursors(&self) -> Vec<(Rank, u64)> {
        self.remotes().map(|remote| (remote.rank(), remote.cursor())).collect()
    }

    fn flights(&self) -> Vec<Flight> {
        let Cast { next, window, .. } = *self;
        let in_flight = |remote: &Remote| next.saturating_sub(remote.cursor());
        self.remotes()
            .map(|remote| Flight { rank: remote.rank(), next, in_flight: in_flight(remote), window })
            .collect()
    }

    /// Returns the listener that has given the least credit if that is used up; else one that keeps
    /// the feed full; else, once everything has been sent, the one furthest behind.
    fn held_up_by(&self, feed: &Feed) -> Option<Rank> {
        let full = feed.head() == feed.limit();
        let of = |listener: &Listener| Some(listener.remote().rank());
        if self.next >= self.credit {
            return self.listeners.iter().min_by_key(|listener| listener.end(self.window)).and_then(of);
        }
        // Readers stand at the beginning of a block: several may stand where only one has to.
        let keeps_full = |listener: &&Listener| full && feed.position(listener.remote().reader()) == feed.tail();
        let keeping = || self.listeners.iter().filter(keeps_full).min_by_key(|listener| listener.remote().below());
        let lags = |listener: &&Listener| self.next == feed.head() && self.lags(listener, feed);
        let last = || self.listeners.iter().filter(lags).min_by_key(|listener| listener.remote().cursor());
        keeping().or_else(last).and_then(of)
    }

    fn retire(&mut self) {
        self.retired = true;
        // Losses that waited for parity are repeated as data.
        self.blocks.stop();
    }

    fn everywhere(&self, feed: &Feed) -> u64 {
        self.remotes().map(|remote| remote.below().min(remote.cursor())).min().unwrap_or(u64::MAX).min(feed.head())
    }

    fn lost(&self) -> Vec<(Rank, u64)> {
        self.listeners.iter().map(|listener| (listener.remote().rank(), listener.lost())).collect()
    }

    fn consumed(&self) -> u64 {
        self.remotes().map(Remote::consumed).min().unwrap_or(u64::MAX)
    }

    fn have_been_sent(&self, head: u64) -> bool {
        self.next == head
    }

    fn sending(&self, _boundaries: &Boundaries) -> (bool, u64) {
        (false, self.next)
    }

    fn memory(&self) -> Memory {
        Memory {
            stamps_bytes: self.cast_at.bytes() + self.repairs.bytes() + self.blocks.stamps_bytes(),
            readers_bytes: self.listeners.capacity() * size_of::<Listener>(),
            repairs_bytes: self.remotes().map(Remote::repairs_bytes).sum::<usize>() + self.blocks.losses_bytes(),
            ..Memory::default()
        }
    }
}
