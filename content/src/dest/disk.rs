//! DEST as a storage of one file: a file that becomes visible only when all is verified and on disk, a device, a
//! command, or stdout.

use super::medium::Medium;
use super::part_file::PartFile;
use super::target::{Target, disk_trouble};
use super::{Dest, Handling};
use crate::command::{CommandInput, CommandState};
use crate::disk::Beneath;
use crate::image::ImageFormat;
use crate::journal::Identity;
use crate::manifest::Extent;
use crate::page_cache;
use crate::partial::{PartialFile, Resume};
use crate::sparse::{IncomingMap, Map, Part, SparseStream};
use crate::trouble;
use ethbcast_collectives::session::application::Tally;
use ethbcast_collectives::session::live::{Offered, ReadAt, Storage, StorageError};
use ethbcast_collectives::session::{ContentKind, FileAttributes, Outcome, Trailer};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What is shorter is sent again as a whole.
const LEAST_KEPT_BYTES: u64 = 1 << 20;
/// Bytes read back at once.
const READ_BYTES: usize = 1 << 20;

/// DEST, being written.
pub(super) struct Disk {
    dest: Arc<Dest>,
    handling: Handling,
    target: Option<Target>,
    /// A second handle at what is being written.
    written: Option<File>,
    attributes: Option<FileAttributes>,
    /// Take up what an earlier run left, and leave what comes of this one.
    resumes: bool,
    /// Somebody looks for what comes.
    is_held: bool,
    /// What is at DEST already and belongs there, for whoever looks for what comes.
    left: Option<Box<dyn ReadAt>>,
    /// Where the next bytes go.
    at: u64,
    /// How much DEST can ever hold.
    limit: Option<u64>,
    /// Of a file with holes.
    sparse: Option<Sparse>,
    path: Arc<OnceLock<PathBuf>>,
    command: Arc<CommandState>,
}

/// A file with holes, as it comes.
#[derive(Default)]
struct Sparse {
    incoming: IncomingMap,
    map: Option<Arc<Map>>,
    /// That of what an earlier run left: if it is another, nothing stands where it belongs.
    left: Option<Arc<Map>>,
    /// How much of the stream has come.
    came: u64,
    /// The stream again, for others that lack a part of it.
    again: Arc<OnceLock<SparseStream<File>>>,
}

/// What has come of a file with holes, at any position of its stream.
struct Again(Arc<OnceLock<SparseStream<File>>>);

impl ReadAt for Again {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.0.get() {
            Some(stream) => stream.read_at(buffer, offset),
            None => Err(io::Error::new(ErrorKind::NotFound, "it has not come here")),
        }
    }
}

impl Disk {
    /// A storage for DEST, and where its file will be when it is visible; `command` learns of the command that DEST is.
    pub(super) fn new(
        dest: Arc<Dest>,
        handling: Handling,
        command: Arc<CommandState>,
    ) -> (Disk, Arc<OnceLock<PathBuf>>) {
        let path = Arc::<OnceLock<PathBuf>>::default();
        let disk = Disk {
            dest,
            handling,
            target: None,
            written: None,
            attributes: None,
            resumes: false,
            is_held: false,
            left: None,
            at: 0,
            limit: None,
            sparse: None,
            path: Arc::clone(&path),
            command,
        };
        (disk, path)
    }

    /// From now on what is at DEST already is shown; if it `resumes`, what comes of this run is left for the next.
    pub(super) fn holding(&mut self, resumes: bool) {
        (self.resumes, self.is_held) = (resumes, true);
    }

    /// What is at DEST already and belongs there.
    pub(super) fn left(&mut self) -> Option<Box<dyn ReadAt>> {
        self.left.take()
    }

    /// Whether what an earlier run left is used, and this one leaves something: of a file whose size is known, and so
    /// large that it matters.
    fn resume(&self, offered: &Offered) -> Resume {
        let is_file = matches!(offered.content, ContentKind::File(_) | ContentKind::Sparse(_));
        match offered.size.filter(|&bytes| self.resumes && is_file && bytes >= LEAST_KEPT_BYTES) {
            Some(bytes) => Resume::From(Identity::of(offered, bytes)),
            None => Resume::Not,
        }
    }

