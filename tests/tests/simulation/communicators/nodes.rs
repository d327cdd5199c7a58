//! Several ranks on a host: every call is right for any placement, and data for a host is sent to
//! it once.

use ethbcast_collectives::communicator::{CommunicatorError, Named, Preset};
use ethbcast_planning::topology::Topology;
use ethbcast_tests::communicator::{Case, NodePlay, Step, Told};
use ethbcast_transport::sim::{Faults, NoFaults, RandomFaults};
use ethbcast_transport::wire::Rank;
use std::time::Duration;

fn everything(ranks: u16, bytes: usize) -> Vec<Step> {
    let (middle, last) = (ranks / 2, ranks - 1);
    let rooted = [0, middle, last].into_iter().flat_map(|root| {
        [Step::Broadcast { root, bytes }, Step::Scatter { root, bytes }, Step::Gather { root, bytes }, Step::Barrier]
    });
    let messages = [(0, last), (last, middle), (middle, 0)].map(|(from, to)| Step::Message {
        from,
        to,
        tag: 3,
        bytes: bytes + usize::from(from),
    });
    let rest = [Step::Allgather { bytes }, Step::Settle, Step::Barrier];
    rooted.chain(messages).chain(rest).collect()
}

fn ranks(seats: &[usize]) -> u16 {
    seats.iter().sum::<usize>() as u16
}

fn play<F: Faults>(case: &Case, seats: &[usize], faults: F, replay: &str) -> NodePlay<F> {
    let mut play = NodePlay::new(case, seats, 1, faults, replay);
    let quiet = play.run(Duration::from_secs(120));
    assert!(play.ends().iter().all(|end| *end == Some(Ok(()))), "{replay}: {:?}", play.ends());
    assert!(quiet, "{replay}");
    play
}

#[test]
fn every_call_delivers_wherever_the_ranks_are() {
    for seats in [&[1, 1][..], &[2, 1], &[1, 2], &[1, 5, 2], &[4; 4], &[1, 1, 20], &[2; 18]] {
        for bytes in [0, 1, 256, 2000] {
            let case = Case::new(ranks(seats), &everything(ranks(seats), bytes));
            play(&case, seats, NoFaults, &format!("{seats:?}, {bytes} bytes"));
        }
    }
}

#[test]
fn long_messages_arrive_by_all_presets_and_ways_whatever_is_lost() {
    for preset in [Preset::Default, Preset::Paper, Preset::PushPull] {
        for (casts, loss) in [(true, 0.0), (false, 0.0), (true, 0.02), (false, 0.02), (true, 0.1)] {
            let seats = [3, 1, 2];
            let mut case = Case { preset, ..Case::new(6, &everything(6, 100_000)) };
            case.told[1] = Told { casts, ..Told::default() };
            let faults = RandomFaults::new(7).loss(loss).duplicate(0.01).corrupt(0.005);
            play(&case, &seats, faults, &format!("{preset:?}, casts {casts}, loss {loss}"));
        }
    }
}

#[test]
fn on_one_host_nothing_reaches_the_wire_but_the_calls_for_others() {
    let case = Case::new(5, &everything(5, 3000));
    let play = play(&case, &[5], NoFaults, "one host");
    let calls: u64 = play.processes().map(|process| process.member.as_ref().expect("begun").stats().calls_sent).sum();
    assert!(play.wire_frames() <= calls, "{} frames, {calls} calls", play.wire_frames());
}

#[test]
fn a_broadcast_and_a_barrier_of_4_hosts_with_4_ranks_take_fewer_frames_than_there_are_ranks() {
    const TIMES: u64 = 50;
    let both = [Step::Broadcast { root: 0, bytes: 256 }, Step::Barrier];
    let steps: Vec<Step> = std::iter::repeat_n(both, TIMES as usize).flatten().collect();
    let mut case = Case { leave: false, ..Case::new(16, &steps) };
    case.mtus.fill(1500);
    let mut play = NodePlay::new(&case, &[4; 4], 1, NoFaults, "4 x 4");
    play.run(Duration::from_secs(2));
    assert!(play.ends().iter().all(|end| *end == Some(Ok(()))), "{:?}", play.ends());
    let frames = play.wire_frames() - play.signs();
    // One frame for the broadcast, one arrival of each of three hosts, one for the release.
    // Acknowledgements cover many rounds.
    assert!((5 * TIMES..6 * TIMES).contains(&frames), "{frames} frames in {TIMES} rounds");
}

#[test]
fn a_long_broadcast_goes_to_each_host_once() {
    let mut case =
        Case { leave: false, ..Case::new(16, &[Step::Broadcast { root: 5, bytes: 64 << 10 }, Step::Barrier]) };
    case.mtus.fill(1500);
    for casts in [true, false] {
        case.told[0] = Told { casts, ..Told::default() };
        let mut play = NodePlay::new(&case, &[4; 4], 1, NoFaults, "4 x 4");
        play.run(Duration::from_secs(2));
        assert!(play.ends().iter().all(|end| *end == Some(Ok(()))), "{:?}", play.ends());
        // Calls and signs of life are less than another copy.
        let (bytes, copies) = (play.wire_bytes(), if casts { 1 } else { 3 });
        assert!(bytes < (copies + 1) * (80 << 10), "casts {casts}: {bytes} bytes");
    }
}

#[test]
fn a_topology_names_hosts_and_ranks_hang_on_theirs() {
    let topology = "schema = 1\nswitch = [{name='a', hosts='n[0-1]', links=['b']}, {name='b', hosts='n2'}]";
    let topology = Topology::parse(topology, "t").expect("a topology");
    let seats = [2, 3, 1];
    let mut case = Case::new(6, &everything(6, 20_000));
    case.told[3] = Told { topology: Some(topology), casts: false, ..Told::default() };
    play(&case, &seats, NoFaults, "with a topology");
}

#[test]
fn a_rank_that_is_killed_is_named_by_all_others_whichever_it_was() {
    let steps = [Step::Barrier, Step::Compute(Duration::from_secs(1)), Step::Barrier];
    for (host, seat, rank) in [(0, 0, 0), (0, 1, 1), (1, 0, 3), (1, 2, 5), (2, 0, 6)] {
        let mut play = NodePlay::new(&Case::new(7, &steps), &[3, 3, 1], 1, NoFaults, "killed");
        assert!(!play.run(Duration::from_millis(700)), "they compute");
        play.kill(host, seat);
        play.run(Duration::from_secs(10));
        for (other, end) in play.ends().into_iter().enumerate().filter(|(other, _)| *other != rank) {
            let named = Named { rank: Rank(rank as u16), host: format!("n{host}") };
            assert_eq!(end, Some(Err(CommunicatorError::Gone(named))), "rank {other}");
        }
    }
}

#[test]
fn ranks_of_one_host_that_expect_different_groups_are_told_so() {
    let mut case = Case::new(4, &[Step::Barrier]);
    case.sizes[1] = 5;
    let mut play = NodePlay::new(&case, &[2, 2], 1, NoFaults, "sizes");
    play.run(Duration::from_secs(30));
    let ends = play.ends();
    let differ = |end: &Option<Result<(), CommunicatorError>>| {
        matches!(end, Some(Err(CommunicatorError::SizesDiffer { .. } | CommunicatorError::TooMany { .. })))
    };
    assert!(ends.iter().all(differ), "{ends:?}");
}
