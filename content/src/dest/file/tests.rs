//! Tests of received files in real directories: names, locks, and leftovers of failed runs. A walk
//! through the file systems' models is of receiving a file new, over an old one, not resumed, and in
//! place.

use super::crashes::{CHUNK_BYTES, DEST, content, receive_by, world};
use super::*;
use crate::disk::Beneath;
use crate::disk::model::{Abilities, Errors, Inode, Listing, Walked, World, walk};
use crate::hidden_names::remove_stale;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn holder(directory: &TempDir) -> Arc<Beneath> {
    Arc::new(Beneath::open(directory.path()).expect("there"))
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("readable").flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn begin(directory: &TempDir, resume: &Resume) -> io::Result<FileDest<Beneath>> {
    begin_over(directory, resume, false)
}

fn begin_over(
    directory: &TempDir,
    resume: &Resume,
    replace: bool,
) -> io::Result<FileDest<Beneath>> {
    let (holder, holder_path) = (holder(directory), directory.path().to_owned());
    let place = DestPlace {
        holder,
        holder_path,
        name: PathBuf::from("dest"),
        replace,
    };
    FileDest::prepare(place, resume, Pace::Every(u64::MAX), Arc::default())
}

fn is_kept(file: &FileDest<Beneath>) -> bool {
    matches!(file.hidden, HiddenFile::Kept(_))
}

fn kept(content: u8) -> Resume {
    Resume::From(Identity {
        bytes: 2_000_000,
        chunk_bytes: 65_536,
        content: [content; 32],
    })
}

#[test]
fn a_file_gets_its_name_whole_and_takes_that_of_another_only_if_it_may() {
    for resume in [Resume::Not, kept(1)] {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("dest");
        for (replace, expected) in [(false, "first"), (false, "first"), (true, "third")] {
            let mut file = begin_over(&directory, &resume, replace).expect("room");
            file.write_all(if replace { b"third" } else { b"first" })
                .expect("room");
            file.end(None).expect("room");
            let before = path.exists();
            let named = file.publish();
            assert_eq!(named.is_ok(), replace || !before);
            assert!(
                named.is_ok()
                    || named.is_err_and(|failed| failed.error.kind() == ErrorKind::AlreadyExists)
            );
            drop(file);
            assert_eq!(fs::read_to_string(&path).expect("there"), expected);
            // A file that could not get its name is kept for a run that may replace the existing
            // one.
            let left = names(directory.path()).len();
            assert!(
                left == 1 || (resume != Resume::Not && left == 3),
                "{:?}",
                names(directory.path())
            );
        }
        assert_eq!(names(directory.path()), ["dest"]);
    }
}

#[test]
fn leftovers_are_found_again_even_if_read_only_and_locked_while_a_process_writes() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut first = begin(&directory, &kept(1)).expect("room");
    first.write_all(&[1; 100_000]).expect("room");
    let mut sync = syncing(&first.file, &first.place.holder, &first.kept).expect("room");
    sync().expect("room");
    first.write_all(&[2; 100_000]).expect("room");
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o444);
    fs::set_permissions(directory.path().join(&HiddenNames::of(b"dest").part), mode).expect("ours");
    let second = begin(&directory, &kept(1)).expect("room");
    assert!(
        !is_kept(&second) && second.claimed.is_empty(),
        "the first has it"
    );
    assert_eq!(remove_stale(&*holder(&directory)), 0, "its process lives");
    drop((sync, second, first));
    assert_eq!(names(directory.path()).len(), 2);
    let third = begin(&directory, &kept(1)).expect("it is there");
    assert_eq!(
        (
            third.claimed.bytes(),
            DiskFile::bytes(&third.file).expect("open")
        ),
        (100_000, 200_000)
    );
    drop(third);
    let other = begin(&directory, &kept(2)).expect("it is there");
    assert!(
        other.claimed.is_empty() && is_kept(&other),
        "another content is not claimed"
    );
    drop(other);
    assert!(begin(&directory, &Resume::Not).is_ok());
    assert_eq!(
        names(directory.path()),
        [""; 0],
        "nothing is left of it or of that"
    );
}

