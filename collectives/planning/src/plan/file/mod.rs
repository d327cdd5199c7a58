//! Saved plans: made once from a topology, run any number of times (Patarasuk 2008 §5, the routine
//! generator).
//!
//! A file names hosts, so it is valid whatever ranks they get, and it records its members: other
//! members, another root or a view of another epoch are refused, because a plan that is free of
//! contention for some hosts need not be for others. It need not be on another network either, and
//! a file can be edited. Before a plan is run, [`SavedPlan::admit`] checks it on the present
//! topology.

mod error;
mod origin;
mod parse;
mod verdict;

pub use error::{SavedPlanError, SavedPlanProblem};
pub use verdict::Contention;

use super::error::PlanError;
use super::tree::Plan;
use super::via::Via;
use crate::topology::nodeset;
use origin::Origin;
use std::collections::{HashMap, HashSet};

/// Epoch of saved plans: that of a view before any change of members.
pub const SAVED_EPOCH: u32 = 1;

/// A plan by host names, with the message it was made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedPlan {
    via: Via,
    root: String,
    epoch: u32,
    segment_bytes: u64,
    size_bytes: Option<u64>,
    members: Vec<String>,
    edges: Vec<(usize, usize)>,
    origin: Origin,
}

impl SavedPlan {
    /// Returns the plan to save, rank `r` being the host `names[r]`; `size_bytes` is `None` for a
    /// stream of unknown length.
    ///
    /// # Panics
    /// Unless there is one name for each rank.
    pub fn from_plan(plan: &Plan, names: &[&str], segment_bytes: u64, size_bytes: Option<u64>) -> Self {
        assert_eq!(names.len(), plan.ranks(), "a plan is saved with one name for each rank");
        Self {
            via: plan.via(),
            root: names[plan.root()].to_string(),
            epoch: SAVED_EPOCH,
            segment_bytes,
            size_bytes,
            members: names.iter().map(|name| (*name).to_string()).collect(),
            edges: plan.edges().collect(),
            origin: Origin::default(),
        }
    }

    /// Returns the route.
    pub fn via(&self) -> Via {
        self.via
    }

    /// Returns the host that the bytes come from.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// Returns the epoch of the view it is for.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns the length of a segment in bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Returns the length of the message it was made for, in bytes, if known.
    pub fn size_bytes(&self) -> Option<u64> {
        self.size_bytes
    }

    /// Returns its hosts, in the order of their ranks when it was saved.
    pub fn members(&self) -> &[String] {
        &self.members
    }

    /// Returns the plan for the members of a view: rank `r` is `names[r]`, rank 0 the root, as in
    /// every view.
    ///
    /// # Errors
    /// [`SavedPlanError`] if the view has another epoch, other members, or another root.
    pub fn for_members(&self, names: &[&str], epoch: u32) -> Result<Plan, SavedPlanError> {
        if epoch != self.epoch {
            return Err(self.origin.refuse_epoch(SavedPlanProblem::OtherEpoch { saved: self.epoch, epoch }));
        }
        let ranks: HashMap<&str, usize> = names.iter().enumerate().map(|(rank, &name)| (name, rank)).collect();
        let saved: HashSet<&str> = self.members.iter().map(String::as_str).collect();
        let missing: Vec<&str> =
            self.members.iter().map(String::as_str).filter(|name| !ranks.contains_key(name)).collect();
        let extra: Vec<&str> = names.iter().copied().filter(|name| !saved.contains(name)).collect();
        if !missing.is_empty() || !extra.is_empty() {
            let fold = |names: Vec<&str>| nodeset::fold(&names);
            let (missing, extra) = (fold(missing), fold(extra));
            return Err(self.origin.refuse_members(SavedPlanProblem::OtherMembers { missing, extra }));
        }
        if names.first() != Some(&self.root.as_str()) {
            let root = names.first().map_or_else(String::new, |name| (*name).to_string());
            return Err(self.origin.refuse_root(SavedPlanProblem::OtherRoot { saved: self.root.clone(), root }));
        }
        let plan = self.plan(|member| ranks[self.members[member].as_str()], names.len());
        plan.map_err(|error| self.origin.refuse_members(error))
    }

    fn plan(&self, rank_of: impl Fn(usize) -> usize, ranks: usize) -> Result<Plan, PlanError> {
        let mut children = vec![Vec::new(); ranks];
        for &(from, to) in &self.edges {
            children[rank_of(from)].push(rank_of(to));
        }
        let root =
            self.members.iter().position(|name| *name == self.root).expect("the root of a saved plan is a member");
        Plan::from_children(self.via, rank_of(root), &children)
    }

    /// Writes the plan as a file that [`SavedPlan::parse`] reads.
    pub fn to_toml(&self) -> String {
        // Names consist of letters, digits and `-_.:`, so no escaping is needed.
        let mut text =
            format!("schema = 1\nvia = \"{}\"\nroot = \"{}\"\nepoch = {}\n", self.via, self.root, self.epoch);
        text += &format!("segment_bytes = {}\n", self.segment_bytes);
        if let Some(size) = self.size_bytes {
            text += &format!("size_bytes = {size}\n");
        }
        text += &format!("members = \"{}\"\n", nodeset::fold(&self.members));
        let mut sent = vec![0usize; self.members.len()];
        for &(from, to) in &self.edges {
            let (sender, receiver) = (&self.members[from], &self.members[to]);
            text += &format!("\n[[edge]]\nfrom = \"{sender}\"\nto = \"{receiver}\"\norder = {}\n", sent[from]);
            sent[from] += 1;
        }
        text
    }
}

#[cfg(test)]
mod tests;
