//! The hidden names of what is unfinished, and what becomes of those that nobody takes up again.

use crate::disk::{Directory, DiskFile};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = ".ethbcast-";
const PART: &str = ".part";
const JOURNAL: &str = ".journal";
/// What nobody has written to for so long is not taken up again: a week.
const KEPT_SECONDS: u64 = 7 * 24 * 3600;

/// The hidden names of what is to be a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// Its data.
    pub part: PathBuf,
    /// What is said of it.
    pub journal: PathBuf,
}

impl Names {
    /// The same for the same name, so that it is found again.
    pub(super) fn of(name: &OsStr) -> Names {
        let digest = blake3::hash(name.as_bytes()).to_hex();
        Names::with(&format!("{PREFIX}{}", &digest[..16]))
    }

    /// Others each time.
    pub(super) fn fleeting() -> Names {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Names::with(&format!("{PREFIX}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    fn with(stem: &str) -> Names {
        Names { part: format!("{stem}{PART}").into(), journal: format!("{stem}{JOURNAL}").into() }
    }
}

/// Removes what dead receivers left in a directory, and says how many files that were. What has a journal can be taken
/// up again, and is kept for a week.
pub fn remove_stale<D: Directory>(directory: &D) -> usize {
    let Ok(names) = directory.names() else { return 0 };
    let stem = |name: &OsStr, suffix: &str| {
        let stem = name.to_str().filter(|name| name.starts_with(PREFIX))?.strip_suffix(suffix)?;
        Some(Names::with(stem))
    };
    let parts = names.iter().filter_map(|name| stem(name, PART));
    let removed = parts.filter(|names| is_stale(directory, names) && remove(directory, names)).count();
    let journals = names.iter().filter_map(|name| stem(name, JOURNAL));
    let alone = journals.filter(|names| directory.kind(&names.part).is_ok_and(|part| part.is_none()));
    removed + alone.filter(|names| directory.remove(&names.journal).is_ok()).count()
}

/// Whether nobody writes to it, and nobody will.
fn is_stale<D: Directory>(directory: &D, names: &Names) -> bool {
    let is_dead = |part: &Path| directory.take_up(part).is_ok_and(|part| part.try_lock());
    let is_old = directory.age_seconds(&names.journal).map_or(true, |seconds| seconds > KEPT_SECONDS);
    is_old && is_dead(&names.part)
}

/// Removes data and journal; whether the data is gone.
pub(super) fn remove<D: Directory>(directory: &D, names: &Names) -> bool {
    let removed = directory.remove(&names.part).is_ok();
    // The journal last: without its data it says nothing, and is removed by the next receiver.
    drop(directory.remove(&names.journal));
    removed
}
