//! One whole session under the simulator, from invitation to verdict, and what it cost its root.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::ensure;
use ethbcast_collectives::session::{
    Arrival, Outcome, Receiver, ReceiverConfig, Root, RootConfig, Route, Station, Trailer, Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::{Cable, Delivery, Fate, Faults, HostSettings, Network, RandomFaults, Simulation, host_mac};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::{Ack, EtherType, Flags, HEADER_BYTES, Kind, group_mac, parse};
use ethbcast_transport::{Deadline, Instant, Machine, Tuning};

const GROUP: &str = "scale";
/// Bytes on the wire beside a frame's MTU: the Ethernet header; preamble, checksum and gap.
const LINK_BYTES: u64 = 14 + 24;
/// A full frame's MTU and payload.
const FULL_MTU_BYTES: u64 = 1500;
const FULL_PAYLOAD_BYTES: f64 = 1468.0;
/// Frames that a host's kernel holds.
const QUEUE_FRAMES: usize = 32;

/// A session to be simulated.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub receivers: usize,
    pub frames: usize,
    pub mtu_bytes: u16,
    /// The rate at which full frames would take as long as the simulated ones do.
    pub rate_bits_per_second: u64,
    pub feed_frames: u64,
    /// Lost of all deliveries.
    pub loss: f64,
    /// A frame whose first copy reaches nobody.
    pub all_lose: Option<u64>,
    pub seed: u64,
}

/// What it came to.
#[derive(Debug)]
pub struct Played {
    /// Frames the root received per second while the stream flowed.
    pub heard_per_second: f64,
    /// Of full frames' payload, until the last receiver had everything, at the rate named.
    pub goodput_percent: f64,
    /// The most that receivers added at the root, all together.
    pub added_bytes: usize,
    /// Acknowledgements that named the frame that all lost.
    pub reports: usize,
    pub root: StreamStats,
    /// All hosts together.
    pub all: StreamStats,
}

/// What all hosts note down together.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// When the first data was pushed.
    began: Option<Instant>,
    /// When the first receiver had everything.
    first: Option<Instant>,
    /// When the last one had.
    last: Instant,
    complete: usize,
    /// Frames the root received from the one to the other.
    heard: u64,
    /// The most that readers added at the root.
    added_bytes: usize,
}

enum Process {
    Root { machine: Box<Root>, left_bytes: usize, finished: bool, flow: Rc<Cell<Flow>> },
    Receiver { machine: Box<Receiver>, taken_bytes: u64, flow: Rc<Cell<Flow>> },
}

impl Process {
    fn machine(&self) -> &dyn Machine {
        match self {
            Process::Root { machine, .. } => machine.as_ref(),
            Process::Receiver { machine, .. } => machine.as_ref(),
        }
    }

    fn machine_mut(&mut self) -> &mut dyn Machine {
        match self {
            Process::Root { machine, .. } => machine.as_mut(),
            Process::Receiver { machine, .. } => machine.as_mut(),
        }
    }

    fn stats(&self) -> StreamStats {
        match self {
            Process::Root { machine, .. } => machine.stream_stats(),
            Process::Receiver { machine, .. } => machine.stream_stats(),
        }
    }

    /// The application's turn.
    fn turn(&mut self, now: Instant, trailer: Trailer, block: &[u8]) {
        match self {
            Process::Root { machine, left_bytes, finished, flow } => {
                let mut noted = flow.get();
                while *left_bytes > 0 && machine.wants_data() {
                    noted.began = noted.began.or(Some(now));
                    *left_bytes -= machine.push(&block[..block.len().min(*left_bytes)]);
                }
                if *left_bytes == 0 && machine.wants_data() && !std::mem::replace(finished, true) {
                    machine.finish(trailer);
                }
                while machine.poll_event().is_some() {}
                let added_bytes = machine.streams().map_or(0, |streams| streams.memory().added_bytes());
                flow.set(Flow { added_bytes: noted.added_bytes.max(added_bytes), ..noted });
            }
            Process::Receiver { machine, taken_bytes, flow } => {
                if take(machine, taken_bytes, now) {
                    let noted = flow.get();
                    flow.set(Flow { first: noted.first.or(Some(now)), last: now, complete: noted.complete + 1, ..noted });
                }
                while machine.poll_event().is_some() {}
            }
        }
    }
}

impl Machine for Process {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        if let Process::Root { flow, .. } = self {
            let noted = flow.get();
            let flows = noted.began.is_some() && noted.first.is_none();
            flow.set(Flow { heard: noted.heard + u64::from(flows), ..noted });
        }
        self.machine_mut().handle_frame(now, frame);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.machine_mut().handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.machine_mut().poll_transmit(now, buffer)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        self.machine().poll_timeout(now)
    }
}

impl Case {
    fn payload_bytes(&self) -> usize {
        usize::from(self.mtu_bytes) - HEADER_BYTES
    }

    fn station(&self, host: usize) -> Station {
        Station {
            host: format!("n{host}"),
            group: GROUP.to_owned(),
            mac: host_mac(host),
            group_mac: group_mac(GROUP),
            ether_type: EtherType::DEFAULT,
            mtu_bytes: self.mtu_bytes,
        }
    }

    fn tuning(&self) -> Tuning {
        Tuning::default().with_feed_frames(self.feed_frames)
    }

