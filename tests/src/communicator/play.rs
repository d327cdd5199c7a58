//! The processes of a case, run on a simulated network.

use super::{Case, Process, Step};
use ethbcast_collectives::communicator::{CommunicatorError, Member, MemberStats};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Faults, Outcome, Simulation, Stats};
use std::time::Duration;

/// A communicator while it is being simulated.
pub struct Play<F> {
    simulation: Simulation<Process, F>,
    replay: String,
}

impl<F: Faults> Play<F> {
    /// The processes of `case` under `faults`; `replay` goes in front of whatever is wrong.
    pub fn new(case: &Case, seed: u64, faults: F, replay: &str) -> Play<F> {
        let processes = (0..case.programs.len()).map(|host| Process::new(case, host, seed)).collect();
        let mut simulation = Simulation::new(&case.network(), processes, faults);
        simulation.set_event_limit(50_000_000);
        for &(host, at) in &case.crashes {
            simulation.crash(host, Instant::START + at);
        }
        Play { simulation, replay: replay.to_owned() }
    }

    /// Runs for `span`, or until nothing is left to do; true if that is so.
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

    /// Has one rank go on with these steps, from now.
    pub fn go_on_at(&mut self, host: usize, steps: &[Step]) {
        let now = self.simulation.now();
        self.simulation.machine_mut(host).go_on(steps);
        self.simulation.wake(host, now);
    }

    /// Has every rank go on with these steps, from now.
    pub fn go_on(&mut self, steps: &[Step]) {
        (0..self.processes().len()).for_each(|host| self.go_on_at(host, steps));
    }

    /// Ends the process on a host without a word, and starts another one there.
    pub fn restart(&mut self, host: usize, case: &Case, seed: u64) {
        let now = self.simulation.now();
        *self.simulation.machine_mut(host) = Process::new(case, host, seed);
        self.simulation.wake(host, now);
    }

    /// How each program ended, by host; `None` for one that has not.
    pub fn ends(&self) -> Vec<Option<Result<(), CommunicatorError>>> {
        self.processes().iter().map(|process| process.ended.as_ref().map(|(how, _)| how.clone())).collect()
    }

    /// The error with which a program ended; fails if there is none.
    pub fn error(&self, host: usize) -> CommunicatorError {
        match &self.processes()[host].ended {
            Some((Err(error), _)) => error.clone(),
            ended => panic!("{}: host {host} has no error: {ended:?}", self.replay),
        }
    }

    /// Frames all hosts have sent so far, calls and signs of life apart.
    pub fn frames(&self) -> u64 {
        let signs: u64 = self.stats().iter().map(|stats| stats.calls_sent + stats.signs_sent).sum();
        self.network().sent_frames - signs
    }

    /// All processes, by host.
    pub fn processes(&self) -> &[Process] {
        self.simulation.machines()
    }

    /// One process's member.
    pub fn member(&mut self, host: usize) -> &mut Member {
        self.simulation.machine_mut(host).member.as_mut().expect("it has started")
    }

    /// The simulation itself.
    pub fn simulation(&mut self) -> &mut Simulation<Process, F> {
        &mut self.simulation
    }

    /// What each member has sent and received.
    pub fn stats(&self) -> Vec<MemberStats> {
        self.processes().iter().map(|process| process.member.as_ref().map(Member::stats).unwrap_or_default()).collect()
    }

    /// What the network did.
    pub fn network(&self) -> Stats {
        self.simulation.stats()
    }

    /// Fails unless every program has come to its end without an error.
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

/// Plays `case` until it is quiet, for two minutes at most; panics with `replay` in front of what is wrong: an error,
/// other bytes, an audit, or no quiet.
pub fn play<F: Faults>(case: &Case, seed: u64, faults: F, replay: &str) -> Play<F> {
    let mut play = Play::new(case, seed, faults, replay);
    let quiet = play.run(Duration::from_secs(120));
    play.assert_done();
    assert!(quiet, "{replay}: not quiet, next {:?}", play.simulation.next_deadline());
    play
}
