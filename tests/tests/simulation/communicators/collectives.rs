//! Delivery of collectives: all of them, with few and many ranks, short and long.

use ethbcast_collectives::communicator::Preset;
use ethbcast_planning::model::{Calibration, Point};
use ethbcast_tests::communicator::{Case, Step, play};
use ethbcast_tests::in_full;
use ethbcast_transport::sim::{NoFaults, RandomFaults};
use std::time::Duration;

fn everything(ranks: u16, bytes: usize) -> Vec<Step> {
    let roots = [0, ranks / 2, ranks - 1];
    let rooted = roots.iter().flat_map(|&root| {
        [Step::Broadcast { root, bytes }, Step::Scatter { root, bytes }, Step::Gather { root, bytes }, Step::Barrier]
    });
    rooted.chain([Step::Allgather { bytes }, Step::Barrier]).collect()
}

#[test]
fn every_collective_delivers_among_2_to_64_ranks() {
    for &ranks in in_full(&[1, 2, 3, 8, 17, 33][..], &[1, 2, 3, 4, 7, 8, 16, 17, 18, 33, 64]) {
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
            let case = Case { preset, ..Case::new(ranks, &everything(ranks, 150_000)) };
            let faults = RandomFaults::new(7)
                .loss(loss)
                .duplicate(0.01)
                .reorder(0.02, Duration::from_micros(300))
                .corrupt(0.005);
            play(&case, 1, faults, &format!("{preset:?}, {ranks} ranks, loss {loss}"));
        }
    }
}

#[test]
fn among_more_than_129_ranks_an_ack_tree_carries_what_receivers_say() {
    let steps = [
        Step::Broadcast { root: 7, bytes: 100_000 },
        Step::Barrier,
        Step::Broadcast { root: 140, bytes: 10 },
        Step::Barrier,
    ];
    let case = Case::new(150, &steps);
    for loss in [0.01, 0.0].into_iter().take(in_full(1, 2)) {
        let played = play(&case, 1, RandomFaults::new(3).loss(loss), &format!("150 ranks, loss {loss}"));
        let heard = played.stats()[7].streams.acks_received;
        // Eleven children acknowledge every eighth of the feed; 149 that acknowledge every half
        // would send 850 acknowledgements.
        assert!(heard < 400, "rank 7 heard {heard} acknowledgements of 184 frames");
    }
}

#[test]
fn collectives_one_after_the_other_without_a_barrier_do_not_get_mixed_up() {
    let steps = (0..60).map(|number| match number % 5 {
        0 => Step::Allgather { bytes: number * 3 },
        1 => Step::Gather { root: number as u16 % 4, bytes: number },
        _ => Step::Broadcast { root: number as u16 % 4, bytes: number * 40 },
    });
    let case = Case::new(4, &steps.collect::<Vec<_>>());
    for seed in 0..5 {
        play(&case, seed, RandomFaults::new(seed).loss(0.05), &format!("seed {seed}"));
    }
}

#[test]
fn a_root_does_not_wait_for_a_rank_that_computes() {
    let mut case = Case::new(3, &[]);
    for (program, pause_ms) in case.programs.iter_mut().zip([0, 500, 900]) {
        program.push(Step::Compute(Duration::from_millis(pause_ms)));
        program.extend([Step::Broadcast { root: 0, bytes: 256 }; 30]);
    }
    let played = play(&case, 1, NoFaults, "others compute");
    let joined_at = played.processes()[0].joined_at.expect("it has joined");
    let ended = played.processes()[0].ended.as_ref().expect("it has ended").1;
    assert!(ended.since(joined_at) < Duration::from_millis(2), "{:?}", ended.since(joined_at));
}

#[test]
fn a_long_broadcast_goes_down_the_chain_where_that_is_known_to_be_faster() {
    let point = |bytes, gap_ns, latency_ns| Point { bytes, gap_ns, latency_ns };
    let points = vec![point(64, 600, 20_000), point(544, 4_600, 20_000), point(54_400, 460_000, 21_000)];
    let policed = Calibration::from_points(points).and_then(|costs| costs.with_cast_max(2_000)).expect("a calibration");
    let program = [Step::Broadcast { root: 2, bytes: 400_000 }, Step::Broadcast { root: 2, bytes: 40 }, Step::Barrier];
    let mut case = Case { calibration: Some(policed), ..Case::new(6, &program) };
    // The root alone decides: the others need not know the network's costs.
    let frames = (400_000_u64 + 24).div_ceil(544);
    for loss in [0.0, 0.05] {
        let played = play(&case, 1, RandomFaults::new(1).loss(loss), &format!("chain, loss {loss}"));
        let relayed = played.stats().iter().filter(|stats| stats.streams.data_sent >= frames).count();
        assert_eq!(relayed, 5, "all but the last send the whole message once");
    }
    case.calibration = None;
    let played = play(&case, 1, NoFaults, "cast");
    assert_eq!(played.stats().iter().filter(|stats| stats.streams.data_sent >= frames).count(), 1);
}
