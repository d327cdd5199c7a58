//! The way of each block where the message travels in blocks (Patarasuk 2008 §3.1, as MPICH does it).
//!
//! The message is cut into as many blocks as there are ranks, and block b is for the rank that is b after the root. It goes
//! down the binomial tree to that rank and from there to all others: once round, or by recursive doubling, in whose step s
//! those who have it, the ranks v with v xor b below 2^s, give it to v xor 2^s. Recursive doubling needs a power of two; for
//! other numbers of ranks blocks go round, as in MPICH. A rank on the way down has the block already and gets it once.
//!
//! Ranks here are counted from the root unless a function takes the root.

use super::unaware::turned;
use super::{Plan, Via, binomial};

/// One plan for each block, block b being for the rank b after the root.
///
/// Together they have `ranks²` entries; [`block`] makes one of them and [`block_parents`] its essence.
///
/// # Panics
/// Unless `root < ranks` and `via` [is in blocks](Via::is_in_blocks).
pub fn blocks(via: Via, root: usize, ranks: usize) -> Vec<Plan> {
    assert!(root < ranks, "the root is one of the ranks");
    (0..ranks).map(|number| block(via, root, ranks, number)).collect()
}

/// The plan of one block; ranks send to the next on the way down first, then as the steps of the exchange come.
///
/// # Panics
/// Unless `root` and `number` are below `ranks` and `via` [is in blocks](Via::is_in_blocks).
pub fn block(via: Via, root: usize, ranks: usize, number: usize) -> Plan {
    let mut children = vec![Vec::new(); ranks];
    for (rank, parent) in block_parents(via, ranks, number).into_iter().enumerate() {
        if let Some(parent) = parent {
            children[parent].push(rank);
        }
    }
    // Down first, for that is over before the exchange begins; then by the step, which is the highest bit that differs.
    let step = |rank: usize| if is_on_way_down(rank, number) { 0 } else { rank ^ number };
    children.iter_mut().for_each(|list| list.sort_by_key(|&rank| step(rank)));
    let plan = turned(via, root, ranks, |rank| children[rank].clone());
    plan.expect("the way down and the exchange make one tree")
}

/// Whom each rank receives block `number` from; ranks are counted from the root, which receives from nobody.
///
/// # Panics
/// Unless `number < ranks` and `via` [is in blocks](Via::is_in_blocks).
pub fn block_parents(via: Via, ranks: usize, number: usize) -> Vec<Option<usize>> {
    assert!(via.is_in_blocks(), "{via} does not travel in blocks");
    assert!(number < ranks, "there are as many blocks as ranks");
    let doubles = via == Via::RecursiveDoubling && ranks.is_power_of_two();
    let mut parents: Vec<Option<usize>> = (0..ranks).map(binomial::parent).collect();
    let mut last = number;
    for rank in (1..ranks).map(|steps| (number + steps) % ranks).filter(|&rank| !is_on_way_down(rank, number)) {
        parents[rank] = Some(if doubles { rank ^ highest_bit(rank ^ number) } else { last });
        last = rank;
    }
    parents
}

/// Whether block `number` passes `rank` on its way down the binomial tree: whether `rank` is `number` without some of its
/// lowest set bits.
fn is_on_way_down(rank: usize, number: usize) -> bool {
    std::iter::successors(Some(number), |&rank| binomial::parent(rank)).any(|passed| passed == rank)
}

/// The highest set bit of a number that is not 0.
fn highest_bit(number: usize) -> usize {
    1 << number.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Via; 2] = [Via::ScatterAllgather, Via::RecursiveDoubling];

    fn route(plan: &Plan) -> Vec<usize> {
        std::iter::successors(Some(plan.root()), |&rank| plan.children(rank).first().copied()).collect()
    }

    #[test]
    fn a_block_goes_down_and_then_round_past_those_who_have_it() {
        let plan = block(Via::ScatterAllgather, 0, 8, 6);
        assert_eq!(route(&plan), [0, 4, 6, 7, 1, 2, 3, 5]);
        assert_eq!((plan.degree(), plan.via()), (1, Via::ScatterAllgather));
        // From root 3 of 5, block 1 is for rank 4, and rank 3 + 4 - 5 = 2 is the last.
        assert_eq!(route(&block(Via::ScatterAllgather, 3, 5, 1)), [3, 4, 0, 1, 2]);
    }

    #[test]
    fn a_block_doubles() {
        let plan = block(Via::RecursiveDoubling, 0, 8, 5);
        // Down: 0, 4, 5. Step 0: 5 has it and 4 had it. Step 1: 5 → 7, 4 → 6. Step 2: 5 → 1, 4 → (0), 7 → 3, 6 → 2.
        assert_eq!(plan.edges().collect::<Vec<_>>(), [(0, 4), (4, 5), (4, 6), (5, 7), (5, 1), (6, 2), (7, 3)]);
    }

    #[test]
    fn without_a_power_of_two_there_is_no_doubling() {
        assert_eq!(block_parents(Via::RecursiveDoubling, 12, 7), block_parents(Via::ScatterAllgather, 12, 7));
        assert_ne!(block_parents(Via::RecursiveDoubling, 16, 7), block_parents(Via::ScatterAllgather, 16, 7));
    }

    #[test]
    fn every_block_is_a_tree_with_the_scatters_path_in_it() {
        for (via, ranks) in BOTH.into_iter().flat_map(|via| (1..=33).map(move |ranks| (via, ranks))) {
            let root = ranks / 2;
            let plans = blocks(via, root, ranks);
            assert_eq!(plans.len(), ranks);
            for (number, plan) in plans.iter().enumerate() {
                assert_eq!((plan.root(), plan.edges().count()), (root, ranks - 1));
                let mut rank = number;
                while let Some(above) = binomial::parent(rank) {
                    assert_eq!(plan.parent((rank + root) % ranks), Some((above + root) % ranks));
                    rank = above;
                }
                let (log, is_chain) = (ranks.ilog2() as usize, plan.degree() <= 1);
                assert!(is_chain || (ranks.is_power_of_two() && plan.height() <= 2 * log), "{via} {ranks} {number}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "chain does not travel in blocks")]
    fn only_ways_in_blocks_have_blocks() {
        block_parents(Via::Chain, 4, 0);
    }
}
