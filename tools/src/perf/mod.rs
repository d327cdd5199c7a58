//! `ethbcast perf`: times collectives such as broadcast on all hosts (Patarasuk 2008 §5).
//!
//! Only the calls of the library's communicator are timed. Broadcasts use the algorithm that the
//! model chooses for each size, a given one, or that of a saved plan. Topology, calibration and
//! plan of the root apply to all.

mod op;
mod ranks;
mod report;

use crate::args::PerfArgs;
use crate::exit::{Code, fail};
use crate::inputs::{check_preset, read_calibration_for, read_plan, read_route, read_topology};
use crate::interface::chosen;
use crate::key;
use crate::session::MAX_GROUP_BYTES;
use ethbcast_collectives::Route;
use ethbcast_collectives::communicator::Options;
use ethbcast_planning::plan::file::Contention;
pub use op::Op;
use std::time::Duration;

const MAX_SIZE_BYTES: u64 = 1 << 30;

pub fn run(mut args: PerfArgs) -> anyhow::Result<()> {
    if let Some(size) = args.sizes.iter().find(|&&size| size == 0 || size > MAX_SIZE_BYTES) {
        return fail(Code::Usage, format!("a message of {size} bytes cannot be measured: choose --sizes from 1 to 1G"));
    }
    let options = options(&args)?;
    check_group(&args.wire.group)?;
    // Receivers of files in a group of this name must not be addressed.
    args.wire.group.push_str(SUFFIX);
    ranks::run(&args, &options)
}

/// Suffix that separates the group from that of `send` and `recv`.
const SUFFIX: &str = "/perf";

fn check_group(group: &str) -> anyhow::Result<()> {
    let most = MAX_GROUP_BYTES - SUFFIX.len();
    if group.is_empty() || group.len() > most {
        let text = format!("the group name has {} bytes: choose one of 1 to {most} with -g", group.len());
        return fail(Code::Usage, text);
    }
    Ok(())
}

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
        interface: chosen(wire.interface.as_deref(), wire.over, wire.quiet),
        host: crate::lab::host_name(wire.host.as_deref()),
        ether_type: wire.ether_type,
        over: wire.over,
        keys: key::resolve(&args.key)?,
        unkeyed: true,
        preset: args.preset,
        join_within: Duration::from_secs_f64(args.max_wait),
        ..if args.root { told } else { Options::default() }
    })
}
