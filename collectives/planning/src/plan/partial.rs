//! Plans where some pairs of hosts cannot talk directly: a partial graph (Mateescu and Taylor §3).
//!
//! The latency tree uses no such pair, because its weight is infinite. Trees of other shapes are
//! made as if all could talk; hosts then change places until no send is between two that cannot.
//! Where exchanges do not suffice, or a way needs the pair whatever the order, the plan is refused.

use super::by_rank::block_parents;
use super::tree::Plan;
use super::via::Via;
use super::{PlanError, check};
use crate::topology::Topology;

/// Limit of exchanges looked at: some 0.1 s.
const MAX_LOOKS: usize = 1_000_000;

/// Checks that hosts that can talk lead from the root to every member.
pub(super) fn check_roads(
    topology: &Topology,
    root: usize,
    members: &[usize],
) -> Result<(), PlanError> {
    let mut left: Vec<usize> = (0..members.len()).filter(|&rank| rank != root).collect();
    let mut waiting = vec![root];
    while let Some(rank) = waiting.pop() {
        let (near, far) = left
            .into_iter()
            .partition(|&other| topology.can_talk(members[rank], members[other]));
        waiting.extend::<Vec<usize>>(near);
        left = far;
    }
    let name = |rank: usize| topology.hosts()[members[rank]].clone();
    left.first().map_or(Ok(()), |&rank| {
        Err(PlanError::NoRoad {
            root: name(root),
            host: name(rank),
        })
    })
}

/// Returns the plan without sends between hosts that cannot talk. Hosts change places with others
/// on their switch, which loads no other cable, else with any host, if the plan stays as free of
/// contention as its way promises.
pub(super) fn mended(
    plan: Plan,
    topology: &Topology,
    members: &[usize],
) -> Result<Plan, PlanError> {
    let exchange = Exchange::new(&plan, topology, members);
    let Some((from, to)) = exchange
        .first_bad()
        .or_else(|| exchange.first_bad_in_blocks())
    else {
        return Ok(plan);
    };
    let name = |rank: usize| topology.hosts()[members[rank]].clone();
    let refused = || PlanError::CannotTalk {
        via: plan.via(),
        from: name(from),
        to: name(to),
    };
    let may_change = match plan.via() {
        Via::Chain | Via::Binary | Via::BinaryBest | Via::Kary(_) | Via::TwoTree => true,
        Via::Binomial | Via::Latency => true,
        Via::Cast | Via::Flat | Via::ChainUnaware | Via::BinaryUnaware => false,
        Via::ScatterAllgather | Via::RecursiveDoubling => false,
    };
    let ranks = may_change.then(|| exchange.found()).flatten();
    let mended = renamed(&plan, &ranks.ok_or_else(refused)?)?;
    let may_contend = !plan.via().is_contention_free();
    if may_contend || check(topology, &mended, members).is_contention_free() {
        Ok(mended)
    } else {
        Err(refused())
    }
}

/// Returns the plan in which each place of the old rank r has the rank `ranks[r]`.
fn renamed(plan: &Plan, ranks: &[usize]) -> Result<Plan, PlanError> {
    let tree = |plan: &Plan| {
        let mut children = vec![Vec::new(); ranks.len()];
        for (place, &rank) in ranks.iter().enumerate() {
            let below = plan.children(place).iter();
            children[rank] = below.map(|&child| ranks[child]).collect();
        }
        Plan::from_children(plan.via(), plan.root(), &children)
    };
    match plan.trees()[..] {
        [first, second] => tree(first)?.paired(tree(second)?),
        _ => tree(plan),
    }
}

/// Search for places at which all neighbours can talk; a place is named by the rank that the plan
/// has there.
struct Exchange<'a> {
    plan: &'a Plan,
    topology: &'a Topology,
    members: &'a [usize],
    neighbours: Vec<Vec<usize>>,
}

impl<'a> Exchange<'a> {
    fn new(plan: &'a Plan, topology: &'a Topology, members: &'a [usize]) -> Self {
        let mut neighbours = vec![Vec::new(); plan.ranks()];
        for (from, to) in plan.trees().into_iter().flat_map(Plan::edges) {
            neighbours[from].push(to);
            neighbours[to].push(from);
        }
        Self {
            plan,
            topology,
            members,
            neighbours,
        }
    }

