//! Simulated tests of communicators (groups of processes as in MPI): formation, collectives, cost,
//! failures.

mod hostile;
mod keyed;
mod members;
mod messages;
mod reductions;
mod shrinking;
mod subgroups;
mod ways;

use ethbcast_collectives::communicator::Preset;
use ethbcast_planning::model::{Calibration, Point};
use ethbcast_tests::communicator::{Case, Play, Step, play};
use ethbcast_tests::in_full;
use ethbcast_transport::sim::{Delivery, Fate, NoFaults, RandomFaults};
use ethbcast_transport::wire::{Kind, Rank, parse};
use std::time::Duration;

fn everything(ranks: u16, bytes: usize) -> Vec<Step> {
    let roots = [0, ranks / 2, ranks - 1];
    let rooted = roots.iter().flat_map(|&root| {
        [
            Step::Broadcast { root, bytes },
            Step::Scatter { root, bytes },
            Step::Gather { root, bytes },
            Step::Barrier,
        ]
    });
    rooted
        .chain([Step::Allgather { bytes }, Step::Barrier])
        .collect()
}

#[test]
fn every_collective_delivers_among_2_to_64_ranks() {
    for &ranks in in_full(
        &[1, 2, 3, 8, 17, 33][..],
        &[1, 2, 3, 4, 7, 8, 16, 17, 18, 33, 64],
    ) {
        for bytes in [0, 1, 520, 521, 2000] {
            let case = Case::new(ranks, &everything(ranks, bytes));
            play(&case, 1, NoFaults, &format!("{ranks} ranks, {bytes} bytes"));
        }
    }
}

#[test]
fn every_collective_delivers_long_messages_by_all_presets_whatever_is_lost() {
    for preset in [Preset::Default, Preset::Paper, Preset::PushPull] {
        for (ranks, loss) in [(2, 0.0), (5, 0.01), (9, 0.1)] {
            let case = Case {
                preset,
                ..Case::new(ranks, &everything(ranks, 150_000))
            };
            let faults = RandomFaults::new(7)
                .loss(loss)
                .duplicate(0.01)
                .reorder(0.02, Duration::from_micros(300))
                .corrupt(0.005);
            play(
                &case,
                1,
                faults,
                &format!("{preset:?}, {ranks} ranks, loss {loss}"),
            );
        }
    }
}

#[test]
fn among_more_than_129_ranks_an_ack_tree_carries_what_receivers_say() {
    let steps = [
        Step::Broadcast {
            root: 7,
            bytes: 100_000,
        },
        Step::Barrier,
        Step::Broadcast {
            root: 140,
            bytes: 10,
        },
        Step::Barrier,
    ];
    let case = Case::new(150, &steps);
    for loss in [0.01, 0.0].into_iter().take(in_full(1, 2)) {
        let played = play(
            &case,
            1,
            RandomFaults::new(3).loss(loss),
            &format!("150 ranks, loss {loss}"),
        );
        let heard = played.stats()[7].streams.acks_received;
        // Eleven children acknowledge every eighth of the feed; 149 that acknowledge every half
        // would send 850 acknowledgements.
        assert!(
            heard < 400,
            "rank 7 heard {heard} acknowledgements of 184 frames"
        );
    }
}

#[test]
fn collectives_one_after_the_other_without_a_barrier_do_not_get_mixed_up() {
    let steps = (0..60).map(|number| match number % 5 {
        0 => Step::Allgather { bytes: number * 3 },
        1 => Step::Gather {
            root: number as u16 % 4,
            bytes: number,
        },
        _ => Step::Broadcast {
            root: number as u16 % 4,
            bytes: number * 40,
        },
    });
    let case = Case::new(4, &steps.collect::<Vec<_>>());
    for seed in 0..5 {
        play(
            &case,
            seed,
            RandomFaults::new(seed).loss(0.05),
            &format!("seed {seed}"),
        );
    }
}

#[test]
fn a_root_does_not_wait_for_a_rank_that_computes() {
    let mut case = Case::new(3, &[]);
    for (program, pause_ms) in case.programs.iter_mut().zip([0, 500, 900]) {
        program.push(Step::Compute(Duration::from_millis(pause_ms)));
        program.extend(
            [Step::Broadcast {
                root: 0,
                bytes: 256,
            }; 30],
        );
    }
    let played = play(&case, 1, NoFaults, "others compute");
    let joined_at = played.processes()[0].joined_at.expect("it has joined");
    let ended = played.processes()[0]
        .ended
        .as_ref()
        .expect("it has ended")
        .1;
    assert!(
        ended.since(joined_at) < Duration::from_millis(2),
        "{:?}",
        ended.since(joined_at)
    );
}

