//! `SLURM_TOPOLOGY_ADDR`: the path from the top switch to one host, such as `s0.s4.n3`.

use crate::natural_order;
use crate::topology::draft::{Draft, DraftHost, DraftLink, Loops};
use crate::topology::error::{SlurmProblem, TopologyError, TopologyProblem};
use crate::topology::nodeset::MAX_HOSTS;
use crate::topology::tree::Imported;
use crate::topology::{build, spanning};
use std::collections::{BTreeMap, HashMap};

/// Place of one host in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Address<'a> {
    /// Switches from the top down to the host's own; empty if Slurm has no topology.
    pub switches: Vec<&'a str>,
    /// Slurm's name of the host.
    pub host: &'a str,
}

impl<'a> Address<'a> {
    /// Reads `SLURM_TOPOLOGY_ADDR`, and `SLURM_TOPOLOGY_ADDR_PATTERN` if known. The pattern tells
    /// where the switches end if the host's name contains dots.
    ///
    /// # Errors
    /// [`SlurmProblem`] if the two do not match, or the path is not one of a tree.
    pub fn parse(address: &'a str, pattern: Option<&str>) -> Result<Self, SlurmProblem> {
        let depth = match pattern {
            Some(pattern) => depth_of(pattern).ok_or_else(|| SlurmProblem::Pattern(pattern.to_string()))?,
            None => address.matches('.').count(),
        };
        let mut parts: Vec<&str> = address.splitn(depth + 1, '.').collect();
        if parts.len() <= depth {
            let pattern = pattern.unwrap_or_default().to_string();
            return Err(SlurmProblem::ShortAddress { address: address.to_string(), pattern });
        }
        let host =
            parts.pop().filter(|host| !host.is_empty()).ok_or_else(|| SlurmProblem::NoHost(address.to_string()))?;
        // A level without a switch, above a leaf that hangs higher than others, is an empty part.
        parts.retain(|part| !part.is_empty());
        match parts.iter().find(|part| part.contains(['[', ','])) {
            Some(several) => Err(SlurmProblem::SeveralSwitches(several.to_string())),
            None => Ok(Self { switches: parts, host }),
        }
    }
}

fn depth_of(pattern: &str) -> Option<usize> {
    let (node, switches) = pattern.rsplit_once('.').map_or((pattern, None), |(switches, node)| (node, Some(switches)));
    let mut switches = switches.into_iter().flat_map(|switches| switches.split('.'));
    let depth = switches.clone().count();
    (node == "node" && switches.all(|switch| switch == "switch")).then_some(depth)
}

/// Makes a topology of the addresses of all hosts, one `ADDRESS [PATTERN]` per line, in any order;
/// `source_name` names the text in errors and notes.
///
/// Blank lines and text after a `#` are skipped. A host may repeat its line, once for each task on
/// it. If no address names a switch (Slurm knows no topology), all hosts are put on one switch and
/// a note says so.
///
/// # Errors
/// [`TopologyError`] with source and line, for invalid addresses, and if the switches are not all
/// connected.
pub fn from_topology_addrs(text: &str, source_name: &str) -> Result<Imported, TopologyError> {
    read(text, source_name).map_err(|error| error.named(source_name))
}

fn read(text: &str, source_name: &str) -> Result<Imported, TopologyError> {
    let lines =
        text.lines().enumerate().map(|(index, line)| (index + 1, line.split('#').next().unwrap_or_default().trim()));
    let mut paths = Vec::new();
    for (line, words) in lines.filter(|(_, words)| !words.is_empty()) {
        let address = read_line(words).map_err(|problem| TopologyError::at(line, problem))?;
        paths.push((line, address));
    }
    if paths.is_empty() {
        return Err(TopologyError::nowhere(SlurmProblem::NoAddress));
    }
    let flat = paths.iter().all(|(_, address)| address.switches.is_empty());
    let mut notes = Vec::new();
    if flat {
        notes.push(format!("{source_name}: the addresses name no switch; all hosts are taken to be on one, s0"));
        paths.iter_mut().for_each(|(_, address)| address.switches.push("s0"));
    }
    let topology = build::build(draft(&paths)?)?;
    notes.extend(spanning::note(&topology).map(|note| format!("{source_name}: {note}")));
    Ok(Imported { topology, notes })
}

fn read_line(words: &str) -> Result<Address<'_>, SlurmProblem> {
    let mut words = words.split_whitespace();
    let (address, pattern) = (words.next().unwrap_or_default(), words.next());
    match words.next() {
        Some(third) => Err(SlurmProblem::ThirdWord(third.to_string())),
        None => Address::parse(address, pattern),
    }
}

/// Builds the draft, with switches in natural order of their names: jobs print their lines in any
/// order, and the topology must not depend on it.
fn draft(paths: &[(usize, Address)]) -> Result<Draft, TopologyError> {
    let mut cables: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut first_lines: HashMap<&str, usize> = HashMap::new();
    for (line, address) in paths {
        address.switches.iter().for_each(|&switch| _ = first_lines.entry(switch).or_insert(*line));
        address.switches.windows(2).for_each(|pair| _ = cables.entry((pair[0], pair[1])).or_insert(*line));
    }
    let mut names: Vec<&str> = first_lines.keys().copied().collect();
    names.sort_by(|left, right| natural_order(left, right));
    let ids: HashMap<&str, usize> = names.iter().enumerate().map(|(id, &name)| (name, id)).collect();

    let mut draft = Draft { loops: Loops::Blocked, ..Draft::default() };
    for &name in &names {
        draft.add_switch(name.to_string(), first_lines.get(name).copied());
    }
    for ((upper, lower), line) in cables {
        draft.switches[ids[upper]].links.push(DraftLink::new(lower.to_string(), Some(line)));
    }
    add_hosts(&mut draft, paths, &ids)?;
    Ok(draft)
}

fn add_hosts(draft: &mut Draft, paths: &[(usize, Address)], ids: &HashMap<&str, usize>) -> Result<(), TopologyError> {
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (line, address) in paths {
        let Some(switch) = address.switches.last().map(|last| ids[last]) else {
            return Err(TopologyError::at(*line, SlurmProblem::NoSwitches(address.host.to_string())));
        };
        if known.insert(address.host, switch) != Some(switch) {
            draft.hosts.push(DraftHost::new(address.host.to_string(), switch, Some(*line)));
        }
        if draft.hosts.len() > MAX_HOSTS {
            return Err(TopologyError::at(*line, TopologyProblem::TooManyHosts));
        }
    }
    draft.sort_hosts();
    Ok(())
}
