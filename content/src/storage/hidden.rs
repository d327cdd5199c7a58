//! A directory under construction. It has a hidden name beside its final one, and is locked while
//! its process lives: an unlocked one is a leftover.

use crate::disk::{Directory, is_taken};
use crate::hidden_names::{HiddenNames, TakenUp, take_up_tree};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ATTEMPTS: u32 = 1000;

/// The hidden directory. It is removed on drop unless it can be resumed.
#[derive(Debug)]
pub(super) struct HiddenTree<D: Directory> {
    holder: D,
    names: HiddenNames,
    root: Arc<D>,
    is_kept: AtomicBool,
}

impl<D: Directory> HiddenTree<D> {
    pub(super) fn create(holder: &D) -> io::Result<HiddenTree<D>> {
        for _ in 0..ATTEMPTS {
            let names = HiddenNames::fleeting();
            match holder.make_directory(&names.tree) {
                Err(error) if is_taken(&error) => continue,
                made => made?,
            }
            if let TakenUp::Own(hidden) = HiddenTree::open(holder, names)? {
                return Ok(hidden);
            }
        }
        Err(io::Error::new(ErrorKind::AlreadyExists, "temporary directories are removed as they are made"))
    }

    pub(super) fn create_named(holder: &D, names: &HiddenNames) -> io::Result<HiddenTree<D>> {
        holder.make_directory(&names.tree)?;
        let taken = || io::Error::new(ErrorKind::AlreadyExists, "another process receives the same");
        HiddenTree::open(holder, names.clone())?.own().ok_or_else(taken)
    }

    /// Opens the one with these names.
    pub(super) fn open(holder: &D, names: HiddenNames) -> io::Result<TakenUp<HiddenTree<D>>> {
        let root = Arc::new(match take_up_tree(holder, &names.tree)? {
            TakenUp::Own(root) => root,
            TakenUp::Nothing => return Ok(TakenUp::Nothing),
            TakenUp::Busy => return Ok(TakenUp::Busy),
            TakenUp::Foreign(name) => return Ok(TakenUp::Foreign(name)),
        });
        Ok(TakenUp::Own(HiddenTree { holder: holder.try_clone()?, names, root, is_kept: AtomicBool::new(false) }))
    }

    pub(super) fn name(&self) -> &Path {
        &self.names.tree
    }

    pub(super) fn journal(&self) -> &PathBuf {
        &self.names.journal
    }

    pub(super) fn root(&self) -> &Arc<D> {
        &self.root
    }

    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    pub(super) fn names(&self) -> &HiddenNames {
        &self.names
    }

    /// Runs `work` with the journal hidden, because the hidden name may belong to another entry
    /// afterwards. If it fails the journal is restored, otherwise removed.
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

    /// Removes as much as possible and returns the first error. Nothing more is tried on drop.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.keep();
        if self.holder.kind(&self.names.tree)?.is_none() {
            return Ok(());
        }
        self.holder.remove_all(&self.names.tree)
    }

    /// Gives the directory a name that no later run looks for, to be removed in the end.
    pub(super) fn give_up(&mut self) -> io::Result<()> {
        let names = HiddenNames::fleeting();
        self.forget_journal()?;
        self.holder.rename(&self.names.tree, &self.holder, &names.tree)?;
        self.names = names;
        Ok(())
    }

    /// Removes the journal durably, so that no run resumes the directory.
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

impl<D: Directory> Drop for HiddenTree<D> {
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
