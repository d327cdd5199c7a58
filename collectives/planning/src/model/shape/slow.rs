//! Weighting of a plan's sends where cables and hosts differ in speed.

use super::{Sends, Slow};
use crate::model::cables::Direction;
use crate::plan::{Speeds, USUAL, Via};
use crate::topology::Topology;
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Busy {
    Sending(usize),
    Receiving(usize),
    Between(Direction),
}

impl Sends<'_> {
    /// Returns the effect of speeds on the plan: every cable's flows times its slowness, and the
    /// path to each rank with its sends weighted by their slowest cable.
    pub(super) fn slow(&self, topology: &Topology, host_of_rank: &[usize], speeds: &Speeds) -> Slow {
        let of_direction = |direction: Direction| {
            let (lower, upper) = self.cables.ends(direction);
            speeds.cable(topology, lower, upper)
        };
        let mut loads: BTreeMap<Busy, u64> = BTreeMap::new();
        let mut weights = vec![USUAL; self.plan.ranks()];
        let mut slowest = (USUAL, Busy::Sending(host_of_rank[self.plan.root()]));
        for (from, to) in self.plan.edges() {
            let (sender, receiver) = (host_of_rank[from], host_of_rank[to]);
            let ends = [
                (Busy::Sending(sender), speeds.sending(sender)),
                (Busy::Receiving(receiver), speeds.receiving(receiver)),
            ];
            let path = self.cables.between(self.switch_of_rank[from], self.switch_of_rank[to]).into_iter();
            for (cable, slowness) in
                path.map(|direction| (Busy::Between(direction), of_direction(direction))).chain(ends)
            {
                *loads.entry(cable).or_default() += slowness;
                weights[to] = weights[to].max(slowness);
                slowest = if slowness > slowest.0 { (slowness, cable) } else { slowest };
            }
        }
        if self.plan.via() == Via::Cast {
            // Cables carry a cast once, so the slowest decides.
            loads = BTreeMap::from([(slowest.1, slowest.0)]);
        }
        let busiest = loads.into_iter().max_by_key(|&(cable, load)| (load, std::cmp::Reverse(cable)));
        let (cable, load) = busiest.unwrap_or((slowest.1, slowest.0));
        Slow {
            busiest: in_sends(load),
            cable: self.name(topology, cable),
            paths: self.slow_paths(&weights),
            slowest: in_sends(slowest.0),
        }
    }

    fn slow_paths(&self, weights: &[u64]) -> Vec<(usize, f64)> {
        let sharing = self.sharing();
        let mut reach = vec![(0, 0.0); self.plan.ranks()];
        for &rank in &self.downward {
            let (hops, mut sends) = reach[rank];
            for &child in self.plan.children(rank) {
                sends += sharing[child] as f64 * in_sends(weights[child]);
                reach[child] = (hops + 1, sends);
            }
        }
        reach.swap_remove(self.plan.root());
        reach
    }

    fn name(&self, topology: &Topology, cable: Busy) -> String {
        let (host, switch) = (
            |id: usize| format!("host {}", topology.hosts()[id]),
            |id: usize| format!("switch {}", topology.switches()[id]),
        );
        match cable {
            Busy::Sending(id) => format!("{} to {}", host(id), switch(topology.switch_of(id))),
            Busy::Receiving(id) => format!("{} to {}", switch(topology.switch_of(id)), host(id)),
            Busy::Between(direction) => {
                let (from, to) = self.cables.ends(direction);
                format!("{} to {}", switch(from), switch(to))
            }
        }
    }
}

fn in_sends(slowness: u64) -> f64 {
    slowness as f64 / USUAL as f64
}
