//! Simulated tests of reduce and allreduce: results, their order, costs, calls that differ, deaths.

use super::ways::{bed, copy_seconds, took};
use ethbcast_collectives::Route;
use ethbcast_collectives::communicator::{CommunicatorError, Number, Reduction};
use ethbcast_planning::plan::Via;
use ethbcast_tests::communicator::{Case, NetworkKnowledge, Play, Step, play};
use ethbcast_tests::in_full;
use ethbcast_transport::sim::{NoFaults, RandomFaults};
use std::time::Duration;

const SUM: Reduction = Reduction::Sum(Number::F64);

fn reductions() -> Vec<Reduction> {
    let numbers = Number::ALL.into_iter().flat_map(|number| {
        [Reduction::Sum, Reduction::Min, Reduction::Max].map(|function| function(number))
    });
    numbers.chain([Reduction::Own(24)]).collect()
}

/// Every reduction of about `bytes` bytes, to some rank and to all.
fn everything(ranks: u16, bytes: usize) -> Vec<Step> {
    let steps = reductions().into_iter().zip(0..).map(|(reduction, at)| {
        let bytes = bytes / reduction.element_bytes() * reduction.element_bytes();
        if at % 2 == 0 {
            Step::Allreduce { reduction, bytes }
        } else {
            let root = at % ranks;
            Step::Reduce {
                root,
                reduction,
                bytes,
            }
        }
    });
    steps.collect()
}

fn allreduce(bytes: usize) -> Step {
    Step::Allreduce {
        reduction: SUM,
        bytes,
    }
}

fn full_frames(ranks: u16, program: &[Step]) -> Case {
    Case {
        mtus: vec![1500; ranks.into()],
        ..Case::new(ranks, program)
    }
}

/// Plays a case; all ranks have equal bits in the end.
fn play_alike(case: &Case, loss: f64, replay: &str) {
    let faults = RandomFaults::new(5)
        .loss(loss)
        .duplicate(loss / 2.0)
        .reorder(loss, Duration::from_micros(300));
    let played = play(case, 1, faults, replay);
    let mut results = played.processes().iter().map(|process| &process.reduced);
    let first = results.next().expect("a rank");
    assert!(
        first.is_some() && results.all(|other| other == first),
        "{replay}: ranks have different sums"
    );
}

#[test]
fn every_function_of_every_type_is_combined_among_1_to_33_ranks() {
    for &ranks in in_full(
        &[1, 2, 3, 8, 33][..],
        &[1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 33],
    ) {
        for bytes in [0, 24, 600, 5_000] {
            let mut program = everything(ranks, bytes);
            program.push(allreduce(bytes / 8 * 8));
            let case = Case::new(ranks, &program);
            play_alike(&case, 0.0, &format!("{ranks} ranks, {bytes} bytes"));
        }
    }
}

#[test]
fn long_reductions_are_the_same_at_all_ranks_whatever_is_lost() {
    for (ranks, bytes, loss) in [
        (2, 300_000, 0.05),
        (5, 100_008, 0.02),
        (8, 1 << 20, 0.0),
        (8, 1 << 20, 0.001),
        (9, 40_000, 0.1),
    ] {
        let mut program = everything(ranks, bytes);
        program.push(allreduce(bytes));
        program.drain(..20);
        let case = full_frames(ranks, &program);
        play_alike(
            &case,
            loss,
            &format!("{ranks} ranks, {bytes} bytes, loss {loss}"),
        );
    }
}

#[test]
fn every_tree_goes_up_as_well_as_down() {
    let program: Vec<Step> = [8, 4_000, 70_000]
        .into_iter()
        .flat_map(|bytes| {
            let root = (bytes / 8 % 7) as u16;
            [
                Step::Reduce {
                    root,
                    reduction: Reduction::Max(Number::I16),
                    bytes,
                },
                allreduce(bytes),
            ]
        })
        .collect();
    for via in Via::every() {
        let mut case = Case::new(7, &program);
        case.told[3].route = Route::Via(via);
        for loss in [0.0, 0.02] {
            play_alike(&case, loss, &format!("{via}, loss {loss}"));
        }
        case.told[3] = NetworkKnowledge {
            casts: false,
            ..case.told[3].clone()
        };
        if via != Via::Cast {
            play_alike(&case, 0.0, &format!("{via}, without casts"));
        }
    }
}

#[test]
fn an_allreduce_sends_each_cable_twice_all_but_one_block() {
    for (ranks, bytes) in [(8_u16, 4 << 20), (5, 1 << 20)] {
        let program = [allreduce(bytes), Step::Barrier];
        let case = Case {
            rate_bits_per_second: 100_000_000,
            ..full_frames(ranks, &program)
        };
        let mut play = Play::new(&case, 1, NoFaults, "an allreduce");
        play.run(Duration::from_secs(60));
        play.assert_done();
        let needed = 2 * (u64::from(ranks) - 1) * (bytes as u64).div_ceil(1468);
        let sent: u64 = play
            .stats()
            .iter()
            .map(|stats| stats.mailbox.pushes_sent + stats.mailbox.pulls_sent)
            .sum();
        let per_copy = sent as f64 / needed as f64;
        let all = play.frames() as f64 / needed as f64;
        let bytes_sent = play.network().sent_bytes as f64 / (needed * 1514) as f64;
        println!(
            "{ranks} ranks: {per_copy:.3} frames with elements, {all:.3} in all, {bytes_sent:.3} bytes"
        );
        assert!((1.0..1.03).contains(&per_copy), "{per_copy:.3} copies");
        assert!(bytes_sent < 1.05, "{bytes_sent:.3} copies");
    }
}

