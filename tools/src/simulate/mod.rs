//! `ethbcast simulate`: the real engine on any topology, in a simulated network.
//!
//! `settings` resolves the arguments and `route` the algorithms. `wiring` builds the network with
//! the values of `figures`, `calibration` derives the model's from them, `process` is the
//! application on each host, `play` runs a session whose frames `watch` counts, and `report`
//! prints.

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
use report::SimulationReport;
use settings::SimulationSettings;

/// Runs the command.
///
/// # Errors
/// A [`Failure`](crate::exit::Failure) whose code is the exit code.
pub fn run(args: SimulateArgs) -> anyhow::Result<()> {
    let settings = SimulationSettings::resolve(&args)?;
    let runs = settings.routes.all.iter().map(|route| play(&settings, route)).collect::<anyhow::Result<Vec<_>>>()?;
    let report = SimulationReport::new(&settings, runs);
    report.print(args.json)?;
    report.verdict()
}