    fn trailer(&self) -> Trailer {
        // Whether bytes arrive as they were sent is for the tests to say.
        Trailer { bytes: (self.frames * self.payload_bytes()) as u64, digest: [7; 32] }
    }

    fn root(&self, flow: &Rc<Cell<Flow>>) -> Process {
        let wanted = Wanted { at_least: self.receivers, enough: Some(self.receivers), patience: Duration::from_secs(60) };
        let config = RootConfig {
            size: Some(self.trailer().bytes),
            wanted,
            route: Route::Via(Via::Cast),
            probe: false,
            tuning: self.tuning(),
            ..RootConfig::new(self.station(0), 0x5CA1_E000 ^ self.seed as u32, "scale")
        };
        let machine = Box::new(Root::new(Instant::START, config));
        Process::Root { machine, left_bytes: self.trailer().bytes as usize, finished: false, flow: Rc::clone(flow) }
    }

    fn receiver(&self, host: usize, flow: &Rc<Cell<Flow>>) -> Process {
        let config = ReceiverConfig { tuning: self.tuning(), ..ReceiverConfig::new(self.station(host), host as u64) };
        Process::Receiver { machine: Box::new(Receiver::new(Instant::START, config)), taken_bytes: 0, flow: Rc::clone(flow) }
    }

    fn network(&self) -> Network {
        let settings = HostSettings {
            groups: vec![group_mac(GROUP)],
            nic_receive_frames: 4096,
            nic_transmit_frames: QUEUE_FRAMES,
            ..HostSettings::default()
        };
        let rate = self.rate_bits_per_second * (u64::from(self.mtu_bytes) + LINK_BYTES) / (FULL_MTU_BYTES + LINK_BYTES);
        let cable = Cable::new(rate, Duration::from_nanos(500));
        Network::star(self.receivers + 1, cable, &settings).with_mtu_bytes(usize::from(self.mtu_bytes))
    }
}

/// What is looked for on the way, and lost.
struct Watch {
    random: RandomFaults,
    all_lose: Option<u64>,
    reports: Rc<Cell<usize>>,
}

impl Faults for Watch {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        if let (Some(sequence), Ok(frame)) = (self.all_lose, parse(delivery.frame)) {
            let header = &frame.header;
            let ack = (delivery.to == 0 && header.kind == Kind::ACK).then(|| Ack::parse(&frame)).flatten();
            let tells = ack.is_some_and(|ack| !ack.has(sequence) && ack.covered() > sequence);
            self.reports.set(self.reports.get() + usize::from(tells));
            if header.kind == Kind::DATA && header.sequence == sequence && !header.flags.has(Flags::RESENT) {
                return Fate::Drop;
            }
        }
        self.random.fate(delivery)
    }
}

/// Plays a session to its end.
pub fn play(case: &Case) -> anyhow::Result<Played> {
    let (flow, reports) = (Rc::new(Cell::new(Flow::default())), Rc::new(Cell::new(0)));
    let random = RandomFaults::new(case.seed).loss(case.loss);
    let watch = Watch { random, all_lose: case.all_lose, reports: Rc::clone(&reports) };
    let receivers = (1..=case.receivers).map(|host| case.receiver(host, &flow));
    let machines = std::iter::once(case.root(&flow)).chain(receivers).collect();
    let mut simulation = Simulation::new(&case.network(), machines, watch);
    let (trailer, block) = (case.trailer(), vec![0; case.payload_bytes()]);
    let outcome = simulation.run(Instant::START + Duration::from_secs(120), |_, process, now| {
        process.turn(now, trailer, &block);
        None
    });
    ensure!(outcome.is_quiet(), "{case:?}: {outcome:?}, next {:?}", simulation.next_deadline());
    let flow = flow.get();
    let (began, first, last) = (flow.began.unwrap_or_default(), flow.first.unwrap_or_default(), flow.last);
    ensure!(flow.complete == case.receivers, "{case:?}: {} receivers have everything", flow.complete);
    let stats: Vec<StreamStats> = simulation.machines().iter().map(Process::stats).collect();
    Ok(Played {
        heard_per_second: flow.heard as f64 / first.since(began).as_secs_f64(),
        goodput_percent: 100.0 * case.frames as f64 * FULL_PAYLOAD_BYTES * 8.0
            / last.since(began).as_secs_f64()
            / case.rate_bits_per_second as f64,
        added_bytes: flow.added_bytes,
        reports: reports.get(),
        root: stats[0],
        all: stats.into_iter().fold(StreamStats::default(), |sum, one| sum + one),
    })
}

/// The application takes what is there; whether that was the end.
fn take(machine: &mut Receiver, taken_bytes: &mut u64, now: Instant) -> bool {
    let mut end = None;
    while let Some(arrival) = machine.peek() {
        match arrival {
            Arrival::Bytes(bytes) | Arrival::Message(bytes) => *taken_bytes += bytes.len() as u64,
            Arrival::End(trailer) => end = Some(trailer),
        }
        machine.consume(now);
    }
    if let Some(Trailer { bytes, digest }) = end {
        let outcome = if bytes == *taken_bytes { Outcome::Delivered } else { Outcome::Damaged };
        machine.conclude(now, outcome, *taken_bytes, digest, "");
    }
    end.is_some()
}
