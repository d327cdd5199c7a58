//! A saved plan before the judge: on the network it is to run on, and with the memory of the hosts that run it.

use super::{SavedPlan, SavedPlanError, SavedPlanProblem};
use crate::plan::check::{CheckReport, check_message};
use crate::topology::{Topology, nodeset};

/// What becomes of a saved plan in which several hosts send over one cable at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contention {
    /// It is refused.
    #[default]
    Refused,
    /// It runs, as its author wants it; the verdict says what it does to the cables.
    Allowed,
}

impl SavedPlan {
    /// Judges the plan on the network it is to run on, by [`check`](crate::plan::check()), before anybody is waited
    /// for. Whoever loads a plan asks here: the program and the library have one rule.
    ///
    /// # Errors
    /// [`SavedPlanError`] with the line, if the topology lacks one of its hosts, or if several hosts send over one
    /// cable at a time and that is not allowed.
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

    /// Checks that relays can keep a segment: of at most `most_bytes`, which depends on their feed and on the payload
    /// of a frame.
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
