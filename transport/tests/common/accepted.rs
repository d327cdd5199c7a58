//! Test helper: compares a computed text with a reviewed file (snapshot test). Test programs of all
//! crates include it.

use std::fs;
use std::path::Path;

/// Whether this run accepts all computed texts.
pub fn is_accepting() -> bool {
    std::env::var_os("ETHBCAST_ACCEPT").is_some()
}

/// Returns the accepted text of the file; writes `text` there instead if `ETHBCAST_ACCEPT` is set.
pub fn read(path: &Path, text: &str) -> Option<String> {
    if !is_accepting() {
        return Some(fs::read_to_string(path).unwrap_or_default());
    }
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .expect("the snapshot's folder can be made");
    fs::write(path, text).expect("the snapshot can be written");
    None
}

/// Compares `text` with the file, line by line, or writes the file if `ETHBCAST_ACCEPT` is set;
/// `cargo test` with the arguments `test` does so.
pub fn compare(path: &Path, text: &str, test: &str) {
    let Some(accepted) = read(path, text).filter(|accepted| accepted != text) else {
        return;
    };
    panic!(
        "{} has changed:\n{}\nIf that is right, accept it: ETHBCAST_ACCEPT=1 cargo test {test}",
        path.display(),
        changes(&accepted, text)
    );
}

fn changes(accepted: &str, text: &str) -> String {
    const SHOWN: usize = 12;
    let (mut heading, mut told, mut count) = ("", "", 0);
    let mut changes = String::new();
    for (new, old) in text
        .lines()
        .zip(accepted.lines().chain(std::iter::repeat("")))
    {
        heading = if new.starts_with('#') { new } else { heading };
        if old == new {
            continue;
        }
        count += 1;
        if count <= SHOWN {
            if told != heading {
                changes += &format!("{heading}\n");
                told = heading;
            }
            changes += &format!("  accepted {old}\n  now      {new}\n");
        }
    }
    let (lines, before) = (text.lines().count(), accepted.lines().count());
    format!("{changes}{count} of {lines} lines differ from those accepted, which are {before}")
}
