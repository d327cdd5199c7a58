//! Encoding of a directory's manifest, and of the header before it in the stream.

use super::{
    Attributes, Builder, Entry, Extent, Fault, FileData, MAX_BYTES, MAX_ENTRIES, Manifest,
    ManifestError, Node, Owner, Special, Time, Xattr,
};

const MAGIC: [u8; 6] = *b"EBTREE";
const VERSION: u16 = 1;
/// Magic, version, length and BLAKE3 of the manifest, in bytes.
pub const HEAD_BYTES: usize = 6 + 2 + 8 + 32;
/// The shortest entry: kind, parent and name, and the fields of a hard link.
const MIN_ENTRY_BYTES: usize = 1 + 4 + 1 + 4;
const NO_PARENT: u32 = u32::MAX;
const NO_OWNER: u16 = u16::MAX;

const DIRECTORY: u8 = 0;
const DENSE_FILE: u8 = 1;
const SPARSE_FILE: u8 = 2;
const SYMLINK: u8 = 3;
const HARD_LINK: u8 = 4;
const CHARACTER: u8 = 5;
const BLOCK: u8 = 6;
const FIFO: u8 = 7;
const SOCKET: u8 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    bytes: u64,
    digest: [u8; 32],
}

impl Head {
    /// Decodes a head.
    ///
    /// # Errors
    /// If it is not a head, has another version, or announces a manifest that is too long.
    pub fn read(head: &[u8; HEAD_BYTES]) -> Result<Head, ManifestError> {
        let mut from = Reader(head);
        let read = |from: &mut Reader<'_>| {
            if from.array()? != MAGIC {
                return Err(Fault::NoManifest);
            }
            match from.u16()? {
                VERSION => {}
                other => return Err(Fault::Version(other)),
            }
            let bytes = from.u64()?;
            if bytes > MAX_BYTES {
                return Err(Fault::Long(bytes));
            }
            Ok(Head {
                bytes,
                digest: from.array()?,
            })
        };
        read(&mut from).map_err(ManifestError::whole)
    }

    pub fn manifest_bytes(&self) -> usize {
        self.bytes as usize
    }
}

impl Manifest {
    /// Returns head and manifest as they stand in the stream.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u16(self.owners.len() as u16);
        for Owner {
            user,
            group,
            user_name,
            group_name,
        } in &self.owners
        {
            out.u32(*user)
                .u32(*group)
                .short(user_name)
                .short(group_name);
        }
        out.u32(self.entries.len() as u32);
        self.entries
            .iter()
            .for_each(|entry| write_entry(&mut out, entry));
        let body = out.into_bytes();
        let mut out = Writer::default();
        out.bytes(&MAGIC)
            .u16(VERSION)
            .u64(body.len() as u64)
            .bytes(blake3::hash(&body).as_bytes())
            .bytes(&body);
        out.into_bytes()
    }

    /// Decodes the manifest that follows `head`.
    ///
    /// # Errors
    /// If it is damaged, or has an entry that could not exist below a directory.
    pub fn decode(head: &Head, body: &[u8]) -> Result<Manifest, ManifestError> {
        if *blake3::hash(body).as_bytes() != head.digest {
            return Err(ManifestError::whole(Fault::Digest));
        }
        let mut from = Reader(body);
        let mut builder = Builder::default();
        let count = read_owners(&mut from, &mut builder).map_err(ManifestError::whole)?;
        for at in 0..count {
            let entry = read_entry(&mut from)
                .map_err(|fault| ManifestError::at(at, String::new(), fault))?;
            builder.add(entry)?;
        }
        if !from.0.is_empty() {
            return Err(ManifestError::whole(Fault::Trailing));
        }
        builder.finish()
    }
}

fn read_owners(from: &mut Reader<'_>, builder: &mut Builder) -> Result<usize, Fault> {
    for _ in 0..from.u16()? {
        let (user, group) = (from.u32()?, from.u32()?);
        let owner = Owner {
            user,
            group,
            user_name: from.short()?,
            group_name: from.short()?,
        };
        builder.add_owner(owner).map_err(|error| error.fault())?;
    }
    let count = from.u32()? as usize;
    if count > MAX_ENTRIES || count > from.0.len() / MIN_ENTRY_BYTES {
        return Err(Fault::Entries(count));
    }
    Ok(count)
}

