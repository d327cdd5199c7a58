//! Names of a file during its transfer: none, a temporary one, one that a later run finds, or its
//! own.

use crate::disk::{COMMON_FILE, Directory, DiskFile, PRIVATE_FILE};
use crate::hidden_names::HiddenNames;
use crate::journal::{Identity, Journal, JournalError, Recovered};
use crate::unfinished::Unfinished;
use std::io::{self, Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// Attempts to create a hidden file, which another process may remove as a leftover.
const ATTEMPTS: usize = 10;

#[derive(Clone, Debug)]
pub(super) enum HiddenFile {
    Nameless,
    /// A name that is unique to this process and removed with it.
    Fleeting(HiddenNames, #[expect(dead_code, reason = "it is noted as long as this is there")] Arc<Unfinished>),
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

pub(super) fn open_fleeting<D: Directory>(holder: &D, holder_path: &Path) -> io::Result<(D::File, HiddenFile)> {
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
    Err(Error::new(ErrorKind::AlreadyExists, "temporary files are removed as they are made"))
}

/// Creates a nameless file, if a trial shows that it can be linked later.
fn create_nameless<D: Directory>(holder: &D) -> Option<D::File> {
    let names = HiddenNames::fleeting();
    let tried = holder.create_nameless(COMMON_FILE).and_then(|file| holder.name(&file, &names.part));
    tried.and_then(|()| holder.remove(&names.part)).ok()?;
    holder.create_nameless(COMMON_FILE).ok()
}

/// Opens or creates the hidden file of a content and returns whether it is new; none if another
/// process holds its lock.
pub(super) fn open_kept<D: Directory>(holder: &D, names: &HiddenNames) -> io::Result<Option<(D::File, bool)>> {
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

/// Opens the file at DEST for overwriting. None if it does not exist, is not a regular file, has
/// other links, is locked by another process, or an earlier run left data to resume.
pub(super) fn open_untouched<D: Directory>(
    holder: &D,
    name: &Path,
    names: &HiddenNames,
) -> io::Result<Option<D::File>> {
    if holder.kind(&names.part)?.is_some() || holder.kind(name)? != Some(crate::disk::Kind::File) {
        return Ok(None);
    }
    let file = holder.take_up(name)?;
    Ok((file.links()? == 1 && file.try_lock() && holder.is_named(&file, name)).then_some(file))
}

/// Opens the journal of a hidden file, with its claims if they are for this content.
pub(super) fn open_journal<D: Directory>(
    holder: &D,
    names: &HiddenNames,
    identity: &Identity,
    is_new: bool,
) -> io::Result<(Journal<D::File>, Recovered)> {
    let file = match holder.take_up(&names.journal) {
        Err(error) if error.kind() == ErrorKind::NotFound => holder.create(&names.journal, PRIVATE_FILE)?,
        there => there?,
    };
    let mut has_old = false;
    match Journal::take_up(file.try_clone()?) {
        Err(JournalError::Newer(version)) => return Err(crate::journal::newer(version)),
        Err(JournalError::System(error)) => return Err(error),
        Err(JournalError::None) => {}
        Ok((journal, recovered)) if recovered.identity.is_of_same(identity) && !is_new => {
            log::info!("an earlier run left {} bytes of it here: they are checked", recovered.durable.bytes());
            return Ok((journal, recovered));
        }
        Ok((_, recovered)) => {
            log::info!("an earlier run left a part of something else here: what is the same is used");
            has_old = recovered.has_old && !is_new;
        }
    }
    Ok((Journal::begin_over(file, identity, has_old)?, Recovered::default()))
}
