//! What the arguments of `send` mean.

use crate::args::SendArgs;
use crate::exit::{Code, fail};
use crate::route::{check_preset, read_calibration, read_plan, read_route};
use crate::session;
use crate::topology_file::read_topology;
use ethbcast_collectives::session::{Options, Route};
use ethbcast_planning::topology::nodeset;
use std::time::Duration;

/// The resolved arguments.
#[derive(Debug)]
pub struct Settings {
    /// How to send.
    pub options: Options,
    topology_name: String,
}

impl Settings {
    /// Resolves the arguments.
    ///
    /// # Errors
    /// A [`Failure`](crate::exit::Failure) with code 2, or 4 if the topology file cannot be read.
    pub fn resolve(args: &SendArgs) -> anyhow::Result<Settings> {
        let mut options = session::options(&args.wire);
        options.route = match &args.plan {
            Some(path) => Route::Saved(read_plan(path)?),
            None => read_route(&args.via)?,
        };
        options.preset = args.preset;
        check_preset(args.preset, &options.route)?;
        options.calibration = args.calibration.as_deref().map(read_calibration).transpose()?;
        options.max_wait = args.max_wait.map(Duration::from_secs_f64);
        options.receivers = args.receivers.map(usize::from);
        options.min_receivers = args.min_receivers.map(usize::from);
        options.topology = args.topology.as_deref().map(read_topology).transpose()?;
        options.mtu_bytes = args.mtu;
        (options.probe, options.dry_run) = (!args.no_probe, args.dry_run);
        let topology_name = args.topology.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        Ok(Settings { options, topology_name })
    }

    /// Checks that the topology names this host, before anybody is waited for.
    ///
    /// # Errors
    /// A [`Failure`](crate::exit::Failure) with code 2.
    pub fn check_host(&self, host: &str) -> anyhow::Result<()> {
        let topology = self.options.topology.as_ref();
        let Some(topology) = topology.filter(|topology| topology.host_named(host).is_none()) else { return Ok(()) };
        let known = nodeset::fold(topology.hosts());
        let text =
            format!("{} names no host {host}, only {known}: say which of them this is with --host", self.topology_name);
        fail(Code::Usage, text)
    }
}
