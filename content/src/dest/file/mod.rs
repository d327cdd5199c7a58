//! A file as DEST: it is received under no name or a hidden one, and gets its own when every byte of it is known to be
//! on the disk.
//!
//! What can be resumed has a hidden name that follows from its own, and a [journal](crate::journal) beside it: it
//! outlives its process, is found by the next one that receives the same name, and is removed when nobody has written
//! to it for a week. All else has no name at all, and nothing is left of it, however its process ends; where the file
//! system cannot make such files (`O_TMPFILE`) it has a hidden name that nobody looks for. A lock says whether a
//! process writes to a hidden file.
//!
//! In place, what has the name already is written over, and needs no room but for what is longer. Before its first
//! byte changes it gets the hidden name and a journal, as if an earlier run had left it: under its own name it is old
//! or new. It may have the only remains of what it was, so the journal says so, and no age removes it.

#[cfg(test)]
mod crashes;
mod hidden;
#[cfg(test)]
mod in_place;
mod kept;
#[cfg(test)]
mod tests;

use super::kind::{DiskError, Kind, Open, at};
use super::overwriting::{Present, ZEROS};
use crate::disk::{Directory, DiskFile, PRIVATE_FILE, read_back};
use crate::hidden_names::{self, HiddenNames};
use crate::journal::{Identity, Journal};
#[cfg(test)]
use crate::runs::Runs;
use crate::syncer::{Pace, Syncer};
use ethbcast_collectives::session::FileAttributes;
use ethbcast_collectives::session::live::{ReadAt, StorageError};
use hidden::{Hidden, open_fleeting, open_journal, open_kept, open_untouched};
use kept::{Kept, syncing};
use std::io::{self, Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Where a file will be.
#[derive(Clone, Debug)]
pub(super) struct Place<D> {
    pub holder: Arc<D>,
    /// Where the user said that this is.
    pub holder_path: PathBuf,
    /// Its name there.
    pub name: PathBuf,
    /// Whether it may take the place of what has that name.
    pub replace: bool,
}

/// What becomes of partial data that a file of the same name left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    /// It is removed, and nothing is left of this run either.
    Not,
    /// It is used as far as it is of this content, and this run leaves its own. Nobody else may read the file until its
    /// mode is set.
    From(Identity),
    /// The same, and without any, what has the name already is written over.
    InPlace(Identity),
}

/// A file that is being received.
#[derive(Debug)]
pub(super) struct FileDest<D: Directory> {
    place: Place<D>,
    file: D::File,
    hidden: Hidden,
    identity: Identity,
    /// Where the next bytes go.
    at: u64,
    syncer: Syncer,
    kept: Arc<Kept<D::File>>,
    /// What was on the disk by the journal of the run before.
    #[cfg(test)]
    claimed: Runs,
    /// Where the journal of the run before says that the bytes belong.
    prologue: Vec<u8>,
    /// Of what is written over.
    present: Present,
    /// Where it is while it is neither old nor new.
    broken: Arc<OnceLock<PathBuf>>,
    /// What an earlier run left of an old content, to be removed when this is in its place.
    superseded: Option<HiddenNames>,
}

impl<D: Directory> FileDest<D> {
    /// A file that will be at this place; `broken` is told where it is if what is written over is moved.
    ///
    /// # Errors
    /// If nothing can be written there, or another build's journal is in the way.
    pub(super) fn prepare(
        place: Place<D>,
        resume: &Resume,
        pace: Pace,
        broken: Arc<OnceLock<PathBuf>>,
    ) -> io::Result<FileDest<D>> {
        let (names, shown) = (HiddenNames::of(place.name.as_os_str().as_bytes()), place.name.display());
        let holder = &*place.holder;
        let identity = match resume {
            Resume::From(identity) | Resume::InPlace(identity) => identity.clone(),
            Resume::Not => {
                let superseded = hidden_names::has_old(holder, &names).unwrap_or(true).then(|| names.clone());
                if superseded.is_none() && hidden_names::remove_dead(holder, &names) {
                    log::info!("removed what an earlier run left of {shown}");
                }
                let (file, hidden) = open_fleeting(holder, &place.holder_path)?;
                let mut dest = FileDest::new(place, file, hidden, Identity::default(), None, pace, broken)?;
                dest.superseded = superseded;
                return Ok(dest);
            }
        };
        if let Resume::InPlace(_) = resume
            && let Some(file) = open_untouched(holder, &place.name, &names)?
        {
            file.sync_data()?;
            file.forget()?;
            return FileDest::new(place, file, Hidden::Untouched(names), identity, None, pace, broken);
        }
        let Some((file, is_new)) = open_kept(holder, &names)? else {
            log::warn!("another process receives {shown}: what comes here cannot be resumed");
            let (file, hidden) = open_fleeting(holder, &place.holder_path)?;
            return FileDest::new(place, file, hidden, identity, None, pace, broken);
        };
        // What memory has of it may be what the disk does not: whoever wrote it may have been told of an error, and
        // that is told once. What is read from now on is what the disk has.
        file.sync_data()?;
        file.forget()?;
        let (journal, recovered) = open_journal(holder, &names, &identity, is_new)?;
        let mut dest = FileDest::new(place, file, Hidden::Kept(names), identity, Some(journal), pace, broken)?;
        #[cfg(test)]
        dest.claimed.clone_from(&recovered.durable);
        dest.prologue = recovered.prologue;
        Ok(dest)
    }

