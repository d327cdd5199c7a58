//! List of the files and directories to be sent, found by walking the given paths.

use super::reader::{self, Stamp};
use super::{Losses, Selection, SourceError};
use crate::hidden_names::is_hidden;
use crate::manifest::{
    Attributes, Builder, Entry, Extent, FileData, Manifest, ManifestError, Node, Owner, Special,
    Time, Xattr,
};
use crate::{mounts, name};
use nix::unistd::{Gid, Group, Uid, User};
use rustix::fs::{SeekFrom, lgetxattr, llistxattr, major, minor, seek};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileType, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const BLOCK_BYTES: u64 = 512;

pub(super) struct Listing<'a> {
    selection: &'a Selection,
    builder: Builder,
    owners: OwnerTable,
    /// Files with several names: device and inode number, and the entry of the first name.
    linked: HashMap<(u64, u64), u32>,
    stamps: Vec<(u32, Stamp)>,
    bases: Vec<(u32, PathBuf)>,
    losses: Losses,
}

pub(super) struct Listed {
    pub manifest: Manifest,
    pub bases: Vec<(u32, PathBuf)>,
    pub stamps: Vec<(u32, Stamp)>,
    pub losses: Losses,
}

impl Listed {
    pub(super) fn sort_by_ranks(&mut self, ranks: &[usize]) {
        let places = self.manifest.sort_by_ranks(ranks);
        self.bases
            .iter_mut()
            .for_each(|(entry, _)| *entry = places[*entry as usize]);
        self.stamps
            .iter_mut()
            .for_each(|(entry, _)| *entry = places[*entry as usize]);
        self.stamps.sort_unstable_by_key(|(entry, _)| *entry);
    }
}

/// A directory whose listing is under way, with its remaining names in reverse order.
struct Open {
    entry: u32,
    path: PathBuf,
    below: PathBuf,
    names: Vec<OsString>,
}

impl<'a> Listing<'a> {
    pub(super) fn new(selection: &'a Selection) -> Listing<'a> {
        Listing {
            selection,
            builder: Builder::default(),
            owners: OwnerTable::default(),
            linked: HashMap::new(),
            stamps: Vec::new(),
            bases: Vec::new(),
            losses: Losses::default(),
        }
    }

    pub(super) fn list(mut self, sources: &[PathBuf]) -> Result<Listed, SourceError> {
        match sources {
            [directory] if directory.is_dir() => self.list_directory(directory)?,
            several => self.list_several(several)?,
        }
        Ok(Listed {
            manifest: self.builder.finish()?,
            bases: self.bases,
            stamps: self.stamps,
            losses: self.losses,
        })
    }

    fn list_directory(&mut self, path: &Path) -> Result<(), SourceError> {
        let no_source = |cause| SourceError::NoSource {
            path: path.to_owned(),
            cause,
        };
        let bytes = path.as_os_str().as_bytes();
        let contents = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
        let own = path
            .file_name()
            .filter(|_| !contents)
            .map_or(Box::default(), |name| name.as_bytes().into());
        let attributes = self.attributes(path, &path.metadata().map_err(no_source)?)?;
        let entry = self.builder.add(Entry {
            parent: None,
            name: own,
            attributes,
            node: Node::Directory,
        })?;
        self.bases.push((entry, path.to_owned()));
        self.list_below(entry, path, Path::new(""))
    }

    /// Lists several sources below a root directory that exists only in the manifest.
    fn list_several(&mut self, sources: &[PathBuf]) -> Result<(), SourceError> {
        let mut named = Vec::new();
        for path in sources {
            let name = path
                .file_name()
                .ok_or_else(|| SourceError::NoName { path: path.clone() })?;
            named.push((name.to_owned(), path));
        }
        named.sort();
        if let Some(twice) = named.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(SourceError::Twice {
                name: name::shown(twice[0].0.as_bytes()),
            });
        }
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let modified = Time {
            seconds: since.as_secs() as i64,
            nanoseconds: since.subsec_nanos(),
        };
        let attributes = Attributes {
            mode: 0o755,
            modified,
            ..Attributes::default()
        };
        self.builder.add(Entry {
            parent: None,
            name: Box::default(),
            attributes,
            node: Node::Directory,
        })?;
        for (name, path) in named {
            // A SOURCE that is a link stands for its target, as when it is sent alone.
            let no_source = |cause| SourceError::NoSource {
                path: path.clone(),
                cause,
            };
            let true_path = path.canonicalize().map_err(no_source)?;
            let (metadata, below) = (
                true_path.symlink_metadata().map_err(no_source)?,
                PathBuf::from(&name),
            );
            let Some(entry) = self.add(0, name.as_bytes(), &true_path, &below, &metadata)? else {
                continue;
            };
            if metadata.is_dir() {
                self.list_below(entry, &true_path, &below)?;
            }
            self.bases.push((entry, true_path));
        }
        Ok(())
    }

