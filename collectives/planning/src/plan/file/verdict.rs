//! Checks of a saved plan before it runs: on its network, and against the memory of its hosts.

use super::{SavedPlan, SavedPlanError, SavedPlanProblem};
use crate::plan::check::{CheckReport, check_message};
use crate::topology::{Topology, nodeset};

/// Treatment of a saved plan in which several hosts send over one cable at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contention {
    /// The plan is refused.
    #[default]
    Refused,
    /// The plan runs, as its author wants; the report describes the contention.
    Allowed,
}

impl SavedPlan {
    /// Checks the plan on the network it will run on, by [`check`](crate::plan::check()), before
    /// the session starts. The program and the library both use this.
    ///
    /// # Errors
    /// [`SavedPlanError`] with the line, if the topology lacks one of its hosts, or if several
    /// hosts send over one cable at a time and that is not allowed.
    pub fn admit(&self, topology: &Topology, contention: Contention) -> Result<CheckReport, SavedPlanError> {
        let located = self.members.iter().map(|name| topology.host_named(name).ok_or(name));
        let (hosts, unknown): (Vec<_>, Vec<_>) = located.partition(Result::is_ok);
        if !unknown.is_empty() {
            let unknown: Vec<&String> = unknown.into_iter().filter_map(Result::err).collect();
            return Err(self.origin.refuse_members(SavedPlanProblem::NotInTopology(nodeset::fold(&unknown))));
        }
        let hosts: Vec<usize> = hosts.into_iter().flatten().collect();
        let plan = self
            .plan(|member| member, self.members.len())
            .map_err(|error| self.origin.refuse(self.line_of(&error), error))?;
        let report = check_message(topology, &plan, &hosts);
        if report.is_contention_free() || contention == Contention::Allowed {
            return Ok(report);
        }
        let worst = self.edges.iter().position(|edge| report.worst_edges.contains(edge));
        let line = worst.and_then(|place| self.origin.edge(place));
        Err(self.origin.refuse(line, SavedPlanProblem::Contended(Box::new(report))))
    }

    /// Checks that relays can keep a segment: at most `most_bytes`, which depends on their feed and
    /// the payload of a frame.
    ///
    /// # Errors
    /// [`SavedPlanError`] with the line.
    pub fn check_segment(&self, most_bytes: u64) -> Result<(), SavedPlanError> {
        if self.segment_bytes <= most_bytes {
            return Ok(());
        }
        let segment_bytes = self.segment_bytes;
        Err(self.origin.refuse_segment(SavedPlanProblem::LongSegment { segment_bytes, most_bytes }))
    }
}