    fn new(
        place: Place<D>,
        file: D::File,
        hidden: Hidden,
        identity: Identity,
        journal: Option<Journal<D::File>>,
        pace: Pace,
        broken: Arc<OnceLock<PathBuf>>,
    ) -> io::Result<FileDest<D>> {
        let kept = Arc::new(Kept::new(journal));
        let syncer = Syncer::start(pace, syncing(&file, &place.holder, &kept)?)?;
        Ok(FileDest {
            place,
            file,
            hidden,
            identity,
            at: 0,
            syncer,
            kept,
            #[cfg(test)]
            claimed: Runs::default(),
            prologue: Vec::new(),
            present: Present::default(),
            broken,
            superseded: None,
        })
    }

    /// Takes the room for so many bytes.
    pub(super) fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.file.reserve(bytes)
    }

    /// Writes the next bytes.
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        self.syncer.check().map_err(at("sync"))?;
        let written = self.put_bytes(bytes);
        self.syncer.heed(written, bytes.len() as u64).map_err(at("write"))
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Hidden::Untouched(_) = self.hidden {
            let mut present = std::mem::take(&mut self.present);
            let (file, at) = (self.file.try_clone()?, self.at);
            let written = present.write(&file, at, bytes, || self.touch());
            self.present = present;
            written?;
        } else {
            self.file.write_all_at(bytes, self.at)?;
        }
        self.pass(bytes.len() as u64);
        Ok(())
    }

    /// The next bytes are there.
    fn pass(&mut self, bytes: u64) {
        let end = self.at + bytes;
        self.kept.written.lock().insert(self.at..end);
        self.at = end;
    }

    /// Before its first byte changes it has the hidden name, and a journal: by its own nobody finds half of it.
    fn touch(&mut self) -> io::Result<()> {
        let Hidden::Untouched(names) = &self.hidden else { return Ok(()) };
        let (names, Place { holder, holder_path, name, .. }) = (names.clone(), &self.place);
        if !holder.is_at(holder_path) || !holder.is_named(&self.file, name) {
            return Err(Error::other(format!("{} became another file meanwhile: receive again", name.display())));
        }
        drop(holder.remove(&names.journal));
        let journal = Journal::begin_over(holder.create(&names.journal, PRIVATE_FILE)?, &self.identity, true)?;
        journal.sync().and_then(|()| holder.sync_names())?;
        holder.rename(name, holder, &names.part)?;
        self.broken.get_or_init(|| holder_path.join(&names.part));
        self.hidden = Hidden::Kept(names);
        *self.kept.journal.lock() = Some(journal);
        holder.sync_names()
    }

    /// The next bytes are there already.
    pub(super) fn keep(&mut self, bytes: u64) -> Result<(), DiskError> {
        self.syncer.check().map_err(at("sync"))?;
        self.pass(bytes);
        self.syncer.heed(Ok(()), bytes).map_err(at("write"))
    }

    /// Leaves a hole of so many bytes behind what is there.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), DiskError> {
        self.syncer.check().map_err(at("sync"))?;
        let skipped = self.leave_hole(bytes);
        self.syncer.heed(skipped, 0).map_err(at("leave a hole"))
    }

    fn leave_hole(&mut self, bytes: u64) -> io::Result<()> {
        let (end, old_end) = (self.at + bytes, self.file.bytes()?);
        let left = self.at..end.min(old_end);
        // What is there is no hole, unless it can be made one; what is written over may have zeros anyway.
        let is_touched = !matches!(self.hidden, Hidden::Untouched(_));
        if is_touched && !left.is_empty() && self.file.punch(left.clone()).is_ok() {
            self.pass(left.end - left.start);
        }
        while self.at < end.min(old_end) {
            let count = (end.min(old_end) - self.at).min(ZEROS.len() as u64);
            self.put_bytes(&ZEROS[..count as usize])?;
        }
        if end > old_end {
            self.touch()?;
            self.file.set_bytes(end)?;
        }
        self.pass(end - self.at);
        Ok(())
    }

    /// Keeps beside the file where its bytes belong, and asks for that to be put on the disk.
    pub(super) fn keep_prologue(&mut self, bytes: &[u8]) {
        let is_found_again = matches!(self.hidden, Hidden::Kept(_) | Hidden::Untouched(_));
        if is_found_again && self.prologue != bytes {
            *self.kept.prologue.lock() = bytes.to_vec();
        }
        self.syncer.tell();
    }

    /// Ends the file where the last byte is, gives it its attributes, and puts all of it on the disk, still under no
    /// name that is its own.
    pub(super) fn settle(&mut self, attributes: Option<FileAttributes>) -> Result<(), DiskError> {
        self.syncer.finish().map_err(at("sync"))?;
        self.end(attributes).map_err(at("sync"))
    }

    fn end(&mut self, attributes: Option<FileAttributes>) -> io::Result<()> {
        if self.file.bytes()? != self.at {
            self.touch()?;
        }
        // The time comes last: whatever else is done changes it.
        self.file.set_bytes(self.at)?;
        attributes.map_or(Ok(()), |attributes| self.file.keep_attributes(attributes))?;
        self.file.sync()
    }

    /// Gives what was settled its name, and makes that last.
    ///
    /// # Errors
    /// If it cannot have that name; or it has, and the directory cannot be synced: then a crash may take the name away.
    pub(super) fn publish(&mut self) -> Result<(), DiskError> {
        let path = self.place.holder_path.join(&self.place.name);
        self.show().map_err(at(&format!("rename to {}", path.display())))?;
        let synced = self.place.holder.sync_names();
        synced.map_err(|error| DiskError { in_place: true, ..at("sync the directory")(error) })?;
        if let Some(names) = &self.superseded {
            hidden_names::remove_dead(&*self.place.holder, names);
        }
        // It says nothing more.
        if let Hidden::Kept(names) = std::mem::replace(&mut self.hidden, Hidden::Published) {
            drop(self.place.holder.remove(&names.journal));
        }
        Ok(())
    }

    /// Gives it its name; what has that name already is replaced only if it may be.
    fn show(&mut self) -> io::Result<()> {
        let Place { holder, holder_path, name, replace } = &self.place;
        if !holder.is_at(holder_path) {
            return Err(Error::other(format!(
                "{} became another directory meanwhile, and nothing was put there; receive again",
                holder_path.display()
            )));
        }
        let hidden = match &self.hidden {
            Hidden::Published | Hidden::Untouched(_) => return Ok(()),
            Hidden::Fleeting(names, _) | Hidden::Kept(names) => names.part.clone(),
            Hidden::Nameless => match holder.name(&self.file, name) {
                Err(error) if *replace && error.kind() == ErrorKind::AlreadyExists => {
                    // Only a name can take the place of another; locked first, or a receiver that begins takes it for
                    // that of a dead one.
                    self.file.try_lock();
                    let names = HiddenNames::fleeting();
                    holder.name(&self.file, &names.part)?;
                    self.hidden = Hidden::fleeting(names.clone(), holder_path);
                    names.part
                }
                named => {
                    self.hidden = Hidden::Published;
                    return named;
                }
            },
        };
        if *replace { holder.rename(&hidden, holder, name) } else { holder.rename_to_free(&hidden, name) }
    }
}

