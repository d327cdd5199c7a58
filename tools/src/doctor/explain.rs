//! `ethbcast explain`: the meaning of a code.

use super::Fault;
use crate::args::ExplainArgs;
use crate::exit::report;
use clap::ValueEnum;

/// Runs the command for one code, or lists all.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) with code 4 if writing to stdout fails.
pub fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    let line = |fault: &Fault| format!("{:<13} {}", fault.code(), fault.description());
    let text = match args.code {
        Some(fault) => {
            format!("{}: {}\nwhy   {}\nhelp  {}", fault.code(), fault.description(), fault.why(), fault.help())
        }
        None => Fault::value_variants().iter().map(line).collect::<Vec<_>>().join("\n"),
    };
    report(&text)
}
