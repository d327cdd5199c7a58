//! Simulated tests of partial failures: one-way losses of one frame type, outages, deaths, stopped
//! receivers.
//!
//! Every reachable host then has its bytes, the session ends, and the culprit is named.

use ethbcast_collectives::session::{OnSlow, Outcome, RootEvent, Timing, View, kind};
use ethbcast_planning::plan::{Plan, Via, check};
use ethbcast_planning::topology::Topology;
use ethbcast_tests::in_full;
use ethbcast_tests::session::{Absence, Case, GROUP, Played, play, star};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{
    Cable, Delivery, Fate, Faults, HostSettings, Network, NoFaults, Random, RandomFaults,
};
use ethbcast_transport::wire::{Kind, Rank, group_mac, parse};
use std::collections::BTreeSet;
use std::time::Duration;

const RATE_BITS_PER_SECOND: u64 = 100_000_000;
const RECEIVERS: usize = 7;
const N4: usize = 4;

fn timing() -> Timing {
    let (stall, patience) = (Duration::from_secs(2), Duration::from_secs(4));
    Timing {
        stall,
        patience,
        sync: Duration::from_secs(6),
        ..Timing::default()
    }
}

/// Seven receivers, 4 MB: a third of a second.
fn case(via: Via) -> Case {
    Case {
        timing: timing(),
        mtu_bytes: 1500,
        ..Case::new(via, RECEIVERS, 4_000_000)
    }
    .with_feed(256)
}

fn played(case: &Case, faults: impl Faults, replay: &str) -> Played {
    play(case, &star(case, RATE_BITS_PER_SECOND), 1, faults, replay)
}

fn others_delivered(played: &Played, within: Duration, replay: &str) {
    for (rank, (fate, took)) in played.fates.iter().zip(&played.each_took).enumerate() {
        if rank + 1 != N4 {
            assert_eq!(
                *fate,
                Outcome::Delivered,
                "{replay}: n{} of {:?} {:?}",
                rank + 1,
                played.fates,
                played.words
            );
            assert!(
                *took <= within,
                "{replay}: n{} took {took:?}: {:?}",
                rank + 1,
                played.each_took
            );
        }
    }
}

/// Loses the frames of some kinds that n4 sends, or receives.
fn one_way(
    kinds: &'static [Kind],
    from_n4: bool,
    after: Duration,
) -> impl FnMut(&Delivery<'_>) -> Fate {
    move |delivery: &Delivery<'_>| {
        let concerned = if from_n4 {
            delivery.from == Some(N4)
        } else {
            delivery.to == N4
        };
        let late = delivery.at.since(Instant::START) >= after;
        let lost = concerned
            && late
            && parse(delivery.frame).is_ok_and(|frame| kinds.contains(&frame.header.kind));
        if lost { Fate::Drop } else { Fate::Deliver }
    }
}

#[test]
fn a_link_that_loses_one_kind_of_frame_one_way_holds_up_nobody_for_long() {
    const KINDS: [(&str, &[Kind]); 8] = [
        ("ACK", &[Kind::ACK]),
        ("DATA", &[Kind::DATA]),
        ("HEARTBEAT", &[Kind::HEARTBEAT]),
        ("VIEW and READY", &[kind::VIEW, kind::READY]),
        ("STATUS", &[kind::STATUS]),
        ("DONE", &[kind::DONE]),
        ("VERDICT", &[kind::VERDICT]),
        ("DATA and ACK", &[Kind::DATA, Kind::ACK]),
    ];
    for (via, (name, kinds)) in [Via::Chain, Via::Cast]
        .into_iter()
        .flat_map(|via| KINDS.map(|kinds| (via, kinds)))
    {
        for (from_n4, after_ms) in [(true, 0), (false, 0), (true, 150), (false, 150)] {
            let replay = format!(
                "{via}: {name} {} n4 lost after {after_ms} ms",
                if from_n4 { "from" } else { "to" }
            );
            let case = case(via);
            let faults = one_way(kinds, from_n4, Duration::from_millis(after_ms));
            let played = played(&case, faults, &replay);
            let limit = case.timing.stall + Duration::from_secs(3);
            others_delivered(&played, limit, &replay);
            let end = case.timing.patience
                + case.timing.dead
                + case.timing.stall
                + Duration::from_secs(3);
            // A host that never had a view waits for another root.
            assert!(
                kinds.contains(&kind::VIEW) || played.quiesced_at <= end,
                "{replay}: quiet only after {:?}",
                played.quiesced_at
            );
        }
    }
}

