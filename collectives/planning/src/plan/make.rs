//! Function that makes the broadcast tree of any algorithm, by its name.

use super::binary::{binary_sparing, kary_sparing};
use super::by_rank::by_rank;
use super::latency::latency;
use super::line::{chain_sparing, rank_hosts};
use super::tree::Plan;
use super::two_tree::two_tree_sparing;
use super::via::Via;
use super::{PlanError, best, partial};
use super::{Speeds, USUAL};
use crate::topology::{Topology, Walk};
use std::cell::RefCell;

/// Cost of an edge by the switches it crosses, which only [`Via::Latency`] uses; and relative
/// speeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs<'a> {
    /// Time in which a host sends the message to one other, in nanoseconds.
    pub injection_ns: u64,
    /// Time from the end of that until the receiver has the message, without the switches, in
    /// nanoseconds.
    pub latency_ns: u64,
    /// Time added by each switch on the path, in nanoseconds.
    pub hop_ns: u64,
    /// Cables and hosts that are slower than the others, if any: trees use them last, and avoid
    /// hanging hosts below them.
    pub speeds: Option<&'a Speeds>,
}

impl Default for Costs<'_> {
    /// Costs of a frame of 1 500 bytes at 1 Gbit/s through store-and-forward switches: 12 µs to
    /// send and again at each switch, and half of Patarasuk 2008's smallest L(m), 46 µs, to wake
    /// the receiver (Table 2).
    fn default() -> Self {
        Self {
            injection_ns: 12_000,
            latency_ns: 23_000,
            hop_ns: 12_000,
            speeds: None,
        }
    }
}

/// Plans `via` over `members` (host ids; a member's rank is its index) from the member `root_host`.
///
/// Routes that are not [topology-aware](Via::is_topology_aware) go by rank. For block-wise routes
/// this is the tree of the scatter; [`blocks`](super::blocks()) returns the blocks' own.
///
/// # Errors
/// [`PlanError`] if the root is no member, a member is no host of the topology or named twice, or
/// `via` is a k-ary tree of a number of children out of range.
pub fn make(
    via: Via,
    topology: &Topology,
    root_host: usize,
    members: &[usize],
    costs: &Costs,
) -> Result<Plan, PlanError> {
    let rank_of = rank_hosts(topology, members)?;
    let root = rank_of
        .get(root_host)
        .copied()
        .flatten()
        .ok_or(PlanError::RootNotMember(root_host))?;
    if topology.is_complete() {
        return unrestricted(via, topology, (root_host, root), members, costs);
    }
    partial::check_roads(topology, root, members)?;
    let plan = unrestricted(via, topology, (root_host, root), members, costs)?;
    partial::mended(plan, topology, members)
}

fn unrestricted(
    via: Via,
    topology: &Topology,
    (root_host, root): (usize, usize),
    members: &[usize],
    costs: &Costs,
) -> Result<Plan, PlanError> {
    let ranks = members.len();
    match via {
        Via::Chain => chain_sparing(topology, root_host, members, costs.speeds),
        Via::Binary => binary_sparing(topology, root_host, members, costs.speeds),
        Via::BinaryBest => best::binary_best(topology, root_host, members, costs.speeds),
        Via::Kary(most_children) => {
            kary_sparing(topology, root_host, members, most_children, costs.speeds)
        }
        Via::TwoTree => two_tree_sparing(topology, root_host, members, costs.speeds),
        Via::Latency => {
            let hops = Hops::new(topology, costs.speeds);
            let switches = |from: usize, to: usize| hops.between(members[from], members[to]);
            let weight = |from: usize, to: usize| {
                costs
                    .hop_ns
                    .saturating_mul(switches(from, to))
                    .saturating_add(costs.latency_ns)
                    .saturating_add(hops.added_ns(members[from], members[to]))
            };
            let injection = |from: usize, to: usize| {
                let slowness = u128::from(hops.slowness(members[from], members[to]));
                let time = u128::from(costs.injection_ns) * slowness / u128::from(USUAL);
                u64::try_from(time).unwrap_or(u64::MAX)
            };
            latency(root, ranks, &weight, &injection)
        }
        Via::Cast | Via::Flat | Via::Binomial | Via::ScatterAllgather | Via::RecursiveDoubling => {
            by_rank(via, root, ranks)
        }
        Via::ChainUnaware | Via::BinaryUnaware => by_rank(via, root, ranks),
    }
}

