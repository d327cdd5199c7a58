//! Data structure of a network topology: hosts, switches and cables, with derived tables. A form
//! with ranks instead of names is enough for all ranks of a group to compute the same plan.

use super::nodeset;
use crate::duration;
use crate::names::HostNames;
use crate::units::{HIGHEST_RATE_BITS_PER_SECOND, LOWEST_RATE_BITS_PER_SECOND};
use std::collections::{BTreeMap, BTreeSet};

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
    cable_latencies: Vec<u64>,
    host_latencies: Vec<u64>,
    pairs: Pairs,
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
    pub latency_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CablePart {
    pub ends: (usize, usize),
    pub rate: Option<u64>,
    pub latency_ns: u64,
}

/// Latency of a pair of hosts that cannot talk directly.
#[doc(hidden)]
pub const NEVER: u64 = u64::MAX;

/// Latencies of single pairs, in nanoseconds, by the ids of hosts and of switches, the lower first.
/// A pair of switches stands for all pairs of a host on the one and a host on the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pairs {
    pub hosts: BTreeMap<(usize, usize), u64>,
    pub switches: BTreeMap<(usize, usize), u64>,
}

/// Pairs of equal latency: each of `ones` with each of `others`, all above them.
struct PairGroup {
    are_switches: bool,
    ones: Vec<usize>,
    others: Vec<usize>,
    latency_ns: u64,
}

