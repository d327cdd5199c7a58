//! Overwriting of a file: after any crash or failure it is old or new, or has a hidden name.

use super::Resume;
use super::crashes::{DEST, assert_delivered, content, disks, receive, receive_by, world};
use crate::disk::Directory;
use crate::disk::model::{Abilities, Model};
use crate::hidden_names::{broken, remove_stale};
use crate::journal::Identity;
use nix::libc;
use std::path::Path;

const YEAR_SECONDS: u64 = 365 * 86_400;

#[test]
fn in_place_dest_is_old_or_new_or_named_as_neither_whenever_the_machine_stops_and_the_next_run_completes_it() {
    let (old, new) = (content(200, 12), content(100, 9));
    let start = world(Some(&old));
    for (kind, abilities) in disks(u64::MAX).into_iter().chain([("all it should", Abilities::default())]) {
        let disk = Model::of(start.clone()).with(&abilities).remembering();
        let sent = receive_by(&disk, &new, Resume::InPlace).expect("it does not fail");
        assert_eq!(sent, 6, "{kind}: a third of the old one is the same");
        assert_delivered(&disk, &new, kind);
        for moment in disk.moments() {
            for crashed in moment.crashes().into_iter().chain([moment.kill()]) {
                let when = format!("{kind}, after {}", moment.after);
                let there = crashed.file(DEST);
                assert!(there == Some(&old) || there == Some(&new) || there.is_none(), "{when}");
                let names = crashed.names(0).expect("a directory");
                let is_named = |suffix: &str| names.keys().any(|name| name.to_string_lossy().ends_with(suffix));
                assert!(there.is_some() || is_named(".part") && is_named(".journal"), "{when}: {names:?}");
                for how in [Resume::InPlace as fn(Identity) -> Resume, Resume::From] {
                    let again = Model::of(crashed.clone()).with(&abilities);
                    remove_stale(&again.root());
                    receive_by(&again, &new, how).unwrap_or_else(|error| panic!("{when}: {error:?}"));
                    assert_delivered(&again, &new, &when);
                }
            }
        }
    }
}

#[test]
fn in_place_nothing_needs_room_but_what_is_longer_and_what_is_the_same_is_not_touched() {
    let (old, new) = (content(200, 12), content(100, 12));
    let full = Abilities { room_bytes: Some(old.len() as u64), ..Abilities::default() };
    let journal = Abilities { room_bytes: Some(old.len() as u64 + 700), ..Abilities::default() };
    let same = Model::of(world(Some(&old))).with(&full);
    let inode = same.current().find(0, Path::new(DEST)).expect("there");
    assert_eq!(receive_by(&same, &old, Resume::InPlace).expect("it needs no room"), 0);
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
    assert!(disk.current().file(DEST).is_none(), "it is neither old nor new");
    receive_by(&disk.with(&Abilities::default()), &longer, Resume::InPlace).expect("there is room now");
    assert_eq!(same.current().find(0, Path::new(DEST)).expect("there"), inode);
}

#[test]
fn whichever_call_fails_in_place_dest_is_old_or_new_or_named_as_neither() {
    let (old, new) = (content(200, 6), content(100, 4));
    let start = world(Some(&old));
    let undisturbed = Model::of(start.clone());
    receive_by(&undisturbed, &new, Resume::InPlace).expect("it does not fail");
    for errno in [libc::EIO, libc::ENOSPC, libc::EDQUOT, libc::EROFS] {
        for call in 1..=undisturbed.calls() {
            let when = format!("call {call} fails with {errno}");
            let disk = Model::of(start.clone()).failing_at(call, errno);
            if receive_by(&disk, &new, Resume::InPlace).is_ok() {
                assert!(disk.durable().file(DEST) == Some(&new[..]), "{when}: delivered, and not on the disk");
            }
            let there = disk.current();
            let there = there.file(DEST);
            assert!(there.is_none() || there == Some(&old) || there == Some(&new), "{when}");
            receive_by(&disk, &new, Resume::InPlace).unwrap_or_else(|error| panic!("{when}, then: {error:?}"));
            assert!(disk.durable().file(DEST) == Some(&new[..]), "{when}: what memory had was believed");
        }
    }
}

#[test]
fn what_was_half_written_over_is_removed_by_no_age_and_by_no_run_that_fails() {
    let (old, new, other) = (content(200, 6), content(100, 6), content(50, 4));
    let failing = |call| Model::of(world(Some(&old))).failing_at(call, libc::EIO);
    let is_half = |disk: &Model| {
        let names = disk.root().names().expect("readable");
        !names.iter().any(|name| name == DEST) && names.iter().any(|name| name.to_string_lossy().ends_with(".part"))
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
        for how in [Resume::InPlace as fn(Identity) -> Resume, Resume::From, |_| Resume::Not] {
            let whole = Model::of(half.clone());
            receive_by(&whole, &other, how).expect("it does not fail");
            assert_delivered(&whole, &other, "completed");
            for second in 1..=whole.calls() {
                let later = Model::of(half.clone()).failing_at(second, libc::EIO);
                if receive_by(&later, &other, how).is_err() && later.current().file(DEST).is_none() {
                    assert_kept(&later, &format!("call {second} of the next run fails"));
                }
            }
        }
    }
    assert!(halves > 5, "{halves} calls leave it half written");
}
