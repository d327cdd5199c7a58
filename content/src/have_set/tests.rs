//! Tests of finding data that a receiver already has: results, wrong hints, bounds on memory.

use super::*;
use ethbcast_collectives::session::verified::{
    CHUNK_BYTES, ChunkSize, Cutter, Fragment, STRETCH_CHUNKS, StretchPlace,
};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new()
        .update(&seed.to_be_bytes())
        .finalize_xof()
        .fill(&mut content);
    content
}

fn hash_lists(content: &[u8], cut: Cut) -> Vec<StretchHashes> {
    chunked(ChunkSize::DEFAULT, content, cut)
}

fn chunked(chunk: ChunkSize, content: &[u8], cut: Cut) -> Vec<StretchHashes> {
    let (mut cutter, mut fragments) = (Cutter::new(cut, chunk), Vec::new());
    cutter.feed(content, |fragment, _| fragments.push(fragment));
    cutter.finish(|fragment, _| fragments.push(fragment));
    let places = (0..).map_while(|number| StretchPlace::of(chunk, number, content.len() as u64));
    let hash_list = |place: StretchPlace| {
        let (begin, end) = (place.begin(), place.begin() + place.bytes());
        let ends_in = |fragment: &&Fragment| {
            (begin + 1..=end).contains(&(fragment.offset + u64::from(fragment.bytes)))
        };
        let own: Vec<Fragment> = fragments.iter().filter(ends_in).copied().collect();
        StretchHashes::of(place, &content[begin as usize..end as usize], &own)
    };
    places.map(hash_list).collect()
}

fn here(held: &Held, content: &[u8], cut: Cut) -> (Vec<u64>, usize) {
    held.begin(&HeldContent::default());
    let (mut here, mut in_place) = (Vec::new(), 0);
    for hash_list in hash_lists(content, cut) {
        for chunk in held.have(&hash_list).iter() {
            let mut buffer = vec![0; hash_list.chunk_bytes(chunk)];
            let origin = held
                .read(hash_list.number(), chunk, &mut buffer)
                .expect("it was there");
            let begin = hash_list.chunk_offset(chunk) as usize;
            assert!(
                buffer == content[begin..begin + buffer.len()],
                "chunk {chunk}"
            );
            in_place += usize::from(origin == Origin::InPlace);
            here.push(hash_list.number() * STRETCH_CHUNKS as u64 + chunk as u64);
        }
        held.forget_below(hash_list.number() + 1);
        assert_eq!(
            held.read(hash_list.number(), 0, &mut [0; 1]),
            None,
            "it is forgotten"
        );
    }
    (here, in_place)
}

fn with(directory: &TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    fs::write(&path, content).expect("room");
    path
}

fn held(bases: &[PathBuf], in_place: Option<&Path>) -> Held {
    let held = Held::new(bases, None).expect("they are files");
    held.opened(
        in_place.map(|path| Box::new(fs::File::open(path).expect("there")) as Box<dyn ReadAt>),
    );
    held
}

const MEBIBYTE: usize = 1 << 20;

#[test]
fn equal_chunks_at_their_offset_count_as_present_and_changed_ones_do_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let content = noise(1, 3 * MEBIBYTE + 777);
    let mut old = content.clone();
    for changed in [0, 200_000, 3 * MEBIBYTE + 5] {
        old[changed] ^= 1;
    }
    let basis = with(&directory, "old", &old);
    let (chunks, in_place) = here(&held(&[basis], None), &content, Cut::None);
    assert_eq!(
        chunks,
        (0..48)
            .filter(|chunk| ![0, 3, 48].contains(chunk))
            .collect::<Vec<_>>()
    );
    assert_eq!(in_place, 0);
}

#[test]
fn data_of_an_earlier_run_is_in_place_and_comes_before_similar_data() {
    let directory = tempfile::tempdir().expect("a directory");
    let content = noise(2, 2 * MEBIBYTE);
    let part = with(&directory, "part", &content[..MEBIBYTE + 1000]);
    let basis = with(&directory, "old", &content[..MEBIBYTE + 300_000]);
    let (chunks, in_place) = here(&held(&[basis], Some(&part)), &content, Cut::None);
    assert_eq!(
        (chunks, in_place),
        ((0..20).collect(), 16),
        "300 000 bytes are four chunks and a part of one"
    );
}

#[test]
fn data_moved_by_whole_chunks_is_found_by_fixed_fragments() {
    let directory = tempfile::tempdir().expect("a directory");
    let content = noise(3, 2 * MEBIBYTE + 9);
    let mut chunks: Vec<&[u8]> = content.chunks(CHUNK_BYTES).collect();
    chunks.reverse();
    let moved = with(&directory, "moved", &chunks[1..].concat());
    let last = with(&directory, "last", &[chunks[0], &[7; 1000]].concat());
    assert!(
        here(
            &held(&[moved.clone(), last.clone()], None),
            &content,
            Cut::None
        )
        .0
        .len()
            <= 1,
        "only at its offset"
    );
    let found = here(&held(&[moved, last], None), &content, Cut::Fixed).0;
    assert_eq!(
        found,
        (0..32).collect::<Vec<_>>(),
        "the last, of 9 bytes, stands in front of others and is no fragment"
    );
}

