//! A directory that is being built, from its manifest to its name, with all that it takes.

use super::aside::Aside;
use super::building::Building;
use super::current::BuiltFiles;
use super::hidden::Hidden;
use super::leftover::{self, Leftover};
use super::place::Place;
use super::putting::Putting;
use crate::disk::{Directory, Lack, PRIVATE_FILE};
use crate::journal::{Identity, Journal};
use crate::layout::{Layout, Verdict};
use crate::manifest::Manifest;
use crate::replay::{Replay, Troubles};
use crate::runs::Runs;
use crate::syncer::{Pace, Syncer};
use crate::trouble::trouble;
use ethbcast_collectives::session::live::StorageError;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes after which the disk is asked to begin writing.
const SYNC_BYTES: u64 = 64 << 20;

/// The fields are dropped in this order.
#[derive(Debug)]
pub(super) struct Work<D: Directory> {
    building: Building<D>,
    syncer: Syncer,
    layout: Arc<Layout>,
    troubles: Troubles,
    hidden: Hidden<D>,
    /// What an earlier run left and could not be taken up, until all that is like it has been copied.
    _leftover: Option<Hidden<D>>,
    place: Place<D>,
}

/// What has become of a directory.
#[derive(Debug)]
pub(super) struct Published {
    /// Where it is.
    pub path: PathBuf,
    /// What was left out, and why.
    pub lost: Vec<String>,
    /// What it took the place of and cannot be removed.
    pub remains: Vec<String>,
    /// What of it could not be kept here.
    pub lacks: Vec<(Lack, String)>,
}

/// Where a directory is built: what an earlier run left, or a new one.
struct Site<D: Directory> {
    hidden: Hidden<D>,
    journal: Option<Journal<D::File>>,
    leftover: Option<Hidden<D>>,
    is_taken_up: bool,
}

impl<D: Directory> Site<D> {
    /// What an earlier run left, if it is of the same manifest and in the right place; else a new one, with a journal
    /// if it is known of which content.
    fn find(
        place: &Place<D>,
        encoded: &[u8],
        identity: Option<&Identity>,
        leftover: Option<Leftover<D>>,
    ) -> io::Result<Site<D>> {
        let mut old = None;
        if let Some(leftover) = leftover {
            if *leftover.encoded == encoded && leftover.is_in(place.holder()) {
                let Leftover { hidden, journal, .. } = leftover;
                return Ok(Site { hidden, journal: Some(journal), leftover: None, is_taken_up: true });
            }
            let mut hidden = leftover.hidden;
            hidden.give_up()?;
            old = Some(hidden);
        }
        let new = |hidden, journal| Site { hidden, journal, leftover: old, is_taken_up: false };
        let Some(identity) = identity else { return Ok(new(Hidden::create(place.holder())?, None)) };
        let names = leftover::names(identity);
        let hidden = match Hidden::create_named(place.holder(), &names) {
            // Another process receives the same, or somebody has put something there.
            Err(error) if crate::disk::is_taken(&error) => return Ok(new(Hidden::create(place.holder())?, None)),
            created => created?,
        };
        drop(place.holder().remove(hidden.journal()));
        let mut journal = Journal::begin(place.holder().create(hidden.journal(), PRIVATE_FILE)?, identity)?;
        journal.keep_prologue(encoded)?;
        hidden.keep();
        Ok(new(hidden, Some(journal)))
    }
}

