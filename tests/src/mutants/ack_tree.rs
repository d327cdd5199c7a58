//! A small ack tree of streams, with tiny feeds and frames that overtake each other by far: what a session has only
//! above 128 receivers.

use crate::stream::{GROUP, ack_tree};
use ethbcast_transport::sim::{Cable, HostSettings, Network, Random, RandomFaults, Simulation};
use ethbcast_transport::stream::{Ending, Stream};
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Alone, Instant, Tuning};
use std::time::Duration;

const FEED_FRAMES: u64 = 16;
const PAYLOAD: [u8; 200] = [7; 200];

/// Plays one; what is wrong, if anything.
pub fn run(random: &mut Random, seed: u64) -> Result<(), String> {
    let (hosts, fan_out, frames) = (4 + random.below(8) as usize, 1 + random.below(3) as usize, 30 + random.below(150));
    let loss = [0.0, 0.01, 0.1][random.below(3) as usize];
    let faults = RandomFaults::new(seed).loss(loss).duplicate(0.02).reorder(0.05, Duration::from_millis(8));
    let settings = HostSettings { groups: vec![group_mac(GROUP)], ..HostSettings::default() };
    let network = Network::star(hosts, Cable::new(100_000_000, Duration::from_micros(5)), &settings);
    let parents: Vec<usize> = (0..hosts).map(|host| host.saturating_sub(1) / fan_out).collect();
    let tuning = Tuning::default().with_feed_frames(FEED_FRAMES);
    let stream = |host| Alone::new(ack_tree(host, &parents, PAYLOAD.len(), &tuning));
    let machines = (0..hosts).map(stream).collect();
    let mut simulation = Simulation::new(&network, machines, faults);
    simulation.set_event_limit(1_000_000);
    let mut taken = vec![0; hosts];
    let mut audit = Ok(());
    let outcome = simulation.run(Instant::START + Duration::from_secs(60), |host, machine, now| {
        let stream: &mut Stream = &mut machine.part;
        let ending = |next: u64| if next + 1 == frames { Ending::Stream } else { Ending::None };
        while host == 0 && taken[0] < frames && stream.push(&PAYLOAD, ending(taken[0])) {
            taken[0] += 1;
        }
        while stream.peek().is_some() {
            stream.consume(now);
            taken[host] += 1;
        }
        if audit.is_ok() {
            audit = stream.audit();
        }
        None
    });
    audit.map_err(|error| error.to_string())?;
    if taken.iter().all(|&taken| taken == frames) && outcome.is_quiet() {
        return Ok(());
    }
    Err(format!("{outcome:?}: taken {taken:?} of {frames}, next {:?}", simulation.next_deadline()))
}
