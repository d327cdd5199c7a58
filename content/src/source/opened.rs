//! Opening of what is sent (SOURCE): a file, a device, stdin, a command's output, or directories.

use super::listing::{extents_of, mode_alone};
use super::reader::{Unchanged, UnchangedAt, WholeFile};
use super::{Selection, SourceError, Tree};
use crate::command::CommandOutput;
use crate::dest::written_at;
use crate::image::{ImageFormat, MAGIC_BYTES, Qcow2, unpack};
use crate::name;
use crate::sparse::{Map, SparseStream};
use crate::syncer::Passing;
use ethbcast_collectives::OptionName;
use ethbcast_collectives::session::live::{Content, ReadAt, RestOfFile};
use ethbcast_collectives::session::{ContentKind, FileAttributes, Packing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Polling interval of a fifo without a writer: 100 ms.
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Divisor of the size: a file is sent as a sparse stream if more than this fraction of it is
/// holes. With fewer holes it is sent as it is, and the digest is that of its bytes.
const HOLES_COUNT_FROM: u64 = 16;

/// Host that decompresses an image: the sender once, or each receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpack {
    Root,
    Receivers,
}

/// Whether the file may change while it is read, which is an error otherwise, what decompresses it,
/// if anything, and the longest wait for a writer of a fifo; none: without limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    pub allow_changing: bool,
    pub unpack: Option<Unpack>,
    pub patience: Option<Duration>,
}

#[derive(Debug)]
pub struct Opened {
    pub content: Content<'static>,
    pub tree: Option<Tree>,
}

struct Source<'a> {
    path: &'a Path,
    file: File,
    metadata: Metadata,
    what: String,
    name: String,
    opening: Opening,
}

impl Opened {
    /// Opens a file or a block device. A change while it is read is an error, unless `opening`
    /// allows it.
    ///
    /// # Errors
    /// If it cannot be read, or is not packed in a known way and should be unpacked.
    pub fn file(path: &Path, opening: Opening) -> Result<Opened, SourceError> {
        let what = format!("SOURCE {}", path.display());
        let unreadable = |cause| SourceError::Unreadable {
            what: what.clone(),
            cause,
        };
        let kind = path.metadata().map_err(unreadable)?.file_type();
        let uses = if kind.is_block_device() && !opening.allow_changing {
            written_at(path)
        } else {
            Vec::new()
        };
        if let Some(written) = uses.first() {
            let text = format!(
                "{what} is {written}; as it comes with {}",
                OptionName("allow-changing")
            );
            return Err(SourceError::Refused(text));
        }
        let file = if kind.is_fifo() {
            open_fifo(path, opening.patience)
        } else {
            File::open(path)
        };
        let file = file.map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let content = Source {
            path,
            file,
            metadata,
            what: what.clone(),
            name,
            opening,
        }
        .content();
        content.map(|content| Opened {
            content,
            tree: None,
        })
    }

    /// Opens stdin, whose length `size` is announced if it is given.
    ///
    /// # Errors
    /// The errors of a file.
    pub fn stdin(size: Option<u64>, opening: Opening) -> Result<Opened, SourceError> {
        let what = "SOURCE -";
        let unreadable = |cause| SourceError::Unreadable {
            what: what.to_owned(),
            cause,
        };
        // Bypasses the standard library's buffer, so that the file position is the true one.
        let file = File::from(
            io::stdin()
                .as_fd()
                .try_clone_to_owned()
                .map_err(unreadable)?,
        );
        let rest = boxed(RestOfFile::of(&file));
        let content = stream(file, rest, opening, "stdin", what)?;
        Ok(Opened {
            content: content.sized(size),
            tree: None,
        })
    }

