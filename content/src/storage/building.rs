//! Creation of a received directory's files from its stream, as the bytes come.

use super::makers::{Failed, Makers, Orders, Putting, SMALL_BYTES};
use crate::disk::{
    Directory, DiskFile, Kind, Lack, PRIVATE_FILE, Privilege, Setter, is_taken, one,
};
use crate::hidden_names::{HiddenNames, is_hidden};
use crate::journal::{Runs, read_all};
use crate::layout::{Layout, OpenEntry, Piece, Trouble, Troubles, Verdict};
use crate::manifest::{Entry, Manifest, Node};
use crate::trial::has_none;
use crate::trouble;
use ethbcast_collectives::OptionName;
use ethbcast_collectives::lock::Mutex;
use ethbcast_collectives::session::Outcome;
use ethbcast_collectives::session::live::{StorageError, is_full};
use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A small file whose data and verdict are complete in the next bytes.
#[derive(Clone, Copy, Debug)]
struct SmallFile {
    entry: usize,
    bytes: usize,
}

#[derive(Debug)]
pub(super) struct Building<D: Directory> {
    root: Arc<D>,
    pub(super) layout: Arc<Layout>,
    pub(super) troubles: Troubles,
    pub(super) setter: Arc<Setter>,
    /// Ranges of the stream that are written or were present.
    written: Arc<Mutex<Runs>>,
    /// Threads that create small files; none: this thread creates them.
    makers: Option<Makers<D>>,
    at: u64,
    next: usize,
    directory: Option<(u32, Arc<D>)>,
    pub(super) file: Option<Current<D::File>>,
    /// Puts files into DEST one by one, if they are not shown together.
    pub(super) putting: Option<Putting<D>>,
    pub(super) is_taken_up: bool,
}

impl<D: Directory> Building<D> {
    /// Builds in `root`. It is empty, or `is_taken_up` from an earlier run with an equal manifest.
    /// The manifest has been taken off the stream.
    pub(super) fn new(
        root: Arc<D>,
        layout: Arc<Layout>,
        setter: Setter,
        manifest_bytes: u64,
        troubles: Troubles,
        written: Arc<Mutex<Runs>>,
        is_taken_up: bool,
    ) -> Building<D> {
        Building {
            root,
            layout,
            troubles,
            setter: Arc::new(setter),
            written,
            makers: None,
            at: manifest_bytes,
            next: 1,
            directory: None,
            file: None,
            putting: None,
            is_taken_up,
        }
    }

    /// Puts each file into the existing directory `dest` once it is whole. Files that are equal
    /// there are left alone.
    pub(super) fn put_into(&mut self, dest: D) {
        self.putting = Some(Putting::new(
            dest,
            Arc::clone(&self.root),
            Arc::clone(&self.layout),
        ));
    }

    pub(super) fn putting(&self) -> Option<&Putting<D>> {
        self.putting.as_ref()
    }

    /// Creates small files on several threads. Resumed files are checked one by one instead.
    pub(super) fn start_makers(&mut self) {
        if !self.is_taken_up && self.putting.is_none() {
            self.makers = Makers::start(&self.layout, &self.setter, &self.written);
        }
    }

    pub(super) fn orders(&self) -> Option<Arc<Orders<D>>> {
        self.makers
            .as_ref()
            .map(|makers| Arc::clone(makers.orders()))
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.take(bytes, true)
    }

