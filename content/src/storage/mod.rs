//! Storage of a received directory: built beside the destination, renamed into place when verified.

mod building;
#[cfg(test)]
mod crashes;
#[cfg(test)]
mod in_place;
mod makers;
mod place;
#[cfg(test)]
mod replacing;
#[cfg(test)]
mod walks;
mod work;

pub use place::Target;

use crate::disk::{Beneath, Lack, LeftOut, verify};
use crate::hidden_names::{TakenUp, foreign};
use crate::journal::Identity;
use crate::layout::Replay;
use crate::trouble;
use building::BuiltFiles;
use ethbcast_collectives::lock::{Mutex, RwLock};
use ethbcast_collectives::session::live::{Offered, ReadAt, Storage, StorageError};
use ethbcast_collectives::session::{Outcome, Trailer};
use place::Place;
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use work::{Incoming, Leftover, Published, Work};

const MIN_KEPT_BYTES: u64 = 1 << 20;

/// Results that are available once the directory is in place.
#[derive(Debug, Default)]
pub struct Arrived {
    building: OnceLock<()>,
    path: OnceLock<PathBuf>,
    lost: Mutex<Vec<String>>,
    remains: Mutex<Vec<String>>,
    lacks: Mutex<Vec<(Lack, String)>>,
    not_accepted: Mutex<LeftOut>,
    broken: OnceLock<PathBuf>,
    /// Hidden entry of another user in the place of a leftover.
    foreign: OnceLock<PathBuf>,
}

impl Arrived {
    /// Whether a directory is under construction, whose removal takes time.
    pub fn is_building(&self) -> bool {
        self.building.get().is_some()
    }

    /// Returns the directory's path once it is in place.
    pub fn path(&self) -> Option<&PathBuf> {
        self.path.get()
    }

    /// Returns the files that are left out because the sender reported them as changed or lost,
    /// with the reason.
    pub fn left_out(&self) -> Vec<String> {
        self.lost.lock().clone()
    }

    /// Returns the directory that has a mixture of old and new files until the transfer completes.
    pub fn broken(&self) -> Option<&PathBuf> {
        self.broken.get().filter(|_| self.path().is_none())
    }

    /// Returns the attributes that the file system could not keep, such as owners.
    pub fn lacks(&self) -> Vec<String> {
        self.lacks_beside(&BTreeSet::new())
    }

    /// Returns the counts of attributes that the receiver does not accept.
    pub fn not_accepted(&self) -> LeftOut {
        self.not_accepted.lock().clone()
    }

    /// Returns the attributes that the file system cannot keep and of which the user was not warned
    /// before the content came.
    pub(crate) fn lacks_beside(&self, told: &BTreeSet<Lack>) -> Vec<String> {
        let lacks = self.lacks.lock();
        lacks
            .iter()
            .filter(|(lack, _)| !told.contains(lack))
            .map(|(_, sentence)| sentence.clone())
            .collect()
    }

    /// Returns the replaced entries that could not be removed, and hidden entries of other users
    /// that were left alone: path, reason and advice.
    pub fn remains(&self) -> Vec<String> {
        self.remains
            .lock()
            .iter()
            .cloned()
            .chain(self.foreign.get().map(|path| foreign(path)))
            .collect()
    }
}

/// Storage for an incoming directory.
#[derive(Debug)]
pub struct TreeStorage {
    target: Target,
    read_back: bool,
    incoming: Incoming,
    /// The encoded manifest as far as it has arrived, readable for retransmission.
    encoded: Arc<RwLock<Vec<u8>>>,
    built: Arc<OnceLock<Replay<BuiltFiles<Beneath>>>>,
    work: Option<Work<Beneath>>,
    resumes: bool,
    identity: Option<Identity>,
    leftover: Option<Leftover<Beneath>>,
    arrived: Arc<Arrived>,
}

impl TreeStorage {
    /// Creates a storage for `target`, and its results. With `read_back` the synced data is read
    /// from the disk and verified before it is shown.
    pub fn new(target: Target, read_back: bool) -> (TreeStorage, Arc<Arrived>) {
        let arrived = Arc::<Arrived>::default();
        let storage = TreeStorage {
            target,
            read_back,
            incoming: Incoming::default(),
            encoded: Arc::default(),
            built: Arc::default(),
            work: None,
            resumes: false,
            identity: None,
            leftover: None,
            arrived: Arc::clone(&arrived),
        };
        (storage, arrived)
    }

    /// Resumes an earlier run, and leaves data for a later one.
    pub fn resuming(&mut self) {
        self.resumes = true;
    }

    /// Returns the part of the stream that an earlier run left.
    pub fn left(&self) -> Option<Box<dyn ReadAt>> {
        self.leftover
            .as_ref()
            .map(|leftover| Box::new(leftover.replay()) as Box<dyn ReadAt>)
    }

