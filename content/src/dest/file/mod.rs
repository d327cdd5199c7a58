//! Storage of a received file, which has no name or a hidden one until all bytes are on disk.
//!
//! A resumable file has a hidden name derived from its own, and a [journal](crate::journal) beside
//! it. It outlives its process, is found by the next one that receives the same name, and is
//! removed a week after its last write. Any other file is nameless (`O_TMPFILE`), or has a unique
//! hidden name where the file system does not support that, and vanishes with its process. A lock
//! shows whether a process writes to a hidden file.
//!
//! An existing file that is received in place is overwritten and needs space only for additional
//! length. Before its first byte changes, it gets the hidden name and a journal, as if an earlier
//! run had left it. Under its own name it is always old or new.

#[cfg(test)]
mod crashes;
mod hidden;
#[cfg(test)]
mod tests;

use super::kind::{DiskError, Kind, Open, Present, Remarks, ZEROS, at};
use crate::disk::{Directory, DiskFile};
use crate::hidden_names::{self, HiddenNames, TakenUp};
use crate::journal::{Identity, Journal, Runs};
use crate::syncer::{LARGE_BYTES, Pace, Syncer};
use ethbcast_collectives::lock::Mutex;
use ethbcast_collectives::session::FileAttributes;
use ethbcast_collectives::session::live::{ReadAt, StorageError};
use hidden::{
    HiddenFile, KeptFile, begin_journal, open_fleeting, open_kept, open_untouched, recover,
};
use std::io::{self, Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Room that is reserved ahead of received data, in bytes.
const RESERVED_AHEAD_BYTES: u64 = 1 << 30;
/// Mode bits that a hidden file does not have, because no later run would resume it.
const WRITABLE_BY_OTHERS: u16 = 0o022;

#[derive(Clone, Debug)]
pub(super) struct DestPlace<D> {
    pub holder: Arc<D>,
    pub holder_path: PathBuf,
    pub name: PathBuf,
    pub replace: bool,
}

/// Treatment of an earlier run's partial data of a file with this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    /// Removed; this run leaves none either.
    Not,
    /// Used as far as it belongs to this content, and this run leaves its own data. Only the owner
    /// can read the file until its mode is set.
    From(Identity),
    /// Used as with `From`; without partial data the existing file is overwritten.
    InPlace(Identity),
}

#[derive(Debug)]
pub(super) struct FileDest<D: Directory> {
    place: DestPlace<D>,
    file: D::File,
    hidden: HiddenFile,
    identity: Identity,
    at: u64,
    /// Bytes for which space was requested, and those that have it.
    room_bytes: u64,
    reserved_bytes: u64,
    syncer: Syncer,
    kept: Arc<Kept<D::File>>,
    #[cfg(test)]
    claimed: Runs,
    prologue: Vec<u8>,
    present: Present,
    remarks: Arc<Remarks>,
    /// Attributes that let others write, set just before the file gets its name.
    late: Option<FileAttributes>,
    /// Names of an unfinished file with old content, removed once this file is in its place.
    superseded: Option<HiddenNames>,
}

