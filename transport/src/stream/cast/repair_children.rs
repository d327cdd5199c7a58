//! All receivers that acknowledge to this one: a node of the ack tree with its children.

use super::remote::Remote;
use super::repair_child::{OwnArrivals, RepairChild};
use crate::arq::loss_detection::Sent;
use crate::arq::stamp::{Stamp, Stamps};
use crate::feed::Feed;
use crate::stream::boundaries::Boundaries;
use crate::stream::memory::Memory;
use crate::stream::outgoing::{AckFrom, Departure};
use crate::stream::readers::Readers;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, Peer, Rank};

#[derive(Clone, Debug)]
pub(in crate::stream) struct RepairChildren {
    children: Vec<RepairChild>,
    arrivals: OwnArrivals,
    first: usize,
}

impl RepairChildren {
    pub(in crate::stream) fn new(peers: &[Peer], feed: &mut Feed, tuning: &Tuning) -> RepairChildren {
        let children = peers.iter().map(|&peer| RepairChild::new(peer, feed, tuning)).collect();
        RepairChildren { children, arrivals: OwnArrivals::new(feed.slots(), tuning), first: 0 }
    }

    fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.children.iter().map(RepairChild::remote)
    }
}

impl Readers for RepairChildren {
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
        _boundaries: &Boundaries,
    ) -> AckFrom {
        let child = self.children.iter_mut().find(|child| child.remote().peer() == from);
        let Some(child) = child else { return AckFrom::Stranger };
        // A child may be ahead of this host, but not of the credit that this host gave the root for
        // both.
        let (ack, forged) = Sent { below: feed.limit(), newest, credit: feed.slots() }.believe(ack);
        child.on_ack(now, &ack, feed, &self.arrivals).forged_if(forged)
    }

    fn on_data(&mut self, now: Instant, sequence: u64, late: bool, feed: &mut Feed, boundaries: &Boundaries) {
        self.arrivals.note(now, sequence, boundaries.reported_before(feed.head()));
        self.children.iter_mut().for_each(|child| child.on_data(now, sequence, late, feed, &self.arrivals));
    }

    fn on_timeout(&mut self, now: Instant, feed: &Feed) {
        self.children.iter_mut().for_each(|child| child.on_timeout(now, feed));
    }

    fn due(&self, now: Instant) -> Option<Instant> {
        self.children.iter().flat_map(|child| [child.due(), child.held_until(now, &self.arrivals)]).flatten().min()
    }

    fn poll(&mut self, now: Instant, feed: &Feed, _boundaries: &Boundaries, stamps: &mut Stamps) -> Option<Departure> {
        let (count, first) = (self.children.len(), self.first);
        (0..count).map(|step| (first + step) % count).find_map(|at| {
            let departure = self.children[at].poll(now, feed, &self.arrivals, stamps)?;
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
        let limit = self.remotes().map(Remote::limit).min().unwrap_or(feed.highest());
        self.children.push(RepairChild::graft(now, peer, limit, feed, tuning));
    }

    fn remove(&mut self, _now: Instant, rank: Rank, feed: &mut Feed) {
        let at = self.remotes().position(|remote| remote.rank() == rank);
        if let Some(at) = at {
            feed.remove_reader(self.children.remove(at).remote().reader());
        }
    }

    fn cursors(&self) -> Vec<(Rank, u64)> {
        self.remotes().map(|remote| (remote.rank(), remote.cursor())).collect()
    }

    /// A repair child answers for every host behind it: a cast has no relay whose death could be
    /// survived by keeping more.
    fn below(&self) -> u64 {
        let below = self.remotes().map(Remote::below).min();
        below.filter(|_| !planted!("repair-children-not-counted")).unwrap_or(u64::MAX)
    }

    fn limit(&self) -> u64 {
        self.remotes().map(Remote::limit).min().unwrap_or(u64::MAX)
    }

    fn held_up_by(&self, feed: &Feed) -> Option<Rank> {
        let holding = self.children.iter().filter(|child| child.holds_up(feed)).map(RepairChild::remote);
        holding.min_by_key(|remote| (remote.limit(), remote.below())).map(Remote::rank)
    }

    fn consumed(&self) -> u64 {
        self.remotes().map(Remote::consumed).min().unwrap_or(u64::MAX)
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
