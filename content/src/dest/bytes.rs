//! Storage of a received byte stream in a file, a file with holes, or a pipe. It also makes holes
//! of zeros, and refuses contents that the device cannot hold.

use super::device::check_sectors;
use super::file::{DestPlace, FileDest, Resume};
use super::kind::{Kind, PipeDest, Remarks, SYNC_BYTES, ZEROS};
use super::{Dest, Handling, Over};
use crate::command::{CommandInput, CommandState};
use crate::disk::{Beneath, verify};
use crate::image::ImageFormat;
use crate::journal::Identity;
use crate::manifest::Extent;
use crate::sparse::{IncomingMap, Map, Part, SparseStream};
use crate::syncer::Pace;
use crate::trouble;
use ethbcast_collectives::OptionName;
use ethbcast_collectives::session::live::{Offered, ReadAt, Storage, StorageError};
use ethbcast_collectives::session::verified::{mebibytes, sizes};
use ethbcast_collectives::session::{ContentKind, FileAttributes, Outcome, Trailer};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

const MIN_KEPT_BYTES: u64 = 1 << 20;
/// Length of an aligned block of zeros that becomes a hole, in bytes; smaller holes cost more than
/// they save.
const HOLE_BYTES: usize = ZEROS.len();

pub(super) struct Bytes {
    dest: Arc<Dest>,
    handling: Handling,
    kind: Option<Box<dyn Kind>>,
    attributes: Option<FileAttributes>,
    resumes: bool,
    is_held: bool,
    left: Option<Box<dyn ReadAt>>,
    /// Number of incoming bytes, if it is known and nothing is decompressed.
    size: Option<u64>,
    at: u64,
    sparse: Option<Sparse>,
    said: Arc<ArrivalState>,
}

#[derive(Debug, Default)]
pub(super) struct ArrivalState {
    pub path: OnceLock<PathBuf>,
    pub remarks: Arc<Remarks>,
    pub command: Arc<CommandState>,
    /// Whether the transfer is over, so that no caller waits for the written data.
    pub is_over: Arc<AtomicBool>,
}

#[derive(Default)]
struct Sparse {
    incoming: IncomingMap,
    map: Option<Arc<Map>>,
    /// Map of the earlier run's data, which is at other offsets if the new map differs.
    left: Option<Arc<Map>>,
    came: u64,
    again: Arc<OnceLock<SparseStream<Handle>>>,
}

struct Handle(Box<dyn ReadAt>);

impl ReadAt for Handle {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }
}

struct Again(Arc<OnceLock<SparseStream<Handle>>>);

impl ReadAt for Again {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.0.get() {
            Some(stream) => stream.read_at(buffer, offset),
            None => Err(io::Error::new(ErrorKind::NotFound, "it has not come here")),
        }
    }
}

impl Bytes {
    pub(super) fn new(dest: Arc<Dest>, handling: Handling, said: Arc<ArrivalState>) -> Bytes {
        Bytes {
            dest,
            handling,
            kind: None,
            attributes: None,
            resumes: false,
            is_held: false,
            left: None,
            size: None,
            at: 0,
            sparse: None,
            said,
        }
    }

    pub(super) fn holding(&mut self, resumes: bool) {
        (self.resumes, self.is_held) = (resumes, true);
    }

    pub(super) fn left(&mut self) -> Option<Box<dyn ReadAt>> {
        self.left.take()
    }

    /// Fails when unpacked data has almost filled the file system: its size is not known from the
    /// sender.
    pub(super) fn check_room(&self, unpacked_bytes: u64) -> Result<(), StorageError> {
        if !self.dest.is_nearly_full() {
            return Ok(());
        }
        let text = format!(
            "no space: {} were unpacked, more come, and less than a hundredth of the file system of DEST is free; make \
             room, or choose another DEST",
            mebibytes(unpacked_bytes)
        );
        Err(StorageError::new(Outcome::NoSpace, text))
    }

