//! Taking a lab down, whole or in the pieces a crash left: whatever has its name in its name goes.

use crate::config::check_lab_name;
use crate::error::LabError;
use crate::names::namespace_of;
use crate::netns::members_of;
use crate::processes::end_all;
use crate::program::{IP, require_root, run};
use crate::script::delete_namespaces;

/// How often to look again for namespaces that somebody else, an `up` under way perhaps, made meanwhile.
const ROUNDS: usize = 3;

/// What taking a lab down found to do; nothing at all when there was no lab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Namespaces deleted, the switches' among them.
    pub namespaces: usize,
    /// Processes ended.
    pub processes: usize,
}

/// Ends the processes in every namespace of the lab `name`, then deletes the namespaces, and with them all else.
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
        // A process that does not end must not keep the rest from going; it is reported after.
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

/// The namespaces of the lab that are there now.
fn namespaces_of(name: &str) -> Result<Vec<String>, LabError> {
    Ok(members_of(name)?.iter().map(|host| namespace_of(name, host)).collect())
}

/// Deletes the namespaces, and returns what `ip` complained about: nothing, or what the caller will see by looking.
///
/// With `-force` a namespace that is no longer there does not keep `ip` from the next.
fn delete(namespaces: &[String]) -> Result<String, LabError> {
    match run(IP, &["-force", "-batch", "-"], &delete_namespaces(namespaces), "deleting namespaces") {
        Ok(_) => Ok(String::new()),
        Err(LabError::Tool { complaint, .. }) => Ok(complaint),
        Err(other) => Err(other),
    }
}
