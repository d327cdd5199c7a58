//! Random topologies for property tests, made as text like those of users.

use super::Topology;
use proptest::prelude::*;
use proptest::sample::Index;

pub(crate) fn topology(max_switches: usize, max_hosts: usize) -> impl Strategy<Value = Topology> {
    topology_text(max_switches, max_hosts)
        .prop_map(|text| Topology::parse(&text, "random").unwrap_or_else(|error| panic!("{error}\n{text}")))
}

pub(crate) fn topology_text(max_switches: usize, max_hosts: usize) -> impl Strategy<Value = String> {
    let switches = prop::collection::vec((any::<Index>(), any::<bool>(), any::<bool>()), 1..=max_switches);
    let shuffled = switches.prop_flat_map(|switches| {
        let order: Vec<usize> = (0..switches.len()).collect();
        (Just(switches), Just(order).prop_shuffle())
    });
    let hosts = prop::collection::vec(any::<Index>(), 1..=max_hosts);
    (shuffled, hosts).prop_map(|((switches, order), hosts)| {
        let mut links = vec![Vec::new(); switches.len()];
        for (id, (parent, from_below, from_both)) in switches.iter().enumerate().skip(1) {
            let (low, high) = (order[parent.index(id)], order[id]);
            if *from_below || *from_both {
                links[low].push(high);
            }
            if !*from_below || *from_both {
                links[high].push(low);
            }
        }
        let on: Vec<usize> = hosts.iter().map(|host| host.index(switches.len())).collect();
        write(&links, &on)
    })
}

fn write(links: &[Vec<usize>], switch_of: &[usize]) -> String {
    let mut text = String::from("schema = 1\n");
    for (id, links) in links.iter().enumerate() {
        let quoted = |names: Vec<String>| names.join(", ");
        let hosts = switch_of.iter().enumerate().filter(|host| *host.1 == id);
        let hosts = quoted(hosts.map(|(host, _)| format!("\"n{host}\"")).collect());
        let links = quoted(links.iter().map(|link| format!("\"s{link}\"")).collect());
        text += &format!("[[switch]]\nname = \"s{id}\"\nhosts = [{hosts}]\nlinks = [{links}]\n");
    }
    text
}
