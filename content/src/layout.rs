//! Layout of the stream of a directory: the manifest first, then each file's data followed by a
//! verdict byte.

use crate::manifest::{FileData, Manifest, Node};

/// State of a file at the sender, sent after its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Unchanged since the directory was listed.
    Whole,
    /// Changed: its data is a mixture of states, or zeros.
    Changed,
    /// Gone or unreadable: its data is zeros from there on.
    Lost,
}

impl Verdict {
    /// Returns the verdict's byte on the wire.
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// Decodes a byte of the wire; an unknown one counts as lost.
    pub fn of(byte: u8) -> Verdict {
        match byte {
            0 => Verdict::Whole,
            1 => Verdict::Changed,
            _ => Verdict::Lost,
        }
    }

    /// Returns the verdict in words that follow the file's name.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Whole => "is whole",
            Verdict::Changed => "changed while it was sent",
            Verdict::Lost => "vanished or could not be read while it was sent",
        }
    }
}

/// A contiguous piece of the stream of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Part of the encoded manifest.
    Manifest {
        /// Offset in the encoded manifest.
        at: usize,
        /// Bytes from there to the end of the manifest.
        bytes: u64,
    },
    /// Part of a file's data.
    Data {
        /// Index of the file's entry.
        entry: usize,
        /// Offset in the file.
        offset: u64,
        /// Contiguous bytes from that offset on.
        bytes: u64,
    },
    /// The verdict byte of a file.
    Verdict {
        /// Index of the file's entry.
        entry: usize,
    },
}

/// The position of every piece of the stream.
#[derive(Debug)]
pub struct Layout {
    manifest: Manifest,
    manifest_bytes: u64,
    files: Vec<(u32, u64)>,
    bytes: u64,
}

impl Layout {
    /// Computes the layout for a manifest whose encoding takes `manifest_bytes`.
    pub fn new(manifest: Manifest, manifest_bytes: u64) -> Layout {
        let mut bytes = manifest_bytes;
        let mut files = Vec::new();
        for (entry, data) in manifest.files() {
            files.push((entry as u32, bytes));
            bytes += data.data_bytes() + 1;
        }
        Layout { manifest, manifest_bytes, files, bytes }
    }

    /// The manifest of the directory.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The length of the stream, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the entry of the file with this number.
    pub fn file(&self, number: usize) -> Option<usize> {
        self.files.get(number).map(|&(entry, _)| entry as usize)
    }

    /// Returns the extents of an entry's data, or none if the entry is not a file.
    pub fn data(&self, entry: usize) -> Option<&FileData> {
        match &self.manifest.entries()[entry].node {
            Node::File(data) => Some(data),
            _ => None,
        }
    }

    /// Returns the piece at an offset of the stream, or none at its end.
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