    fn list_below(&mut self, entry: u32, root: &Path, below: &Path) -> Result<(), SourceError> {
        let path = root;
        let mut open = vec![Open::new(entry, path.to_owned(), below.to_owned())?];
        let file_system = mounts::place_of(path).filter(|_| self.selection.one_file_system);
        while let Some(directory) = open.last_mut() {
            let Some(name) = directory.names.pop() else {
                open.pop();
                continue;
            };
            let (mut path, below, parent) = (
                directory.path.join(&name),
                directory.below.join(&name),
                directory.entry,
            );
            let mut metadata = match path.symlink_metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                metadata => metadata.map_err(|cause| SourceError::Read {
                    path: path.clone(),
                    cause,
                })?,
            };
            let followed = if metadata.is_symlink() {
                self.follow(&path, (root, &below), &open)?
            } else {
                None
            };
            let is_followed = followed.is_some();
            (path, metadata) = followed.unwrap_or((path, metadata));
            let added = self.add(parent, name.as_bytes(), &path, &below, &metadata)?;
            if let Some(entry) = added.filter(|_| is_followed) {
                self.bases.push((entry, path.clone()));
            }
            let is_entered =
                || is_followed || file_system.is_none() || mounts::place_of(&path) == file_system;
            if let Some(entry) = added.filter(|_| metadata.is_dir() && is_entered()) {
                open.push(Open::new(entry, path, below)?);
            }
        }
        Ok(())
    }

    /// Returns the target of a link that leads out of the source, if links are followed; otherwise
    /// counts it.
    fn follow(
        &mut self,
        path: &Path,
        (root, below): (&Path, &Path),
        open: &[Open],
    ) -> Result<Option<(PathBuf, Metadata)>, SourceError> {
        let cannot = |cause| SourceError::Read {
            path: path.to_owned(),
            cause,
        };
        let target = fs::read_link(path).map_err(cannot)?;
        if self.selection.exclusion.leaves_out(below, false) || !leads_out(&target, root, below) {
            return Ok(None);
        }
        let true_path = self
            .selection
            .follow
            .then(|| path.canonicalize())
            .and_then(Result::ok);
        let Some(true_path) = true_path else {
            self.losses.links_out.note((below.to_owned(), target));
            return Ok(None);
        };
        let is_in = |directory: &Open| {
            directory
                .path
                .canonicalize()
                .is_ok_and(|path| path.starts_with(&true_path))
        };
        if open.iter().any(is_in) {
            return Err(SourceError::Loop {
                path: path.to_owned(),
                target: true_path,
            });
        }
        let metadata = true_path.symlink_metadata().map_err(cannot)?;
        Ok(Some((true_path, metadata)))
    }

    fn add(
        &mut self,
        parent: u32,
        name: &[u8],
        path: &Path,
        below: &Path,
        metadata: &Metadata,
    ) -> Result<Option<u32>, SourceError> {
        if self
            .selection
            .exclusion
            .leaves_out(below, metadata.is_dir())
        {
            return Ok(None);
        }
        if parent == 0 && is_hidden(OsStr::from_bytes(name)) {
            return Err(SourceError::Hidden {
                path: path.to_owned(),
            });
        }
        let node = self.node(path, metadata)?;
        let is_file = matches!(node, Node::File(_));
        if !self.selection.xattrs && (is_file || metadata.is_dir()) && has_rights(path) {
            self.losses.unsent_rights.note(below.to_owned());
        }
        let attributes = match node {
            Node::HardLink(_) => Attributes::default(),
            _ => self.attributes(path, metadata)?,
        };
        let entry = self.builder.add(Entry {
            parent: Some(parent),
            name: name.into(),
            attributes,
            node,
        })?;
        if is_file {
            self.stamps.push((entry, Stamp::of(metadata)));
            if metadata.nlink() > 1 {
                self.linked.insert((metadata.dev(), metadata.ino()), entry);
            }
        }
        Ok(Some(entry))
    }

    fn node(&self, path: &Path, metadata: &Metadata) -> Result<Node, SourceError> {
        let cannot = |cause| SourceError::Read {
            path: path.to_owned(),
            cause,
        };
        let kind = metadata.file_type();
        if kind.is_dir() {
            return Ok(Node::Directory);
        }
        if kind.is_symlink() {
            let target = fs::read_link(path).map_err(cannot)?;
            return Ok(Node::Symlink(target.into_os_string().as_bytes().into()));
        }
        if kind.is_file() {
            if let Some(&first) = self.linked.get(&(metadata.dev(), metadata.ino())) {
                return Ok(Node::HardLink(first));
            }
            return data_of(path, metadata).map(Node::File).map_err(cannot);
        }
        let (special, words) = special(kind, metadata.rdev());
        if !self.selection.devices {
            return Err(SourceError::Special {
                path: path.to_owned(),
                kind: words,
            });
        }
        Ok(Node::Special(special))
    }

    fn attributes(&mut self, path: &Path, metadata: &Metadata) -> Result<Attributes, SourceError> {
        let mut attributes = of(metadata);
        if let Some(owners) = self.selection.owners {
            attributes.owner = Some(self.owners.place(metadata, owners, &mut self.builder)?);
        }
        match self.selection.xattrs {
            _ if !metadata.is_file() && !metadata.is_dir() => {}
            true => attributes.xattrs = xattrs(path)?,
            false => attributes.mode = mode_alone(path, attributes.mode),
        }
        Ok(attributes)
    }
}