    /// Starts a command and sends its output, whose length `size` is announced if it is given.
    ///
    /// # Errors
    /// If it cannot be started, or as for a file.
    pub fn command(
        command: &str,
        size: Option<u64>,
        opening: Opening,
    ) -> Result<Opened, SourceError> {
        let what = format!("the output of `{command}`");
        let unreadable = |cause| SourceError::Unreadable {
            what: what.clone(),
            cause,
        };
        let output = CommandOutput::start(command).map_err(unreadable)?;
        // A pipe cannot be re-read.
        let content = stream(
            output,
            Err(ErrorKind::NotSeekable.into()),
            opening,
            "stdout",
            &what,
        )?;
        Ok(Opened {
            content: content.sized(size),
            tree: None,
        })
    }

    /// Lists a directory, or several files and directories.
    ///
    /// # Errors
    /// The errors of [`Tree::list`].
    pub fn tree(sources: &[PathBuf], selection: &Selection) -> Result<Opened, SourceError> {
        let tree = Tree::list(sources, selection)?;
        let names: Vec<String> = sources
            .iter()
            .map(|source| source.display().to_string())
            .collect();
        let what = format!("SOURCE {}", names.join(" "));
        log::info!("{what}: {} entries, {} bytes", tree.entries(), tree.bytes());
        let name = Some(tree.name())
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| without_name(sources));
        let again = if selection.allow_changing {
            Err(may_change())
        } else {
            Ok(Box::new(tree.again()) as _)
        };
        let content = Content::of(tree.reader()).again_from(again);
        let content = content
            .named(&name, &what)
            .sized(Some(tree.bytes()))
            .kind(ContentKind::Tree);
        Ok(Opened {
            content,
            tree: Some(tree),
        })
    }
}

pub(crate) const SEVERAL: &str = "files";

/// A name, for people, of what arrives under no name of its own.
fn without_name(sources: &[PathBuf]) -> String {
    let [source] = sources else {
        return SEVERAL.to_owned();
    };
    let directory = source.canonicalize().unwrap_or_else(|_| source.clone());
    let own = directory
        .file_name()
        .map(|own| name::shown(own.as_bytes()))
        .unwrap_or_default();
    format!("the content of {own}/")
}

