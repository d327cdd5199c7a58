//! Removal of a test network by its name, even if a crash has left only parts of it.

use crate::config::check_lab_name;
use crate::error::LabError;
use crate::names::namespace_of;
use crate::netns::members_of;
use crate::processes::end_all;
use crate::program::{IP, require_root, run};
use crate::script::delete_namespaces;

/// Attempts to remove namespaces that are created meanwhile, perhaps by an `up` under way.
const ROUNDS: usize = 3;

/// Counts of removed things; zero if there was no lab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Namespaces deleted, including that of the switches.
    pub namespaces: usize,
    pub processes: usize,
}

pub(crate) fn take_down(name: &str) -> Result<Removed, LabError> {
    check_lab_name(name)?;
    let mut removed = Removed::default();
    let mut complaint = String::new();
    for _ in 0..ROUNDS {
        let namespaces = namespaces_of(name)?;
        if namespaces.is_empty() {
            return Ok(removed);
        }
        require_root()?;
        // A process that does not end must not prevent the rest; it is reported afterwards.
        let ended = end_all(&namespaces);
        complaint = delete(&namespaces)?;
        removed.processes += ended?;
        removed.namespaces += namespaces.len();
    }
    match namespaces_of(name)? {
        remaining if remaining.is_empty() => Ok(removed),
        namespaces => Err(LabError::NamespacesRemain { namespaces, complaint }),
    }
}

fn namespaces_of(name: &str) -> Result<Vec<String>, LabError> {
    Ok(members_of(name)?.iter().map(|host| namespace_of(name, host)).collect())
}

/// Deletes the namespaces and returns the complaints of `ip`.
///
/// The option `-force` makes `ip` continue after a namespace that no longer exists.
fn delete(namespaces: &[String]) -> Result<String, LabError> {
    match run(IP, &["-force", "-batch", "-"], &delete_namespaces(namespaces), "deleting namespaces") {
        Ok(_) => Ok(String::new()),
        Err(LabError::Tool { complaint, .. }) => Ok(complaint),
        Err(other) => Err(other),
    }
}
