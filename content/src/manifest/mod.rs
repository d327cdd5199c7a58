//! The manifest of a directory: every entry with its name, attributes and the size of its data.
//!
//! A directory comes before its contents, and the names of a directory are in the order of their
//! bytes. Sender and receiver both build it with [`Builder`], which refuses everything that could
//! not exist below one directory: an entry has a single name, never a path, and a parent that was
//! listed before.

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

/// Limit on the entries of a manifest. An entry takes about 200 bytes of memory at either end
/// during a transfer, besides its attributes.
pub const MAX_ENTRIES: usize = 1 << 20;
/// Limit on the memory of all extended attributes, in bytes: a label for each of as many entries as
/// there can be.
pub const MAX_XATTR_BYTES: usize = 128 << 20;
/// Memory of an extended attribute besides its name and value, in bytes.
const XATTR_OVERHEAD_BYTES: usize = 64;
/// Limit on an encoded manifest, in bytes.
pub const MAX_BYTES: u64 = 256 << 20;

/// A validated list of the entries of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    entries: Vec<Entry>,
    owners: Vec<Owner>,
}

impl Manifest {
    /// Returns all entries; the first is the root directory.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the root directory's entry. Its name is empty if only its contents were sent.
    pub fn root(&self) -> &Entry {
        &self.entries[0]
    }

    /// Returns the owner at an index that attributes refer to.
    pub fn owner_at(&self, place: u16) -> Option<&Owner> {
        self.owners.get(usize::from(place))
    }

    /// Returns the path of an entry below the root directory.
    pub fn path(&self, entry: usize) -> PathBuf {
        name::path(&self.path_bytes(entry))
    }

    /// Returns the path of an entry for display.
    pub fn shown(&self, entry: usize) -> String {
        name::shown(&self.path_bytes(entry))
    }

    fn path_bytes(&self, entry: usize) -> Vec<u8> {
        let mut names = Vec::new();
        let mut at = entry;
        // A parent always precedes its child, so the loop ends.
        while let Some(parent) = self.entries[at].parent {
            names.push(&*self.entries[at].name);
            at = parent as usize;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// Returns the regular files in the order in which their data is sent.
    pub fn files(&self) -> impl Iterator<Item = (usize, &FileData)> {
        self.entries.iter().enumerate().filter_map(|(at, entry)| match &entry.node {
            Node::File(data) => Some((at, data)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
