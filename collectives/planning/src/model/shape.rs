//! Properties of a broadcast tree that decide its predicted time: hops, sends per host, shared
//! cables.
//!
//! The first segment reaches a receiver after A hops and B sends, every parent sending to one child
//! after the other; that takes A·L(m) + B·g(m) (Patarasuk 2008 §4.2). In plans with contention, two
//! sends may need one cable at once. They share it, so each counts as many times as there are
//! sends. Sends are assigned to steps: one that ends as the B-th in the count without contention
//! happens in step B, and sends of one step count as simultaneous.

use crate::plan::{Plan, Speeds, USUAL, Via};
use crate::topology::{Topology, Walk};
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shape {
    pub via: Via,
    pub ranks: usize,
    pub height: usize,
    pub degree: usize,
    pub root_degree: usize,
    /// Most children of any rank but the root: the number of times that a relay sends each received
    /// frame.
    pub relay_degree: usize,
    /// Most edges of the plan on one direction of any cable, hosts' cables included. That many
    /// copies of each segment cross that cable. 1 for a cast, which cables carry once; 0 for a root
    /// alone.
    pub worst_flows: usize,
    /// Most halves of each pair of segments on one direction of any cable, with two trees; else 0.
    pub worst_halves: usize,
    /// (A, B) of the receivers that may be the last to get the first segment, by rising A: no other
    /// has both more hops and more sends. B includes contention.
    pub paths: Vec<(usize, usize)>,
    pub rounds: Vec<BlockRound>,
    /// Weighted values where cables and hosts differ in speed; `None` where they do not.
    pub slow: Option<Slow>,
    /// Paths to all ranks where cables or pairs have a latency of their own; empty where they do
    /// not.
    pub far: Vec<FarPath>,
    /// Most nanoseconds that cables and pair add to any send.
    pub longest_ns: u64,
}

/// Path of the first segment to one receiver: hops, sends as in [`Slow::paths`], and the
/// nanoseconds that cables and pairs add on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FarPath {
    pub hops: usize,
    pub sends: f64,
    pub added_ns: u64,
}

/// Effect of slow cables and hosts on a plan, in units of a send over a usual cable: the time of
/// the busiest cable or host for each segment, with its description for people, the weighted
/// [`Shape::paths`], and the time of one send over the slowest of all.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Slow {
    pub busiest: f64,
    pub cable: String,
    pub paths: Vec<(usize, f64)>,
    pub slowest: f64,
}

/// A step in which all hosts move blocks at once: the most blocks that any host sends, the most
/// sends that share one direction of a cable, and the number of such steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockRound {
    pub blocks: usize,
    pub flows: usize,
    pub times: usize,
    pub is_exchange: bool,
}

impl Shape {
    /// Returns the shape of `plan` on `topology`, rank `r` being the host with id
    /// `host_of_rank[r]`.
    ///
    /// # Panics
    /// Unless `host_of_rank` names a host of the topology for each rank.
    pub fn of(plan: &Plan, topology: &Topology, host_of_rank: &[usize]) -> Self {
        Self::with_speeds(plan, topology, host_of_rank, None)
    }

    /// Returns the shape where some cables and hosts are slower than the others.
    ///
    /// # Panics
    /// The panics of [`of`](Self::of).
    pub fn with_speeds(
        plan: &Plan,
        topology: &Topology,
        host_of_rank: &[usize],
        speeds: Option<&Speeds>,
    ) -> Self {
        assert_eq!(host_of_rank.len(), plan.ranks(), "each rank has a host");
        if let [first, second] = plan.trees()[..] {
            return Self::of_two(first, second, topology, host_of_rank, speeds);
        }
        let sends = Sends::of(plan, topology, host_of_rank);
        let slow = speeds
            .filter(|_| plan.ranks() > 1)
            .map(|speeds| sends.slow(topology, host_of_rank, speeds));
        let (far, longest_ns) = sends.far(topology, host_of_rank, speeds);
        let rounds = if plan.via().is_scattered() {
            sends.rounds()
        } else {
            Vec::new()
        };
        let of_rounds = rounds.iter().map(|round| round.flows).max().unwrap_or(0);
        let worst_flows = match plan.via() {
            Via::Cast => plan.degree().min(1),
            _ => most_alike(sends.crossings())
                .max(plan.degree())
                .max(of_rounds),
        };
        let relays = (0..plan.ranks()).filter(|&rank| rank != plan.root());
        Self {
            worst_halves: 0,
            via: plan.via(),
            ranks: plan.ranks(),
            height: plan.height(),
            degree: plan.degree(),
            root_degree: plan.children(plan.root()).len(),
            relay_degree: relays
                .map(|rank| plan.children(rank).len())
                .max()
                .unwrap_or(0),
            worst_flows,
            paths: sends.slowest_paths(),
            rounds,
            slow,
            far,
            longest_ns,
        }
    }

