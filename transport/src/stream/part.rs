//! A stream as a part of a machine: frames in and out, and timers.

use super::Stream;
use super::intake::Intake;
use crate::machine::{Deadline, Timer};
use crate::part::Part;
use crate::split_frame::{Kept, SplitFrame};
use crate::time::Instant;
use crate::wire::{Frame, Kind, Reject};

/// Length from which a message is bulk: the number of frames per wake-up matters more than the
/// latency of each.
const BULK_FRAMES: u64 = 64;

impl Part for Stream {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        if frame.header.session != self.identity.session {
            return self.stats.strangers += 1;
        }
        if frame.header.stream != self.identity.stream {
            return;
        }
        match frame.header.kind {
            Kind::DATA => self.on_data(now, frame),
            Kind::PARITY => self.on_parity(now, frame),
            Kind::HEARTBEAT => self.on_heartbeat(now, frame),
            Kind::ACK => self.on_ack(now, frame),
            _ => {}
        }
    }

    fn handle_reject(&mut self, _reject: Reject) {
        self.stats.malformed += 1;
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(intake) = &mut self.intake {
            intake.on_timeout(now, &self.feed, &mut self.stats);
        }
        self.readers.on_timeout(now, &self.feed);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let split = self.poll_transmit_split(now, buffer)?;
        Some(split.join(buffer, |kept| self.payload(kept)))
    }

    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        if let Some(length) = self.poll_ack(now, buffer) {
            return Some(SplitFrame::whole(length));
        }
        let departure = self.readers.poll(now, &self.feed, &self.boundaries, &mut self.stamps);
        if departure.is_none() {
            self.crowding.spent(now);
        }
        departure.map(|departure| self.write(buffer, departure))
    }

    fn payload(&self, kept: Kept) -> &[u8] {
        self.feed.payload(kept.sequence)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let deadline = |at: Option<Instant>, why| at.map(|at| Deadline { at, why });
        let ack = deadline(self.intake.as_ref().and_then(Intake::due), Timer::ACK);
        let pace = deadline(self.readers.held_until(now, &self.feed, &self.boundaries), Timer::PACE);
        [ack, deadline(self.readers.due(now), Timer::HEARTBEAT), pace].into_iter().flatten().min()
    }

    fn is_urgent(&self) -> bool {
        let (head, began) = (self.feed.head(), self.boundaries.before(self.feed.head()));
        let ends = || began > 0 && self.readers.have_been_sent(head) && self.consumed < head;
        let is_near_end = || head < self.message_end && self.message_end - head < BULK_FRAMES;
        !self.feed.is_complete() && (head - began < BULK_FRAMES || is_near_end() || ends())
    }
}
