//! A file that is being received, under no name or a hidden one, and gets its own when it is whole.
//!
//! What can be resumed has a hidden name that follows from its own, and a [journal](crate::journal) beside it: it
//! outlives its process, is found by the next one that receives the same name, and is removed when nobody has written
//! to it for a week. All else has no name at all, and nothing is left of it, however its process ends; where the file
//! system cannot make such files (`O_TMPFILE`) it has a hidden name that nobody looks for. A lock says whether a
//! process writes to a hidden file.

#[cfg(test)]
mod crashes;
#[cfg(test)]
mod tests;

use crate::dest::WrittenFile;
use crate::disk::{COMMON_FILE, Directory, DiskFile, PRIVATE_FILE};
use crate::hidden_names::{self, HiddenNames};
use crate::journal::{Identity, Journal, JournalError, Recovered};
use crate::runs::Runs;
use crate::unfinished::Unfinished;
use ethbcast_collectives::session::FileAttributes;
use parking_lot::Mutex;
use std::ffi::OsStr;
use std::io::{self, Error, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read back at once: enough for BLAKE3 to use wide vectors.
const READ_BYTES: usize = 1 << 20;
/// Zeros that are written where nothing else is made of them, in bytes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// How often a hidden name is made anew because somebody took the file for that of a dead process.
const ATTEMPTS: usize = 10;

/// A file that is being received.
#[derive(Debug)]
pub struct PartialFile<D: Directory> {
    holder: Arc<D>,
    /// Where the user said that this is.
    holder_path: PathBuf,
    file: D::File,
    hidden: Hidden,
    /// Where the next bytes go.
    at: u64,
    /// What has been written or was there, and no journal speaks of.
    written: Arc<Mutex<Runs>>,
    /// None where nothing is resumed, and once a sync writes it.
    journal: Mutex<Option<Journal<D::File>>>,
    /// What was on the disk by the journal of the run before.
    claimed: Runs,
    prologue: Arc<Prologue>,
}

/// What a journal has of where the bytes belong.
#[derive(Debug, Default)]
struct Prologue {
    /// What that of the run before had.
    left: Vec<u8>,
    /// What is to be written, and no sync has done yet.
    unwritten: Mutex<Vec<u8>>,
}

/// By which name an unfinished file is known.
#[derive(Clone, Debug)]
enum Hidden {
    /// By none.
    Nameless,
    /// By one that goes with its process.
    Fleeting(HiddenNames, #[expect(dead_code, reason = "it is noted as long as this is there")] Arc<Unfinished>),
    /// By one that is found again.
    Kept(HiddenNames),
    /// By its own.
    Published,
}

impl Hidden {
    /// By a name in this directory that goes with its process, also if its user ends it at once.
    fn fleeting(names: HiddenNames, holder_path: &Path) -> Hidden {
        let unfinished = Unfinished::note(&holder_path.join(&names.part));
        Hidden::Fleeting(names, Arc::new(unfinished))
    }
}

/// What becomes of partial data that a file of the same name left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    /// It is removed, and nothing is left of this run either.
    Not,
    /// It is used as far as it is of this content, and this run leaves its own. Nobody else may read the file until its
    /// mode is set.
    From(Identity),
}

impl<D: Directory> PartialFile<D> {
    /// A file that will be `name` in `holder`, which is at `holder_path`.
    ///
    /// # Errors
    /// If nothing can be written there, or another build's journal is in the way.
    pub fn begin(holder: Arc<D>, holder_path: &Path, name: &OsStr, resume: &Resume) -> io::Result<PartialFile<D>> {
        let names = HiddenNames::of(name.as_bytes());
        let Resume::From(identity) = resume else {
            if holder.take_up(&names.part).is_ok_and(|part| part.try_lock()) && hidden_names::remove(&*holder, &names) {
                log::info!("removed what an earlier run left of {}", name.display());
            }
            return PartialFile::fleeting(holder, holder_path);
        };
        let Some((file, is_new)) = open_kept(&*holder, &names)? else {
            log::warn!("another process receives {}: what comes here cannot be resumed", name.display());
            return PartialFile::fleeting(holder, holder_path);
        };
        // What memory has of it may be what the disk does not: whoever wrote it may have been told of an error, and
        // that is told once. What is read from now on is what the disk has.
        file.sync_data()?;
        file.forget()?;
        let (journal, recovered) = open_journal(&*holder, &names, identity, is_new)?;
        let mut partial = PartialFile::new(holder, holder_path, file, Hidden::Kept(names));
        partial.journal = Mutex::new(Some(journal));
        partial.claimed = recovered.durable;
        partial.prologue = Arc::new(Prologue { left: recovered.prologue, unwritten: Mutex::default() });
        Ok(partial)
    }

    /// One of which nothing is left.
    ///
    /// # Errors
    /// If nothing can be written there.
    pub fn fleeting(holder: Arc<D>, holder_path: &Path) -> io::Result<PartialFile<D>> {
        if let Some(file) = create_nameless(&*holder) {
            return Ok(PartialFile::new(holder, holder_path, file, Hidden::Nameless));
        }
        for _ in 0..ATTEMPTS {
            let hidden = HiddenNames::fleeting();
            let file = holder.create(&hidden.part, COMMON_FILE)?;
            // Before it was locked another receiver may have taken it for that of a dead one.
            if file.try_lock() && holder.is_named(&file, &hidden.part) {
                let hidden = Hidden::fleeting(hidden, holder_path);
                return Ok(PartialFile::new(holder, holder_path, file, hidden));
            }
        }
        Err(Error::new(ErrorKind::AlreadyExists, "temporary files are removed as they are made"))
    }

    fn new(holder: Arc<D>, holder_path: &Path, file: D::File, hidden: Hidden) -> PartialFile<D> {
        PartialFile {
            holder,
            holder_path: holder_path.to_owned(),
            file,
            hidden,
            at: 0,
            written: Arc::default(),
            journal: Mutex::default(),
            claimed: Runs::default(),
            prologue: Arc::default(),
        }
    }

    /// The open file.
    pub fn file(&self) -> &D::File {
        &self.file
    }

    /// What the journal of the run before says was on the disk.
    pub fn claimed(&self) -> &Runs {
        &self.claimed
    }

    /// What the journal of the run before has of where the bytes belong, if they have places of their own.
    pub fn prologue(&self) -> &[u8] {
        &self.prologue.left
    }

    /// Whether what is left of it is found again.
    pub fn is_kept(&self) -> bool {
        matches!(self.hidden, Hidden::Kept(_))
    }

    /// Gives it its name; what has that name already is replaced only if `replace`.
    fn show(&mut self, name: &Path, replace: bool) -> io::Result<()> {
        let hidden = match &self.hidden {
            Hidden::Published => return Ok(()),
            Hidden::Fleeting(names, _) | Hidden::Kept(names) => names.part.clone(),
            Hidden::Nameless => match self.holder.name(&self.file, name) {
                Err(error) if replace && error.kind() == ErrorKind::AlreadyExists => {
                    // Only a name can take the place of another; locked first, or a receiver that begins takes it for
                    // that of a dead one.
                    self.file.try_lock();
                    let names = HiddenNames::fleeting();
                    self.holder.name(&self.file, &names.part)?;
                    self.hidden = Hidden::fleeting(names.clone(), &self.holder_path);
                    names.part
                }
                named => {
                    self.hidden = Hidden::Published;
                    return named;
                }
            },
        };
        if replace {
            self.holder.rename(&hidden, &self.holder, name)
        } else {
            self.holder.rename_to_free(&hidden, name)
        }
    }

    /// Takes away what no longer says anything once the file has its name.
    fn forget_hidden(&mut self) {
        if let Hidden::Kept(names) = std::mem::replace(&mut self.hidden, Hidden::Published) {
            drop(self.holder.remove(&names.journal));
        }
    }
}

/// A file without a name, where it can have one in the end: that is tried with another.
fn create_nameless<D: Directory>(holder: &D) -> Option<D::File> {
    let names = HiddenNames::fleeting();
    let tried = holder.create_nameless(COMMON_FILE).and_then(|file| holder.name(&file, &names.part));
    tried.and_then(|()| holder.remove(&names.part)).ok()?;
    holder.create_nameless(COMMON_FILE).ok()
}

/// The hidden file that is found again, and whether it is new; none if another process has it.
fn open_kept<D: Directory>(holder: &D, names: &HiddenNames) -> io::Result<Option<(D::File, bool)>> {
    for _ in 0..ATTEMPTS {
        let (file, is_new) = match holder.take_up(&names.part) {
            Err(error) if error.kind() == ErrorKind::NotFound => match holder.create(&names.part, PRIVATE_FILE) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                created => (created?, true),
            },
            there => (there?, false),
        };
        if !file.try_lock() {
            return Ok(None);
        }
        if holder.is_named(&file, &names.part) {
            return Ok(Some((file, is_new)));
        }
    }
    Ok(None)
}

