//! Interfaces that an application implements: a source of the bytes to send, and storage for
//! received bytes. Memory is both, also for delta transfers against an older version of the bytes.

use super::options::SendOptions;
use super::read_again::{FromStart, Positions, ReadAt, RestOfFile};
use super::read_ahead::{DigestBefore, ReadAhead, read_ahead};
use super::reader::Reader;
use super::report::Error;
use crate::session::message::{ContentKind, Digest, FileAttributes, Outcome, Trailer};
use crate::session::verified::{
    ChunkSet, ChunkSize, HaveSet, HeldContent, Offered, Origin, StretchHashes, StretchPlace,
};
use ethbcast_transport::lock::Mutex;
use ethbcast_transport::packet::Waker;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, Metadata, read_link};
use std::io::{self, Cursor, ErrorKind, Read, Seek, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, OnceLock};

/// A content to send: its bytes, a way to re-read them, and the type that receivers give it.
///
/// Any reader is a content. Bytes that were lost and that no host keeps can be sent again only if
/// the content [can be re-read](Content::again_from). The crate `ethbcast-content` makes contents
/// of files, directories and devices.
pub struct Content<'a> {
    reader: Box<dyn Read + Send + 'a>,
    again: io::Result<Box<dyn ReadAt>>,
    what: String,
    name: String,
    size: Option<u64>,
    kind: ContentKind,
    chunk: ChunkSize,
    digest: DigestBefore,
}

impl<'a> Content<'a> {
    /// Creates a content of all bytes of a reader.
    pub fn of(reader: impl Read + Send + 'a) -> Content<'a> {
        Content {
            reader: Box::new(reader),
            again: Err(ErrorKind::Unsupported.into()),
            what: String::new(),
            name: String::new(),
            size: None,
            kind: ContentKind::Stream,
            chunk: ChunkSize::DEFAULT,
            digest: DigestBefore::default(),
        }
    }

    /// Creates a content of a file from its present position on, with the name that the file has.
    /// It can be re-read unless the file is a pipe. A whole regular file is a file for receivers,
    /// too, which can go on with it later and take over what has not changed.
    pub fn of_file(mut file: File) -> Content<'static> {
        let rest = RestOfFile::of(&file);
        let size = rest.as_ref().ok().and_then(RestOfFile::bytes);
        let path = size.and_then(|_| read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok());
        let name =
            path.as_ref()
                .and_then(|path| path.file_name())
                .map_or_else(String::new, |name| {
                    let name = name.to_string_lossy();
                    name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned()
                });
        let is_whole = file.stream_position().is_ok_and(|at| at == 0);
        let attributes = file
            .metadata()
            .ok()
            .filter(|_| is_whole)
            .as_ref()
            .and_then(FileAttributes::of);
        let content =
            Content::of(file).again_from(rest.map(|rest| Box::new(rest) as Box<dyn ReadAt>));
        content
            .sized(size)
            .named(&name, &name)
            .kind(attributes.map_or(ContentKind::Stream, ContentKind::File))
    }

