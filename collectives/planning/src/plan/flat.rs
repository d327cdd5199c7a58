//! The flat tree: the root does it all (Patarasuk 2008 §3.1).

use super::unaware::turned;
use super::{Plan, PlanError, Via};

/// The root sends the whole message to the next rank, then to the one after it, and so on round.
///
/// # Errors
/// [`PlanError::NoSuchRoot`] unless `root < ranks`.
pub fn flat(root: usize, ranks: usize) -> Result<Plan, PlanError> {
    turned(Via::Flat, root, ranks, |rank| if rank == 0 { (1..ranks).collect() } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_serves_the_ranks_after_it_first() {
        let plan = flat(2, 5).expect("rank 2 of 5");
        assert_eq!((plan.children(2), plan.height(), plan.degree()), ([3, 4, 0, 1].as_slice(), 1, 4));
        assert_eq!(flat(0, 1).expect("rank 0 of 1").edges().count(), 0);
        assert_eq!(flat(5, 5), Err(PlanError::NoSuchRoot { root: 5, ranks: 5 }));
    }
}