/// Switches between hosts, and slowness of cables. Caches those of the last sender, because
/// planners query one sender after another.
struct Hops<'a> {
    topology: &'a Topology,
    speeds: Option<&'a Speeds>,
    has_latencies: bool,
    last: RefCell<Option<Ways>>,
}

struct Ways {
    from: usize,
    walk: Walk,
    slowest: Vec<u64>,
    latencies: Vec<u64>,
}

impl<'a> Hops<'a> {
    fn new(topology: &'a Topology, speeds: Option<&'a Speeds>) -> Self {
        Self {
            topology,
            speeds,
            has_latencies: topology.has_latencies(),
            last: RefCell::new(None),
        }
    }

    fn between(&self, from: usize, to: usize) -> u64 {
        self.request(from, |ways| {
            ways.walk.depth()[self.topology.switch_of(to)] as u64 + 1
        })
    }

    /// Returns the latency of the cables between two hosts, and of the pair, beyond that of usual
    /// cables.
    fn added_ns(&self, from: usize, to: usize) -> u64 {
        if !self.has_latencies {
            return 0;
        }
        let between_ns = self.request(from, |ways| ways.latencies[self.topology.switch_of(to)]);
        self.topology.added_ns(from, to, between_ns)
    }

    fn slowness(&self, from: usize, to: usize) -> u64 {
        let Some(speeds) = self.speeds else {
            return USUAL;
        };
        let on_the_way = self.request(from, |ways| ways.slowest[self.topology.switch_of(to)]);
        on_the_way
            .max(speeds.sending(from))
            .max(speeds.receiving(to))
    }

