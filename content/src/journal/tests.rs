//! Recovery from journals that were cut off or damaged.

use super::*;
use crate::disk::model::Model;
use crate::disk::{Directory, PRIVATE_FILE};
use std::path::Path;

fn identity(content: u8) -> Identity {
    Identity { bytes: 1_000_000, chunk_bytes: 65_536, content: [content; 32] }
}

fn file(disk: &Model) -> <crate::disk::model::ModelDirectory as Directory>::File {
    disk.root()
        .take_up(Path::new("journal"))
        .or_else(|_| disk.root().create(Path::new("journal"), PRIVATE_FILE))
        .expect("room")
}

fn written(disk: &Model) -> Vec<u8> {
    let mut journal = Journal::begin(file(disk), &identity(1)).expect("room");
    journal.claim(&(0..65_536)).expect("room");
    journal.keep_prologue(&vec![7; PROLOGUE_PART_BYTES + 3]).expect("room");
    [131_072..262_144, 65_536..131_072].iter().try_for_each(|run| journal.claim(run)).expect("room");
    journal.sync().expect("room");
    disk.current().file("journal").unwrap_or_default().to_vec()
}

fn read(bytes: &[u8]) -> Result<Recovered, JournalError> {
    let disk = Model::default();
    file(&disk).write_all_at(bytes, 0).expect("room");
    Journal::take_up(file(&disk)).map(|(_, recovered)| recovered)
}

#[test]
fn what_was_written_is_read_and_more_can_be_written_behind_it() {
    let disk = Model::default();
    written(&disk);
    let (mut journal, recovered) = Journal::take_up(file(&disk)).expect("it is one");
    assert_eq!(recovered.identity, identity(1));
    assert!(recovered.durable.contains(&(0..262_144)) && recovered.durable.bytes() == 262_144);
    assert_eq!(recovered.prologue, vec![7; PROLOGUE_PART_BYTES + 3]);
    journal.claim(&(262_144..300_000)).expect("room");
    let (_, recovered) = Journal::take_up(file(&disk)).expect("it is one");
    assert_eq!(recovered.durable.bytes(), 300_000);
}

#[test]
fn wherever_it_is_cut_off_what_stands_before_counts() {
    let whole = written(&Model::default());
    let ends = [72, 112, 112 + 24 + PROLOGUE_PART_BYTES, 112 + 48 + PROLOGUE_PART_BYTES + 3];
    let cuts = (0..300).chain(ends).chain(ends.map(|end| end - 1)).chain([whole.len() - 1, whole.len()]);
    let mut last = 0;
    let mut cuts: Vec<usize> = cuts.collect();
    cuts.sort_unstable();
    for cut in cuts {
        match read(&whole[..cut]) {
            Err(JournalError::None) => assert!(cut < 72, "{cut}"),
            Err(error) => panic!("{cut}: {error}"),
            Ok(recovered) => {
                let known = recovered.durable.bytes() as usize + recovered.prologue.len();
                assert!(cut >= 72 && known >= last, "{cut}");
                last = known;
            }
        }
    }
    assert_eq!(last, 262_144 + PROLOGUE_PART_BYTES + 3);
}

#[test]
fn a_flipped_bit_is_no_claim_and_nothing_behind_it_is_one() {
    let whole = written(&Model::default());
    for at in (0..300).chain(whole.len() - 100..whole.len()) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        match read(&damaged) {
            Err(JournalError::None) => assert!(at < 72, "{at}"),
            Err(JournalError::Newer(version)) => assert!((6..8).contains(&at) && version > VERSION, "{at}"),
            Err(error) => panic!("{at}: {error}"),
            Ok(recovered) => {
                assert!(at >= 72 && recovered.identity == identity(1), "{at}");
                assert!(recovered.durable.bytes() < 262_144 || recovered.prologue.len() <= PROLOGUE_PART_BYTES, "{at}");
            }
        }
    }
}

#[test]
fn what_an_older_journal_left_behind_a_new_head_is_not_read() {
    let disk = Model::default();
    let old = written(&disk);
    let mut new = old.clone();
    let (head, _) = write_head(&identity(2), false);
    new[..head.len()].copy_from_slice(&head);
    let recovered = read(&new).expect("it is one");
    assert_eq!((recovered.identity, recovered.durable.is_empty()), (identity(2), true));
}

#[test]
fn a_newer_version_is_named_and_noise_is_none() {
    let mut newer = written(&Model::default());
    newer[7] = 9;
    assert!(matches!(read(&newer), Err(JournalError::Newer(9))));
    assert!(read(&newer).expect_err("newer").to_string().contains("version 9"));
    assert!(matches!(read(b"EBJRNL"), Err(JournalError::None)));
    assert!(matches!(read(&[0; 4096]), Err(JournalError::None)));
    let mut long = written(&Model::default())[..72].to_vec();
    long.extend([0xff; 100]);
    assert!(read(&long).expect("its head is right").durable.is_empty(), "a length that nothing can have");
}
