//! Crash tests of receiving a file: after any crash the old or the new file is there, whole. The
//! next run completes.

use super::{Resume, *};
use crate::disk::model::{Abilities, Model, ModelDirectory, Moment, World};
use crate::disk::{COMMON_FILE, Directory};
use crate::hidden_names::{broken, remove_stale};
use crate::journal::{Identity, read_all};
use crate::manifest::Extent;
use crate::sparse::{Map, SparseStream};
use ethbcast_collectives::session::live::ReadAt;
use std::collections::HashSet;
use std::path::Path;

pub(super) const CHUNK_BYTES: usize = 512;
const SYNC_BYTES: u64 = 5 * CHUNK_BYTES as u64;
pub(super) const DEST: &str = "dest";

pub(super) fn content(seed: u8, chunks: usize) -> Vec<u8> {
    let mut bytes = vec![0; chunks * CHUNK_BYTES - 100];
    for (at, chunk) in bytes.chunks_mut(CHUNK_BYTES).enumerate() {
        chunk.fill(if at % 3 == 0 { at as u8 + 1 } else { seed });
    }
    bytes
}

pub(super) fn world(old: Option<&[u8]>) -> World {
    let disk = Model::default();
    if let Some(old) = old {
        let file = disk
            .root()
            .create(Path::new(DEST), COMMON_FILE)
            .expect("a free name");
        file.write_all_at(old, 0)
            .and_then(|()| disk.root().sync_file_system())
            .expect("room");
    }
    disk.current()
}

pub(super) fn receive(disk: &Model, content: &[u8]) -> Result<usize, DiskError> {
    receive_by(disk, content, Resume::From)
}

fn prepare(disk: &Model, resume: &Resume) -> io::Result<FileDest<ModelDirectory>> {
    let (holder, holder_path) = (Arc::new(disk.root()), PathBuf::from("/"));
    let place = DestPlace {
        holder,
        holder_path,
        name: PathBuf::from(DEST),
        replace: true,
    };
    FileDest::prepare(place, resume, Pace::AtOnce(SYNC_BYTES), Arc::default())
}

pub(super) fn receive_by(
    disk: &Model,
    content: &[u8],
    how: fn(Identity) -> Resume,
) -> Result<usize, DiskError> {
    let identity = Identity {
        bytes: content.len() as u64,
        chunk_bytes: CHUNK_BYTES as u32,
        content: *blake3::hash(content).as_bytes(),
    };
    let mut file = prepare(disk, &how(identity)).map_err(at("begin"))?;
    let there = file.file.try_clone().map_err(at("begin"))?;
    let is_here = |at: usize, chunk: &[u8]| {
        let mut buffer = vec![0; chunk.len()];
        let read = read_all(&there, &mut buffer, (at * CHUNK_BYTES) as u64).unwrap_or(0);
        buffer[..read] == *chunk
    };
    let here: Vec<bool> = content
        .chunks(CHUNK_BYTES)
        .enumerate()
        .map(|(at, chunk)| is_here(at, chunk))
        .collect();
    for (chunk, here) in content.chunks(CHUNK_BYTES).zip(&here) {
        if *here {
            file.keep(chunk.len() as u64)?
        } else {
            file.write_all(chunk)?
        }
    }
    file.settle(None)?;
    let mut read = vec![0; content.len()];
    let again = file
        .forget()
        .and_then(|()| read_all(&file.file, &mut read, 0));
    again.map_err(at("read back"))?;
    assert!(read == content, "what is on the disk is what was written");
    file.publish()?;
    Ok(here.iter().filter(|here| !**here).count())
}

fn with_holes(content: &[u8]) -> (Map, Vec<u8>) {
    let chunks = content.chunks(CHUNK_BYTES).enumerate();
    let places = chunks.map(|(at, chunk)| {
        (
            Extent {
                offset: place_of(at),
                bytes: chunk.len() as u64,
            },
            chunk,
        )
    });
    let mut file = vec![0; place_of(content.len().div_ceil(CHUNK_BYTES)) as usize];
    let extents = places.map(|(extent, chunk)| {
        file[extent.offset as usize..][..chunk.len()].copy_from_slice(chunk);
        extent
    });
    let extents = extents.collect();
    (Map::new(file.len() as u64, extents).expect("sound"), file)
}

