//! Network namespaces as `ip netns` keeps them: names in a directory, and a thread that steps inside one.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{panic, thread};

use ethbcast_planning::natural_order;
use nix::sched::{CloneFlags, setns};

use crate::error::LabError;
use crate::names::{namespace_of, split_namespace};

/// Where `ip netns` keeps one mounted file per namespace.
const DIRECTORY: &str = "/var/run/netns";

/// What tells one namespace from another: the device and inode number of the file that stands for it.
pub(crate) type NamespaceId = (u64, u64);

/// The file that stands for `namespace`.
pub(crate) fn path_of(namespace: &str) -> PathBuf {
    Path::new(DIRECTORY).join(namespace)
}

/// Every namespace that belongs to a lab, as (lab, host), hosts in natural order.
pub(crate) fn lab_namespaces() -> Result<Vec<(String, String)>, LabError> {
    let failed = |source| LabError::system(format!("listing {DIRECTORY}"), source);
    let entries = match fs::read_dir(DIRECTORY) {
        Ok(entries) => entries,
        // Nobody has made a namespace since the machine started.
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

/// The hosts of `lab`, its switches among them, in natural order; none if there is no such lab.
pub(crate) fn members_of(lab: &str) -> Result<Vec<String>, LabError> {
    Ok(lab_namespaces()?.into_iter().filter(|(owner, _)| owner == lab).map(|(_, host)| host).collect())
}

/// The identity of the namespace a file stands for; `None` when there is no such file any more.
pub(crate) fn identity(path: &Path) -> Option<NamespaceId> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// The host of a lab whose namespace this process is in.
pub(crate) fn own_host() -> Option<String> {
    let own = identity(Path::new("/proc/self/ns/net"))?;
    let is_own = |(lab, host): &(String, String)| identity(&path_of(&namespace_of(lab, host))) == Some(own);
    lab_namespaces().ok()?.into_iter().find(is_own).map(|(_, host)| host)
}

/// Runs `work` on a thread inside `namespace`, and returns what it returns.
///
/// Sockets made and programs started by `work` are inside, and stay there. `/proc/sys/net` and
/// `/proc/thread-self/net` show the inside too; `/sys/class/net` and `/proc/net` show the outside.
///
/// # Panics
/// Where `work` does.
pub(crate) fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    let entering = || format!("entering the namespace {namespace}");
    let file = File::open(path_of(namespace)).map_err(|source| LabError::system(entering(), source))?;
    thread::scope(|scope| {
        // A thread of its own, because a thread that has stepped inside had better not live on among the others.
        let visitor = thread::Builder::new().name(format!("in {namespace}")).spawn_scoped(scope, || {
            setns(&file, CloneFlags::CLONE_NEWNET).map_err(|source| LabError::system(entering(), source))?;
            Ok(work())
        });
        let visitor = visitor.map_err(|source| LabError::system("starting a thread", source))?;
        visitor.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))
    })
}
