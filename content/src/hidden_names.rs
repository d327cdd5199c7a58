//! Hidden names of unfinished files and directories, and removal of old ones.

use crate::disk::{Directory, DiskFile, Kind};
use crate::journal::{self, Identity};
use crate::name::{HIDDEN_PREFIX, shown};
use std::collections::hash_map::RandomState;
use std::ffi::OsStr;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

const PART: &str = ".part";
const TREE: &str = ".tree";
const JOURNAL: &str = ".journal";
const OLD: &str = ".old";
/// Age after which unfinished data is no longer kept for resumption: a week.
const KEPT_SECONDS: u64 = 7 * 24 * 3600;

/// Hidden names of data that does not have its final name yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenNames {
    pub part: PathBuf,
    pub tree: PathBuf,
    pub journal: PathBuf,
}

impl HiddenNames {
    /// Returns names derived from `name`, so that a later run finds them again.
    pub(crate) fn of(name: &[u8]) -> HiddenNames {
        let digest = blake3::hash(name).to_hex();
        HiddenNames::with(&format!("{HIDDEN_PREFIX}{}", &digest[..16]))
    }

    pub(crate) fn of_content(identity: &Identity) -> HiddenNames {
        HiddenNames::of(&identity.content)
    }

    /// Returns names that are unique on this host and on others that mount the directory.
    pub(crate) fn fleeting() -> HiddenNames {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        static OWN: OnceLock<u64> = OnceLock::new();
        let own = OWN.get_or_init(|| RandomState::new().build_hasher().finish());
        HiddenNames::with(&format!(
            "{HIDDEN_PREFIX}{own:x}-{}",
            COUNT.fetch_add(1, Ordering::Relaxed)
        ))
    }

    /// Returns the directory that keeps the replaced entry while its successor is renamed into
    /// place.
    pub(crate) fn old(&self) -> PathBuf {
        self.tree.with_extension(&OLD[1..])
    }

    /// Returns the name of an old entry whose successor is in place.
    pub(crate) fn succeeded(old: &Path) -> PathBuf {
        old.with_extension(&PART[1..])
    }

    fn with(stem: &str) -> HiddenNames {
        let named = |suffix: &str| PathBuf::from(format!("{stem}{suffix}"));
        HiddenNames {
            part: named(PART),
            tree: named(TREE),
            journal: named(JOURNAL),
        }
    }
}

/// Entry under a hidden name that a run may continue.
#[derive(Debug)]
pub(crate) enum TakenUp<T> {
    Nothing,
    /// Another process holds its lock.
    Busy,
    /// Another user owns it, may write to it, or has another name for it; it stays as it is.
    Foreign(PathBuf),
    Own(T),
}

impl<T> TakenUp<T> {
    pub(crate) fn own(self) -> Option<T> {
        if let TakenUp::Own(own) = self {
            Some(own)
        } else {
            None
        }
    }
}

/// Opens a hidden file of any owner, unless the system refuses.
pub(crate) fn open<D: Directory>(holder: &D, name: &Path) -> io::Result<TakenUp<D::File>> {
    match holder.kind(name)? {
        None => return Ok(TakenUp::Nothing),
        Some(Kind::File) => {}
        Some(_) => return Ok(TakenUp::Foreign(name.to_owned())),
    }
    match holder.take_up(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(TakenUp::Nothing),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Ok(TakenUp::Foreign(name.to_owned()))
        }
        opened => Ok(TakenUp::Own(opened?)),
    }
}

/// Opens a hidden file that is this user's alone.
pub(crate) fn take_up<D: Directory>(holder: &D, name: &Path) -> io::Result<TakenUp<D::File>> {
    match open(holder, name)? {
        TakenUp::Own(file) if !file.is_private()? => Ok(TakenUp::Foreign(name.to_owned())),
        found => Ok(found),
    }
}

