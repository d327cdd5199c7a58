//! What comes, at DEST: bytes as a file, on a device, on stdout or in a command, a directory as a directory.

use super::bytes::{Bytes, Said, too_small};
use super::unpacking::{Unpacked, Unpacking};
use super::{Dest, Handling};
use crate::command::CommandState;
use crate::disk::Lack;
use crate::holdings::Held;
use crate::storage::{Arrived, Target, TreeStorage};
use ethbcast_collectives::session::live::{Offered, ReadAt, Storage, StorageError};
use ethbcast_collectives::session::{ContentKind, FileAttributes, Outcome, Packing, Trailer};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// DEST, whatever comes.
pub struct Arrival {
    dest: Arc<Dest>,
    /// With the thread that unpacks into them, if there is one.
    bytes: Option<Bytes>,
    unpacking: Option<Unpacking>,
    tree: TreeStorage,
    is_tree: bool,
    held: Option<Arc<Held>>,
}

/// What a user learns of DEST.
pub struct Landed {
    bytes: Arc<Said>,
    tree: Arc<Arrived>,
    /// What its user was told before it came.
    told: BTreeSet<Lack>,
}

impl Landed {
    /// Where it is, when it is in place.
    pub fn path(&self) -> Option<&PathBuf> {
        self.bytes.path.get().or_else(|| self.tree.path())
    }

    /// Whether a directory is there that takes time to remove.
    pub fn is_building(&self) -> bool {
        self.tree.is_building()
    }

    /// The command that takes what comes, if there is one.
    pub fn command(&self) -> &CommandState {
        &self.bytes.command
    }

    /// What is true of DEST, and what to do, if what was there is no longer what it was, nor what comes.
    pub fn broken(&self) -> Option<String> {
        if let Some(path) = self.bytes.broken.get().filter(|_| self.path().is_none()) {
            return Some(format!(
                "what was at DEST is neither old nor new, as it was written over: it is in {}, and the next recv to \
                 DEST completes it",
                path.display()
            ));
        }
        let path = self.tree.broken()?;
        Some(format!(
            "{} has old and new files, each of them whole: the next recv --in-place to DEST completes it",
            path.display()
        ))
    }

    /// The files of a directory that were left out, and why.
    pub fn left_out(&self) -> Vec<String> {
        self.tree.left_out()
    }

    /// What of a directory DEST could not keep, such as owners; without what [`Dest::warnings`] says of it.
    pub fn lacks(&self) -> Vec<String> {
        self.tree.lacks_beside(&self.told)
    }

    /// The directory that was replaced and cannot be removed: its place, the reason, and what to do.
    pub fn remains(&self) -> Vec<String> {
        self.tree.remains()
    }
}

impl Arrival {
    /// A storage for DEST; a directory is put there as `target` says.
    pub fn new(dest: impl Into<Arc<Dest>>, target: Target, handling: Handling) -> (Arrival, Landed) {
        let (dest, said) = (dest.into(), Arc::<Said>::default());
        let told = dest.told();
        let bytes = Some(Bytes::new(Arc::clone(&dest), handling, Arc::clone(&said)));
        let (tree, arrived) = TreeStorage::new(target, handling.read_back);
        let arrival = Arrival { dest, bytes, unpacking: None, tree, is_tree: false, held: None };
        (arrival, Landed { bytes: said, tree: arrived, told })
    }

    /// From now on what this host has of the content is found by `held`. If it `resumes`, that is also what an earlier
    /// run left, and what comes of this one is left for the next.
    pub fn holding(mut self, held: &Arc<Held>, resumes: bool) -> Arrival {
        self.bytes.iter_mut().for_each(|bytes| bytes.holding(resumes));
        if resumes {
            self.tree.resuming();
        }
        self.held = Some(Arc::clone(held));
        self
    }

    /// Whether what is offered can be put there.
    fn check(&self, offered: &Offered) -> Result<(), StorageError> {
        if let Some(text) = self.refusal().filter(|_| self.is_tree) {
            return Err(StorageError::refused(text));
        }
        let free = self.dest.free_bytes();
        if let Some(size) = offered.size.filter(|&size| size > free) {
            if let Dest::Device { .. } = &*self.dest {
                return Err(too_small(free, size));
            }
            let text = format!("no space: {size} bytes to come, {free} free where DEST is");
            return Err(StorageError::new(Outcome::NoSpace, text));
        }
        Ok(())
    }

    fn storage(&mut self) -> &mut dyn Storage {
        if self.is_tree { &mut self.tree } else { self.bytes.as_mut().expect("nothing unpacks into it") }
    }

    /// What comes is unpacked on its way.
    fn unpack(&mut self, packing: Packing, attributes: FileAttributes, offered: &Offered) -> Result<(), StorageError> {
        let mut bytes = self.bytes.take().expect("nothing unpacks into it");
        bytes.begin(&Offered { size: None, content: ContentKind::File(attributes), ..offered.clone() })?;
        let unpacking = Unpacking::start(packing, bytes).map_err(|error| crate::trouble("unpack it", error))?;
        self.unpacking = Some(unpacking);
        Ok(())
    }

    /// Why a directory cannot go to DEST, if it cannot.
    fn refusal(&self) -> Option<&'static str> {
        match &*self.dest {
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
        self.check(offered)?;
        if let ContentKind::Packed(packing, attributes) = offered.content {
            return self.unpack(packing, attributes, offered);
        }
        self.storage().begin(offered)?;
        if let Some(held) = &self.held {
            held.opened(if self.is_tree { self.tree.left() } else { self.bytes.as_mut().and_then(Bytes::left) });
        }
        Ok(())
    }

    fn kept(&mut self) -> Option<Box<dyn ReadAt>> {
        if self.unpacking.is_some() { None } else { self.storage().kept() }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        match &mut self.unpacking {
            Some(unpacking) => unpacking.write(bytes),
            None => self.storage().write(bytes),
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        match &mut self.unpacking {
            Some(unpacking) => unpacking.write(bytes),
            None => self.storage().keep(bytes),
        }
    }

    fn settle(&mut self, trailer: Trailer) -> Result<(), StorageError> {
        let Some(mut unpacking) = self.unpacking.take() else { return self.storage().settle(trailer) };
        let Unpacked { bytes, content } = unpacking.finish()?;
        self.bytes.insert(bytes).settle(content)
    }

    fn syncs(&self) -> bool {
        // What unpacks has a disk behind it.
        if self.is_tree { self.tree.syncs() } else { self.bytes.as_ref().is_none_or(Storage::syncs) }
    }

    fn note(&self) -> String {
        self.tree.note()
    }

    fn publish(&mut self) -> Result<(), StorageError> {
        // What is open cannot be removed everywhere.
        if let Some(held) = &self.held {
            held.close();
        }
        self.storage().publish()
    }
}