    /// Sets where to re-read bytes; offset 0 is the reader's first byte. An error says why that is
    /// impossible.
    pub fn again_from(self, again: io::Result<Box<dyn ReadAt>>) -> Content<'a> {
        Content { again, ..self }
    }

    /// Sets the name that receivers use in a directory, and the description used in errors.
    pub fn named(self, name: &str, what: &str) -> Content<'a> {
        Content {
            name: name.to_owned(),
            what: what.to_owned(),
            ..self
        }
    }

    /// Sets the expected size in bytes; another length is an error.
    pub fn sized(self, size: Option<u64>) -> Content<'a> {
        Content { size, ..self }
    }

    /// Sets the type that receivers give the bytes.
    pub fn kind(self, kind: ContentKind) -> Content<'a> {
        Content { kind, ..self }
    }

    /// Sets the chunk size, the unit of verification, repair and search at receivers. The default
    /// is 64 KiB.
    pub fn chunked(self, chunk: ChunkSize) -> Content<'a> {
        Content { chunk, ..self }
    }

    /// Sets the digest that the content must have, once it is known: before the reader's end.
    pub(super) fn of_digest(self, digest: DigestBefore) -> Content<'a> {
        Content { digest, ..self }
    }

    /// Splits off what later rounds of a carousel read. Fails if it can be read only once.
    pub(super) fn with_rounds(self) -> Result<(Content<'a>, Rounds), Error> {
        let what = self.called().to_owned();
        let positions = match self.again {
            Ok(positions) => Positions::new(positions),
            Err(_) => return Err(Error::OnlyOnce { what }),
        };
        let rounds = Rounds {
            positions: positions.clone(),
            what,
            name: self.name.clone(),
            size: self.size,
            kind: self.kind,
            chunk: self.chunk,
            digest: Arc::default(),
        };
        let again: io::Result<Box<dyn ReadAt>> = Ok(Box::new(positions));
        Ok((Content { again, ..self }, rounds))
    }

    fn called(&self) -> &str {
        match (&*self.what, &*self.name) {
            ("", "") => "the bytes to send",
            ("", name) => name,
            (what, _) => what,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn or_named(self, name: &str) -> Content<'a> {
        if self.name.is_empty() {
            Content {
                name: name.to_owned(),
                ..self
            }
        } else {
            self
        }
    }

    /// Fills in the options that describe the content, unless they are set already.
    pub fn describe(&self, options: &mut SendOptions) {
        if options.source.is_empty() {
            options.source.clone_from(&self.name);
        }
        options.size = options.size.or(self.size);
        if options.content == ContentKind::Stream {
            options.content = self.kind;
        }
    }

    /// Splits the content into a reader, which is run on a thread, and the session's source that it
    /// fills. A length other than `size` bytes is an error.
    pub fn read_ahead(
        self,
        size: Option<u64>,
        waker: &Arc<Waker>,
    ) -> (Reader<Box<dyn Read + Send + 'a>>, ReadAhead) {
        let what = self.called().to_owned();
        let (reader, source) = read_ahead((self.reader, &what, size), self.chunk, waker);
        let source = source.of_digest(self.digest);
        // A plain reader does not say whether it can be re-read, so it is not called a pipe.
        let is_unsaid = self
            .again
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Unsupported);
        (
            reader,
            if is_unsaid {
                source
            } else {
                source.reading_again_from(self.again)
            },
        )
    }
}

const CHANGED: &str =
    "the content has changed between two rounds of the carousel: send it again to those without it";

/// Content of the later rounds of a carousel.
pub(super) struct Rounds {
    positions: Positions,
    what: String,
    name: String,
    size: Option<u64>,
    kind: ContentKind,
    chunk: ChunkSize,
    digest: Arc<OnceLock<Digest>>,
}

impl Rounds {
    /// Returns the content for a round after one that sent `before`.
    pub(super) fn next(&self, before: Option<Trailer>) -> Content<'static> {
        if let Some(before) = before {
            self.digest.get_or_init(|| before.digest);
        }
        let again: io::Result<Box<dyn ReadAt>> = Ok(Box::new(self.positions.clone()));
        Content::of(FromStart::new(self.positions.clone()))
            .again_from(again)
            .named(&self.name, &self.what)
            .sized(self.size)
            .kind(self.kind)
            .chunked(self.chunk)
            .of_digest(DigestBefore::new(&self.digest, CHANGED))
    }
}

impl<'a, R: Read + Send + 'a> From<R> for Content<'a> {
    fn from(reader: R) -> Content<'a> {
        Content::of(reader)
    }
}

impl fmt::Debug for Content<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Content {
            what,
            name,
            size,
            kind,
            ..
        } = self;
        formatter
            .debug_struct("Content")
            .field("what", what)
            .field("name", name)
            .field("size", size)
            .field("kind", kind)
            .finish()
    }
}