    fn can_talk(&self, one: usize, other: usize) -> bool {
        self.topology
            .can_talk(self.members[one], self.members[other])
    }

    fn first_bad(&self) -> Option<(usize, usize)> {
        let mut edges = self.plan.trees().into_iter().flat_map(Plan::edges);
        edges.find(|&(from, to)| !self.can_talk(from, to))
    }

    /// Returns a pair that cannot talk among those that exchange blocks.
    fn first_bad_in_blocks(&self) -> Option<(usize, usize)> {
        let (via, ranks) = (self.plan.via(), self.plan.ranks());
        let actual = |rank: usize| (rank + self.plan.root()) % ranks;
        let edges = |number: usize| {
            let parents = block_parents(via, ranks, number).into_iter().enumerate();
            parents.filter_map(move |(rank, parent)| Some((actual(parent?), actual(rank))))
        };
        let numbers = 0..if via.is_scattered() { ranks } else { 0 };
        let mut edges = numbers.flat_map(edges);
        edges.find(|&(from, to)| !self.can_talk(from, to))
    }

    /// Returns the rank of each place, after exchanges that each made fewer neighbours unable to
    /// talk; `None` if that comes to an end too early.
    fn found(&self) -> Option<Vec<usize>> {
        let mut ranks: Vec<usize> = (0..self.plan.ranks()).collect();
        let (mut looks, mut at) = (0, 0);
        while let Some((from, to)) = self.bad_edge(&ranks, at) {
            let ends = [to, from];
            let movable = || ends.into_iter().filter(|&end| end != self.plan.root());
            let tries = [true, false]
                .into_iter()
                .flat_map(|near| movable().map(move |end| (end, near)));
            let mut found =
                tries.map(|(end, near)| (end, self.better(&ranks, end, near, &mut looks)));
            let (one, other) = found.find_map(|(end, other)| Some((end, other?)))?;
            ranks.swap(one, other);
            // Places before this one were good, but for those that the exchange has changed.
            let near = [one, other].map(|place| self.neighbours[place].iter().copied());
            let changed = near.into_iter().flatten().chain([one, other]);
            at = changed.fold(from, usize::min);
        }
        Some(ranks)
    }

    /// Returns the first pair that cannot talk whose first place is not before `from`.
    fn bad_edge(&self, ranks: &[usize], from: usize) -> Option<(usize, usize)> {
        let bad = |&place: &usize| self.bad_at(ranks, place) > 0;
        let place = (from..ranks.len()).find(bad)?;
        let mut neighbours = self.neighbours[place].iter();
        let other = neighbours.find(|&&other| !self.can_talk(ranks[place], ranks[other]))?;
        Some((place, *other))
    }

    /// Returns a place whose exchange with `place` makes fewer neighbours unable to talk, of a host
    /// on the same switch or not.
    fn better(
        &self,
        ranks: &[usize],
        place: usize,
        near: bool,
        looks: &mut usize,
    ) -> Option<usize> {
        let mut tried = ranks.to_vec();
        let switch = |rank: usize| self.topology.switch_of(self.members[rank]);
        (0..ranks.len()).find(|&other| {
            let is_near = switch(ranks[place]) == switch(ranks[other]);
            if other == place || other == self.plan.root() || is_near != near {
                return false;
            }
            *looks += 1;
            if *looks > MAX_LOOKS {
                return false;
            }
            let bad = |ranks: &[usize]| self.bad_at(ranks, place) + self.bad_at(ranks, other);
            let before = bad(&tried);
            tried.swap(place, other);
            let after = bad(&tried);
            tried.swap(place, other);
            after < before
        })
    }

    fn bad_at(&self, ranks: &[usize], place: usize) -> usize {
        let cannot = |&&other: &&usize| !self.can_talk(ranks[place], ranks[other]);
        self.neighbours[place].iter().filter(cannot).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Costs, latency, make};
    use proptest::prelude::*;

