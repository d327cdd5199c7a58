//! Entries that are set aside where two names cannot be exchanged. The entry is moved into a hidden
//! directory, under its own name, and removed once its successor is in place and synced. If the
//! machine stops in between, the next receiver moves it back.

use crate::disk::{Directory, is_taken};
use crate::hidden_names::HiddenNames;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

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
        let aside = Aside { holder: holder.try_clone()?, names, root, name: name.to_owned() };
        // Its new place must be durable before it moves.
        if let Err(error) = holder.sync_names().and_then(|()| holder.rename(name, &aside.root, name)) {
            drop(holder.remove_directory(&aside.names.old()));
            return Err(error);
        }
        match aside.root.sync_names().and_then(|()| holder.sync_names()) {
            Ok(()) => Ok(aside),
            Err(error) => Err(aside.bring_back(error)),
        }
    }

    pub(super) fn bring_back(self, why: io::Error) -> io::Error {
        match self.root.rename(&self.name, &self.holder, &self.name).and_then(|()| self.holder.sync_names()) {
            Ok(()) => {
                drop(self.holder.remove_directory(&self.names.old()));
                why
            }
            Err(error) => io::Error::other(format!(
                "{why}; what was there is in {} and cannot be brought back now ({error}): the next recv there does, \
                 or move it",
                self.names.old().display()
            )),
        }
    }

    /// Removes the entry once its successor is durable. Returns the path and error of what cannot
    /// be removed.
    pub(super) fn remove(self) -> Result<(), (PathBuf, io::Error)> {
        // After the rename no receiver moves it back.
        let old = self.names.old();
        let renamed = self.holder.rename(&old, &self.holder, &self.names.tree);
        let hidden = if renamed.is_ok() { self.names.tree } else { old };
        self.holder.remove_all(&hidden).map_err(|error| (hidden, error))
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
        Ok(Displaced { built, hidden, holder, name })
    }

    pub(super) fn bring_back(self, why: io::Error) -> io::Error {
        match self.built.rename(&self.hidden, self.holder, self.name) {
            Ok(()) => why,
            Err(error) => io::Error::other(format!("{why}; what was there cannot be brought back ({error})")),
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
    Err(io::Error::new(ErrorKind::AlreadyExists, "directories for what is set aside are removed as they are made"))
}

/// Whether the file system refuses to exchange two names, tested with two empty directories.
pub(super) fn cannot_exchange<D: Directory>(holder: &D) -> bool {
    let (one, other) = (HiddenNames::fleeting().old(), HiddenNames::fleeting().old());
    let made = holder.make_directory(&one).and_then(|()| holder.make_directory(&other));
    let exchanged = made.and_then(|()| holder.exchange(&one, holder, &other));
    for name in [one, other] {
        drop(holder.remove_directory(&name));
    }
    exchanged.is_err_and(|error| is_refused(&error))
}

pub(super) fn is_refused(error: &io::Error) -> bool {
    // ENOSYS and EOPNOTSUPP map to `Unsupported`.
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported)
}
