//! Limitations of real file systems, for the model.

use super::State;
use super::world::{Change, Inode};
use crate::disk::Lack;
use nix::libc;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{Error, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Default)]
pub struct Abilities {
    /// Cannot exchange two names (NFS, FUSE, exFAT).
    pub no_exchange: bool,
    /// Has no nameless files (NFS, FUSE, vfat).
    pub no_nameless: bool,
    /// Cannot rename over a directory, even an empty one (SFTP).
    pub no_rename_over: bool,
    /// Has no hard links (vfat, exFAT).
    pub no_links: bool,
    /// Has no symbolic links (vfat, exFAT).
    pub no_symlinks: bool,
    /// Cannot change owners (vfat, or a user without rights).
    pub no_owners: bool,
    /// A file's mode is what the mount says (vfat, exFAT).
    pub no_modes: bool,
    /// No extended attributes (vfat, exFAT, SFTP, NFS before 4.2).
    pub no_xattrs: bool,
    /// Byte that no name may contain.
    pub refused: Option<u8>,
    /// Whether names that differ in case only are equal.
    pub folds_case: bool,
    pub room_bytes: Option<u64>,
    /// Files that another process has open: when removed they get another name (`.nfs…`,
    /// `.fuse_hidden…`) that cannot be removed.
    pub held: BTreeSet<u64>,
    pub mounts: BTreeSet<u64>,
    /// Entries of another user, which a sticky directory lets nobody else remove or rename.
    pub foreign: BTreeSet<u64>,
    /// Directories of an overlay's lower layer, which cannot be renamed.
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
    /// Resolves a path with the disk's comparison of names.
    pub(super) fn find(&self, directory: u64, path: &Path) -> Result<u64> {
        path.iter().try_fold(directory, |at, name| self.current.find(at, Path::new(&self.spelt(at, name))))
    }

    pub(super) fn spelt(&self, directory: u64, name: &OsStr) -> OsString {
        let names = self.current.names(directory).ok().filter(|_| self.abilities.folds_case);
        let same = names.and_then(|names| names.keys().find(|there| there.eq_ignore_ascii_case(name)));
        same.cloned().unwrap_or_else(|| name.to_owned())
    }

    pub(super) fn allow(&self, name: &Path) -> Result<()> {
        self.abilities.allow(name)
    }

    pub(super) fn is_no_mount(&self, directory: u64, name: &Path) -> Result<()> {
        match self.find(directory, name) {
            Ok(inode) if self.abilities.mounts.contains(&inode) => fail(libc::EBUSY),
            Ok(inode) if self.abilities.foreign.contains(&inode) => fail(libc::EPERM),
            _ => Ok(()),
        }
    }

    pub(super) fn can_move(&self, directory: u64, name: &Path) -> Result<()> {
        self.is_no_mount(directory, name)?;
        match self.find(directory, name) {
            Ok(inode) if self.abilities.lower.contains(&inode) => fail(libc::EXDEV),
            _ => Ok(()),
        }
    }

    pub(super) fn has_room(&self, inode: u64, end: u64) -> Result<()> {
        let Some(room) = self.abilities.room_bytes else { return Ok(()) };
        let others = self.current.clone().swept().file_bytes(inode);
        let own = self.current.bytes_of(inode).max(end);
        if others + own > room { fail(libc::ENOSPC) } else { Ok(()) }
    }

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

    /// Removes a file's name, or replaces it as NFS does for an open file.
    pub(super) fn unname(&mut self, directory: u64, name: &Path) -> Result<()> {
        let inode = self.find(directory, name)?;
        if self.abilities.foreign.contains(&inode) {
            return fail(libc::EPERM);
        }
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

    pub(super) fn is_held(&self, inode: u64) -> bool {
        matches!(self.current.inode(inode), Inode::File { .. }) && self.abilities.held.contains(&inode)
    }
}