    /// Hosts on two switches, of which the pairs of `never` (in the order of all pairs) cannot
    /// talk, and the others have a latency of their own.
    fn graph(hosts: usize, weights: &[Option<u64>]) -> Topology {
        let mut text = format!(
            "schema = 1\nswitch = [{{name='a', hosts='n[0-{}]', links=['b']}}, {{name='b', hosts='n[{}-{}]'}}]\n",
            hosts / 2 - 1,
            hosts / 2,
            hosts - 1
        );
        for ((one, other), weight) in pairs(hosts).zip(weights) {
            let weight =
                weight.map_or("talk = false".to_owned(), |ns| format!("latency_ns = {ns}"));
            text += &format!("[[pair]]\nhosts = ['n{one}', 'n{other}']\n{weight}\n");
        }
        Topology::parse(&text, "graph").expect("a topology")
    }

    fn pairs(hosts: usize) -> impl Iterator<Item = (usize, usize)> {
        (0..hosts).flat_map(move |one| (one + 1..hosts).map(move |other| (one, other)))
    }

    #[test]
    fn hosts_change_places_until_no_send_is_between_two_that_cannot_talk() {
        // n1 cannot talk to n2, nor n3 to n4 across the switches.
        let weights: Vec<Option<u64>> = pairs(8)
            .map(|pair| (pair != (1, 2) && pair != (3, 4)).then_some(0))
            .collect();
        let topology = graph(8, &weights);
        let all: Vec<usize> = (0..8).collect();
        for via in [Via::Chain, Via::Binary, Via::Kary(3), Via::Binomial] {
            let plan = make(via, &topology, 0, &all, &Costs::default());
            let plan = plan.unwrap_or_else(|error| panic!("{via}: {error}"));
            let report = check(&topology, &plan, &all);
            assert!(report.is_spanning(), "{via}: {report}");
            assert!(
                report.is_contention_free() || via == Via::Binomial,
                "{via}: {report}"
            );
        }
        let refusal = |via: Via, root: usize| {
            let plan = make(via, &topology, root, &all, &Costs::default());
            plan.expect_err("it needs the pair").to_string()
        };
        for via in [Via::Cast, Via::Flat] {
            let text = refusal(via, 3);
            assert!(text.contains("n3 and n4 cannot talk directly"), "{text}");
        }
        for via in [Via::RecursiveDoubling, Via::ScatterAllgather] {
            let text = refusal(via, 3);
            assert!(text.contains("cannot talk directly"), "{text}");
        }
        assert!(make(Via::Cast, &topology, 0, &all, &Costs::default()).is_ok());
        let text = refusal(Via::ChainUnaware, 0);
        assert!(text.contains("n1 and n2 cannot talk directly"), "{text}");
    }

    #[test]
    fn a_host_to_which_no_way_leads_is_named() {
        let weights: Vec<Option<u64>> = pairs(6)
            .map(|(_, other)| (other != 5).then_some(7))
            .collect();
        let topology = graph(6, &weights);
        let all: Vec<usize> = (0..6).collect();
        for via in [Via::Chain, Via::Latency, Via::Cast] {
            let error = make(via, &topology, 1, &all, &Costs::default()).expect_err("no way");
            let text = error.to_string();
            assert!(text.starts_with("no way leads from n1 to n5:"), "{text}");
        }
        assert!(make(Via::Chain, &topology, 1, &all[..5], &Costs::default()).is_ok());
    }

    /// Computes the least time in which the last of a few ranks can have the message, by trying all
    /// orders of all sends.
    fn exhaustive(weights: &[Vec<Option<u64>>], injection: u64) -> Option<u64> {
        fn least(
            (weights, injection): (&[Vec<Option<u64>>], u64),
            free: &mut Vec<Option<u64>>,
            after: u64,
        ) -> Option<u64> {
            let mut best: Option<u64> = free.iter().all(Option::is_some).then_some(after);
            for from in 0..free.len() {
                let Some(begins) = free[from] else { continue };
                for to in 0..free.len() {
                    let Some(weight) = weights[from][to].filter(|_| free[to].is_none()) else {
                        continue;
                    };
                    let arrives = begins + injection + weight;
                    (free[from], free[to]) = (Some(begins + injection), Some(arrives));
                    let time = least((weights, injection), free, after.max(arrives));
                    (free[from], free[to]) = (Some(begins), None);
                    best = best.into_iter().chain(time).min();
                }
            }
            best
        }
        let mut free = vec![None; weights.len()];
        free[0] = Some(0);
        least((weights, injection), &mut free, 0)
    }

