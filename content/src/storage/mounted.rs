//! Mount points at DEST: nothing on them is moved, written or removed.

use crate::manifest::{Manifest, Node};
use crate::mounts;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

pub(super) fn check_replaced(path: &Path) -> Result<(), String> {
    let shown = path.display();
    if mounts::is_mount_point(path) {
        return Err(format!(
            "DEST {shown} is a mount point, which nothing can take the place of; nothing was changed: put into it with \
             --in-place, or unmount it"
        ));
    }
    match &*mounts::below(path) {
        [] => Ok(()),
        [first, others @ ..] => Err(format!(
            "a file system is mounted at {}{}, below DEST {shown}, which is not replaced with what others keep there; \
             nothing was changed: unmount it (`umount {0}`), or put into DEST with --in-place",
            first.display(),
            and(others)
        )),
    }
}

pub(super) fn check_in_place(path: &Path, manifest: &Manifest, delete: bool) -> Result<(), String> {
    let below = mounts::below(path);
    if below.is_empty() {
        return Ok(());
    }
    let root = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let entries = Entries::of(manifest);
    for mount in &below {
        let Ok(own) = mount.strip_prefix(&root) else { continue };
        let shown = mount.display();
        if let Some(why) = entries.touch(own) {
            return Err(format!(
                "a file system is mounted at {shown}, where {why}; nothing was changed: unmount it (`umount {shown}`), \
                 or have that left out (`send --exclude`), and receive into {shown} by itself"
            ));
        }
        if delete && !entries.have(own) {
            return Err(format!(
                "a file system is mounted at {shown}, which the sender does not have and --delete would remove; \
                 nothing was changed: unmount it (`umount {shown}`), or receive without --delete"
            ));
        }
    }
    Ok(())
}

struct Entries(HashMap<PathBuf, bool>);

impl Entries {
    fn of(manifest: &Manifest) -> Entries {
        let entries = manifest.entries().iter().enumerate().skip(1);
        Entries(entries.map(|(at, entry)| (manifest.path(at), entry.node == Node::Directory)).collect())
    }

    fn have(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    fn touch(&self, mount: &Path) -> Option<String> {
        let in_the_way = |path: &&Path| self.0.get(*path).is_some_and(|is_directory| !is_directory);
        if let Some(file) = mount.ancestors().find(in_the_way) {
            return Some(format!("{} comes, which is no directory", file.display()));
        }
        let inside = self.0.keys().find(|path| path.starts_with(mount) && *path != mount);
        inside.map(|path| format!("{} comes", path.display()))
    }
}

fn and(others: &[PathBuf]) -> String {
    if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) }
}
