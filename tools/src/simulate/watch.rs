//! Load of the cables between the first data frame and the last verdict.

use super::process::{Sender, SimulatedHost};
use super::settings::Conditions;
use super::wiring::Wiring;
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{DirectionStats, Outcome, RandomFaults, Simulation, Stats};
use std::cell::Cell;
use std::time::Duration;

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
        if let Some(outcome) = run_until(simulation, root, |sender| sender.began().is_some()) {
            return (outcome, watch);
        }
        watch.at_first_data = simulation.stats();
        let early = run_until(simulation, root, Sender::has_all_verdicts);
        watch.at_last_verdict = simulation.stats();
        watch.ended_at = Some(simulation.now());
        let rest = || simulation.run(Instant::START + MAX_RUN, |_, host, now| host.turn(now));
        (early.unwrap_or_else(rest), watch)
    }

    pub fn quiet_after(&self, quiet_at: Instant) -> Duration {
        self.ended_at.map_or(Duration::ZERO, |ended_at| quiet_at.since(ended_at))
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