#[test]
fn data_moved_by_any_number_of_bytes_is_found_by_content_defined_chunks() {
    let directory = tempfile::tempdir().expect("a directory");
    let content = noise(4, 8 * MEBIBYTE);
    let old = [
        &content[..MEBIBYTE],
        b"seventeen bytes  ",
        &content[MEBIBYTE..5 * MEBIBYTE],
        &content[6 * MEBIBYTE..],
    ]
    .concat();
    let basis = with(&directory, "old", &old);
    let found = here(
        &held(std::slice::from_ref(&basis), None),
        &content,
        Cut::ContentDefined,
    )
    .0;
    let lacks: Vec<u64> = (0..128).filter(|chunk| !found.contains(chunk)).collect();
    assert!(
        (16..=22).contains(&lacks.len()),
        "one mebibyte is new, and what is around the cuts: {lacks:?}"
    );
    assert!(
        lacks
            .iter()
            .all(|chunk| (78..=98).contains(chunk) || (14..=18).contains(chunk)),
        "{lacks:?}"
    );
}

#[test]
fn a_piece_that_reaches_into_the_next_stretch_is_found_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let stretch = ChunkSize::DEFAULT.stretch_bytes() as usize;
    let content = noise(5, stretch + MEBIBYTE);
    let basis = with(&directory, "old", &[b"moved", &content[..]].concat());
    let found = here(&held(&[basis], None), &content, Cut::ContentDefined).0;
    let lacks: Vec<u64> = (0..STRETCH_CHUNKS as u64 + 16)
        .filter(|chunk| !found.contains(chunk))
        .collect();
    assert!(
        lacks
            .iter()
            .all(|chunk| [0, STRETCH_CHUNKS as u64 - 1].contains(chunk)),
        "{lacks:?}"
    );
}

#[test]
fn a_directory_is_a_basis_for_one_like_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let (old, new) = (directory.path().join("old"), directory.path().join("new"));
    for at in [&old, &new] {
        fs::create_dir(at).expect("room");
        (0..40).for_each(|number| {
            fs::write(at.join(format!("f{number:02}")), noise(number, 100_000)).expect("room")
        });
    }
    fs::write(new.join("a new one"), noise(99, 70_001)).expect("room");
    let mut content = Vec::new();
    let tree = crate::source::Tree::list(&[new.join("")], &crate::source::Selection::default())
        .expect("readable");
    std::io::Read::read_to_end(&mut tree.reader(), &mut content).expect("readable");
    let found = here(&held(&[old], None), &content, Cut::ContentDefined).0;
    let chunks = content.len().div_ceil(CHUNK_BYTES);
    assert!(found.len() + 6 >= chunks, "{} of {chunks}", found.len());
}

#[test]
fn a_basis_that_changes_while_it_is_read_costs_the_chunk() {
    let directory = tempfile::tempdir().expect("a directory");
    let content = noise(6, MEBIBYTE);
    let basis = with(&directory, "old", &content);
    let held = held(std::slice::from_ref(&basis), None);
    let hash_list = hash_lists(&content, Cut::None).remove(0);
    assert_eq!(held.have(&hash_list).len(), 16);
    fs::write(&basis, &content[..300_000]).expect("ours");
    let mut buffer = vec![0; CHUNK_BYTES];
    assert_eq!(held.read(0, 3, &mut buffer), Some(Origin::Elsewhere));
    assert_eq!(held.read(0, 4, &mut buffer), None, "it is not any more");
    fs::write(&basis, noise(7, MEBIBYTE)).expect("ours");
    assert_eq!(held.read(0, 3, &mut buffer), Some(Origin::Elsewhere));
    assert!(!hash_list.matches(3, &buffer), "whoever uses it checks it");
}

#[test]
fn chunks_beyond_the_index_are_found_beside_their_neighbours() {
    let directory = tempfile::tempdir().expect("a directory");
    let content = noise(8, 8 * MEBIBYTE);
    let basis = with(&directory, "old", &[b"moved", &content[..]].concat());
    let bases = [Basis::open(&basis).expect("a file")];
    let index = Index::with_room(&bases, (Cut::ContentDefined, ChunkSize::DEFAULT), 100);
    assert!(index.is_partial());
    let hash_list = hash_lists(&content, Cut::ContentDefined).remove(0);
    let known = hash_list
        .fragments()
        .iter()
        .filter(|fragment| index.find(fragment.name).is_some())
        .count();
    assert!(
        (10..=100).contains(&known) && hash_list.fragments().len() > 300,
        "{known} of {}",
        hash_list.fragments().len()
    );
    let located = Located::find(&hash_list, &index, &bases);
    let found = (2..128)
        .filter(|chunk| {
            located
                .parts(&(chunk * 65_536..(chunk + 1) * 65_536))
                .is_some()
        })
        .count();
    assert_eq!(found, 126);
}

#[test]
fn an_unusable_basis_is_named_with_the_remedy() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("missing");
    for (path, words) in [
        (missing, "leave it out"),
        ("/dev/null".into(), "no file, block device or directory"),
    ] {
        let text = Held::new(std::slice::from_ref(&path), None)
            .expect_err("it cannot")
            .to_string();
        assert!(
            text.contains(words) && text.contains(path.to_str().expect("ours")),
            "{text}"
        );
    }
}
