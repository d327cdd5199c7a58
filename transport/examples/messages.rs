//! Example: time of a message between two hosts on a simulated 1 Gbit/s switch, by its length.
//!
//! `cargo run -p ethbcast-transport --example messages`
//!
//! `[dependencies]` of its Cargo.toml: `ethbcast-transport = { path = "../ethbcast/transport" }`.

use ethbcast_transport::messages::{Completion, Mailbox, RecvOutcome, Settings};
use ethbcast_transport::sim::{Cable, HostSettings, Network, NoFaults, Simulation, host_mac};
use ethbcast_transport::wire::{EtherType, Rank, StreamId};
use ethbcast_transport::wire::{Guard, Identity, Peer};
use ethbcast_transport::{Alone, Instant};
use std::time::Duration;

const PAYLOAD_BYTES: usize = 1468;
const TAG: u32 = 1;
/// Delay of a frame by a card that moderates its interrupts.
const WAKE_UP: Duration = Duration::from_micros(20);

fn main() {
    println!("microseconds from the send to the end of the receive, and frames of both hosts");
    println!(
        "{:>9} | {:>15} {:>15} | {:>15} {:>15}",
        "bytes", "default, posted", "late by 1 ms", "paper, posted", "late by 1 ms"
    );
    for length in [0, 64, 860, 1436, 4096, 18_668, 65_536, 1 << 20, 16 << 20] {
        let one = |settings: &Settings, late| {
            let (micros, frames) = transfer(length, settings, late);
            format!("{micros:.0} ({frames})")
        };
        let (default, paper, late) = (
            Settings::default(),
            Settings::paper(),
            Duration::from_millis(1),
        );
        let times = [
            one(&default, Duration::ZERO),
            one(&default, late),
            one(&paper, Duration::ZERO),
            one(&paper, late),
        ];
        println!(
            "{length:>9} | {:>15} {:>15} | {:>15} {:>15}",
            times[0], times[1], times[2], times[3]
        );
    }
}

/// Sends one message from host 0 to host 1, whose receive is posted `late` after that.
fn transfer(length: usize, settings: &Settings, late: Duration) -> (f64, u64) {
    let host_settings = HostSettings {
        wake_up: WAKE_UP,
        ..HostSettings::default()
    };
    let network = Network::star(2, Cable::GIGABIT, &host_settings);
    let peers = [0, 1].map(|rank| Peer {
        rank: Rank(rank),
        mac: host_mac(rank.into()),
    });
    let machine = |rank: u16| {
        let identity = Identity {
            session: 7,
            stream: StreamId(0),
            rank: Rank(rank),
            mac: host_mac(rank.into()),
            ether_type: EtherType::DEFAULT,
            guard: Guard::Plain,
        };
        Alone::new(Mailbox::new(
            identity,
            &peers,
            PAYLOAD_BYTES,
            settings.clone(),
        ))
    };
    let mut simulation = Simulation::new(&network, vec![machine(0), machine(1)], NoFaults);
    let (mut asked, mut received_at) = ([false; 2], None);
    let outcome = simulation.run(
        Instant::START + Duration::from_secs(10),
        |host, mailbox: &mut Alone<Mailbox>, now| {
            let at = Instant::START + if host == 1 { late } else { Duration::ZERO };
            if !asked[host] && now >= at {
                asked[host] = true;
                match host {
                    0 => drop(
                        mailbox
                            .part
                            .send(Rank(1), TAG, vec![7; length])
                            .expect("the send queue is empty"),
                    ),
                    _ => drop(
                        mailbox
                            .part
                            .recv(Rank(0), TAG, length)
                            .expect("the receive queue is empty"),
                    ),
                }
            }
            while let Some(completion) = mailbox.part.poll_completion() {
                if let Completion::Recv {
                    outcome: RecvOutcome::Received { bytes },
                    ..
                } = completion
                {
                    assert!(
                        bytes.len() == length && bytes.iter().all(|&byte| byte == 7),
                        "the message as it was sent"
                    );
                    received_at = Some(now);
                }
            }
            (!asked[host]).then_some(at)
        },
    );
    assert!(outcome.is_quiet(), "{outcome:?}");
    let frames = (0..2)
        .map(|host| simulation.stats().hosts[host].sent_frames)
        .sum();
    (
        received_at
            .expect("it was received")
            .since(Instant::START)
            .as_secs_f64()
            * 1e6,
        frames,
    )
}
