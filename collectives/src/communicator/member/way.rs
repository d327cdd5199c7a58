//! Which way a broadcast takes.

use super::Way;
use ethbcast_planning::model::{Calibration, Situation, price};
use ethbcast_planning::plan::Via;
use ethbcast_planning::topology::Topology;
use std::collections::BTreeMap;

/// Lengths whose way is remembered: programs broadcast the same few again and again.
const REMEMBERED: usize = 64;

/// What is known of the network, and the ways already decided.
#[derive(Clone, Debug)]
pub(super) struct Ways {
    calibration: Calibration,
    decided: BTreeMap<usize, Way>,
}

impl Ways {
    pub(super) fn new(calibration: Calibration) -> Ways {
        Ways { calibration, decided: BTreeMap::new() }
    }

    /// The faster way for so many bytes among `ranks` ranks on one switch.
    pub(super) fn way(&mut self, bytes: usize, ranks: usize, frame_payload_bytes: usize) -> Way {
        if let Some(&way) = self.decided.get(&bytes) {
            return way;
        }
        let way = decide(&self.calibration, bytes, ranks, frame_payload_bytes).unwrap_or(Way::Cast);
        if self.decided.len() == REMEMBERED {
            self.decided.pop_first();
        }
        self.decided.insert(bytes, way);
        way
    }
}

fn decide(calibration: &Calibration, bytes: usize, ranks: usize, frame_payload_bytes: usize) -> Option<Way> {
    let topology = Topology::single_switch((0..ranks).map(|rank| format!("n{rank}"))).ok()?;
    let members: Vec<usize> = (0..ranks).collect();
    let (size_bytes, frame_payload_bytes) = (Some(bytes as u64), frame_payload_bytes as u64);
    let situation = Situation {
        topology: &topology,
        root_host: 0,
        members: &members,
        size_bytes,
        frame_payload_bytes,
        calibration,
    };
    let seconds = |via| Some(price(via, &situation).ok()?.estimate.predicted_seconds);
    Some(if seconds(Via::Chain)? < seconds(Via::Cast)? { Way::Chain } else { Way::Cast })
}
