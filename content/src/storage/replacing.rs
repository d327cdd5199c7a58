//! Replacement of an old directory by a received one, on any file system. After a failure or crash
//! DEST is entirely the old or entirely the new one.

use super::crashes::{DEST, build, build_in, dest, old_world, receive, stream};
use super::place::Target;
use crate::disk::model::{Abilities, Inode, Model, ROOT, World};
use crate::disk::{COMMON_FILE, Directory, DiskFile, Lack, Privilege};
use crate::hidden_names::{is_hidden, remove_stale};
use crate::manifest::{Attributes, Builder, Entry, FileData, Node, Owner, Special, Xattr};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

pub(super) fn old() -> World {
    let disk = Model::of(old_world());
    let at = disk.root().directory(Path::new(DEST)).expect("there");
    at.make_directory(Path::new("mnt")).expect("room");
    let below = at.directory(Path::new("mnt")).expect("there");
    let file = below
        .create(Path::new("precious"), COMMON_FILE)
        .expect("room");
    file.write_all_at(b"precious", 0)
        .and_then(|()| disk.root().sync_file_system())
        .expect("room");
    disk.current()
}

pub(super) fn inode(world: &World, path: &str) -> u64 {
    world.find(ROOT, Path::new(path)).expect("it is there")
}

fn disks() -> Vec<(&'static str, Abilities)> {
    Abilities::disks([inode(&old(), "dest/a"), inode(&old(), "dest/mnt/precious")])
}

pub(super) fn entries(abilities: &Abilities) -> usize {
    7 - usize::from(abilities.no_symlinks)
}

fn kinds() -> Vec<(String, World, Abilities)> {
    let empty = || {
        let disk = Model::default();
        disk.root()
            .make_directory(Path::new(DEST))
            .and_then(|()| disk.root().sync_file_system())
            .expect("room");
        disk.current()
    };
    let mut kinds = Vec::new();
    for (kind, abilities) in disks() {
        kinds.push((format!("replaced, {kind}"), old(), abilities.clone()));
        // Files held open belong to the old directory.
        let abilities = Abilities {
            held: BTreeSet::new(),
            ..abilities
        };
        kinds.push((format!("empty, {kind}"), empty(), abilities.clone()));
        kinds.push((format!("not there, {kind}"), World::default(), abilities));
    }
    kinds
}

pub(super) fn below(world: &World, path: &str) -> Option<(Inode, Vec<(PathBuf, Inode)>)> {
    let inode = world.find(ROOT, &Path::new(DEST).join(path)).ok()?;
    let own = match world.inode(inode) {
        Inode::Directory { .. } => World::directory(),
        other => other.clone(),
    };
    Some((own, world.listing(inode)))
}

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
        work.publish()
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
        let (old, new) = (dest(&start), dest(&disk.durable()));
        assert_eq!(
            new.len(),
            entries(&abilities),
            "{kind}: delivered, and not on the disk"
        );
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
                assert!(
                    dest(&again.durable()) == new,
                    "{when}: delivered, and not on the disk"
                );
            }
        }
    }
}