impl Pairs {
    /// Returns the pairs in as few groups as equal rows make.
    fn groups(&self) -> Vec<PairGroup> {
        let mut groups = Vec::new();
        for (are_switches, pairs) in [(false, &self.hosts), (true, &self.switches)] {
            let mut rows: BTreeMap<(usize, u64), Vec<usize>> = BTreeMap::new();
            for (&(one, other), &latency_ns) in pairs {
                rows.entry((one, latency_ns)).or_default().push(other);
            }
            let mut alike: BTreeMap<(Vec<usize>, u64), Vec<usize>> = BTreeMap::new();
            for ((one, latency_ns), others) in rows {
                alike.entry((others, latency_ns)).or_default().push(one);
            }
            groups.extend(
                alike
                    .into_iter()
                    .map(|((others, latency_ns), ones)| PairGroup {
                        are_switches,
                        ones,
                        others,
                        latency_ns,
                    }),
            );
        }
        groups
    }
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
        pairs: Pairs,
    ) -> Self {
        cables.sort_unstable_by_key(|cable| cable.ends);
        blocked.sort_unstable();
        let mut hosts_on = vec![Vec::new(); switches.len()];
        hosts
            .iter()
            .enumerate()
            .for_each(|(id, host)| hosts_on[host.switch].push(id));
        let mut neighbours = vec![Vec::new(); switches.len()];
        for CablePart {
            ends: (low, high), ..
        } in &cables
        {
            neighbours[*low].push(*high);
            neighbours[*high].push(*low);
        }
        Self {
            host_names: HostNames::new(hosts.iter().map(|host| host.name.as_str())),
            switch_of: hosts.iter().map(|host| host.switch).collect(),
            host_rates: hosts.iter().map(|host| host.rate).collect(),
            host_injections: hosts.iter().map(|host| host.injection_ns).collect(),
            host_latencies: hosts.iter().map(|host| host.latency_ns).collect(),
            cable_latencies: cables.iter().map(|cable| cable.latency_ns).collect(),
            pairs,
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
        self.cable_rates[self.cable(one, other)?]
    }

    fn cable(&self, one: usize, other: usize) -> Option<usize> {
        self.cables
            .binary_search(&(one.min(other), one.max(other)))
            .ok()
    }

    /// Returns the latency of the cable between two switches beyond that of some metres, in
    /// nanoseconds; 0 if none is known.
    pub fn cable_latency_ns(&self, one: usize, other: usize) -> u64 {
        self.cable(one, other)
            .map_or(0, |cable| self.cable_latencies[cable])
    }

    /// Returns the latency of a host's cable beyond that of some metres, in nanoseconds; 0 if none
    /// is known.
    ///
    /// # Panics
    /// If `host` is no host id.
    pub fn host_latency_ns(&self, host: usize) -> u64 {
        self.host_latencies[host]
    }

    /// Returns the latency of a pair of hosts beyond that of the cables between them, in
    /// nanoseconds; `u64::MAX` if they cannot talk directly.
    ///
    /// # Panics
    /// If one is no host id.
    pub fn pair_latency_ns(&self, one: usize, other: usize) -> u64 {
        let ordered = |one: usize, other: usize| (one.min(other), one.max(other));
        let Pairs { hosts, switches } = &self.pairs;
        let of_hosts = hosts.get(&ordered(one, other));
        let of_switches = || switches.get(&ordered(self.switch_of[one], self.switch_of[other]));
        of_hosts.or_else(of_switches).copied().unwrap_or(0)
    }

    /// Whether two hosts can talk directly (Mateescu and Taylor §3: an edge of the graph).
    ///
    /// # Panics
    /// If one is no host id.
    pub fn can_talk(&self, one: usize, other: usize) -> bool {
        self.pair_latency_ns(one, other) != NEVER
    }

    /// Whether each host can talk to each other one.
    pub fn is_complete(&self) -> bool {
        let Pairs { hosts, switches } = &self.pairs;
        !hosts
            .values()
            .chain(switches.values())
            .any(|&latency_ns| latency_ns == NEVER)
    }

    /// Returns two of these hosts that cannot talk directly, if there are some.
    ///
    /// # Panics
    /// If one is no host id.
    pub fn silent_pair(&self, hosts: &[usize]) -> Option<[usize; 2]> {
        let on_switch = |&host: &usize| (self.switch_of[host], host);
        let by_switch: BTreeMap<usize, usize> = hosts.iter().rev().map(on_switch).collect();
        let all: BTreeSet<usize> = hosts.iter().copied().collect();
        fn never(pairs: &BTreeMap<(usize, usize), u64>) -> impl Iterator<Item = (usize, usize)> {
            let pairs = pairs.iter().filter(|pair| *pair.1 == NEVER);
            pairs.map(|(&ends, _)| ends)
        }
        let mut of_hosts = never(&self.pairs.hosts);
        let both = |(one, other): &(usize, usize)| all.contains(one) && all.contains(other);
        let found = of_hosts.find(both).map(<[usize; 2]>::from);
        // The pair of switches stands for each pair of their hosts.
        found.or_else(|| {
            let mut of_switches = never(&self.pairs.switches);
            let host = |switch: usize| by_switch.get(&switch).copied();
            of_switches.find_map(|(one, other)| Some([host(one)?, host(other)?]))
        })
    }

    /// Whether cables or pairs have a latency of their own.
    pub fn has_latencies(&self) -> bool {
        let cables = self.cable_latencies.iter().chain(&self.host_latencies);
        cables.copied().any(|latency_ns| latency_ns > 0)
            || !(self.pairs.hosts.is_empty() && self.pairs.switches.is_empty())
    }

    /// Returns the latency that the cables of two hosts, and the pair, add to that of usual cables,
    /// in nanoseconds, if those between their switches add `between_ns`.
    pub(crate) fn added_ns(&self, one: usize, other: usize, between_ns: u64) -> u64 {
        (self.host_latencies[one] + self.host_latencies[other] + between_ns)
            .saturating_add(self.pair_latency_ns(one, other))
    }

    /// Returns the names at both ends of a group as node sets.
    fn ends_of(&self, group: &PairGroup) -> [String; 2] {
        let names = if group.are_switches {
            &self.switches
        } else {
            &self.hosts
        };
        let name = |&id: &usize| &names[id];
        [&group.ones, &group.others]
            .map(|ids| nodeset::fold(&ids.iter().map(name).collect::<Vec<&String>>()))
    }

    /// Describes the pairs with a latency of their own, and those that cannot talk directly, a
    /// line each.
    pub fn pair_lines(&self) -> Vec<String> {
        let line = |group: PairGroup| {
            let [ones, others] = self.ends_of(&group);
            match group.latency_ns {
                NEVER => format!("{ones} and {others} cannot talk directly"),
                nanoseconds => {
                    let latency = duration(nanoseconds as f64 / 1e9);
                    format!("{ones} and {others}: {latency} more")
                }
            }
        };
        self.pairs.groups().into_iter().map(line).collect()
    }

    /// Returns the pairs as tables of a topology file.
    pub(super) fn pair_tables(&self) -> String {
        let table = |group: PairGroup| {
            let [ones, others] = self.ends_of(&group);
            let key = if group.are_switches {
                "switches"
            } else {
                "hosts"
            };
            let weight = match group.latency_ns {
                NEVER => "talk = false".to_owned(),
                latency_ns => format!("latency_ns = {latency_ns}"),
            };
            format!("\n[[pair]]\n{key} = [\"{ones}\", \"{others}\"]\n{weight}\n")
        };
        self.pairs.groups().into_iter().map(table).collect()
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
        let mut walk = Self {
            above: vec![None; switches],
            depth: vec![0; switches],
            order: vec![start],
        };
        let mut seen = 0;
        while let Some(&switch) = walk.order.get(seen) {
            let above = walk.above[switch];
            for &next in topology
                .neighbours(switch)
                .iter()
                .filter(|&&next| above != Some(next))
            {
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

    /// Returns the latency that the cables between the start and each switch add, in nanoseconds.
    pub fn latencies(&self, topology: &Topology) -> Vec<u64> {
        let mut latencies = vec![0; self.above.len()];
        for &switch in &self.order {
            if let Some(above) = self.above[switch] {
                latencies[switch] = latencies[above] + topology.cable_latency_ns(above, switch);
            }
        }
        latencies
    }

    /// Returns the switch farthest from the start; of several, the first.
    pub fn farthest(&self) -> usize {
        let ids = 0..self.depth.len();
        ids.reduce(|best, next| {
            if self.depth[next] > self.depth[best] {
                next
            } else {
                best
            }
        })
        .unwrap_or(0)
    }
}

/// Cable from a switch to one with a lower number; its rate is in bits per second, if known.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uplink {
    pub to: usize,
    pub rate: Option<u64>,
}

/// Switch of a host, with the rate of its cable in bits per second, if known, and the time to send
/// a frame, if measured.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub switch: usize,
    pub rate: Option<u64>,
    pub injection_ns: Option<u64>,
}

impl Topology {
    /// Builds a topology of ranks, which are the host ids, at these places. Switch i + 1 has the
    /// uplink `uplinks[i]`. Returns `None` if a number names no switch, an uplink leads to no lower
    /// one, there is no rank, or a rate or time is out of range.
    pub fn of_places(uplinks: &[Uplink], places: &[Place]) -> Option<Self> {
        let is_rate = |rate: Option<u64>| {
            rate.is_none_or(|rate| {
                (LOWEST_RATE_BITS_PER_SECOND..=HIGHEST_RATE_BITS_PER_SECOND).contains(&rate)
            })
        };
        let climbs = uplinks
            .iter()
            .enumerate()
            .all(|(below, uplink)| uplink.to <= below && is_rate(uplink.rate));
        let hangs = |place: &Place| {
            place.switch <= uplinks.len()
                && is_rate(place.rate)
                && place.injection_ns.is_none_or(|time| time > 0)
        };
        if places.is_empty() || !climbs || !places.iter().all(hangs) {
            return None;
        }
        let host = |(
            rank,
            &Place {
                switch,
                rate,
                injection_ns,
            },
        ): (usize, &Place)| HostPart {
            name: format!("rank{rank}"),
            switch,
            rate,
            injection_ns,
            latency_ns: 0,
        };
        let cable = |(below, uplink): (usize, &Uplink)| CablePart {
            ends: (uplink.to, below + 1),
            rate: uplink.rate,
            latency_ns: 0,
        };
        let switches = (0..=uplinks.len())
            .map(|switch| format!("s{switch}"))
            .collect();
        let hosts = places.iter().enumerate().map(host).collect();
        Some(Self::new(
            switches,
            hosts,
            uplinks.iter().enumerate().map(cable).collect(),
            Vec::new(),
            Pairs::default(),
        ))
    }

    /// Returns the number of cables between a switch and each other one.
    ///
    /// # Panics
    /// If `switch` is no switch id.
    pub fn hops_from(&self, switch: usize) -> Vec<usize> {
        Walk::from(self, switch).depth().to_vec()
    }

    /// Returns the places of the hosts `members`, rank `r` being `members[r]`: the switches on the
    /// paths between them, numbered from the first rank's on, depth first. Two topologies give
    /// equal results if these hosts hang alike in both, whatever the switches' names and order and
    /// the other hosts.
    ///
    /// # Panics
    /// If there is no member, or one is no host id.
    pub fn places_of(&self, members: &[usize]) -> (Vec<Uplink>, Vec<Place>) {
        let walk = Walk::from(self, self.switch_of(members[0]));
        let lowest = self.lowest_ranks(&walk, members);
        let (mut numbers, mut uplinks) = (vec![None; self.switches().len()], Vec::new());
        let mut open = vec![(self.switch_of(members[0]), None)];
        while let Some((switch, above)) = open.pop() {
            let number = usize::from(above.is_some()) + uplinks.len();
            numbers[switch] = Some(number);
            if let Some((above, to)) = above {
                uplinks.push(Uplink {
                    to,
                    rate: self.cable_rate(above, switch),
                });
            }
            let below = self
                .neighbours(switch)
                .iter()
                .filter(|&&next| walk.above()[next] == Some(switch));
            let mut below: Vec<usize> = below
                .copied()
                .filter(|&next| lowest[next].is_some())
                .collect();
            below.sort_by_key(|&next| std::cmp::Reverse(lowest[next]));
            open.extend(below.into_iter().map(|next| (next, Some((switch, number)))));
        }
        let place = |&host: &usize| Place {
            switch: numbers[self.switch_of(host)].expect("a switch with a member has a number"),
            rate: self.host_rate(host),
            injection_ns: self.injection_ns(host),
        };
        (uplinks, members.iter().map(place).collect())
    }

    fn lowest_ranks(&self, walk: &Walk, members: &[usize]) -> Vec<Option<usize>> {
        let mut lowest: Vec<Option<usize>> = vec![None; self.switches().len()];
        for (rank, &host) in members.iter().enumerate() {
            lowest[self.switch_of(host)].get_or_insert(rank);
        }
        for &switch in walk.order().iter().rev() {
            if let Some(above) = walk.above()[switch] {
                lowest[above] = [lowest[above], lowest[switch]].into_iter().flatten().min();
            }
        }
        lowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::arbitrary::topology as topologies;
    use proptest::prelude::*;

    fn parse(text: &str) -> Topology {
        Topology::parse(&format!("schema = 1\nswitch = [{text}]"), "t").expect("a topology")
    }

    #[test]
    fn switches_that_are_not_between_members_names_and_order_do_not_matter() {
        let one = parse(
            "{name='a', hosts='n[0,2]', links=['b', 'd']}, {name='b', links=['c']}, {name='c', hosts='n1'}, \
             {name='d', hosts='m0'}",
        );
        let other = parse(
            "{name='z', hosts='n1', links=['y']}, {name='y', links=['x']}, {name='x', hosts='n[0,2,5]'}",
        );
        let members = |topology: &Topology| {
            ["n0", "n1", "n2"].map(|name| topology.host_named(name).expect(name))
        };
        let (uplinks, places) = one.places_of(&members(&one));
        assert_eq!(
            (uplinks.clone(), places.clone()),
            other.places_of(&members(&other))
        );
        assert_eq!(
            uplinks.iter().map(|uplink| uplink.to).collect::<Vec<_>>(),
            [0, 1]
        );
        assert_eq!(
            places.iter().map(|place| place.switch).collect::<Vec<_>>(),
            [0, 2, 0]
        );
    }

    #[test]
    fn received_ranks_that_are_no_tree_or_out_of_range_are_refused() {
        let place = Place {
            switch: 1,
            rate: None,
            injection_ns: None,
        };
        let link = Uplink { to: 0, rate: None };
        assert!(Topology::of_places(&[link], &[place]).is_some());
        let refused = |uplinks: &[Uplink], places: &[Place]| {
            assert_eq!(Topology::of_places(uplinks, places), None)
        };
        refused(&[], &[place]);
        refused(&[link], &[]);
        refused(&[Uplink { to: 1, ..link }], &[place]);
        refused(
            &[Uplink {
                rate: Some(1),
                ..link
            }],
            &[place],
        );
        refused(
            &[link],
            &[Place {
                rate: Some(0),
                ..place
            }],
        );
        refused(
            &[link],
            &[Place {
                injection_ns: Some(0),
                ..place
            }],
        );
    }

    proptest! {
        #[test]
        fn all_members_of_any_topology_read_back_equal(topology in topologies(12, 40)) {
            let members: Vec<usize> = (0..topology.hosts().len()).collect();
            let (uplinks, places) = topology.places_of(&members);
            let read = Topology::of_places(&uplinks, &places).expect("sound");
            prop_assert_eq!(read.places_of(&members), (uplinks, places));
            for &host in &members {
                let walks = [&topology, &read].map(|topology| Walk::from(topology, topology.switch_of(host)));
                for &other in &members {
                    let hops = |which: usize, topology: &Topology| walks[which].depth()[topology.switch_of(other)];
                    prop_assert_eq!(hops(0, &topology), hops(1, &read));
                }
            }
        }
    }
}
