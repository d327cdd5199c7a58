//! Builds a directory from its stream.

use crate::disk::{Directory, DiskFile, PRIVATE_FILE, Setter, is_taken};
use crate::layout::{Layout, Piece, Verdict};
use crate::manifest::{Entry, Node};
use crate::name;
use crate::replay::{Trouble, Troubles};
use crate::trouble::trouble;
use ethbcast_collectives::session::Outcome;
use ethbcast_collectives::session::live::StorageError;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A directory that is being built.
#[derive(Debug)]
pub(super) struct Building<D: Directory> {
    root: Arc<D>,
    layout: Arc<Layout>,
    /// The files that did not come whole, and the names of them: they are removed before anybody sees them.
    troubles: Troubles,
    setter: Setter,
    /// Where in the stream the next bytes are.
    at: u64,
    /// The next entry to be made.
    next: usize,
    /// The directory in which something was made last.
    directory: Option<(u32, D)>,
    /// The file that is being written.
    file: Option<D::File>,
}

impl<D: Directory> Building<D> {
    /// Builds in `root`, which is empty; the manifest has been taken off the stream.
    pub(super) fn new(root: Arc<D>, layout: Arc<Layout>, manifest_bytes: u64, troubles: Troubles) -> Building<D> {
        let setter = Setter::default();
        Building { root, layout, troubles, setter, at: manifest_bytes, next: 1, directory: None, file: None }
    }

