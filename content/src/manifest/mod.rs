//! Manifest of a directory that is sent: names, attributes and sizes of all entries.
//!
//! A directory comes before its contents. Sender and receiver both build it with [`Builder`], which
//! refuses everything that could not exist below one directory: an entry has a single name, never a
//! path, and a parent that was listed before, and no two entries have the same name and parent.

mod encoding;
#[cfg(test)]
mod tests;

pub use encoding::{HEAD_BYTES, Head};

use crate::name::{self, MAX_PATH_BYTES, NameError};
use ethbcast_collectives::OptionName;
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

    pub fn path(&self, entry: usize) -> PathBuf {
        name::path(&self.path_bytes(entry))
    }

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

    /// Sorts the entries by these ranks, one for each entry; equal ones keep their order. Returns
    /// the new index of each entry. Ranks are lowest for directories and for files with further
    /// names, so that these stay before what refers to them.
    pub fn sort_by_ranks(&mut self, ranks: &[usize]) -> Vec<u32> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|&entry| ranks[entry]);
        let mut places = vec![0; order.len()];
        for (place, &entry) in order.iter().enumerate() {
            places[entry] = place as u32;
        }
        let mut entries = std::mem::take(&mut self.entries);
        for entry in &mut entries {
            entry.parent = entry.parent.map(|parent| places[parent as usize]);
            if let Node::HardLink(file) = &mut entry.node {
                *file = places[*file as usize];
            }
        }
        let mut placed: Vec<(u32, Entry)> = places.iter().copied().zip(entries).collect();
        placed.sort_unstable_by_key(|(place, _)| *place);
        self.entries = placed.into_iter().map(|(_, entry)| entry).collect();
        places
    }

    /// Returns the regular files in the order in which their data is sent.
    pub fn files(&self) -> impl Iterator<Item = (usize, &FileData)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| match &entry.node {
                Node::File(data) => Some((at, data)),
                _ => None,
            })
    }
}

const MODE_BITS: u16 = 0o7777;
const MAX_TARGET_BYTES: usize = 4095;
const MAX_XATTR_NAME_BYTES: usize = 255;
const MAX_FILE_BYTES: u64 = i64::MAX as u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Index of the parent directory's entry; none for the root.
    pub parent: Option<u32>,
    /// Name within the parent directory, as raw bytes.
    pub name: Box<[u8]>,
    /// Mode, time, owner and extended attributes; a hard link uses those of its file.
    pub attributes: Attributes,
    pub node: Node,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Directory,
    File(FileData),
    /// A symbolic link with its target, which is never followed for writing.
    Symlink(Box<[u8]>),
    /// A further name of the file with this entry index.
    HardLink(u32),
    Special(Special),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A character device: major and minor number.
    Character(u32, u32),
    /// A block device: major and minor number.
    Block(u32, u32),
    Fifo,
    Socket,
}

/// A timestamp in seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions, set-user-id, set-group-id and sticky bits.
    pub mode: u16,
    pub modified: Time,
    /// Index in the list of owners, if owners are sent.
    pub owner: Option<u16>,
    /// Extended attributes, if they are sent.
    pub xattrs: Box<[Xattr]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    /// Name, including its namespace.
    pub name: Box<[u8]>,
    pub value: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub user: u32,
    pub group: u32,
    /// User name, empty if it is unknown or not sent.
    pub user_name: Box<[u8]>,
    /// Group name, empty if it is unknown or not sent.
    pub group_name: Box<[u8]>,
}

impl Entry {
    pub fn own_path(&self) -> PathBuf {
        name::path(&self.name)
    }

    pub fn is_directory(&self) -> bool {
        self.node == Node::Directory
    }

    fn check(&self) -> Result<(), Fault> {
        // Only the root may have an empty name; the builder checks that.
        if self.parent.is_some() || !self.name.is_empty() {
            let check = if self.parent.is_some() {
                name::check
            } else {
                name::check_at_dest
            };
            check(&self.name).map_err(Fault::Name)?;
        }
        self.attributes.check()?;
        match &self.node {
            Node::File(data) if data.bytes() > MAX_FILE_BYTES => Err(Fault::Size(data.bytes())),
            Node::Symlink(target) => {
                let fits = (1..=MAX_TARGET_BYTES).contains(&target.len()) && !target.contains(&0);
                if fits { Ok(()) } else { Err(Fault::Target) }
            }
            _ => Ok(()),
        }
    }
}

