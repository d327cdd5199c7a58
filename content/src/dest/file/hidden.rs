//! The names of a file that is being received: none, one that goes with its process, one that is found again, its own.

use crate::disk::{COMMON_FILE, Directory, DiskFile, PRIVATE_FILE};
use crate::hidden_names::HiddenNames;
use crate::journal::{Identity, Journal, JournalError, Recovered};
use crate::unfinished::Unfinished;
use std::io::{self, Error, ErrorKind};
use std::path::Path;
use std::sync::Arc;

/// How often a hidden name is made anew because somebody took the file for that of a dead process.
const ATTEMPTS: usize = 10;

/// By which name an unfinished file is known.
#[derive(Clone, Debug)]
pub(super) enum Hidden {
    /// By none.
    Nameless,
    /// By one that goes with its process.
    Fleeting(HiddenNames, #[expect(dead_code, reason = "it is noted as long as this is there")] Arc<Unfinished>),
    /// By one that is found again.
    Kept(HiddenNames),
    /// By its own, as all that came so far is what it has.
    Untouched(HiddenNames),
    /// By its own.
    Published,
}

impl Hidden {
    /// By a name in this directory that goes with its process, also if its user ends it at once.
    pub(super) fn fleeting(names: HiddenNames, holder_path: &Path) -> Hidden {
        let unfinished = Unfinished::note(&holder_path.join(&names.part));
        Hidden::Fleeting(names, Arc::new(unfinished))
    }
}

/// A file of which nothing is left.
pub(super) fn open_fleeting<D: Directory>(holder: &D, holder_path: &Path) -> io::Result<(D::File, Hidden)> {
    if let Some(file) = create_nameless(holder) {
        return Ok((file, Hidden::Nameless));
    }
    for _ in 0..ATTEMPTS {
        let hidden = HiddenNames::fleeting();
        let file = holder.create(&hidden.part, COMMON_FILE)?;
        // Before it was locked another receiver may have taken it for that of a dead one.
        if file.try_lock() && holder.is_named(&file, &hidden.part) {
            return Ok((file, Hidden::fleeting(hidden, holder_path)));
        }
    }
    Err(Error::new(ErrorKind::AlreadyExists, "temporary files are removed as they are made"))
}

/// A file without a name, where it can have one in the end: that is tried with another.
fn create_nameless<D: Directory>(holder: &D) -> Option<D::File> {
    let names = HiddenNames::fleeting();
    let tried = holder.create_nameless(COMMON_FILE).and_then(|file| holder.name(&file, &names.part));
    tried.and_then(|()| holder.remove(&names.part)).ok()?;
    holder.create_nameless(COMMON_FILE).ok()
}

/// The hidden file that is found again, and whether it is new; none if another process has it.
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

/// What has the name already, to be written over; none if that is nothing, no file, has other names, is written by
/// another process, or an earlier run left something that goes on.
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

/// The journal of a hidden file, and what it says of this content.
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