    /// Takes the next bytes of the stream, which are in place already if the build is resumed.
    pub(super) fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.take(bytes, !self.is_taken_up)
    }

    fn take(&mut self, mut bytes: &[u8], is_new: bool) -> Result<(), StorageError> {
        let all = self.take_all(&mut bytes, is_new);
        if let Some(makers) = &mut self.makers {
            makers.flush();
        }
        all.and_then(|()| self.heed_makers())
    }

    fn take_all(&mut self, bytes: &mut &[u8], is_new: bool) -> Result<(), StorageError> {
        while !bytes.is_empty() {
            let piece = self.layout.at(self.at);
            if let Some(taken) = piece
                .filter(|_| is_new)
                .and_then(|piece| self.small(piece, bytes))
            {
                self.order(taken, bytes)?;
                *bytes = &bytes[taken.bytes + 1..];
                continue;
            }
            let taken = match piece {
                Some(Piece::Data {
                    entry,
                    offset,
                    bytes: most,
                }) => {
                    let count = usize::try_from(most).unwrap_or(usize::MAX).min(bytes.len());
                    self.make_until(entry)?;
                    let done = self.with_room(|building| {
                        building.put_data(entry, &bytes[..count], offset, is_new)
                    });
                    done.map_err(|error| self.failed("write", entry, error))?;
                    count
                }
                Some(Piece::Verdict { entry }) => {
                    self.make_until(entry)?;
                    self.finish_file(entry, Verdict::of(bytes[0]))?;
                    1
                }
                Some(Piece::Manifest { .. }) | None => {
                    let text = "more came than the list of files says: send again with the same build on all hosts";
                    return Err(StorageError::new(Outcome::Damaged, text));
                }
            };
            let end = self.at + taken as u64;
            self.written.lock().insert(self.at..end);
            self.at = end;
            *bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Returns the small file whose data and verdict are completely in `bytes`, if threads create
    /// small files.
    fn small(&self, piece: Piece, bytes: &[u8]) -> Option<SmallFile> {
        let (entry, here) = match piece {
            Piece::Data {
                entry,
                offset: 0,
                bytes,
            } => (entry, bytes),
            Piece::Verdict { entry } => (entry, 0),
            _ => return None,
        };
        let data = self.layout.data(entry)?;
        let is_all = self.next <= entry && data.extents().is_none() && data.bytes() == here;
        let verdict = bytes.get(usize::try_from(here).ok()?)?;
        let is_small = here <= SMALL_BYTES && Verdict::of(*verdict) == Verdict::Whole;
        (self.makers.is_some() && is_all && is_small).then_some(SmallFile {
            entry,
            bytes: here as usize,
        })
    }

    fn order(&mut self, file: SmallFile, bytes: &[u8]) -> Result<(), StorageError> {
        let SmallFile {
            entry,
            bytes: count,
        } = file;
        self.make_until(entry - 1)?;
        self.next = entry + 1;
        let parent = self.layout.manifest().entries()[entry].parent;
        if let Err(error) = self.enter(parent) {
            return Err(self.failed("make", entry, error));
        }
        let directory = self
            .directory
            .as_ref()
            .map(|(_, directory)| Arc::clone(directory));
        let end = self.at + count as u64 + 1;
        if let (Some(makers), Some(directory)) = (&mut self.makers, directory) {
            makers.make(entry, directory, &bytes[..count], self.at..end);
        }
        self.at = end;
        Ok(())
    }

    fn heed_makers(&self) -> Result<(), StorageError> {
        match self.makers.as_ref().and_then(Makers::take_failed) {
            Some(Failed {
                entry,
                doing: "make",
                error,
            }) if is_taken(&error) => Err(self.collision(entry)),
            Some(Failed {
                entry,
                doing,
                error,
            }) => Err(self.failed(doing, entry, error)),
            None => Ok(()),
        }
    }

    /// Finishes the build: makes the remaining entries, removes files that are not whole, and sets
    /// the attributes of the directories in it.
    pub(super) fn finish(&mut self) -> Result<(), StorageError> {
        if self.at != self.layout.bytes() {
            let text = "less came than the list of files says: send again with the same build on all hosts";
            return Err(StorageError::new(Outcome::Damaged, text));
        }
        let layout = Arc::clone(&self.layout);
        let entries = layout.manifest().entries();
        self.make_until(entries.len() - 1)?;
        self.makers.iter_mut().for_each(Makers::drain);
        self.heed_makers()?;
        if self.is_taken_up {
            let removed = remove_others(&*self.root, layout.manifest());
            // In place, entries that are still in use stay hidden, and are listed at the end.
            let in_use =
                |in_use: Remains| in_use.into_iter().next().filter(|_| self.putting.is_none());
            let removed =
                removed.and_then(|those| in_use(those).map_or(Ok(()), |(_, error)| Err(error)));
            removed.map_err(|error| trouble("remove what an earlier run left", error))?;
        }
        let lost: Vec<usize> = self.troubles.lock().keys().copied().collect();
        for entry in lost {
            let removed = self
                .enter(entries[entry].parent)
                .and_then(|directory| directory.remove(&entries[entry].own_path()));
            match removed {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => removed.map_err(|error| self.failed("remove", entry, error))?,
            }
        }
        for (at, entry) in entries
            .iter()
            .enumerate()
            .skip(1)
            .rev()
            .filter(|(_, entry)| entry.is_directory())
        {
            let opened = self.root.directory(&layout.manifest().path(at));
            let set = opened.and_then(|directory| {
                directory.set_attributes(self.setter.gives(&entry.attributes, layout.manifest()))
            });
            set.map_err(|error| self.failed("set the attributes of", at, error))?;
        }
        Ok(())
    }

    /// Sets the attributes of the directory itself, durably. Until then no other user can write to
    /// it, so that a later run may resume it.
    pub(super) fn set_own_attributes(&self) -> Result<(), StorageError> {
        let manifest = self.layout.manifest();
        let set = self
            .root
            .set_attributes(self.setter.gives(&manifest.root().attributes, manifest));
        set.and_then(|()| self.root.sync_names())
            .map_err(|error| self.failed("set the attributes of", 0, error))
    }

    fn make_until(&mut self, last: usize) -> Result<(), StorageError> {
        let layout = Arc::clone(&self.layout);
        while self.next <= last {
            let at = self.next;
            self.next += 1;
            let entry = &layout.manifest().entries()[at];
            self.make(entry).map_err(|error| match error {
                error if is_taken(&error) => self.collision(at),
                error => self.failed("make", at, error),
            })?;
        }
        Ok(())
    }

    fn make(&mut self, entry: &Entry) -> io::Result<()> {
        let (layout, own) = (Arc::clone(&self.layout), entry.own_path());
        let manifest = layout.manifest();
        if self.is_taken_up && self.take_up(entry, &own)? {
            return Ok(());
        }
        if !self.setter.takes_node(&entry.node) {
            self.setter.leave_out(Privilege::Device, "");
            return Ok(());
        }
        match &entry.node {
            Node::Directory => self.enter(entry.parent)?.make_directory(&own),
            Node::File(_) => {
                let there = self
                    .putting
                    .as_ref()
                    .and_then(|putting| putting.there(self.next - 1));
                self.file = Some(match there {
                    Some(there) => Current::Same(there),
                    None => Current::New(self.enter(entry.parent)?.create(&own, PRIVATE_FILE)?),
                });
                Ok(())
            }
            Node::Symlink(target) => match self.enter(entry.parent)?.make_symlink(&own, target) {
                Err(error) if has_none(&error) => self.leave_out("symbolic links", &error),
                made => made.and_then(|()| self.set_at(entry, &own, true)),
            },
            Node::Special(special) => {
                match self.enter(entry.parent)?.make_special(&own, *special) {
                    Err(error) if has_none(&error) => {
                        self.leave_out("device nodes, fifos and sockets", &error)
                    }
                    made => made.and_then(|()| self.set_at(entry, &own, false)),
                }
            }
            Node::HardLink(of) => {
                let first = *of as usize;
                if let Some(makers) = &mut self.makers {
                    makers.flush();
                    makers.orders().wait_for(first);
                }
                let trouble = self.troubles.lock().get(&first).cloned();
                if let Some(trouble) = trouble {
                    // Created as an empty file, which is removed with the others.
                    let at = self.next - 1;
                    self.enter(entry.parent)?.create(&own, PRIVATE_FILE)?;
                    self.troubles.lock().insert(at, trouble);
                    return Ok(());
                }
                // With `in_place` the file may be in DEST by now, or have been there before.
                let putting = self
                    .putting
                    .as_ref()
                    .filter(|putting| putting.done().contains(&first));
                let first = &manifest.entries()[first];
                let path = manifest.path(first.parent.unwrap_or(0) as usize);
                let other = putting.map_or_else(
                    || self.root.directory(&path),
                    |putting| putting.dest.directory(&path),
                )?;
                match self
                    .enter(entry.parent)?
                    .make_link(&own, &other, &first.own_path())
                {
                    Err(error) if has_none(&error) => {
                        self.copy_other(&other, first, entry.parent, &own, &error)
                    }
                    made => made,
                }
            }
        }
    }

    fn leave_out(&self, kind: &str, error: &io::Error) -> io::Result<()> {
        let why = format!("this file system, or user, can make no {kind} ({error})");
        let trouble = Trouble {
            zeros_from: u64::MAX,
            verdict: Verdict::Whole,
            why,
        };
        self.troubles.lock().insert(self.next - 1, trouble);
        Ok(())
    }

    /// Reuses the entry of an earlier run and returns true, or removes it if it does not match.
    fn take_up(&mut self, entry: &Entry, own: &Path) -> io::Result<bool> {
        let is_in_place = self.putting.is_some();
        let directory = self.enter(entry.parent)?;
        match (&entry.node, directory.kind(own)?) {
            (_, None) => return Ok(false),
            (Node::Directory, Some(Kind::Directory)) => {
                directory.open_up(own)?;
                return Ok(true);
            }
            (Node::File(_), Some(Kind::File)) => {
                self.file = Some(Current::New(directory.take_up(own)?));
                return Ok(true);
            }
            _ => {}
        }
        match directory.remove_all(own) {
            Err(error) if is_in_place && is_in_use(&error) => {
                directory.rename(own, directory, &HiddenNames::fleeting().old())?;
            }
            removed => removed?,
        }
        Ok(false)
    }

    fn set_at(&mut self, entry: &Entry, own: &Path, is_link: bool) -> io::Result<()> {
        let layout = Arc::clone(&self.layout);
        let directory = self.enter(entry.parent)?.try_clone()?;
        directory.set_attributes_at(
            own,
            self.setter.gives(&entry.attributes, layout.manifest()),
            is_link,
        )
    }

    pub(super) fn enter(&mut self, parent: Option<u32>) -> io::Result<&D> {
        let parent = parent.unwrap_or(0);
        if self
            .directory
            .as_ref()
            .is_none_or(|(open, _)| *open != parent)
        {
            let path = self.layout.manifest().path(parent as usize);
            self.directory = Some((parent, Arc::new(self.root.directory(&path)?)));
        }
        Ok(&self.directory.as_ref().expect("it was just opened").1)
    }

    pub(super) fn failed(&self, doing: &str, entry: usize, error: io::Error) -> StorageError {
        trouble(
            &format!("{doing} {}", self.layout.manifest().shown(entry)),
            error,
        )
    }

    fn collision(&self, entry: usize) -> StorageError {
        let text = format!(
            "{} is there already under another spelling: the sender has two names that are one on this file system; \
             choose a DEST that tells them apart, or leave one out with {}",
            self.layout.manifest().shown(entry),
            OptionName("exclude")
        );
        StorageError::new(Outcome::WriteFailed, text)
    }
}

pub(super) type Remains = Vec<(PathBuf, io::Error)>;

/// Whether an entry cannot be removed because a file in it, or the entry itself, is open: NFS and
/// FUSE keep such a file under another name.
fn is_in_use(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ResourceBusy | ErrorKind::DirectoryNotEmpty
    )
}