fn place_of(chunk: usize) -> u64 {
    (2 * chunk + 1) as u64 * CHUNK_BYTES as u64
}

fn receive_holes(disk: &Model, map: &Map, content: &[u8]) -> Result<usize, DiskError> {
    let identity = Identity {
        bytes: map.stream_bytes(),
        chunk_bytes: 512,
        content: *blake3::hash(content).as_bytes(),
    };
    let mut file = prepare(disk, &Resume::From(identity)).map_err(at("begin"))?;
    let there = Map::read(&file.prologue).map(Arc::new);
    let there = there
        .map(|map| Ok(SparseStream::new(map, Open(file.file.try_clone()?))))
        .transpose();
    let there = there.map_err(at("begin"))?;
    let is_here = |at: usize, chunk: &[u8]| {
        let (mut buffer, offset) = (vec![0; chunk.len()], map.encoded().len() + at * CHUNK_BYTES);
        let read = there
            .as_ref()
            .map(|there| there.read_at(&mut buffer, offset as u64));
        matches!(read, Some(Ok(count)) if count == chunk.len()) && buffer == chunk
    };
    let here: Vec<bool> = content
        .chunks(CHUNK_BYTES)
        .enumerate()
        .map(|(at, chunk)| is_here(at, chunk))
        .collect();
    file.keep_prologue(map.encoded());
    for (chunk, here) in content.chunks(CHUNK_BYTES).zip(&here) {
        file.skip(CHUNK_BYTES as u64)?;
        if *here {
            file.keep(chunk.len() as u64)?
        } else {
            file.write_all(chunk)?
        }
    }
    file.skip(
        map.bytes()
            - place_of(here.len() - 1)
            - content.chunks(CHUNK_BYTES).last().map_or(0, <[u8]>::len) as u64,
    )?;
    file.settle(None)?;
    file.publish()?;
    Ok(here.iter().filter(|here| !**here).count())
}

#[track_caller]
fn assert_whole(world: &World, old: Option<&[u8]>, new: &[u8], when: &str) {
    let there = world.file(DEST);
    assert!(
        there == old || there == Some(new),
        "{when}: {} bytes at DEST",
        there.map_or(0, <[u8]>::len)
    );
}

/// Fails unless the content is durably at DEST, with nothing beside it once names are synced.
#[track_caller]
pub(super) fn assert_delivered(disk: &Model, content: &[u8], when: &str) {
    assert!(
        disk.durable().file(DEST) == Some(content),
        "{when}: delivered, and not on the disk"
    );
    let names = disk.root().names().expect("it is not failing");
    assert_eq!(names, [DEST], "{when}");
}

#[derive(Default)]
struct Seen {
    worlds: HashSet<u64>,
    points: usize,
}

impl Seen {
    fn is_new(&mut self, world: &World) -> bool {
        self.points += 1;
        self.worlds.insert(world.digest())
    }
}

/// Crashes at each moment of a run on this world, and runs again on each state. `deeper` is the
/// number of further crashes in the second run.
fn enumerate(start: &World, old: Option<&[u8]>, content: &[u8], deeper: u32, seen: &mut Seen) {
    let disk = Model::of(start.clone()).remembering();
    receive(&disk, content).expect("it does not fail");
    assert_delivered(&disk, content, "undisturbed");
    for (number, moment) in disk.moments().iter().enumerate() {
        for crashed in moment.crashes() {
            let when = format!("moment {number}, after {}", moment.after);
            assert_whole(&crashed, old, content, &when);
            if !seen.is_new(&crashed) {
                continue;
            }
            if deeper > 0 && seen.points.is_multiple_of(20) {
                enumerate(&crashed, old, content, deeper - 1, seen);
                continue;
            }
            let again = Model::of(crashed);
            receive(&again, content).unwrap_or_else(|error| panic!("{when}: {error:?}"));
            assert_delivered(&again, content, &when);
        }
    }
}

#[test]
fn whenever_the_machine_stops_dest_is_old_or_new_and_the_next_run_ends_right() {
    let mut seen = Seen::default();
    let (old, new) = (content(200, 4), content(100, 14));
    enumerate(&world(None), None, &new, 1, &mut seen);
    enumerate(&world(Some(&old)), Some(&old), &new, 1, &mut seen);
    println!(
        "{} crashes, {} different worlds",
        seen.points,
        seen.worlds.len()
    );
    assert!(
        seen.points >= 10_000,
        "{} different worlds after {} crashes",
        seen.worlds.len(),
        seen.points
    );
}

