//! What is wrong with a manifest.

use super::{MOST_BYTES, MOST_ENTRIES};
use crate::name::{MOST_PATH_BYTES, NameError};

/// What is wrong with one entry, or with the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It does not begin as a manifest does.
    #[error("it is none")]
    NoManifest,
    /// It is of a version that this build does not know.
    #[error("it has version {0}, which this build cannot read: install the same build on all hosts")]
    Version(u16),
    /// It is longer than [`MOST_BYTES`].
    #[error("it has {0} bytes, at most {MOST_BYTES} can be")]
    Long(u64),
    /// It has more entries than [`MOST_ENTRIES`], or than its bytes can hold.
    #[error("it has {0} entries, at most {MOST_ENTRIES} can be: send parts of the directory one after the other")]
    Entries(usize),
    /// Its BLAKE3 is not the one that came before it.
    #[error("it is damaged")]
    Digest,
    /// It ends in the middle of an entry.
    #[error("it ends too early")]
    Short,
    /// Bytes follow its last entry.
    #[error("it does not end with its last entry")]
    Trailing,
    /// There are more owners than a number of 16 bits can name.
    #[error("it has more than 65534 different owners")]
    Owners,
    /// The first entry is no directory, or another has no parent.
    #[error("it has no directory that holds all the rest")]
    Root,
    /// Its kind is unknown.
    #[error("is of an unknown kind, {0}")]
    Kind(u8),
    /// Its parent is not listed before it, or no directory: a file or a symbolic link.
    #[error("is below something that is no directory")]
    Parent,
    /// Its name cannot be.
    #[error("has a name that {0}")]
    Name(NameError),
    /// The same name stands twice, or the names of a directory are not in order.
    #[error("is listed twice, or out of order")]
    Order,
    /// Its path is longer than [`MOST_PATH_BYTES`].
    #[error("has a path of {0} bytes, at most {MOST_PATH_BYTES} can be")]
    Path(usize),
    /// Its mode has bits that no mode has.
    #[error("has an impossible mode, {0:o}")]
    Mode(u16),
    /// Its time has a billion nanoseconds or more.
    #[error("has an impossible time")]
    Time,
    /// Its owner is not listed.
    #[error("belongs to an owner that is not listed")]
    Owner,
    /// An extended attribute has no name, or one with a NUL byte.
    #[error("has an extended attribute with an impossible name")]
    Xattr,
    /// It is larger than a file can be.
    #[error("has {0} bytes, more than a file can have")]
    Size(u64),
    /// Parts of its data are empty, overlap, are out of order, or lie behind its end.
    #[error("has data in impossible places")]
    Extents,
    /// The data of all files together is more than a stream can have.
    #[error("makes the whole larger than a stream can be")]
    Total,
    /// A symbolic link leads nowhere, has a NUL byte, or is too long.
    #[error("is a symbolic link with an impossible target")]
    Target,
    /// A hard link to something that is no file, or comes later.
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
    /// What is wrong with the whole.
    pub(crate) fn whole(fault: Fault) -> ManifestError {
        ManifestError { fault, entry: None }
    }

    /// What is wrong with an entry.
    pub(super) fn at(entry: usize, name: String, fault: Fault) -> ManifestError {
        ManifestError { fault, entry: Some((entry, name)) }
    }

    /// What is wrong.
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
