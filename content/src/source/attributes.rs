//! Reading of modes, times, owners and extended attributes.

use super::SourceError;
use crate::manifest::{Attributes, Builder, ManifestError, Owner, Time, Xattr};
use nix::unistd::{Gid, Group, Uid, User};
use rustix::fs::{lgetxattr, llistxattr};
use std::collections::HashMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Representation in which owners are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// Names, with numbers for receivers that do not know the name.
    Names,
    /// Numbers only.
    Numbers,
}

#[derive(Debug, Default)]
pub(super) struct OwnerTable {
    places: HashMap<(u32, u32), u16>,
}

impl OwnerTable {
    pub(super) fn place(
        &mut self,
        file: &Metadata,
        owners: Owners,
        builder: &mut Builder,
    ) -> Result<u16, ManifestError> {
        let (user, group) = (file.uid(), file.gid());
        if let Some(place) = self.places.get(&(user, group)) {
            return Ok(*place);
        }
        let (mut user_name, mut group_name) = (Box::default(), Box::default());
        if owners == Owners::Names {
            let known = User::from_uid(Uid::from_raw(user)).ok().flatten();
            user_name = known.map_or(Box::default(), |known| short(known.name));
            let known = Group::from_gid(Gid::from_raw(group)).ok().flatten();
            group_name = known.map_or(Box::default(), |known| short(known.name));
        }
        let place = builder.add_owner(Owner { user, group, user_name, group_name })?;
        self.places.insert((user, group), place);
        Ok(place)
    }
}

fn short(name: String) -> Box<[u8]> {
    if name.len() > 255 { Box::default() } else { name.into_bytes().into() }
}

pub(super) fn of(file: &Metadata) -> Attributes {
    let modified = Time { seconds: file.mtime(), nanoseconds: file.mtime_nsec() as u32 };
    Attributes { mode: (file.mode() & 0o7777) as u16, modified, owner: None, xattrs: Box::default() }
}

/// Reads all extended attributes of `path`, which must not be a symbolic link.
pub(super) fn xattrs(path: &Path) -> Result<Box<[Xattr]>, SourceError> {
    let cannot = |cause: io::Error| SourceError::Read { path: path.to_owned(), cause };
    let names = match grown(|buffer| llistxattr(path, buffer)) {
        // File systems without extended attributes.
        Err(error) if error == rustix::io::Errno::NOTSUP => return Ok(Box::default()),
        names => names.map_err(|error| cannot(error.into()))?,
    };
    let mut found = Vec::new();
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        match grown(|buffer| lgetxattr(path, name, buffer)) {
            Ok(value) => found.push(Xattr { name: name.into(), value: value.into() }),
            // Removed meanwhile, or not readable for this user.
            Err(rustix::io::Errno::NODATA | rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => {}
            Err(error) => return Err(cannot(error.into())),
        }
    }
    Ok(found.into())
}

/// Whether a file has extended attributes, which are sent only with a directory.
pub fn has_xattrs(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| xattrs(&path).is_ok_and(|found| !found.is_empty()))
}

/// Whether a file has capabilities or access lists, which are sent only as extended attributes.
pub fn has_rights(path: &Path) -> bool {
    let names = grown(|buffer| llistxattr(path, buffer)).unwrap_or_default();
    let is_right = |name: &[u8]| name == b"security.capability" || name.starts_with(b"system.posix_acl_");
    names.split(|&byte| byte == 0).any(is_right)
}

fn grown(read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = vec![0; 256];
    loop {
        match read(&mut buffer) {
            Ok(count) => {
                buffer.truncate(count);
                return Ok(buffer);
            }
            Err(rustix::io::Errno::RANGE) if buffer.len() < 1 << 17 => buffer.resize(buffer.len() * 8, 0),
            Err(error) => return Err(error),
        }
    }
}
