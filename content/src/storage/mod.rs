//! A directory as DEST: built beside it from the stream, and shown whole when all is verified and on the disk.

mod building;
mod hidden;
mod incoming;
mod place;

pub use crate::disk::keep_attributes;
pub use hidden::remove_stale;
pub use place::Target;

use crate::disk::{Beneath, Directory};
use crate::layout::Layout;
use crate::replay::{OpenEntry, Replay, Troubles};
use crate::syncer::Syncer;
use crate::trouble::trouble;
use building::Building;
use ethbcast_collectives::session::application::Tally;
use ethbcast_collectives::session::live::{Offered, ReadAt, Storage, StorageError};
use ethbcast_collectives::session::{Outcome, Trailer};
use hidden::Hidden;
use incoming::Incoming;
use parking_lot::{Mutex, RwLock};
use place::Place;
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Bytes after which the disk is asked to begin writing.
const SYNC_BYTES: u64 = 64 << 20;
/// Bytes read back at once.
const READ_BYTES: usize = 1 << 20;

/// What a user learns of a directory once it is in place.
#[derive(Debug, Default)]
pub struct Arrived {
    building: OnceLock<()>,
    path: OnceLock<PathBuf>,
    lost: Mutex<Vec<String>>,
}

impl Arrived {
    /// Whether something is there that takes time to remove.
    pub fn is_building(&self) -> bool {
        self.building.get().is_some()
    }

    /// Where it is, when it is in place.
    pub fn path(&self) -> Option<&PathBuf> {
        self.path.get()
    }

    /// The files that did not come whole, and why: the sender named them, and they were left out.
    pub fn left_out(&self) -> Vec<String> {
        self.lost.lock().clone()
    }
}

/// Builds the directory that comes.
#[derive(Debug)]
pub struct TreeStorage {
    target: Target,
    read_back: bool,
    incoming: Incoming,
    /// The encoded manifest as far as it has come, for others that lack it.
    encoded: Arc<RwLock<Vec<u8>>>,
    built: Arc<OnceLock<Replay<BuiltFiles<Beneath>>>>,
    work: Option<Work<Beneath>>,
    arrived: Arc<Arrived>,
}

/// A directory that is being built, with all that it takes. The fields are dropped in this order.
#[derive(Debug)]
struct Work<D: Directory> {
    building: Building<D>,
    syncer: Option<Syncer>,
    unsynced_bytes: u64,
    layout: Arc<Layout>,
    troubles: Troubles,
    hidden: Hidden<D>,
    place: Place<D>,
}

/// The files of a directory that is being built, or was.
#[derive(Debug)]
struct BuiltFiles<D> {
    layout: Arc<Layout>,
    root: Arc<D>,
    /// Where they are once they were moved one by one.
    moved: D,
}

impl<D: Directory> OpenEntry for BuiltFiles<D> {
    type File = D::File;

    fn open(&self, entry: usize) -> io::Result<D::File> {
        let path = self.layout.manifest().path(entry);
        self.root.file(&path).or_else(|_| self.moved.file(&path))
    }
}

impl TreeStorage {
    /// A storage for `target`, and what a user learns of it. With `read_back` all that was synced is read from the disk
    /// and compared before anybody sees it.
    pub fn new(target: Target, read_back: bool) -> (TreeStorage, Arc<Arrived>) {
        let arrived = Arc::<Arrived>::default();
        let storage = TreeStorage {
            target,
            read_back,
            incoming: Incoming::default(),
            encoded: Arc::default(),
            built: Arc::default(),
            work: None,
            arrived: Arc::clone(&arrived),
        };
        (storage, arrived)
    }

    /// The manifest is there: finds the place, and begins to build.
    fn begin_building(&mut self) -> Result<(), StorageError> {
        let encoded_bytes = self.encoded.read().len() as u64;
        let manifest = self.incoming.take_manifest().expect("it is whole");
        let place = Place::find(&self.target, &manifest.root().name)?;
        let cannot = |error| trouble("make a directory for what comes", error);
        let hidden = Hidden::create(place.holder()).map_err(cannot)?;
        self.arrived.building.get_or_init(|| ());
        let (layout, troubles) = (Arc::new(Layout::new(manifest, encoded_bytes)), Troubles::default());
        let root = Arc::clone(hidden.root());
        let syncing = root.try_clone().map_err(cannot)?;
        let syncer = Syncer::start(move || syncing.sync_file_system()).map_err(cannot)?;
        let files = BuiltFiles {
            layout: Arc::clone(&layout),
            root: Arc::clone(&root),
            moved: place.holder().try_clone().map_err(cannot)?,
        };
        let encoded = Arc::new(self.encoded.read().clone());
        let replay = Replay::new(Arc::clone(&layout), encoded, Arc::clone(&troubles), files);
        self.built.set(replay).expect("there is one manifest");
        *self.encoded.write() = Vec::new();
        let building = Building::new(root, Arc::clone(&layout), encoded_bytes, Arc::clone(&troubles));
        self.work = Some(Work { building, syncer: Some(syncer), unsynced_bytes: 0, layout, troubles, hidden, place });
        Ok(())
    }