    /// Implements Figures 2 and 3 as they are printed, over the edges that exist.
    fn as_printed(weights: &[Vec<Option<u64>>], injection: u64) -> Option<u64> {
        let ranks = weights.len();
        let (mut distance, mut parent) = (vec![None; ranks], vec![None; ranks]);
        distance[0] = Some(0);
        let mut queue: Vec<usize> = (0..ranks).collect();
        while let Some(at) =
            (0..queue.len()).min_by_key(|&at| distance[queue[at]].unwrap_or(u64::MAX))
        {
            let from = queue.remove(at);
            for &to in &queue {
                let (Some(weight), Some(here)) = (weights[from][to], distance[from]) else {
                    continue;
                };
                let through: u64 = here + weight + injection;
                if distance[to].is_none_or(|known| known > through) {
                    distance[to] = Some(through);
                    distance[from] = Some(here + injection);
                    parent[to] = Some(from);
                }
            }
        }
        fn label(
            parent: &[Option<usize>],
            weights: &[Vec<Option<u64>>],
            injection: u64,
            rank: usize,
        ) -> u64 {
            let children = (0..parent.len()).filter(|&child| parent[child] == Some(rank));
            let mut rests: Vec<u64> = children
                .map(|child| {
                    label(parent, weights, injection, child)
                        + weights[rank][child].expect("an edge")
                })
                .collect();
            rests.sort_unstable_by(|left, right| right.cmp(left));
            (1..)
                .zip(rests)
                .map(|(sends, rest)| rest + sends * injection)
                .max()
                .unwrap_or(0)
        }
        (1..ranks)
            .all(|rank| parent[rank].is_some())
            .then(|| label(&parent, weights, injection, 0))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Without injection times the tree is one of shortest paths, which is exact; with them the
        /// problem is NP-complete, and the tree is that of the paper.
        #[test]
        fn the_latency_tree_of_a_partial_graph_is_the_best_or_the_papers(
            table in prop::collection::vec(prop::option::weighted(0.6, 1u64..1_000), 10),
            injection in prop_oneof![Just(0u64), 1u64..500],
        ) {
            let mut weights = vec![vec![None; 5]; 5];
            for ((one, other), &weight) in pairs(5).zip(&table) {
                (weights[one][other], weights[other][one]) = (weight, weight);
            }
            let weight = |from: usize, to: usize| weights[from][to].unwrap_or(u64::MAX);
            let plan = latency(0, 5, &weight, &|_, _| injection);
            let time = plan.as_ref().ok().map(|plan| crate::plan::completion_time(plan, &weight, &|_, _| injection));
            let best = exhaustive(&weights, injection);
            prop_assert_eq!(time, as_printed(&weights, injection));
            prop_assert_eq!(time.is_some(), best.is_some());
            prop_assert!(injection > 0 && time >= best || time == best);
            // The topology file says the same: no switch adds anything that the pairs do not.
            let costs = Costs { injection_ns: injection, latency_ns: 0, hop_ns: 0, speeds: None };
            let all: Vec<usize> = (0..5).collect();
            let from_file = make(Via::Latency, &graph(5, &table), 0, &all, &costs);
            prop_assert_eq!(from_file.ok(), plan.ok());
        }

        /// A plan is made, and sound, or refused by name.
        #[test]
        fn no_plan_sends_between_hosts_that_cannot_talk(
            table in prop::collection::vec(prop::option::weighted(0.85, Just(3u64)), 45),
            root in 0usize..10,
        ) {
            let topology = graph(10, &table);
            let all: Vec<usize> = (0..10).collect();
            for via in Via::every() {
                match make(via, &topology, root, &all, &Costs::default()) {
                    Ok(plan) => {
                        let report = crate::plan::check_message(&topology, &plan, &all);
                        prop_assert!(report.is_spanning(), "{via}: {report}");
                        prop_assert!(report.is_contention_free() || !via.is_contention_free(), "{via}: {report}");
                        prop_assert_eq!((plan.root(), plan.via()), (root, via));
                    }
                    Err(PlanError::CannotTalk { .. }) => prop_assert!(via != Via::Latency),
                    Err(PlanError::NoRoad { .. } | PlanError::NoParent(_)) => {}
                    Err(error) => prop_assert!(via == Via::RecursiveDoubling, "{via}: {error}"),
                }
            }
        }
    }
}
