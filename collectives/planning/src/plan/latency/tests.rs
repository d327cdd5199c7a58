//! Tests of least-latency trees: Figure 1 of Mateescu and Taylor, and trees with a single best
//! order of sends.

use super::*;
use proptest::prelude::*;

/// Figure 1: six vertices, all weights 1, here 1 000 ns. On the left the root sends to all, which
/// takes 1 + 5Δ; the tree on the right takes 2 + 3Δ.
#[test]
fn figure_1() {
    let one = |_: usize, _: usize| 1_000;
    let left = crate::plan::by_rank(Via::Flat, 0, 6).expect("rank 0 of 6");
    let time = |delta: u64| {
        let injection = move |_: usize, _: usize| delta;
        assert_eq!(completion_time(&left, &one, &injection), 1_000 + 5 * delta);
        completion_time(&latency(0, 6, &one, &injection).expect("rank 0 of 6"), &one, &injection)
    };
    assert_eq!([0, 200, 300].map(time), [1_000, 2_000, 2_500]);
    assert_eq!([600, 800, 1_000].map(time), [3_800, 4_400, 5_000]);
    // Between them the best tree relays to one rank only: 2 + 2Δ, better than both.
    assert_eq!([400, 500].map(time), [2_800, 3_000]);
    let right = latency(0, 6, &one, &|_, _| 600).expect("rank 0 of 6");
    assert_eq!(right.edges().collect::<Vec<_>>(), [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5)]);
    assert_eq!(latency(0, 6, &one, &|_, _| 300).expect("rank 0 of 6").children(0), left.children(0));
}

#[test]
fn the_child_with_the_longest_way_is_served_first() {
    // Rank 1 is near and relays to rank 2, which the root can hardly reach; rank 3 is far.
    let weight = |from: usize, to: usize| match (from.min(to), from.max(to)) {
        (0, 1) => 10,
        (1, 2) => 500,
        (0, 3) => 100,
        _ => 100_000,
    };
    let plan = latency(0, 4, &weight, &|_, _| 7).expect("rank 0 of 4");
    assert_eq!((plan.children(0), plan.children(1)), ([1, 3].as_slice(), [2].as_slice()));
    assert_eq!(completion_time(&plan, &weight, &|_, _| 7), 7 + 10 + 7 + 500);
    // If rank 2 is near to rank 1, the order is reversed.
    let weight = |from: usize, to: usize| if from + to == 3 && from * to > 0 { 20 } else { weight(from, to) };
    assert_eq!(latency(0, 4, &weight, &|_, _| 7).expect("rank 0 of 4").children(0), [3, 1]);
}

#[test]
fn a_slow_sender_is_spared() {
    let injection = |from: usize, _: usize| if from == 0 { 1_000 } else { 1 };
    let plan = latency(0, 8, &|_, _| 10, &injection).expect("rank 0 of 8");
    assert_eq!(plan.children(0), [1]);
}

#[test]
fn a_rank_that_is_never_reached_is_named() {
    let weight = |_: usize, to: usize| if to == 2 { u64::MAX } else { 1 };
    assert_eq!(latency(0, 3, &weight, &|_, _| 1), Err(PlanError::NoParent(2)));
    assert_eq!(latency(3, 3, &weight, &|_, _| 1), Err(PlanError::NoSuchRoot { root: 3, ranks: 3 }));
}

proptest! {
    #[test]
    fn serving_the_longest_first_is_the_best_order(
        table in prop::collection::vec(1u64..1_000, 49),
        delta in prop::collection::vec(1u64..500, 7),
        root in 0usize..7,
    ) {
        let (weight, injection) = (|from: usize, to: usize| table[7 * from + to], |from: usize, _: usize| delta[from]);
        let plan = latency(root, 7, &weight, &injection).expect("a rank");
        let time = completion_time(&plan, &weight, &injection);
        for rank in 0..7 {
            let mut children: Vec<Vec<usize>> = (0..7).map(|rank| plan.children(rank).to_vec()).collect();
            for swap in 1..children[rank].len() {
                children[rank].swap(swap - 1, swap);
                let other = Plan::from_children(Via::Latency, root, &children).expect("the same tree");
                prop_assert!(completion_time(&other, &weight, &injection) >= time);
            }
        }
    }
}
