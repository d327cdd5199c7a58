//! Network topology from LLDP: the outputs of `lldpcli -f json0 show neighbors`, one file per host.
//!
//! A switch announces itself on every port (IEEE 802.1AB), so each host receives the frames of its
//! own switch. Hosts do not see the cables between switches; the outputs of the switches
//! themselves, if available, contain them. Without those, the switches are joined by an additional
//! one, named `core`, and a note says so.
//!
//! Several cables between two machines are an aggregation, which is one cable of the summed rate,
//! or cables of which the spanning tree leaves one.

#[cfg(feature = "lldp")]
mod neighbour;

pub use super::LldpProblem;
use super::build::{self, Draft, DraftHost, DraftLink, Loops};
use super::tree::Imported;
use super::{TopologyError, TopologyProblem};
use crate::names::HostNames;
use crate::{format_rate, natural_order};
use std::collections::{BTreeMap, BTreeSet};

/// One output of `lldpcli -f json0 show neighbors`, with the name of the host or switch whose
/// neighbours these are, and that of the file in errors, usually its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LldpFile {
    pub name: String,
    pub source_name: String,
    pub text: String,
}

impl LldpFile {
    /// Returns the host whose output a file of this name is: the name without a usual file
    /// extension. Other last parts are kept, because `n1.cluster.example` is a whole name.
    pub fn name_of(file_name: &str) -> &str {
        let endings = [".json0", ".json", ".lldp", ".txt", ".out", ".log"];
        endings
            .iter()
            .find_map(|ending| file_name.strip_suffix(ending))
            .unwrap_or(file_name)
    }
}

/// Makes a topology from the outputs of all hosts and any number of switches. `source_name`,
/// usually the folder, stands in errors that concern no single file.
///
/// A neighbour is identified by its chassis name, or by its chassis id if a topology cannot carry
/// that name. Neighbours that are hosts are ignored. If `interface` is given, hosts' other
/// interfaces are ignored, too, for hosts on a second network. Cables have the rates of the ports
/// at their ends; cables of one aggregation add up. Cables that close a loop are assumed to be
/// blocked by the spanning tree, and a note names them.
///
/// # Errors
/// [`TopologyError`] if a file is no such output, a host sees no switch or several, the ends of a
/// cable report different rates, or the switches are not all connected.
pub fn read(
    files: &[LldpFile],
    interface: Option<&str>,
    source_name: &str,
) -> Result<Imported, TopologyError> {
    let neighbourhood = Neighbourhood::read(files, source_name)?;
    let (draft, notes) = neighbourhood.draft(interface)?;
    let topology = build::build(draft).map_err(|error| in_words_of_lldp(error, source_name))?;
    let notes = notes
        .into_iter()
        .chain(build::note(&topology))
        .map(|note| format!("{source_name}: {note}"))
        .collect();
    Ok(Imported { topology, notes })
}

/// Replaces advice for topology files, which can be edited, by advice for LLDP.
fn in_words_of_lldp(error: TopologyError, source_name: &str) -> TopologyError {
    let problem = match *error.problem {
        TopologyProblem::Disconnected { first, islands } => {
            LldpProblem::Islands { first, islands }.into()
        }
        other => other,
    };
    TopologyError::nowhere(problem).named(source_name)
}

#[cfg(not(feature = "lldp"))]
mod neighbour {
    pub(super) fn read(_: &str) -> Result<Vec<super::Neighbour>, (usize, String)> {
        Err((
            1,
            "this program is built without the feature `lldp`".to_owned(),
        ))
    }
}

/// Name of the switch that is assumed to join the others.
const CORE: &str = "core";

struct Device {
    source_name: String,
    neighbours: Vec<Neighbour>,
}

type Ends<'a> = (&'a str, &'a str);

struct Place<'a> {
    switch: &'a str,
    rate: Option<u64>,
}

