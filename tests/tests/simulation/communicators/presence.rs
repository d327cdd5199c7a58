//! Ranks that die, leave, pause or give up.

use ethbcast_collectives::communicator::{CommunicatorError, Culprit, Named};
use ethbcast_tests::communicator::{Case, Play, Step};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{NoFaults, RandomFaults, StormControl};
use ethbcast_transport::wire::Rank;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn named(rank: u16) -> Named {
    Named { rank: Rank(rank), host: format!("n{rank}") }
}

#[test]
fn when_a_rank_dies_in_the_middle_all_others_name_it_and_nobody_hangs() {
    let programs: [&[Step]; 5] = [
        &[Step::Broadcast { root: 0, bytes: 4_000_000 }, Step::Barrier],
        &[Step::Broadcast { root: 2, bytes: 4_000_000 }, Step::Barrier],
        &[Step::Allgather { bytes: 800_000 }, Step::Barrier],
        &[Step::Scatter { root: 0, bytes: 900_000 }, Step::Barrier],
        &[Step::Compute(Duration::from_millis(30)), Step::Barrier],
    ];
    for program in programs {
        for ranks in [3, 6] {
            let mut case = Case::new(ranks, program);
            case.crashes = vec![(2, Duration::from_millis(9))];
            let mut play = Play::new(&case, 1, NoFaults, &format!("rank 2 of {ranks} dies in {program:?}"));
            play.run(3 * SECOND);
            for host in (0..usize::from(ranks)).filter(|&host| host != 2) {
                assert_eq!(play.error(host), CommunicatorError::Gone(named(2)), "{program:?}");
                let at = play.processes()[host].ended.as_ref().expect("ended").1;
                assert!(at < Instant::START + 2 * SECOND, "{program:?}: rank {host} at {at:?}");
            }
        }
    }
}

/// Makes the switches drop nearly all group frames from now on.
fn police(play: &mut Play<NoFaults>, case: &Case) {
    let nothing = StormControl { frames_per_second: 1, burst_frames: 1 };
    let now = play.simulation().now();
    case.network().switches().for_each(|switch| play.simulation().police(switch, Some(nothing), now));
}

fn signs(play: &Play<NoFaults>) -> u64 {
    play.stats().iter().map(|stats| stats.signs_sent).sum()
}

/// Switches that police broadcast may drop every sign of life to the group; ranks not heard for
/// long are then probed by unicast.
#[test]
fn where_nothing_for_the_group_gets_through_nobody_is_taken_for_gone() {
    for ranks in [2_u16, 8, 40] {
        let last = Step::Message { from: 0, to: ranks - 1, tag: 1, bytes: 100 };
        let program = [Step::Barrier, Step::Compute(6 * SECOND), last];
        let case = Case { leave: false, ..Case::new(ranks, &program) };
        let mut play = Play::new(&case, 1, NoFaults, &format!("{ranks} ranks, all signs lost"));
        play.run(Duration::from_millis(500));
        let before = signs(&play);
        police(&mut play, &case);
        play.run(8 * SECOND);
        play.assert_done();
        // Ten group frames a second as before; unicast only when a third of a rank's dead limit has
        // passed.
        let signs = signs(&play) - before;
        let (size, pairs) = (u64::from(ranks), u64::from(ranks) * u64::from(ranks - 1));
        println!("{ranks} ranks: {signs} signs in 8 s");
        assert!(signs > size * 75 && signs <= size * 81 + pairs * 2 * 17, "{ranks} ranks: {signs} signs");
    }
}