    /// Returns the shape of two trees whose halves alternate, the second tree's one send later.
    fn of_two(
        first: &Plan,
        second: &Plan,
        topology: &Topology,
        host_of_rank: &[usize],
        speeds: Option<&Speeds>,
    ) -> Self {
        let trees = [first, second].map(|plan| Sends::of(plan, topology, host_of_rank));
        let sent = |rank: usize| first.children(rank).len() + second.children(rank).len();
        let relayed = (0..first.ranks())
            .filter(|&rank| rank != first.root())
            .map(sent)
            .max()
            .unwrap_or(0);
        let crossings = most_alike(trees.iter().flat_map(Sends::crossings).collect());
        let worst_halves = (0..first.ranks()).map(sent).fold(crossings, usize::max);
        let later = |late: usize| {
            trees[late]
                .slowest_paths()
                .into_iter()
                .map(move |(hops, sends)| (hops, sends + late))
        };
        let slow = speeds.filter(|_| first.ranks() > 1).map(|speeds| {
            let [one, other] = trees
                .each_ref()
                .map(|sends| sends.slow(topology, host_of_rank, speeds));
            let (slower, quicker) = if other.busiest > one.busiest {
                (other, one)
            } else {
                (one, other)
            };
            Slow {
                busiest: (slower.busiest + quicker.busiest) / 2.0,
                slowest: slower.slowest.max(quicker.slowest),
                paths: [slower.paths, quicker.paths].concat(),
                cable: slower.cable,
            }
        });
        let [one, other] = trees
            .each_ref()
            .map(|sends| sends.far(topology, host_of_rank, speeds));
        let longest_ns = one.1.max(other.1);
        Self {
            far: [one.0, other.0].concat(),
            longest_ns,
            via: first.via(),
            ranks: first.ranks(),
            height: first.height().max(second.height()),
            degree: first.degree().max(second.degree()),
            root_degree: sent(first.root()).div_ceil(2),
            relay_degree: relayed.div_ceil(2),
            worst_flows: worst_halves.div_ceil(2),
            worst_halves,
            paths: undominated(later(0).chain(later(1)).collect()),
            rounds: Vec::new(),
            slow,
        }
    }
}

struct Sends<'a> {
    plan: &'a Plan,
    cables: Cables,
    switch_of_rank: Vec<usize>,
    downward: Vec<usize>,
    /// Step in which each rank gets the first segment without contention: its B.
    step: Vec<usize>,
}

impl<'a> Sends<'a> {
    fn of(plan: &'a Plan, topology: &Topology, host_of_rank: &[usize]) -> Self {
        let (mut downward, mut step) = (vec![plan.root()], vec![0; plan.ranks()]);
        let mut next = 0;
        while let Some(&rank) = downward.get(next) {
            next += 1;
            for (position, &child) in plan.children(rank).iter().enumerate() {
                step[child] = step[rank] + position + 1;
                downward.push(child);
            }
        }
        let switch_of_rank = host_of_rank
            .iter()
            .map(|&host| topology.switch_of(host))
            .collect();
        Self {
            plan,
            cables: Cables::new(topology),
            switch_of_rank,
            downward,
            step,
        }
    }

    /// Returns the directed cables between switches of a send. A cast has none, because its sends
    /// are one frame.
    fn path(&self, from: usize, to: usize) -> Vec<Direction> {
        if self.plan.via() == Via::Cast {
            return Vec::new();
        }
        self.cables
            .between(self.switch_of_rank[from], self.switch_of_rank[to])
    }