/// Opens and locks a hidden directory that is this user's alone.
pub(crate) fn take_up_tree<D: Directory>(holder: &D, name: &Path) -> io::Result<TakenUp<D>> {
    let foreign = || Ok(TakenUp::Foreign(name.to_owned()));
    match holder.kind(name)? {
        None => return Ok(TakenUp::Nothing),
        Some(Kind::Directory) => {}
        Some(_) => return foreign(),
    }
    let root = match holder.directory(name) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(TakenUp::Nothing),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return foreign(),
        root => root?,
    };
    if !root.is_private()? {
        return foreign();
    }
    lock_tree(holder, root, name)
}

pub(crate) fn lock_tree<D: Directory>(holder: &D, root: D, name: &Path) -> io::Result<TakenUp<D>> {
    holder.open_up(name)?;
    // Another receiver may have removed it as a leftover before it was locked.
    let is_ours = root.try_lock() && holder.is_own(&root, name);
    Ok(if is_ours {
        TakenUp::Own(root)
    } else {
        TakenUp::Busy
    })
}

/// Returns a sentence about a hidden entry at `path` that was not resumed.
pub(crate) fn foreign(path: &Path) -> String {
    format!(
        "{} belongs to somebody else, or others may write to it: it was left as it is, and the received data got \
         another hidden name, which no later run continues; remove it",
        shown(path.as_os_str().as_bytes())
    )
}

pub(crate) fn is_hidden(name: &OsStr) -> bool {
    [PART, TREE, JOURNAL, OLD]
        .into_iter()
        .any(|suffix| with_suffix(name, suffix).is_some())
}

fn with_suffix(name: &OsStr, suffix: &str) -> Option<HiddenNames> {
    let stem = name
        .to_str()
        .filter(|name| name.starts_with(HIDDEN_PREFIX))?
        .strip_suffix(suffix)?;
    Some(HiddenNames::with(stem))
}

/// Removes the leftovers of dead receivers in a directory and returns the number of removed
/// entries. Data with a journal is kept for a week. An entry that was set aside and has no
/// successor is moved back.
pub fn remove_stale<D: Directory>(directory: &D) -> usize {
    bring_back(directory);
    let Ok(names) = directory.names() else {
        return 0;
    };
    let all = |suffix| {
        names
            .iter()
            .filter_map(move |name| with_suffix(name, suffix))
    };
    // The lock is held until it is removed: in between another receiver could take it up.
    let parts = all(PART).filter(|names| {
        dead_part(directory, names).is_some_and(|_locked| remove(directory, names))
    });
    let trees = all(TREE).filter(|names| {
        dead_tree(directory, names).is_some_and(|_locked| remove(directory, names))
    });
    let removed = parts.count() + trees.count();
    let journals = all(JOURNAL).filter(|names| {
        lone_journal(directory, names)
            .is_some_and(|_locked| directory.remove(&names.journal).is_ok())
    });
    removed + journals.count()
}

/// A locked journal without data that no living receiver uses: a receiver that overwrites data at
/// DEST makes the journal first.
fn lone_journal<D: Directory>(directory: &D, names: &HiddenNames) -> Option<D::File> {
    let is_free = |name: &Path| directory.kind(name).is_ok_and(|kind| kind.is_none());
    let is_alone = || is_free(&names.part) && is_free(&names.tree);
    is_alone()
        .then(|| lock(directory, &names.journal))
        .flatten()
        .filter(|_| is_alone())
}

/// The locked data of a file that no living receiver uses and no later one will resume.
fn dead_part<D: Directory>(directory: &D, names: &HiddenNames) -> Option<D::File> {
    lock(directory, &names.part).filter(|part| {
        // An empty file has only its reserved space.
        let is_useless = is_old(directory, names) || part.bytes().is_ok_and(|bytes| bytes == 0);
        is_useless && !has_old(directory, names).unwrap_or(true)
    })
}

/// Locks a hidden file; `None` if there is none, or a living receiver uses it.
fn lock<D: Directory>(directory: &D, name: &Path) -> Option<D::File> {
    let file = directory.take_up(name).ok().filter(DiskFile::try_lock)?;
    // Its process may have renamed it to its final name, and another one may have created this name
    // anew.
    directory.is_named(&file, name).then_some(file)
}

