//! The trees that go by rank and do not ask about switches (Patarasuk 2008 §5.2).

use super::{Plan, PlanError, Via};

/// The root, then the next rank, and so on round to the one before the root.
///
/// # Errors
/// [`PlanError::NoSuchRoot`] unless `root < ranks`.
pub fn chain_unaware(root: usize, ranks: usize) -> Result<Plan, PlanError> {
    turned(Via::ChainUnaware, root, ranks, |rank| (rank + 1..ranks.min(rank + 2)).collect())
}

/// The complete binary tree: counted from the root, rank k sends to 2k + 1, then to 2k + 2.
///
/// # Errors
/// [`PlanError::NoSuchRoot`] unless `root < ranks`.
pub fn binary_unaware(root: usize, ranks: usize) -> Result<Plan, PlanError> {
    turned(Via::BinaryUnaware, root, ranks, |rank| (2 * rank + 1..ranks.min(2 * rank + 3)).collect())
}

/// The plan over ranks counted from the root, in which each of those has the children `children` gives it.
pub(super) fn turned(via: Via, root: usize, ranks: usize, children: impl Fn(usize) -> Vec<usize>) -> Result<Plan, PlanError> {
    if root >= ranks {
        return Err(PlanError::NoSuchRoot { root, ranks });
    }
    let actual = |rank: usize| (rank + root) % ranks;
    let mut lists = vec![Vec::new(); ranks];
    for rank in 0..ranks {
        lists[actual(rank)] = children(rank).into_iter().map(actual).collect();
    }
    Plan::from_children(via, root, &lists)
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use super::*;
    use crate::topology::Topology;

    #[test]
    fn the_chain_goes_round() {
        let plan = chain_unaware(3, 5).expect("rank 3 of 5");
        let edges = [(0, 1), (1, 2), (3, 4), (4, 0)];
        assert_eq!((plan.edges().collect::<Vec<_>>(), plan.height(), plan.via()), (edges.to_vec(), 4, Via::ChainUnaware));
    }

    #[test]
    fn the_binary_tree_is_complete() {
        let plan = binary_unaware(1, 6).expect("rank 1 of 6");
        assert_eq!(plan.edges().collect::<Vec<_>>(), [(1, 2), (1, 3), (2, 4), (2, 5), (3, 0)]);
        for (ranks, height) in [(1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (1_023, 9), (1_024, 10)] {
            assert_eq!(binary_unaware(0, ranks).expect("rank 0").height(), height, "{ranks}");
        }
    }

    #[test]
    fn a_root_out_of_range_is_refused() {
        for (root, ranks) in [(0, 0), (4, 4)] {
            assert_eq!(chain_unaware(root, ranks), Err(PlanError::NoSuchRoot { root, ranks }));
            assert_eq!(binary_unaware(root, ranks), Err(PlanError::NoSuchRoot { root, ranks }));
        }
    }

    /// Figure 15: on topology (2) the unaware chain happens to be free of contention, on topology (5) it is not; the unaware
    /// binary tree is free of it on topology (1) only.
    #[test]
    fn where_they_contend_as_in_figure_15() {
        let free = |name: &str, plan: fn(usize, usize) -> Result<Plan, PlanError>| {
            let bed = Topology::builtin(name).expect(name);
            let all: Vec<usize> = (0..bed.hosts().len()).collect();
            check(&bed, &plan(0, all.len()).expect("rank 0"), &all).is_good()
        };
        let beds = ["fig9-1", "fig9-2", "fig9-3", "fig9-4", "fig9-5"];
        assert_eq!(beds.map(|name| free(name, chain_unaware)), [true, true, true, true, false]);
        assert_eq!(beds.map(|name| free(name, binary_unaware)), [true, false, false, false, false]);
    }
}
