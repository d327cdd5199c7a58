//! Simulated tests of communicators that continue with the surviving ranks after deaths.

use super::everything;
use ethbcast_collectives::communicator::{CommunicatorError, Named};
use ethbcast_planning::topology::Topology;
use ethbcast_tests::communicator::{Case, NetworkKnowledge, NodePlay, Play, Step};
use ethbcast_tests::in_full;
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Delivery, Fate, Faults, NoFaults, RandomFaults};
use ethbcast_transport::wire::Rank;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn named(rank: u16) -> Named {
    Named {
        rank: Rank(rank),
        host: format!("n{rank}"),
    }
}

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

/// Starts a group that has met, with hosts that die later.
fn met<F: Faults>(
    ranks: u16,
    dead: &[(usize, u64)],
    seed: u64,
    faults: F,
    replay: &str,
) -> Play<F> {
    let mut case = Case {
        leave: false,
        ..Case::new(ranks, &[Step::Barrier])
    };
    case.crashes = dead
        .iter()
        .map(|&(host, millis)| (host, Duration::from_millis(millis)))
        .collect();
    let mut play = Play::new(&case, seed, faults, replay);
    play.run(3 * SECOND);
    play.assert_done();
    play
}

fn living(ranks: u16, dead: &[usize]) -> Vec<usize> {
    (0..usize::from(ranks))
        .filter(|host| !dead.contains(host))
        .collect()
}

fn go_on<F: Faults>(play: &mut Play<F>, hosts: &[usize], steps: &[Step], span: Duration) {
    hosts.iter().for_each(|&host| play.go_on_at(host, steps));
    play.run(span);
}

/// Fails unless the hosts are ranks of one group of their own, in the old order, without a new
/// assembly.
#[track_caller]
fn assert_group<F: Faults>(
    play: &mut Play<F>,
    hosts: &[usize],
    former: u32,
    calls: &[u64],
    replay: &str,
) {
    let names: Vec<String> = hosts.iter().map(|host| format!("n{host}")).collect();
    let session = play.member(hosts[0]).session();
    assert_ne!(session, Some(former), "{replay}");
    for (rank, &host) in (0..).zip(hosts) {
        assert_eq!(play.ends()[host], Some(Ok(())), "{replay}: host {host}");
        let member = play.member(host);
        assert_eq!(
            (member.rank(), member.size()),
            (Some(Rank(rank)), hosts.len() as u16),
            "{replay}: host {host}"
        );
        assert_eq!(
            (member.hosts().collect::<Vec<_>>(), member.session()),
            (names.iter().map(|name| &**name).collect(), session)
        );
        assert_eq!(
            member.stats().calls_sent,
            calls[host],
            "{replay}: host {host} joined anew"
        );
    }
}

/// Makes hosts die after 3.1 s; the others detect it, shrink, and make every call.
fn shrunk<F: Faults>(ranks: u16, dead: &[usize], seed: u64, faults: F, replay: &str) {
    let crashes: Vec<(usize, u64)> = dead.iter().map(|&host| (host, 3100)).collect();
    let mut play = met(ranks, &crashes, seed, faults, replay);
    let (left, former) = (
        living(ranks, dead),
        play.member(0).session().expect("it has joined"),
    );
    let calls: Vec<u64> = play.stats().iter().map(|stats| stats.calls_sent).collect();
    play.run(SECOND / 5);
    go_on(&mut play, &left, &[Step::Barrier], 4 * SECOND);
    left.iter().for_each(|&host| drop(play.error(host)));
    go_on(&mut play, &left, &[Step::Shrink], 5 * SECOND);
    assert_group(&mut play, &left, former, &calls, replay);
    go_on(
        &mut play,
        &left,
        &everything(left.len() as u16, 5000),
        20 * SECOND,
    );
    let last = [
        Step::Message {
            from: 0,
            to: left.len() as u16 - 1,
            tag: 1,
            bytes: 700,
        },
        Step::Barrier,
    ];
    go_on(&mut play, &left, &last, 5 * SECOND);
    assert_group(&mut play, &left, former, &calls, replay);
}

#[test]
fn whoever_dies_the_others_go_on_in_the_old_order() {
    for ranks in in_full(&[2_u16, 5][..], &[2, 3, 5, 8, 17]) {
        for dead in [0, usize::from(*ranks) / 2, usize::from(*ranks) - 1] {
            shrunk(
                *ranks,
                &[dead],
                1,
                NoFaults,
                &format!("rank {dead} of {ranks} dies"),
            );
        }
    }
}

#[test]
fn several_may_die_at_once_and_frames_may_be_lost() {
    for (ranks, dead) in [
        (4, &[0, 3][..]),
        (5, &[1, 2]),
        (8, &[0, 1, 2, 6, 7]),
        (3, &[1]),
    ] {
        for seed in 0..in_full(2, 20) {
            let faults = RandomFaults::new(seed)
                .loss(0.2)
                .duplicate(0.05)
                .reorder(0.05, Duration::from_millis(2));
            shrunk(
                ranks,
                dead,
                seed,
                faults,
                &format!("{dead:?} of {ranks} die, seed {seed}"),
            );
        }
    }
}