impl Attributes {
    fn check(&self) -> Result<(), Fault> {
        if self.mode & !MODE_BITS != 0 {
            return Err(Fault::Mode(self.mode));
        }
        if self.modified.nanoseconds >= 1_000_000_000 {
            return Err(Fault::Time);
        }
        let sound = |xattr: &Xattr| {
            (1..=MAX_XATTR_NAME_BYTES).contains(&xattr.name.len()) && !xattr.name.contains(&0)
        };
        if self.xattrs.iter().all(sound) {
            Ok(())
        } else {
            Err(Fault::Xattr)
        }
    }
}

/// A contiguous part of a file that is not a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub offset: u64,
    pub bytes: u64,
}

/// An extent and its position in the file's data without holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Placed {
    at: u64,
    extent: Extent,
}

/// The length of a file and the extents of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileData {
    bytes: u64,
    extents: Option<Box<[Placed]>>,
}

impl FileData {
    /// Creates the data of a file without holes.
    pub fn dense(bytes: u64) -> FileData {
        FileData {
            bytes,
            extents: None,
        }
    }

    /// Creates the data of a file of `bytes` bytes that is zero outside `extents`.
    ///
    /// # Errors
    /// If an extent is empty, begins before the end of the one before it, or ends behind the end of
    /// the file.
    pub fn sparse(
        bytes: u64,
        extents: impl IntoIterator<Item = Extent>,
    ) -> Result<FileData, Fault> {
        let (mut placed, mut at, mut end) = (Vec::new(), 0, 0);
        for extent in extents {
            let after = extent
                .offset
                .checked_add(extent.bytes)
                .ok_or(Fault::Extents)?;
            if extent.bytes == 0 || extent.offset < end || after > bytes {
                return Err(Fault::Extents);
            }
            placed.push(Placed { at, extent });
            (at, end) = (at + extent.bytes, after);
        }
        Ok(FileData {
            bytes,
            extents: Some(placed.into()),
        })
    }

    /// The length of the file, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The length of the data without holes, in bytes.
    pub fn data_bytes(&self) -> u64 {
        match &self.extents {
            None => self.bytes,
            Some(extents) => extents.last().map_or(0, |last| last.at + last.extent.bytes),
        }
    }

    /// Returns the extents if the file has holes.
    pub fn extents(&self) -> Option<impl ExactSizeIterator<Item = Extent> + '_> {
        Some(self.extents.as_ref()?.iter().map(|placed| placed.extent))
    }

    /// Returns the extent in the file that begins at `position` of the data without holes, or none
    /// behind the end.
    pub fn at(&self, position: u64) -> Option<Extent> {
        let placed = match &self.extents {
            None => Placed {
                at: 0,
                extent: Extent {
                    offset: 0,
                    bytes: self.bytes,
                },
            },
            Some(extents) => {
                extents[extents
                    .partition_point(|placed| placed.at <= position)
                    .checked_sub(1)?]
            }
        };
        let into = position - placed.at;
        let bytes = placed
            .extent
            .bytes
            .checked_sub(into)
            .filter(|&bytes| bytes > 0)?;
        Some(Extent {
            offset: placed.extent.offset + into,
            bytes,
        })
    }
}

const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub struct Builder {
    entries: Vec<Entry>,
    owners: Vec<Owner>,
    /// Last child added to each entry, and the length of the entry's path in bytes.
    places: Vec<(u32, u16)>,
    /// Whether names of a directory were added in another order than that of their bytes.
    is_unsorted: bool,
    data_bytes: u64,
    xattr_bytes: usize,
}

impl Builder {
    /// Adds an owner and returns its index, which the attributes of entries refer to.
    ///
    /// # Errors
    /// If there are too many owners.
    pub fn add_owner(&mut self, owner: Owner) -> Result<u16, ManifestError> {
        let place = u16::try_from(self.owners.len())
            .ok()
            .filter(|&place| place != u16::MAX);
        let place = place.ok_or_else(|| ManifestError::whole(Fault::Owners))?;
        self.owners.push(owner);
        Ok(place)
    }