    fn medium(&mut self, path: &Path, offered: &Offered) -> Result<Medium, StorageError> {
        if let Dest::Device { device, .. } = &*self.dest {
            let again = device.again().map_err(|error| trouble("open the device twice", error))?;
            return Ok(Medium::Device(again));
        }
        let directory = self.dest.directory().unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default();
        let holder = Beneath::open(directory).map_err(|error| trouble("open the directory of DEST", error))?;
        let file = PartialFile::begin(Arc::new(holder), directory, name, &self.resume(offered));
        let medium = Medium::File(file.map_err(|error| trouble("begin a hidden file beside DEST", error))?);
        if let (Some(bytes), false, None) = (offered.size, self.handling.sparse, &self.sparse) {
            medium.reserve(bytes).map_err(|error| trouble("take the room for it", error))?;
        }
        Ok(medium)
    }

    fn open(&mut self, offered: &Offered) -> Result<Target, StorageError> {
        if let Dest::Command(command) = &*self.dest {
            let started = CommandInput::start(command, &offered.source, Arc::clone(&self.command));
            return started.map(Target::Command).map_err(|error| trouble(&format!("run `{command}`"), error));
        }
        let path = self.dest.path(&offered.source).map_err(|text| StorageError::new(Outcome::WriteFailed, text))?;
        let Some((path, replace)) = path else { return Ok(Target::Stdout(io::stdout())) };
        let medium = self.medium(&path, offered)?;
        self.written = medium.second_handle().ok();
        if self.is_held && medium.has_some_already().map_err(|error| trouble("read DEST", error))? {
            let there = medium.second_handle().ok();
            self.left = match &mut self.sparse {
                None => there.map(|file| Box::new(file) as Box<dyn ReadAt>),
                // The data stands at its own places, which only its map tells.
                Some(sparse) => {
                    sparse.left = Map::read(medium.prologue()).map(Arc::new);
                    let left = there.zip(sparse.left.clone());
                    left.map(|(file, map)| Box::new(SparseStream::new(map, file)) as Box<dyn ReadAt>)
                }
            };
        }
        self.limit = medium.limit();
        // A device has a mode of its own.
        if self.limit.is_some() {
            self.attributes = None;
        }
        let part = PartFile::new(medium).map_err(disk_trouble)?;
        Ok(Target::Writing { part, path, replace })
    }

