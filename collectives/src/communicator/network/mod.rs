//! Network description of a group: places of ranks, costs of frames, permitted routes. All ranks
//! have an equal one from the assembly, so that each derives equal trees.

mod codec;
mod describe;
mod spread;

pub(super) use codec::{read_costs, write_costs};
use describe::describe;
pub(super) use spread::{Spread, SpreadMessage, SpreadSource, contradiction};

use super::config::MAX_RANKS;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::{Plan, Via};
use ethbcast_planning::topology::Topology;

/// Limit of an encoded description, in bytes: the largest group, with everything known of each
/// rank.
pub(super) const MAX_NETWORK_BYTES: usize = 256 << 10;
/// Limit of switches between ranks: no cluster has more.
const MAX_SWITCHES: usize = 4 * MAX_RANKS as usize;
/// Limit of ranks for block-wise routes, in which each block has its own stream.
const MAX_RANKS_IN_BLOCKS: u16 = 64;
/// Limit of ranks for plans whose computation takes quadratic time or longer.
const MAX_RANKS_OF_SLOW_PLANS: u16 = 1024;

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
    /// Topology whose host ids are ranks.
    topology: Option<Topology>,
    calibration: Option<Calibration>,
    chosen: Chosen,
    casts: bool,
    probe: bool,
}

impl Network {
    pub(super) fn unknown() -> Network {
        Network { topology: None, calibration: None, chosen: Chosen::Auto, casts: true, probe: false }
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
}

fn rank_name(rank: usize) -> String {
    format!("rank{rank}")
}

pub(super) fn most_ranks(via: Via) -> u16 {
    match via {
        Via::ScatterAllgather | Via::RecursiveDoubling => MAX_RANKS_IN_BLOCKS,
        Via::Latency | Via::BinaryBest => MAX_RANKS_OF_SLOW_PLANS,
        Via::Chain | Via::Binary | Via::Kary(_) | Via::Cast => MAX_RANKS,
        Via::Flat | Via::Binomial | Via::ChainUnaware | Via::BinaryUnaware => MAX_RANKS,
    }
}
