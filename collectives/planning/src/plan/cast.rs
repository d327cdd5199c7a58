//! The plan of a cast: everybody hears the root.

use super::{Plan, PlanError, Via};

/// The root sends to every other rank at once; the switches do the copying, so no topology is asked.
///
/// # Errors
/// [`PlanError::NoSuchRoot`] unless `root < ranks`.
pub fn cast(root: usize, ranks: usize) -> Result<Plan, PlanError> {
    let parents: Vec<Option<usize>> = (0..ranks).map(|rank| (rank != root).then_some(root)).collect();
    Plan::from_parents(Via::Cast, root, &parents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_hears_the_root() {
        let plan = cast(2, 5).expect("rank 2 of 5");
        assert_eq!((plan.via(), plan.root(), plan.height(), plan.degree()), (Via::Cast, 2, 1, 4));
        assert_eq!(plan.children(2), [0, 1, 3, 4]);
        assert_eq!(plan.parent(4), Some(2));
    }

    #[test]
    fn a_root_alone_has_nobody_to_tell() {
        let plan = cast(0, 1).expect("rank 0 of 1");
        assert_eq!((plan.height(), plan.degree(), plan.edges().count()), (0, 0, 0));
        assert_eq!(cast(5, 5), Err(PlanError::NoSuchRoot { root: 5, ranks: 5 }));
        assert_eq!(cast(0, 0), Err(PlanError::NoSuchRoot { root: 0, ranks: 0 }));
    }
}
