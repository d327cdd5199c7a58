//! Update of an existing directory in place. After any failure or crash each of its files is
//! entirely old or entirely new.

use super::crashes::{DEST, build_in, dest, stream};
use super::place::Target;
use super::replacing::{below, entries, inode};
use super::work::Published;
use crate::disk::model::{Abilities, Inode, Model, ROOT, World};
use crate::disk::{COMMON_FILE, Directory, DiskFile};
use crate::hidden_names::is_hidden;
use crate::manifest::{Attributes, Builder, Entry, FileData, Node};
use ethbcast_collectives::session::live::StorageError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(super) fn otherwise() -> World {
    let disk = Model::default();
    disk.root().make_directory(Path::new(DEST)).expect("room");
    let at = disk.root().directory(Path::new(DEST)).expect("there");
    at.make_directory(Path::new("a")).expect("room");
    let a = at.directory(Path::new("a")).expect("there");
    for (directory, name) in [(&a, "below"), (&at, "d"), (&at, "only the old one has it")] {
        let file = directory
            .create(Path::new(name), COMMON_FILE)
            .expect("room");
        file.write_all_at(b"old", 0).expect("room");
    }
    disk.root().sync_file_system().expect("room");
    disk.current()
}

fn mirror(disk: &Model, stream: &[u8]) -> Result<Published, StorageError> {
    receive_in_place(disk, stream, true)
}

fn receive_in_place(disk: &Model, stream: &[u8], delete: bool) -> Result<Published, StorageError> {
    let at = disk
        .root()
        .directory(Path::new(DEST))
        .map_err(|error| crate::trouble("begin", error))?;
    let target = Target {
        dest: DEST.into(),
        in_place: true,
        delete,
        ..Target::default()
    };
    build_in(at, None, target, stream).and_then(|(work, _)| work.publish())
}

fn disks() -> Vec<(&'static str, Abilities)> {
    Abilities::disks(
        ["dest/a/below", "dest/d", "dest/only the old one has it"]
            .map(|path| inode(&otherwise(), path)),
    )
}

fn shown(world: &World) -> Vec<(PathBuf, Inode)> {
    let is_shown = |path: &Path| path.iter().next().is_some_and(|first| !is_hidden(first));
    dest(world)
        .into_iter()
        .filter(|(path, _)| is_shown(path))
        .collect()
}

/// Whether nothing was lost: each file is old or new, and files that the sender does not have are
/// there until all others are new.
#[track_caller]
fn assert_whole(there: &World, new: &World, when: &str) {
    let (a, old) = (below(there, "a"), below(&otherwise(), "a"));
    // Without an exchange the old entry is aside for a moment, and the next run completes the
    // replacement.
    let aside = || {
        dest(there)
            .into_iter()
            .map(|(path, _)| path)
            .find(|path| path.to_string_lossy().ends_with(".old"))
    };
    let is_aside =
        || a.is_none() && aside().is_some_and(|path| below(there, &path.to_string_lossy()) == old);
    assert!(
        a == below(new, "a") || a == old || is_aside(),
        "{when}: {:?}",
        dest(there)
    );
    let names = ["a", "empty", "link", "twin", "d/b", "d/c"];
    let are_new = names.map(|path| below(there, path)) == names.map(|path| below(new, path));
    assert!(
        below(there, "only the old one has it").is_some() || are_new,
        "{when}: {:?}",
        shown(there)
    );
}

