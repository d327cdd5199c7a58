//! Discoveries of random trees with known structure.

use super::{Discovery, Question, Sketch};
use crate::topology::arbitrary::topology;
use crate::topology::{Topology, Walk};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Returns the hosts on the far side of each cable that two flows can reveal: at least two hosts on
/// either side.
fn splits(topology: &Topology) -> BTreeSet<BTreeSet<usize>> {
    let mut splits = BTreeSet::new();
    for &(one, other) in topology.cables() {
        let walk = Walk::from(topology, one);
        let is_beyond = |host: &usize| {
            let mut switch = topology.switch_of(*host);
            while switch != other {
                match walk.above()[switch] {
                    Some(above) => switch = above,
                    None => return false,
                }
            }
            true
        };
        let beyond: BTreeSet<usize> = (0..topology.hosts().len()).filter(is_beyond).collect();
        splits.insert(told(beyond, topology.hosts().len()));
    }
    splits.retain(|split| split.len() >= 2 && topology.hosts().len() - split.len() >= 2);
    splits
}

fn told(side: BTreeSet<usize>, hosts: usize) -> BTreeSet<usize> {
    if side.contains(&0) { (0..hosts).filter(|host| !side.contains(host)).collect() } else { side }
}

fn splits_of(sketch: &Sketch, hosts: usize) -> BTreeSet<BTreeSet<usize>> {
    let cables = sketch.cables();
    cables.into_iter().map(|cable| told(BTreeSet::from_iter(sketch.sides(cable)[0].clone()), hosts)).collect()
}

fn share(splits: &BTreeSet<BTreeSet<usize>>, Question { from, to }: Question) -> bool {
    let parts = |split: &BTreeSet<usize>| {
        let [a, b, c, d] = [from[0], from[1], to[0], to[1]].map(|host| split.contains(&host));
        a == b && c == d && a != c
    };
    splits.iter().any(parts)
}

fn discover(hosts: usize, mut answer: impl FnMut(usize, Question) -> bool) -> Discovery {
    let mut discovery = Discovery::new(hosts);
    while let Some(question) = discovery.next() {
        let four = BTreeSet::from_iter(question.from.into_iter().chain(question.to));
        assert!(four.len() == 4 && four.iter().all(|&host| host < hosts), "{question:?}");
        discovery.record(question, answer(discovery.recorded(), question));
        assert!(discovery.recorded() <= hosts * hosts * 4, "too many questions for {hosts} hosts");
    }
    discovery
}

proptest! {
    #[test]
    fn every_tree_is_found_as_far_as_two_flows_can_show(topology in topology(7, 24)) {
        let (hosts, truth) = (topology.hosts().len(), splits(&topology));
        let discovery = discover(hosts, |_, question| share(&truth, question));
        let sketch = discovery.sketch().expect("all is known");
        prop_assert_eq!(splits_of(&sketch, hosts), truth);
        for cable in sketch.cables() {
            let support = discovery.support(&sketch, cable);
            prop_assert!(support.is_high() && support.asked > 0, "{:?}", support);
        }
        let found = Topology::parse(&sketch.to_toml(topology.hosts(), |_| String::new()), "found").expect("a topology");
        prop_assert_eq!(splits(&found), splits(&topology));
    }

    #[test]
    fn a_wrong_answer_is_not_vouched_for(topology in topology(5, 14), wrong: prop::sample::Index) {
        let (hosts, truth) = (topology.hosts().len(), splits(&topology));
        let questions = discover(hosts, |_, question| share(&truth, question)).recorded();
        prop_assume!(questions > 0);
        let wrong = wrong.index(questions);
        let discovery = discover(hosts, |number, question| share(&truth, question) != (number == wrong));
        let sketch = discovery.sketch().expect("all is known");
        let is_right = splits_of(&sketch, hosts) == truth;
        let all_high = sketch.cables().into_iter().all(|cable| discovery.support(&sketch, cable).is_high());
        // A surplus cable is contradicted when its question is repeated; a missing one may leave no
        // question.
        let has_more = splits_of(&sketch, hosts).len() > truth.len();
        prop_assert!(is_right || !all_high || !has_more, "{sketch:?} for {truth:?}");
        prop_assert!(all_high || discovery.contradictions(&sketch) > 0);
    }

    #[test]
    fn where_all_flows_slow_each_other_no_result_is_sure(hosts in 4..20_usize) {
        let discovery = discover(hosts, |_, _| true);
        let sketch = discovery.sketch().expect("all is known");
        prop_assert!(!sketch.cables().is_empty() && discovery.contradictions(&sketch) > 0, "{:?}", sketch);
        prop_assert!(sketch.cables().into_iter().all(|cable| !discovery.support(&sketch, cable).is_high()));
    }
}

#[test]
fn the_number_of_questions_is_as_documented() {
    let text = "schema = 1\nswitch = [{name='a', hosts='n[0-3]', links=['b', 'c']}, {name='b', hosts='n[4-7]'}, \
                {name='c', hosts='n[8-11]', links=['d']}, {name='d', hosts='n[12-15]'}]";
    let topology = Topology::parse(text, "four").expect("a topology");
    let truth = splits(&topology);
    assert_eq!(truth.len(), 3);
    let asked = discover(16, |_, question| share(&truth, question)).recorded();
    assert!((50..=130).contains(&asked), "{asked} questions");
    for hosts in 0..4 {
        let discovery = Discovery::new(hosts);
        assert_eq!(discovery.next(), None, "{hosts} hosts: nothing can be told");
        assert_eq!(discovery.sketch().expect("known").switches(), 1);
    }
}

#[test]
fn the_written_topology_has_the_confidence_of_each_cable() {
    let text = "schema = 1\nswitch = [{name='a', hosts='n[0-1]', links=['b']}, {name='b', hosts='n[2-3]'}]";
    let topology = Topology::parse(text, "two").expect("a topology");
    let truth = splits(&topology);
    let discovery = discover(4, |_, question| share(&truth, question));
    let sketch = discovery.sketch().expect("all is known");
    let file = sketch.to_toml(topology.hosts(), |_| "sure".to_owned());
    assert!(file.contains("\"s1\",  # sure"), "{file}");
    assert_eq!(splits(&Topology::parse(&file, "found").expect("a topology")), truth);
}
