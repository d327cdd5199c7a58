//! Checker of broadcast trees: counts contention and load on cables, independently of the tree
//! algorithms. It also checks that a tree reaches every host.
//!
//! The check reads a plan as a list of edges and a topology as a list of cables, and shares no code
//! and no table with the planners. They walk neighbour lists depth-first; the checker strips leaves
//! off the tree of switches until every switch knows its uplink, climbs from both ends of each edge
//! to where they meet, and counts at every directed cable.
//!
//! Contention is two *senders* on one directed cable (Patarasuk 2008 §2, §4.1: a host has one port
//! and sends one thing at a time, so two flows of one sender never compete).

#[doc(hidden)]
mod losses;

#[doc(hidden)]
pub use losses::{LossyCables, Passage, lossy_cables};

use super::by_rank::blocks;
use super::tree::Plan;
use super::via::Via;
use crate::topology::Topology;
use std::fmt;
use thiserror::Error;

/// Checks `plan` on `topology`, rank `r` being the host with id `host_of_rank[r]`.
///
/// A cast is only checked for spanning: switches copy its frames, and cables carry each one once.
/// In a pair of trees each carries half of the message, so two flows, or two senders, count as one.
pub fn check(topology: &Topology, plan: &Plan, host_of_rank: &[usize]) -> CheckReport {
    let trees = plan.trees();
    check_shares(topology, &trees, trees.len(), host_of_rank)
}

/// Checks concurrent plans, such as those of the [blocks](super::blocks()) of one message: the
/// faults of all, and at every cable the flows of all together.
///
/// A host that sends along several plans is one sender: it sends one frame at a time.
pub fn check_all(topology: &Topology, plans: &[Plan], host_of_rank: &[usize]) -> CheckReport {
    check_shares(topology, &plans.iter().collect::<Vec<_>>(), 1, host_of_rank)
}

fn check_shares(
    topology: &Topology,
    plans: &[&Plan],
    shares: usize,
    host_of_rank: &[usize],
) -> CheckReport {
    let mut report = CheckReport {
        ranks: host_of_rank.len(),
        faults: vec![],
        loads: vec![],
        worst: None,
        worst_edges: vec![],
    };
    let mut measured = Vec::new();
    for plan in plans {
        report.ranks = plan.ranks();
        let edges: Vec<(usize, usize)> = plan.edges().collect();
        let faults = judge_spanning(topology, plan.ranks(), plan.root(), &edges, host_of_rank);
        let is_spanning = faults.is_empty();
        report.faults.extend(faults);
        if is_spanning && !topology.is_complete() {
            let silent = edges.iter().filter(|&&(sender, receiver)| {
                !topology.can_talk(host_of_rank[sender], host_of_rank[receiver])
            });
            let fault = |&(sender, receiver): &(usize, usize)| Fault::Silent { sender, receiver };
            report.faults.extend(silent.map(fault));
        }
        if plan.via() != Via::Cast {
            measured.extend(edges);
        }
    }
    if report.faults.is_empty() {
        let load = Meter::new(topology).measure(topology, &measured, shares, host_of_rank);
        (report.loads, report.worst, report.worst_edges) =
            (load.cables, load.worst, load.worst_edges);
    }
    report
}

/// Limit of ranks above which only the scatter of a block-wise message is checked: all blocks
/// together have quadratically many edges.
const MAX_RANKS_IN_BLOCKS: usize = 256;

/// Checks the whole load of a message: a plan, or all trees of the blocks of a
/// [scattered](Via::is_scattered) message, every block counted as its share.
pub fn check_message(topology: &Topology, plan: &Plan, host_of_rank: &[usize]) -> CheckReport {
    let ranks = plan.ranks();
    if !plan.via().is_scattered() || !(2..=MAX_RANKS_IN_BLOCKS).contains(&ranks) {
        return check(topology, plan, host_of_rank);
    }
    let mut report = check_all(
        topology,
        &blocks(plan.via(), plan.root(), ranks),
        host_of_rank,
    );
    // As many flows as there are ranks are one message.
    let whole = |load: &mut CableLoad| load.flows = load.flows.div_ceil(ranks);
    report
        .loads
        .iter_mut()
        .chain(&mut report.worst)
        .for_each(whole);
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
    let strays = edges
        .iter()
        .flat_map(|&(sender, receiver)| [sender, receiver])
        .chain([root]);
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
    edges
        .iter()
        .for_each(|&(_, receiver)| parents[receiver] += 1);
    let allowed = |rank: usize| usize::from(rank != root);
    let wrong = parents
        .into_iter()
        .enumerate()
        .filter(|&(rank, parents)| parents > allowed(rank));
    wrong
        .map(|(rank, parents)| Fault::TooManyParents { rank, parents })
        .collect()
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
    (0..ranks)
        .filter(|&rank| !reached[rank])
        .map(Fault::Unreached)
        .collect()
}

