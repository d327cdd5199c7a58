//! Broadcast tree of least latency for short messages (Mateescu and Taylor §3).
//!
//! A sender is busy for the injection time of each message, and the message arrives its edge's
//! weight after that. The tree comes from Dijkstra's algorithm, extended so that a sender's own
//! distance grows with every receiver it takes (Figure 2). The order of sends comes from labels: a
//! rank's label is the time from its receiving the message until all below it have it, and the
//! child that takes longest is served first (Figure 3). The graph is complete: every host reaches
//! every other.
//!
//! Figure 3 multiplies an edge's injection time by the number of sends so far; §3 gives a sender
//! one injection time for all its edges. Here injection times may differ from edge to edge, and are
//! added up, which is equivalent where they do not differ.

use super::PlanError;
use super::tree::Plan;
use super::via::Via;

/// Times of edges, by sender and receiver, in nanoseconds.
pub type EdgeTime<'a> = &'a dyn Fn(usize, usize) -> u64;

/// Plans the tree from `root` over ranks `0..ranks`; `weight` is the latency of an edge and
/// `injection` how long its sender is busy, both in nanoseconds. Ties go to the lower rank. Sums
/// stop at `u64::MAX`, which stands for *never*.
///
/// Quadratic in the ranks, with two calls for each pair.
///
/// # Errors
/// [`PlanError::NoSuchRoot`] unless `root < ranks`; [`PlanError::NoParent`] if a rank can never be
/// reached.
pub fn latency(
    root: usize,
    ranks: usize,
    weight: EdgeTime,
    injection: EdgeTime,
) -> Result<Plan, PlanError> {
    if root >= ranks {
        return Err(PlanError::NoSuchRoot { root, ranks });
    }
    let tree = Plan::from_parents(
        Via::Latency,
        root,
        &extended_dijkstra(root, ranks, weight, injection),
    )?;
    let mut labels = vec![0u64; ranks];
    let mut children = vec![Vec::new(); ranks];
    for rank in leaves_first(&tree) {
        let rest = |child: usize| labels[child].saturating_add(weight(rank, child));
        children[rank] = tree.children(rank).to_vec();
        children[rank].sort_by_key(|&child| std::cmp::Reverse(rest(child)));
        labels[rank] = label(rank, &children[rank], &labels, weight, injection);
    }
    Plan::from_children(Via::Latency, root, &children)
}

/// Returns the time at which the last rank has the message, in nanoseconds from the root's first
/// send, if every rank sends as `plan` says: the root's label.
pub fn completion_time(plan: &Plan, weight: EdgeTime, injection: EdgeTime) -> u64 {
    let mut labels = vec![0u64; plan.ranks()];
    for rank in leaves_first(plan) {
        labels[rank] = label(rank, plan.children(rank), &labels, weight, injection);
    }
    labels[plan.root()]
}

fn label(
    rank: usize,
    children: &[usize],
    labels: &[u64],
    weight: EdgeTime,
    injection: EdgeTime,
) -> u64 {
    let mut busy = 0u64;
    let mut latest = 0u64;
    for &child in children {
        busy = busy.saturating_add(injection(rank, child));
        latest = latest.max(
            busy.saturating_add(weight(rank, child))
                .saturating_add(labels[child]),
        );
    }
    latest
}

fn leaves_first(plan: &Plan) -> Vec<usize> {
    let mut order = vec![plan.root()];
    let mut next = 0;
    while let Some(&rank) = order.get(next) {
        order.extend_from_slice(plan.children(rank));
        next += 1;
    }
    order.reverse();
    order
}

/// Computes the parents of Figure 2. The queue is scanned, because in a complete graph every rank
/// taken from it visits all that remain anyway.
fn extended_dijkstra(
    root: usize,
    ranks: usize,
    weight: EdgeTime,
    injection: EdgeTime,
) -> Vec<Option<usize>> {
    let mut distances = vec![u64::MAX; ranks];
    distances[root] = 0;
    let mut parents = vec![None; ranks];
    let mut queue: Vec<usize> = (0..ranks).collect();
    while let Some(nearest) = (0..queue.len()).min_by_key(|&index| distances[queue[index]]) {
        let sender = queue.remove(nearest);
        for &rank in &queue {
            let injection = injection(sender, rank);
            let through = distances[sender]
                .saturating_add(weight(sender, rank))
                .saturating_add(injection);
            if distances[rank] > through {
                distances[rank] = through;
                distances[sender] = distances[sender].saturating_add(injection);
                parents[rank] = Some(sender);
            }
        }
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Figure 1: six vertices, all weights 1, here 1 000 ns. On the left the root sends to all,
    /// which takes 1 + 5Δ; the tree on the right takes 2 + 3Δ.
    #[test]
    fn figure_1() {
        let one = |_: usize, _: usize| 1_000;
        let left = crate::plan::by_rank(Via::Flat, 0, 6).expect("rank 0 of 6");
        let time = |delta: u64| {
            let injection = move |_: usize, _: usize| delta;
            assert_eq!(completion_time(&left, &one, &injection), 1_000 + 5 * delta);
            completion_time(
                &latency(0, 6, &one, &injection).expect("rank 0 of 6"),
                &one,
                &injection,
            )
        };
        assert_eq!([0, 200, 300].map(time), [1_000, 2_000, 2_500]);
        assert_eq!([600, 800, 1_000].map(time), [3_800, 4_400, 5_000]);
        // Between them the best tree relays to one rank only: 2 + 2Δ, better than both.
        assert_eq!([400, 500].map(time), [2_800, 3_000]);
        let right = latency(0, 6, &one, &|_, _| 600).expect("rank 0 of 6");
        assert_eq!(
            right.edges().collect::<Vec<_>>(),
            [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5)]
        );
        assert_eq!(
            latency(0, 6, &one, &|_, _| 300)
                .expect("rank 0 of 6")
                .children(0),
            left.children(0)
        );
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
        assert_eq!(
            (plan.children(0), plan.children(1)),
            ([1, 3].as_slice(), [2].as_slice())
        );
        assert_eq!(completion_time(&plan, &weight, &|_, _| 7), 7 + 10 + 7 + 500);
        // If rank 2 is near to rank 1, the order is reversed.
        let weight = |from: usize, to: usize| {
            if from + to == 3 && from * to > 0 {
                20
            } else {
                weight(from, to)
            }
        };
        assert_eq!(
            latency(0, 4, &weight, &|_, _| 7)
                .expect("rank 0 of 4")
                .children(0),
            [3, 1]
        );
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
        assert_eq!(
            latency(0, 3, &weight, &|_, _| 1),
            Err(PlanError::NoParent(2))
        );
        assert_eq!(
            latency(3, 3, &weight, &|_, _| 1),
            Err(PlanError::NoSuchRoot { root: 3, ranks: 3 })
        );
    }

    proptest! {
        #[test]
        fn serving_the_longest_first_is_the_best_order(
            table in prop::collection::vec(1u64..1_000, 49),
            delta in prop::collection::vec(1u64..500, 7),
            root in 0usize..7,
        ) {
            let weight = |from: usize, to: usize| table[7 * from + to];
            let injection = |from: usize, _: usize| delta[from];
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
}
