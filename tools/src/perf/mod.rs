//! `ethbcast perf`: an operation again and again, on every host; by default broadcast and barrier (Patarasuk 2008 §5,
//! Figure 10).
//!
//! `ranks` times the communicator's calls. For broadcasts, which may go any way, each size is a session of its own, so
//! that `auto` decides anew. Within a session all is messages on one stream: the terms, K barriers alone, then K times
//! a broadcast and a barrier, each broadcast verified byte by byte by every rank. A barrier is a release: one byte that
//! the root broadcasts when every application has consumed what came before.

mod member;
mod op;
mod pattern;
mod ranks;
mod report;
mod root;
mod terms;
mod times;

use crate::args::PerfArgs;
use crate::exit::{Code, fail};
use crate::session::{MAX_GROUP_BYTES, open};
pub use op::Op;
use std::time::Duration;

/// Sizes that fit in memory twice on any host worth the name.
const MAX_SIZE_BYTES: u64 = 1 << 30;

/// Runs the command.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) whose code is the exit code.
pub fn run(mut args: PerfArgs) -> anyhow::Result<()> {
    if let Some(size) = args.sizes.iter().find(|&&size| size == 0 || size > MAX_SIZE_BYTES) {
        return fail(Code::Usage, format!("a message of {size} bytes cannot be measured: choose --sizes from 1 to 1G"));
    }
    let mut options = if args.op == Op::Bcast { Some(root::options(&args)?) } else { None };
    check_group(&args.wire.group)?;
    // Whoever receives files under the same name is not meant.
    args.wire.group.push_str(SUFFIX);
    let Some(options) = &mut options else { return ranks::run(&args) };
    options.timing.patience = PATIENCE;
    let (mut session, interrupt) = open(&args.wire.group, options, GIVEN_UP)?;
    interrupt.heed();
    match args.root {
        true => root::run(&args, options, &mut session, &interrupt),
        false => {
            // Of a root that gives up nobody waits for the next one.
            options.once = true;
            member::run(&args, options, &mut session, &interrupt)
        }
    }
}

/// How long a silent root is waited for: times across a longer outage would mean nothing.
const PATIENCE: Duration = Duration::from_secs(3);

/// What a signal makes the others hear.
const GIVEN_UP: &str = "the root gave up: interrupted; the others have been told";

/// What tells the group apart from that of `send` and `recv`.
const SUFFIX: &str = "/perf";

fn check_group(group: &str) -> anyhow::Result<()> {
    let most = MAX_GROUP_BYTES - SUFFIX.len();
    if group.is_empty() || group.len() > most {
        let text = format!("the group name has {} bytes: choose one of 1 to {most} with -g", group.len());
        return fail(Code::Usage, text);
    }
    Ok(())
}