#[test]
fn on_limited_file_systems_dest_is_old_or_new_after_any_crash_and_at_any_lack_of_room() {
    let (old, new) = (content(200, 4), content(100, 6));
    let start = world(Some(&old));
    let inode = start.find(0, Path::new(DEST)).expect("there");
    // The kernel's NFS renames an open file before it is replaced.
    let aside = format!(".nfs{inode}");
    for (kind, abilities) in Abilities::disks([inode]) {
        let disk = Model::of(start.clone()).with(&abilities).remembering();
        receive(&disk, &new).expect("it does not fail");
        for moment in disk.moments() {
            for crashed in moment.crashes() {
                let when = format!("{kind}, after {}", moment.after);
                let is_aside =
                    crashed.file(DEST).is_none() && crashed.file(&aside) == Some(&old[..]);
                assert!(is_aside || crashed.file(DEST).is_some(), "{when}");
                assert_whole(&crashed, Some(&old[..]).filter(|_| !is_aside), &new, &when);
                let again = Model::of(crashed).with(&abilities);
                receive(&again, &new).unwrap_or_else(|error| panic!("{when}: {error:?}"));
                assert!(again.durable().file(DEST) == Some(&new[..]), "{when}");
            }
        }
        for room in (0..10_000).step_by(300) {
            let little = Abilities {
                room_bytes: Some(room),
                ..abilities.clone()
            };
            let disk = Model::of(start.clone()).with(&little);
            let expected = if receive(&disk, &new).is_ok() {
                &new
            } else {
                &old
            };
            assert!(
                disk.durable().file(DEST) == Some(expected),
                "{kind}, {room} bytes of room"
            );
            let again = disk.with(&abilities);
            receive(&again, &new)
                .unwrap_or_else(|error| panic!("{kind}, {room} bytes of room, then: {error:?}"));
        }
        // A file that is not resumed gets a hidden name where nameless files are not supported.
        let disk = Model::of(start.clone()).with(&abilities).remembering();
        let mut file = prepare(&disk, &Resume::Not).expect("room");
        file.write_all(&new)
            .and_then(|()| file.settle(None))
            .and_then(|()| file.publish())
            .expect("it may");
        disk.moments()
            .iter()
            .flat_map(|moment| moment.crashes())
            .for_each(|left| {
                assert!(
                    left.file(&aside).is_some()
                        || left.file(DEST) == Some(&old)
                        || left.file(DEST) == Some(&new),
                    "{kind}"
                );
            });
        assert!(disk.durable().file(DEST) == Some(&new[..]), "{kind}");
    }
}

#[test]
fn whenever_the_machine_stops_a_file_with_holes_is_old_or_new_and_taken_up_by_its_map() {
    let (mut seen, mut taken_up) = (Seen::default(), 0);
    let (old, content) = (content(200, 4), content(100, 12));
    let (map, new) = with_holes(&content);
    let start = world(Some(&old));
    let disk = Model::of(start).remembering();
    receive_holes(&disk, &map, &content).expect("it does not fail");
    assert_delivered(&disk, &new, "undisturbed");
    for (number, moment) in disk.moments().iter().enumerate() {
        for crashed in moment.crashes().into_iter().chain([moment.kill()]) {
            let when = format!("moment {number}, after {}", moment.after);
            assert_whole(&crashed, Some(&old), &new, &when);
            if !seen.is_new(&crashed) {
                continue;
            }
            let again = Model::of(crashed);
            let sent = receive_holes(&again, &map, &content)
                .unwrap_or_else(|error| panic!("{when}: {error:?}"));
            assert_delivered(&again, &new, &when);
            taken_up += usize::from(sent < 12);
        }
    }
    println!(
        "{} crashes, {} different worlds, {taken_up} taken up",
        seen.points,
        seen.worlds.len()
    );
    assert!(
        taken_up * 2 > seen.worlds.len(),
        "{taken_up} of {}",
        seen.worlds.len()
    );
}

