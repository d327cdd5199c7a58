//! Test helper: simulates a broadcast to many receivers in little memory, with short frames on
//! slower cables. Frames carry 64 bytes instead of 1500, over cables that are slower in proportion,
//! so the timing is that of full frames. Acknowledgements then take longer than in reality, so
//! figures about them are pessimistic.

use ethbcast_transport::Alone;
use ethbcast_transport::sim::{Cable, Faults, HostSettings, Network, Simulation, host_mac};
use ethbcast_transport::stream::{Ending, Outlet, Stream, StreamStats};
use ethbcast_transport::wire::{EtherType, Rank, StreamId, group_mac};
use ethbcast_transport::wire::{Guard, Identity, Peer};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine, Timer, Tuning};
use std::time::Duration;

const PAYLOAD_BYTES: usize = 64;
/// Bytes of such a frame on the wire, and of a full one: headers of 46 bytes, and 24 of preamble,
/// checksum and gap.
const WIRE_BYTES: u64 = PAYLOAD_BYTES as u64 + 46 + 24;
const FULL_WIRE_BYTES: u64 = 1514 + 24;

pub struct Crowd {
    pub receivers: usize,
    pub fan_out: Option<usize>,
    pub frames: u64,
    pub rate_bits_per_second: u64,
    pub tuning: Tuning,
    pub session: u32,
}

#[derive(Debug)]
pub struct Found {
    /// Wire time of full frames as a share of the time until each receiver had everything; by
    /// receiver, in percent.
    pub goodput_percent: Vec<f64>,
    pub received_per_second: f64,
    pub added_bytes: usize,
    pub repair_child_bytes: usize,
    pub root: StreamStats,
    pub totals: StreamStats,
}

/// Beginning of the cast: by then every host has sent a frame, so that the switch knows its port.
/// Otherwise it would flood the first acknowledgements.
const BEGIN: Instant = Instant::from_nanos(50_000_000);
const BETWEEN_GREETINGS: Duration = Duration::from_micros(20);

/// A stream whose host first sends a greeting, from which the switch learns its port.
struct Host {
    lone: Alone<Stream>,
    mac: MacAddr,
    greets_at: Option<Instant>,
    now: Instant,
}

impl Host {
    fn new(host: usize, stream: Stream) -> Host {
        let greets_at = Some(Instant::START + BETWEEN_GREETINGS * host as u32);
        Host {
            lone: Alone::new(stream),
            mac: host_mac(host),
            greets_at,
            now: Instant::START,
        }
    }
}

impl Machine for Host {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.now = now;
        // Greetings are only for the switch.
        if now >= BEGIN {
            self.lone.handle_frame(now, frame);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.lone.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.now = now;
        if self.greets_at.take_if(|at| *at <= now).is_some() {
            buffer[..6].copy_from_slice(&host_mac(0).octets());
            buffer[6..12].copy_from_slice(&self.mac.octets());
            buffer[12..60].fill(0);
            return Some(60);
        }
        self.lone.poll_transmit(now, buffer)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let greeting = self.greets_at.map(|at| Deadline {
            at,
            why: Timer("greeting"),
        });
        greeting
            .into_iter()
            .chain(self.lone.poll_timeout(now))
            .min()
    }
}

impl Crowd {
    fn parent(&self, host: usize) -> usize {
        self.fan_out
            .map_or(0, |fan_out| host.saturating_sub(1) / fan_out)
    }

