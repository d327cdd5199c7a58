//! What `--via`, `--plan` and `--calibration` mean.

use crate::exit::{Code, Failure, WithCode};
use crate::topology_file::read_text;
use ethbcast_collectives::session::Route;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::file::SavedPlan;
use ethbcast_planning::plan::{UnknownVia, Via};
use std::path::Path;

/// The route that `--via` names.
///
/// # Errors
/// A [`Failure`] with code 2.
pub fn read_route(via: &str) -> anyhow::Result<Route> {
    match via {
        "auto" => Ok(Route::Auto),
        name => Ok(Route::Via(name.parse::<Via>().map_err(|error| match error {
            UnknownVia::Name(_) => Failure::new(Code::Usage, format!("{error}, auto")),
            UnknownVia::Children(_) => Failure::new(Code::Usage, error),
        })?)),
    }
}

/// Reads a plan that `ethbcast plan --out` wrote.
///
/// # Errors
/// A [`Failure`] with code 2 (malformed) or 4 (unreadable).
pub fn read_plan(path: &Path) -> anyhow::Result<SavedPlan> {
    let name = path.display().to_string();
    SavedPlan::parse(&read_text(path, "plan file")?, &name).code(Code::Usage)
}

/// Reads a calibration that `ethbcast probe --out` wrote.
///
/// # Errors
/// A [`Failure`] with code 2 (malformed) or 4 (unreadable).
pub fn read_calibration(path: &Path) -> anyhow::Result<Calibration> {
    let name = path.display().to_string();
    Calibration::parse(&read_text(path, "calibration file")?, &name).code(Code::Usage)
}
