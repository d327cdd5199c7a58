//! The renames that put a received directory into its final place.

use super::building::{Remains, remove_others};
use crate::disk::{Accept, Beneath, Directory, Lack, Setter, is_taken};
use crate::hidden_names::{HiddenNames, TakenUp, holds_old, is_hidden, lock_tree, take_up_tree};
use crate::manifest::Manifest;
use crate::{mounts, name, trial};
use ethbcast_collectives::OptionName;
use ethbcast_collectives::session::Outcome;
use ethbcast_collectives::session::live::StorageError;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// DEST of a directory, and the permitted changes to it: an existing entry may be replaced as a
/// whole, or each file put into the existing directory, and entries that the sender does not have
/// removed there.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// The path that the user gave: the directory itself, or an existing one that will contain it.
    pub dest: PathBuf,
    pub replace: bool,
    pub in_place: bool,
    pub delete: bool,
    /// Whether DEST is a directory that stays and is never replaced.
    pub stays: bool,
    pub accept: Accept,
}

#[derive(Debug)]
pub(super) struct Place<D: Directory> {
    holder: D,
    holder_path: PathBuf,
    /// Final name in `holder`; none if its files go into `holder` itself.
    name: Option<PathBuf>,
    pub(super) target: Target,
}

impl Place<Beneath> {
    /// Opens the directories in which something may be built for this target; the manifest decides
    /// which one is used.
    pub(super) fn holders(target: &Target) -> Vec<Beneath> {
        let dest = target
            .dest
            .canonicalize()
            .unwrap_or_else(|_| target.dest.clone());
        let beside = dest.parent().unwrap_or(Path::new("/")).to_owned();
        let inside = Some(dest).filter(|dest| dest.is_dir());
        [Some(beside), inside]
            .into_iter()
            .flatten()
            .filter_map(|path| Beneath::open(&path).ok())
            .collect()
    }

    /// Finds the place for a directory of this name (empty: for its content alone), and checks that
    /// it may be used. Before the manifest has come, the entries are not checked.
    pub(super) fn find(
        target: &Target,
        own: &[u8],
        manifest: Option<&Manifest>,
    ) -> Result<Place<Beneath>, StorageError> {
        manifest.map_or(Ok(()), check_tops)?;
        let dest = &target.dest;
        let path = if dest.is_dir() && !own.is_empty() {
            dest.join(name::path(own))
        } else {
            // `.` and `..` are no names, but the canonical path has one.
            dest.canonicalize().unwrap_or_else(|_| dest.clone())
        };
        let is_directory = path.symlink_metadata().is_ok_and(|there| there.is_dir());
        let cannot = |error| {
            crate::trouble(
                &format!("open the directory of DEST {}", path.display()),
                error,
            )
        };
        if target.in_place && is_directory {
            let check =
                |manifest| mounts::check_in_place(&path, manifest, target.delete).map_err(refused);
            manifest.map_or(Ok(()), check)?;
            let holder = Beneath::open(&path).map_err(cannot)?;
            return Ok(Place {
                holder,
                holder_path: path,
                name: None,
                target: target.clone(),
            });
        }
        let parent = path.parent().unwrap_or(Path::new("/")).to_owned();
        if target.stays && own.is_empty() {
            return Err(refused(format!(
                "the received directory would replace {}, which is served: send DIR and not DIR/, or serve with {}",
                path.display(),
                OptionName("in-place")
            )));
        }
        let Some(own) = path.file_name().map(PathBuf::from) else {
            return Err(refused(format!(
                "DEST {} cannot be replaced: put files into it with {}",
                path.display(),
                OptionName("in-place")
            )));
        };
        let holder = Beneath::open(&parent).map_err(cannot)?;
        let place = Place {
            holder,
            holder_path: parent,
            name: Some(own),
            target: target.clone(),
        };
        place.check_free(&path, is_directory)?;
        Ok(place)
    }

