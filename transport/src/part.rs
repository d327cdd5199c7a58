//! A protocol part that takes frames already parsed, and the machine that it makes alone.

use crate::machine::{Deadline, Machine};
use crate::split_frame::{Kept, SplitFrame};
use crate::time::Instant;
use crate::wire::{self, Frame, Reject};

/// A protocol part: a [`Machine`] behind somebody who has parsed the frame already, with the same verbs in the same
/// order.
///
/// Several parts can share one machine, which parses each frame once and hands it to whom it concerns. A part that is
/// all there is becomes a machine in [`Alone`].
pub trait Part {
    /// Takes a frame; one that does not belong here changes nothing but counters.
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>);

    /// Takes note of a frame that was not understood.
    fn handle_reject(&mut self, _reject: Reject) {}

    /// Lets time pass: does what has fallen due by `now`. Calling it early or twice does nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// Writes the next frame into `buffer`, which must hold the largest frame of the link; its length, `None` if there
    /// is none.
    #[must_use = "a frame that is not sent is lost"]
    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize>;

    /// Does the same, but the payload may stay where this part keeps it: see [`Machine::poll_transmit_split`].
    #[must_use = "a frame that is not sent is lost"]
    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        self.poll_transmit(now, buffer).map(SplitFrame::whole)
    }

    /// The payload of a frame that has been written without it: see [`Machine::payload`].
    fn payload(&self, kept: Kept) -> &[u8] {
        panic!("frame {} of stream {} is not kept here", kept.sequence, kept.stream)
    }

    /// When and why to be called again; `None` if only a frame or the application can make something happen.
    fn poll_timeout(&self, now: Instant) -> Option<Deadline>;

    /// Whether somebody waits for what the next frame brings: see [`Machine::is_urgent`].
    fn is_urgent(&self) -> bool {
        false
    }
}

/// A part alone under a driver.
#[derive(Clone, Debug)]
pub struct Alone<P> {
    /// The part.
    pub part: P,
}

impl<P: Part> Alone<P> {
    /// Puts `part` under a driver.
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

    fn handle_timeout(&mut self, now: Instant) {
        self.part.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.part.poll_transmit(now, buffer)
    }

    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        self.part.poll_transmit_split(now, buffer)
    }

    fn payload(&self, kept: Kept) -> &[u8] {
        self.part.payload(kept)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        self.part.poll_timeout(now)
    }

    fn is_urgent(&self) -> bool {
        self.part.is_urgent()
    }
}
