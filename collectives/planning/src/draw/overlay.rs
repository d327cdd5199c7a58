//! Data drawn over a topology: a plan's edges, or losses of cables.

use crate::format_rate;
use crate::plan::{CableEnd, CableLoad, Plan, Via};
use crate::topology::{Topology, Walk, nodeset};
use std::collections::HashMap;

/// Data to draw over a topology; empty by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overlay<'a> {
    /// Title of the picture.
    pub title: &'a str,
    /// Plan to draw.
    pub plan: Option<&'a Plan>,
    /// Host id of each rank of the plan.
    pub host_of_rank: &'a [usize],
    /// Load of each direction of each cable; unnamed ones carry nothing.
    pub loads: &'a [CableLoad],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Vertex {
    Host(usize),
    Switch(usize),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub flows: usize,
    pub is_contended: bool,
}

pub(super) struct Annotations {
    pub is_cast: bool,
    loads: HashMap<(Vertex, Vertex), Traffic>,
    sends: HashMap<usize, Vec<usize>>,
    pub root: Option<usize>,
}

impl Annotations {
    /// Indexes an overlay by hosts and switches; names that the topology does not have are left
    /// out.
    pub fn new(topology: &Topology, overlay: &Overlay) -> Self {
        let switches: HashMap<&str, usize> =
            topology.switches().iter().enumerate().map(|(id, name)| (name.as_str(), id)).collect();
        let node = |end: &CableEnd| match end {
            CableEnd::Host(name) => topology.host_named(name).map(Vertex::Host),
            CableEnd::Switch(name) => switches.get(name.as_str()).copied().map(Vertex::Switch),
        };
        let load = |load: &CableLoad| {
            Some((
                (node(&load.from)?, node(&load.to)?),
                Traffic { flows: load.flows, is_contended: load.is_contended() },
            ))
        };
        let host = |rank: usize| overlay.host_of_rank.get(rank).copied();
        let root = overlay.plan.and_then(|plan| host(plan.root()));
        if let (Some(root), Some(Via::Cast)) = (root, overlay.plan.map(Plan::via)) {
            return Self { is_cast: true, loads: flood(topology, root), sends: HashMap::new(), root: Some(root) };
        }
        let mut sends: HashMap<usize, Vec<usize>> = HashMap::new();
        for (from, to) in overlay.plan.iter().flat_map(|plan| plan.edges()) {
            if let (Some(from), Some(to)) = (host(from), host(to)) {
                sends.entry(from).or_default().push(to);
            }
        }
        Self { is_cast: false, loads: overlay.loads.iter().filter_map(load).collect(), sends, root }
    }

    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    pub fn sends(&self, host: usize) -> &[usize] {
        self.sends.get(&host).map_or(&[], Vec::as_slice)
    }

    /// Returns the traffic of a cable, towards the upper end and away from it; `None` if it was not
    /// counted.
    pub fn loads(&self, lower: Vertex, upper: Vertex) -> Option<(Traffic, Traffic)> {
        let load = |from, to| self.loads.get(&(from, to)).copied().unwrap_or_default();
        (!self.loads.is_empty()).then(|| (load(lower, upper), load(upper, lower)))
    }
}

fn flood(topology: &Topology, root: usize) -> HashMap<(Vertex, Vertex), Traffic> {
    let frame = Traffic { flows: 1, is_contended: false };
    let walk = Walk::from(topology, topology.switch_of(root));
    let between = walk.above().iter().enumerate().filter_map(|(switch, above)| Some(((*above)?, switch)));
    let between = between.map(|(above, switch)| (Vertex::Switch(above), Vertex::Switch(switch)));
    let hosts = (0..topology.hosts().len()).map(|host| {
        let (host_end, switch_end) = (Vertex::Host(host), Vertex::Switch(topology.switch_of(host)));
        if host == root { (host_end, switch_end) } else { (switch_end, host_end) }
    });
    between.chain(hosts).map(|direction| (direction, frame)).collect()
}

/// Names the ends of the cables that spanning tree blocks; `None` if there are none.
pub(super) fn blocked(topology: &Topology) -> Option<String> {
    let name = |&(low, high): &(usize, usize)| format!("{}-{}", topology.switches()[low], topology.switches()[high]);
    let names: Vec<String> = topology.blocked().iter().map(name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

pub(super) fn in_brackets(rate: Option<u64>) -> String {
    rate.map(|rate| format!(" ({})", format_rate(rate))).unwrap_or_default()
}

/// Formats traffic up and down a cable as `↑1 ↓8!`, where `!` marks contention.
pub(super) fn describe((up, down): (Traffic, Traffic)) -> String {
    let mark = |load: Traffic| if load.is_contended { "!" } else { "" };
    format!("↑{}{} ↓{}{}", up.flows, mark(up), down.flows, mark(down))
}

pub(super) fn fold(topology: &Topology, hosts: impl IntoIterator<Item = usize>) -> String {
    let names: Vec<&String> = hosts.into_iter().map(|host| &topology.hosts()[host]).collect();
    nodeset::fold(&names)
}