    fn check_free(&self, path: &Path, is_directory: bool) -> Result<(), StorageError> {
        let shown = path.display();
        if path.symlink_metadata().is_err() {
            return Ok(());
        }
        if !is_directory {
            return Err(refused(format!(
                "DEST {shown} is no directory: remove it, or choose another"
            )));
        }
        mounts::check_replaced(path).map_err(refused)?;
        let is_empty = std::fs::read_dir(path).is_ok_and(|mut names| names.next().is_none());
        if self.target.replace || is_empty {
            return self.check_replaceable(path);
        }
        Err(refused(format!(
            "DEST {shown} exists: replace it with {}, or put into it with {}",
            OptionName("force"),
            OptionName("in-place")
        )))
    }
}

/// Refuses entries that have hidden names: among the built ones, they would be taken for the
/// remains of a run that was cut off, which are kept.
fn check_tops(manifest: &Manifest) -> Result<(), StorageError> {
    let mut tops = manifest
        .entries()
        .iter()
        .filter(|entry| entry.parent == Some(0));
    let Some(entry) = tops.find(|entry| is_hidden(OsStr::from_bytes(&entry.name))) else {
        return Ok(());
    };
    let text = "the sender's directory has an entry that is named as data of a transfer that was broken off";
    Err(refused(format!(
        "{text}, {}: leave it out",
        name::shown(&entry.name)
    )))
}

impl Target {
    /// Fails if a directory of this name (empty: for its content alone) cannot be put here, as far
    /// as the name shows.
    pub(crate) fn check(&self, own: &[u8]) -> Result<(), StorageError> {
        Place::find(self, own, None).map(drop)
    }
}

impl<D: Directory> Place<D> {
    /// Fails if the entry at `path` cannot be replaced. It is left unchanged.
    fn check_replaceable(&self, path: &Path) -> Result<(), StorageError> {
        let Some(name) = &self.name else {
            return Ok(());
        };
        let shown = path.display();
        trial::try_replacing(&self.holder, name).map_err(|error| match error.kind() {
            ErrorKind::CrossesDevices => refused(format!(
                "DEST {shown} is in a lower layer of a container's file system, and nothing can take its place \
                 ({error}); nothing was changed: put into it with {}",
                OptionName("in-place")
            )),
            _ => crate::trouble(&format!("replace DEST {shown}, which is as it was"), error),
        })
    }

    pub(super) fn check_names(&self, manifest: &Manifest) -> Result<(), StorageError> {
        let found = trial::refused_name(&self.holder, manifest);
        let found =
            found.map_err(|error| crate::trouble("try the names of the sender's files", error))?;
        let Some((path, error)) = found else {
            return Ok(());
        };
        Err(refused(format!(
            "{} cannot be a name on the file system of DEST ({error}); nothing was written: rename it, leave it out \
             with `send {}`, or choose another DEST",
            name::shown(path.as_os_str().as_encoded_bytes()),
            OptionName("exclude")
        )))
    }

    #[cfg(test)]
    pub(super) fn named(
        holder: D,
        holder_path: PathBuf,
        name: Option<PathBuf>,
        target: Target,
    ) -> Place<D> {
        Place {
            holder,
            holder_path,
            name,
            target,
        }
    }

    pub(super) fn is_in_place(&self) -> bool {
        self.name.is_none()
    }

    pub(super) fn holder(&self) -> &D {
        &self.holder
    }

    pub(super) fn path(&self) -> PathBuf {
        self.name.as_ref().map_or_else(
            || self.holder_path.clone(),
            |name| self.holder_path.join(name),
        )
    }

    /// Publishes the built directory, except for the entries that are `done`.
    pub(super) fn publish(
        &self,
        hidden: &HiddenTree<D>,
        manifest: &Manifest,
        done: &HashSet<usize>,
    ) -> Result<Shown<D>, StorageError> {
        if !self.holder.is_at(&self.holder_path) {
            let text = format!(
                "{} became another directory while DEST was received, and nothing was put there: receive again",
                self.holder_path.display()
            );
            return Err(StorageError::new(Outcome::WriteFailed, text));
        }
        let shown = match &self.name {
            Some(name) => self.show_whole(hidden, name).map(Shown::Whole),
            None => self.merge(hidden, manifest, done).map(Shown::Merged),
        };
        let shown = shown.map_err(|error| {
            crate::trouble(&format!("put it at {}", self.path().display()), error)
        })?;
        self.holder.sync_names().map_err(|error| {
            // The replaced entry stays until the successor is durable.
            hidden.keep();
            let help = "; the directory is in place and whole, but a crash may take its name away: sync the disk";
            StorageError::system("sync the directory", error, help)
        })?;
        Ok(shown)
    }