/// Destination of the bytes of a [`Writer`](super::Writer). If they do not all come, it is dropped
/// together with the partial data.
pub trait Storage {
    /// Begins storing the offered content.
    ///
    /// # Errors
    /// If there is no place for it.
    fn begin(&mut self, _offered: &Offered) -> Result<(), StorageError> {
        Ok(())
    }

    /// Returns access to all written bytes for other receivers that lack them; `None` if they are
    /// not kept. Called when the session has begun.
    fn kept(&mut self) -> Option<Box<dyn ReadAt>> {
        None
    }

    /// Takes the next bytes, of which each chunk is verified.
    ///
    /// # Errors
    /// If they cannot be written.
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError>;

    /// Takes the next bytes, which are in place already:
    /// [`HaveSet`](crate::session::verified::HaveSet) has read them from there.
    ///
    /// # Errors
    /// The errors of [`write`](Storage::write), which is the default.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.write(bytes)
    }

    /// Makes the bytes durable without making them visible. All of them have been written and
    /// verified; `trailer` is their length and digest.
    ///
    /// # Errors
    /// If that is impossible, or the bytes differ when read back.
    fn settle(&mut self, trailer: Trailer) -> Result<(), StorageError>;

    /// Whether settling and publishing wait for a disk, which may take long; if not, a receiver
    /// that does not finish counts as stalled.
    fn syncs(&self) -> bool {
        true
    }

    /// Returns a note for the sender once the content is published; empty if there is none.
    fn note(&self) -> String {
        String::new()
    }

    /// Makes the settled content visible under its name, after the root has accepted it.
    ///
    /// # Errors
    /// If that is impossible.
    fn publish(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
}

/// Reason why bytes could not be stored.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct StorageError {
    outcome: Outcome,
    text: String,
    #[source]
    cause: Option<io::Error>,
}

impl StorageError {
    /// Creates a failure with the outcome that is reported to the sender, and a sentence that says
    /// what to do.
    pub fn new(outcome: Outcome, text: impl Into<String>) -> StorageError {
        StorageError {
            outcome,
            text: text.into(),
            cause: None,
        }
    }

    /// Refuses because of the present state of DEST; nothing was changed. `text` says what to do.
    pub fn refused(text: impl std::fmt::Display) -> StorageError {
        StorageError::new(
            Outcome::WriteFailed,
            format!("{}: {text}", Outcome::REFUSED),
        )
    }

    /// Returns outcome, sentence and cause.
    pub fn into_parts(self) -> (Outcome, String, Option<io::Error>) {
        (self.outcome, self.text, self.cause)
    }

    /// Creates a failure from a system error that occurred while `doing` something. The error
    /// determines the outcome and the sentence, to which `help` is appended.
    pub fn system(doing: &str, cause: io::Error, help: &str) -> StorageError {
        let outcome = if is_full(&cause) {
            Outcome::NoSpace
        } else {
            Outcome::WriteFailed
        };
        StorageError {
            outcome,
            text: format!("cannot {doing}: {cause}{help}"),
            cause: Some(cause),
        }
    }
}

/// Whether the error means that there is no space left.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

/// A [`Storage`] that writes to any writer. Bytes are written as they come, verified by chunk,
/// complete or not.
#[derive(Debug)]
pub struct Output<W>(pub W);

/// Memory of a fixed length as a storage.
#[derive(Debug)]
pub struct Room<'a> {
    memory: &'a mut [u8],
    filled: usize,
}

impl<'a> Room<'a> {
    /// Creates a storage that fills `memory` from its beginning.
    pub fn of(memory: &'a mut [u8]) -> Room<'a> {
        Room { memory, filled: 0 }
    }
}

impl Storage for Room<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let (room, end) = (self.memory.len(), self.filled + bytes.len());
        let Some(place) = self.memory.get_mut(self.filled..end) else {
            let text =
                format!("the buffer has {room} bytes, and at least {end} come: pass a longer one");
            return Err(StorageError::new(Outcome::NoSpace, text));
        };
        place.copy_from_slice(bytes);
        self.filled = end;
        Ok(())
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        Ok(())
    }

    fn syncs(&self) -> bool {
        false
    }
}