    fn crossings(&self) -> Vec<Direction> {
        self.plan
            .edges()
            .flat_map(|(from, to)| self.path(from, to))
            .collect()
    }

    /// Returns for each rank the number of sends in its step that share the worst cable on its
    /// path.
    fn sharing(&self) -> Vec<usize> {
        let mut together: HashMap<(usize, Direction), usize> = HashMap::new();
        for (from, to) in self.plan.edges() {
            self.path(from, to).into_iter().for_each(|direction| {
                *together.entry((self.step[to], direction)).or_default() += 1
            });
        }
        let mut sharing = vec![1; self.plan.ranks()];
        for (from, to) in self.plan.edges() {
            let worst = self
                .path(from, to)
                .into_iter()
                .map(|direction| together[&(self.step[to], direction)])
                .max();
            sharing[to] = worst.unwrap_or(1);
        }
        sharing
    }

    fn slowest_paths(&self) -> Vec<(usize, usize)> {
        let sharing = self.sharing();
        let mut reach = vec![(0, 0); self.plan.ranks()];
        for &rank in &self.downward {
            let (hops, mut sends) = reach[rank];
            for &child in self.plan.children(rank) {
                sends += sharing[child];
                reach[child] = (hops + 1, sends);
            }
        }
        reach.swap_remove(self.plan.root());
        undominated(reach)
    }

    /// Returns the paths to all ranks with the latency that cables and pairs add, and the most that
    /// they add to one send; nothing if there are no such latencies.
    fn far(
        &self,
        topology: &Topology,
        host_of_rank: &[usize],
        speeds: Option<&Speeds>,
    ) -> (Vec<FarPath>, u64) {
        if !topology.has_latencies() {
            return (Vec::new(), 0);
        }
        let added_ns = |from: usize, to: usize| {
            let switches = [from, to].map(|rank| self.switch_of_rank[rank]);
            let between = self.cables.between(switches[0], switches[1]).into_iter();
            let latency = |direction: Direction| {
                let (lower, upper) = self.cables.ends(direction);
                topology.cable_latency_ns(lower, upper)
            };
            let between_ns = between.map(latency).sum();
            topology.added_ns(host_of_rank[from], host_of_rank[to], between_ns)
        };
        let weights = match speeds {
            Some(speeds) => self.weights(topology, host_of_rank, speeds),
            None => vec![USUAL; self.plan.ranks()],
        };
        let mut far: Vec<FarPath> = self
            .slow_paths_by_rank(&weights)
            .into_iter()
            .map(|(hops, sends)| FarPath {
                hops,
                sends,
                added_ns: 0,
            })
            .collect();
        let mut longest_ns = 0;
        for &rank in &self.downward {
            for &child in self.plan.children(rank) {
                let added_ns = added_ns(rank, child);
                longest_ns = longest_ns.max(added_ns);
                far[child].added_ns = far[rank].added_ns.saturating_add(added_ns);
            }
        }
        if self.plan.via().is_scattered() {
            let ranks = self.plan.ranks();
            let distances = std::iter::successors(Some(1), |distance| Some(distance * 2))
                .take_while(|&distance| distance < ranks);
            let is_ring = !(self.plan.via() == Via::RecursiveDoubling && ranks.is_power_of_two());
            let distances = distances.take(if is_ring { 1 } else { ranks });
            for (distance, rank) in distances.flat_map(|far| (0..ranks).map(move |one| (far, one)))
            {
                let other = if is_ring {
                    (rank + 1) % ranks
                } else {
                    rank ^ distance
                };
                let actual = |rank: usize| (rank + self.plan.root()) % ranks;
                longest_ns = longest_ns.max(added_ns(actual(rank), actual(other)));
            }
        }
        far.swap_remove(self.plan.root());
        (far, longest_ns)
    }

