//! Parity of a stream: writing, receiving, and recovery.

use super::Stream;
use super::intake::Received;
use crate::arq::stamp::Stamp;
use crate::time::Instant;
use crate::wire::{Flags, Frame, Kind, MacAddr, OVERHEAD_BYTES, Parity};

impl Stream {
    pub(super) fn write_parity(
        &mut self,
        buffer: &mut [u8],
        to: MacAddr,
        parity: Parity,
        urgent: bool,
        stamp: Stamp,
    ) -> usize {
        self.stats.data_resent += 1;
        self.stats.parity_sent += 1;
        let flags = if urgent { parity.flags().with(Flags::ACK_NOW) } else { parity.flags() };
        let (header, bytes) = (self.header(Kind::PARITY, flags, parity.sequence(), stamp), self.payload_bytes());
        self.feed.write_parity(&parity.frames(), parity.index(), &mut buffer[OVERHEAD_BYTES..][..bytes]);
        self.identity.seal(buffer, to, &header, bytes)
    }

    pub(super) fn on_parity(&mut self, now: Instant, frame: &Frame<'_>) {
        let from_parent = self.upstream.is_parent(frame);
        let known = from_parent || self.upstream.is_origin(frame);
        let Some(intake) = self.intake.as_mut().filter(|_| known) else { return self.stats.strangers += 1 };
        let parity = Parity::of(&frame.header).filter(|parity| self.boundaries.has_none(parity.frames()));
        let Some(parity) = parity else { return self.stats.malformed += 1 };
        let received = Received { header: &frame.header, payload: frame.payload, from_parent, pushed: false };
        if intake.on_parity(now, received, parity, &mut self.feed, &mut self.stats) {
            self.recover(now, parity.frames().start);
        }
    }

    pub(super) fn recover(&mut self, now: Instant, sequence: u64) {
        for recovered in self.feed.recover(sequence) {
            self.stats.data_received += 1;
            self.stats.data_repaired += 1;
            self.stats.data_recovered += 1;
            self.readers.on_data(now, recovered, true, &mut self.feed, &self.boundaries);
        }
    }
}