#[test]
fn who_is_killed_alone_is_sent_only_what_had_not_been_written() {
    let new = content(100, 8);
    let disk = Model::default().remembering();
    assert_eq!(receive(&disk, &new).expect("it does not fail"), 8);
    for moment in disk.moments() {
        let killed = moment.kill();
        let is_part =
            |(path, _): &(PathBuf, _)| path.extension().is_some_and(|suffix| suffix == "part");
        let left = killed.listing(0).into_iter().find(is_part);
        let written = left.map_or(0, |(path, _)| {
            killed
                .file(path.to_str().expect("ours"))
                .expect("a file")
                .len()
        });
        let again = Model::of(killed);
        let sent = receive(&again, &new).expect("it does not fail");
        assert_eq!(sent, 8 - written.div_ceil(CHUNK_BYTES), "{}", moment.after);
        assert_delivered(&again, &new, &moment.after);
    }
}

#[test]
fn leftovers_of_another_content_are_used_where_they_are_equal() {
    let (one, other) = (content(1, 6), content(2, 6));
    let disk = Model::default().remembering();
    receive(&disk, &one).expect("it does not fail");
    let moments = disk.moments();
    let last = moments
        .iter()
        .rev()
        .find(|moment| moment.kill().file(DEST).is_none())
        .expect("it had no name at first");
    let again = Model::of(last.kill());
    assert_eq!(
        receive(&again, &other).expect("it does not fail"),
        4,
        "two of six are the same"
    );
    assert_delivered(&again, &other, "the other");
}

#[test]
fn whichever_call_fails_nothing_is_delivered_that_is_not_durable_and_the_next_run_ends_right() {
    let (old, new) = (content(200, 4), content(100, 6));
    let start = world(Some(&old));
    let mut survived = 0;
    for (kind, abilities) in Abilities::profiles() {
        let on = |start: &World| Model::of(start.clone()).with(&abilities);
        let undisturbed = on(&start);
        receive(&undisturbed, &new).expect("it does not fail");
        for errno in [
            libc::EIO,
            libc::ENOSPC,
            libc::EDQUOT,
            libc::EROFS,
            libc::EBUSY,
            libc::EACCES,
        ] {
            for call in 1..=undisturbed.calls() {
                let when = format!("{kind}, call {call} fails with {errno}");
                let disk = on(&start).failing_at(call, errno).remembering();
                match receive(&disk, &new) {
                    Ok(_) => {
                        survived += 1;
                        assert!(
                            disk.durable().file(DEST) == Some(&new[..]),
                            "{when}: delivered, and not on the disk"
                        );
                    }
                    Err(failed) => {
                        assert_eq!(
                            failed.error.raw_os_error(),
                            Some(errno),
                            "{when}: {failed:?}"
                        );
                        let is_new = disk.current().file(DEST) == Some(&new[..]);
                        assert_eq!(
                            failed.in_place, is_new,
                            "{when}: what is said of DEST is true"
                        );
                    }
                }
                let crashes = |moment: &Moment| match kind {
                    "all it should" => moment.crashes(),
                    _ => [moment.kill()].into(),
                };
                disk.moments().iter().flat_map(crashes).for_each(|left| {
                    assert_whole(&left, Some(&old), &new, &when);
                });
                // The machine continues, with its lost pages marked clean.
                receive(&disk, &new).unwrap_or_else(|error| panic!("{when}, then: {error:?}"));
                assert!(
                    disk.durable().file(DEST) == Some(&new[..]),
                    "{when}: what memory had was believed"
                );
            }
        }
    }
    assert!(
        survived > 0,
        "a journal that cannot be written costs nothing at first"
    );
}

#[test]
fn a_file_that_nothing_can_take_the_place_of_stays_and_what_came_is_kept() {
    let (old, new) = (content(200, 4), content(100, 6));
    let start = world(Some(&old));
    let there = || [start.find(0, Path::new(DEST)).expect("there")].into();
    let cannot = [
        Abilities {
            mounts: there(),
            ..Abilities::default()
        },
        Abilities {
            foreign: there(),
            ..Abilities::default()
        },
    ];
    for how in [Resume::From as fn(Identity) -> Resume, Resume::InPlace] {
        for abilities in &cannot {
            let disk = Model::of(start.clone()).with(abilities);
            receive_by(&disk, &new, how).expect_err("it cannot be renamed");
            assert!(disk.durable().file(DEST) == Some(&old[..]), "{abilities:?}");
            let disk = disk.with(&Abilities::default());
            let sent = receive_by(&disk, &new, how).expect("it can be renamed by now");
            assert!(
                sent == 0 || how(Identity::default()) == Resume::InPlace(Identity::default()),
                "{sent} chunks"
            );
            assert_delivered(&disk, &new, "the next run");
        }
    }
}