#[test]
fn who_dies_while_the_group_shrinks_is_left_out_by_all_or_by_nobody() {
    let (mut left_out, mut taken) = (0, 0);
    for moment in 0..in_full(20, 100) {
        for (second, loss) in [(0, 0.0), (3, 0.1), (4, 0.3)] {
            let replay = format!("rank {second} dies at moment {moment}, loss {loss}");
            let faults = RandomFaults::new(moment).loss(loss);
            let mut play = met(
                6,
                &[(1, 3100), (second, 6000 + moment * 2)],
                1,
                faults,
                &replay,
            );
            let left = living(6, &[1, second]);
            play.run(3 * SECOND - Duration::from_millis(1));
            go_on(&mut play, &living(6, &[1]), &[Step::Shrink], 8 * SECOND);
            let sizes: Vec<_> = left
                .iter()
                .map(|&host| (play.member(host).size(), play.member(host).session()))
                .collect();
            assert!(
                sizes.iter().all(|size| *size == sizes[0]),
                "{replay}: {sizes:?}"
            );
            left.iter()
                .for_each(|&host| assert_eq!(play.ends()[host], Some(Ok(())), "{replay}"));
            if sizes[0].0 == 5 {
                taken += 1;
                go_on(&mut play, &left, &[Step::Barrier], 4 * SECOND);
                left.iter().for_each(|&host| {
                    assert!(
                        matches!(play.error(host), CommunicatorError::Gone(_)),
                        "{replay}"
                    )
                });
                go_on(&mut play, &left, &[Step::Shrink], 8 * SECOND);
            } else {
                left_out += 1;
            }
            go_on(
                &mut play,
                &left,
                &[Step::Allgather { bytes: 900 }, Step::Barrier],
                5 * SECOND,
            );
            for &host in &left {
                assert_eq!(
                    (&play.ends()[host], play.member(host).size()),
                    (&Some(Ok(())), 4),
                    "{replay}: host {host}"
                );
            }
        }
    }
    assert!(
        left_out > 0 && taken > 0,
        "{left_out} left out, {taken} taken"
    );
}

#[test]
fn who_was_only_asleep_is_told_and_takes_nobody_with_it() {
    let mut play = met(5, &[], 1, NoFaults, "rank 2 sleeps");
    let left = living(5, &[2]);
    play.simulation().pause(2, at(3100));
    play.run(SECOND / 5);
    go_on(&mut play, &left, &[Step::Barrier], 3 * SECOND);
    go_on(
        &mut play,
        &left,
        &[Step::Shrink, Step::Allgather { bytes: 3000 }],
        2 * SECOND,
    );
    play.simulation().resume(2, at(9000));
    play.run(3 * SECOND);
    go_on(&mut play, &[2], &[Step::Shrink], 2 * SECOND);
    assert_eq!(play.error(2), CommunicatorError::Outlawed);
    go_on(
        &mut play,
        &left,
        &[
            Step::Broadcast {
                root: 2,
                bytes: 30_000,
            },
            Step::Barrier,
        ],
        3 * SECOND,
    );
    left.iter()
        .for_each(|&host| assert_eq!(play.ends()[host], Some(Ok(()))));
}

/// Rank 2 no longer receives from rank 0; no other rank has a fault.
#[test]
fn of_two_that_do_not_hear_each_other_one_is_out() {
    let faults = |delivery: &Delivery<'_>| {
        let is_cut = delivery.at > at(3100) && (delivery.from, delivery.to) == (Some(0), 2);
        if is_cut { Fate::Drop } else { Fate::Deliver }
    };
    let mut play = met(4, &[], 1, faults, "rank 2 does not hear rank 0");
    play.run(3 * SECOND);
    go_on(&mut play, &[0, 1, 2, 3], &[Step::Shrink], 4 * SECOND);
    assert_eq!(play.error(0), CommunicatorError::Outlawed);
    go_on(
        &mut play,
        &[1, 2, 3],
        &[Step::Allgather { bytes: 3000 }, Step::Barrier],
        3 * SECOND,
    );
    [1, 2, 3]
        .into_iter()
        .for_each(|host| assert_eq!(play.ends()[host], Some(Ok(()))));
}

#[test]
fn who_hears_nobody_makes_no_group_of_its_own() {
    let faults = |delivery: &Delivery<'_>| {
        let is_cut = delivery.at > at(3100) && (delivery.from == Some(3) || delivery.to == 3);
        if is_cut { Fate::Drop } else { Fate::Deliver }
    };
    let mut play = met(4, &[], 1, faults, "rank 3 is cut off");
    play.run(3 * SECOND);
    go_on(&mut play, &[0, 1, 2, 3], &[Step::Shrink], 4 * SECOND);
    assert_eq!(play.error(3), CommunicatorError::Deaf(named(3)));
    go_on(
        &mut play,
        &[0, 1, 2],
        &[Step::Allgather { bytes: 3000 }, Step::Barrier],
        3 * SECOND,
    );
    [0, 1, 2]
        .into_iter()
        .for_each(|host| assert_eq!(play.ends()[host], Some(Ok(()))));
}

