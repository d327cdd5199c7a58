//! Tests of streams from one host to many on a simulated Ethernet: delivery and cost.

mod alone;
#[path = "../common/mod.rs"]
mod common;
mod deaths;
mod details;
mod eqa;
mod held_up;
mod hostile;
mod hosts;
mod passing_on;
mod sending;

use crate::hosts::{Host, PAYLOAD_BYTES, at, ending, hosts, take_all, tree};
use common::key::parse;
use common::{Case, Path, broadcast};
use ethbcast_transport::sim::{
    Cable, Delivery, Faults, HostSettings, Network, NoFaults, RandomFaults, Simulation, script,
};
use ethbcast_transport::stream::StreamStats;
use ethbcast_transport::wire::{Flags, Kind, group_mac};
use ethbcast_transport::{Instant, Tuning};
use std::time::Duration;

fn case(path: Path, hosts: usize, frames: u64) -> Case {
    // A small feed: its memory is allocated again for each of tens of thousands of runs.
    let tuning = Tuning::default().with_feed_frames(256);
    Case {
        path,
        hosts,
        frames,
        tuning,
        lazy_frames: 0,
        last_takes: None,
        message_frames: 0,
    }
}

type Protocol = fn(Case) -> Case;

fn strict(case: Case) -> Case {
    Case {
        tuning: Tuning::paper().with_feed_frames(64),
        ..case
    }
}

fn push_pull(case: Case) -> Case {
    Case {
        tuning: Tuning::push_pull()
            .with_feed_frames(64)
            .with_push_frames(Some(3)),
        ..case
    }
}

#[test]
fn all_of_this_holds_with_a_key() {
    common::key::run_again("all_of_this_holds_with_a_key");
}

#[test]
fn without_loss_every_frame_is_sent_once_a_hop_or_once_in_all() {
    let chain = broadcast(&case(Path::Chain, 8, 1000), NoFaults, "chain");
    assert_eq!(
        (chain.totals.data_sent, chain.totals.data_resent),
        (7 * 1000, 0)
    );
    let cast = broadcast(&case(Path::Cast, 8, 1000), NoFaults, "cast");
    assert_eq!((cast.totals.data_sent, cast.totals.data_resent), (1000, 0));
    for (price, name) in [(chain, "chain"), (cast, "cast")] {
        assert_eq!(price.totals.heartbeats_sent, 0, "{name}");
        assert!(
            price.totals.acks_sent < 7 * 1000 / 8,
            "{name}: {} acknowledgements",
            price.totals.acks_sent
        );
    }
}

#[test]
fn a_relay_passes_frames_on_as_they_come() {
    let short = broadcast(&case(Path::Chain, 2, 1000), NoFaults, "one hop").quiesced_at;
    let long = broadcast(&case(Path::Chain, 8, 1000), NoFaults, "seven hops").quiesced_at;
    assert!(
        long < short + Duration::from_millis(2),
        "one hop {short:?}, seven hops {long:?}"
    );
}

#[test]
fn a_lost_tail_is_found_by_one_heartbeat_and_repaired_by_one_frame() {
    for path in [Path::Chain, Path::Cast] {
        let is_last = |delivery: &Delivery<'_>| {
            parse(delivery.frame).is_ok_and(|frame| {
                frame.header.kind == Kind::DATA && frame.header.flags.has(Flags::LAST)
            })
        };
        let lose_last = script(1, move |delivery: &Delivery<'_>| {
            delivery.to == 1 && is_last(delivery)
        });
        let price = broadcast(&case(path, 3, 10), lose_last, &format!("{path:?}"));
        assert_eq!(
            (price.totals.heartbeats_sent, price.totals.data_resent),
            (1, 1),
            "{path:?}"
        );
        assert!(
            price.quiesced_at < Duration::from_millis(40),
            "{path:?}: {:?}",
            price.quiesced_at
        );
    }
}

#[test]
fn a_frame_that_all_listeners_lose_is_repaired_by_few_broadcasts_and_not_by_one_unicast_each() {
    let listeners = 15;
    let is_fifth = |delivery: &Delivery<'_>| {
        parse(delivery.frame)
            .is_ok_and(|frame| frame.header.kind == Kind::DATA && frame.header.sequence == 5)
    };
    let price = broadcast(
        &case(Path::Cast, listeners + 1, 100),
        script((1 << listeners) - 1, is_fifth),
        "all lose frame 5",
    );
    // The first reporter may be repaired by unicast before the others' reports have arrived.
    assert!(
        (1..=3).contains(&price.totals.data_resent),
        "{} repairs",
        price.totals.data_resent
    );
}