#[test]
fn a_file_whose_writing_back_failed_never_gets_its_name_whichever_sync_got_the_error() {
    let (old, new) = (content(200, 4), content(100, 12));
    for after in (1..new.len()).step_by(CHUNK_BYTES / 2) {
        let disk = Model::of(world(Some(&old))).losing_after(after);
        assert!(
            receive(&disk, &new).is_err(),
            "the kernel lost bytes before {after} and the file was shown"
        );
        assert!(disk.durable().file(DEST) == Some(&old[..]), "{after}");
        receive(&disk, &new).expect("what memory has is not believed");
        assert!(disk.durable().file(DEST) == Some(&new[..]), "{after}");
    }
}

#[test]
fn a_directory_that_becomes_another_gets_nothing_and_what_came_is_kept() {
    let new = content(100, 6);
    let disk = Model::default();
    disk.moves();
    let refused = receive(&disk, &new).expect_err("it is another");
    assert!(
        refused
            .error
            .to_string()
            .contains("became another directory"),
        "{refused:?}"
    );
    assert!(disk.current().file(DEST).is_none());
    assert_eq!(
        disk.root().names().expect("readable").len(),
        2,
        "data and journal"
    );
    let again = Model::of(disk.current());
    assert_eq!(receive(&again, &new).expect("it does not fail"), 0);
}

#[test]
fn unused_leftovers_are_removed_after_a_week_and_those_without_a_journal_at_once() {
    let disk = Model::default().remembering();
    receive(&disk, &content(1, 6)).expect("it does not fail");
    let moments = disk.moments();
    let half = Model::of(moments[moments.len() / 2].kill());
    let names = |disk: &Model| disk.root().names().expect("readable").len();
    assert_eq!(
        (remove_stale::<ModelDirectory>(&half.root()), names(&half)),
        (0, 2)
    );
    half.ages(8 * 24 * 3600);
    assert_eq!((remove_stale(&half.root()), names(&half)), (1, 0));
    half.ages(0);
    for name in [
        ".ethbcast-f00.part",
        ".ethbcast-ba2.journal",
        ".ethbcast-notes",
        "other.part",
    ] {
        half.root()
            .create(Path::new(name), COMMON_FILE)
            .expect("a free name");
    }
    assert_eq!((remove_stale(&half.root()), names(&half)), (2, 2));
}

#[test]
fn hidden_files_of_somebody_else_stay_as_they_are_and_what_comes_gets_another_name() {
    let (old, new) = (content(200, 4), content(100, 6));
    let names = HiddenNames::of(DEST.as_bytes());
    for theirs in [
        &[&names.part][..],
        &[&names.journal],
        &[&names.part, &names.journal],
    ] {
        let disk = Model::of(world(Some(&old)));
        let foreign = theirs.iter().map(|name| {
            let file = disk.root().create(name, COMMON_FILE).expect("a free name");
            file.write_all_at(b"theirs", 0)
                .and_then(|()| disk.root().sync_file_system())
                .expect("room");
            disk.current().find(0, name).expect("it was just made")
        });
        let abilities = Abilities {
            foreign: foreign.collect(),
            ..Abilities::default()
        };
        let start = disk.current();
        for how in [
            Resume::From as fn(Identity) -> Resume,
            Resume::InPlace,
            |_| Resume::Not,
        ] {
            let disk = Model::of(start.clone()).with(&abilities).remembering();
            receive_by(&disk, &new, how).expect("it does not fail");
            let assert_theirs = |world: &World, when: &str| {
                let is_theirs =
                    |name: &&PathBuf| world.file(name.to_str().expect("ours")) == Some(b"theirs");
                assert!(theirs.iter().all(is_theirs), "{theirs:?}, {when}");
            };
            let own = disk.current().find(0, Path::new(DEST)).expect("there");
            assert!(
                disk.durable().file(DEST) == Some(&new[..]) && !abilities.foreign.contains(&own),
                "{theirs:?}"
            );
            assert_eq!(
                disk.root().names().expect("readable").len(),
                1 + theirs.len(),
                "{theirs:?}"
            );
            for moment in disk.moments() {
                for crashed in moment.crashes() {
                    assert_theirs(&crashed, &moment.after);
                    assert_whole(&crashed, Some(&old), &new, &moment.after);
                    let again = Model::of(crashed).with(&abilities);
                    remove_stale(&again.root());
                    receive_by(&again, &new, how)
                        .unwrap_or_else(|error| panic!("{}: {error:?}", moment.after));
                    assert_theirs(&again.durable(), &moment.after);
                    assert!(
                        again.durable().file(DEST) == Some(&new[..]),
                        "{}",
                        moment.after
                    );
                }
            }
        }
    }
}