#[test]
fn a_journal_of_a_newer_build_is_named_and_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut first = begin(&directory, &kept(1)).expect("room");
    first.write_all(b"something").expect("room");
    drop(first);
    let journal = directory.path().join(&HiddenNames::of(b"dest").journal);
    let mut bytes = fs::read(&journal).expect("there");
    bytes[7] = 2;
    fs::write(&journal, &bytes).expect("ours");
    let refused = begin(&directory, &kept(1))
        .expect_err("it is newer")
        .to_string();
    assert!(
        refused.contains("version 2") && refused.contains("with no-resume"),
        "{refused}"
    );
    assert_eq!(fs::read(&journal).expect("there"), bytes);
    bytes.truncate(40);
    bytes[7] = 1;
    fs::write(&journal, &bytes).expect("ours");
    assert!(
        begin(&directory, &kept(1))
            .expect("it begins anew")
            .claimed
            .is_empty()
    );
}

#[test]
fn a_file_that_takes_the_place_of_another_is_not_removed_by_a_receiver_that_begins_meanwhile() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("dest");
    // Dropped even if the other thread fails, because the scope waits for both.
    let (goes_on, asked) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (goes_on, from) = (goes_on, &directory);
        scope.spawn(move || {
            while asked.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                remove_stale(&*holder(from));
            }
        });
        let replaced = (0..2000).try_for_each(|_| {
            let mut file = begin_over(from, &Resume::Not, true).expect("room");
            file.write_all(b"whole").and_then(|()| file.publish())
        });
        drop(goes_on);
        replaced.expect("nobody takes it away");
    });
    assert_eq!(fs::read_to_string(&path).expect("there"), "whole");
}

#[test]
fn a_session_without_data_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    drop(begin(&directory, &kept(1)).expect("room"));
    assert_eq!(names(directory.path()), [""; 0]);
    fs::write(directory.path().join(".ethbcast-dead01.part"), b"half").expect("room");
    fs::create_dir(directory.path().join(".ethbcast-odd.part")).expect("room");
    assert_eq!(remove_stale(&*holder(&directory)), 1);
    assert_eq!(names(directory.path()), [".ethbcast-odd.part"]);
}

#[test]
fn a_hidden_file_that_others_may_write_or_name_is_not_taken_up_and_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let part = directory.path().join(&HiddenNames::of(b"dest").part);
    let mut first = begin(&directory, &kept(1)).expect("room");
    first.write_all(&[1; 1000]).expect("room");
    drop(first);
    let mode = |mode| {
        fs::set_permissions(&part, <fs::Permissions as PermissionsExt>::from_mode(mode))
            .expect("ours")
    };
    let foreign = || {
        let file = begin(&directory, &kept(1)).expect("room");
        assert_eq!(is_kept(&file), file.remarks.foreign.get().is_none());
        file.remarks.foreign.get().cloned()
    };
    for shared in [0o620, 0o602] {
        mode(shared);
        assert_eq!(foreign().as_ref(), Some(&part), "{shared:o}");
    }
    mode(0o644);
    fs::hard_link(&part, directory.path().join("other")).expect("room");
    assert_eq!(foreign().as_ref(), Some(&part), "it has another name");
    fs::remove_file(directory.path().join("other")).expect("ours");
    assert_eq!(foreign(), None);
    assert_eq!(fs::read(&part).expect("there"), [1; 1000]);
    fs::remove_file(&part)
        .and_then(|()| fs::create_dir(&part))
        .expect("ours");
    assert_eq!(foreign().as_ref(), Some(&part), "it is no file");
}

#[test]
fn a_settled_file_that_others_may_write_is_taken_up_again_and_has_its_mode_under_its_own_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let attributes = FileAttributes {
        mode: 0o666,
        modified_seconds: 7,
        modified_nanoseconds: 0,
    };
    for is_cut_off in [true, false] {
        let mut file = begin(&directory, &kept(1)).expect("room");
        assert!(is_kept(&file), "it is this user's alone");
        file.write_all(&[1; 1000])
            .and_then(|()| file.settle(Some(attributes)))
            .expect("room");
        if !is_cut_off {
            file.publish().expect("it is free");
        }
    }
    let there = fs::metadata(directory.path().join("dest")).expect("there");
    assert_eq!(
        (there.permissions().mode() & 0o777, there.mtime()),
        (0o666, 7)
    );
}

