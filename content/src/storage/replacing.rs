//! A directory takes the place of another on disks of every kind: whichever step fails, and whenever the machine stops,
//! the old or the new one is there, whole.

use super::crashes::{DEST, build, build_in, dest, old_world, receive, stream};
use super::place::Target;
use crate::disk::model::{Abilities, Inode, Model, ROOT, World};
use crate::disk::{COMMON_FILE, Directory, DiskFile};
use crate::hidden_names::{is_hidden, remove_stale};
use ethbcast_collectives::session::live::StorageError;
use nix::libc;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

/// The old directory, and in it another that has a file.
fn old() -> World {
    let disk = Model::of(old_world());
    let at = disk.root().directory(Path::new(DEST)).expect("there");
    at.make_directory(Path::new("mnt")).expect("room");
    let below = at.directory(Path::new("mnt")).expect("there");
    let file = below.create(Path::new("precious"), COMMON_FILE).expect("room");
    file.write_all_at(b"precious", 0).and_then(|()| disk.root().sync_file_system()).expect("room");
    disk.current()
}

fn inode(world: &World, path: &str) -> u64 {
    world.find(ROOT, Path::new(path)).expect("it is there")
}

/// Disks that can more or less: none of them has a file system mounted below DEST.
fn disks() -> Vec<(&'static str, Abilities)> {
    let held: BTreeSet<u64> = [inode(&old(), "dest/a"), inode(&old(), "dest/mnt/precious")].into();
    let with = |no_exchange, held| Abilities { no_exchange, held, ..Abilities::default() };
    vec![
        ("all it should", with(false, BTreeSet::new())),
        ("no exchange", with(true, BTreeSet::new())),
        ("files that somebody has open", with(false, held.clone())),
        ("no exchange, and files that somebody has open", with(true, held)),
    ]
}

/// What DEST may be before, and the disk that it is on.
fn kinds() -> Vec<(String, World, Abilities)> {
    let empty = || {
        let disk = Model::default();
        disk.root().make_directory(Path::new(DEST)).and_then(|()| disk.root().sync_file_system()).expect("room");
        disk.current()
    };
    let mut kinds = Vec::new();
    for (kind, abilities) in disks() {
        kinds.push((format!("replaced, {kind}"), old(), abilities.clone()));
        // Who has a file open there has one of the old directory.
        let abilities = Abilities { held: BTreeSet::new(), ..abilities };
        kinds.push((format!("empty, {kind}"), empty(), abilities.clone()));
        kinds.push((format!("not there, {kind}"), World::default(), abilities));
    }
    kinds
}

/// What a user finds in DEST once any receiver has begun there again.
fn found(world: &World, abilities: &Abilities) -> Vec<(PathBuf, Inode)> {
    let disk = Model::of(world.clone()).with(abilities);
    remove_stale(&disk.root());
    dest(&disk.current())
}

#[test]
fn whenever_the_machine_stops_the_old_or_the_new_one_is_there() {
    let stream = stream(11);
    for (kind, start, abilities) in kinds() {
        let disk = Model::of(start.clone()).with(&abilities);
        let (work, _) = build(&disk, &stream).expect("it does not fail");
        let disk = disk.remembering();
        work.publish().unwrap_or_else(|error| panic!("{kind}: {error}"));
        let (old, new) = (dest(&start), dest(&disk.durable()));
        assert_eq!(new.len(), 7, "{kind}: delivered, and not on the disk");
        let mut seen = HashSet::new();
        for moment in disk.moments() {
            for crashed in moment.crashes().into_iter().chain([moment.kill()]) {
                let when = format!("{kind}, after {}", moment.after);
                let there = found(&crashed, &abilities);
                assert!(there == old || there == new, "{when}: {there:?}");
                if !seen.insert(format!("{crashed:?}")) {
                    continue;
                }
                let again = Model::of(crashed).with(&abilities);
                receive(&again, &stream).unwrap_or_else(|error| panic!("{when}: {error}"));
                assert!(dest(&again.durable()) == new, "{when}: delivered, and not on the disk");
            }
        }
    }
}

