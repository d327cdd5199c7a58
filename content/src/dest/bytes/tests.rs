//! Resumption of a file with holes.

use super::*;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PART_BYTES: usize = 300_000;

fn stream(hole_bytes: u64, seed: u8) -> (Vec<u8>, Vec<u8>) {
    let parts: Vec<Vec<u8>> = (0..8).map(|part| vec![part * 16 + seed; PART_BYTES]).collect();
    let place = |part: u64| hole_bytes + part * (hole_bytes + PART_BYTES as u64);
    let extents = (0..8).map(|part| Extent { offset: place(part), bytes: PART_BYTES as u64 }).collect();
    let map = Map::new(place(8), extents).expect("sound");
    let mut file = vec![0; place(8) as usize];
    for (part, bytes) in parts.iter().enumerate() {
        file[place(part as u64) as usize..][..PART_BYTES].copy_from_slice(bytes);
    }
    ([map.encoded(), &parts.concat()].concat(), file)
}

fn begin(directory: &TempDir, stream: &[u8]) -> Bytes {
    let dest = Dest::resolve(directory.path().join("image").as_os_str(), false).expect("room");
    let mut bytes = Bytes::new(Arc::new(dest), Handling::default(), Arc::default());
    bytes.holding(true);
    let attributes = FileAttributes { mode: 0o600, modified_seconds: 1, modified_nanoseconds: 0 };
    let (size, content) = (Some(stream.len() as u64), ContentKind::Sparse(attributes));
    bytes.begin(&Offered { source: "image".to_owned(), size, content, ..Offered::default() }).expect("room");
    bytes
}

fn cut_off(directory: &TempDir, stream: &[u8], came: usize) {
    let mut bytes = begin(directory, stream);
    assert!(bytes.left().is_none(), "nothing is there yet");
    stream[..came].chunks(65_536).for_each(|piece| bytes.write(piece).expect("room"));
    let journal = || {
        fs::read_dir(directory.path())
            .expect("readable")
            .flatten()
            .find(|entry| entry.file_name().to_string_lossy().ends_with(".journal"))
    };
    let deadline = Instant::now() + Duration::from_secs(30);
    while journal().is_none_or(|entry| entry.metadata().is_ok_and(|journal| journal.len() < 200)) {
        assert!(Instant::now() < deadline, "the map is not kept");
        std::thread::yield_now();
    }
}

fn go_on(directory: &TempDir, stream: &[u8]) -> usize {
    let mut bytes = begin(directory, stream);
    let left = bytes.left().expect("something is left");
    let (mut sent, mut tally) = (0, Tally::default());
    for piece in stream.chunks(65_536) {
        let (mut buffer, mut read) = (vec![0; piece.len()], 0);
        while let Ok(count @ 1..) = left.read_at(&mut buffer[read..], tally.bytes() + read as u64) {
            read += count;
        }
        let is_here = read == piece.len() && buffer == piece;
        sent += if is_here { 0 } else { piece.len() };
        if is_here { bytes.keep(piece) } else { bytes.write(piece) }.expect("room");
        tally.add(piece);
    }
    bytes.settle(tally.trailer()).expect("room");
    bytes.publish().expect("room");
    sent
}

#[test]
fn what_came_of_a_file_with_holes_is_found_by_its_map_and_only_the_rest_is_sent() {
    let directory = tempfile::tempdir().expect("a directory");
    let (stream, file) = stream(1 << 20, 1);
    cut_off(&directory, &stream, stream.len() / 2);
    let sent = go_on(&directory, &stream);
    assert!(sent <= stream.len() / 2 + 65_536, "{sent} of {}", stream.len());
    let image = fs::File::open(directory.path().join("image")).expect("there");
    let mut found = vec![1; file.len()];
    image.read_exact_at(&mut found, 0).expect("so long");
    assert!(found == file);
    let blocks = image.metadata().expect("open").blocks() * 512;
    assert!(blocks < 3 << 20, "{blocks} bytes for {} of data: the holes are holes", 8 * PART_BYTES);
    assert_eq!(fs::read_dir(directory.path()).expect("readable").count(), 1, "no journal is left");
}

#[test]
fn what_was_left_at_other_places_is_moved_and_never_taken_for_what_belongs_there() {
    let directory = tempfile::tempdir().expect("a directory");
    // The data and its length are equal, but the extents are elsewhere.
    let ((before, _), (after, file)) = (stream(1 << 20, 1), stream(1 << 19, 1));
    assert_eq!(before.len(), after.len());
    cut_off(&directory, &before, before.len() / 2);
    go_on(&directory, &after);
    assert!(fs::read(directory.path().join("image")).is_ok_and(|found| found == file));
}
