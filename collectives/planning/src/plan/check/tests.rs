//! Tests of the checker of broadcast trees: published networks, deliberate errors, and a second way
//! of counting.

use super::*;
use crate::plan::tests::all_of;
use crate::plan::{blocks, by_rank, chain};
use crate::topology::arbitrary;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn bed(name: &str) -> Topology {
    Topology::builtin(name).expect(name)
}

fn rank_order(ranks: usize) -> Plan {
    let parents: Vec<Option<usize>> = (0..ranks).map(|rank| rank.checked_sub(1)).collect();
    Plan::from_parents(Via::Chain, 0, &parents).expect("a chain")
}

fn judge(name: &str, plan: &Plan) -> CheckReport {
    check(&bed(name), plan, &all_of(&bed(name)))
}

fn empty_report(ranks: usize) -> CheckReport {
    CheckReport {
        ranks,
        faults: vec![],
        loads: vec![],
        worst: None,
        worst_edges: vec![],
    }
}

#[test]
fn a_rank_order_chain_is_fine_where_hosts_fill_the_switches_in_order() {
    // Patarasuk 2008 §5: on topology (2) the unaware chain happens to be free of contention.
    for (name, ranks) in [
        ("fig9-1", 16),
        ("fig9-2", 32),
        ("fig9-3", 32),
        ("fig9-4", 32),
    ] {
        let report = judge(name, &rank_order(ranks));
        assert!(report.is_good(), "{name}: {report}");
    }
}

#[test]
fn a_rank_order_chain_on_hosts_dealt_round_robin_puts_eight_flows_on_one_cable() {
    let report = judge("fig9-5", &rank_order(32));
    assert!(report.is_spanning() && !report.is_contention_free() && !report.is_good());
    // s0 → s1 carries n0, n4, …, n28. The way back from s3 to s0 carries only 7, because n31 is the
    // last.
    let worst = report.worst.clone().expect("a cable");
    assert_eq!((worst.flows, worst.senders), (8, 8));
    assert_eq!(
        report.worst_edges,
        (0..8)
            .map(|turn| (4 * turn, 4 * turn + 1))
            .collect::<Vec<_>>()
    );
    assert_eq!(
        report.to_string(),
        "spans 32 ranks; contention: the busiest cable, switch s0 to switch s1, carries 8 flows from 8 senders"
    );
}

#[test]
fn a_chain_in_breadth_first_order_is_caught() {
    // From s1 in the row s0-s1-s2-s3, level by level: s1, then s2 and s0, then s3. The hop from s0
    // to s3 crosses s1 → s2 a second time; depth-first, s3 follows s2.
    let order: Vec<usize> = (8..16).chain(16..24).chain(0..8).chain(24..32).collect();
    let mut parents = vec![None; 32];
    order
        .windows(2)
        .for_each(|pair| parents[pair[1]] = Some(pair[0]));
    let plan = Plan::from_parents(Via::Chain, 8, &parents).expect("a chain");
    let report = judge("fig9-4", &plan);
    assert_eq!(
        report.to_string(),
        "spans 32 ranks; contention: the busiest cable, switch s1 to switch s2, carries 2 flows from 2 senders"
    );
}

#[test]
fn two_flows_of_one_sender_are_no_contention() {
    let topology = bed("fig9-2");
    let hosts = [0, 16, 17];
    let load = Meter::new(&topology).measure(&topology, &[(0, 1), (0, 2)], 1, &hosts);
    let worst = load.worst.expect("a cable");
    assert_eq!((worst.flows, worst.senders), (2, 1));
    assert_eq!(worst.from, CableEnd::Host("n0".to_string()));
}

