//! Reading a source again at an offset, on a thread of its own: what the root no longer keeps, and a receiver lacks.

use crate::session::application::Again;
use ethbcast_transport::packet::Waker;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Seek};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Bytes read at once: whoever lacks a frame mostly lacks those behind it, too.
const CHUNK_BYTES: usize = 256 << 10;
/// Requests that may wait for the disk; further ones are made when they are answered.
const REQUESTS: usize = 2;
/// Chunks that are kept for those who asked for them: 2 MiB.
const CHUNKS_KEPT: usize = 8;

/// Bytes that can be read at any position, as often as one likes.
pub trait ReadAt: Send + 'static {
    /// Reads from `offset` on, and says how many bytes that were; none at the end.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// What is left of a file or block device, without moving the position at which it is read.
#[derive(Debug)]
pub struct RestOfFile {
    file: File,
    begin: u64,
}

impl RestOfFile {
    /// All that `file` has from its present position on.
    ///
    /// # Errors
    /// If it is a pipe, or something else that has no positions.
    pub fn of(file: &File) -> io::Result<RestOfFile> {
        let mut file = file.try_clone()?;
        let begin = file.stream_position()?;
        Ok(RestOfFile { file, begin })
    }
}

impl ReadAt for RestOfFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, self.begin + offset)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    offset: u64,
    bytes: usize,
}

/// A piece of the source, as it was found when it was read again.
#[derive(Debug)]
struct Chunk {
    request: Request,
    bytes: Vec<u8>,
    /// Why there are fewer than were asked for, if not because the source ends there.
    error: Option<io::Error>,
}

/// Asks a thread for pieces of the source; the thread begins with the first and ends with this.
#[derive(Debug)]
pub(super) struct ReadAgain {
    requests: SyncSender<Request>,
    chunks: Receiver<Chunk>,
    /// What the thread has been asked and not answered.
    asked: Vec<Request>,
    /// What it has answered, the last used at the front.
    kept: VecDeque<Chunk>,
    /// The thread's work, until it is started.
    work: Option<Work>,
}

impl ReadAgain {
    /// Reads from `positions`, and tells `waker` when something has been read.
    pub(super) fn new(positions: impl ReadAt, waker: &Arc<Waker>) -> ReadAgain {
        let (requests, orders) = sync_channel::<Request>(REQUESTS);
        let (answers, chunks) = sync_channel(REQUESTS);
        let waker = Arc::clone(waker);
        let work = Work(Box::new(move || {
            for request in orders {
                if answers.send(read(&positions, request)).is_err() {
                    return;
                }
                waker.wake();
            }
        }));
        ReadAgain { requests, chunks, asked: Vec::new(), kept: VecDeque::new(), work: Some(work) }
    }

    /// The bytes that were asked for, once they are there.
    pub(super) fn read(&mut self, offset: u64, bytes: usize) -> Again<'_> {
        while let Ok(chunk) = self.chunks.try_recv() {
            self.asked.retain(|asked| *asked != chunk.request);
            self.kept.truncate(CHUNKS_KEPT - 1);
            self.kept.push_front(chunk);
        }
        let Some(at) = self.kept.iter().position(|chunk| chunk.request.covers(offset, bytes)) else {
            return self.ask(Request { offset, bytes: bytes.max(CHUNK_BYTES) });
        };
        let chunk = self.kept.remove(at).expect("it was found there");
        let begin = (offset - chunk.request.offset) as usize;
        if chunk.bytes.len() >= begin + bytes {
            self.kept.push_front(chunk);
            return Again::Bytes(&self.kept[0].bytes[begin..begin + bytes]);
        }
        match chunk.error {
            // What is short was read for bytes before these: they have still to be asked for themselves.
            _ if begin > 0 => self.ask(Request { offset, bytes: bytes.max(CHUNK_BYTES) }),
            Some(error) => Again::Impossible(format!("it cannot be read again at byte {offset}: {error}")),
            None => Again::Impossible(format!("it has become shorter: there are no {bytes} bytes at {offset}")),
        }
    }

    fn ask(&mut self, request: Request) -> Again<'static> {
        if let Some(Work(work)) = self.work.take()
            && let Err(error) = thread::Builder::new().name("again".to_owned()).spawn(work)
        {
            log::warn!("no thread to read again with: {error}");
        }
        let covered = self.asked.iter().any(|asked| asked.covers(request.offset, 1));
        if !covered && self.asked.len() < REQUESTS {
            if self.requests.try_send(request).is_err() {
                return Again::Impossible("the thread that reads it again has ended".to_owned());
            }
            self.asked.push(request);
        }
        Again::Pending
    }
}