#[test]
fn a_reader_that_stops_keeps_the_others_no_longer_than_the_stall_limit_and_is_named() {
    for via in [Via::Chain, Via::Cast] {
        let mut case = case(via);
        case.stops = Some((N4, 1_000_000));
        let replay = format!("{via}: n4's reader stops");
        let played = played(&case, NoFaults, &replay);
        others_delivered(&played, case.timing.stall + Duration::from_secs(3), &replay);
        assert_eq!(played.fates[N4 - 1], Outcome::Stalled, "{replay}");
        assert!(
            played.words[N4 - 1].contains("disk"),
            "{replay}: {}",
            played.words[N4 - 1]
        );
    }
}

fn bad_hop(delivery: &Delivery<'_>) -> Fate {
    let hop = delivery.from == Some(N4 - 1) && delivery.to == N4;
    let lost = hop && parse(delivery.frame).is_ok_and(|frame| frame.header.kind == Kind::DATA);
    if lost { Fate::Drop } else { Fate::Deliver }
}

#[test]
fn neither_end_of_a_hop_that_lets_nothing_through_is_given_up() {
    for on_slow in [OnSlow::Demote, OnSlow::Evict] {
        let case = Case {
            on_slow,
            timing: Timing::default(),
            ..case(Via::Chain)
        };
        let replay = format!("{on_slow:?}: a bad hop");
        let played = played(&case, bad_hop, &replay);
        assert_eq!(
            played.fates,
            [Outcome::Delivered; RECEIVERS],
            "{replay}: {:?}",
            played.words
        );
        assert_eq!(
            BTreeSet::from_iter(played.demoted()),
            BTreeSet::from([N4 - 1, N4]),
            "{replay}"
        );
    }
}

#[test]
fn the_sender_to_a_reader_that_stops_stays_in_place_and_is_not_evicted() {
    for (on_slow, demoted) in [(OnSlow::Demote, vec![N4]), (OnSlow::Evict, vec![])] {
        let case = Case {
            on_slow,
            stops: Some((N4, 1_000_000)),
            ..case(Via::Chain)
        };
        let case = Case {
            timing: Timing {
                slow: Duration::from_secs(1),
                ..case.timing
            },
            ..case
        };
        let replay = format!("{on_slow:?}: n4's reader stops");
        let played = played(&case, NoFaults, &replay);
        others_delivered(&played, case.timing.stall + Duration::from_secs(3), &replay);
        assert_eq!(
            (played.demoted(), played.fates[N4 - 1]),
            (demoted, Outcome::Stalled),
            "{replay}"
        );
    }
}

/// The feeds hold 300 kB: the root has sent all and waits for no host.
#[test]
fn where_the_root_waits_for_nobody_those_who_do_say_who_is_demoted() {
    for patience in [4, 20].map(Duration::from_secs) {
        let timing = Timing {
            stall: Duration::from_secs(4),
            patience,
            ..Timing::default()
        };
        let case = Case {
            timing,
            bytes: 300_000,
            ..case(Via::Chain)
        };
        let replay = format!("a bad hop, patience {patience:?}");
        let played = played(&case, bad_hop, &replay);
        assert_eq!(
            played.fates,
            [Outcome::Delivered; RECEIVERS],
            "{replay}: {:?}",
            played.words
        );
        // n3 has everything.
        assert_eq!(played.demoted(), [N4], "{replay}");
    }
}

/// Seed `large:1232:v6`: waiting behind others is no stall of a host's own. The last of the chain
/// gets nothing for a second because of n2, and then nothing of its own for less than the patience.
#[test]
fn a_host_that_waited_behind_others_gets_the_full_stall_limit() {
    let (stall, patience) = (Duration::from_secs(1), Duration::from_secs(4));
    let case = Case {
        timing: Timing {
            stall,
            patience,
            ..Timing::default()
        },
        ..case(Via::Chain)
    };
    let out_from = Duration::from_millis(1100);
    let out = out_from..out_from + patience - Duration::from_millis(200);
    let faults = |delivery: &Delivery<'_>| {
        let behind = delivery.from == Some(1) && delivery.to == 2;
        let own = delivery.to == RECEIVERS && out.contains(&delivery.at.since(Instant::START));
        let lost = (behind || own)
            && parse(delivery.frame).is_ok_and(|frame| frame.header.kind == Kind::DATA);
        if lost { Fate::Drop } else { Fate::Deliver }
    };
    let played = played(&case, faults, "n7 is out behind a bad hop");
    assert_eq!(
        played.fates,
        [Outcome::Delivered; RECEIVERS],
        "{:?}",
        played.words
    );
    assert_eq!(
        BTreeSet::from_iter(played.demoted()),
        BTreeSet::from([1, 2, RECEIVERS - 1, RECEIVERS])
    );
}