    fn find_leftover(&mut self, offered: &Offered) -> io::Result<()> {
        let Some(bytes) = offered
            .size
            .filter(|&bytes| self.resumes && bytes >= MIN_KEPT_BYTES)
        else {
            return Ok(());
        };
        let identity = Identity::of(offered, bytes);
        for holder in Place::holders(&self.target) {
            match Leftover::find(&holder, &identity)? {
                TakenUp::Own(leftover) => {
                    self.leftover = Some(leftover);
                    break;
                }
                TakenUp::Foreign(name) => {
                    self.arrived.foreign.get_or_init(|| holder.path_of(&name));
                    return Ok(());
                }
                TakenUp::Nothing | TakenUp::Busy => {}
            }
        }
        self.identity = Some(identity);
        Ok(())
    }

    fn begin_building(&mut self) -> Result<(), StorageError> {
        let manifest = self.incoming.take_manifest().expect("it is whole");
        let place = Place::find(&self.target, &manifest.root().name, Some(&manifest))?;
        place.check_names(&manifest)?;
        let cannot = |error| trouble("make a directory for the received data", error);
        let encoded = std::mem::take(&mut *self.encoded.write());
        let work = Work::begin(
            place,
            manifest,
            &encoded,
            self.identity.as_ref(),
            self.leftover.take(),
        );
        let work = work.map_err(cannot)?;
        self.arrived.building.get_or_init(|| ());
        self.built
            .set(work.replay(encoded).map_err(cannot)?)
            .expect("there is one manifest");
        self.work = Some(work);
        Ok(())
    }

    fn take(&mut self, bytes: &[u8], are_here: bool) -> Result<(), StorageError> {
        let mut rest = bytes;
        if self.work.is_none() {
            rest = self
                .incoming
                .take(bytes, &self.encoded)
                .map_err(|error| damaged(error.to_string()))?;
            if !self.incoming.is_whole() {
                return Ok(());
            }
            self.begin_building()?;
        }
        let work = self.work.as_mut().expect("it has begun");
        let taken = work.take(rest, are_here);
        if work.is_mixed() {
            self.arrived.broken.get_or_init(|| work.path());
        }
        taken
    }
}

impl Storage for TreeStorage {
    fn begin(&mut self, offered: &Offered) -> Result<(), StorageError> {
        let found = self.find_leftover(offered);
        found.map_err(|error| trouble("take up what an earlier run left", error))
    }

    fn kept(&mut self) -> Option<Box<dyn ReadAt>> {
        Some(Box::new(KeptTree {
            encoded: Arc::clone(&self.encoded),
            built: Arc::clone(&self.built),
        }))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.take(bytes, false)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.take(bytes, true)
    }

    fn settle(&mut self, trailer: Trailer) -> Result<(), StorageError> {
        let no_manifest =
            || damaged("the list of files did not come: send again with the same build".to_owned());
        let work = self.work.as_mut().ok_or_else(no_manifest)?;
        work.settle()?;
        // Omitted files cannot be read back.
        if !self.read_back || !work.is_whole() {
            return Ok(());
        }
        let replay = self.built.get().expect("it was built");
        verify(trailer, |buffer, offset| replay.read_at(buffer, offset))
    }

    fn note(&self) -> String {
        let lost = self.arrived.lost.lock();
        let left_out = lost
            .first()
            .map(|first| format!("{} left out, the first {first}", lost.len()));
        let not_accepted = self.arrived.not_accepted().sentences();
        let all = self
            .arrived
            .lacks()
            .into_iter()
            .chain(not_accepted)
            .chain(left_out);
        all.collect::<Vec<_>>().join("; ")
    }

    fn publish(&mut self) -> Result<(), StorageError> {
        let Some(work) = self.work.take() else {
            return Ok(());
        };
        let Published {
            path,
            lost,
            remains,
            lacks,
            left_out,
        } = work.publish()?;
        *self.arrived.not_accepted.lock() = left_out;
        *self.arrived.lacks.lock() = lacks;
        *self.arrived.lost.lock() = lost;
        *self.arrived.remains.lock() = remains;
        self.arrived.path.get_or_init(|| path);
        Ok(())
    }
}

#[derive(Debug)]
struct KeptTree {
    encoded: Arc<RwLock<Vec<u8>>>,
    built: Arc<OnceLock<Replay<BuiltFiles<Beneath>>>>,
}

impl ReadAt for KeptTree {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if let Some(built) = self.built.get() {
            return built.read_at(buffer, offset);
        }
        let encoded = self.encoded.read();
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| encoded.get(offset..))
            .filter(|rest| !rest.is_empty());
        let rest =
            rest.ok_or_else(|| io::Error::new(ErrorKind::NotFound, "it has not come here"))?;
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
