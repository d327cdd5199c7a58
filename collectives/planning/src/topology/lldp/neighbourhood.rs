//! Derivation of hosts, switches and cables from all LLDP outputs.

use super::LldpFile;
use super::bundle::{Bundle, Neighbour};
use super::neighbour;
use crate::host_names::HostNames;
use crate::natural_order;
use crate::topology::draft::{Draft, DraftHost, DraftLink, Loops};
use crate::topology::error::{LldpProblem, TopologyError};
use std::collections::{BTreeMap, BTreeSet};

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

pub(super) struct Neighbourhood<'a> {
    folder: &'a str,
    devices: BTreeMap<String, Device>,
    switches: BTreeSet<String>,
}

impl<'a> Neighbourhood<'a> {
    pub fn read(files: &[LldpFile], folder: &'a str) -> Result<Self, TopologyError> {
        let mut devices = BTreeMap::new();
        for file in files {
            let refuse = |line, problem| TopologyError::at(line, problem).named(&file.source_name);
            let neighbours =
                neighbour::read(&file.text).map_err(|(line, text)| refuse(Some(line), LldpProblem::Json(text)))?;
            let device = Device { source_name: file.source_name.clone(), neighbours };
            if devices.insert(file.name.clone(), device).is_some() {
                return Err(refuse(None, LldpProblem::FileTwice(file.name.clone())));
            }
        }
        if devices.is_empty() {
            return Err(TopologyError::nowhere(LldpProblem::NoFile).named(folder));
        }
        use_names_of_files(&mut devices);
        let switches = find_switches(&devices);
        Ok(Self { folder, devices, switches })
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
            notes.push(format!("left out {}: no host is behind any of them", sorted(pruned).join(", ")));
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
            switch.address =
                self.heard().find(|(_, heard)| heard.name == switch.name).and_then(|(_, heard)| heard.address);
        }
        Ok((draft, notes))
    }

    fn heard(&self) -> impl Iterator<Item = (&str, &Neighbour)> {
        self.devices.iter().flat_map(|(name, device)| device.neighbours.iter().map(move |heard| (name.as_str(), heard)))
    }

    fn places(&self, interface: Option<&str>) -> Result<BTreeMap<&str, Place<'_>>, TopologyError> {
        let mut places = BTreeMap::new();
        let mut deaf = Vec::new();
        for (name, device) in self.devices.iter().filter(|(name, _)| !self.switches.contains(*name)) {
            let wanted = |heard: &&Neighbour| interface.is_none_or(|interface| heard.interface == interface);
            let switches: Vec<&Neighbour> =
                device.neighbours.iter().filter(wanted).filter(|heard| self.switches.contains(&heard.name)).collect();
            let Some(&first) = switches.first() else {
                deaf.push(name.clone());
                continue;
            };
            if let Some(second) = switches.iter().find(|second| second.name != first.name) {
                let told = |heard: &Neighbour| (heard.name.clone(), heard.interface.clone());
                let problem = LldpProblem::SeveralSwitches { first: told(first), second: told(second) };
                return Err(TopologyError::nowhere(problem).named(&device.source_name));
            }
            let rate = Bundle::of(switches.iter().copied()).rate();
            places.insert(name.as_str(), Place { switch: first.name.as_str(), rate });
        }
        deaf.sort_by(|left, right| natural_order(left, right));
        let problem = match (deaf.is_empty(), places.is_empty()) {
            (false, _) => LldpProblem::NoSwitch { hosts: deaf, interface: interface.map(str::to_string) },
            (true, true) => LldpProblem::NoHost,
            (true, false) => return Ok(places),
        };
        Err(TopologyError::nowhere(problem).named(self.folder))
    }

    /// Returns the cables between switches and their rates, from the switches' own outputs. Several
    /// cables between two switches count as one, and so does one reported from both ends.
    fn cables(&self) -> Result<BTreeMap<Ends<'_>, Option<u64>>, TopologyError> {
        let mut bundles: BTreeMap<Ends, Bundle> = BTreeMap::new();
        for (near, device) in self.devices.iter().filter(|(name, _)| self.switches.contains(*name)) {
            let between = |heard: &&Neighbour| heard.name != *near && self.switches.contains(&heard.name);
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
                let both = known.seen_from_both_ends(bundle).map_err(|(before, rate)| {
                    let problem = LldpProblem::RateTwice { near: near.clone(), far: far.to_owned(), before, rate };
                    TopologyError::nowhere(problem).named(&device.source_name)
                })?;
                bundles.insert(ends, both);
            }
        }
        Ok(bundles.into_iter().map(|(ends, bundle)| (ends, bundle.rate())).collect())
    }
}

/// Renames devices after their files: a chassis announces its full name, and the file may have the
/// short form, or the other way round.
fn use_names_of_files(devices: &mut BTreeMap<String, Device>) {
    let known: Vec<String> = devices.keys().cloned().collect();
    let names = HostNames::new(known.iter().map(String::as_str));
    for heard in devices.values_mut().flat_map(|device| &mut device.neighbours) {
        if let Some(index) = names.find(&heard.name) {
            heard.name.clone_from(&known[index]);
        }
    }
}

/// Returns the switches: devices that are heard and may be one. A host that runs containers claims
/// to be a bridge as well. Of devices with a file only those count that have several neighbours, or
/// whose only neighbour must be a host.
fn find_switches(devices: &BTreeMap<String, Device>) -> BTreeSet<String> {
    let heard =
        || devices.iter().flat_map(|(name, device)| device.neighbours.iter().map(move |heard| (name.as_str(), heard)));
    let candidates: BTreeSet<&str> =
        heard().filter(|(_, heard)| heard.may_switch).map(|(_, heard)| heard.name.as_str()).collect();
    let mut partners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (near, far) in heard().map(|(near, heard)| (near, heard.name.as_str())).filter(|(near, far)| near != far) {
        partners.entry(near).or_default().insert(far);
        partners.entry(far).or_default().insert(near);
    }
    let is_switch = |name: &&str| {
        let Some(partners) = partners.get(*name).filter(|_| devices.contains_key(*name)) else { return true };
        partners.len() > 1 || partners.iter().all(|partner| !candidates.contains(partner))
    };
    candidates.iter().copied().filter(is_switch).map(str::to_string).collect()
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
        let degree = |name: &str| cables.iter().filter(|(low, high)| *low == name || *high == name).count();
        let Some(idle) = names.iter().copied().find(|name| !used.contains(name) && degree(name) <= 1) else {
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
    names.find(|name| !taken.contains(name.as_str())).expect("there are more numbers than names")
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
    let ids: BTreeMap<&str, usize> = names.iter().enumerate().map(|(id, &name)| (name, id)).collect();
    let mut draft = Draft { loops: Loops::Blocked, ..Draft::default() };
    names.iter().for_each(|name| _ = draft.add_switch(name.to_string(), None));
    for &(low, high) in cables {
        let rate = rates.get(&(low, high)).copied().flatten();
        draft.switches[ids[low]].links.push(DraftLink { to: high.to_string(), line: None, rate });
    }
    let host = |(name, place): (&&str, &Place)| DraftHost {
        rate: place.rate,
        ..DraftHost::new(name.to_string(), ids[place.switch], None)
    };
    draft.hosts = places.iter().map(host).collect();
    draft.sort_hosts();
    draft
}