struct Neighbourhood<'a> {
    folder: &'a str,
    devices: BTreeMap<String, Device>,
    switches: BTreeSet<String>,
}

impl<'a> Neighbourhood<'a> {
    pub fn read(files: &[LldpFile], folder: &'a str) -> Result<Self, TopologyError> {
        let mut devices = BTreeMap::new();
        for file in files {
            let refuse = |line, problem| TopologyError::at(line, problem).named(&file.source_name);
            let neighbours = neighbour::read(&file.text)
                .map_err(|(line, text)| refuse(Some(line), LldpProblem::Json(text)))?;
            let device = Device {
                source_name: file.source_name.clone(),
                neighbours,
            };
            if devices.insert(file.name.clone(), device).is_some() {
                return Err(refuse(None, LldpProblem::FileTwice(file.name.clone())));
            }
        }
        if devices.is_empty() {
            return Err(TopologyError::nowhere(LldpProblem::NoFile).named(folder));
        }
        use_names_of_files(&mut devices);
        let switches = find_switches(&devices);
        Ok(Self {
            folder,
            devices,
            switches,
        })
    }

    pub fn draft(&self, interface: Option<&str>) -> Result<(Draft, Vec<String>), TopologyError> {
        let places = self.places(interface)?;
        let heard_cables = self.cables()?;
        let mut cables: BTreeSet<Ends> = heard_cables.keys().copied().collect();
        let mut names: BTreeSet<&str> = places.values().map(|place| place.switch).collect();
        names.extend(cables.iter().flat_map(|&(low, high)| [low, high]));
        let mut notes = Vec::new();
        let pruned = prune(&mut names, &mut cables, &places);
        if !pruned.is_empty() {
            notes.push(format!(
                "left out {}: no host is behind any of them",
                sorted(pruned).join(", ")
            ));
        }
        let core = (cables.is_empty() && names.len() > 1).then(|| free_name(&names));
        if let Some(core) = &core {
            notes.push(format!(
                "nothing says what joins the {} switches; a switch {core} between them is assumed",
                names.len()
            ));
            cables.extend(names.iter().map(|&name| (core.as_str(), name)));
            names.insert(core);
        }
        let mut draft = assemble(sorted(names), &cables, &heard_cables, &places);
        for switch in &mut draft.switches {
            switch.address = self
                .received()
                .find(|(_, heard)| heard.name == switch.name)
                .and_then(|(_, heard)| heard.address);
        }
        Ok((draft, notes))
    }

    fn received(&self) -> impl Iterator<Item = (&str, &Neighbour)> {
        self.devices.iter().flat_map(|(name, device)| {
            device
                .neighbours
                .iter()
                .map(move |heard| (name.as_str(), heard))
        })
    }

