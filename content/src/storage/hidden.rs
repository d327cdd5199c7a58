//! A directory that is being built, under a hidden name beside the one it will have, and locked as long as its process
//! lives: what is not locked was left by a dead one.

use crate::disk::{Directory, is_taken};
use crate::hidden_names::HiddenNames;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often another name is tried.
const ATTEMPTS: u32 = 1000;

/// The hidden directory; what is in it when this is dropped is removed, unless it can be taken up again.
#[derive(Debug)]
pub(super) struct Hidden<D: Directory> {
    holder: D,
    names: HiddenNames,
    root: Arc<D>,
    /// It has a journal, by which it is found again.
    is_kept: AtomicBool,
}

impl<D: Directory> Hidden<D> {
    /// A new one in `holder`, of which nothing is left.
    pub(super) fn create(holder: &D) -> io::Result<Hidden<D>> {
        for _ in 0..ATTEMPTS {
            let names = HiddenNames::fleeting();
            match holder.make_directory(&names.tree) {
                Err(error) if is_taken(&error) => continue,
                made => made?,
            }
            if let Some(hidden) = Hidden::open(holder, names)? {
                return Ok(hidden);
            }
        }
        Err(io::Error::new(ErrorKind::AlreadyExists, "temporary directories are removed as they are made"))
    }

    /// A new one with these names, which must be free.
    pub(super) fn create_named(holder: &D, names: &HiddenNames) -> io::Result<Hidden<D>> {
        holder.make_directory(&names.tree)?;
        let taken = || io::Error::new(ErrorKind::AlreadyExists, "another process receives the same");
        Hidden::open(holder, names.clone())?.ok_or_else(taken)
    }

    /// The one that has these names; none if there is none, or another process has it.
    pub(super) fn open(holder: &D, names: HiddenNames) -> io::Result<Option<Hidden<D>>> {
        if !holder.has_directory(&names.tree)? {
            return Ok(None);
        }
        holder.open_up(&names.tree)?;
        let root = holder.directory(&names.tree)?;
        // Before it was locked another receiver may have taken it for that of a dead one.
        if !root.try_lock() || !holder.is_own(&root, &names.tree) {
            return Ok(None);
        }
        Ok(Some(Hidden { holder: holder.try_clone()?, names, root: Arc::new(root), is_kept: AtomicBool::new(false) }))
    }

    /// Its name in the directory that holds it.
    pub(super) fn name(&self) -> &Path {
        &self.names.tree
    }

    /// The name of its journal.
    pub(super) fn journal(&self) -> &PathBuf {
        &self.names.journal
    }

    /// The directory itself.
    pub(super) fn root(&self) -> &Arc<D> {
        &self.root
    }

    /// From now on it stays when this is dropped.
    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// All its names.
    pub(super) fn names(&self) -> &HiddenNames {
        &self.names
    }

    /// Does something while nobody finds the journal: what has the hidden name then may not be ours. If that fails the
    /// journal is as it was; if not, there is none.
    pub(super) fn without_journal(&self, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if !self.is_kept.load(Ordering::Relaxed) {
            return work();
        }
        let elsewhere = HiddenNames::fleeting().journal;
        self.holder.rename(&self.names.journal, &self.holder, &elsewhere)?;
        if let Err(error) = self.holder.sync_names().and_then(|()| work()) {
            self.holder.rename(&elsewhere, &self.holder, &self.names.journal)?;
            return Err(error);
        }
        self.is_kept.store(false, Ordering::Relaxed);
        drop(self.holder.remove(&elsewhere));
        Ok(())
    }

    /// Removes it, or as much as can be, and says why the rest stays; dropped it is left alone.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.keep();
        if self.holder.kind(&self.names.tree)?.is_none() {
            return Ok(());
        }
        self.holder.remove_all(&self.names.tree)
    }

    /// Gives it a name that nobody looks for, to be removed in the end.
    pub(super) fn give_up(&mut self) -> io::Result<()> {
        let names = HiddenNames::fleeting();
        self.forget_journal()?;
        self.holder.rename(&self.names.tree, &self.holder, &names.tree)?;
        self.names = names;
        Ok(())
    }

    /// Nobody takes it up any more: waits until that is on the disk.
    pub(super) fn forget_journal(&self) -> io::Result<()> {
        if !self.is_kept.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.holder.remove(&self.names.journal) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => self.is_kept.store(false, Ordering::Relaxed),
        }
        self.holder.sync_names()
    }
}

impl<D: Directory> Drop for Hidden<D> {
    fn drop(&mut self) {
        if self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        if let Ok(Some(_)) = self.holder.kind(&self.names.tree)
            && let Err(error) = self.holder.remove_all(&self.names.tree)
        {
            log::warn!("{} was left behind: {error}", self.names.tree.display());
        }
        drop(self.holder.remove(&self.names.journal));
    }
}