#[test]
fn who_does_not_call_it_is_named_and_a_later_try_succeeds() {
    let mut case = Case {
        leave: false,
        patience: 2 * SECOND,
        ..Case::new(4, &[Step::Barrier])
    };
    case.crashes = vec![(1, Duration::from_millis(600))];
    let mut play = Play::new(&case, 1, NoFaults, "rank 3 does not shrink");
    play.run(3 * SECOND);
    go_on(&mut play, &[0, 2], &[Step::Shrink], 3 * SECOND);
    for host in [0, 2] {
        assert_eq!(
            play.error(host),
            CommunicatorError::Unshrunk {
                missing_ranks: vec![named(3)]
            }
        );
    }
    assert_eq!(
        play.error(0).to_string(),
        "the group was not shrunk in time, rank 3 (n3) had not called it: let all ranks that live call it, or allow \
         more time"
    );
    go_on(
        &mut play,
        &[0, 2, 3],
        &[Step::Shrink, Step::Barrier],
        2 * SECOND,
    );
    [0, 2, 3]
        .into_iter()
        .for_each(|host| assert_eq!(play.ends()[host], Some(Ok(()))));
    // Possibly no rank has died, and one may have left.
    let now = play.simulation().now();
    play.member(3).leave(now, now + SECOND);
    play.simulation().wake(3, now);
    play.run(SECOND);
    go_on(
        &mut play,
        &[0, 2],
        &[Step::Shrink, Step::Shrink, Step::Allgather { bytes: 10 }],
        2 * SECOND,
    );
    assert_eq!(
        (play.ends()[0].clone(), play.member(2).size()),
        (Some(Ok(())), 2)
    );
    go_on(&mut play, &[0], &[Step::Shrink], SECOND);
    go_on(&mut play, &[2], &[Step::Shrink], SECOND / 2);
    assert_eq!(
        (play.ends()[0].clone(), play.ends()[2].clone()),
        (Some(Ok(())), Some(Ok(())))
    );
}

#[test]
fn what_is_known_of_the_network_is_kept_for_those_who_are_left() {
    let switch = |number: usize, above: &str| {
        let hosts = [2 * number, 2 * number + 1]
            .map(|host| host.to_string())
            .join(",");
        format!("[[switch]]\nname = \"s{number}\"\nhosts = \"n[{hosts}]\"\n{above}")
    };
    let lines = [
        switch(0, ""),
        switch(1, "links = [\"s0\"]\n"),
        switch(2, "links = [\"s1\"]\n"),
    ]
    .concat();
    let wiring =
        Topology::parse(&format!("schema = 1\n{lines}"), "three switches").expect("a topology");
    for (casts, probe) in [(false, false), (false, true), (true, true)] {
        for dead in [0, 3] {
            let steps = [
                &[Step::Compute(4 * SECOND), Step::Shrink][..],
                &everything(5, 40_000),
            ]
            .concat();
            let mut case = Case {
                leave: false,
                wiring: Some(wiring.clone()),
                ..Case::new(6, &steps)
            };
            case.told = vec![
                NetworkKnowledge {
                    topology: Some(wiring.clone()),
                    casts,
                    probe,
                    ..NetworkKnowledge::default()
                };
                6
            ];
            case.crashes = vec![(dead, Duration::from_millis(900))];
            let mut play = Play::new(
                &case,
                1,
                NoFaults,
                &format!("rank {dead} dies, casts {casts}, probe {probe}"),
            );
            play.run(20 * SECOND);
            let left = living(6, &[dead]);
            let choices: Vec<_> = left
                .iter()
                .map(|&host| play.member(host).choice(Rank(2), 1 << 20))
                .collect();
            assert!(
                choices.iter().all(|choice| choice.is_some()
                    && format!("{choice:?}") == format!("{:?}", choices[0]))
            );
            left.iter()
                .for_each(|&host| assert_eq!(play.ends()[host], Some(Ok(())), "host {host}"));
        }
    }
}

#[test]
fn hosts_of_several_ranks_go_on_with_those_that_live() {
    for killed in [(0, 0), (0, 1), (1, 0), (2, 2)] {
        let steps = [
            &[Step::Compute(4 * SECOND), Step::Shrink][..],
            &everything(5, 9000),
        ]
        .concat();
        let case = Case {
            leave: false,
            ..Case::new(6, &steps)
        };
        let mut play = NodePlay::new(&case, &[2, 1, 3], 1, NoFaults, &format!("{killed:?} dies"));
        play.run(SECOND);
        play.kill(killed.0, killed.1);
        play.run(20 * SECOND);
        let ends = play.ends();
        assert_eq!(
            ends.iter().filter(|end| **end == Some(Ok(()))).count(),
            5,
            "{killed:?}: {ends:?}"
        );
    }
}
