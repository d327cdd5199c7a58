//! Tests of slow receivers: each gets a catch-up stream of its own, from its first missing frame
//! on.

use crate::common::key::share_of;
use crate::common::peer;
use crate::hosts::{
    Host, MAIN, PAYLOAD_BYTES, at, ending, hosts, identity, network, take_exact, tree,
};
use ethbcast_transport::sim::{
    Delivery, Fate, Faults, HostSettings, Random, RandomFaults, Simulation,
};
use ethbcast_transport::stream::Stream;
use ethbcast_transport::wire::{StreamId, group_mac};
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

const RUNS: u64 = 300;
const CATCH_UP: StreamId = StreamId(MAIN.0 | 0x4000);

struct ServedAloneWorld {
    hosts: usize,
    frames: u64,
    cast: bool,
    deaf: usize,
    from: Instant,
    until: Instant,
    /// Times when the receiver is demoted, when the root serves it alone, and when it is notified
    /// of that.
    demoted_at: Instant,
    served: Instant,
    learns: Instant,
    /// Error in the root's knowledge of the receiver's cursor: ahead of it, or behind.
    further: u64,
    less: u64,
    loss: f64,
    tuning: Tuning,
}

impl ServedAloneWorld {
    fn draw(random: &mut Random) -> ServedAloneWorld {
        let cast = random.below(2) == 0;
        let hosts = 3 + random.below(if cast { 18 } else { 4 }) as usize;
        let from = Instant::START + Duration::from_micros(random.below(30_000));
        let demoted_at = from + Duration::from_millis(20);
        let served = demoted_at + Duration::from_micros(1 + random.below(60_000));
        let tuning = match random.below(4) {
            0 => Tuning::paper(),
            1 if cast => Tuning::push_pull(),
            _ => Tuning::default(),
        };
        ServedAloneWorld {
            hosts,
            frames: 1 + random.below(1500),
            cast,
            deaf: 1 + random.below(hosts as u64 - 1) as usize,
            from,
            // In a third of the worlds the receiver gets the main stream again before it knows that
            // it is served alone.
            until: demoted_at + Duration::from_micros(random.below(100_000)),
            demoted_at,
            served,
            learns: served + Duration::from_micros(random.below(40_000)),
            further: random.below(3) * random.below(40),
            less: random.below(2) * random.below(20),
            loss: [0.0, 0.01, 0.1][random.below(3) as usize],
            tuning: tuning.with_feed_frames(64),
        }
    }

    fn machines(&self) -> Vec<Host> {
        match self.cast {
            true => {
                let tuning =
                    |host: usize| self.tuning.for_cast(self.hosts - 1, host.saturating_sub(1));
                hosts(self.hosts, tuning, |_| 0)
                    .into_iter()
                    .map(|lone| Host::new(lone.part))
                    .collect()
            }
            false => tree(self.hosts, &self.tuning, |host| host - 1),
        }
    }

    fn faults(&self, seed: u64) -> impl Faults {
        let mut random = RandomFaults::new(seed)
            .loss(self.loss)
            .reorder(0.02, Duration::from_micros(400));
        let (deaf, outage) = (self.deaf, self.from..self.until);
        move |delivery: &Delivery<'_>| {
            let cut = delivery.to == deaf || delivery.from == Some(deaf);
            if cut && outage.contains(&delivery.at) {
                Fate::Drop
            } else {
                random.fate(delivery)
            }
        }
    }

    fn demote(&self, now: Instant, host: usize, stream: &mut Stream) {
        let next = self.deaf + 1;
        let reads = |stream: &Stream| {
            stream
                .cursors()
                .iter()
                .any(|(rank, _)| rank.index() == self.deaf)
        };
        if !self.cast && host + 1 == self.deaf && next < self.hosts {
            stream.graft_child(now, peer(next));
        }
        if !self.cast && host == next {
            stream.set_parent(peer(self.deaf - 1));
        }
        if reads(stream) {
            stream.remove_reader(now, peer(self.deaf).rank);
        }
    }

    fn serve_alone(&self, cursor: u64, root: &mut Host) {
        let first = (cursor.saturating_sub(self.further) + self.less).min(self.frames - 1);
        root.streams.push(Stream::origin_at(
            identity(0, CATCH_UP),
            PAYLOAD_BYTES,
            first,
            peer(self.deaf),
            self.tuning.clone(),
        ));
    }
}

