//! The root of `perf`: broadcasts, waits for everybody, and takes the times.

use super::pattern::Pattern;
use super::report::{Report, Row};
use super::terms::Terms;
use super::{MAX_SIZE_BYTES, Op};
use crate::args::PerfArgs;
use crate::exit::{Code, Failure};
use crate::route::{check_preset, read_calibration_for, read_route};
use crate::session;
use crate::signals::Interrupt;
use crate::topology_file::read_topology;
use ethbcast_collectives::session::application::{Next, Sending, Source, Tally};
use ethbcast_collectives::session::{Error, Options, Outcome, RootEvent, RootFailure, SendReport, Session, Trailer};
use ethbcast_transport::Instant;
use ethbcast_transport::packet::Clock;
use std::ops::ControlFlow;
use std::time::Duration;

/// The byte that lets everybody go on.
const RELEASE: [u8; 1] = [1];

/// What the arguments say of the network and the way, on whatever rank they are given.
///
/// # Errors
/// A [`Failure`] with code 2 (malformed) or 4 (unreadable).
pub fn options(args: &PerfArgs) -> anyhow::Result<Options> {
    let mut options = session::options(&args.wire).receivers(usize::from(args.ranks) - 1);
    options.route = read_route(&args.via)?;
    check_preset(args.preset, &options.route)?;
    options.preset = args.preset;
    options.topology = args.topology.as_deref().map(read_topology).transpose()?;
    let calibration = |path| read_calibration_for(path, options.topology.as_ref());
    options.calibration = args.calibration.as_deref().map(calibration).transpose()?;
    options.probe = !args.no_probe;
    options.max_wait = Some(Duration::from_secs_f64(args.max_wait));
    Ok(options)
}

/// Measures all sizes and reports.
///
/// # Errors
/// A [`Failure`] whose code is the exit code.
pub fn run(args: &PerfArgs, options: &mut Options, wire: &mut Session, interrupt: &Interrupt) -> anyhow::Result<()> {
    let mut report = Report::new(args);
    for (at, &size_bytes) in args.sizes.iter().enumerate() {
        debug_assert!(size_bytes <= MAX_SIZE_BYTES, "sizes were checked");
        let terms = Terms { size_bytes, iterations: args.iterations, remaining: (args.sizes.len() - at - 1) as u32 };
        (options.source, options.size) = (format!("perf, {size_bytes} bytes"), None);
        let mut sending = Sending::new(Measurer::new(terms, wire.clock()));
        let sent = wire.run_root(options, &mut sending);
        report.add(sending.into_source().conclude(sent, interrupt)?);
        report.progress();
    }
    report.print()
}

/// What is being broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Terms,
    Barrier(u32),
    Broadcast(u32),
    Release(u32),
    End,
}

/// The application at the root.
struct Measurer {
    terms: Terms,
    encoded: [u8; Terms::BYTES],
    pattern: Pattern,
    clock: Clock,
    step: Step,
    /// Bytes of the step's message that have been pushed; `None` once it has been ended.
    pushed: Option<usize>,
    began: Instant,
    barriers: Vec<Duration>,
    broadcasts: Vec<Duration>,
    failure: Option<Failure>,
}

impl Measurer {
    fn new(terms: Terms, clock: Clock) -> Measurer {
        Measurer {
            terms,
            encoded: terms.encode(),
            pattern: Pattern::new(terms.size_bytes),
            clock,
            step: Step::Terms,
            pushed: Some(0),
            began: Instant::START,
            barriers: Vec::new(),
            broadcasts: Vec::new(),
            failure: None,
        }
    }

    /// Everybody has consumed the step's message: what comes next.
    fn go_on(&mut self) {
        let took = self.clock.now().since(self.began);
        let last = self.terms.iterations - 1;
        self.pushed = Some(0);
        self.step = match self.step {
            Step::Terms => Step::Barrier(0),
            Step::Barrier(iteration) => {
                self.barriers.push(took);
                if iteration < last { Step::Barrier(iteration + 1) } else { Step::Broadcast(0) }
            }
            Step::Broadcast(iteration) => {
                self.broadcasts.push(took);
                Step::Release(iteration)
            }
            Step::Release(iteration) if iteration < last => Step::Broadcast(iteration + 1),
            Step::Release(_) | Step::End => Step::End,
        };
    }

