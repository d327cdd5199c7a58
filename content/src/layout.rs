//! Where everything is in the stream of a directory: the manifest first, then of each file its data and a byte that
//! says what became of it.

use crate::manifest::{FileData, Manifest, Node};

/// What became of a file at the sender, told after its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its data is what it was when the directory was listed.
    Whole,
    /// It has changed: its data is not all of one state, or zeros.
    Changed,
    /// It is gone, or cannot be read: its data is zeros from there on.
    Lost,
}

impl Verdict {
    /// The byte on the wire.
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// What a byte on the wire says; one that nobody writes says nothing good.
    pub fn of(byte: u8) -> Verdict {
        match byte {
            0 => Verdict::Whole,
            1 => Verdict::Changed,
            _ => Verdict::Lost,
        }
    }

    /// In words, to be read after the file's name.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Whole => "is whole",
            Verdict::Changed => "changed while it was sent",
            Verdict::Lost => "vanished or could not be read while it was sent",
        }
    }
}

/// A piece of the stream that is of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The encoded manifest from this byte on.
    Manifest {
        /// The place in it.
        at: usize,
        /// How many bytes are left of it.
        bytes: u64,
    },
    /// Data of a file.
    Data {
        /// The file's entry.
        entry: usize,
        /// Where in the file.
        offset: u64,
        /// How many bytes lie together there.
        bytes: u64,
    },
    /// The byte that says what became of a file.
    Verdict {
        /// The file's entry.
        entry: usize,
    },
}

/// The places of all pieces.
#[derive(Debug)]
pub struct Layout {
    manifest: Manifest,
    manifest_bytes: u64,
    /// The entries of files, and where in the stream each begins.
    files: Vec<(u32, u64)>,
    bytes: u64,
}

impl Layout {
    /// The stream of a manifest that is encoded in so many bytes.
    pub fn new(manifest: Manifest, manifest_bytes: u64) -> Layout {
        let mut bytes = manifest_bytes;
        let mut files = Vec::new();
        for (entry, data) in manifest.files() {
            files.push((entry as u32, bytes));
            bytes += data.data_bytes() + 1;
        }
        Layout { manifest, manifest_bytes, files, bytes }
    }

    /// What the stream carries.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// How long the stream is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The entry of a file, by its place among the files.
    pub fn file(&self, number: usize) -> Option<usize> {
        self.files.get(number).map(|&(entry, _)| entry as usize)
    }

    /// What the manifest says of the data of an entry; none of what is no file.
    pub fn data(&self, entry: usize) -> Option<&FileData> {
        match &self.manifest.entries()[entry].node {
            Node::File(data) => Some(data),
            _ => None,
        }
    }

    /// What is at an offset of the stream; none at its end.
    pub fn at(&self, offset: u64) -> Option<Piece> {
        if offset < self.manifest_bytes {
            return Some(Piece::Manifest { at: offset as usize, bytes: self.manifest_bytes - offset });
        }
        if offset >= self.bytes {
            return None;
        }
        let index = self.files.partition_point(|&(_, begin)| begin <= offset).checked_sub(1)?;
        let (entry, begin) = self.files[index];
        let entry = entry as usize;
        Some(match self.data(entry)?.at(offset - begin) {
            Some(extent) => Piece::Data { entry, offset: extent.offset, bytes: extent.bytes },
            None => Piece::Verdict { entry },
        })
    }
}
