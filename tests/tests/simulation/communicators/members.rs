//! Simulated tests of communicators: how ranks find each other, stay alive, die and leave.

use ethbcast_collectives::communicator::{CommunicatorError, Culprit, Named, Preset};
use ethbcast_tests::communicator::{Case, GROUP, Play, Step, play};
use ethbcast_tests::in_full;
use ethbcast_transport::Instant;
use ethbcast_transport::messages::RecvOutcome;
use ethbcast_transport::sim::{
    Delivery, Fate, NoFaults, Random, RandomFaults, StormControl, host_mac,
};
use ethbcast_transport::wire::{
    EtherType, EthernetHeader, Flags, Header, OVERHEAD_BYTES, Rank, StreamId, group_mac, seal,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn named(rank: u16) -> Named {
    Named {
        rank: Rank(rank),
        host: format!("n{rank}"),
    }
}

#[test]
fn when_a_rank_dies_in_the_middle_all_others_name_it_and_nobody_hangs() {
    let programs: [&[Step]; 5] = [
        &[
            Step::Broadcast {
                root: 0,
                bytes: 4_000_000,
            },
            Step::Barrier,
        ],
        &[
            Step::Broadcast {
                root: 2,
                bytes: 4_000_000,
            },
            Step::Barrier,
        ],
        &[Step::Allgather { bytes: 800_000 }, Step::Barrier],
        &[
            Step::Scatter {
                root: 0,
                bytes: 900_000,
            },
            Step::Barrier,
        ],
        &[Step::Compute(Duration::from_millis(30)), Step::Barrier],
    ];
    for program in programs {
        for ranks in [3, 6] {
            let mut case = Case::new(ranks, program);
            case.crashes = vec![(2, Duration::from_millis(9))];
            let mut play = Play::new(
                &case,
                1,
                NoFaults,
                &format!("rank 2 of {ranks} dies in {program:?}"),
            );
            play.run(3 * SECOND);
            for host in (0..usize::from(ranks)).filter(|&host| host != 2) {
                assert_eq!(
                    play.error(host),
                    CommunicatorError::Gone(named(2)),
                    "{program:?}"
                );
                let at = play.processes()[host].ended.as_ref().expect("ended").1;
                assert!(
                    at < Instant::START + 2 * SECOND,
                    "{program:?}: rank {host} at {at:?}"
                );
            }
        }
    }
}

/// Makes the switches drop nearly all group frames from now on.
fn police(play: &mut Play<NoFaults>, case: &Case) {
    let nothing = StormControl {
        frames_per_second: 1,
        burst_frames: 1,
    };
    let now = play.simulation().now();
    case.network()
        .switches()
        .for_each(|switch| play.simulation().police(switch, Some(nothing), now));
}

/// Eight ranks send 80 calls a second, at equal intervals: a policer of 70 could drop those of the
/// same rank each time.
#[test]
fn ranks_meet_behind_a_policer_that_drops_some_of_their_calls() {
    let mut random = Random::new(70);
    let mut apart = Vec::new();
    for round in 0..in_full(60, 600) {
        let mut case = Case {
            leave: false,
            ..Case::new(8, &[])
        };
        // At once, evenly apart, or at random.
        let start = |host: u64| match round % 3 {
            0 => Duration::from_millis(3 * host),
            1 => Duration::from_micros(12_500 * host),
            _ => Duration::from_micros(random.below(1_000_000)),
        };
        case.starts = (0..8).map(start).collect();
        let storm_control = StormControl {
            frames_per_second: 70,
            burst_frames: 1 + round as u64 % 10,
        };
        let mut play = Play::new(&case, round as u64, NoFaults, &format!("round {round}"));
        let start = play.simulation().now();
        case.network()
            .switches()
            .for_each(|switch| play.simulation().police(switch, Some(storm_control), start));
        play.run(Duration::from_secs(30));
        if play.ends().iter().any(|end| *end != Some(Ok(()))) {
            apart.push((round, play.ends()));
        }
    }
    assert!(
        apart.is_empty(),
        "{} rounds: {:?}",
        apart.len(),
        apart.first()
    );
}

fn signs(play: &Play<NoFaults>) -> u64 {
    play.stats().iter().map(|stats| stats.signs_sent).sum()
}

/// Switches that police broadcast may drop every keepalive to the group; ranks from which nothing
/// has come for long are then probed by unicast.
#[test]
fn where_nothing_for_the_group_gets_through_nobody_is_taken_for_gone() {
    for ranks in [2_u16, 8, 40] {
        let last = Step::Message {
            from: 0,
            to: ranks - 1,
            tag: 1,
            bytes: 100,
        };
        let program = [Step::Barrier, Step::Compute(6 * SECOND), last];
        let case = Case {
            leave: false,
            ..Case::new(ranks, &program)
        };
        let mut play = Play::new(
            &case,
            1,
            NoFaults,
            &format!("{ranks} ranks, all signs lost"),
        );
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
        assert!(
            signs > size * 75 && signs <= size * 81 + pairs * 2 * 17,
            "{ranks} ranks: {signs} signs"
        );
    }
}

#[test]
fn a_rank_that_died_meanwhile_is_named_and_fails_no_other() {
    let program = [
        Step::Barrier,
        Step::Compute(6 * SECOND),
        Step::Message {
            from: 0,
            to: 7,
            tag: 1,
            bytes: 100,
        },
    ];
    let mut case = Case {
        leave: false,
        ..Case::new(8, &program)
    };
    case.crashes = vec![(3, Duration::from_millis(600))];
    let mut play = Play::new(&case, 1, NoFaults, "all signs lost, rank 3 dies");
    play.run(Duration::from_millis(500));
    police(&mut play, &case);
    play.run(8 * SECOND);
    for host in (0..8).filter(|&host| host != 3) {
        assert_eq!(play.ends()[host], Some(Ok(())), "rank {host}");
        assert_eq!(
            play.member(host).absence(Rank(3)),
            CommunicatorError::Gone(named(3)),
            "rank {host}"
        );
    }
}

/// Its BYEs are lost, and the others probe it: a keepalive would cancel the BYE.
#[test]
fn a_member_that_sent_bye_sends_no_more_signs_of_life() {
    let case = Case {
        leave: false,
        ..Case::new(8, &[Step::Barrier])
    };
    for moment in 0..40 {
        let mut play = Play::new(
            &case,
            1,
            NoFaults,
            &format!("all signs lost, rank 2 leaves, moment {moment}"),
        );
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
    let mut case = Case {
        leave: false,
        ..Case::new(4, &[Step::Barrier])
    };
    case.crashes = vec![(2, Duration::from_millis(50))];
    let mut play = Play::new(&case, 1, NoFaults, "rank 2 dies");
    play.run(2 * SECOND);
    for host in [0, 1, 3] {
        play.go_on_at(
            host,
            &[
                Step::Message {
                    from: 3,
                    to: 0,
                    tag: 1,
                    bytes: 50_000,
                },
                Step::Message {
                    from: 0,
                    to: 1,
                    tag: 1,
                    bytes: 5,
                },
            ],
        );
    }
    play.run(SECOND);
    for host in [0, 1, 3] {
        assert_eq!(play.ends()[host], Some(Ok(())));
    }
    play.go_on_at(
        1,
        &[Step::Message {
            from: 1,
            to: 2,
            tag: 1,
            bytes: 5,
        }],
    );
    play.run(SECOND);
    assert_eq!(play.error(1), CommunicatorError::Gone(named(2)));
}

#[test]
fn a_rank_that_leaves_harms_only_those_who_need_something_more_of_it() {
    for seed in 0..20 {
        let program = |pause_ms| {
            let pause = Step::Compute(Duration::from_millis(pause_ms));
            vec![
                Step::Barrier,
                pause,
                Step::Broadcast {
                    root: 2,
                    bytes: 3000,
                },
            ]
        };
        let mut case = Case {
            leave: false,
            ..Case::new(4, &program(0))
        };
        case.programs[3] = program(700);
        let mut play = Play::new(
            &case,
            seed,
            RandomFaults::new(seed).loss(0.1),
            &format!("rank 2 leaves, seed {seed}"),
        );
        play.run(Duration::from_millis(600));
        let now = play.simulation().now();
        play.member(2).leave(now, now + SECOND);
        play.simulation().wake(2, now);
        play.run(2 * SECOND);
        // Rank 3 came to the broadcast when its root had left: its bytes were there.
        play.assert_done();
        assert!(play.member(2).has_left(), "seed {seed}");
        for host in [0, 1, 3] {
            play.go_on_at(
                host,
                &[Step::Message {
                    from: 3,
                    to: 0,
                    tag: 1,
                    bytes: 500,
                }],
            );
        }
        play.run(SECOND);
        play.assert_done();
        for host in [0, 1, 3] {
            play.go_on_at(host, &[Step::Barrier]);
        }
        play.run(SECOND);
        for host in [0, 1, 3] {
            assert_eq!(
                play.error(host),
                CommunicatorError::Left(named(2)),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn when_a_rank_never_calls_the_others_say_at_their_deadline_who_was_missing() {
    let mut case = Case {
        patience: SECOND,
        leave: false,
        ..Case::new(4, &[Step::Barrier, Step::Gather { root: 0, bytes: 10 }])
    };
    case.programs[2] = vec![
        Step::Barrier,
        Step::Compute(3 * SECOND),
        Step::Gather { root: 0, bytes: 10 },
    ];
    let mut play = Play::new(&case, 1, NoFaults, "rank 2 never calls");
    play.run(2 * SECOND);
    let CommunicatorError::TimedOut {
        signature,
        missing_ranks,
        ..
    } = play.error(0)
    else {
        panic!("{}", play.error(0))
    };
    assert_eq!((signature.number, missing_ranks), (1, vec![named(2)]));
    assert_eq!(
        play.error(0).to_string(),
        "gather #1 of 10 bytes each to rank 0 was not done in time, rank 2 (n2) had not called it: \
         let all ranks call it, or allow more time"
    );
    // The others had sent their blocks and completed; rank 2 is refused for being too late, and so
    // are all in later calls.
    assert_eq!(
        (&play.ends()[1], &play.ends()[3]),
        (&Some(Ok(())), &Some(Ok(())))
    );
    play.go_on_at(1, &[Step::Barrier]);
    play.run(2 * SECOND);
    let culprit = Some(Box::new(Culprit::NotEntered(named(2))));
    let abandoned = CommunicatorError::Abandoned {
        rank: named(0),
        signature,
        culprit,
    };
    assert_eq!(
        (play.error(1), play.error(2)),
        (abandoned.clone(), abandoned)
    );
    play.go_on_at(
        1,
        &[Step::Message {
            from: 3,
            to: 1,
            tag: 0,
            bytes: 9,
        }],
    );
    play.go_on_at(
        3,
        &[Step::Message {
            from: 3,
            to: 1,
            tag: 0,
            bytes: 9,
        }],
    );
    play.run(SECOND);
    assert_eq!(
        (&play.ends()[1], &play.ends()[3]),
        (&Some(Ok(())), &Some(Ok(()))),
        "messages go on"
    );
}

#[test]
fn a_process_that_was_stopped_for_long_finds_itself_outlawed_and_accuses_nobody() {
    let case = Case {
        leave: false,
        ..Case::new(3, &[Step::Barrier])
    };
    let mut play = Play::new(&case, 1, NoFaults, "rank 1 is stopped");
    play.run(SECOND);
    let now = play.simulation().now();
    play.simulation().pause(1, now);
    play.simulation().resume(1, now + 4 * SECOND);
    play.run(5 * SECOND);
    play.go_on(&[Step::Barrier]);
    play.run(SECOND);
    assert_eq!(
        (play.error(0), play.error(2)),
        (
            CommunicatorError::Gone(named(1)),
            CommunicatorError::Gone(named(1))
        )
    );
    assert_eq!(play.error(1), CommunicatorError::Outlawed);
}

#[test]
fn a_silence_counts_only_after_the_time_that_the_ranks_were_given() {
    for (dead_after, goes_on) in [
        (Duration::from_secs(10), true),
        (Duration::from_millis(500), false),
    ] {
        let case = Case {
            leave: false,
            dead_after: Some(dead_after),
            ..Case::new(3, &[Step::Barrier])
        };
        let mut play = Play::new(
            &case,
            1,
            NoFaults,
            &format!("rank 1 is stopped, and may be for {dead_after:?}"),
        );
        play.run(SECOND);
        let now = play.simulation().now();
        let stop = if goes_on { 4 * SECOND } else { SECOND };
        play.simulation().pause(1, now);
        play.simulation().resume(1, now + stop);
        play.run(5 * SECOND);
        play.go_on(&[Step::Barrier]);
        play.run(SECOND);
        let end = if goes_on {
            Ok(())
        } else {
            Err(CommunicatorError::Gone(named(1)))
        };
        assert_eq!(
            (&play.ends()[0], &play.ends()[2]),
            (&Some(end.clone()), &Some(end)),
            "{dead_after:?}"
        );
    }
}

#[test]
fn a_short_stop_is_forgiven() {
    let case = Case::new(
        3,
        &[Step::Barrier, Step::Compute(3 * SECOND), Step::Barrier],
    );
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
    let calls = [
        Step::Broadcast {
            root: 0,
            bytes: 5_000_000,
        },
        Step::Gather {
            root: 1,
            bytes: 2_500_000,
        },
    ];
    let program = [&calls[..], &[Step::Barrier]].concat();
    let case = Case {
        patience: SECOND,
        rate_bits_per_second: 10_000_000,
        ..Case::new(3, &program)
    };
    let mut play = Play::new(&case, 1, NoFaults, "slow");
    play.run(20 * SECOND);
    play.assert_done();
    let ended = play
        .processes()
        .iter()
        .filter_map(|process| process.ended.as_ref())
        .map(|(_, at)| *at)
        .max();
    assert!(ended > Some(Instant::START + 8 * SECOND), "{ended:?}");
}

#[test]
fn a_send_that_is_done_is_not_withdrawn_when_its_deadline_passes() {
    let case = Case {
        leave: false,
        ..Case::new(2, &[Step::Barrier])
    };
    // The cable to rank 1 is down for 200 ms.
    let out = Duration::from_millis(300)..Duration::from_millis(500);
    let faults = move |delivery: &Delivery<'_>| {
        let lost = delivery.to == 1 && out.contains(&delivery.at.since(Instant::START));
        if lost { Fate::Drop } else { Fate::Deliver }
    };
    let mut play = Play::new(&case, 1, faults, "late");
    play.run(Duration::from_millis(301));
    play.assert_done();
    let now = play.simulation().now();
    // As `Communicator::send_within` does.
    let id = play
        .member(0)
        .send(
            Rank(1),
            7,
            vec![1; 10],
            Some(now + Duration::from_millis(50)),
        )
        .expect("room");
    play.simulation().wake(0, now);
    play.run(Duration::from_millis(1));
    assert!(
        play.member(0).take_sent(id).is_none() && play.member(0).has_gone(id),
        "send() says Ok"
    );
    play.member(0).ignore_sent(id);
    play.run(Duration::from_millis(400));
    let now = play.simulation().now();
    let recv = play
        .member(1)
        .recv(Rank(0), 7, 10, Some(now + Duration::from_millis(500)))
        .expect("room");
    play.simulation().wake(1, now);
    play.run(Duration::from_millis(1000));
    assert_eq!(
        play.member(1).take_received(recv),
        Some(RecvOutcome::Received { bytes: vec![1; 10] })
    );
}

/// Plays three ranks of which `leaver` makes its `calls` and leaves or dies; the others make them 8
/// s later. Returns the result of each and its time in seconds.
fn late(leaver: usize, calls: &[Step], dies: bool) -> Vec<(String, f64)> {
    let mut case = Case {
        patience: Duration::from_secs(20),
        ..Case::new(3, calls)
    };
    for host in (0..3).filter(|&host| host != leaver) {
        case.programs[host].insert(0, Step::Compute(Duration::from_secs(8)));
    }
    if dies {
        case.crashes = vec![(leaver, Duration::from_secs(1))];
    }
    let mut play = Play::new(&case, 1, NoFaults, "late");
    play.run(Duration::from_secs(60));
    let ends = play
        .processes()
        .iter()
        .enumerate()
        .filter(|(host, _)| *host != leaver);
    let told = |ended: &Option<(Result<(), _>, Instant)>| {
        let (how, at): &(
            Result<(), ethbcast_collectives::communicator::CommunicatorError>,
            Instant,
        ) = ended.as_ref().expect("an end");
        (
            how.as_ref()
                .map_or_else(|error| error.to_string(), |()| "Ok".into()),
            at.since(Instant::START).as_secs_f64(),
        )
    };
    ends.map(|(_, process)| told(&process.ended)).collect()
}

#[test]
fn a_call_whose_rank_has_left_or_died_before_all_was_taken_fails_at_once() {
    let broadcast = |bytes| Step::Broadcast { root: 0, bytes };
    let gather = |bytes| Step::Gather { root: 0, bytes };
    let scatter = |bytes| Step::Scatter { root: 0, bytes };
    for (leaver, calls, dies, word) in [
        (0, vec![broadcast(55_000)], false, "rank 0 (n0) has left"),
        (1, vec![gather(200_000)], false, "rank 1 (n1) has left"),
        (
            0,
            vec![broadcast(55_000), broadcast(10)],
            true,
            "rank 0 (n0) is silent",
        ),
        (
            1,
            vec![gather(200_000), gather(10)],
            true,
            "rank 1 (n1) is silent",
        ),
        (
            0,
            vec![scatter(200_000), scatter(10)],
            true,
            "rank 0 (n0) is silent",
        ),
    ] {
        let ends = late(leaver, &calls, dies);
        assert!(
            ends.iter().any(|(how, _)| how.contains(word)),
            "{calls:?}: {ends:#?}"
        );
        assert!(
            ends.iter()
                .all(|(how, at)| *at < 10.0 && (how == "Ok" || how.contains(word))),
            "{calls:?}: {ends:#?}"
        );
    }
}

fn hosts<F: ethbcast_transport::sim::Faults>(play: &Play<F>, host: usize) -> Vec<String> {
    let member = play.processes()[host]
        .member
        .as_ref()
        .expect("it has started");
    member.hosts().map(str::to_owned).collect()
}

#[test]
fn ranks_follow_the_names_of_the_hosts_in_any_order_of_arrival_and_all_have_one_list() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let ranks = 2 + random.below(15) as u16;
        let mut case = Case::new(ranks, &[]);
        case.starts
            .iter_mut()
            .for_each(|start| *start = Duration::from_millis(random.below(2500)));
        // Host 0 is called n15, and so on down.
        case.names = (0..ranks).map(|host| format!("n{}", 15 - host)).collect();
        case.leave = false;
        let loss = [0.0, 0.1, 0.3][seed as usize % 3];
        let mut play = Play::new(
            &case,
            seed,
            RandomFaults::new(seed).loss(loss),
            &format!("{ranks} ranks, loss {loss}, seed {seed}"),
        );
        play.run(8 * SECOND);
        play.assert_done();
        let mut expected: Vec<String> = case.names.clone();
        expected.reverse();
        for host in 0..case.names.len() {
            assert_eq!(hosts(&play, host), expected, "seed {seed}");
            let rank = play.processes()[host]
                .member
                .as_ref()
                .and_then(|member| member.rank());
            assert_eq!(rank, Some(Rank(ranks - 1 - host as u16)), "seed {seed}");
        }
    }
}

#[test]
fn the_group_is_complete_a_millisecond_after_the_last_has_come() {
    let mut case = Case::new(8, &[]);
    case.starts[3] = Duration::from_millis(1234);
    case.leave = false;
    let mut play = Play::new(&case, 1, NoFaults, "one is late");
    play.run(2 * SECOND);
    let latest = play
        .processes()
        .iter()
        .map(|process| process.joined_at)
        .max()
        .flatten()
        .expect("all have joined");
    let took = latest.since(ethbcast_transport::Instant::START + case.starts[3]);
    assert!(took < Duration::from_millis(1), "{took:?}");
}

#[test]
fn a_lone_process_is_a_group_at_once_and_sends_only_its_call() {
    let program = [
        Step::Barrier,
        Step::Broadcast {
            root: 0,
            bytes: 1000,
        },
        Step::Allgather { bytes: 9 },
        Step::Gather { root: 0, bytes: 9 },
    ];
    let played = play(&Case::new(1, &program), 1, NoFaults, "alone");
    assert_eq!(played.network().sent_frames, 0);
}

#[test]
fn a_process_that_starts_anew_before_the_group_is_complete_takes_its_own_place() {
    let mut case = Case::new(3, &[Step::Barrier]);
    case.starts[2] = Duration::from_millis(500);
    let mut play = Play::new(&case, 1, NoFaults, "n1 starts anew");
    play.run(Duration::from_millis(250));
    play.restart(1, &case, 99);
    assert!(play.run(5 * SECOND));
    play.assert_done();
}

#[test]
fn two_hosts_of_one_name_are_refused() {
    let mut case = Case::new(3, &[]);
    case.names[2] = "n1".to_owned();
    let mut play = Play::new(&case, 1, NoFaults, "namesakes");
    play.run(SECOND);
    for host in 0..3 {
        assert_eq!(
            play.error(host),
            CommunicatorError::Namesakes {
                host: "n1".to_owned()
            },
            "host {host}"
        );
    }
}

#[test]
fn more_processes_than_ranks_are_all_named() {
    let mut case = Case::new(4, &[]);
    case.sizes = vec![3; 4];
    let mut play = Play::new(&case, 1, NoFaults, "too many");
    play.run(SECOND);
    for host in 0..4 {
        let CommunicatorError::TooMany { size: 3, hosts } = play.error(host) else {
            panic!("{}", play.error(host))
        };
        assert_eq!(hosts, ["n0", "n1", "n2", "n3"]);
    }
}

#[test]
fn another_size_and_another_preset_are_named_on_both_sides() {
    let mut case = Case::new(2, &[]);
    case.sizes[1] = 3;
    let mut play = Play::new(&case, 1, NoFaults, "sizes differ");
    play.run(SECOND);
    assert_eq!(
        play.error(0),
        CommunicatorError::SizesDiffer {
            host: "n1".to_owned(),
            theirs: 3,
            ours: 2
        }
    );
    assert_eq!(
        play.error(1),
        CommunicatorError::SizesDiffer {
            host: "n0".to_owned(),
            theirs: 2,
            ours: 3
        }
    );

    let paper = Case {
        preset: Preset::Paper,
        ..Case::new(2, &[])
    };
    let mut play = Play::new(&Case::new(2, &[]), 1, NoFaults, "presets differ");
    play.restart(1, &paper, 2);
    play.run(SECOND);
    assert_eq!(
        play.error(0),
        CommunicatorError::PresetsDiffer {
            host: "n1".to_owned()
        }
    );
    assert_eq!(
        play.error(1),
        CommunicatorError::PresetsDiffer {
            host: "n0".to_owned()
        }
    );
}

#[test]
fn when_patience_ends_those_who_were_there_are_named() {
    let mut case = Case {
        patience: 3 * SECOND,
        ..Case::new(4, &[])
    };
    case.starts[2] = 100 * SECOND;
    let mut play = Play::new(&case, 1, NoFaults, "one is missing");
    play.run(4 * SECOND);
    let CommunicatorError::Missing {
        size: 4,
        hosts,
        other: None,
    } = play.error(0)
    else {
        panic!("{}", play.error(0))
    };
    assert_eq!(hosts, ["n0", "n1", "n3"]);
    assert_eq!(
        play.error(0).to_string(),
        "3 of 4 were there: n0, n1, n3; \
         start the others, one on each host, and see whether they use this group, size and network"
    );
}

#[test]
fn frames_are_as_long_as_the_smallest_mtu_allows() {
    let mut case = Case::new(
        3,
        &[
            Step::Broadcast {
                root: 0,
                bytes: 100_000,
            },
            Step::Barrier,
        ],
    );
    case.mtus = vec![9000, 1500, 4000];
    let played = play(&case, 1, NoFaults, "three MTUs");
    let frames = (100_000_u64 + 24).div_ceil(1468);
    assert_eq!(
        played.stats()[0].streams.data_sent,
        frames + 1,
        "and the release of the barrier"
    );
}

#[test]
fn a_late_process_finds_the_group_running_and_does_not_disturb_it() {
    let program = [Step::Barrier, Step::Compute(5 * SECOND), Step::Barrier];
    let mut case = Case {
        patience: 3 * SECOND,
        ..Case::new(4, &program)
    };
    case.sizes = vec![3; 4];
    case.starts[3] = SECOND;
    let mut play = Play::new(&case, 1, NoFaults, "one too many, late");
    play.run(10 * SECOND);
    let CommunicatorError::Running { hosts } = play.error(3) else {
        panic!("{}", play.error(3))
    };
    assert_eq!(hosts, ["n0", "n1", "n2"]);
    assert_eq!(play.ends()[..3], [Some(Ok(())), Some(Ok(())), Some(Ok(()))]);
}

#[test]
fn impossible_calls_are_refused_before_anything_is_sent() {
    let refused = |change: &dyn Fn(&mut Case)| {
        let mut case = Case::new(1, &[]);
        change(&mut case);
        let mut play = Play::new(&case, 1, NoFaults, "refused");
        play.run(SECOND);
        assert_eq!(play.network().sent_frames, 0);
        play.error(0).to_string()
    };
    assert!(refused(&|case| case.sizes[0] = 0).contains("ask for 1 to 4096"));
    assert!(refused(&|case| case.sizes[0] = 4097).contains("ask for 1 to 4096"));
    assert!(refused(&|case| case.mtus[0] = 575).contains("raise the interface's MTU to 576"));
    assert!(refused(&|case| case.names[0] = String::new()).contains("choose one of 1 to 128"));
    assert!(refused(&|case| case.names[0] = "n".repeat(129)).contains("choose one of 1 to 128"));
}

#[test]
fn a_process_of_another_version_is_refused_by_name() {
    let mut case = Case::new(2, &[]);
    case.starts[1] = 100 * SECOND;
    let mut play = Play::new(&case, 1, NoFaults, "another version");
    let body = [
        &[0; 12][..],
        &[0, 0],
        &[0; 32],
        &[9],
        GROUP.as_bytes(),
        b"\x02n7",
    ]
    .concat();
    let mut frame = vec![0; OVERHEAD_BYTES + body.len()];
    frame[OVERHEAD_BYTES..].copy_from_slice(&body);
    let header = Header {
        kind: ethbcast_collectives::communicator::kind::CALL,
        session: 0,
        stream: StreamId(0),
        rank: Rank::NONE,
        epoch: 0,
        flags: Flags::default(),
        sequence: 0,
        stamp: 0,
    };
    let link = EthernetHeader {
        source: host_mac(7),
        destination: group_mac(GROUP),
        ether_type: EtherType::DEFAULT,
    };
    seal(&mut frame, link, &header, body.len());
    // In the older version's format: other positions of length and checksum, and other covered
    // bytes.
    frame[16] = 1;
    frame[18..46].fill(0);
    frame[28..30].copy_from_slice(&(body.len() as u16).to_be_bytes());
    let checksum = crc32(&frame).to_be_bytes();
    frame[42..46].copy_from_slice(&checksum);
    for at in [100, 200] {
        play.simulation().inject(
            ethbcast_transport::Instant::START + Duration::from_millis(at),
            0,
            &frame,
        );
        play.run(Duration::from_millis(150));
        assert_eq!(play.ends()[0].is_some(), at == 200, "once is not enough");
    }
    let text = play.error(0).to_string();
    assert!(
        text.starts_with("n7 (") && text.contains("speaks version 1 of the protocol"),
        "{text}"
    );
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| {
        if crc & 1 == 1 {
            crc >> 1 ^ 0xEDB8_8320
        } else {
            crc >> 1
        }
    };
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}
