//! Communicator options from the arguments.

use super::Op;
use crate::args::PerfArgs;
use crate::interface::chosen;
use crate::route::{check_preset, read_calibration_for, read_plan, read_route};
use crate::topology_file::read_topology;
use ethbcast_collectives::Route;
use ethbcast_collectives::communicator::Options;
use ethbcast_planning::plan::file::Contention;
use std::time::Duration;

/// Returns the options for joining the communicator.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 2 (malformed) or 4 (unreadable).
pub fn options(args: &PerfArgs) -> anyhow::Result<Options> {
    let route = match &args.plan {
        Some(path) => Route::Saved(Box::new(read_plan(path)?)),
        None => read_route(&args.via)?,
    };
    if args.op == Op::Bcast && args.root {
        check_preset(args.preset, &route)?;
    }
    let topology = args.topology.as_deref().map(read_topology).transpose()?;
    let calibration = args.calibration.as_deref().map(|path| read_calibration_for(path, topology.as_ref()));
    let (calibration, wire) = (calibration.transpose()?, &args.wire);
    // The root's settings apply to all ranks.
    let told = Options {
        probe: args.op.is_planned() && !args.no_probe && calibration.is_none(),
        topology,
        calibration,
        route,
        casts: !args.no_casts,
        contention: if args.allow_contention { Contention::Allowed } else { Contention::Refused },
        ..Options::default()
    };
    Ok(Options {
        interface: chosen(wire.interface.as_deref(), wire.quiet),
        host: crate::lab::host_name(wire.host.as_deref()),
        ether_type: wire.ether_type,
        preset: args.preset,
        join_within: Duration::from_secs_f64(args.max_wait),
        ..if args.root { told } else { Options::default() }
    })
}