impl Source<'_> {
    fn content(self) -> Result<Content<'static>, SourceError> {
        let Some(by) = self.opening.unpack else {
            return self.plain();
        };
        match (by, self.format()?) {
            (Unpack::Root, ImageFormat::Qcow2) => self.qcow2(),
            (Unpack::Receivers, ImageFormat::Qcow2) => Err(SourceError::Refused(format!(
                "{} is a qcow2 image, whose parts may have any order: only the sender can unpack it ({} root)",
                self.what,
                OptionName("decompress")
            ))),
            (by, ImageFormat::Packed(packing)) => self.packed(by, packing),
        }
    }

    fn unreadable(&self, cause: io::Error) -> SourceError {
        SourceError::Unreadable {
            what: self.what.clone(),
            cause,
        }
    }

    fn format(&self) -> Result<ImageFormat, SourceError> {
        let mut magic = [0; MAGIC_BYTES];
        let count =
            FileExt::read_at(&self.file, &mut magic, 0).map_err(|cause| self.unreadable(cause))?;
        ImageFormat::of(&magic[..count]).ok_or_else(|| not_packed(&self.what))
    }

    fn size(&self) -> io::Result<Option<u64>> {
        if self.metadata.file_type().is_block_device() {
            let size = (&self.file).seek(SeekFrom::End(0))?;
            (&self.file).rewind()?;
            return Ok(Some(size));
        }
        // The length of a pipe is reported as 0.
        Ok(self.metadata.is_file().then_some(self.metadata.len()))
    }

    fn attributes(&self) -> Option<FileAttributes> {
        let attributes = FileAttributes::of(&self.metadata)?;
        let mode = mode_alone(self.path, attributes.mode);
        Some(FileAttributes { mode, ..attributes })
    }

    fn unchanged(&self) -> Option<Unchanged> {
        let is_watched = self.metadata.is_file() && !self.opening.allow_changing;
        is_watched.then(|| Unchanged::new(self.path, &self.metadata))
    }

    /// Returns a reader for retransmission, which fails once the file has changed.
    fn again(&self) -> io::Result<Box<dyn ReadAt>> {
        if self.metadata.is_file() && self.opening.allow_changing {
            return Err(may_change());
        }
        Ok(Box::new(UnchangedAt::new(
            RestOfFile::of(&self.file)?,
            self.watched()?,
        )))
    }

    fn watched(&self) -> io::Result<Option<(File, Unchanged)>> {
        self.unchanged()
            .map(|unchanged| Ok((self.file.try_clone()?, unchanged)))
            .transpose()
    }

    fn reader(self, size: Option<u64>) -> Box<dyn Read + Send> {
        match (size, self.unchanged()) {
            (Some(size), Some(unchanged)) => {
                Box::new(WholeFile::new(Passing::new(self.file, 0, size), unchanged))
            }
            (Some(size), None) => Box::new(Passing::new(self.file, 0, size).take(size)),
            (None, _) => Box::new(self.file),
        }
    }

    fn plain(self) -> Result<Content<'static>, SourceError> {
        let size = self.size().map_err(|cause| self.unreadable(cause))?;
        let attributes = self.attributes();
        if let (Some(attributes), Some(size)) = (attributes, size)
            && let Some(extents) = extents_of(&self.file, size)
            && size - extents.iter().map(|extent| extent.bytes).sum::<u64>()
                > size / HOLES_COUNT_FROM
            && let Ok(map) = Map::new(size, extents)
        {
            let file = self
                .file
                .try_clone()
                .map_err(|cause| self.unreadable(cause))?;
            return self.sparse(map, file, attributes);
        }
        (&self.file).rewind().ok();
        let rest = self.again();
        let (name, what) = (self.name.clone(), self.what.clone());
        let kind = attributes.map_or(ContentKind::Stream, ContentKind::File);
        Ok(Content::of(self.reader(size))
            .again_from(rest)
            .named(&name, &what)
            .sized(size)
            .kind(kind))
    }

    fn sparse(
        self,
        map: Map,
        file: impl ReadAt,
        attributes: FileAttributes,
    ) -> Result<Content<'static>, SourceError> {
        let watched = self.watched().map_err(|cause| self.unreadable(cause))?;
        let (map, unchanged) = (Arc::new(map), self.unchanged());
        let size = map.stream_bytes();
        let stream = Arc::new(SparseStream::new(map, file));
        let again: io::Result<Box<dyn ReadAt>> = match self.opening.allow_changing {
            true => Err(may_change()),
            false => Ok(Box::new(UnchangedAt::new(
                Shared(Arc::clone(&stream)),
                watched,
            ))),
        };
        let reader = SparseReader {
            stream,
            at: 0,
            unchanged: unchanged.map(|unchanged| (self.file, unchanged)),
        };
        let content = Content::of(reader)
            .again_from(again)
            .named(&self.name, &self.what);
        Ok(content
            .sized(Some(size))
            .kind(ContentKind::Sparse(attributes)))
    }

    fn qcow2(mut self) -> Result<Content<'static>, SourceError> {
        let file = self
            .file
            .try_clone()
            .map_err(|cause| self.unreadable(cause))?;
        let refused = |error| SourceError::Refused(format!("cannot unpack {}: {error}", self.what));
        let image = Qcow2::open(file).map_err(refused)?;
        let extents = image.extents().map_err(|cause| self.unreadable(cause))?;
        let map = Map::new(image.bytes(), extents)
            .map_err(|fault| SourceError::Refused(fault.to_string()))?;
        let nothing = FileAttributes {
            mode: 0o644,
            modified_seconds: 0,
            modified_nanoseconds: 0,
        };
        let attributes = self.attributes().unwrap_or(nothing);
        self.name = ImageFormat::Qcow2.unpacked_name(&self.name).to_owned();
        self.sparse(map, image, attributes)
    }

    fn packed(self, by: Unpack, packing: Packing) -> Result<Content<'static>, SourceError> {
        let size = self.size().map_err(|cause| self.unreadable(cause))?;
        let (rest, attributes) = (self.again(), self.attributes());
        let (name, what) = (self.name.clone(), self.what.clone());
        let reader = self.reader(size);
        let content = packed(by, packing, reader, rest, attributes)
            .sized(size.filter(|_| by == Unpack::Receivers));
        Ok(content.named(ImageFormat::Packed(packing).unpacked_name(&name), &what))
    }
}