/// Removes the entries that the manifest does not list, and returns those that are still in use.
pub(super) fn remove_others<D: Directory>(root: &D, manifest: &Manifest) -> io::Result<Remains> {
    let mut in_use = Vec::new();
    let entries = manifest.entries();
    let known: HashSet<(u32, &[u8])> = entries
        .iter()
        .skip(1)
        .map(|entry| (entry.parent.unwrap_or(0), &*entry.name))
        .collect();
    for (at, _) in entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.node == Node::Directory)
    {
        let directory = match root.directory(&manifest.path(at)) {
            // Mount points are left alone; the first is `root` itself.
            Err(error) if at > 0 && error.kind() == ErrorKind::CrossesDevices => continue,
            directory => directory?,
        };
        for name in directory.names()? {
            let is_ours = at == 0 && is_hidden(&name);
            if is_ours || known.contains(&(at as u32, name.as_bytes())) {
                continue;
            }
            match directory.remove_all(one(&name)) {
                Err(error) if is_in_use(&error) => {
                    in_use.push((manifest.path(at).join(&name), error));
                }
                removed => removed?,
            }
        }
    }
    Ok(in_use)
}

const COPY_BYTES: usize = 256 << 10;

impl<D: Directory> Building<D> {
    /// Runs `work`. If the disk is full, the waiting files are put in place first, which frees what
    /// they replace.
    pub(super) fn with_room(
        &mut self,
        mut work: impl FnMut(&mut Building<D>) -> io::Result<()>,
    ) -> io::Result<()> {
        match work(self) {
            Err(error)
                if is_full(&error)
                    && self
                        .putting
                        .as_ref()
                        .is_some_and(|putting| putting.waiting() > 0) =>
            {
                self.putting.as_mut().map_or(Ok(()), Putting::flush)?;
                work(self)
            }
            done => done,
        }
    }

