//! Example: a broadcast from one host to three on a simulated switch that loses one frame in fifty.
//!
//! `cargo run -p ethbcast-transport --example simulated_broadcast`
//!
//! `[dependencies]` of its Cargo.toml: `ethbcast-transport = { path = "../ethbcast/transport" }`.

use ethbcast_transport::Alone;
use ethbcast_transport::sim::{Cable, HostSettings, Network, RandomFaults, Simulation, host_mac};
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{EtherType, Rank, StreamId, group_mac};
use ethbcast_transport::wire::{Guard, Identity, Peer};
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

const HOSTS: usize = 4;
const FRAMES: usize = 1000;
const PAYLOAD_BYTES: usize = 1468;

fn main() {
    let group = group_mac("example");
    let settings = HostSettings {
        groups: vec![group],
        ..HostSettings::default()
    };
    let network = Network::star(HOSTS, Cable::GIGABIT, &settings);
    let peer = |host: usize| Peer {
        rank: Rank(host as u16),
        mac: host_mac(host),
    };
    let machine = |host: usize| {
        let identity = Identity {
            session: 7,
            stream: StreamId(1),
            rank: Rank(host as u16),
            mac: host_mac(host),
            ether_type: EtherType::DEFAULT,
            guard: Guard::Plain,
        };
        Alone::new(match host {
            0 => {
                let outlet = Outlet::Cast {
                    group,
                    listeners: (1..HOSTS).map(peer).collect(),
                };
                Stream::origin(identity, PAYLOAD_BYTES, &outlet, Tuning::default())
            }
            _ => Stream::receiver(
                identity,
                PAYLOAD_BYTES,
                peer(0),
                &Outlet::Lanes(Vec::new()),
                Tuning::default(),
            ),
        })
    };
    let mut simulation = Simulation::new(
        &network,
        (0..HOSTS).map(machine).collect(),
        RandomFaults::new(1).loss(0.02),
    );

    let (mut pushed, mut taken) = (0, [0; HOSTS]);
    let outcome = simulation.run(
        Instant::START + Duration::from_secs(10),
        |host, machine, now| {
            let stream = &mut machine.part;
            if host == 0 {
                let ending = |pushed| {
                    if pushed + 1 == FRAMES {
                        Ending::Stream
                    } else {
                        Ending::None
                    }
                };
                while pushed < FRAMES && stream.push(&[pushed as u8; PAYLOAD_BYTES], ending(pushed))
                {
                    pushed += 1;
                }
                return None;
            }
            while let Some((payload, _ending)) = stream.peek() {
                assert!(
                    payload.iter().all(|&byte| byte == taken[host] as u8),
                    "bytes in their place, in order"
                );
                taken[host] += 1;
                stream.consume(now);
            }
            None
        },
    );

    let stats = simulation.machines()[0].part.stats();
    println!(
        "{outcome:?}: {taken:?} frames taken, {} sent, {} repaired",
        stats.data_sent, stats.data_resent
    );
    assert!(taken[1..].iter().all(|&count| count == FRAMES));
}