#[test]
fn every_cable_that_is_used_is_listed_once() {
    let bed = bed("fig9-2");
    // n0 → n16 → n1: once up and down at n0's and n1's end, both ways at n16's and between the
    // switches.
    let plan = Plan::from_parents(Via::Chain, 0, &[None, Some(0), Some(1)]).expect("a chain");
    let report = check(&bed, &plan, &[0, 16, 1]);
    let named: Vec<String> = report
        .loads
        .iter()
        .map(|load| format!("{} to {}: {}", load.from, load.to, load.flows))
        .collect();
    let expected = [
        "host n0 to switch s0: 1",
        "host n16 to switch s1: 1",
        "switch s0 to host n1: 1",
        "switch s1 to host n16: 1",
        // The checker hung s1 below s0.
        "switch s1 to switch s0: 1",
        "switch s0 to switch s1: 1",
    ];
    assert_eq!(named, expected);
    assert_eq!(report.worst.as_ref(), report.loads.first());
    assert_eq!(report.worst_edges, [(0, 1)]);
}

#[test]
fn plans_that_are_under_way_together_add_up() {
    let bed = bed("fig9-2");
    let plans =
        [chain(&bed, 0, &[0, 16]), chain(&bed, 0, &[0, 16])].map(|plan| plan.expect("a chain"));
    let twice = check_all(&bed, &plans, &[0, 16]);
    assert!(
        twice
            .loads
            .iter()
            .all(|load| (load.flows, load.senders) == (2, 1))
            && twice.is_good()
    );
    assert_eq!(twice.worst_edges, [(0, 1), (0, 1)]);
    // Blocks go round in rank order. With neighbours on one switch only the way down has
    // contention.
    let report = check_all(&bed, &blocks(Via::ScatterAllgather, 0, 32), &all_of(&bed));
    assert!(report.is_spanning() && !report.is_contention_free());
    let scattered = Plan::from_parents(Via::Chain, 0, &[None, Some(0)]).expect("a chain");
    assert_eq!(
        check_all(&bed, &[plans[0].clone(), scattered], &[4])
            .faults
            .len(),
        2
    );
    assert_eq!(check_all(&bed, &[], &[4]), empty_report(1));
}

#[test]
fn of_a_cast_only_the_spanning_of_all_ranks_is_checked() {
    let report = judge("fig9-5", &by_rank(Via::Cast, 7, 32).expect("a cast"));
    assert!(report.is_good());
    assert_eq!(report.to_string(), "spans 32 ranks; no cable to judge");
    assert!(
        !check(
            &bed("fig9-5"),
            &by_rank(Via::Cast, 0, 2).expect("a cast"),
            &[4, 4]
        )
        .is_good()
    );
}

#[test]
fn a_rank_alone_is_a_good_plan() {
    let plan = chain(&bed("fig9-1"), 5, &[5]).expect("a chain");
    assert_eq!(check(&bed("fig9-1"), &plan, &[5]), empty_report(1));
}

#[test]
fn edges_that_do_not_span_are_named() {
    let bed = bed("fig9-1");
    let faults = |edges: &[(usize, usize)]| judge_spanning(&bed, 4, 0, edges, &[0, 1, 2, 3]);
    assert_eq!(faults(&[(0, 1), (1, 2), (1, 3)]), []);
    assert_eq!(faults(&[(0, 1), (1, 2)]), [Fault::Unreached(3)]);
    assert_eq!(
        faults(&[(0, 1), (2, 3), (3, 2)]),
        [Fault::Unreached(2), Fault::Unreached(3)]
    );
    assert_eq!(
        faults(&[(0, 1), (0, 2), (1, 2), (0, 3)]),
        [Fault::TooManyParents {
            rank: 2,
            parents: 2
        }]
    );
    assert_eq!(
        faults(&[(0, 1), (1, 2), (2, 3), (3, 0)]),
        [Fault::TooManyParents {
            rank: 0,
            parents: 1
        }]
    );
    assert_eq!(faults(&[(0, 1), (1, 2), (1, 4)]), [Fault::NoSuchRank(4)]);
}

