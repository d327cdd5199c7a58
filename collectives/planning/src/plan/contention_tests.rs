//! The promise of the aware planners, by the judge that shares nothing with them; and what the unaware ones do.

use super::*;
use crate::topology::{Topology, arbitrary};
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn all_of(topology: &Topology) -> Vec<usize> {
    (0..topology.hosts().len()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

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
        for via in [Via::Chain, Via::Binary, Via::Kary(3)] {
            let plan = make(via, &topology, root_host, &members, &Costs::default()).expect("members are distinct hosts");
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
        assert_eq!(report.worst_edges.len(), report.worst.as_ref().map_or(0, |load| load.flows));
        report.worst.map_or(0, |load| load.senders)
    };
    assert_eq!([Via::Chain, Via::Binary, Via::Kary(3)].map(worst), [1, 1, 1]);
    for via in [Via::ChainUnaware, Via::BinaryUnaware, Via::Binomial, Via::ScatterAllgather, Via::RecursiveDoubling] {
        assert!(worst(via) > 1, "{via}");
    }
}

#[test]
fn chain_and_cast_plan_ten_thousand_hosts_within_50_ms() {
    let mut text = "schema = 1\n".to_string();
    for id in 0..400 {
        let link = if id == 0 { String::new() } else { format!("'s{}'", (id - 1) / 7) };
        text += &format!("[[switch]]\nname = 's{id}'\nhosts = 'n[{}-{}]'\nlinks = [{link}]\n", id * 25, id * 25 + 24);
    }
    let topology = Topology::parse(&text, "large").expect("a tree");
    let all = all_of(&topology);
    for via in [Via::Chain, Via::Cast] {
        let started = Instant::now();
        let plan = make(via, &topology, 5_000, &all, &Costs::default()).expect("all hosts");
        assert!(started.elapsed() < Duration::from_millis(50), "{via}: {:?}", started.elapsed());
        assert_eq!(plan.ranks(), 10_000);
    }
}
