//! Tests of relay chains in which neighbours die at once: the original sender resends what was lost
//! with them. The root sends the frames that were lost with them to the hosts that report them
//! missing, and all survivors get everything.

use crate::common::gaps::Gaps;
use crate::common::peer;
use crate::hosts::{at, ending, network, take_exact, tree};
use ethbcast_transport::sim::{HostSettings, Random, RandomFaults, Simulation};
use ethbcast_transport::stream::Stream;
use ethbcast_transport::{Instant, Policy, Tuning};
use std::time::Duration;

const RUNS: u64 = 600;
const TURN: Duration = Duration::from_micros(500);

struct OrphanWorld {
    hosts: usize,
    frames: u64,
    dead: Vec<usize>,
    dies: Instant,
    learns: Vec<Instant>,
    fills: Instant,
    loss: f64,
    tuning: Tuning,
}

impl OrphanWorld {
    fn draw(random: &mut Random) -> OrphanWorld {
        let count = 2 + random.below(2) as usize;
        let hosts = count + 3 + random.below(4) as usize;
        let first = 1 + random.below((hosts - count - 1) as u64) as usize;
        let dies = Instant::START + Duration::from_micros(random.below(25_000));
        let told = dies + Duration::from_micros(50_000 + random.below(20_000));
        let mut learn = |host| told + Duration::from_micros(if host == 0 { 0 } else { random.below(100_000) });
        let learns = (0..hosts).map(&mut learn).collect();
        let tuning = if random.below(4) == 0 { Tuning::paper() } else { Tuning::default() }.with_feed_frames(64);
        OrphanWorld {
            hosts,
            frames: 1 + random.below(2000),
            dead: (first..first + count).collect(),
            dies,
            learns,
            fills: told + Duration::from_millis(if random.below(3) == 0 { random.below(1000) } else { 0 }),
            loss: [0.0, 0.01, 0.1, 0.3][random.below(4) as usize],
            tuning,
        }
    }

    fn is_dead(&self, host: usize) -> bool {
        self.dead.contains(&host)
    }

    fn reshape(&self, now: Instant, host: usize, stream: &mut Stream) {
        let living_above = |mut host: usize| {
            host -= 1;
            while self.is_dead(host) {
                host -= 1;
            }
            host
        };
        if host != 0 {
            stream.set_parent(peer(living_above(host)));
        }
        let children = (host + 1..self.hosts).filter(|&child| !self.is_dead(child) && living_above(child) == host);
        children.for_each(|child| stream.graft_child(now, peer(child)));
        self.dead.iter().for_each(|&dead| stream.remove_reader(now, peer(dead).rank));
    }
}

fn play(seed: u64) -> bool {
    let mut random = Random::new(seed);
    let world = OrphanWorld::draw(&mut random);
    let OrphanWorld { hosts, frames, loss, .. } = world;
    let replay = format!(
        "replay with ETHBCAST_SEED={seed} cargo test -p ethbcast-transport --test streams orphans \
         ({hosts} hosts, {frames} frames, {:?} die at {:?}, loss {loss}, {:?})",
        world.dead, world.dies, world.tuning.policy
    );
    let faults = RandomFaults::new(seed).loss(loss).duplicate(0.02).reorder(0.02, Duration::from_micros(400));
    let network = network(hosts, &HostSettings::default());
    let mut simulation = Simulation::new(&network, tree(hosts, &world.tuning, |host| host - 1), faults);
    simulation.set_event_limit(3_000_000);
    world.dead.iter().for_each(|&dead| simulation.crash(dead, world.dies));
    let mut gaps = Gaps::default();
    let (mut pushed, mut taken, mut knows) = (0, vec![0; hosts], vec![false; hosts]);
    let outcome = simulation.run(at(120_000), |host, machine, now| {
        let stream = &mut machine.streams[0];
        stream.audit().unwrap_or_else(|why| panic!("{replay}: host {host}: {why}"));
        if now >= world.learns[host] && !std::mem::replace(&mut knows[host], true) {
            world.reshape(now, host, stream);
        }
        gaps.report(stream.take_orphans());
        let learns = (!knows[host]).then_some(world.learns[host]);
        if host != 0 {
            taken[host] = take_exact(stream, now, taken[host], &replay);
            return learns;
        }
        while pushed < frames && stream.push(&pushed.to_be_bytes(), ending(pushed, frames)) {
            pushed += 1;
        }
        if now >= world.fills {
            gaps.fill(now, |child, sequence| machine.write_again(now, child, sequence, frames));
        }
        let all = (1..hosts).all(|host| world.is_dead(host) || taken[host] == frames);
        (!all).then_some(learns.map_or(now + TURN, |learns| learns.min(now + TURN)))
    });
    assert!(outcome.is_quiet(), "{replay}: {outcome:?}, {pushed} pushed, {taken:?} taken");
    let living = || (1..hosts).filter(|&host| !world.is_dead(host));
    living().for_each(|host| assert_eq!(taken[host], frames, "{replay}: host {host}"));
    let stats = simulation.machines().iter().map(|host| host.streams[0].stats());
    let (sent, resent, asked) = stats.fold((0, 0, 0), |(sent, resent, asked), stats| {
        (sent + stats.data_sent, resent + stats.data_resent, asked + stats.heartbeats_sent)
    });
    if std::env::var_os("ETHBCAST_SHOW").is_some() {
        println!(
            "{seed}: {:?} loss {loss} sent {sent} resent {resent} asked {asked} at {outcome:?} gaps {}",
            world.tuning.policy,
            gaps.reported()
        );
    }
    // Each loss costs a frame, a death the frames that were not forwarded, and waiting ever rarer
    // heartbeats.
    let due = sent as f64 * (loss / (1.0 - loss) * 1.3 + 0.03) + 200.0;
    let strict = world.tuning.policy == Policy::InOrderOnly;
    assert!(strict || (resent as f64) < due, "{replay}: {resent} frames sent again, {due} would do");
    assert!(asked < 150 + (sent + resent) / 4, "{replay}: asked {asked} times");
    gaps.reported() > 0
}

#[test]
fn frames_that_died_with_neighbours_come_from_elsewhere_and_all_survivors_have_everything() {
    match std::env::var("ETHBCAST_SEED").ok() {
        Some(seed) => drop(play(seed.parse().expect("a seed is a number"))),
        None => {
            let orphaned = (0..RUNS).filter(|&seed| play(seed)).count() as u64;
            assert!(orphaned > RUNS / 20, "somebody lacked what was gone in {orphaned} of {RUNS} runs");
        }
    }
}