#[test]
fn a_host_that_is_away_for_a_while_comes_back_and_gets_everything() {
    let hosts = [("the root", 0), ("a relay", N4), ("the last", RECEIVERS)];
    const VIAS: [Via; 5] = [
        Via::Chain,
        Via::Cast,
        Via::Binary,
        Via::ScatterAllgather,
        Via::TwoTree,
    ];
    for (via, (name, host)) in VIAS
        .into_iter()
        .flat_map(|via| hosts.map(|host| (via, host)))
    {
        for (lasts_ms, paused) in [
            (500, true),
            (500, false),
            (1600, true),
            (1600, false),
            (3000, true),
            (3000, false),
        ] {
            // The gate takes each beginning with every other absence.
            let beginnings = [30, 300, 150];
            let some = [beginnings[usize::from(paused)]];
            for from_ms in in_full(&some[..], &beginnings[..]).iter().copied() {
                let mut case = case(via);
                case.timing.patience = Duration::from_secs(10);
                let (from, lasts) = (
                    Duration::from_millis(from_ms),
                    Duration::from_millis(lasts_ms),
                );
                case.absences = vec![Absence {
                    host,
                    from,
                    lasts,
                    paused,
                }];
                let replay =
                    format!("{via}: {name} out for {lasts:?} from {from:?} on, paused {paused}");
                let played = played(&case, NoFaults, &replay);
                assert_eq!(
                    played.fates,
                    [Outcome::Delivered; RECEIVERS],
                    "{replay}: {:?}",
                    played.words
                );
                let most = lasts + Duration::from_secs(2);
                assert!(played.took <= most, "{replay}: {:?}", played.each_took);
            }
        }
    }
}

#[test]
fn when_any_number_of_relays_die_everybody_alive_gets_everything() {
    for seed in 0..in_full(60, 300) {
        let mut random = Random::new(seed);
        let via = [
            Via::Chain,
            Via::TwoTree,
            Via::Binary,
            Via::Cast,
            Via::ScatterAllgather,
            Via::RecursiveDoubling,
        ][random.below(6) as usize];
        let mut case = case(via);
        case.timing.patience = Duration::ZERO;
        let first = 1 + random.below(RECEIVERS as u64) as usize;
        let dead: Vec<usize> = (0..2 + random.below(3) as usize)
            .map(|step| 1 + (first + step) % RECEIVERS)
            .collect();
        let at = random.below(400);
        case.crashes = dead
            .iter()
            .map(|&host| {
                (
                    host,
                    Duration::from_millis(
                        at + if random.chance(0.5) {
                            0
                        } else {
                            random.below(100)
                        },
                    ),
                )
            })
            .collect();
        let loss = [0.0, 0.01][random.below(2) as usize];
        let replay = format!("{via}, seed {seed}: {:?} die, loss {loss}", case.crashes);
        let played = played(&case, RandomFaults::new(seed).loss(loss), &replay);
        for (at, fate) in played.fates.iter().enumerate() {
            let died = dead.contains(&(at + 1));
            let right = if died {
                matches!(fate, Outcome::Silent | Outcome::Delivered)
            } else {
                *fate == Outcome::Delivered
            };
            assert!(
                right,
                "{replay}: n{} {fate:?}: {:?} {:?}",
                at + 1,
                played.fates,
                played.words
            );
        }
        assert!(
            played.took < Duration::from_secs(4),
            "{replay}: {:?}",
            played.each_took
        );
    }
}