/// Removes an unfinished file that no living receiver uses; returns whether there was one.
pub(crate) fn remove_dead<D: Directory>(directory: &D, names: &HiddenNames) -> bool {
    lock(directory, &names.part).is_some_and(|_locked| remove(directory, names))
}

/// A locked directory that no living receiver builds and no later one will resume.
fn dead_tree<D: Directory>(directory: &D, names: &HiddenNames) -> Option<D> {
    directory
        .has_directory(&names.tree)
        .ok()
        .filter(|there| *there)?;
    let tree = directory
        .directory(&names.tree)
        .ok()
        .filter(Directory::try_lock)?;
    (directory.is_own(&tree, &names.tree) && is_old(directory, names) && !holds_old(&tree))
        .then_some(tree)
}

/// Whether an old entry is among the built ones, for which no successor is in place yet: the next
/// run completes it.
pub(crate) fn holds_old<D: Directory>(tree: &D) -> bool {
    tree.names().map_or(true, |names| {
        names.iter().any(|name| with_suffix(name, OLD).is_some())
    })
}

/// Moves back the entries that dead receivers set aside in a directory, if they have no successor.
pub(crate) fn bring_back<D: Directory>(directory: &D) {
    let names = directory.names().unwrap_or_default();
    for old in names.iter().filter_map(|name| with_suffix(name, OLD)) {
        if let Err(error) = settle_aside(directory, &old) {
            log::warn!(
                "old content of an earlier run is still in {}: {error}",
                old.old().display()
            );
        }
    }
}

/// Finishes an interrupted replacement: moves the old entry back, or removes it if its successor is
/// in place.
fn settle_aside<D: Directory>(directory: &D, names: &HiddenNames) -> io::Result<()> {
    let old = names.old();
    let aside = directory.directory(&old)?;
    if !aside.is_private()? || !aside.try_lock() || !directory.is_own(&aside, &old) {
        return Ok(());
    }
    // A successor that still has its hidden name has not taken the place of the old entry.
    let is_succeeded = directory.kind(&names.tree)?.is_none();
    for name in aside.names()? {
        let name = Path::new(&name);
        let is_free = match directory.kind(name)? {
            None => true,
            Some(Kind::Directory) => {
                !is_succeeded && directory.directory(name)?.names()?.is_empty()
            }
            Some(_) => false,
        };
        if is_free {
            aside.rename(name, directory, name)?;
            log::warn!(
                "{} is there again as it was before a run that was cut off",
                name.display()
            );
        } else if is_succeeded {
            directory.sync_names()?;
            aside.remove_all(name)?;
        } else {
            return Err(io::Error::other(format!(
                "{} has been made anew: remove one of both",
                name.display()
            )));
        }
    }
    directory.sync_names()?;
    directory.remove_directory(&old)
}

pub(crate) fn has_left<D: Directory>(directory: &D) -> bool {
    directory.names().is_ok_and(|names| {
        names
            .iter()
            .any(|name| with_suffix(name, JOURNAL).is_some())
    })
}

pub(crate) fn left_bytes<D: Directory>(directory: &D) -> u64 {
    let names = directory.names().unwrap_or_default();
    names
        .iter()
        .filter_map(|name| with_suffix(name, JOURNAL))
        .map(|names| allocated_bytes(directory, &names))
        .sum()
}

pub(crate) fn allocated_bytes<D: Directory>(directory: &D, names: &HiddenNames) -> u64 {
    [&names.part, &names.tree]
        .into_iter()
        .map(|name| allocated_below(directory, name))
        .sum()
}

fn allocated_below<D: Directory>(directory: &D, name: &Path) -> u64 {
    match directory.kind(name) {
        Ok(Some(Kind::Directory)) => {
            let Ok(below) = directory.directory(name) else {
                return 0;
            };
            let names = below.names().unwrap_or_default();
            names
                .iter()
                .map(|name| allocated_below(&below, Path::new(name)))
                .sum()
        }
        Ok(Some(Kind::File)) => directory.allocated_bytes(name).unwrap_or(0),
        _ => 0,
    }
}