    fn places(&self, interface: Option<&str>) -> Result<BTreeMap<&str, Place<'_>>, TopologyError> {
        let mut places = BTreeMap::new();
        let mut deaf = Vec::new();
        for (name, device) in self
            .devices
            .iter()
            .filter(|(name, _)| !self.switches.contains(*name))
        {
            let wanted =
                |heard: &&Neighbour| interface.is_none_or(|interface| heard.interface == interface);
            let switches: Vec<&Neighbour> = device
                .neighbours
                .iter()
                .filter(wanted)
                .filter(|heard| self.switches.contains(&heard.name))
                .collect();
            let Some(&first) = switches.first() else {
                deaf.push(name.clone());
                continue;
            };
            if let Some(second) = switches.iter().find(|second| second.name != first.name) {
                let told = |heard: &Neighbour| (heard.name.clone(), heard.interface.clone());
                let problem = LldpProblem::SeveralSwitches {
                    first: told(first),
                    second: told(second),
                };
                return Err(TopologyError::nowhere(problem).named(&device.source_name));
            }
            let rate = Bundle::of(switches.iter().copied()).rate();
            places.insert(
                name.as_str(),
                Place {
                    switch: first.name.as_str(),
                    rate,
                },
            );
        }
        deaf.sort_by(|left, right| natural_order(left, right));
        let problem = match (deaf.is_empty(), places.is_empty()) {
            (false, _) => LldpProblem::NoSwitch {
                hosts: deaf,
                interface: interface.map(str::to_string),
            },
            (true, true) => LldpProblem::NoHost,
            (true, false) => return Ok(places),
        };
        Err(TopologyError::nowhere(problem).named(self.folder))
    }

    /// Returns the cables between switches and their rates, from the switches' own outputs. Several
    /// cables between two switches count as one, and so does one reported from both ends.
    fn cables(&self) -> Result<BTreeMap<Ends<'_>, Option<u64>>, TopologyError> {
        let mut bundles: BTreeMap<Ends, Bundle> = BTreeMap::new();
        for (near, device) in self
            .devices
            .iter()
            .filter(|(name, _)| self.switches.contains(*name))
        {
            let between =
                |heard: &&Neighbour| heard.name != *near && self.switches.contains(&heard.name);
            let mut by_far: BTreeMap<&str, Vec<&Neighbour>> = BTreeMap::new();
            device
                .neighbours
                .iter()
                .filter(between)
                .for_each(|heard| by_far.entry(&heard.name).or_default().push(heard));
            for (far, heard) in by_far {
                let bundle = Bundle::of(heard.into_iter());
                let ends = (near.as_str().min(far), near.as_str().max(far));
                let known = *bundles.entry(ends).or_insert(bundle);
                let both = known
                    .seen_from_both_ends(bundle)
                    .map_err(|(before, rate)| {
                        let problem = LldpProblem::RateTwice {
                            near: near.clone(),
                            far: far.to_owned(),
                            before,
                            rate,
                        };
                        TopologyError::nowhere(problem).named(&device.source_name)
                    })?;
                bundles.insert(ends, both);
            }
        }
        Ok(bundles
            .into_iter()
            .map(|(ends, bundle)| (ends, bundle.rate()))
            .collect())
    }
}

/// Renames devices after their files: a chassis announces its full name, and the file may have the
/// short form, or the other way round.
fn use_names_of_files(devices: &mut BTreeMap<String, Device>) {
    let known: Vec<String> = devices.keys().cloned().collect();
    let names = HostNames::new(known.iter().map(String::as_str));
    for heard in devices
        .values_mut()
        .flat_map(|device| &mut device.neighbours)
    {
        if let Some(index) = names.find(&heard.name) {
            heard.name.clone_from(&known[index]);
        }
    }
}

/// Returns the switches: devices that were seen and may be one. A host that runs containers claims
/// to be a bridge, too. Devices with a file count only if they have several neighbours, or if their
/// only neighbour must be a host.
fn find_switches(devices: &BTreeMap<String, Device>) -> BTreeSet<String> {
    let received = || {
        devices.iter().flat_map(|(name, device)| {
            device
                .neighbours
                .iter()
                .map(move |heard| (name.as_str(), heard))
        })
    };
    let candidates: BTreeSet<&str> = received()
        .filter(|(_, heard)| heard.may_switch)
        .map(|(_, heard)| heard.name.as_str())
        .collect();
    let mut partners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (near, far) in received()
        .map(|(near, heard)| (near, heard.name.as_str()))
        .filter(|(near, far)| near != far)
    {
        partners.entry(near).or_default().insert(far);
        partners.entry(far).or_default().insert(near);
    }
    let is_switch = |name: &&str| {
        let Some(partners) = partners.get(*name).filter(|_| devices.contains_key(*name)) else {
            return true;
        };
        partners.len() > 1 || partners.iter().all(|partner| !candidates.contains(partner))
    };
    candidates
        .iter()
        .copied()
        .filter(is_switch)
        .map(str::to_string)
        .collect()
}