impl<W: Write> Storage for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.0
            .write_all(bytes)
            .map_err(|error| StorageError::system("write", error, ""))
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        self.0
            .flush()
            .map_err(|error| StorageError::system("write", error, ""))
    }
}

impl FileAttributes {
    /// Returns the attributes of a regular file, `None` for anything else.
    pub fn of(metadata: &Metadata) -> Option<FileAttributes> {
        metadata.is_file().then(|| FileAttributes {
            mode: (metadata.mode() & 0o7777) as u16,
            modified_seconds: metadata.mtime(),
            modified_nanoseconds: metadata.mtime_nsec() as u32,
        })
    }
}

/// Bytes in memory that a sender reads once, and again where a receiver lacks them.
struct Again<B>(B);

impl<B: AsRef<[u8]> + Send + Sync + 'static> ReadAt for Again<B> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.0.as_ref().get(offset..));
        rest.unwrap_or_default().read(buffer)
    }
}

impl Content<'static> {
    /// Creates a content of bytes in memory, which are read again if they were lost. Receivers that
    /// have an earlier version ([`receive_over`](super::Session::receive_over)) are sent what has
    /// changed. The bytes may stay in use for a moment after the session.
    pub fn of_memory(bytes: impl AsRef<[u8]> + Clone + Send + Sync + 'static) -> Content<'static> {
        let length = bytes.as_ref().len() as u64;
        Content::of(Cursor::new(bytes.clone()))
            .again_from(Ok(Box::new(Again(bytes))))
            .sized(Some(length))
    }
}

/// Memory with an earlier version of the content: equal chunks stay where they are.
pub(super) struct Version<M>(Mutex<VersionState<M>>);