    /// Takes the next bytes of the stream.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), StorageError> {
        while !bytes.is_empty() {
            let taken = match self.layout.at(self.at) {
                Some(Piece::Data { entry, offset, bytes: most }) => {
                    let count = usize::try_from(most).unwrap_or(usize::MAX).min(bytes.len());
                    self.make_until(entry)?;
                    let file = self.file.as_ref().expect("it was just made");
                    file.write_all_at(&bytes[..count], offset).map_err(|error| self.failed("write", entry, error))?;
                    count
                }
                Some(Piece::Verdict { entry }) => {
                    self.make_until(entry)?;
                    self.finish_file(entry, Verdict::of(bytes[0]))?;
                    1
                }
                Some(Piece::Manifest { .. }) | None => {
                    let text = "more came than the list of files says: send again with the same build on all hosts";
                    return Err(StorageError::new(Outcome::Damaged, text));
                }
            };
            self.at += taken as u64;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// All has come: makes what is left, takes away what did not come whole, and sets the directories' attributes.
    pub(super) fn finish(&mut self) -> Result<(), StorageError> {
        if self.at != self.layout.bytes() {
            let text = "less came than the list of files says: send again with the same build on all hosts";
            return Err(StorageError::new(Outcome::Damaged, text));
        }
        let layout = Arc::clone(&self.layout);
        let entries = layout.manifest().entries();
        self.make_until(entries.len() - 1)?;
        let lost: Vec<usize> = self.troubles.lock().keys().copied().collect();
        for entry in lost {
            let removed =
                self.enter(entries[entry].parent).and_then(|directory| directory.remove(&path_of(&entries[entry])));
            removed.map_err(|error| self.failed("remove", entry, error))?;
        }
        for (at, entry) in entries.iter().enumerate().rev().filter(|(_, entry)| entry.is_directory()) {
            let opened = self.root.directory(&layout.manifest().path(at));
            let set = opened
                .and_then(|directory| directory.set_attributes(&mut self.setter, &entry.attributes, layout.manifest()));
            set.map_err(|error| self.failed("set the attributes of", at, error))?;
        }
        Ok(())
    }

    /// Makes all entries up to this one; a file is open then.
    fn make_until(&mut self, last: usize) -> Result<(), StorageError> {
        let layout = Arc::clone(&self.layout);
        while self.next <= last {
            let at = self.next;
            self.next += 1;
            let entry = &layout.manifest().entries()[at];
            self.make(entry).map_err(|error| match error {
                error if is_taken(&error) => self.collision(at),
                error => self.failed("make", at, error),
            })?;
        }
        Ok(())
    }

    fn make(&mut self, entry: &Entry) -> io::Result<()> {
        let (layout, own) = (Arc::clone(&self.layout), path_of(entry));
        let manifest = layout.manifest();
        match &entry.node {
            Node::Directory => self.enter(entry.parent)?.make_directory(&own),
            Node::File(_) => {
                self.file = Some(self.enter(entry.parent)?.create(&own, PRIVATE_FILE)?);
                Ok(())
            }
            Node::Symlink(target) => {
                self.enter(entry.parent)?.make_symlink(&own, target)?;
                self.set_at(entry, &own, true)
            }
            Node::Special(special) => {
                self.enter(entry.parent)?.make_special(&own, *special)?;
                self.set_at(entry, &own, false)
            }
            Node::HardLink(of) => {
                let first = *of as usize;
                let trouble = self.troubles.lock().get(&first).cloned();
                if let Some(trouble) = trouble {
                    // It is made as an empty file, to be removed with the others.
                    let at = self.next - 1;
                    self.enter(entry.parent)?.create(&own, PRIVATE_FILE)?;
                    self.troubles.lock().insert(at, trouble);
                    return Ok(());
                }
                let first = &manifest.entries()[first];
                let other = self.root.directory(&manifest.path(first.parent.unwrap_or(0) as usize))?;
                self.enter(entry.parent)?.make_link(&own, &other, &path_of(first))
            }
        }
    }

    fn set_at(&mut self, entry: &Entry, own: &Path, is_link: bool) -> io::Result<()> {
        let layout = Arc::clone(&self.layout);
        let directory = self.enter(entry.parent)?.try_clone()?;
        directory.set_attributes_at(own, &mut self.setter, &entry.attributes, layout.manifest(), is_link)
    }

    /// All data of a file has come.
    fn finish_file(&mut self, entry: usize, verdict: Verdict) -> Result<(), StorageError> {
        let layout = Arc::clone(&self.layout);
        let file = self.file.take().expect("its entry was made");
        let own = &layout.manifest().entries()[entry];
        if verdict != Verdict::Whole {
            let trouble = Trouble { zeros_from: u64::MAX, verdict, why: verdict.words().to_owned() };
            self.troubles.lock().insert(entry, trouble);
            return Ok(());
        }
        let Node::File(data) = &own.node else { return Ok(()) };
        // A hole at the end is written by nobody.
        let sized = if data.extents().is_some() { file.set_bytes(data.bytes()) } else { Ok(()) };
        let set = sized.and_then(|()| file.set_attributes(&mut self.setter, &own.attributes, layout.manifest()));
        set.map_err(|error| self.failed("set the attributes of", entry, error))
    }

    /// The directory of that entry, open.
    fn enter(&mut self, parent: Option<u32>) -> io::Result<&D> {
        let parent = parent.unwrap_or(0);
        if self.directory.as_ref().is_none_or(|(open, _)| *open != parent) {
            let path = self.layout.manifest().path(parent as usize);
            self.directory = Some((parent, self.root.directory(&path)?));
        }
        Ok(&self.directory.as_ref().expect("it was just opened").1)
    }

    fn failed(&self, doing: &str, entry: usize, error: io::Error) -> StorageError {
        trouble(&format!("{doing} {}", self.layout.manifest().shown(entry)), error)
    }

    fn collision(&self, entry: usize) -> StorageError {
        let text = format!(
            "{} is there already under another spelling: the sender has two names that are one on this file system; \
             choose a DEST that tells them apart, or leave one out with --exclude",
            self.layout.manifest().shown(entry)
        );
        StorageError::new(Outcome::WriteFailed, text)
    }
}

/// An entry's own name as a path.
pub(super) fn path_of(entry: &Entry) -> std::path::PathBuf {
    name::path(&entry.name)
}