#[test]
fn room_is_taken_in_steps_ahead_of_what_comes() {
    let disk = Model::default();
    let mut file = prepare(&disk, &Resume::Not).expect("room");
    let bytes = 5 * RESERVED_AHEAD_BYTES / 2;
    file.reserve(bytes).expect("room");
    assert_eq!(disk.reserved(), RESERVED_AHEAD_BYTES);
    file.write_all(b"some").expect("room");
    assert_eq!(disk.reserved(), RESERVED_AHEAD_BYTES);
    file.reserve_until(RESERVED_AHEAD_BYTES + 4).expect("room");
    assert_eq!(disk.reserved(), 2 * RESERVED_AHEAD_BYTES + 4);
    file.reserve_until(2 * RESERVED_AHEAD_BYTES + 8)
        .expect("room");
    assert_eq!(disk.reserved(), bytes, "and never more than comes");
}

const YEAR_SECONDS: u64 = 365 * 86_400;

#[test]
fn in_place_dest_is_old_or_new_or_named_as_neither_whenever_the_machine_stops_and_the_next_run_completes_it()
 {
    let (old, new) = (content(200, 12), content(100, 9));
    let start = world(Some(&old));
    for (kind, abilities) in Abilities::profiles() {
        let disk = Model::of(start.clone()).with(&abilities).remembering();
        let sent = receive_by(&disk, &new, Resume::InPlace).expect("it does not fail");
        assert_eq!(sent, 6, "{kind}: a third of the old one is the same");
        assert_delivered(&disk, &new, kind);
        for moment in disk.moments() {
            for crashed in moment.crashes().into_iter().chain([moment.kill()]) {
                let when = format!("{kind}, after {}", moment.after);
                let there = crashed.file(DEST);
                assert!(
                    there == Some(&old) || there == Some(&new) || there.is_none(),
                    "{when}"
                );
                let names = crashed.names(0).expect("a directory");
                let is_named = |suffix: &str| {
                    names
                        .keys()
                        .any(|name| name.to_string_lossy().ends_with(suffix))
                };
                assert!(
                    there.is_some() || is_named(".part") && is_named(".journal"),
                    "{when}: {names:?}"
                );
                for how in [Resume::InPlace as fn(Identity) -> Resume, Resume::From] {
                    let again = Model::of(crashed.clone()).with(&abilities);
                    remove_stale(&again.root());
                    receive_by(&again, &new, how)
                        .unwrap_or_else(|error| panic!("{when}: {error:?}"));
                    assert_delivered(&again, &new, &when);
                }
            }
        }
    }
}

#[test]
fn in_place_nothing_needs_room_but_what_is_longer_and_what_is_the_same_is_not_touched() {
    let (old, new) = (content(200, 12), content(100, 12));
    let full = Abilities {
        room_bytes: Some(old.len() as u64),
        ..Abilities::default()
    };
    let journal = Abilities {
        room_bytes: Some(old.len() as u64 + 700),
        ..Abilities::default()
    };
    let same = Model::of(world(Some(&old))).with(&full);
    let inode = same.current().find(0, Path::new(DEST)).expect("there");
    assert_eq!(
        receive_by(&same, &old, Resume::InPlace).expect("it needs no room"),
        0
    );
    assert_delivered(&same, &old, "the same");
    let disk = Model::of(world(Some(&old))).with(&journal);
    receive(&disk, &new).expect_err("two copies need more");
    assert!(disk.durable().file(DEST) == Some(&old[..]));
    remove_stale(&disk.root());
    let disk = Model::of(world(Some(&old))).with(&journal);
    receive_by(&disk, &new, Resume::InPlace).expect("it has room");
    assert_delivered(&disk, &new, "another");
    let longer = content(100, 14);
    receive_by(&disk, &longer, Resume::InPlace).expect_err("it is longer");
    assert!(
        disk.current().file(DEST).is_none(),
        "it is neither old nor new"
    );
    receive_by(&disk.with(&Abilities::default()), &longer, Resume::InPlace)
        .expect("there is room now");
    assert_eq!(
        same.current().find(0, Path::new(DEST)).expect("there"),
        inode
    );
}

