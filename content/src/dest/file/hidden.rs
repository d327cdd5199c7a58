//! Names of a file while it is being received: none, temporary, kept for a later resume, or final.

use crate::command::Unfinished;
use crate::disk::{COMMON_FILE, Directory, DiskFile, Kind, PRIVATE_FILE, is_taken};
use crate::hidden_names::{HiddenNames, TakenUp, open, take_up};
use crate::journal::{Identity, Journal, JournalError, Recovered, has_old};
use std::io::{self, Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// Attempts to create a hidden file, which another process may remove as a leftover.
const ATTEMPTS: usize = 10;

#[derive(Clone, Debug)]
pub(super) enum HiddenFile {
    Nameless,
    /// A name that is unique to this process and removed with it.
    Fleeting(
        HiddenNames,
        #[expect(dead_code, reason = "it is noted as long as this is there")] Arc<Unfinished>,
    ),
    Kept(HiddenNames),
    /// Its final name: nothing has been changed yet.
    Untouched(HiddenNames),
    Published,
}

impl HiddenFile {
    pub(super) fn fleeting(names: HiddenNames, holder_path: &Path) -> HiddenFile {
        let unfinished = Unfinished::note(&holder_path.join(&names.part));
        HiddenFile::Fleeting(names, Arc::new(unfinished))
    }
}

pub(super) fn open_fleeting<D: Directory>(
    holder: &D,
    holder_path: &Path,
) -> io::Result<(D::File, HiddenFile)> {
    if let Some(file) = create_nameless(holder) {
        return Ok((file, HiddenFile::Nameless));
    }
    for _ in 0..ATTEMPTS {
        let hidden = HiddenNames::fleeting();
        let file = holder.create(&hidden.part, COMMON_FILE)?;
        // Another receiver may have removed it as a leftover before it was locked.
        if file.try_lock() && holder.is_named(&file, &hidden.part) {
            return Ok((file, HiddenFile::fleeting(hidden, holder_path)));
        }
    }
    Err(Error::new(
        ErrorKind::AlreadyExists,
        "temporary files are removed as they are made",
    ))
}

/// Creates a nameless file, if a trial shows that it can be linked later.
fn create_nameless<D: Directory>(holder: &D) -> Option<D::File> {
    let names = HiddenNames::fleeting();
    let tried = holder
        .create_nameless(COMMON_FILE)
        .and_then(|file| holder.name(&file, &names.part));
    tried.and_then(|()| holder.remove(&names.part)).ok()?;
    holder.create_nameless(COMMON_FILE).ok()
}

/// The hidden file of a content, locked, and its journal.
pub(super) struct KeptFile<F> {
    pub file: F,
    pub journal: F,
    pub is_new: bool,
}

pub(super) fn open_kept<D: Directory>(
    holder: &D,
    names: &HiddenNames,
) -> io::Result<TakenUp<KeptFile<D::File>>> {
    for _ in 0..ATTEMPTS {
        let (file, is_new) = match open(holder, &names.part)? {
            TakenUp::Own(file) => (file, false),
            TakenUp::Foreign(name) => return Ok(TakenUp::Foreign(name)),
            TakenUp::Nothing | TakenUp::Busy => match holder.create(&names.part, PRIVATE_FILE) {
                Err(error) if is_taken(&error) => continue,
                created => (created?, true),
            },
        };
        if !file.try_lock() {
            return Ok(TakenUp::Busy);
        }
        if !holder.is_named(&file, &names.part) {
            continue;
        }
        let found = with_journal(holder, names, file, is_new);
        if is_new && !matches!(found, Ok(TakenUp::Own(_))) {
            drop(holder.remove(&names.part));
        }
        return found;
    }
    Ok(TakenUp::Busy)
}

fn with_journal<D: Directory>(
    holder: &D,
    names: &HiddenNames,
    file: D::File,
    is_new: bool,
) -> io::Result<TakenUp<KeptFile<D::File>>> {
    let journal = match take_up(holder, &names.journal)? {
        TakenUp::Foreign(name) => return Ok(TakenUp::Foreign(name)),
        found => found.own(),
    };
    // A file that was at DEST keeps its owner and mode, as this user's journal records.
    let was_dest = file.links()? == 1 && journal.as_ref().map_or(Ok(false), has_old)?;
    if !file.is_private()? && !was_dest {
        return Ok(TakenUp::Foreign(names.part.clone()));
    }
    let journal = match journal.map_or_else(|| holder.create(&names.journal, PRIVATE_FILE), Ok) {
        Err(error) if is_taken(&error) => return Ok(TakenUp::Foreign(names.journal.clone())),
        journal => journal?,
    };
    Ok(TakenUp::Own(KeptFile {
        file,
        journal,
        is_new,
    }))
}

/// Opens the file at DEST for overwriting. None if it does not exist, is not a regular file, has
/// other links, is locked by another process, or an earlier run left data to resume.
pub(super) fn open_untouched<D: Directory>(
    holder: &D,
    name: &Path,
    names: &HiddenNames,
) -> io::Result<Option<D::File>> {
    if holder.kind(&names.part)?.is_some()
        || holder.kind(name)? != Some(Kind::File)
        || matches!(take_up(holder, &names.journal)?, TakenUp::Foreign(_))
    {
        return Ok(None);
    }
    let file = holder.take_up(name)?;
    Ok((file.links()? == 1 && file.try_lock() && holder.is_named(&file, name)).then_some(file))
}

/// Begins the journal of a file that is about to be overwritten and has no hidden name yet.
pub(super) fn begin_journal<D: Directory>(
    holder: &D,
    names: &HiddenNames,
    identity: &Identity,
) -> io::Result<Journal<D::File>> {
    for _ in 0..ATTEMPTS {
        drop(holder.remove(&names.journal));
        let file = holder.create(&names.journal, PRIVATE_FILE)?;
        // Another receiver may have removed it as a leftover before it was locked.
        if file.try_lock() && holder.is_named(&file, &names.journal) {
            return Journal::begin_over(file, identity, true);
        }
    }
    Err(Error::new(
        ErrorKind::AlreadyExists,
        "journals are removed as they are made",
    ))
}

/// Continues the journal of a hidden file, and returns its claims if they are for this content.
pub(super) fn recover<F: DiskFile>(
    file: F,
    identity: &Identity,
    is_new: bool,
) -> io::Result<(Journal<F>, Recovered)> {
    let mut has_old = false;
    match Journal::take_up(file.try_clone()?) {
        Err(JournalError::Newer(version)) => return Err(crate::journal::newer(version)),
        Err(JournalError::System(error)) => return Err(error),
        Err(JournalError::None) => {}
        Ok((journal, recovered)) if recovered.identity.is_of_same(identity) && !is_new => {
            log::info!(
                "an earlier run left {} bytes of it here: they are checked",
                recovered.durable.bytes()
            );
            return Ok((journal, recovered));
        }
        Ok((_, recovered)) => {
            log::info!("an earlier run left a part of other content here: equal data is used");
            has_old = recovered.has_old && !is_new;
        }
    }
    Ok((
        Journal::begin_over(file, identity, has_old)?,
        Recovered::default(),
    ))
}
