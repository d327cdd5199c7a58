//! Simulated sending and receiving programs of `ethbcast simulate`, with memory in place of files.

use super::figures::Wiring;
use super::settings::Conditions;
use ethbcast_collectives::session::application::{MemoryContent, Next, Participant, Sink, Source};
use ethbcast_collectives::session::{Done, Outcome as Fate, RootEvent, Trailer};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{DirectionStats, Outcome, Random, RandomFaults, Simulation, Stats};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

pub type SimulatedHost = Participant<Sender, Taker>;

/// The content and its digest, of which all simulated hosts share one copy.
pub type Shared = MemoryContent<Rc<[u8]>>;

pub fn content(bytes: u64, seed: u64) -> Shared {
    let mut content: Rc<[u8]> = std::iter::repeat_n(0, bytes as usize).collect();
    Random::new(seed).fill(Rc::get_mut(&mut content).expect("it is not shared yet"));
    MemoryContent::new(content)
}

#[derive(Debug)]
pub struct Sender {
    content: Shared,
    pub(super) began: Option<Instant>,
    pushing: bool,
    all_reported: bool,
}

impl Sender {
    pub fn new(content: Shared) -> Sender {
        Sender { content, began: None, pushing: false, all_reported: false }
    }
}

impl Source for Sender {
    fn next(&mut self, now: Instant, consumed: bool) -> Next<'_> {
        if !std::mem::replace(&mut self.pushing, true) {
            // A separate step at the same time, so that counters can be read before the first data
            // frame.
            return Next::Until(now);
        }
        self.content.next(now, consumed)
    }

    fn advance(&mut self, bytes: usize) {
        self.content.advance(bytes);
    }

    fn on_event(&mut self, now: Instant, event: &RootEvent) -> ControlFlow<String> {
        match event {
            RootEvent::Started { .. } => self.began = Some(now),
            RootEvent::AllReported => self.all_reported = true,
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[derive(Debug)]
pub struct Taker {
    content: Shared,
    taken: usize,
    pub(super) taken_at: Instant,
    equal: bool,
    conclusion: Duration,
    concludes_at: Option<(Instant, Trailer)>,
}

impl Taker {
    pub fn new(content: Shared, conclusion: Duration) -> Taker {
        Taker { content, taken: 0, taken_at: Instant::START, equal: true, conclusion, concludes_at: None }
    }
}

impl Sink for Taker {
    fn write(&mut self, now: Instant, bytes: &[u8], _message_end: bool) {
        self.equal &= self.content.bytes().get(self.taken..).unwrap_or_default().starts_with(bytes);
        self.taken += bytes.len();
        self.taken_at = now;
    }

    fn finish(&mut self, now: Instant, trailer: Trailer) {
        self.concludes_at = Some((now + self.conclusion, trailer));
    }

    fn verdict(&mut self, now: Instant) -> Option<Done> {
        let (_, trailer) = self.concludes_at.take_if(|(at, _)| *at <= now)?;
        let bytes = self.taken as u64;
        let sound = self.equal && trailer == self.content.trailer() && trailer.bytes == bytes;
        let outcome = if sound { Fate::Verified } else { Fate::Damaged };
        Some(Done { outcome, bytes, digest: trailer.digest, text: String::new() })
    }

    fn verdict_at(&self) -> Option<Instant> {
        self.concludes_at.map(|(at, _)| at)
    }
}

const MAX_RUN: Duration = Duration::from_secs(24 * 3600);

/// Load of one direction of a cable between the first data frame and the last verdict.
#[derive(Clone, Debug)]
pub struct Load {
    pub from: String,
    pub to: String,
    /// Frames, and their bytes without preamble, checksum and gap.
    pub counted: DirectionStats,
    pub busy: f64,
}

/// Counters at the first data frame and at the last verdict.
#[derive(Debug, Default)]
pub struct Watch {
    at_first_data: Stats,
    at_last_verdict: Stats,
    ended_at: Option<Instant>,
}

impl Watch {
    /// Runs until the network is quiescent, and reads its counters at the first data frame and at
    /// the last verdict.
    pub fn run(simulation: &mut Simulation<SimulatedHost, RandomFaults>, root: usize) -> (Outcome, Watch) {
        let mut watch = Watch::default();
        if let Some(outcome) = run_until(simulation, root, |sender| sender.began.is_some()) {
            return (outcome, watch);
        }
        watch.at_first_data = simulation.stats();
        let early = run_until(simulation, root, |sender: &Sender| sender.all_reported);
        watch.at_last_verdict = simulation.stats();
        watch.ended_at = Some(simulation.now());
        let rest = || simulation.run(Instant::START + MAX_RUN, |_, host, now| host.turn(now));
        (early.unwrap_or_else(rest), watch)
    }

    pub fn quiesced_after(&self, quiesced_at: Instant) -> Duration {
        self.ended_at.map_or(Duration::ZERO, |ended_at| quiesced_at.since(ended_at))
    }

    /// Returns the load of each direction of each cable, in the topology's order. `took` is the
    /// time between both moments.
    pub fn loads(&self, wiring: &Wiring, conditions: &Conditions, took: Duration) -> Vec<Load> {
        let pairs = self.at_first_data.cables.iter().zip(&self.at_last_verdict.cables).zip(&wiring.ends);
        let load = |from: &str, to: &str, counted: DirectionStats| {
            let bits = (counted.bytes + counted.frames * conditions.overhead_bytes()) as f64 * 8.0;
            let capacity = conditions.rate_bits_per_second as f64 * took.as_secs_f64();
            let busy = if capacity > 0.0 { (bits / capacity).min(1.0) } else { 0.0 };
            Load { from: from.to_owned(), to: to.to_owned(), counted, busy }
        };
        pairs
            .flat_map(|((before, after), [near, far])| {
                let forward = load(near, far, after.forward.since(&before.forward));
                [forward, load(far, near, after.backward.since(&before.backward))]
            })
            .collect()
    }
}

/// Runs until the root meets a condition, or returns the outcome if the run ends before.
fn run_until(
    simulation: &mut Simulation<SimulatedHost, RandomFaults>,
    root: usize,
    reached: impl Fn(&Sender) -> bool,
) -> Option<Outcome> {
    let there = Cell::new(false);
    let mut turn = |number: usize, host: &mut SimulatedHost, now: Instant| {
        let again = host.turn(now);
        if number == root {
            there.set(host.sending().is_some_and(|sending| reached(sending.source())));
        }
        again
    };
    while !there.get() {
        if let Some(outcome) = simulation.step(Instant::START + MAX_RUN, &mut turn) {
            return Some(outcome);
        }
    }
    None
}
