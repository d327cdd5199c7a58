//! A plan: one tree over all ranks, with the order in which each rank serves its children.

use super::error::PlanError;
use super::via::Via;

/// A tree over ranks, rooted anywhere, with the children of each rank in sending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    via: Via,
    root: usize,
    parents: Vec<Option<usize>>,
    children: Vec<usize>,
    /// Index of each rank's first child in `children`; one more entry marks the end.
    starts: Vec<usize>,
    height: usize,
}

impl Plan {
    /// Builds a plan from each rank's parent, as planners compute it and as a VIEW carries it.
    ///
    /// A rank sends to its children in ascending order.
    ///
    /// # Errors
    /// [`PlanError`] unless this is one tree over all ranks, rooted at `root`, of the shape of
    /// `via`: at most one child each for a chain, every rank a child of the root for a cast.
    pub fn from_parents(via: Via, root: usize, parents: &[Option<usize>]) -> Result<Self, PlanError> {
        check_parents(root, parents)?;
        let mut children = vec![Vec::new(); parents.len()];
        for (rank, parent) in parents.iter().enumerate() {
            parent.iter().for_each(|&parent| children[parent].push(rank));
        }
        Self::checked(via, root, parents.to_vec(), &children)
    }

    /// Builds a plan from each rank's children in sending order.
    ///
    /// # Errors
    /// [`PlanError`] as for [`Plan::from_parents`], and if a rank has several parents or does not exist.
    pub fn from_children(via: Via, root: usize, children: &[Vec<usize>]) -> Result<Self, PlanError> {
        let ranks = children.len();
        let mut parents = vec![None; ranks];
        for (parent, rank) in
            children.iter().enumerate().flat_map(|(parent, list)| list.iter().map(move |&rank| (parent, rank)))
        {
            match parents.get_mut(rank) {
                None => return Err(PlanError::NoSuchChild { rank, parent, ranks }),
                Some(Some(first)) => return Err(PlanError::TwoParents { rank, first: *first, second: parent }),
                Some(free) => *free = Some(parent),
            }
        }
        check_parents(root, &parents)?;
        Self::checked(via, root, parents, children)
    }

    fn checked(via: Via, root: usize, parents: Vec<Option<usize>>, children: &[Vec<usize>]) -> Result<Self, PlanError> {
        let mut starts = vec![0];
        starts.extend(children.iter().scan(0, |end, list| {
            *end += list.len();
            Some(*end)
        }));
        let mut plan = Self { via, root, parents, children: children.concat(), starts, height: 0 };
        plan.height = plan.measure_height()?;
        plan.check_shape()?;
        Ok(plan)
    }

    /// Returns the route.
    pub fn via(&self) -> Via {
        self.via
    }

    /// Returns the rank that the bytes come from.
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

    /// Returns the most edges between the root and any rank: the H of Patarasuk 2008 §3.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Returns the most children of any rank: the D of Patarasuk 2008 §3.
    pub fn degree(&self) -> usize {
        (0..self.ranks()).map(|rank| self.children(rank).len()).max().unwrap_or(0)
    }

    /// Returns all edges as (sender, receiver), by sender, each sender's in sending order.
    pub fn edges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.ranks()).flat_map(|rank| self.children(rank).iter().map(move |&child| (rank, child)))
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
            let next: Vec<usize> = level.iter().flat_map(|&rank| self.children(rank)).copied().collect();
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
            Via::Binary | Via::BinaryBest | Via::BinaryUnaware => 2,
            Via::Kary(children) => usize::from(children),
            Via::Cast | Via::Flat => {
                let relay = self.edges().find(|&(sender, _)| sender != self.root);
                return relay.map_or(Ok(()), |(sender, rank)| Err(PlanError::Relayed { via: self.via, rank, sender }));
            }
            Via::Binomial | Via::ScatterAllgather | Via::RecursiveDoubling | Via::Latency => return Ok(()),
        };
        match (0..self.ranks()).find(|&rank| self.children(rank).len() > most) {
            Some(rank) => {
                Err(PlanError::TooManyChildren { via: self.via, rank, children: self.children(rank).len(), most })
            }
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
            Some(parent) if parent >= ranks => return Err(PlanError::NoSuchParent { rank, parent, ranks }),
            None if rank != root => return Err(PlanError::NoParent(rank)),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
