//! Test helper: hosts on one simulated switch, in a broadcast with any acknowledgement tree or in a
//! unicast tree.

use crate::common::{self, key, peer};
use ethbcast_transport::sim::{Cable, HostSettings, Network, host_mac};
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{Identity, Peer, StreamId, group_mac};
use ethbcast_transport::{Alone, Deadline, Instant, Machine, Part, Tuning};
use std::collections::VecDeque;
use std::time::Duration;

/// Creates a cast to `hosts - 1` receivers; `parent` gives the host to which each acknowledges.
pub fn hosts(
    hosts: usize,
    tuning: impl Fn(usize) -> Tuning,
    parent: impl Fn(usize) -> usize,
) -> Vec<Alone<Stream>> {
    let stream = |host: usize| {
        let children: Vec<Peer> = (1..hosts)
            .filter(|&child| child != host && parent(child) == host)
            .map(peer)
            .collect();
        if host == 0 {
            let outlet = Outlet::Cast {
                group: group_mac("test"),
                listeners: children,
            };
            return Stream::origin(common::identity(host), 100, &outlet, tuning(0));
        }
        let outlet = Outlet::RepairChildren(children);
        let mut stream = Stream::receiver(
            common::identity(host),
            100,
            peer(parent(host)),
            &outlet,
            tuning(host),
        );
        stream.set_origin(peer(0));
        stream
    };
    (0..hosts).map(|host| key::alone(stream(host))).collect()
}

pub fn star(hosts: usize) -> Network {
    let settings = HostSettings {
        groups: vec![group_mac("test")],
        ..HostSettings::default()
    };
    Network::star(
        hosts,
        Cable::new(100_000_000, Duration::from_micros(5)),
        &settings,
    )
}

pub fn take_all(stream: &mut Stream, now: Instant) {
    while stream.peek().is_some() {
        stream.consume(now);
    }
}

pub fn at(ms: u64) -> Instant {
    Instant::START + Duration::from_millis(ms)
}

pub const PAYLOAD_BYTES: usize = 100;
const FRAME_BYTES: usize = 200;
pub const MAIN: StreamId = StreamId(1);

pub struct Host {
    pub streams: Vec<Stream>,
    pub outbox: VecDeque<Vec<u8>>,
}

impl Host {
    pub fn new(stream: Stream) -> Host {
        Host {
            streams: vec![stream],
            outbox: VecDeque::new(),
        }
    }

    pub fn write_again(&mut self, now: Instant, to: usize, sequence: u64, frames: u64) {
        let mut buffer = vec![0; FRAME_BYTES];
        let (payload, ending) = (sequence.to_be_bytes(), ending(sequence, frames));
        let stream = self.streams.last_mut().expect("a host has a stream");
        let length =
            stream.write_again(now, &mut buffer, host_mac(to), (sequence, &payload, ending));
        buffer.truncate(length);
        self.outbox.push_back(buffer);
    }
}

impl Machine for Host {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        if let Ok(frame) = key::parse(frame) {
            self.streams
                .iter_mut()
                .for_each(|stream| stream.handle_frame(now, &frame));
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.streams
            .iter_mut()
            .for_each(|stream| stream.handle_timeout(now));
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if let Some(frame) = self.outbox.pop_front() {
            buffer[..frame.len()].copy_from_slice(&frame);
            return Some(frame.len());
        }
        self.streams
            .iter_mut()
            .find_map(|stream| stream.poll_transmit(now, buffer))
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        self.streams
            .iter()
            .filter_map(|stream| stream.poll_timeout(now))
            .min()
    }
}

pub fn identity(host: usize, stream: StreamId) -> Identity {
    Identity {
        stream,
        ..common::identity(host)
    }
}

pub fn tree(hosts: usize, tuning: &Tuning, parent: impl Fn(usize) -> usize) -> Vec<Host> {
    let stream = |host: usize| {
        let children = (1..hosts)
            .filter(|&child| child != host && parent(child) == host)
            .map(peer)
            .collect();
        let outlet = Outlet::Lanes(children);
        if host == 0 {
            return Stream::origin(identity(0, MAIN), PAYLOAD_BYTES, &outlet, tuning.clone());
        }
        let (identity, parent) = (identity(host, MAIN), peer(parent(host)));
        let mut stream = Stream::receiver(identity, PAYLOAD_BYTES, parent, &outlet, tuning.clone());
        stream.set_origin(peer(0));
        stream
    };
    (0..hosts).map(|host| Host::new(stream(host))).collect()
}

pub fn network(hosts: usize, settings: &HostSettings) -> Network {
    Network::star(
        hosts,
        ethbcast_transport::sim::Cable::new(100_000_000, Duration::from_micros(5)),
        settings,
    )
}

pub fn ending(sequence: u64, frames: u64) -> Ending {
    if sequence + 1 == frames {
        Ending::Stream
    } else {
        Ending::None
    }
}

pub fn take_exact(stream: &mut Stream, now: Instant, mut taken: u64, replay: &str) -> u64 {
    while let Some((payload, _)) = stream.peek() {
        assert_eq!(payload, taken.to_be_bytes(), "{replay}");
        stream.consume(now);
        taken += 1;
    }
    taken
}
