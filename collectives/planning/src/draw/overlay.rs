//! What is drawn over a topology, looked up by where it is drawn.

use crate::plan::{CableEnd, CableLoad, Plan};
use crate::topology::{Topology, nodeset};
use std::collections::HashMap;

/// What to draw over a topology; the default is nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overlay<'a> {
    /// Who sends to whom.
    pub plan: Option<&'a Plan>,
    /// The host id of each rank of the plan.
    pub host_of_rank: &'a [usize],
    /// What the plan puts on each direction of each cable; those not named carry nothing.
    pub loads: &'a [CableLoad],
}

/// A host or a switch, by id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Vertex {
    Host(usize),
    Switch(usize),
}

/// What one direction of a cable carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub flows: usize,
    pub senders: usize,
}

impl Traffic {
    /// Whether senders compete for it.
    pub fn is_contended(self) -> bool {
        self.senders > 1
    }
}

/// An overlay by hosts and switches.
pub(super) struct Annotations {
    loads: HashMap<(Vertex, Vertex), Traffic>,
    sends: HashMap<usize, Vec<usize>>,
    /// The host the bytes come from.
    pub root: Option<usize>,
}

impl Annotations {
    /// Sorts an overlay by hosts and switches; names that the topology does not have are left out.
    pub fn new(topology: &Topology, overlay: &Overlay) -> Self {
        let switches: HashMap<&str, usize> =
            topology.switches().iter().enumerate().map(|(id, name)| (name.as_str(), id)).collect();
        let node = |end: &CableEnd| match end {
            CableEnd::Host(name) => topology.host_named(name).map(Vertex::Host),
            CableEnd::Switch(name) => switches.get(name.as_str()).copied().map(Vertex::Switch),
        };
        let load = |load: &CableLoad| {
            Some(((node(&load.from)?, node(&load.to)?), Traffic { flows: load.flows, senders: load.senders }))
        };
        let host = |rank: usize| overlay.host_of_rank.get(rank).copied();
        let mut sends: HashMap<usize, Vec<usize>> = HashMap::new();
        for (from, to) in overlay.plan.iter().flat_map(|plan| plan.edges()) {
            if let (Some(from), Some(to)) = (host(from), host(to)) {
                sends.entry(from).or_default().push(to);
            }
        }
        let root = overlay.plan.and_then(|plan| host(plan.root()));
        Self { loads: overlay.loads.iter().filter_map(load).collect(), sends, root }
    }

    /// Whether there is nothing to draw over the topology.
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// What a host sends to, in sending order.
    pub fn sends(&self, host: usize) -> &[usize] {
        self.sends.get(&host).map_or(&[], Vec::as_slice)
    }

    /// The two directions of a cable, towards the upper end and away from it; `None` if no cable carries anything, as
    /// when switches do the copying.
    pub fn loads(&self, lower: Vertex, upper: Vertex) -> Option<(Traffic, Traffic)> {
        let load = |from, to| self.loads.get(&(from, to)).copied().unwrap_or_default();
        (!self.loads.is_empty()).then(|| (load(lower, upper), load(upper, lower)))
    }
}

/// `↑1 ↓8!`: flows up and down a cable, those with contention marked.
pub(super) fn describe((up, down): (Traffic, Traffic)) -> String {
    let mark = |load: Traffic| if load.is_contended() { "!" } else { "" };
    format!("↑{}{} ↓{}{}", up.flows, mark(up), down.flows, mark(down))
}

/// Hosts as one compact node set, in the given order.
pub(super) fn fold(topology: &Topology, hosts: impl IntoIterator<Item = usize>) -> String {
    let names: Vec<&String> = hosts.into_iter().map(|host| &topology.hosts()[host]).collect();
    nodeset::fold(&names)
}
