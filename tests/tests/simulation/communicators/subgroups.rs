//! Simulated tests of groups that some ranks of another group make, and that go on beside it.

use super::everything;
use ethbcast_collectives::communicator::{CommunicatorError, Config, Description, Member, Station};
use ethbcast_collectives::keys::Secret;
use ethbcast_tests::communicator::{Case, GROUP, NetworkKnowledge, Play, Step};
use ethbcast_tests::in_full;
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Faults, NoFaults, RandomFaults, host_mac};
use ethbcast_transport::wire::{Rank, group_mac};
use std::sync::Arc;
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

/// Creates a host's part in a group of some ranks: on hosts with even numbers by the member itself,
/// on the others as another process would, whose key file has had another secret put first.
fn part<F: Faults>(
    play: &mut Play<F>,
    host: usize,
    ranks: &[u16],
) -> Result<Member, CommunicatorError> {
    let (now, named) = (
        play.simulation().now(),
        ranks.iter().copied().map(Rank).collect::<Vec<_>>(),
    );
    let config = Config {
        station: station("some", host),
        ..play.processes()[host].config().clone()
    };
    let own = play.member(host);
    if host.is_multiple_of(2) {
        return own.subgroup(now, &named, config.station);
    }
    let described = own.description().expect("it is complete").encode();
    let described = Description::decode(&described).expect("as it was written");
    let keys = config.keys.as_deref().cloned().map(|mut keys| {
        keys.add(Secret::new([9; 32])).expect("a new secret");
        Arc::new(keys)
    });
    Member::within(now, &described, &named, Config { keys, ..config })
}

/// Lets hosts, which are these ranks of one group, create another, and make calls in it.
fn create<F: Faults>(play: &mut Play<F>, case: &Case, hosts: &[usize], ranks: &[u16]) {
    let calls = everything(ranks.len() as u16, 5000);
    for &host in hosts {
        let member = part(play, host, ranks).expect("it is one of them");
        let now = play.simulation().now();
        play.simulation()
            .machine_mut(host)
            .go_beside(case, member, &calls);
        play.simulation().wake(host, now);
    }
}

/// Fails unless hosts are the ranks of the group that they have created, and its calls are done.
#[track_caller]
fn assert_created<F: Faults>(play: &Play<F>, hosts: &[usize], replay: &str) {
    for (rank, &host) in (0..).zip(hosts) {
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
            (Some(Rank(rank)), hosts.len() as u16),
            "{replay}: host {host}"
        );
        assert_eq!(
            member.stats().calls_sent,
            0,
            "{replay}: host {host} has called the others"
        );
    }
}

/// Lets hosts, which are ranks of one group, create another, and make calls in both at once.
fn beside<F: Faults>(case: &Case, ranks: &[u16], faults: F, replay: &str) -> Play<F> {
    let mut play = Play::new(case, 1, faults, replay);
    play.run(Duration::from_secs(20));
    play.assert_done();
    let calls: Vec<u64> = play.stats().iter().map(|stats| stats.calls_sent).collect();
    let hosts: Vec<usize> = ranks.iter().copied().map(usize::from).collect();
    create(&mut play, case, &hosts, ranks);
    play.go_on(&everything(RANKS, 7000));
    play.run(Duration::from_secs(60));
    play.assert_done();
    assert_created(&play, &hosts, replay);
    let former = play.member(0).session();
    for &host in &hosts {
        let beside = play.processes()[host].beside.as_deref();
        let session = beside.and_then(|beside| beside.member.as_ref()?.session());
        assert!(session.is_some() && session != former, "{replay}");
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
fn ranks_of_a_group_that_was_shrunk_make_a_group_as_well() {
    for (case, word) in [(case(), "plain"), (case().keyed(), "keyed")] {
        let case = Case {
            crashes: vec![(1, Duration::from_millis(500))],
            programs: vec![vec![Step::Barrier]; RANKS.into()],
            ..case
        };
        let mut play = Play::new(&case, 1, NoFaults, word);
        play.run(Duration::from_secs(4));
        for host in [0, 2, 3, 4, 5] {
            play.go_on_at(host, &[Step::Shrink]);
        }
        play.run(Duration::from_secs(10));
        let hosts = [5, 2, 3];
        create(&mut play, &case, &hosts, &[4, 1, 2]);
        play.run(Duration::from_secs(20));
        assert_created(&play, &hosts, word);
    }
}

#[test]
fn a_rank_that_dies_before_it_makes_its_part_is_gone_for_the_others_of_the_group() {
    let mut play = Play::new(&case(), 1, NoFaults, "late");
    play.run(Duration::from_secs(20));
    let hosts = [0, 1, 4];
    create(&mut play, &case(), &hosts, &[0, 3, 1, 4]);
    play.go_on(&everything(RANKS, 7000));
    play.run(Duration::from_secs(60));
    play.assert_done();
    for host in hosts {
        let beside = play.processes()[host].beside.as_deref();
        let ended = beside.and_then(|beside| Some(&beside.ended.as_ref()?.0));
        let Some(Err(CommunicatorError::Gone(gone))) = ended else {
            panic!("host {host}: {ended:?}");
        };
        assert_eq!((gone.rank, &*gone.host), (Rank(1), "n3"), "host {host}");
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
    assert_eq!(refused(&mut play, &[0, 1, 0]), Some(other.clone()));
    // Rank 2's address is in the list, but it is not the one that was described.
    let described = play.member(1).description().expect("it is complete");
    let config = Config {
        station: station("some", 2),
        ..play.processes()[2].config().clone()
    };
    let made = Member::within(Instant::START, &described, &[Rank(1), Rank(2)], config);
    assert_eq!(made.err(), Some(other));
    let missing = CommunicatorError::NoSuchRank {
        rank: Rank(RANKS),
        size: RANKS,
    };
    assert_eq!(refused(&mut play, &[1, RANKS]), Some(missing));
    assert_eq!(refused(&mut play, &[1, 0]), None);
}
