//! The root of `perf`: broadcasts, waits for everybody, and takes the times.

use super::pattern::Pattern;
use super::report::{Report, Row};
use super::terms::Terms;
use super::{Loop, MAX_SIZE_BYTES, Op};
use crate::args::PerfArgs;
use crate::exit::{Code, Failure, WithCode};
use crate::preset::Preset;
use crate::route::{read_calibration, read_route};
use crate::signals::Interrupt;
use crate::topology_file::read_topology;
use ethbcast_collectives::session::{Outcome, Root, RootConfig, RootEvent, RootFailure, Route, Trailer, Wanted};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::Instant;
use ethbcast_transport::packet::drive;
use std::ops::ControlFlow;
use std::time::Duration;

/// The byte that lets everybody go on.
const RELEASE: [u8; 1] = [1];

/// What the arguments say of the network and the way, on whatever rank they are given.
pub struct Network {
    topology: Option<Topology>,
    calibration: Option<Calibration>,
    route: Route,
    preset: Preset,
}

impl Network {
    /// Reads what the arguments name.
    ///
    /// # Errors
    /// A [`Failure`] with code 2 (malformed) or 4 (unreadable).
    pub fn read(args: &PerfArgs) -> anyhow::Result<Network> {
        let route = read_route(&args.via)?;
        args.preset.check(&route)?;
        let topology = args.topology.as_deref().map(read_topology).transpose()?;
        let calibration = args.calibration.as_deref().map(read_calibration).transpose()?;
        Ok(Network { topology, calibration, route, preset: args.preset })
    }
}

/// Measures all sizes and reports.
///
/// # Errors
/// A [`Failure`] whose code is the exit code.
pub fn run(args: &PerfArgs, network: Network, station: &mut Loop) -> anyhow::Result<()> {
    let Network { topology, calibration, route, preset } = network;
    let mut report = Report::new(args);
    for (at, &size_bytes) in args.sizes.iter().enumerate() {
        debug_assert!(size_bytes <= MAX_SIZE_BYTES, "sizes were checked");
        let terms = Terms { size_bytes, iterations: args.iterations, remaining: (args.sizes.len() - at - 1) as u32 };
        let receivers = usize::from(args.ranks) - 1;
        let session = getrandom::u32().code(Code::System)?;
        let config = RootConfig {
            size: Some(size_bytes),
            wanted: Wanted { at_least: receivers, enough: Some(receivers), patience: Duration::from_secs_f64(args.max_wait) },
            route: route.clone(),
            calibration: calibration.clone(),
            probe: !args.no_probe,
            topology: topology.clone(),
            tuning: preset.tuning(&station.wire.tuning),
            ..RootConfig::new(station.wire.station.clone(), session, &format!("perf, {size_bytes} bytes"))
        };
        report.add(measure(config, terms, station)?);
        report.progress();
    }
    report.print()
}

fn measure(config: RootConfig, terms: Terms, station: &mut Loop) -> anyhow::Result<Row> {
    let Loop { wire, waker, clock, interrupt } = station;
    let mut root = Root::new(clock.now(), config);
    let mut measurer = Measurer::new(terms, interrupt.clone());
    drive(&mut wire.port, &mut root, waker, clock, |root, _| measurer.turn(root, clock.now())).code(Code::System)?;
    measurer.conclude(&root)
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
    pattern: Pattern,
    interrupt: Interrupt,
    step: Step,
    /// Bytes of the step's message that have been pushed; `None` once it has been ended.
    pushed: Option<usize>,
    began: Instant,
    barriers: Vec<Duration>,
    broadcasts: Vec<Duration>,
    failure: Option<Failure>,
}

impl Measurer {
    fn new(terms: Terms, interrupt: Interrupt) -> Measurer {
        Measurer {
            terms,
            pattern: Pattern::new(terms.size_bytes),
            interrupt,
            step: Step::Terms,
            pushed: Some(0),
            began: Instant::START,
            barriers: Vec::new(),
            broadcasts: Vec::new(),
            failure: None,
        }
    }

