//! Test helper: hosts of a broadcast on one simulated switch, with any acknowledgement tree.

use crate::common::{identity, key, peer};
use ethbcast_transport::Alone;
use ethbcast_transport::sim::{Cable, HostSettings, Network};
use ethbcast_transport::stream::{Outlet, Stream};
use ethbcast_transport::wire::{Peer, group_mac};
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

/// Creates a cast to `hosts - 1` receivers; `parent` gives the host to which each acknowledges.
pub fn hosts(hosts: usize, tuning: impl Fn(usize) -> Tuning, parent: impl Fn(usize) -> usize) -> Vec<Alone<Stream>> {
    let stream = |host: usize| {
        let children: Vec<Peer> =
            (1..hosts).filter(|&child| child != host && parent(child) == host).map(peer).collect();
        if host == 0 {
            let outlet = Outlet::Cast { group: group_mac("test"), listeners: children };
            return Stream::origin(identity(host), 100, &outlet, tuning(0));
        }
        let outlet = Outlet::RepairChildren(children);
        let mut stream = Stream::receiver(identity(host), 100, peer(parent(host)), &outlet, tuning(host));
        stream.set_origin(peer(0));
        stream
    };
    (0..hosts).map(|host| key::alone(stream(host))).collect()
}

pub fn star(hosts: usize) -> Network {
    let settings = HostSettings { groups: vec![group_mac("test")], ..HostSettings::default() };
    Network::star(hosts, Cable::new(100_000_000, Duration::from_micros(5)), &settings)
}

pub fn take_all(stream: &mut Stream, now: Instant) {
    while stream.peek().is_some() {
        stream.consume(now);
    }
}

pub fn at(ms: u64) -> Instant {
    Instant::START + Duration::from_millis(ms)
}
