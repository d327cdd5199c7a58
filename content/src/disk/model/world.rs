//! Content of the simulated disk for crash tests, and the changes to it.

use super::State;
use crate::disk::Lack;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

pub const ROOT: u64 = 0;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Inode {
    File {
        bytes: Vec<u8>,
        attributes: String,
    },
    Directory {
        names: BTreeMap<OsString, u64>,
        attributes: String,
    },
    Symlink(Vec<u8>),
    Special,
}

/// A change that reaches the disk as a whole or not at all, except for a write, which may be torn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Write {
        inode: u64,
        at: u64,
        bytes: Vec<u8>,
    },
    SetBytes {
        inode: u64,
        bytes: u64,
    },
    Attributes {
        inode: u64,
        attributes: String,
    },
    Name {
        directory: u64,
        name: OsString,
        inode: u64,
    },
    Unname {
        directory: u64,
        name: OsString,
    },
    Move {
        from: (u64, OsString),
        to: (u64, OsString),
    },
    Exchange {
        one: (u64, OsString),
        other: (u64, OsString),
    },
}

impl Change {
    /// Returns the inode whose content changes, if it is not a change of names.
    pub fn of_content(&self) -> Option<u64> {
        match self {
            Change::Write { inode, .. }
            | Change::SetBytes { inode, .. }
            | Change::Attributes { inode, .. } => Some(*inode),
            _ => None,
        }
    }

    pub fn is_name_in(&self, of: u64) -> bool {
        match self {
            Change::Name { directory, .. } | Change::Unname { directory, .. } => *directory == of,
            Change::Move { from, to }
            | Change::Exchange {
                one: from,
                other: to,
            } => from.0 == of || to.0 == of,
            _ => false,
        }
    }

