//! Files put one by one into an existing directory. Each is renamed once it is whole and synced, so
//! that space is needed for a few files only, and none for files that are equal already.

use crate::disk::{Directory, DiskFile, Kind};
use crate::layout::Layout;
use crate::manifest::Node;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;

const TOGETHER_FILES: usize = 1024;
const TOGETHER_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Putting<D: Directory> {
    /// The directory that receives the files; they are built in `root`.
    dest: D,
    root: Arc<D>,
    layout: Arc<Layout>,
    waiting: Vec<usize>,
    waiting_bytes: u64,
    done: HashSet<usize>,
    has_changed: bool,
}

impl<D: Directory> Putting<D> {
    pub(super) fn new(dest: D, root: Arc<D>, layout: Arc<Layout>) -> Putting<D> {
        let (waiting, done) = (Vec::new(), HashSet::new());
        Putting { dest, root, layout, waiting, waiting_bytes: 0, done, has_changed: false }
    }

    pub(super) fn there(&self, entry: usize) -> Option<D::File> {
        let manifest = self.layout.manifest();
        let own = &manifest.entries()[entry];
        let Node::File(data) = &own.node else { return None };
        // Holes are not sent, so that the bytes in them could not be compared.
        if data.extents().is_some() {
            return None;
        }
        let directory = self.dest.directory(&manifest.path(own.parent? as usize)).ok()?;
        if directory.kind(&own.own_path()).ok()? != Some(Kind::File) {
            return None;
        }
        let file = directory.file(&own.own_path()).ok()?;
        let is_alike = file.bytes().ok()? == data.bytes() && file.links().ok()? == 1;
        is_alike.then_some(file)
    }

    pub(super) fn is_there(&mut self, entry: usize) {
        self.done.insert(entry);
    }

    pub(super) fn put(&mut self, entry: usize, bytes: u64) -> io::Result<()> {
        self.waiting.push(entry);
        self.waiting_bytes += bytes;
        if self.waiting.len() >= TOGETHER_FILES || self.waiting_bytes >= TOGETHER_BYTES { self.flush() } else { Ok(()) }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.root.sync_file_system()?;
        let layout = Arc::clone(&self.layout);
        let manifest = layout.manifest();
        self.waiting_bytes = 0;
        for entry in std::mem::take(&mut self.waiting) {
            let own = &manifest.entries()[entry];
            let (parent, name) = (manifest.path(own.parent.unwrap_or(0) as usize), own.own_path());
            // Entries that are in the way, or whose directory is missing, wait for the end.
            if self.can_take(&parent, &name) {
                let (from, to) = (self.root.directory(&parent)?, self.dest.directory(&parent)?);
                from.rename(&name, &to, &name)?;
                self.done.insert(entry);
                self.has_changed = true;
            }
        }
        Ok(())
    }

    fn can_take(&self, parent: &Path, name: &Path) -> bool {
        self.dest.directory(parent).and_then(|to| to.has_directory(name)).is_ok_and(|in_the_way| !in_the_way)
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn done(&self) -> &HashSet<usize> {
        &self.done
    }

    pub(super) fn has_changed(&self) -> bool {
        self.has_changed
    }
}
