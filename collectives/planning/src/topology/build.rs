//! From a draft, which may say anything, to a [`Topology`], which is valid.

use super::error::{TopologyError, TopologyProblem};
use super::nodeset::{self, MAX_HOSTS, MAX_NAME_BYTES, is_name_character};
use super::tree::Topology;
use crate::natural_order;
use std::collections::{BTreeSet, HashMap, HashSet};

/// What a source said, before anybody checked it; every statement remembers its line.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub switches: Vec<DraftSwitch>,
    /// In the order of the ids they shall have.
    pub hosts: Vec<DraftHost>,
}

#[derive(Debug)]
pub(super) struct DraftSwitch {
    pub name: String,
    pub line: Option<usize>,
    pub links: Vec<DraftLink>,
}

#[derive(Debug)]
pub(super) struct DraftLink {
    pub to: String,
    pub line: Option<usize>,
}

#[derive(Debug)]
pub(super) struct DraftHost {
    pub name: String,
    pub switch: usize,
    pub line: Option<usize>,
}

impl Draft {
    pub fn add_switch(&mut self, name: String, line: Option<usize>) -> &mut DraftSwitch {
        self.switches.push(DraftSwitch { name, line, links: Vec::new() });
        self.switches.last_mut().expect("a switch was just pushed")
    }

    /// Adds the hosts of one node set, which stands in `line`, to the switch with the id `switch`, called `name`.
    pub fn add_hosts(
        &mut self,
        switch: usize,
        name: &str,
        set: &str,
        line: Option<usize>,
    ) -> Result<(), TopologyError> {
        let refuse = |error| TopologyError::at(line, TopologyProblem::Hosts { switch: name.to_string(), error });
        let hosts = nodeset::expand(set).map_err(refuse)?;
        if self.hosts.len() + hosts.len() > MAX_HOSTS {
            return Err(TopologyError::at(line, TopologyProblem::TooManyHosts));
        }
        self.hosts.extend(hosts.into_iter().map(|name| DraftHost { name, switch, line }));
        Ok(())
    }

    /// Gives hosts their ids by the natural order of their names. Stable: of a host named twice, the one further down
    /// in the source is the error.
    pub fn sort_hosts(&mut self) {
        self.hosts.sort_by(|left, right| natural_order(&left.name, &right.name));
    }
}

/// Checks a draft and derives the tables; the first problem found is the error, with its line but no source name.
pub(super) fn build(draft: Draft) -> Result<Topology, TopologyError> {
    let switch_ids = number_switches(&draft.switches)?;
    check_hosts(&draft)?;
    let cables = resolve_links(&draft.switches, &switch_ids)?;
    let switches: Vec<String> = draft.switches.into_iter().map(|switch| switch.name).collect();
    check_tree(&switches, &cables)?;
    let ends: BTreeSet<(usize, usize)> = cables.iter().map(|cable| cable.ends).collect();
    let hosts = draft.hosts.into_iter().map(|host| (host.name, host.switch)).collect();
    Ok(Topology::new(switches, hosts, ends.into_iter().collect()))
}

fn number_switches(switches: &[DraftSwitch]) -> Result<HashMap<String, usize>, TopologyError> {
    if switches.is_empty() {
        return Err(TopologyError::nowhere(TopologyProblem::NoSwitch));
    }
    let mut ids = HashMap::with_capacity(switches.len());
    for (id, switch) in switches.iter().enumerate() {
        check_name(&switch.name, switch.line)?;
        if ids.insert(switch.name.clone(), id).is_some() {
            return Err(TopologyError::at(switch.line, TopologyProblem::SwitchTwice(switch.name.clone())));
        }
    }
    Ok(ids)
}

fn check_hosts(draft: &Draft) -> Result<(), TopologyError> {
    if draft.hosts.is_empty() {
        return Err(TopologyError::nowhere(TopologyProblem::NoHost));
    }
    if draft.hosts.len() > MAX_HOSTS {
        return Err(TopologyError::nowhere(TopologyProblem::TooManyHosts));
    }
    let mut known = HashMap::with_capacity(draft.hosts.len());
    for host in &draft.hosts {
        check_name(&host.name, host.line)?;
        if let Some(earlier) = known.insert(&host.name, host.switch) {
            let switch = draft.switches[earlier].name.clone();
            return Err(TopologyError::at(host.line, TopologyProblem::HostTwice { host: host.name.clone(), switch }));
        }
    }
    Ok(())
}

