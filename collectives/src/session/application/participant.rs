//! A host of a simulated session: its machine and its application.

use super::{Receiving, Sending, Sink, Source};
use crate::session::{Blocks, ControlMemory, ControlStats, Receiver, Root};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::{Deadline, Instant, Kept, Machine, SplitFrame};

/// A host's machine with its application.
#[derive(Clone, Debug)]
pub enum Participant<S, K> {
    /// The host that sends the content.
    Root(Box<Root>, Sending<S>),
    /// A host that receives it.
    Receiver(Box<Receiver>, Receiving<K>),
}

impl<S: Source, K: Sink> Participant<S, K> {
    /// Creates a root that sends the content of `source`.
    pub fn root(root: Root, source: S) -> Participant<S, K> {
        Participant::Root(Box::new(root), Sending::new(source))
    }

    /// Creates a receiver that writes to `sink`.
    pub fn receiver(receiver: Receiver, sink: K) -> Participant<S, K> {
        Participant::Receiver(Box::new(receiver), Receiving::new(sink))
    }

    /// Runs the application's turn. Returns when it wants to be called again.
    pub fn turn(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Participant::Root(root, sending) => sending.turn(root, now),
            Participant::Receiver(receiver, receiving) => receiving.turn(receiver, now),
        }
    }

    /// Returns the application, if this is the root.
    pub fn sending(&self) -> Option<&Sending<S>> {
        if let Participant::Root(_, sending) = self { Some(sending) } else { None }
    }

    /// Returns the application, if this is a receiver.
    pub fn receiving(&self) -> Option<&Receiving<K>> {
        if let Participant::Receiver(_, receiving) = self { Some(receiving) } else { None }
    }

    /// Returns this host's end of the streams, once it is a member.
    pub fn streams(&self) -> Option<&Blocks> {
        match self {
            Participant::Root(root, _) => root.streams(),
            Participant::Receiver(receiver, _) => receiver.streams(),
        }
    }

    /// Returns the frame counters of the streams.
    pub fn stream_stats(&self) -> StreamStats {
        self.streams().map(Blocks::stats).unwrap_or_default()
    }

    /// Returns the counters of control frames.
    pub fn control_stats(&self) -> ControlStats {
        match self {
            Participant::Root(root, _) => root.control_stats(),
            Participant::Receiver(receiver, _) => receiver.control_stats(),
        }
    }

    /// Returns the amount of state kept beside the streams.
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
