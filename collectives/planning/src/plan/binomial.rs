//! The binomial tree, as MPICH has it: for whole messages, and to scatter the blocks of those that travel in blocks.
//!
//! Ranks are counted from the root. A rank receives from the one without its lowest set bit, and sends to those with one
//! more bit below it, the highest first: that child has the most to pass on.

use super::unaware::turned;
use super::{Plan, PlanError, Via};

/// The whole message down the binomial tree (Patarasuk 2008 §3.1).
///
/// # Errors
/// [`PlanError::NoSuchRoot`] unless `root < ranks`.
pub fn binomial(root: usize, ranks: usize) -> Result<Plan, PlanError> {
    tree(Via::Binomial, root, ranks)
}

/// The tree down which the blocks are scattered before they go round; [`blocks`](super::blocks()) has the way of each block.
///
/// # Errors
/// [`PlanError::NoSuchRoot`] unless `root < ranks`.
pub fn scatter_allgather(root: usize, ranks: usize) -> Result<Plan, PlanError> {
    tree(Via::ScatterAllgather, root, ranks)
}

/// The tree down which the blocks are scattered before pairs exchange them; [`blocks`](super::blocks()) has the way of each.
///
/// # Errors
/// [`PlanError::NoSuchRoot`] unless `root < ranks`.
pub fn recursive_doubling(root: usize, ranks: usize) -> Result<Plan, PlanError> {
    tree(Via::RecursiveDoubling, root, ranks)
}

fn tree(via: Via, root: usize, ranks: usize) -> Result<Plan, PlanError> {
    let lowest_bit = |rank: usize| if rank == 0 { ranks.next_power_of_two() } else { rank & rank.wrapping_neg() };
    let masks = |rank: usize| std::iter::successors(Some(lowest_bit(rank) / 2), |mask| Some(mask / 2)).take_while(|&mask| mask > 0);
    turned(via, root, ranks, |rank| masks(rank).map(|mask| rank + mask).filter(|&child| child < ranks).collect())
}

/// The rank, counted from the root, that `rank` receives from.
pub(super) fn parent(rank: usize) -> Option<usize> {
    (rank > 0).then(|| rank & (rank - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_ranks_make_the_tree_of_figure_2() {
        let plan = binomial(0, 8).expect("rank 0 of 8");
        assert_eq!(plan.edges().collect::<Vec<_>>(), [(0, 4), (0, 2), (0, 1), (2, 3), (4, 6), (4, 5), (6, 7)]);
        assert_eq!((plan.height(), plan.degree()), (3, 3));
    }

    #[test]
    fn every_rank_receives_from_the_one_without_its_lowest_bit() {
        for ranks in 1..70 {
            let root = ranks / 3;
            let plan = binomial(root, ranks).expect("a rank");
            for rank in 0..ranks {
                let counted = (rank + ranks - root) % ranks;
                assert_eq!(plan.parent(rank), parent(counted).map(|parent| (parent + root) % ranks));
            }
        }
    }

    #[test]
    fn the_scatters_are_the_same_tree_by_another_name() {
        let edges = |plan: Result<Plan, PlanError>| plan.expect("rank 5 of 11").edges().collect::<Vec<_>>();
        assert_eq!(edges(scatter_allgather(5, 11)), edges(binomial(5, 11)));
        assert_eq!(edges(recursive_doubling(5, 11)), edges(binomial(5, 11)));
        assert_eq!(scatter_allgather(5, 11).map(|plan| plan.via()), Ok(Via::ScatterAllgather));
        assert_eq!(binomial(1, 1), Err(PlanError::NoSuchRoot { root: 1, ranks: 1 }));
        assert_eq!(binomial(0, 0), Err(PlanError::NoSuchRoot { root: 0, ranks: 0 }));
    }
}
