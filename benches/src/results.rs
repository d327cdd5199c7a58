//! Where results go, and what is said of them.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// Writes files into a folder, which is made if it is missing.
///
/// # Errors
/// If the folder or a file cannot be written.
pub fn write(folder: &Path, files: &[(String, String)]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, content) in files {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The word for a bound that was kept, or not.
pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}