#[test]
fn whichever_step_fails_the_old_one_is_there_and_what_came_is_kept() {
    let stream = stream(13);
    for (kind, start, abilities) in kinds() {
        let undisturbed = Model::of(start.clone()).with(&abilities);
        let (work, _) = build(&undisturbed, &stream).expect("it does not fail");
        let first = undisturbed.calls() + 1;
        work.publish().expect("it does not fail");
        let (old, new) = (dest(&start), dest(&undisturbed.durable()));
        for errno in [libc::EIO, libc::EBUSY, libc::EACCES, libc::ENOSPC] {
            for call in first..=undisturbed.calls() {
                let when = format!("{kind}, call {call} fails with {errno}");
                let disk = Model::of(start.clone()).with(&abilities).failing_at(call, errno);
                let (work, _) = build(&disk, &stream).expect("it fails later");
                let published = work.publish();
                let there = dest(&disk.current());
                assert!(there == old || there == new, "{when}: {there:?}");
                if published.is_ok() {
                    assert!(there == new && dest(&disk.durable()) == new, "{when}: delivered, and not on the disk");
                } else if there == old {
                    let sent = receive(&disk, &stream).unwrap_or_else(|error| panic!("{when}, then: {error}"));
                    assert_eq!(sent, 0, "{when}: what came was not kept");
                    assert!(dest(&disk.durable()) == new, "{when}");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_removed_is_left_aside_hidden_and_goes_when_nobody_has_it_open() {
    for (kind, abilities) in disks() {
        let disk = Model::of(old()).with(&abilities);
        receive(&disk, &stream(17)).unwrap_or_else(|error| panic!("{kind}: {error}"));
        let names = disk.root().names().expect("readable");
        assert_eq!(names.iter().filter(|name| !is_hidden(name)).collect::<Vec<_>>(), [DEST], "{kind}");
        assert_eq!(names.len(), 1 + usize::from(!abilities.held.is_empty()), "{kind}: {names:?}");
        let later = disk.with(&Abilities::default());
        remove_stale(&later.root());
        assert_eq!(later.root().names().expect("readable"), [DEST], "{kind}");
    }
}

#[test]
fn what_is_mounted_below_is_neither_removed_nor_entered() {
    for no_exchange in [false, true] {
        let mounts = [inode(&old(), "dest/mnt")].into();
        let abilities = Abilities { no_exchange, mounts, ..Abilities::default() };
        let disk = Model::of(old()).with(&abilities);
        receive(&disk, &stream(19)).expect("nobody looked before");
        for _ in 0..2 {
            let listing = disk.current().listing(ROOT);
            let precious = listing.iter().filter(|(path, _)| path.ends_with("mnt/precious")).count();
            assert_eq!(precious, 1, "{listing:?}");
            remove_stale(&disk.root());
        }
    }
}

#[test]
fn a_mount_point_stays_where_it_is() {
    let disk = Model::of(old()).with(&Abilities { mounts: [inode(&old(), DEST)].into(), ..Abilities::default() });
    receive(&disk, &stream(23)).expect_err("it cannot be renamed");
    assert!(dest(&disk.current()) == dest(&old()));
}

/// An old directory in which a directory is where a file comes, and a file where a directory does.
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

/// Receives into the directory that is there, which has nothing else then.
fn mirror(disk: &Model, stream: &[u8]) -> Result<usize, StorageError> {
    let at = disk.root().directory(Path::new(DEST)).map_err(|error| crate::trouble("begin", error))?;
    let target = Target { dest: DEST.into(), in_place: true, delete: true, ..Target::default() };
    let (work, sent) = build_in(at, None, target, stream)?;
    work.publish().map(|_| sent)
}

/// All that DEST has, but for what is hidden.
fn shown(world: &World) -> Vec<(PathBuf, Inode)> {
    let is_shown = |path: &Path| path.iter().next().is_some_and(|first| !is_hidden(first));
    dest(world).into_iter().filter(|(path, _)| is_shown(path)).collect()
}

/// What has a name, and all below it.
fn below(world: &World, path: &str) -> Option<(Inode, Vec<(PathBuf, Inode)>)> {
    let inode = world.find(ROOT, &Path::new(DEST).join(path)).ok()?;
    let own = match world.inode(inode) {
        Inode::Directory { .. } => World::directory(),
        other => other.clone(),
    };
    Some((own, world.listing(inode)))
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
            // A directory fills file by file; before it is one the old file is there.
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
