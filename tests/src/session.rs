//! A whole session, from invitation to verdict, under the simulator: described, run, checked and priced.

use ethbcast_collectives::session::{
    Arrival, End, Outcome as Fate, Receiver, ReceiverConfig, ReceiverEvent, Root, RootConfig, Route, Station, Timing, Trailer,
    Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::{Cable, Faults, HostSettings, Network, Outcome, Random, Simulation, Stats, host_mac};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::{DEFAULT_ETHER_TYPE, group_mac};
use ethbcast_transport::{AuditError, Deadline, Instant, MacAddr, Machine, Tuning};
use std::time::Duration;

/// The group all simulated sessions belong to.
pub const GROUP: &str = "simulated";

/// A session to be simulated.
#[derive(Clone, Debug)]
pub struct Case {
    /// How the bytes travel.
    pub via: Via,
    /// Receivers.
    pub receivers: usize,
    /// Bytes in the stream.
    pub bytes: usize,
    /// MTU of every host, in bytes.
    pub mtu_bytes: u16,
    /// The engine's numbers.
    pub tuning: Tuning,
    /// Hosts (not the root) that die, and when.
    pub crashes: Vec<(usize, Duration)>,
    /// A host that gives up once it has taken so many bytes: its disk is full.
    pub gives_up: Option<(usize, usize)>,
}

/// A host's machine with the application that goes with it.
#[derive(Debug)]
pub enum Process {
    /// The root and what it has still to push.
    Root {
        /// The state machine.
        machine: Box<Root>,
        /// All bytes to send.
        data: Vec<u8>,
        /// How many of them the machine has taken.
        pushed: usize,
        /// Whether the end has been pushed.
        finished: bool,
    },
    /// A receiver and what it has taken.
    Receiver {
        /// The state machine.
        machine: Box<Receiver>,
        /// All bytes taken so far.
        data: Vec<u8>,
        /// How the session ended.
        end: Option<End>,
        /// Bytes after which it gives up.
        patience_bytes: usize,
    },
}

impl Process {
    fn machine(&mut self) -> &mut dyn Machine {
        match self {
            Process::Root { machine, .. } => machine.as_mut(),
            Process::Receiver { machine, .. } => machine.as_mut(),
        }
    }

    /// Frames of the stream so far.
    pub fn stream_stats(&self) -> StreamStats {
        match self {
            Process::Root { machine, .. } => machine.stream_stats(),
            Process::Receiver { machine, .. } => machine.stream_stats(),
        }
    }

    fn audit(&self) -> Result<(), AuditError> {
        let streams = match self {
            Process::Root { machine, .. } => machine.streams(),
            Process::Receiver { machine, .. } => machine.streams(),
        };
        streams.map_or(Ok(()), |streams| streams.audit())
    }

    /// The application's turn.
    fn turn(&mut self, now: Instant) {
        match self {
            Process::Root { machine, data, pushed, finished } => {
                *pushed += machine.push(&data[*pushed..]);
                if *pushed == data.len() && machine.wants_data() && !std::mem::replace(finished, true) {
                    machine.finish(Trailer { bytes: data.len() as u64, digest: *blake3::hash(data).as_bytes() });
                }
                while machine.poll_event().is_some() {}
            }
            Process::Receiver { machine, data, end, patience_bytes } => {
                take(machine, data, *patience_bytes, now);
                while let Some(event) = machine.poll_event() {
                    if let ReceiverEvent::Ended(how) = event {
                        *end = Some(how);
                    }
                }
            }
        }
    }
}

fn take(machine: &mut Receiver, data: &mut Vec<u8>, patience_bytes: usize, now: Instant) {
    if data.len() >= patience_bytes {
        machine.conclude(now, Fate::NoSpace, data.len() as u64, [0; 32], "full");
        return;
    }
    while let Some(arrival) = machine.peek() {
        match arrival {
            Arrival::Bytes(bytes) | Arrival::Message(bytes) => {
                data.extend_from_slice(bytes);
                machine.consume(now);
            }
            Arrival::End(trailer) => {
                machine.consume(now);
                let digest = *blake3::hash(data).as_bytes();
                let sound = trailer == Trailer { bytes: data.len() as u64, digest };
                let fate = if sound { Fate::Delivered } else { Fate::Damaged };
                machine.conclude(now, fate, data.len() as u64, digest, "");
            }
        }
    }
}

impl Machine for Process {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.machine().handle_frame(now, frame);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.machine().handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.machine().poll_transmit(now, buffer)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        match self {
            Process::Root { machine, .. } => machine.poll_timeout(now),
            Process::Receiver { machine, .. } => machine.poll_timeout(now),
        }
    }
}

/// What a session came to.
#[derive(Debug)]
pub struct Played {
    /// When the last frame and the last timer were gone.
    pub quiet_at: Duration,
    /// What the root reports of each receiver, by rank.
    pub fates: Vec<Fate>,
    /// How each receiver ended, by host.
    pub ends: Vec<Option<End>>,
    /// Stream frames, all hosts together.
    pub totals: StreamStats,
    /// From the first data frame to the last verdict.
    pub took: Duration,
    /// What the network did.
    pub network: Stats,
}