fn write_entry(out: &mut Writer, entry: &Entry) {
    let Entry {
        parent,
        name,
        attributes,
        node,
    } = entry;
    out.u8(kind(node))
        .u32(parent.unwrap_or(NO_PARENT))
        .short(name);
    if let Node::HardLink(to) = node {
        out.u32(*to);
        return;
    }
    let Attributes {
        mode,
        modified,
        owner,
        xattrs,
    } = attributes;
    out.u16(*mode)
        .u64(modified.seconds as u64)
        .u32(modified.nanoseconds)
        .u16(owner.unwrap_or(NO_OWNER));
    out.u16(xattrs.len() as u16);
    for Xattr { name, value } in xattrs {
        out.short(name).u32(value.len() as u32).bytes(value);
    }
    match node {
        Node::File(data) => {
            out.u64(data.bytes());
            if let Some(extents) = data.extents() {
                out.u32(extents.len() as u32);
                for Extent { offset, bytes } in extents {
                    out.u64(offset).u64(bytes);
                }
            }
        }
        Node::Symlink(target) => {
            out.u16(target.len() as u16).bytes(target);
        }
        Node::Special(Special::Character(major, minor) | Special::Block(major, minor)) => {
            out.u32(*major).u32(*minor);
        }
        Node::Directory | Node::HardLink(_) | Node::Special(Special::Fifo | Special::Socket) => {}
    }
}

fn kind(node: &Node) -> u8 {
    match node {
        Node::Directory => DIRECTORY,
        Node::File(data) if data.extents().is_none() => DENSE_FILE,
        Node::File(_) => SPARSE_FILE,
        Node::Symlink(_) => SYMLINK,
        Node::HardLink(_) => HARD_LINK,
        Node::Special(Special::Character(..)) => CHARACTER,
        Node::Special(Special::Block(..)) => BLOCK,
        Node::Special(Special::Fifo) => FIFO,
        Node::Special(Special::Socket) => SOCKET,
    }
}

fn read_entry(from: &mut Reader<'_>) -> Result<Entry, Fault> {
    let (kind, parent, name) = (from.u8()?, from.u32()?, from.short()?);
    let parent = Some(parent).filter(|&parent| parent != NO_PARENT);
    if kind == HARD_LINK {
        return Ok(Entry {
            parent,
            name,
            attributes: Attributes::default(),
            node: Node::HardLink(from.u32()?),
        });
    }
    let attributes = read_attributes(from)?;
    let node = match kind {
        DIRECTORY => Node::Directory,
        DENSE_FILE => Node::File(FileData::dense(from.u64()?)),
        SPARSE_FILE => Node::File(read_sparse(from)?),
        SYMLINK => {
            let bytes = from.u16()?;
            Node::Symlink(from.bytes(usize::from(bytes))?.into())
        }
        CHARACTER => Node::Special(Special::Character(from.u32()?, from.u32()?)),
        BLOCK => Node::Special(Special::Block(from.u32()?, from.u32()?)),
        FIFO => Node::Special(Special::Fifo),
        SOCKET => Node::Special(Special::Socket),
        other => return Err(Fault::Kind(other)),
    };
    Ok(Entry {
        parent,
        name,
        attributes,
        node,
    })
}

fn read_attributes(from: &mut Reader<'_>) -> Result<Attributes, Fault> {
    let mode = from.u16()?;
    let modified = Time {
        seconds: from.u64()? as i64,
        nanoseconds: from.u32()?,
    };
    let owner = Some(from.u16()?).filter(|&owner| owner != NO_OWNER);
    let mut xattrs = Vec::new();
    for _ in 0..from.u16()? {
        let (name, bytes) = (from.short()?, from.u32()?);
        xattrs.push(Xattr {
            name,
            value: from.bytes(bytes as usize)?.into(),
        });
    }
    Ok(Attributes {
        mode,
        modified,
        owner,
        xattrs: xattrs.into(),
    })
}

fn read_sparse(from: &mut Reader<'_>) -> Result<FileData, Fault> {
    let (bytes, count) = (from.u64()?, from.u32()? as usize);
    // The bytes are taken before memory is reserved, so that a forged count reserves none.
    let mut extents = Reader(from.bytes(count.checked_mul(16).ok_or(Fault::Short)?)?);
    let all = (0..count).map(|_| {
        Ok(Extent {
            offset: extents.u64()?,
            bytes: extents.u64()?,
        })
    });
    FileData::sparse(bytes, all.collect::<Result<Vec<_>, Fault>>()?)
}

#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends a string, whose length of at most 255 bytes has been checked before.
    pub(super) fn short(&mut self, bytes: &[u8]) -> &mut Self {
        self.u8(u8::try_from(bytes.len()).expect("names are checked"))
            .bytes(bytes)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

#[derive(Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn u8(&mut self) -> Result<u8, Fault> {
        Ok(self.bytes(1)?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        self.bytes(N)?.try_into().map_err(|_| Fault::Short)
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Fault::Short)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn short(&mut self) -> Result<Box<[u8]>, Fault> {
        let count = self.u8()?;
        self.bytes(usize::from(count)).map(Box::from)
    }
}