    pub(super) fn remains(&self, hidden: &Path, error: &io::Error) -> String {
        format!(
            "{} is new, but a part of its old content cannot be removed ({error}): it is in {}; the next recv beside \
             it tries again, or remove it",
            self.path().display(),
            self.holder_path.join(hidden).display()
        )
    }

    fn show_whole(&self, hidden: &HiddenTree<D>, name: &Path) -> io::Result<Option<Aside<D>>> {
        if !self.target.replace || self.holder.kind(name)?.is_none() {
            match self.holder.rename_to_free(hidden.name(), name) {
                // Some file systems rename nothing over a directory, not even an empty one.
                Err(error) if refuses_to_replace(&error) && self.is_empty(name) => {
                    self.holder.remove_directory(name)?
                }
                renamed => return renamed.map(|()| None),
            }
            return self
                .holder
                .rename_to_free(hidden.name(), name)
                .map(|()| None);
        }
        if !cannot_exchange(&self.holder) {
            // The hidden name then belongs to the replaced entry, which must not be resumed.
            match hidden.without_journal(|| self.holder.exchange(hidden.name(), &self.holder, name))
            {
                Err(error) if is_refused(&error) => {}
                exchanged => return exchanged.map(|()| None),
            }
        }
        // Without an exchange DEST is absent for a moment.
        let aside = Aside::put(&self.holder, hidden.names(), name)?;
        match self.holder.rename_to_free(hidden.name(), name) {
            Ok(()) => Ok(Some(aside)),
            Err(error) => Err(aside.bring_back(error)),
        }
    }

    fn is_empty(&self, name: &Path) -> bool {
        self.holder
            .directory(name)
            .and_then(|there| there.names())
            .is_ok_and(|names| names.is_empty())
    }

    /// Puts the built entries into the existing directory. Returns what `delete` could not remove.
    fn merge(
        &self,
        hidden: &HiddenTree<D>,
        manifest: &Manifest,
        done: &HashSet<usize>,
    ) -> io::Result<Remains> {
        let setter = Setter::new(self.target.accept.clone());
        let entries = manifest.entries();
        let mut open: Option<(u32, D, D)> = None;
        for (at, entry) in entries
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(at, _)| !done.contains(at))
        {
            let (parent, own) = (entry.parent.unwrap_or(0), entry.own_path());
            if open.as_ref().is_none_or(|(of, ..)| *of != parent) {
                let path = manifest.path(parent as usize);
                open = Some((
                    parent,
                    hidden.root().directory(&path)?,
                    self.holder.directory(&path)?,
                ));
            }
            let (_, from, to) = open.as_ref().expect("it was just opened");
            let mut displaced = None;
            let there = to.kind(&own)?.is_some();
            let (is_directory, was_directory) = (entry.is_directory(), to.has_directory(&own)?);
            // An entry of another kind is in the way.
            if there && is_directory != was_directory {
                if was_directory && !self.target.delete {
                    let text = format!(
                        "{} is a directory here: remove it, or receive with {}",
                        manifest.shown(at),
                        OptionName("delete")
                    );
                    return Err(io::Error::other(text));
                }
                if was_directory {
                    match from.exchange(&own, to, &own) {
                        Err(error) if is_refused(&error) => {}
                        // The replaced entry is removed with the remains of the build.
                        exchanged => {
                            exchanged.map_err(|error| named(manifest, at, &error))?;
                            continue;
                        }
                    }
                }
                displaced = Some(
                    Displaced::put(&**hidden.root(), to, &own)
                        .map_err(|error| named(manifest, at, &error))?,
                );
            }
            let put = match is_directory {
                true if !was_directory => to.make_directory(&own),
                true => Ok(()),
                false => from.rename(&own, to, &own),
            };
            Displaced::end(displaced, put.map_err(|error| named(manifest, at, &error)))?;
        }
        let mut remains = Vec::new();
        if self.target.delete {
            self.holder.sync_file_system()?;
            remains = remove_others(&self.holder, manifest)?;
        }
        // The root directory keeps its attributes if only its contents were sent.
        let own = usize::from(manifest.root().name.is_empty());
        for (at, entry) in entries
            .iter()
            .enumerate()
            .skip(own)
            .rev()
            .filter(|(_, entry)| entry.is_directory())
        {
            match self.holder.directory(&manifest.path(at)) {
                // Mount points keep their attributes; nothing is put into them.
                Err(error) if error.kind() == ErrorKind::CrossesDevices => {}
                directory => {
                    directory?.set_attributes(setter.gives(&entry.attributes, manifest))?
                }
            }
        }
        self.holder.sync_file_system().map(|()| remains)
    }
}

