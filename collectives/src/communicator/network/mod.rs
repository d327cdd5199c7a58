//! Description of a communicator's network: switches, costs of frames, permitted broadcast
//! algorithms. All ranks have an equal one from the assembly, so that each derives equal trees.

mod codec;
mod spread;

pub(super) use codec::{read_costs, write_costs};
pub(super) use spread::{Spread, SpreadMessage, SpreadSource, contradiction};

use super::config::MAX_RANKS;
use crate::Route;
use crate::communicator::config::Config;
use crate::communicator::error::CommunicatorError;
use crate::communicator::roster::Nodes;
use codec::calibration_of;
use ethbcast_planning::model::{Calibration, HostCost};
use ethbcast_planning::plan::file::{Contention, SAVED_EPOCH, SavedPlan};
use ethbcast_planning::plan::{Plan, Via};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::MacAddr;
use std::collections::{HashMap, HashSet};
use std::fmt::Display;

/// Limit of an encoded description, in bytes: the largest group, with everything known of each
/// rank.
pub(super) const MAX_NETWORK_BYTES: usize = 256 << 10;
/// Limit of switches between ranks: no cluster has more.
const MAX_SWITCHES: usize = 4 * MAX_RANKS as usize;
/// Limit of ranks for block-wise routes, in which each block has its own stream.
const MAX_RANKS_IN_BLOCKS: u16 = 64;
/// Limit of ranks for plans whose computation takes quadratic time or longer.
const MAX_RANKS_OF_SLOW_PLANS: u16 = 1024;
/// Limit of ranks up to which both trees of each have a stream number.
const MAX_RANKS_OF_TWO_TREES: u16 = MAX_RANKS / 2;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Chosen {
    Auto,
    Via(Via),
    Saved(SavedTree),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct SavedTree {
    pub plan: Plan,
    pub segment_bytes: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Network {
    topology: Option<Topology>,
    calibration: Option<Calibration>,
    chosen: Chosen,
    casts: bool,
    probe: bool,
}

impl Network {
    pub(super) fn unknown() -> Network {
        Network {
            topology: None,
            calibration: None,
            chosen: Chosen::Auto,
            casts: true,
            probe: false,
        }
    }

    pub(super) fn topology(&self) -> Option<&Topology> {
        self.topology.as_ref()
    }

    pub(super) fn calibration(&self) -> Option<&Calibration> {
        self.calibration.as_ref()
    }

    pub(super) fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    pub(super) fn casts(&self) -> bool {
        self.casts
    }

    pub(super) fn is_to_be_measured(&self) -> bool {
        self.probe && self.calibration.is_none()
    }

    pub(super) fn bets_on_casts(&self) -> bool {
        self.casts && matches!(self.chosen, Chosen::Auto)
    }

    pub(super) fn is_known(&self) -> bool {
        self.topology.is_some() || self.calibration.is_some()
    }

    /// Returns what is known of the network between some of the ranks, which get new numbers in
    /// their order. `measured` are the costs that rank 0 has measured, if it was configured to. A
    /// saved plan applies to all ranks only, and is dropped.
    pub(super) fn among(&self, kept: &[usize], measured: Option<&Calibration>) -> Network {
        let topology = self.topology.as_ref().and_then(|topology| {
            let (uplinks, places) = topology.places_of(kept);
            Topology::of_places(&uplinks, &places)
        });
        let known = measured
            .filter(|_| self.is_to_be_measured())
            .or(self.calibration.as_ref());
        let calibration = known.and_then(|calibration| {
            let former = kept.iter().map(|&rank| rank_name(rank)).collect::<Vec<_>>();
            with_costs(calibration, former.iter().map(String::as_str))
        });
        let chosen = match &self.chosen {
            Chosen::Saved(_) => Chosen::Auto,
            chosen => chosen.clone(),
        };
        Network {
            topology,
            calibration,
            chosen,
            casts: self.casts,
            probe: false,
        }
    }
}

fn rank_name(rank: usize) -> String {
    format!("rank{rank}")
}

pub(super) fn most_ranks(via: Via) -> u16 {
    match via {
        Via::ScatterAllgather | Via::RecursiveDoubling => MAX_RANKS_IN_BLOCKS,
        Via::Latency | Via::BinaryBest => MAX_RANKS_OF_SLOW_PLANS,
        Via::TwoTree => MAX_RANKS_OF_TWO_TREES,
        Via::Chain | Via::Binary | Via::Kary(_) | Via::Cast => MAX_RANKS,
        Via::Flat | Via::Binomial | Via::ChainUnaware | Via::BinaryUnaware => MAX_RANKS,
    }
}

/// Describes the network of `hosts` (by rank). Fails if the configuration does not fit these hosts,
/// or contradicts itself.
pub(super) fn describe(config: &Config, hosts: &[&str]) -> Result<Network, CommunicatorError> {
    let places = config
        .topology
        .as_ref()
        .map(|topology| places(topology, hosts))
        .transpose()?;
    let calibration = config
        .calibration
        .as_ref()
        .map(|calibration| costs(calibration, config, hosts))
        .transpose()?;
    let chosen = match &config.route {
        Route::Auto => Chosen::Auto,
        Route::Via(via) => Chosen::Via(possible(*via, config.casts, hosts.len())?),
        Route::Saved(saved) => Chosen::Saved(tree(
            saved,
            config.topology.as_ref(),
            config.contention,
            hosts,
        )?),
    };
    let network = Network {
        topology: places,
        calibration,
        chosen,
        casts: config.casts,
        probe: config.probe,
    };
    if network.encode().len() > MAX_NETWORK_BYTES {
        return refuse(
            "the network description is too long for a group: leave out what is not needed",
        );
    }
    Ok(network)
}

fn refuse<T>(why: impl Display) -> Result<T, CommunicatorError> {
    Err(CommunicatorError::Network {
        why: why.to_string(),
    })
}

fn places(topology: &Topology, hosts: &[&str]) -> Result<Topology, CommunicatorError> {
    let (nodes, hosts) = (nodes(hosts), distinct(hosts));
    let mut members: Vec<usize> = Vec::with_capacity(hosts.len());
    for host in &hosts {
        let Some(member) = topology.host_named(host) else {
            return refuse(format!(
                "the topology names no host {host}, which is in this group: add it there, or join on it under the name \
                 that it has there (Options::host)"
            ));
        };
        if let Some(twin) = members.iter().position(|&other| other == member) {
            let (name, twin) = (&topology.hosts()[member], hosts[twin]);
            return refuse(format!(
                "{twin} and {host} are both {name} in the topology: join on each under the name that it has there \
                 (Options::host)"
            ));
        }
        members.push(member);
    }
    check_pairs(topology, &members)?;
    let (uplinks, places) = topology.places_of(&members);
    let switches = uplinks.len() + 1;
    match nodes.topology(uplinks, &places) {
        Some(topology) if topology.switches().len() <= MAX_SWITCHES => Ok(topology),
        _ => refuse(format!(
            "{switches} switches between the hosts of a group are too many"
        )),
    }
}

/// Refuses members that cannot talk directly: any two ranks may have something for each other.
fn check_pairs(topology: &Topology, members: &[usize]) -> Result<(), CommunicatorError> {
    let Some(pair) = topology.silent_pair(members) else {
        return Ok(());
    };
    let [one, other] = pair.map(|host| &topology.hosts()[host]);
    refuse(format!(
        "the topology says that {one} and {other} cannot talk directly, and in a group each rank talks to each \
         other: leave one of them out, or correct the topology file"
    ))
}

fn distinct<'a>(hosts: &[&'a str]) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    hosts
        .iter()
        .copied()
        .filter(|host| seen.insert(*host))
        .collect()
}