#[test]
fn one_that_has_died_meanwhile_is_named_and_takes_nobody_with_it() {
    let program = [Step::Barrier, Step::Compute(6 * SECOND), Step::Message { from: 0, to: 7, tag: 1, bytes: 100 }];
    let mut case = Case { leave: false, ..Case::new(8, &program) };
    case.crashes = vec![(3, Duration::from_millis(600))];
    let mut play = Play::new(&case, 1, NoFaults, "all signs lost, rank 3 dies");
    play.run(Duration::from_millis(500));
    police(&mut play, &case);
    play.run(8 * SECOND);
    for host in (0..8).filter(|&host| host != 3) {
        assert_eq!(play.ends()[host], Some(Ok(())), "rank {host}");
        assert_eq!(play.member(host).absence(Rank(3)), CommunicatorError::Gone(named(3)), "rank {host}");
    }
}

/// Its BYEs are lost, and the others probe it: a sign of life would cancel the BYE.
#[test]
fn who_has_said_good_bye_gives_no_sign_of_life_any_more() {
    let case = Case { leave: false, ..Case::new(8, &[Step::Barrier]) };
    for moment in 0..40 {
        let mut play = Play::new(&case, 1, NoFaults, &format!("all signs lost, rank 2 leaves, moment {moment}"));
        play.run(Duration::from_millis(500));
        police(&mut play, &case);
        play.run(Duration::from_millis(900 + 5 * moment));
        let now = play.simulation().now();
        play.member(2).leave(now, now + SECOND);
        play.simulation().wake(2, now);
        let before = play.stats()[2].signs_sent;
        play.run(SECOND);
        assert!(play.member(2).has_left());
        // One may have been due in the very moment.
        assert!(play.stats()[2].signs_sent <= before + 1, "moment {moment}");
    }
}

#[test]
fn messages_between_those_who_are_left_go_on() {
    let mut case = Case { leave: false, ..Case::new(4, &[Step::Barrier]) };
    case.crashes = vec![(2, Duration::from_millis(50))];
    let mut play = Play::new(&case, 1, NoFaults, "rank 2 dies");
    play.run(2 * SECOND);
    for host in [0, 1, 3] {
        play.go_on_at(
            host,
            &[
                Step::Message { from: 3, to: 0, tag: 1, bytes: 50_000 },
                Step::Message { from: 0, to: 1, tag: 1, bytes: 5 },
            ],
        );
    }
    play.run(SECOND);
    for host in [0, 1, 3] {
        assert_eq!(play.ends()[host], Some(Ok(())));
    }
    play.go_on_at(1, &[Step::Message { from: 1, to: 2, tag: 1, bytes: 5 }]);
    play.run(SECOND);
    assert_eq!(play.error(1), CommunicatorError::Gone(named(2)));
}

#[test]
fn a_rank_that_leaves_harms_only_those_who_need_something_more_of_it() {
    for seed in 0..20 {
        let program = |pause_ms| {
            let pause = Step::Compute(Duration::from_millis(pause_ms));
            vec![Step::Barrier, pause, Step::Broadcast { root: 2, bytes: 3000 }]
        };
        let mut case = Case { leave: false, ..Case::new(4, &program(0)) };
        case.programs[3] = program(700);
        let mut play =
            Play::new(&case, seed, RandomFaults::new(seed).loss(0.1), &format!("rank 2 leaves, seed {seed}"));
        play.run(Duration::from_millis(600));
        let now = play.simulation().now();
        play.member(2).leave(now, now + SECOND);
        play.simulation().wake(2, now);
        play.run(2 * SECOND);
        // Rank 3 came to the broadcast when its root had left: its bytes were there.
        play.assert_done();
        assert!(play.member(2).has_left(), "seed {seed}");
        for host in [0, 1, 3] {
            play.go_on_at(host, &[Step::Message { from: 3, to: 0, tag: 1, bytes: 500 }]);
        }
        play.run(SECOND);
        play.assert_done();
        for host in [0, 1, 3] {
            play.go_on_at(host, &[Step::Barrier]);
        }
        play.run(SECOND);
        for host in [0, 1, 3] {
            assert_eq!(play.error(host), CommunicatorError::Left(named(2)), "seed {seed}");
        }
    }
}

