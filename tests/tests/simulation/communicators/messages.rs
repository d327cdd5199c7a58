//! Messages of a communicator, and invalid requests of applications.

use ethbcast_collectives::communicator::{Barrier, Broadcast, CommunicatorError, Scatter};
use ethbcast_tests::communicator::{Case, Play, Step, play};
use ethbcast_transport::messages::{RecvOutcome, SendOutcome};
use ethbcast_transport::sim::{NoFaults, RandomFaults};
use ethbcast_transport::wire::Rank;
use std::time::Duration;

fn pair() -> Play<NoFaults> {
    let case = Case { leave: false, ..Case::new(2, &[Step::Barrier]) };
    let mut play = Play::new(&case, 1, NoFaults, "a pair");
    play.run(Duration::from_millis(300));
    play.assert_done();
    play
}

fn run(play: &mut Play<NoFaults>, span: Duration) {
    let now = play.simulation().now();
    (0..2).for_each(|host| play.simulation().wake(host, now));
    play.run(span);
}

#[test]
fn messages_to_others_and_to_oneself_short_long_and_empty_arrive_in_order() {
    let lengths = [0, 1, 500, 100_000, 7, 30_000];
    let pairs = [(0, 1), (1, 0), (2, 2), (1, 2), (0, 0)];
    let steps = lengths.iter().flat_map(|&bytes| pairs.map(|(from, to)| Step::Message { from, to, tag: 3, bytes }));
    let case = Case::new(3, &steps.collect::<Vec<_>>());
    play(&case, 1, NoFaults, "messages");
    play(&case, 1, RandomFaults::new(1).loss(0.1), "messages under loss");
}

#[test]
fn a_receive_that_is_too_short_says_so_and_the_sender_does_not_hang() {
    let mut play = pair();
    let send = play.member(0).send(Rank(1), 7, vec![1; 60_000], None).expect("there is room");
    let recv = play.member(1).recv(Rank(0), 7, 100, None).expect("there is room");
    run(&mut play, Duration::from_millis(100));
    assert_eq!(play.member(1).take_received(recv), Some(RecvOutcome::TooShort { message_bytes: 60_000 }));
    assert_eq!(play.member(0).take_sent(send), Some(SendOutcome::Refused));
    assert_eq!(play.member(0).take_sent(send), None, "an outcome is taken once");
}

#[test]
fn a_tag_that_is_never_received_ends_with_the_deadline_and_others_pass() {
    let mut play = pair();
    let now = play.simulation().now();
    let until = Some(now + Duration::from_millis(50));
    let never = play.member(0).send(Rank(1), 7, vec![1; 60_000], until).expect("there is room");
    let other = play.member(0).send(Rank(1), 8, vec![2; 60_000], until).expect("there is room");
    let recv = play.member(1).recv(Rank(0), 8, 60_000, None).expect("there is room");
    let nothing = play.member(1).recv(Rank(0), 9, 10, until).expect("there is room");
    run(&mut play, Duration::from_millis(100));
    assert_eq!(play.member(0).take_sent(never), Some(SendOutcome::TimedOut));
    assert_eq!(play.member(0).take_sent(other), Some(SendOutcome::Sent));
    assert_eq!(play.member(1).take_received(recv), Some(RecvOutcome::Received { bytes: vec![2; 60_000] }));
    assert_eq!(play.member(1).take_received(nothing), Some(RecvOutcome::TimedOut));
}

#[test]
fn what_nobody_waits_for_any_more_is_forgotten() {
    let mut play = pair();
    let ignored = play.member(0).send(Rank(1), 7, vec![1; 10], None).expect("there is room");
    play.member(0).ignore_sent(ignored);
    let cancelled = play.member(1).recv(Rank(0), 9, 10, None).expect("there is room");
    assert!(play.member(1).cancel_recv(cancelled));
    run(&mut play, Duration::from_millis(100));
    assert_eq!(play.member(0).take_sent(ignored), None);
    assert_eq!(play.member(1).take_received(cancelled), None);
    assert!(play.member(0).is_quiet() && play.member(1).is_quiet());
}

#[test]
fn ranks_and_tags_that_cannot_be_are_refused_with_what_to_do() {
    let mut play = pair();
    let now = play.simulation().now();
    let member = play.member(0);
    let no_rank = CommunicatorError::NoSuchRank { rank: Rank(2), size: 2 };
    assert_eq!(member.send(Rank(2), 0, vec![], None), Err(no_rank.clone()));
    assert_eq!(member.recv(Rank(2), 0, 1, None), Err(no_rank.clone()));
    assert_eq!(Broadcast::begin(member, now, Rank(2), 1).err(), Some(no_rank));
    assert_eq!(member.send(Rank(1), 1 << 31, vec![], None), Err(CommunicatorError::Tag { tag: 1 << 31 }));
    assert_eq!(member.recv(Rank(1), u32::MAX, 1, None), Err(CommunicatorError::Tag { tag: u32::MAX }));
    let short = CommunicatorError::Length { blocks_bytes: 19, block_bytes: 10, size: 2 };
    assert_eq!(Scatter::begin(member, now, Rank(0), 19, 10).err(), Some(short));
    // None of these was a call: the barrier has the number that the other rank expects.
    let barrier = Barrier::begin(member, now).expect("it can begin");
    assert!(matches!(Barrier::begin(member, now), Err(CommunicatorError::Busy { .. })));
    assert!(matches!(barrier.abandon(member, now), CommunicatorError::TimedOut { .. }));
    assert!(matches!(Barrier::begin(member, now), Err(CommunicatorError::Abandoned { .. })));
}

#[test]
fn a_queue_that_is_full_refuses_until_outcomes_are_taken() {
    let mut play = pair();
    let ids: Vec<_> =
        (0..1024).map(|_| play.member(0).send(Rank(1), 1, vec![0; 10], None).expect("there is room")).collect();
    assert!(matches!(play.member(0).send(Rank(1), 1, vec![], None), Err(CommunicatorError::Sends(_))));
    let receives: Vec<_> =
        (0..1024).map(|_| play.member(1).recv(Rank(0), 1, 10, None).expect("there is room")).collect();
    assert!(matches!(play.member(1).recv(Rank(0), 1, 10, None), Err(CommunicatorError::Receives(_))));
    run(&mut play, Duration::from_millis(200));
    assert!(matches!(play.member(0).send(Rank(1), 1, vec![], None), Err(CommunicatorError::Sends(_))), "none is taken");
    assert!(ids.into_iter().all(|id| play.member(0).take_sent(id) == Some(SendOutcome::Sent)));
    assert!(receives.into_iter().all(|id| play.member(1).take_received(id).is_some()));
    // Collectives have room of their own.
    assert!(play.member(0).send(Rank(1), 1, vec![], None).is_ok());
}

#[test]
fn nothing_can_be_asked_for_before_all_are_there_or_after_leaving() {
    let mut case = Case::new(2, &[]);
    case.starts[1] = Duration::from_secs(1);
    let mut play = Play::new(&case, 1, NoFaults, "early");
    play.run(Duration::from_millis(100));
    let now = play.simulation().now();
    assert_eq!(play.member(0).send(Rank(1), 1, vec![], None), Err(CommunicatorError::NotJoined));
    assert_eq!(Barrier::begin(play.member(0), now).err(), Some(CommunicatorError::NotJoined));
    play.run(Duration::from_secs(3));
    assert_eq!(play.member(0).recv(Rank(1), 1, 0, None), Err(CommunicatorError::Closed));
}
