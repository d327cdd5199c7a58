//! Builder of a manifest, which refuses entries that could not exist in a directory.

use super::{
    Attributes, Entry, Fault, MAX_ENTRIES, MAX_XATTR_BYTES, Manifest, ManifestError, Node, Owner, XATTR_OVERHEAD_BYTES,
};
use crate::name::{self, MAX_PATH_BYTES};

const NONE: u32 = u32::MAX;

/// A manifest under construction.
#[derive(Debug, Default)]
pub struct Builder {
    entries: Vec<Entry>,
    owners: Vec<Owner>,
    /// Last child added to each entry, and the length of the entry's path in bytes.
    places: Vec<(u32, u16)>,
    data_bytes: u64,
    xattr_bytes: usize,
}

impl Builder {
    /// Adds an owner and returns its index, which the attributes of entries refer to.
    ///
    /// # Errors
    /// If there are too many owners.
    pub fn add_owner(&mut self, owner: Owner) -> Result<u16, ManifestError> {
        let place = u16::try_from(self.owners.len()).ok().filter(|&place| place != u16::MAX);
        let place = place.ok_or_else(|| ManifestError::whole(Fault::Owners))?;
        self.owners.push(owner);
        Ok(place)
    }

    /// Adds an entry and returns its index. The root directory comes first, each directory before
    /// its contents, and names in the order of their bytes.
    ///
    /// # Errors
    /// If the entry could not exist below the directory, or has been added before.
    pub fn add(&mut self, entry: Entry) -> Result<u32, ManifestError> {
        let at = self.entries.len();
        match self.check(&entry) {
            Ok((path_bytes, data_bytes)) => {
                self.data_bytes = data_bytes;
                self.xattr_bytes += xattr_bytes(&entry.attributes);
                if let Some(parent) = entry.parent {
                    self.places[parent as usize].0 = at as u32;
                }
                self.places.push((NONE, path_bytes));
                self.entries.push(entry);
                Ok(at as u32)
            }
            Err(fault) => Err(ManifestError::at(at, name::shown(&entry.name), fault)),
        }
    }

    /// Returns the manifest.
    ///
    /// # Errors
    /// If it has no entries.
    pub fn finish(self) -> Result<Manifest, ManifestError> {
        if self.entries.is_empty() {
            return Err(ManifestError::whole(Fault::Root));
        }
        Ok(Manifest { entries: self.entries, owners: self.owners })
    }

    fn check(&self, entry: &Entry) -> Result<(u16, u64), Fault> {
        if self.entries.len() >= MAX_ENTRIES {
            return Err(Fault::Entries(self.entries.len() + 1));
        }
        let path_bytes = match entry.parent {
            None if !self.entries.is_empty() || !entry.is_directory() => return Err(Fault::Root),
            None => 0,
            Some(parent) => self.check_place(entry, parent as usize)?,
        };
        entry.check()?;
        if self.xattr_bytes + xattr_bytes(&entry.attributes) > MAX_XATTR_BYTES {
            return Err(Fault::Xattrs);
        }
        if entry.attributes.owner.is_some_and(|owner| usize::from(owner) >= self.owners.len()) {
            return Err(Fault::Owner);
        }
        let data_bytes = match &entry.node {
            // The verdict byte of the file is included.
            Node::File(data) => data.data_bytes().checked_add(1).and_then(|more| self.data_bytes.checked_add(more)),
            Node::HardLink(to) => {
                let file = self.entries.get(*to as usize).filter(|file| matches!(file.node, Node::File(_)));
                file.map(|_| Some(self.data_bytes)).ok_or(Fault::Link)?
            }
            _ => Some(self.data_bytes),
        };
        // Leaves room for ledgers and manifest within the limit of a stream.
        let total = data_bytes.filter(|&bytes| bytes < 1 << 62).ok_or(Fault::Total)?;
        Ok((path_bytes, total))
    }

    fn check_place(&self, entry: &Entry, parent: usize) -> Result<u16, Fault> {
        let directory = self.entries.get(parent).filter(|directory| directory.is_directory()).ok_or(Fault::Parent)?;
        let (last_child, parent_bytes) = self.places[parent];
        if last_child != NONE && self.entries[last_child as usize].name >= entry.name {
            return Err(Fault::Order);
        }
        let slash = usize::from(directory.parent.is_some());
        let path_bytes = usize::from(parent_bytes) + slash + entry.name.len();
        u16::try_from(path_bytes).ok().filter(|_| path_bytes <= MAX_PATH_BYTES).ok_or(Fault::Path(path_bytes))
    }
}

fn xattr_bytes(attributes: &Attributes) -> usize {
    attributes.xattrs.iter().map(|xattr| XATTR_OVERHEAD_BYTES + xattr.name.len() + xattr.value.len()).sum()
}
