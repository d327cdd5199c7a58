//! An entry of a directory: its name, its kind and its attributes.

use super::{Fault, FileData};
use crate::name;
use std::path::PathBuf;

const MODE_BITS: u16 = 0o7777;
const MAX_TARGET_BYTES: usize = 4095;
const MAX_XATTR_NAME_BYTES: usize = 255;
pub(super) const MAX_FILE_BYTES: u64 = i64::MAX as u64;

/// A named entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Index of the parent directory's entry; none for the root.
    pub parent: Option<u32>,
    /// Name within the parent directory, as raw bytes.
    pub name: Box<[u8]>,
    /// Mode, time, owner and extended attributes; a hard link uses those of its file.
    pub attributes: Attributes,
    /// Kind of the entry, with its content.
    pub node: Node,
}

/// Kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory,
    /// A regular file.
    File(FileData),
    /// A symbolic link with its target, which is never followed for writing.
    Symlink(Box<[u8]>),
    /// A further name of the file with this entry index.
    HardLink(u32),
    /// A device node, a fifo or a socket.
    Special(Special),
}

/// A device node, fifo or socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A character device: major and minor number.
    Character(u32, u32),
    /// A block device: major and minor number.
    Block(u32, u32),
    /// A named pipe.
    Fifo,
    /// A socket.
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

/// Attributes of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions, set-user-id, set-group-id and sticky bits.
    pub mode: u16,
    /// Time of the last modification of the data.
    pub modified: Time,
    /// Index in the list of owners, if owners are sent.
    pub owner: Option<u16>,
    /// Extended attributes, if they are sent.
    pub xattrs: Box<[Xattr]>,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    /// Name, including its namespace.
    pub name: Box<[u8]>,
    /// Value.
    pub value: Box<[u8]>,
}

/// A user and a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
    /// User name, empty if it is unknown or not sent.
    pub user_name: Box<[u8]>,
    /// Group name, empty if it is unknown or not sent.
    pub group_name: Box<[u8]>,
}

impl Entry {
    /// Returns the entry's own name as a path.
    pub fn own_path(&self) -> PathBuf {
        name::path(&self.name)
    }

    /// Whether the entry is a directory.
    pub fn is_directory(&self) -> bool {
        self.node == Node::Directory
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        // Only the root may have an empty name; the builder checks that.
        if self.parent.is_some() || !self.name.is_empty() {
            let check = if self.parent.is_some() { name::check } else { name::check_at_dest };
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
        let sound = |xattr: &Xattr| (1..=MAX_XATTR_NAME_BYTES).contains(&xattr.name.len()) && !xattr.name.contains(&0);
        if self.xattrs.iter().all(sound) { Ok(()) } else { Err(Fault::Xattr) }
    }
}
