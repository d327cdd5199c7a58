//! Simulated tests of groups that some ranks of another group make, and that go on beside it.

use super::everything;
use ethbcast_collectives::communicator::{CommunicatorError, Station};
use ethbcast_tests::communicator::{Case, GROUP, NetworkKnowledge, Play};
use ethbcast_tests::in_full;
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Faults, NoFaults, RandomFaults, host_mac};
use ethbcast_transport::wire::{Rank, group_mac};
use std::time::Duration;

const RANKS: u16 = 6;

fn case() -> Case {
    Case {
        leave: false,
        ..Case::new(RANKS, &everything(RANKS, 3000))
    }
}

/// Returns what the ranks of a group in a simulated network create a group with.
fn station(name: &str, host: usize) -> Station {
    Station {
        group_mac: group_mac(GROUP),
        ..Station::new(name, &format!("n{host}"), host_mac(host), 576)
    }
}

/// Lets hosts, which are ranks of one group, create another, and make calls in both at once.
fn beside<F: Faults>(case: &Case, ranks: &[u16], faults: F, replay: &str) -> Play<F> {
    let mut play = Play::new(case, 1, faults, replay);
    play.run(Duration::from_secs(20));
    play.assert_done();
    let calls: Vec<u64> = play.stats().iter().map(|stats| stats.calls_sent).collect();
    let (now, former) = (play.simulation().now(), play.member(0).session());
    let own = everything(ranks.len() as u16, 5000);
    for host in ranks.iter().copied().map(usize::from) {
        let named: Vec<Rank> = ranks.iter().copied().map(Rank).collect();
        let member = play
            .member(host)
            .subgroup(now, &named, station("some", host))
            .expect("it is one of them");
        play.simulation()
            .machine_mut(host)
            .go_beside(case, member, &own);
    }
    play.go_on(&everything(RANKS, 7000));
    play.run(Duration::from_secs(60));
    play.assert_done();
    for (rank, host) in (0..).zip(ranks.iter().copied().map(usize::from)) {
        let beside = play.processes()[host]
            .beside
            .as_deref()
            .expect("it has created it");
        assert_eq!(
            beside.ended.as_ref().map(|(how, _)| how),
            Some(&Ok(())),
            "{replay}: host {host}"
        );
        let member = beside.member.as_ref().expect("as above");
        assert_eq!(
            (member.rank(), member.size()),
            (Some(Rank(rank)), ranks.len() as u16),
            "{replay}: host {host}"
        );
        assert_ne!(member.session(), former, "{replay}");
        assert_eq!(
            member.stats().calls_sent,
            0,
            "{replay}: host {host} has called the others"
        );
    }
    let again: Vec<u64> = play.stats().iter().map(|stats| stats.calls_sent).collect();
    assert_eq!(again, calls, "{replay}: the group has met again");
    play
}

#[test]
fn some_ranks_make_a_group_of_their_own_without_a_meeting_and_both_go_on() {
    for ranks in [
        &[0, 1, 2, 3, 4, 5][..],
        &[5, 4, 3, 2, 1, 0],
        &[1, 4],
        &[4, 2, 5],
        &[3],
    ] {
        for seed in 0..in_full(2, 20) {
            let faults = RandomFaults::new(seed)
                .loss(0.05 * seed.min(1) as f64)
                .duplicate(0.02);
            for (case, word) in [(case(), "plain"), (case().keyed(), "keyed")] {
                beside(
                    &case,
                    ranks,
                    faults.clone(),
                    &format!("{ranks:?}, {word}, seed {seed}"),
                );
            }
        }
    }
}

#[test]
fn a_subgroup_knows_the_measured_network_and_outlives_the_group() {
    let mut case = Case {
        mtus: vec![1500; RANKS.into()],
        ..case()
    };
    case.told[0] = NetworkKnowledge {
        probe: true,
        ..NetworkKnowledge::default()
    };
    let mut play = beside(&case, &[5, 2, 0], NoFaults, "measured");
    let now = play.simulation().now();
    for host in [0, 2, 5] {
        play.member(host).leave(now, now);
        play.simulation()
            .machine_mut(host)
            .beside
            .as_deref_mut()
            .expect("it is there")
            .go_on(&everything(3, 900));
        play.simulation().wake(host, now);
    }
    play.run(Duration::from_secs(20));
    for host in [0, 2, 5] {
        let beside = play.processes()[host]
            .beside
            .as_deref()
            .expect("it is there");
        assert_eq!(
            beside.ended.as_ref().map(|(how, _)| how),
            Some(&Ok(())),
            "host {host}"
        );
    }
}

#[test]
fn who_is_not_one_of_the_ranks_or_names_one_twice_is_refused() {
    let mut play = Play::new(&case(), 1, NoFaults, "refused");
    play.run(Duration::from_secs(20));
    let refused = |play: &mut Play<_>, ranks: &[u16]| {
        let ranks: Vec<Rank> = ranks.iter().copied().map(Rank).collect();
        play.member(1)
            .subgroup(Instant::START, &ranks, station("some", 1))
            .err()
    };
    let other = CommunicatorError::NotOfSubgroup {
        group: "some".to_owned(),
    };
    assert_eq!(refused(&mut play, &[0, 2]), Some(other.clone()));
    assert_eq!(refused(&mut play, &[0, 1, 0]), Some(other));
    let missing = CommunicatorError::NoSuchRank {
        rank: Rank(RANKS),
        size: RANKS,
    };
    assert_eq!(refused(&mut play, &[1, RANKS]), Some(missing));
    assert_eq!(refused(&mut play, &[1, 0]), None);
}