/// Result of [`check`](super::check()).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a plan may contend or leave ranks out: the report says so"]
#[non_exhaustive]
pub struct CheckReport {
    /// Number of ranks of the plan.
    pub ranks: usize,
    /// Reasons why the plan does not bring the bytes to every rank exactly once; empty if it does.
    pub faults: Vec<Fault>,
    /// Directed cable with the most contention: one that hosts compete for, then the most senders,
    /// then the most flows, then the first in the order host uplinks, host downlinks, switch
    /// uplinks, switch downlinks. `None` if no cable was checked: faults, a cast, or a single rank.
    pub worst: Option<CableLoad>,
    /// Used directed cables, in that order; empty if no cable was checked.
    pub loads: Vec<CableLoad>,
    /// Edges that share the worst cable, as ranks (sender, receiver), by sender; as many as it has
    /// flows, and twice as many with two trees.
    pub worst_edges: Vec<(usize, usize)>,
}

impl CheckReport {
    /// Whether every rank gets the bytes exactly once.
    pub fn is_spanning(&self) -> bool {
        self.faults.is_empty()
    }

    /// Returns the first send between ranks that the topology says cannot talk.
    pub(crate) fn silent_edge(&self) -> Option<(usize, usize)> {
        self.faults.iter().find_map(|fault| match *fault {
            Fault::Silent { sender, receiver } => Some((sender, receiver)),
            _ => None,
        })
    }

    /// Whether no two senders compete for a cable in one direction.
    pub fn is_contention_free(&self) -> bool {
        self.worst.as_ref().is_none_or(|load| !load.is_contended())
    }

    /// Returns the directed cables that hosts compete for, those of the most senders first.
    pub fn contended(&self) -> Vec<&CableLoad> {
        let mut contended: Vec<&CableLoad> = self
            .loads
            .iter()
            .filter(|load| load.is_contended())
            .collect();
        contended.sort_by_key(|load| std::cmp::Reverse((load.senders, load.flows)));
        contended
    }

    /// Describes the contended cables for people: `switch s0 to switch s1 (8 flows from 8
    /// senders)`; empty if there are none.
    pub fn contention(&self) -> String {
        let contended = self.contended();
        let name = |load: &&CableLoad| {
            let (flows, senders) = (plural(load.flows, "flow"), plural(load.senders, "sender"));
            format!("{} to {} ({flows} from {senders})", load.from, load.to)
        };
        let named: Vec<String> = contended.iter().take(NAMED_CABLES).map(name).collect();
        let more = contended.len().saturating_sub(NAMED_CABLES);
        named.join(", ")
            + &if more > 0 {
                format!(" and {} more", plural(more, "cable"))
            } else {
                String::new()
            }
    }

    /// Whether the plan spans and is free of contention.
    pub fn is_good(&self) -> bool {
        self.is_spanning() && self.is_contention_free()
    }
}

const NAMED_CABLES: usize = 4;

/// One direction of one cable, with the plan's load.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CableLoad {
    /// End that frames enter.
    pub from: CableEnd,
    /// End that frames leave.
    pub to: CableEnd,
    /// Edges of the plan whose path uses it; of two trees half of them.
    pub flows: usize,
    /// Hosts that send over it; two that each send one half of the message count as one.
    pub senders: usize,
    /// Rate of the cable, in bits per second, if known.
    pub rate: Option<u64>,
    /// Sending rate of these hosts together, in bits per second, if known of each.
    pub demand: Option<u64>,
}

impl CableLoad {
    /// Whether senders compete for the cable: there are several, and it is not known to carry their
    /// combined rate.
    pub fn is_contended(&self) -> bool {
        let suffices = self
            .rate
            .zip(self.demand)
            .is_some_and(|(rate, demand)| demand <= rate);
        self.senders > 1 && !suffices
    }
}

/// End of a cable, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CableEnd {
    /// A host's port.
    Host(String),
    /// A switch's port.
    Switch(String),
}