#[test]
fn a_file_that_was_written_over_is_taken_up_though_others_may_write_to_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let dest = directory.path().join("dest");
    fs::write(&dest, vec![7; 3000]).expect("room");
    fs::set_permissions(&dest, <fs::Permissions as PermissionsExt>::from_mode(0o666))
        .expect("ours");
    let Resume::From(identity) = kept(1) else {
        panic!("it is one")
    };
    let in_place = Resume::InPlace(identity);
    let mut first = begin(&directory, &in_place).expect("room");
    first.write_all(&[1; 1000]).expect("room");
    drop(first);
    assert!(!dest.exists());
    let second = begin(&directory, &in_place).expect("it is there");
    assert!(is_kept(&second) && second.remarks.foreign.get().is_none());
}

struct FileWalk {
    old: Option<Vec<u8>>,
    new: Vec<u8>,
    how: fn(Identity) -> Resume,
    is_in_place: bool,
}

impl FileWalk {
    fn inode(&self) -> Option<u64> {
        self.start().find(0, Path::new(DEST)).ok()
    }

    /// Stands for a file that is neither old nor new and that the next run completes.
    fn broken() -> (PathBuf, Inode) {
        (PathBuf::from("broken"), Inode::Special)
    }
}

impl Walked for FileWalk {
    const DEST: &str = DEST;

    fn start(&self) -> World {
        world(self.old.as_deref())
    }

    fn held(&self) -> Vec<u64> {
        self.inode().into_iter().collect()
    }

    fn moved(&self) -> Vec<u64> {
        self.held()
    }

    fn receive(&self, disk: &crate::disk::model::Model) -> Result<bool, String> {
        receive_by(disk, &self.new, self.how)
            .map(|_| true)
            .map_err(|error| format!("{error:?}"))
    }

    fn found(&self, there: &World, _abilities: &Abilities) -> Listing {
        let aside = self.inode().map(|inode| format!(".nfs{inode}"));
        let file = there.file(DEST).or_else(|| there.file(&aside?));
        let names = there.names(0).expect("a directory");
        let has = |suffix: &str| {
            names
                .keys()
                .any(|name| name.to_string_lossy().ends_with(suffix))
        };
        match file {
            Some(bytes) => vec![(
                DEST.into(),
                Inode::File {
                    bytes: bytes.to_vec(),
                    attributes: String::new(),
                },
            )],
            None if self.is_in_place && has(".part") && has(".journal") => vec![FileWalk::broken()],
            None => Vec::new(),
        }
    }

    fn is_whole(&self, there: &Listing, old: &Listing, new: &Listing) -> bool {
        there == old || there == new || self.is_in_place && *there == [FileWalk::broken()]
    }
}

/// Whether there is an old file, how far the new one is resumed, and whether it is written in
/// place.
type Way = (bool, fn(Identity) -> Resume, bool);

#[test]
fn a_file_is_old_or_new_on_every_file_system_after_a_crash_or_a_refusal_at_any_step() {
    let (old, new) = (content(200, 5), content(100, 6));
    let in_place: fn(Identity) -> Resume = Resume::InPlace;
    let ways: [Way; 4] = [
        (true, Resume::From, false),
        (false, Resume::From, false),
        (true, |_| Resume::Not, false),
        (true, in_place, true),
    ];
    for (is_old_there, how, is_in_place) in ways {
        let old = is_old_there.then(|| old.clone());
        let walked = walk(
            &FileWalk {
                old,
                new: new.clone(),
                how,
                is_in_place,
            },
            Errors::All,
        );
        println!("{walked:?}");
        assert!(
            walked.systems == 64 && walked.crashes > 200 && walked.refusals > 1000,
            "{walked:?}"
        );
        assert!(walked.blocked > 0 || !is_old_there, "{walked:?}");
    }
    assert!(new.len() > 5 * CHUNK_BYTES, "several syncs");
}