#[test]
fn when_a_rank_never_calls_the_others_say_at_their_deadline_who_was_missing() {
    let mut case =
        Case { patience: SECOND, leave: false, ..Case::new(4, &[Step::Barrier, Step::Gather { root: 0, bytes: 10 }]) };
    case.programs[2] = vec![Step::Barrier, Step::Compute(3 * SECOND), Step::Gather { root: 0, bytes: 10 }];
    let mut play = Play::new(&case, 1, NoFaults, "rank 2 never calls");
    play.run(2 * SECOND);
    let CommunicatorError::TimedOut { signature, missing_ranks, .. } = play.error(0) else {
        panic!("{}", play.error(0))
    };
    assert_eq!((signature.number, missing_ranks), (1, vec![named(2)]));
    assert_eq!(
        play.error(0).to_string(),
        "gather #1 of 10 bytes each to rank 0 was not done in time, rank 2 (n2) had not called it: \
         let all ranks call it, or allow more time"
    );
    // The others had sent their blocks and completed; rank 2 is told that it comes too late, and so
    // are all in later calls.
    assert_eq!((&play.ends()[1], &play.ends()[3]), (&Some(Ok(())), &Some(Ok(()))));
    play.go_on_at(1, &[Step::Barrier]);
    play.run(2 * SECOND);
    let culprit = Some(Box::new(Culprit::NotEntered(named(2))));
    let abandoned = CommunicatorError::Abandoned { rank: named(0), signature, culprit };
    assert_eq!((play.error(1), play.error(2)), (abandoned.clone(), abandoned));
    play.go_on_at(1, &[Step::Message { from: 3, to: 1, tag: 0, bytes: 9 }]);
    play.go_on_at(3, &[Step::Message { from: 3, to: 1, tag: 0, bytes: 9 }]);
    play.run(SECOND);
    assert_eq!((&play.ends()[1], &play.ends()[3]), (&Some(Ok(())), &Some(Ok(()))), "messages go on");
}

#[test]
fn a_process_that_was_stopped_for_long_finds_itself_outlawed_and_accuses_nobody() {
    let case = Case { leave: false, ..Case::new(3, &[Step::Barrier]) };
    let mut play = Play::new(&case, 1, NoFaults, "rank 1 is stopped");
    play.run(SECOND);
    let now = play.simulation().now();
    play.simulation().pause(1, now);
    play.simulation().resume(1, now + 4 * SECOND);
    play.run(5 * SECOND);
    play.go_on(&[Step::Barrier]);
    play.run(SECOND);
    assert_eq!((play.error(0), play.error(2)), (CommunicatorError::Gone(named(1)), CommunicatorError::Gone(named(1))));
    assert_eq!(play.error(1), CommunicatorError::Outlawed);
}

#[test]
fn a_short_stop_is_forgiven() {
    let case = Case::new(3, &[Step::Barrier, Step::Compute(3 * SECOND), Step::Barrier]);
    let mut play = Play::new(&case, 1, NoFaults, "rank 1 is stopped for a second");
    let start = Instant::START + SECOND;
    play.simulation().pause(1, start);
    play.simulation().resume(1, start + SECOND);
    play.run(8 * SECOND);
    play.assert_done();
}

#[test]
fn a_call_may_take_as_long_as_it_needs_while_anything_moves() {
    // Each takes four seconds or more at that rate, and may stall for one.
    let calls = [Step::Broadcast { root: 0, bytes: 5_000_000 }, Step::Gather { root: 1, bytes: 2_500_000 }];
    let program = [&calls[..], &[Step::Barrier]].concat();
    let case = Case { patience: SECOND, rate_bits_per_second: 10_000_000, ..Case::new(3, &program) };
    let mut play = Play::new(&case, 1, NoFaults, "slow");
    play.run(20 * SECOND);
    play.assert_done();
    let ended = play.processes().iter().filter_map(|process| process.ended.as_ref()).map(|(_, at)| *at).max();
    assert!(ended > Some(Instant::START + 8 * SECOND), "{ended:?}");
}