fn packed(
    by: Unpack,
    packing: Packing,
    reader: impl Read + Send + 'static,
    rest: io::Result<Box<dyn ReadAt>>,
    attributes: Option<FileAttributes>,
) -> Content<'static> {
    match by {
        // The decompressed bytes cannot be re-read.
        Unpack::Root => {
            let kind = attributes.map_or(ContentKind::Stream, ContentKind::File);
            Content::of(unpack(packing, reader))
                .again_from(Err(ErrorKind::NotSeekable.into()))
                .kind(kind)
        }
        Unpack::Receivers => {
            let ours = FileAttributes {
                mode: 0o644,
                modified_seconds: 0,
                modified_nanoseconds: 0,
            };
            let kind = ContentKind::Packed(packing, attributes.unwrap_or(ours));
            Content::of(reader).again_from(rest).kind(kind)
        }
    }
}

fn stream(
    mut reader: impl Read + Send + 'static,
    rest: io::Result<Box<dyn ReadAt>>,
    opening: Opening,
    name: &str,
    what: &str,
) -> Result<Content<'static>, SourceError> {
    let Some(by) = opening.unpack else {
        return Ok(Content::of(reader).again_from(rest).named(name, what));
    };
    let mut magic = Vec::new();
    let unreadable = |cause| SourceError::Unreadable {
        what: what.to_owned(),
        cause,
    };
    (&mut reader)
        .take(MAGIC_BYTES as u64)
        .read_to_end(&mut magic)
        .map_err(unreadable)?;
    match ImageFormat::of(&magic) {
        Some(ImageFormat::Packed(packing)) => {
            let all = Cursor::new(magic).chain(reader);
            Ok(packed(by, packing, all, rest, None).named(name, what))
        }
        Some(ImageFormat::Qcow2) => Err(SourceError::Refused(format!(
            "{what} is a qcow2 image, whose parts may have any order: give the name of its file"
        ))),
        None => Err(not_packed(what)),
    }
}

fn open_fifo(path: &Path, patience: Option<Duration>) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    let began = Instant::now();
    // Poll reports nothing before a first writer, even one that has closed since.
    while poll(
        &mut [PollFd::new(&file, PollFlags::IN)],
        Some(&POLL_INTERVAL),
    )? == 0
    {
        if let Some(patience) = patience.filter(|&patience| began.elapsed() >= patience) {
            let text = format!(
                "nobody has written to it within {} s",
                patience.as_secs_f64()
            );
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
    }
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

fn not_packed(what: &str) -> SourceError {
    SourceError::Refused(format!(
        "{what} is packed by none of gzip, xz, zstd and qcow2: leave out {}",
        OptionName("decompress")
    ))
}

/// Returns the error of a second reading of a file that may change: it could differ from the digest
/// that was sent.
fn may_change() -> io::Error {
    io::Error::other(format!(
        "it may change while it is sent ({}), and is read once",
        OptionName("allow-changing")
    ))
}

fn boxed(rest: io::Result<RestOfFile>) -> io::Result<Box<dyn ReadAt>> {
    rest.map(|rest| Box::new(rest) as Box<dyn ReadAt>)
}

struct Shared<F>(Arc<SparseStream<F>>);

impl<F: ReadAt + Sync> ReadAt for Shared<F> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

struct SparseReader<F> {
    stream: Arc<SparseStream<F>>,
    at: u64,
    unchanged: Option<(File, Unchanged)>,
}

impl<F: ReadAt + Sync> Read for SparseReader<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read_at(buffer, self.at)?;
        self.at += count as u64;
        if let (0, false, Some((file, unchanged))) = (count, buffer.is_empty(), &self.unchanged) {
            unchanged.check(file)?;
        }
        Ok(count)
    }
}
