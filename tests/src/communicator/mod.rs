//! Test helper: simulated MPI-like programs on a communicator, with their cost in frames.

mod cohort;
mod process;

pub use cohort::{Cohort, NodePlay};
use ethbcast_collectives::Route;
use ethbcast_collectives::communicator::{
    CommunicatorError, Config, Member, MemberStats, Preset, Reduction,
};
use ethbcast_collectives::keys::Keys;
use ethbcast_collectives::session::Station;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::Via;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{
    Cable, Faults, HostSettings, Network, Outcome, Random, Simulation, Stats, SwitchId,
    SwitchSettings, host_mac,
};
use ethbcast_transport::wire::{EtherType, Guard, group_mac};
pub use process::{Process, content, elements};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

pub const GROUP: &str = "simulated";

/// A step of a rank's program. Programs are equal for all ranks unless a test wants otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Broadcast {
        root: u16,
        bytes: usize,
    },
    Barrier,
    Scatter {
        root: u16,
        bytes: usize,
    },
    Gather {
        root: u16,
        bytes: usize,
    },
    Allgather {
        bytes: usize,
    },
    Reduce {
        root: u16,
        reduction: Reduction,
        bytes: usize,
    },
    Allreduce {
        reduction: Reduction,
        bytes: usize,
    },
    /// A message: its sender goes on at once, its receiver waits for it, the others do nothing.
    Message {
        from: u16,
        to: u16,
        tag: u32,
        bytes: usize,
    },
    Compute(Duration),
    /// A wait until the messages this rank has sent have arrived.
    Settle,
    /// The group goes on with the surviving ranks.
    Shrink,
}

#[derive(Clone, Debug)]
pub struct Case {
    pub programs: Vec<Vec<Step>>,
    /// Number of ranks configured at each process.
    pub sizes: Vec<u16>,
    pub starts: Vec<Duration>,
    pub names: Vec<String>,
    pub mtus: Vec<u16>,
    pub preset: Preset,
    /// Knowledge of the network that each process is configured with.
    pub told: Vec<NetworkKnowledge>,
    /// Switches with the hosts by number; one switch if `None`.
    pub wiring: Option<Topology>,
    pub calibration: Option<Calibration>,
    /// Time that a process waits for the others, and a call for progress.
    pub patience: Duration,
    /// Hosts that die, and the time of each death.
    pub crashes: Vec<(usize, Duration)>,
    pub rate_bits_per_second: u64,
    pub burst_bytes: u64,
    /// Whether ranks leave at the end of their programs; otherwise the run ends when all programs
    /// have.
    pub leave: bool,
    /// Silence after which a rank counts as gone, if not the default.
    pub dead_after: Option<Duration>,
    /// Keys of each process.
    pub keys: fn(usize) -> Option<Keys>,
}

impl Case {
    /// Creates `ranks` processes that start at once and run `program`.
    pub fn new(ranks: u16, program: &[Step]) -> Case {
        let hosts = usize::from(ranks);
        Case {
            programs: vec![program.to_vec(); hosts],
            sizes: vec![ranks; hosts],
            starts: vec![Duration::ZERO; hosts],
            names: (0..hosts).map(|host| format!("n{host}")).collect(),
            mtus: vec![576; hosts],
            preset: Preset::Default,
            told: vec![NetworkKnowledge::default(); hosts],
            wiring: None,
            calibration: None,
            patience: Duration::from_secs(20),
            crashes: Vec::new(),
            rate_bits_per_second: 1_000_000_000,
            burst_bytes: 0,
            leave: true,
            dead_after: None,
            keys: |_| None,
        }
    }

    pub fn keyed(self) -> Case {
        Case {
            keys: |_| Some(crate::session::keys(1)),
            ..self
        }
    }

