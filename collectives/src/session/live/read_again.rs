//! Thread that re-reads the content at the sender, to resend parts that are no longer buffered.

use crate::keys::ContentCipher;
use crate::session::application::Again;
use crate::session::verified::{ChunkSize, Form, SPAN_BYTES, SpanBuffer, SpanPlace, overlap};
use crossbeam_channel::{Receiver, Sender, bounded};
use ethbcast_transport::packet::Waker;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;

/// Maximum number of requests that wait for the disk; further ones are made when these are
/// answered.
const REQUESTS: usize = 2;
/// Spans kept for repeated requests: as many as there are catch-up streams.
const SPANS_KEPT: usize = 16;
/// Unit in which a bad disk area is skipped, in bytes; the rest of its span is still read.
const SECTOR_BYTES: usize = 4096;
/// Number of failures after which the rest of a span is skipped, because each failure may take the
/// disk seconds.
const MAX_FAILURES: u32 = 32;

/// Bytes that can be read at any position, repeatedly.
pub trait ReadAt: Send + Sync + 'static {
    /// Reads from `offset` on and returns the number of bytes; zero at the end.
    ///
    /// # Errors
    /// Those of the system.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, offset)
    }
}

#[derive(Clone)]
pub(super) struct Positions(Arc<dyn ReadAt>);

impl Positions {
    pub(super) fn new(positions: impl ReadAt) -> Positions {
        Positions(Arc::new(positions))
    }
}

impl std::fmt::Debug for Positions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Positions")
    }
}

impl ReadAt for Positions {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

pub(super) struct FromStart {
    positions: Positions,
    at: u64,
}

impl FromStart {
    pub(super) fn new(positions: Positions) -> FromStart {
        FromStart { positions, at: 0 }
    }
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.positions.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl ReadAt for Box<dyn ReadAt> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.as_ref().read_at(buffer, offset)
    }
}

/// The rest of a file or block device, read without moving the file's position.
#[derive(Debug)]
pub struct RestOfFile {
    file: File,
    begin: u64,
}

impl RestOfFile {
    /// Takes all of `file` from its present position on.
    ///
    /// # Errors
    /// If it has no positions, as a pipe.
    pub fn of(file: &File) -> io::Result<RestOfFile> {
        let mut file = file.try_clone()?;
        let begin = file.stream_position()?;
        Ok(RestOfFile { file, begin })
    }

    /// Returns the number of bytes from there to the end of a regular file.
    pub fn bytes(&self) -> Option<u64> {
        let metadata = self
            .file
            .metadata()
            .ok()
            .filter(|metadata| metadata.is_file())?;
        metadata.len().checked_sub(self.begin)
    }
}

impl ReadAt for RestOfFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        ReadAt::read_at(&self.file, buffer, self.begin + offset)
    }
}

type Request = SpanPlace;

#[derive(Debug)]
struct Span {
    request: Request,
    buffer: SpanBuffer,
    bad: Vec<Range<u64>>,
    error: Option<(u64, io::Error)>,
}

impl Span {
    fn lacks(&self, part: &Range<u64>) -> Option<String> {
        let (at, error) = self
            .error
            .as_ref()
            .filter(|_| self.bad.iter().any(|bad| overlap(bad, part)))?;
        Some(format!("it cannot be read again at byte {at}: {error}"))
    }
}

/// Client of a thread that reads spans. The thread starts with the first request and ends when this
/// is dropped.
#[derive(Debug)]
pub(super) struct ReadAgain {
    chunk: ChunkSize,
    cipher: ContentCipher,
    requests: Sender<(Request, ContentCipher)>,
    spans: Receiver<Span>,
    asked: Vec<Request>,
    kept: VecDeque<Span>,
    part: Vec<u8>,
    work: Option<RereadWork>,
}

impl ReadAgain {
    pub(super) fn new(positions: impl ReadAt, chunk: ChunkSize, waker: &Arc<Waker>) -> ReadAgain {
        let (requests, orders) = bounded::<(Request, ContentCipher)>(REQUESTS);
        let (answers, spans) = bounded(REQUESTS);
        let waker = Arc::clone(waker);
        let work = RereadWork(Box::new(move || {
            for (request, cipher) in orders {
                if answers.send(read(&positions, request, &cipher)).is_err() {
                    return;
                }
                waker.wake();
            }
        }));
        let (asked, kept) = (Vec::new(), VecDeque::new());
        let (cipher, part) = (ContentCipher::default(), Vec::new());
        ReadAgain {
            chunk,
            cipher,
            requests,
            spans,
            asked,
            kept,
            part,
            work: Some(work),
        }
    }

    pub(super) fn protect(&mut self, cipher: &ContentCipher) {
        (self.chunk, self.cipher) = (self.chunk.signed(cipher.is_keyed()), cipher.clone());
    }