#[test]
fn ranks_need_hosts_of_their_own() {
    let plan = rank_order(3);
    let report = |hosts: &[usize]| check(&bed("fig9-1"), &plan, hosts).to_string();
    assert_eq!(
        report(&[0, 1]),
        "does not span 3 ranks: hosts are given for 2 ranks (1 fault in all)"
    );
    assert_eq!(
        report(&[0, 1, 16]),
        "does not span 3 ranks: rank 2 is on host 16, which does not exist (1 fault in all)"
    );
    assert_eq!(
        report(&[7, 7, 7]),
        "does not span 3 ranks: rank 1 shares host 7 with another rank (2 faults in all)"
    );
}

#[test]
fn several_senders_do_not_compete_for_a_cable_that_carries_them_all() {
    let beds = |trunk: &str, hosts: &str| {
        let text = format!(
            "schema = 1\nswitch = [{{name='a', hosts='n[0,2]', links=[{{to='b', rate='{trunk}'}}]}}, {{name='b', \
             hosts='n[1,3]'}}]\n[[host]]\nname = '{hosts}'\nrate = '1gbit'\n"
        );
        Topology::parse(&text, "beds").expect("a topology")
    };
    let report =
        |trunk: &str, hosts: &str| check(&beds(trunk, hosts), &rank_order(4), &[0, 1, 2, 3]);
    // The edges n0 to n1 and n2 to n3 cross at the same time.
    let shared = report("10gbit", "n[0-3]");
    assert!(
        shared.is_contention_free() && shared.contended().is_empty(),
        "{shared}"
    );
    let narrow = report("1gbit", "n[0-3]");
    assert_eq!(
        narrow.contention(),
        "switch a to switch b (2 flows from 2 senders)"
    );
    assert!(
        !report("10gbit", "n[0-1]").is_contention_free(),
        "what n2 sends nobody knows"
    );
}

/// Returns the senders in each direction between switches, counted by cutting: without one cable
/// the switches fall into two parts, and an edge uses the cable if it leads from one part into the
/// other.
fn senders_by_cutting(
    topology: &Topology,
    plan: &Plan,
    hosts: &[usize],
) -> BTreeMap<(usize, usize), usize> {
    let mut senders: BTreeMap<(usize, usize), BTreeSet<usize>> = BTreeMap::new();
    for &cut in topology.cables() {
        let mut near = BTreeSet::from([cut.0]);
        while let Some(&(low, high)) = topology
            .cables()
            .iter()
            .find(|&&cable| cable != cut && near.contains(&cable.0) != near.contains(&cable.1))
        {
            near.extend([low, high]);
        }
        for (sender, receiver) in plan.edges() {
            let is_near = |rank: usize| near.contains(&topology.switch_of(hosts[rank]));
            match (is_near(sender), is_near(receiver)) {
                (true, false) => senders.entry(cut).or_default().insert(sender),
                (false, true) => senders.entry((cut.1, cut.0)).or_default().insert(sender),
                _ => false,
            };
        }
    }
    senders
        .into_iter()
        .map(|(cable, senders)| (cable, senders.len()))
        .collect()
}

proptest! {
    #[test]
    fn the_worst_cable_is_the_one_found_by_cutting(
        (topology, hosts) in arbitrary::topology(10, 30).prop_flat_map(|topology| {
            let shuffled = Just(all_of(&topology)).prop_shuffle();
            (Just(topology), shuffled)
        })
    ) {
        let plan = rank_order(hosts.len());
        let report = check(&topology, &plan, &hosts);
        prop_assert!(report.is_spanning());
        let counted = senders_by_cutting(&topology, &plan, &hosts);
        let most = counted.values().copied().max().unwrap_or(0);
        prop_assert_eq!(report.is_contention_free(), most <= 1);
        if let Some(CableLoad { from: CableEnd::Switch(from), to: CableEnd::Switch(to), senders, flows, .. }) =
            report.worst
        {
            let id = |name: &str| topology.switches().iter().position(|switch| switch == name).expect("a switch");
            prop_assert_eq!(counted[&(id(&from), id(&to))], senders);
            prop_assert_eq!((senders, flows), (most, most));
        }
    }
}
