//! What was measured, as a calibration file.

use crate::exit::{Code, Failure, WithCode};
use ethbcast_collectives::measure::{ProbeResult, calibrate};
use std::path::{Path, PathBuf};

/// Writes the calibration to `path`.
///
/// # Errors
/// A [`Failure`] with code 3 if too little was measured, 4 if the file cannot be written.
pub fn write(result: &ProbeResult, path: &Path) -> anyhow::Result<PathBuf> {
    let text = calibrate(result).code(Code::Nobody)?.to_toml();
    std::fs::write(path, text).map_err(|error| {
        Failure::new(Code::System, format!("cannot write {}: {error}; choose another place with --out", path.display()))
    })?;
    Ok(path.to_owned())
}
