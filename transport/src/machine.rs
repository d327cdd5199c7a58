//! Interface of every protocol state machine: no I/O, driven by five calls.
//!
//! **The order of calls.** A driver first passes input ([`handle_frame`](Machine::handle_frame),
//! [`handle_timeout`](Machine::handle_timeout)), then drains output
//! ([`poll_transmit`](Machine::poll_transmit) until `None`, the machine's own typed events), then
//! calls [`poll_timeout`](Machine::poll_timeout) for the next deadline. `now` never goes backwards.
//! A driver without room to send may stop draining early; it then calls
//! [`poll_transmit`](Machine::poll_transmit) again as soon as there is room.
//!
//! **Frames in two pieces.** A payload that is in one of the machine's buffers need not be copied
//! behind its headers, if the link accepts two pieces of memory for one frame: see [`SplitFrame`].

use crate::time::Instant;
use crate::wire::{Frame, Guard, Reject};
use std::fmt;
use thiserror::Error;

/// A protocol part that owns no socket, clock, thread or random source.
pub trait Machine {
    /// Takes one whole Ethernet frame (header first) that was addressed to this host or to its
    /// group.
    ///
    /// Never panics, whatever the bytes are.
    fn handle_frame(&mut self, now: Instant, frame: &[u8]);

    /// Handles everything due by `now`. Calling it early or twice does nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// Writes the next frame, Ethernet header first, into `buffer` and returns its length in bytes;
    /// `None` if there is none.
    ///
    /// `buffer` must hold the largest frame of the link (14 bytes + MTU). A machine implements this
    /// call or [`poll_transmit_split`](Machine::poll_transmit_split): each has the other as
    /// default.
    #[must_use = "a frame that is not sent is lost"]
    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let split = self.poll_transmit_split(now, buffer)?;
        Some(split.join(buffer, |kept| self.payload(kept)))
    }

    /// Writes the next frame as [`poll_transmit`](Machine::poll_transmit) does, but may leave the
    /// payload with this machine: [`payload`](Machine::payload) then lends the payloads of all
    /// frames written so, until a function other than these two is called.
    #[must_use = "a frame that is not sent is lost"]
    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        self.poll_transmit(now, buffer).map(SplitFrame::whole)
    }

    /// Returns the payload of a frame that was written without it.
    ///
    /// # Panics
    /// If there was none, or it is not kept any more.
    fn payload(&self, kept: Kept) -> &[u8] {
        panic!(
            "frame {} of stream {} is not kept here",
            kept.sequence, kept.stream
        )
    }

    /// Returns when and why to call again; `None` if only a frame or the application can cause an
    /// action.
    fn poll_timeout(&self, now: Instant) -> Option<Deadline>;

    /// Whether the next frame is latency-critical: a driver then polls for it without delay. No
    /// part of the protocol depends on it.
    fn is_urgent(&self) -> bool {
        false
    }
}

/// Time and reason of the next call of [`Machine::handle_timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// The time.
    pub at: Instant,
    /// The timer that is due.
    pub why: Timer,
}

/// Purpose of a timer: a label for people and for counters, declared by the machine that sets the
/// timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timer(pub &'static str);

impl Timer {
    /// An acknowledgement delayed to cover several frames.
    pub const ACK: Timer = Timer("acknowledgement");
    /// A sender with unacknowledged frames and no reply.
    pub const HEARTBEAT: Timer = Timer("heartbeat");
    /// The next paced burst.
    pub const PACE: Timer = Timer("pace");
    /// An application's deadline for an operation.
    pub const OPERATION: Timer = Timer("operation");
}

/// Writes calls of a [`Machine`] or [`Part`](crate::Part) that only forward: in an `impl`,
/// `forward!(self => self.inner; handle_timeout, payload);`.
#[macro_export]
#[doc(hidden)]
macro_rules! forward {
    ($self:ident => $to:expr; $($call:ident),+ $(,)?) => {
        $($crate::forward!(@$call $self $to);)+
    };
    (@handle_frame $self:ident $to:expr) => {
        fn handle_frame(&mut $self, now: $crate::Instant, frame: &[u8]) {
            $to.handle_frame(now, frame);
        }
    };
    (@handle_timeout $self:ident $to:expr) => {
        fn handle_timeout(&mut $self, now: $crate::Instant) {
            $to.handle_timeout(now);
        }
    };
    (@poll_transmit $self:ident $to:expr) => {
        fn poll_transmit(&mut $self, now: $crate::Instant, buffer: &mut [u8]) -> Option<usize> {
            $to.poll_transmit(now, buffer)
        }
    };
    (@poll_transmit_split $self:ident $to:expr) => {
        fn poll_transmit_split(&mut $self, now: $crate::Instant, buffer: &mut [u8]) -> Option<$crate::SplitFrame> {
            $to.poll_transmit_split(now, buffer)
        }
    };
    (@payload $self:ident $to:expr) => {
        fn payload(&$self, kept: $crate::Kept) -> &[u8] {
            $to.payload(kept)
        }
    };
    (@poll_timeout $self:ident $to:expr) => {
        fn poll_timeout(&$self, now: $crate::Instant) -> Option<$crate::Deadline> {
            $to.poll_timeout(now)
        }
    };
    (@is_urgent $self:ident $to:expr) => {
        fn is_urgent(&$self) -> bool {
            $to.is_urgent()
        }
    };
}