struct VersionState<M> {
    memory: M,
    filled: usize,
    places: BTreeMap<u64, StretchPlace>,
    /// Length of the content, if it differs from that of the memory.
    other_bytes: Option<u64>,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Version<M> {
    pub(super) fn of(memory: M) -> Version<M> {
        Version(Mutex::new(VersionState {
            memory,
            filled: 0,
            places: BTreeMap::new(),
            other_bytes: None,
        }))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.lock().memory.as_ref().len() as u64
    }

    pub(super) fn into_memory(self) -> M {
        self.0.into_inner().memory
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> VersionState<M> {
    fn chunk(&self, place: &StretchPlace, chunk: usize) -> Option<&[u8]> {
        let begin = usize::try_from(place.chunk_offset(chunk)).ok()?;
        self.memory
            .as_ref()
            .get(begin..begin.checked_add(place.chunk_bytes(chunk))?)
    }

    fn next(&mut self, bytes: usize) -> Result<Range<usize>, StorageError> {
        let (room, place) = (
            self.memory.as_ref().len(),
            self.filled..self.filled.saturating_add(bytes),
        );
        if place.end > room {
            let text = format!(
                "the buffer has {room} bytes, and at least {} come: pass a longer one",
                place.end
            );
            return Err(StorageError::new(Outcome::NoSpace, text));
        }
        self.filled = place.end;
        Ok(place)
    }
}

impl<M> fmt::Debug for Version<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Version")
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]> + Send> HaveSet for Version<M> {
    fn begin(&self, offer: &HeldContent) {
        let mut state = self.0.lock();
        let own_bytes = state.memory.as_ref().len() as u64;
        state.other_bytes = Some(offer.size).filter(|&bytes| bytes != own_bytes);
        state.places.clear();
    }

    fn have(&self, hash_list: &StretchHashes) -> ChunkSet {
        let mut state = self.0.lock();
        let place = *hash_list.place();
        let is_here = |&chunk: &usize| {
            state
                .chunk(&place, chunk)
                .is_some_and(|bytes| hash_list.matches(chunk, bytes))
        };
        let here = (0..hash_list.chunks()).filter(is_here).collect();
        state.places.insert(hash_list.number(), place);
        here
    }

    fn read(&self, stretch: u64, chunk: usize, to: &mut [u8]) -> Option<Origin> {
        let state = self.0.lock();
        to.copy_from_slice(state.chunk(state.places.get(&stretch)?, chunk)?);
        Some(Origin::InPlace)
    }

    fn forget_below(&self, stretch: u64) {
        let mut state = self.0.lock();
        state.places = state.places.split_off(&stretch);
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Storage for Arc<Version<M>> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let mut state = self.0.lock();
        let place = state.next(bytes.len())?;
        state.memory.as_mut()[place].copy_from_slice(bytes);
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.0.lock().next(bytes.len()).map(drop)
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        Ok(())
    }

    fn syncs(&self) -> bool {
        false
    }

    fn note(&self) -> String {
        let state = self.0.lock();
        let own_bytes = state.memory.as_ref().len();
        let note =
            |bytes| format!("its earlier version has {own_bytes} bytes, and this one {bytes}");
        state.other_bytes.map(note).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::SeekFrom;

    #[test]
    fn a_whole_file_has_name_size_and_attributes_and_the_rest_of_one_has_no_attributes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("image");
        std::fs::write(&path, [7; 3000]).expect("written");
        for (from, bytes) in [(0, 3000), (1000, 2000)] {
            let mut file = File::open(&path).expect("it is there");
            file.seek(SeekFrom::Start(from))
                .expect("a file has positions");
            let attributes =
                FileAttributes::of(&file.metadata().expect("it is open")).expect("a regular file");
            let mut options = SendOptions::new();
            Content::of_file(file).describe(&mut options);
            let kind = if from == 0 {
                ContentKind::File(attributes)
            } else {
                ContentKind::Stream
            };
            assert_eq!(
                (&*options.source, options.size, options.content),
                ("image", Some(bytes), kind)
            );
        }
    }

    #[test]
    fn chunks_that_are_equal_stay_and_others_are_written_over_them() {
        const CHUNK: usize = ChunkSize::SHORTEST.bytes();
        let old = vec![1_u8; 3 * CHUNK + 5];
        let new = [&old[..CHUNK], &[2; CHUNK][..], &old[2 * CHUNK..]].concat();
        let version = Arc::new(Version::of(old));
        let offer = HeldContent {
            size: new.len() as u64,
            chunk: ChunkSize::SHORTEST,
            ..HeldContent::default()
        };
        HaveSet::begin(&*version, &offer);
        let place = StretchPlace::of(offer.chunk, 0, offer.size).expect("one stretch");
        let have = version.have(&StretchHashes::of(place, &new, &[]));
        assert_eq!(have.iter().collect::<Vec<_>>(), [0, 2, 3]);
        let mut chunk = vec![0; 5];
        assert_eq!(
            (version.read(0, 3, &mut chunk), &chunk[..]),
            (Some(Origin::InPlace), &[1; 5][..])
        );
        let mut storage = Arc::clone(&version);
        storage.keep(&new[..CHUNK]).expect("there is room");
        storage
            .write(&new[CHUNK..2 * CHUNK])
            .expect("there is room");
        storage.keep(&new[2 * CHUNK..]).expect("there is room");
        let text = storage.write(&[0]).expect_err("it is full").to_string();
        assert!(
            text.contains("49157 bytes, and at least 49158 come"),
            "{text}"
        );
        assert_eq!(
            (storage.note(), version.read(1, 0, &mut chunk)),
            (String::new(), None)
        );
        version.forget_below(1);
        assert_eq!(version.read(0, 3, &mut chunk), None);
        HaveSet::begin(&*version, &HeldContent { size: 7, ..offer });
        assert_eq!(
            storage.note(),
            "its earlier version has 49157 bytes, and this one 7"
        );
        drop(storage);
        assert_eq!(
            Arc::into_inner(version)
                .expect("the last one")
                .into_memory(),
            new
        );
    }
}
