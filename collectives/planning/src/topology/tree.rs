//! Data structure of a network topology: hosts, switches and cables, with derived tables.

use crate::names::HostNames;

/// A tree of switches with hosts on them. Hosts and switches are numbered from 0 and never
/// renumbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    hosts: Vec<String>,
    switches: Vec<String>,
    switch_of: Vec<usize>,
    cables: Vec<(usize, usize)>,
    cable_rates: Vec<Option<u64>>,
    host_rates: Vec<Option<u64>>,
    host_injections: Vec<Option<u64>>,
    blocked: Vec<(usize, usize)>,
    hosts_on: Vec<Vec<usize>>,
    neighbours: Vec<Vec<usize>>,
    host_names: HostNames,
}

#[derive(Debug)]
pub(super) struct HostPart {
    pub name: String,
    pub switch: usize,
    pub rate: Option<u64>,
    pub injection_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CablePart {
    pub ends: (usize, usize),
    pub rate: Option<u64>,
}

/// A topology read from a foreign format, and notes on how it was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the notes say what was assumed"]
pub struct Imported {
    /// The topology.
    pub topology: Topology,
    /// Ignored or assumed facts, a sentence each.
    pub notes: Vec<String>,
}

impl Topology {
    pub(super) fn new(
        switches: Vec<String>,
        hosts: Vec<HostPart>,
        mut cables: Vec<CablePart>,
        mut blocked: Vec<(usize, usize)>,
    ) -> Self {
        cables.sort_unstable_by_key(|cable| cable.ends);
        blocked.sort_unstable();
        let mut hosts_on = vec![Vec::new(); switches.len()];
        hosts.iter().enumerate().for_each(|(id, host)| hosts_on[host.switch].push(id));
        let mut neighbours = vec![Vec::new(); switches.len()];
        for CablePart { ends: (low, high), .. } in &cables {
            neighbours[*low].push(*high);
            neighbours[*high].push(*low);
        }
        Self {
            host_names: HostNames::new(hosts.iter().map(|host| host.name.as_str())),
            switch_of: hosts.iter().map(|host| host.switch).collect(),
            host_rates: hosts.iter().map(|host| host.rate).collect(),
            host_injections: hosts.iter().map(|host| host.injection_ns).collect(),
            hosts: hosts.into_iter().map(|host| host.name).collect(),
            cable_rates: cables.iter().map(|cable| cable.rate).collect(),
            cables: cables.into_iter().map(|cable| cable.ends).collect(),
            switches,
            blocked,
            hosts_on,
            neighbours,
        }
    }

    /// Returns the host names; a host's id is its index here.
    ///
    /// Hosts from a file or a test bed are numbered in natural order of their names (`n2` before
    /// `n10`), however the file lists them: two spellings of one network give every host an equal
    /// id.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns the switch names; a switch's id is its index here.
    pub fn switches(&self) -> &[String] {
        &self.switches
    }

    /// Returns the switch of a host.
    ///
    /// # Panics
    /// If `host` is no host id.
    pub fn switch_of(&self, host: usize) -> usize {
        self.switch_of[host]
    }

    /// Returns the cables between switches, each once, the lower switch id first, ascending.
    pub fn cables(&self) -> &[(usize, usize)] {
        &self.cables
    }

    /// Returns the rate of the cable between two switches, in bits per second, if it exists and its
    /// rate is known.
    pub fn cable_rate(&self, one: usize, other: usize) -> Option<u64> {
        let cable = self.cables.binary_search(&(one.min(other), one.max(other))).ok()?;
        self.cable_rates[cable]
    }

    /// Returns the rate of a host's cable, in bits per second, if known.
    ///
    /// # Panics
    /// If `host` is no host id.
    pub fn host_rate(&self, host: usize) -> Option<u64> {
        self.host_rates[host]
    }

    /// Returns the rate of the fastest host's cable, in bits per second, if those of all hosts are
    /// known.
    pub fn fastest_host_rate(&self) -> Option<u64> {
        let rates: Option<Vec<u64>> = self.host_rates.iter().copied().collect();
        rates?.into_iter().max()
    }

    /// Returns the time in which a host sends a frame, in nanoseconds, if measured (Mateescu and
    /// Taylor's injection time).
    ///
    /// # Panics
    /// If `host` is no host id.
    pub fn injection_ns(&self, host: usize) -> Option<u64> {
        self.host_injections[host]
    }

    /// Returns the blocked cables between switches, which close a loop, the lower switch id first,
    /// ascending.
    pub fn blocked(&self) -> &[(usize, usize)] {
        &self.blocked
    }

    /// Returns the id of the host with this name. A short name matches a full one and the other way
    /// round, if it is unique.
    pub fn host_named(&self, name: &str) -> Option<usize> {
        self.host_names.find(name)
    }

    /// Returns the hosts on a switch, ascending by id.
    ///
    /// # Panics
    /// If `switch` is no switch id.
    pub fn hosts_on(&self, switch: usize) -> impl Iterator<Item = usize> + '_ {
        self.hosts_on[switch].iter().copied()
    }

    /// Returns the switches cabled to a switch, ascending by id.
    ///
    /// # Panics
    /// If `switch` is no switch id.
    pub fn neighbours(&self, switch: usize) -> &[usize] {
        &self.neighbours[switch]
    }
}

/// Tree of switches hung from one of them. It uses no recursion: a row of switches may be thousands
/// long.
#[derive(Debug)]
pub(crate) struct Walk {
    above: Vec<Option<usize>>,
    depth: Vec<usize>,
    order: Vec<usize>,
}

impl Walk {
    /// Walks breadth-first, level by level.
    pub fn from(topology: &Topology, start: usize) -> Self {
        let switches = topology.switches().len();
        let mut walk = Self { above: vec![None; switches], depth: vec![0; switches], order: vec![start] };
        let mut seen = 0;
        while let Some(&switch) = walk.order.get(seen) {
            let above = walk.above[switch];
            for &next in topology.neighbours(switch).iter().filter(|&&next| above != Some(next)) {
                walk.above[next] = Some(switch);
                walk.depth[next] = walk.depth[switch] + 1;
                walk.order.push(next);
            }
            seen += 1;
        }
        walk
    }

    pub fn above(&self) -> &[Option<usize>] {
        &self.above
    }

    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.above.len()];
        for (switch, above) in self.above.iter().enumerate() {
            above.iter().for_each(|&above| children[above].push(switch));
        }
        children
    }

    /// Returns the number of cables between each switch and the start.
    pub fn depth(&self) -> &[usize] {
        &self.depth
    }

    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Returns the switch farthest from the start; of several, the first.
    pub fn farthest(&self) -> usize {
        let ids = 0..self.depth.len();
        ids.reduce(|best, next| if self.depth[next] > self.depth[best] { next } else { best }).unwrap_or(0)
    }
}
