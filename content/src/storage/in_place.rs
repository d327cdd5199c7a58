//! Update of a directory in place: after any failure or crash each of its files is old or new, whole.

use super::crashes::{DEST, build_in, dest, stream};
use super::place::Target;
use super::replacing::below;
use crate::disk::model::{Abilities, Inode, Model, ROOT, World};
use crate::disk::{COMMON_FILE, Directory, DiskFile};
use crate::hidden_names::is_hidden;
use crate::manifest::{Attributes, Builder, Entry, FileData, Node};
use ethbcast_collectives::session::live::StorageError;
use nix::libc;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

fn otherwise() -> World {
    let disk = Model::default();
    disk.root().make_directory(Path::new(DEST)).expect("room");
    let at = disk.root().directory(Path::new(DEST)).expect("there");
    at.make_directory(Path::new("a")).expect("room");
    let a = at.directory(Path::new("a")).expect("there");
    for (directory, name) in [(&a, "below"), (&at, "d"), (&at, "only the old one has it")] {
        let file = directory.create(Path::new(name), COMMON_FILE).expect("room");
        file.write_all_at(b"old", 0).expect("room");
    }
    disk.root().sync_file_system().expect("room");
    disk.current()
}

fn mirror(disk: &Model, stream: &[u8]) -> Result<usize, StorageError> {
    let at = disk.root().directory(Path::new(DEST)).map_err(|error| crate::trouble("begin", error))?;
    let target = Target { dest: DEST.into(), in_place: true, delete: true, ..Target::default() };
    let (work, sent) = build_in(at, None, target, stream)?;
    work.publish().map(|_| sent)
}

fn shown(world: &World) -> Vec<(PathBuf, Inode)> {
    let is_shown = |path: &Path| path.iter().next().is_some_and(|first| !is_hidden(first));
    dest(world).into_iter().filter(|(path, _)| is_shown(path)).collect()
}

#[test]
fn in_place_what_is_of_another_kind_is_there_until_its_successor_is_and_others_until_all_are() {
    let stream = stream(29);
    let undisturbed = Model::of(otherwise());
    mirror(&undisturbed, &stream).expect("it does not fail");
    let (old, new) = (otherwise(), undisturbed.durable());
    assert_eq!((shown(&new).len(), shown(&old).len()), (7, 4));
    for errno in [libc::EIO, libc::EACCES] {
        for call in 1..=undisturbed.calls() {
            let when = format!("call {call} fails with {errno}");
            let disk = Model::of(otherwise()).failing_at(call, errno);
            let is_done = mirror(&disk, &stream).is_ok();
            let there = disk.current();
            let is_new = below(&there, "a") == below(&new, "a");
            assert!(is_new || below(&there, "a") == below(&old, "a"), "{when}: {:?}", shown(&there));
            // A directory is filled file by file; before that the old file is there.
            let d = below(&there, "d").map(|(own, _)| own);
            assert!(d.is_some(), "{when}: {:?}", shown(&there));
            let only_old = "only the old one has it";
            let all_new = || ["a", "empty", "link", "twin", "d/b", "d/c"].map(|path| below(&there, path));
            let expected = ["a", "empty", "link", "twin", "d/b", "d/c"].map(|path| below(&new, path));
            assert!(below(&there, only_old).is_some() || all_new() == expected, "{when}: {:?}", shown(&there));
            if !is_done {
                mirror(&disk, &stream).unwrap_or_else(|error| panic!("{when}, then: {error}"));
            }
            assert!(shown(&disk.durable()) == shown(&new), "{when}: {:?}", shown(&disk.durable()));
        }
    }
}

#[test]
fn in_place_a_directory_in_the_way_of_a_file_is_there_until_that_is_whenever_the_machine_stops() {
    let stream = stream(41);
    let disk = Model::of(otherwise()).remembering();
    mirror(&disk, &stream).expect("it does not fail");
    let (old, new) = (otherwise(), disk.durable());
    for moment in disk.moments() {
        for crashed in moment.crashes().into_iter().chain([moment.kill()]) {
            let a = below(&crashed, "a");
            assert!(a == below(&old, "a") || a == below(&new, "a"), "after {}: {a:?}", moment.after);
        }
    }
}

const FILES: usize = 6;
const FILE_BYTES: usize = 1000;

