//! The content of a model disk and the changes to it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::path::{Component, Path};

pub const ROOT: u64 = 0;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Inode {
    File { bytes: Vec<u8>, attributes: String },
    Directory { names: BTreeMap<OsString, u64>, attributes: String },
    Symlink(Vec<u8>),
    Special,
}

/// A change that reaches the disk as a whole or not at all, except for a write, which may be torn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Write { inode: u64, at: u64, bytes: Vec<u8> },
    SetBytes { inode: u64, bytes: u64 },
    Attributes { inode: u64, attributes: String },
    Name { directory: u64, name: OsString, inode: u64 },
    Unname { directory: u64, name: OsString },
    Move { from: (u64, OsString), to: (u64, OsString) },
    Exchange { one: (u64, OsString), other: (u64, OsString) },
}

impl Change {
    /// Returns the inode whose content changes, if it is not a change of names.
    pub fn of_content(&self) -> Option<u64> {
        match self {
            Change::Write { inode, .. } | Change::SetBytes { inode, .. } | Change::Attributes { inode, .. } => {
                Some(*inode)
            }
            _ => None,
        }
    }

    pub fn is_name_in(&self, of: u64) -> bool {
        match self {
            Change::Name { directory, .. } | Change::Unname { directory, .. } => *directory == of,
            Change::Move { from, to } | Change::Exchange { one: from, other: to } => from.0 == of || to.0 == of,
            _ => false,
        }
    }

    pub fn torn(&self) -> Option<Change> {
        let Change::Write { inode, at, bytes } = self else { return None };
        Some(Change::Write { inode: *inode, at: *at, bytes: bytes[..bytes.len() / 2].to_vec() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct World(BTreeMap<u64, Inode>);

impl Default for World {
    fn default() -> World {
        World([(ROOT, World::directory())].into())
    }
}

impl World {
    pub fn directory() -> Inode {
        Inode::Directory { names: BTreeMap::new(), attributes: String::new() }
    }

    pub fn add(&mut self, number: u64, inode: Inode) {
        self.0.insert(number, inode);
    }

    pub fn free_number(&self) -> u64 {
        self.0.keys().next_back().map_or(ROOT, |last| last + 1)
    }

    pub fn inode(&self, number: u64) -> &Inode {
        &self.0[&number]
    }

    pub fn names(&self, directory: u64) -> Result<&BTreeMap<OsString, u64>> {
        match self.0.get(&directory) {
            Some(Inode::Directory { names, .. }) => Ok(names),
            _ => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// Resolves a path without following links.
    pub fn find(&self, directory: u64, path: &Path) -> Result<u64> {
        path.components().filter(|part| *part != Component::CurDir).try_fold(directory, |at, part| {
            let Component::Normal(name) = part else { return Err(Error::other("it leads elsewhere")) };
            self.names(at)?.get(name).copied().ok_or(Error::from(ErrorKind::NotFound))
        })
    }

    pub fn file(&self, path: &str) -> Option<&[u8]> {
        match self.0.get(&self.find(ROOT, Path::new(path)).ok()?)? {
            Inode::File { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    pub fn bytes_of(&self, inode: u64) -> u64 {
        match self.0.get(&inode) {
            Some(Inode::File { bytes, .. }) => bytes.len() as u64,
            _ => 0,
        }
    }

    pub fn links_of(&self, inode: u64) -> u64 {
        let names = self.0.keys().filter_map(|directory| self.names(*directory).ok()).flat_map(BTreeMap::values);
        names.filter(|named| **named == inode).count() as u64
    }

    pub fn file_bytes(&self, but: u64) -> u64 {
        self.0.keys().filter(|inode| **inode != but).map(|inode| self.bytes_of(*inode)).sum()
    }

    pub fn listing(&self, directory: u64) -> Vec<(std::path::PathBuf, Inode)> {
        let mut found = Vec::new();
        let Ok(names) = self.names(directory) else { return found };
        for (name, number) in names {
            let inode = match &self.0[number] {
                Inode::Directory { attributes, .. } => {
                    Inode::Directory { names: BTreeMap::new(), attributes: attributes.clone() }
                }
                other => other.clone(),
            };
            found.push((name.into(), inode));
            found.extend(self.listing(*number).into_iter().map(|(path, inode)| (Path::new(name).join(path), inode)));
        }
        found
    }

    /// Removes the inodes that have no name.
    pub fn swept(mut self) -> World {
        let mut reached = vec![ROOT];
        let mut at = 0;
        while at < reached.len() {
            if let Ok(names) = self.names(reached[at]) {
                reached.extend(names.values());
            }
            at += 1;
        }
        self.0.retain(|number, _| reached.contains(number));
        self
    }

    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { inode, at, bytes } => {
                let Some(Inode::File { bytes: there, .. }) = self.0.get_mut(inode) else { return };
                let end = *at as usize + bytes.len();
                there.resize(there.len().max(end), 0);
                there[*at as usize..end].copy_from_slice(bytes);
            }
            Change::SetBytes { inode, bytes } => {
                if let Some(Inode::File { bytes: there, .. }) = self.0.get_mut(inode) {
                    there.resize(*bytes as usize, 0);
                }
            }
            Change::Attributes { inode, attributes } => {
                if let Some(Inode::File { attributes: there, .. } | Inode::Directory { attributes: there, .. }) =
                    self.0.get_mut(inode)
                {
                    there.clone_from(attributes);
                }
            }
            Change::Name { directory, name, inode } => {
                self.rename(*directory, |names| names.insert(name.clone(), *inode));
            }
            Change::Unname { directory, name } => self.rename(*directory, |names| names.remove(name)),
            Change::Move { from, to } => {
                let mut moved = None;
                self.rename(from.0, |names| {
                    moved = names.remove(&from.1);
                    moved
                });
                if let Some(inode) = moved {
                    self.rename(to.0, |names| names.insert(to.1.clone(), inode));
                }
            }
            Change::Exchange { one, other } => {
                let found = |at: &(u64, OsString)| self.names(at.0).ok().and_then(|names| names.get(&at.1)).copied();
                let (Some(first), Some(second)) = (found(one), found(other)) else { return };
                self.rename(one.0, |names| names.insert(one.1.clone(), second));
                self.rename(other.0, |names| names.insert(other.1.clone(), first));
            }
        }
    }

    fn rename(&mut self, directory: u64, work: impl FnOnce(&mut BTreeMap<OsString, u64>) -> Option<u64>) {
        if let Some(Inode::Directory { names, .. }) = self.0.get_mut(&directory) {
            work(names);
        }
    }
}
