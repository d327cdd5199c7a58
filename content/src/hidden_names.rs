//! The hidden names of what is unfinished, and what becomes of those that nobody takes up again.

use crate::disk::{Directory, DiskFile, Kind};
use crate::journal;
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = ".ethbcast-";
const PART: &str = ".part";
const TREE: &str = ".tree";
const JOURNAL: &str = ".journal";
const OLD: &str = ".old";
/// What nobody has written to for so long is not taken up again: a week.
const KEPT_SECONDS: u64 = 7 * 24 * 3600;

/// The hidden names of something that has no name of its own yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenNames {
    /// The data of a file.
    pub part: PathBuf,
    /// A directory that is being built.
    pub tree: PathBuf,
    /// What is said of either.
    pub journal: PathBuf,
}

impl HiddenNames {
    /// The same for the same name, so that it is found again.
    pub(crate) fn of(name: &[u8]) -> HiddenNames {
        let digest = blake3::hash(name).to_hex();
        HiddenNames::with(&format!("{PREFIX}{}", &digest[..16]))
    }

    /// Others each time, also on another host that has the directory mounted.
    pub(crate) fn fleeting() -> HiddenNames {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        static OWN: OnceLock<u64> = OnceLock::new();
        let own = OWN.get_or_init(|| RandomState::new().build_hasher().finish());
        HiddenNames::with(&format!("{PREFIX}{own:x}-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// A directory in which something stands under its own name while another takes its place.
    pub(crate) fn old(&self) -> PathBuf {
        self.tree.with_extension(&OLD[1..])
    }

    fn with(stem: &str) -> HiddenNames {
        let named = |suffix: &str| PathBuf::from(format!("{stem}{suffix}"));
        HiddenNames { part: named(PART), tree: named(TREE), journal: named(JOURNAL) }
    }
}

/// Whether a name is one that stands for something unfinished.
pub(crate) fn is_hidden(name: &OsStr) -> bool {
    [PART, TREE, JOURNAL, OLD].into_iter().any(|suffix| with_suffix(name, suffix).is_some())
}

/// The names of which this is one, with this suffix.
fn with_suffix(name: &OsStr, suffix: &str) -> Option<HiddenNames> {
    let stem = name.to_str().filter(|name| name.starts_with(PREFIX))?.strip_suffix(suffix)?;
    Some(HiddenNames::with(stem))
}

/// Removes what dead receivers left in a directory, and says how many files and directories that were. What has a
/// journal can be taken up again, and is kept for a week; for ever, if nothing else may have what it has of an old
/// content. What was set aside and has no successor is brought back.
pub fn remove_stale<D: Directory>(directory: &D) -> usize {
    bring_back(directory);
    let Ok(names) = directory.names() else { return 0 };
    let all = |suffix| names.iter().filter_map(move |name| with_suffix(name, suffix));
    let is_dead_tree = |tree: &Path| {
        directory.has_directory(tree).is_ok_and(|there| there)
            && directory.directory(tree).is_ok_and(|tree| tree.try_lock())
    };
    let is_old = |names: &HiddenNames| is_old(directory, names);
    let is_spare = |names: &HiddenNames| is_old(names) && !has_old(directory, names).unwrap_or(true);
    let parts = all(PART).filter(|names| is_spare(names) && remove_dead(directory, names));
    let trees = all(TREE).filter(|names| is_old(names) && is_dead_tree(&names.tree) && remove(directory, names));
    let removed = parts.count() + trees.count();
    let is_alone = |names: &HiddenNames| {
        let is_free = |name: &Path| directory.kind(name).is_ok_and(|kind| kind.is_none());
        is_free(&names.part) && is_free(&names.tree)
    };
    removed + all(JOURNAL).filter(|names| is_alone(names) && directory.remove(&names.journal).is_ok()).count()
}

/// Brings back what dead receivers set aside in a directory, if it has no successor.
pub(crate) fn bring_back<D: Directory>(directory: &D) {
    let names = directory.names().unwrap_or_default();
    for old in names.iter().filter_map(|name| with_suffix(name, OLD)) {
        if let Err(error) = settle_aside(directory, &old) {
            log::warn!("what an earlier run set aside is still in {}: {error}", old.old().display());
        }
    }
}

/// Ends what a dead receiver began: brings back what it set aside, or removes it if its successor is there.
fn settle_aside<D: Directory>(directory: &D, names: &HiddenNames) -> io::Result<()> {
    let old = names.old();
    let aside = directory.directory(&old)?;
    if !aside.try_lock() || !directory.is_own(&aside, &old) {
        return Ok(());
    }
    // As long as the successor has its hidden name what has the other one is no successor.
    let is_succeeded = directory.kind(&names.tree)?.is_none();
    for name in aside.names()? {
        let name = Path::new(&name);
        let is_free = match directory.kind(name)? {
            None => true,
            Some(Kind::Directory) => !is_succeeded && directory.directory(name)?.names()?.is_empty(),
            Some(_) => false,
        };
        if is_free {
            aside.rename(name, directory, name)?;
            log::warn!("{} is there again as it was before a run that was cut off", name.display());
        } else if is_succeeded {
            directory.sync_names()?;
            aside.remove_all(name)?;
        } else {
            return Err(io::Error::other(format!("{} has been made anew: remove one of both", name.display())));
        }
    }
    directory.sync_names()?;
    directory.remove_directory(&old)
}

/// Whether there is something in a directory that can be taken up again.
pub(crate) fn has_left<D: Directory>(directory: &D) -> bool {
    directory.names().is_ok_and(|names| names.iter().any(|name| with_suffix(name, JOURNAL).is_some()))
}

/// How many bytes of what may come are in a directory already, beside the journals there.
pub(crate) fn left_bytes<D: Directory>(directory: &D) -> u64 {
    let names = directory.names().unwrap_or_default();
    let left = |names: HiddenNames| [names.part, names.tree].map(|name| allocated_bytes(directory, &name));
    names.iter().filter_map(|name| with_suffix(name, JOURNAL)).flat_map(left).sum()
}

/// How many bytes of the disk something takes, with all that is below it.
fn allocated_bytes<D: Directory>(directory: &D, name: &Path) -> u64 {
    match directory.kind(name) {
        Ok(Some(Kind::Directory)) => {
            let Ok(below) = directory.directory(name) else { return 0 };
            let names = below.names().unwrap_or_default();
            names.iter().map(|name| allocated_bytes(&below, Path::new(name))).sum()
        }
        Ok(Some(Kind::File)) => directory.allocated_bytes(name).unwrap_or(0),
        _ => 0,
    }
}

/// The files in a directory that were written over, are not complete, and were left so for longer than others are kept.
pub(crate) fn broken<D: Directory>(directory: &D) -> Vec<PathBuf> {
    let names = directory.names().unwrap_or_default();
    let parts = names.iter().filter_map(|name| with_suffix(name, PART));
    let has_old = |names: &HiddenNames| has_old(directory, names).is_ok_and(|has_old| has_old);
    parts.filter(|names| has_old(names) && is_old(directory, names)).map(|names| names.part).collect()
}

/// Whether the data of these names was at DEST, and may have the only remains of what that was.
///
/// # Errors
/// The system's, if that cannot be read.
pub(crate) fn has_old<D: Directory>(directory: &D, names: &HiddenNames) -> io::Result<bool> {
    match directory.file(&names.journal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        journal => journal::has_old(&journal?),
    }
}

/// Removes a file that nobody writes to any more, and its journal; whether it is gone.
pub(crate) fn remove_dead<D: Directory>(directory: &D, names: &HiddenNames) -> bool {
    directory.take_up(&names.part).is_ok_and(|part| part.try_lock()) && remove(directory, names)
}

/// Whether nobody will take it up.
fn is_old<D: Directory>(directory: &D, names: &HiddenNames) -> bool {
    directory.age_seconds(&names.journal).map_or(true, |seconds| seconds > KEPT_SECONDS)
}

/// Removes data and journal; whether the data is gone.
pub(crate) fn remove<D: Directory>(directory: &D, names: &HiddenNames) -> bool {
    let removed = directory.remove(&names.part).or_else(|_| directory.remove_all(&names.tree)).is_ok();
    // The journal last: without its data it says nothing, and is removed by the next receiver.
    drop(directory.remove(&names.journal));
    removed
}