    fn stream(&self, host: usize) -> Stream {
        let peer = |host: usize| Peer {
            rank: Rank(host as u16),
            mac: host_mac(host),
        };
        let mac = host_mac(host);
        let identity = Identity {
            session: self.session,
            stream: StreamId(1),
            rank: Rank(host as u16),
            mac,
            ether_type: EtherType::DEFAULT,
            guard: Guard::Plain,
        };
        let acknowledging: Vec<Peer> = (1..=self.receivers)
            .filter(|&child| self.parent(child) == host && child != host)
            .map(peer)
            .collect();
        let position = host.saturating_sub(1);
        let tuning = match self.fan_out {
            Some(fan_out) => self
                .tuning
                .for_ack_tree(self.receivers, fan_out, position % fan_out),
            None => self.tuning.for_cast(self.receivers, position),
        };
        if host == 0 {
            let outlet = Outlet::Cast {
                group: group_mac("crowd"),
                listeners: acknowledging,
            };
            return Stream::origin(identity, PAYLOAD_BYTES, &outlet, tuning);
        }
        let outlet = Outlet::RepairChildren(acknowledging);
        let mut stream = Stream::receiver(
            identity,
            PAYLOAD_BYTES,
            peer(self.parent(host)),
            &outlet,
            tuning,
        );
        stream.set_origin(peer(0));
        stream
    }

    pub fn run(&self, faults: impl Faults) -> Found {
        let frame_time =
            Duration::from_nanos(FULL_WIRE_BYTES * 8 * 1_000_000_000 / self.rate_bits_per_second);
        let rate = self.rate_bits_per_second * WIRE_BYTES / FULL_WIRE_BYTES;
        let settings = HostSettings {
            groups: vec![group_mac("crowd")],
            nic_receive_frames: 4096,
            nic_transmit_frames: 32,
            ..HostSettings::default()
        };
        let network = Network::star(
            self.receivers + 1,
            Cable::new(rate, Duration::from_nanos(500)),
            &settings,
        );
        let machines = (0..=self.receivers)
            .map(|host| Host::new(host, self.stream(host)))
            .collect();
        let mut simulation = Simulation::new(&network, machines, faults);
        let mut pushed = 0;
        let mut taken = vec![(0, BEGIN); self.receivers + 1];
        let (mut added_bytes, mut repair_child_bytes) = (0, 0);
        let outcome = simulation.run(
            Instant::START + Duration::from_secs(60),
            |host, machine, now| {
                let stream = &mut machine.lone.part;
                if host == 0 && now < BEGIN {
                    return Some(BEGIN);
                }
                if host == 0 {
                    let ending = |pushed| {
                        if pushed + 1 == self.frames {
                            Ending::Stream
                        } else {
                            Ending::None
                        }
                    };
                    while pushed < self.frames && stream.push(&[0; PAYLOAD_BYTES], ending(pushed)) {
                        pushed += 1;
                    }
                    added_bytes = added_bytes.max(stream.memory().added_bytes());
                    return None;
                }
                if host == 1 {
                    repair_child_bytes = repair_child_bytes.max(stream.memory().added_bytes());
                }
                while stream.peek().is_some() {
                    stream.consume(now);
                    taken[host] = (taken[host].0 + 1, now);
                }
                None
            },
        );
        assert!(
            outcome.is_quiet(),
            "{outcome:?}, {:?}",
            simulation.next_deadline()
        );
        let short = taken[1..]
            .iter()
            .filter(|(count, _)| *count != self.frames)
            .count();
        assert_eq!(short, 0, "receivers that lack frames");
        for machine in simulation.machines() {
            machine
                .lone
                .part
                .audit()
                .unwrap_or_else(|why| panic!("{why}"));
        }
        let done = taken[1..]
            .iter()
            .map(|(_, at)| at.since(BEGIN).as_secs_f64())
            .fold(0.0, f64::max);
        let percent = |at: Instant| {
            100.0 * frame_time.as_secs_f64() * self.frames as f64 / at.since(BEGIN).as_secs_f64()
        };
        let stats = |machine: &Host| machine.lone.part.stats();
        Found {
            goodput_percent: taken[1..].iter().map(|&(_, at)| percent(at)).collect(),
            received_per_second: (simulation.stats().hosts[0].received_frames
                - self.receivers as u64) as f64
                / done,
            added_bytes,
            repair_child_bytes,
            root: stats(&simulation.machines()[0]),
            totals: simulation
                .machines()
                .iter()
                .map(stats)
                .fold(StreamStats::default(), |sum, one| sum + one),
        }
    }
}
