//! Crash tests of receiving a directory: after any crash the old or the new one is there, whole.
//! The next run completes.

use super::place::{Place, Target};
use super::work::{Leftover, Work};
use crate::disk::model::{Abilities, Inode, Model, ModelDirectory, ROOT, World};
use crate::disk::{COMMON_FILE, Directory, DiskFile};
use crate::hidden_names::{HiddenNames, remove_stale};
use crate::journal::Identity;
use crate::manifest::{Attributes, Builder, Entry, FileData, HEAD_BYTES, Head, Manifest, Node};
use crate::syncer::Pace;
use ethbcast_collectives::session::live::{ReadAt, StorageError};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const CHUNK_BYTES: usize = 256;
const SYNC_BYTES: u64 = 2 * CHUNK_BYTES as u64;
pub(super) const DEST: &str = "dest";

pub(super) fn stream(seed: u8) -> Vec<u8> {
    let mut builder = Builder::default();
    let mut add = |parent: Option<u32>, name: &[u8], mode, node| {
        let attributes = Attributes {
            mode,
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
    let files: [u64; 4] = [300, 0, 500, 70];
    let file = |number: usize| Node::File(FileData::dense(files[number]));
    add(None, b"", 0o755, Node::Directory);
    add(Some(0), b"a", 0o444, file(0));
    add(Some(0), b"d", 0o555, Node::Directory);
    add(Some(0), b"empty", 0o600, file(1));
    add(Some(0), b"link", 0o777, Node::Symlink((*b"a").into()));
    add(Some(0), b"twin", 0o444, Node::HardLink(1));
    add(Some(2), b"b", 0o644, file(2));
    add(Some(2), b"c", 0o644, file(3));
    let manifest: Manifest = builder.finish().expect("a directory");
    let mut stream = manifest.encode();
    for (number, bytes) in files.into_iter().enumerate() {
        stream.extend((0..bytes).map(|at| seed.wrapping_add(number as u8).wrapping_mul(at as u8)));
        stream.push(0);
    }
    stream
}

/// Returns a stream's manifest, and where it ends.
pub(super) fn manifest(stream: &[u8]) -> (Manifest, usize) {
    let head = Head::read(stream.first_chunk().expect("so long")).expect("a head");
    let end = HEAD_BYTES + head.manifest_bytes();
    (
        Manifest::decode(&head, &stream[HEAD_BYTES..end]).expect("a manifest"),
        end,
    )
}

pub(super) fn old_world() -> World {
    let disk = Model::default();
    let root = disk.root();
    root.make_directory(Path::new(DEST)).expect("room");
    let dest = root.directory(Path::new(DEST)).expect("there");
    for name in ["a", "only the old one has it"] {
        let file = dest.create(Path::new(name), COMMON_FILE).expect("room");
        file.write_all_at(b"old", 0).expect("room");
    }
    root.sync_file_system().expect("room");
    disk.current()
}

pub(super) fn receive(disk: &Model, stream: &[u8]) -> Result<usize, StorageError> {
    let (work, sent) = build(disk, stream)?;
    work.publish()?;
    Ok(sent)
}

pub(super) fn build(
    disk: &Model,
    stream: &[u8],
) -> Result<(Work<ModelDirectory>, usize), StorageError> {
    let target = Target {
        dest: DEST.into(),
        replace: true,
        ..Target::default()
    };
    build_in(disk.root(), Some(DEST.into()), target, stream)
}

pub(super) fn build_in(
    root: ModelDirectory,
    name: Option<PathBuf>,
    target: Target,
    stream: &[u8],
) -> Result<(Work<ModelDirectory>, usize), StorageError> {
    let failed = |error| crate::trouble("begin", error);
    remove_stale(&root);
    let identity = Identity {
        bytes: stream.len() as u64,
        chunk_bytes: CHUNK_BYTES as u32,
        content: *blake3::hash(stream).as_bytes(),
    };
    let leftover = Leftover::find(&root, &identity).map_err(failed)?.own();
    let replay = leftover.as_ref().map(Leftover::replay);
    let is_here = |at: usize, chunk: &[u8]| {
        let (mut buffer, mut read) = (vec![0; chunk.len()], 0);
        while let Some(replay) = &replay
            && let Ok(count @ 1..) =
                replay.read_at(&mut buffer[read..], (at * CHUNK_BYTES + read) as u64)
        {
            read += count;
        }
        buffer[..read] == *chunk
    };
    let here: Vec<bool> = stream
        .chunks(CHUNK_BYTES)
        .enumerate()
        .map(|(at, chunk)| is_here(at, chunk))
        .collect();
    let (manifest, manifest_end) = manifest(stream);
    let place = Place::named(
        root.try_clone().map_err(failed)?,
        PathBuf::from("/"),
        name,
        target,
    );
    let encoded = &stream[..manifest_end];
    let work = Work::begin_at(
        Pace::AtOnce(SYNC_BYTES),
        place,
        manifest,
        encoded,
        Some(&identity),
        leftover,
    );
    let mut work = work.map_err(failed)?;
    let (mut at, mut sent) = (0, 0);
    for (chunk, here) in stream.chunks(CHUNK_BYTES).zip(here) {
        let rest = &chunk[manifest_end.saturating_sub(at).min(chunk.len())..];
        at += chunk.len();
        sent += if here { 0 } else { chunk.len() };
        work.take(rest, here)?;
    }
    work.settle()?;
    Ok((work, sent))
}

pub(super) fn dest(world: &World) -> Vec<(PathBuf, Inode)> {
    world
        .find(ROOT, Path::new(DEST))
        .map(|dest| world.listing(dest))
        .unwrap_or_default()
}

/// Crashes at each moment of a run on this world, and runs again on each state. `deeper` is the
/// number of further crashes in the second run.
fn enumerate(
    start: &World,
    stream: &[u8],
    deeper: u32,
    seen: &mut HashSet<u64>,
    points: &mut usize,
) {
    let disk = Model::of(start.clone()).remembering();
    receive(&disk, stream).expect("it does not fail");
    let (old, new) = (dest(&old_world()), dest(&disk.durable()));
    assert_eq!(new.len(), 7, "delivered, and not on the disk: {new:?}");
    for (number, moment) in disk.moments().iter().enumerate() {
        for crashed in moment.crashes() {
            *points += 1;
            let when = format!("moment {number}, after {}", moment.after);
            let there = dest(&crashed);
            assert!(there == old || there == new, "{when}: {there:?}");
            if !seen.insert(crashed.digest()) {
                continue;
            }
            if deeper > 0 && points.is_multiple_of(200) {
                enumerate(&crashed, stream, deeper - 1, seen, points);
                continue;
            }
            let again = Model::of(crashed);
            receive(&again, stream).unwrap_or_else(|error| panic!("{when}: {error}"));
            assert!(
                dest(&again.durable()) == new,
                "{when}: delivered, and not on the disk"
            );
            assert_eq!(again.root().names().expect("readable"), [DEST], "{when}");
        }
    }
}

#[test]
fn whenever_the_machine_stops_dest_is_old_or_new_and_the_next_run_ends_right() {
    let (mut seen, mut points) = (HashSet::new(), 0);
    enumerate(&old_world(), &stream(3), 1, &mut seen, &mut points);
    println!("{points} crashes, {} different worlds", seen.len());
    assert!(
        points >= 10_000,
        "{} different worlds after {points} crashes",
        seen.len()
    );
}

#[test]
fn who_is_killed_alone_is_sent_only_what_had_not_been_written() {
    let stream = stream(5);
    let disk = Model::of(old_world()).remembering();
    let all = receive(&disk, &stream).expect("it does not fail");
    assert_eq!(all, stream.len());
    let new = dest(&disk.durable());
    let mut costs = Vec::new();
    for moment in disk
        .moments()
        .iter()
        .filter(|moment| dest(&moment.kill()) != new)
    {
        let again = Model::of(moment.kill());
        costs.push(receive(&again, &stream).expect("it does not fail"));
        assert!(dest(&again.durable()) == new, "{}", moment.after);
    }
    assert!(
        costs.contains(&all)
            && costs
                .windows(2)
                .all(|pair| pair[1] <= pair[0] || pair[1] == all),
        "{costs:?}"
    );
    // At the last moments everything is present, so that nothing is sent.
    assert!(costs.contains(&0), "{costs:?}");
}

#[test]
fn whichever_call_fails_nothing_is_delivered_that_is_not_durable_and_the_next_run_ends_right() {
    let stream = stream(7);
    let undisturbed = Model::of(old_world());
    receive(&undisturbed, &stream).expect("it does not fail");
    let (old, new) = (dest(&old_world()), dest(&undisturbed.durable()));
    for errno in [libc::EIO, libc::ENOSPC, libc::EROFS] {
        for call in 1..=undisturbed.calls() {
            let when = format!("call {call} fails with {errno}");
            let disk = Model::of(old_world()).failing_at(call, errno).remembering();
            if receive(&disk, &stream).is_ok() {
                assert!(
                    dest(&disk.durable()) == new,
                    "{when}: delivered, and not on the disk"
                );
            }
            for left in disk.moments().iter().map(|moment| moment.kill()) {
                let there = dest(&left);
                assert!(there == old || there == new, "{when}: {there:?}");
            }
            // The machine continues, with its lost pages marked clean.
            receive(&disk, &stream).unwrap_or_else(|error| panic!("{when}, then: {error}"));
            assert!(
                dest(&disk.durable()) == new,
                "{when}: what memory had was believed"
            );
        }
    }
}

#[test]
fn hidden_entries_of_somebody_else_stay_as_they_are_and_what_comes_is_built_under_another_name() {
    let stream = stream(9);
    let content = *blake3::hash(&stream).as_bytes();
    let names = HiddenNames::of_content(&Identity {
        bytes: 0,
        chunk_bytes: 0,
        content,
    });
    for (tree, journal) in [(true, false), (false, true), (true, true)] {
        let disk = Model::of(old_world());
        let root = disk.root();
        let theirs = [(tree, &names.tree), (journal, &names.journal)]
            .into_iter()
            .filter(|(is_there, _)| *is_there);
        let theirs: Vec<&PathBuf> = theirs.map(|(_, name)| name).collect();
        if tree {
            root.make_directory(&names.tree).expect("room");
        }
        if journal {
            root.create(&names.journal, COMMON_FILE).expect("room");
        }
        root.sync_file_system().expect("room");
        let inode = |world: &World, name: &Path| world.find(ROOT, name).ok();
        let foreign = theirs
            .iter()
            .filter_map(|name| inode(&disk.current(), name))
            .collect();
        let abilities = Abilities {
            foreign,
            ..Abilities::default()
        };
        let start = disk.current();
        let disk = Model::of(start.clone()).with(&abilities).remembering();
        receive(&disk, &stream).expect("it does not fail");
        let new = dest(&disk.durable());
        assert_eq!(
            (new.len(), disk.root().names().expect("readable").len()),
            (7, 1 + theirs.len()),
            "{theirs:?}"
        );
        let own = inode(&disk.current(), Path::new(DEST)).expect("there");
        assert!(!abilities.foreign.contains(&own), "{theirs:?}");
        for moment in disk.moments() {
            let killed = moment.kill();
            assert!(
                theirs
                    .iter()
                    .all(|name| inode(&killed, name) == inode(&start, name)),
                "{}",
                moment.after
            );
            let again = Model::of(killed).with(&abilities);
            receive(&again, &stream).unwrap_or_else(|error| panic!("{}: {error}", moment.after));
            assert!(dest(&again.durable()) == new, "{}", moment.after);
        }
    }
}
