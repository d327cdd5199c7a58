//! What comes, at DEST: bytes as a file, on a device, on stdout or in a command, a directory as a directory.

use super::Dest;
use super::disk::Disk;
use crate::command::CommandState;
use crate::holdings::Held;
use crate::storage::{Arrived, Target, TreeStorage};
use ethbcast_collectives::session::live::{Offered, ReadAt, Storage, StorageError};
use ethbcast_collectives::session::{ContentKind, Outcome, Trailer};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// DEST, whatever comes.
pub struct Arrival {
    dest: Dest,
    disk: Disk,
    tree: TreeStorage,
    is_tree: bool,
    held: Option<Arc<Held>>,
}

/// What a user learns of DEST.
pub struct Landed {
    file: Arc<OnceLock<PathBuf>>,
    tree: Arc<Arrived>,
    command: Arc<CommandState>,
}

impl Landed {
    /// Where it is, when it is in place.
    pub fn path(&self) -> Option<&PathBuf> {
        self.file.get().or_else(|| self.tree.path())
    }

    /// Whether a directory is there that takes time to remove.
    pub fn is_building(&self) -> bool {
        self.tree.is_building()
    }

    /// The command that takes what comes, if there is one.
    pub fn command(&self) -> &CommandState {
        &self.command
    }

    /// The files of a directory that were left out, and why.
    pub fn left_out(&self) -> Vec<String> {
        self.tree.left_out()
    }
}

impl Arrival {
    /// A storage for DEST; a directory is put there as `target` says.
    pub fn new(dest: Dest, target: Target, read_back: bool) -> (Arrival, Landed) {
        let command = Arc::<CommandState>::default();
        let (disk, file) = Disk::new(dest.clone(), read_back, Arc::clone(&command));
        let (tree, arrived) = TreeStorage::new(target, read_back);
        (Arrival { dest, disk, tree, is_tree: false, held: None }, Landed { file, tree: arrived, command })
    }

    /// From now on what this host has of the content is found by `held`. If it `resumes`, that is also what an earlier
    /// run left, and what comes of this one is left for the next.
    pub fn holding(mut self, held: &Arc<Held>, resumes: bool) -> Arrival {
        self.disk.holding(resumes);
        if resumes {
            self.tree.resuming();
        }
        self.held = Some(Arc::clone(held));
        self
    }

    /// Whether what is offered can be put there.
    fn check(&self, offered: &Offered) -> Result<(), StorageError> {
        if let Some(text) = self.refusal().filter(|_| self.is_tree) {
            return Err(StorageError::new(Outcome::WriteFailed, text));
        }
        let free = self.dest.free_bytes();
        if let Some(size) = offered.size.filter(|&size| size > free) {
            let text = format!("no space: {size} bytes to come, {free} free where DEST is");
            return Err(StorageError::new(Outcome::NoSpace, text));
        }
        Ok(())
    }

    fn storage(&mut self) -> &mut dyn Storage {
        if self.is_tree { &mut self.tree } else { &mut self.disk }
    }

    /// Why a directory cannot go to DEST, if it cannot.
    fn refusal(&self) -> Option<&'static str> {
        match self.dest {
            Dest::Stdout => Some(
                "a directory comes, which cannot go to stdout: give DEST the name of a directory, or have an archive \
                 sent, `tar c DIR | ethbcast send -`",
            ),
            Dest::Command(_) => Some(
                "a directory comes, which no command takes: give DEST the name of a directory, or have an archive \
                 sent, `tar c DIR | ethbcast send -`",
            ),
            Dest::Device { .. } => Some("a directory comes, which cannot go to a device: choose a directory as DEST"),
            Dest::File { .. } | Dest::Directory { .. } => None,
        }
    }
}

impl Storage for Arrival {
    fn begin(&mut self, offered: &Offered) -> Result<(), StorageError> {
        self.is_tree = offered.content == ContentKind::Tree;
        let begun = self.check(offered).and_then(|()| self.storage().begin(offered));
        if let Some(held) = &self.held {
            held.opened(if self.is_tree { self.tree.left() } else { self.disk.left() });
        }
        begun
    }

    fn kept(&mut self) -> Option<Box<dyn ReadAt>> {
        self.storage().kept()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.storage().write(bytes)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.storage().keep(bytes)
    }

    fn settle(&mut self, trailer: Trailer) -> Result<(), StorageError> {
        self.storage().settle(trailer)
    }

    fn syncs(&self) -> bool {
        if self.is_tree { self.tree.syncs() } else { self.disk.syncs() }
    }

    fn publish(&mut self) -> Result<(), StorageError> {
        self.storage().publish()
    }
}
