//! Processor cost of a frame at the sender, a relay and the last host, in instructions counted by
//! callgrind. It is the difference between two runs under callgrind, one of which has one more
//! relay or more frames.
//!
//! `valgrind --tool=callgrind target/release/examples/passing_on RELAYS FRAMES PAYLOAD_BYTES`
//!
//! `[dependencies]` of its Cargo.toml: `ethbcast-transport = { path = "../ethbcast/transport" }`.

use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{
    EtherType, Guard, Identity, MacAddr, OVERHEAD_BYTES, Peer, Rank, StreamId,
};
use ethbcast_transport::{Alone, Instant, Machine, Tuning};
use std::time::Duration;

const BATCH: usize = 32;

fn peer(rank: u16) -> Peer {
    Peer {
        rank: Rank(rank),
        mac: MacAddr::new(2, 0, 0, 0, 0, rank as u8),
    }
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|word| word.parse::<usize>().expect("a number"));
    let mut next = |otherwise| arguments.next().unwrap_or(otherwise);
    let (relays, frames, payload_bytes) = (next(1), next(20_000), next(1468));
    let last = relays as u16 + 1;
    let mut hosts: Vec<Alone<Stream>> = (0..=last)
        .map(|rank| {
            let (stream, ether_type) = (StreamId(1), EtherType::DEFAULT);
            let Peer { rank: own, mac } = peer(rank);
            let identity = Identity {
                session: 7,
                stream,
                rank: own,
                mac,
                ether_type,
                guard: Guard::Plain,
            };
            let children = if rank < last {
                vec![peer(rank + 1)]
            } else {
                Vec::new()
            };
            let (outlet, tuning) = (Outlet::Lanes(children), Tuning::default());
            Alone::new(match rank {
                0 => Stream::origin(identity, payload_bytes, &outlet, tuning),
                _ => Stream::receiver(identity, payload_bytes, peer(rank - 1), &outlet, tuning),
            })
        })
        .collect();
    let payload = vec![0x5A; payload_bytes];
    let mut buffer = vec![0; OVERHEAD_BYTES + payload_bytes];
    let (mut now, mut pushed, mut received) = (Instant::START, 0, 0);
    while received < frames {
        now += Duration::from_micros(100);
        for _ in 0..BATCH {
            let ending = if pushed + 1 == frames {
                Ending::Stream
            } else {
                Ending::None
            };
            pushed += usize::from(pushed < frames && hosts[0].part.push(&payload, ending));
        }
        for at in 0..hosts.len() {
            if hosts[at]
                .poll_timeout(now)
                .is_some_and(|deadline| deadline.at <= now)
            {
                hosts[at].handle_timeout(now);
            }
            while let Some(length) = hosts[at].poll_transmit(now, &mut buffer) {
                let to = buffer[5];
                hosts[usize::from(to)].handle_frame(now, &buffer[..length]);
            }
            if at > 0 {
                let stream = &mut hosts[at].part;
                while stream.peek().is_some() {
                    stream.consume(now);
                    received += usize::from(at == usize::from(last));
                }
            }
        }
    }
    println!("{frames} frames of {payload_bytes} bytes went past {relays} relays");
}
