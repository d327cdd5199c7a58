//! Blocks of allgather, scatter and gather: their route, their cost, and that queues hold them.

use super::ways::{RATE, bed, copy_seconds, took};
use ethbcast_planning::model::Calibration;
use ethbcast_tests::communicator::{Case, Play, Step, Told, play};
use ethbcast_tests::in_full;
use ethbcast_transport::sim::{NoFaults, RandomFaults};
use std::time::Duration;

fn star(ranks: u16, program: &[Step]) -> Case {
    let mut case = Case { rate_bits_per_second: 100_000_000, burst_bytes: 3 << 10, ..Case::new(ranks, program) };
    case.mtus.fill(1500);
    case
}

fn without_casts(mut case: Case) -> Case {
    case.told[0].casts = false;
    case
}

fn counted(played: &Play<NoFaults>) -> (u64, u64, u64) {
    let (mut data, mut again) = (0, 0);
    for stats in played.stats() {
        let (streams, mailbox) = (stats.streams, stats.mailbox);
        data += streams.data_sent + mailbox.pushes_sent + mailbox.pulls_sent;
        again += streams.data_resent + mailbox.resent;
    }
    (data, again, played.network().drops.harmful())
}

#[test]
fn an_allgather_takes_hardly_longer_than_the_others_blocks_on_one_cable() {
    let (ranks, bytes) = (8, 256_usize << 10);
    let frames = bytes.div_ceil(1468) as u64 + 1;
    let floor = copy_seconds(bytes * 7) * RATE as f64 / 100e6;
    let casts = star(ranks, &[Step::Allgather { bytes }]);
    for (case, most_sent, what) in
        [(casts.clone(), 8 * frames, "casts"), (without_casts(casts), 8 * 7 * (frames + 2), "a ring")]
    {
        let times = took(&case) / floor;
        let (data, again, lost) = counted(&play(&case, 1, NoFaults, what));
        println!("allgather by {what}: {times:.3} times the others' blocks, {data} data frames, {again} again");
        assert!(times <= 1.10, "{what}: {times:.3}");
        assert!(data <= most_sent && again == 0 && lost == 0, "{what}: {data} frames, {again} again, {lost} lost");
    }
}

#[test]
fn many_casts_at_once_take_turns_and_overflow_no_queue() {
    // Without pacing, blocks of 24 ranks would need some 280 places in each queue. (With more ranks
    // memory is the limit.)
    for (ranks, bytes) in [(16, 64 << 10), (24, 16 << 10)] {
        let case = star(ranks, &[Step::Allgather { bytes }, Step::Barrier]);
        let floor = copy_seconds(bytes * usize::from(ranks - 1)) * RATE as f64 / 100e6;
        let times = took(&case) / floor;
        let (data, again, lost) = counted(&play(&case, 1, NoFaults, "many"));
        println!("{ranks} ranks: {times:.3} times the others' blocks, {data} data frames, {again} again, {lost} lost");
        assert!(again == 0 && lost == 0, "{ranks} ranks: {again} again, {lost} lost");
        assert!(times <= 1.10, "{ranks} ranks: {times:.3}");
    }
}

#[test]
fn where_nobody_knows_the_switches_casts_are_as_fast_as_a_ring_along_them() {
    let burst = |case| Case { burst_bytes: 3 << 10, ..case };
    let mut case = burst(bed("fig9-5", &[Step::Allgather { bytes: 64 << 10 }]));
    let along = took(&case);
    case.told[0] = Told { casts: false, ..Told::default() };
    let across = took(&case);
    case.told[0] = Told::default();
    let casts = took(&case);
    println!("fig9-5: {along:.3} s along the switches, {across:.3} s by number, {casts:.3} s by casts");
    assert!(along * 2.0 < across && casts < along * 1.05, "{along:.3}, {across:.3}, {casts:.3}");
}

#[test]
fn policed_casts_are_left_to_the_ring_by_all_ranks() {
    let mut case = star(8, &[Step::Allgather { bytes: 64 << 10 }, Step::Barrier]);
    case.calibration = Some(Calibration::assumed(100_000_000, 1468).with_cast_max(500).expect("a rate"));
    case.told.iter_mut().for_each(|told| told.casts = true);
    let played = play(&case, 1, NoFaults, "policed");
    // Only the barrier's release is sent on a stream, down a tree.
    let data: u64 = played.stats().iter().map(|stats| stats.streams.data_sent).sum();
    assert_eq!(data, 7);
}

