//! Counts flows and senders at every directed cable.

use super::{CableEnd, CableLoad};
use crate::topology::Topology;

/// The tree of switches as uplinks, hung from some switch; the top is its own uplink.
pub(super) struct Meter {
    uplink: Vec<usize>,
    depth: Vec<usize>,
}

impl Meter {
    /// Strips leaves: a switch with one cable left hangs on the other end of that cable. A switch needs only the number
    /// of its remaining cables and the XOR of their far ends, which for one cable *is* the far end.
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
            // The last switch standing lost its last cable after it was queued.
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

    /// The most loaded directed cable; `None` if no edge uses any. Every rank must be on a host of its own.
    pub fn worst_cable(&self, topology: &Topology, edges: &[(usize, usize)], host_of_rank: &[usize]) -> Option<CableLoad> {
        let mut by_sender = edges.to_vec();
        by_sender.sort_unstable();
        let mut counts = Counts::new(topology);
        for &(sender, receiver) in &by_sender {
            let (from, to) = (host_of_rank[sender], host_of_rank[receiver]);
            self.count_path(topology, from, to, &mut counts);
        }
        counts.worst(topology, &self.uplink)
    }

    fn count_path(&self, topology: &Topology, from: usize, to: usize, counts: &mut Counts) {
        counts.host_up[from].add(from);
        counts.host_down[to].add(from);
        let (mut rising, mut falling) = (topology.switch_of(from), topology.switch_of(to));
        while rising != falling {
            if self.depth[rising] >= self.depth[falling] {
                counts.switch_up[rising].add(from);
                rising = self.uplink[rising];
            } else {
                counts.switch_down[falling].add(from);
                falling = self.uplink[falling];
            }
        }
    }
}

/// What one directed cable has carried so far; edges must come sorted by sender.
#[derive(Clone, Default)]
struct Count {
    flows: usize,
    senders: usize,
    last_sender: Option<usize>,
}

impl Count {
    fn add(&mut self, sender: usize) {
        self.flows += 1;
        if self.last_sender != Some(sender) {
            self.last_sender = Some(sender);
            self.senders += 1;
        }
    }
}

/// One count for each direction of each host's cable and of each switch's uplink.
struct Counts {
    host_up: Vec<Count>,
    host_down: Vec<Count>,
    switch_up: Vec<Count>,
    switch_down: Vec<Count>,
}

impl Counts {
    fn new(topology: &Topology) -> Self {
        let hosts = vec![Count::default(); topology.hosts().len()];
        let switches = vec![Count::default(); topology.switches().len()];
        Self { host_up: hosts.clone(), host_down: hosts, switch_up: switches.clone(), switch_down: switches }
    }

    fn worst(&self, topology: &Topology, uplink: &[usize]) -> Option<CableLoad> {
        let groups = [&self.host_up, &self.host_down, &self.switch_up, &self.switch_down];
        let all = groups
            .iter()
            .enumerate()
            .flat_map(|(group, counts)| counts.iter().enumerate().map(move |(index, count)| (group, index, count)));
        // `max_by_key` would return the last of equals; the first is what a reader looks for.
        let heavier = |a: &Count, b: &Count| (a.senders, a.flows) > (b.senders, b.flows);
        let (group, index, count) = all.reduce(|best, next| if heavier(next.2, best.2) { next } else { best })?;
        let host = |id: usize| CableEnd::Host(topology.hosts()[id].clone());
        let switch = |id: usize| CableEnd::Switch(topology.switches()[id].clone());
        let (from, to) = match group {
            0 => (host(index), switch(topology.switch_of(index))),
            1 => (switch(topology.switch_of(index)), host(index)),
            2 => (switch(index), switch(uplink[index])),
            _ => (switch(uplink[index]), switch(index)),
        };
        (count.flows > 0).then_some(CableLoad { from, to, flows: count.flows, senders: count.senders })
    }
}