    pub fn torn(&self) -> Option<Change> {
        let Change::Write { inode, at, bytes } = self else {
            return None;
        };
        Some(Change::Write {
            inode: *inode,
            at: *at,
            bytes: bytes[..bytes.len() / 2].to_vec(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World(BTreeMap<u64, Inode>);

impl Default for World {
    fn default() -> World {
        World([(ROOT, World::directory())].into())
    }
}

impl World {
    pub fn directory() -> Inode {
        Inode::Directory {
            names: BTreeMap::new(),
            attributes: String::new(),
        }
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
        path.components()
            .filter(|part| *part != Component::CurDir)
            .try_fold(directory, |at, part| {
                let Component::Normal(name) = part else {
                    return Err(Error::other("it leads elsewhere"));
                };
                self.names(at)?
                    .get(name)
                    .copied()
                    .ok_or(Error::from(ErrorKind::NotFound))
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
        let names = self
            .0
            .keys()
            .filter_map(|directory| self.names(*directory).ok())
            .flat_map(BTreeMap::values);
        names.filter(|named| **named == inode).count() as u64
    }

    pub fn file_bytes(&self, but: u64) -> u64 {
        self.0
            .keys()
            .filter(|inode| **inode != but)
            .map(|inode| self.bytes_of(*inode))
            .sum()
    }

    pub fn listing(&self, directory: u64) -> Vec<(std::path::PathBuf, Inode)> {
        let mut found = Vec::new();
        let Ok(names) = self.names(directory) else {
            return found;
        };
        for (name, number) in names {
            let inode = match &self.0[number] {
                Inode::Directory { attributes, .. } => Inode::Directory {
                    names: BTreeMap::new(),
                    attributes: attributes.clone(),
                },
                other => other.clone(),
            };
            found.push((name.into(), inode));
            found.extend(
                self.listing(*number)
                    .into_iter()
                    .map(|(path, inode)| (Path::new(name).join(path), inode)),
            );
        }
        found
    }

    pub fn swept(mut self) -> World {
        let reached = self.reached(vec![ROOT]);
        self.0.retain(|number, _| reached.contains(number));
        self
    }

    fn reached(&self, mut from: Vec<u64>) -> BTreeSet<u64> {
        let mut reached = BTreeSet::new();
        while let Some(number) = from.pop() {
            if let Ok(names) = self.names(number) {
                from.extend(names.values());
            }
            reached.insert(number);
        }
        reached
    }

    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Hashes what can be found from here, or from the entries of changes that have still to be
    /// written.
    pub(super) fn hash_reached(&self, pending: &[Change], hasher: &mut impl Hasher) {
        let named = pending.iter().filter_map(|change| match change {
            Change::Name { inode, .. } => Some(*inode),
            change => change.of_content(),
        });
        for number in self.reached(named.chain([ROOT]).collect()) {
            (number, self.0.get(&number)).hash(hasher);
        }
    }

    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { inode, at, bytes } => {
                let Some(Inode::File { bytes: there, .. }) = self.0.get_mut(inode) else {
                    return;
                };
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
                if let Some(
                    Inode::File {
                        attributes: there, ..
                    }
                    | Inode::Directory {
                        attributes: there, ..
                    },
                ) = self.0.get_mut(inode)
                {
                    there.clone_from(attributes);
                }
            }
            Change::Name {
                directory,
                name,
                inode,
            } => {
                self.rename(*directory, |names| names.insert(name.clone(), *inode));
            }
            Change::Unname { directory, name } => {
                self.rename(*directory, |names| names.remove(name))
            }
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
                let found = |at: &(u64, OsString)| {
                    self.names(at.0)
                        .ok()
                        .and_then(|names| names.get(&at.1))
                        .copied()
                };
                let (Some(first), Some(second)) = (found(one), found(other)) else {
                    return;
                };
                self.rename(one.0, |names| names.insert(one.1.clone(), second));
                self.rename(other.0, |names| names.insert(other.1.clone(), first));
            }
        }
    }

    fn rename(
        &mut self,
        directory: u64,
        work: impl FnOnce(&mut BTreeMap<OsString, u64>) -> Option<u64>,
    ) {
        if let Some(Inode::Directory { names, .. }) = self.0.get_mut(&directory) {
            work(names);
        }
    }
}

/// Abilities that some file systems lack, each by the name of the lack: NFS and exFAT cannot
/// exchange two names, vfat has no nameless files, and so on as in
/// [`profiles`](Abilities::profiles).
#[derive(Clone, Debug, Default)]
pub struct Abilities {
    pub no_exchange: bool,
    pub no_nameless: bool,
    /// Whether nothing can be renamed over a directory, not even an empty one, with EPERM as the
    /// error (SFTP).
    pub no_rename_over: bool,
    pub no_links: bool,
    pub no_symlinks: bool,
    pub no_special: bool,
    pub no_owners: bool,
    /// Whether a file's mode is that of the mount (vfat, exFAT).
    pub no_modes: bool,
    pub writable_by_all: bool,
    pub no_xattrs: bool,
    /// Whether no hole can be made in a file (NFS before 4.2, vfat, exFAT).
    pub no_holes: bool,
    /// Whether no name can have a colon (vfat, exFAT).
    pub no_colons: bool,
    pub folds_case: bool,
    pub room_bytes: Option<u64>,
    /// Files that another process has open: when removed they get another name (`.nfs…`,
    /// `.fuse_hidden…`) that cannot be removed.
    pub held: BTreeSet<u64>,
    pub mounts: BTreeSet<u64>,
    /// Entries of another user, which no other user can remove or rename in a sticky directory.
    pub foreign: BTreeSet<u64>,
    /// Directories of an overlay's lower layer, which cannot be renamed.
    pub lower: BTreeSet<u64>,
    /// Files that another process has open on other file systems of the same walk.
    pub held_elsewhere: BTreeSet<u64>,
    /// Abilities that one of all combinations lacks: bits of [`Ability`].
    pub lacks: u8,
    /// Abilities that made a difference to a call, or would have: bits of [`Ability`]. Copies share
    /// it.
    pub asked: Arc<AtomicU8>,
}

/// The abilities that decide how content gets its name.
#[derive(Clone, Copy, Debug)]
pub enum Ability {
    Exchange,
    RenameOver,
    Nameless,
    LinksAndAttributes,
    CaseAndAllNames,
    RemovalOfOpenFiles,
}

impl Ability {
    const ALL: [Ability; 6] = [
        Ability::Exchange,
        Ability::RenameOver,
        Ability::Nameless,
        Ability::LinksAndAttributes,
        Ability::CaseAndAllNames,
        Ability::RemovalOfOpenFiles,
    ];

    fn bit(self) -> u8 {
        1 << self as u8
    }

    fn name(self) -> &'static str {
        match self {
            Ability::Exchange => "exchange",
            Ability::RenameOver => "renames over directories",
            Ability::Nameless => "nameless files",
            Ability::LinksAndAttributes => "links and attributes",
            Ability::CaseAndAllNames => "case and all names",
            Ability::RemovalOfOpenFiles => "removal of open files",
        }
    }
}

fn fail<T>(errno: i32) -> Result<T> {
    Err(Error::from_raw_os_error(errno))
}

impl Abilities {
    pub fn profiles() -> Vec<(&'static str, Abilities)> {
        let all = Abilities::default;
        let fat = || Abilities {
            no_nameless: true,
            no_links: true,
            no_symlinks: true,
            no_special: true,
            no_owners: true,
            no_modes: true,
            no_xattrs: true,
            no_holes: true,
            no_colons: true,
            folds_case: true,
            ..all()
        };
        let nfs = || Abilities {
            no_exchange: true,
            no_nameless: true,
            no_xattrs: true,
            no_holes: true,
            ..all()
        };
        vec![
            ("all it should", all()),
            (
                "no exchange",
                Abilities {
                    no_exchange: true,
                    ..all()
                },
            ),
            ("NFS", nfs()),
            (
                "SFTP",
                Abilities {
                    no_links: true,
                    no_rename_over: true,
                    ..nfs()
                },
            ),
            ("vfat", fat()),
            (
                "exFAT",
                Abilities {
                    no_exchange: true,
                    ..fat()
                },
            ),
        ]
    }

    /// Real file systems, on some of which another process has these files open.
    pub fn disks(held: impl IntoIterator<Item = u64>) -> Vec<(&'static str, Abilities)> {
        let (held, mut disks) = (BTreeSet::from_iter(held), Abilities::profiles());
        let networked = disks
            .iter_mut()
            .filter(|(kind, _)| matches!(*kind, "NFS" | "SFTP"));
        networked.for_each(|(_, abilities)| abilities.held.clone_from(&held));
        disks.push((
            "files that somebody has open",
            Abilities {
                held,
                ..Abilities::default()
            },
        ));
        disks
    }

    /// Every combination of the abilities that decide how content gets its name, the one with all
    /// of them first.
    pub fn combinations(held: impl IntoIterator<Item = u64>) -> Vec<(String, Abilities)> {
        let held = BTreeSet::from_iter(held);
        let combination = |lacks: u8| {
            let of: Vec<Ability> = Ability::ALL
                .into_iter()
                .filter(|of| lacks & of.bit() != 0)
                .collect();
            let mut abilities = Abilities {
                lacks,
                held_elsewhere: held.clone(),
                ..Abilities::default()
            };
            of.iter().for_each(|of| abilities.lose(*of, &held));
            let names: Vec<&str> = of.iter().map(|of| of.name()).collect();
            (format!("without [{}]", names.join(", ")), abilities)
        };
        (0..1 << Ability::ALL.len()).map(combination).collect()
    }

    fn lose(&mut self, of: Ability, held: &BTreeSet<u64>) {
        match of {
            Ability::Exchange => self.no_exchange = true,
            Ability::RenameOver => self.no_rename_over = true,
            Ability::Nameless => self.no_nameless = true,
            Ability::LinksAndAttributes => {
                (
                    self.no_links,
                    self.no_symlinks,
                    self.no_special,
                    self.no_holes,
                ) = (true, true, true, true);
                (self.no_owners, self.no_modes, self.no_xattrs) = (true, true, true);
            }
            Ability::CaseAndAllNames => (self.folds_case, self.no_colons) = (true, true),
            Ability::RemovalOfOpenFiles => self.held.clone_from(held),
        }
    }

    /// Whether it is lacking, where that makes a difference.
    pub(super) fn lacks(&self, of: Ability, is_lacking: bool) -> bool {
        self.asked.fetch_or(of.bit(), Ordering::Relaxed);
        is_lacking
    }

    pub fn asked(&self) -> u8 {
        self.asked.load(Ordering::Relaxed)
    }

    /// File systems on which one of these entries cannot be moved, each with and without an
    /// exchange.
    pub fn fixed(moved: &[u64]) -> Vec<(String, Abilities)> {
        let mut fixed = Vec::new();
        for (inode, no_exchange) in moved
            .iter()
            .flat_map(|inode| [(*inode, false), (*inode, true)])
        {
            let (only, all) = (
                || BTreeSet::from([inode]),
                || Abilities {
                    no_exchange,
                    ..Abilities::default()
                },
            );
            let ways = [
                (
                    "a mount",
                    Abilities {
                        mounts: only(),
                        ..all()
                    },
                ),
                (
                    "of another layer",
                    Abilities {
                        lower: only(),
                        ..all()
                    },
                ),
                (
                    "another user's",
                    Abilities {
                        foreign: only(),
                        ..all()
                    },
                ),
            ];
            fixed.extend(ways.map(|(is, abilities)| {
                (
                    format!("{inode} is {is}, no exchange: {no_exchange}"),
                    abilities,
                )
            }));
        }
        fixed
    }

    pub(super) fn kept_nowhere(&self) -> impl Iterator<Item = Lack> + use<> {
        let lacks = [
            (self.no_owners, Lack::Owners),
            (self.no_modes, Lack::Modes),
            (self.no_xattrs, Lack::Xattrs),
        ];
        let lacks =
            lacks.map(|(lacks, lack)| (self.lacks(Ability::LinksAndAttributes, lacks), lack));
        lacks
            .into_iter()
            .filter(|(lacks, _)| *lacks)
            .map(|(_, lack)| lack)
    }

    /// Fails if it is lacking.
    pub(super) fn need(&self, of: Ability, is_lacking: bool) -> Result<()> {
        if self.lacks(of, is_lacking) {
            fail(libc::EPERM)
        } else {
            Ok(())
        }
    }

    fn allow(&self, name: &Path) -> Result<()> {
        let is_odd = name.as_os_str().as_bytes().contains(&b':');
        if is_odd && self.lacks(Ability::CaseAndAllNames, self.no_colons) {
            fail(libc::EINVAL)
        } else {
            Ok(())
        }
    }
}

impl State {
    /// Resolves a path with the disk's comparison of names.
    pub(super) fn find(&self, directory: u64, path: &Path) -> Result<u64> {
        path.iter().try_fold(directory, |at, name| {
            self.current.find(at, Path::new(&self.spelt(at, name)))
        })
    }

    pub(super) fn spelt(&self, directory: u64, name: &OsStr) -> OsString {
        let names = self
            .current
            .names(directory)
            .ok()
            .filter(|names| !names.contains_key(name));
        let same =
            names.and_then(|names| names.keys().find(|there| there.eq_ignore_ascii_case(name)));
        let same = same.filter(|_| {
            self.abilities
                .lacks(Ability::CaseAndAllNames, self.abilities.folds_case)
        });
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
        let Some(room) = self.abilities.room_bytes else {
            return Ok(());
        };
        let others = self.current.clone().swept().file_bytes(inode);
        let own = self.current.bytes_of(inode).max(end);
        if others + own > room {
            fail(libc::ENOSPC)
        } else {
            Ok(())
        }
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
        self.make(Change::Move {
            from: (directory, name),
            to: (directory, silly.into()),
        });
        Ok(())
    }

    pub(super) fn is_private(&self, inode: u64) -> bool {
        !self.abilities.writable_by_all && !self.abilities.foreign.contains(&inode)
    }

    pub(super) fn is_held(&self, inode: u64) -> bool {
        let is_file = matches!(self.current.inode(inode), Inode::File { .. });
        let is_held = self.abilities.held.contains(&inode);
        let is_asked = is_file && (is_held || self.abilities.held_elsewhere.contains(&inode));
        is_asked && self.abilities.lacks(Ability::RemovalOfOpenFiles, is_held)
    }
}
