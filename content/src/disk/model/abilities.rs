//! What real disks cannot do, or do otherwise.

use super::State;
use super::world::{Change, Inode};
use crate::disk::Lack;
use nix::libc;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{Error, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a disk can.
#[derive(Clone, Debug, Default)]
pub struct Abilities {
    /// Two names cannot be exchanged (NFS, FUSE, exFAT).
    pub no_exchange: bool,
    /// There are no files without a name (NFS, FUSE, vfat).
    pub no_nameless: bool,
    /// Nothing can be renamed over a directory, also if that is empty (SFTP).
    pub no_rename_over: bool,
    /// A file has one name (vfat, exFAT).
    pub no_links: bool,
    /// There are no symbolic links (vfat, exFAT).
    pub no_symlinks: bool,
    /// All files belong to one user (vfat), or this one may not give them away.
    pub no_owners: bool,
    /// A file's mode is what the mount says (vfat, exFAT).
    pub no_modes: bool,
    /// There are no extended attributes (vfat, exFAT, SFTP, NFS before 4.2).
    pub no_xattrs: bool,
    /// No name may have this byte.
    pub refused: Option<u8>,
    /// `a` and `A` are one name.
    pub folds_case: bool,
    /// How many bytes the files may have in all.
    pub room_bytes: Option<u64>,
    /// Files that somebody has open: removed, they get another name instead (`.nfs…`, `.fuse_hidden…`), which cannot
    /// be removed.
    pub held: BTreeSet<u64>,
    /// Directories on which another file system is mounted.
    pub mounts: BTreeSet<u64>,
    /// Directories of a lower layer, which cannot be renamed (overlay).
    pub lower: BTreeSet<u64>,
}

fn fail<T>(errno: i32) -> Result<T> {
    Err(Error::from_raw_os_error(errno))
}

impl Abilities {
    /// Real file systems, by what they can.
    pub fn profiles() -> Vec<(&'static str, Abilities)> {
        let all = Abilities::default;
        let fat = || Abilities {
            no_nameless: true,
            no_links: true,
            no_symlinks: true,
            no_owners: true,
            no_modes: true,
            no_xattrs: true,
            refused: Some(b':'),
            folds_case: true,
            ..all()
        };
        let nfs = || Abilities { no_exchange: true, no_nameless: true, no_xattrs: true, ..all() };
        vec![
            ("all it should", all()),
            ("no exchange", Abilities { no_exchange: true, ..all() }),
            ("NFS", nfs()),
            ("SFTP", Abilities { no_links: true, no_rename_over: true, ..nfs() }),
            ("vfat", fat()),
            ("exFAT", Abilities { no_exchange: true, ..fat() }),
        ]
    }

    /// The attributes that it has no place for.
    pub(super) fn kept_nowhere(&self) -> impl Iterator<Item = Lack> + use<> {
        let lacks = [(self.no_owners, Lack::Owners), (self.no_modes, Lack::Modes), (self.no_xattrs, Lack::Xattrs)];
        lacks.into_iter().filter(|(lacks, _)| *lacks).map(|(_, lack)| lack)
    }

    /// Fails for what this disk does not have.
    pub(super) fn have(&self, is_there: bool) -> Result<()> {
        if is_there { Ok(()) } else { fail(libc::EPERM) }
    }

    fn allow(&self, name: &Path) -> Result<()> {
        match self.refused {
            Some(byte) if name.as_os_str().as_bytes().contains(&byte) => fail(libc::EINVAL),
            _ => Ok(()),
        }
    }
}

impl State {
    /// What has a path from a directory on, by names as this disk compares them.
    pub(super) fn find(&self, directory: u64, path: &Path) -> Result<u64> {
        path.iter().try_fold(directory, |at, name| self.current.find(at, Path::new(&self.spelt(at, name))))
    }

    /// A name as it is written in a directory, if it is there.
    pub(super) fn spelt(&self, directory: u64, name: &OsStr) -> OsString {
        let names = self.current.names(directory).ok().filter(|_| self.abilities.folds_case);
        let same = names.and_then(|names| names.keys().find(|there| there.eq_ignore_ascii_case(name)));
        same.cloned().unwrap_or_else(|| name.to_owned())
    }

    /// Fails for a name that this disk does not take.
    pub(super) fn allow(&self, name: &Path) -> Result<()> {
        self.abilities.allow(name)
    }

    /// Fails for a name in a directory if a file system is mounted there.
    pub(super) fn is_no_mount(&self, directory: u64, name: &Path) -> Result<()> {
        match self.find(directory, name) {
            Ok(inode) if self.abilities.mounts.contains(&inode) => fail(libc::EBUSY),
            _ => Ok(()),
        }
    }

    /// Fails for a name in a directory that cannot be moved.
    pub(super) fn can_move(&self, directory: u64, name: &Path) -> Result<()> {
        self.is_no_mount(directory, name)?;
        match self.find(directory, name) {
            Ok(inode) if self.abilities.lower.contains(&inode) => fail(libc::EXDEV),
            _ => Ok(()),
        }
    }

    /// Fails if a file would have more bytes than there is room for.
    pub(super) fn has_room(&self, inode: u64, end: u64) -> Result<()> {
        let Some(room) = self.abilities.room_bytes else { return Ok(()) };
        let others = self.current.clone().swept().file_bytes(inode);
        let own = self.current.bytes_of(inode).max(end);
        if others + own > room { fail(libc::ENOSPC) } else { Ok(()) }
    }

    /// Opens a directory, if the way to it stays on the file system.
    pub(super) fn enter(&self, from: u64, path: &Path) -> Result<u64> {
        let mut at = from;
        for part in path.components() {
            at = self.find(at, Path::new(&part))?;
            if self.abilities.mounts.contains(&at) {
                return fail(libc::EXDEV);
            }
        }
        self.current.names(at).map(|_| at)
    }

    /// Takes a file's name away, or gives it one that says that somebody has it open.
    pub(super) fn unname(&mut self, directory: u64, name: &Path) -> Result<()> {
        let inode = self.find(directory, name)?;
        let name = self.spelt(directory, name.as_os_str());
        if !self.is_held(inode) {
            self.make(Change::Unname { directory, name });
            return Ok(());
        }
        let silly = PathBuf::from(format!(".nfs{inode}"));
        if silly == Path::new(&name) {
            return fail(libc::EBUSY);
        }
        self.make(Change::Move { from: (directory, name), to: (directory, silly.into()) });
        Ok(())
    }

    /// Whether somebody has a file open.
    pub(super) fn is_held(&self, inode: u64) -> bool {
        matches!(self.current.inode(inode), Inode::File { .. }) && self.abilities.held.contains(&inode)
    }
}
