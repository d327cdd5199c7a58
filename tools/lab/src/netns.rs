//! Linux network namespaces as of `ip netns`: their names, and threads that enter one.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{panic, thread};

use ethbcast_planning::natural_order;
use nix::sched::{CloneFlags, setns};

use crate::error::LabError;
use crate::names::{namespace_of, split_namespace};

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
    found.sort_by(|left, right| natural_order(&left.0, &right.0).then_with(|| natural_order(&left.1, &right.1)));
    Ok(found)
}

pub(crate) fn members_of(lab: &str) -> Result<Vec<String>, LabError> {
    Ok(lab_namespaces()?.into_iter().filter(|(owner, _)| owner == lab).map(|(_, host)| host).collect())
}

pub(crate) fn identity(path: &Path) -> Option<NamespaceId> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

pub(crate) fn own_host() -> Option<String> {
    let own = identity(Path::new("/proc/self/ns/net"))?;
    let is_own = |(lab, host): &(String, String)| identity(&path_of(&namespace_of(lab, host))) == Some(own);
    lab_namespaces().ok()?.into_iter().find(is_own).map(|(_, host)| host)
}

/// Runs `work` on a thread inside `namespace` and returns its result.
///
/// Sockets created and programs started by `work` stay inside. `/proc/sys/net` and
/// `/proc/thread-self/net` show the inside; `/sys/class/net` and `/proc/net` show the outside.
///
/// # Panics
/// If `work` panics.
pub(crate) fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    let entering = || format!("entering the namespace {namespace}");
    let file = File::open(path_of(namespace)).map_err(|source| LabError::system(entering(), source))?;
    thread::scope(|scope| {
        // A separate thread, which ends afterwards and never returns to the other namespace.
        let visitor = thread::Builder::new().name(format!("in {namespace}")).spawn_scoped(scope, || {
            setns(&file, CloneFlags::CLONE_NEWNET).map_err(|source| LabError::system(entering(), source))?;
            Ok(work())
        });
        let visitor = visitor.map_err(|source| LabError::system("starting a thread", source))?;
        visitor.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))
    })
}
