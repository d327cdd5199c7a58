//! Recursive removal that never leaves its file system.
//!
//! Each directory is opened by its own name in its parent, so that no link is followed, and mount
//! points are not entered ([`Directory::directory`]). The kernel also refuses to remove a mount
//! point and its parents.

use super::{Directory, one};
use std::ffi::OsString;
use std::io;
use std::path::Path;

pub(super) fn remove_all<D: Directory>(holder: &D, name: &Path) -> io::Result<()> {
    if !holder.has_directory(name)? {
        return holder.remove(name);
    }
    let below = holder.directory(name).and_then(|directory| remove_below(&directory));
    below.and_then(|()| holder.remove_directory(name))
}

fn remove_below<D: Directory>(directory: &D) -> io::Result<()> {
    let removed = |name: OsString| remove_all(directory, one(&name));
    // Tries all entries before returning the first error.
    directory.names()?.into_iter().map(removed).fold(Ok(()), io::Result::and)
}