    /// Returns a part of the verified stream, once it is read; `content_bytes` is the length of the
    /// content, or `u64::MAX` for all that can be read.
    pub(super) fn read(&mut self, part: Range<u64>, content_bytes: u64) -> Again<'_> {
        while let Ok(span) = self.spans.try_recv() {
            self.asked.retain(|asked| *asked != span.request);
            self.kept.truncate(SPANS_KEPT - 1);
            self.kept.push_front(span);
        }
        self.part.clear();
        for request in SpanPlace::all_of(self.chunk, &part, content_bytes) {
            let Some(at) = self.kept.iter().position(|span| span.request == request) else {
                return self.request(request);
            };
            let span = self.kept.remove(at).expect("it was found there");
            span.buffer
                .copy_part(request.index(), &part, &mut self.part);
            let lacks = span.lacks(&part);
            self.kept.push_front(span);
            if let Some(why) = lacks {
                return Again::Impossible(why);
            }
        }
        if self.part.len() as u64 == part.end - part.start {
            return Again::Bytes(&self.part);
        }
        let form = Form::Verified(self.chunk);
        let (content, _) = form.content_of(&part, form.stream_bytes(content_bytes));
        let (bytes, at) = (content.end - content.start, content.start);
        Again::Impossible(format!(
            "it has become shorter: there are no {bytes} bytes at {at}"
        ))
    }

    fn request(&mut self, request: Request) -> Again<'static> {
        if let Some(RereadWork(work)) = self.work.take()
            && let Err(error) = thread::Builder::new().name("again".to_owned()).spawn(work)
        {
            log::warn!("no thread to read again with: {error}");
        }
        if !self.asked.contains(&request) && self.asked.len() < REQUESTS {
            if self
                .requests
                .try_send((request, self.cipher.clone()))
                .is_err()
            {
                return Again::Impossible(
                    "the thread that rereads the content for repairs has ended".to_owned(),
                );
            }
            self.asked.push(request);
        }
        Again::Pending
    }
}

struct RereadWork(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for RereadWork {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Work")
    }
}

