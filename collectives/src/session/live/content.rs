//! What is sent.

use super::read_again::{ReadAt, RestOfFile};
use super::read_ahead::{ReadAhead, read_ahead};
use super::reader::Reader;
use crate::session::ContentKind;
use crate::session::ledger::ChunkSize;
use crate::session::live::Options;
use ethbcast_transport::packet::Waker;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;

/// What is sent: bytes, where those that were read can be had again, and what receivers make of them.
///
/// Whatever reads is one; what was lost on the way when nobody keeps it any more can be sent again only of one that
/// [can be read again](Content::again_from). Files, directories and devices as receivers know them are made by the
/// crate `ethbcast-content`.
pub struct Content<'a> {
    reader: Box<dyn Read + Send + 'a>,
    again: io::Result<Box<dyn ReadAt>>,
    what: String,
    name: String,
    size: Option<u64>,
    kind: ContentKind,
    chunk: ChunkSize,
}

impl<'a> Content<'a> {
    /// All that a reader has.
    pub fn of(reader: impl Read + Send + 'a) -> Content<'a> {
        Content {
            reader: Box::new(reader),
            again: Err(ErrorKind::Unsupported.into()),
            what: String::new(),
            name: String::new(),
            size: None,
            kind: ContentKind::Stream,
            chunk: ChunkSize::DEFAULT,
        }
    }

    /// All that a file has from its present position on, which can be read again unless it is a pipe.
    pub fn of_file(file: File) -> Content<'static> {
        let rest = RestOfFile::of(&file);
        Content::of(file).again_from(rest.map(|rest| Box::new(rest) as Box<dyn ReadAt>))
    }

    /// What was read once is had again from there, whose byte 0 is the reader's first; or why that cannot be.
    pub fn again_from(self, again: io::Result<Box<dyn ReadAt>>) -> Content<'a> {
        Content { again, ..self }
    }

    /// Its name, for receivers that put it into a directory, and what errors call it.
    pub fn named(self, name: &str, what: &str) -> Content<'a> {
        Content { name: name.to_owned(), what: what.to_owned(), ..self }
    }

    /// So many bytes it has; other than so many are an error.
    pub fn sized(self, size: Option<u64>) -> Content<'a> {
        Content { size, ..self }
    }

    /// What receivers make of its bytes.
    pub fn kind(self, kind: ContentKind) -> Content<'a> {
        Content { kind, ..self }
    }

    /// Its chunks are so long: what is checked, sent again and looked for at receivers. 64 KiB where nothing is said.
    pub fn chunked(self, chunk: ChunkSize) -> Content<'a> {
        Content { chunk, ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What has no name of its own has this one.
    pub(super) fn or_named(self, name: &str) -> Content<'a> {
        if self.name.is_empty() { Content { name: name.to_owned(), ..self } } else { self }
    }

    /// Tells a session what there is to send; what the options say already stays.
    pub fn describe(&self, options: &mut Options) {
        if options.source.is_empty() {
            options.source.clone_from(&self.name);
        }
        options.size = options.size.or(self.size);
        if options.content == ContentKind::Stream {
            options.content = self.kind;
        }
    }

    /// The reader, to be run on a thread, and the session's source that it fills; other than `size` bytes are an error.
    pub fn read_ahead(self, size: Option<u64>, waker: &Arc<Waker>) -> (Reader<Box<dyn Read + Send + 'a>>, ReadAhead) {
        let what = match (&*self.what, &*self.name) {
            ("", "") => "the bytes to send",
            ("", name) => name,
            (what, _) => what,
        };
        let (reader, source) = read_ahead((self.reader, what, size), self.chunk, waker);
        // A reader that says nothing of it is no pipe.
        let is_unsaid = self.again.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unsupported);
        (reader, if is_unsaid { source } else { source.reading_again_from(self.again) })
    }
}

impl<'a, R: Read + Send + 'a> From<R> for Content<'a> {
    fn from(reader: R) -> Content<'a> {
        Content::of(reader)
    }
}

impl fmt::Debug for Content<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Content { what, name, size, kind, .. } = self;
        formatter
            .debug_struct("Content")
            .field("what", what)
            .field("name", name)
            .field("size", size)
            .field("kind", kind)
            .finish()
    }
}
