//! `ethbcast perf`: a repeated collective operation on all hosts, by default broadcast and barrier
//! (Patarasuk 2008 §5, Figure 10).
//!
//! Only the calls of the library's communicator are timed. Broadcasts use the algorithm that the
//! model chooses for each size, a given one, or that of a saved plan. Topology, calibration and
//! plan of the root apply to all.

mod op;
mod options;
mod pattern;
mod ranks;
mod report;
mod times;

use crate::args::PerfArgs;
use crate::exit::{Code, fail};
use crate::session::MAX_GROUP_BYTES;
pub use op::Op;

const MAX_SIZE_BYTES: u64 = 1 << 30;

/// Runs the command.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) whose code is the exit code.
pub fn run(mut args: PerfArgs) -> anyhow::Result<()> {
    if let Some(size) = args.sizes.iter().find(|&&size| size == 0 || size > MAX_SIZE_BYTES) {
        return fail(Code::Usage, format!("a message of {size} bytes cannot be measured: choose --sizes from 1 to 1G"));
    }
    let options = options::options(&args)?;
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
