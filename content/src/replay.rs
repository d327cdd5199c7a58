//! Random access to the stream of a directory, for retransmission.

use crate::disk::DiskFile;
use crate::layout::{Layout, Piece, Verdict};
use ethbcast_collectives::session::live::ReadAt;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// A problem with a file: its data is zeros from an offset on, and its verdict says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Offset in the file at which the zeros begin.
    pub zeros_from: u64,
    /// Verdict that is sent to receivers.
    pub verdict: Verdict,
    /// Reason in words, where it is known.
    pub why: String,
}

/// Problems by entry of the file.
pub type Troubles = Arc<Mutex<BTreeMap<usize, Trouble>>>;

/// Opens files by their entry.
pub trait OpenEntry: Send + Sync + 'static {
    /// The type of an opened file.
    type File: DiskFile;

    /// Opens the file of an entry for reading.
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
    /// Creates a replay of the stream with this layout, whose encoded manifest is `encoded`.
    pub fn new(layout: Arc<Layout>, encoded: Arc<Vec<u8>>, troubles: Troubles, files: O) -> Replay<O> {
        Replay { layout, encoded, troubles, files, last: Mutex::default() }
    }

    fn read_data(&self, entry: usize, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let zeros_from = self.troubles.lock().get(&entry).map_or(u64::MAX, |trouble| trouble.zeros_from);
        if offset >= zeros_from {
            buffer.fill(0);
            return Ok(buffer.len());
        }
        let most = usize::try_from(zeros_from - offset).unwrap_or(usize::MAX).min(buffer.len());
        let mut last = self.last.lock();
        if last.as_ref().is_none_or(|(open, _)| *open != entry) {
            *last = Some((entry, self.files.open(entry)?));
        }
        let (_, file) = last.as_ref().expect("it was just opened");
        match file.read_at(&mut buffer[..most], offset)? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a file has become shorter")),
            count => Ok(count),
        }
    }
}

impl<O: OpenEntry> ReadAt for Replay<O> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let fits = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
        match self.layout.at(offset) {
            None => Ok(0),
            Some(Piece::Manifest { at, bytes }) => {
                let count = fits(bytes);
                buffer[..count].copy_from_slice(&self.encoded[at..at + count]);
                Ok(count)
            }
            Some(Piece::Data { entry, offset, bytes }) => {
                let count = fits(bytes);
                self.read_data(entry, offset, &mut buffer[..count])
            }
            Some(Piece::Verdict { entry }) => {
                let Some(first) = buffer.first_mut() else { return Ok(0) };
                *first = self.troubles.lock().get(&entry).map_or(Verdict::Whole, |trouble| trouble.verdict).byte();
                Ok(1)
            }
        }
    }
}
