//! Data of a topology's drawing: the tree of switches, and the broadcast or cable losses drawn over
//! it. The middle of the tree is at the top, so that the drawing is as low as possible.

use crate::plan::{CableEnd, CableLoad, Plan, Via};
use crate::topology::{Topology, Walk, nodeset};
use crate::{duration, format_rate};
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, Default)]
pub struct Overlay<'a> {
    pub title: &'a str,
    pub plan: Option<&'a Plan>,
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
        let switches: HashMap<&str, usize> = topology
            .switches()
            .iter()
            .enumerate()
            .map(|(id, name)| (name.as_str(), id))
            .collect();
        let node = |end: &CableEnd| match end {
            CableEnd::Host(name) => topology.host_named(name).map(Vertex::Host),
            CableEnd::Switch(name) => switches.get(name.as_str()).copied().map(Vertex::Switch),
        };
        let load = |load: &CableLoad| {
            Some((
                (node(&load.from)?, node(&load.to)?),
                Traffic {
                    flows: load.flows,
                    is_contended: load.is_contended(),
                },
            ))
        };
        let host = |rank: usize| overlay.host_of_rank.get(rank).copied();
        let root = overlay.plan.and_then(|plan| host(plan.root()));
        if let (Some(root), Some(Via::Cast)) = (root, overlay.plan.map(Plan::via)) {
            return Self {
                is_cast: true,
                loads: flood(topology, root),
                sends: HashMap::new(),
                root: Some(root),
            };
        }
        let mut sends: HashMap<usize, Vec<usize>> = HashMap::new();
        let trees = overlay.plan.iter().flat_map(|plan| plan.trees());
        for (from, to) in trees.flat_map(Plan::edges) {
            if let (Some(from), Some(to)) = (host(from), host(to)) {
                sends.entry(from).or_default().push(to);
            }
        }
        Self {
            is_cast: false,
            loads: overlay.loads.iter().filter_map(load).collect(),
            sends,
            root,
        }
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
    let frame = Traffic {
        flows: 1,
        is_contended: false,
    };
    let walk = Walk::from(topology, topology.switch_of(root));
    let between = walk
        .above()
        .iter()
        .enumerate()
        .filter_map(|(switch, above)| Some(((*above)?, switch)));
    let between = between.map(|(above, switch)| (Vertex::Switch(above), Vertex::Switch(switch)));
    let hosts = (0..topology.hosts().len()).map(|host| {
        let (host_end, switch_end) = (Vertex::Host(host), Vertex::Switch(topology.switch_of(host)));
        if host == root {
            (host_end, switch_end)
        } else {
            (switch_end, host_end)
        }
    });
    between
        .chain(hosts)
        .map(|direction| (direction, frame))
        .collect()
}

pub(super) fn blocked(topology: &Topology) -> Option<String> {
    let name = |&(low, high): &(usize, usize)| {
        format!("{}-{}", topology.switches()[low], topology.switches()[high])
    };
    let names: Vec<String> = topology.blocked().iter().map(name).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Describes a cable by its rate and its latency, as far as they are known: `10gbit, 500 µs`.
pub(super) fn cable_text((rate, latency_ns): (Option<u64>, u64)) -> Option<String> {
    let latency = (latency_ns > 0).then(|| duration(latency_ns as f64 / 1e9));
    let known: Vec<String> = rate.map(format_rate).into_iter().chain(latency).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

pub(super) fn host_cable(topology: &Topology, host: usize) -> (Option<u64>, u64) {
    (topology.host_rate(host), topology.host_latency_ns(host))
}

pub(super) fn switch_cable(topology: &Topology, one: usize, other: usize) -> (Option<u64>, u64) {
    (
        topology.cable_rate(one, other),
        topology.cable_latency_ns(one, other),
    )
}

pub(super) fn in_brackets(cable: (Option<u64>, u64)) -> String {
    cable_text(cable)
        .map(|text| format!(" ({text})"))
        .unwrap_or_default()
}

/// Formats traffic up and down a cable as `↑1 ↓8!`, where `!` marks contention.
pub(super) fn describe((up, down): (Traffic, Traffic)) -> String {
    let mark = |load: Traffic| if load.is_contended { "!" } else { "" };
    format!("↑{}{} ↓{}{}", up.flows, mark(up), down.flows, mark(down))
}

pub(super) fn fold(topology: &Topology, hosts: impl IntoIterator<Item = usize>) -> String {
    let names: Vec<&String> = hosts
        .into_iter()
        .map(|host| &topology.hosts()[host])
        .collect();
    nodeset::fold(&names)
}

#[derive(Debug)]
pub(super) struct Hung {
    pub top: usize,
    pub children: Vec<Vec<usize>>,
    pub depth: Vec<usize>,
}

impl Hung {
    /// Hangs the tree of switches from the middle of its longest path; of two middles, from the
    /// lower id.
    pub fn new(topology: &Topology) -> Self {
        let one_end = Walk::from(topology, 0).farthest();
        let walk = Walk::from(topology, one_end);
        let path: Vec<usize> =
            std::iter::successors(Some(walk.farthest()), |&switch| walk.above()[switch]).collect();
        let top = path[(path.len() - 1) / 2].min(path[path.len() / 2]);
        let walk = Walk::from(topology, top);
        Self {
            top,
            children: walk.children(),
            depth: walk.depth().to_vec(),
        }
    }

    pub fn levels(&self) -> usize {
        self.depth.iter().max().map_or(0, |deepest| deepest + 1)
    }
}

/// Returns the number of levels of switches, if the tree hangs from the middle of its longest path.
pub fn levels(topology: &Topology) -> usize {
    Hung::new(topology).levels()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::arbitrary;
    use proptest::prelude::*;

    #[test]
    fn the_beds_hang_from_their_middles() {
        let hang = |name: &str| Hung::new(&Topology::builtin(name).expect(name));
        assert_eq!((hang("fig9-1").top, hang("fig9-1").levels()), (0, 1));
        assert_eq!((hang("fig9-3").top, hang("fig9-3").levels()), (0, 2));
        let row = hang("fig9-4");
        assert_eq!(
            (row.top, row.depth.as_slice(), row.levels()),
            (1, [1, 0, 1, 2].as_slice(), 3)
        );
        assert_eq!(row.children, [vec![], vec![0, 2], vec![3], vec![]]);
    }

    proptest! {
        #[test]
        fn no_other_top_makes_it_lower(topology in arbitrary::topology(12, 12)) {
            let hung = Hung::new(&topology);
            let height = |top| Walk::from(&topology, top).depth().iter().max().expect("a switch") + 1;
            let lowest = (0..topology.switches().len()).map(height).min();
            prop_assert_eq!(Some(hung.levels()), lowest);
            prop_assert_eq!(hung.children.iter().flatten().count() + 1, topology.switches().len());
        }
    }
}
