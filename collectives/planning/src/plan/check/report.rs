//! Result of a check, as values and as a sentence.

use std::fmt;
use thiserror::Error;

/// Result of [`check`](super::check()).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a plan may contend or leave ranks out: the report says so"]
#[non_exhaustive]
pub struct CheckReport {
    /// Number of ranks of the plan.
    pub ranks: usize,
    /// Reasons why the plan does not bring the bytes to every rank exactly once; empty if it does.
    pub faults: Vec<Fault>,
    /// Directed cable that hosts compete for, then with the most senders, then the most flows, then
    /// the first in the order host uplinks, host downlinks, switch uplinks, switch downlinks.
    /// `None` if no cable was checked: faults, a cast, or a single rank.
    pub worst: Option<CableLoad>,
    /// Every used directed cable, in that order; empty if no cable was checked.
    pub loads: Vec<CableLoad>,
    /// Edges that share the worst cable, as ranks (sender, receiver), by sender; as many as it has
    /// flows.
    pub worst_edges: Vec<(usize, usize)>,
}

impl CheckReport {
    /// Whether every rank gets the bytes exactly once.
    pub fn is_spanning(&self) -> bool {
        self.faults.is_empty()
    }

    /// Whether no two senders compete for a cable in one direction.
    pub fn is_contention_free(&self) -> bool {
        self.worst.as_ref().is_none_or(|load| !load.is_contended())
    }

    /// Returns the directed cables that hosts compete for, those of the most senders first.
    pub fn contended(&self) -> Vec<&CableLoad> {
        let mut contended: Vec<&CableLoad> = self.loads.iter().filter(|load| load.is_contended()).collect();
        contended.sort_by_key(|load| std::cmp::Reverse((load.senders, load.flows)));
        contended
    }

    /// Describes the contended cables for people: `switch s0 to switch s1 (8 flows from 8
    /// senders)`; empty if there are none.
    pub fn contention(&self) -> String {
        let contended = self.contended();
        let name = |load: &&CableLoad| {
            let (flows, senders) = (plural(load.flows, "flow"), plural(load.senders, "sender"));
            format!("{} to {} ({flows} from {senders})", load.from, load.to)
        };
        let named: Vec<String> = contended.iter().take(NAMED_CABLES).map(name).collect();
        let more = contended.len().saturating_sub(NAMED_CABLES);
        named.join(", ") + &if more > 0 { format!(" and {} more", plural(more, "cable")) } else { String::new() }
    }

    /// Whether the plan spans and is free of contention.
    pub fn is_good(&self) -> bool {
        self.is_spanning() && self.is_contention_free()
    }
}

const NAMED_CABLES: usize = 4;

/// One direction of one cable, with the plan's load.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CableLoad {
    /// End that frames enter.
    pub from: CableEnd,
    /// End that frames leave.
    pub to: CableEnd,
    /// Edges of the plan whose path uses it.
    pub flows: usize,
    /// Hosts that send over it.
    pub senders: usize,
    /// Rate of the cable, in bits per second, if known.
    pub rate: Option<u64>,
    /// Sending rate of these hosts together, in bits per second, if known of each.
    pub demand: Option<u64>,
}

impl CableLoad {
    /// Whether senders compete for it: there are several, and it is not known to carry their
    /// combined rate.
    pub fn is_contended(&self) -> bool {
        let suffices = self.rate.zip(self.demand).is_some_and(|(rate, demand)| demand <= rate);
        self.senders > 1 && !suffices
    }
}

/// End of a cable, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CableEnd {
    /// A host's port.
    Host(String),
    /// A switch's port.
    Switch(String),
}

/// A fault that keeps a plan from bringing the bytes to every rank exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The table from ranks to hosts has this number of entries, and the plan another number of
    /// ranks.
    #[error("hosts are given for {0} ranks")]
    HostTableLength(usize),
    /// A rank is on a host that the topology does not have.
    #[error("rank {rank} is on host {host}, which does not exist")]
    NoSuchHost {
        /// The rank.
        rank: usize,
        /// Host id in the table.
        host: usize,
    },
    /// Two ranks are on one host.
    #[error("rank {rank} shares host {host} with another rank")]
    SharedHost {
        /// The second rank.
        rank: usize,
        /// The shared host.
        host: usize,
    },
    /// An edge starts or ends at a rank that does not exist.
    #[error("rank {0} does not exist")]
    NoSuchRank(usize),
    /// A rank receives from several parents, or the root receives at all.
    #[error("rank {rank} has {parents} parents")]
    TooManyParents {
        /// The rank.
        rank: usize,
        /// Edges that end there.
        parents: usize,
    },
    /// The bytes never reach this rank.
    #[error("rank {0} is never reached")]
    Unreached(usize),
}

impl CableEnd {
    /// Returns the name of the host or the switch.
    pub fn name(&self) -> &str {
        match self {
            Self::Host(name) | Self::Switch(name) => name,
        }
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fault) = self.faults.first() {
            let faults = plural(self.faults.len(), "fault");
            return write!(formatter, "does not span {} ranks: {fault} ({faults} in all)", self.ranks);
        }
        write!(formatter, "spans {} ranks; ", self.ranks)?;
        match &self.worst {
            None => write!(formatter, "no cable to judge"),
            Some(load) if load.is_contended() => write!(formatter, "contention: {load}"),
            Some(load) => write!(formatter, "no contention: {load}"),
        }
    }
}

impl fmt::Display for CableLoad {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (flows, senders) = (plural(self.flows, "flow"), plural(self.senders, "sender"));
        write!(formatter, "the busiest cable, {} to {}, carries {flows} from {senders}", self.from, self.to)
    }
}

impl fmt::Display for CableEnd {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) => write!(formatter, "host {name}"),
            Self::Switch(name) => write!(formatter, "switch {name}"),
        }
    }
}

fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
