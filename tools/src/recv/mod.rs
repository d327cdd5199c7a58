//! `ethbcast recv`: takes what is sent to a group and puts it at DEST.

mod dest;
mod part_file;
mod progress;
mod report;
mod sink;

use crate::args::RecvArgs;
use crate::exit::{Code, Failure, WithCode};
use crate::session::{Wire, log_counters};
use crate::signals::Interrupt;
use dest::Dest;
use ethbcast_collectives::session::{Arrival, Blocks, End, Outcome, Receiver, ReceiverConfig, ReceiverEvent};
use ethbcast_transport::Instant;
use ethbcast_transport::packet::{Clock, Waker, drive};
use nix::sys::signal::Signal;
use progress::Progress;
use report::Report;
use sink::{Concluded, Order, Sink};
use std::ops::ControlFlow;
use std::time::Duration;

/// How long bytes of a slow stream may wait for a chunk to fill.
const LINGER: Duration = Duration::from_millis(50);

/// Runs the command.
///
/// # Errors
/// A [`Failure`] whose code is the exit code.
pub fn run(args: RecvArgs) -> anyhow::Result<()> {
    if args.wire.json && args.dest == "-" {
        return Err(Failure::new(Code::Usage, "stdout cannot carry both the data and --json: receive into a file").into());
    }
    let dest = Dest::resolve(&args.dest, args.force)?;
    let waker = Waker::new().code(Code::System)?;
    let interrupt = Interrupt::wake(&waker).code(Code::System)?;
    let mut wire = Wire::open(&args.wire, None)?;
    let clock = Clock::start();
    let config = ReceiverConfig {
        free_bytes: dest.free_bytes(),
        patience: args.max_wait.map(Duration::from_secs_f64),
        tuning: wire.tuning.clone(),
        ..ReceiverConfig::new(wire.station.clone(), getrandom::u64().code(Code::System)?)
    };
    let mut receiver = Receiver::new(clock.now(), config);
    let sink = Sink::start(dest, &waker)?;
    interrupt.heed();
    let mut taker = Taker::new(sink, interrupt, Progress::new(args.wire.quiet));
    drive(&mut wire.port, &mut receiver, &waker, &clock, |receiver, now| taker.turn(receiver, now)).code(Code::System)?;
    log_counters(&wire.port.counters());
    taker.progress.finish();
    taker.sink.close();
    // What was decided in the very last moment.
    taker.concluded = taker.concluded.or_else(|| taker.sink.concluded());
    let report = Report::new(&receiver, &wire.station.host, taker.source.clone(), taker.concluded.clone(), taker.took());
    report.print(args.wire.json, args.wire.quiet || args.dest == "-")?;
    taker.verdict()
}

/// The application at a receiver: moves frames into chunks for the disk thread.
struct Taker {
    sink: Sink,
    interrupt: Interrupt,
    progress: Progress,
    chunk: Vec<u8>,
    /// When the first bytes of the chunk came.
    chunk_since: Instant,
    source: String,
    concluded: Option<Concluded>,
    end: Option<End>,
    signal: Option<Signal>,
    started: Option<Instant>,
    finished: Option<Instant>,
}

impl Taker {
    fn new(sink: Sink, interrupt: Interrupt, progress: Progress) -> Taker {
        let source = String::new();
        Taker {
            sink,
            interrupt,
            progress,
            chunk: Vec::new(),
            chunk_since: Instant::START,
            source,
            concluded: None,
            end: None,
            signal: None,
            started: None,
            finished: None,
        }
    }

