//! Directed cables between switches on the path between two hosts.

use crate::topology::{Topology, Walk};

pub(super) struct Cables {
    tree: Walk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Direction {
    switch: usize,
    up: bool,
}

impl Cables {
    pub fn new(topology: &Topology) -> Self {
        Self { tree: Walk::from(topology, 0) }
    }

    pub fn ends(&self, Direction { switch, up }: Direction) -> (usize, usize) {
        let above = self.tree.above()[switch].unwrap_or(switch);
        if up { (switch, above) } else { (above, switch) }
    }

    pub fn between(&self, from: usize, to: usize) -> Vec<Direction> {
        let (above, depth) = (self.tree.above(), self.tree.depth());
        let (mut from, mut to) = (Some(from), Some(to));
        let mut path = Vec::new();
        while let (Some(rising), Some(falling)) = (from, to)
            && rising != falling
        {
            if depth[rising] >= depth[falling] {
                path.push(Direction { switch: rising, up: true });
                from = above[rising];
            } else {
                path.push(Direction { switch: falling, up: false });
                to = above[falling];
            }
        }
        path
    }
}

pub(super) fn most_alike<T: Ord>(mut items: Vec<T>) -> usize {
    items.sort_unstable();
    items.chunk_by(|left, right| left == right).map(<[T]>::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_goes_up_and_down_again() {
        // Switches s1, s2 and s3 around s0.
        let cables = Cables::new(&Topology::builtin("fig9-3").expect("fig9-3"));
        let (up, down) = (|switch| Direction { switch, up: true }, |switch| Direction { switch, up: false });
        assert_eq!(cables.between(2, 2), []);
        assert_eq!(cables.between(0, 3), [down(3)]);
        assert_eq!(cables.between(1, 2), [up(1), down(2)]);
    }

    #[test]
    fn a_row_is_walked_cable_by_cable() {
        let cables = Cables::new(&Topology::builtin("fig9-4").expect("fig9-4"));
        let there = cables.between(0, 3);
        let back = cables.between(3, 0);
        assert_eq!((there.len(), back.len()), (3, 3));
        assert!(there.iter().all(|direction| !back.contains(direction)), "two directions of a cable are two");
    }

    #[test]
    fn the_most_alike_are_counted() {
        assert_eq!(most_alike(vec![3, 1, 3, 2, 3, 1]), 3);
        assert_eq!(most_alike(Vec::<usize>::new()), 0);
    }
}