/// The bytes of a simulated session.
pub fn data(bytes: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; bytes];
    Random::new(seed).fill(&mut data);
    data
}

fn station(host: usize, case: &Case) -> Station {
    Station {
        host: format!("n{host}"),
        group: GROUP.to_owned(),
        mac: host_mac(host),
        group_mac: group_mac(GROUP),
        ether_type: DEFAULT_ETHER_TYPE,
        mtu_bytes: case.mtu_bytes,
    }
}

/// The processes of a session: the root on host 0, receivers on the others.
pub fn processes(case: &Case, seed: u64) -> Vec<Process> {
    let wanted = Wanted { at_least: case.receivers, enough: Some(case.receivers), patience: Duration::from_secs(20) };
    let root = RootConfig {
        station: station(0, case),
        session: 0x5E55_0000 ^ seed as u32,
        source: "test".to_owned(),
        size: Some(case.bytes as u64),
        wanted,
        route: Route::Via(case.via),
        calibration: None,
        probe: false,
        dry_run: false,
        topology: None,
        tuning: case.tuning.clone(),
        timing: Timing::default(),
    };
    let machine = Box::new(Root::new(Instant::START, root));
    let mut processes = vec![Process::Root { machine, data: data(case.bytes, seed), pushed: 0, finished: false }];
    processes.extend((1..=case.receivers).map(|host| {
        let config = ReceiverConfig {
            station: station(host, case),
            nonce: seed ^ host as u64,
            free_bytes: u64::MAX,
            patience: Some(Duration::from_secs(30)),
            tuning: case.tuning.clone(),
            timing: Timing::default(),
        };
        let patience_bytes = case.gives_up.filter(|&(who, _)| who == host).map_or(usize::MAX, |(_, bytes)| bytes);
        Process::Receiver { machine: Box::new(Receiver::new(Instant::START, config)), data: Vec::new(), end: None, patience_bytes }
    }));
    processes
}

/// Hosts of `case` on one switch at `rate_bits_per_second`.
pub fn star(case: &Case, rate_bits_per_second: u64) -> Network {
    let groups: Vec<MacAddr> = vec![group_mac(GROUP)];
    // The driver lets the kernel hold 4 ms of frames: 32 at 100 Mbit/s.
    let settings = HostSettings { groups, nic_receive_frames: 4096, nic_transmit_frames: 32, ..HostSettings::default() };
    let cable = Cable::new(rate_bits_per_second, Duration::from_micros(5));
    Network::star(case.receivers + 1, cable, &settings).with_mtu_bytes(usize::from(case.mtu_bytes))
}

/// Plays `case` on `network` under `faults`, auditing every feed after every step; panics with `replay` in front of what is
/// wrong: not quiet in two minutes, an audit, or bytes that differ from the root's at a receiver that claims them.
pub fn play(case: &Case, network: &Network, seed: u64, faults: impl Faults, replay: &str) -> Played {
    let mut simulation = Simulation::new(network, processes(case, seed), faults);
    simulation.set_event_limit(20_000_000);
    for &(host, at) in &case.crashes {
        simulation.crash(host, Instant::START + at);
    }
    let outcome = simulation.run(Instant::START + Duration::from_secs(120), |host, process: &mut Process, now| {
        process.turn(now);
        process.audit().unwrap_or_else(|why| panic!("{replay}: host {host}: {why}"));
        None
    });
    let Outcome::Quiet { at } = outcome else { panic!("{replay}: {outcome:?}, next {:?}", simulation.next_deadline()) };
    let mut totals = StreamStats::default();
    for process in simulation.machines() {
        let stats = process.stream_stats();
        totals.data_sent += stats.data_sent;
        totals.data_resent += stats.data_resent;
        totals.acks_sent += stats.acks_sent;
        totals.heartbeats_sent += stats.heartbeats_sent;
        totals.duplicates += stats.duplicates;
        totals.forged_acks += stats.forged_acks;
    }
    let network = simulation.stats();
    let (mut fates, mut ends, mut took, mut sent) = (Vec::new(), Vec::new(), Duration::ZERO, Vec::new());
    for process in simulation.into_machines() {
        match process {
            Process::Root { machine, data, .. } => {
                assert!(machine.is_over(), "{replay}: the root is not over");
                fates = machine.reports().map(|report| report.outcome).collect();
                took = machine.took();
                sent = data;
            }
            Process::Receiver { data, end, patience_bytes, .. } => {
                if matches!(end, Some(End::Confirmed | End::Unconfirmed)) && data.len() < patience_bytes {
                    assert!(
                        data == sent,
                        "{replay}: a receiver claims {} bytes that are not the root's {}",
                        data.len(),
                        sent.len()
                    );
                }
                ends.push(end);
            }
        }
    }
    Played { quiet_at: at.since(Instant::START), fates, ends, totals, took, network }
}