#[test]
fn in_place_what_is_of_another_kind_is_there_until_its_successor_is_and_others_until_all_are() {
    let stream = stream(29);
    for (kind, abilities) in disks() {
        let undisturbed = Model::of(otherwise()).with(&abilities);
        mirror(&undisturbed, &stream).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let new = undisturbed.durable();
        for errno in [libc::EIO, libc::EACCES, libc::EBUSY, libc::ENOSPC] {
            for call in 1..=undisturbed.calls() {
                let when = format!("{kind}, call {call} fails with {errno}");
                let disk = Model::of(otherwise())
                    .with(&abilities)
                    .failing_at(call, errno);
                // Entries that cannot be removed now are listed, and removed by the next run.
                let is_done =
                    mirror(&disk, &stream).is_ok_and(|published| published.remains.is_empty());
                assert_whole(&disk.current(), &new, &when);
                // A directory is filled file by file; before that the old file is there.
                assert!(
                    below(&disk.current(), "d").is_some(),
                    "{when}: {:?}",
                    shown(&disk.current())
                );
                if !is_done {
                    mirror(&disk, &stream).unwrap_or_else(|error| panic!("{when}, then: {error}"));
                }
                assert!(
                    shown(&disk.durable()) == shown(&new),
                    "{when}: {:?}",
                    shown(&disk.durable())
                );
            }
        }
        for room in (0..4000).step_by(97) {
            let when = format!("{kind}, {room} bytes of room");
            let little = Abilities {
                room_bytes: Some(room),
                ..abilities.clone()
            };
            let disk = Model::of(otherwise()).with(&little);
            let is_done = mirror(&disk, &stream).is_ok();
            assert_whole(&disk.current(), &new, &when);
            if !is_done {
                mirror(&disk.clone().with(&abilities), &stream)
                    .unwrap_or_else(|error| panic!("{when}, then: {error}"));
            }
            assert!(
                shown(&disk.durable()) == shown(&new),
                "{when}: {:?}",
                shown(&disk.durable())
            );
        }
    }
}

#[test]
fn in_place_a_directory_in_the_way_of_a_file_is_there_until_that_is_whenever_the_machine_stops() {
    let stream = stream(41);
    for (kind, abilities) in disks() {
        let disk = Model::of(otherwise()).with(&abilities).remembering();
        mirror(&disk, &stream).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let new = disk.durable();
        let kept = shown(&new).len() - entries(&abilities);
        assert_eq!(
            kept,
            usize::from(!abilities.held.is_empty()),
            "{kind}: {:?}",
            shown(&new)
        );
        for moment in disk.moments() {
            let when = format!("{kind}, after {}", moment.after);
            let (crashes, killed) = (moment.crashes(), moment.kill());
            crashes
                .iter()
                .for_each(|crashed| assert_whole(crashed, &new, &when));
            for crashed in [killed].into_iter().chain(crashes.into_iter().step_by(20)) {
                let again = Model::of(crashed).with(&abilities);
                mirror(&again, &stream).unwrap_or_else(|error| panic!("{when}: {error}"));
                assert!(
                    shown(&again.durable()) == shown(&new),
                    "{when}: {:?}",
                    shown(&again.durable())
                );
            }
        }
    }
}

/// Regression: an open file became `.nfs…` on the first run with --delete, and every run failed
/// until it was closed.
#[test]
fn what_delete_cannot_remove_because_somebody_has_it_open_is_said_and_all_else_is_done() {
    for (kind, abilities) in disks() {
        let disk = Model::of(otherwise()).with(&abilities);
        for run in ["first", "second"] {
            let published =
                mirror(&disk, &stream(53)).unwrap_or_else(|error| panic!("{kind}, {run}: {error}"));
            let names: Vec<_> = shown(&disk.durable())
                .into_iter()
                .map(|(path, _)| path)
                .collect();
            let stay = names
                .iter()
                .filter(|path| path.to_string_lossy().starts_with(".nfs"))
                .count();
            assert_eq!(
                stay,
                usize::from(!abilities.held.is_empty()),
                "{kind}, {run}: {names:?}"
            );
            let is_said = published.remains.iter().any(|line| line.contains(".nfs"));
            assert_eq!(
                is_said,
                stay > 0 && run == "second",
                "{kind}, {run}: {:?}",
                published.remains
            );
        }
        mirror(&disk.with(&Abilities::default()), &stream(53)).expect("nobody has it open");
    }
}