    /// Decides whether to resume: only a file of known size that is large or is overwritten in
    /// place.
    fn resume(&self, offered: &Offered, over: Over) -> Resume {
        let is_file = matches!(
            offered.content,
            ContentKind::File(_) | ContentKind::Sparse(_)
        );
        let Some(bytes) = offered.size.filter(|_| is_file) else {
            return Resume::Not;
        };
        match over {
            Over::InPlace => Resume::InPlace(Identity::of(offered, bytes)),
            _ if self.resumes && bytes >= MIN_KEPT_BYTES => {
                Resume::From(Identity::of(offered, bytes))
            }
            _ => Resume::Not,
        }
    }

    fn prepare(&mut self, offered: &Offered) -> Result<Box<dyn Kind>, StorageError> {
        match &*self.dest {
            Dest::Stdout => {
                let is_over = Arc::clone(&self.said.is_over);
                return Ok(Box::new(PipeDest::Stdout {
                    out: io::stdout(),
                    is_over,
                }));
            }
            Dest::Command(command) => {
                let started =
                    CommandInput::start(command, &offered.source, Arc::clone(&self.said.command));
                let started =
                    started.map_err(|error| trouble(&format!("run `{command}`"), error))?;
                return Ok(Box::new(PipeDest::Command(started)));
            }
            Dest::Device { device, path } => {
                // A device keeps its own mode.
                self.attributes = None;
                let again = device
                    .writing(path)
                    .map_err(|error| trouble("open the device twice", error))?;
                return Ok(Box::new(again));
            }
            Dest::File { .. } | Dest::Directory { .. } => {}
        }
        let path = self
            .dest
            .path(&offered.source)
            .map_err(StorageError::refused)?;
        let (path, over) = path.expect("it is a file");
        let directory = self.dest.directory().unwrap_or(Path::new("."));
        let holder = Beneath::open(directory)
            .map_err(|error| trouble("open the directory of DEST", error))?;
        let place = DestPlace {
            holder: Arc::new(holder),
            holder_path: directory.to_owned(),
            name: path.file_name().unwrap_or_default().into(),
            replace: over != Over::Nothing,
        };
        let is_dense = !self.handling.sparse && self.sparse.is_none();
        let room = offered.size.filter(|_| is_dense && over != Over::InPlace);
        let (resume, remarks) = (self.resume(offered, over), Arc::clone(&self.said.remarks));
        let file = FileDest::prepare(place, &resume, Pace::Every(SYNC_BYTES), remarks);
        let mut file = file.map_err(|error| trouble("begin a hidden file beside DEST", error))?;
        file.reserve(room.unwrap_or(0))
            .map_err(|error| trouble("take the room for it", error))?;
        Ok(Box::new(file))
    }

    fn open(&mut self, offered: &Offered) -> Result<Box<dyn Kind>, StorageError> {
        let mut kind = self.prepare(offered)?;
        if self.is_held
            && kind
                .has_some()
                .map_err(|error| trouble("read DEST", error))?
        {
            let there = kind.handle();
            self.left = match &mut self.sparse {
                None => there,
                // The data is at its final offsets, which only the map gives.
                Some(sparse) => {
                    sparse.left = Map::read(kind.prologue()).map(Arc::new);
                    let left = there.zip(sparse.left.clone());
                    left.map(|(file, map)| {
                        Box::new(SparseStream::new(map, Handle(file))) as Box<dyn ReadAt>
                    })
                }
            };
        }
        Ok(kind)
    }

    fn kind(&mut self) -> &mut dyn Kind {
        &mut **self
            .kind
            .as_mut()
            .expect("data comes when the session has begun")
    }

    fn limit(&self) -> Option<u64> {
        self.kind.as_ref()?.limit()
    }

