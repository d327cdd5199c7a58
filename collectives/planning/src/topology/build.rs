//! From a draft, which may say anything, to a [`Topology`], which is valid.

use super::nodeset::{MAX_HOSTS, MAX_NAME_BYTES, is_name_character};
use super::{Topology, TopologyError, TopologyProblem};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

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
}

/// Checks a draft and derives the tables; the first problem found is the error, with its line but no source name.
pub(super) fn build(draft: Draft) -> Result<Topology, TopologyError> {
    let switch_ids = number_switches(&draft.switches)?;
    let host_ids = number_hosts(&draft)?;
    let links = resolve_links(&draft.switches, &switch_ids)?;
    let switches: Vec<String> = draft.switches.into_iter().map(|switch| switch.name).collect();
    let neighbours = join(&switches, &links)?;
    refuse_islands(&switches, &neighbours)?;

    let mut hosts_on = vec![Vec::new(); switches.len()];
    for (id, host) in draft.hosts.iter().enumerate() {
        hosts_on[host.switch].push(id);
    }
    Ok(Topology {
        switch_of: draft.hosts.iter().map(|host| host.switch).collect(),
        hosts: draft.hosts.into_iter().map(|host| host.name).collect(),
        switches,
        cables: links.iter().map(|link| link.cable).collect::<BTreeSet<_>>().into_iter().collect(),
        hosts_on,
        neighbours: neighbours.into_iter().map(|set| set.into_iter().collect()).collect(),
        host_ids,
    })
}

fn number_switches(switches: &[DraftSwitch]) -> Result<HashMap<String, usize>, TopologyError> {
    if switches.is_empty() {
        return Err(refusal(None, TopologyProblem::NoSwitch));
    }
    let mut ids = HashMap::with_capacity(switches.len());
    for (id, switch) in switches.iter().enumerate() {
        check_name(&switch.name, switch.line)?;
        if ids.insert(switch.name.clone(), id).is_some() {
            return Err(refusal(switch.line, TopologyProblem::SwitchTwice(switch.name.clone())));
        }
    }
    Ok(ids)
}

fn number_hosts(draft: &Draft) -> Result<HashMap<String, usize>, TopologyError> {
    if draft.hosts.is_empty() {
        return Err(refusal(None, TopologyProblem::NoHost));
    }
    if draft.hosts.len() > MAX_HOSTS {
        return Err(refusal(None, TopologyProblem::TooManyHosts));
    }
    let mut ids = HashMap::with_capacity(draft.hosts.len());
    for (id, host) in draft.hosts.iter().enumerate() {
        check_name(&host.name, host.line)?;
        if let Some(earlier) = ids.insert(host.name.clone(), id) {
            let switch = draft.switches[draft.hosts[earlier].switch].name.clone();
            return Err(refusal(host.line, TopologyProblem::HostTwice { host: host.name.clone(), switch }));
        }
    }
    Ok(ids)
}

fn check_name(name: &str, line: Option<usize>) -> Result<(), TopologyError> {
    if name.is_empty() {
        return Err(refusal(line, TopologyProblem::EmptyName));
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(refusal(line, TopologyProblem::NameTooLong(name.to_string())));
    }
    match name.chars().find(|&character| !is_name_character(character)) {
        Some(character) => Err(refusal(line, TopologyProblem::NameCharacter { name: name.to_string(), character })),
        None => Ok(()),
    }
}

/// A cable, the lower switch id first, and the line that first named it.
struct Link {
    cable: (usize, usize),
    line: Option<usize>,
}

/// The cables in the order they are first named; one named from both its ends is one cable.
fn resolve_links(switches: &[DraftSwitch], ids: &HashMap<String, usize>) -> Result<Vec<Link>, TopologyError> {
    let mut links = Vec::new();
    let mut known = HashSet::new();
    for (id, switch) in switches.iter().enumerate() {
        let mut named_here = HashSet::new();
        for link in &switch.links {
            let refuse = |problem| Err(refusal(link.line, problem));
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
            let cable = (id.min(other), id.max(other));
            if known.insert(cable) {
                links.push(Link { cable, line: link.line });
            }
        }
    }
    Ok(links)
}

/// Lays the cables one by one and refuses the first that closes a loop.
fn join(switches: &[String], links: &[Link]) -> Result<Vec<BTreeSet<usize>>, TopologyError> {
    let mut neighbours = vec![BTreeSet::new(); switches.len()];
    let mut islands = Islands::new(switches.len());
    for &Link { cable: (low, high), line } in links {
        if !islands.unite(low, high) {
            let ring = path(&neighbours, low, high);
            let names = ring.into_iter().map(|switch| switches[switch].clone()).collect();
            return Err(refusal(line, TopologyProblem::Loop(names)));
        }
        neighbours[low].insert(high);
        neighbours[high].insert(low);
    }
    Ok(neighbours)
}

fn refuse_islands(switches: &[String], neighbours: &[BTreeSet<usize>]) -> Result<(), TopologyError> {
    let came_from = spread(neighbours, 0);
    let unreached = |switch: &usize| came_from[*switch].is_none();
    let islands: Vec<String> = (1..switches.len()).filter(unreached).map(|switch| switches[switch].clone()).collect();
    if islands.is_empty() {
        return Ok(());
    }
    Err(refusal(None, TopologyProblem::Disconnected { first: switches[0].clone(), islands }))
}

/// The switches from one to another along cables that exist; only called for two that are joined.
fn path(neighbours: &[BTreeSet<usize>], from: usize, to: usize) -> Vec<usize> {
    let came_from = spread(neighbours, to);
    let mut path = vec![from];
    let mut here = from;
    while let Some(next) = came_from[here].filter(|_| here != to) {
        path.push(next);
        here = next;
    }
    path
}

/// For each switch the one it was reached from, spreading from `start` (which was reached from itself).
fn spread(neighbours: &[BTreeSet<usize>], start: usize) -> Vec<Option<usize>> {
    let mut came_from = vec![None; neighbours.len()];
    came_from[start] = Some(start);
    let mut waiting = VecDeque::from([start]);
    while let Some(switch) = waiting.pop_front() {
        for &next in &neighbours[switch] {
            if came_from[next].is_none() {
                came_from[next] = Some(switch);
                waiting.push_back(next);
            }
        }
    }
    came_from
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

fn refusal(line: Option<usize>, problem: TopologyProblem) -> TopologyError {
    TopologyError { source_name: None, line, problem: Box::new(problem) }
}