    /// Nobody waits for a release to be consumed, neither the root, which has left the barrier; the next message will
    /// show it.
    fn is_release(&self) -> bool {
        matches!(self.step, Step::Release(_))
    }

    fn conclude(self, sent: Result<SendReport, Error>, interrupt: &Interrupt) -> anyhow::Result<Row> {
        let sent = match (sent, interrupt.signal(), self.failure) {
            (Err(Error::Cancelled { .. }), Some(signal), _) => {
                return Err(Interrupt::failure(signal, "interrupted; the others have been told").into());
            }
            (Err(Error::GaveUp(_)), _, Some(failure)) => return Err(failure.into()),
            (Err(Error::NotStarted(failure)), ..) => return Err(not_started(failure).into()),
            (sent, ..) => sent.map_err(session::failure)?,
        };
        let row = Row::new(Op::Bcast, self.terms.size_bytes, &self.broadcasts);
        Ok(row.beside(&self.barriers).along(sent.choice.as_ref()))
    }
}

impl Source for Measurer {
    fn next(&mut self, _now: Instant, consumed: bool) -> Next<'_> {
        if self.pushed.is_none() {
            if !consumed && !self.is_release() {
                return Next::Nothing;
            }
            self.go_on();
        }
        let pushed = self.pushed.unwrap_or_default();
        if pushed == 0 && !self.is_release() {
            self.began = self.clock.now();
        }
        let rest = match self.step {
            Step::Terms => &self.encoded[pushed..],
            Step::Barrier(_) | Step::Release(_) => &RELEASE[pushed..],
            Step::Broadcast(iteration) => self.pattern.rest(iteration, pushed),
            Step::End => return Next::End(trailer(&self.terms)),
        };
        if rest.is_empty() {
            self.pushed = None;
            return Next::Message { reported: !matches!(self.step, Step::Release(_)) };
        }
        Next::Bytes(rest)
    }

    fn advance(&mut self, bytes: usize) {
        self.pushed = self.pushed.map(|pushed| pushed + bytes);
    }

    fn on_event(&mut self, _now: Instant, event: &RootEvent) -> ControlFlow<String> {
        // Times without a rank would be times of something else.
        let (code, text) = match event {
            RootEvent::Reported(report) if report.outcome != Outcome::Delivered => {
                let code = if report.outcome == Outcome::Damaged { Code::Integrity } else { Code::SomeFailed };
                (code, format!("{} failed: {} {}", report.host, report.outcome.word(), report.text))
            }
            RootEvent::Aside { host, text } => (Code::SomeFailed, format!("{host} {text}: measuring ends")),
            RootEvent::HeldUp { host, text } => {
                log::warn!("{host} {text}");
                return ControlFlow::Continue(());
            }
            RootEvent::Waiting { joined, .. } => {
                log::warn!("waiting for the other ranks; there are: {}", joined.join(", "));
                return ControlFlow::Continue(());
            }
            RootEvent::OtherVersion(other) => {
                log::warn!("{other}");
                return ControlFlow::Continue(());
            }
            _ => return ControlFlow::Continue(()),
        };
        self.failure.get_or_insert_with(|| Failure::new(code, &text));
        ControlFlow::Break(text)
    }
}

/// What every rank says of a session under these terms at its end.
pub fn trailer(terms: &Terms) -> Trailer {
    let mut tally = Tally::default();
    tally.add(&terms.encode());
    Trailer { bytes: terms.size_bytes * u64::from(terms.iterations), digest: tally.digest() }
}

fn not_started(failure: RootFailure) -> Failure {
    let RootFailure::TooFew { joined, wanted, patience, .. } = failure else {
        return session::failure(Error::NotStarted(failure));
    };
    let (there, ranks, seconds) = (joined.len(), wanted + 1, patience.as_secs_f64());
    let who = if joined.is_empty() { "nobody".to_owned() } else { joined.join(", ") };
    let text = format!(
        "{there} of {wanted} other ranks were there within {seconds} s ({who}); \
         run `ethbcast perf -n {ranks}` on the missing hosts, or ask for fewer with -n"
    );
    Failure::new(Code::Nobody, text)
}