    /// Puts bytes of the file behind what is there, or takes them as they are if they `stand` there already.
    fn put(&mut self, bytes: &[u8], stand: bool) -> Result<(), StorageError> {
        let target = self.target.as_mut().expect("data comes when the session has begun");
        match (target, self.handling.sparse) {
            (Target::Writing { part, .. }, _) if stand => part.keep(bytes.len() as u64).map_err(disk_trouble)?,
            (target, true) => target.write_sparsely(self.at, bytes)?,
            (target, false) => target.write(bytes)?,
        }
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn skip_to(&mut self, offset: u64) -> Result<(), StorageError> {
        let target = self.target.as_mut().expect("data comes when the session has begun");
        target.skip(offset - self.at)?;
        self.at = offset;
        Ok(())
    }

    /// The map is there: whether a file with these holes fits.
    fn take_map(&mut self, map: Map) -> Result<Arc<Map>, StorageError> {
        if let Some(limit) = self.limit.filter(|&limit| limit < map.bytes()) {
            return Err(too_small(limit, map.bytes()));
        }
        let map = Arc::new(map);
        let sparse = self.sparse.as_mut().expect("its map has come");
        if let Some(file) = self.written.as_ref().and_then(|file| file.try_clone().ok()) {
            sparse.again.get_or_init(|| SparseStream::new(Arc::clone(&map), file));
        }
        sparse.map = Some(Arc::clone(&map));
        if let Some(Target::Writing { part, .. }) = &mut self.target {
            part.keep_prologue(map.encoded());
        }
        Ok(map)
    }

    fn write_sparse(&mut self, mut bytes: &[u8], stand: bool) -> Result<(), StorageError> {
        let sparse = self.sparse.as_mut().expect("it has holes");
        let map = match sparse.map.clone() {
            Some(map) => map,
            None => {
                let whole = bytes.len();
                let (rest, map) = sparse.incoming.take(bytes).map_err(|error| damaged(error.to_string()))?;
                sparse.came += (whole - rest.len()) as u64;
                bytes = rest;
                let Some(map) = map else { return Ok(()) };
                self.take_map(map)?
            }
        };
        let stand = stand && self.sparse.as_ref().is_some_and(|sparse| sparse.left.as_ref() == Some(&map));
        while !bytes.is_empty() {
            let came = self.sparse.as_ref().map_or(0, |sparse| sparse.came);
            let Some(Part::Data(Extent { offset, bytes: most })) = map.at(came) else {
                return Err(damaged("more came than its map says: send again with the same build".to_owned()));
            };
            if offset > self.at {
                self.skip_to(offset)?;
            }
            let count = usize::try_from(most).unwrap_or(usize::MAX).min(bytes.len());
            let (now, later) = bytes.split_at(count);
            self.put(now, stand)?;
            self.sparse.as_mut().expect("it has holes").came += count as u64;
            bytes = later;
        }
        Ok(())
    }

    /// Nobody means to write over a device with a file that stands for an image.
    fn check_image(&self, bytes: &[u8]) -> Result<(), StorageError> {
        let packed = ImageFormat::of(bytes).filter(|_| self.at == 0 && self.limit.is_some() && self.sparse.is_none());
        let Some(format) = packed else { return Ok(()) };
        let text = format!(
            "what comes is a {} file and not the image that is in it: send it with --decompress root, or write it as \
             it is, `recv --pipe 'dd of=DEVICE'`",
            format.word()
        );
        Err(StorageError::new(Outcome::WriteFailed, text))
    }

    /// Fails unless what is read back from the disk is what the sender has.
    fn compare(&mut self, trailer: Trailer) -> Result<(), StorageError> {
        let mut tally = Tally::default();
        match (&mut self.target, &self.sparse) {
            (Some(Target::Settled { .. }), Some(sparse)) => {
                let again = sparse.again.get().ok_or_else(|| damaged("it cannot be read back".to_owned()))?;
                self.written.iter().for_each(page_cache::forget);
                let mut buffer = vec![0; READ_BYTES];
                while let count @ 1.. =
                    again.read_at(&mut buffer, tally.bytes()).map_err(|error| trouble("read back", error))?
                {
                    tally.add(&buffer[..count]);
                }
            }
            (Some(Target::Settled { file, .. }), None) => {
                file.read_back(|bytes| tally.add(bytes)).map_err(disk_trouble)?;
            }
            _ => return Ok(()),
        }
        tally.verify(trailer).map_err(|_| {
            let text = "what is read back from the disk is not what was written to it: the disk, its cable or the \
                        memory is bad, or somebody else has written to it; choose another DEST";
            damaged(text.to_owned())
        })
    }
}

impl Storage for Disk {
    fn begin(&mut self, offered: &Offered) -> Result<(), StorageError> {
        (self.attributes, self.sparse) = match offered.content {
            ContentKind::File(attributes) => (Some(attributes), None),
            ContentKind::Sparse(attributes) => (Some(attributes), Some(Sparse::default())),
            _ => (None, None),
        };
        self.target = Some(self.open(offered)?);
        Ok(())
    }

    fn syncs(&self) -> bool {
        !matches!(self.target, Some(Target::Stdout(_)))
    }

    fn kept(&mut self) -> Option<Box<dyn ReadAt>> {
        match &self.sparse {
            Some(sparse) => Some(Box::new(Again(Arc::clone(&sparse.again)))),
            None => Some(Box::new(self.written.as_ref()?.try_clone().ok()?)),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.check_image(bytes)?;
        if self.sparse.is_some() { self.write_sparse(bytes, false) } else { self.put(bytes, false) }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        if self.sparse.is_some() { self.write_sparse(bytes, true) } else { self.put(bytes, true) }
    }

    fn settle(&mut self, trailer: Trailer) -> Result<(), StorageError> {
        if let Some(sparse) = &self.sparse {
            let map = sparse.map.clone().filter(|map| sparse.came == map.stream_bytes());
            let map = map.ok_or_else(|| damaged("less came than its map says: send again".to_owned()))?;
            self.skip_to(map.bytes())?;
        }
        let target = self.target.take().expect("the end comes when the session has begun");
        self.target = Some(target.settle(self.attributes)?);
        if self.handling.read_back { self.compare(trailer) } else { Ok(()) }
    }

    fn publish(&mut self) -> Result<(), StorageError> {
        let Some(target) = self.target.take() else { return Ok(()) };
        let (path, published) = target.publish();
        if let Some(path) = path {
            self.path.get_or_init(|| path);
        }
        published
    }
}

/// A device that is smaller than what is to be on it.
pub(super) fn too_small(device_bytes: u64, bytes: u64) -> StorageError {
    let text = format!("the device holds {device_bytes} bytes, the image has {bytes}: choose a larger one as DEST");
    StorageError::new(Outcome::NoSpace, text)
}

fn damaged(text: String) -> StorageError {
    StorageError::new(Outcome::Damaged, text)
}

#[cfg(test)]
mod tests;
