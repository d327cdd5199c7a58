//! Termination of the processes that run inside a test network.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::error::LabError;
use crate::netns::{NamespaceId, identity, path_of};

/// Grace period after SIGTERM; a tool that notifies its peers needs a fraction of it.
const GRACE: Duration = Duration::from_millis(500);

/// Wait after SIGKILL before a process is reported as surviving.
const LAST_WAIT: Duration = Duration::from_secs(3);

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Ends every process in the namespaces by SIGTERM and, after a short grace period, by SIGKILL.
/// Returns their number.
///
/// The calling process is spared, and so is everything in the machine's own namespace, under
/// whatever name it is found.
pub(crate) fn end_all(namespaces: &[String]) -> Result<usize, LabError> {
    let own = identity(Path::new("/proc/1/ns/net"));
    let inside: BTreeSet<_> =
        namespaces.iter().filter_map(|name| identity(&path_of(name))).filter(|found| Some(*found) != own).collect();
    let mut ended = BTreeSet::new();
    signal_until_gone(&inside, Signal::SIGTERM, GRACE, &mut ended)?;
    let remaining = signal_until_gone(&inside, Signal::SIGKILL, LAST_WAIT, &mut ended)?;
    if remaining.is_empty() {
        Ok(ended.len())
    } else {
        Err(LabError::ProcessesRemain(remaining.into_iter().map(Pid::as_raw).collect()))
    }
}

/// Sends `signal` once to each process inside, also to new ones, until none is left or the time is
/// over. Returns the rest.
fn signal_until_gone(
    inside: &BTreeSet<NamespaceId>,
    signal: Signal,
    patience: Duration,
    seen: &mut BTreeSet<Pid>,
) -> Result<BTreeSet<Pid>, LabError> {
    let started = Instant::now();
    let mut signalled = BTreeSet::new();
    loop {
        let alive = processes_in(inside)?;
        for &pid in alive.difference(&signalled) {
            // It may have ended since it was listed; ESRCH is no error.
            let sent = kill(pid, signal);
            log::debug!("{signal} to process {pid}: {sent:?}");
        }
        signalled.extend(&alive);
        seen.extend(&alive);
        if alive.is_empty() || started.elapsed() >= patience {
            return Ok(alive);
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn processes_in(inside: &BTreeSet<NamespaceId>) -> Result<BTreeSet<Pid>, LabError> {
    if inside.is_empty() {
        return Ok(BTreeSet::new());
    }
    let entries = fs::read_dir("/proc").map_err(|source| LabError::system("listing /proc", source))?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw);
    // Ended processes and zombies have no namespace.
    let is_inside =
        |pid: &Pid| identity(Path::new(&format!("/proc/{pid}/ns/net"))).is_some_and(|found| inside.contains(&found));
    Ok(pids.filter(|pid| *pid != Pid::this()).filter(is_inside).collect())
}
