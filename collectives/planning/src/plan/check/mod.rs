//! Checker of plans, independent of the planners.
//!
//! The check reads a plan as a list of edges and a topology as a list of cables, and shares no code and no
//! table with the planners. They walk neighbour lists depth-first; the checker strips leaves off
//! the tree of switches until every switch knows its uplink, climbs from both ends of each edge to
//! where they meet, and counts at every directed cable.
//!
//! Contention is two *senders* on one directed cable (Patarasuk 2008 §2, §4.1: a host has one port
//! and sends one thing at a time, so two flows of one sender never compete).

mod losses;
mod meter;
mod report;

pub use losses::{LossyCables, Passage, lossy_cables};
pub use report::{CableEnd, CableLoad, CheckReport, Fault};

use super::by_rank::blocks;
use super::tree::Plan;
use super::via::Via;
use crate::topology::Topology;
use meter::Meter;

/// Checks `plan` on `topology`, rank `r` being the host with id `host_of_rank[r]`.
///
/// A cast is only checked for spanning: switches copy its frames, and cables carry each one once.
pub fn check(topology: &Topology, plan: &Plan, host_of_rank: &[usize]) -> CheckReport {
    check_all(topology, std::slice::from_ref(plan), host_of_rank)
}

/// Checks concurrent plans, such as those of the [blocks](super::blocks()) of one message: the
/// faults of all, and at every cable the flows of all together.
///
/// A host that sends along several plans is one sender: it still sends one thing at a time.
pub fn check_all(topology: &Topology, plans: &[Plan], host_of_rank: &[usize]) -> CheckReport {
    let mut report =
        CheckReport { ranks: host_of_rank.len(), faults: vec![], loads: vec![], worst: None, worst_edges: vec![] };
    let mut measured = Vec::new();
    for plan in plans {
        report.ranks = plan.ranks();
        let edges: Vec<(usize, usize)> = plan.edges().collect();
        report.faults.extend(judge_spanning(topology, plan.ranks(), plan.root(), &edges, host_of_rank));
        if plan.via() != Via::Cast {
            measured.extend(edges);
        }
    }
    if report.faults.is_empty() {
        let load = Meter::new(topology).measure(topology, &measured, host_of_rank);
        (report.loads, report.worst, report.worst_edges) = (load.cables, load.worst, load.worst_edges);
    }
    report
}

/// Limit of ranks above which only the scatter of a block-wise message is checked: all blocks
/// together have quadratically many edges.
const MAX_RANKS_IN_BLOCKS: usize = 256;

/// Checks the whole load of a message: a plan, or all trees of the blocks of a message [in
/// blocks](Via::is_in_blocks), every block counted as its share.
pub fn check_message(topology: &Topology, plan: &Plan, host_of_rank: &[usize]) -> CheckReport {
    let ranks = plan.ranks();
    if !plan.via().is_in_blocks() || !(2..=MAX_RANKS_IN_BLOCKS).contains(&ranks) {
        return check(topology, plan, host_of_rank);
    }
    let mut report = check_all(topology, &blocks(plan.via(), plan.root(), ranks), host_of_rank);
    // As many flows as there are ranks are one message.
    let whole = |load: &mut CableLoad| load.flows = load.flows.div_ceil(ranks);
    report.loads.iter_mut().chain(&mut report.worst).for_each(whole);
    report
}

fn judge_spanning(
    topology: &Topology,
    ranks: usize,
    root: usize,
    edges: &[(usize, usize)],
    host_of_rank: &[usize],
) -> Vec<Fault> {
    let mut faults = judge_hosts(topology, ranks, host_of_rank);
    let strays = edges.iter().flat_map(|&(sender, receiver)| [sender, receiver]).chain([root]);
    faults.extend(strays.filter(|&rank| rank >= ranks).map(Fault::NoSuchRank));
    if faults.is_empty() {
        faults.extend(judge_parents(ranks, root, edges));
        faults.extend(judge_reach(ranks, root, edges));
    }
    faults
}

fn judge_hosts(topology: &Topology, ranks: usize, host_of_rank: &[usize]) -> Vec<Fault> {
    if host_of_rank.len() != ranks {
        return vec![Fault::HostTableLength(host_of_rank.len())];
    }
    let mut taken = vec![false; topology.hosts().len()];
    let judge = |(rank, &host): (usize, &usize)| match taken.get_mut(host) {
        None => Some(Fault::NoSuchHost { rank, host }),
        Some(taken) => std::mem::replace(taken, true).then_some(Fault::SharedHost { rank, host }),
    };
    host_of_rank.iter().enumerate().filter_map(judge).collect()
}

fn judge_parents(ranks: usize, root: usize, edges: &[(usize, usize)]) -> Vec<Fault> {
    let mut parents = vec![0; ranks];
    edges.iter().for_each(|&(_, receiver)| parents[receiver] += 1);
    let allowed = |rank: usize| usize::from(rank != root);
    let wrong = parents.into_iter().enumerate().filter(|&(rank, parents)| parents > allowed(rank));
    wrong.map(|(rank, parents)| Fault::TooManyParents { rank, parents }).collect()
}

/// Spreads from the root along the edges, sorted by sender so that each rank's are found by
/// bisection.
fn judge_reach(ranks: usize, root: usize, edges: &[(usize, usize)]) -> Vec<Fault> {
    let mut by_sender = edges.to_vec();
    by_sender.sort_unstable();
    let mut reached = vec![false; ranks];
    reached[root] = true;
    let mut waiting = vec![root];
    while let Some(rank) = waiting.pop() {
        let first = by_sender.partition_point(|edge| edge.0 < rank);
        for &(_, receiver) in by_sender[first..].iter().take_while(|edge| edge.0 == rank) {
            if !std::mem::replace(&mut reached[receiver], true) {
                waiting.push(receiver);
            }
        }
    }
    (0..ranks).filter(|&rank| !reached[rank]).map(Fault::Unreached).collect()
}

#[cfg(test)]
mod tests;
