//! Built-in network topologies: all hosts on one switch, and the five test networks of Patarasuk
//! 2008, Figure 9.

use super::build;
use super::build::{Draft, DraftHost, DraftLink};
use super::error::TopologyError;
use super::tree::Topology;
use std::collections::BTreeMap;

/// Names known to [`Topology::builtin`].
pub const BUILTIN_NAMES: &[&str] = &["fig9-1", "fig9-2", "fig9-3", "fig9-4", "fig9-5"];

impl Topology {
    /// Returns all hosts on one switch named `s0`, the default topology. Host ids follow the given
    /// order.
    ///
    /// # Errors
    /// [`TopologyError`] if there is no host, too many, a host twice, or a name with a character
    /// that node sets cannot carry.
    pub fn single_switch(hosts: impl IntoIterator<Item = String>) -> Result<Self, TopologyError> {
        let mut draft = Draft::default();
        draft.add_switch("s0".to_string(), None);
        draft.hosts = hosts.into_iter().map(|name| DraftHost::new(name, 0, None)).collect();
        build::build(draft)
    }

    /// Returns each network of hosts on a switch of its own, all of them connected by one router. Host ids follow
    /// the given order; a network is any number.
    ///
    /// # Errors
    /// The errors of [`single_switch`](Topology::single_switch).
    pub fn behind_router(hosts: impl IntoIterator<Item = (String, u32)>) -> Result<Self, TopologyError> {
        let (mut draft, mut switches) = (Draft::default(), BTreeMap::new());
        draft.add_switch("router".to_string(), None);
        for (name, network) in hosts {
            let id = draft.switches.len();
            let switch = *switches.entry(network).or_insert(id);
            if switch == id {
                let links = vec![DraftLink::new("router".to_string(), None)];
                draft.add_switch(format!("network{id}"), None).links = links;
            }
            draft.hosts.push(DraftHost::new(name, switch, None));
        }
        build::build(draft)
    }

    /// A test bed of the papers, hosts `n0…`, switches `s0…`; `None` for a name not in [`BUILTIN_NAMES`].
    ///
    /// - `fig9-1`: 16 hosts on one switch;
    /// - `fig9-2`: 32 hosts, 16 on each of two switches;
    /// - `fig9-3`: 32 hosts, 8 on each of four switches, `s1`, `s2`, `s3` round `s0`;
    /// - `fig9-4`: 32 hosts, 8 on each of four switches in a row, filled switch by switch;
    /// - `fig9-5`: the same row, hosts dealt round robin, so that neighbours by number are never neighbours by switch.
    pub fn builtin(name: &str) -> Option<Self> {
        const ROW_OF_FOUR: &[(usize, usize)] = &[(0, 1), (1, 2), (2, 3)];
        Some(match name {
            "fig9-1" => test_bed(1, &[], 16, |_| 0),
            "fig9-2" => test_bed(2, &[(0, 1)], 32, |host| host / 16),
            "fig9-3" => test_bed(4, &[(0, 1), (0, 2), (0, 3)], 32, |host| host / 8),
            "fig9-4" => test_bed(4, ROW_OF_FOUR, 32, |host| host / 8),
            "fig9-5" => test_bed(4, ROW_OF_FOUR, 32, |host| host % 4),
            _ => return None,
        })
    }
}

fn test_bed(switches: usize, cables: &[(usize, usize)], hosts: usize, switch_of: fn(usize) -> usize) -> Topology {
    let mut draft = Draft::default();
    for id in 0..switches {
        let links = cables.iter().filter(|cable| cable.0 == id);
        let links = links.map(|cable| DraftLink::new(format!("s{}", cable.1), None)).collect();
        draft.add_switch(format!("s{id}"), None).links = links;
    }
    draft.hosts = (0..hosts).map(|id| DraftHost::new(format!("n{id}"), switch_of(id), None)).collect();
    build::build(draft).expect("every test bed is a tree with distinct names")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_behind_a_router_are_switches_round_it() {
        let hosts = [("a", 7), ("b", 9), ("c", 7), ("d", 0)].map(|(name, network)| (name.to_owned(), network));
        let topology = Topology::behind_router(hosts).expect("distinct names");
        assert_eq!(topology.hosts(), ["a", "b", "c", "d"]);
        let switches = [0, 1, 2, 3].map(|host| topology.switch_of(host));
        assert!(switches[0] == switches[2] && switches[0] != switches[1] && switches[3] != switches[1]);
        let router = topology.switches().iter().position(|name| name == "router").expect("it is there");
        assert_eq!((topology.neighbours(router).len(), topology.cables().len()), (3, 3));
        assert!(Topology::behind_router([("a".to_owned(), 1), ("a".to_owned(), 2)]).is_err());
    }

    #[test]
    fn every_name_is_a_test_bed_and_no_other_name_is() {
        for name in BUILTIN_NAMES {
            assert!(Topology::builtin(name).is_some(), "{name}");
        }
        assert_eq!(Topology::builtin("fig9-6"), None);
    }

    #[test]
    fn the_beds_have_the_shapes_of_figure_9() {
        let shape = |name: &str| {
            let bed = Topology::builtin(name).expect(name);
            let loads: Vec<usize> = (0..bed.switches().len()).map(|switch| bed.hosts_on(switch).count()).collect();
            (loads, bed.cables().to_vec())
        };
        assert_eq!(shape("fig9-1"), (vec![16], vec![]));
        assert_eq!(shape("fig9-2"), (vec![16, 16], vec![(0, 1)]));
        assert_eq!(shape("fig9-3"), (vec![8; 4], vec![(0, 1), (0, 2), (0, 3)]));
        assert_eq!(shape("fig9-4"), (vec![8; 4], vec![(0, 1), (1, 2), (2, 3)]));
        assert_eq!(shape("fig9-5"), shape("fig9-4"));
    }

    #[test]
    fn host_ids_are_the_numbers_in_the_names() {
        let bed = Topology::builtin("fig9-5").expect("fig9-5");
        for id in 0..32 {
            assert_eq!(bed.host_named(&format!("n{id}")), Some(id));
            assert_eq!(bed.switch_of(id), id % 4);
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn a_single_switch_keeps_the_given_order_of_hosts() {
        let topology = Topology::single_switch(names(&["zoe", "n10", "n2"])).expect("three hosts");
        assert_eq!(topology.hosts(), ["zoe", "n10", "n2"]);
        assert_eq!(topology.switches(), ["s0"]);
        assert_eq!(topology.host_named("n2"), Some(2));
        assert_eq!(topology.host_named("n3"), None);
        assert_eq!(topology.hosts_on(0).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(topology.cables().is_empty() && topology.neighbours(0).is_empty());
    }

    #[test]
    fn a_single_switch_refuses_an_invalid_list_of_hosts() {
        let refusal = |hosts: &[&str]| Topology::single_switch(names(hosts)).expect_err("refused").to_string();
        assert_eq!(refusal(&[]), "the topology names no host; give at least one switch a `hosts = \"n[0-7]\"`");
        assert_eq!(refusal(&["a", "b", "a"]), "host `a` is on switch `s0` already; name every host once");
        assert_eq!(refusal(&["a b"]), "the name `a b` may not contain ` `; use letters, digits and `-_.:`");
        assert_eq!(refusal(&[""]), "a name is empty; use letters, digits and `-_.:`");
        assert!(refusal(&["x".repeat(256).as_str()]).ends_with("is longer than 255 bytes; shorten it"));
    }
}