#[test]
fn a_long_allreduce_takes_hardly_longer_than_its_copies_on_any_switches() {
    let bytes = 2 << 20;
    for name in ["fig9-4", "fig9-5"] {
        let case = bed(name, &[allreduce(bytes), Step::Barrier]);
        let copies = took(&case) / copy_seconds(bytes);
        println!("{name}: {copies:.3} copies");
        assert!(
            copies < 2.0 * 31.0 / 32.0 * 1.1,
            "{name}: {copies:.3} copies"
        );
    }
}

#[test]
fn a_long_reduce_up_a_chain_of_32_takes_a_third_longer_than_one_copy() {
    let bytes = 2 << 20;
    let reduce = Step::Reduce {
        root: 5,
        reduction: SUM,
        bytes,
    };
    let copies = took(&bed("fig9-5", &[reduce, Step::Barrier])) / copy_seconds(bytes);
    println!("{copies:.3} copies");
    assert!(copies < 1.34, "{copies:.3} copies");
}

#[test]
fn a_short_allreduce_goes_up_and_down_in_a_frame_of_each_rank() {
    for ranks in [2, 8, 16] {
        let mut play = super::group(ranks);
        let price = super::price(&mut play, &[allreduce(256)]);
        let others = u64::from(ranks) - 1;
        assert_eq!(
            (price.data, price.pushes, price.others),
            (1, others, 0),
            "{ranks} ranks: {price:?}"
        );
    }
}

#[test]
fn functions_types_and_lengths_that_differ_are_named_at_all_ranks() {
    let differing = |bytes, own: Step, words: &[&str]| {
        let mut case = Case::new(5, &[allreduce(bytes), Step::Barrier]);
        case.programs[3][0] = own;
        let mut play = Play::new(&case, 1, NoFaults, &format!("{own:?}"));
        play.run(Duration::from_secs(60));
        for host in 0..5 {
            let error = play.error(host);
            let text = error.to_string();
            assert!(
                matches!(&error, CommunicatorError::Mismatch { one, other, .. }
                    if one.rank.0 == 3 || other.rank.0 == 3),
                "host {host}: {text}"
            );
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    };
    for bytes in [800, 400_000] {
        let of = |reduction| Step::Allreduce { reduction, bytes };
        differing(
            bytes,
            of(Reduction::Min(Number::F64)),
            &["sum of f64", "min of f64"],
        );
        differing(
            bytes,
            of(Reduction::Sum(Number::I64)),
            &["sum of f64", "sum of i64"],
        );
        differing(
            bytes,
            of(Reduction::Own(8)),
            &["own function of 8-byte elements"],
        );
        let longer = format!("{} bytes", bytes + 8);
        differing(bytes, allreduce(bytes + 8), &[&longer]);
        let reduce = Step::Reduce {
            root: 0,
            reduction: SUM,
            bytes,
        };
        differing(bytes, reduce, &["reduce #0 of", "allreduce #0 of"]);
    }
}

#[test]
fn elements_are_whole_or_refused_before_the_others_hear_of_the_call() {
    let odd = |reduction, bytes| Step::Reduce {
        root: 0,
        reduction,
        bytes,
    };
    for step in [
        odd(Reduction::Sum(Number::I32), 10),
        odd(Reduction::Own(0), 8),
        odd(Reduction::Own(3), 8),
    ] {
        let mut play = Play::new(&Case::new(3, &[step]), 1, NoFaults, &format!("{step:?}"));
        play.run(Duration::from_secs(5));
        for host in 0..3 {
            let error = play.error(host);
            assert!(
                matches!(error, CommunicatorError::Elements { .. }),
                "{error}"
            );
        }
    }
}

#[test]
fn a_rank_that_dies_in_a_reduction_is_named_by_all_others() {
    for (bytes, route) in [
        (1 << 20, Route::Auto),
        (1 << 20, Route::Via(Via::Chain)),
        (1 << 20, Route::Via(Via::TwoTree)),
    ] {
        for victim in [0, 2, 4] {
            let program = [allreduce(8), allreduce(bytes), allreduce(8)];
            let mut case = full_frames(5, &program);
            case.rate_bits_per_second = 100_000_000;
            case.told[1].route = route.clone();
            let replay = format!("{route:?}, {victim} dies");
            let mut play = Play::new(&case, 1, NoFaults, &replay);
            while play
                .processes()
                .iter()
                .any(|process| process.joined_at.is_none())
            {
                play.run(Duration::from_millis(1));
            }
            let dies_at = play.simulation().now() + Duration::from_millis(40);
            play.simulation().crash(victim, dies_at);
            play.run(Duration::from_secs(60));
            for host in (0..5).filter(|&host| host != victim) {
                let error = play.error(host);
                let is_named = matches!(&error, CommunicatorError::Gone(named)
                    if usize::from(named.rank.0) == victim);
                assert!(is_named, "{replay}, host {host}: {error}");
            }
        }
    }
}
