//! Receiving of a directory, from the manifest to the final rename, with its open files and locks.

use super::building::{Building, BuiltFiles};
use super::makers::Putting;
use super::place::{HiddenTree, Place};
use crate::disk::{Directory, DiskFile, Lack, LeftOut, PRIVATE_FILE, Setter, is_taken};
use crate::hidden_names::{HiddenNames, TakenUp, take_up, take_up_tree};
use crate::journal::{Identity, Journal, JournalError, Runs};
use crate::layout::{Layout, Replay, Troubles, Verdict};
use crate::manifest::{HEAD_BYTES, Head, Manifest, ManifestError};
use crate::syncer::{Pace, Syncer};
use crate::trouble;
use ethbcast_collectives::lock::{Mutex, RwLock};
use ethbcast_collectives::session::live::StorageError;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SYNC_BYTES: u64 = 64 << 20;

/// Fields are dropped in this order.
#[derive(Debug)]
pub(super) struct Work<D: Directory> {
    building: Building<D>,
    syncer: Syncer,
    layout: Arc<Layout>,
    troubles: Troubles,
    hidden: HiddenTree<D>,
    /// A leftover that cannot be resumed, kept until its equal chunks have been copied.
    _leftover: Option<HiddenTree<D>>,
    place: Place<D>,
}

#[derive(Debug)]
pub(super) struct Published {
    pub path: PathBuf,
    pub lost: Vec<String>,
    pub remains: Vec<String>,
    pub lacks: Vec<(Lack, String)>,
    pub left_out: LeftOut,
}

struct Site<D: Directory> {
    hidden: HiddenTree<D>,
    journal: Option<Journal<D::File>>,
    leftover: Option<HiddenTree<D>>,
    is_taken_up: bool,
}

impl<D: Directory> Site<D> {
    /// Uses the leftover if it has the same manifest and is in the right place, otherwise creates a
    /// directory, with a journal if the content's identity is known.
    fn find(
        place: &Place<D>,
        encoded: &[u8],
        identity: Option<&Identity>,
        leftover: Option<Leftover<D>>,
    ) -> io::Result<Site<D>> {
        let mut old = None;
        if let Some(leftover) = leftover {
            if *leftover.encoded == encoded && leftover.is_in(place.holder()) {
                let Leftover {
                    hidden, journal, ..
                } = leftover;
                return Ok(Site {
                    hidden,
                    journal: Some(journal),
                    leftover: None,
                    is_taken_up: true,
                });
            }
            let mut hidden = leftover.hidden;
            hidden.give_up()?;
            old = Some(hidden);
        }
        let new = |hidden, journal| Site {
            hidden,
            journal,
            leftover: old,
            is_taken_up: false,
        };
        let Some(identity) = identity else {
            return Ok(new(HiddenTree::create(place.holder())?, None));
        };
        let names = HiddenNames::of_content(identity);
        let hidden = match HiddenTree::create_named(place.holder(), &names) {
            // Another process receives this content, or the name is taken.
            Err(error) if is_taken(&error) => {
                return Ok(new(HiddenTree::create(place.holder())?, None));
            }
            created => created?,
        };
        drop(place.holder().remove(hidden.journal()));
        let file = match place.holder().create(hidden.journal(), PRIVATE_FILE) {
            // Another user's journal is there, and stays.
            Err(error) if is_taken(&error) => return Ok(new(hidden, None)),
            created => created?,
        };
        file.try_lock();
        let mut journal = Journal::begin(file, identity)?;
        journal.keep_prologue(encoded)?;
        hidden.keep();
        Ok(new(hidden, Some(journal)))
    }
}

impl<D: Directory> Work<D> {
    pub(super) fn begin(
        place: Place<D>,
        manifest: Manifest,
        encoded: &[u8],
        identity: Option<&Identity>,
        leftover: Option<Leftover<D>>,
    ) -> io::Result<Work<D>> {
        let mut work = Work::begin_at(
            Pace::Every(SYNC_BYTES),
            place,
            manifest,
            encoded,
            identity,
            leftover,
        )?;
        work.building.start_makers();
        Ok(work)
    }

