//! Test helper: several processes on each simulated host, which share one MAC address.

use super::{Case, Process};
use ethbcast_collectives::communicator::{CommunicatorError, Member};
use ethbcast_transport::sim::{Faults, Outcome, Simulation, host_mac};
use ethbcast_transport::wire::destination;
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine, Timer};
use std::time::Duration;

/// The processes of one host. It delivers frames between them, and group frames, itself.
#[derive(Debug)]
pub struct Cohort {
    processes: Vec<Process>,
    mac: MacAddr,
    killed: Vec<bool>,
    /// Whether a frame was delivered locally, so that the applications need a turn.
    stirred: bool,
    next: usize,
}

impl Cohort {
    /// Creates the processes of `case`: the first `processes_per_host[0]` of them on `n0`, and so
    /// on.
    pub fn all(case: &Case, processes_per_host: &[usize], seed: u64) -> Vec<Cohort> {
        let mut first = 0;
        let cohort = |(host, &count): (usize, &usize)| {
            let numbers = first..first + count;
            first += count;
            let process = |(port_id, number): (u8, usize)| {
                let mac = host_mac(host).with_port_id(port_id);
                Process::at(case, number, (mac, format!("n{host}")), seed)
            };
            let processes: Vec<Process> = (0..).zip(numbers).map(process).collect();
            Cohort {
                killed: vec![false; count],
                processes,
                mac: host_mac(host),
                stirred: false,
                next: 0,
            }
        };
        processes_per_host.iter().enumerate().map(cohort).collect()
    }

    pub fn kill(&mut self, port_id: usize) {
        self.killed[port_id] = true;
    }

    pub fn processes(&self) -> impl Iterator<Item = (&Process, bool)> {
        self.processes.iter().zip(self.killed.iter().copied())
    }

    fn hand(&mut self, now: Instant, frame: &[u8], but: Option<usize>) {
        let to = destination(frame).expect("a whole frame");
        let is_for = |port_id: usize| to.is_multicast() || usize::from(to.port_id()) == port_id;
        for (port_id, process) in self.processes.iter_mut().enumerate() {
            if is_for(port_id) && but != Some(port_id) && !self.killed[port_id] {
                process.handle_frame(now, frame);
                self.stirred = true;
            }
        }
    }

    fn living(&self) -> impl Iterator<Item = &Process> {
        self.processes
            .iter()
            .zip(&self.killed)
            .filter(|(_, killed)| !**killed)
            .map(|(process, _)| process)
    }

    /// Runs each application; returns when to call again.
    pub fn turn(&mut self, now: Instant) -> Option<Instant> {
        self.stirred = false;
        let living = self
            .processes
            .iter_mut()
            .zip(&self.killed)
            .filter(|(_, killed)| !**killed);
        living.filter_map(|(process, _)| process.turn(now)).min()
    }
}

impl Machine for Cohort {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.hand(now, frame, None);
    }

    fn handle_timeout(&mut self, now: Instant) {
        for (process, killed) in self.processes.iter_mut().zip(&self.killed) {
            if !killed
                && process
                    .poll_timeout(now)
                    .is_some_and(|deadline| deadline.at <= now)
            {
                process.handle_timeout(now);
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let mut idle = 0;
        while idle < self.processes.len() {
            let port_id = self.next % self.processes.len();
            let length = if self.killed[port_id] {
                None
            } else {
                self.processes[port_id].poll_transmit(now, buffer)
            };
            let Some(length) = length else {
                (idle, self.next) = (idle + 1, port_id + 1);
                continue;
            };
            idle = 0;
            let to = destination(&buffer[..length]).expect("a whole frame");
            let frame = buffer[..length].to_vec();
            if to.is_multicast() || to.shares_interface_with(self.mac) {
                self.hand(now, &frame, Some(port_id));
            }
            let is_confined = self.processes[port_id]
                .member
                .as_ref()
                .is_some_and(Member::is_on_one_host);
            if !to.shares_interface_with(self.mac) && !is_confined {
                return Some(length);
            }
        }
        None
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let stirred = self.stirred.then_some(Deadline {
            at: now,
            why: Timer("handed over"),
        });
        stirred
            .into_iter()
            .chain(
                self.living()
                    .filter_map(|process| process.poll_timeout(now)),
            )
            .min_by_key(|next| next.at)
    }
}

/// A simulation of a communicator with several ranks on each host.
pub struct NodePlay<F> {
    simulation: Simulation<Cohort, F>,
    replay: String,
}

impl<F: Faults> NodePlay<F> {
    /// Creates the processes of `case`: the first `processes_per_host[0]` of them on host `n0`, and
    /// so on.
    pub fn new(
        case: &Case,
        processes_per_host: &[usize],
        seed: u64,
        faults: F,
        replay: &str,
    ) -> NodePlay<F> {
        let cohorts = Cohort::all(case, processes_per_host, seed);
        let hosts = Case {
            programs: vec![Vec::new(); processes_per_host.len()],
            ..case.clone()
        };
        let mut simulation = Simulation::new(&hosts.network(), cohorts, faults);
        simulation.set_event_limit(50_000_000);
        NodePlay {
            simulation,
            replay: replay.to_owned(),
        }
    }

    /// Runs for `span` or until quiescent; returns whether it is quiescent.
    pub fn run(&mut self, span: Duration) -> bool {
        let until = self.simulation.now() + span;
        let outcome = self
            .simulation
            .run(until, |_, cohort: &mut Cohort, now| cohort.turn(now));
        for (rank, process) in self.processes().enumerate() {
            if let Some(wrong) = process.complaint() {
                panic!("{}: process {rank}: {wrong}", self.replay);
            }
        }
        let expected = matches!(outcome, Outcome::Quiet { .. } | Outcome::TimeLimit { .. });
        assert!(expected, "{}: {outcome:?}", self.replay);
        outcome.is_quiet()
    }

    /// Kills the process with a local port id on a host.
    pub fn kill(&mut self, host: usize, port_id: usize) {
        self.simulation.machine_mut(host).kill(port_id);
    }

    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.simulation
            .machines()
            .iter()
            .flat_map(|cohort| &cohort.processes)
    }

    /// Returns the end of each program; `None` for one that still runs.
    pub fn ends(&self) -> Vec<Option<Result<(), CommunicatorError>>> {
        self.processes()
            .map(|process| process.ended.as_ref().map(|(how, _)| how.clone()))
            .collect()
    }

    /// Returns the number of frames that all hosts have sent on the wire, with calls and signs of
    /// life.
    pub fn wire_frames(&self) -> u64 {
        self.simulation.stats().sent_frames
    }

    /// Returns the bytes of those frames.
    pub fn wire_bytes(&self) -> u64 {
        self.simulation.stats().sent_bytes
    }

    /// Returns the number of calls and signs of life of all members; each goes to the wire once.
    pub fn signs(&self) -> u64 {
        let members = self
            .processes()
            .filter_map(|process| process.member.as_ref());
        members
            .map(|member| member.stats())
            .map(|stats| stats.calls_sent + stats.signs_sent)
            .sum()
    }
}