    fn put(&mut self, bytes: &[u8], stand: bool) -> Result<(), StorageError> {
        self.check_sectors(bytes)?;
        match self.handling.sparse {
            _ if stand => self.kind().keep(bytes.len() as u64)?,
            true => self.write_sparsely(bytes)?,
            false => self.kind().write(bytes)?,
        }
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn write_sparsely(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let (at, kind) = (self.at, self.kind());
        let mut put = |bytes: &[u8], is_hole: bool| match bytes.len() {
            0 => Ok(()),
            count if is_hole => kind.skip(count as u64),
            _ => kind.write(bytes),
        };
        let (mut begin, mut end, mut was_hole) = (0, 0, false);
        while end < bytes.len() {
            let to_border = HOLE_BYTES - ((at + end as u64) % HOLE_BYTES as u64) as usize;
            let next = bytes.len().min(end + to_border);
            let is_hole = next - end == HOLE_BYTES && bytes[end..next] == ZEROS;
            if is_hole != was_hole {
                put(&bytes[begin..end], was_hole)?;
                (begin, was_hole) = (end, is_hole);
            }
            end = next;
        }
        put(&bytes[begin..], was_hole)
    }

    fn skip_to(&mut self, offset: u64) -> Result<(), StorageError> {
        let bytes = offset - self.at;
        self.kind().skip(bytes)?;
        self.at = offset;
        Ok(())
    }

    fn take_map(&mut self, map: Map) -> Result<Arc<Map>, StorageError> {
        if let Some(limit) = self.limit().filter(|&limit| limit < map.bytes()) {
            return Err(too_small(limit, map.bytes()));
        }
        let (map, handle) = (Arc::new(map), self.kind().handle());
        self.kind().keep_prologue(map.encoded());
        let sparse = self.sparse.as_mut().expect("its map has come");
        if let Some(file) = handle {
            sparse
                .again
                .get_or_init(|| SparseStream::new(Arc::clone(&map), Handle(file)));
        }
        sparse.map = Some(Arc::clone(&map));
        Ok(map)
    }

    fn write_sparse(&mut self, mut bytes: &[u8], stand: bool) -> Result<(), StorageError> {
        let sparse = self.sparse.as_mut().expect("it has holes");
        let map = match sparse.map.clone() {
            Some(map) => map,
            None => {
                let whole = bytes.len();
                let (rest, map) = sparse
                    .incoming
                    .take(bytes)
                    .map_err(|error| damaged(error.to_string()))?;
                sparse.came += (whole - rest.len()) as u64;
                bytes = rest;
                let Some(map) = map else { return Ok(()) };
                self.take_map(map)?
            }
        };
        let stand = stand
            && self
                .sparse
                .as_ref()
                .is_some_and(|sparse| sparse.left.as_ref() == Some(&map));
        while !bytes.is_empty() {
            let came = self.sparse.as_ref().map_or(0, |sparse| sparse.came);
            let Some(Part::Data(Extent {
                offset,
                bytes: most,
            })) = map.at(came)
            else {
                return Err(damaged(
                    "more came than its map says: send again with the same build".to_owned(),
                ));
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

    /// Fails if the content is a compressed or qcow2 image about to be written raw to a device.
    fn check_image(&self, bytes: &[u8]) -> Result<(), StorageError> {
        let packed = ImageFormat::of(bytes)
            .filter(|_| self.at == 0 && self.limit().is_some() && self.sparse.is_none());
        let Some(format) = packed else { return Ok(()) };
        let text = format!(
            "the sender offers a {} file, not the image inside it: send it with {} root, or write it as it is, \
             `recv {} 'dd of=DEVICE'`",
            format.name(),
            OptionName("decompress"),
            OptionName("pipe")
        );
        Err(StorageError::new(Outcome::WriteFailed, text))
    }

    /// Fails if the image's partition table is made for another sector size than the device's.
    fn check_sectors(&self, bytes: &[u8]) -> Result<(), StorageError> {
        let sectors = self
            .kind
            .as_ref()
            .and_then(|kind| kind.sector_bytes())
            .filter(|_| self.at == 0);
        let (Some(own), Some(limit), false) = (sectors, self.limit(), self.handling.any_sectors)
        else {
            return Ok(());
        };
        let image_bytes = self
            .sparse
            .as_ref()
            .and_then(|sparse| Some(sparse.map.as_ref()?.bytes()));
        check_sectors(own, bytes, image_bytes.or(self.size).unwrap_or(limit))
    }

    fn compare(&mut self, trailer: Trailer) -> Result<(), StorageError> {
        // A pipe cannot be read.
        let Some(_) = self.kind().handle() else {
            return Ok(());
        };
        self.kind()
            .forget()
            .map_err(|error| trouble("read back what was written", error))?;
        let written = self.kept().expect("it can be read");
        verify(trailer, |buffer, offset| written.read_at(buffer, offset))
    }
}

impl Storage for Bytes {
    fn begin(&mut self, offered: &Offered) -> Result<(), StorageError> {
        (self.attributes, self.sparse) = match offered.content {
            ContentKind::File(attributes) => (Some(attributes), None),
            ContentKind::Sparse(attributes) => (Some(attributes), Some(Sparse::default())),
            _ => (None, None),
        };
        self.size = offered.size;
        self.kind = Some(self.open(offered)?);
        Ok(())
    }

    fn syncs(&self) -> bool {
        self.kind.as_ref().is_none_or(|kind| kind.syncs())
    }

    fn kept(&mut self) -> Option<Box<dyn ReadAt>> {
        match &self.sparse {
            Some(sparse) => Some(Box::new(Again(Arc::clone(&sparse.again)))),
            None => self.kind.as_ref()?.handle(),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.check_image(bytes)?;
        if self.sparse.is_some() {
            self.write_sparse(bytes, false)
        } else {
            self.put(bytes, false)
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        if self.sparse.is_some() {
            self.write_sparse(bytes, true)
        } else {
            self.put(bytes, true)
        }
    }

    fn settle(&mut self, trailer: Trailer) -> Result<(), StorageError> {
        if let Some(sparse) = &self.sparse {
            let map = sparse
                .map
                .clone()
                .filter(|map| sparse.came == map.stream_bytes());
            let map =
                map.ok_or_else(|| damaged("less came than its map says: send again".to_owned()))?;
            self.skip_to(map.bytes())?;
        }
        let attributes = self.attributes;
        self.kind().settle(attributes)?;
        if self.handling.read_back {
            self.compare(trailer)
        } else {
            Ok(())
        }
    }

    fn publish(&mut self) -> Result<(), StorageError> {
        let Some(mut kind) = self.kind.take() else {
            return Ok(());
        };
        let (path, put) = kind.put();
        if let Some(path) = path {
            self.said.path.get_or_init(|| path);
        }
        put
    }
}

pub(super) fn too_small(device_bytes: u64, bytes: u64) -> StorageError {
    let [holds, size] = sizes(device_bytes, bytes);
    let text =
        format!("the device holds {holds}, the image has {size}: choose a larger one as DEST");
    StorageError::new(Outcome::NoSpace, text)
}

fn damaged(text: String) -> StorageError {
    StorageError::new(Outcome::Damaged, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ethbcast_collectives::session::application::Tally;
    use std::fs;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::time::{Duration, Instant};
    use tempfile::TempDir;

    const PART_BYTES: usize = 300_000;

    fn stream(hole_bytes: u64, seed: u8) -> (Vec<u8>, Vec<u8>) {
        let parts: Vec<Vec<u8>> = (0..8)
            .map(|part| vec![part * 16 + seed; PART_BYTES])
            .collect();
        let place = |part: u64| hole_bytes + part * (hole_bytes + PART_BYTES as u64);
        let extents = (0..8)
            .map(|part| Extent {
                offset: place(part),
                bytes: PART_BYTES as u64,
            })
            .collect();
        let map = Map::new(place(8), extents).expect("sound");
        let mut file = vec![0; place(8) as usize];
        for (part, bytes) in parts.iter().enumerate() {
            file[place(part as u64) as usize..][..PART_BYTES].copy_from_slice(bytes);
        }
        ([map.encoded(), &parts.concat()].concat(), file)
    }

    fn begin(directory: &TempDir, stream: &[u8]) -> Bytes {
        let dest = Dest::resolve(directory.path().join("image").as_os_str(), false).expect("room");
        let mut bytes = Bytes::new(Arc::new(dest), Handling::default(), Arc::default());
        bytes.holding(true);
        let attributes = FileAttributes {
            mode: 0o600,
            modified_seconds: 1,
            modified_nanoseconds: 0,
        };
        let (size, content) = (Some(stream.len() as u64), ContentKind::Sparse(attributes));
        bytes
            .begin(&Offered {
                source: "image".to_owned(),
                size,
                content,
                ..Offered::default()
            })
            .expect("room");
        bytes
    }

    fn cut_off(directory: &TempDir, stream: &[u8], came: usize) {
        let mut bytes = begin(directory, stream);
        assert!(bytes.left().is_none(), "nothing is there yet");
        stream[..came]
            .chunks(65_536)
            .for_each(|piece| bytes.write(piece).expect("room"));
        let journal = || {
            fs::read_dir(directory.path())
                .expect("readable")
                .flatten()
                .find(|entry| entry.file_name().to_string_lossy().ends_with(".journal"))
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while journal()
            .is_none_or(|entry| entry.metadata().is_ok_and(|journal| journal.len() < 200))
        {
            assert!(Instant::now() < deadline, "the map is not kept");
            std::thread::yield_now();
        }
    }

    fn go_on(directory: &TempDir, stream: &[u8]) -> usize {
        let mut bytes = begin(directory, stream);
        let left = bytes.left().expect("something is left");
        let (mut sent, mut tally) = (0, Tally::default());
        for piece in stream.chunks(65_536) {
            let (mut buffer, mut read) = (vec![0; piece.len()], 0);
            while let Ok(count @ 1..) =
                left.read_at(&mut buffer[read..], tally.bytes() + read as u64)
            {
                read += count;
            }
            let is_here = read == piece.len() && buffer == piece;
            sent += if is_here { 0 } else { piece.len() };
            if is_here {
                bytes.keep(piece)
            } else {
                bytes.write(piece)
            }
            .expect("room");
            tally.add(piece);
        }
        bytes.settle(tally.trailer()).expect("room");
        bytes.publish().expect("room");
        sent
    }

    #[test]
    fn received_parts_of_a_sparse_file_are_found_by_its_map_and_only_the_rest_is_sent() {
        let directory = tempfile::tempdir().expect("a directory");
        let (stream, file) = stream(1 << 20, 1);
        cut_off(&directory, &stream, stream.len() / 2);
        let sent = go_on(&directory, &stream);
        assert!(
            sent <= stream.len() / 2 + 65_536,
            "{sent} of {}",
            stream.len()
        );
        let image = fs::File::open(directory.path().join("image")).expect("there");
        let mut found = vec![1; file.len()];
        image.read_exact_at(&mut found, 0).expect("so long");
        assert!(found == file);
        let blocks = image.metadata().expect("open").blocks() * 512;
        assert!(
            blocks < 3 << 20,
            "{blocks} bytes for {} of data: the holes are holes",
            8 * PART_BYTES
        );
        assert_eq!(
            fs::read_dir(directory.path()).expect("readable").count(),
            1,
            "no journal is left"
        );
    }

    #[test]
    fn data_left_at_other_offsets_is_moved_and_never_mistaken_for_that_which_belongs_there() {
        let directory = tempfile::tempdir().expect("a directory");
        // The data and its length are equal, but the extents are elsewhere.
        let ((before, _), (after, file)) = (stream(1 << 20, 1), stream(1 << 19, 1));
        assert_eq!(before.len(), after.len());
        cut_off(&directory, &before, before.len() / 2);
        go_on(&directory, &after);
        assert!(fs::read(directory.path().join("image")).is_ok_and(|found| found == file));
    }
}
