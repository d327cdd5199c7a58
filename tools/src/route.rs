//! What `--via`, `--plan` and `--calibration` mean.

use crate::exit::{Code, Failure, WithCode};
use ethbcast_collectives::group::Route;
use ethbcast_collectives::model::Calibration;
use ethbcast_collectives::plan::Via;
use ethbcast_collectives::plan::file::SavedPlan;
use std::path::Path;

/// The route that `--via` names.
///
/// # Errors
/// A [`Failure`] with code 2.
pub fn read_route(via: &str) -> anyhow::Result<Route> {
    match via {
        "auto" => Ok(Route::Auto),
        name => Ok(Route::Via(name.parse::<Via>().map_err(|error| Failure::new(Code::Usage, format!("{error}, auto")))?)),
    }
}

/// Reads a plan that `ethbcast plan --out` wrote.
///
/// # Errors
/// A [`Failure`] with code 2 (malformed) or 4 (unreadable).
pub fn read_plan(path: &Path) -> anyhow::Result<SavedPlan> {
    let name = path.display().to_string();
    SavedPlan::parse(&read(path, "plan")?, &name).code(Code::Usage)
}

/// Reads a calibration that `ethbcast probe --out` wrote.
///
/// # Errors
/// A [`Failure`] with code 2 (malformed) or 4 (unreadable).
pub fn read_calibration(path: &Path) -> anyhow::Result<Calibration> {
    let name = path.display().to_string();
    Calibration::parse(&read(path, "calibration")?, &name).code(Code::Usage)
}

fn read(path: &Path, what: &str) -> anyhow::Result<String> {
    let failure = |error| Failure::new(Code::System, format!("cannot read the {what} file {}: {error}", path.display()));
    Ok(std::fs::read_to_string(path).map_err(failure)?)
}