/// Regression: a file that was in DEST already, unchanged or put there with a thousand others, got
/// no further name.
#[test]
fn a_file_that_is_in_dest_before_all_is_built_gets_its_further_names() {
    const PUT_TOGETHER: usize = 1024;
    let mut builder = Builder::default();
    let mut add = |parent: Option<u32>, name: String, node| {
        let attributes = Attributes {
            mode: 0o755,
            ..Attributes::default()
        };
        builder
            .add(Entry {
                parent,
                name: name.into_bytes().into(),
                attributes,
                node,
            })
            .expect("it can be");
    };
    add(None, String::new(), Node::Directory);
    (0..PUT_TOGETHER).for_each(|number| {
        add(
            Some(0),
            format!("f{number:04}"),
            Node::File(FileData::dense(1)),
        )
    });
    add(Some(0), "twin".to_owned(), Node::HardLink(1));
    let mut stream = builder.finish().expect("a directory").encode();
    stream.extend([7, 0].repeat(PUT_TOGETHER));
    for (kind, abilities) in Abilities::profiles() {
        let disk = Model::default().with(&abilities);
        disk.root()
            .make_directory(Path::new(DEST))
            .and_then(|()| disk.root().sync_file_system())
            .expect("room");
        for run in ["all is new", "all is there", "its second name is missing"] {
            receive_in_place(&disk, &stream, false)
                .unwrap_or_else(|error| panic!("{kind}, {run}: {error}"));
            let names = shown(&disk.durable());
            assert_eq!(names.len(), PUT_TOGETHER + 1, "{kind}, {run}");
            let last = names.last().expect("many");
            assert_eq!(
                last,
                &(PathBuf::from("twin"), names[0].1.clone()),
                "{kind}, {run}"
            );
            if run == "all is there" {
                let at = disk.root().directory(Path::new(DEST)).expect("there");
                at.remove(Path::new("twin")).expect("ours");
            }
        }
    }
}

const FILES: usize = 6;
const FILE_BYTES: usize = 1000;

fn numbered(are: &[usize]) -> Vec<u8> {
    let mut builder = Builder::default();
    let mut add = |parent: Option<u32>, name: String, node| {
        let attributes = Attributes {
            mode: 0o755,
            ..Attributes::default()
        };
        builder
            .add(Entry {
                parent,
                name: name.into_bytes().into(),
                attributes,
                node,
            })
            .expect("it can be");
    };
    add(None, String::new(), Node::Directory);
    add(Some(0), "d".to_owned(), Node::Directory);
    for number in 0..FILES {
        add(
            Some(number as u32 % 2),
            format!("f{number}"),
            Node::File(FileData::dense(FILE_BYTES as u64)),
        );
    }
    let manifest = builder.finish().expect("a directory");
    let mut stream = manifest.encode();
    for entry in manifest.entries() {
        let Some(number) = entry.name.strip_prefix(b"f") else {
            continue;
        };
        let number = usize::from(number[0] - b'0');
        let mut bytes = vec![number as u8; FILE_BYTES];
        if are.contains(&number) {
            bytes[FILE_BYTES / 2..].fill(100 + number as u8);
        }
        stream.extend(bytes);
        stream.push(0);
    }
    stream
}

fn start(stream: &[u8]) -> World {
    let disk = Model::default();
    disk.root()
        .make_directory(Path::new(DEST))
        .and_then(|()| disk.root().sync_file_system())
        .expect("room");
    receive_in_place(&disk, stream, false).expect("room");
    disk.root().sync_file_system().expect("room");
    disk.durable()
}

/// The files of DEST. A file that was replaced while open, and whose name is free, still counts
/// under its former name.
fn files(world: &World, before: &World) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut there, mut aside) = (BTreeMap::new(), BTreeMap::new());
    for (path, inode) in dest(world) {
        let (Inode::File { bytes, .. }, false) = (inode, path.iter().any(is_hidden)) else {
            continue;
        };
        let name = path
            .file_name()
            .expect("one")
            .to_string_lossy()
            .into_owned();
        if let Some(number) = name.strip_prefix(".nfs") {
            aside.insert(number.parse::<u64>().expect("of the model"), bytes);
        } else {
            there.insert(path, bytes);
        }
    }
    for (path, _) in dest(before) {
        if let Some(bytes) = aside.remove(&inode(before, &format!("{DEST}/{}", path.display()))) {
            there.entry(path).or_insert(bytes);
        }
    }
    there
}