/// Entries of the old directory that remain once the new one is in place.
#[derive(Debug)]
pub(super) enum Shown<D: Directory> {
    /// The replaced entry, if it was set aside, to be removed last.
    Whole(Option<Aside<D>>),
    Merged(Remains),
}

impl<D: Directory> Shown<D> {
    pub(super) fn remove(self) -> Remains {
        match self {
            Shown::Whole(aside) => aside
                .and_then(|aside| aside.remove().err())
                .into_iter()
                .collect(),
            Shown::Merged(remains) => remains,
        }
    }
}

/// Whether a rename failed because of the entry that has the name. SSH's file transfer returns
/// EPERM then.
fn refuses_to_replace(error: &io::Error) -> bool {
    is_taken(error) || error.kind() == ErrorKind::PermissionDenied
}

fn named(manifest: &Manifest, entry: usize, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", manifest.shown(entry)))
}

fn refused(text: String) -> StorageError {
    StorageError::refused(text)
}

const ATTEMPTS: u32 = 100;

/// An entry that is set aside. Its directory is locked while this exists.
#[derive(Debug)]
pub(super) struct Aside<D: Directory> {
    holder: D,
    names: HiddenNames,
    root: D,
    name: PathBuf,
}

impl<D: Directory> Aside<D> {
    pub(super) fn put(holder: &D, names: &HiddenNames, name: &Path) -> io::Result<Aside<D>> {
        let (names, root) = make(holder, names)?;
        let aside = Aside {
            holder: holder.try_clone()?,
            names,
            root,
            name: name.to_owned(),
        };
        // The new place must be durable before the entry moves.
        if let Err(error) = holder
            .sync_names()
            .and_then(|()| holder.rename(name, &aside.root, name))
        {
            drop(holder.remove_directory(&aside.names.old()));
            return Err(error);
        }
        match aside.root.sync_names().and_then(|()| holder.sync_names()) {
            Ok(()) => Ok(aside),
            Err(error) => Err(aside.bring_back(error)),
        }
    }

    pub(super) fn bring_back(self, why: io::Error) -> io::Error {
        match self
            .root
            .rename(&self.name, &self.holder, &self.name)
            .and_then(|()| self.holder.sync_names())
        {
            Ok(()) => {
                drop(self.holder.remove_directory(&self.names.old()));
                why
            }
            Err(error) => io::Error::other(format!(
                "{why}; the old content is in {} and cannot be brought back now ({error}): the next recv there does \
                 that, or move it",
                self.names.old().display()
            )),
        }
    }

    /// Removes the entry once its successor is durable. Returns the path and error of what cannot
    /// be removed.
    pub(super) fn remove(self) -> Result<(), (PathBuf, io::Error)> {
        // After the rename no receiver moves the old entry back. A run with a journal of the same
        // content, which could not be removed, must not take it for its own build.
        let (old, tree) = (self.names.old(), HiddenNames::fleeting().tree);
        let renamed = self.holder.rename(&old, &self.holder, &tree);
        let hidden = if renamed.is_ok() { tree } else { old };
        self.holder
            .remove_all(&hidden)
            .map_err(|error| (hidden, error))
    }
}

