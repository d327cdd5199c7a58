//! What real disks cannot do, or do otherwise.

use super::State;
use super::world::{Change, Inode};
use nix::libc;
use std::collections::BTreeSet;
use std::io::{Error, Result};
use std::path::{Path, PathBuf};

/// What a disk can.
#[derive(Clone, Debug, Default)]
pub struct Abilities {
    /// Two names cannot be exchanged (NFS, FUSE, exFAT).
    pub no_exchange: bool,
    /// Files that somebody has open: removed, they get another name instead (`.nfs…`, `.fuse_hidden…`), which cannot
    /// be removed.
    pub held: BTreeSet<u64>,
    /// Directories on which another file system is mounted.
    pub mounts: BTreeSet<u64>,
}

impl State {
    /// Fails for a name in a directory if a file system is mounted there.
    pub(super) fn is_no_mount(&self, directory: u64, name: &Path) -> Result<()> {
        match self.current.find(directory, name) {
            Ok(inode) if self.abilities.mounts.contains(&inode) => Err(Error::from_raw_os_error(libc::EBUSY)),
            _ => Ok(()),
        }
    }

    /// Opens a directory, if the way to it stays on the file system.
    pub(super) fn enter(&self, from: u64, path: &Path) -> Result<u64> {
        let mut at = from;
        for part in path.components() {
            at = self.current.find(at, Path::new(&part))?;
            if self.abilities.mounts.contains(&at) {
                return Err(Error::from_raw_os_error(libc::EXDEV));
            }
        }
        self.current.names(at).map(|_| at)
    }

    /// Takes a file's name away, or gives it one that says that somebody has it open.
    pub(super) fn unname(&mut self, directory: u64, name: &Path) -> Result<()> {
        let inode = self.current.find(directory, name)?;
        let is_file = matches!(self.current.inode(inode), Inode::File { .. });
        if !is_file || !self.abilities.held.contains(&inode) {
            self.make(Change::Unname { directory, name: name.into() });
            return Ok(());
        }
        let silly = PathBuf::from(format!(".nfs{inode}"));
        if silly == name {
            return Err(Error::from_raw_os_error(libc::EBUSY));
        }
        self.make(Change::Move { from: (directory, name.into()), to: (directory, silly.into()) });
        Ok(())
    }
}
