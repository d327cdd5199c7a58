//! All receivers that acknowledge to this one: a host of the ack tree with those below it.

use super::hearing::Heard;
use super::lane::Outgoing;
use super::marks::Marks;
use super::ward::{Arrivals, Ward};
use crate::arq::stamp::Stamp;
use crate::feed::Feed;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::Ack;
use crate::wire::MacAddr;
use crate::wire::Peer;

/// The wards of one receiver.
#[derive(Debug)]
pub(super) struct Wards {
    wards: Vec<Ward>,
    arrivals: Arrivals,
    /// Who is asked first for something to send, so that they take turns.
    first: usize,
}

impl Wards {
    pub(super) fn new(peers: &[Peer], feed: &mut Feed, tuning: &Tuning) -> Wards {
        let wards = peers.iter().map(|&peer| Ward::new(peer, feed, tuning)).collect();
        Wards { wards, arrivals: Arrivals::new(feed.slots(), tuning), first: 0 }
    }

    /// Every ward's rank and cursor.
    pub(super) fn cursors(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.wards.iter().map(|ward| (ward.remote.peer.rank, ward.remote.cursor))
    }

    /// What has arrived at all wards and at everybody behind them.
    pub(super) fn below(&self) -> u64 {
        self.wards.iter().map(|ward| ward.remote.below).min().unwrap_or(u64::MAX)
    }

    /// The smallest credit among them.
    pub(super) fn limit(&self) -> u64 {
        self.wards.iter().map(|ward| ward.remote.limit).min().unwrap_or(u64::MAX)
    }

    /// What every application at and behind them has passed.
    pub(super) fn passed(&self) -> u64 {
        self.wards.iter().map(|ward| ward.remote.passed).min().unwrap_or(u64::MAX)
    }

    /// Takes in a ward that another host had until now.
    pub(super) fn graft(&mut self, now: Instant, peer: Peer, feed: &mut Feed, tuning: &Tuning) {
        if self.wards.iter().any(|ward| ward.remote.peer.rank == peer.rank) {
            return;
        }
        // Whoever it acknowledged to is a ward here, and has passed on no more credit than it was given.
        let limit = self.limit();
        let limit = if limit == u64::MAX { feed.highest() } else { limit };
        self.wards.push(Ward::graft(now, peer, limit, feed, tuning));
    }

    /// Takes a ward away, and what only it needed with it.
    pub(super) fn remove(&mut self, rank: u16, feed: &mut Feed) {
        if let Some(at) = self.wards.iter().position(|ward| ward.remote.peer.rank == rank) {
            let ward = self.wards.remove(at);
            feed.remove_reader(ward.remote.reader);
        }
    }

    /// Takes an acknowledgement; `newest` is the last stamp drawn here. A forged one changes nothing.
    pub(super) fn on_ack(
        &mut self,
        now: Instant,
        from: Peer,
        ack: &Ack<'_>,
        newest: Stamp,
        feed: &mut Feed,
        marks: &Marks,
    ) -> Heard {
        let Some(ward) = self.wards.iter_mut().find(|ward| ward.remote.peer == from) else { return Heard::Stranger };
        // It may be ahead of this host, but not of the credit that this host gave the root for both.
        if ack.cursor > feed.limit() || ack.covered() > feed.limit() || Stamp(ack.echo).is_after(newest) {
            return Heard::Forged;
        }
        ward.on_ack(now, ack, feed, marks, &self.arrivals)
    }

    /// Frame `sequence` has arrived here; `late` if a later one had before it.
    pub(super) fn on_data(&mut self, now: Instant, sequence: u64, late: bool, feed: &mut Feed, marks: &Marks) {
        self.arrivals.note(now, sequence);
        self.wards.iter_mut().for_each(|ward| ward.on_data(now, sequence, late, feed, marks));
    }

    pub(super) fn on_timeout(&mut self, now: Instant, feed: &Feed) {
        self.wards.iter_mut().for_each(|ward| ward.on_timeout(now, feed));
    }

    /// When a ward is to be asked, or may be sent what it lacks.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        self.wards.iter().flat_map(|ward| [ward.due(), ward.held_until(now, &self.arrivals)]).flatten().min()
    }

    /// What to send next and to whom, if anything.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        feed: &Feed,
        mut stamp: impl FnMut() -> Stamp,
    ) -> Option<(Outgoing, MacAddr, Stamp)> {
        let count = self.wards.len();
        for at in (0..count).map(|step| (self.first + step) % count) {
            let ward = &mut self.wards[at];
            if let Some((outgoing, stamp)) = ward.poll(now, feed, &self.arrivals, &mut stamp) {
                self.first = (at + 1) % count;
                return Some((outgoing, ward.remote.peer.mac, stamp));
            }
        }
        None
    }

    /// Bytes that the wards take, beside what they have to be repaired.
    pub(super) fn readers_bytes(&self) -> usize {
        self.wards.capacity() * size_of::<Ward>()
    }

    /// Bytes that the moments of arrival take.
    pub(super) fn stamps_bytes(&self) -> usize {
        self.arrivals.bytes()
    }

    /// Bytes that holes and repairs take.
    pub(super) fn repairs_bytes(&self) -> usize {
        self.wards.iter().map(|ward| ward.remote.repairs_bytes()).sum()
    }
}
