//! Hosts, switches and the cables between them, with what is derived from that.

use std::collections::HashMap;

/// A tree of switches with hosts on them. Hosts and switches are numbered from 0 and never renumbered.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the notes say what was assumed"]
pub struct Imported {
    /// The topology.
    pub topology: Topology,
    /// What was ignored or assumed, a sentence each.
    pub notes: Vec<String>,
}

impl Topology {
    /// Derives the tables of a network that was checked: each host with the id of its switch, each cable with the lower
    /// switch first, ascending.
    pub(super) fn new(switches: Vec<String>, hosts: Vec<(String, usize)>, cables: Vec<(usize, usize)>) -> Self {
        let (hosts, switch_of): (Vec<String>, Vec<usize>) = hosts.into_iter().unzip();
        let mut hosts_on = vec![Vec::new(); switches.len()];
        switch_of.iter().enumerate().for_each(|(host, &switch)| hosts_on[switch].push(host));
        let mut neighbours = vec![Vec::new(); switches.len()];
        for &(low, high) in &cables {
            neighbours[low].push(high);
            neighbours[high].push(low);
        }
        let host_ids = hosts.iter().enumerate().map(|(id, name)| (name.clone(), id)).collect();
        Self { hosts, switches, switch_of, cables, hosts_on, neighbours, host_ids }
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