impl<D: Directory> Kind for FileDest<D> {
    fn handle(&self) -> Option<Box<dyn ReadAt>> {
        Some(Box::new(Open(self.file.try_clone().ok()?)))
    }

    fn has_some(&mut self) -> io::Result<bool> {
        Ok(matches!(self.hidden, Hidden::Kept(_) | Hidden::Untouched(_)) && self.file.bytes()? > 0)
    }

    fn prologue(&self) -> &[u8] {
        &self.prologue
    }

    fn keep_prologue(&mut self, bytes: &[u8]) {
        FileDest::keep_prologue(self, bytes);
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        Ok(self.write_all(bytes)?)
    }

    fn keep(&mut self, bytes: u64) -> Result<(), StorageError> {
        Ok(FileDest::keep(self, bytes)?)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), StorageError> {
        Ok(FileDest::skip(self, bytes)?)
    }

    fn settle(&mut self, attributes: Option<FileAttributes>) -> Result<(), StorageError> {
        Ok(FileDest::settle(self, attributes)?)
    }

    fn read_back(&mut self, take: &mut dyn FnMut(&[u8])) -> Result<bool, StorageError> {
        let read = read_back(&self.file, self.at, take).map(|()| true);
        Ok(read.map_err(at("read back what was written"))?)
    }

    fn forget(&self) {
        drop(self.file.forget());
    }

    fn put(&mut self) -> (Option<PathBuf>, Result<(), StorageError>) {
        let published = self.publish();
        let is_there = published.as_ref().err().is_none_or(|failed| failed.in_place);
        let path = is_there.then(|| self.place.holder_path.join(&self.place.name));
        (path, published.map_err(StorageError::from))
    }
}

impl<D: Directory> Drop for FileDest<D> {
    fn drop(&mut self) {
        drop(self.syncer.finish());
        let holder = &*self.place.holder;
        match &self.hidden {
            Hidden::Nameless | Hidden::Published | Hidden::Untouched(_) => {}
            Hidden::Fleeting(names, _) => drop(hidden_names::remove(holder, names)),
            // Of nothing there is nothing to resume.
            Hidden::Kept(names) if self.file.bytes().is_ok_and(|bytes| bytes == 0) => {
                hidden_names::remove(holder, names);
            }
            // What was reserved behind it is given back.
            Hidden::Kept(_) => drop(self.file.bytes().and_then(|bytes| self.file.set_bytes(bytes))),
        }
    }
}
