//! What another takes the place of, where two names cannot be exchanged: it is set aside first, and removed when its
//! successor is in place and synced. Under a hidden name it keeps its own, by which it is brought back, also by the
//! next receiver if the machine stops in between.

use crate::disk::{Directory, is_taken};
use crate::hidden_names::HiddenNames;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// How often another hidden name is tried.
const ATTEMPTS: u32 = 100;

/// Something that is set aside, locked as long as this is there.
#[derive(Debug)]
pub(super) struct Aside<D: Directory> {
    holder: D,
    names: HiddenNames,
    root: D,
    /// Its own name.
    name: PathBuf,
}

impl<D: Directory> Aside<D> {
    /// Sets aside what has this name, for a successor with these hidden names.
    pub(super) fn put(holder: &D, names: &HiddenNames, name: &Path) -> io::Result<Aside<D>> {
        let (names, root) = make(holder, names)?;
        let aside = Aside { holder: holder.try_clone()?, names, root, name: name.to_owned() };
        // Where it goes is there for certain before it goes.
        if let Err(error) = holder.sync_names().and_then(|()| holder.rename(name, &aside.root, name)) {
            drop(holder.remove_directory(&aside.names.old()));
            return Err(error);
        }
        match aside.root.sync_names().and_then(|()| holder.sync_names()) {
            Ok(()) => Ok(aside),
            Err(error) => Err(aside.bring_back(error)),
        }
    }

    /// Gives it its name again, as nothing has taken it, and says why nothing has.
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

    /// Its successor is in place, and that is on the disk: removes it. Says where what cannot be removed is, and why.
    pub(super) fn remove(self) -> Result<(), (PathBuf, io::Error)> {
        // From now on nobody brings it back.
        let old = self.names.old();
        let renamed = self.holder.rename(&old, &self.holder, &self.names.tree);
        let hidden = if renamed.is_ok() { self.names.tree } else { old };
        self.holder.remove_all(&hidden).map_err(|error| (hidden, error))
    }
}

/// What is of another kind than that which comes in its place, among the files that are built: it is removed with what
/// is left of them.
#[derive(Debug)]
pub(super) struct Displaced<'a, D: Directory> {
    built: &'a D,
    hidden: PathBuf,
    holder: &'a D,
    name: &'a Path,
}

impl<'a, D: Directory> Displaced<'a, D> {
    /// Moves what has this name in `holder` to what is `built`.
    pub(super) fn put(built: &'a D, holder: &'a D, name: &'a Path) -> io::Result<Displaced<'a, D>> {
        let hidden = HiddenNames::fleeting().old();
        holder.rename(name, built, &hidden)?;
        Ok(Displaced { built, hidden, holder, name })
    }

    /// Gives it its name again, as nothing has taken it, and says why nothing has.
    pub(super) fn bring_back(self, why: io::Error) -> io::Error {
        match self.built.rename(&self.hidden, self.holder, self.name) {
            Ok(()) => why,
            Err(error) => io::Error::other(format!("{why}; what was there cannot be brought back ({error})")),
        }
    }
}

/// A hidden directory that is locked.
fn make<D: Directory>(holder: &D, names: &HiddenNames) -> io::Result<(HiddenNames, D)> {
    let mut names = names.clone();
    for _ in 0..ATTEMPTS {
        match holder.make_directory(&names.old()) {
            Err(error) if is_taken(&error) => {}
            made => {
                made?;
                let root = holder.directory(&names.old())?;
                // Before it was locked another receiver may have taken it for that of a dead one.
                if root.try_lock() && holder.is_own(&root, &names.old()) {
                    return Ok((names, root));
                }
            }
        }
        names = HiddenNames::fleeting();
    }
    Err(io::Error::new(ErrorKind::AlreadyExists, "directories for what is set aside are removed as they are made"))
}

/// Whether the file system refuses to exchange two names, which is tried with two directories that are empty.
pub(super) fn cannot_exchange<D: Directory>(holder: &D) -> bool {
    let (one, other) = (HiddenNames::fleeting().old(), HiddenNames::fleeting().old());
    let made = holder.make_directory(&one).and_then(|()| holder.make_directory(&other));
    let exchanged = made.and_then(|()| holder.exchange(&one, holder, &other));
    for name in [one, other] {
        drop(holder.remove_directory(&name));
    }
    exchanged.is_err_and(|error| is_refused(&error))
}

/// Whether that is an error of a file system that cannot, and not of one that could.
pub(super) fn is_refused(error: &io::Error) -> bool {
    // ENOSYS and EOPNOTSUPP are of the second kind.
    matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported)
}