/// Whether a link at `below` of `root` leads out of `root`: above its top, or to an absolute path,
/// unless `root` is a system's root and contains that path.
fn leads_out(target: &Path, root: &Path, below: &Path) -> bool {
    if let Ok(inside) = target.strip_prefix("/") {
        return root != Path::new("/") && root.join(inside).symlink_metadata().is_err();
    }
    let mut at = below.components().count() - 1;
    target.components().any(|part| match part {
        Component::ParentDir if at == 0 => true,
        Component::ParentDir => {
            at -= 1;
            false
        }
        Component::Normal(_) => {
            at += 1;
            false
        }
        _ => false,
    })
}

impl Open {
    fn new(entry: u32, path: PathBuf, below: PathBuf) -> Result<Open, SourceError> {
        let read =
            fs::read_dir(&path).and_then(|names| names.map(|name| Ok(name?.file_name())).collect());
        let mut names: Vec<OsString> = read.map_err(|cause| SourceError::Read {
            path: path.clone(),
            cause,
        })?;
        names.sort_unstable_by(|one, other| other.as_bytes().cmp(one.as_bytes()));
        Ok(Open {
            entry,
            path,
            below,
            names,
        })
    }
}

fn special(kind: FileType, device: u64) -> (Special, &'static str) {
    if kind.is_fifo() {
        (Special::Fifo, "fifo")
    } else if kind.is_socket() {
        (Special::Socket, "socket")
    } else if kind.is_block_device() {
        (Special::Block(major(device), minor(device)), "block device")
    } else {
        (
            Special::Character(major(device), minor(device)),
            "character device",
        )
    }
}

/// Reads a file's extents. Holes are searched only if the file takes fewer blocks than its size.
fn data_of(path: &Path, metadata: &Metadata) -> io::Result<FileData> {
    let bytes = metadata.len();
    if metadata.blocks() * BLOCK_BYTES >= bytes {
        return Ok(FileData::dense(bytes));
    }
    let Some(extents) = extents_of(&reader::open(path)?, bytes) else {
        return Ok(FileData::dense(bytes));
    };
    // A file that changed in between is detected when it is read.
    Ok(FileData::sparse(bytes, extents).unwrap_or_else(|_| FileData::dense(bytes)))
}

/// Returns the extents of a file of `bytes` bytes, or none on a file system without holes.
pub(crate) fn extents_of(file: &File, bytes: u64) -> Option<Vec<Extent>> {
    let (mut extents, mut at) = (Vec::new(), 0);
    while at < bytes {
        let begin = match seek(file, SeekFrom::Data(at)) {
            Ok(begin) if begin < bytes => begin,
            // The rest of the file is a hole.
            Ok(_) | Err(rustix::io::Errno::NXIO) => break,
            Err(_) => return None,
        };
        let end = seek(file, SeekFrom::Hole(begin))
            .unwrap_or(bytes)
            .min(bytes);
        extents.push(Extent {
            offset: begin,
            bytes: end - begin,
        });
        at = end;
    }
    Some(extents)
}

/// Representation in which owners are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// Names, with numbers for receivers that do not know the name.
    Names,
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
        let place = builder.add_owner(Owner {
            user,
            group,
            user_name,
            group_name,
        })?;
        self.places.insert((user, group), place);
        Ok(place)
    }
}

fn short(name: String) -> Box<[u8]> {
    if name.len() > 255 {
        Box::default()
    } else {
        name.into_bytes().into()
    }
}

pub(super) fn of(file: &Metadata) -> Attributes {
    let modified = Time {
        seconds: file.mtime(),
        nanoseconds: file.mtime_nsec() as u32,
    };
    Attributes {
        mode: (file.mode() & 0o7777) as u16,
        modified,
        owner: None,
        xattrs: Box::default(),
    }
}

