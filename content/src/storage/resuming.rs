//! Resumption of an interrupted directory on a real disk.

use super::tests::{everything, list, names, scratch, seen, stream, whole};
use super::*;
use crate::hidden_names::{left_bytes, remove_stale};
use crate::source::Selection;
use ethbcast_collectives::session::ContentKind;
use ethbcast_collectives::session::verified::CHUNK_BYTES;
use std::fs;
use std::path::Path;

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

fn receive(mut storage: TreeStorage, stream: &[u8]) -> usize {
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
        let taken = if is_here { storage.keep(piece) } else { storage.write(piece) };
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
    assert!(left.len() == 3 && !dest.exists(), "a directory and a journal: {left:?}");
    let holder = Beneath::open(scratch.path()).expect("there");
    assert_eq!(remove_stale(&holder), 0, "it is kept");
    let room = left_bytes(&holder);
    assert!(room + 600_000 >= half as u64 && room < stream.len() as u64, "{room} of {half}: it needs no room again");
    // Another process adds an entry and damages one.
    let built = left.iter().find(|name| name.ends_with(".tree")).expect("it is there");
    fs::write(scratch.path().join(built).join("not ours"), b"x").expect("room");
    fs::write(scratch.path().join(built).join("deep/small-7"), b"y").expect("ours");
    let sent = receive(begin(&dest, &stream), &stream);
    assert!(sent <= stream.len() - half + 3 * CHUNK_BYTES, "{sent} of {}", stream.len());
    assert_eq!(seen(&dest), seen(&source));
    assert_eq!(names(scratch.path()), ["dest", "source"]);
}

#[test]
fn what_was_built_of_another_manifest_is_copied_as_far_as_it_is_the_same() {
    let scratch = scratch();
    let (source, dest) = (scratch.path().join("source"), scratch.path().join("dest"));
    fs::create_dir(&source).expect("room");
    everything(&source);
    let before = stream(&list(&source.join(""), &Selection::default()));
    let mut storage = begin(&dest, &before);
    storage.write(&before[..before.len() - 10]).expect("room");
    drop(storage);
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(5);
    fs::File::open(source.join("large")).and_then(|file| file.set_modified(then)).expect("ours");
    let after = stream(&list(&source.join(""), &Selection::default()));
    assert_eq!(before.len(), after.len());
    let sent = receive(begin(&dest, &after), &after);
    assert!(sent <= 2 * CHUNK_BYTES, "{sent} of {}: only the list of files is another", after.len());
    assert_eq!(seen(&dest), seen(&source));
    assert_eq!(names(scratch.path()), ["dest", "source"]);
}
