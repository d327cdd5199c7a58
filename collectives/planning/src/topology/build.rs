//! Validation of a network description: makes a [`Topology`] or names what is wrong.
//!
//! # Rings
//! Switches that are joined in rings keep the spanning tree that their own protocol builds (IEEE
//! 802.1D-2004 §17).
//!
//! The switch of the least identifier is the root. Every other one keeps the cable on its cheapest
//! path to the root; faster cables cost less. Of equally cheap paths it takes the one through the
//! neighbour of the least identifier. An identifier is a priority and an address. Priorities are
//! unknown here and rarely configured; names replace unknown addresses. Real switches may have
//! chosen otherwise, so the assumption is reported, and the topology file can be corrected.

use super::nodeset::{self, MAX_HOSTS, MAX_NAME_BYTES, is_name_character};
use super::tree::{CablePart, HostPart, Pairs, Topology};
use super::{TopologyError, TopologyProblem};
use crate::{format_rate, natural_order};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};

/// Checks a draft and derives the tables; the first problem found is the error, with its line but
/// no source name.
pub(super) fn build(draft: Draft) -> Result<Topology, TopologyError> {
    let switch_ids = number_switches(&draft.switches)?;
    check_hosts(&draft)?;
    let cables = resolve_links(&draft.switches, &switch_ids)?;
    let mut blocked = resolve_blocked(&draft.switches, &switch_ids, &cables)?;
    let carries = match draft.loops {
        Loops::Refused => {
            check_no_loop(&draft.switches, &cables).map(|()| vec![true; cables.len()])?
        }
        Loops::Blocked => carrying(&draft.switches, &cables),
    };
    check_no_island(&draft, &cables)?;
    let (kept, closing): (Vec<_>, Vec<_>) = cables
        .iter()
        .zip(carries)
        .partition(|(_, carries)| *carries);
    blocked.extend(closing.into_iter().map(|(cable, _)| cable.ends));
    let cables = kept
        .into_iter()
        .map(|(cable, _)| CablePart {
            ends: cable.ends,
            rate: cable.rate,
            latency_ns: cable.latency_ns.unwrap_or(0),
        })
        .collect();
    let switches = draft
        .switches
        .into_iter()
        .map(|switch| switch.name)
        .collect();
    let part = |DraftHost {
                    name,
                    switch,
                    rate,
                    injection_ns,
                    latency_ns,
                    ..
                }| HostPart {
        name,
        switch,
        rate,
        injection_ns,
        latency_ns,
    };
    Ok(Topology::new(
        switches,
        draft.hosts.into_iter().map(part).collect(),
        cables,
        blocked,
        draft.pairs,
    ))
}

fn number_switches(switches: &[DraftSwitch]) -> Result<HashMap<String, usize>, TopologyError> {
    if switches.is_empty() {
        return Err(TopologyError::nowhere(TopologyProblem::NoSwitch));
    }
    let mut ids = HashMap::with_capacity(switches.len());
    for (id, switch) in switches.iter().enumerate() {
        check_name(&switch.name, switch.line)?;
        if ids.insert(switch.name.clone(), id).is_some() {
            return Err(TopologyError::at(
                switch.line,
                TopologyProblem::SwitchTwice(switch.name.clone()),
            ));
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
            return Err(TopologyError::at(
                host.line,
                TopologyProblem::HostTwice {
                    host: host.name.clone(),
                    switch,
                },
            ));
        }
    }
    Ok(())
}

fn check_name(name: &str, line: Option<usize>) -> Result<(), TopologyError> {
    if name.is_empty() {
        return Err(TopologyError::at(line, TopologyProblem::EmptyName));
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(TopologyError::at(
            line,
            TopologyProblem::NameTooLong(name.to_string()),
        ));
    }
    match name
        .chars()
        .find(|&character| !is_name_character(character))
    {
        Some(character) => Err(TopologyError::at(
            line,
            TopologyProblem::NameCharacter {
                name: name.to_string(),
                character,
            },
        )),
        None => Ok(()),
    }
}