impl Request {
    /// Whether the answer has these bytes.
    fn covers(&self, offset: u64, bytes: usize) -> bool {
        offset >= self.offset && offset + bytes as u64 <= self.offset + self.bytes as u64
    }
}

/// What a thread is to do.
struct Work(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Work {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Work")
    }
}

/// As much as is asked for, or all that can be read.
fn read(positions: &impl ReadAt, request: Request) -> Chunk {
    let mut bytes = vec![0; request.bytes];
    let (mut have, mut failed) = (0, None);
    while have < bytes.len() && failed.is_none() {
        match positions.read_at(&mut bytes[have..], request.offset + have as u64) {
            Ok(0) => break,
            Ok(count) => have += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => failed = Some(error),
        }
    }
    bytes.truncate(have);
    Chunk { request, bytes, error: failed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, SeekFrom, Write};
    use std::os::fd::OwnedFd;

    /// Bytes that say where they are; from `bad_from` on the disk fails.
    struct Pattern {
        bytes: u64,
        bad_from: u64,
    }

    fn byte_at(offset: u64) -> u8 {
        (offset % 251) as u8
    }

    impl ReadAt for Pattern {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            if offset >= self.bad_from {
                return Err(io::Error::from_raw_os_error(5));
            }
            // In odd pieces, as a disk may.
            let end = self.bytes.min(self.bad_from).min(offset + 100_003);
            let count = buffer.len().min(end.saturating_sub(offset) as usize);
            buffer[..count].iter_mut().zip(offset..).for_each(|(byte, at)| *byte = byte_at(at));
            Ok(count)
        }
    }

    fn again(bytes: u64, bad_from: u64) -> ReadAgain {
        ReadAgain::new(Pattern { bytes, bad_from }, &Arc::new(Waker::new().expect("a descriptor")))
    }

    /// What comes of asking until there is an answer.
    fn wait(again: &mut ReadAgain, offset: u64, bytes: usize) -> Result<Vec<u8>, String> {
        loop {
            match again.read(offset, bytes) {
                Again::Bytes(bytes) => return Ok(bytes.to_vec()),
                Again::Pending => thread::yield_now(),
                Again::Impossible(why) => return Err(why),
            }
        }
    }

    #[test]
    fn many_who_lack_different_bytes_all_get_theirs() {
        let mut again = again(10_000_000, u64::MAX);
        let mut missing: Vec<(u64, usize)> = (0..12).map(|one| (one * 700_001, 1468)).collect();
        while !missing.is_empty() {
            missing.retain_mut(|(offset, frames)| {
                if let Again::Bytes(bytes) = again.read(*offset, 1468) {
                    assert!(bytes.iter().zip(*offset..).all(|(byte, at)| *byte == byte_at(at)), "at {offset}");
                    (*offset, *frames) = (*offset + 1468, *frames - 1);
                }
                *frames > 1000
            });
        }
    }

    #[test]
    fn the_rest_of_a_file_begins_where_it_is_read_and_a_pipe_has_none() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"read already, and what is left").expect("room");
        file.seek(SeekFrom::Start(14)).expect("a file has positions");
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        let mut again = ReadAgain::new(RestOfFile::of(&file).expect("a file"), &waker);
        assert_eq!(wait(&mut again, 4, 12), Ok(b"what is left".to_vec()));
        let mut rest = String::new();
        file.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "and what is left");
        let (pipe, _writer) = io::pipe().expect("a pipe");
        assert!(RestOfFile::of(&File::from(OwnedFd::from(pipe))).is_err());
    }

    #[test]
    fn the_end_is_not_crossed_and_an_error_of_the_disk_is_the_reason() {
        let mut short = again(1000, u64::MAX);
        assert_eq!(wait(&mut short, 990, 10).map(|bytes| bytes.len()), Ok(10));
        let why = wait(&mut short, 990, 11).expect_err("there are ten");
        assert!(why.contains("shorter"), "{why}");
        let mut broken = again(1_000_000, 600_000);
        assert!(wait(&mut broken, 599_800, 100).is_ok() && wait(&mut broken, 599_900, 100).is_ok());
        let why = wait(&mut broken, 600_000, 100).expect_err("a bad sector");
        assert!(why.contains("Input/output error"), "{why}");
    }
}