impl<D: Directory> FileDest<D> {
    /// Prepares the file for a place. Fails if nothing can be written there, or a newer build's
    /// journal exists.
    pub(super) fn prepare(
        place: DestPlace<D>,
        resume: &Resume,
        pace: Pace,
        remarks: Arc<Remarks>,
    ) -> io::Result<FileDest<D>> {
        let (names, shown) = (
            HiddenNames::of(place.name.as_os_str().as_bytes()),
            place.name.display(),
        );
        let holder = &*place.holder;
        let identity = match resume {
            Resume::From(identity) | Resume::InPlace(identity) => identity.clone(),
            Resume::Not => {
                let superseded = hidden_names::has_old(holder, &names)
                    .unwrap_or(true)
                    .then(|| names.clone());
                if superseded.is_none() && hidden_names::remove_dead(holder, &names) {
                    log::info!("removed what an earlier run left of {shown}");
                }
                let (file, hidden) = open_fleeting(holder, &place.holder_path)?;
                let mut dest = FileDest::new(
                    place,
                    file,
                    hidden,
                    Identity::default(),
                    None,
                    pace,
                    remarks,
                )?;
                dest.superseded = superseded;
                return Ok(dest);
            }
        };
        if let Resume::InPlace(_) = resume
            && let Some(file) = open_untouched(holder, &place.name, &names)?
        {
            file.sync_data()?;
            file.forget()?;
            return FileDest::new(
                place,
                file,
                HiddenFile::Untouched(names),
                identity,
                None,
                pace,
                remarks,
            );
        }
        let KeptFile {
            file,
            journal,
            is_new,
        } = match open_kept(holder, &names)? {
            TakenUp::Own(kept) => kept,
            found => {
                match found {
                    TakenUp::Foreign(name) => {
                        drop(remarks.foreign.set(place.holder_path.join(name)))
                    }
                    _ => log::warn!(
                        "another process receives {shown}: this transfer cannot be resumed"
                    ),
                }
                let (file, hidden) = open_fleeting(holder, &place.holder_path)?;
                return FileDest::new(place, file, hidden, identity, None, pace, remarks);
            }
        };
        // The page cache may hold bytes that the disk does not, as a write-back error is reported
        // only once. From here on reads come from the disk.
        file.sync_data()?;
        file.forget()?;
        let (journal, recovered) = recover(journal, &identity, is_new)?;
        let mut dest = FileDest::new(
            place,
            file,
            HiddenFile::Kept(names),
            identity,
            Some(journal),
            pace,
            remarks,
        )?;
        #[cfg(test)]
        dest.claimed.clone_from(&recovered.durable);
        dest.prologue = recovered.prologue;
        Ok(dest)
    }

    fn new(
        place: DestPlace<D>,
        file: D::File,
        hidden: HiddenFile,
        identity: Identity,
        journal: Option<Journal<D::File>>,
        pace: Pace,
        remarks: Arc<Remarks>,
    ) -> io::Result<FileDest<D>> {
        let kept = Arc::new(Kept::new(journal));
        let syncer = Syncer::start(pace, syncing(&file, &place.holder, &kept)?)?;
        Ok(FileDest {
            place,
            file,
            hidden,
            identity,
            at: 0,
            room_bytes: 0,
            reserved_bytes: 0,
            syncer,
            kept,
            #[cfg(test)]
            claimed: Runs::default(),
            prologue: Vec::new(),
            present: Present::default(),
            remarks,
            late: None,
            superseded: None,
        })
    }

