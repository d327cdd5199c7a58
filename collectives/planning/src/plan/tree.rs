//! A broadcast tree (*plan*) over all hosts, with the order in which each host serves its children.

use super::PlanError;
use super::via::Via;

/// A broadcast plan: a tree over ranks, rooted anywhere, with the children of each rank in sending
/// order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    via: Via,
    root: usize,
    parents: Vec<Option<usize>>,
    children: Vec<usize>,
    /// Index of each rank's first child in `children`; one more entry marks the end.
    starts: Vec<usize>,
    height: usize,
    /// Tree of the second half of the message.
    twin: Option<Box<Plan>>,
}

impl Plan {
    /// Builds a plan from each rank's parent, as planners compute it and as a VIEW carries it.
    ///
    /// A rank sends to its children in ascending order.
    ///
    /// # Errors
    /// [`PlanError`] unless this is one tree over all ranks, rooted at `root`, of the shape of
    /// `via`: at most one child each for a chain, every rank a child of the root for a cast.
    pub fn from_parents(
        via: Via,
        root: usize,
        parents: &[Option<usize>],
    ) -> Result<Self, PlanError> {
        check_parents(root, parents)?;
        let mut children = vec![Vec::new(); parents.len()];
        for (rank, parent) in parents.iter().enumerate() {
            parent
                .iter()
                .for_each(|&parent| children[parent].push(rank));
        }
        Self::checked(via, root, parents.to_vec(), &children)
    }

    /// Builds a plan from each rank's children in sending order.
    ///
    /// # Errors
    /// [`PlanError`] as for [`Plan::from_parents`], and if a rank has several parents or does not
    /// exist.
    pub fn from_children(
        via: Via,
        root: usize,
        children: &[Vec<usize>],
    ) -> Result<Self, PlanError> {
        let ranks = children.len();
        let mut parents = vec![None; ranks];
        for (parent, rank) in children
            .iter()
            .enumerate()
            .flat_map(|(parent, list)| list.iter().map(move |&rank| (parent, rank)))
        {
            match parents.get_mut(rank) {
                None => {
                    return Err(PlanError::NoSuchChild {
                        rank,
                        parent,
                        ranks,
                    });
                }
                Some(Some(first)) => {
                    return Err(PlanError::TwoParents {
                        rank,
                        first: *first,
                        second: parent,
                    });
                }
                Some(free) => *free = Some(parent),
            }
        }
        check_parents(root, &parents)?;
        Self::checked(via, root, parents, children)
    }

    fn checked(
        via: Via,
        root: usize,
        parents: Vec<Option<usize>>,
        children: &[Vec<usize>],
    ) -> Result<Self, PlanError> {
        let mut starts = vec![0];
        starts.extend(children.iter().scan(0, |end, list| {
            *end += list.len();
            Some(*end)
        }));
        let mut plan = Self {
            via,
            root,
            parents,
            children: children.concat(),
            starts,
            height: 0,
            twin: None,
        };
        plan.height = plan.measure_height()?;
        plan.check_shape()?;
        Ok(plan)
    }

    /// Returns the pair of this tree, for the first half of the message, and `second`, for the
    /// other.
    ///
    /// # Errors
    /// [`PlanError`] unless `second` has the same root and as many ranks.
    pub fn paired(mut self, second: Self) -> Result<Self, PlanError> {
        let (root, ranks) = (second.root, self.ranks());
        if (root, second.ranks()) != (self.root, ranks) {
            return Err(PlanError::OtherTree {
                root: self.root,
                ranks,
            });
        }
        self.height = self.height.max(second.height);
        self.twin = Some(Box::new(second));
        Ok(self)
    }

    /// Returns the trees of the two halves of the message with [`Via::TwoTree`], which are one if
    /// the plan was made of one; else the tree alone.
    pub fn trees(&self) -> Vec<&Self> {
        match self.via {
            Via::TwoTree => vec![self, self.twin.as_deref().unwrap_or(self)],
            _ => vec![self],
        }
    }

    /// Returns the route.
    pub fn via(&self) -> Via {
        self.via
    }

    /// Returns the rank that has the bytes.
    pub fn root(&self) -> usize {
        self.root
    }

    /// Returns the number of ranks, including the root.
    pub fn ranks(&self) -> usize {
        self.parents.len()
    }

    /// Returns the parent of a rank; `None` for the root.
    ///
    /// # Panics
    /// If `rank` is not below [`Plan::ranks`].
    pub fn parent(&self, rank: usize) -> Option<usize> {
        self.parents[rank]
    }

    /// Returns the children of a rank, in sending order.
    ///
    /// # Panics
    /// If `rank` is not below [`Plan::ranks`].
    pub fn children(&self, rank: usize) -> &[usize] {
        &self.children[self.starts[rank]..self.starts[rank + 1]]
    }

    /// Returns the most edges between the root and any rank, in any tree: the H of Patarasuk 2008
    /// §3.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Returns the maximum number of children of any rank: D in Patarasuk 2008 §3.
    pub fn degree(&self) -> usize {
        (0..self.ranks())
            .map(|rank| self.children(rank).len())
            .max()
            .unwrap_or(0)
    }

