//! The mount table of this process, from `/proc`.

use crate::manifest::{Manifest, Node};
use ethbcast_collectives::OptionName;
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

const TABLE: &str = "/proc/self/mountinfo";

pub(crate) fn is_mount_point(path: &Path) -> bool {
    let stat = statx(
        CWD,
        path,
        AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT,
        StatxFlags::BASIC_STATS,
    );
    match stat {
        Ok(stat)
            if stat
                .stx_attributes_mask
                .contains(StatxAttributes::MOUNT_ROOT) =>
        {
            stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
        }
        _ => path
            .canonicalize()
            .is_ok_and(|path| table().contains(&path)),
    }
}

pub(crate) fn below(path: &Path) -> Vec<PathBuf> {
    let Ok(path) = path.canonicalize() else {
        return Vec::new();
    };
    let mut below: Vec<PathBuf> = table()
        .into_iter()
        .filter(|at| at.starts_with(&path) && *at != path)
        .collect();
    below.sort();
    below.dedup();
    below
}

/// Returns the mount and device number of `path`. Both are needed, as one device can be mounted
/// twice.
pub(crate) fn place_of(path: &Path) -> Option<(u32, u32, u64)> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let stat = statx(
        CWD,
        path,
        flags,
        StatxFlags::BASIC_STATS | StatxFlags::MNT_ID,
    )
    .ok()?;
    Some((stat.stx_dev_major, stat.stx_dev_minor, stat.stx_mnt_id))
}

/// Returns the kind of file system of a path, such as `vfat`.
pub(crate) fn kind_of(path: &Path) -> Option<String> {
    let (_, _, mount) = place_of(path)?;
    let text = std::fs::read_to_string(TABLE).ok()?;
    let line = text
        .lines()
        .find(|line| line.split(' ').next() == Some(&mount.to_string()))?;
    line.split_once(" - ")?
        .1
        .split(' ')
        .next()
        .map(str::to_owned)
}

fn table() -> Vec<PathBuf> {
    let text = std::fs::read(TABLE).unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescaped)
        .collect()
}

/// Decodes the octal escapes that the kernel writes for spaces and similar bytes.
pub(crate) fn unescaped(text: &[u8]) -> PathBuf {
    let (mut path, mut rest) = (Vec::new(), text);
    while let Some((first, behind)) = rest.split_first() {
        let code = behind
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                path.push(byte);
                rest = &behind[3..];
            }
            None => {
                path.push(*first);
                rest = behind;
            }
        }
    }
    crate::name::path(&path)
}

pub(crate) fn check_replaced(path: &Path) -> Result<(), String> {
    let shown = path.display();
    if is_mount_point(path) {
        return Err(format!(
            "DEST {shown} is a mount point, which nothing can take the place of; nothing was changed: put into it with \
             {}, or unmount it",
            OptionName("in-place")
        ));
    }
    match &*below(path) {
        [] => Ok(()),
        [first, others @ ..] => Err(format!(
            "a file system is mounted at {}{}, below DEST {shown}, which is not replaced with what others keep there; \
             nothing was changed: unmount it (`umount {0}`), or put into DEST with {}",
            first.display(),
            and(others),
            OptionName("in-place")
        )),
    }
}

pub(crate) fn check_in_place(path: &Path, manifest: &Manifest, delete: bool) -> Result<(), String> {
    let below = below(path);
    if below.is_empty() {
        return Ok(());
    }
    let root = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let entries = Entries::of(manifest);
    for mount in &below {
        let Ok(own) = mount.strip_prefix(&root) else {
            continue;
        };
        let shown = mount.display();
        if let Some(why) = entries.touch(own) {
            return Err(format!(
                "a file system is mounted at {shown}, where {why}; nothing was changed: unmount it (`umount {shown}`), \
                 or have that left out (`send {}`), and receive into {shown} by itself",
                OptionName("exclude")
            ));
        }
        if delete && !entries.have(own) {
            return Err(format!(
                "a file system is mounted at {shown}, which the sender does not have and {delete} would remove; \
                 nothing was changed: unmount it (`umount {shown}`), or receive without {delete}",
                delete = OptionName("delete")
            ));
        }
    }
    Ok(())
}

struct Entries(HashMap<PathBuf, bool>);

impl Entries {
    fn of(manifest: &Manifest) -> Entries {
        let entries = manifest.entries().iter().enumerate().skip(1);
        Entries(
            entries
                .map(|(at, entry)| (manifest.path(at), entry.node == Node::Directory))
                .collect(),
        )
    }

    fn have(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    fn touch(&self, mount: &Path) -> Option<String> {
        let in_the_way = |path: &&Path| self.0.get(*path).is_some_and(|is_directory| !is_directory);
        if let Some(file) = mount.ancestors().find(in_the_way) {
            return Some(format!("{} comes, which is no directory", file.display()));
        }
        let inside = self
            .0
            .keys()
            .find(|path| path.starts_with(mount) && *path != mount);
        inside.map(|path| format!("{} comes", path.display()))
    }
}

fn and(others: &[PathBuf]) -> String {
    if others.is_empty() {
        String::new()
    } else {
        format!(" and {} more", others.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_below_their_directory_and_at_their_own_place() {
        assert!(is_mount_point(Path::new("/")) && is_mount_point(Path::new("/proc")));
        assert!(below(Path::new("/")).contains(&PathBuf::from("/proc")));
        assert!(!below(Path::new("/proc")).contains(&PathBuf::from("/proc")));
        let directory = tempfile::tempdir().expect("a directory");
        assert!(below(directory.path()).is_empty() && !is_mount_point(directory.path()));
        assert_ne!(place_of(Path::new("/proc")), place_of(Path::new("/")));
        assert_eq!(
            place_of(directory.path()),
            place_of(&directory.path().join("."))
        );
        assert_eq!(kind_of(Path::new("/proc")).as_deref(), Some("proc"));
    }

    #[test]
    fn paths_escaped_by_the_kernel_are_unescaped() {
        assert_eq!(
            unescaped(b"/mnt/my\\040disk\\134x"),
            Path::new("/mnt/my disk\\x")
        );
        assert_eq!(unescaped(b"/mnt/\\9"), Path::new("/mnt/\\9"));
    }
}
