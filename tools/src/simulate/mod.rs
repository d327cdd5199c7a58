//! `ethbcast simulate`: the real engine on any topology, in a simulated network.
//!
//! `settings` resolves the arguments, `route` says which ways to send they mean, `wiring` builds the network with the
//! numbers of `figures`, `calibration` tells the model of them, `process` is what runs on each host, `play` runs a
//! session that `watch` counts the frames of, `report` prints.

mod calibration;
mod figures;
mod play;
mod process;
mod report;
mod route;
mod settings;
mod watch;
mod wiring;

use crate::args::SimulateArgs;
use play::play;
use report::Report;
use settings::Settings;

/// Runs the command.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) whose code is the exit code.
pub fn run(args: SimulateArgs) -> anyhow::Result<()> {
    let settings = Settings::resolve(&args)?;
    let runs = settings.routes.all.iter().map(|route| play(&settings, route)).collect::<anyhow::Result<Vec<_>>>()?;
    let report = Report::new(&settings, runs);
    report.print(args.json)?;
    report.verdict()
}
