//! Bytes that members lack although they have been pushed: the ranges of the source that must be
//! re-read, and their destinations.

use super::super::rereading::Needy;
use super::{Delivery, Flow};
use crate::session::blocks::Dealing;
use crate::session::message::{Fetch, FetchedPiece};
use ethbcast_transport::wire::Rank;
use std::ops::Range;

impl Delivery {
    /// Returns the next range of the source to re-read and its destination. Gaps come first, as
    /// they hold up others.
    pub(in crate::session::root) fn needy(&self) -> Option<(Needy, Range<u64>)> {
        if self.sides.is_empty() && self.refills.is_empty() && self.answering.next().is_none() {
            return None; // The usual case.
        }
        let gap = self.refills.wanted(&self.extent(self.blocks.dealing()));
        let gap = gap.map(|(rank, at, bytes)| (Needy::Gap(rank, at), bytes));
        let fetch = || self.answering.wanted().map(|(rank, bytes)| (Needy::Fetch(rank), bytes));
        let aside = || self.sides.wanted(&self.extent(Dealing::single()));
        let aside = || aside().map(|(rank, bytes)| (Needy::Aside(rank), bytes));
        gap.or_else(fetch).or_else(aside).filter(|_| self.flow != Flow::Shut)
    }

    /// Takes the bytes that [`needy`](Self::needy) named.
    ///
    /// # Panics
    /// If the length differs.
    pub(in crate::session::root) fn supply(&mut self, bytes: &[u8]) {
        let Some((need, range)) = self.needy() else { return };
        assert_eq!(bytes.len() as u64, range.end - range.start, "what was wanted is supplied");
        self.supply_to(need, range.start, bytes);
    }

    pub(in crate::session::root) fn supply_to(&mut self, need: Needy, from: u64, bytes: &[u8]) {
        let payload_bytes = self.blocks.payload_bytes();
        let wanted = match need {
            Needy::Gap(rank, at) => self.refills.wanted_by(rank, at, &self.extent(self.blocks.dealing())),
            Needy::Aside(rank) => self.sides.wanted_by(rank, &self.extent(Dealing::single())),
            Needy::Fetch(rank) => {
                return self.answering.supply(rank, from, bytes, FetchedPiece::fitting(payload_bytes));
            }
        };
        let Some(wanted) = wanted.filter(|wanted| wanted.start == from) else { return };
        let bytes = &bytes[..bytes.len().min((wanted.end - wanted.start) as usize)];
        match need {
            Needy::Gap(rank, at) => self.refills.supply(rank, at, bytes, payload_bytes),
            _ => self.sides.supply(need.rank(), bytes),
        }
        self.end_streams();
    }

    pub(in crate::session::root) fn fetch(&mut self, fetch: &Fetch) {
        self.answering.request(fetch);
    }

    pub(in crate::session::root) fn question(&self, need: Needy) -> Option<&Fetch> {
        self.answering.next().filter(|fetch| need == Needy::Fetch(fetch.rank))
    }

    pub(in crate::session::root) fn deny(&mut self, rank: Rank, from: u64) {
        self.answering.deny(rank, from);
    }

    pub(in crate::session::root) fn skip(&mut self, rank: Rank, from: u64) {
        self.answering.skip(rank, from);
    }
}