    fn request(&self, from: usize, answer: impl Fn(&Ways) -> u64) -> u64 {
        let from = self.topology.switch_of(from);
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_none_or(|ways| ways.from != from) {
            let walk = Walk::from(self.topology, from);
            let slowest = self
                .speeds
                .map(|speeds| speeds.along(self.topology, &walk))
                .unwrap_or_default();
            *last = Some(Ways {
                from,
                latencies: walk.latencies(self.topology),
                walk,
                slowest,
            });
        }
        last.as_ref().map_or(0, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{all_of, assert_about_ten_times, network};
    use crate::plan::{UsualCable, check, completion_time};
    use crate::topology::arbitrary;
    use proptest::prelude::*;

    /// Number of networks: ten thousand in `./test --full`.
    fn cases() -> u32 {
        if std::env::var_os("ETHBCAST_FULL").is_some() {
            10_000
        } else {
            3000
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(cases()))]

        /// Some hosts are no members, some switches have no hosts, ranks are in no order.
        #[test]
        fn aware_trees_are_free_of_contention_on_every_network_from_every_root(
            (topology, members) in arbitrary::topology(20, 64).prop_flat_map(|topology| {
                let all = all_of(&topology);
                let some = prop::sample::subsequence(all.clone(), 1..=all.len()).prop_shuffle();
                (Just(topology), some)
            }),
            root in any::<prop::sample::Index>(),
        ) {
            let root_host = members[root.index(members.len())];
            for via in [Via::Chain, Via::Binary, Via::Kary(3), Via::TwoTree] {
                let plan = make(via, &topology, root_host, &members, &Costs::default()).expect("members are distinct \
                                                                                                hosts");
                let report = check(&topology, &plan, &members);
                prop_assert!(report.is_good(), "{} {}\n{}", via, report, topology.to_toml());
                prop_assert_eq!(members[plan.root()], root_host);
            }
        }
    }

    #[test]
    fn unaware_trees_contend_where_neighbours_by_rank_are_on_different_switches() {
        let bed = Topology::builtin("fig9-5").expect("fig9-5");
        let all = all_of(&bed);
        let worst = |via: Via| {
            let plan = make(via, &bed, 0, &all, &Costs::default()).expect("all hosts");
            let report = check(&bed, &plan, &all);
            let shares = plan.trees().len();
            assert_eq!(
                report.worst_edges.len(),
                report.worst.as_ref().map_or(0, |load| load.flows * shares)
            );
            report.worst.map_or(0, |load| load.senders)
        };
        assert_eq!(
            [Via::Chain, Via::Binary, Via::Kary(3), Via::TwoTree].map(worst),
            [1; 4]
        );
        for via in [
            Via::ChainUnaware,
            Via::BinaryUnaware,
            Via::Binomial,
            Via::ScatterAllgather,
            Via::RecursiveDoubling,
        ] {
            assert!(worst(via) > 1, "{via}");
        }
    }

    #[test]
    fn chain_cast_and_two_tree_plan_ten_thousand_hosts_in_about_ten_times_what_a_thousand_take() {
        let tree = |switches: usize| network(&vec![25; switches], |id| (id - 1) / 7);
        let (small, large) = (tree(40), tree(400));
        for via in [Via::Chain, Via::Cast, Via::TwoTree] {
            let plan = |topology: &Topology| {
                let all = all_of(topology);
                make(via, topology, all.len() / 2, &all, &Costs::default()).expect("all hosts")
            };
            // A linear search per host would take a hundred times as long.
            assert_about_ten_times(|| drop(plan(&small)), || drop(plan(&large)));
            assert_eq!(plan(&large).ranks(), 10_000);
        }
    }

    #[test]
    fn every_way_is_planned_and_spans() {
        let bed = Topology::builtin("fig9-5").expect("fig9-5");
        let members = [4, 30, 2, 9, 17, 0, 25];
        for via in Via::every() {
            let plan = make(via, &bed, 17, &members, &Costs::default()).expect("members are hosts");
            assert_eq!((plan.via(), plan.root(), plan.ranks()), (via, 4, 7));
            let report = check(&bed, &plan, &members);
            assert!(report.is_spanning(), "{via}: {report}");
            let promises = via.is_topology_aware() && via != Via::Latency;
            assert!(report.is_contention_free() || !promises, "{via}: {report}");
        }
    }

    #[test]
    fn impossible_plans_are_refused_by_every_route() {
        let bed = Topology::builtin("fig9-1").expect("fig9-1");
        for via in Via::every() {
            let refusal =
                |root: usize, members: &[usize]| make(via, &bed, root, members, &Costs::default());
            assert_eq!(refusal(3, &[0, 1]), Err(PlanError::RootNotMember(3)));
            assert_eq!(
                refusal(0, &[0, 16]),
                Err(PlanError::NoSuchHost {
                    host: 16,
                    hosts: 16
                })
            );
            assert_eq!(refusal(0, &[0, 1, 0]), Err(PlanError::MemberTwice(0)));
            assert_eq!(refusal(0, &[]), Err(PlanError::RootNotMember(0)));
        }
        let refused =
            make(Via::Kary(1), &bed, 0, &[0, 1], &Costs::default()).expect_err("one child");
        assert_eq!(
            refused.to_string(),
            "a tree cannot be planned for 1 children each; use a number from 2 to 64"
        );
    }

    #[test]
    fn the_latency_tree_stays_on_a_switch_where_switches_are_slow() {
        let bed = Topology::builtin("fig9-5").expect("fig9-5");
        let all: Vec<usize> = (0..32).collect();
        let costs = Costs {
            injection_ns: 1,
            latency_ns: 0,
            hop_ns: 1_000,
            speeds: None,
        };
        let plan = make(Via::Latency, &bed, 0, &all, &costs).expect("all hosts");
        let crossing = plan
            .edges()
            .filter(|&(from, to)| bed.switch_of(from) != bed.switch_of(to))
            .count();
        let hops = Hops::new(&bed, None);
        let weight = |from: usize, to: usize| hops.between(from, to) * 1_000;
        // The furthest switch is the fourth, three cables away: no host there can have the message
        // sooner than through four.
        let time = completion_time(&plan, &weight, &|_, _| 1);
        assert!((4_000..4_040).contains(&time), "{time}");
        assert!(crossing >= 3);
        assert_eq!(
            [0, 4, 1, 2, 3].map(|to| hops.between(0, to)),
            [1, 1, 2, 3, 4]
        );
    }

    fn uneven() -> Topology {
        let text = "schema = 1\nswitch = [{name='a', hosts='n[0-3]', links=[{to='b', rate='100mbit'}, 'c']}, \
                {name='b', hosts='n[4-7]'}, {name='c', hosts='n[8-11]'}]\nhost = [{name='n[1,9]', rate='100mbit'}]\n";
        Topology::parse(text, "uneven").expect("a topology")
    }

    const GIGABIT: UsualCable = UsualCable {
        frame_ns: 12_112.0,
        frame_bits: 12_112.0,
    };

    #[test]
    fn slow_hosts_come_last_and_have_few_children_and_slow_cables_are_crossed_last() {
        let topology = uneven();
        let speeds = Speeds::new(&topology, &GIGABIT, |_| None).expect("uneven");
        let costs = Costs {
            speeds: Some(&speeds),
            ..Costs::default()
        };
        let all = all_of(&topology);
        let plan = |via: Via| make(via, &topology, 0, &all, &costs).expect("all hosts");
        let chain = plan(Via::Chain);
        let order: Vec<usize> =
            std::iter::successors(Some(0), |&rank| chain.children(rank).first().copied()).collect();
        assert_eq!(order, [0, 2, 3, 1, 8, 10, 11, 9, 4, 5, 6, 7]);
        for via in [Via::Binary, Via::Kary(3), Via::Latency] {
            let plan = plan(via);
            let children = |rank: usize| plan.children(rank).len();
            for (slow, others) in [(1, [2, 3, 3]), (9, [8, 10, 11])] {
                let edges: Vec<_> = plan.edges().collect();
                assert!(
                    others
                        .into_iter()
                        .all(|other| children(slow) <= children(other)),
                    "{via}, {slow}: {edges:?}"
                );
            }
            assert!(
                via == Via::Latency || check(&topology, &plan, &all).is_good(),
                "{via}"
            );
        }
    }

    proptest! {
        #[test]
        fn sparing_slow_hosts_costs_no_contention(
            topology in arbitrary::topology(12, 40),
            slow in prop::collection::vec(any::<bool>(), 40),
            root in any::<prop::sample::Index>(),
        ) {
            let all = all_of(&topology);
            let slowness = |host: usize| slow[host % slow.len()].then_some(200_000);
            if let Some(speeds) = Speeds::new(&topology, &GIGABIT, slowness) {
                let costs = Costs { speeds: Some(&speeds), ..Costs::default() };
                let root_host = root.index(all.len());
                for via in [Via::Chain, Via::Binary, Via::Kary(3)] {
                    let plan = make(via, &topology, root_host, &all, &costs).expect("all hosts");
                    let even = make(via, &topology, root_host, &all, &Costs::default()).expect("all hosts");
                    prop_assert!(check(&topology, &plan, &all).is_good());
                    let shape = |plan: &Plan| (plan.root(), plan.height(), plan.degree());
                    prop_assert_eq!(shape(&plan), shape(&even));
                }
            }
        }
    }
}