/// Regression: the relay's own parent took over its child, though the two cannot talk directly.
#[test]
fn a_relay_that_dies_leaves_no_receiver_with_a_parent_that_it_cannot_talk_to() {
    let text = "schema = 1\nswitch = [{name = 's', hosts = 'n[0-7]'}]\n\
                pair = [{hosts = ['n3', 'n5'], talk = false}, {hosts = ['n1', 'n[3,5]'], talk = false}]\n";
    for (via, dead) in [
        (Via::Chain, vec![N4]),
        (Via::Chain, vec![2, N4]),
        (Via::Binary, vec![2]),
        (Via::TwoTree, vec![2]),
        (Via::TwoTree, vec![N4]),
        (Via::TwoTree, vec![6]),
        (Via::TwoTree, vec![7]),
    ] {
        let replay = format!("{via}, {dead:?}");
        let crashes = dead.iter().map(|&host| (host, Duration::from_millis(100)));
        let case = Case {
            crashes: crashes.collect(),
            topology: Some(Topology::parse(text, "pairs").expect("a topology")),
            ..case(via)
        };
        let pairs = case.topology.clone().expect("given");
        let silent = |delivery: &Delivery<'_>| match delivery.from {
            Some(from) if !pairs.can_talk(from, delivery.to) => Fate::Drop,
            _ => Fate::Deliver,
        };
        let played = played(&case, silent, &replay);
        let is_fine =
            |(rank, fate): (usize, &Outcome)| dead.contains(&rank) || *fate == Outcome::Delivered;
        assert!(
            (1..).zip(&played.fates).all(is_fine),
            "{replay}: {:?} {:?}",
            played.fates,
            played.words
        );
        // Two that hear nothing of each other are found out, after some time, and served alone.
        let is_apart =
            |(_, event): &(Duration, RootEvent)| matches!(event, RootEvent::Apart { .. });
        assert!(
            !played.told.iter().any(is_apart),
            "{replay}: {:?}",
            played.told
        );
        let demoted = played.demoted();
        assert!(
            demoted.iter().all(|host| dead.contains(host)),
            "{replay}: {demoted:?}"
        );
    }
}

#[test]
fn a_late_host_gets_everything_after_the_others() {
    for via in [Via::Chain, Via::Cast, Via::Binary] {
        for late_ms in [230, 270, 310] {
            let case = Case {
                late: (2, Duration::from_millis(late_ms)),
                ..case(via)
            };
            let replay = format!("{via}: two more come after {late_ms} ms");
            let played = played(&case, NoFaults, &replay);
            assert_eq!(
                played.fates,
                [Outcome::Delivered; RECEIVERS + 2],
                "{replay}: {:?}",
                played.words
            );
            let (first, late) = played.each_took.split_at(RECEIVERS);
            let slowest = first.iter().max().expect("seven");
            assert!(
                late.iter().all(|took| took > slowest),
                "{replay}: {:?}",
                played.each_took
            );
            assert!(
                played.took <= *slowest * 4,
                "{replay}: {:?}",
                played.each_took
            );
        }
    }
}

const TREE_RECEIVERS: usize = 11;
/// Half a second or more with these trees.
const BYTES: usize = 3_000_000;

/// Four switches in a line with three hosts each.
fn topology() -> Topology {
    let switch = |at: usize| {
        let link = if at < 3 {
            format!("links = [\"s{}\"]\n", at + 1)
        } else {
            String::new()
        };
        format!(
            "[[switch]]\nname = \"s{at}\"\nhosts = \"n[{}-{}]\"\n{link}",
            at * 3,
            at * 3 + 2
        )
    };
    let text = format!("schema = 1\n{}", (0..4).map(switch).collect::<String>());
    Topology::parse(&text, "test").expect("a topology")
}

fn network() -> Network {
    let groups = vec![group_mac(GROUP)];
    let settings = HostSettings {
        groups,
        nic_receive_frames: 4096,
        nic_transmit_frames: 32,
        ..HostSettings::default()
    };
    let cable = Cable::new(RATE_BITS_PER_SECOND, Duration::from_micros(5));
    Network::line(4, 3, cable, &settings).with_mtu_bytes(1500)
}

