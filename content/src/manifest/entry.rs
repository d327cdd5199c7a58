//! One name and what is under it.

use super::{Fault, FileData};
use crate::name;
use std::path::PathBuf;

/// The bits of a mode: permissions, set-user-id, set-group-id and sticky.
const MODE_BITS: u16 = 0o7777;
/// The longest target of a symbolic link, in bytes.
const MOST_TARGET_BYTES: usize = 4095;
/// The longest name of an extended attribute, in bytes.
const MOST_XATTR_NAME_BYTES: usize = 255;
/// The largest file that Linux can have, in bytes.
pub(super) const MOST_FILE_BYTES: u64 = i64::MAX as u64;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The entry of the directory that it is in; none for the first.
    pub parent: Option<u32>,
    /// Its name in that directory, as the system has it.
    pub name: Box<[u8]>,
    /// Mode, time, owner, extended attributes; those of a hard link are its file's.
    pub attributes: Attributes,
    /// What it is.
    pub node: Node,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory,
    /// A regular file.
    File(FileData),
    /// A symbolic link, with its target as it stands there: nothing is ever written through it.
    Symlink(Box<[u8]>),
    /// Another name of the file of that entry.
    HardLink(u32),
    /// A device node, a fifo or a socket.
    Special(Special),
}

/// A file that is none.
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

/// A moment, in seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

/// What is known of a file beside its data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions, set-user-id, set-group-id and sticky bits.
    pub mode: u16,
    /// When its data was changed last.
    pub modified: Time,
    /// Its place in the list of owners, if they are sent.
    pub owner: Option<u16>,
    /// Extended attributes, if they are sent.
    pub xattrs: Box<[Xattr]>,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    /// Its name, with its namespace.
    pub name: Box<[u8]>,
    /// Its value.
    pub value: Box<[u8]>,
}

/// A user and a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
    /// The user's name, if there is one and names count.
    pub user_name: Box<[u8]>,
    /// The group's name, if there is one and names count.
    pub group_name: Box<[u8]>,
}

impl Entry {
    /// Its own name as a path.
    pub fn own_path(&self) -> PathBuf {
        name::path(&self.name)
    }

    /// Whether this is a directory.
    pub fn is_directory(&self) -> bool {
        self.node == Node::Directory
    }

    /// What is wrong with it alone.
    pub(super) fn check(&self) -> Result<(), Fault> {
        // The first may have no name, which the builder knows.
        if self.parent.is_some() || !self.name.is_empty() {
            name::check(&self.name).map_err(Fault::Name)?;
        }
        self.attributes.check()?;
        match &self.node {
            Node::File(data) if data.bytes() > MOST_FILE_BYTES => Err(Fault::Size(data.bytes())),
            Node::Symlink(target) => {
                let fits = (1..=MOST_TARGET_BYTES).contains(&target.len()) && !target.contains(&0);
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
        let sound = |xattr: &Xattr| (1..=MOST_XATTR_NAME_BYTES).contains(&xattr.name.len()) && !xattr.name.contains(&0);
        if self.xattrs.iter().all(sound) { Ok(()) } else { Err(Fault::Xattr) }
    }
}