fn numbered(are: &[usize]) -> Vec<u8> {
    let mut builder = Builder::default();
    let mut add = |parent: Option<u32>, name: String, node| {
        let attributes = Attributes { mode: 0o755, ..Attributes::default() };
        builder.add(Entry { parent, name: name.into_bytes().into(), attributes, node }).expect("it can be");
    };
    add(None, String::new(), Node::Directory);
    add(Some(0), "d".to_owned(), Node::Directory);
    for number in 0..FILES {
        add(Some(number as u32 % 2), format!("f{number}"), Node::File(FileData::dense(FILE_BYTES as u64)));
    }
    let manifest = builder.finish().expect("a directory");
    let mut stream = manifest.encode();
    for entry in manifest.entries() {
        let Some(number) = entry.name.strip_prefix(b"f") else { continue };
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

fn receive_in_place(disk: &Model, stream: &[u8]) -> Result<usize, StorageError> {
    let at = disk.root().directory(Path::new(DEST)).map_err(|error| crate::trouble("begin", error))?;
    let target = Target { dest: DEST.into(), in_place: true, ..Target::default() };
    let (work, sent) = build_in(at, None, target, stream)?;
    work.publish().map(|_| sent)
}

fn start(stream: &[u8]) -> World {
    let disk = Model::default();
    disk.root().make_directory(Path::new(DEST)).and_then(|()| disk.root().sync_file_system()).expect("room");
    receive_in_place(&disk, stream).expect("room");
    disk.root().sync_file_system().expect("room");
    disk.durable()
}

fn files(world: &World) -> BTreeMap<PathBuf, Vec<u8>> {
    let file = |(path, inode): (PathBuf, Inode)| match inode {
        Inode::File { bytes, .. } if !path.iter().any(is_hidden) => Some((path, bytes)),
        _ => None,
    };
    dest(world).into_iter().filter_map(file).collect()
}

#[test]
fn each_file_is_old_or_new_whenever_the_machine_stops_and_the_next_run_completes_it() {
    let (before, after) = (numbered(&[]), numbered(&[1, 2, 5]));
    let old = start(&before);
    for (kind, room_bytes) in [("room for all", None), ("room for one", Some(9 * FILE_BYTES as u64))] {
        let abilities = Abilities { room_bytes, ..Abilities::default() };
        let disk = Model::of(old.clone()).with(&abilities).remembering();
        receive_in_place(&disk, &after).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let (had, has) = (files(&old), files(&disk.durable()));
        assert_eq!((had.len(), has.len()), (FILES, FILES), "{kind}");
        assert!(had != has, "{kind}");
        let mut seen = HashSet::new();
        for moment in disk.moments() {
            for crashed in moment.crashes().into_iter().chain([moment.kill()]) {
                let when = format!("{kind}, after {}", moment.after);
                let there = files(&crashed);
                assert_eq!(there.len(), FILES, "{when}: {:?}", there.keys());
                for (path, bytes) in &there {
                    assert!(*bytes == had[path] || *bytes == has[path], "{when}: {}", path.display());
                }
                if !seen.insert(format!("{crashed:?}")) {
                    continue;
                }
                let again = Model::of(crashed).with(&abilities);
                receive_in_place(&again, &after).unwrap_or_else(|error| panic!("{when}: {error}"));
                assert!(files(&again.durable()) == has, "{when}");
                let names = again.root().directory(Path::new(DEST)).and_then(|at| at.names()).expect("there");
                assert!(!names.iter().any(|name| is_hidden(name)), "{when}: {names:?}");
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
            if number.is_multiple_of(2) { format!("dest/f{number}") } else { format!("dest/d/f{number}") }
        };
        (0..FILES).map(|number| world.find(ROOT, Path::new(&at(number))).expect("there")).collect::<Vec<_>>()
    };
    // The journal needs some space.
    let room = FILES as u64 * FILE_BYTES as u64 + 900;
    let disk = Model::of(old.clone()).with(&Abilities { room_bytes: Some(room), ..Abilities::default() });
    receive_in_place(&disk, &same).expect("it needs no room");
    assert_eq!(inodes(&disk.durable()), inodes(&old));
    let all_new = numbered(&[0, 1, 2, 3, 4, 5]);
    let refused = receive_in_place(&disk, &all_new).expect_err("one more file needs more");
    assert!(refused.to_string().contains("f0") && files(&disk.durable()) == files(&old), "{refused}");
}

#[test]
fn a_file_that_was_made_longer_or_has_another_name_is_replaced() {
    let before = numbered(&[]);
    let disk = Model::of(start(&before));
    let at = disk.root().directory(Path::new(DEST)).expect("there");
    at.take_up(Path::new("f0")).and_then(|file| file.write_all_at(b"more", FILE_BYTES as u64)).expect("room");
    at.make_link(Path::new("other"), &at, Path::new("f2")).expect("room");
    disk.root().sync_file_system().expect("room");
    let after = numbered(&[2]);
    receive_in_place(&disk, &after).expect("room");
    let (has, there) = (files(&start(&after)), files(&disk.durable()));
    assert!(has.iter().all(|(path, bytes)| there[path] == *bytes));
    assert_eq!(there[Path::new("other")], vec![2; FILE_BYTES], "another name keeps what it had");
}
