//! A protocol part that takes parsed frames, and a machine made of a single part.

use crate::machine::{Deadline, Machine};
use crate::split_frame::{Kept, SplitFrame};
use crate::time::Instant;
use crate::wire::{self, Frame, Reject};

/// A protocol part: a [`Machine`] that gets its frames already parsed, with equal calls in equal
/// order.
///
/// Several parts can share one machine, which parses each frame once and passes it to the parts
/// concerned. A single part becomes a machine in [`Alone`].
pub trait Part {
    /// Takes a frame; one that does not belong here only changes counters.
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>);

    /// Takes the reason why a frame was rejected.
    fn handle_reject(&mut self, _reject: Reject) {}

    /// Handles everything due by `now`. Calling it early or twice does nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// Writes the next frame into `buffer`, which must hold the largest frame of the link; returns
    /// its length, `None` if there is none. A part implements this call or
    /// [`poll_transmit_split`](Part::poll_transmit_split): each has the other as default.
    #[must_use = "a frame that is not sent is lost"]
    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let split = self.poll_transmit_split(now, buffer)?;
        Some(split.join(buffer, |kept| self.payload(kept)))
    }

    /// Writes the next frame, but may leave the payload with this part: see
    /// [`Machine::poll_transmit_split`].
    #[must_use = "a frame that is not sent is lost"]
    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        self.poll_transmit(now, buffer).map(SplitFrame::whole)
    }

    /// Returns the payload of a frame that was written without it: see [`Machine::payload`].
    fn payload(&self, kept: Kept) -> &[u8] {
        panic!("frame {} of stream {} is not kept here", kept.sequence, kept.stream)
    }

    /// Returns when and why to call again; `None` if only a frame or the application can make
    /// something happen.
    fn poll_timeout(&self, now: Instant) -> Option<Deadline>;

    /// Whether the next frame is latency-critical: see [`Machine::is_urgent`].
    fn is_urgent(&self) -> bool {
        false
    }
}

/// A machine made of a single part.
#[derive(Clone, Debug)]
pub struct Alone<P> {
    /// The part.
    pub part: P,
}

impl<P: Part> Alone<P> {
    /// Creates a machine from `part`.
    pub fn new(part: P) -> Alone<P> {
        Alone { part }
    }
}

impl<P: Part> Machine for Alone<P> {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        match wire::parse(frame) {
            Ok(frame) => self.part.handle_frame(now, &frame),
            Err(reject) => self.part.handle_reject(reject),
        }
    }

    crate::forward!(self => self.part; handle_timeout, poll_transmit, poll_transmit_split, payload, poll_timeout, is_urgent);
}
