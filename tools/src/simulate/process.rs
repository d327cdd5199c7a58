//! A simulated host's process: the engine as `send` and `recv` run it, with memory in place of files.

use ethbcast_collectives::session::{Arrival, Outcome, Receiver, Root, RootEvent, Trailer};
use ethbcast_transport::sim::Random;
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::{Deadline, Instant, Machine};
use std::rc::Rc;
use std::time::Duration;

/// The bytes to send and their digest; all hosts of a simulation share one copy.
#[derive(Debug)]
pub struct Source {
    bytes: Vec<u8>,
    trailer: Trailer,
}

impl Source {
    /// So many bytes, decided by `seed`.
    pub fn new(bytes: u64, seed: u64) -> Rc<Source> {
        let mut content = vec![0; bytes as usize];
        Random::new(seed).fill(&mut content);
        let trailer = Trailer { bytes, digest: *blake3::hash(&content).as_bytes() };
        Rc::new(Source { bytes: content, trailer })
    }
}

/// A host's machine with the application that goes with it.
#[derive(Debug)]
pub enum Process {
    /// The host that has the bytes.
    Root(Box<Root>, Sender),
    /// A host that wants them.
    Receiver(Box<Receiver>, Taker),
}

/// The application at the root.
#[derive(Debug)]
pub struct Sender {
    source: Rc<Source>,
    pushed: usize,
    finished: bool,
    /// When data began to flow.
    started_at: Option<Instant>,
    all_reported: bool,
}

/// The application at a receiver: compares what it takes with what was sent, which is as strict as a digest and quicker.
#[derive(Debug)]
pub struct Taker {
    source: Rc<Source>,
    taken: usize,
    /// When it took the last of them.
    taken_at: Instant,
    equal: bool,
    /// What it needs for its verdict once it has all bytes.
    conclusion: Duration,
    /// When that will be done.
    concludes_at: Option<(Instant, Trailer)>,
}

impl Sender {
    /// An application that sends `source`.
    pub fn new(source: Rc<Source>) -> Sender {
        Sender { source, pushed: 0, finished: false, started_at: None, all_reported: false }
    }

    /// Pushes what the stream takes; returns when it wants to be called again.
    fn turn(&mut self, root: &mut Root, now: Instant) -> Option<Instant> {
        let begun = self.started_at.is_some();
        while let Some(event) = root.poll_event() {
            if matches!(event, RootEvent::Started { .. }) {
                self.started_at = Some(now);
            }
            self.all_reported |= event == RootEvent::AllReported;
        }
        if self.started_at.is_some() && !begun {
            // The same moment, but a step of its own: counters can be read before the first data frame.
            return Some(now);
        }
        self.pushed += root.push(&self.source.bytes[self.pushed..]);
        if self.pushed == self.source.bytes.len() && !self.finished && root.wants_data() {
            self.finished = true;
            root.finish(self.source.trailer);
        }
        None
    }
}

impl Taker {
    /// An application that expects `source` and needs `conclusion` for its verdict.
    pub fn new(source: Rc<Source>, conclusion: Duration) -> Taker {
        Taker { source, taken: 0, taken_at: Instant::START, equal: true, conclusion, concludes_at: None }
    }

    /// Takes what has arrived; returns when it wants to be called again.
    fn turn(&mut self, receiver: &mut Receiver, now: Instant) -> Option<Instant> {
        while let Some(arrival) = receiver.peek() {
            match arrival {
                Arrival::Bytes(bytes) | Arrival::Message(bytes) => {
                    let expected = self.source.bytes.get(self.taken..).unwrap_or_default();
                    self.equal &= expected.starts_with(bytes);
                    self.taken += bytes.len();
                    self.taken_at = now;
                    receiver.consume(now);
                }
                Arrival::End(trailer) => {
                    receiver.consume(now);
                    self.concludes_at = Some((now + self.conclusion, trailer));
                }
            }
        }
        // How the session ends here the root reports.
        while receiver.poll_event().is_some() {}
        match self.concludes_at {
            Some((at, trailer)) if at <= now => {
                self.concludes_at = None;
                self.conclude(receiver, trailer, now);
            }
            _ => {}
        }
        self.concludes_at.map(|(at, _)| at)
    }

    fn conclude(&mut self, receiver: &mut Receiver, trailer: Trailer, now: Instant) {
        let bytes = self.taken as u64;
        let sound = self.equal && trailer == self.source.trailer && trailer.bytes == bytes;
        let outcome = if sound { Outcome::Delivered } else { Outcome::Damaged };
        receiver.conclude(now, outcome, bytes, trailer.digest, "");
    }
}

impl Process {
    /// The application's turn; returns when it wants to be called again.
    pub fn turn(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Process::Root(machine, sender) => sender.turn(machine, now),
            Process::Receiver(machine, taker) => taker.turn(machine, now),
        }
    }

    /// Whether this is the root and data is about to flow.
    pub fn has_begun(&self) -> bool {
        matches!(self, Process::Root(_, sender) if sender.started_at.is_some())
    }

    /// When data began to flow, at the root; when the last bytes were taken, at a receiver.
    pub fn moment(&self) -> Instant {
        match self {
            Process::Root(_, sender) => sender.started_at.unwrap_or(Instant::START),
            Process::Receiver(_, taker) => taker.taken_at,
        }
    }

    /// Whether this is the root and every verdict is in.
    pub fn has_all_verdicts(&self) -> bool {
        matches!(self, Process::Root(_, sender) if sender.all_reported)
    }

    /// The stream's frames so far.
    pub fn stream_stats(&self) -> StreamStats {
        match self {
            Process::Root(machine, _) => machine.stream_stats(),
            Process::Receiver(machine, _) => machine.stream_stats(),
        }
    }

    /// Control frames sent and received so far, acknowledgements and heartbeats among them.
    pub fn control_frames(&self) -> (u64, u64) {
        let control = match self {
            Process::Root(machine, _) => machine.control_stats(),
            Process::Receiver(machine, _) => machine.control_stats(),
        };
        let stream = self.stream_stats();
        let received = control.received + stream.acks_received + stream.heartbeats_received;
        (control.sent + stream.acks_sent + stream.heartbeats_sent, received)
    }

    fn machine(&mut self) -> &mut dyn Machine {
        match self {
            Process::Root(machine, _) => machine.as_mut(),
            Process::Receiver(machine, _) => machine.as_mut(),
        }
    }
}

impl Machine for Process {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.machine().handle_frame(now, frame);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.machine().handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.machine().poll_transmit(now, buffer)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        match self {
            Process::Root(machine, _) => machine.poll_timeout(now),
            Process::Receiver(machine, _) => machine.poll_timeout(now),
        }
    }
}