/// The journal of a hidden file, and what it says of this content.
fn open_journal<D: Directory>(
    holder: &D,
    names: &HiddenNames,
    identity: &Identity,
    is_new: bool,
) -> io::Result<(Journal<D::File>, Recovered)> {
    let file = match holder.take_up(&names.journal) {
        Err(error) if error.kind() == ErrorKind::NotFound => holder.create(&names.journal, PRIVATE_FILE)?,
        there => there?,
    };
    match Journal::take_up(file.try_clone()?) {
        Err(JournalError::Newer(version)) => return Err(crate::journal::newer(version)),
        Err(JournalError::System(error)) => return Err(error),
        Err(JournalError::None) => {}
        Ok((journal, recovered)) if recovered.identity.is_of_same(identity) && !is_new => {
            log::info!("an earlier run left {} bytes of it here: they are checked", recovered.durable.bytes());
            return Ok((journal, recovered));
        }
        Ok(_) => log::info!("an earlier run left a part of something else here: what is the same is used"),
    }
    Ok((Journal::begin(file, identity)?, Recovered::default()))
}

impl<D: Directory> WrittenFile for PartialFile<D> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.at)?;
        self.keep(bytes.len() as u64)
    }

    fn keep(&mut self, bytes: u64) -> io::Result<()> {
        let end = self.at + bytes;
        self.written.lock().insert(self.at..end);
        self.at = end;
        Ok(())
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let (end, old_end) = (self.at + bytes, self.file.bytes()?);
        let left = self.at..end.min(old_end);
        // What an earlier run left there is no hole, unless it can be made one.
        if !left.is_empty() && self.file.punch(left.clone()).is_ok() {
            self.keep(left.end - left.start)?;
        }
        while self.at < end.min(old_end) {
            let count = (end.min(old_end) - self.at).min(ZEROS.len() as u64);
            self.write_all(&ZEROS[..count as usize])?;
        }
        if end > old_end {
            self.file.set_bytes(end)?;
        }
        self.keep(end - self.at)
    }

    fn keep_prologue(&mut self, bytes: &[u8]) {
        if self.is_kept() && self.prologue.left != bytes {
            *self.prologue.unwritten.lock() = bytes.to_vec();
        }
    }

    fn syncing_handle(&self) -> io::Result<impl FnMut() -> io::Result<()> + Send + 'static> {
        let (file, holder, written) = (self.file.try_clone()?, Arc::clone(&self.holder), Arc::clone(&self.written));
        let (mut journal, kept) = (self.journal.lock().take(), Arc::clone(&self.prologue));
        let mut names_are_synced = false;
        Ok(move || {
            // What is written from now on may be synced, too: no journal speaks of it yet.
            let runs = std::mem::take(&mut *written.lock());
            file.sync_data()?;
            let Some(open) = &mut journal else { return Ok(()) };
            let prologue = std::mem::take(&mut *kept.unwritten.lock());
            let noted = if prologue.is_empty() { Ok(()) } else { open.replace_prologue(&prologue) };
            let noted = noted.and_then(|()| runs.iter().try_for_each(|run| open.claim(run)));
            let noted = noted.and_then(|()| match names_are_synced {
                true => Ok(()),
                false => open.sync().and_then(|()| holder.sync_names()),
            });
            names_are_synced = true;
            if let Err(error) = noted {
                log::warn!("the journal cannot be written ({error}): less of this run can be resumed");
                journal = None;
            }
            Ok(())
        })
    }

    fn end(&mut self, attributes: Option<FileAttributes>) -> io::Result<()> {
        // The time comes last: whatever else is done changes it.
        self.file.set_bytes(self.at)?;
        attributes.map_or(Ok(()), |attributes| self.file.keep_attributes(attributes))?;
        self.file.sync()
    }

    fn read_back(&mut self, take: impl FnMut(&[u8])) -> io::Result<()> {
        read_back(&self.file, self.at, take)
    }

    fn name(&mut self, path: &Path, replace: bool) -> io::Result<()> {
        if !self.holder.is_at(&self.holder_path) {
            return Err(Error::other(format!(
                "{} became another directory meanwhile, and nothing was put there; receive again",
                self.holder_path.display()
            )));
        }
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
        self.show(Path::new(name), replace)
    }

    fn sync_name(&mut self, _path: &Path) -> io::Result<()> {
        self.holder.sync_names()?;
        self.forget_hidden();
        Ok(())
    }
}

/// The first `bytes` bytes of what was synced, or all if there are fewer, as the disk has them.
pub(crate) fn read_back<F: DiskFile>(file: &F, bytes: u64, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    file.forget()?;
    let mut buffer = vec![0; READ_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let most = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(READ_BYTES);
        match file.read_at(&mut buffer[..most], offset)? {
            0 => break,
            count => {
                take(&buffer[..count]);
                offset += count as u64;
            }
        }
    }
    Ok(())
}

impl<D: Directory> Drop for PartialFile<D> {
    fn drop(&mut self) {
        match &self.hidden {
            Hidden::Nameless | Hidden::Published => {}
            Hidden::Fleeting(names, _) => drop(hidden_names::remove(&*self.holder, names)),
            // Of nothing there is nothing to resume.
            Hidden::Kept(names) if self.file.bytes().is_ok_and(|bytes| bytes == 0) => {
                hidden_names::remove(&*self.holder, names);
            }
            // What was reserved behind it is given back.
            Hidden::Kept(_) => drop(self.file.bytes().and_then(|bytes| self.file.set_bytes(bytes))),
        }
    }
}
