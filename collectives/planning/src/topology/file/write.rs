//! Writing of the topology file.

use crate::format_rate;
use crate::topology::{Topology, nodeset};
use std::collections::BTreeMap;

impl Topology {
    /// Writes the topology as a file that [`Topology::parse`] reads: each cable once, hosts as
    /// compact node sets.
    ///
    /// Reading it back gives an equal topology if hosts are in natural order of their names, as
    /// they are unless [`Topology::single_switch`] was given another order.
    pub fn to_toml(&self) -> String {
        // Names consist of letters, digits and `-_.:`, so no escaping is needed.
        let mut text = String::from("schema = 1\n");
        for (id, name) in self.switches().iter().enumerate() {
            text += &format!("\n[[switch]]\nname = \"{name}\"\n");
            let hosts: Vec<&String> = self.hosts_on(id).map(|host| &self.hosts()[host]).collect();
            if !hosts.is_empty() {
                text += &format!("hosts = \"{}\"\n", nodeset::fold(&hosts));
            }
            let above = self.neighbours(id).iter().filter(|&&other| other > id);
            text += &list("links", above.map(|&other| self.link(id, other)).collect());
            let blocked = self.blocked().iter().filter(|&&(low, _)| low == id);
            text += &list("blocked", blocked.map(|&(_, high)| format!("\"{}\"", self.switches()[high])).collect());
        }
        text + &self.host_tables()
    }

    fn link(&self, from: usize, to: usize) -> String {
        let name = &self.switches()[to];
        match self.cable_rate(from, to) {
            None => format!("\"{name}\""),
            Some(rate) => format!("{{ to = \"{name}\", rate = \"{}\" }}", format_rate(rate)),
        }
    }

    fn host_tables(&self) -> String {
        let mut alike: BTreeMap<(Option<u64>, Option<u64>), Vec<&String>> = BTreeMap::new();
        for (host, name) in self.hosts().iter().enumerate() {
            alike.entry((self.host_rate(host), self.injection_ns(host))).or_default().push(name);
        }
        alike.remove(&(None, None));
        let table = |((rate, injection_ns), names): (&(Option<u64>, Option<u64>), &Vec<&String>)| {
            let rate = rate.map(|rate| format!("rate = \"{}\"\n", format_rate(rate))).unwrap_or_default();
            let injection = injection_ns.map(|time| format!("injection_ns = {time}\n")).unwrap_or_default();
            format!("\n[[host]]\nname = \"{}\"\n{rate}{injection}", nodeset::fold(names))
        };
        alike.iter().map(table).collect()
    }
}

fn list(key: &str, entries: Vec<String>) -> String {
    if entries.is_empty() { String::new() } else { format!("{key} = [{}]\n", entries.join(", ")) }
}
