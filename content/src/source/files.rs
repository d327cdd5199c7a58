//! The listed files of a directory, with their paths and their stamps at the time of listing.

use crate::layout::{Layout, Verdict};
use crate::replay::OpenEntry;
use crate::unchanged::Stamp;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Paths and stamps of the files that are sent.
#[derive(Clone, Debug)]
pub struct SourceFiles(Arc<OpenedEntry>);

#[derive(Debug)]
struct OpenedEntry {
    /// Entries of the SOURCEs with their paths; all other entries are below one of them.
    bases: Vec<(u32, PathBuf)>,
    layout: Arc<Layout>,
    stamps: Vec<(u32, Stamp)>,
}

impl SourceFiles {
    pub(super) fn new(bases: Vec<(u32, PathBuf)>, layout: Arc<Layout>, stamps: Vec<(u32, Stamp)>) -> SourceFiles {
        SourceFiles(Arc::new(OpenedEntry { bases, layout, stamps }))
    }

    pub(super) fn path(&self, entry: usize) -> PathBuf {
        let OpenedEntry { bases, layout, .. } = &*self.0;
        let entries = layout.manifest().entries();
        let base = |at: usize| bases.iter().find(|(of, _)| *of as usize == at).map(|(_, path)| path);
        let (mut names, mut at) = (Vec::new(), entry);
        let mut path = loop {
            if let Some(base) = base(at) {
                break base.clone();
            }
            let Some(parent) = entries[at].parent else { break PathBuf::new() };
            names.push(crate::name::path(&entries[at].name));
            at = parent as usize;
        };
        path.extend(names.iter().rev());
        path
    }

    /// Opens the file of an entry if it is unchanged, or returns the verdict for receivers and the
    /// reason in words.
    pub(super) fn open_unchanged(&self, entry: usize, allow_changing: bool) -> Result<File, (Verdict, String)> {
        let lost = |error: io::Error| (Verdict::Lost, error.to_string());
        let file = open(&self.path(entry)).map_err(lost)?;
        let metadata = file.metadata().map_err(lost)?;
        // A listed file may have been replaced by a fifo, which must not block.
        if !metadata.is_file() {
            return Err((Verdict::Lost, "it is no file any more".to_owned()));
        }
        match self.stamp(entry).difference(&Stamp::of(&metadata)).filter(|_| !allow_changing) {
            Some(difference) => Err((Verdict::Changed, difference)),
            None => Ok(file),
        }
    }

    /// Checks that the file of an entry, and the file under its name, are unchanged, or returns the
    /// verdict for receivers and the reason in words. `file` is the open file; none if it has no
    /// data.
    pub(super) fn check(&self, entry: usize, file: Option<&File>) -> Result<(), (Verdict, String)> {
        let lost = |error: io::Error| (Verdict::Lost, error.to_string());
        let (path, before) = (self.path(entry), self.stamp(entry));
        let named = path.symlink_metadata().map_err(lost)?;
        let open = file.map(File::metadata).transpose().map_err(lost)?;
        let differs = [Some(named), open].into_iter().flatten().find_map(|after| before.difference(&Stamp::of(&after)));
        differs.map_or(Ok(()), |difference| Err((Verdict::Changed, difference)))
    }

    fn stamp(&self, entry: usize) -> Stamp {
        let stamps = &self.0.stamps;
        let at = stamps.binary_search_by_key(&(entry as u32), |(of, _)| *of).expect("every file has one");
        stamps[at].1
    }
}

impl OpenEntry for SourceFiles {
    type File = File;

    fn open(&self, entry: usize) -> io::Result<File> {
        open(&self.path(entry))
    }
}

/// Opens a file without following a symbolic link and without blocking on a fifo.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    OpenOptions::new().read(true).custom_flags(flags as i32).open(path)
}