/// A fault because of which a plan does not bring the bytes to every rank exactly once.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The table from ranks to hosts has this number of entries, and the plan another number of
    /// ranks.
    #[error("hosts are given for {0} ranks")]
    HostTableLength(usize),
    #[error("rank {rank} is on host {host}, which does not exist")]
    NoSuchHost { rank: usize, host: usize },
    #[error("rank {rank} shares host {host} with another rank")]
    SharedHost {
        /// The second rank.
        rank: usize,
        host: usize,
    },
    #[error("rank {0} does not exist")]
    NoSuchRank(usize),
    /// A rank receives from several parents, or the root receives at all.
    #[error("rank {rank} has {parents} parents")]
    TooManyParents { rank: usize, parents: usize },
    #[error("rank {0} is never reached")]
    Unreached(usize),
    /// The topology says that these two cannot talk.
    #[error("rank {sender} cannot talk to rank {receiver} directly")]
    Silent { sender: usize, receiver: usize },
}

impl CableEnd {
    /// Returns the name of the host or the switch.
    pub fn name(&self) -> &str {
        match self {
            Self::Host(name) | Self::Switch(name) => name,
        }
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fault) = self.faults.first() {
            let faults = plural(self.faults.len(), "fault");
            return write!(
                formatter,
                "does not span {} ranks: {fault} ({faults} in all)",
                self.ranks
            );
        }
        write!(formatter, "spans {} ranks; ", self.ranks)?;
        match &self.worst {
            None => write!(formatter, "no cable to judge"),
            Some(load) if load.is_contended() => write!(formatter, "contention: {load}"),
            Some(load) => write!(formatter, "no contention: {load}"),
        }
    }
}

impl fmt::Display for CableLoad {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (flows, senders) = (plural(self.flows, "flow"), plural(self.senders, "sender"));
        write!(
            formatter,
            "the busiest cable, {} to {}, carries {flows} from {senders}",
            self.from, self.to
        )
    }
}

impl fmt::Display for CableEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => write!(formatter, "host {name}"),
            Self::Switch(name) => write!(formatter, "switch {name}"),
        }
    }
}

fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}

/// Tree of switches as uplinks, hung from some switch; the top is its own uplink.
struct Meter {
    uplink: Vec<usize>,
    depth: Vec<usize>,
}

impl Meter {
    /// Builds the tree by stripping leaves: a switch with one cable left hangs on the other end of
    /// that cable. A switch needs only the number of its remaining cables and the XOR of their far
    /// ends, which for one cable *is* the far end.
    pub fn new(topology: &Topology) -> Self {
        let switches = topology.switches().len();
        let (mut degree, mut far_ends) = (vec![0usize; switches], vec![0usize; switches]);
        for &(low, high) in topology.cables() {
            (degree[low], far_ends[low]) = (degree[low] + 1, far_ends[low] ^ high);
            (degree[high], far_ends[high]) = (degree[high] + 1, far_ends[high] ^ low);
        }
        let mut uplink: Vec<usize> = (0..switches).collect();
        let mut leaves: Vec<usize> = (0..switches)
            .filter(|&switch| degree[switch] == 1)
            .collect();
        let mut stripped = Vec::with_capacity(switches);
        while let Some(leaf) = leaves.pop() {
            // The last switch lost its last cable after it was queued.
            if degree[leaf] == 1 {
                let above = far_ends[leaf];
                uplink[leaf] = above;
                degree[leaf] = 0;
                (degree[above], far_ends[above]) = (degree[above] - 1, far_ends[above] ^ leaf);
                stripped.push(leaf);
                if degree[above] == 1 {
                    leaves.push(above);
                }
            }
        }
        let mut depth = vec![0; switches];
        for &switch in stripped.iter().rev() {
            depth[switch] = depth[uplink[switch]] + 1;
        }
        Self { uplink, depth }
    }