fn resolve_links(
    switches: &[DraftSwitch],
    ids: &HashMap<String, usize>,
) -> Result<Vec<DraftCable>, TopologyError> {
    let mut cables: Vec<DraftCable> = Vec::new();
    let mut known: HashMap<(usize, usize), usize> = HashMap::new();
    for (id, switch) in switches.iter().enumerate() {
        let mut named_here = HashSet::new();
        for link in &switch.links {
            let ends = resolve_link(switches, ids, id, link)?;
            let (from, to) = (switch.name.clone(), link.to.clone());
            if !named_here.insert(ends) {
                return Err(TopologyError::at(
                    link.line,
                    TopologyProblem::LinkTwice {
                        switch: from,
                        link: to,
                    },
                ));
            }
            let Some(&before) = known.get(&ends) else {
                known.insert(ends, cables.len());
                cables.push(DraftCable {
                    ends,
                    line: link.line,
                    rate: link.rate,
                    latency_ns: link.latency_ns,
                });
                continue;
            };
            match (cables[before].latency_ns, link.latency_ns) {
                (Some(before), Some(latency_ns)) if before != latency_ns => {
                    let problem = TopologyProblem::LatencyTwice {
                        switch: from,
                        link: to,
                        before,
                        latency_ns,
                    };
                    return Err(TopologyError::at(link.line, problem));
                }
                (earlier, latency_ns) => cables[before].latency_ns = earlier.or(latency_ns),
            }
            match (cables[before].rate, link.rate) {
                (Some(earlier), Some(rate)) if earlier != rate => {
                    let (before, rate) = (format_rate(earlier), format_rate(rate));
                    let problem = TopologyProblem::RateTwice {
                        switch: from,
                        link: to,
                        before,
                        rate,
                    };
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
        let problem = TopologyProblem::UnknownLink {
            switch: from,
            link: link.to.clone(),
            known,
        };
        return Err(TopologyError::at(link.line, problem));
    };
    if other == id {
        return Err(TopologyError::at(
            link.line,
            TopologyProblem::LinkToItself(from),
        ));
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
                return Err(TopologyError::at(
                    link.line,
                    TopologyProblem::BlockedLink {
                        switch,
                        link: link_to,
                    },
                ));
            }
            blocked.insert(ends);
        }
    }
    Ok(blocked.into_iter().collect())
}

fn check_no_loop(switches: &[DraftSwitch], cables: &[DraftCable]) -> Result<(), TopologyError> {
    let mut neighbours = vec![Vec::new(); switches.len()];
    let mut islands = Islands::new(switches.len());
    for &DraftCable {
        ends: (low, high),
        line,
        ..
    } in cables
    {
        if !islands.unite(low, high) {
            let names = path(&neighbours, low, high)
                .into_iter()
                .map(|switch| switches[switch].name.clone())
                .collect();
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
    cables
        .iter()
        .for_each(|cable| _ = islands.unite(cable.ends.0, cable.ends.1));
    let unreached: Vec<usize> = (1..switches.len())
        .filter(|&switch| islands.find(switch) != islands.find(0))
        .collect();
    let Some(&first) = unreached.first() else {
        return Ok(());
    };
    let populated: HashSet<usize> = draft.hosts.iter().map(|host| host.switch).collect();
    let blamed = unreached
        .iter()
        .copied()
        .find(|switch| populated.contains(switch))
        .unwrap_or(first);
    let islands = unreached
        .iter()
        .map(|&switch| switches[switch].name.clone())
        .collect();
    let problem = TopologyProblem::Disconnected {
        first: switches[0].name.clone(),
        islands,
    };
    Err(TopologyError::at(switches[blamed].line, problem))
}

fn path(neighbours: &[Vec<usize>], from: usize, to: usize) -> Vec<usize> {
    let mut came_from = vec![None; neighbours.len()];
    let mut waiting = vec![to];
    while let Some(switch) = waiting.pop() {
        let above = came_from[switch];
        for &next in neighbours[switch]
            .iter()
            .filter(|&&next| above != Some(next))
        {
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

#[derive(Debug, Default)]
pub(super) struct Draft {
    pub switches: Vec<DraftSwitch>,
    pub hosts: Vec<DraftHost>,
    pub loops: Loops,
    pub pairs: Pairs,
}

/// Whether loops are refused, because the author of the source can mark blocked cables, or assumed
/// to be broken by switches that block some of their cables (spanning tree).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Loops {
    #[default]
    Refused,
    Blocked,
}

#[derive(Debug)]
pub(super) struct DraftSwitch {
    pub name: String,
    pub line: Option<usize>,
    pub links: Vec<DraftLink>,
    pub blocked: Vec<DraftLink>,
    /// Address as a number, which decides the root of a spanning tree; if none is known, the name
    /// does.
    pub address: Option<u64>,
}

#[derive(Debug)]
pub(super) struct DraftLink {
    pub to: String,
    pub line: Option<usize>,
    pub rate: Option<u64>,
    pub latency_ns: Option<u64>,
}

#[derive(Debug)]
pub(super) struct DraftHost {
    pub name: String,
    pub switch: usize,
    pub line: Option<usize>,
    pub rate: Option<u64>,
    pub injection_ns: Option<u64>,
    pub latency_ns: u64,
}

impl DraftHost {
    pub fn new(name: String, switch: usize, line: Option<usize>) -> Self {
        Self {
            name,
            switch,
            line,
            rate: None,
            injection_ns: None,
            latency_ns: 0,
        }
    }
}

impl DraftLink {
    pub fn new(to: String, line: Option<usize>) -> Self {
        Self {
            to,
            line,
            rate: None,
            latency_ns: None,
        }
    }
}

impl Draft {
    pub fn add_switch(&mut self, name: String, line: Option<usize>) -> &mut DraftSwitch {
        self.switches.push(DraftSwitch {
            name,
            line,
            links: Vec::new(),
            blocked: Vec::new(),
            address: None,
        });
        self.switches.last_mut().expect("a switch was just pushed")
    }

    pub fn add_hosts(
        &mut self,
        switch: usize,
        name: &str,
        set: &str,
        line: Option<usize>,
    ) -> Result<(), TopologyError> {
        let refuse = |error| {
            TopologyError::at(
                line,
                TopologyProblem::Hosts {
                    switch: name.to_string(),
                    error,
                },
            )
        };
        let hosts = nodeset::expand(set).map_err(refuse)?;
        if self.hosts.len() + hosts.len() > MAX_HOSTS {
            return Err(TopologyError::at(line, TopologyProblem::TooManyHosts));
        }
        self.hosts.extend(
            hosts
                .into_iter()
                .map(|name| DraftHost::new(name, switch, line)),
        );
        Ok(())
    }

    /// Sorts hosts by the natural order of their names. The sort is stable: of a host named twice,
    /// the later one in the source is the error.
    pub fn sort_hosts(&mut self) {
        self.hosts
            .sort_by(|left, right| natural_order(&left.name, &right.name));
    }
}

pub(super) struct DraftCable {
    pub ends: (usize, usize),
    pub line: Option<usize>,
    pub rate: Option<u64>,
    pub latency_ns: Option<u64>,
}

/// Rate of a cable that costs 1 (IEEE 802.1D-2004, Table 17-3).
const COST_ONE_BITS_PER_SECOND: u64 = 20_000_000_000_000;
const MAX_COST: u64 = 200_000_000;
/// Rate assumed for a cable of unknown rate, in bits per second: the most common.
pub const ASSUMED_RATE_BITS_PER_SECOND: u64 = 1_000_000_000;

/// Returns for each cable whether it carries frames. Switches that are not connected to the root
/// have their own tree.
pub(super) fn carrying(switches: &[DraftSwitch], cables: &[DraftCable]) -> Vec<bool> {
    let identifiers = identifiers(switches);
    let mut ports = vec![Vec::new(); switches.len()];
    for (
        cable,
        &DraftCable {
            ends: (low, high),
            rate,
            ..
        },
    ) in cables.iter().enumerate()
    {
        ports[low].push((high, cable, cost(rate)));
        ports[high].push((low, cable, cost(rate)));
    }
    let mut by_identifier: Vec<usize> = (0..switches.len()).collect();
    by_identifier.sort_unstable_by_key(|&switch| identifiers[switch]);
    let mut carries = vec![false; cables.len()];
    let mut settled = vec![false; switches.len()];
    for root in by_identifier {
        // The cheapest offer first; of equal ones that of the least identifier, then of the first
        // cable.
        let mut offers = BinaryHeap::from([Reverse((0, 0, None, root))]);
        while let Some(Reverse((cost_here, _, cable, switch))) = offers.pop() {
            if std::mem::replace(&mut settled[switch], true) {
                continue;
            }
            cable
                .into_iter()
                .for_each(|cable: usize| carries[cable] = true);
            for &(next, cable, cost) in ports[switch].iter().filter(|port| !settled[port.0]) {
                offers.push(Reverse((
                    cost_here + cost,
                    identifiers[switch],
                    Some(cable),
                    next,
                )));
            }
        }
    }
    carries
}

fn identifiers(switches: &[DraftSwitch]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..switches.len()).collect();
    let address = |switch: usize| (switches[switch].address.is_none(), switches[switch].address);
    order.sort_by(|&left, &right| {
        let by_name = || natural_order(&switches[left].name, &switches[right].name);
        address(left).cmp(&address(right)).then_with(by_name)
    });
    let mut identifiers = vec![0; order.len()];
    order
        .into_iter()
        .enumerate()
        .for_each(|(place, switch)| identifiers[switch] = place);
    identifiers
}

fn cost(rate: Option<u64>) -> u64 {
    let rate = rate.unwrap_or(ASSUMED_RATE_BITS_PER_SECOND).max(1);
    (COST_ONE_BITS_PER_SECOND / rate).clamp(1, MAX_COST)
}

pub(super) fn note(topology: &Topology) -> Option<String> {
    let name = |&(low, high): &(usize, usize)| {
        format!("{}-{}", topology.switches()[low], topology.switches()[high])
    };
    let blocked: Vec<String> = topology.blocked().iter().map(name).collect();
    let all = topology.cables().len() + blocked.len();
    (!blocked.is_empty()).then(|| {
        format!(
            "the switches form loops: of {all} cables between them those of the spanning tree carry frames, and \
             blocked are {}; should your switches have chosen others, correct the file that `ethbcast topo import \
             --out` writes",
            nodeset::list(&blocked)
        )
    })
}

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
        draft.hosts = hosts
            .into_iter()
            .map(|name| DraftHost::new(name, 0, None))
            .collect();
        build(draft)
    }

    /// Returns each network of hosts on a switch of its own, all of them connected by one router.
    /// Host ids follow the given order; a network is any number.
    ///
    /// # Errors
    /// The errors of [`single_switch`](Topology::single_switch).
    pub fn behind_router(
        hosts: impl IntoIterator<Item = (String, u32)>,
    ) -> Result<Self, TopologyError> {
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
        build(draft)
    }

    /// A test bed of the papers, hosts `n0…`, switches `s0…`; `None` for a name not in
    /// [`BUILTIN_NAMES`].
    ///
    /// - `fig9-1`: 16 hosts on one switch;
    /// - `fig9-2`: 32 hosts, 16 on each of two switches;
    /// - `fig9-3`: 32 hosts, 8 on each of four switches, `s1`, `s2`, `s3` round `s0`;
    /// - `fig9-4`: 32 hosts, 8 on each of four switches in a row, filled switch by switch;
    /// - `fig9-5`: the same row, hosts dealt round robin, so that neighbours by number are never
    ///   neighbours by switch.
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

fn test_bed(
    switches: usize,
    cables: &[(usize, usize)],
    hosts: usize,
    switch_of: fn(usize) -> usize,
) -> Topology {
    let mut draft = Draft::default();
    for id in 0..switches {
        let links = cables.iter().filter(|cable| cable.0 == id);
        let links = links
            .map(|cable| DraftLink::new(format!("s{}", cable.1), None))
            .collect();
        draft.add_switch(format!("s{id}"), None).links = links;
    }
    draft.hosts = (0..hosts)
        .map(|id| DraftHost::new(format!("n{id}"), switch_of(id), None))
        .collect();
    build(draft).expect("every test bed is a tree with distinct names")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(name: &str, address: Option<u64>) -> DraftSwitch {
        DraftSwitch {
            name: name.to_owned(),
            line: None,
            links: Vec::new(),
            blocked: Vec::new(),
            address,
        }
    }

    fn kept(switches: &[DraftSwitch], cables: &[(usize, usize, Option<u64>)]) -> Vec<usize> {
        let cable = |&(low, high, rate): &(usize, usize, Option<u64>)| DraftCable {
            ends: (low, high),
            line: None,
            rate,
            latency_ns: None,
        };
        let cables: Vec<DraftCable> = cables.iter().map(cable).collect();
        let carries = carrying(switches, &cables);
        (0..cables.len()).filter(|&cable| carries[cable]).collect()
    }

    #[test]
    fn the_least_identifier_is_the_root_and_the_cheapest_way_there_is_kept() {
        let ring = [(0, 1, None), (1, 2, None), (0, 2, None)];
        let named = ["s2", "s1", "s10"].map(|name| switch(name, None));
        assert_eq!(kept(&named, &ring), [0, 1], "s1 is the root by name");
        let addressed =
            [("s2", 7), ("s1", 9), ("s10", 3)].map(|(name, address)| switch(name, Some(address)));
        assert_eq!(
            kept(&addressed, &ring),
            [1, 2],
            "s10 is the root by address"
        );
        let one_known = [
            switch("s2", None),
            switch("s1", None),
            switch("s10", Some(99)),
        ];
        assert_eq!(
            kept(&one_known, &ring),
            [1, 2],
            "who has an address has an identifier"
        );
    }

    #[test]
    fn fast_cables_are_cheap_and_equal_ways_go_through_the_least_neighbour() {
        let switches = ["a", "b", "c", "d"].map(|name| switch(name, None));
        // From a to c: directly at 100 Mbit/s, or through b at 10 Gbit/s each.
        let (slow, fast) = (Some(100_000_000), Some(10_000_000_000));
        assert_eq!(
            kept(&switches[..3], &[(0, 2, slow), (0, 1, fast), (1, 2, fast)]),
            [1, 2]
        );
        // Switch d reaches a through b or through c at equal cost.
        assert_eq!(
            kept(
                &switches,
                &[(2, 3, None), (1, 3, None), (0, 1, None), (0, 2, None)]
            ),
            [1, 2, 3]
        );
        assert_eq!(
            [
                Some(1_000_000_000),
                fast,
                Some(100_000_000_000_000),
                Some(1),
                None
            ]
            .map(cost),
            [20_000, 2_000, 1, MAX_COST, 20_000]
        );
    }

    #[test]
    fn islands_have_trees_of_their_own() {
        let switches = ["a", "b", "c", "d", "e"].map(|name| switch(name, None));
        assert_eq!(
            kept(
                &switches,
                &[(0, 1, None), (2, 3, None), (3, 4, None), (2, 4, None)]
            ),
            [0, 1, 3]
        );
    }

    #[test]
    fn networks_behind_a_router_are_switches_round_it() {
        let hosts = [("a", 7), ("b", 9), ("c", 7), ("d", 0)]
            .map(|(name, network)| (name.to_owned(), network));
        let topology = Topology::behind_router(hosts).expect("distinct names");
        assert_eq!(topology.hosts(), ["a", "b", "c", "d"]);
        let switches = [0, 1, 2, 3].map(|host| topology.switch_of(host));
        assert!(
            switches[0] == switches[2] && switches[0] != switches[1] && switches[3] != switches[1]
        );
        let router = topology
            .switches()
            .iter()
            .position(|name| name == "router")
            .expect("it is there");
        assert_eq!(
            (topology.neighbours(router).len(), topology.cables().len()),
            (3, 3)
        );
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
            let loads: Vec<usize> = (0..bed.switches().len())
                .map(|switch| bed.hosts_on(switch).count())
                .collect();
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
        let refusal = |hosts: &[&str]| {
            Topology::single_switch(names(hosts))
                .expect_err("refused")
                .to_string()
        };
        assert_eq!(
            refusal(&[]),
            "the topology names no host; give at least one switch a `hosts = \"n[0-7]\"`"
        );
        assert_eq!(
            refusal(&["a", "b", "a"]),
            "host `a` is on switch `s0` already; name every host once"
        );
        assert_eq!(
            refusal(&["a b"]),
            "the name `a b` may not contain ` `; use letters, digits and `-_.:`"
        );
        assert_eq!(
            refusal(&[""]),
            "a name is empty; use letters, digits and `-_.:`"
        );
        assert!(
            refusal(&["x".repeat(256).as_str()]).ends_with("is longer than 255 bytes; shorten it")
        );
    }
}
