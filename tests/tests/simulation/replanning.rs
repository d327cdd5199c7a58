//! Trees that members have stepped out of: every living host gets everything, over a tree as good
//! as the first.

use ethbcast_collectives::session::{Outcome, Timing, View};
use ethbcast_planning::plan::{Plan, Via, check};
use ethbcast_planning::topology::Topology;
use ethbcast_tests::in_full;
use ethbcast_tests::session::{Absence, Case, GROUP, Played, play};
use ethbcast_transport::sim::{Cable, HostSettings, Network, Random, RandomFaults};
use ethbcast_transport::wire::{Rank, group_mac};
use std::time::Duration;

const RECEIVERS: usize = 11;
const RATE_BITS_PER_SECOND: u64 = 100_000_000;
/// Half a second or more with these trees.
const BYTES: usize = 3_000_000;

/// Four switches in a line with three hosts each.
fn topology() -> Topology {
    let switch = |at: usize| {
        let link = if at < 3 { format!("links = [\"s{}\"]\n", at + 1) } else { String::new() };
        format!("[[switch]]\nname = \"s{at}\"\nhosts = \"n[{}-{}]\"\n{link}", at * 3, at * 3 + 2)
    };
    let text = format!("schema = 1\n{}", (0..4).map(switch).collect::<String>());
    Topology::parse(&text, "test").expect("a topology")
}

fn network() -> Network {
    let groups = vec![group_mac(GROUP)];
    let settings =
        HostSettings { groups, nic_receive_frames: 4096, nic_transmit_frames: 32, ..HostSettings::default() };
    let cable = Cable::new(RATE_BITS_PER_SECOND, Duration::from_micros(5));
    Network::line(4, 3, cable, &settings).with_mtu_bytes(1500)
}

fn case(via: Via) -> Case {
    let [view, status, suspect, dead] = [10, 20, 60, 150].map(Duration::from_millis);
    let (stall, patience, slow) = (Duration::from_secs(1), Duration::from_secs(3), Duration::from_millis(300));
    let timing = Timing { view, status, suspect, dead, stall, patience, slow, ..Timing::default() };
    let topology = Some(topology());
    Case { mtu_bytes: 1500, timing, topology, ..Case::new(via, RECEIVERS, BYTES) }.with_feed(64)
}

fn plan_of(view: &View) -> (Plan, Vec<usize>) {
    let ranks: Vec<Rank> = view.ranks().collect();
    let parent = |&rank: &Rank| {
        let mut at = view.members[rank.index()].parent?;
        while !view.members[at.index()].is_in_place() {
            at = view.members[at.index()].parent?;
        }
        ranks.iter().position(|&rank| rank == at)
    };
    let parents: Vec<Option<usize>> = ranks.iter().map(parent).collect();
    let topology = topology();
    let host = |rank: &Rank| topology.host_named(&view.members[rank.index()].host).expect("all are known");
    // A bridged tree may have more children than its kind allows.
    (Plan::from_parents(Via::Latency, 0, &parents).expect("a tree"), ranks.iter().map(host).collect())
}

fn trouble(case: &mut Case, random: &mut Random) -> Vec<usize> {
    let first = 1 + random.below(RECEIVERS as u64) as usize;
    // Hosts with neighbouring numbers are often parent and child.
    let second = 1 + first % RECEIVERS;
    let at = Duration::from_millis(random.below(400));
    let part = random.below(BYTES as u64 * 3 / 4) as usize;
    match random.below(5) {
        0 => case.crashes = vec![(first, at)],
        1 => {
            case.crashes = vec![(first, at), (second, at)];
            return vec![first, second];
        }
        2 => {
            case.crashes = vec![(first, at), (second, at + Duration::from_millis(random.below(400)))];
            return vec![first, second];
        }
        3 => case.gives_up = Some((first, part)),
        _ => case.stops = Some((first, part)),
    }
    vec![first]
}

fn others_are_exact(played: &Played, victims: &[usize], replay: &str) {
    for (rank, fate) in (1..).zip(&played.fates) {
        let fine = victims.contains(&rank) || *fate == Outcome::Delivered;
        assert!(fine, "{replay}: n{rank} of {:?} {:?}", played.fates, played.words);
    }
    let (plan, hosts) = plan_of(&played.view);
    let report = check(&topology(), &plan, &hosts);
    assert!(report.is_spanning() && report.is_contention_free(), "{replay}: {:?}", played.view);
}

/// Counts the runs that ended with another plan than the faults alone cause.
fn planned_anew(via: Via, most_children: usize, seeds: std::ops::Range<u64>) -> usize {
    let mut count = 0;
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut case = case(via);
        let victims = trouble(&mut case, &mut random);
        let loss = random.below(2) as f64 / 100.0;
        let replay = format!("{via}, seed {seed}, loss {loss}, {victims:?}");
        let played = play(&case, &network(), seed, RandomFaults::new(seed).loss(loss), &replay);
        others_are_exact(&played, &victims, &replay);
        let names_only_those_in_place = played.view.ranks().all(|rank| {
            let parent = played.view.members[rank.index()].parent;
            parent.is_none_or(|parent| played.view.members[parent.index()].is_in_place())
        });
        let anew = played.view.epoch > 2 && names_only_those_in_place;
        let degree = plan_of(&played.view).0.degree();
        assert!(!anew || victims.len() > 1 || degree <= most_children, "{replay}: {:?}", played.view);
        count += usize::from(anew);
    }
    count
}

#[test]
fn whoever_steps_out_of_a_tree_leaves_one_that_is_as_good() {
    let counts = [(Via::Binary, 2), (Via::Kary(3), 3), (Via::BinaryBest, 2)]
        .map(|(via, children)| planned_anew(via, children, 0..in_full(20, 60)));
    println!("planned anew: {counts:?}");
    assert!(counts.iter().all(|&count| count >= in_full(3, 10)), "{counts:?}");
}

#[test]
fn a_receiver_that_is_out_for_a_while_is_served_aside_and_the_tree_goes_on() {
    for (seed, host) in (1..=RECEIVERS).enumerate() {
        let mut case = case(Via::Binary);
        let (from, lasts) = (Duration::from_millis(300), Duration::from_millis(500));
        case.absences = vec![Absence { host, from, lasts, paused: seed % 2 == 0 }];
        let replay = format!("n{host} is out");
        let played = play(&case, &network(), seed as u64, RandomFaults::new(seed as u64).loss(0.01), &replay);
        others_are_exact(&played, &[], &replay);
    }
}