// Boxed and borrowed machines are machines as well.
macro_rules! owned {
    ($($owner:ty),*) => {
        $(impl<M: Machine + ?Sized> Machine for $owner {
            $crate::forward!(self => (**self); handle_frame, handle_timeout, poll_transmit, poll_transmit_split);
            $crate::forward!(self => (**self); payload, poll_timeout, is_urgent);
        })*
    };
}

owned!(Box<M>, &mut M);

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
        panic!(
            "frame {} of stream {} is not kept here",
            kept.sequence, kept.stream
        )
    }

    /// Returns when and why to call again; `None` if only a frame or the application can cause an
    /// action.
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
    guard: Guard,
}

impl<P: Part> Alone<P> {
    /// Creates a machine from `part`.
    pub fn new(part: P) -> Alone<P> {
        Alone::guarded(part, Guard::Plain)
    }

    /// Creates a machine from `part`, whose identity has this guard.
    pub fn guarded(part: P, guard: Guard) -> Alone<P> {
        Alone { part, guard }
    }
}

impl<P: Part> Machine for Alone<P> {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        match self.guard.parse(frame) {
            Ok(frame) => self.part.handle_frame(now, &frame),
            Err(reject) => self.part.handle_reject(reject),
        }
    }

    crate::forward!(self => self.part; handle_timeout, poll_transmit, poll_transmit_split);
    crate::forward!(self => self.part; payload, poll_timeout, is_urgent);
}

/// Reference to a payload kept by the machine that wrote the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Number of the frame's stream.
    pub stream: u16,
    /// Number of the frame in the stream.
    pub sequence: u64,
    /// Length of the payload.
    pub bytes: usize,
}

/// Written part of a frame, and a reference to the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitFrame {
    /// Bytes written, Ethernet header first.
    pub written_bytes: usize,
    /// Payload behind the written bytes, if it is not written.
    pub kept: Option<Kept>,
}

impl SplitFrame {
    /// Creates a frame that is written completely.
    pub fn whole(frame_bytes: usize) -> SplitFrame {
        SplitFrame {
            written_bytes: frame_bytes,
            kept: None,
        }
    }

    /// Returns the length of the frame.
    pub fn bytes(&self) -> usize {
        self.written_bytes + self.kept.map_or(0, |kept| kept.bytes)
    }

    /// Writes the missing payload of the frame in `buffer`, from `payload`; returns the frame's
    /// length.
    ///
    /// # Panics
    /// If `buffer` is shorter than the frame, or `payload` returns another number of bytes.
    pub fn join<'a>(self, buffer: &mut [u8], payload: impl FnOnce(Kept) -> &'a [u8]) -> usize {
        if let Some(kept) = self.kept {
            buffer[self.written_bytes..self.bytes()].copy_from_slice(payload(kept));
        }
        self.bytes()
    }
}

/// Two counts of one quantity that differ: a bug in the engine itself, which only tests should ever
/// see.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{disagreement}")]
pub struct AuditError {
    disagreement: String,
}

impl AuditError {
    /// Creates an error with this text.
    pub fn new(disagreement: impl Into<String>) -> AuditError {
        AuditError {
            disagreement: disagreement.into(),
        }
    }

    /// Returns the error with the part of the machine in which it is.
    #[must_use]
    pub fn within(self, part: impl fmt::Display) -> AuditError {
        AuditError {
            disagreement: format!("{part}: {}", self.disagreement),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counter(usize);

    impl Machine for Counter {
        fn handle_frame(&mut self, _now: Instant, frame: &[u8]) {
            self.0 += frame.len();
        }

        fn handle_timeout(&mut self, _now: Instant) {}

        fn poll_transmit(&mut self, _now: Instant, _buffer: &mut [u8]) -> Option<usize> {
            Some(std::mem::take(&mut self.0)).filter(|&bytes| bytes > 0)
        }

        fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
            Some(Deadline {
                at: now,
                why: Timer::PACE,
            })
        }

        fn is_urgent(&self) -> bool {
            self.0 > 0
        }
    }

    fn drive(mut machine: impl Machine) -> Option<usize> {
        machine.handle_frame(Instant::START, &[0; 60]);
        assert!(machine.is_urgent() && machine.poll_timeout(Instant::START).is_some());
        machine.poll_transmit(Instant::START, &mut [])
    }

    #[test]
    fn a_boxed_and_a_borrowed_machine_are_machines() {
        assert_eq!(
            drive(Box::new(Counter::default()) as Box<dyn Machine>),
            Some(60)
        );
        assert_eq!(drive(&mut Counter::default()), Some(60));
    }

    #[test]
    fn kept_payload_is_appended_behind_the_header() {
        let mut buffer = *b"headers-......";
        let kept = Kept {
            stream: 1,
            sequence: 7,
            bytes: 4,
        };
        let split = SplitFrame {
            written_bytes: 8,
            kept: Some(kept),
        };
        assert_eq!((split.bytes(), SplitFrame::whole(8).bytes()), (12, 8));
        let lend = |asked| if asked == kept { &b"rest"[..] } else { &[] };
        assert_eq!(split.join(&mut buffer, lend), 12);
        assert_eq!(&buffer, b"headers-rest..");
        assert_eq!(
            SplitFrame::whole(8).join(&mut buffer, |_| unreachable!("nothing is lacking")),
            8
        );
    }
}