    /// Returns the rounds of MPICH's block-wise broadcast (Thakur, Rabenseifner and Gropp 2005
    /// §4.3): halves, quarters, … down the tree of the plan, then either one block to the next rank
    /// P−1 times, or 1, 2, 4, … blocks to and from the rank at that distance. Such an exchange
    /// needs a power of two; for other numbers blocks go round a ring here as well.
    fn rounds(&self) -> Vec<BlockRound> {
        let ranks = self.plan.ranks();
        let mut rounds = self.scatter();
        if self.plan.via() == Via::RecursiveDoubling && ranks.is_power_of_two() {
            let distances = std::iter::successors(Some(1), |distance| Some(distance * 2))
                .take_while(|&distance| distance < ranks);
            rounds.extend(distances.map(|distance| {
                let partner = |rank: usize| rank ^ distance;
                BlockRound {
                    blocks: distance,
                    flows: self.flows(partner),
                    times: 1,
                    is_exchange: true,
                }
            }));
        } else if ranks > 1 {
            let flows = self.flows(|rank| (rank + 1) % ranks);
            rounds.push(BlockRound {
                blocks: 1,
                flows,
                times: ranks - 1,
                is_exchange: true,
            });
        }
        rounds
    }

    fn scatter(&self) -> Vec<BlockRound> {
        let sharing = self.sharing();
        let mut below = vec![1; self.plan.ranks()];
        for &rank in self.downward.iter().rev() {
            below[rank] += self
                .plan
                .children(rank)
                .iter()
                .map(|&child| below[child])
                .sum::<usize>();
        }
        let steps = self.step.iter().copied().max().unwrap_or(0);
        let mut rounds = vec![
            BlockRound {
                blocks: 0,
                flows: 1,
                times: 1,
                is_exchange: false
            };
            steps
        ];
        for (_, to) in self.plan.edges() {
            let round = &mut rounds[self.step[to] - 1];
            (round.blocks, round.flows) =
                (round.blocks.max(below[to]), round.flows.max(sharing[to]));
        }
        rounds
    }

    /// Returns the most sends on one cable if every rank sends to its partner at once; ranks count
    /// from the root, as MPICH's do.
    fn flows(&self, partner: impl Fn(usize) -> usize) -> usize {
        let (ranks, root) = (self.plan.ranks(), self.plan.root());
        let rank = |relative: usize| (relative % ranks + root) % ranks;
        let paths =
            (0..ranks).flat_map(|relative| self.path(rank(relative), rank(partner(relative))));
        most_alike(paths.collect()).max(1)
    }
}

