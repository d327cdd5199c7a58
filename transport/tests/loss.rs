//! What loss costs a chain: a relay passes on what it has, so that a hop pays for the frames that are lost on its own
//! cable, and not for those of all hops before it.

use ethbcast_transport::sim::{Cable, HostSettings, Network, Outcome, RandomFaults, Simulation, host_mac};
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{EtherType, Identity, OVERHEAD_BYTES, Peer, Rank, StreamId};
use ethbcast_transport::{Alone, Instant, Tuning};
use std::time::Duration;

const HOSTS: usize = 8;
/// A full frame's payload at an MTU of 1500.
const PAYLOAD_BYTES: usize = 1468;
const BITS_PER_SECOND: u64 = 100_000_000;
/// Preamble, checksum and gap around each frame.
const AROUND_BYTES: usize = 24;

fn peer(host: usize) -> Peer {
    Peer { rank: Rank(host as u16), mac: host_mac(host) }
}

fn stream(host: usize) -> Stream {
    let Peer { rank, mac } = peer(host);
    let identity = Identity { session: 9, stream: StreamId(1), rank, mac, ether_type: EtherType::DEFAULT };
    let outlet = Outlet::Lanes((host + 1..HOSTS).take(1).map(peer).collect());
    match host {
        0 => Stream::origin(identity, PAYLOAD_BYTES, &outlet, Tuning::default()),
        _ => Stream::receiver(identity, PAYLOAD_BYTES, peer(host - 1), &outlet, Tuning::default()),
    }
}

/// Sends so many frames down the chain, `loss` of all deliveries lost as the seed has it (acknowledgements too); how
/// long that takes, as a multiple of what the frames take on a cable once.
fn chain(seed: u64, frames: u64, loss: f64) -> f64 {
    let network = Network::star(HOSTS, Cable::new(BITS_PER_SECOND, Duration::from_micros(5)), &HostSettings::default());
    let machines = (0..HOSTS).map(|host| Alone::new(stream(host))).collect();
    let mut simulation = Simulation::new(&network, machines, RandomFaults::new(seed).loss(loss));
    let (mut pushed, mut taken) = (0, [0; HOSTS]);
    let outcome = simulation.run(Instant::START + Duration::from_secs(600), |host, machine, now| {
        let stream = &mut machine.part;
        stream.audit().unwrap_or_else(|why| panic!("host {host}: {why}"));
        if host == 0 {
            let ending = |pushed| if pushed + 1 == frames { Ending::Stream } else { Ending::None };
            while pushed < frames && stream.push(&[pushed as u8; PAYLOAD_BYTES], ending(pushed)) {
                pushed += 1;
            }
            return None;
        }
        while let Some((bytes, _)) = stream.peek() {
            assert!(
                bytes.len() == PAYLOAD_BYTES && bytes[0] == taken[host] as u8,
                "host {host}, frame {}",
                taken[host]
            );
            taken[host] += 1;
            stream.consume(now);
        }
        None
    });
    let Outcome::Quiet { at } = outcome else { panic!("loss {loss}: {outcome:?}, {taken:?} of {frames} taken") };
    assert!(taken[1..].iter().all(|&taken| taken == frames), "{taken:?}");
    let frame_bytes = PAYLOAD_BYTES + OVERHEAD_BYTES + AROUND_BYTES;
    let limit = frames as f64 * 8.0 * frame_bytes as f64 / BITS_PER_SECOND as f64;
    at.since(Instant::START).as_secs_f64() / limit
}

/// The median of five.
fn median(frames: u64, loss: f64) -> f64 {
    let mut times: Vec<f64> = (0..5).map(|seed| chain(seed, frames, loss)).collect();
    times.sort_by(f64::total_cmp);
    times[2]
}

#[test]
fn loss_costs_a_chain_what_it_costs_one_hop() {
    for (mebibytes, loss, most) in [(16, 0.0, 1.01), (32, 0.01, 1.03), (16, 0.1, 1.2), (8, 0.3, 2.3)] {
        let times = median((mebibytes << 20) / PAYLOAD_BYTES as u64, loss);
        println!("{mebibytes} MiB to {} hosts by chain, {loss} lost: {times:.3} of the limit", HOSTS - 1);
        assert!(times <= most, "{mebibytes} MiB, {loss} lost: {times:.3} of the limit, bound {most}");
    }
}
