//! State beside a file from which a later run resumes.

use crate::disk::{Directory, DiskFile};
use crate::journal::Journal;
use crate::page_cache::LARGE_BYTES;
use crate::runs::Runs;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Kept<F> {
    /// None if nothing is resumed.
    pub journal: Mutex<Option<Journal<F>>>,
    /// Ranges that are written or present, and not yet in the journal.
    pub written: Mutex<Runs>,
    pub prologue: Mutex<Vec<u8>>,
}

impl<F> Kept<F> {
    pub(super) fn new(journal: Option<Journal<F>>) -> Kept<F> {
        Kept { journal: Mutex::new(journal), written: Mutex::default(), prologue: Mutex::default() }
    }
}

/// Returns a closure that syncs all written data and records it in the journal.
pub(super) fn syncing<D: Directory>(
    file: &D::File,
    holder: &Arc<D>,
    kept: &Arc<Kept<D::File>>,
) -> io::Result<impl FnMut() -> io::Result<()> + Send + use<D>> {
    let (file, holder, kept) = (file.try_clone()?, Arc::clone(holder), Arc::clone(kept));
    let (mut names_are_synced, mut end) = (false, 0);
    Ok(move || {
        // Data written from here on may be synced too, but the journal must not claim it yet.
        let runs = std::mem::take(&mut *kept.written.lock());
        end = runs.iter().map(|run| run.end).fold(end, u64::max);
        file.sync_data()?;
        if end > LARGE_BYTES {
            drop(file.forget());
        }
        let mut journal = kept.journal.lock();
        let Some(open) = &mut *journal else { return Ok(()) };
        let prologue = std::mem::take(&mut *kept.prologue.lock());
        let noted = if prologue.is_empty() { Ok(()) } else { open.replace_prologue(&prologue) };
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
