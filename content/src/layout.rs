//! Format of a directory as a stream: manifest, then each file's data and a status byte.

use crate::disk::DiskFile;
use crate::manifest::{FileData, Manifest, Node};
use ethbcast_collectives::lock::Mutex;
use ethbcast_collectives::session::live::ReadAt;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// State of a file at the sender since the directory was listed, sent after its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Whole,
    /// Changed: its data is a mixture of states, or zeros.
    Changed,
    /// Removed or unreadable: its data is zeros from there on.
    Lost,
}

impl Verdict {
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

/// A contiguous piece of the stream of one kind, with its offset in the encoded manifest or in a
/// file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    Manifest {
        at: usize,
        /// Bytes from there to the end of the manifest.
        bytes: u64,
    },
    Data {
        entry: usize,
        offset: u64,
        bytes: u64,
    },
    Verdict {
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
    pub fn new(manifest: Manifest, manifest_bytes: u64) -> Layout {
        let mut bytes = manifest_bytes;
        let mut files = Vec::new();
        for (entry, data) in manifest.files() {
            files.push((entry as u32, bytes));
            bytes += data.data_bytes() + 1;
        }
        Layout {
            manifest,
            manifest_bytes,
            files,
            bytes,
        }
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

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

    pub fn at(&self, offset: u64) -> Option<Piece> {
        if offset < self.manifest_bytes {
            return Some(Piece::Manifest {
                at: offset as usize,
                bytes: self.manifest_bytes - offset,
            });
        }
        if offset >= self.bytes {
            return None;
        }
        let index = self
            .files
            .partition_point(|&(_, begin)| begin <= offset)
            .checked_sub(1)?;
        let (entry, begin) = self.files[index];
        let entry = entry as usize;
        Some(match self.data(entry)?.at(offset - begin) {
            Some(extent) => Piece::Data {
                entry,
                offset: extent.offset,
                bytes: extent.bytes,
            },
            None => Piece::Verdict { entry },
        })
    }
}

/// A problem with a file: its data is zeros from an offset on, and its verdict gives the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub zeros_from: u64,
    pub verdict: Verdict,
    pub why: String,
}

/// Problems by entry of the file.
pub type Troubles = Arc<Mutex<BTreeMap<usize, Trouble>>>;

pub trait OpenEntry: Send + Sync + 'static {
    type File: DiskFile;

    fn open(&self, entry: usize) -> io::Result<Self::File>;
}

/// Reads the stream of a directory at any position.
#[derive(Debug)]
pub struct Replay<O: OpenEntry> {
    layout: Arc<Layout>,
    encoded: Arc<Vec<u8>>,
    troubles: Troubles,
    files: O,
    last: Mutex<Option<(usize, O::File)>>,
}

impl<O: OpenEntry> Replay<O> {
    pub fn new(
        layout: Arc<Layout>,
        encoded: Arc<Vec<u8>>,
        troubles: Troubles,
        files: O,
    ) -> Replay<O> {
        Replay {
            layout,
            encoded,
            troubles,
            files,
            last: Mutex::default(),
        }
    }

    fn read_data(&self, entry: usize, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let zeros_from = self
            .troubles
            .lock()
            .get(&entry)
            .map_or(u64::MAX, |trouble| trouble.zeros_from);
        if offset >= zeros_from {
            buffer.fill(0);
            return Ok(buffer.len());
        }
        let most = usize::try_from(zeros_from - offset)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let mut last = self.last.lock();
        if last.as_ref().is_none_or(|(open, _)| *open != entry) {
            *last = Some((entry, self.files.open(entry)?));
        }
        let (_, file) = last.as_ref().expect("it was just opened");
        match file.read_at(&mut buffer[..most], offset)? {
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "a file has become shorter",
            )),
            count => Ok(count),
        }
    }
}

impl<O: OpenEntry> ReadAt for Replay<O> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let fits = |bytes: u64| {
            usize::try_from(bytes)
                .unwrap_or(usize::MAX)
                .min(buffer.len())
        };
        match self.layout.at(offset) {
            None => Ok(0),
            Some(Piece::Manifest { at, bytes }) => {
                let count = fits(bytes);
                buffer[..count].copy_from_slice(&self.encoded[at..at + count]);
                Ok(count)
            }
            Some(Piece::Data {
                entry,
                offset,
                bytes,
            }) => {
                let count = fits(bytes);
                self.read_data(entry, offset, &mut buffer[..count])
            }
            Some(Piece::Verdict { entry }) => {
                let Some(first) = buffer.first_mut() else {
                    return Ok(0);
                };
                *first = self
                    .troubles
                    .lock()
                    .get(&entry)
                    .map_or(Verdict::Whole, |trouble| trouble.verdict)
                    .byte();
                Ok(1)
            }
        }
    }
}
