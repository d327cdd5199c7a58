//! A small ack tree of streams, with tiny feeds and heavy reordering: sessions have ack trees only
//! above 128 receivers.

use super::acknowledged::Acknowledged;
use crate::stream::{GROUP, ack_tree};
use ethbcast_transport::sim::{Cable, Delivery, Fate, Faults, HostSettings, Network, Random, RandomFaults, Simulation};
use ethbcast_transport::stream::{Ending, Stream};
use ethbcast_transport::wire::{StreamId, group_mac};
use ethbcast_transport::{Alone, Instant, Tuning};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const FEED_FRAMES: u64 = 16;
const PAYLOAD: [u8; 200] = [7; 200];

struct Listening {
    faults: RandomFaults,
    said: Rc<RefCell<Acknowledged>>,
}

impl Faults for Listening {
    fn fate(&mut self, delivery: &Delivery<'_>) -> Fate {
        self.said.borrow_mut().note(delivery);
        self.faults.fate(delivery)
    }
}

/// Names a host that claims frames for all hosts behind it although one of them lacks some.
fn liar(said: &Acknowledged, parents: &[usize], taken: &[u64]) -> Option<String> {
    (1..parents.len()).find_map(|host| {
        let above = std::iter::successors(Some(host), |&at| Some(parents[at])).take_while(|&at| at != 0);
        let liar = above.into_iter().find(|&above| said.below(above, StreamId(1)) > taken[host])?;
        Some(format!("host {liar} says that all behind it have what host {host} lacks"))
    })
}

pub fn run(random: &mut Random, seed: u64) -> Result<(), String> {
    let (hosts, fan_out, frames) = (4 + random.below(8) as usize, 1 + random.below(3) as usize, 30 + random.below(150));
    let loss = [0.0, 0.01, 0.1][random.below(3) as usize];
    let said = Rc::new(RefCell::new(Acknowledged::default()));
    let faults = RandomFaults::new(seed).loss(loss).duplicate(0.02).reorder(0.05, Duration::from_millis(8));
    let settings = HostSettings { groups: vec![group_mac(GROUP)], ..HostSettings::default() };
    let network = Network::star(hosts, Cable::new(100_000_000, Duration::from_micros(5)), &settings);
    let parents: Vec<usize> = (0..hosts).map(|host| host.saturating_sub(1) / fan_out).collect();
    let tuning = Tuning::default().with_feed_frames(FEED_FRAMES);
    let stream = |host| Alone::new(ack_tree(host, &parents, PAYLOAD.len(), &tuning));
    let machines = (0..hosts).map(stream).collect();
    let faults = Listening { faults, said: Rc::clone(&said) };
    let mut simulation = Simulation::new(&network, machines, faults);
    simulation.set_event_limit(1_000_000);
    let mut taken = vec![0; hosts];
    let (mut audit, mut lie) = (Ok(()), None);
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
        lie = lie.take().or_else(|| liar(&said.borrow(), &parents, &taken));
        None
    });
    audit.map_err(|error| error.to_string())?;
    if let Some(wrong) = lie.or(said.borrow().wrong().map(str::to_owned)) {
        return Err(wrong);
    }
    if taken.iter().all(|&taken| taken == frames) && outcome.is_quiet() {
        return Ok(());
    }
    Err(format!("{outcome:?}: taken {taken:?} of {frames}, next {:?}", simulation.next_deadline()))
}
