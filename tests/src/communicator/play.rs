//! The processes of a case, run on a simulated network.

use super::{Case, Process, Step};
use ethbcast_collectives::communicator::{CommunicatorError, Member, MemberStats};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Faults, Outcome, Simulation, Stats};
use std::time::Duration;

/// A simulation of a communicator.
pub struct Play<F> {
    simulation: Simulation<Process, F>,
    replay: String,
}

impl<F: Faults> Play<F> {
    /// Creates the processes of `case` under `faults`; failures are prefixed with `replay`.
    pub fn new(case: &Case, seed: u64, faults: F, replay: &str) -> Play<F> {
        let processes = (0..case.programs.len()).map(|host| Process::new(case, host, seed)).collect();
        let mut simulation = Simulation::new(&case.network(), processes, faults);
        simulation.set_event_limit(50_000_000);
        for &(host, at) in &case.crashes {
            simulation.crash(host, Instant::START + at);
        }
        Play { simulation, replay: replay.to_owned() }
    }

    /// Runs for `span` or until quiescent; returns whether it is quiescent.
    pub fn run(&mut self, span: Duration) -> bool {
        let until = self.simulation.now() + span;
        let outcome = self.simulation.run(until, |_, process: &mut Process, now| process.turn(now));
        for (host, process) in self.simulation.machines().iter().enumerate() {
            if let Some(wrong) = process.complaint() {
                panic!("{}: host {host}: {wrong}", self.replay);
            }
        }
        let expected = matches!(outcome, Outcome::Quiet { .. } | Outcome::TimeLimit { .. });
        assert!(expected, "{}: {outcome:?}, next {:?}", self.replay, self.simulation.next_deadline());
        outcome.is_quiet()
    }

    /// Appends steps to the program of one rank, from now.
    pub fn go_on_at(&mut self, host: usize, steps: &[Step]) {
        let now = self.simulation.now();
        self.simulation.machine_mut(host).go_on(steps);
        self.simulation.wake(host, now);
    }

    /// Appends steps to the program of every rank, from now.
    pub fn go_on(&mut self, steps: &[Step]) {
        (0..self.processes().len()).for_each(|host| self.go_on_at(host, steps));
    }

    /// Kills the process on a host and starts another one there.
    pub fn restart(&mut self, host: usize, case: &Case, seed: u64) {
        let now = self.simulation.now();
        *self.simulation.machine_mut(host) = Process::new(case, host, seed);
        self.simulation.wake(host, now);
    }

    /// Returns the end of each program, by host; `None` for one that still runs.
    pub fn ends(&self) -> Vec<Option<Result<(), CommunicatorError>>> {
        self.processes().iter().map(|process| process.ended.as_ref().map(|(how, _)| how.clone())).collect()
    }

    /// Returns the error with which a program ended; panics if there is none.
    pub fn error(&self, host: usize) -> CommunicatorError {
        match &self.processes()[host].ended {
            Some((Err(error), _)) => error.clone(),
            ended => panic!("{}: host {host} has no error: {ended:?}", self.replay),
        }
    }

    /// Returns the number of frames sent by all hosts, without calls and signs of life.
    pub fn frames(&self) -> u64 {
        let signs: u64 = self.stats().iter().map(|stats| stats.calls_sent + stats.signs_sent).sum();
        self.network().sent_frames - signs
    }

    /// Returns all processes, by host.
    pub fn processes(&self) -> &[Process] {
        self.simulation.machines()
    }

    /// Returns the member of a process.
    pub fn member(&mut self, host: usize) -> &mut Member {
        self.simulation.machine_mut(host).member.as_mut().expect("it has started")
    }

    pub fn simulation(&mut self) -> &mut Simulation<Process, F> {
        &mut self.simulation
    }

    /// Returns the statistics of each member.
    pub fn stats(&self) -> Vec<MemberStats> {
        self.processes().iter().map(|process| process.member.as_ref().map(Member::stats).unwrap_or_default()).collect()
    }

    /// Returns the statistics of the network.
    pub fn network(&self) -> Stats {
        self.simulation.stats()
    }

    /// Panics unless every program has ended without an error.
    pub fn assert_done(&self) {
        for (host, process) in self.processes().iter().enumerate() {
            let ended = process.ended.as_ref().map(|(how, _)| how);
            assert_eq!(
                ended,
                Some(&Ok(())),
                "{}: host {host}, step {}: {:?}",
                self.replay,
                process.step,
                process.ongoing
            );
        }
    }
}

/// Plays `case` until it is quiescent, for two minutes at most.
///
/// # Panics
/// Panics with `replay` on an error, wrong bytes, a failed audit, or if it is not quiescent in
/// time.
pub fn play<F: Faults>(case: &Case, seed: u64, faults: F, replay: &str) -> Play<F> {
    let mut play = Play::new(case, seed, faults, replay);
    let quiet = play.run(Duration::from_secs(120));
    play.assert_done();
    assert!(quiet, "{replay}: not quiet, next {:?}", play.simulation.next_deadline());
    play
}
