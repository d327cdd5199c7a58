//! A whole host of a session for simulations: the machine and the application that uses it.

use super::{Receiving, Sending, Sink, Source};
use crate::session::{Blocks, ControlMemory, ControlStats, Receiver, Root};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::{Deadline, Instant, Kept, Machine, SplitFrame};

/// A host's machine with the application that goes with it.
#[derive(Clone, Debug)]
pub enum Participant<S, K> {
    /// The host that has the bytes.
    Root(Box<Root>, Sending<S>),
    /// A host that wants them.
    Receiver(Box<Receiver>, Receiving<K>),
}

impl<S: Source, K: Sink> Participant<S, K> {
    /// A root that sends what `source` has.
    pub fn root(root: Root, source: S) -> Participant<S, K> {
        Participant::Root(Box::new(root), Sending::new(source))
    }

    /// A receiver that puts what comes into `sink`.
    pub fn receiver(receiver: Receiver, sink: K) -> Participant<S, K> {
        Participant::Receiver(Box::new(receiver), Receiving::new(sink))
    }

    /// The application's turn; returns when it wants to be called again.
    pub fn turn(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Participant::Root(root, sending) => sending.turn(root, now),
            Participant::Receiver(receiver, receiving) => receiving.turn(receiver, now),
        }
    }

    /// The application, if this is the root.
    pub fn sending(&self) -> Option<&Sending<S>> {
        if let Participant::Root(_, sending) = self { Some(sending) } else { None }
    }

    /// The application, if this is a receiver.
    pub fn receiving(&self) -> Option<&Receiving<K>> {
        if let Participant::Receiver(_, receiving) = self { Some(receiving) } else { None }
    }

    /// This host's end of the streams, once it is a member.
    pub fn streams(&self) -> Option<&Blocks> {
        match self {
            Participant::Root(root, _) => root.streams(),
            Participant::Receiver(receiver, _) => receiver.streams(),
        }
    }

    /// Frames of the streams so far.
    pub fn stream_stats(&self) -> StreamStats {
        self.streams().map(Blocks::stats).unwrap_or_default()
    }

    /// Control frames so far.
    pub fn control_stats(&self) -> ControlStats {
        match self {
            Participant::Root(root, _) => root.control_stats(),
            Participant::Receiver(receiver, _) => receiver.control_stats(),
        }
    }

    /// What is kept beside the streams.
    pub fn control_memory(&self) -> ControlMemory {
        match self {
            Participant::Root(root, _) => root.control_memory(),
            Participant::Receiver(receiver, _) => receiver.control_memory(),
        }
    }

    fn machine(&self) -> &dyn Machine {
        match self {
            Participant::Root(root, _) => root.as_ref(),
            Participant::Receiver(receiver, _) => receiver.as_ref(),
        }
    }

    fn machine_mut(&mut self) -> &mut dyn Machine {
        match self {
            Participant::Root(root, _) => root.as_mut(),
            Participant::Receiver(receiver, _) => receiver.as_mut(),
        }
    }
}

impl<S: Source, K: Sink> Machine for Participant<S, K> {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.machine_mut().handle_frame(now, frame);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.machine_mut().handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.machine_mut().poll_transmit(now, buffer)
    }

    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        self.machine_mut().poll_transmit_split(now, buffer)
    }

    fn payload(&self, kept: Kept) -> &[u8] {
        self.machine().payload(kept)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        self.machine().poll_timeout(now)
    }

    fn is_urgent(&self) -> bool {
        self.machine().is_urgent()
    }
}
