//! What the arguments of `send` mean.

use crate::args::SendArgs;
use crate::exit::{Code, Failure};
use crate::preset::Preset;
use crate::route::{read_calibration, read_plan, read_route};
use crate::topology_file::read_topology;
use ethbcast_collectives::session::{Route, Wanted};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::topology::Topology;
use std::time::Duration;

/// How long `send` waits for receivers unless told otherwise.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(60);

/// The resolved arguments.
#[derive(Debug)]
pub struct Settings {
    /// How many receivers, and how long to wait for them.
    pub wanted: Wanted,
    /// How the bytes travel.
    pub route: Route,
    /// The protocol, if they travel by cast.
    pub preset: Preset,
    /// What the network costs, if it was measured before.
    pub calibration: Option<Calibration>,
    /// The cluster.
    pub topology: Option<Topology>,
    topology_name: String,
}

impl Settings {
    /// Resolves the arguments.
    ///
    /// # Errors
    /// A [`Failure`] with code 2, or 4 if the topology file cannot be read.
    pub fn resolve(args: &SendArgs) -> anyhow::Result<Settings> {
        let route = match &args.plan {
            Some(path) => Route::Saved(read_plan(path)?),
            None => read_route(&args.via)?,
        };
        args.preset.check(&route)?;
        let calibration = args.calibration.as_deref().map(read_calibration).transpose()?;
        let patience = args.max_wait.map_or(DEFAULT_PATIENCE, Duration::from_secs_f64);
        let wanted = match args.min_receivers {
            Some(least) => Wanted { at_least: usize::from(least), enough: None, patience },
            None => {
                let count = usize::from(args.receivers.unwrap_or(1));
                Wanted { at_least: count, enough: Some(count), patience }
            }
        };
        let topology = args.topology.as_deref().map(read_topology).transpose()?;
        let topology_name = args.topology.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        Ok(Settings { wanted, route, preset: args.preset, calibration, topology, topology_name })
    }

    /// Checks that the topology names this host, before anybody is waited for.
    ///
    /// # Errors
    /// A [`Failure`] with code 2.
    pub fn check_host(&self, host: &str) -> anyhow::Result<()> {
        let Some(topology) = self.topology.as_ref().filter(|topology| topology.host_named(host).is_none()) else { return Ok(()) };
        let known = ethbcast_planning::topology::nodeset::fold(topology.hosts());
        let text = format!("{} names no host {host}, only {known}: say which of them this is with --host", self.topology_name);
        Err(Failure::new(Code::Usage, text).into())
    }
}
