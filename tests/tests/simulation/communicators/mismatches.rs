//! Ranks that call different collectives: detected, named on every rank, and no hang.

use ethbcast_collectives::communicator::{CommunicatorError, Operation, Signature};
use ethbcast_tests::communicator::{Case, Play, Step};
use ethbcast_transport::sim::{NoFaults, RandomFaults};
use ethbcast_transport::wire::Rank;
use std::time::Duration;

const BARRIER: Step = Step::Barrier;
const BROADCAST: Step = Step::Broadcast { root: 0, bytes: 256 };

/// Plays `odd` with other steps than the others after two matching collectives; returns the errors
/// of all, and the time of the last.
fn errors(ranks: u16, odd: usize, theirs: &[Step], others: &[Step]) -> Vec<CommunicatorError> {
    let common = [BARRIER, BROADCAST];
    // A rank learns of the mismatch in its next call if it need not wait in the mismatched one.
    let program = |rest: &[Step]| [&common, rest, &[BARRIER; 2]].concat();
    let mut case = Case::new(ranks, &program(others));
    case.programs[odd] = program(theirs);
    let replay = format!("{ranks} ranks, rank {odd} in {theirs:?}, the others in {others:?}");
    let mut play = Play::new(&case, 1, NoFaults, &replay);
    play.run(Duration::from_secs(2));
    let joined_at = play.processes()[0].joined_at.expect("all have joined");
    for (rank, process) in play.processes().iter().enumerate() {
        let Some((Err(_), at)) = &process.ended else { panic!("{replay}: rank {rank} ended as {:?}", process.ended) };
        assert!(at.since(joined_at) < Duration::from_secs(1), "{replay}: rank {rank} took {:?}", at.since(joined_at));
    }
    (0..ranks.into()).map(|host| play.error(host)).collect()
}

#[test]
fn another_root_length_or_operation_is_named_on_every_rank_within_a_second() {
    let ways = [
        (BROADCAST, Step::Broadcast { root: 1, bytes: 256 }),
        (BROADCAST, Step::Broadcast { root: 0, bytes: 255 }),
        (BROADCAST, BARRIER),
        (BARRIER, BROADCAST),
        (BROADCAST, Step::Broadcast { root: 0, bytes: 100_000 }),
        (Step::Broadcast { root: 0, bytes: 100_000 }, Step::Broadcast { root: 0, bytes: 99_999 }),
        (Step::Broadcast { root: 1, bytes: 100_000 }, BARRIER),
        (Step::Scatter { root: 0, bytes: 100 }, Step::Gather { root: 0, bytes: 100 }),
        (Step::Scatter { root: 0, bytes: 100 }, Step::Scatter { root: 0, bytes: 99 }),
        (Step::Gather { root: 0, bytes: 99 }, Step::Gather { root: 0, bytes: 100_000 }),
        (Step::Gather { root: 1, bytes: 99 }, Step::Gather { root: 0, bytes: 99 }),
        (Step::Allgather { bytes: 100 }, Step::Allgather { bytes: 101 }),
        (Step::Allgather { bytes: 100 }, Step::Allgather { bytes: 90_000 }),
        (Step::Allgather { bytes: 100 }, BARRIER),
    ];
    for ranks in [2, 3, 8] {
        for (one, other) in ways {
            for odd in [0, 1, ranks - 1] {
                for error in errors(ranks, odd.into(), &[one], &[other]) {
                    let CommunicatorError::Mismatch { one: named, other: also, signatures } = &error else {
                        panic!("{ranks} ranks, rank {odd} in {one:?}, the others in {other:?}: {error}")
                    };
                    let oddity = named.rank == Rank(odd) || also.rank == Rank(odd);
                    assert!(oddity && named.rank != also.rank, "{error}");
                    assert!(
                        signatures.0.number == 2 && signatures.1.number == 2 && signatures.0 != signatures.1,
                        "{error}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_rank_that_makes_one_call_more_or_less_is_named() {
    for ranks in [2, 3, 8] {
        for odd in [0, ranks - 1] {
            for (theirs, others) in [(vec![BROADCAST, BROADCAST], vec![BROADCAST]), (vec![], vec![BROADCAST])] {
                for error in errors(ranks, odd.into(), &theirs, &others) {
                    assert!(matches!(error, CommunicatorError::Mismatch { .. }), "{error}");
                }
            }
        }
    }
}

#[test]
fn the_sentence_names_ranks_hosts_and_calls() {
    let broadcast = Signature { number: 2, operation: Operation::Broadcast, root: Rank(0), bytes: 256 };
    let barrier = Signature { number: 2, operation: Operation::Barrier, root: Rank(0), bytes: 0 };
    let errors = errors(3, 2, &[BARRIER], &[BROADCAST]);
    let CommunicatorError::Mismatch { signatures, .. } = &errors[0] else { panic!("{}", errors[0]) };
    assert!(*signatures == (broadcast, barrier) || *signatures == (barrier, broadcast));
    let text = errors[1].to_string();
    assert!(text.contains("rank 2 (n2) is in barrier #2"), "{text}");
    assert!(text.contains("is in broadcast #2 of 256 bytes from rank 0"), "{text}");
    assert!(text.contains("call the same collectives in the same order"), "{text}");
}

#[test]
fn a_mismatch_is_found_under_loss_too_and_later_collectives_fail_alike() {
    for seed in 0..30 {
        let mut case = Case::new(4, &[BARRIER, BROADCAST, BARRIER]);
        case.leave = false;
        case.programs[3] = vec![BARRIER, Step::Gather { root: 0, bytes: 1 }, BARRIER];
        let mut play = Play::new(&case, seed, RandomFaults::new(seed).loss(0.2), &format!("seed {seed}"));
        play.run(Duration::from_secs(3));
        let first: Vec<_> = (0..4).map(|host| play.error(host)).collect();
        play.go_on(&[BARRIER]);
        play.run(Duration::from_millis(1));
        for (host, error) in first.iter().enumerate() {
            assert!(matches!(error, CommunicatorError::Mismatch { .. }), "seed {seed}: {error}");
            assert_eq!(play.error(host), *error, "seed {seed}");
        }
    }
}