fn push(stream: &mut Stream, frames: u64) {
    while stream.feed().head() < frames {
        let next = stream.feed().head();
        if !stream.push(&next.to_be_bytes(), ending(next, frames)) {
            return;
        }
    }
}

fn play(seed: u64) {
    let mut random = Random::new(seed);
    let world = ServedAloneWorld::draw(&mut random);
    let ServedAloneWorld {
        hosts,
        frames,
        deaf,
        ..
    } = world;
    let replay = format!(
        "replay with ETHBCAST_SEED={seed} cargo test -p ethbcast-transport --test streams alone \
         ({hosts} hosts, {frames} frames, {deaf} of a cast: {}, loss {})",
        world.cast, world.loss
    );
    let settings = HostSettings {
        groups: vec![group_mac("test")],
        ..HostSettings::default()
    };
    let mut simulation = Simulation::new(
        &network(hosts, &settings),
        world.machines(),
        world.faults(seed),
    );
    simulation.set_event_limit(3_000_000);
    let (mut taken, mut stands_at, mut learned) = (vec![0; hosts], 0, false);
    let mut settled = vec![false; hosts];
    let outcome = simulation.run(at(60_000), |host, machine, now| {
        machine.streams.iter().for_each(|stream| {
            stream
                .audit()
                .unwrap_or_else(|why| panic!("{replay}: {why}"))
        });
        if now >= world.demoted_at && !std::mem::replace(&mut settled[host], true) && host != deaf {
            world.demote(now, host, &mut machine.streams[0]);
        }
        let mut wakes = vec![world.demoted_at, world.served, world.learns];
        wakes.retain(|&wake| wake > now);
        if host == 0 {
            if now >= world.served && machine.streams.len() == 1 {
                world.serve_alone(stands_at, machine);
            }
            machine
                .streams
                .iter_mut()
                .for_each(|stream| push(stream, frames));
            let orphans = machine.streams.last_mut().expect("a stream").take_orphans();
            for orphan in orphans {
                (orphan.from..orphan.to)
                    .for_each(|sequence| machine.write_again(now, deaf, sequence, frames));
            }
            return wakes.into_iter().min();
        }
        let stream = &mut machine.streams[0];
        if host == deaf {
            if now >= world.learns && !std::mem::replace(&mut learned, true) {
                stream.set_number(now, CATCH_UP);
                stream.set_parent(peer(0));
            }
            stands_at = if now < world.served {
                stream.feed().head()
            } else {
                stands_at
            };
        }
        taken[host] = take_exact(stream, now, taken[host], &replay);
        wakes.into_iter().min()
    });
    assert!(outcome.is_quiet(), "{replay}: {outcome:?}, {taken:?} taken");
    (1..hosts).for_each(|host| assert_eq!(taken[host], frames, "{replay}: host {host}"));
    let root = &simulation.machines()[0];
    let everywhere = |stream: &Stream| stream.cursors().iter().all(|&(_, cursor)| cursor == frames);
    let cursors: Vec<_> = root.streams.iter().map(Stream::cursors).collect();
    assert!(root.streams.iter().all(everywhere), "{replay}: {cursors:?}");
    let alone = root.streams[1].stats();
    if std::env::var_os("ETHBCAST_SHOW").is_some() {
        println!(
            "{seed}: {} from {stands_at} of {frames} {alone:?} at {outcome:?}",
            world.cast
        );
    }
    assert!(
        alone.data_sent <= frames - stands_at.min(frames) + world.further.max(64),
        "{replay}: {alone:?}"
    );
}

#[test]
fn a_demoted_receiver_gets_the_rest_alone_and_nobody_else_waits() {
    match std::env::var("ETHBCAST_SEED").ok() {
        Some(seed) => play(seed.parse().expect("a seed is a number")),
        None => (0..share_of(RUNS)).for_each(play),
    }
}
