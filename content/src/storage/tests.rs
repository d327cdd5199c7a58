//! Tests of received directories on real file systems: names, attributes, leftovers and links.

use super::*;
use crate::disk::Lack;
use crate::hidden_names::{left_bytes, remove_stale};
use crate::manifest::{Attributes, Builder, Entry, FileData, Manifest, Node};
use crate::source::{Exclusion, Selection, Tree};
use ethbcast_collectives::session::ContentKind;
use ethbcast_collectives::session::application::Tally;
use ethbcast_collectives::session::verified::CHUNK_BYTES;
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use tempfile::TempDir;

pub(super) fn everything(at: &Path) {
    let deep = at.join("deep/".to_owned() + &"d/".repeat(300));
    fs::create_dir_all(&deep).expect("room");
    for number in 0..300 {
        fs::write(
            at.join(format!("deep/small-{number}")),
            vec![number as u8; number * 7],
        )
        .expect("room");
    }
    fs::write(deep.join("bottom"), b"here").expect("room");
    fs::write(at.join("empty"), b"").expect("room");
    fs::write(at.join("large"), vec![9; 3_000_001]).expect("room");
    fs::create_dir(at.join("nothing in it")).expect("room");
    fs::hard_link(at.join("large"), at.join("twin")).expect("room");
    symlink("../outside", at.join("link")).expect("room");
    symlink("/etc", at.join("link to a directory")).expect("room");
    fs::set_permissions(at.join("empty"), Permissions::from_mode(0o600)).expect("ours");
    fs::set_permissions(at.join("nothing in it"), Permissions::from_mode(0o555)).expect("ours");
    let sparse = fs::File::create(at.join("sparse")).expect("room");
    sparse.set_len(200 << 20).expect("a hole");
    sparse.write_all_at(&[5; 5000], 100 << 20).expect("room");
    for (seconds, name) in [(1, "empty"), (1_000_000_007, "large"), (77, "deep")] {
        let then = std::time::UNIX_EPOCH + std::time::Duration::new(seconds, 123_456_789);
        fs::File::open(at.join(name))
            .and_then(|file| file.set_modified(then))
            .expect("ours");
    }
}

pub(super) fn seen(at: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open = vec![at.to_owned()];
    while let Some(path) = open.pop() {
        let stat = path.symlink_metadata().expect("there");
        let below = path.strip_prefix(at).expect("below").display().to_string();
        let content = if stat.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .expect("readable")
                    .map(|entry| entry.expect("readable").path()),
            );
            String::new()
        } else if stat.is_symlink() {
            fs::read_link(&path).expect("a link").display().to_string()
        } else {
            blake3::hash(&fs::read(&path).expect("readable")).to_string()
        };
        let links = if stat.is_dir() { 0 } else { stat.nlink() };
        lines.push(format!(
            "{below} {:o} {}.{} {links} {content}",
            stat.mode(),
            stat.mtime(),
            stat.mtime_nsec()
        ));
    }
    lines.sort();
    lines
}

pub(super) fn list(source: &Path, selection: &Selection) -> Tree {
    Tree::list(&[source.to_owned()], selection).expect("readable")
}

pub(super) fn whole(dest: &Path) -> Target {
    Target {
        dest: dest.to_owned(),
        replace: false,
        in_place: false,
        delete: false,
        stays: false,
        accept: crate::disk::Accept::default(),
    }
}

fn receive(stream: &[u8], target: Target) -> Result<Arc<Arrived>, StorageError> {
    let (mut storage, arrived) = TreeStorage::new(target, true);
    storage.begin(&Offered::default())?;
    let kept = storage.kept().expect("it can be read");
    let mut tally = Tally::default();
    for piece in stream.chunks(100_003) {
        storage.write(piece)?;
        tally.add(piece);
        let mut again = vec![0; 1000];
        let at = tally.bytes() - piece.len() as u64;
        let count = kept.read_at(&mut again, at).expect("it has come");
        assert!(count > 0 && again[..count] == piece[..count], "at {at}");
    }
    storage.settle(tally.trailer())?;
    storage.publish()?;
    Ok(arrived)
}

pub(super) fn stream(tree: &Tree) -> Vec<u8> {
    let mut bytes = Vec::new();
    tree.reader()
        .read_to_end(&mut bytes)
        .expect("it never fails");
    bytes
}

