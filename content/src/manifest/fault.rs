//! Errors of a manifest.

use super::{MAX_BYTES, MAX_ENTRIES, MAX_XATTR_BYTES};
use crate::name::{MAX_PATH_BYTES, NameError};

/// Reason why an entry or the whole manifest is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The magic bytes are missing.
    #[error("it is none")]
    NoManifest,
    /// A version that this build cannot read.
    #[error("it has version {0}, which this build cannot read: install the same build on all hosts")]
    Version(u16),
    /// More than [`MAX_BYTES`] bytes.
    #[error("it has {0} bytes, at most {MAX_BYTES} can be")]
    Long(u64),
    /// More than [`MAX_ENTRIES`] entries, or more than its bytes can hold.
    #[error("it has {0} entries, at most {MAX_ENTRIES} can be: send parts of the directory one after the other")]
    Entries(usize),
    /// The BLAKE3 hash does not match the one in the head.
    #[error("it is damaged")]
    Digest,
    /// The encoding ends within an entry.
    #[error("it ends too early")]
    Short,
    /// Bytes follow the last entry.
    #[error("it does not end with its last entry")]
    Trailing,
    /// More owners than a 16-bit index can address.
    #[error("it has more than 65534 different owners")]
    Owners,
    /// The first entry is not a directory, or a later one has no parent.
    #[error("it has no directory that holds all the rest")]
    Root,
    /// An unknown kind of entry.
    #[error("is of an unknown kind, {0}")]
    Kind(u8),
    /// The parent is not listed before the entry, or is not a directory.
    #[error("is below something that is no directory")]
    Parent,
    /// An invalid name.
    #[error("has a name that {0}")]
    Name(NameError),
    /// A duplicate name, or names of a directory out of order.
    #[error("is listed twice, or out of order")]
    Order,
    /// A path longer than [`MAX_PATH_BYTES`].
    #[error("has a path of {0} bytes, at most {MAX_PATH_BYTES} can be")]
    Path(usize),
    /// A mode with unknown bits.
    #[error("has an impossible mode, {0:o}")]
    Mode(u16),
    /// A time with a billion nanoseconds or more.
    #[error("has an impossible time")]
    Time,
    /// An owner that is not listed.
    #[error("belongs to an owner that is not listed")]
    Owner,
    /// An extended attribute with an empty name or a NUL byte in it.
    #[error("has an extended attribute with an impossible name")]
    Xattr,
    /// More than [`MAX_XATTR_BYTES`] of extended attributes in all.
    #[error("has attributes that take more than {} MiB with those before: leave out --xattrs", MAX_XATTR_BYTES >> 20)]
    Xattrs,
    /// A size beyond the system's limit.
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

/// A manifest that is refused.
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

    /// The reason of the refusal.
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