#[test]
fn whichever_call_fails_in_place_dest_is_old_or_new_or_named_as_neither() {
    let (old, new) = (content(200, 6), content(100, 4));
    let start = world(Some(&old));
    for (kind, abilities) in Abilities::profiles() {
        let undisturbed = Model::of(start.clone()).with(&abilities);
        receive_by(&undisturbed, &new, Resume::InPlace).expect("it does not fail");
        for errno in [
            libc::EIO,
            libc::ENOSPC,
            libc::EDQUOT,
            libc::EROFS,
            libc::EBUSY,
            libc::EACCES,
        ] {
            for call in 1..=undisturbed.calls() {
                let when = format!("{kind}, call {call} fails with {errno}");
                let disk = Model::of(start.clone())
                    .with(&abilities)
                    .failing_at(call, errno);
                if receive_by(&disk, &new, Resume::InPlace).is_ok() {
                    assert!(
                        disk.durable().file(DEST) == Some(&new[..]),
                        "{when}: delivered, and not on the disk"
                    );
                }
                let there = disk.current();
                let there = there.file(DEST);
                assert!(
                    there.is_none() || there == Some(&old) || there == Some(&new),
                    "{when}"
                );
                receive_by(&disk, &new, Resume::InPlace)
                    .unwrap_or_else(|error| panic!("{when}, then: {error:?}"));
                assert!(
                    disk.durable().file(DEST) == Some(&new[..]),
                    "{when}: what memory had was believed"
                );
            }
        }
    }
}

#[test]
fn what_was_half_written_over_is_removed_by_no_age_and_by_no_run_that_fails() {
    let (old, new, other) = (content(200, 6), content(100, 6), content(50, 4));
    let failing = |call| Model::of(world(Some(&old))).failing_at(call, libc::EIO);
    let is_half = |disk: &Model| {
        let names = disk.root().names().expect("readable");
        !names.iter().any(|name| name == DEST)
            && names
                .iter()
                .any(|name| name.to_string_lossy().ends_with(".part"))
    };
    let undisturbed = Model::of(world(Some(&old)));
    receive_by(&undisturbed, &new, Resume::InPlace).expect("it does not fail");
    let mut halves = 0;
    for call in 1..=undisturbed.calls() {
        let disk = failing(call);
        if receive_by(&disk, &new, Resume::InPlace).is_ok() || !is_half(&disk) {
            continue;
        }
        halves += 1;
        let assert_kept = |disk: &Model, when: &str| {
            disk.ages(YEAR_SECONDS);
            remove_stale(&disk.root());
            assert!(is_half(disk), "call {call}, {when}");
            assert_eq!(broken(&disk.root()).len(), 1, "call {call}, {when}");
        };
        assert_kept(&disk, "as it was left");
        // Another content begins to complete it, and fails on the way.
        let half = disk.current();
        for how in [
            Resume::InPlace as fn(Identity) -> Resume,
            Resume::From,
            |_| Resume::Not,
        ] {
            let whole = Model::of(half.clone());
            receive_by(&whole, &other, how).expect("it does not fail");
            assert_delivered(&whole, &other, "completed");
            for second in 1..=whole.calls() {
                let later = Model::of(half.clone()).failing_at(second, libc::EIO);
                if receive_by(&later, &other, how).is_err() && later.current().file(DEST).is_none()
                {
                    assert_kept(&later, &format!("call {second} of the next run fails"));
                }
            }
        }
    }
    assert!(halves > 5, "{halves} calls leave it half written");
}
