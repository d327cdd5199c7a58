//! Tests of the search against Algorithm 2, and the smallest cluster on which it finds a lower
//! tree.

use super::*;
use crate::plan::{binary, check};
use crate::topology::arbitrary;
use proptest::prelude::*;

#[test]
fn a_tree_can_be_lower_than_any_over_a_depth_first_line() {
    let text = "schema = 1\nswitch = [{name='s0', hosts='n[4-5]', links=['s1']}, {name='s1', hosts='n2', \
     links=['s2']}, \
                {name='s2', hosts=['n[0-1]', 'n3']}]\n";
    let row = Topology::parse(text, "row").expect("a row");
    let all: Vec<usize> = (0..6).collect();
    let by_algorithm_2 = binary(&row, 4, &all).expect("all hosts");
    let best = binary_best(&row, 4, &all, None).expect("all hosts");
    assert_eq!((by_algorithm_2.height(), best.height()), (3, 2));
    let report = check(&row, &best, &all);
    assert!(report.is_good(), "{report}");
    assert_eq!((best.via(), best.root(), best.degree()), (Via::BinaryBest, 4, 2));
    assert_eq!(best, binary_best(&row, 4, &all, None).expect("all hosts"), "the same every time");
}

#[test]
fn a_complete_tree_is_left_as_it_is() {
    let bed = Topology::builtin("fig9-1").expect("fig9-1");
    let all: Vec<usize> = (0..16).collect();
    assert_eq!(binary_best(&bed, 3, &all, None).expect("all hosts").height(), 4);
    assert_eq!(binary_best(&bed, 3, &[3], None).expect("one host").height(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_best_tree_is_never_higher_and_never_contends(
        topology in arbitrary::topology(8, 24), root in any::<prop::sample::Index>(),
    ) {
        let all: Vec<usize> = (0..topology.hosts().len()).collect();
        let root_host = root.index(all.len());
        let best = binary_best(&topology, root_host, &all, None).expect("all hosts");
        let report = check(&topology, &best, &all);
        prop_assert!(report.is_good(), "{}\n{}", report, topology.to_toml());
        prop_assert!(best.height() <= binary(&topology, root_host, &all).expect("all hosts").height());
        prop_assert_eq!((best.root(), best.degree() <= 2), (root_host, true));
    }
}