    /// Compares what the disk has with what was sent.
    fn compare(&self, trailer: Trailer) -> Result<(), StorageError> {
        let cannot = |error| trouble("read back what was written", error);
        let replay = self.built.get().expect("it was built");
        let (mut tally, mut buffer) = (Tally::default(), vec![0; READ_BYTES]);
        loop {
            match replay.read_at(&mut buffer, tally.bytes()).map_err(cannot)? {
                0 => break,
                count => tally.add(&buffer[..count]),
            }
        }
        tally.verify(trailer).map_err(|_| {
            damaged("what is read back from the disk is not what was written to it: choose another DEST".to_owned())
        })
    }
}

impl<D: Directory> Work<D> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.building.write(bytes)?;
        self.unsynced_bytes += bytes.len() as u64;
        if self.unsynced_bytes >= SYNC_BYTES && self.syncer.as_mut().is_some_and(Syncer::tell) {
            self.unsynced_bytes = 0;
        }
        // The first failed sync decides: the kernel reports it once.
        match self.syncer.take_if(|syncer| syncer.has_ended()) {
            Some(ended) => ended.finish().map_err(|error| trouble("sync", error)),
            None => Ok(()),
        }
    }

    fn settle(&mut self) -> Result<(), StorageError> {
        self.building.finish()?;
        let synced = self.syncer.take().map_or_else(|| Err(io::Error::other("an earlier sync failed")), Syncer::finish);
        let synced = synced.and_then(|()| self.hidden.root().sync_file_system());
        synced.map_err(|error| trouble("sync", error))
    }
}

impl Storage for TreeStorage {
    fn begin(&mut self, _offered: &Offered) -> Result<(), StorageError> {
        Ok(())
    }

    fn kept(&mut self) -> Option<Box<dyn ReadAt>> {
        Some(Box::new(Kept { encoded: Arc::clone(&self.encoded), built: Arc::clone(&self.built) }))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let mut rest = bytes;
        if self.work.is_none() {
            rest = self.incoming.take(bytes, &self.encoded).map_err(|error| damaged(error.to_string()))?;
            if !self.incoming.is_whole() {
                return Ok(());
            }
            self.begin_building()?;
        }
        self.work.as_mut().expect("it has begun").write(rest)
    }

    fn settle(&mut self, trailer: Trailer) -> Result<(), StorageError> {
        let no_manifest = || damaged("the list of files did not come: send again with the same build".to_owned());
        let work = self.work.as_mut().ok_or_else(no_manifest)?;
        // What was left out cannot be read back.
        work.settle()?;
        let is_whole = work.troubles.lock().is_empty();
        if self.read_back && is_whole { self.compare(trailer) } else { Ok(()) }
    }

    fn publish(&mut self) -> Result<(), StorageError> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let manifest = work.layout.manifest();
        let lost: HashSet<usize> = work.troubles.lock().keys().copied().collect();
        work.place.publish(&work.hidden, manifest, &lost)?;
        let line = |entry: usize| format!("{}: {}", manifest.shown(entry), work.troubles.lock()[&entry].why);
        let mut entries: Vec<usize> = lost.into_iter().collect();
        entries.sort_unstable();
        *self.arrived.lost.lock() = entries.into_iter().map(line).collect();
        self.arrived.path.get_or_init(|| work.place.path());
        Ok(())
    }
}

/// What others that lack something may read of it.
#[derive(Debug)]
struct Kept {
    encoded: Arc<RwLock<Vec<u8>>>,
    built: Arc<OnceLock<Replay<BuiltFiles<Beneath>>>>,
}

impl ReadAt for Kept {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(built) = self.built.get() {
            return built.read_at(buffer, offset);
        }
        let encoded = self.encoded.read();
        let rest =
            usize::try_from(offset).ok().and_then(|offset| encoded.get(offset..)).filter(|rest| !rest.is_empty());
        let rest = rest.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "it has not come here"))?;
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }
}

fn damaged(text: String) -> StorageError {
    StorageError::new(Outcome::Damaged, text)
}

#[cfg(test)]
mod tests;