/// Reads all extended attributes of `path`, which must not be a symbolic link.
pub(super) fn xattrs(path: &Path) -> Result<Box<[Xattr]>, SourceError> {
    let cannot = |cause: io::Error| SourceError::Read {
        path: path.to_owned(),
        cause,
    };
    let names = match grown(|buffer| llistxattr(path, buffer)) {
        // File systems without extended attributes.
        Err(error) if error == rustix::io::Errno::NOTSUP => return Ok(Box::default()),
        names => names.map_err(|error| cannot(error.into()))?,
    };
    let mut found = Vec::new();
    for name in names
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty())
    {
        match grown(|buffer| lgetxattr(path, name, buffer)) {
            Ok(value) => found.push(Xattr {
                name: name.into(),
                value: value.into(),
            }),
            // Removed meanwhile, or not readable for this user.
            Err(
                rustix::io::Errno::NODATA | rustix::io::Errno::ACCESS | rustix::io::Errno::PERM,
            ) => {}
            Err(error) => return Err(cannot(error.into())),
        }
    }
    Ok(found.into())
}

/// Whether a file has extended attributes, which are sent only with a directory.
pub fn has_xattrs(path: &Path) -> bool {
    path.canonicalize()
        .is_ok_and(|path| xattrs(&path).is_ok_and(|found| !found.is_empty()))
}

/// Whether a file has capabilities or access lists, which are sent only as extended attributes.
pub fn has_rights(path: &Path) -> bool {
    let names = grown(|buffer| llistxattr(path, buffer)).unwrap_or_default();
    let is_right =
        |name: &[u8]| name == b"security.capability" || name.starts_with(b"system.posix_acl_");
    names.split(|&byte| byte == 0).any(is_right)
}

/// Returns the mode of a file that is sent without its access list. With a list, the mode's bits of
/// the group are the most that anybody in the list may do, and the list has those of the group
/// itself.
pub(super) fn mode_alone(path: &Path, mode: u16) -> u16 {
    let list =
        grown(|buffer| lgetxattr(path, "system.posix_acl_access", buffer)).unwrap_or_default();
    let entry = |entry: &[u8; 8]| {
        (
            u16::from_le_bytes([entry[0], entry[1]]),
            u16::from_le_bytes([entry[2], entry[3]]),
        )
    };
    let entries: Vec<_> = list
        .get(4..)
        .unwrap_or_default()
        .as_chunks::<8>()
        .0
        .iter()
        .map(entry)
        .collect();
    let of = |tag: u16| {
        entries
            .iter()
            .find(|(of, _)| *of == tag)
            .map(|(_, may)| may & 7)
    };
    match (of(ACL_GROUP_OBJ), of(ACL_MASK)) {
        (Some(group), Some(mask)) => mode & !0o070 | (group & mask) << 3,
        _ => mode,
    }
}

const ACL_GROUP_OBJ: u16 = 4;
const ACL_MASK: u16 = 16;

fn grown(read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = vec![0; 256];
    loop {
        match read(&mut buffer) {
            Ok(count) => {
                buffer.truncate(count);
                return Ok(buffer);
            }
            Err(rustix::io::Errno::RANGE) if buffer.len() < 1 << 17 => {
                buffer.resize(buffer.len() * 8, 0)
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: without its access list a file gave its group what the list gave to somebody
    /// else.
    #[test]
    fn without_its_access_list_a_file_gives_its_group_no_more_than_with_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        fs::write(&path, "text").expect("room");
        // The owner, user 12, the group, the mask and others.
        let list = [
            (1, 6, u32::MAX),
            (2, 7, 12),
            (4, 4, u32::MAX),
            (16, 7, u32::MAX),
            (32, 0, u32::MAX),
        ];
        let mut value = 2_u32.to_le_bytes().to_vec();
        for (tag, may, who) in list {
            value.extend([u16::to_le_bytes(tag), u16::to_le_bytes(may)].concat());
            value.extend(u32::to_le_bytes(who));
        }
        rustix::fs::setxattr(
            &path,
            "system.posix_acl_access",
            &value,
            rustix::fs::XattrFlags::empty(),
        )
        .expect("kept");
        let stat = path.symlink_metadata().expect("there");
        assert_eq!(stat.mode() & 0o777, 0o670, "the mask");
        assert_eq!(mode_alone(&path, 0o4670), 0o4640);
        assert_eq!(mode_alone(directory.path(), 0o750), 0o750, "no list");
        let tree = crate::source::Tree::list(&[directory.path().to_owned()], &Selection::default())
            .expect("readable");
        let modes: Vec<u16> = tree
            .layout
            .manifest()
            .entries()
            .iter()
            .skip(1)
            .map(|entry| entry.attributes.mode)
            .collect();
        assert_eq!(modes, [0o640]);
    }
}