    /// Counts `edges`, from rank to rank, at every directed cable. Every rank must have its own
    /// host.
    pub fn measure(
        &self,
        topology: &Topology,
        edges: &[(usize, usize)],
        shares: usize,
        host_of_rank: &[usize],
    ) -> Measured {
        let mut by_sender = edges.to_vec();
        by_sender.sort_unstable();
        let mut counts =
            vec![Count::default(); 2 * (topology.hosts().len() + topology.switches().len())];
        let hosts =
            |&(sender, receiver): &(usize, usize)| (host_of_rank[sender], host_of_rank[receiver]);
        for edge in &by_sender {
            let (from, to) = hosts(edge);
            self.walk(topology, from, to, |cable| {
                counts[cable].add(from, topology.host_rate(from))
            });
        }
        counts.iter_mut().for_each(|count| count.divide(shares));
        let used = (0..counts.len()).filter(|&cable| counts[cable].flows > 0);
        // `max_by_key` returns the last of equals; readers look for the first.
        let is_contended = |cable: usize| {
            self.describe(topology, cable, &counts[cable])
                .is_contended()
        };
        let weight = |cable: usize| {
            (
                is_contended(cable),
                counts[cable].senders,
                counts[cable].flows,
            )
        };
        let worst = used.clone().reduce(|best, next| {
            if weight(next) > weight(best) {
                next
            } else {
                best
            }
        });
        let crosses = |edge: &(usize, usize)| {
            let mut crosses = false;
            let (from, to) = hosts(edge);
            self.walk(topology, from, to, |cable| crosses |= Some(cable) == worst);
            crosses
        };
        Measured {
            cables: used
                .map(|cable| self.describe(topology, cable, &counts[cable]))
                .collect(),
            worst: worst.map(|cable| self.describe(topology, cable, &counts[cable])),
            worst_edges: if worst.is_some() {
                by_sender.into_iter().filter(crosses).collect()
            } else {
                Vec::new()
            },
        }
    }

    /// Calls `visit` for every directed cable from one host to another. Indices are, by host id,
    /// the uplinks, then the downlinks; then by switch id the uplinks and the downlinks.
    pub fn walk(&self, topology: &Topology, from: usize, to: usize, mut visit: impl FnMut(usize)) {
        let (hosts, switches) = (topology.hosts().len(), topology.switches().len());
        visit(from);
        visit(hosts + to);
        let (mut rising, mut falling) = (topology.switch_of(from), topology.switch_of(to));
        while rising != falling {
            if self.depth[rising] >= self.depth[falling] {
                visit(2 * hosts + rising);
                rising = self.uplink[rising];
            } else {
                visit(2 * hosts + switches + falling);
                falling = self.uplink[falling];
            }
        }
    }

    pub fn undirected(&self, topology: &Topology, cable: usize) -> usize {
        let (hosts, switches) = (topology.hosts().len(), topology.switches().len());
        if cable < 2 * hosts {
            cable % hosts
        } else {
            2 * hosts + (cable - 2 * hosts) % switches
        }
    }

    pub fn ends(&self, topology: &Topology, cable: usize) -> (CableEnd, CableEnd) {
        let (hosts, cable) = (topology.hosts().len(), self.undirected(topology, cable));
        let host = |id: usize| CableEnd::Host(topology.hosts()[id].clone());
        let switch = |id: usize| CableEnd::Switch(topology.switches()[id].clone());
        match cable.checked_sub(2 * hosts) {
            None => (host(cable), switch(topology.switch_of(cable))),
            Some(id) => (switch(id), switch(self.uplink[id])),
        }
    }

    fn describe(&self, topology: &Topology, cable: usize, count: &Count) -> CableLoad {
        let (hosts, switches) = (topology.hosts().len(), topology.switches().len());
        let (below, above) = self.ends(topology, cable);
        let (is_up, rate) = match cable.checked_sub(2 * hosts) {
            None => (cable < hosts, topology.host_rate(cable % hosts)),
            Some(at) => (
                at < switches,
                topology.cable_rate(at % switches, self.uplink[at % switches]),
            ),
        };
        let (from, to) = if is_up {
            (below, above)
        } else {
            (above, below)
        };
        CableLoad {
            from,
            to,
            flows: count.flows,
            senders: count.senders,
            rate,
            demand: count.demand,
        }
    }
}

struct Measured {
    pub cables: Vec<CableLoad>,
    pub worst: Option<CableLoad>,
    pub worst_edges: Vec<(usize, usize)>,
}

/// Load of one directed cable so far; edges must come sorted by sender.
#[derive(Clone)]
struct Count {
    flows: usize,
    senders: usize,
    last_sender: Option<usize>,
    demand: Option<u64>,
}

impl Default for Count {
    fn default() -> Self {
        Self {
            flows: 0,
            senders: 0,
            last_sender: None,
            demand: Some(0),
        }
    }
}

impl Count {
    fn add(&mut self, sender: usize, rate: Option<u64>) {
        self.flows += 1;
        if self.last_sender != Some(sender) {
            self.last_sender = Some(sender);
            self.senders += 1;
            self.demand = self
                .demand
                .zip(rate)
                .map(|(demand, rate)| demand.saturating_add(rate));
        }
    }

    fn divide(&mut self, shares: usize) {
        (self.flows, self.senders) = (self.flows.div_ceil(shares), self.senders.div_ceil(shares));
        self.demand = self.demand.map(|demand| demand / shares as u64);
    }
}

#[cfg(test)]
mod tests;
