//! Tests of network measurements on simulated switches whose properties are known.

mod broadcast;
mod discovery;
mod hostile;
mod measuring;

use super::{Finder, HostInfo, ProbeResult, ProbeSettings, Prober, Processors, Responder, Surveyor};
use ethbcast_transport::sim::{Cable, Faults, HostSettings, Network, Simulation, SwitchSettings, host_mac};
use ethbcast_transport::wire::{EtherType, Frame, Guard, Identity, Peer, Rank, StreamId, group_mac};
use ethbcast_transport::{Alone, Deadline, Instant, MacAddr, Part};
use std::time::Duration;

const SESSION: u32 = 0x5e55;
const MTU_BYTES: usize = 1500;

#[derive(Debug)]
enum Host {
    Prober(Box<Prober>),
    Surveyor(Box<Surveyor>),
    Responder(Responder),
    Finder(Finder),
    Deaf,
}

impl Host {
    fn part(&mut self) -> Option<&mut dyn Part> {
        match self {
            Host::Prober(prober) => Some(&mut **prober),
            Host::Surveyor(surveyor) => Some(&mut **surveyor),
            Host::Responder(responder) => Some(responder),
            Host::Finder(finder) => Some(finder),
            Host::Deaf => None,
        }
    }
}

impl Part for Host {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        self.part().into_iter().for_each(|part| part.handle_frame(now, frame));
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.part().into_iter().for_each(|part| part.handle_timeout(now));
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.part()?.poll_transmit(now, buffer)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        match self {
            Host::Prober(prober) => prober.poll_timeout(now),
            Host::Surveyor(surveyor) => surveyor.poll_timeout(now),
            Host::Finder(finder) => finder.poll_timeout(now),
            Host::Responder(_) | Host::Deaf => None,
        }
    }
}

fn group() -> MacAddr {
    group_mac("test")
}

fn identity(host: usize) -> Identity {
    Identity {
        session: SESSION,
        stream: StreamId(0),
        rank: Rank(host as u16),
        mac: host_mac(host),
        ether_type: EtherType::DEFAULT,
        guard: Guard::Plain,
    }
}

fn responder(host: usize) -> Responder {
    let info = HostInfo { group: "test".to_owned(), host: format!("n{host}") };
    Responder::new(identity(host), MTU_BYTES, Some(info))
}

fn star(hosts: usize, rate_bits_per_second: u64) -> Network {
    let settings = HostSettings { groups: vec![group()], ..HostSettings::default() };
    Network::star(hosts, Cable::new(rate_bits_per_second, DELAY), &settings)
}

const DELAY: Duration = Duration::from_micros(5);

fn measure(network: &Network, settings: ProbeSettings, deaf: &[usize], faults: impl Faults) -> (ProbeResult, Duration) {
    measure_lending(network, settings, deaf, faults, |_| None)
}

fn measure_lending(
    network: &Network,
    settings: ProbeSettings,
    deaf: &[usize],
    faults: impl Faults,
    processors: impl Fn(usize) -> Option<Processors>,
) -> (ProbeResult, Duration) {
    let targets = (1..network.hosts()).map(|host| Peer { rank: Rank(host as u16), mac: host_mac(host) }).collect();
    let prober = Prober::new(Instant::START, identity(0), targets, settings).with_processors(processors(0));
    let answering = |host| Host::Responder(responder(host).with_processors(processors(host)));
    let others = (1..network.hosts()).map(|host| if deaf.contains(&host) { Host::Deaf } else { answering(host) });
    let machines = std::iter::once(Host::Prober(Box::new(prober))).chain(others).map(Alone::new).collect();
    let mut simulation = Simulation::new(network, machines, faults);
    let mut ended = None;
    let outcome = simulation.run(Instant::from_nanos(100_000_000_000), |_, machine, now| {
        if let (Host::Prober(prober), None) = (&machine.part, ended) {
            ended = prober.is_done().then_some(now);
        }
        None
    });
    assert!(outcome.is_quiet(), "a prober that is done is quiet: {outcome:?}");
    let Host::Prober(prober) = &simulation.machines()[0].part else { unreachable!("host 0 is the prober") };
    (prober.result(), ended.expect("it ended").since(Instant::START))
}

fn frame_nanos(payload_bytes: usize, rate_bits_per_second: u64) -> f64 {
    ((payload_bytes + 46).max(60) + 24) as f64 * 8e9 / rate_bits_per_second as f64
}

fn payloads(bytes: usize) -> Vec<usize> {
    let full = MTU_BYTES - 32;
    let rest = (!bytes.is_multiple_of(full)).then_some((bytes % full).max(8));
    std::iter::repeat_n(full, bytes / full).chain(rest).collect()
}

fn true_gap_nanos(bytes: usize, rate_bits_per_second: u64) -> f64 {
    payloads(bytes).iter().map(|&payload_bytes| frame_nanos(payload_bytes, rate_bits_per_second)).sum()
}

/// Returns RTT(m) on a star: twice over two cables, each frame stored and forwarded by the switch.
fn true_round_trip_nanos(bytes: usize, rate_bits_per_second: u64) -> f64 {
    let (mut first, mut second) = (0.0, 0.0_f64);
    for payload_bytes in payloads(bytes) {
        let nanos = frame_nanos(payload_bytes, rate_bits_per_second);
        first += nanos;
        second = second.max(first) + nanos;
    }
    2.0 * (second + 2.0 * DELAY.as_nanos() as f64)
}

#[track_caller]
fn assert_near(measured: u64, truth: f64, tolerance: f64, what: &str) {
    let error = measured as f64 / truth - 1.0;
    assert!(error.abs() <= tolerance, "{what}: measured {measured}, in truth {truth:.0}, {:.1} % off", error * 100.0);
}

fn policed(network: Network, frames_per_second: u64, burst_frames: u64) -> Network {
    let storm_control = Some(ethbcast_transport::sim::StormControl { frames_per_second, burst_frames });
    network.with_switches(SwitchSettings { storm_control, ..SwitchSettings::default() })
}
