//! Tests of what frame loss costs, in frames sent, in relay chains and broadcasts. A chain's relay
//! forwards what it has, so that a hop pays only for the losses on its own cable, not for those of
//! all hops before it. The sender of a broadcast (cast) sends parity if several receivers have lost
//! different frames, so that all together cost as much as one.

use ethbcast_transport::sim::{
    Cable, HostSettings, Network, Outcome, RandomFaults, Simulation, host_mac,
};
use ethbcast_transport::stream::{Ending, Outlet, Stream, StreamStats};
use ethbcast_transport::wire::{
    EtherType, Guard, Identity, OVERHEAD_BYTES, Peer, Rank, StreamId, group_mac,
};
use ethbcast_transport::{Alone, Instant, Tuning};
use std::time::Duration;

const PAYLOAD_BYTES: usize = 1468;
const AROUND_BYTES: usize = 24;

#[derive(Clone, Copy)]
struct Case {
    is_cast: bool,
    receivers: usize,
    bits_per_second: u64,
    frames: u64,
    loss: f64,
    /// Frames queued in a host's card: they make the root's round trips long.
    queue_frames: usize,
}

fn peer(host: usize) -> Peer {
    Peer {
        rank: Rank(host as u16),
        mac: host_mac(host),
    }
}

fn payload(sequence: u64) -> [u8; PAYLOAD_BYTES] {
    let mut payload = [sequence as u8; PAYLOAD_BYTES];
    payload[..8].copy_from_slice(&sequence.to_be_bytes());
    payload[PAYLOAD_BYTES - 8..]
        .copy_from_slice(&(sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes());
    payload
}

impl Case {
    fn stream(&self, host: usize) -> Stream {
        let Peer { rank, mac } = peer(host);
        let identity = Identity {
            session: 9,
            stream: StreamId(1),
            rank,
            mac,
            ether_type: EtherType::DEFAULT,
            guard: Guard::Plain,
        };
        let others = host + 1..=self.receivers;
        if self.is_cast {
            let tuning = Tuning::default().for_cast(self.receivers, host.saturating_sub(1));
            let outlet = Outlet::Cast {
                group: group_mac("loss"),
                listeners: others.map(peer).collect(),
            };
            return match host {
                0 => Stream::origin(identity, PAYLOAD_BYTES, &outlet, tuning),
                _ => Stream::receiver(
                    identity,
                    PAYLOAD_BYTES,
                    peer(0),
                    &Outlet::Lanes(Vec::new()),
                    tuning,
                ),
            };
        }
        let outlet = Outlet::Lanes(others.take(1).map(peer).collect());
        match host {
            0 => Stream::origin(identity, PAYLOAD_BYTES, &outlet, Tuning::default()),
            _ => Stream::receiver(
                identity,
                PAYLOAD_BYTES,
                peer(host - 1),
                &outlet,
                Tuning::default(),
            ),
        }
    }

    /// Sends all frames under the losses of `seed`; returns the time as a multiple of the frames'
    /// time on a cable, and the root's counters.
    fn run(&self, seed: u64) -> (f64, StreamStats) {
        let &Case {
            receivers,
            bits_per_second,
            frames,
            loss,
            queue_frames,
            ..
        } = self;
        let groups = vec![group_mac("loss")];
        let settings = HostSettings {
            groups,
            nic_transmit_frames: queue_frames,
            ..HostSettings::default()
        };
        let network = Network::star(
            receivers + 1,
            Cable::new(bits_per_second, Duration::from_micros(5)),
            &settings,
        );
        let machines = (0..=receivers)
            .map(|host| Alone::new(self.stream(host)))
            .collect();
        let mut simulation =
            Simulation::new(&network, machines, RandomFaults::new(seed).loss(loss));
        let (mut pushed, mut taken) = (0, vec![0; receivers + 1]);
        let mut turns = 0_u64;
        let outcome = simulation.run(
            Instant::START + Duration::from_secs(600),
            |host, machine, now| {
                let stream = &mut machine.part;
                turns += 1;
                // Tests of `streams` audit after every event; here that would take most of the
                // time.
                if turns.is_multiple_of(61) {
                    stream
                        .audit()
                        .unwrap_or_else(|why| panic!("host {host}: {why}"));
                }
                if host == 0 {
                    let ending = |pushed| {
                        if pushed + 1 == frames {
                            Ending::Stream
                        } else {
                            Ending::None
                        }
                    };
                    while pushed < frames && stream.push(&payload(pushed), ending(pushed)) {
                        pushed += 1;
                    }
                    return None;
                }
                while let Some((bytes, _)) = stream.peek() {
                    assert!(
                        bytes == payload(taken[host]),
                        "host {host}, frame {}",
                        taken[host]
                    );
                    taken[host] += 1;
                    stream.consume(now);
                }
                None
            },
        );
        let Outcome::Quiet { at } = outcome else {
            panic!("loss {loss}: {outcome:?}, {taken:?} of {frames} taken")
        };
        assert!(taken[1..].iter().all(|&taken| taken == frames), "{taken:?}");
        let frame_bytes = PAYLOAD_BYTES + OVERHEAD_BYTES + AROUND_BYTES;
        let limit = frames as f64 * 8.0 * frame_bytes as f64 / bits_per_second as f64;
        (
            at.since(Instant::START).as_secs_f64() / limit,
            simulation.machines()[0].part.stats(),
        )
    }

    fn median(&self, runs: u64) -> (f64, StreamStats) {
        let mut found: Vec<(f64, StreamStats)> = (0..runs).map(|seed| self.run(seed)).collect();
        found.sort_by(|(first, _), (second, _)| first.total_cmp(second));
        found.swap_remove(found.len() / 2)
    }
}

fn frames(mebibytes: usize) -> u64 {
    ((mebibytes << 20) / PAYLOAD_BYTES) as u64
}

#[test]
fn loss_costs_a_chain_what_it_costs_one_hop() {
    for (mebibytes, loss, most) in [
        (16, 0.0, 1.01),
        (32, 0.01, 1.03),
        (16, 0.1, 1.2),
        (8, 0.3, 2.3),
    ] {
        let frames = frames(mebibytes);
        let case = Case {
            is_cast: false,
            receivers: 7,
            bits_per_second: 100_000_000,
            frames,
            loss,
            queue_frames: 32,
        };
        let (times, _) = case.median(5);
        println!("{mebibytes} MiB to 7 hosts by chain, {loss} lost: {times:.3} of the limit");
        assert!(
            times <= most,
            "{mebibytes} MiB, {loss} lost: {times:.3} of the limit, bound {most}"
        );
    }
}

#[test]
fn loss_costs_a_cast_what_it_costs_the_one_that_loses_most() {
    let rows = [
        (7, 100, 16, 0.0, 32, 1.01),
        (7, 100, 32, 0.01, 32, 1.035),
        (7, 100, 16, 0.1, 32, 1.22),
        (7, 100, 16, 0.3, 32, 1.7),
        (31, 25, 16, 0.01, 32, 1.06),
        (7, 100, 32, 0.01, 256, 1.035),
        (7, 100, 16, 0.1, 256, 1.22),
        (7, 100, 16, 0.3, 256, 1.7),
        (31, 25, 16, 0.01, 256, 1.06),
    ];
    // The gate takes each loss with one of the two queues.
    let all = std::env::var_os("ETHBCAST_FULL").is_some();
    let rows = rows.into_iter().enumerate();
    let rows = rows.filter(|(at, _)| all || [0, 2, 4, 5, 7].contains(at));
    let mut missed = Vec::new();
    for (_, (receivers, megabits, mebibytes, loss, queue_frames, most)) in rows {
        let (bits_per_second, frames) = (megabits * 1_000_000, frames(mebibytes));
        let case = Case {
            is_cast: true,
            receivers,
            bits_per_second,
            frames,
            loss,
            queue_frames,
        };
        let (times, stats) = case.median(3);
        let row = format!(
            "{mebibytes} MiB to {receivers} hosts by cast, {loss} lost, {queue_frames} queued"
        );
        let StreamStats {
            data_resent,
            parity_sent,
            heartbeats_sent,
            ..
        } = stats;
        let again = format!(
            "{data_resent} sent again, {parity_sent} of them parity, {heartbeats_sent} questions"
        );
        println!("{row}: {times:.3} of the limit, {again}");
        if times > most {
            missed.push(format!("{row}: {times:.3} of the limit, bound {most}"));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