#[test]
fn a_long_broadcast_goes_down_the_chain_where_that_is_known_to_be_faster() {
    let point = |bytes, gap_ns, latency_ns| Point {
        bytes,
        gap_ns,
        latency_ns,
    };
    let points = vec![
        point(64, 600, 20_000),
        point(544, 4_600, 20_000),
        point(54_400, 460_000, 21_000),
    ];
    let policed = Calibration::from_points(points)
        .and_then(|costs| costs.with_cast_max(2_000))
        .expect("a calibration");
    let program = [
        Step::Broadcast {
            root: 2,
            bytes: 400_000,
        },
        Step::Broadcast { root: 2, bytes: 40 },
        Step::Barrier,
    ];
    let mut case = Case {
        calibration: Some(policed),
        ..Case::new(6, &program)
    };
    // The root alone decides: the others need not know the network's costs.
    let frames = (400_000_u64 + 24).div_ceil(544);
    for loss in [0.0, 0.05] {
        let played = play(
            &case,
            1,
            RandomFaults::new(1).loss(loss),
            &format!("chain, loss {loss}"),
        );
        let relayed = played
            .stats()
            .iter()
            .filter(|stats| stats.streams.data_sent >= frames)
            .count();
        assert_eq!(relayed, 5, "all but the last send the whole message once");
    }
    case.calibration = None;
    let played = play(&case, 1, NoFaults, "cast");
    assert_eq!(
        played
            .stats()
            .iter()
            .filter(|stats| stats.streams.data_sent >= frames)
            .count(),
        1
    );
}

const RANKS: u16 = 4;
const WATCHED: usize = 2;

/// Returns the bytes of a broadcast in each frame, in order; panics if more than the first `pushed`
/// frames are sent before a receiver has answered these.
fn parts(bytes: usize, mtu_bytes: u16, pushed: u64) -> Vec<usize> {
    let mut parts = Vec::new();
    let mut answered = false;
    let watch = |delivery: &Delivery<'_>| {
        let frame = parse(delivery.frame).expect("a frame of the group");
        let header = frame.header;
        answered |= delivery.to == 0 && header.kind == Kind::ACK && header.sequence >= pushed;
        if delivery.to == WATCHED && header.kind == Kind::DATA && header.rank == Rank(0) {
            assert!(
                header.sequence < pushed || answered,
                "frame {} is not waited for",
                header.sequence
            );
            parts.push(frame.payload.len());
        }
        Fate::Deliver
    };
    let steps = [Step::Broadcast { root: 0, bytes }];
    let case = Case {
        preset: Preset::PushPull,
        mtus: vec![mtu_bytes; RANKS.into()],
        ..Case::new(RANKS, &steps)
    };
    play(&case, 1, watch, &format!("{bytes} bytes"));
    // The first frame also names the message.
    let head = parts.iter().sum::<usize>() - bytes;
    parts[0] -= head;
    parts
}

#[test]
fn the_papers_860_of_4096_bytes_are_pushed_and_the_rest_is_pulled_in_full_frames() {
    assert_eq!(parts(4096, 1500, 1), [860, 1468, 1468, 300]);
    assert_eq!(parts(861, 1500, 1), [860, 1]);
    assert_eq!(parts(860, 1500, 1), [860]);
    assert_eq!(parts(10, 1500, 1), [10]);
}

#[test]
fn with_shorter_frames_two_are_pushed() {
    let parts = parts(4096, 576, 2);
    assert_eq!(
        (parts[0] + parts[1], parts[2], parts.iter().sum::<usize>()),
        (860, 544, 4096),
        "{parts:?}"
    );
}

fn group(ranks: u16) -> Play<NoFaults> {
    let case = Case {
        leave: false,
        mtus: vec![1500; ranks.into()],
        ..Case::new(ranks, &[Step::Barrier])
    };
    let mut play = Play::new(&case, 1, NoFaults, &format!("{ranks} ranks"));
    play.run(Duration::from_millis(500));
    play.assert_done();
    play
}

#[derive(Debug, PartialEq, Eq)]
struct FrameCosts {
    data: u64,
    acks: u64,
    pushes: u64,
    receipts: u64,
    /// Repetitions, probes, notes, pulled parts.
    others: u64,
}