    /// Reserves space for `bytes` bytes, a step ahead of received data: a sender that announces
    /// much and sends little must not occupy the disk.
    pub(super) fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        self.room_bytes = bytes;
        self.reserve_until(0)
    }

    fn reserve_until(&mut self, end: u64) -> io::Result<()> {
        if self.reserved_bytes >= self.room_bytes || self.reserved_bytes > end {
            return Ok(());
        }
        self.reserved_bytes = self.room_bytes.min(end + RESERVED_AHEAD_BYTES);
        self.file.reserve(self.reserved_bytes)
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        self.syncer.check().map_err(at("sync"))?;
        let written = self.put_bytes(bytes);
        self.syncer
            .on_written(written, bytes.len() as u64)
            .map_err(at("write"))
    }

    fn put_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let HiddenFile::Untouched(_) = self.hidden {
            let mut present = std::mem::take(&mut self.present);
            let (file, at) = (self.file.try_clone()?, self.at);
            let written = present.write(&file, at, bytes, || self.touch());
            self.present = present;
            written?;
        } else {
            self.reserve_until(self.at + bytes.len() as u64)?;
            self.file.write_all_at(bytes, self.at)?;
        }
        self.pass(bytes.len() as u64);
        Ok(())
    }

    fn pass(&mut self, bytes: u64) {
        let end = self.at + bytes;
        self.kept.written.lock().insert(self.at..end);
        self.at = end;
    }

    /// Gives the file its hidden name and a journal before the first byte changes, so that its own
    /// name never leads to a mixture.
    fn touch(&mut self) -> io::Result<()> {
        let HiddenFile::Untouched(names) = &self.hidden else {
            return Ok(());
        };
        let (
            names,
            DestPlace {
                holder,
                holder_path,
                name,
                ..
            },
        ) = (names.clone(), &self.place);
        if !holder.is_at(holder_path) || !holder.is_named(&self.file, name) {
            return Err(Error::other(format!(
                "{} became another file meanwhile: receive again",
                name.display()
            )));
        }
        let journal = begin_journal(&**holder, &names, &self.identity)?;
        journal.sync().and_then(|()| holder.sync_names())?;
        holder.rename(name, holder, &names.part)?;
        self.remarks
            .broken
            .get_or_init(|| holder_path.join(&names.part));
        self.hidden = HiddenFile::Kept(names);
        *self.kept.journal.lock() = Some(journal);
        holder.sync_names()
    }

    pub(super) fn keep(&mut self, bytes: u64) -> Result<(), DiskError> {
        self.syncer.check().map_err(at("sync"))?;
        self.pass(bytes);
        self.syncer.on_written(Ok(()), bytes).map_err(at("write"))
    }

    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), DiskError> {
        self.syncer.check().map_err(at("sync"))?;
        let skipped = self.leave_hole(bytes);
        self.syncer
            .on_written(skipped, 0)
            .map_err(at("leave a hole"))
    }

    fn leave_hole(&mut self, bytes: u64) -> io::Result<()> {
        let (end, old_end) = (self.at + bytes, self.file.bytes()?);
        let left = self.at..end.min(old_end);
        // Existing data must become a hole if possible; a file that is overwritten may have zeros
        // there anyway.
        let is_touched = !matches!(self.hidden, HiddenFile::Untouched(_));
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

    pub(super) fn keep_prologue(&mut self, bytes: &[u8]) {
        let is_found_again = matches!(self.hidden, HiddenFile::Kept(_) | HiddenFile::Untouched(_));
        if is_found_again && self.prologue != bytes {
            *self.kept.prologue.lock() = bytes.to_vec();
        }
        self.syncer.request_sync();
    }

    /// Truncates the file behind its last byte, sets its attributes and syncs it, still without its
    /// final name.
    pub(super) fn settle(&mut self, attributes: Option<FileAttributes>) -> Result<(), DiskError> {
        self.syncer.finish().map_err(at("sync"))?;
        self.end(attributes).map_err(at("sync"))
    }

    fn end(&mut self, attributes: Option<FileAttributes>) -> io::Result<()> {
        if self.file.bytes()? != self.at {
            self.touch()?;
        }
        // The time comes last, as other changes modify it.
        self.file.set_bytes(self.at)?;
        if let Some(attributes) = attributes {
            let private = FileAttributes {
                mode: attributes.mode & !WRITABLE_BY_OTHERS,
                ..attributes
            };
            self.late = Some(attributes).filter(|_| private != attributes);
            self.file.keep_attributes(private)?;
        }
        self.file.sync()
    }

    /// Gives the settled file its final name and syncs the directory. Fails if the name is not
    /// available, or if the sync fails: then a crash may undo the rename.
    pub(super) fn publish(&mut self) -> Result<(), DiskError> {
        let path = self.place.holder_path.join(&self.place.name);
        if let Some(attributes) = self.late.take() {
            self.file
                .keep_attributes(attributes)
                .and_then(|()| self.file.sync())
                .map_err(at("sync"))?;
        }
        self.show()
            .map_err(at(&format!("rename to {}", path.display())))?;
        let synced = self.place.holder.sync_names();
        synced.map_err(|error| DiskError {
            in_place: true,
            ..at("sync the directory")(error)
        })?;
        if let Some(names) = &self.superseded {
            hidden_names::remove_dead(&*self.place.holder, names);
        }
        // The journal is obsolete.
        if let HiddenFile::Kept(names) = std::mem::replace(&mut self.hidden, HiddenFile::Published)
        {
            drop(self.place.holder.remove(&names.journal));
        }
        Ok(())
    }

    fn show(&mut self) -> io::Result<()> {
        let DestPlace {
            holder,
            holder_path,
            name,
            replace,
        } = &self.place;
        if !holder.is_at(holder_path) {
            return Err(Error::other(format!(
                "{} became another directory meanwhile, and nothing was put there; receive again",
                holder_path.display()
            )));
        }
        let hidden = match &self.hidden {
            HiddenFile::Published | HiddenFile::Untouched(_) => return Ok(()),
            HiddenFile::Fleeting(names, _) | HiddenFile::Kept(names) => names.part.clone(),
            HiddenFile::Nameless => match holder.name(&self.file, name) {
                Err(error) if *replace && error.kind() == ErrorKind::AlreadyExists => {
                    // Only a named file can replace another. It is locked first, or a receiver that
                    // starts would remove it as a leftover.
                    self.file.try_lock();
                    let names = HiddenNames::fleeting();
                    holder.name(&self.file, &names.part)?;
                    self.hidden = HiddenFile::fleeting(names.clone(), holder_path);
                    names.part
                }
                named => {
                    self.hidden = HiddenFile::Published;
                    return named;
                }
            },
        };
        if *replace {
            holder.rename(&hidden, holder, name)
        } else {
            holder.rename_to_free(&hidden, name)
        }
    }
}

