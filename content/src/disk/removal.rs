//! Removes a directory with all that is in it, and never leaves the file system that it begins in.
//!
//! Each directory is opened by its own name in the one above it: no link is followed, and one on which something is
//! mounted is not entered ([`Directory::directory`]). The kernel lets nobody remove it either, nor what holds it.

use super::{Directory, one};
use std::ffi::OsString;
use std::io;
use std::path::Path;

/// Removes as much as there is, and says why the first of what stays does.
pub(super) fn remove_all<D: Directory>(holder: &D, name: &Path) -> io::Result<()> {
    if !holder.has_directory(name)? {
        return holder.remove(name);
    }
    let below = holder.directory(name).and_then(|directory| remove_below(&directory));
    below.and_then(|()| holder.remove_directory(name))
}

fn remove_below<D: Directory>(directory: &D) -> io::Result<()> {
    let removed = |name: OsString| remove_all(directory, one(&name));
    // All of them, and then the first error.
    directory.names()?.into_iter().map(removed).fold(Ok(()), io::Result::and)
}