#[test]
fn whenever_the_machine_stops_while_it_is_built_the_old_one_is_there_on_every_disk() {
    let stream = stream(47);
    for (kind, abilities) in disks() {
        let disk = Model::of(old()).with(&abilities).remembering();
        let (work, _) = build(&disk, &stream).expect("it does not fail");
        let moments = disk.moments();
        work.publish()
            .unwrap_or_else(|error| panic!("{kind}: {error}"));
        let (old, new) = (dest(&old()), dest(&disk.durable()));
        for moment in moments {
            let when = format!("{kind}, after {}", moment.after);
            let (crashes, killed) = (moment.crashes(), moment.kill());
            assert!(crashes.iter().all(|crashed| dest(crashed) == old), "{when}");
            // Runs after each of the crashes are those of `crashes`, on one disk.
            for crashed in [killed].into_iter().chain(crashes.into_iter().step_by(50)) {
                let again = Model::of(crashed).with(&abilities);
                receive(&again, &stream).unwrap_or_else(|error| panic!("{when}: {error}"));
                assert!(
                    dest(&again.durable()) == new,
                    "{when}: delivered, and not on the disk"
                );
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
        for errno in [
            libc::EIO,
            libc::EBUSY,
            libc::EACCES,
            libc::ENOSPC,
            libc::EDQUOT,
        ] {
            for call in first..=undisturbed.calls() {
                let when = format!("{kind}, call {call} fails with {errno}");
                let disk = Model::of(start.clone())
                    .with(&abilities)
                    .failing_at(call, errno);
                let (work, _) = build(&disk, &stream).expect("it fails later");
                let published = work.publish();
                let there = dest(&disk.current());
                assert!(there == old || there == new, "{when}: {there:?}");
                if published.is_ok() {
                    assert!(
                        there == new && dest(&disk.durable()) == new,
                        "{when}: delivered, and not on the disk"
                    );
                } else if there == old {
                    let sent = receive(&disk, &stream)
                        .unwrap_or_else(|error| panic!("{when}, then: {error}"));
                    assert_eq!(sent, 0, "{when}: what came was not kept");
                    assert!(dest(&disk.durable()) == new, "{when}");
                }
            }
        }
    }
}

#[test]
fn wherever_a_call_fails_or_room_ends_the_old_one_is_there_and_the_next_run_goes_on() {
    let stream = stream(31);
    for (kind, abilities) in disks() {
        let undisturbed = Model::of(old()).with(&abilities);
        let (work, _) = build(&undisturbed, &stream).expect("it does not fail");
        let calls = undisturbed.calls();
        work.publish().expect("it does not fail");
        let (old_dest, new) = (dest(&old()), dest(&undisturbed.durable()));
        let errors = [
            libc::ENOSPC,
            libc::EDQUOT,
            libc::EIO,
            libc::EBUSY,
            libc::EACCES,
        ];
        for (errno, call) in errors
            .into_iter()
            .flat_map(|errno| (1..calls).map(move |call| (errno, call)))
        {
            let when = format!("{kind}, call {call} fails with {errno}");
            let disk = Model::of(old()).with(&abilities).failing_at(call, errno);
            if receive(&disk, &stream).is_err() {
                assert!(found(&disk.current(), &abilities) == old_dest, "{when}");
                receive(&disk, &stream).unwrap_or_else(|error| panic!("{when}, then: {error}"));
            }
            assert!(
                dest(&disk.durable()) == new,
                "{when}: {:?}",
                dest(&disk.durable())
            );
        }
        let most = old().file_bytes(0) + 4000;
        let mut had_room = 0;
        for room in (0..most).step_by(97) {
            let little = Abilities {
                room_bytes: Some(room),
                ..abilities.clone()
            };
            let disk = Model::of(old()).with(&little);
            let expected = if receive(&disk, &stream).is_ok() {
                &new
            } else {
                &old_dest
            };
            had_room += usize::from(expected == &new);
            assert!(
                dest(&disk.durable()) == *expected,
                "{kind}, {room} bytes of room"
            );
            let again = disk.with(&abilities);
            receive(&again, &stream)
                .unwrap_or_else(|error| panic!("{kind}, {room} bytes, then: {error}"));
            assert!(
                dest(&again.durable()) == new,
                "{kind}, {room} bytes of room"
            );
        }
        assert!(had_room > 0, "{kind}");
    }
}

#[test]
fn an_old_entry_that_cannot_be_moved_stays_and_received_data_is_kept() {
    let stream = stream(37);
    let at = || [inode(&old(), DEST)].into();
    for no_exchange in [false, true] {
        for abilities in [
            Abilities {
                no_exchange,
                mounts: at(),
                ..Abilities::default()
            },
            Abilities {
                no_exchange,
                lower: at(),
                ..Abilities::default()
            },
        ] {
            let disk = Model::of(old()).with(&abilities);
            receive(&disk, &stream).expect_err("it cannot be renamed");
            assert!(dest(&disk.current()) == dest(&old()));
            assert_eq!(
                receive(&disk.with(&Abilities::default()), &stream)
                    .expect("it can be renamed by now"),
                0
            );
        }
    }
}

#[test]
fn two_names_that_are_one_here_are_refused_and_the_old_one_is_there() {
    let mut builder = Builder::default();
    let mut add = |parent: Option<u32>, name: &[u8], node| {
        let attributes = Attributes {
            mode: 0o755,
            ..Attributes::default()
        };
        builder
            .add(Entry {
                parent,
                name: name.into(),
                attributes,
                node,
            })
            .expect("it can be");
    };
    add(None, b"", Node::Directory);
    add(Some(0), b"README", Node::File(FileData::dense(1)));
    add(Some(0), b"Readme", Node::File(FileData::dense(1)));
    let stream = [
        builder.finish().expect("a directory").encode(),
        b"a\0b\0".to_vec(),
    ]
    .concat();
    let disk = Model::of(old()).with(&Abilities {
        folds_case: true,
        ..Abilities::default()
    });
    let refused = receive(&disk, &stream)
        .expect_err("they are one")
        .to_string();
    assert!(
        refused.contains("Readme") && refused.contains("another spelling"),
        "{refused}"
    );
    assert!(found(&disk.current(), &Abilities::default()) == dest(&old()));
}

#[test]
fn what_cannot_be_removed_is_left_aside_hidden_and_goes_when_nobody_has_it_open() {
    for (kind, abilities) in disks() {
        let disk = Model::of(old()).with(&abilities);
        let built = build(&disk, &stream(17)).and_then(|(work, _)| work.publish());
        let remains = built
            .unwrap_or_else(|error| panic!("{kind}: {error}"))
            .remains;
        assert_eq!(
            remains.len(),
            usize::from(!abilities.held.is_empty()),
            "{kind}: {remains:?}"
        );
        assert!(
            remains
                .iter()
                .all(|line| line.contains("a part of its old content cannot be removed")),
            "{kind}"
        );
        let names = disk.root().names().expect("readable");
        assert_eq!(
            names
                .iter()
                .filter(|name| !is_hidden(name))
                .collect::<Vec<_>>(),
            [DEST],
            "{kind}"
        );
        assert_eq!(
            names.len(),
            1 + usize::from(!abilities.held.is_empty()),
            "{kind}: {names:?}"
        );
        let later = disk.with(&Abilities::default());
        remove_stale(&later.root());
        assert_eq!(later.root().names().expect("readable"), [DEST], "{kind}");
    }
}

#[test]
fn a_file_that_can_have_no_more_links_is_copied_and_that_is_said() {
    let stream = stream(43);
    let undisturbed = Model::of(old());
    let (work, _) = build(&undisturbed, &stream).expect("it does not fail");
    let calls = undisturbed.calls();
    work.publish().expect("it does not fail");
    let twin = |disk: &Model| match below(&disk.durable(), "twin") {
        Some((Inode::File { bytes, .. }, _)) => bytes,
        other => panic!("{other:?}"),
    };
    let mut copies = 0;
    for call in 1..=calls {
        let disk = Model::of(old()).failing_at(call, libc::EMLINK);
        let Ok(published) = build(&disk, &stream).and_then(|(work, _)| work.publish()) else {
            continue;
        };
        assert_eq!(twin(&disk), twin(&undisturbed), "call {call}");
        let said = published
            .lacks
            .iter()
            .find(|(lack, _)| *lack == Lack::HardLinks);
        copies +=
            usize::from(said.is_some_and(|(_, line)| line.contains("1 hard links are copies")));
    }
    assert_eq!(copies, 1, "one call makes the link");
}

#[test]
fn what_is_mounted_below_is_neither_removed_nor_entered() {
    for no_exchange in [false, true] {
        let mounts = [inode(&old(), "dest/mnt")].into();
        let abilities = Abilities {
            no_exchange,
            mounts,
            ..Abilities::default()
        };
        let disk = Model::of(old()).with(&abilities);
        receive(&disk, &stream(19)).expect("nobody looked before");
        for _ in 0..2 {
            let listing = disk.current().listing(ROOT);
            let precious = listing
                .iter()
                .filter(|(path, _)| path.ends_with("mnt/precious"))
                .count();
            assert_eq!(precious, 1, "{listing:?}");
            remove_stale(&disk.root());
        }
    }
}

/// The stream of a directory whose entries have an owner, a set-user-id bit, attributes and a
/// device.
fn privileged() -> Vec<u8> {
    let mut builder = Builder::default();
    let owner = Owner {
        user: 7,
        group: 8,
        user_name: Box::default(),
        group_name: Box::default(),
    };
    let owner = Some(builder.add_owner(owner).expect("one"));
    let xattr = |name: &[u8]| Xattr {
        name: name.into(),
        value: (*b"x").into(),
    };
    let mut add = |parent: Option<u32>, name: &[u8], attributes, node| {
        builder
            .add(Entry {
                parent,
                name: name.into(),
                attributes,
                node,
            })
            .expect("it can be");
    };
    let plain = || Attributes {
        mode: 0o755,
        ..Attributes::default()
    };
    let xattrs = [xattr(b"security.capability"), xattr(b"user.x")].into();
    add(None, b"", plain(), Node::Directory);
    add(
        Some(0),
        b"device",
        Attributes {
            mode: 0o666,
            owner,
            ..plain()
        },
        Node::Special(Special::Character(1, 1)),
    );
    add(Some(0), b"fifo", plain(), Node::Special(Special::Fifo));
    add(
        Some(0),
        b"file",
        Attributes {
            mode: 0o4755,
            owner,
            xattrs,
            ..plain()
        },
        Node::File(FileData::dense(4)),
    );
    let mut stream = builder.finish().expect("a directory").encode();
    stream.extend(b"data\0");
    stream
}

/// Regression: if all users may write to all files, no hidden directory was recognised as made by
/// this run, and no directory could be received.
#[test]
fn a_directory_is_received_where_everybody_may_write_to_everything() {
    let all = Abilities {
        no_owners: true,
        no_exchange: true,
        no_nameless: true,
        ..Abilities::default()
    };
    let ntfs = Abilities {
        no_modes: true,
        writable_by_all: true,
        ..all
    };
    let disk = Model::of(old()).with(&ntfs);
    for seed in [61, 62] {
        receive(&disk, &stream(seed)).expect("nothing fails");
        assert_eq!(
            dest(&disk.durable()).len(),
            7,
            "{:?}",
            dest(&disk.durable())
        );
        assert_eq!(disk.root().names().expect("readable"), [DEST]);
    }
    // If modes are kept, another user made it so.
    let disk = Model::of(old()).with(&Abilities {
        writable_by_all: true,
        ..Abilities::default()
    });
    receive(&disk, &stream(63)).expect_err("it is not this run's");
    assert!(dest(&disk.durable()) == dest(&old()));
}

#[test]
fn devices_and_fifos_that_a_file_system_cannot_have_are_left_out_by_name() {
    for (kind, abilities) in Abilities::profiles() {
        let disk = Model::default().with(&abilities);
        let accept = "all".parse().expect("a list");
        let target = Target {
            dest: DEST.into(),
            accept,
            ..Target::default()
        };
        let (work, _) =
            build_in(disk.root(), Some(DEST.into()), target, &privileged()).expect("room");
        let lost = work
            .publish()
            .unwrap_or_else(|error| panic!("{kind}: {error}"))
            .lost;
        let are_named =
            lost.len() == 2 && lost[0].starts_with("device: ") && lost[1].starts_with("fifo: ");
        assert!(
            if abilities.no_special {
                are_named
            } else {
                lost.is_empty()
            },
            "{kind}: {lost:?}"
        );
        assert_eq!(dest(&disk.durable()).len(), 3 - lost.len(), "{kind}");
    }
}

#[test]
fn a_receiver_decides_about_privileges_and_what_it_does_not_accept_is_left_out_and_counted() {
    let stream = privileged();
    for (list, names, file, counts) in [
        ("none", 2, ["755 ", "None []"], [1, 1, 1, 2]),
        ("owner", 2, ["755 ", "Some((7, 8)) []"], [0, 1, 1, 2]),
        ("owner,setid", 2, ["4755 ", "Some((7, 8)) []"], [0, 0, 1, 2]),
        ("devices,xattrs", 3, ["755 ", "user.x"], [2, 1, 0, 1]),
        ("all", 3, ["4755 ", "Some((7, 8))"], [0, 0, 0, 1]),
        (
            "all,xattrs=security.capability",
            3,
            ["4755 ", "Some((7, 8))"],
            [0, 0, 0, 0],
        ),
    ] {
        for in_place in [false, true] {
            let disk = Model::default();
            let root = disk.root();
            root.make_directory(Path::new(DEST))
                .and_then(|()| root.sync_file_system())
                .expect("room");
            let accept = list.parse().expect("a list");
            let target = Target {
                dest: DEST.into(),
                replace: true,
                in_place,
                accept,
                ..Target::default()
            };
            let (holder, name) = if in_place {
                (root.directory(Path::new(DEST)).expect("there"), None)
            } else {
                (root, Some(DEST.into()))
            };
            let (work, _) = build_in(holder, name, target, &stream).expect("room");
            let published = work
                .publish()
                .unwrap_or_else(|error| panic!("{list}: {error}"));
            let there = dest(&disk.current());
            assert_eq!(there.len(), names, "{list}: {there:?}");
            let Some((_, Inode::File { attributes, .. })) = there.last() else {
                panic!("{list}: {there:?}")
            };
            assert!(
                attributes.starts_with(file[0]) && attributes.contains(file[1]),
                "{list}: {attributes}"
            );
            assert_eq!(
                Privilege::ALL.map(|one| published.left_out.count(one)),
                counts,
                "{list}, {in_place}"
            );
            assert!(published.lost.is_empty(), "{list}: it is no failure");
        }
    }
}
