//! Conversion of an unchecked draft to a valid [`Topology`].

use super::draft::{Draft, DraftCable, DraftHost, DraftLink, DraftSwitch, Loops};
use super::error::{TopologyError, TopologyProblem};
use super::nodeset::{MAX_HOSTS, MAX_NAME_BYTES, is_name_character};
use super::spanning;
use super::tree::{CablePart, HostPart, Topology};
use crate::format_rate;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Checks a draft and derives the tables; the first problem found is the error, with its line but
/// no source name.
pub(super) fn build(draft: Draft) -> Result<Topology, TopologyError> {
    let switch_ids = number_switches(&draft.switches)?;
    check_hosts(&draft)?;
    let cables = resolve_links(&draft.switches, &switch_ids)?;
    let mut blocked = resolve_blocked(&draft.switches, &switch_ids, &cables)?;
    let carries = match draft.loops {
        Loops::Refused => check_no_loop(&draft.switches, &cables).map(|()| vec![true; cables.len()])?,
        Loops::Blocked => spanning::carrying(&draft.switches, &cables),
    };
    check_no_island(&draft, &cables)?;
    let (kept, closing): (Vec<_>, Vec<_>) = cables.iter().zip(carries).partition(|(_, carries)| *carries);
    blocked.extend(closing.into_iter().map(|(cable, _)| cable.ends));
    let cables = kept.into_iter().map(|(&DraftCable { ends, rate, .. }, _)| CablePart { ends, rate }).collect();
    let switches = draft.switches.into_iter().map(|switch| switch.name).collect();
    let part = |DraftHost { name, switch, rate, injection_ns, .. }| HostPart { name, switch, rate, injection_ns };
    Ok(Topology::new(switches, draft.hosts.into_iter().map(part).collect(), cables, blocked))
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

fn resolve_links(switches: &[DraftSwitch], ids: &HashMap<String, usize>) -> Result<Vec<DraftCable>, TopologyError> {
    let mut cables: Vec<DraftCable> = Vec::new();
    let mut known: HashMap<(usize, usize), usize> = HashMap::new();
    for (id, switch) in switches.iter().enumerate() {
        let mut named_here = HashSet::new();
        for link in &switch.links {
            let ends = resolve_link(switches, ids, id, link)?;
            let (from, to) = (switch.name.clone(), link.to.clone());
            if !named_here.insert(ends) {
                return Err(TopologyError::at(link.line, TopologyProblem::LinkTwice { switch: from, link: to }));
            }
            let Some(&before) = known.get(&ends) else {
                known.insert(ends, cables.len());
                cables.push(DraftCable { ends, line: link.line, rate: link.rate });
                continue;
            };
            match (cables[before].rate, link.rate) {
                (Some(earlier), Some(rate)) if earlier != rate => {
                    let (before, rate) = (format_rate(earlier), format_rate(rate));
                    let problem = TopologyProblem::RateTwice { switch: from, link: to, before, rate };
                    return Err(TopologyError::at(link.line, problem));
                }
                (earlier, rate) => cables[before].rate = earlier.or(rate),
            }
        }
    }
    Ok(cables)
}

fn resolve_link(
    switches: &[DraftSwitch],
    ids: &HashMap<String, usize>,
    id: usize,
    link: &DraftLink,
) -> Result<(usize, usize), TopologyError> {
    let from = switches[id].name.clone();
    let Some(&other) = ids.get(&link.to) else {
        let known = switches.iter().map(|switch| switch.name.clone()).collect();
        let problem = TopologyProblem::UnknownLink { switch: from, link: link.to.clone(), known };
        return Err(TopologyError::at(link.line, problem));
    };
    if other == id {
        return Err(TopologyError::at(link.line, TopologyProblem::LinkToItself(from)));
    }
    Ok((id.min(other), id.max(other)))
}

fn resolve_blocked(
    switches: &[DraftSwitch],
    ids: &HashMap<String, usize>,
    cables: &[DraftCable],
) -> Result<Vec<(usize, usize)>, TopologyError> {
    let carrying: HashSet<(usize, usize)> = cables.iter().map(|cable| cable.ends).collect();
    let mut blocked = BTreeSet::new();
    for (id, switch) in switches.iter().enumerate() {
        for link in &switch.blocked {
            let ends = resolve_link(switches, ids, id, link)?;
            if carrying.contains(&ends) {
                let (switch, link_to) = (switch.name.clone(), link.to.clone());
                return Err(TopologyError::at(link.line, TopologyProblem::BlockedLink { switch, link: link_to }));
            }
            blocked.insert(ends);
        }
    }
    Ok(blocked.into_iter().collect())
}

fn check_no_loop(switches: &[DraftSwitch], cables: &[DraftCable]) -> Result<(), TopologyError> {
    let mut neighbours = vec![Vec::new(); switches.len()];
    let mut islands = Islands::new(switches.len());
    for &DraftCable { ends: (low, high), line, .. } in cables {
        if !islands.unite(low, high) {
            let names = path(&neighbours, low, high).into_iter().map(|switch| switches[switch].name.clone()).collect();
            return Err(TopologyError::at(line, TopologyProblem::Loop(names)));
        }
        neighbours[low].push(high);
        neighbours[high].push(low);
    }
    Ok(())
}

/// Refuses switches that are not connected to the first one, at the line of the first of them with
/// a host, or else of the first.
fn check_no_island(draft: &Draft, cables: &[DraftCable]) -> Result<(), TopologyError> {
    let switches = &draft.switches;
    let mut islands = Islands::new(switches.len());
    cables.iter().for_each(|cable| _ = islands.unite(cable.ends.0, cable.ends.1));
    let unreached: Vec<usize> = (1..switches.len()).filter(|&switch| islands.find(switch) != islands.find(0)).collect();
    let Some(&first) = unreached.first() else { return Ok(()) };
    let populated: HashSet<usize> = draft.hosts.iter().map(|host| host.switch).collect();
    let blamed = unreached.iter().copied().find(|switch| populated.contains(switch)).unwrap_or(first);
    let islands = unreached.iter().map(|&switch| switches[switch].name.clone()).collect();
    let problem = TopologyProblem::Disconnected { first: switches[0].name.clone(), islands };
    Err(TopologyError::at(switches[blamed].line, problem))
}

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

/// Connected components of switches (union-find with path halving).
pub(super) struct Islands(Vec<usize>);

impl Islands {
    pub fn new(switches: usize) -> Self {
        Self((0..switches).collect())
    }

    pub fn find(&mut self, mut switch: usize) -> usize {
        while self.0[switch] != switch {
            self.0[switch] = self.0[self.0[switch]];
            switch = self.0[switch];
        }
        switch
    }

    pub fn unite(&mut self, left: usize, right: usize) -> bool {
        let (left, right) = (self.find(left), self.find(right));
        self.0[left] = right;
        left != right
    }
}