/// Counts the frames of `steps` and of the quarter of a second after them; panics if a frame is
/// unaccounted for.
fn price(play: &mut Play<NoFaults>, steps: &[Step]) -> FrameCosts {
    let count = |play: &Play<NoFaults>| {
        let mut price = [0; 5];
        for stats in play.stats() {
            let (streams, mailbox) = (stats.streams, stats.mailbox);
            price[0] += streams.data_sent;
            price[1] += streams.acks_sent;
            price[2] += mailbox.pushes_sent;
            price[3] += mailbox.receipts_sent;
            price[4] += streams.data_resent + streams.heartbeats_sent;
            price[4] +=
                mailbox.pulls_sent + mailbox.notes_sent + mailbox.resent + mailbox.asks_sent;
        }
        price
    };
    let (before, frames_before) = (count(play), play.frames());
    play.go_on(steps);
    play.run(Duration::from_millis(250));
    play.assert_done();
    let after = count(play);
    let [data, acks, pushes, receipts, others] = std::array::from_fn(|at| after[at] - before[at]);
    assert_eq!(
        play.frames() - frames_before,
        data + acks + pushes + receipts + others,
        "every frame is accounted for"
    );
    FrameCosts {
        data,
        acks,
        pushes,
        receipts,
        others,
    }
}

#[test]
fn a_broadcast_of_256_bytes_is_one_frame_and_an_acknowledgement_of_each_receiver_and_no_more() {
    for ranks in [2, 8, 64] {
        let mut play = group(ranks);
        let price = price(
            &mut play,
            &[Step::Broadcast {
                root: 0,
                bytes: 256,
            }],
        );
        assert_eq!(
            price,
            FrameCosts {
                data: 1,
                acks: u64::from(ranks) - 1,
                pushes: 0,
                receipts: 0,
                others: 0
            },
            "{ranks} ranks"
        );
    }
}

#[test]
fn many_short_broadcasts_share_their_acknowledgements() {
    for ranks in [2, 8] {
        let mut play = group(ranks);
        let price = price(
            &mut play,
            &[Step::Broadcast {
                root: 0,
                bytes: 256,
            }; 50],
        );
        assert_eq!((price.data, price.others), (50, 0), "{ranks} ranks");
        assert!(
            price.acks <= 4 * (u64::from(ranks) - 1),
            "{ranks} ranks: {price:?}"
        );
    }
}

#[test]
fn a_barrier_is_one_arrival_of_each_rank_and_one_release_and_their_acknowledgements() {
    for ranks in [2, 8, 17, 18, 64] {
        let others = u64::from(ranks) - 1;
        let price = price(&mut group(ranks), &[Step::Barrier]);
        assert_eq!(
            price,
            FrameCosts {
                data: 1,
                acks: others,
                pushes: others,
                receipts: others,
                others: 0
            },
            "{ranks} ranks"
        );
    }
}

#[test]
fn a_barrier_of_eight_takes_a_round_trip() {
    let mut play = group(8);
    let began = play.simulation().now();
    play.go_on(&[Step::Barrier]);
    play.run(Duration::from_millis(10));
    let ended = play
        .processes()
        .iter()
        .map(|process| process.ended.as_ref().expect("done").1)
        .max()
        .expect("eight");
    // Two hops there and two back of 5 µs each, seven short frames one behind the other.
    assert!(
        ended.since(began) < Duration::from_micros(40),
        "{:?}",
        ended.since(began)
    );
}

#[test]
fn scatter_gather_and_allgather_send_each_block_once() {
    for ranks in [2, 8] {
        let others = u64::from(ranks) - 1;
        let mut play = group(ranks);
        for step in [
            Step::Scatter {
                root: 0,
                bytes: 1000,
            },
            Step::Gather {
                root: 0,
                bytes: 1000,
            },
        ] {
            let price = price(&mut play, &[step]);
            assert_eq!(
                price,
                FrameCosts {
                    data: 0,
                    acks: 0,
                    pushes: others,
                    receipts: others,
                    others: 0
                },
                "{step:?}, {ranks} ranks"
            );
        }
        let price = price(&mut play, &[Step::Allgather { bytes: 1000 }]);
        assert_eq!(
            (price.data, price.pushes, price.others),
            (others + 1, 0, 0),
            "{ranks} ranks"
        );
        assert!(
            price.acks <= others * (others + 1),
            "{ranks} ranks: {price:?}"
        );
    }
}

#[test]
fn a_group_without_calls_gives_signs_of_life_and_nothing_else() {
    let mut play = group(8);
    let (frames, sent) = (play.frames(), play.network().sent_frames);
    assert!(play.processes().iter().all(|process| {
        process
            .member
            .as_ref()
            .is_some_and(|member| member.is_quiet())
    }));
    play.run(Duration::from_secs(10));
    assert_eq!(play.frames(), frames);
    let signs = play.network().sent_frames - sent;
    assert!(
        (790..=810).contains(&signs),
        "{signs} signs of life of eight ranks in ten seconds"
    );
}