    pub(super) fn begin_at(
        pace: Pace,
        place: Place<D>,
        manifest: Manifest,
        encoded: &[u8],
        identity: Option<&Identity>,
        leftover: Option<Leftover<D>>,
    ) -> io::Result<Work<D>> {
        let Site {
            hidden,
            journal,
            leftover: _leftover,
            is_taken_up,
        } = Site::find(&place, encoded, identity, leftover)?;
        let layout = Arc::new(Layout::new(manifest, encoded.len() as u64));
        let troubles = Troubles::default();
        let root = Arc::clone(hidden.root());
        let (written, begin) = (Arc::<Mutex<Runs>>::default(), encoded.len() as u64);
        let syncer = Syncer::start(pace, syncing(&*root, &written, journal)?)?;
        let setter = Setter::new(place.target.accept.clone());
        let mut building = Building::new(
            root,
            Arc::clone(&layout),
            setter,
            begin,
            Arc::clone(&troubles),
            written,
            is_taken_up,
        );
        if place.is_in_place() {
            building.put_into(place.holder().try_clone()?);
        }
        Ok(Work {
            building,
            syncer,
            layout,
            troubles,
            hidden,
            _leftover,
            place,
        })
    }

    pub(super) fn replay(&self, encoded: Vec<u8>) -> io::Result<Replay<BuiltFiles<D>>> {
        let moved = Some(self.place.holder().try_clone()?);
        let files = BuiltFiles::new(&self.layout, self.hidden.root(), moved)
            .made_by(self.building.orders());
        Ok(Replay::new(
            Arc::clone(&self.layout),
            Arc::new(encoded),
            Arc::clone(&self.troubles),
            files,
        ))
    }

    pub(super) fn take(&mut self, bytes: &[u8], are_here: bool) -> Result<(), StorageError> {
        if are_here {
            self.building.keep(bytes)?
        } else {
            self.building.write(bytes)?
        }
        self.syncer
            .on_written(Ok(()), bytes.len() as u64)
            .map_err(|error| trouble("sync", error))
    }

    pub(super) fn settle(&mut self) -> Result<(), StorageError> {
        self.building.finish()?;
        let synced = self
            .syncer
            .finish()
            .and_then(|()| self.hidden.root().sync_file_system());
        synced.map_err(|error| trouble("sync", error))
    }

    pub(super) fn is_whole(&self) -> bool {
        self.troubles
            .lock()
            .values()
            .all(|trouble| trouble.verdict == Verdict::Whole)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.place.path()
    }

    pub(super) fn is_mixed(&self) -> bool {
        self.building.putting().is_some_and(Putting::has_changed)
    }

    pub(super) fn publish(self) -> Result<Published, StorageError> {
        let manifest = self.layout.manifest();
        let lost: HashSet<usize> = self.troubles.lock().keys().copied().collect();
        let nodes = manifest.entries().iter().enumerate();
        let not_made = nodes
            .filter(|(_, entry)| !self.building.setter.takes_node(&entry.node))
            .map(|(at, _)| at);
        let not_made: HashSet<usize> = not_made.chain(lost.iter().copied()).collect();
        let done = self
            .building
            .putting()
            .map(|putting| putting.done() | &not_made);
        if done.is_none() {
            self.building.set_own_attributes()?;
        }
        let shown = self
            .place
            .publish(&self.hidden, manifest, done.as_ref().unwrap_or(&lost))?;
        // The hidden name no longer needs a journal.
        drop(self.hidden.forget_journal());
        let hidden = self
            .hidden
            .remove()
            .err()
            .map(|error| (self.hidden.name().to_owned(), error));
        let remains = hidden.into_iter().chain(shown.remove());
        let remains = remains.map(|(name, error)| self.place.remains(&name, &error));
        let line = |entry: usize| {
            format!(
                "{}: {}",
                manifest.shown(entry),
                self.troubles.lock()[&entry].why
            )
        };
        let mut entries: Vec<usize> = lost.into_iter().collect();
        entries.sort_unstable();
        let lost = entries.into_iter().map(line).collect();
        let (lacks, left_out) = (
            self.building.setter.lacks(),
            self.building.setter.left_out(),
        );
        Ok(Published {
            path: self.place.path(),
            lost,
            remains: remains.collect(),
            lacks,
            left_out,
        })
    }
}

/// Returns a closure that syncs all written data and records it in the journal.
fn syncing<D: Directory>(
    root: &D,
    written: &Arc<Mutex<Runs>>,
    mut journal: Option<Journal<D::File>>,
) -> io::Result<impl FnMut() -> io::Result<()> + Send + use<D>> {
    let (root, written) = (root.try_clone()?, Arc::clone(written));
    Ok(move || {
        // Data written from now on may be synced, too, but the journal must not claim it yet.
        let runs = std::mem::take(&mut *written.lock());
        root.sync_file_system()?;
        let noted = journal
            .as_mut()
            .map(|journal| runs.iter().try_for_each(|run| journal.claim(run)));
        if let Some(Err(error)) = noted {
            log::warn!("the journal cannot be written ({error}): less of this run can be resumed");
            journal = None;
        }
        Ok(())
    })
}