pub(super) fn names(at: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(at)
        .expect("readable")
        .map(|entry| {
            entry
                .expect("readable")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// Creates a temporary directory, in memory if possible, so that tests do not depend on the disk.
pub(super) fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a directory")
}

#[test]
fn a_directory_with_one_of_everything_comes_out_as_it_went_in() {
    let scratch = scratch();
    let source = scratch.path().join("source");
    fs::create_dir(&source).expect("room");
    everything(&source);
    let stream = stream(&list(
        &source,
        &Selection {
            owners: None,
            xattrs: true,
            ..Selection::default()
        },
    ));
    assert!(
        stream.len() < 5_000_000,
        "{} bytes: holes and links are not sent",
        stream.len()
    );
    let dest = scratch.path().join("dest");
    let accept = "all".parse().expect("a list");
    let arrived = receive(
        &stream,
        Target {
            accept,
            ..whole(&dest)
        },
    )
    .expect("room");
    assert_eq!(seen(&dest), seen(&source));
    assert_eq!(arrived.path(), Some(&dest));
    assert!(arrived.left_out().is_empty());
    let blocks = |at: &Path| at.join("sparse").metadata().expect("there").blocks();
    assert!(blocks(&dest) < 1000, "{} blocks of a hole", blocks(&dest));
    assert_eq!(names(scratch.path()), ["dest", "source"]);
}

#[test]
fn in_an_existing_directory_it_has_its_own_name_and_replaces_only_if_it_may() {
    let scratch = scratch();
    let (source, dest) = (scratch.path().join("source"), scratch.path().join("dest"));
    fs::create_dir_all(source.join("sub")).expect("room");
    fs::write(source.join("sub/file"), b"new").expect("room");
    fs::create_dir(&dest).expect("room");
    let named = stream(&list(&source, &Selection::default()));
    receive(&named, whole(&dest)).expect("room");
    assert_eq!(seen(&dest.join("source")), seen(&source));
    fs::write(dest.join("source/old"), b"old").expect("room");
    let refused = receive(&named, whole(&dest))
        .expect_err("it is there")
        .to_string();
    assert!(
        refused.contains("exists")
            && refused.contains("with force")
            && refused.contains("with in-place"),
        "{refused}"
    );
    assert_eq!(names(&dest.join("source")), ["old", "sub"]);
    receive(
        &named,
        Target {
            replace: true,
            ..whole(&dest)
        },
    )
    .expect("it may");
    assert_eq!(seen(&dest.join("source")), seen(&source));
    assert_eq!(
        (names(&dest), names(scratch.path()).len()),
        (vec!["source".to_owned()], 2)
    );
    // Only the contents, into an existing directory that is not empty.
    let contents = stream(&list(&source.join(""), &Selection::default()));
    assert!(receive(&contents, whole(&dest)).is_err());
    receive(
        &contents,
        Target {
            replace: true,
            ..whole(&dest)
        },
    )
    .expect("it may");
    assert_eq!(seen(&dest), seen(&source));
    let empty = scratch.path().join("empty");
    fs::create_dir(&empty).expect("room");
    receive(&contents, whole(&empty)).expect("nothing is lost");
    assert_eq!(seen(&empty), seen(&source));
}

#[test]
fn in_place_others_stay_unless_it_is_to_be_a_mirror() {
    let scratch = scratch();
    let (source, dest) = (scratch.path().join("source"), scratch.path().join("dest"));
    for (path, content) in [
        ("source/a/1", "new"),
        ("source/b", "file"),
        ("dest/a/1", "old"),
        ("dest/a/2", "other"),
        ("dest/c/x", "c"),
    ] {
        let path = scratch.path().join(path);
        fs::create_dir_all(path.parent().expect("below")).expect("room");
        fs::write(path, content).expect("room");
    }
    let inode = dest.metadata().expect("there").ino();
    let contents = stream(&list(&source.join(""), &Selection::default()));
    let target = Target {
        in_place: true,
        ..whole(&dest)
    };
    receive(&contents, target.clone()).expect("room");
    assert_eq!(
        (names(&dest), names(&dest.join("a"))),
        (
            ["a", "b", "c"].map(str::to_owned).into(),
            ["1", "2"].map(str::to_owned).into()
        )
    );
    assert_eq!(fs::read(dest.join("a/1")).expect("there"), b"new");
    // A directory in the way of a file, and a link in the way of a directory.
    fs::remove_file(dest.join("b"))
        .and_then(|()| fs::create_dir(dest.join("b")))
        .expect("ours");
    fs::remove_dir_all(dest.join("a"))
        .and_then(|()| symlink(&source, dest.join("a")))
        .expect("ours");
    let refused = receive(&contents, target.clone())
        .expect_err("it may hold something")
        .to_string();
    assert!(
        refused.contains("b is a directory here") && refused.contains("with delete"),
        "{refused}"
    );
    receive(
        &contents,
        Target {
            delete: true,
            ..target
        },
    )
    .expect("a mirror");
    assert_eq!(seen(&dest)[1..], seen(&source)[1..]);
    assert_eq!(dest.metadata().expect("there").ino(), inode);
}

#[test]
fn a_file_that_vanished_is_left_out_with_its_other_names_and_the_rest_is_there() {
    let scratch = scratch();
    let (source, dest) = (scratch.path().join("source"), scratch.path().join("dest"));
    fs::create_dir(&source).expect("room");
    for name in ["a", "b", "c"] {
        fs::write(source.join(name), vec![1; 1000]).expect("room");
    }
    fs::hard_link(source.join("b"), source.join("b twin")).expect("room");
    let tree = list(&source, &Selection::default());
    fs::remove_file(source.join("b")).expect("ours");
    let arrived = receive(&stream(&tree), whole(&dest)).expect("the rest");
    assert_eq!(names(&dest), ["a", "c"]);
    let lost = arrived.left_out();
    assert!(
        lost.len() == 2 && lost[0].starts_with("b: vanished"),
        "{lost:?}"
    );
}

#[test]
fn an_ended_receiver_leaves_nothing_and_leftovers_of_dead_ones_are_removed() {
    let scratch = scratch();
    let (source, dest) = (scratch.path().join("source"), scratch.path().join("dest"));
    fs::create_dir(&source).expect("room");
    everything(&source);
    let stream = stream(&list(&source, &Selection::default()));
    let (mut storage, _arrived) = TreeStorage::new(whole(&dest), false);
    storage.write(&stream[..1_000_000]).expect("room");
    assert_eq!(names(scratch.path()).len(), 2, "a hidden one is there");
    assert_eq!(
        remove_stale(&Beneath::open(scratch.path()).expect("there")),
        0,
        "its process lives"
    );
    drop(storage);
    assert_eq!(names(scratch.path()), ["source"]);
    fs::create_dir_all(scratch.path().join(".ethbcast-1-2.tree/sub")).expect("room");
    fs::create_dir(scratch.path().join(".ethbcast-notes")).expect("room");
    assert_eq!(
        remove_stale(&Beneath::open(scratch.path()).expect("there")),
        1
    );
    assert_eq!(names(scratch.path()), [".ethbcast-notes", "source"]);
}

#[test]
fn dest_that_becomes_a_link_elsewhere_meanwhile_is_not_followed() {
    let scratch = scratch();
    let (source, dest, elsewhere) = (
        scratch.path().join("source"),
        scratch.path().join("dest"),
        scratch.path().join("elsewhere"),
    );
    [&source, &dest, &elsewhere]
        .into_iter()
        .for_each(|path| fs::create_dir(path).expect("room"));
    fs::write(source.join("file"), b"content").expect("room");
    let stream = stream(&list(&source, &Selection::default()));
    let (mut storage, _arrived) = TreeStorage::new(whole(&dest), false);
    storage.write(&stream).expect("room");
    let mut tally = Tally::default();
    tally.add(&stream);
    storage.settle(tally.trailer()).expect("room");
    fs::rename(&dest, scratch.path().join("moved"))
        .and_then(|()| symlink(&elsewhere, &dest))
        .expect("ours");
    let refused = storage.publish().expect_err("it is another").to_string();
    assert!(
        refused.contains("became another directory") && refused.contains("again"),
        "{refused}"
    );
    drop(storage);
    assert!(names(&elsewhere).is_empty() && names(&scratch.path().join("moved")).is_empty());
}

#[test]
fn a_directory_that_becomes_a_link_while_it_is_built_is_not_followed() {
    let scratch = scratch();
    let (source, dest, elsewhere) = (
        scratch.path().join("source"),
        scratch.path().join("dest"),
        scratch.path().join("elsewhere"),
    );
    [&source.join("sub"), &elsewhere]
        .into_iter()
        .for_each(|path| fs::create_dir_all(path).expect("room"));
    fs::write(source.join("sub/file"), b"content").expect("room");
    fs::write(source.join("a large one"), vec![1; 500_000]).expect("room");
    let stream = stream(&list(&source, &Selection::default()));
    let (mut storage, _arrived) = TreeStorage::new(whole(&dest), false);
    // Interrupted within the first file, then a link is put where the directory will be.
    storage.write(&stream[..300_000]).expect("room");
    let hidden = names(scratch.path())
        .into_iter()
        .find(|name| name.ends_with(".tree"))
        .expect("it is being built");
    symlink(&elsewhere, scratch.path().join(hidden).join("sub")).expect("room");
    let refused = storage
        .write(&stream[300_000..])
        .expect_err("the name is taken")
        .to_string();
    assert!(refused.contains("sub is there already"), "{refused}");
    assert!(names(&elsewhere).is_empty());
}

fn forged(entries: &[(u32, &[u8], Node)]) -> Vec<u8> {
    let mut builder = Builder::default();
    let attributes = Attributes {
        mode: 0o755,
        ..Attributes::default()
    };
    let root = Entry {
        parent: None,
        name: Box::default(),
        attributes: attributes.clone(),
        node: Node::Directory,
    };
    builder.add(root).expect("a directory");
    for (parent, name, node) in entries {
        let entry = Entry {
            parent: Some(*parent),
            name: (*name).into(),
            attributes: attributes.clone(),
            node: node.clone(),
        };
        builder.add(entry).expect("each of them can be");
    }
    let manifest: Manifest = builder.finish().expect("a directory");
    manifest.encode()
}

#[test]
fn a_forged_stream_is_refused_and_leaves_nothing() {
    let scratch = scratch();
    let dest = scratch.path().join("dest");
    let good = forged(&[(0, b"file", Node::File(FileData::dense(3)))]);
    let mut damaged = good.clone();
    *damaged.last_mut().expect("not empty") ^= 1;
    let more = [&good[..], b"abc\0and more"].concat();
    let less = [&good[..], b"abc"].concat();
    let noise = vec![7; 5000];
    for (bytes, words) in [
        (&damaged, "damaged"),
        (&more, "more came"),
        (&less, "less came"),
        (&noise, "is none"),
        (&good[..20].to_vec(), "did not come"),
    ] {
        let (mut storage, _arrived) = TreeStorage::new(whole(&dest), false);
        let mut tally = Tally::default();
        tally.add(bytes);
        let error = storage
            .write(bytes)
            .and_then(|()| storage.settle(tally.trailer()))
            .expect_err(words)
            .to_string();
        drop(storage);
        assert!(error.contains(words), "{error}");
        assert!(names(scratch.path()).is_empty(), "{words}");
    }
}

#[test]
fn a_directory_with_a_hidden_name_at_its_top_is_refused_before_anything_is_written() {
    let scratch = scratch();
    let refusal = |name: &[u8], depth: u32| {
        let entries = [
            (0, &b"below"[..], Node::Directory),
            (depth, name, Node::File(FileData::dense(0))),
        ];
        let (mut storage, _arrived) = TreeStorage::new(whole(&scratch.path().join("dest")), false);
        let written = storage.write(&forged(&entries));
        drop(storage);
        assert_eq!(names(scratch.path()), [""; 0], "nothing is left");
        written.err().map(|error| error.to_string())
    };
    let refused = refusal(b".ethbcast-1-2.old", 0);
    assert!(
        refused
            .as_ref()
            .is_some_and(|text| text.contains("leave it out")),
        "{refused:?}"
    );
    assert_eq!(
        (refusal(b".ethbcast-1-2.old", 1), refusal(b"plain", 0)),
        (None, None)
    );
}

#[test]
fn sixty_thousand_small_files_come_out_as_they_went_in() {
    let scratch = scratch();
    let (source, dest) = (scratch.path().join("source"), scratch.path().join("dest"));
    for directory in 0..600 {
        let at = source.join(format!("d{}/d{directory}", directory % 20));
        fs::create_dir_all(&at).expect("room");
        for file in 0..100 {
            fs::write(
                at.join(format!("file-{file}.c")),
                format!("{directory} {file}\n").repeat(file),
            )
            .expect("room");
        }
    }
    let tree = list(
        &source,
        &Selection {
            exclusion: Exclusion::new(["*.o"]).expect("a pattern"),
            ..Selection::default()
        },
    );
    assert_eq!(tree.entries(), 60_000 + 600 + 20);
    receive(&stream(&tree), whole(&dest)).expect("room");
    assert_eq!(seen(&dest), seen(&source));
}

#[test]
fn warnings_about_dest_are_printed_once_and_are_in_the_reports_of_both_ends() {
    let arrived = Arrived::default();
    *arrived.lacks.lock() = vec![
        (Lack::Owners, "owners".to_owned()),
        (Lack::Xattrs, "attributes".to_owned()),
    ];
    assert_eq!(arrived.lacks_beside(&[Lack::Owners].into()), ["attributes"]);
    assert_eq!(arrived.lacks(), ["owners", "attributes"]);
}

fn offered(stream: &[u8]) -> Offered {
    Offered {
        source: "source".to_owned(),
        size: Some(stream.len() as u64),
        content: ContentKind::Tree,
        ..Offered::default()
    }
}

fn begin(dest: &Path, stream: &[u8]) -> TreeStorage {
    let (mut storage, _arrived) = TreeStorage::new(whole(dest), false);
    storage.resuming();
    storage.begin(&offered(stream)).expect("it can be taken up");
    storage
}

fn complete(mut storage: TreeStorage, stream: &[u8]) -> usize {
    let (left, mut sent, mut tally) = (storage.left(), 0, Tally::default());
    for piece in stream.chunks(CHUNK_BYTES) {
        let (mut buffer, mut read) = (vec![0; piece.len()], 0);
        while let Some(left) = &left
            && let Ok(count @ 1..) = left.read_at(&mut buffer[read..], tally.bytes() + read as u64)
        {
            read += count;
        }
        let is_here = read == piece.len() && buffer == piece;
        sent += if is_here { 0 } else { piece.len() };
        let taken = if is_here {
            storage.keep(piece)
        } else {
            storage.write(piece)
        };
        taken.expect("room");
        tally.add(piece);
    }
    storage.settle(tally.trailer()).expect("room");
    storage.publish().expect("room");
    sent
}

#[test]
fn what_was_built_is_taken_up_and_only_the_rest_is_sent() {
    let scratch = scratch();
    let (source, dest) = (scratch.path().join("source"), scratch.path().join("dest"));
    fs::create_dir(&source).expect("room");
    everything(&source);
    let stream = stream(&list(&source.join(""), &Selection::default()));
    let half = stream.len() / 2;
    let mut storage = begin(&dest, &stream);
    storage.write(&stream[..half]).expect("room");
    drop(storage);
    let left = names(scratch.path());
    assert!(
        left.len() == 3 && !dest.exists(),
        "a directory and a journal: {left:?}"
    );
    let holder = Beneath::open(scratch.path()).expect("there");
    assert_eq!(remove_stale(&holder), 0, "it is kept");
    let room = left_bytes(&holder);
    assert!(
        room + 600_000 >= half as u64 && room < stream.len() as u64,
        "{room} of {half}: it needs no room again"
    );
    // Another process adds an entry and damages one.
    let built = left
        .iter()
        .find(|name| name.ends_with(".tree"))
        .expect("it is there");
    fs::write(scratch.path().join(built).join("not ours"), b"x").expect("room");
    fs::write(scratch.path().join(built).join("deep/small-7"), b"y").expect("ours");
    let sent = complete(begin(&dest, &stream), &stream);
    assert!(
        sent <= stream.len() - half + 3 * CHUNK_BYTES,
        "{sent} of {}",
        stream.len()
    );
    assert_eq!(seen(&dest), seen(&source));
    assert_eq!(names(scratch.path()), ["dest", "source"]);
}

#[test]
fn files_built_for_another_manifest_are_copied_where_they_are_equal() {
    let scratch = scratch();
    let (source, dest) = (scratch.path().join("source"), scratch.path().join("dest"));
    fs::create_dir(&source).expect("room");
    everything(&source);
    let before = stream(&list(&source.join(""), &Selection::default()));
    let mut storage = begin(&dest, &before);
    storage.write(&before[..before.len() - 10]).expect("room");
    drop(storage);
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(5);
    fs::File::open(source.join("large"))
        .and_then(|file| file.set_modified(then))
        .expect("ours");
    let after = stream(&list(&source.join(""), &Selection::default()));
    assert_eq!(before.len(), after.len());
    let sent = complete(begin(&dest, &after), &after);
    assert!(
        sent <= 2 * CHUNK_BYTES,
        "{sent} of {}: only the list of files is another",
        after.len()
    );
    assert_eq!(seen(&dest), seen(&source));
    assert_eq!(names(scratch.path()), ["dest", "source"]);
}
