//! Tests of plans as values: validation of received ones, and changes that their digest must
//! detect.

use super::*;
use proptest::prelude::*;

fn refusal(via: Via, root: usize, parents: &[Option<usize>]) -> String {
    Plan::from_parents(via, root, parents).expect_err("refused").to_string()
}

#[test]
fn a_chain_from_the_wire() {
    let plan = Plan::from_parents(Via::Chain, 2, &[Some(2), Some(0), None]).expect("2 → 0 → 1");
    assert_eq!((plan.via(), plan.root(), plan.ranks(), plan.height(), plan.degree()), (Via::Chain, 2, 3, 2, 1));
    assert_eq!((plan.parent(2), plan.parent(0), plan.parent(1)), (None, Some(2), Some(0)));
    assert_eq!((plan.children(2), plan.children(0), plan.children(1)), ([0].as_slice(), [1].as_slice(), [].as_slice()));
    assert_eq!(plan.edges().collect::<Vec<_>>(), [(0, 1), (2, 0)]);
}

#[test]
fn a_received_plan_of_another_shape_than_declared_is_refused() {
    let cases: [(Via, usize, &[Option<usize>], &str); 8] = [
        (Via::Chain, 0, &[], "rank 0 cannot be the root of a plan over 0 ranks; use a rank below 0"),
        (Via::Cast, 2, &[None, Some(0)], "rank 2 cannot be the root of a plan over 2 ranks; use a rank below 2"),
        (Via::Chain, 0, &[Some(1), None], "rank 0 is the root but has the parent 1; the root has none"),
        (Via::Chain, 0, &[None, None], "rank 1 has no parent; every rank but the root needs one"),
        (
            Via::Chain,
            0,
            &[None, Some(usize::MAX)],
            "rank 1 has the parent 18446744073709551615, but there are only 2 ranks; use a parent below 2",
        ),
        (
            Via::Chain,
            0,
            &[None, Some(2), Some(1)],
            "rank 1 is not reached from the root; its parents run in a circle and must lead to the root",
        ),
        (Via::Chain, 0, &[None, Some(0), Some(0)], "rank 0 has 2 children; with chain give every rank at most 1"),
        (
            Via::Cast,
            0,
            &[None, Some(0), Some(1)],
            "rank 2 receives from rank 1; with cast everybody receives from the root",
        ),
    ];
    for (via, root, parents, message) in cases {
        assert_eq!(refusal(via, root, parents), message);
    }
    let itself = Plan::from_parents(Via::Chain, 0, &[None, Some(1)]);
    assert_eq!(itself, Err(PlanError::Circle(1)));
}

#[test]
fn the_digest_distinguishes_plans() {
    let plan = |via, root, parents: &[Option<usize>]| Plan::from_parents(via, root, parents).expect("a plan").digest();
    // A chain of two and a cast to one have equal edges, and are sent differently.
    let digests = [
        plan(Via::Chain, 0, &[None, Some(0)]),
        plan(Via::Cast, 0, &[None, Some(0)]),
        plan(Via::Chain, 1, &[Some(1), None]),
        plan(Via::Chain, 0, &[None]),
        plan(Via::Chain, 0, &[None, Some(0), Some(1)]),
        plan(Via::Chain, 0, &[None, Some(2), Some(0)]),
    ];
    for (index, digest) in digests.iter().enumerate() {
        assert!(!digests[..index].contains(digest), "plan {index}");
    }
}

/// Hosts of different versions must agree: this value changes only together with the version in the
/// digest's key.
#[test]
fn the_digest_is_the_same_on_every_machine() {
    let plan = Plan::from_parents(Via::Chain, 0, &[None, Some(0), Some(1)]).expect("a chain");
    assert_eq!(plan.digest_u64(), u64::from_le_bytes(plan.digest()[..8].try_into().expect("eight bytes")));
    assert_eq!(plan.digest_u64(), 0xbb8c_8e4b_5c5b_b709, "{:#018x}", plan.digest_u64());
}

proptest! {
    #[test]
    fn any_received_bytes_are_a_tree_or_refused(
        root in 0usize..8,
        parents in prop::collection::vec(prop::option::weighted(0.9, 0usize..7), 0..8),
        via in prop::sample::select(Via::ALL),
    ) {
        if let Ok(plan) = Plan::from_parents(via, root, &parents) {
            prop_assert_eq!(plan.edges().count() + 1, plan.ranks());
            for (sender, receiver) in plan.edges() {
                prop_assert_eq!(plan.parent(receiver), Some(sender));
            }
            for rank in 0..plan.ranks() {
                let steps = std::iter::successors(Some(rank), |&rank| plan.parent(rank)).count() - 1;
                prop_assert!(steps <= plan.height());
            }
            let again: Vec<Option<usize>> = (0..plan.ranks()).map(|rank| plan.parent(rank)).collect();
            prop_assert_eq!(Plan::from_parents(via, root, &again), Ok(plan));
        }
    }
}
