//! Gives files the modes, times, owners and extended attributes that they have at the sender.

use crate::manifest::{Attributes, Manifest, Owner, Time};
use crate::name;
use ethbcast_collectives::session::FileAttributes;
use nix::unistd::{Group, User};
use parking_lot::Mutex;
use rustix::fs::{self as linux, AtFlags, Mode, Timespec, Timestamps, XattrFlags};
use rustix::process::{Gid, Uid};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// What stays of a mode without its owner: a program that runs as its owner must not run as another.
const MODE_WITHOUT_OWNER: u16 = 0o1777;

/// Sets attributes; says once what this user may not set.
#[derive(Debug, Default)]
pub struct Setter {
    /// Users and groups of this host, by their place in the list of owners.
    owners: Mutex<HashMap<u16, (u32, u32)>>,
    may_not_own: AtomicBool,
    may_not_xattr: AtomicBool,
}

/// What something is given: these attributes, of this manifest.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    setter: &'a Setter,
    attributes: &'a Attributes,
    manifest: &'a Manifest,
}

impl Given<'_> {
    /// The attributes.
    #[cfg(test)]
    pub(super) fn attributes(&self) -> &Attributes {
        self.attributes
    }

    /// To an open file or directory.
    pub(super) fn set(&self, file: impl AsFd) -> io::Result<()> {
        let Given { setter, attributes, manifest } = self;
        let owned = match setter.owner(attributes, manifest) {
            Some((user, group)) => {
                let owned = linux::fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
                setter.heed_owner(owned)?
            }
            None => false,
        };
        for xattr in &attributes.xattrs {
            let set = linux::fsetxattr(&file, &*xattr.name, &xattr.value, XattrFlags::empty());
            setter.heed_xattr(set, &xattr.name)?;
        }
        linux::fchmod(&file, mode(attributes, owned))?;
        Ok(linux::futimens(&file, &times(attributes))?)
    }

    /// To something that is not opened: a link, a device node, a fifo, right in a directory.
    pub(super) fn set_at(&self, directory: impl AsFd, name: &Path, is_link: bool) -> io::Result<()> {
        let Given { setter, attributes, manifest } = self;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let owned = match setter.owner(attributes, manifest) {
            Some((user, group)) => {
                let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
                let owned = linux::chownat(&directory, name, user, group, flags);
                setter.heed_owner(owned)?
            }
            None => false,
        };
        if !is_link {
            linux::chmodat(&directory, name, mode(attributes, owned), AtFlags::empty())?;
        }
        Ok(linux::utimensat(&directory, name, &times(attributes), flags)?)
    }
}

impl Setter {
    /// What something of a manifest is given.
    pub fn gives<'a>(&'a self, attributes: &'a Attributes, manifest: &'a Manifest) -> Given<'a> {
        Given { setter: self, attributes, manifest }
    }

    /// Whose a file is to be here.
    fn owner(&self, attributes: &Attributes, manifest: &Manifest) -> Option<(u32, u32)> {
        let place = attributes.owner?;
        let owner = manifest.owner_at(place)?;
        Some(*self.owners.lock().entry(place).or_insert_with(|| known_here(owner)))
    }

    /// Whether the owner was set; that this user may not is said once.
    fn heed_owner(&self, result: rustix::io::Result<()>) -> io::Result<bool> {
        match result {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::PERM) => {
                if !self.may_not_own.swap(true, Ordering::Relaxed) {
                    log::warn!(
                        "files belong to this user and not to the sender's owners: only root may give them away"
                    );
                }
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn heed_xattr(&self, result: rustix::io::Result<()>, name: &[u8]) -> io::Result<()> {
        match result {
            Err(error @ (rustix::io::Errno::PERM | rustix::io::Errno::NOTSUP | rustix::io::Errno::ACCESS)) => {
                if !self.may_not_xattr.swap(true, Ordering::Relaxed) {
                    log::warn!("extended attributes such as {} cannot be set here: {error}", name::shown(name));
                }
                Ok(())
            }
            result => Ok(result?),
        }
    }
}

/// Gives a file the mode, without set-user-id and set-group-id, and the time that it has at the sender.
///
/// # Errors
/// The system's.
pub(super) fn keep_attributes(file: &File, attributes: FileAttributes) -> io::Result<()> {
    let FileAttributes { mode: bits, modified_seconds, modified_nanoseconds } = attributes;
    let modified = Time { seconds: modified_seconds, nanoseconds: modified_nanoseconds };
    let attributes = Attributes { mode: bits, modified, ..Attributes::default() };
    linux::fchmod(file, mode(&attributes, false))?;
    Ok(linux::futimens(file, &times(&attributes))?)
}

fn mode(attributes: &Attributes, owned: bool) -> Mode {
    let bits = if owned { attributes.mode } else { attributes.mode & MODE_WITHOUT_OWNER };
    Mode::from_raw_mode(bits.into())
}

fn times(attributes: &Attributes) -> Timestamps {
    let time = attributes.modified;
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: linux::UTIME_OMIT },
        last_modification: Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
    }
}

/// An owner's numbers here: those of the names, if they were sent and are known.
fn known_here(owner: &Owner) -> (u32, u32) {
    let text = |name: &[u8]| std::str::from_utf8(name).ok().filter(|name| !name.is_empty()).map(str::to_owned);
    let user = text(&owner.user_name).and_then(|name| User::from_name(&name).ok().flatten());
    let group = text(&owner.group_name).and_then(|name| Group::from_name(&name).ok().flatten());
    (user.map_or(owner.user, |user| user.uid.as_raw()), group.map_or(owner.group, |group| group.gid.as_raw()))
}
