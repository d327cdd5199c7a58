//! Construction of a directory's manifest, with refusal of entries that could not exist.

use super::{Attributes, Entry, MAX_BYTES, MAX_ENTRIES, MAX_XATTR_BYTES, Manifest, Node, Owner, XATTR_OVERHEAD_BYTES};
use crate::name::{self, MAX_PATH_BYTES, NameError};

const NONE: u32 = u32::MAX;

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

/// Reason why an entry or the whole manifest is refused.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is none")]
    NoManifest,
    #[error("it has version {0}, which this build cannot read: install the same build on all hosts")]
    Version(u16),
    #[error("it has {0} bytes, at most {MAX_BYTES} can be")]
    Long(u64),
    /// More than [`MAX_ENTRIES`] entries, or more than its bytes can hold.
    #[error("it has {0} entries, at most {MAX_ENTRIES} can be: send parts of the directory one after the other")]
    Entries(usize),
    /// The BLAKE3 hash does not match the one in the head.
    #[error("it is damaged")]
    Digest,
    #[error("it ends too early")]
    Short,
    #[error("it does not end with its last entry")]
    Trailing,
    #[error("it has more than 65534 different owners")]
    Owners,
    /// The first entry is not a directory, or a later one has no parent.
    #[error("it has no directory that holds all the rest")]
    Root,
    #[error("is of an unknown kind, {0}")]
    Kind(u8),
    /// The parent is not listed before the entry, or is not a directory.
    #[error("is below something that is no directory")]
    Parent,
    #[error("has a name that {0}")]
    Name(NameError),
    /// A duplicate name, or names of a directory out of order.
    #[error("is listed twice, or out of order")]
    Order,
    #[error("has a path of {0} bytes, at most {MAX_PATH_BYTES} can be")]
    Path(usize),
    #[error("has an impossible mode, {0:o}")]
    Mode(u16),
    #[error("has an impossible time")]
    Time,
    #[error("belongs to an owner that is not listed")]
    Owner,
    /// An extended attribute with an empty name or a NUL byte in it.
    #[error("has an extended attribute with an impossible name")]
    Xattr,
    #[error("has attributes that take more than {} MiB with those before: leave out --xattrs", MAX_XATTR_BYTES >> 20)]
    Xattrs,
    #[error("has {0} bytes, more than a file can have")]
    Size(u64),
    /// Extents that are empty, overlap, are out of order, or lie beyond the file's end.
    #[error("has data in impossible places")]
    Extents,
    /// The data of all files exceeds the limit of a stream.
    #[error("makes the whole larger than a stream can be")]
    Total,
    /// A symbolic link whose target is empty, has a NUL byte, or is too long.
    #[error("is a symbolic link with an impossible target")]
    Target,
    /// A hard link to something that is not a file listed before it.
    #[error("is a hard link to something that is no file")]
    Link,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct ManifestError {
    fault: Fault,
    entry: Option<(usize, String)>,
}

impl ManifestError {
    pub(crate) fn whole(fault: Fault) -> ManifestError {
        ManifestError { fault, entry: None }
    }

    pub(super) fn at(entry: usize, name: String, fault: Fault) -> ManifestError {
        ManifestError { fault, entry: Some((entry, name)) }
    }

    pub fn fault(&self) -> Fault {
        self.fault
    }

    fn sentence(&self) -> String {
        match &self.entry {
            None => format!("the list of files cannot be used: {}", self.fault),
            Some((entry, name)) => format!("entry {entry} of the list of files, {name:?}, {}", self.fault),
        }
    }
}
