//! Which way the bytes travel, decided once it is known who is there.

use super::Root;
use ethbcast_planning::model::{Calibration, Choice, Situation, choose, given, price};
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::plan::{self, Via};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::wire::HEADER_BYTES;

/// What the root was told about the way.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Route {
    /// The one of least predicted time.
    #[default]
    Auto,
    /// This one, in the segments of least predicted time.
    Via(Via),
    /// A plan that was made before.
    Saved(SavedPlan),
}

/// The rate taken for a cable's if nothing was measured: what most cables carry.
pub const ASSUMED_RATE_BITS_PER_SECOND: u64 = 1_000_000_000;

impl Root {
    /// The plan for the members of these names, the root's first, and what it is predicted to take.
    pub(super) fn choose(&self, names: &[&str]) -> Result<Choice, String> {
        let frame_payload_bytes = u64::from(self.config.station.mtu_bytes) - HEADER_BYTES as u64;
        let assumed = || Calibration::assumed(ASSUMED_RATE_BITS_PER_SECOND, frame_payload_bytes);
        let calibration = self.config.calibration.clone().unwrap_or_else(assumed);
        let (topology, members) = self.places(names)?;
        let situation = Situation {
            topology: &topology,
            root_host: members[0],
            members: &members,
            size_bytes: self.config.size,
            frame_payload_bytes,
            calibration: &calibration,
        };
        let choice = match &self.config.route {
            Route::Auto => choose(&situation).map_err(|error| error.to_string())?,
            Route::Via(via) => {
                let priced = price(*via, &situation).map_err(|error| error.to_string())?;
                given(priced.plan, None, &situation)
            }
            Route::Saved(saved) => {
                let plan = saved.for_members(names, 1).map_err(|error| error.to_string())?;
                given(plan, Some(saved.segment_bytes()), &situation)
            }
        };
        let report = plan::check(&topology, &choice.plan, &members);
        let sound = report.is_spanning() && (!choice.plan.via().is_contention_free() || report.is_contention_free());
        let planned = !matches!(self.config.route, Route::Saved(_));
        if report.is_spanning() && (sound || !planned) {
            return Ok(choice);
        }
        Err(format!("the plan is not sound ({report}); please report this with the topology file"))
    }

    /// The topology, and where in it each rank is. Without one names do not matter: hosts hang on one switch in rank order.
    fn places(&self, names: &[&str]) -> Result<(Topology, Vec<usize>), String> {
        match &self.config.topology {
            Some(topology) => {
                let hosts = names.iter().map(|name| find_host(topology, name)).collect::<Result<Vec<usize>, String>>()?;
                Ok((topology.clone(), hosts))
            }
            None => {
                let topology = Topology::single_switch((0..names.len()).map(|rank| format!("rank{rank}")));
                Ok((topology.map_err(|error| error.to_string())?, (0..names.len()).collect()))
            }
        }
    }
}

fn find_host(topology: &Topology, name: &str) -> Result<usize, String> {
    let help = "add it, or run it with --host NAME as it is spelt there";
    topology.host_named(name).ok_or_else(|| format!("the topology file names no host {name}; {help}"))
}