    fn config(&self, host: usize, seed: u64) -> Config {
        let station = Station {
            host: self.names[host].clone(),
            group: GROUP.to_owned(),
            mac: host_mac(host),
            group_mac: group_mac(GROUP),
            ether_type: EtherType::DEFAULT,
            mtu_bytes: self.mtus[host],
            guard: Guard::Plain,
        };
        let NetworkKnowledge {
            topology,
            route,
            casts,
            probe,
        } = self.told[host].clone();
        let nonce = seed ^ (host as u64) << 32;
        Config {
            preset: self.preset,
            topology,
            calibration: self.calibration.clone(),
            route,
            casts,
            probe,
            keys: (self.keys)(host).map(Arc::new),
            dead_after: self.dead_after,
            join_by: Some(Instant::START + self.starts[host] + self.patience),
            // Small feeds, unless frames are full: their memory is allocated anew in each of tens
            // of thousands of runs.
            feed_bytes: if self.mtus[host] < 1500 {
                0
            } else {
                Config::FEED_BYTES
            },
            ..Config::new(station, self.sizes[host], nonce)
        }
    }

    pub fn network(&self) -> Network {
        let settings = HostSettings {
            groups: vec![group_mac(GROUP)],
            nic_receive_frames: 4096,
            nic_transmit_frames: 32,
            ..HostSettings::default()
        };
        let cable = Cable::new(self.rate_bits_per_second, Duration::from_micros(5))
            .with_burst_bytes(self.burst_bytes);
        let mtu_bytes = self.mtus.iter().copied().max().unwrap_or(1500);
        let network = match &self.wiring {
            None => Network::star(self.programs.len(), cable, &settings),
            Some(topology) => wired(topology, cable, &settings),
        };
        network.with_mtu_bytes(mtu_bytes.into())
    }
}

fn wired(topology: &Topology, cable: Cable, settings: &HostSettings) -> Network {
    let mut network = Network::new();
    let switches: Vec<SwitchId> = topology
        .switches()
        .iter()
        .map(|_| network.add_switch(SwitchSettings::default()))
        .collect();
    for &(one, other) in topology.cables() {
        network
            .connect(switches[one], switches[other], cable)
            .expect("a topology is a tree");
    }
    for host in 0..topology.hosts().len() {
        network.add_host(switches[topology.switch_of(host)], cable, settings.clone());
    }
    network
}

/// A process's own knowledge of its network, in addition to the common one.
#[derive(Clone, Debug)]
pub struct NetworkKnowledge {
    pub topology: Option<Topology>,
    pub route: Route,
    pub casts: bool,
    /// Whether rank 0 measures once all ranks are there.
    pub probe: bool,
}

impl Default for NetworkKnowledge {
    fn default() -> NetworkKnowledge {
        NetworkKnowledge {
            topology: None,
            route: Route::Auto,
            casts: true,
            probe: false,
        }
    }
}

impl NetworkKnowledge {
    /// Draws a configuration for a process: the default in half of the cases, else without casts,
    /// with a fixed route, with the switches, or a combination. With switches it also returns the
    /// topology.
    pub fn drawn(seed: u64, hosts: usize) -> (NetworkKnowledge, Option<Topology>) {
        let mut random = Random::new(seed ^ 0x746F_6C64);
        let kind = random.below(16);
        let told = NetworkKnowledge {
            casts: !matches!(kind, 8..12),
            ..NetworkKnowledge::default()
        };
        let topology = matches!(kind, 9..14).then(|| switches(&mut random, hosts));
        let ways: Vec<Via> = Via::every()
            .filter(|way| told.casts || *way != Via::Cast)
            .collect();
        let way = ways[random.below(ways.len() as u64) as usize];
        let route = if matches!(kind, 11..) {
            Route::Via(way)
        } else {
            Route::Auto
        };
        (
            NetworkKnowledge {
                topology: topology.clone(),
                route,
                ..told
            },
            topology,
        )
    }

