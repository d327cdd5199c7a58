//! One whole session under the simulator, from ANNOUNCE to VERDICT, and its costs at the root.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::ensure;
use ethbcast_collectives::session::application::{Next, Participant, Sink, Source};
use ethbcast_collectives::session::{
    Done, Outcome, Receiver, ReceiverConfig, Root, RootConfig, Route, Station, Trailer, Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::{
    Cable, Delivery, Fate, Faults, HostSettings, Network, RandomFaults, Simulation, host_mac,
};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::{Ack, Flags, HEADER_BYTES, Kind, group_mac, parse};
use ethbcast_transport::{Deadline, Instant, Machine, Tuning};

const GROUP: &str = "scale";
/// Bytes on the wire beside a frame's MTU: the Ethernet header; preamble, checksum and gap.
const LINK_BYTES: u64 = 14 + 24;
const FULL_MTU_BYTES: u64 = 1500;
const FULL_PAYLOAD_BYTES: f64 = 1468.0;
const QUEUE_FRAMES: usize = 32;

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub receivers: usize,
    pub frames: usize,
    pub mtu_bytes: u16,
    /// Rate at which full frames would take as long as the simulated ones do.
    pub rate_bits_per_second: u64,
    pub feed_frames: u64,
    pub loss: f64,
    pub all_lose: Option<u64>,
    pub seed: u64,
}

#[derive(Debug)]
pub struct Played {
    pub heard_per_second: f64,
    /// Goodput as a share of full frames' payload at the named rate, until the last receiver had
    /// everything.
    pub goodput_percent: f64,
    pub added_bytes: usize,
    pub reports: usize,
    pub root: StreamStats,
    pub all: StreamStats,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    began: Option<Instant>,
    first: Option<Instant>,
    last: Instant,
    complete: usize,
    heard: u64,
    added_bytes: usize,
}

impl Flow {
    fn note(flow: &Rc<Cell<Flow>>, change: impl FnOnce(Flow) -> Flow) {
        flow.set(change(flow.get()));
    }
}

struct Zeros {
    block: Vec<u8>,
    left_bytes: usize,
    trailer: Trailer,
    flow: Rc<Cell<Flow>>,
}

impl Source for Zeros {
    fn next(&mut self, now: Instant, _passed: bool) -> Next<'_> {
        if self.left_bytes == 0 {
            return Next::End(self.trailer);
        }
        Flow::note(&self.flow, |noted| Flow { began: noted.began.or(Some(now)), ..noted });
        Next::Bytes(&self.block[..self.block.len().min(self.left_bytes)])
    }

    fn advance(&mut self, bytes: usize) {
        self.left_bytes -= bytes;
    }
}

struct Counter {
    bytes: u64,
    trailer: Option<Trailer>,
    flow: Rc<Cell<Flow>>,
}

impl Sink for Counter {
    fn write(&mut self, _now: Instant, bytes: &[u8], _message_end: bool) {
        self.bytes += bytes.len() as u64;
    }

    fn finish(&mut self, now: Instant, trailer: Trailer) {
        self.trailer = Some(trailer);
        let Flow { first, complete, .. } = self.flow.get();
        Flow::note(&self.flow, |noted| Flow { first: first.or(Some(now)), complete: complete + 1, last: now, ..noted });
    }

    fn verdict(&mut self, _now: Instant) -> Option<Done> {
        let Trailer { bytes, digest } = self.trailer.take()?;
        let outcome = if bytes == self.bytes { Outcome::Verified } else { Outcome::Damaged };
        Some(Done { outcome, bytes: self.bytes, digest, text: String::new() })
    }
}

struct Host {
    participant: Participant<Zeros, Counter>,
    flow: Rc<Cell<Flow>>,
}

impl Host {
    fn turn(&mut self, now: Instant) -> Option<Instant> {
        let again = self.participant.turn(now);
        if self.participant.sending().is_some() {
            let added_bytes = self.participant.streams().map_or(0, |streams| streams.memory().added_bytes());
            Flow::note(&self.flow, |noted| Flow { added_bytes: noted.added_bytes.max(added_bytes), ..noted });
        }
        again
    }
}

impl Machine for Host {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let noted = self.flow.get();
        let counts = self.participant.sending().is_some() && noted.began.is_some() && noted.first.is_none();
        self.flow.set(Flow { heard: noted.heard + u64::from(counts), ..noted });
        self.participant.handle_frame(now, frame);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.participant.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.participant.poll_transmit(now, buffer)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        self.participant.poll_timeout(now)
    }
}

impl Case {
    fn payload_bytes(&self) -> usize {
        usize::from(self.mtu_bytes) - HEADER_BYTES
    }

    fn station(&self, host: usize) -> Station {
        Station::new(GROUP, &format!("n{host}"), host_mac(host), self.mtu_bytes)
    }

    fn tuning(&self) -> Tuning {
        Tuning::default().with_feed_frames(self.feed_frames)
    }

    fn trailer(&self) -> Trailer {
        Trailer { bytes: (self.frames * self.payload_bytes()) as u64, digest: [7; 32] }
    }

    fn root(&self, flow: &Rc<Cell<Flow>>) -> Host {
        let config = RootConfig {
            size: Some(self.trailer().bytes),
            wanted: Wanted::exactly(self.receivers),
            route: Route::Via(Via::Cast),
            tuning: self.tuning(),
            probe: false,
            ..RootConfig::new(self.station(0), 0x5CA1_E000 ^ self.seed as u32, "scale")
        };
        let (block, left_bytes) = (vec![0; self.payload_bytes()], self.trailer().bytes as usize);
        let zeros = Zeros { block, left_bytes, trailer: self.trailer(), flow: Rc::clone(flow) };
        Host { participant: Participant::root(Root::new(Instant::START, config), zeros), flow: Rc::clone(flow) }
    }

    fn receiver(&self, host: usize, flow: &Rc<Cell<Flow>>) -> Host {
        let config = ReceiverConfig { tuning: self.tuning(), ..ReceiverConfig::new(self.station(host), host as u64) };
        let counter = Counter { bytes: 0, trailer: None, flow: Rc::clone(flow) };
        Host {
            participant: Participant::receiver(Receiver::new(Instant::START, config), counter),
            flow: Rc::clone(flow),
        }
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

pub fn play(case: &Case) -> anyhow::Result<Played> {
    let (flow, reports) = (Rc::new(Cell::new(Flow::default())), Rc::new(Cell::new(0)));
    let random = RandomFaults::new(case.seed).loss(case.loss);
    let watch = Watch { random, all_lose: case.all_lose, reports: Rc::clone(&reports) };
    let receivers = (1..=case.receivers).map(|host| case.receiver(host, &flow));
    let machines = std::iter::once(case.root(&flow)).chain(receivers).collect();
    let mut simulation = Simulation::new(&case.network(), machines, watch);
    let outcome = simulation.run(Instant::START + Duration::from_secs(120), |_, host, now| host.turn(now));
    ensure!(outcome.is_quiet(), "{case:?}: {outcome:?}, next {:?}", simulation.next_deadline());
    let flow = flow.get();
    let (began, first, last) = (flow.began.unwrap_or_default(), flow.first.unwrap_or_default(), flow.last);
    ensure!(flow.complete == case.receivers, "{case:?}: {} receivers have everything", flow.complete);
    let stats: Vec<StreamStats> = simulation.machines().iter().map(|host| host.participant.stream_stats()).collect();
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
