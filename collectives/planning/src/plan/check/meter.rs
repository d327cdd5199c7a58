//! Counts of flows and senders on every directed cable.

use super::{CableEnd, CableLoad};
use crate::topology::Topology;

/// Tree of switches as uplinks, hung from some switch; the top is its own uplink.
pub(super) struct Meter {
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
        let mut leaves: Vec<usize> = (0..switches).filter(|&switch| degree[switch] == 1).collect();
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
    pub fn measure(&self, topology: &Topology, edges: &[(usize, usize)], host_of_rank: &[usize]) -> Measured {
        let mut by_sender = edges.to_vec();
        by_sender.sort_unstable();
        let mut counts = vec![Count::default(); 2 * (topology.hosts().len() + topology.switches().len())];
        let hosts = |&(sender, receiver): &(usize, usize)| (host_of_rank[sender], host_of_rank[receiver]);
        for edge in &by_sender {
            let (from, to) = hosts(edge);
            self.walk(topology, from, to, |cable| counts[cable].add(from, topology.host_rate(from)));
        }
        let used = (0..counts.len()).filter(|&cable| counts[cable].flows > 0);
        // `max_by_key` returns the last of equals; readers look for the first.
        let is_contended = |cable: usize| self.describe(topology, cable, &counts[cable]).is_contended();
        let weight = |cable: usize| (is_contended(cable), counts[cable].senders, counts[cable].flows);
        let worst = used.clone().reduce(|best, next| if weight(next) > weight(best) { next } else { best });
        let crosses = |edge: &(usize, usize)| {
            let mut crosses = false;
            let (from, to) = hosts(edge);
            self.walk(topology, from, to, |cable| crosses |= Some(cable) == worst);
            crosses
        };
        Measured {
            cables: used.map(|cable| self.describe(topology, cable, &counts[cable])).collect(),
            worst: worst.map(|cable| self.describe(topology, cable, &counts[cable])),
            worst_edges: if worst.is_some() { by_sender.into_iter().filter(crosses).collect() } else { Vec::new() },
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
        if cable < 2 * hosts { cable % hosts } else { 2 * hosts + (cable - 2 * hosts) % switches }
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
            Some(at) => (at < switches, topology.cable_rate(at % switches, self.uplink[at % switches])),
        };
        let (from, to) = if is_up { (below, above) } else { (above, below) };
        CableLoad { from, to, flows: count.flows, senders: count.senders, rate, demand: count.demand }
    }
}

pub(super) struct Measured {
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
        Self { flows: 0, senders: 0, last_sender: None, demand: Some(0) }
    }
}

impl Count {
    fn add(&mut self, sender: usize, rate: Option<u64>) {
        self.flows += 1;
        if self.last_sender != Some(sender) {
            self.last_sender = Some(sender);
            self.senders += 1;
            self.demand = self.demand.zip(rate).map(|(demand, rate)| demand.saturating_add(rate));
        }
    }
}