    /// Returns the names of the deviations from the default, for a summary of schedules.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        let no_casts = (!self.casts).then_some("program: nothing is cast");
        let switches = self
            .topology
            .is_some()
            .then_some("program: told the switches");
        let way = matches!(self.route, Route::Via(_)).then_some("program: told a way");
        no_casts.into_iter().chain(switches).chain(way)
    }
}

fn switches(random: &mut Random, hosts: usize) -> Topology {
    let switches = 1 + random.below(4);
    let places: Vec<u64> = (0..hosts).map(|_| random.below(switches)).collect();
    let mut text = "schema = 1\n".to_owned();
    for switch in 0..switches {
        let own = (0..hosts)
            .filter(|&host| places[host] == switch)
            .map(|host| host.to_string());
        let own = own.collect::<Vec<_>>().join(",");
        write!(text, "[[switch]]\nname = \"s{switch}\"\n").expect("there is room");
        if !own.is_empty() {
            writeln!(text, "hosts = \"n[{own}]\"").expect("there is room");
        }
        if switch > 0 {
            writeln!(text, "links = [\"s{}\"]", random.below(switch)).expect("there is room");
        }
    }
    Topology::parse(&text, "drawn").unwrap_or_else(|error| panic!("{error}:\n{text}"))
}

pub struct Play<F> {
    simulation: Simulation<Process, F>,
    replay: String,
}

impl<F: Faults> Play<F> {
    /// Creates the processes of `case` under `faults`; failures are prefixed with `replay`.
    pub fn new(case: &Case, seed: u64, faults: F, replay: &str) -> Play<F> {
        let processes = (0..case.programs.len())
            .map(|host| Process::new(case, host, seed))
            .collect();
        let mut simulation = Simulation::new(&case.network(), processes, faults);
        simulation.set_event_limit(50_000_000);
        for &(host, at) in &case.crashes {
            simulation.crash(host, Instant::START + at);
        }
        Play {
            simulation,
            replay: replay.to_owned(),
        }
    }

    /// Runs for `span` or until quiescent; returns whether it is quiescent.
    pub fn run(&mut self, span: Duration) -> bool {
        let until = self.simulation.now() + span;
        let outcome = self
            .simulation
            .run(until, |_, process: &mut Process, now| process.turn(now));
        for (host, process) in self.simulation.machines().iter().enumerate() {
            if let Some(wrong) = process.complaint() {
                panic!("{}: host {host}: {wrong}", self.replay);
            }
        }
        let expected = matches!(outcome, Outcome::Quiet { .. } | Outcome::TimeLimit { .. });
        assert!(
            expected,
            "{}: {outcome:?}, next {:?}",
            self.replay,
            self.simulation.next_deadline()
        );
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
        self.processes()
            .iter()
            .map(|process| process.ended.as_ref().map(|(how, _)| how.clone()))
            .collect()
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
        let signs: u64 = self
            .stats()
            .iter()
            .map(|stats| stats.calls_sent + stats.signs_sent)
            .sum();
        self.network().sent_frames - signs
    }

    pub fn processes(&self) -> &[Process] {
        self.simulation.machines()
    }

    pub fn member(&mut self, host: usize) -> &mut Member {
        self.simulation
            .machine_mut(host)
            .member
            .as_mut()
            .expect("it has started")
    }

    pub fn simulation(&mut self) -> &mut Simulation<Process, F> {
        &mut self.simulation
    }

    pub fn stats(&self) -> Vec<MemberStats> {
        self.processes()
            .iter()
            .map(|process| {
                process
                    .member
                    .as_ref()
                    .map(Member::stats)
                    .unwrap_or_default()
            })
            .collect()
    }

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
pub fn play<F: Faults>(case: &Case, seed: u64, faults: F, replay: &str) -> Play<F> {
    let mut play = Play::new(case, seed, faults, replay);
    let quiet = play.run(Duration::from_secs(120));
    play.assert_done();
    assert!(
        quiet,
        "{replay}: not quiet, next {:?}",
        play.simulation.next_deadline()
    );
    play
}
