//! Recorded frames of an older session between these hosts in this group, for replay.

use super::hosts::{GROUP, Hosts};
use super::schedule::Schedule;
use super::seed::Seed;
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Delivery, Fate, Simulation};
use ethbcast_transport::wire::group_mac;
use std::sync::OnceLock;
use std::time::Duration;

const OLDER: u64 = 0xA6E5_A60F;

pub fn frames() -> &'static [(usize, Vec<u8>)] {
    static FRAMES: OnceLock<Vec<(usize, Vec<u8>)>> = OnceLock::new();
    FRAMES.get_or_init(|| {
        let schedule = Schedule::plain(Seed::small(OLDER), 3, 4000);
        let mut hosts = Hosts::new(&schedule);
        let machines = (0..schedule.hosts()).map(|host| hosts.make(Instant::START, host)).collect();
        let (mut network, _) = schedule.cluster.network(schedule.mtu_bytes);
        (0..schedule.hosts()).for_each(|host| network.host_mut(host).groups = vec![group_mac(GROUP)]);
        let mut heard = Vec::new();
        let record = |delivery: &Delivery<'_>| {
            heard.push((delivery.to, delivery.frame.to_vec()));
            Fate::Deliver
        };
        let mut simulation = Simulation::new(&network, machines, record);
        let end = Instant::START + Duration::from_secs(10);
        let outcome = simulation.run(end, |_, host: &mut super::hosts::Host, now| host.turn(now));
        assert!(outcome.is_quiet(), "{outcome:?}");
        drop(simulation);
        heard
    })
}

pub fn has(frame: &[u8]) -> bool {
    frames().first().is_some_and(|(_, first)| first[32..36] == frame[32..36])
}
