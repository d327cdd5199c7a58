//! The abilities that a place may lack, each tried once before anything comes.

use super::within;
use crate::disk::{Directory, DiskFile, Lack, PRIVATE_FILE};
use nix::libc;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;

/// Finds out what a directory cannot keep: gives a hidden file a mode, an owner, an attribute, another name and a
/// symbolic link, and removes all of it. A trial that fails for another reason says nothing.
pub(crate) fn lacks<D: Directory>(holder: &D) -> BTreeSet<Lack> {
    let tried = within(
        holder,
        |names| names.tree.clone(),
        |_, directory| {
            let (own, other, link) = (Path::new("file"), Path::new("other"), Path::new("link"));
            let file = directory.create(own, PRIVATE_FILE)?;
            let keeps = |lack: &Lack| match lack {
                Lack::Modes | Lack::Owners | Lack::Xattrs => file.keeps(*lack),
                Lack::HardLinks => can(directory.make_link(other, directory, own)),
                Lack::SymbolicLinks => can(directory.make_symlink(link, b"file")),
            };
            let all = [Lack::Owners, Lack::Modes, Lack::Xattrs, Lack::SymbolicLinks, Lack::HardLinks];
            Ok(all.into_iter().filter(|lack| !keeps(lack).unwrap_or(true)).collect())
        },
    );
    tried.ok().flatten().unwrap_or_default()
}

/// Whether it was made; an error that says nothing of the file system is one.
fn can(made: io::Result<()>) -> io::Result<bool> {
    match made {
        Err(error) if has_none(&error) => Ok(false),
        made => made.map(|()| true),
    }
}

/// Whether a file system has nothing of the kind that was to be made, or no more of it.
pub(crate) fn has_none(error: &io::Error) -> bool {
    let errors = [libc::EPERM, libc::EOPNOTSUPP, libc::ENOSYS, libc::EMLINK];
    error.raw_os_error().is_some_and(|errno| errors.contains(&errno))
}

/// The sentence for a user whose DEST is on that kind of file system; none if it lacks nothing.
pub(crate) fn sentence(kind: Option<&str>, lacks: &BTreeSet<Lack>) -> Option<String> {
    let kind = kind.map_or_else(|| "a file system".to_owned(), |kind| format!("on {kind}"));
    let mut words: Vec<&str> = lacks.iter().map(|lack| lack.name()).collect();
    let last = words.pop()?;
    let words = if words.is_empty() { last.to_owned() } else { format!("{} and {last}", words.join(", ")) };
    let copies = if lacks.contains(&Lack::HardLinks) { ", and hard links become copies" } else { "" };
    Some(format!("DEST is {kind}: it keeps no {words}; of a directory that comes they will be left out{copies}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Beneath;
    use crate::disk::model::{Abilities, Model};

    #[test]
    fn each_file_system_says_exactly_what_it_lacks_and_nothing_of_the_trial_is_left() {
        use Lack::{HardLinks, Modes, Owners, SymbolicLinks, Xattrs};
        let all = [Owners, Modes, Xattrs, SymbolicLinks, HardLinks];
        let mut told = Vec::new();
        for (kind, abilities) in Abilities::profiles() {
            let expected: &[Lack] = match kind {
                "vfat" | "exFAT" => &all,
                "NFS" => &[Xattrs],
                "SFTP" => &[Xattrs, HardLinks],
                _ => &[],
            };
            let disk = Model::default().with(&abilities);
            let before = disk.current();
            let lacks = lacks(&disk.root());
            assert_eq!(lacks, expected.iter().copied().collect(), "{kind}");
            assert_eq!(disk.current(), before, "{kind}");
            told.extend(sentence(Some(kind), &lacks));
        }
        let all = "owners, modes, extended attributes, symbolic links and hard links";
        let copies = ", and hard links become copies";
        let xattrs = "extended attributes";
        let links = "extended attributes and hard links";
        let expected = [("NFS", xattrs, ""), ("SFTP", links, copies), ("vfat", all, copies), ("exFAT", all, copies)];
        let sentence = |(kind, words, end)| {
            format!("DEST is on {kind}: it keeps no {words}; of a directory that comes they will be left out{end}")
        };
        assert_eq!(told, expected.map(sentence));
    }

    #[test]
    fn a_trial_that_fails_for_another_reason_says_nothing_and_leaves_nothing() {
        let undisturbed = Model::default();
        assert!(lacks(&undisturbed.root()).is_empty());
        for errno in [libc::EIO, libc::ENOSPC, libc::EDQUOT, libc::EROFS] {
            // The calls behind these remove what was made.
            for call in 1..=8 {
                let disk = Model::default().failing_at(call, errno);
                assert!(lacks(&disk.root()).is_empty(), "call {call} fails with {errno}");
                assert_eq!(disk.current(), Model::default().current(), "call {call} fails with {errno}");
            }
        }
    }

    #[test]
    fn a_directory_of_this_machine_keeps_modes_and_links_and_nothing_of_the_trial() {
        let scratch = tempfile::tempdir().expect("room");
        let lacks = lacks(&Beneath::open(scratch.path()).expect("there"));
        let common = [Lack::Modes, Lack::SymbolicLinks, Lack::HardLinks, Lack::Owners];
        assert!(common.iter().all(|lack| !lacks.contains(lack)), "{lacks:?}");
        assert_eq!(std::fs::read_dir(scratch.path()).expect("there").count(), 0);
    }
}