impl<D: Directory> Work<D> {
    /// Begins to build what the manifest says, which is `encoded`.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn begin(
        place: Place<D>,
        manifest: Manifest,
        encoded: &[u8],
        identity: Option<&Identity>,
        leftover: Option<Leftover<D>>,
    ) -> io::Result<Work<D>> {
        let mut work = Work::begin_at(Pace::Every(SYNC_BYTES), place, manifest, encoded, identity, leftover)?;
        work.building.start_makers();
        Ok(work)
    }

    /// The same on one thread, which syncs at this pace.
    pub(super) fn begin_at(
        pace: Pace,
        place: Place<D>,
        manifest: Manifest,
        encoded: &[u8],
        identity: Option<&Identity>,
        leftover: Option<Leftover<D>>,
    ) -> io::Result<Work<D>> {
        let Site { hidden, journal, leftover: _leftover, is_taken_up } =
            Site::find(&place, encoded, identity, leftover)?;
        let layout = Arc::new(Layout::new(manifest, encoded.len() as u64));
        let troubles = Troubles::default();
        let root = Arc::clone(hidden.root());
        let (written, begin) = (Arc::<Mutex<Runs>>::default(), encoded.len() as u64);
        let syncer = Syncer::start(pace, syncing(&*root, &written, journal)?)?;
        let mut building = Building::new(root, Arc::clone(&layout), begin, Arc::clone(&troubles), written, is_taken_up);
        if place.is_in_place() {
            building.put_into(place.holder().try_clone()?);
        }
        Ok(Work { building, syncer, layout, troubles, hidden, _leftover, place })
    }

    /// The stream as far as it is built, for those who lack a part of it.
    pub(super) fn replay(&self, encoded: Vec<u8>) -> io::Result<Replay<BuiltFiles<D>>> {
        let moved = Some(self.place.holder().try_clone()?);
        let files = BuiltFiles::new(&self.layout, self.hidden.root(), moved).made_by(self.building.orders());
        Ok(Replay::new(Arc::clone(&self.layout), Arc::new(encoded), Arc::clone(&self.troubles), files))
    }

    /// Takes the next bytes of the stream; they `are_here` if an earlier run wrote them.
    pub(super) fn take(&mut self, bytes: &[u8], are_here: bool) -> Result<(), StorageError> {
        if are_here {
            self.building.keep(bytes)?
        } else {
            self.building.write(bytes)?
        }
        self.syncer.heed(Ok(()), bytes.len() as u64).map_err(|error| trouble("sync", error))
    }

    /// All has come: makes it last.
    pub(super) fn settle(&mut self) -> Result<(), StorageError> {
        self.building.finish()?;
        let synced = self.syncer.finish().and_then(|()| self.hidden.root().sync_file_system());
        synced.map_err(|error| trouble("sync", error))
    }

    /// Whether all data came whole.
    pub(super) fn is_whole(&self) -> bool {
        self.troubles.lock().values().all(|trouble| trouble.verdict == Verdict::Whole)
    }

    /// Where it will be.
    pub(super) fn path(&self) -> PathBuf {
        self.place.path()
    }

    /// Whether DEST has files of what comes, and may lack the others.
    pub(super) fn is_mixed(&self) -> bool {
        self.building.putting().is_some_and(Putting::has_changed)
    }

    /// Shows it, and then removes what it took the place of.
    pub(super) fn publish(self) -> Result<Published, StorageError> {
        let manifest = self.layout.manifest();
        let lost: HashSet<usize> = self.troubles.lock().keys().copied().collect();
        let done = self.building.putting().map(|putting| putting.done() | &lost);
        let aside = self.place.publish(&self.hidden, manifest, done.as_ref().unwrap_or(&lost))?;
        // It has its name: of the hidden one nothing more is said.
        drop(self.hidden.forget_journal());
        let removed = self.hidden.remove().map_err(|error| (self.hidden.name().to_owned(), error));
        let removed = [removed, aside.map_or(Ok(()), Aside::remove)];
        let remains =
            removed.into_iter().filter_map(Result::err).map(|(name, error)| self.place.remains(&name, &error));
        let line = |entry: usize| format!("{}: {}", manifest.shown(entry), self.troubles.lock()[&entry].why);
        let mut entries: Vec<usize> = lost.into_iter().collect();
        entries.sort_unstable();
        let lost = entries.into_iter().map(line).collect();
        Ok(Published { path: self.place.path(), lost, remains: remains.collect(), lacks: self.building.lacks() })
    }
}

/// What puts on the disk all that has been written, and says so in the journal.
fn syncing<D: Directory>(
    root: &D,
    written: &Arc<Mutex<Runs>>,
    mut journal: Option<Journal<D::File>>,
) -> io::Result<impl FnMut() -> io::Result<()> + Send + use<D>> {
    let (root, written) = (root.try_clone()?, Arc::clone(written));
    Ok(move || {
        // What is written from now on may be synced, too: no journal speaks of it yet.
        let runs = std::mem::take(&mut *written.lock());
        root.sync_file_system()?;
        let noted = journal.as_mut().map(|journal| runs.iter().try_for_each(|run| journal.claim(run)));
        if let Some(Err(error)) = noted {
            log::warn!("the journal cannot be written ({error}): less of this run can be resumed");
            journal = None;
        }
        Ok(())
    })
}
