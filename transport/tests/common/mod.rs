//! A broadcast of a few frames through simulated streams: everybody's bytes, order, audit and quiescence checked, the price returned.

use ethbcast_transport::sim::{Cable, Faults, HostSettings, Network, Outcome, Simulation, host_mac};
use ethbcast_transport::stream::{Ending, Identity, Lone, Outlet, Peer, Stream, StreamStats};
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

/// The path a broadcast takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Chain,
    Cast,
    /// The root to each of the others.
    Flat,
    /// The hypercube's tree: rank `r` receives from `r` without its lowest bit and sends to the farthest first.
    Binomial,
}

/// A broadcast to be simulated.
#[derive(Clone, Debug)]
pub struct Case {
    pub path: Path,
    pub hosts: usize,
    pub frames: u64,
    pub tuning: Tuning,
    /// What each receiver's application may have waiting before it takes anything (zero: it takes at once).
    pub lazy_frames: u64,
    /// The root ends a message after so many frames and waits until everybody has passed it (zero: one long stream).
    pub message_frames: u64,
}

/// What it cost.
#[derive(Clone, Copy, Debug)]
pub struct Price {
    pub quiet_at: Duration,
    pub totals: StreamStats,
    pub cable_frames: u64,
}

const PAYLOAD_BYTES: usize = 100;

/// Frame `sequence` of every test stream: its number, then a pattern, of varying length.
pub fn payload(sequence: u64) -> Vec<u8> {
    let length = 8 + (sequence * 13 % (PAYLOAD_BYTES as u64 - 8)) as usize;
    sequence.to_be_bytes().iter().copied().chain((8..length).map(|at| (at as u64 ^ sequence) as u8)).collect()
}

fn stream(case: &Case, host: usize) -> Stream {
    let peer = |host: usize| Peer { rank: host as u16, mac: host_mac(host) };
    let identity = Identity { session: 77, stream: 1, rank: host as u16, mac: host_mac(host), ether_type: 0x88B5 };
    let lowest_bit = |host: usize| if host == 0 { case.hosts.next_power_of_two() } else { 1 << host.trailing_zeros() };
    let children = match case.path {
        Path::Chain if host + 1 < case.hosts => vec![peer(host + 1)],
        Path::Flat if host == 0 => (1..case.hosts).map(peer).collect(),
        Path::Binomial => {
            let steps = std::iter::successors(Some(lowest_bit(host) / 2), |step| Some(step / 2)).take_while(|&step| step > 0);
            steps.map(|step| host + step).filter(|&child| child < case.hosts).map(peer).collect()
        }
        _ => vec![],
    };
    let outlet = match (case.path, host) {
        (Path::Cast, 0) => Outlet::Cast { group: group_mac("test"), listeners: (1..case.hosts).map(peer).collect() },
        _ => Outlet::Lanes(children),
    };
    let parent = match case.path {
        Path::Cast | Path::Flat => 0,
        Path::Chain => host.saturating_sub(1),
        Path::Binomial => host & host.saturating_sub(1),
    };
    match host {
        0 => Stream::origin(identity, PAYLOAD_BYTES, &outlet, case.tuning.clone()),
        _ => Stream::receiver(identity, PAYLOAD_BYTES, peer(parent), &outlet, case.tuning.clone()),
    }
}

/// Simulates `case` at 100 Mbit/s under `faults`; panics with `replay` in front of what is wrong.
pub fn broadcast(case: &Case, faults: impl Faults, replay: &str) -> Price {
    let settings = HostSettings { groups: vec![group_mac("test")], ..HostSettings::default() };
    let network = Network::star(case.hosts, Cable::new(100_000_000, Duration::from_micros(5)), &settings);
    let machines = (0..case.hosts).map(|host| Lone::new(stream(case, host))).collect();
    let mut simulation = Simulation::new(&network, machines, faults);
    simulation.set_event_limit(5_000_000);
    let mut pushed = 0;
    let mut taken = vec![0_u64; case.hosts];
    let mut turn = |host: usize, machine: &mut Lone, now: Instant| {
        let stream = &mut machine.stream;
        stream.audit().unwrap_or_else(|why| panic!("{replay}: host {host}: {why}"));
        if host == 0 {
            while pushed < case.frames {
                let ends = case.message_frames > 0 && (pushed + 1).is_multiple_of(case.message_frames);
                let starts = case.message_frames > 0 && pushed.is_multiple_of(case.message_frames);
                if starts && stream.passed() < pushed {
                    break;
                }
                let ending = match pushed + 1 == case.frames {
                    true => Ending::Stream,
                    false if ends => Ending::Message,
                    false => Ending::None,
                };
                if !stream.push(&payload(pushed), ending) {
                    break;
                }
                pushed += 1;
            }
            return None;
        }
        if stream.backlog_frames() < case.lazy_frames && !stream.feed().is_complete() {
            return None;
        }
        while let Some((bytes, ending)) = stream.peek() {
            assert_eq!(bytes, payload(taken[host]), "{replay}: host {host}, frame {}", taken[host]);
            assert_eq!(ending == Ending::Stream, taken[host] + 1 == case.frames, "{replay}: host {host}");
            taken[host] += 1;
            stream.consume();
        }
        stream.drained(now);
        None
    };
    let outcome = simulation.run(Instant::from_nanos(60_000_000_000), &mut turn);
    let Outcome::Quiet { at } = outcome else { panic!("{replay}: not quiet: {outcome:?}, taken {taken:?}") };
    assert!(taken[1..].iter().all(|&count| count == case.frames), "{replay}: taken {taken:?} of {}", case.frames);
    assert!(simulation.machines().iter().all(|machine| machine.stream.is_settled()), "{replay}: not settled");
    let totals =
        simulation.machines().iter().map(|machine| machine.stream.stats()).fold(StreamStats::default(), |sum, one| sum + one);
    assert_eq!(totals.forged_acks + totals.strangers, 0, "{replay}: {totals:?}");
    let cable_frames = (0..case.hosts).map(|host| simulation.host_stats(host).sent_frames).sum();
    Price { quiet_at: at.since(Instant::START), totals, cable_frames }
}