/// The files in a directory that were overwritten and are incomplete, and that no living receiver
/// uses.
pub(crate) fn broken<D: Directory>(directory: &D) -> Vec<PathBuf> {
    let names = directory.names().unwrap_or_default();
    let parts = names.iter().filter_map(|name| with_suffix(name, PART));
    let has_old = |names: &HiddenNames| has_old(directory, names).is_ok_and(|has_old| has_old);
    parts
        .filter(|names| has_old(names) && lock(directory, &names.part).is_some())
        .map(|names| names.part)
        .collect()
}

/// Whether the data of these names was at DEST, and may be the only remains of the old content.
///
/// # Errors
/// The system's, if that cannot be read.
pub(crate) fn has_old<D: Directory>(directory: &D, names: &HiddenNames) -> io::Result<bool> {
    match directory.file(&names.journal) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        journal => {
            let journal = journal?;
            Ok(journal.is_private()? && journal::has_old(&journal)?)
        }
    }
}

fn is_old<D: Directory>(directory: &D, names: &HiddenNames) -> bool {
    directory
        .age_seconds(&names.journal)
        .map_or(true, |seconds| seconds > KEPT_SECONDS)
}

pub(crate) fn remove<D: Directory>(directory: &D, names: &HiddenNames) -> bool {
    let removed = directory
        .remove(&names.part)
        .or_else(|_| directory.remove_all(&names.tree))
        .is_ok();
    // The journal is removed last: a journal without data is removed by the next receiver.
    drop(directory.remove(&names.journal));
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Beneath, PRIVATE_FILE};
    use std::fs;

    #[test]
    fn entries_under_removal_are_locked_and_a_recreated_name_is_another_file() {
        let scratch = tempfile::tempdir().expect("a directory");
        let directory = Beneath::open(scratch.path()).expect("there");
        let (names, other) = (HiddenNames::of(b"file"), HiddenNames::of(b"other"));
        fs::write(scratch.path().join(&names.part), b"left").expect("room");
        let dead = dead_part(&directory, &names).expect("nobody has it");
        assert!(
            lock(&directory, &names.part).is_none(),
            "nobody takes up what is being removed"
        );
        drop(dead);
        let left = directory.take_up(&names.part).expect("there");
        directory
            .rename(&names.part, &directory, &other.part)
            .expect("free");
        fs::write(scratch.path().join(&names.part), b"anew").expect("room");
        assert!(DiskFile::try_lock(&left) && !directory.is_named(&left, &names.part));
        fs::create_dir(scratch.path().join(&names.tree)).expect("room");
        let dead = dead_tree(&directory, &names).expect("nobody has it");
        assert!(
            dead_tree(&directory, &names).is_none(),
            "nobody takes up what is being removed"
        );
        drop(dead);
        assert_eq!(remove_stale(&directory), 2, "the file that is locked stays");
        assert!(scratch.path().join(&other.part).exists());
    }

    #[test]
    fn a_journal_that_a_receiver_has_just_made_is_not_removed_and_data_of_no_bytes_is() {
        let scratch = tempfile::tempdir().expect("a directory");
        let directory = Beneath::open(scratch.path()).expect("there");
        let (names, empty) = (HiddenNames::of(b"file"), HiddenNames::of(b"empty"));
        let journal = directory
            .create(&names.journal, PRIVATE_FILE)
            .expect("free");
        assert!(DiskFile::try_lock(&journal));
        for name in [&empty.part, &empty.journal] {
            directory.create(name, PRIVATE_FILE).expect("free");
        }
        assert_eq!(remove_stale(&directory), 1, "its journal goes with it");
        assert_eq!(
            directory.names().expect("readable"),
            [names.journal.as_os_str()]
        );
        drop(journal);
        assert_eq!(remove_stale(&directory), 1);
    }
}