fn nodes(hosts: &[&str]) -> Nodes {
    let numbers: HashMap<&str, u32> = distinct(hosts).into_iter().zip(0..).collect();
    Nodes::new(hosts.iter().map(|host| {
        let [a, b, c, d] = numbers[host].to_be_bytes();
        MacAddr::new(2, 0, a, b, c, d)
    }))
}

fn costs(
    calibration: &Calibration,
    config: &Config,
    hosts: &[&str],
) -> Result<Calibration, CommunicatorError> {
    let here = |name: &str| match &config.topology {
        Some(topology) => topology.host_named(name).is_some(),
        None => hosts.iter().any(|host| short(host) == short(name)),
    };
    calibration.check_hosts(here).or_else(refuse)?;
    let most = usize::from(u8::MAX);
    match with_costs(calibration, hosts.iter().copied()) {
        Some(calibration) if calibration.points().len() <= most => Ok(calibration),
        _ => refuse(format!(
            "a calibration of more than {most} sizes is too much for a group: leave some out"
        )),
    }
}

fn with_costs<'a>(
    calibration: &Calibration,
    hosts: impl Iterator<Item = &'a str>,
) -> Option<Calibration> {
    let cost = |(rank, host): (usize, &str)| {
        Some(HostCost {
            name: rank_name(rank),
            injection_ns: calibration.injection_ns(host)?,
        })
    };
    let hosts = hosts.enumerate().filter_map(cost).collect();
    let (points, broadcast) = (calibration.points().to_vec(), calibration.broadcast());
    let told = calibration_of(points, calibration.loss(), broadcast, hosts)?;
    let told = told.with_burst_ns(calibration.burst_ns()).ok()?;
    match calibration.processing() {
        Some(&processing) => told.with_processing(processing).ok(),
        None => Some(told),
    }
}