impl<D: Directory> Kind for FileDest<D> {
    fn handle(&self) -> Option<Box<dyn ReadAt>> {
        Some(Box::new(Open(self.file.try_clone().ok()?)))
    }

    fn has_some(&mut self) -> io::Result<bool> {
        Ok(
            matches!(self.hidden, HiddenFile::Kept(_) | HiddenFile::Untouched(_))
                && self.file.bytes()? > 0,
        )
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

    fn forget(&self) -> io::Result<()> {
        self.file.forget()
    }

    fn put(&mut self) -> (Option<PathBuf>, Result<(), StorageError>) {
        let published = self.publish();
        let is_there = published
            .as_ref()
            .err()
            .is_none_or(|failed| failed.in_place);
        let path = is_there.then(|| self.place.holder_path.join(&self.place.name));
        (path, published.map_err(StorageError::from))
    }
}

impl<D: Directory> Drop for FileDest<D> {
    fn drop(&mut self) {
        drop(self.syncer.finish());
        let holder = &*self.place.holder;
        match &self.hidden {
            HiddenFile::Nameless | HiddenFile::Published | HiddenFile::Untouched(_) => {}
            HiddenFile::Fleeting(names, _) => drop(hidden_names::remove(holder, names)),
            // An empty file is not worth resuming.
            HiddenFile::Kept(names) if self.file.bytes().is_ok_and(|bytes| bytes == 0) => {
                hidden_names::remove(holder, names);
            }
            // Releases the space that was reserved behind its end.
            HiddenFile::Kept(_) => drop(
                self.file
                    .bytes()
                    .and_then(|bytes| self.file.set_bytes(bytes)),
            ),
        }
    }
}

#[derive(Debug)]
struct Kept<F> {
    /// None if nothing is resumed.
    pub journal: Mutex<Option<Journal<F>>>,
    /// Ranges that are written or present, and not yet in the journal.
    pub written: Mutex<Runs>,
    pub prologue: Mutex<Vec<u8>>,
}

impl<F> Kept<F> {
    fn new(journal: Option<Journal<F>>) -> Kept<F> {
        Kept {
            journal: Mutex::new(journal),
            written: Mutex::default(),
            prologue: Mutex::default(),
        }
    }
}

/// Returns a closure that syncs all written data and records it in the journal.
fn syncing<D: Directory>(
    file: &D::File,
    holder: &Arc<D>,
    kept: &Arc<Kept<D::File>>,
) -> io::Result<impl FnMut() -> io::Result<()> + Send + use<D>> {
    let (file, holder, kept) = (file.try_clone()?, Arc::clone(holder), Arc::clone(kept));
    let (mut names_are_synced, mut end) = (false, 0);
    Ok(move || {
        // Data written from now on may be synced, too, but the journal must not claim it yet.
        let runs = std::mem::take(&mut *kept.written.lock());
        end = runs.iter().map(|run| run.end).fold(end, u64::max);
        file.sync_data()?;
        if end > LARGE_BYTES {
            drop(file.forget());
        }
        let mut journal = kept.journal.lock();
        let Some(open) = &mut *journal else {
            return Ok(());
        };
        let prologue = std::mem::take(&mut *kept.prologue.lock());
        let noted = if prologue.is_empty() {
            Ok(())
        } else {
            open.replace_prologue(&prologue)
        };
        let noted = noted.and_then(|()| runs.iter().try_for_each(|run| open.claim(run)));
        let noted = noted.and_then(|()| match names_are_synced {
            true => Ok(()),
            false => open.sync().and_then(|()| holder.sync_names()),
        });
        names_are_synced = true;
        if let Err(error) = noted {
            log::warn!("the journal cannot be written ({error}): less of this run can be resumed");
            *journal = None;
        }
        Ok(())
    })
}
