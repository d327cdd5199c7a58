//! Linux network namespaces as of `ip netns`: their names, threads that enter one, and processes
//! inside.

use crate::error::LabError;
use crate::names::{namespace_of, split_namespace};
use ethbcast_planning::natural_order;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{panic, thread};

const DIRECTORY: &str = "/var/run/netns";

/// Identity of a namespace: device and inode number of its file.
pub(crate) type NamespaceId = (u64, u64);

pub(crate) fn path_of(namespace: &str) -> PathBuf {
    Path::new(DIRECTORY).join(namespace)
}

/// Returns all namespaces that belong to labs, as (lab, host), hosts in natural order.
pub(crate) fn lab_namespaces() -> Result<Vec<(String, String)>, LabError> {
    let failed = |source| LabError::system(format!("listing {DIRECTORY}"), source);
    let entries = match fs::read_dir(DIRECTORY) {
        Ok(entries) => entries,
        // No namespace has been created since boot.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        if let Some((lab, host)) = name.to_str().and_then(split_namespace) {
            found.push((lab.to_owned(), host.to_owned()));
        }
    }
    found.sort_by(|left, right| {
        natural_order(&left.0, &right.0).then_with(|| natural_order(&left.1, &right.1))
    });
    Ok(found)
}

pub(crate) fn members_of(lab: &str) -> Result<Vec<String>, LabError> {
    Ok(lab_namespaces()?
        .into_iter()
        .filter(|(owner, _)| owner == lab)
        .map(|(_, host)| host)
        .collect())
}

pub(crate) fn identity(path: &Path) -> Option<NamespaceId> {
    fs::metadata(path)
        .ok()
        .map(|metadata| (metadata.dev(), metadata.ino()))
}

pub(crate) fn own_host() -> Option<String> {
    let own = identity(Path::new("/proc/self/ns/net"))?;
    let is_own =
        |(lab, host): &(String, String)| identity(&path_of(&namespace_of(lab, host))) == Some(own);
    lab_namespaces()
        .ok()?
        .into_iter()
        .find(is_own)
        .map(|(_, host)| host)
}

/// Runs `work` on a thread inside `namespace` and returns its result.
///
/// Sockets created and programs started by `work` stay inside. `/proc/sys/net` and
/// `/proc/thread-self/net` show the inside; `/sys/class/net` and `/proc/net` show the outside.
///
/// # Panics
/// If `work` panics.
pub(crate) fn inside<T: Send>(
    namespace: &str,
    work: impl FnOnce() -> T + Send,
) -> Result<T, LabError> {
    let entering = || format!("entering the namespace {namespace}");
    let file =
        File::open(path_of(namespace)).map_err(|source| LabError::system(entering(), source))?;
    thread::scope(|scope| {
        // A separate thread, which ends afterwards and never returns to the other namespace.
        let visitor = thread::Builder::new()
            .name(format!("in {namespace}"))
            .spawn_scoped(scope, || {
                setns(&file, CloneFlags::CLONE_NEWNET)
                    .map_err(|source| LabError::system(entering(), source))?;
                Ok(work())
            });
        let visitor = visitor.map_err(|source| LabError::system("starting a thread", source))?;
        visitor
            .join()
            .unwrap_or_else(|panicked| panic::resume_unwind(panicked))
    })
}

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
    let inside: BTreeSet<_> = namespaces
        .iter()
        .filter_map(|name| identity(&path_of(name)))
        .filter(|found| Some(*found) != own)
        .collect();
    let mut ended = BTreeSet::new();
    signal_until_gone(&inside, Signal::SIGTERM, GRACE, &mut ended)?;
    let remaining = signal_until_gone(&inside, Signal::SIGKILL, LAST_WAIT, &mut ended)?;
    if remaining.is_empty() {
        Ok(ended.len())
    } else {
        Err(LabError::ProcessesRemain(
            remaining.into_iter().map(Pid::as_raw).collect(),
        ))
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
    let entries =
        fs::read_dir("/proc").map_err(|source| LabError::system("listing /proc", source))?;
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .map(Pid::from_raw);
    // Ended processes and zombies have no namespace.
    let is_inside = |pid: &Pid| {
        identity(Path::new(&format!("/proc/{pid}/ns/net")))
            .is_some_and(|found| inside.contains(&found))
    };
    Ok(pids
        .filter(|pid| *pid != Pid::this())
        .filter(is_inside)
        .collect())
}