fn check_name(name: &str, line: Option<usize>) -> Result<(), TopologyError> {
    if name.is_empty() {
        return Err(TopologyError::at(line, TopologyProblem::EmptyName));
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(TopologyError::at(line, TopologyProblem::NameTooLong(name.to_string())));
    }
    match name.chars().find(|&character| !is_name_character(character)) {
        Some(character) => {
            Err(TopologyError::at(line, TopologyProblem::NameCharacter { name: name.to_string(), character }))
        }
        None => Ok(()),
    }
}

/// A cable and the line that first named it.
struct DraftCable {
    /// Its switches, the lower id first.
    ends: (usize, usize),
    line: Option<usize>,
}

/// The cables in the order they are first named; one named from both its ends is one cable.
fn resolve_links(switches: &[DraftSwitch], ids: &HashMap<String, usize>) -> Result<Vec<DraftCable>, TopologyError> {
    let mut cables = Vec::new();
    let mut known = HashSet::new();
    for (id, switch) in switches.iter().enumerate() {
        let mut named_here = HashSet::new();
        for link in &switch.links {
            let refuse = |problem| Err(TopologyError::at(link.line, problem));
            let (from, to) = (switch.name.clone(), link.to.clone());
            let Some(&other) = ids.get(&link.to) else {
                let known = switches.iter().map(|switch| switch.name.clone()).collect();
                return refuse(TopologyProblem::UnknownLink { switch: from, link: to, known });
            };
            if other == id {
                return refuse(TopologyProblem::LinkToItself(from));
            }
            if !named_here.insert(other) {
                return refuse(TopologyProblem::LinkTwice { switch: from, link: to });
            }
            let ends = (id.min(other), id.max(other));
            if known.insert(ends) {
                cables.push(DraftCable { ends, line: link.line });
            }
        }
    }
    Ok(cables)
}

/// Lays the cables one by one, refuses the first that closes a loop, and then switches that are not joined to the
/// first.
fn check_tree(switches: &[String], cables: &[DraftCable]) -> Result<(), TopologyError> {
    let mut neighbours = vec![Vec::new(); switches.len()];
    let mut islands = Islands::new(switches.len());
    for &DraftCable { ends: (low, high), line } in cables {
        if !islands.unite(low, high) {
            let names = path(&neighbours, low, high).into_iter().map(|switch| switches[switch].clone()).collect();
            return Err(TopologyError::at(line, TopologyProblem::Loop(names)));
        }
        neighbours[low].push(high);
        neighbours[high].push(low);
    }
    let unreached = (1..switches.len()).filter(|&switch| islands.find(switch) != islands.find(0));
    let unreached: Vec<String> = unreached.map(|switch| switches[switch].clone()).collect();
    if unreached.is_empty() {
        return Ok(());
    }
    Err(TopologyError::nowhere(TopologyProblem::Disconnected { first: switches[0].clone(), islands: unreached }))
}

/// The switches from one to another along cables that exist; only called for two that are joined.
fn path(neighbours: &[Vec<usize>], from: usize, to: usize) -> Vec<usize> {
    let mut came_from = vec![None; neighbours.len()];
    let mut waiting = vec![to];
    while let Some(switch) = waiting.pop() {
        let above = came_from[switch];
        for &next in neighbours[switch].iter().filter(|&&next| above != Some(next)) {
            came_from[next] = Some(switch);
            waiting.push(next);
        }
    }
    std::iter::successors(Some(from), |&switch| came_from[switch]).collect()
}

/// Which switches are joined so far (union-find with path halving).
struct Islands(Vec<usize>);

impl Islands {
    fn new(switches: usize) -> Self {
        Self((0..switches).collect())
    }

    fn find(&mut self, mut switch: usize) -> usize {
        while self.0[switch] != switch {
            self.0[switch] = self.0[self.0[switch]];
            switch = self.0[switch];
        }
        switch
    }

    /// Joins two islands; `false` if they were one already.
    fn unite(&mut self, left: usize, right: usize) -> bool {
        let (left, right) = (self.find(left), self.find(right));
        self.0[left] = right;
        left != right
    }
}