    pub(super) fn put_data(
        &mut self,
        entry: usize,
        bytes: &[u8],
        offset: u64,
        is_new: bool,
    ) -> io::Result<()> {
        match self.file.as_ref().expect("it was just made") {
            Current::New(_) if !is_new => return Ok(()),
            Current::New(file) => return file.write_all_at(bytes, offset),
            Current::Same(there) => {
                let mut found = vec![0; bytes.len()];
                if read_all(there, &mut found, offset).is_ok_and(|read| read == bytes.len())
                    && found == bytes
                {
                    return Ok(());
                }
            }
        }
        self.renew(entry, offset)?;
        self.put_data(entry, bytes, offset, true)
    }

    fn renew(&mut self, entry: usize, until: u64) -> io::Result<()> {
        let layout = Arc::clone(&self.layout);
        let own = &layout.manifest().entries()[entry];
        let to = self
            .enter(own.parent)?
            .create(&own.own_path(), PRIVATE_FILE)?;
        if let Some(Current::Same(from)) = &self.file
            && let Err(error) = copy(from, &to, until)
        {
            drop(self.enter(own.parent)?.remove(&own.own_path()));
            return Err(error);
        }
        self.file = Some(Current::New(to));
        Ok(())
    }

    /// Copies a file in place of a hard link that the file system does not support.
    pub(super) fn copy_other(
        &mut self,
        other: &D,
        first: &Entry,
        parent: Option<u32>,
        own: &Path,
        why: &io::Error,
    ) -> io::Result<()> {
        let layout = Arc::clone(&self.layout);
        let from = other.file(&first.own_path())?;
        let to = self.enter(parent)?.create(own, PRIVATE_FILE)?;
        copy(&from, &to, from.bytes()?)?;
        self.setter.count(Lack::HardLinks, &why.to_string());
        to.set_attributes(self.setter.gives(&first.attributes, layout.manifest()))
    }

