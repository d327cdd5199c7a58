//! The content that a session sends.

use super::read_again::{ReadAt, RestOfFile};
use super::read_ahead::{ReadAhead, read_ahead};
use super::reader::Reader;
use crate::session::ContentKind;
use crate::session::live::SendOptions;
use crate::session::verified::ChunkSize;
use ethbcast_transport::packet::Waker;
use std::fmt;
use std::fs::{File, read_link};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::sync::Arc;

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
        }
    }

    /// Creates a content of a file from its present position on, with the name that the file has. It
    /// can be re-read unless the file is a pipe.
    pub fn of_file(file: File) -> Content<'static> {
        let rest = RestOfFile::of(&file);
        let size = rest.as_ref().ok().and_then(RestOfFile::bytes);
        let path = size.and_then(|_| read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok());
        let name = path.as_ref().and_then(|path| path.file_name()).map_or_else(String::new, |name| {
            let name = name.to_string_lossy();
            name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned()
        });
        let content = Content::of(file).again_from(rest.map(|rest| Box::new(rest) as Box<dyn ReadAt>));
        content.sized(size).named(&name, &name)
    }

    /// Sets where to re-read bytes; offset 0 is the reader's first byte. An error says why that is
    /// impossible.
    pub fn again_from(self, again: io::Result<Box<dyn ReadAt>>) -> Content<'a> {
        Content { again, ..self }
    }

    /// Sets the name that receivers use in a directory, and the description used in errors.
    pub fn named(self, name: &str, what: &str) -> Content<'a> {
        Content { name: name.to_owned(), what: what.to_owned(), ..self }
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

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn or_named(self, name: &str) -> Content<'a> {
        if self.name.is_empty() { Content { name: name.to_owned(), ..self } } else { self }
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
    pub fn read_ahead(self, size: Option<u64>, waker: &Arc<Waker>) -> (Reader<Box<dyn Read + Send + 'a>>, ReadAhead) {
        let what = match (&*self.what, &*self.name) {
            ("", "") => "the bytes to send",
            ("", name) => name,
            (what, _) => what,
        };
        let (reader, source) = read_ahead((self.reader, what, size), self.chunk, waker);
        // A plain reader does not say whether it can be re-read, so it is not called a pipe.
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