fn short(name: &str) -> &str {
    name.split_once('.').map_or(name, |(host, _)| host)
}

fn possible(via: Via, casts: bool, ranks: usize) -> Result<Via, CommunicatorError> {
    if via == Via::Cast && !casts {
        return refuse(
            "casts are not allowed, and cast is the configured way: choose one of the two",
        );
    }
    let most = most_ranks(via);
    if ranks <= usize::from(most) {
        return Ok(via);
    }
    refuse(format!(
        "{via} is for up to {most} ranks, and there are {ranks}: choose another way"
    ))
}

fn tree(
    saved: &SavedPlan,
    topology: Option<&Topology>,
    contention: Contention,
    hosts: &[&str],
) -> Result<SavedTree, CommunicatorError> {
    if saved.via() == Via::Cast || saved.via().is_in_blocks() {
        return refuse(format!(
            "a saved plan that goes by {} has no tree: ask for that way itself",
            saved.via()
        ));
    }
    if distinct(hosts).len() < hosts.len() {
        return refuse(
            "a saved plan says which host sends to which, and hosts of this group have several ranks: ask for its way \
             itself (Options::route), or run one rank on each host",
        );
    }
    // The root is the first host in the file.
    let root = hosts
        .iter()
        .position(|host| *host == saved.root())
        .unwrap_or(0);
    let turned: Vec<usize> = (0..hosts.len())
        .map(|at| (at + root) % hosts.len())
        .collect();
    let names: Vec<&str> = turned.iter().map(|&rank| hosts[rank]).collect();
    let plan = saved.for_members(&names, SAVED_EPOCH).or_else(refuse)?;
    if let Some(topology) = topology {
        let report = saved.admit(topology, contention).or_else(refuse)?;
        if !report.is_contention_free() {
            log::warn!(
                "the plan sends over one cable from several hosts at a time: {}",
                report.contention()
            );
        }
    }
    let mut children = vec![Vec::new(); hosts.len()];
    for (from, to) in plan.edges() {
        children[turned[from]].push(turned[to]);
    }
    let plan = ethbcast_planning::plan::Plan::from_children(plan.via(), root, &children)
        .or_else(refuse)?;
    Ok(SavedTree {
        plan,
        segment_bytes: saved.segment_bytes(),
    })
}