#[test]
fn scatter_and_gather_of_long_blocks_take_what_the_roots_cable_takes_and_lose_nothing() {
    for (ranks, bytes) in [(8, 256 << 10), (32, 64 << 10)] {
        let floor = copy_seconds(bytes * usize::from(ranks - 1)) * RATE as f64 / 100e6;
        for (name, step) in [("scatter", Step::Scatter { root: 3, bytes }), ("gather", Step::Gather { root: 3, bytes })]
        {
            let case = star(ranks, &[step, Step::Barrier]);
            let times = took(&case) / floor;
            let (data, again, lost) = counted(&play(&case, 1, NoFaults, name));
            println!("{name}, {ranks} ranks: {times:.3} times the blocks, {data} frames, {again} again, {lost} lost");
            assert!(times <= 1.10, "{name}, {ranks} ranks: {times:.3}");
            assert!(again == 0 && lost == 0, "{name}, {ranks} ranks: {again} again, {lost} lost");
        }
    }
}

#[test]
fn many_short_blocks_share_frames_down_a_tree_and_up_again() {
    let ranks = 256;
    let both = [("gather", Step::Gather { root: 5, bytes: 8 }), ("scatter", Step::Scatter { root: 5, bytes: 8 })];
    for (name, step) in both.into_iter().take(in_full(1, 2)) {
        let mut case = Case { leave: false, ..star(ranks, &[Step::Barrier]) };
        case.calibration = Some(Calibration::assumed(100_000_000, 1468));
        let mut play = Play::new(&case, 1, NoFaults, name);
        play.run(Duration::from_secs(3));
        play.assert_done();
        let began = play.simulation().now();
        let sent = |play: &Play<NoFaults>| play.stats()[5].mailbox.pushes_sent + play.stats()[5].mailbox.receipts_sent;
        let before = sent(&play);
        play.go_on(&[step]);
        play.run(Duration::from_secs(1));
        play.assert_done();
        let ended = play.processes().iter().filter_map(|process| Some(process.ended.as_ref()?.1)).max();
        let took = ended.expect("they ended").since(began);
        println!("{name}: {took:?}, the root sent {} frames", sent(&play) - before);
        assert!(sent(&play) - before < 20, "{name}: the root sent {} frames for 255 blocks", sent(&play) - before);
        // 255 frames of the smallest size take 1.7 ms.
        assert!(took < Duration::from_micros(1_700), "{name}: {took:?}");
    }
}

#[test]
fn blocks_reach_their_ranks_by_every_way_whatever_is_lost() {
    for (ranks, bytes) in [(5, 30_000), (40, 3), (40, 2_000), (40, 0)] {
        let program: Vec<Step> = [0, 1, ranks - 1]
            .into_iter()
            .flat_map(|root| [Step::Scatter { root, bytes }, Step::Gather { root, bytes }, Step::Allgather { bytes }])
            .chain([Step::Barrier])
            .collect();
        for seed in 0..5 {
            let mut case = Case::new(ranks, &program);
            case.told[0].casts = seed % 2 == 0;
            let faults = RandomFaults::new(seed).loss(0.05).duplicate(0.02).reorder(0.05, Duration::from_micros(200));
            play(&case, seed, faults, &format!("{ranks} ranks, {bytes} bytes, seed {seed}"));
        }
    }
}

#[test]
fn a_rank_that_dies_is_named_by_all_whatever_the_call() {
    for (ranks, bytes) in [(8, 512 << 10), (24, 40_000)] {
        for step in [Step::Scatter { root: 1, bytes }, Step::Gather { root: 1, bytes }, Step::Allgather { bytes }] {
            for (dead, casts) in [(0, true), (2, false), (5, true)] {
                let long = [Step::Compute(Duration::from_millis(300)), step, Step::Barrier];
                let mut case = Case { patience: Duration::from_secs(8), leave: false, ..star(ranks, &long) };
                case.told[0].casts = casts;
                // It dies in the middle of the call, before its own block is sent and its arrival
                // announced.
                let at = if ranks == 8 { 310 } else { 303 };
                case.crashes = vec![(dead, Duration::from_millis(at))];
                let replay = format!("{ranks} ranks, {step:?}, host {dead} dies");
                let mut play = Play::new(&case, 1, NoFaults, &replay);
                play.run(Duration::from_secs(12));
                for host in (0..usize::from(ranks)).filter(|&host| host != dead) {
                    let error = play.error(host).to_string();
                    assert!(error.contains(&format!("(n{dead})")), "{replay}, host {host}: {error}");
                }
            }
        }
    }
}
