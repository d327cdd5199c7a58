//! Files and verdicts of results.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::table::Table;

/// Writes a bench's text as NAME.txt, its numbers as NAME.csv and `more` by their suffixes into a
/// folder, which is created if necessary; prints the text.
///
/// # Errors
/// Fails if the folder or a file cannot be written.
pub fn publish(
    folder: &Path,
    name: &str,
    text: &str,
    csv: &Table,
    more: impl IntoIterator<Item = (String, String)>,
) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let always = [("txt".to_owned(), text.to_owned()), ("csv".to_owned(), csv.csv())];
    for (ending, content) in always.into_iter().chain(more) {
        let path = folder.join(format!("{name}.{ending}"));
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    print!("{text}");
    Ok(())
}

/// Returns the exit code for bounds that were met, or not.
pub fn exit_code(met: bool) -> ExitCode {
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the text for a bound that was met, or not.
pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}
