//! Tests of heavily reordered frames: the cost, compared with frames that arrive in order.

use crate::hosts::{Host, PAYLOAD_BYTES, at, ending, hosts, take_all, tree};
use ethbcast_transport::sim::{Cable, Delivery, Faults, HostSettings, Network, NoFaults, RandomFaults, Simulation};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

const HOSTS: usize = 8;
/// Rate at which these short frames take as long as full ones do at 100 Mbit/s.
const RATE_BITS_PER_SECOND: u64 = 11_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Chain,
    Cast,
    AckTree,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    time: Duration,
    stats: StreamStats,
}

fn transfer(path: Path, frames: u64, faults: impl Faults) -> Taken {
    let tuning = Tuning::default();
    let lone = |tuning: &dyn Fn(usize) -> Tuning, parent: &dyn Fn(usize) -> usize| {
        hosts(HOSTS, tuning, parent).into_iter().map(|lone| Host::new(lone.part)).collect::<Vec<_>>()
    };
    let position = |host: usize| host.saturating_sub(1);
    let machines = match path {
        Path::Chain => tree(HOSTS, &tuning, |host| host - 1),
        Path::Cast => lone(&|host| tuning.for_cast(HOSTS - 1, position(host)), &|_| 0),
        Path::AckTree => {
            lone(&|host| tuning.for_ack_tree(HOSTS - 1, 2, position(host) % 2), &|host| position(host) / 2)
        }
    };
    let settings = HostSettings { groups: vec![group_mac("test")], ..HostSettings::default() };
    let network = Network::star(HOSTS, Cable::new(RATE_BITS_PER_SECOND, Duration::from_micros(5)), &settings);
    let mut simulation = Simulation::new(&network, machines, faults);

    simulation.set_event_limit(50_000_000);
    let (mut pushed, mut done) = (0, [Instant::START; HOSTS]);
    let outcome = simulation.run(at(600_000), |host, machine, now| {
        let stream = &mut machine.streams[0];
        if host == 0 {
            while pushed < frames && stream.push(&[0; PAYLOAD_BYTES], ending(pushed, frames)) {
                pushed += 1;
            }
        } else if stream.peek().is_some() {
            take_all(stream, now);
            done[host] = now;
        }
        None
    });
    assert!(outcome.is_quiet(), "{path:?}: {outcome:?}");
    assert!(simulation.machines()[1..].iter().all(|host| host.streams[0].feed().head() == frames), "{path:?}");
    let stats = simulation.machines().iter().map(|host| host.streams[0].stats());
    Taken {
        time: done[1..].iter().max().expect("seven").since(Instant::START),
        stats: stats.fold(StreamStats::default(), |sum, one| sum + one),
    }
}

const FRAMES: u64 = 11_500;
const MAX_JITTER: Duration = Duration::from_millis(20);

#[test]
fn jitter_of_20_ms_costs_less_than_as_much_again_and_hardly_a_frame_is_sent_twice() {
    for path in [Path::Chain, Path::Cast, Path::AckTree] {
        let without = transfer(path, FRAMES, NoFaults);
        for share in [1.0, 0.1] {
            let jitter = transfer(path, FRAMES, RandomFaults::new(1).reorder(share, MAX_JITTER));
            assert!(jitter.time < without.time * 2, "{path:?}, {share}: {jitter:?}, {:?} without", without.time);
            let again = jitter.stats.data_resent as f64 / jitter.stats.data_received as f64;
            // Reordering is measured at cursors, which move more seldom down a chain.
            let most = if path == Path::Chain { 0.04 } else { 0.03 };
            assert!(again < most, "{path:?}, {share}: {jitter:?}");
        }
    }
}

#[test]
fn loss_beside_the_jitter_is_found_all_the_same() {
    for path in [Path::Chain, Path::Cast, Path::AckTree] {
        let without = transfer(path, FRAMES, RandomFaults::new(1).loss(0.01));
        let jitter = transfer(path, FRAMES, RandomFaults::new(1).loss(0.01).reorder(1.0, MAX_JITTER));
        assert!(jitter.time < without.time * 2, "{path:?}: {jitter:?}, {:?} without", without.time);
    }
}

#[test]
fn once_frames_keep_their_order_again_a_loss_is_found_at_once_again() {
    let calm = Instant::START + Duration::from_millis(200);
    let play = |longest: Duration| {
        let mut before = RandomFaults::new(1).reorder(1.0, longest);
        let mut after = RandomFaults::new(1).loss(0.01);
        transfer(Path::Chain, FRAMES * 2, move |delivery: &Delivery<'_>| match delivery.at < calm {
            true => before.fate(delivery),
            false => after.fate(delivery),
        })
    };
    let (orderly, jitter) = (play(Duration::ZERO), play(MAX_JITTER));
    let late = jitter.time.saturating_sub(orderly.time);
    assert!(late < Duration::from_millis(700), "{:?} and {:?}", orderly.time, jitter.time);
}