    fn turn(&mut self, root: &mut Root, now: Instant) -> ControlFlow<()> {
        if let Some(signal) = self.interrupt.signal().filter(|_| self.failure.is_none()) {
            let failure = Interrupt::failure(signal, "interrupted; the others have been told");
            root.abort(now, &format!("the root gave up: {failure}"));
            self.failure = Some(failure);
        }
        while let Some(event) = root.poll_event() {
            if let RootEvent::Reported(report) = event
                && report.outcome != Outcome::Delivered
                && self.failure.is_none()
            {
                // Times without a rank would be times of something else.
                let text = format!("{} failed: {} {}", report.host, report.outcome.word(), report.text);
                let code = if report.outcome == Outcome::Damaged { Code::Integrity } else { Code::SomeFailed };
                root.abort(now, &text);
                self.failure = Some(Failure::new(code, text));
            }
        }
        while self.failure.is_none() && self.advance(root, now) {}
        if root.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Pushes what the step still has, or goes on to the next when everybody has passed it; false if it has to wait.
    fn advance(&mut self, root: &mut Root, now: Instant) -> bool {
        if let Some(pushed) = self.pushed {
            return root.wants_data() && self.push(root, now, pushed);
        }
        // After a release nobody is waited for: the root has left the barrier.
        if !matches!(self.step, Step::Release(_)) && !root.is_passed() {
            return false;
        }
        self.next(root, now);
        self.step != Step::End
    }

    fn push(&mut self, root: &mut Root, now: Instant, pushed: usize) -> bool {
        if pushed == 0 && !matches!(self.step, Step::Release(_)) {
            self.began = now;
        }
        let terms = self.terms.encode();
        let (rest, length): (&[u8], usize) = match self.step {
            Step::Terms => (&terms[pushed..], terms.len()),
            Step::Barrier(_) | Step::Release(_) => (&RELEASE[pushed..], RELEASE.len()),
            Step::Broadcast(iteration) => (self.pattern.rest(iteration, pushed), self.terms.size_bytes as usize),
            Step::End => return false,
        };
        let taken = root.push(rest);
        // Nobody waits for a release to be passed: the next message will show it.
        let end = if matches!(self.step, Step::Release(_)) { Root::end_message_quietly } else { Root::end_message };
        let done = pushed + taken == length && end(root);
        self.pushed = (!done).then_some(pushed + taken);
        done || taken > 0
    }

    fn next(&mut self, root: &mut Root, now: Instant) {
        let took = now.since(self.began);
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
            Step::Release(_) | Step::End => {
                let bytes = self.terms.size_bytes * u64::from(self.terms.iterations);
                root.finish(Trailer { bytes, digest: *blake3::hash(&self.terms.encode()).as_bytes() });
                Step::End
            }
        };
    }

    fn conclude(self, root: &Root) -> anyhow::Result<Row> {
        if let Some(failure) = self.failure {
            return Err(failure.into());
        }
        match root.failure() {
            Some(RootFailure::TooFew { joined, wanted, patience, .. }) => {
                let (there, ranks, seconds) = (joined.len(), wanted + 1, patience.as_secs_f64());
                let who = if joined.is_empty() { "nobody".to_owned() } else { joined.join(", ") };
                let text = format!(
                    "{there} of {wanted} other ranks were there within {seconds} s ({who}); \
                     run `ethbcast perf -n {ranks}` on the missing hosts, or ask for fewer with -n"
                );
                return Err(Failure::new(Code::Nobody, text).into());
            }
            Some(failure @ RootFailure::NoPlan(_)) => return Err(Failure::new(Code::Usage, failure).into()),
            None => {}
        }
        let row = Row::new(Op::Bcast, self.terms.size_bytes, &self.broadcasts);
        Ok(row.beside(&self.barriers).along(root.choice()))
    }
}
