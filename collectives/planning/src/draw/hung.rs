//! Re-rooting of the switch tree at its middle, so that the drawing has the fewest levels.

use crate::topology::{Topology, Walk};

#[derive(Debug)]
pub(super) struct Hung {
    pub top: usize,
    pub children: Vec<Vec<usize>>,
    pub depth: Vec<usize>,
}

impl Hung {
    /// Hangs the switches from the middle of the longest path; of two middles, from the lower id.
    pub fn new(topology: &Topology) -> Self {
        let one_end = Walk::from(topology, 0).farthest();
        let walk = Walk::from(topology, one_end);
        let path: Vec<usize> = std::iter::successors(Some(walk.farthest()), |&switch| walk.above()[switch]).collect();
        let top = path[(path.len() - 1) / 2].min(path[path.len() / 2]);
        let walk = Walk::from(topology, top);
        Self { top, children: walk.children(), depth: walk.depth().to_vec() }
    }

    pub fn levels(&self) -> usize {
        self.depth.iter().max().map_or(0, |deepest| deepest + 1)
    }
}

/// Returns the depth of a topology: levels of switches, hung from the middle of the longest path.
pub fn levels(topology: &Topology) -> usize {
    Hung::new(topology).levels()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::arbitrary;
    use proptest::prelude::*;

    #[test]
    fn the_beds_hang_from_their_middles() {
        let hang = |name: &str| Hung::new(&Topology::builtin(name).expect(name));
        assert_eq!((hang("fig9-1").top, hang("fig9-1").levels()), (0, 1));
        assert_eq!((hang("fig9-3").top, hang("fig9-3").levels()), (0, 2));
        let row = hang("fig9-4");
        assert_eq!((row.top, row.depth.as_slice(), row.levels()), (1, [1, 0, 1, 2].as_slice(), 3));
        assert_eq!(row.children, [vec![], vec![0, 2], vec![3], vec![]]);
    }

    proptest! {
        #[test]
        fn no_other_top_makes_it_lower(topology in arbitrary::topology(12, 12)) {
            let hung = Hung::new(&topology);
            let height = |top| Walk::from(&topology, top).depth().iter().max().expect("a switch") + 1;
            let lowest = (0..topology.switches().len()).map(height).min();
            prop_assert_eq!(Some(hung.levels()), lowest);
            prop_assert_eq!(hung.children.iter().flatten().count() + 1, topology.switches().len());
        }
    }
}