    fn turn(&mut self, receiver: &mut Receiver, now: Instant) -> ControlFlow<()> {
        if let Some(signal) = self.interrupt.signal().filter(|_| self.signal.is_none()) {
            self.signal = Some(signal);
            receiver.conclude(now, Outcome::Interrupted, 0, [0; 32], "interrupted by its user");
        }
        while let Some(event) = receiver.poll_event() {
            self.note(event);
        }
        if self.signal.is_none() && self.concluded.is_none() {
            self.take(receiver, now);
        }
        if let Some(concluded) = self.sink.concluded() {
            self.finished = Some(now);
            receiver.conclude(now, concluded.outcome, concluded.bytes, concluded.digest, &concluded.text);
            self.concluded = Some(concluded);
        }
        self.progress.update(receiver);
        if receiver.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn note(&mut self, event: ReceiverEvent) {
        match event {
            ReceiverEvent::Invited { host, source, size } => {
                self.progress.invited(&host, &source, size);
                self.source = source;
            }
            ReceiverEvent::Started { rank, receivers, via, size } => {
                self.progress.start(rank, receivers, via, size);
                self.sink.order(Order::Begin { source: self.source.clone(), size });
            }
            ReceiverEvent::Ended(end) => self.end = Some(end),
        }
    }

    /// Fills chunks with frames for as long as the disk thread keeps up; a frame it has no room for stays in the feed, which is
    /// what tells the sender.
    fn take(&mut self, receiver: &mut Receiver, now: Instant) {
        while self.sink.has_room() {
            match receiver.peek() {
                Some(Arrival::Bytes(bytes) | Arrival::Message(bytes)) => {
                    self.started.get_or_insert(now);
                    if self.chunk.is_empty() {
                        self.chunk = self.sink.buffer();
                        self.chunk_since = now;
                    }
                    self.chunk.extend_from_slice(bytes);
                    receiver.consume(now);
                    if self.chunk.len() + receiver.streams().map_or(0, Blocks::payload_bytes) > sink::CHUNK_BYTES {
                        self.flush();
                    }
                }
                Some(Arrival::End(trailer)) => {
                    self.started.get_or_insert(now);
                    self.flush();
                    receiver.consume(now);
                    self.sink.order(Order::End(trailer));
                }
                None => {
                    // A slow stream (somebody's pipe) is handed on before a chunk is full.
                    if now.since(self.chunk_since) >= LINGER {
                        self.flush();
                    }
                    break;
                }
            }
        }
    }

    fn flush(&mut self) {
        if !self.chunk.is_empty() {
            self.sink.order(Order::Write(std::mem::take(&mut self.chunk)));
        }
    }

    fn took(&self) -> Duration {
        self.started.zip(self.finished).map(|(start, end)| end.since(start)).unwrap_or_default()
    }

    /// What the run comes to.
    fn verdict(&self) -> anyhow::Result<()> {
        if let Some(signal) = self.signal {
            let delivered = self.concluded.as_ref().is_some_and(|concluded| concluded.outcome == Outcome::Delivered);
            let text = if delivered {
                "interrupted, but all was delivered and is at DEST"
            } else {
                "interrupted; nothing was left at DEST"
            };
            return Err(Interrupt::failure(signal, text).into());
        }
        if let Some(concluded) = &self.concluded {
            return self.verdict_on(concluded);
        }
        let (code, text) = match &self.end {
            Some(End::Refused(_, text)) => (refusal_code(self.end.as_ref()), text.clone()),
            Some(End::Aborted(text)) => (Code::SomeFailed, text.clone()),
            Some(End::RootSilent) => (Code::Nobody, "the sender fell silent; start it and this receiver again".to_owned()),
            Some(End::NobodyThere) => (
                Code::Nobody,
                "no sender was heard; start `ethbcast send` with the same -g, or wait longer with --max-wait".to_owned(),
            ),
            Some(End::Dropped) => (Code::SomeFailed, "the sender went on without this host; see its report".to_owned()),
            Some(End::Confirmed | End::Unconfirmed) | None => (Code::System, "the session ended without a verdict".to_owned()),
        };
        Err(Failure::new(code, text).into())
    }

    fn verdict_on(&self, concluded: &Concluded) -> anyhow::Result<()> {
        match concluded.outcome {
            Outcome::Delivered => {
                if self.end == Some(End::Unconfirmed) {
                    eprintln!("ethbcast: verified and in place, but the sender has not confirmed it: its report may say otherwise");
                }
                Ok(())
            }
            Outcome::Damaged => Err(Failure::new(Code::Integrity, &concluded.text).into()),
            _ => Err(Failure::new(Code::System, &concluded.text).into()),
        }
    }
}

/// A refusal is a timing problem if the session was full or had begun, a system problem otherwise.
fn refusal_code(end: Option<&End>) -> Code {
    use ethbcast_collectives::session::Refusal;
    match end {
        Some(End::Refused(Refusal::Late, _)) => Code::Nobody,
        Some(End::Refused(Refusal::NotInTopology, _)) => Code::Usage,
        _ => Code::System,
    }
}