/// An entry whose kind differs from its successor's. It is moved among the built files and removed
/// with their remains.
#[derive(Debug)]
pub(super) struct Displaced<'a, D: Directory> {
    built: &'a D,
    hidden: PathBuf,
    holder: &'a D,
    name: &'a Path,
}

impl<'a, D: Directory> Displaced<'a, D> {
    pub(super) fn put(built: &'a D, holder: &'a D, name: &'a Path) -> io::Result<Displaced<'a, D>> {
        let hidden = HiddenNames::fleeting().old();
        holder.rename(name, built, &hidden)?;
        Ok(Displaced {
            built,
            hidden,
            holder,
            name,
        })
    }

    /// Gives the entry the name of one that may be removed with the built ones, or brings it back
    /// if its successor was not put.
    pub(super) fn end(displaced: Option<Displaced<'_, D>>, put: io::Result<()>) -> io::Result<()> {
        match (put, displaced) {
            (put, None) => put,
            (Err(error), Some(displaced)) => Err(displaced.bring_back(error)),
            (Ok(()), Some(Displaced { built, hidden, .. })) => {
                drop(built.rename(&hidden, built, &HiddenNames::succeeded(&hidden)));
                Ok(())
            }
        }
    }

    pub(super) fn bring_back(self, why: io::Error) -> io::Error {
        match self.built.rename(&self.hidden, self.holder, self.name) {
            Ok(()) => why,
            Err(error) => io::Error::other(format!(
                "{why}; the old content cannot be brought back ({error})"
            )),
        }
    }
}

fn make<D: Directory>(holder: &D, names: &HiddenNames) -> io::Result<(HiddenNames, D)> {
    let mut names = names.clone();
    for _ in 0..ATTEMPTS {
        match holder.make_directory(&names.old()) {
            Err(error) if is_taken(&error) => {}
            made => {
                made?;
                let root = holder.directory(&names.old())?;
                // Another receiver may have removed it as a leftover before it was locked.
                if root.try_lock() && holder.is_own(&root, &names.old()) {
                    return Ok((names, root));
                }
            }
        }
        names = HiddenNames::fleeting();
    }
    Err(io::Error::new(
        ErrorKind::AlreadyExists,
        "directories for what is set aside are removed as they are made",
    ))
}

/// Whether the file system refuses to exchange two names, tested with two empty directories.
pub(super) fn cannot_exchange<D: Directory>(holder: &D) -> bool {
    let (one, other) = (HiddenNames::fleeting().old(), HiddenNames::fleeting().old());
    let made = holder
        .make_directory(&one)
        .and_then(|()| holder.make_directory(&other));
    let exchanged = made.and_then(|()| holder.exchange(&one, holder, &other));
    for name in [one, other] {
        drop(holder.remove_directory(&name));
    }
    exchanged.is_err_and(|error| is_refused(&error))
}

pub(super) fn is_refused(error: &io::Error) -> bool {
    // ENOSYS and EOPNOTSUPP map to `Unsupported`.
    matches!(
        error.kind(),
        ErrorKind::InvalidInput | ErrorKind::Unsupported
    )
}

/// Attempts to make a hidden directory, which another receiver may remove as a leftover.
const TREE_ATTEMPTS: u32 = 1000;

/// The hidden directory. It is removed on drop unless it can be resumed.
#[derive(Debug)]
pub(super) struct HiddenTree<D: Directory> {
    holder: D,
    names: HiddenNames,
    root: Arc<D>,
    is_kept: AtomicBool,
}

impl<D: Directory> HiddenTree<D> {
    pub(super) fn create(holder: &D) -> io::Result<HiddenTree<D>> {
        for _ in 0..TREE_ATTEMPTS {
            let names = HiddenNames::fleeting();
            match holder.make_directory(&names.tree) {
                Err(error) if is_taken(&error) => continue,
                made => made?,
            }
            if let TakenUp::Own(hidden) = HiddenTree::open_new(holder, names)? {
                return Ok(hidden);
            }
        }
        Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "temporary directories are removed as they are made",
        ))
    }

    pub(super) fn create_named(holder: &D, names: &HiddenNames) -> io::Result<HiddenTree<D>> {
        holder.make_directory(&names.tree)?;
        let taken = || {
            io::Error::new(
                ErrorKind::AlreadyExists,
                "another process receives the same",
            )
        };
        HiddenTree::open_new(holder, names.clone())?
            .own()
            .ok_or_else(taken)
    }

    /// Opens a directory that was just made. If no modes are kept, any user may write to it as to
    /// all others.
    fn open_new(holder: &D, names: HiddenNames) -> io::Result<TakenUp<HiddenTree<D>>> {
        match HiddenTree::open(holder, names.clone())? {
            TakenUp::Foreign(name) if trial::lacks(holder).contains(&Lack::Modes) => {
                let found = holder
                    .directory(&name)
                    .and_then(|root| lock_tree(holder, root, &name))?;
                HiddenTree::around(holder, names, found)
            }
            found => Ok(found),
        }
    }

    pub(super) fn open(holder: &D, names: HiddenNames) -> io::Result<TakenUp<HiddenTree<D>>> {
        let found = take_up_tree(holder, &names.tree)?;
        HiddenTree::around(holder, names, found)
    }

    fn around(
        holder: &D,
        names: HiddenNames,
        found: TakenUp<D>,
    ) -> io::Result<TakenUp<HiddenTree<D>>> {
        let root = Arc::new(match found {
            TakenUp::Own(root) => root,
            TakenUp::Nothing => return Ok(TakenUp::Nothing),
            TakenUp::Busy => return Ok(TakenUp::Busy),
            TakenUp::Foreign(name) => return Ok(TakenUp::Foreign(name)),
        });
        Ok(TakenUp::Own(HiddenTree {
            holder: holder.try_clone()?,
            names,
            root,
            is_kept: AtomicBool::new(false),
        }))
    }

    pub(super) fn name(&self) -> &Path {
        &self.names.tree
    }

    pub(super) fn journal(&self) -> &PathBuf {
        &self.names.journal
    }

    pub(super) fn root(&self) -> &Arc<D> {
        &self.root
    }

    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    pub(super) fn names(&self) -> &HiddenNames {
        &self.names
    }

    /// Runs `work` with the journal hidden, because the hidden name may belong to another entry
    /// afterwards. If it fails the journal is restored, otherwise removed.
    pub(super) fn without_journal(&self, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if !self.is_kept.load(Ordering::Relaxed) {
            return work();
        }
        let elsewhere = HiddenNames::fleeting().journal;
        self.holder
            .rename(&self.names.journal, &self.holder, &elsewhere)?;
        if let Err(error) = self.holder.sync_names().and_then(|()| work()) {
            self.holder
                .rename(&elsewhere, &self.holder, &self.names.journal)?;
            return Err(error);
        }
        self.is_kept.store(false, Ordering::Relaxed);
        drop(self.holder.remove(&elsewhere));
        Ok(())
    }

    /// Removes as much as possible and returns the first error. Nothing more is tried on drop.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.keep();
        if self.holder.kind(&self.names.tree)?.is_none() {
            return Ok(());
        }
        self.holder.remove_all(&self.names.tree)
    }

    /// Gives the directory a name that no later run looks for, for removal at the end.
    pub(super) fn give_up(&mut self) -> io::Result<()> {
        let names = HiddenNames::fleeting();
        self.forget_journal()?;
        self.holder
            .rename(&self.names.tree, &self.holder, &names.tree)?;
        self.names = names;
        Ok(())
    }

    /// Removes the journal durably, so that no run resumes the directory.
    pub(super) fn forget_journal(&self) -> io::Result<()> {
        if !self.is_kept.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.holder.remove(&self.names.journal) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => self.is_kept.store(false, Ordering::Relaxed),
        }
        self.holder.sync_names()
    }
}

impl<D: Directory> Drop for HiddenTree<D> {
    fn drop(&mut self) {
        if self.is_kept.load(Ordering::Relaxed) || holds_old(&*self.root) {
            return;
        }
        if let Ok(Some(_)) = self.holder.kind(&self.names.tree)
            && let Err(error) = self.holder.remove_all(&self.names.tree)
        {
            log::warn!("{} was left behind: {error}", self.names.tree.display());
        }
        drop(self.holder.remove(&self.names.journal));
    }
}