/// Returns the pairs that no other pair equals or exceeds in both numbers, by rising first number.
fn undominated(mut pairs: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    pairs.sort_unstable_by(|left, right| right.cmp(left));
    let mut kept: Vec<(usize, usize)> = Vec::new();
    for pair in pairs {
        if kept.last().is_none_or(|last| pair.1 > last.1) {
            kept.push(pair);
        }
    }
    kept.reverse();
    kept
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Busy {
    Sending(usize),
    Receiving(usize),
    Between(Direction),
}

impl Sends<'_> {
    /// Returns the effect of speeds on the plan: every cable's flows times its slowness, and the
    /// path to each rank with its sends weighted by their slowest cable.
    fn slow(&self, topology: &Topology, host_of_rank: &[usize], speeds: &Speeds) -> Slow {
        let of_direction = |direction: Direction| {
            let (lower, upper) = self.cables.ends(direction);
            speeds.cable(topology, lower, upper)
        };
        let mut loads: BTreeMap<Busy, u64> = BTreeMap::new();
        let weights = self.weights(topology, host_of_rank, speeds);
        let mut slowest = (USUAL, Busy::Sending(host_of_rank[self.plan.root()]));
        for (from, to) in self.plan.edges() {
            let (sender, receiver) = (host_of_rank[from], host_of_rank[to]);
            let ends = [
                (Busy::Sending(sender), speeds.sending(sender)),
                (Busy::Receiving(receiver), speeds.receiving(receiver)),
            ];
            let path = self
                .cables
                .between(self.switch_of_rank[from], self.switch_of_rank[to])
                .into_iter();
            for (cable, slowness) in path
                .map(|direction| (Busy::Between(direction), of_direction(direction)))
                .chain(ends)
            {
                *loads.entry(cable).or_default() += slowness;
                slowest = if slowness > slowest.0 {
                    (slowness, cable)
                } else {
                    slowest
                };
            }
        }
        if self.plan.via() == Via::Cast {
            // Cables carry a cast once, so the slowest decides.
            loads = BTreeMap::from([(slowest.1, slowest.0)]);
        }
        let busiest = loads
            .into_iter()
            .max_by_key(|&(cable, load)| (load, std::cmp::Reverse(cable)));
        let (cable, load) = busiest.unwrap_or((slowest.1, slowest.0));
        Slow {
            busiest: in_sends(load),
            cable: self.name(topology, cable),
            paths: self.slow_paths(&weights),
            slowest: in_sends(slowest.0),
        }
    }

    /// Returns the slowness of the slowest cable or host of each rank's send.
    fn weights(&self, topology: &Topology, host_of_rank: &[usize], speeds: &Speeds) -> Vec<u64> {
        let mut weights = vec![USUAL; self.plan.ranks()];
        for (from, to) in self.plan.edges() {
            let switches = [from, to].map(|rank| self.switch_of_rank[rank]);
            let between = self.cables.between(switches[0], switches[1]).into_iter();
            let slowness = |direction: Direction| {
                let (lower, upper) = self.cables.ends(direction);
                speeds.cable(topology, lower, upper)
            };
            let ends = [
                speeds.sending(host_of_rank[from]),
                speeds.receiving(host_of_rank[to]),
            ];
            weights[to] = between.map(slowness).chain(ends).fold(USUAL, u64::max);
        }
        weights
    }

    fn slow_paths(&self, weights: &[u64]) -> Vec<(usize, f64)> {
        let mut reach = self.slow_paths_by_rank(weights);
        reach.swap_remove(self.plan.root());
        reach
    }

    fn slow_paths_by_rank(&self, weights: &[u64]) -> Vec<(usize, f64)> {
        let sharing = self.sharing();
        let mut reach = vec![(0, 0.0); self.plan.ranks()];
        for &rank in &self.downward {
            let (hops, mut sends) = reach[rank];
            for &child in self.plan.children(rank) {
                sends += sharing[child] as f64 * in_sends(weights[child]);
                reach[child] = (hops + 1, sends);
            }
        }
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

pub(super) struct Cables {
    tree: Walk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Direction {
    switch: usize,
    up: bool,
}

impl Cables {
    pub fn new(topology: &Topology) -> Self {
        Self {
            tree: Walk::from(topology, 0),
        }
    }

    pub fn ends(&self, Direction { switch, up }: Direction) -> (usize, usize) {
        let above = self.tree.above()[switch].unwrap_or(switch);
        if up { (switch, above) } else { (above, switch) }
    }

    pub fn between(&self, from: usize, to: usize) -> Vec<Direction> {
        let (above, depth) = (self.tree.above(), self.tree.depth());
        let (mut from, mut to) = (Some(from), Some(to));
        let mut path = Vec::new();
        while let (Some(rising), Some(falling)) = (from, to)
            && rising != falling
        {
            if depth[rising] >= depth[falling] {
                path.push(Direction {
                    switch: rising,
                    up: true,
                });
                from = above[rising];
            } else {
                path.push(Direction {
                    switch: falling,
                    up: false,
                });
                to = above[falling];
            }
        }
        path
    }
}

pub(super) fn most_alike<T: Ord>(mut items: Vec<T>) -> usize {
    items.sort_unstable();
    items
        .chunk_by(|left, right| left == right)
        .map(<[T]>::len)
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{CableLoad, by_rank, chain, check};
    use crate::topology::arbitrary;
    use proptest::prelude::*;

    fn bed(name: &str) -> Topology {
        Topology::builtin(name).expect(name)
    }

    fn shape(via: Via, bed_name: &str, children: &[Vec<usize>]) -> Shape {
        let plan = Plan::from_children(via, 0, children).expect("a plan");
        Shape::of(&plan, &bed(bed_name), &Vec::from_iter(0..children.len()))
    }

    /// Returns MPICH's binomial tree: rank 0 sends to P/2, P/4, …, 1.
    fn binomial(ranks: usize) -> Vec<Vec<usize>> {
        let children = |rank: usize| {
            let reach = if rank == 0 {
                ranks.next_power_of_two()
            } else {
                1 << rank.trailing_zeros()
            };
            let halves = std::iter::successors(Some(reach / 2), |half| Some(half / 2))
                .take_while(|&half| half > 0);
            halves
                .map(|half| rank + half)
                .filter(|&child| child < ranks)
                .collect()
        };
        (0..ranks).map(children).collect()
    }

    #[test]
    fn figure_8_has_two_hops_and_four_sends() {
        // Patarasuk 2008, Figure 8: the last is processor 4, A = 2 and B = 4.
        let figure = shape(
            Via::Binary,
            "fig9-1",
            &[vec![1, 2], vec![], vec![3, 4], vec![], vec![]],
        );
        assert_eq!(
            (figure.height, figure.degree, figure.worst_flows),
            (2, 2, 2)
        );
        assert_eq!(figure.paths, [(2, 4)]);
    }

    #[test]
    fn only_receivers_that_may_be_the_last_are_kept() {
        // 1 hop and 3 sends against 2 hops and 2 sends: L and g decide which is later. 1 hop and 2
        // sends is never the latest.
        let tree = shape(
            Via::Kary(3),
            "fig9-1",
            &[vec![1, 2, 3], vec![4], vec![], vec![], vec![]],
        );
        assert_eq!(tree.paths, [(1, 3), (2, 2)]);
    }

    #[test]
    fn a_chain_is_its_length() {
        for name in ["fig9-1", "fig9-2", "fig9-3", "fig9-4", "fig9-5"] {
            let topology = bed(name);
            let members: Vec<usize> = (0..topology.hosts().len()).collect();
            let linear = Shape::of(
                &chain(&topology, 0, &members).expect("a chain"),
                &topology,
                &members,
            );
            let hops = members.len() - 1;
            assert_eq!(
                (linear.paths, linear.worst_flows, linear.degree),
                (vec![(hops, hops)], 1, 1),
                "{name}"
            );
        }
    }

    #[test]
    fn a_chain_by_rank_over_hosts_dealt_round_robin_waits_for_eight() {
        let children: Vec<Vec<usize>> = (0..32)
            .map(|rank| Vec::from_iter((rank < 31).then_some(rank + 1)))
            .collect();
        let unaware = shape(Via::ChainUnaware, "fig9-5", &children);
        // The first segment's sends happen one after the other, so it has all cables for itself.
        assert_eq!((unaware.worst_flows, unaware.paths), (8, vec![(31, 31)]));
    }

    #[test]
    fn sends_of_one_step_share_the_cable_between_their_switches() {
        // 16 ranks on each side of one cable. If they cross it in the last step, all sixteen need
        // it at once.
        let aligned = shape(Via::Binomial, "fig9-2", &binomial(32));
        assert_eq!((aligned.worst_flows, aligned.paths), (5, vec![(5, 5)]));
        let topology = bed("fig9-2");
        let interleaved: Vec<usize> = (0..32).map(|rank| rank / 2 + rank % 2 * 16).collect();
        let plan = Plan::from_children(Via::Binomial, 0, &binomial(32)).expect("a plan");
        let crossed = Shape::of(&plan, &topology, &interleaved);
        assert_eq!(crossed.worst_flows, 16);
        // Receivers of the last step wait for 16 sends; no earlier step crosses.
        assert_eq!(crossed.paths, [(5, 4 + 16)]);
    }

    #[test]
    fn a_cast_is_on_every_cable_once() {
        let topology = bed("fig9-5");
        let everybody: Vec<usize> = (0..32).collect();
        let shape = Shape::of(
            &by_rank(Via::Cast, 3, 32).expect("a cast"),
            &topology,
            &everybody,
        );
        assert_eq!((shape.worst_flows, shape.height, shape.degree), (1, 1, 31));
        let alone = Shape::of(&by_rank(Via::Cast, 0, 1).expect("a cast"), &topology, &[3]);
        assert_eq!(
            (alone.worst_flows, alone.paths, alone.ranks),
            (0, vec![], 1)
        );
    }

    #[test]
    fn blocks_are_scattered_by_halves_and_gathered_round_a_ring() {
        let ring = shape(Via::ScatterAllgather, "fig9-1", &binomial(16));
        let rounds: Vec<_> = ring
            .rounds
            .iter()
            .map(|round| (round.blocks, round.flows, round.times))
            .collect();
        assert_eq!(
            rounds,
            [(8, 1, 1), (4, 1, 1), (2, 1, 1), (1, 1, 1), (1, 1, 15)]
        );
        // Six ranks: 4 sends to 5 only, and 0 to 4, 2 and 1.
        let six = shape(Via::ScatterAllgather, "fig9-1", &binomial(6));
        let blocks: Vec<_> = six
            .rounds
            .iter()
            .map(|round| (round.blocks, round.times))
            .collect();
        assert_eq!(blocks, [(2, 1), (2, 1), (1, 1), (1, 5)]);
        let round_robin = shape(Via::ScatterAllgather, "fig9-5", &binomial(32));
        assert_eq!(
            round_robin.rounds.last(),
            Some(&BlockRound {
                blocks: 1,
                flows: 8,
                times: 31,
                is_exchange: true
            })
        );
    }

    #[test]
    fn doubling_crosses_the_middle_with_everything_at_once() {
        let doubling = shape(Via::RecursiveDoubling, "fig9-2", &binomial(32));
        let rounds: Vec<_> = doubling.rounds[5..]
            .iter()
            .map(|round| (round.blocks, round.flows, round.times))
            .collect();
        assert_eq!(
            rounds,
            [(1, 1, 1), (2, 1, 1), (4, 1, 1), (8, 1, 1), (16, 16, 1)]
        );
        assert_eq!(doubling.worst_flows, 16);
    }

    proptest! {
        #[test]
        fn flows_are_those_the_judge_counts_and_aware_chains_never_wait(
            (topology, hosts) in arbitrary::topology(10, 30).prop_flat_map(|topology| {
                let hosts: Vec<usize> = (0..topology.hosts().len()).collect();
                (Just(topology), Just(hosts).prop_shuffle())
            })
        ) {
            // In a chain every flow has its own sender, so the checker's worst cable has the most
            // flows.
            let flows = |plan: &Plan| check(&topology, plan, &hosts).worst.map_or(0, |CableLoad { flows, .. }| flows);
            let by_rank: Vec<Option<usize>> = (0..hosts.len()).map(|rank| rank.checked_sub(1)).collect();
            let unaware = Plan::from_parents(Via::ChainUnaware, 0, &by_rank).expect("a chain");
            prop_assert_eq!(Shape::of(&unaware, &topology, &hosts).worst_flows, flows(&unaware));
            let aware = Shape::of(&chain(&topology, hosts[0], &hosts).expect("a chain"), &topology, &hosts);
            prop_assert_eq!(aware.worst_flows, 1.min(hosts.len() - 1));
            prop_assert_eq!(aware.paths.first().copied().unwrap_or((0, 0)), (hosts.len() - 1, hosts.len() - 1));
        }

        #[test]
        fn only_undominated_pairs_are_kept(pairs in prop::collection::vec((0usize..8, 0usize..8), 0..20)) {
            let kept = undominated(pairs.clone());
            let beats =
                |left: &(usize, usize), right: &(usize, usize)| left != right && left.0 >= right.0 && left.1 >= right.1;
            let unbeaten = |pair: &(usize, usize)| !pairs.iter().any(|other| beats(other, pair));
            let mut expected: Vec<_> = pairs.iter().copied().filter(unbeaten).collect();
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(kept, expected);
        }
    }

    #[test]
    fn a_path_goes_up_and_down_again() {
        // Switches s1, s2 and s3 around s0.
        let cables = Cables::new(&Topology::builtin("fig9-3").expect("fig9-3"));
        let (up, down) = (
            |switch| Direction { switch, up: true },
            |switch| Direction { switch, up: false },
        );
        assert_eq!(cables.between(2, 2), []);
        assert_eq!(cables.between(0, 3), [down(3)]);
        assert_eq!(cables.between(1, 2), [up(1), down(2)]);
    }

    #[test]
    fn a_row_is_walked_cable_by_cable() {
        let cables = Cables::new(&Topology::builtin("fig9-4").expect("fig9-4"));
        let there = cables.between(0, 3);
        let back = cables.between(3, 0);
        assert_eq!((there.len(), back.len()), (3, 3));
        assert!(
            there.iter().all(|direction| !back.contains(direction)),
            "two directions of a cable are two"
        );
    }

    #[test]
    fn the_most_alike_are_counted() {
        assert_eq!(most_alike(vec![3, 1, 3, 2, 3, 1]), 3);
        assert_eq!(most_alike(Vec::<usize>::new()), 0);
    }
}