    /// Adds an entry and returns its index. The root directory comes first, each directory before
    /// its contents.
    ///
    /// # Errors
    /// If the entry could not exist below the directory.
    pub fn add(&mut self, entry: Entry) -> Result<u32, ManifestError> {
        let at = self.entries.len();
        match self.check(&entry) {
            Ok((path_bytes, data_bytes)) => {
                self.data_bytes = data_bytes;
                self.xattr_bytes += xattr_bytes(&entry.attributes);
                if let Some(parent) = entry.parent {
                    let last = std::mem::replace(&mut self.places[parent as usize].0, at as u32);
                    self.is_unsorted |=
                        last != NONE && self.entries[last as usize].name >= entry.name;
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
    /// If it has no entries, or one twice.
    pub fn finish(self) -> Result<Manifest, ManifestError> {
        if self.entries.is_empty() {
            return Err(ManifestError::whole(Fault::Root));
        }
        if let Some(twice) = self.twice() {
            return Err(ManifestError::at(
                twice,
                name::shown(&self.entries[twice].name),
                Fault::Twice,
            ));
        }
        Ok(Manifest {
            entries: self.entries,
            owners: self.owners,
        })
    }

    /// Returns an entry whose parent and name are those of an earlier one. There is none if all
    /// names are in order.
    fn twice(&self) -> Option<usize> {
        let place = |at: usize| (self.entries[at].parent, &self.entries[at].name);
        let mut order: Vec<usize> = if self.is_unsorted {
            (0..self.entries.len()).collect()
        } else {
            Vec::new()
        };
        order.sort_unstable_by(|&one, &other| place(one).cmp(&place(other)));
        order
            .windows(2)
            .find(|pair| place(pair[0]) == place(pair[1]))
            .map(|pair| pair[0].max(pair[1]))
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
        if entry
            .attributes
            .owner
            .is_some_and(|owner| usize::from(owner) >= self.owners.len())
        {
            return Err(Fault::Owner);
        }
        let data_bytes = match &entry.node {
            // The verdict byte of the file is included.
            Node::File(data) => data
                .data_bytes()
                .checked_add(1)
                .and_then(|more| self.data_bytes.checked_add(more)),
            Node::HardLink(to) => {
                let file = self
                    .entries
                    .get(*to as usize)
                    .filter(|file| matches!(file.node, Node::File(_)));
                file.map(|_| Some(self.data_bytes)).ok_or(Fault::Link)?
            }
            _ => Some(self.data_bytes),
        };
        // Leaves room for hash lists and manifest within the limit of a stream.
        let total = data_bytes
            .filter(|&bytes| bytes < 1 << 62)
            .ok_or(Fault::Total)?;
        Ok((path_bytes, total))
    }

    fn check_place(&self, entry: &Entry, parent: usize) -> Result<u16, Fault> {
        let directory = self
            .entries
            .get(parent)
            .filter(|directory| directory.is_directory())
            .ok_or(Fault::Parent)?;
        let (_, parent_bytes) = self.places[parent];
        let slash = usize::from(directory.parent.is_some());
        let path_bytes = usize::from(parent_bytes) + slash + entry.name.len();
        u16::try_from(path_bytes)
            .ok()
            .filter(|_| path_bytes <= MAX_PATH_BYTES)
            .ok_or(Fault::Path(path_bytes))
    }
}

fn xattr_bytes(attributes: &Attributes) -> usize {
    attributes
        .xattrs
        .iter()
        .map(|xattr| XATTR_OVERHEAD_BYTES + xattr.name.len() + xattr.value.len())
        .sum()
}

/// Reason why an entry or the whole manifest is refused.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("it is none")]
    NoManifest,
    #[error(
        "it has version {0}, which this build cannot read: install the same build on all hosts"
    )]
    Version(u16),
    #[error("it has {0} bytes, at most {MAX_BYTES} can be")]
    Long(u64),
    /// More than [`MAX_ENTRIES`] entries, or more than its bytes can hold.
    #[error(
        "it has {0} entries, at most {MAX_ENTRIES} can be: send parts of the directory one after the other"
    )]
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
    #[error("is listed twice")]
    Twice,
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
    #[error(
        "has attributes that take more than {} MiB with those before: leave out {}",
        MAX_XATTR_BYTES >> 20, OptionName("xattrs")
    )]
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

    fn at(entry: usize, name: String, fault: Fault) -> ManifestError {
        ManifestError {
            fault,
            entry: Some((entry, name)),
        }
    }

    pub fn fault(&self) -> Fault {
        self.fault
    }

    fn sentence(&self) -> String {
        match &self.entry {
            None => format!("the list of files cannot be used: {}", self.fault),
            Some((entry, name)) => format!(
                "entry {entry} of the list of files, {name:?}, {}",
                self.fault
            ),
        }
    }
}