#[derive(Debug)]
pub(super) struct Leftover<D: Directory> {
    pub hidden: HiddenTree<D>,
    pub journal: Journal<D::File>,
    pub encoded: Arc<Vec<u8>>,
    layout: Arc<Layout>,
}

impl<D: Directory> Leftover<D> {
    /// Opens the leftover of this content in `holder`. Fails if a newer build left it, or it cannot
    /// be read.
    pub(super) fn find(holder: &D, identity: &Identity) -> io::Result<TakenUp<Leftover<D>>> {
        let names = HiddenNames::of_content(identity);
        let file = match take_up(holder, &names.journal)? {
            TakenUp::Own(file) => file,
            TakenUp::Foreign(name) => return Ok(TakenUp::Foreign(name)),
            TakenUp::Nothing | TakenUp::Busy => {
                let found = take_up_tree(holder, &names.tree)?;
                return Ok(if let TakenUp::Foreign(name) = found {
                    TakenUp::Foreign(name)
                } else {
                    TakenUp::Nothing
                });
            }
        };
        let hidden = match HiddenTree::open(holder, names)? {
            TakenUp::Own(hidden) => hidden,
            TakenUp::Nothing => return Ok(TakenUp::Nothing),
            TakenUp::Busy => return Ok(TakenUp::Busy),
            TakenUp::Foreign(name) => return Ok(TakenUp::Foreign(name)),
        };
        file.try_lock();
        let taken_up = Journal::take_up(file);
        // No run can use it, unless a newer build can read it.
        let (journal, recovered) = match taken_up {
            Ok(taken_up) => taken_up,
            Err(JournalError::None) => return Ok(TakenUp::Nothing),
            Err(JournalError::Newer(version)) => {
                hidden.keep();
                return Err(crate::journal::newer(version));
            }
            Err(JournalError::System(error)) => {
                hidden.keep();
                return Err(error);
            }
        };
        let manifest = Leftover::<D>::manifest(&recovered.prologue)
            .filter(|_| recovered.identity.is_of_same(identity));
        let Some(manifest) = manifest else {
            return Ok(TakenUp::Nothing);
        };
        hidden.keep();
        // The page cache may hold bytes that the disk does not.
        hidden.root().sync_file_system()?;
        let layout = Arc::new(Layout::new(manifest, recovered.prologue.len() as u64));
        log::info!(
            "an earlier run left {} bytes of it here: they are checked",
            recovered.durable.bytes()
        );
        let encoded = Arc::new(recovered.prologue);
        Ok(TakenUp::Own(Leftover {
            hidden,
            journal,
            encoded,
            layout,
        }))
    }

    fn manifest(encoded: &[u8]) -> Option<Manifest> {
        let head = Head::read(encoded.first_chunk::<HEAD_BYTES>()?).ok()?;
        Manifest::decode(&head, encoded.get(HEAD_BYTES..)?).ok()
    }

    pub(super) fn replay(&self) -> Replay<BuiltFiles<D>> {
        let files = BuiltFiles::new(&self.layout, self.hidden.root(), None);
        Replay::new(
            Arc::clone(&self.layout),
            Arc::clone(&self.encoded),
            Troubles::default(),
            files,
        )
    }

    pub(super) fn is_in(&self, holder: &D) -> bool {
        holder.is_own(self.hidden.root(), Path::new(self.hidden.name()))
    }
}

#[derive(Debug, Default)]
pub(super) struct Incoming {
    head: Option<Head>,
    manifest: Option<Manifest>,
}

impl Incoming {
    pub(super) fn take<'a>(
        &mut self,
        mut bytes: &'a [u8],
        encoded: &RwLock<Vec<u8>>,
    ) -> Result<&'a [u8], ManifestError> {
        let mut encoded = encoded.write();
        if self.head.is_none() {
            bytes = fill(&mut encoded, HEAD_BYTES, bytes);
            if encoded.len() == HEAD_BYTES {
                self.head = Some(Head::read(encoded[..].try_into().expect("so long"))?);
            }
        }
        if let Some(head) = &self.head {
            let whole = HEAD_BYTES + head.manifest_bytes();
            bytes = fill(&mut encoded, whole, bytes);
            if encoded.len() == whole {
                self.manifest = Some(Manifest::decode(head, &encoded[HEAD_BYTES..])?);
            }
        }
        Ok(bytes)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.manifest.is_some()
    }

    pub(super) fn take_manifest(&mut self) -> Option<Manifest> {
        self.manifest.take()
    }
}

fn fill<'a>(kept: &mut Vec<u8>, until: usize, bytes: &'a [u8]) -> &'a [u8] {
    let (now, later) = bytes.split_at(bytes.len().min(until - kept.len()));
    kept.extend_from_slice(now);
    later
}
