//! Decompression of the content on a thread of its own.

use super::bytes::Bytes;
use crate::image::unpack;
use ethbcast_collectives::session::application::Tally;
use ethbcast_collectives::session::live::{Storage, StorageError};
use ethbcast_collectives::session::{Outcome, Packing, Trailer};
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

const PIECES_WAITING: usize = 4;
const WRITE_BYTES: usize = 1 << 20;

pub(super) struct Unpacking {
    pieces: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<Result<Unpacked, StorageError>>>,
}

/// DEST after decompression, with the trailer of the compressed bytes.
pub(super) struct Unpacked {
    pub bytes: Bytes,
    pub content: Trailer,
}

impl Unpacking {
    pub(super) fn start(packing: Packing, bytes: Bytes) -> io::Result<Unpacking> {
        let (pieces, packed) = sync_channel(PIECES_WAITING);
        let packed = Packed { pieces: packed, piece: Vec::new(), taken: 0, has_ended: false };
        let work = move || work(packing, packed, bytes);
        let thread = thread::Builder::new().name("unpack".to_owned()).spawn(work)?;
        Ok(Unpacking { pieces: Some(pieces), thread: Some(thread) })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let pieces = self.pieces.as_ref().expect("nothing comes after the end");
        match pieces.send(bytes.to_vec()) {
            Ok(()) => Ok(()),
            // It ended early: its result has the reason.
            Err(_) => self.finish().map(drop),
        }
    }

    pub(super) fn finish(&mut self) -> Result<Unpacked, StorageError> {
        // Without this the input counts as cut off.
        if let Some(pieces) = self.pieces.take() {
            drop(pieces.send(Vec::new()));
        }
        let ended = self.thread.take().map(JoinHandle::join);
        let panicked = || StorageError::new(Outcome::WriteFailed, "the unpacking thread panicked");
        ended.ok_or_else(panicked)?.map_err(|_| panicked())?
    }
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        self.pieces = None;
        // Unfinished data is removed before the caller goes on.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn work(packing: Packing, packed: Packed, mut bytes: Bytes) -> Result<Unpacked, StorageError> {
    let mut unpacked = unpack(packing, packed);
    let (mut tally, mut buffer) = (Tally::default(), vec![0; WRITE_BYTES]);
    loop {
        let mut count = 0;
        while count < buffer.len() {
            match unpacked.read(&mut buffer[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let word = packing.name();
                    let text = format!("what came cannot be unpacked as {word}: {error}; look at SOURCE, `{word} -t`");
                    return Err(StorageError::new(Outcome::Damaged, text));
                }
            }
        }
        if count == 0 {
            let content = tally.trailer();
            return Ok(Unpacked { bytes, content });
        }
        bytes.check_room(tally.bytes())?;
        tally.add(&buffer[..count]);
        bytes.write(&buffer[..count])?;
    }
}

/// The compressed input. An empty piece is its end.
struct Packed {
    pieces: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    taken: usize,
    has_ended: bool,
}

impl Read for Packed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() && !self.has_ended {
            let cut_off = |_| io::Error::new(io::ErrorKind::ConnectionAborted, "the rest does not come");
            self.piece = self.pieces.recv().map_err(cut_off)?;
            (self.taken, self.has_ended) = (0, self.piece.is_empty());
        }
        let count = buffer.len().min(self.piece.len() - self.taken);
        buffer[..count].copy_from_slice(&self.piece[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}
