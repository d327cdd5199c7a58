//! What a group knows of its network: where its ranks hang, what frames cost, which ways are allowed. All ranks have
//! the same of it from the roll, so that each derives the same trees.

mod codec;
mod describe;
mod spread;

pub(super) use codec::{read_costs, write_costs};
use describe::describe;
pub(super) use spread::{Spread, SpreadWord, Teller, contradiction};

use super::config::MAX_RANKS;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::{Plan, Via};
use ethbcast_planning::topology::Topology;

/// The most bytes of a description: of as many ranks as there can be, with all that can be known of each.
pub(super) const MAX_NETWORK_BYTES: usize = 256 << 10;
/// The most switches between ranks: more are no cluster's.
const MAX_SWITCHES: usize = 4 * MAX_RANKS as usize;
/// Ranks up to which a message travels in blocks, each of which has a stream of its own.
const MOST_RANKS_IN_BLOCKS: u16 = 64;
/// Ranks up to which plans are made whose making takes time with the square of the ranks or longer.
const MOST_RANKS_OF_SLOW_PLANS: u16 = 1024;

/// Which way broadcasts take, where that was said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Chosen {
    /// That of least predicted time.
    Auto,
    /// Always this one.
    Via(Via),
    /// From its root down this tree; from others that of least predicted time.
    Saved(SavedTree),
}

/// A plan that was made before, over ranks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SavedTree {
    pub plan: Plan,
    pub segment_bytes: u64,
}

/// What a group knows of its network.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Network {
    /// Host ids are ranks.
    topology: Option<Topology>,
    /// Hosts are called after their ranks.
    calibration: Option<Calibration>,
    chosen: Chosen,
    /// Whether broadcasts and allgathers may go by one frame to all.
    casts: bool,
    /// Whether rank 0 measures once all are there.
    probe: bool,
}

impl Network {
    /// What a group knows of whose network nobody has said anything.
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

    /// Whether rank 0 is to measure what the network costs.
    pub(super) fn is_to_be_measured(&self) -> bool {
        self.probe && self.calibration.is_none()
    }

    /// Whether broadcast may be chosen because it is predicted to take least time.
    pub(super) fn bets_on_casts(&self) -> bool {
        self.casts && matches!(self.chosen, Chosen::Auto)
    }

    /// Whether there is something to choose by.
    pub(super) fn is_known(&self) -> bool {
        self.topology.is_some() || self.calibration.is_some()
    }
}

/// The name of a rank as a host.
fn rank_name(rank: usize) -> String {
    format!("rank{rank}")
}

/// The most ranks for which a way can be asked.
pub(super) fn most_ranks(via: Via) -> u16 {
    match via {
        Via::ScatterAllgather | Via::RecursiveDoubling => MOST_RANKS_IN_BLOCKS,
        Via::Latency | Via::BinaryBest => MOST_RANKS_OF_SLOW_PLANS,
        Via::Chain | Via::Binary | Via::Kary(_) | Via::Cast => MAX_RANKS,
        Via::Flat | Via::Binomial | Via::ChainUnaware | Via::BinaryUnaware => MAX_RANKS,
    }
}