#[test]
fn every_way_to_lose_some_of_the_first_fourteen_frames_is_survived_within_the_budget() {
    let holes = |case| case;
    let cases: [(Path, Protocol, u64); 6] = [
        (Path::Chain, holes, 4),
        (Path::Cast, holes, 4),
        (Path::AckTree(1), holes, 4),
        // Strict go-back-n repeats all later frames, too.
        (Path::Chain, strict, 8),
        (Path::Cast, strict, 8),
        (Path::TunedCast, push_pull, 8),
    ];
    for (path, protocol, factor) in cases {
        let case = protocol(case(path, 3, 6));
        let name = format!(
            "{path:?} {:?} pushes {:?}",
            case.tuning.policy, case.tuning.cast.push_frames
        );
        let mut worst = 0;
        for pattern in 0..1_u64 << 14 {
            let replay = format!("{name} pattern={pattern:#x}");
            let price = broadcast(&case, script(pattern, |_: &Delivery<'_>| true), &replay);
            worst = worst.max(price.cable_frames);
            let lost = u64::from(pattern.count_ones());
            // Each loss may cost a heartbeat, its answer, a repair and its acknowledgement.
            let budget = 12 + 8 + factor * lost + 4;
            assert!(
                price.cable_frames <= budget,
                "{replay}: {} frames for {lost} losses, budget {budget}",
                price.cable_frames
            );
        }
        println!("{name}: worst of 16384 patterns {worst} frames");
    }
}

#[test]
fn heavy_random_faults_are_survived_within_a_frame_budget() {
    for seed in 0..200 {
        for path in [Path::Chain, Path::Cast, Path::TunedCast, Path::AckTree(2)] {
            let hosts = 2 + (seed % 6) as usize;
            let loss = [0.0, 0.01, 0.1, 0.3][(seed % 4) as usize];
            let faults = RandomFaults::new(seed)
                .loss(loss)
                .duplicate(0.02)
                .reorder(0.02, Duration::from_micros(400))
                .corrupt(0.01);
            let replay = format!("seed={seed} {path:?}");
            let price = broadcast(&case(path, hosts, 300), faults, &replay);
            let hops = (hosts - 1) as f64 * 300.0;
            // Lost or damaged with probability q, a frame is sent 1/(1-q) times; reordering and
            // lost acknowledgements add to it.
            let q = loss + 0.01;
            let budget = hops * (q / (1.0 - q) + 0.06) * 1.5 + 40.0;
            assert!(
                (price.totals.data_resent as f64) < budget,
                "{replay}: {} repairs, budget {budget:.0}",
                price.totals.data_resent
            );
        }
    }
}

#[test]
fn a_receiver_that_takes_nothing_for_long_stops_the_sender_and_loses_nothing() {
    for path in [Path::Chain, Path::Cast] {
        let tuning = Tuning::default().with_feed_frames(64);
        let case = Case {
            tuning,
            lazy_frames: 60,
            ..case(path, 4, 2000)
        };
        let price = broadcast(&case, NoFaults, &format!("{path:?}"));
        assert_eq!(price.totals.data_resent, 0, "{path:?}");
    }
}

/// The last host of the tree acknowledges to the third, and that to the first: their own feeds
/// would have room.
#[test]
fn one_slow_receiver_holds_the_root_to_its_credit_at_any_place_in_the_ack_tree() {
    for path in [Path::Chain, Path::Cast, Path::TunedCast, Path::AckTree(2)] {
        let tuning = Tuning::default().with_feed_frames(64);
        let case = Case {
            tuning,
            last_takes: Some(Duration::from_micros(200)),
            ..case(path, 9, 500)
        };
        let price = broadcast(&case, NoFaults, &format!("{path:?}"));
        assert_eq!(
            (price.totals.data_resent, price.totals.beyond_credit),
            (0, 0),
            "{path:?}"
        );
        let takes = Duration::from_micros(200) * 500;
        println!("{path:?}: {:?}", price.quiesced_at);
        assert!(
            (takes..takes + Duration::from_millis(30)).contains(&price.quiesced_at),
            "{path:?}: {:?}",
            price.quiesced_at
        );
    }
}

/// A relay announces its room once more, at the very first message, because it starts with little
/// credit.
#[test]
fn a_message_of_one_frame_costs_its_copies_and_one_acknowledgement_from_each_host() {
    for (path, copies, relays) in [
        (Path::Chain, 7, 6),
        (Path::Cast, 1, 0),
        (Path::Flat, 7, 0),
        (Path::Binomial, 7, 3),
    ] {
        let case = Case {
            message_frames: 1,
            ..case(path, 8, 100)
        };
        let price = broadcast(&case, NoFaults, &format!("{path:?}"));
        assert_eq!(
            (price.totals.data_sent, price.totals.data_resent),
            (100 * copies, 0),
            "{path:?}"
        );
        assert_eq!(
            (price.totals.acks_sent, price.totals.heartbeats_sent),
            (100 * 7 + relays, 0),
            "{path:?}"
        );
    }
}

#[test]
fn messages_are_passed_whatever_gets_lost() {
    for seed in 0..200 {
        for path in [
            Path::Chain,
            Path::Cast,
            Path::TunedCast,
            Path::AckTree(2),
            Path::Flat,
            Path::Tree(3),
            Path::Binomial,
        ] {
            let hosts = 2 + (seed % 7) as usize;
            let case = Case {
                message_frames: 1 + seed % 5,
                ..case(path, hosts, 60)
            };
            // There is no ack tree for strict go-back-n.
            let case = match seed % 6 {
                0 if !matches!(path, Path::AckTree(_)) => strict(case),
                3 if path == Path::TunedCast => push_pull(case),
                _ => case,
            };
            let faults = RandomFaults::new(seed)
                .loss([0.01, 0.1, 0.3][(seed % 3) as usize])
                .duplicate(0.02);
            broadcast(&case, faults, &format!("seed={seed} {path:?}"));
        }
    }
}

/// 146 bytes take 13.6 µs at 100 Mbit/s, including 24 bytes of preamble, check sequence and gap.
#[test]
fn a_segment_is_whole_before_it_travels_on_and_goes_to_one_child_after_the_other() {
    let segmented = |path, segment_frames| {
        let base = case(path, 8, 1000);
        let mut tuning = base.tuning.clone().with_feed_frames(4096);
        tuning.feed.segment_frames = segment_frames;
        broadcast(
            &Case { tuning, ..base },
            NoFaults,
            &format!("{path:?} {segment_frames}"),
        )
        .quiesced_at
    };
    // The chain fills one segment's time later at each relay.
    let (short, long) = (segmented(Path::Chain, 1), segmented(Path::Chain, 100));
    let segment = (segmented(Path::Chain, 1) / 1000) * 100;
    assert!(
        long > short + segment * 5 && long < short + segment * 8,
        "{short:?} and {long:?}, {segment:?} a segment"
    );
    // The binomial tree takes the time of log2(8) whole messages, the flat tree 7; the chain a
    // little more than one, for its hops.
    let once = segmented(Path::Chain, 1).as_secs_f64();
    for (path, times) in [(Path::Binomial, 3.0), (Path::Flat, 7.0)] {
        let took = segmented(path, 1000).as_secs_f64() / once;
        assert!(
            (times * 0.88..times * 1.1).contains(&took),
            "{path:?}: {took} times a chain"
        );
    }
}

#[test]
#[should_panic(expected = "feed.frames = 1000: write a power of two, such as 1024")]
fn a_stream_refuses_wrong_numbers_with_what_to_write() {
    let base = case(Path::Chain, 2, 1);
    broadcast(
        &Case {
            tuning: base.tuning.clone().with_feed_frames(1000),
            ..base
        },
        NoFaults,
        "wrong numbers",
    );
}

const HOSTS: usize = 8;
/// Rate at which these short frames take as long as full ones do at 100 Mbit/s.
const RATE_BITS_PER_SECOND: u64 = 11_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JitterPath {
    Chain,
    Cast,
    AckTree,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    time: Duration,
    stats: StreamStats,
}

fn transfer(path: JitterPath, frames: u64, faults: impl Faults) -> Taken {
    let tuning = Tuning::default();
    let lone = |tuning: &dyn Fn(usize) -> Tuning, parent: &dyn Fn(usize) -> usize| {
        hosts(HOSTS, tuning, parent)
            .into_iter()
            .map(|lone| Host::new(lone.part))
            .collect::<Vec<_>>()
    };
    let position = |host: usize| host.saturating_sub(1);
    let machines = match path {
        JitterPath::Chain => tree(HOSTS, &tuning, |host| host - 1),
        JitterPath::Cast => lone(&|host| tuning.for_cast(HOSTS - 1, position(host)), &|_| 0),
        JitterPath::AckTree => lone(
            &|host| tuning.for_ack_tree(HOSTS - 1, 2, position(host) % 2),
            &|host| position(host) / 2,
        ),
    };
    let settings = HostSettings {
        groups: vec![group_mac("test")],
        ..HostSettings::default()
    };
    let network = Network::star(
        HOSTS,
        Cable::new(RATE_BITS_PER_SECOND, Duration::from_micros(5)),
        &settings,
    );
    let mut simulation = Simulation::new(&network, machines, faults);

    simulation.set_event_limit(50_000_000);
    let (mut pushed, mut done) = (0, [Instant::START; HOSTS]);
    let outcome = simulation.run(at(600_000), |host, machine, now| {
        let stream = &mut machine.streams[0];
        if host == 0 {
            while pushed < frames && stream.push(&[0; PAYLOAD_BYTES], ending(pushed, frames)) {
                pushed += 1;
            }
        } else if stream.peek().is_some() {
            take_all(stream, now);
            done[host] = now;
        }
        None
    });
    assert!(outcome.is_quiet(), "{path:?}: {outcome:?}");
    assert!(
        simulation.machines()[1..]
            .iter()
            .all(|host| host.streams[0].feed().head() == frames),
        "{path:?}"
    );
    let stats = simulation
        .machines()
        .iter()
        .map(|host| host.streams[0].stats());
    Taken {
        time: done[1..].iter().max().expect("seven").since(Instant::START),
        stats: stats.fold(StreamStats::default(), |sum, one| sum + one),
    }
}

const FRAMES: u64 = 11_500;
const MAX_JITTER: Duration = Duration::from_millis(20);

#[test]
fn jitter_of_20_ms_costs_less_than_as_much_again_and_hardly_a_frame_is_sent_twice() {
    for path in [JitterPath::Chain, JitterPath::Cast, JitterPath::AckTree] {
        let without = transfer(path, FRAMES, NoFaults);
        for share in [1.0, 0.1] {
            let jitter = transfer(
                path,
                FRAMES,
                RandomFaults::new(1).reorder(share, MAX_JITTER),
            );
            assert!(
                jitter.time < without.time * 2,
                "{path:?}, {share}: {jitter:?}, {:?} without",
                without.time
            );
            let again = jitter.stats.data_resent as f64 / jitter.stats.data_received as f64;
            // Reordering is measured at cursors, which move more seldom down a chain.
            let most = if path == JitterPath::Chain {
                0.04
            } else {
                0.03
            };
            assert!(again < most, "{path:?}, {share}: {jitter:?}");
        }
    }
}

#[test]
fn loss_beside_the_jitter_is_found_all_the_same() {
    for path in [JitterPath::Chain, JitterPath::Cast, JitterPath::AckTree] {
        let without = transfer(path, FRAMES, RandomFaults::new(1).loss(0.01));
        let jitter = transfer(
            path,
            FRAMES,
            RandomFaults::new(1).loss(0.01).reorder(1.0, MAX_JITTER),
        );
        assert!(
            jitter.time < without.time * 2,
            "{path:?}: {jitter:?}, {:?} without",
            without.time
        );
    }
}

#[test]
fn once_frames_keep_their_order_again_a_loss_is_found_at_once_again() {
    let calm = Instant::START + Duration::from_millis(200);
    let play = |longest: Duration| {
        let mut before = RandomFaults::new(1).reorder(1.0, longest);
        let mut after = RandomFaults::new(1).loss(0.01);
        transfer(
            JitterPath::Chain,
            FRAMES * 2,
            move |delivery: &Delivery<'_>| match delivery.at < calm {
                true => before.fate(delivery),
                false => after.fate(delivery),
            },
        )
    };
    let (orderly, jitter) = (play(Duration::ZERO), play(MAX_JITTER));
    let late = jitter.time.saturating_sub(orderly.time);
    assert!(
        late < Duration::from_millis(700),
        "{:?} and {:?}",
        orderly.time,
        jitter.time
    );
}