    pub(super) fn finish_file(
        &mut self,
        entry: usize,
        verdict: Verdict,
    ) -> Result<(), StorageError> {
        let layout = Arc::clone(&self.layout);
        let file = self.file.take().expect("its entry was made");
        let own = &layout.manifest().entries()[entry];
        if verdict != Verdict::Whole {
            let trouble = Trouble {
                zeros_from: u64::MAX,
                verdict,
                why: verdict.text().to_owned(),
            };
            self.troubles.lock().insert(entry, trouble);
            return Ok(());
        }
        let Node::File(data) = &own.node else {
            return Ok(());
        };
        let given = self.setter.gives(&own.attributes, layout.manifest());
        let set = match &file {
            Current::Same(there) => there.set_attributes(given),
            // A hole at the end is not written.
            Current::New(file) if data.extents().is_some() || self.is_taken_up => file
                .set_bytes(data.bytes())
                .and_then(|()| file.set_attributes(given)),
            Current::New(file) => file.set_attributes(given),
        };
        set.map_err(|error| self.failed("set the attributes of", entry, error))?;
        let put = match (&mut self.putting, &file) {
            (Some(putting), Current::New(_)) => putting.put(entry, data.bytes()),
            (Some(putting), Current::Same(_)) => {
                putting.is_there(entry);
                Ok(())
            }
            (None, _) => Ok(()),
        };
        put.map_err(|error| self.failed("put", entry, error))
    }
}

fn copy<F: DiskFile>(from: &F, to: &F, until: u64) -> io::Result<()> {
    let (mut buffer, mut at) = (vec![0; COPY_BYTES], 0);
    while at < until {
        let most = usize::try_from(until - at)
            .unwrap_or(usize::MAX)
            .min(COPY_BYTES);
        let count @ 1.. = from.read_at(&mut buffer[..most], at)? else {
            break;
        };
        if buffer[..count].iter().any(|byte| *byte != 0) {
            to.write_all_at(&buffer[..count], at)?;
        }
        at += count as u64;
    }
    to.set_bytes(at)
}

#[derive(Debug)]
pub(super) enum Current<F> {
    New(F),
    /// DEST's own file, as long as its bytes are equal.
    Same(F),
}

#[derive(Debug)]
pub(super) struct BuiltFiles<D: Directory> {
    layout: Arc<Layout>,
    root: Arc<D>,
    /// Directory into which files were moved one by one; none if an earlier run built them.
    moved: Option<D>,
    orders: Option<Arc<Orders<D>>>,
}

impl<D: Directory> BuiltFiles<D> {
    pub(super) fn new(layout: &Arc<Layout>, root: &Arc<D>, moved: Option<D>) -> BuiltFiles<D> {
        BuiltFiles {
            layout: Arc::clone(layout),
            root: Arc::clone(root),
            moved,
            orders: None,
        }
    }

    pub(super) fn made_by(self, orders: Option<Arc<Orders<D>>>) -> BuiltFiles<D> {
        BuiltFiles { orders, ..self }
    }
}

impl<D: Directory> OpenEntry for BuiltFiles<D> {
    type File = D::File;

    fn open(&self, entry: usize) -> io::Result<D::File> {
        if let Some(orders) = &self.orders {
            orders.wait_for(entry);
        }
        let path = self.layout.manifest().path(entry);
        let Some(moved) = &self.moved else {
            let file = self.root.file(&path)?;
            // The page cache may hold bytes that the disk does not: a write-back error is reported
            // only once.
            file.forget()?;
            return Ok(file);
        };
        self.root.file(&path).or_else(|_| moved.file(&path))
    }
}