/// Reads and seals a span, as far as it can be read. Unreadable areas are narrowed down by smaller
/// reads and left out; then the span's hash list cannot be re-created either.
fn read(positions: &impl ReadAt, request: Request, cipher: &ContentCipher) -> Span {
    let mut buffer = SpanBuffer::empty(request.chunk_size(), SpanBuffer::default());
    let (mut unread, mut error, mut failures, mut most) = (Vec::new(), None, 0, SPAN_BYTES);
    while buffer.content_bytes() < request.content_bytes() {
        let lacking = request.content_bytes() - buffer.content_bytes();
        let offset = request.content_begin() + buffer.content_bytes() as u64;
        let to_border = SECTOR_BYTES - offset as usize % SECTOR_BYTES;
        let count = lacking.min(if most > SECTOR_BYTES { most } else { to_border });
        match positions.read_at(&mut buffer.room()[..count], offset) {
            Ok(0) => break,
            Ok(count) => {
                buffer.filled(count);
                most = (most * 2).min(SPAN_BYTES);
            }
            Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
            Err(cause) => {
                failures += 1;
                most = (count / 4).max(SECTOR_BYTES);
                if count <= to_border || failures >= MAX_FAILURES {
                    let left_out = if failures < MAX_FAILURES {
                        count
                    } else {
                        lacking
                    };
                    buffer.room()[..left_out].fill(0);
                    buffer.filled(left_out);
                    unread.push(offset..offset + left_out as u64);
                    error.get_or_insert((offset, cause));
                }
            }
        }
    }
    buffer.seal_by(request.index(), cipher);
    let place = SpanPlace::new(
        request.chunk_size(),
        request.index(),
        buffer.content_bytes(),
    );
    let hash_list = (!unread.is_empty()).then(|| place.hash_list());
    let bad = unread
        .iter()
        .map(|unread| place.in_stream(unread))
        .chain(hash_list)
        .collect();
    Span {
        request,
        buffer,
        bad,
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::verified::{Encoder, SPAN_BYTES};
    use std::io::{Read, SeekFrom, Write};
    use std::os::fd::OwnedFd;

    struct Pattern {
        bytes: u64,
        bad: Vec<Range<u64>>,
    }

    fn byte_at(offset: u64) -> u8 {
        (offset % 251) as u8
    }

    impl ReadAt for Pattern {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            // In odd pieces, as a disk may.
            let mut end = self.bytes.min(offset + 100_003);
            for bad in self.bad.iter().filter(|bad| bad.end > offset) {
                if bad.start <= offset {
                    return Err(io::Error::from_raw_os_error(5));
                }
                end = end.min(bad.start);
            }
            let count = buffer.len().min(end.saturating_sub(offset) as usize);
            buffer[..count]
                .iter_mut()
                .zip(offset..)
                .for_each(|(byte, at)| *byte = byte_at(at));
            Ok(count)
        }
    }

    fn again(bytes: u64, bad: &[Range<u64>]) -> ReadAgain {
        ReadAgain::new(
            Pattern {
                bytes,
                bad: bad.to_vec(),
            },
            ChunkSize::DEFAULT,
            &Arc::new(Waker::new().expect("a descriptor")),
        )
    }

    fn wait(again: &mut ReadAgain, part: Range<u64>) -> Result<Vec<u8>, String> {
        loop {
            match again.read(part.clone(), u64::MAX) {
                Again::Bytes(bytes) => return Ok(bytes.to_vec()),
                Again::Pending => thread::yield_now(),
                Again::Impossible(why) => return Err(why),
            }
        }
    }

    fn stream(bytes: u64) -> Vec<u8> {
        let (mut encoder, mut stream) = (Encoder::default(), Vec::new());
        for begin in (0..bytes).step_by(SPAN_BYTES) {
            let mut span = SpanBuffer::empty(ChunkSize::DEFAULT, SpanBuffer::default());
            let count = (bytes - begin).min(SPAN_BYTES as u64) as usize;
            span.room()[..count]
                .iter_mut()
                .zip(begin..)
                .for_each(|(byte, at)| *byte = byte_at(at));
            span.filled(count);
            encoder.seal(&mut span);
            stream.extend_from_slice(span.as_bytes());
        }
        stream
    }

    #[test]
    fn many_who_lack_different_bytes_all_get_theirs() {
        let stream = stream(10_000_000);
        let mut again = again(10_000_000, &[]);
        let mut missing: Vec<(u64, usize)> = (0..12).map(|one| (one * 700_001, 1468)).collect();
        while !missing.is_empty() {
            missing.retain_mut(|(offset, frames)| {
                if let Again::Bytes(bytes) = again.read(*offset..*offset + 1468, 10_000_000) {
                    assert!(bytes == &stream[*offset as usize..][..1468], "at {offset}");
                    (*offset, *frames) = (*offset + 1468, *frames - 1);
                }
                *frames > 1000
            });
        }
    }

    #[test]
    fn the_rest_of_a_file_begins_where_it_is_read_and_a_pipe_has_none() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"read already, and what is left")
            .expect("room");
        file.seek(SeekFrom::Start(14))
            .expect("a file has positions");
        let waker = Arc::new(Waker::new().expect("a descriptor"));
        let mut again = ReadAgain::new(
            RestOfFile::of(&file).expect("a file"),
            ChunkSize::DEFAULT,
            &waker,
        );
        let left = wait(&mut again, 56 + 4..56 + 16);
        assert_eq!(
            left,
            Ok(b"what is left".to_vec()),
            "behind the hash list of one chunk"
        );
        let mut rest = String::new();
        file.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "and what is left");
        let (pipe, _writer) = io::pipe().expect("a pipe");
        assert!(RestOfFile::of(&File::from(OwnedFd::from(pipe))).is_err());
    }

    #[test]
    fn the_end_is_not_crossed_and_an_error_of_the_disk_is_the_reason() {
        let mut short = again(1000, &[]);
        assert_eq!(
            wait(&mut short, 1046..1056),
            Ok(stream(1000)[1046..].to_vec())
        );
        let why = wait(&mut short, 1046..1057).expect_err("there are ten");
        assert!(why.contains("shorter"), "{why}");
        let mut broken = again(2_000_000, &[1_600_000..1_800_000, 1_800_000..2_000_000]);
        assert!(wait(&mut broken, 1_000_000..1_000_100).is_ok());
        let why = wait(&mut broken, 1_620_000..1_620_100).expect_err("a bad disk");
        assert!(
            why.contains("Input/output error") && why.contains("at byte 1600000"),
            "{why}"
        );
        let why = wait(&mut broken, 1_990_000..1_990_100).expect_err("to the end");
        assert!(why.contains("Input/output error"), "{why}");
    }

    #[test]
    fn a_bad_sector_costs_itself_and_the_hash_list_of_its_span() {
        let truth = stream(3_000_000);
        let sectors = [
            1_228_800..1_232_896,
            1_900_544..1_904_640,
            1_904_640..1_908_736,
        ];
        let mut broken = again(3_000_000, &sectors);
        let place = SpanPlace::new(ChunkSize::DEFAULT, 1, SPAN_BYTES);
        for bad in &sectors {
            let Range { start, end } = place.in_stream(bad);
            for part in [start - 5000..start, end..end + 5000] {
                let spoilt = sectors
                    .iter()
                    .any(|bad| overlap(&place.in_stream(bad), &part));
                let found = wait(&mut broken, part.clone());
                assert!(
                    spoilt && found.is_err()
                        || found == Ok(truth[part.start as usize..part.end as usize].to_vec())
                );
            }
            assert!(
                wait(&mut broken, start - 1..start + 1).is_err()
                    && wait(&mut broken, end - 1..end + 1).is_err()
            );
        }
        assert!(
            wait(&mut broken, place.hash_list()).is_err(),
            "it says what all of its span hashes to"
        );
        let rest = place.begin() as usize + place.bytes();
        assert_eq!(
            wait(&mut broken, 0..place.begin()),
            Ok(truth[..place.begin() as usize].to_vec())
        );
        assert_eq!(
            wait(&mut broken, rest as u64..truth.len() as u64),
            Ok(truth[rest..].to_vec())
        );
    }
}
