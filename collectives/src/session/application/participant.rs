//! A simulated sender or receiver of a transfer, with its content in memory.

use super::receiving::{Receiving, Sink};
use super::sending::{Again, Next, Sending, Source, Tally};
use crate::membership::ControlStats;
use crate::session::blocks::Blocks;
use crate::session::endpoint::ControlMemory;
use crate::session::message::{Done, Outcome, Trailer};
use crate::session::receiver::Receiver;
use crate::session::root::Root;
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::{Instant, Machine};

/// A host's machine with its application.
#[derive(Clone, Debug)]
pub enum Participant<S, K> {
    /// The host that sends the content, with its source.
    Root(Box<Root>, Sending<S>),
    /// A host that receives the content, with its sink.
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

    /// Runs the application's turn. Returns the time of the next turn.
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
    ethbcast_transport::forward!(self => self.machine_mut(); handle_frame, handle_timeout);
    ethbcast_transport::forward!(self => self.machine_mut(); poll_transmit, poll_transmit_split);
    ethbcast_transport::forward!(self => self.machine(); payload, poll_timeout, is_urgent);
}

/// Content in memory to be sent, such as a `Vec`, a slice or an `Rc`.
#[derive(Clone, Debug)]
pub struct MemoryContent<B> {
    bytes: B,
    trailer: Trailer,
    pushed: usize,
}

impl<B: AsRef<[u8]>> MemoryContent<B> {
    /// Creates a content of `bytes` and computes their digest.
    pub fn new(bytes: B) -> MemoryContent<B> {
        let mut tally = Tally::default();
        tally.add(bytes.as_ref());
        let trailer = tally.trailer();
        MemoryContent { bytes, trailer, pushed: 0 }
    }

    /// Returns length and digest of the bytes.
    pub fn trailer(&self) -> Trailer {
        self.trailer
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl<B: AsRef<[u8]>> Source for MemoryContent<B> {
    fn next(&mut self, _now: Instant, _passed: bool) -> Next<'_> {
        let rest = &self.bytes.as_ref()[self.pushed..];
        if rest.is_empty() { Next::End(self.trailer) } else { Next::Bytes(rest) }
    }

    fn advance(&mut self, bytes: usize) {
        self.pushed += bytes;
    }

    fn read_again(&mut self, _now: Instant, offset: u64, bytes: usize) -> Again<'_> {
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let asked = self.bytes.as_ref().get(begin..begin.saturating_add(bytes));
        asked.map_or_else(|| Again::Impossible("there are no such bytes".to_owned()), Again::Bytes)
    }
}

/// Received bytes in memory; the verdict follows at once.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    bytes: Vec<u8>,
    verdict: Option<Done>,
}

impl Collected {
    /// Returns the bytes received so far; they are verified only if the verdict says so.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Refuses further bytes with this verdict.
    pub fn refuse(&mut self, outcome: Outcome, text: &str) {
        let bytes = self.bytes.len() as u64;
        self.verdict = Some(Done { outcome, bytes, digest: [0; 32], text: text.to_owned() });
    }
}

impl Sink for Collected {
    fn write(&mut self, _now: Instant, bytes: &[u8], _message_end: bool) {
        self.bytes.extend_from_slice(bytes);
    }

    fn finish(&mut self, _now: Instant, trailer: Trailer) {
        let mut tally = Tally::default();
        tally.add(&self.bytes);
        self.verdict = Some(match tally.verify(trailer) {
            Ok(()) => tally.verdict(Outcome::Verified, ""),
            Err(mismatch) => tally.verdict(Outcome::Damaged, mismatch.to_string()),
        });
    }

    fn verdict(&mut self, _now: Instant) -> Option<Done> {
        self.verdict.take()
    }
}