#[test]
fn each_file_is_old_or_new_whenever_the_machine_stops_and_the_next_run_completes_it() {
    let (before, after) = (numbered(&[]), numbered(&[1, 2, 5]));
    let disk = Model::of(start(&before));
    let at = disk.root().directory(Path::new("dest/d")).expect("there");
    at.create(Path::new("extra"), COMMON_FILE)
        .and_then(|file| file.write_all_at(b"extra", 0))
        .expect("room");
    disk.root().sync_file_system().expect("room");
    let old = disk.durable();
    let held = ["dest/d/f1", "dest/d/extra"].map(|path| inode(&old, path));
    let ways = [
        (None, false),
        (Some(9), false),
        (None, true),
        (Some(9), true),
    ];
    for ((kind, abilities), (room, delete)) in Abilities::disks(held)
        .into_iter()
        .flat_map(|disk| ways.map(|way| (disk.clone(), way)))
    {
        let kind = format!("{kind}, room for {room:?} files, delete: {delete}");
        let room_bytes =
            room.map(|files| (files + abilities.held.len() as u64) * FILE_BYTES as u64);
        let abilities = Abilities {
            room_bytes,
            ..abilities
        };
        let disk = Model::of(old.clone()).with(&abilities).remembering();
        receive_in_place(&disk, &after, delete).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let (had, has) = (files(&old, &old), files(&disk.durable(), &old));
        assert!(had != has && had.len() == FILES + 1, "{kind}");
        assert_eq!(
            has.len(),
            FILES + usize::from(!delete || !abilities.held.is_empty()),
            "{kind}: {:?}",
            has.keys()
        );
        for moment in disk.moments() {
            let when = format!("{kind}, after {}", moment.after);
            let (crashes, killed) = (moment.crashes(), moment.kill());
            for crashed in crashes.iter().chain([&killed]) {
                let there = files(crashed, &old);
                assert!(
                    there.keys().chain(has.keys()).collect::<BTreeSet<_>>()
                        == there.keys().collect(),
                    "{when}"
                );
                assert!(
                    there
                        .iter()
                        .all(|(path, bytes)| *bytes == had[path] || has.get(path) == Some(bytes)),
                    "{when}"
                );
                assert!(
                    there.len() == had.len() || there == has,
                    "{when}: removed before all others were new"
                );
            }
            for crashed in [killed].into_iter().chain(crashes.into_iter().step_by(20)) {
                let again = Model::of(crashed).with(&abilities);
                receive_in_place(&again, &after, delete)
                    .unwrap_or_else(|error| panic!("{when}: {error}"));
                assert!(files(&again.durable(), &old) == has, "{when}");
                let names = again
                    .root()
                    .directory(Path::new(DEST))
                    .and_then(|at| at.names())
                    .expect("there");
                assert!(
                    !names.iter().any(|name| is_hidden(name)),
                    "{when}: {names:?}"
                );
            }
        }
    }
}

#[test]
fn what_is_the_same_needs_no_room_and_stays_the_same_file() {
    let same = numbered(&[]);
    let old = start(&same);
    let inodes = |world: &World| {
        let at = |number: usize| {
            if number.is_multiple_of(2) {
                format!("dest/f{number}")
            } else {
                format!("dest/d/f{number}")
            }
        };
        (0..FILES)
            .map(|number| world.find(ROOT, Path::new(&at(number))).expect("there"))
            .collect::<Vec<_>>()
    };
    // The journal needs some space.
    let room = FILES as u64 * FILE_BYTES as u64 + 900;
    let disk = Model::of(old.clone()).with(&Abilities {
        room_bytes: Some(room),
        ..Abilities::default()
    });
    receive_in_place(&disk, &same, false).expect("it needs no room");
    assert_eq!(inodes(&disk.durable()), inodes(&old));
    let all_new = numbered(&[0, 1, 2, 3, 4, 5]);
    let refused = receive_in_place(&disk, &all_new, false).expect_err("one more file needs more");
    assert!(
        refused.to_string().contains("f0") && files(&disk.durable(), &old) == files(&old, &old),
        "{refused}"
    );
}

#[test]
fn a_file_that_was_made_longer_or_has_another_name_is_replaced() {
    let before = numbered(&[]);
    let old = start(&before);
    let disk = Model::of(old.clone());
    let at = disk.root().directory(Path::new(DEST)).expect("there");
    at.take_up(Path::new("f0"))
        .and_then(|file| file.write_all_at(b"more", FILE_BYTES as u64))
        .expect("room");
    at.make_link(Path::new("other"), &at, Path::new("f2"))
        .expect("room");
    disk.root().sync_file_system().expect("room");
    let after = numbered(&[2]);
    receive_in_place(&disk, &after, false).expect("room");
    let (has, there) = (files(&start(&after), &old), files(&disk.durable(), &old));
    assert!(has.iter().all(|(path, bytes)| there[path] == *bytes));
    assert_eq!(
        there[Path::new("other")],
        vec![2; FILE_BYTES],
        "another name keeps what it had"
    );
}