fn replanned(via: Via) -> Case {
    let [view, status, suspect, dead] = [10, 20, 60, 150].map(Duration::from_millis);
    let (stall, patience, slow) = (
        Duration::from_secs(1),
        Duration::from_secs(3),
        Duration::from_millis(300),
    );
    let timing = Timing {
        view,
        status,
        suspect,
        dead,
        stall,
        patience,
        slow,
        ..Timing::default()
    };
    let topology = Some(topology());
    Case {
        mtu_bytes: 1500,
        timing,
        topology,
        ..Case::new(via, TREE_RECEIVERS, BYTES)
    }
    .with_feed(64)
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
    let host = |rank: &Rank| {
        topology
            .host_named(&view.members[rank.index()].host)
            .expect("all are known")
    };
    // A bridged tree may have more children than its kind allows.
    (
        Plan::from_parents(Via::Latency, 0, &parents).expect("a tree"),
        ranks.iter().map(host).collect(),
    )
}

fn trouble(replanned: &mut Case, random: &mut Random) -> Vec<usize> {
    let first = 1 + random.below(TREE_RECEIVERS as u64) as usize;
    // Hosts with neighbouring numbers are often parent and child.
    let second = 1 + first % TREE_RECEIVERS;
    let at = Duration::from_millis(random.below(400));
    let part = random.below(BYTES as u64 * 3 / 4) as usize;
    match random.below(5) {
        0 => replanned.crashes = vec![(first, at)],
        1 => {
            replanned.crashes = vec![(first, at), (second, at)];
            return vec![first, second];
        }
        2 => {
            replanned.crashes = vec![
                (first, at),
                (second, at + Duration::from_millis(random.below(400))),
            ];
            return vec![first, second];
        }
        3 => replanned.gives_up = Some((first, part)),
        _ => replanned.stops = Some((first, part)),
    }
    vec![first]
}

fn others_are_exact(played: &Played, victims: &[usize], replay: &str) {
    for (rank, fate) in (1..).zip(&played.fates) {
        let fine = victims.contains(&rank) || *fate == Outcome::Delivered;
        assert!(
            fine,
            "{replay}: n{rank} of {:?} {:?}",
            played.fates, played.words
        );
    }
    let (plan, hosts) = plan_of(&played.view);
    let report = check(&topology(), &plan, &hosts);
    assert!(
        report.is_spanning() && report.is_contention_free(),
        "{replay}: {:?}",
        played.view
    );
}

/// Counts the runs that ended with another plan than the faults alone cause.
fn planned_anew(via: Via, most_children: usize, seeds: std::ops::Range<u64>) -> usize {
    let mut count = 0;
    for seed in seeds {
        let mut random = Random::new(seed);
        let mut replanned = replanned(via);
        let victims = trouble(&mut replanned, &mut random);
        let loss = random.below(2) as f64 / 100.0;
        let replay = format!("{via}, seed {seed}, loss {loss}, {victims:?}");
        let played = play(
            &replanned,
            &network(),
            seed,
            RandomFaults::new(seed).loss(loss),
            &replay,
        );
        others_are_exact(&played, &victims, &replay);
        let names_only_those_in_place = played.view.ranks().all(|rank| {
            let parent = played.view.members[rank.index()].parent;
            parent.is_none_or(|parent| played.view.members[parent.index()].is_in_place())
        });
        let anew = played.view.epoch > 2 && names_only_those_in_place;
        let degree = plan_of(&played.view).0.degree();
        assert!(
            !anew || victims.len() > 1 || degree <= most_children,
            "{replay}: {:?}",
            played.view
        );
        count += usize::from(anew);
    }
    count
}

#[test]
fn a_replanned_tree_without_a_demoted_host_is_as_good() {
    let counts = [(Via::Binary, 2), (Via::Kary(3), 3), (Via::BinaryBest, 2)]
        .map(|(via, children)| planned_anew(via, children, 0..in_full(20, 60)));
    println!("planned anew: {counts:?}");
    assert!(
        counts.iter().all(|&count| count >= in_full(3, 10)),
        "{counts:?}"
    );
}

#[test]
fn a_receiver_that_is_out_for_a_while_is_served_alone_and_the_tree_goes_on() {
    for (seed, host) in (1..=TREE_RECEIVERS).enumerate() {
        let mut replanned = replanned(Via::Binary);
        let (from, lasts) = (Duration::from_millis(300), Duration::from_millis(500));
        replanned.absences = vec![Absence {
            host,
            from,
            lasts,
            paused: seed % 2 == 0,
        }];
        let replay = format!("n{host} is out");
        let played = play(
            &replanned,
            &network(),
            seed as u64,
            RandomFaults::new(seed as u64).loss(0.01),
            &replay,
        );
        others_are_exact(&played, &[], &replay);
    }
}
