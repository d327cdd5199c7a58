//! What is in a directory: every name, what is under it, and where in the stream its data is.
//!
//! Entries stand so that a directory comes before what is in it, and the names of one directory in the order of their
//! bytes. Whoever makes a manifest and whoever reads one goes through the same [`Builder`], which takes nothing that
//! could not be built below one directory: no path, only a name in a directory that was listed before.

mod builder;
mod bytes;
mod data;
mod encoding;
mod entry;
mod fault;

pub use builder::Builder;
pub use data::{Extent, FileData};
pub use encoding::{HEAD_BYTES, Head};
pub use entry::{Attributes, Entry, Node, Owner, Special, Time, Xattr};
pub use fault::{Fault, ManifestError};

use crate::name;
use std::path::PathBuf;

/// Entries that a manifest can have. An entry takes up to about 200 bytes of memory at either end while it is sent.
pub const MOST_ENTRIES: usize = 1 << 20;
/// Bytes that an encoded manifest can have.
pub const MOST_BYTES: u64 = 256 << 20;

/// A checked list of all that is in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    entries: Vec<Entry>,
    owners: Vec<Owner>,
}

impl Manifest {
    /// All entries; the first is the directory itself.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The directory itself: its name is empty where only what is in it was sent.
    pub fn root(&self) -> &Entry {
        &self.entries[0]
    }

    /// The owner at a place of the list, which attributes name.
    pub fn owner_at(&self, place: u16) -> Option<&Owner> {
        self.owners.get(usize::from(place))
    }

    /// The path of an entry below the directory that was sent.
    pub fn path(&self, entry: usize) -> PathBuf {
        name::path(&self.path_bytes(entry))
    }

    /// The same for people to read.
    pub fn shown(&self, entry: usize) -> String {
        name::shown(&self.path_bytes(entry))
    }

    fn path_bytes(&self, entry: usize) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = entry;
        // A parent always comes before: this ends.
        while let Some(parent) = self.entries[at].parent {
            names.push(&*self.entries[at].name);
            at = parent as usize;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// The regular files, in the order in which their data comes.
    pub fn files(&self) -> impl Iterator<Item = (usize, &FileData)> {
        self.entries.iter().enumerate().filter_map(|(at, entry)| match &entry.node {
            Node::File(data) => Some((at, data)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
