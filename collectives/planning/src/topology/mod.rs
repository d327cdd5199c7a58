//! Which host hangs on which switch, and which cables join the switches.
//!
//! A [`Topology`] is a tree of switches with every host on exactly one of them (Patarasuk 2008 §2: switched Ethernet
//! forwards along a spanning tree, so the path between two hosts is unique). A value of this type is valid by
//! construction: no loop, no island, no name twice. It comes from a file ([`Topology::parse`]), from a list of hosts
//! ([`Topology::single_switch`]), from what others know of the network ([`slurm`], [`lldp`]), or is one of the papers' test
//! beds ([`Topology::builtin`]).

#[cfg(test)]
pub(crate) mod arbitrary;
mod build;
mod builtin;
mod error;
mod file;
pub mod lldp;
pub mod nodeset;
pub mod slurm;

pub use crate::schema::SchemaProblem;
pub use builtin::BUILTIN_NAMES;
pub use error::{TopologyError, TopologyProblem};

use build::{Draft, DraftHost};
use std::collections::HashMap;

/// A tree of switches with hosts on them. Hosts and switches are numbered from 0 and never renumbered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    hosts: Vec<String>,
    switches: Vec<String>,
    switch_of: Vec<usize>,
    cables: Vec<(usize, usize)>,
    /// Derived: the hosts of each switch, ascending.
    hosts_on: Vec<Vec<usize>>,
    /// Derived: the switches cabled to each switch, ascending.
    neighbours: Vec<Vec<usize>>,
    /// Derived: host ids by name.
    host_ids: HashMap<String, usize>,
}

/// A topology read from what was not written for us, and what the reader should know about how it was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The topology.
    pub topology: Topology,
    /// What was ignored or assumed, a sentence each.
    pub notes: Vec<String>,
}

impl Topology {
    /// All hosts on one switch named `s0`: what is assumed when nobody says otherwise. Host ids follow the given order.
    ///
    /// # Errors
    /// [`TopologyError`] if there is no host, too many, a host twice, or a name with a character no node set can carry.
    pub fn single_switch(hosts: impl IntoIterator<Item = String>) -> Result<Self, TopologyError> {
        let mut draft = Draft::default();
        draft.add_switch("s0".to_string(), None);
        draft.hosts = hosts.into_iter().map(|name| DraftHost { name, switch: 0, line: None }).collect();
        build::build(draft)
    }

    /// Host names; a host's id is its index here.
    ///
    /// Hosts from a file or a test bed are numbered in natural order of their names (`n2` before `n10`), however the
    /// file lists them: two spellings of one network give every host the same id.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Switch names; a switch's id is its index here.
    pub fn switches(&self) -> &[String] {
        &self.switches
    }

    /// The switch a host hangs on.
    ///
    /// # Panics
    /// If `host` is no host id.
    pub fn switch_of(&self, host: usize) -> usize {
        self.switch_of[host]
    }

    /// The cables between switches, each once, the lower switch id first, ascending.
    pub fn cables(&self) -> &[(usize, usize)] {
        &self.cables
    }

    /// The id of the host with this name.
    pub fn host_named(&self, name: &str) -> Option<usize> {
        self.host_ids.get(name).copied()
    }

    /// The hosts on a switch, ascending by id.
    ///
    /// # Panics
    /// If `switch` is no switch id.
    pub fn hosts_on(&self, switch: usize) -> impl Iterator<Item = usize> + '_ {
        self.hosts_on[switch].iter().copied()
    }

    /// The switches cabled to a switch, ascending by id.
    ///
    /// # Panics
    /// If `switch` is no switch id.
    pub fn neighbours(&self, switch: usize) -> &[usize] {
        &self.neighbours[switch]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn one_switch_keeps_the_order_it_was_given() {
        let topology = Topology::single_switch(names(&["zoe", "n10", "n2"])).expect("three hosts");
        assert_eq!(topology.hosts(), ["zoe", "n10", "n2"]);
        assert_eq!(topology.switches(), ["s0"]);
        assert_eq!(topology.host_named("n2"), Some(2));
        assert_eq!(topology.host_named("n3"), None);
        assert_eq!(topology.hosts_on(0).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(topology.cables().is_empty() && topology.neighbours(0).is_empty());
    }

    #[test]
    fn one_switch_refuses_what_is_no_list_of_hosts() {
        let refusal = |hosts: &[&str]| Topology::single_switch(names(hosts)).expect_err("refused").to_string();
        assert_eq!(refusal(&[]), "the topology names no host; give at least one switch a `hosts = \"n[0-7]\"`");
        assert_eq!(refusal(&["a", "b", "a"]), "host `a` is on switch `s0` already; name every host once");
        assert_eq!(refusal(&["a b"]), "the name `a b` may not contain ` `; use letters, digits and `-_.:`");
        assert_eq!(refusal(&[""]), "a name is empty; use letters, digits and `-_.:`");
        assert!(refusal(&["x".repeat(256).as_str()]).ends_with("is longer than 255 bytes; shorten it"));
    }
}
