//! Tree of least latency for whole messages (Mateescu and Taylor §3).
//!
//! A sender is busy for the injection time of each message, and the message arrives its edge's
//! weight after that. The tree comes from Dijkstra's algorithm, extended so that a sender's own
//! distance grows with every receiver it takes (Figure 2). The order of sends comes from labels: a
//! rank's label is the time from its receiving the message until all below it have it, and the
//! child that takes longest is served first (Figure 3). The graph is complete: every host reaches
//! every other.
//!
//! Figure 3 multiplies an edge's injection time by the number of sends so far; §3 gives a sender
//! one injection time for all its edges. Here injection times may differ from edge to edge, and are
//! added up, which is equivalent where they do not differ.

use super::error::PlanError;
use super::tree::Plan;
use super::via::Via;

/// Times of edges, by sender and receiver, in nanoseconds.
pub type EdgeTime<'a> = &'a dyn Fn(usize, usize) -> u64;

/// Plans the tree from `root` over ranks `0..ranks`; `weight` is the latency of an edge and `injection` how long its
/// sender is busy, both in nanoseconds. Ties go to the lower rank. Sums stop at `u64::MAX`, which stands for *never*.
///
/// Quadratic in the ranks, with two calls for each pair.
///
/// # Errors
/// [`PlanError::NoSuchRoot`] unless `root < ranks`; [`PlanError::NoParent`] if a rank can never be reached.
pub fn latency(root: usize, ranks: usize, weight: EdgeTime, injection: EdgeTime) -> Result<Plan, PlanError> {
    if root >= ranks {
        return Err(PlanError::NoSuchRoot { root, ranks });
    }
    let tree = Plan::from_parents(Via::Latency, root, &extended_dijkstra(root, ranks, weight, injection))?;
    let mut labels = vec![0u64; ranks];
    let mut children = vec![Vec::new(); ranks];
    for rank in leaves_first(&tree) {
        let rest = |child: usize| labels[child].saturating_add(weight(rank, child));
        children[rank] = tree.children(rank).to_vec();
        children[rank].sort_by_key(|&child| std::cmp::Reverse(rest(child)));
        labels[rank] = label(rank, &children[rank], &labels, weight, injection);
    }
    Plan::from_children(Via::Latency, root, &children)
}

/// Returns the time at which the last rank has the message, in nanoseconds from the root's first
/// send, if every rank sends as `plan` says: the root's label.
pub fn completion_time(plan: &Plan, weight: EdgeTime, injection: EdgeTime) -> u64 {
    let mut labels = vec![0u64; plan.ranks()];
    for rank in leaves_first(plan) {
        labels[rank] = label(rank, plan.children(rank), &labels, weight, injection);
    }
    labels[plan.root()]
}

fn label(rank: usize, children: &[usize], labels: &[u64], weight: EdgeTime, injection: EdgeTime) -> u64 {
    let mut busy = 0u64;
    let mut latest = 0u64;
    for &child in children {
        busy = busy.saturating_add(injection(rank, child));
        latest = latest.max(busy.saturating_add(weight(rank, child)).saturating_add(labels[child]));
    }
    latest
}

fn leaves_first(plan: &Plan) -> Vec<usize> {
    let mut order = vec![plan.root()];
    let mut next = 0;
    while let Some(&rank) = order.get(next) {
        order.extend_from_slice(plan.children(rank));
        next += 1;
    }
    order.reverse();
    order
}

/// Computes the parents of Figure 2. The queue is scanned, because in a complete graph every rank
/// taken from it visits all that remain anyway.
fn extended_dijkstra(root: usize, ranks: usize, weight: EdgeTime, injection: EdgeTime) -> Vec<Option<usize>> {
    let mut distances = vec![u64::MAX; ranks];
    distances[root] = 0;
    let mut parents = vec![None; ranks];
    let mut queue: Vec<usize> = (0..ranks).collect();
    while let Some(nearest) = (0..queue.len()).min_by_key(|&index| distances[queue[index]]) {
        let sender = queue.remove(nearest);
        for &rank in &queue {
            let injection = injection(sender, rank);
            let through = distances[sender].saturating_add(weight(sender, rank)).saturating_add(injection);
            if distances[rank] > through {
                distances[rank] = through;
                distances[sender] = distances[sender].saturating_add(injection);
                parents[rank] = Some(sender);
            }
        }
    }
    parents
}

#[cfg(test)]
mod tests;