/// Removes switches without hosts at the edge, repeatedly, and returns them: routers to elsewhere,
/// telephones.
fn prune<'a>(
    names: &mut BTreeSet<&'a str>,
    cables: &mut BTreeSet<(&'a str, &'a str)>,
    places: &BTreeMap<&str, Place>,
) -> Vec<&'a str> {
    let used: BTreeSet<&str> = places.values().map(|place| place.switch).collect();
    let mut pruned = Vec::new();
    loop {
        let degree = |name: &str| {
            cables
                .iter()
                .filter(|(low, high)| *low == name || *high == name)
                .count()
        };
        let Some(idle) = names
            .iter()
            .copied()
            .find(|name| !used.contains(name) && degree(name) <= 1)
        else {
            return pruned;
        };
        names.remove(idle);
        cables.retain(|(low, high)| *low != idle && *high != idle);
        pruned.push(idle);
    }
}

fn free_name(taken: &BTreeSet<&str>) -> String {
    let numbered = (1..).map(|number| format!("{CORE}{number}"));
    let mut names = std::iter::once(CORE.to_string()).chain(numbered);
    names
        .find(|name| !taken.contains(name.as_str()))
        .expect("there are more numbers than names")
}

fn sorted<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by(|left, right| natural_order(left, right));
    names
}

fn assemble(
    names: Vec<&str>,
    cables: &BTreeSet<Ends>,
    rates: &BTreeMap<Ends, Option<u64>>,
    places: &BTreeMap<&str, Place>,
) -> Draft {
    let ids: BTreeMap<&str, usize> = names
        .iter()
        .enumerate()
        .map(|(id, &name)| (name, id))
        .collect();
    let mut draft = Draft {
        loops: Loops::Blocked,
        ..Draft::default()
    };
    names
        .iter()
        .for_each(|name| _ = draft.add_switch(name.to_string(), None));
    for &(low, high) in cables {
        let rate = rates.get(&(low, high)).copied().flatten();
        draft.switches[ids[low]].links.push(DraftLink {
            rate,
            ..DraftLink::new(high.to_string(), None)
        });
    }
    let host = |(name, place): (&&str, &Place)| DraftHost {
        rate: place.rate,
        ..DraftHost::new(name.to_string(), ids[place.switch], None)
    };
    draft.hosts = places.iter().map(host).collect();
    draft.sort_hosts();
    draft
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Neighbour {
    pub interface: String,
    pub name: String,
    /// Whether it may be a switch: it forwards frames or packets, or does not announce its
    /// capabilities.
    pub may_switch: bool,
    pub address: Option<u64>,
    pub rate: Option<u64>,
    pub aggregation: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bundle {
    single: Option<u64>,
    aggregate: Option<u64>,
}

impl Bundle {
    pub fn of<'a>(cables: impl Iterator<Item = &'a Neighbour>) -> Self {
        let mut bundle = Self::default();
        let mut aggregates: BTreeMap<&str, u64> = BTreeMap::new();
        for cable in cables {
            bundle.single = bundle.single.max(cable.rate);
            if let (Some(id), Some(rate)) = (&cable.aggregation, cable.rate) {
                *aggregates.entry(id).or_default() += rate;
            }
        }
        bundle.aggregate = aggregates.into_values().max();
        bundle
    }

    /// Combines the reports of both ends. An aggregation at one end is one at the other, too,
    /// whether that end reports it or not.
    ///
    /// # Errors
    /// The two rates if the ends report different ones for their fastest cable.
    pub fn seen_from_both_ends(self, other: Self) -> Result<Self, (String, String)> {
        match (self.single, other.single) {
            (Some(one), Some(two)) if one != two => Err((format_rate(one), format_rate(two))),
            (one, two) => Ok(Self {
                single: one.or(two),
                aggregate: self.aggregate.max(other.aggregate),
            }),
        }
    }

    pub fn rate(self) -> Option<u64> {
        self.aggregate.max(self.single)
    }
}

#[cfg(test)]
mod tests;