    /// Returns all edges as (sender, receiver), by sender, each sender's in sending order.
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.ranks())
            .flat_map(|rank| self.children(rank).iter().map(move |&child| (rank, child)))
    }

    /// Returns a digest of all edges and their order: equal on two hosts only if their plans are.
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key("ethbcast plan digest, version 1");
        let mut number = |value: usize| {
            hasher.update(&(value as u64).to_le_bytes());
        };
        number(self.ranks());
        number(self.root);
        for rank in 0..self.ranks() {
            // The count delimits the list, so that no two plans write equal numbers.
            number(self.children(rank).len());
            self.children(rank).iter().for_each(|&child| number(child));
        }
        hasher.update(self.via.to_string().as_bytes());
        if let Some(twin) = &self.twin {
            hasher.update(&twin.digest());
        }
        *hasher.finalize().as_bytes()
    }

    /// Returns the first eight bytes of [`Plan::digest`] as a little-endian number, for headers
    /// without room for all.
    pub fn digest_u64(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.digest();
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    fn measure_height(&self) -> Result<usize, PlanError> {
        let mut met = vec![false; self.ranks()];
        let mut level = vec![self.root];
        let mut height = 0;
        loop {
            level.iter().for_each(|&rank| met[rank] = true);
            let next: Vec<usize> = level
                .iter()
                .flat_map(|&rank| self.children(rank))
                .copied()
                .collect();
            if next.is_empty() {
                break;
            }
            level = next;
            height += 1;
        }
        match met.iter().position(|&met| !met) {
            Some(rank) => Err(PlanError::Circle(rank)),
            None => Ok(height),
        }
    }

    fn check_shape(&self) -> Result<(), PlanError> {
        let most = match self.via {
            Via::Chain | Via::ChainUnaware => 1,
            Via::Binary | Via::BinaryBest | Via::BinaryUnaware | Via::TwoTree => 2,
            Via::Kary(children) => usize::from(children),
            Via::Cast | Via::Flat => {
                let relay = self.edges().find(|&(sender, _)| sender != self.root);
                return relay.map_or(Ok(()), |(sender, rank)| {
                    Err(PlanError::Relayed {
                        via: self.via,
                        rank,
                        sender,
                    })
                });
            }
            Via::Binomial | Via::ScatterAllgather | Via::RecursiveDoubling | Via::Latency => {
                return Ok(());
            }
        };
        match (0..self.ranks()).find(|&rank| self.children(rank).len() > most) {
            Some(rank) => Err(PlanError::TooManyChildren {
                via: self.via,
                rank,
                children: self.children(rank).len(),
                most,
            }),
            None => Ok(()),
        }
    }
}

fn check_parents(root: usize, parents: &[Option<usize>]) -> Result<(), PlanError> {
    let ranks = parents.len();
    if root >= ranks {
        return Err(PlanError::NoSuchRoot { root, ranks });
    }
    for (rank, &parent) in parents.iter().enumerate() {
        match parent {
            Some(parent) if rank == root => return Err(PlanError::RootWithParent { root, parent }),
            Some(parent) if parent >= ranks => {
                return Err(PlanError::NoSuchParent {
                    rank,
                    parent,
                    ranks,
                });
            }
            None if rank != root => return Err(PlanError::NoParent(rank)),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refusal(via: Via, root: usize, parents: &[Option<usize>]) -> String {
        Plan::from_parents(via, root, parents)
            .expect_err("refused")
            .to_string()
    }

    #[test]
    fn a_chain_from_the_wire() {
        let plan = Plan::from_parents(Via::Chain, 2, &[Some(2), Some(0), None]).expect("2 → 0 → 1");
        assert_eq!(
            (
                plan.via(),
                plan.root(),
                plan.ranks(),
                plan.height(),
                plan.degree()
            ),
            (Via::Chain, 2, 3, 2, 1)
        );
        assert_eq!(
            (plan.parent(2), plan.parent(0), plan.parent(1)),
            (None, Some(2), Some(0))
        );
        assert_eq!(
            (plan.children(2), plan.children(0), plan.children(1)),
            ([0].as_slice(), [1].as_slice(), [].as_slice())
        );
        assert_eq!(plan.edges().collect::<Vec<_>>(), [(0, 1), (2, 0)]);
    }

    #[test]
    fn a_received_plan_of_another_shape_than_declared_is_refused() {
        let cases: [(Via, usize, &[Option<usize>], &str); 8] = [
            (
                Via::Chain,
                0,
                &[],
                "rank 0 cannot be the root of a plan over 0 ranks; use a rank below 0",
            ),
            (
                Via::Cast,
                2,
                &[None, Some(0)],
                "rank 2 cannot be the root of a plan over 2 ranks; use a rank below 2",
            ),
            (
                Via::Chain,
                0,
                &[Some(1), None],
                "rank 0 is the root but has the parent 1; the root has none",
            ),
            (
                Via::Chain,
                0,
                &[None, None],
                "rank 1 has no parent; every rank but the root needs one",
            ),
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
            (
                Via::Chain,
                0,
                &[None, Some(0), Some(0)],
                "rank 0 has 2 children; with chain give every rank at most 1",
            ),
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
        let plan = |via, root, parents: &[Option<usize>]| {
            Plan::from_parents(via, root, parents)
                .expect("a plan")
                .digest()
        };
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

    /// Hosts of different versions must agree: this value changes only together with the version in
    /// the digest's key.
    #[test]
    fn the_digest_is_the_same_on_every_machine() {
        let plan = Plan::from_parents(Via::Chain, 0, &[None, Some(0), Some(1)]).expect("a chain");
        assert_eq!(
            plan.digest_u64(),
            u64::from_le_bytes(plan.digest()[..8].try_into().expect("eight bytes"))
        );
        assert_eq!(
            plan.digest_u64(),
            0xbb8c_8e4b_5c5b_b709,
            "{:#018x}",
            plan.digest_u64()
        );
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
}
