//! Tests of receivers that come back after an absence and get the frames they missed. The root
//! sends them the frames that their parents have freed by then.

use crate::common::gaps::Gaps;
use crate::common::peer;
use crate::hosts::{Host, at, ending, hosts, network, take_exact, tree};
use ethbcast_transport::sim::{Delivery, Fate, Faults, HostSettings, Random, RandomFaults, Simulation};
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

const RUNS: u64 = 400;

struct ReturnWorld {
    hosts: usize,
    frames: u64,
    cast: bool,
    fan_out: Option<usize>,
    deaf: usize,
    from: Instant,
    out: Instant,
    back: Instant,
    loss: f64,
    tuning: Tuning,
}

impl ReturnWorld {
    fn draw(random: &mut Random) -> ReturnWorld {
        let fan_out = [None, None, Some(1), Some(2), Some(3)][random.below(5) as usize];
        let hosts = 3 + random.below(18) as usize;
        let from = Instant::START + Duration::from_micros(random.below(10_000));
        let out = from + Duration::from_millis(5);
        let tuning = match random.below(4) {
            0 if fan_out.is_none() => Tuning::paper(),
            1 if fan_out.is_none() => Tuning::push_pull(),
            _ => Tuning::default(),
        };
        ReturnWorld {
            hosts,
            cast: random.below(3) > 0,
            frames: 500 + random.below(1500),
            fan_out,
            deaf: 1 + random.below(hosts as u64 - 1) as usize,
            from,
            out,
            back: out + Duration::from_micros(1000 + random.below(60_000)),
            loss: [0.0, 0.01, 0.1][random.below(3) as usize],
            tuning: tuning.with_feed_frames(64),
        }
    }

    fn parent(&self, host: usize) -> usize {
        self.fan_out.map_or(0, |fan_out| host.saturating_sub(1) / fan_out)
    }

    fn tuning(&self, host: usize) -> Tuning {
        let position = host.saturating_sub(1);
        match self.fan_out {
            Some(fan_out) => self.tuning.for_ack_tree(200, fan_out, position % fan_out),
            None => self.tuning.for_cast(self.hosts - 1, position),
        }
    }

    fn faults(&self, seed: u64) -> impl Faults {
        let mut random = RandomFaults::new(seed).loss(self.loss).reorder(0.02, Duration::from_micros(400));
        let (deaf, outage) = (self.deaf, self.from..self.back);
        move |delivery: &Delivery<'_>| {
            let cut = delivery.to == deaf || delivery.from == Some(deaf);
            if cut && outage.contains(&delivery.at) { Fate::Drop } else { random.fate(delivery) }
        }
    }
}

fn play(seed: u64) -> bool {
    let mut random = Random::new(seed);
    let world = ReturnWorld::draw(&mut random);
    let ReturnWorld { hosts: count, frames, deaf, .. } = world;
    let replay = format!(
        "replay with ETHBCAST_SEED={seed} cargo test -p ethbcast-transport --test streams returns \
         ({count} hosts by {:?}, cast: {}, {frames} frames, {deaf} of them, loss {}, {:?})",
        world.fan_out, world.cast, world.loss, world.tuning.policy
    );
    let machines = hosts(count, |host| world.tuning(host), |host| world.parent(host)).into_iter();
    let settings = HostSettings { groups: vec![group_mac("test")], ..HostSettings::default() };
    let machines = match world.cast {
        true => machines.map(|lone| Host::new(lone.part)).collect(),
        false => tree(count, &world.tuning, |host| world.parent(host)),
    };
    let mut simulation = Simulation::new(&network(count, &settings), machines, world.faults(seed));
    simulation.set_event_limit(3_000_000);
    let (mut gaps, mut pushed, mut taken) = (Gaps::default(), 0, vec![0; count]);
    let outcome = simulation.run(at(60_000), |host, machine, now| {
        let stream = &mut machine.streams[0];
        stream.audit().unwrap_or_else(|why| panic!("{replay}: host {host}: {why}"));
        if host == world.parent(deaf) {
            let heard = stream.cursors().iter().any(|(rank, _)| rank.index() == deaf);
            let out = (world.out..world.back).contains(&now);
            if heard && out {
                stream.remove_reader(now, peer(deaf).rank);
            } else if !heard && !out {
                stream.graft_child(now, peer(deaf));
            }
        }
        gaps.report(stream.take_orphans());
        let wake = [world.out, world.back].into_iter().find(|&wake| wake > now);
        if host != 0 {
            taken[host] = take_exact(stream, now, taken[host], &replay);
            return wake;
        }
        while pushed < frames && stream.push(&pushed.to_be_bytes(), ending(pushed, frames)) {
            pushed += 1;
        }
        gaps.fill(now, |child, sequence| machine.write_again(now, child, sequence, frames));
        let turn = Some(now + Duration::from_micros(500)).filter(|_| taken[1..].iter().any(|&count| count < frames));
        wake.into_iter().chain(turn).min()
    });
    assert!(outcome.is_quiet(), "{replay}: {outcome:?}, {pushed} pushed, {taken:?} taken");
    assert!(taken[1..].iter().all(|&count| count == frames), "{replay}: {taken:?}");
    gaps.reported() > 0
}

#[test]
fn a_returning_reader_gets_freed_frames_from_the_root_and_the_rest_as_before() {
    match std::env::var("ETHBCAST_SEED").ok() {
        Some(seed) => drop(play(seed.parse().expect("a seed is a number"))),
        None => {
            let orphaned = (0..RUNS).filter(|&seed| play(seed)).count() as u64;
            assert!(orphaned > RUNS / 4, "somebody lacked what was gone in {orphaned} of {RUNS} runs");
        }
    }
}
