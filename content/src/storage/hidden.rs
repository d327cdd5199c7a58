//! A directory that is being built, under a hidden name beside the one it will have, and locked as long as its process
//! lives: what is not locked was left by a dead one.

use crate::disk::{Beneath, Directory, is_taken};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = ".ethbcast-";
const SUFFIX: &str = ".tree";
/// How often another name is tried.
const ATTEMPTS: u32 = 1000;

/// The hidden directory; what is in it when this is dropped is removed.
#[derive(Debug)]
pub(super) struct Hidden<D: Directory> {
    holder: D,
    name: PathBuf,
    root: Arc<D>,
}

impl<D: Directory> Hidden<D> {
    /// A new one in `holder`.
    pub(super) fn create(holder: &D) -> io::Result<Hidden<D>> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        for _ in 0..ATTEMPTS {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = PathBuf::from(format!("{PREFIX}{}-{number}{SUFFIX}", std::process::id()));
            match holder.make_directory(&name) {
                Err(error) if is_taken(&error) => continue,
                made => made?,
            }
            let root = holder.directory(&name);
            // Before it was locked another receiver may have taken it for that of a dead one.
            if let Some(root) = root.ok().filter(|root| root.try_lock() && holder.is_own(root, &name)) {
                return Ok(Hidden { holder: holder.try_clone()?, name, root: Arc::new(root) });
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "temporary directories are removed as they are made"))
    }

    /// Its name in the directory that holds it.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// The directory itself.
    pub(super) fn root(&self) -> &Arc<D> {
        &self.root
    }
}

impl<D: Directory> Drop for Hidden<D> {
    fn drop(&mut self) {
        match self.holder.kind(&self.name) {
            Ok(Some(_)) => {}
            _ => return,
        }
        if let Err(error) = self.holder.remove_all(&self.name) {
            log::warn!("{} was left behind: {error}", self.name.display());
        }
    }
}

/// Whether a name is one that this crate gives to what is unfinished.
pub(super) fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(PREFIX.as_bytes()) && name.as_bytes().ends_with(SUFFIX.as_bytes())
}

/// Removes the unfinished directories in `directory` whose processes are dead, and says how many those were.
pub fn remove_stale(directory: &Path) -> usize {
    let (Ok(entries), Ok(holder)) = (fs::read_dir(directory), Beneath::open(directory)) else { return 0 };
    let names = entries.flatten().map(|entry| entry.file_name()).filter(|name| is_hidden(name));
    let is_dead = |name: &Path| holder.directory(name).is_ok_and(|stale| stale.try_lock());
    names.filter(|name| is_dead(Path::new(name)) && holder.remove_all(Path::new(name)).is_ok()).count()
}
