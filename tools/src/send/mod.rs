//! `ethbcast send`: a file or stdin to every receiver of a group.

mod dry_run;
mod progress;
mod report;
mod settings;
mod source;

use crate::args::SendArgs;
use crate::exit::{Code, Failure, WithCode};
use crate::session::{Wire, log_counters};
use crate::signals::Interrupt;
use ethbcast_collectives::session::{MemberState, Root, RootConfig, RootEvent, RootFailure, Trailer};
use ethbcast_transport::Instant;
use ethbcast_transport::packet::{Clock, Waker, drive};
use progress::Progress;
use report::Report;
use settings::Settings;
use source::{Chunk, Source};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Runs the command.
///
/// # Errors
/// A [`Failure`] whose code is the exit code.
pub fn run(args: SendArgs) -> anyhow::Result<()> {
    let settings = Settings::resolve(&args)?;
    let waker = Waker::new().code(Code::System)?;
    let interrupt = Interrupt::wake(&waker).code(Code::System)?;
    let mut wire = Wire::open(&args.wire, args.mtu)?;
    settings.check_host(&wire.station.host)?;
    let source = Source::open(&args.source, &waker)?;
    let clock = Clock::start();
    let session = random_session()?;
    let config = RootConfig {
        size: source.size,
        wanted: settings.wanted,
        route: settings.route,
        calibration: settings.calibration,
        probe: !args.no_probe,
        dry_run: args.dry_run,
        topology: settings.topology,
        tuning: settings.preset.tuning(&wire.tuning),
        ..RootConfig::new(wire.station.clone(), session, &source.name)
    };
    let mut root = Root::new(clock.now(), config);
    interrupt.heed();
    let mut sender = Sender::new(source, interrupt, Progress::new(args.wire.quiet));
    drive(&mut wire.port, &mut root, &waker, &clock, |root, now| sender.turn(root, now)).code(Code::System)?;
    log_counters(&wire.port.counters());
    sender.conclude(&root, clock.now())?;
    if let (true, Some(choice)) = (args.dry_run, root.choice()) {
        return dry_run::print(choice, args.wire.json);
    }
    let report = Report::new(&root, session, settings.preset, sender.trailer, sender.slowest(&root), clock.now());
    report.print(args.wire.json, args.wire.quiet)?;
    if let Some(surprise) = report.surprise().filter(|_| !args.wire.quiet) {
        eprintln!("ethbcast: {surprise}");
    }
    report.verdict()
}

fn random_session() -> anyhow::Result<u32> {
    getrandom::u32().code(Code::System)
}

/// The application at the root: moves chunks from the reader thread into the stream.
struct Sender {
    source: Source,
    interrupt: Interrupt,
    progress: Progress,
    chunk: Vec<u8>,
    pushed: usize,
    trailer: Option<Trailer>,
    /// By rank, how often it was seen to take frames more slowly than they came.
    blocked: BTreeMap<u16, u32>,
    failure: Option<Failure>,
}

impl Sender {
    fn new(source: Source, interrupt: Interrupt, progress: Progress) -> Sender {
        Sender { source, interrupt, progress, chunk: Vec::new(), pushed: 0, trailer: None, blocked: BTreeMap::new(), failure: None }
    }

    fn turn(&mut self, root: &mut Root, now: Instant) -> ControlFlow<()> {
        if let Some(signal) = self.interrupt.signal().filter(|_| self.failure.is_none()) {
            self.fail(root, now, Interrupt::failure(signal, "interrupted; the receivers have been told"));
        }
        self.feed(root, now);
        while let Some(event) = root.poll_event() {
            self.note(root, event);
        }
        self.progress.update(root);
        self.watch(root);
        if root.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Notes who is blocked, from time to time.
    fn watch(&mut self, root: &Root) {
        for (rank, _, _) in root.states().filter(|(_, state, _)| *state == MemberState::Blocked) {
            *self.blocked.entry(rank).or_default() += 1;
        }
    }

    /// The receiver that was blocked most often.
    fn slowest(&self, root: &Root) -> Option<String> {
        let (&rank, _) = self.blocked.iter().max_by_key(|(_, times)| **times)?;
        root.view().map(|view| view.members[usize::from(rank)].host.clone())
    }

    /// Pushes what the reader has read for as long as the stream takes it.
    fn feed(&mut self, root: &mut Root, now: Instant) {
        while root.wants_data() && self.failure.is_none() {
            if self.pushed < self.chunk.len() {
                self.pushed += root.push(&self.chunk[self.pushed..]);
                continue;
            }
            if self.pushed > 0 {
                self.source.recycle(std::mem::take(&mut self.chunk));
                self.pushed = 0;
            }
            match self.source.next() {
                Some(Chunk::Bytes(bytes)) => self.chunk = bytes,
                Some(Chunk::End(trailer)) => {
                    self.trailer = Some(trailer);
                    root.finish(trailer);
                }
                Some(Chunk::Failed(text)) => self.fail(root, now, Failure::new(Code::System, text)),
                None => return,
            }
        }
    }

    fn fail(&mut self, root: &mut Root, now: Instant, failure: Failure) {
        root.abort(now, &format!("the sender gave up: {failure}"));
        self.failure = Some(failure);
    }

    fn note(&mut self, root: &Root, event: RootEvent) {
        match event {
            RootEvent::Joined { host, receivers } => self.progress.line(&format!("{host} joined ({receivers})")),
            RootEvent::Refused { host, text } => self.progress.line(&format!("{host} turned away: {text}")),
            RootEvent::Left { host } => self.progress.line(&format!("{host} left before the start")),
            RootEvent::Started { receivers } => self.progress.start(root, receivers, self.source.size),
            RootEvent::Reported(report) if report.outcome != ethbcast_collectives::session::Outcome::Delivered => {
                self.progress.line(&format!("{} failed: {} {}", report.host, report.outcome.word(), report.text));
            }
            RootEvent::Reported(_) | RootEvent::AllReported => {}
        }
    }

    /// What went wrong before there was anything to report.
    fn conclude(&mut self, root: &Root, _now: Instant) -> anyhow::Result<()> {
        self.progress.finish();
        if let Some(failure) = self.failure.take() {
            return Err(failure.into());
        }
        match root.failure() {
            Some(failure @ RootFailure::TooFew { .. }) => Err(Failure::new(Code::Nobody, failure).into()),
            Some(failure @ RootFailure::NoPlan(_)) => Err(Failure::new(Code::Usage, failure).into()),
            None => Ok(()),
        }
    }
}
