//! Calls and messages whose other side has left, has died, or has finished its send.

use ethbcast_tests::communicator::{Case, Play, Step};
use ethbcast_transport::Instant;
use ethbcast_transport::messages::RecvOutcome;
use ethbcast_transport::sim::{Delivery, Fate};
use ethbcast_transport::wire::Rank;
use std::time::Duration;

#[test]
fn a_send_that_is_done_is_not_withdrawn_when_its_deadline_passes() {
    let case = Case { leave: false, ..Case::new(2, &[Step::Barrier]) };
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
    let id = play.member(0).send(Rank(1), 7, vec![1; 10], Some(now + Duration::from_millis(50))).expect("room");
    play.simulation().wake(0, now);
    play.run(Duration::from_millis(1));
    assert!(play.member(0).take_sent(id).is_none() && play.member(0).has_gone(id), "send() says Ok");
    play.member(0).ignore_sent(id);
    play.run(Duration::from_millis(400));
    let now = play.simulation().now();
    let recv = play.member(1).recv(Rank(0), 7, 10, Some(now + Duration::from_millis(500))).expect("room");
    play.simulation().wake(1, now);
    play.run(Duration::from_millis(1000));
    assert_eq!(play.member(1).take_received(recv), Some(RecvOutcome::Received { bytes: vec![1; 10] }));
}

/// Plays three ranks of which `leaver` makes its `calls` and leaves or dies; the others make them 8
/// s later. Returns the result of each and its time in seconds.
fn late(leaver: usize, calls: &[Step], dies: bool) -> Vec<(String, f64)> {
    let mut case = Case { patience: Duration::from_secs(20), ..Case::new(3, calls) };
    for host in (0..3).filter(|&host| host != leaver) {
        case.programs[host].insert(0, Step::Compute(Duration::from_secs(8)));
    }
    if dies {
        case.crashes = vec![(leaver, Duration::from_secs(1))];
    }
    let mut play = Play::new(&case, 1, ethbcast_transport::sim::NoFaults, "late");
    play.run(Duration::from_secs(60));
    let ends = play.processes().iter().enumerate().filter(|(host, _)| *host != leaver);
    let told = |ended: &Option<(Result<(), _>, Instant)>| {
        let (how, at): &(Result<(), ethbcast_collectives::communicator::CommunicatorError>, Instant) =
            ended.as_ref().expect("an end");
        (how.as_ref().map_or_else(|error| error.to_string(), |()| "Ok".into()), at.since(Instant::START).as_secs_f64())
    };
    ends.map(|(_, process)| told(&process.ended)).collect()
}

fn assert_told_soon(ends: &[(String, f64)], word: &str) {
    assert!(ends.iter().any(|(how, _)| how.contains(word)), "{ends:#?}");
    assert!(ends.iter().all(|(how, at)| *at < 10.0 && (how == "Ok" || how.contains(word))), "{ends:#?}");
}

#[test]
fn a_broadcast_whose_root_left_before_all_of_it_was_taken_fails_at_once() {
    assert_told_soon(&late(0, &[Step::Broadcast { root: 0, bytes: 55_000 }], false), "rank 0 (n0) has left");
}

#[test]
fn a_gather_whose_block_was_left_behind_fails_at_once() {
    assert_told_soon(&late(1, &[Step::Gather { root: 0, bytes: 200_000 }], false), "rank 1 (n1) has left");
}

#[test]
fn a_broadcast_whose_root_died_later_fails_at_once() {
    let calls = [Step::Broadcast { root: 0, bytes: 55_000 }, Step::Broadcast { root: 0, bytes: 10 }];
    assert_told_soon(&late(0, &calls, true), "rank 0 (n0) is silent");
}

#[test]
fn a_gather_whose_rank_died_later_fails_at_once() {
    let calls = [Step::Gather { root: 0, bytes: 200_000 }, Step::Gather { root: 0, bytes: 10 }];
    assert_told_soon(&late(1, &calls, true), "rank 1 (n1) is silent");
}

#[test]
fn a_scatter_whose_root_died_later_fails_at_once() {
    let calls = [Step::Scatter { root: 0, bytes: 200_000 }, Step::Scatter { root: 0, bytes: 10 }];
    assert_told_soon(&late(0, &calls, true), "rank 0 (n0) is silent");
}
