//! Record of the bytes of a partial file already on disk, for a later resume.
//!
//! ```text
//! head      6 EBJRNL │ u16 version, 1 │ u32 chunk bytes │ u32 flags │ u64 bytes │ 32 content │ 16 seal
//! flags     1 the data was at DEST, and is written over: nothing else may have what it still has of the old content
//! record    u32 bytes of its body │ u8 kind │ 3 zeros │ body │ 16 seal
//! kinds     1 durable bytes: u64 begin, u64 end
//!           2 the next bytes of a directory's list of files, or of a file's extents
//! ```
//!
//! Numbers are big-endian. A seal is the first 16 bytes of BLAKE3 over the previous seal and the
//! bytes before it in its head or record. A record is valid only if all before it are, so a torn
//! tail and the remains of an older journal are detected. A record is written after the data it
//! refers to has been synced. A wrong claim costs only a chunk: each chunk is verified before it is
//! used.

use crate::disk::DiskFile;
use ethbcast_collectives::OptionName;
use ethbcast_collectives::session::live::Offered;
use std::io;
use std::ops::Range;

pub const VERSION: u16 = 1;
const MAX_PROLOGUE_BYTES: usize = 257 << 20;
const PROLOGUE_PART_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub bytes: u64,
    pub chunk_bytes: u32,
    /// Digest of the content as it was offered.
    pub content: [u8; 32],
}

impl Identity {
    /// Whether both identify one content, regardless of the chunk size it was sent in.
    pub(crate) fn is_of_same(&self, other: &Identity) -> bool {
        (self.bytes, self.content) == (other.bytes, other.content)
    }

    pub(crate) fn of(offered: &Offered, bytes: u64) -> Identity {
        let text = format!("{:?} {:?} {bytes}", offered.source, offered.content);
        Identity {
            bytes,
            chunk_bytes: offered.chunk.bytes() as u32,
            content: *blake3::hash(text.as_bytes()).as_bytes(),
        }
    }
}

/// Recovered journal, with the list of files or map of extents as far as it was kept. With
/// `has_old` the data was at DEST, and may be the only remains of the old content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    pub identity: Identity,
    pub durable: Runs,
    pub prologue: Vec<u8>,
    pub has_old: bool,
}

#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The head is damaged or incomplete, or the file is not a journal.
    #[error("it is none, or its beginning is damaged")]
    None,
    #[error("it is of version {0}, this build reads {VERSION}")]
    Newer(u16),
    #[error(transparent)]
    System(#[from] io::Error),
}

pub(crate) fn newer(version: u16) -> io::Error {
    io::Error::other(format!(
        "what an earlier run left has a journal of version {version}, and this build reads {VERSION}: receive with the \
         build that left it, or remove it with {}",
        OptionName("no-resume")
    ))
}

#[derive(Debug)]
pub struct Journal<F> {
    file: F,
    identity: Identity,
    has_old: bool,
    end: u64,
    seal: Seal,
}

impl<F: DiskFile> Journal<F> {
    /// Starts a new journal in `file`, whatever it contained.
    pub fn begin(file: F, identity: &Identity) -> io::Result<Journal<F>> {
        Journal::begin_over(file, identity, false)
    }

    /// Starts a journal like [`begin`](Journal::begin), for data that `has_old` content, or not.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn begin_over(
        file: F,
        identity: &Identity,
        has_old: bool,
    ) -> io::Result<Journal<F>> {
        // The file never has less than a head, so that the mark of old content is not lost.
        file.set_bytes(HEAD_BYTES as u64)?;
        let (head, seal) = write_head(identity, has_old);
        file.write_all_at(&head, 0)?;
        Ok(Journal {
            file,
            identity: identity.clone(),
            has_old,
            end: head.len() as u64,
            seal,
        })
    }

    /// Recovers the journal in `file` and continues behind its last valid record.
    ///
    /// # Errors
    /// If nothing can be recovered, or the file cannot be read.
    pub fn take_up(file: F) -> Result<(Journal<F>, Recovered), JournalError> {
        let (recovered, end, seal) = recover(&file)?;
        file.set_bytes(end)?;
        Ok((
            Journal {
                file,
                identity: recovered.identity.clone(),
                has_old: recovered.has_old,
                end,
                seal,
            },
            recovered,
        ))
    }

    /// Records that `run` is on the disk. The caller must have synced it.
    pub fn claim(&mut self, run: &Range<u64>) -> io::Result<()> {
        self.append(&Record::Durable(run.clone()))
    }

    pub fn keep_prologue(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes
            .chunks(PROLOGUE_PART_BYTES)
            .try_for_each(|part| self.append(&Record::Prologue(part.to_vec())))
    }

    /// Replaces the kept list, and drops earlier claims about bytes if there was one.
    pub fn replace_prologue(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.end > HEAD_BYTES as u64 {
            let (head, seal) = write_head(&self.identity, self.has_old);
            self.file.set_bytes(head.len() as u64)?;
            (self.end, self.seal) = (head.len() as u64, seal);
        }
        self.keep_prologue(bytes)
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn append(&mut self, record: &Record) -> io::Result<()> {
        let (bytes, seal) = record.write(&self.seal);
        self.file.write_all_at(&bytes, self.end)?;
        (self.end, self.seal) = (self.end + bytes.len() as u64, seal);
        Ok(())
    }
}

/// Whether a journal marks its data as having old content.
pub(crate) fn has_old<F: DiskFile>(file: &F) -> io::Result<bool> {
    let mut head = [0; HEAD_BYTES];
    let read = read_all(file, &mut head, 0)?;
    Ok(read_head(&head[..read]).is_ok_and(|(_, has_old, _)| has_old))
}

fn recover<F: DiskFile>(file: &F) -> Result<(Recovered, u64, Seal), JournalError> {
    let mut head = [0; HEAD_BYTES];
    let read = read_all(file, &mut head, 0)?;
    let (identity, has_old, mut seal) = read_head(&head[..read])?;
    let mut recovered = Recovered {
        identity,
        has_old,
        ..Recovered::default()
    };
    let mut end = HEAD_BYTES as u64;
    let mut buffer = Vec::new();
    loop {
        buffer.resize(RECORD_BYTES, 0);
        if read_all(file, &mut buffer, end)? < RECORD_BYTES {
            break;
        }
        let Some(bytes) = Record::length(&buffer) else {
            break;
        };
        buffer.resize(bytes, 0);
        if read_all(file, &mut buffer, end)? < bytes {
            break;
        }
        let Some((record, next)) = Record::read(&buffer, &seal) else {
            break;
        };
        match record {
            Record::Durable(run) => recovered.durable.insert(run),
            Record::Prologue(part)
                if recovered.prologue.len() + part.len() > MAX_PROLOGUE_BYTES =>
            {
                break;
            }
            Record::Prologue(part) => recovered.prologue.extend_from_slice(&part),
        }
        (end, seal) = (end + bytes as u64, next);
    }
    Ok((recovered, end, seal))
}

pub(crate) fn read_all<F: DiskFile>(file: &F, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        match file.read_at(&mut buffer[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Hash that chains a record to all records before it.
type Seal = [u8; 16];

const MAGIC: &[u8; 6] = b"EBJRNL";
const SEAL_BYTES: usize = size_of::<Seal>();
const HEAD_BYTES: usize = 6 + 2 + 4 + 4 + 8 + 32 + SEAL_BYTES;
const RECORD_BYTES: usize = PREFIX_BYTES + SEAL_BYTES;
const PREFIX_BYTES: usize = 8;
const DURABLE: u8 = 1;
const PROLOGUE: u8 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Record {
    Durable(Range<u64>),
    Prologue(Vec<u8>),
}

/// The flag of a head whose data includes the former content of DEST.
const HAS_OLD: u32 = 1;
const FLAGS_AT: usize = 12;

fn write_head(identity: &Identity, has_old: bool) -> (Vec<u8>, Seal) {
    let mut head = MAGIC.to_vec();
    head.extend(VERSION.to_be_bytes());
    head.extend(identity.chunk_bytes.to_be_bytes());
    head.extend((if has_old { HAS_OLD } else { 0 }).to_be_bytes());
    head.extend(identity.bytes.to_be_bytes());
    head.extend(identity.content);
    let seal = seal(&[0; SEAL_BYTES], &head);
    head.extend(seal);
    (head, seal)
}

/// The content that a head names, whether its data has old content, and its seal.
fn read_head(head: &[u8]) -> Result<(Identity, bool, Seal), JournalError> {
    let version = head
        .strip_prefix(MAGIC)
        .and_then(|rest| rest.first_chunk())
        .map(|version| u16::from_be_bytes(*version));
    match version {
        None => return Err(JournalError::None),
        // The layout behind the version may differ in other versions.
        Some(version) if version > VERSION => return Err(JournalError::Newer(version)),
        Some(_) => {}
    }
    let head: &[u8; HEAD_BYTES] = head.try_into().map_err(|_| JournalError::None)?;
    let (body, end) = head.split_at(HEAD_BYTES - SEAL_BYTES);
    let own = seal(&[0; SEAL_BYTES], body);
    if end != own {
        return Err(JournalError::None);
    }
    let chunk_bytes = u32::from_be_bytes(*body[8..].first_chunk().expect("so long"));
    let bytes = number(&body[16..]);
    let flags = u32::from_be_bytes(*body[FLAGS_AT..].first_chunk().expect("so long"));
    let identity = Identity {
        bytes,
        chunk_bytes,
        content: *body[24..].first_chunk().expect("so long"),
    };
    Ok((identity, flags & HAS_OLD != 0, own))
}

impl Record {
    /// Returns the encoded record that follows one with seal `before`, and its own seal.
    fn write(&self, before: &Seal) -> (Vec<u8>, Seal) {
        let (kind, body) = match self {
            Record::Durable(run) => (
                DURABLE,
                [run.start.to_be_bytes(), run.end.to_be_bytes()].concat(),
            ),
            Record::Prologue(part) => (PROLOGUE, part.clone()),
        };
        let length = u32::try_from(body.len()).expect("a record is short");
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.extend([kind, 0, 0, 0]);
        bytes.extend(body);
        let seal = seal(before, &bytes);
        bytes.extend(seal);
        (bytes, seal)
    }

    fn length(prefix: &[u8]) -> Option<usize> {
        let body_bytes = u32::from_be_bytes(*prefix.first_chunk()?) as usize;
        (body_bytes <= PROLOGUE_PART_BYTES).then_some(PREFIX_BYTES + body_bytes + SEAL_BYTES)
    }

    fn read(bytes: &[u8], before: &Seal) -> Option<(Record, Seal)> {
        let (body, end) = bytes.split_at_checked(bytes.len().checked_sub(SEAL_BYTES)?)?;
        let own = seal(before, body);
        let (prefix, body) = body.split_at_checked(PREFIX_BYTES)?;
        if end != own {
            return None;
        }
        let record = match prefix[4] {
            DURABLE if body.len() == 16 => {
                let run = number(body)..number(&body[8..]);
                (run.start <= run.end).then_some(Record::Durable(run))?
            }
            PROLOGUE => Record::Prologue(body.to_vec()),
            _ => return None,
        };
        Some((record, own))
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(*bytes.first_chunk().expect("so long"))
}

fn seal(before: &Seal, bytes: &[u8]) -> Seal {
    let digest = *blake3::Hasher::new()
        .update(before)
        .update(bytes)
        .finalize()
        .as_bytes();
    *digest
        .first_chunk()
        .expect("a digest is longer than a seal")
}

/// Limit on the ranges that are kept, 1 MiB of memory. Data written in order is one range; of data
/// written in more pieces, further ranges are dropped.
const MAX_RUNS: usize = 64 << 10;

/// A set of bytes as sorted ranges that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs(Vec<Range<u64>>);

impl Runs {
    /// Adds a range, or drops it if the set would exceed its limit.
    pub fn insert(&mut self, run: Range<u64>) {
        if run.is_empty() {
            return;
        }
        let from = self.0.partition_point(|known| known.end < run.start);
        let to = self.0.partition_point(|known| known.start <= run.end);
        if from == to && self.0.len() == MAX_RUNS {
            return;
        }
        let touched = &self.0[from..to];
        let begin = touched
            .first()
            .map_or(run.start, |first| first.start.min(run.start));
        let end = touched.last().map_or(run.end, |last| last.end.max(run.end));
        self.0.splice(from..to, std::iter::once(begin..end));
    }

    pub fn contains(&self, run: &Range<u64>) -> bool {
        let at = self.0.partition_point(|known| known.end < run.end);
        run.is_empty() || self.0.get(at).is_some_and(|known| known.start <= run.start)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }

    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|run| run.end - run.start).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::model::Model;
    use crate::disk::{Directory, PRIVATE_FILE};
    use proptest::prelude::*;
    use std::path::Path;

    proptest! {
        #[test]
        fn runs_have_what_was_put_in_and_never_touch(runs in prop::collection::vec((0..60_u64, 0..9_u64), 0..30)) {
            let (mut set, mut known) = (Runs::default(), [false; 80]);
            for (begin, bytes) in runs {
                set.insert(begin..begin + bytes);
                (begin..begin + bytes).for_each(|at| known[at as usize] = true);
            }
            prop_assert!(set.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(set.bytes(), known.iter().filter(|known| **known).count() as u64);
            for begin in 0..70_u64 {
                for end in begin..70 {
                    let all = known[begin as usize..end as usize].iter().all(|known| *known);
                    prop_assert_eq!(set.contains(&(begin..end)), all, "{}..{}", begin, end);
                }
            }
        }
    }

    #[test]
    fn however_a_content_is_written_what_is_known_of_it_is_bounded() {
        let mut set = Runs::default();
        (0..200_000_u64).for_each(|at| set.insert(2 * at..2 * at + 1));
        assert_eq!(set.0.len(), MAX_RUNS);
        set.insert(0..400_000);
        assert!(set.contains(&(0..400_000)) && set.0.len() == 1);
    }

    fn identity(content: u8) -> Identity {
        Identity {
            bytes: 1_000_000,
            chunk_bytes: 65_536,
            content: [content; 32],
        }
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
        journal
            .keep_prologue(&vec![7; PROLOGUE_PART_BYTES + 3])
            .expect("room");
        [131_072..262_144, 65_536..131_072]
            .iter()
            .try_for_each(|run| journal.claim(run))
            .expect("room");
        journal.sync().expect("room");
        disk.current().file("journal").unwrap_or_default().to_vec()
    }

    fn read(bytes: &[u8]) -> Result<Recovered, JournalError> {
        let disk = Model::default();
        file(&disk).write_all_at(bytes, 0).expect("room");
        Journal::take_up(file(&disk)).map(|(_, recovered)| recovered)
    }

    #[test]
    fn a_written_journal_is_read_and_can_be_continued() {
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
        let ends = [
            72,
            112,
            112 + 24 + PROLOGUE_PART_BYTES,
            112 + 48 + PROLOGUE_PART_BYTES + 3,
        ];
        let cuts = (0..300)
            .chain(ends)
            .chain(ends.map(|end| end - 1))
            .chain([whole.len() - 1, whole.len()]);
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
                Err(JournalError::Newer(version)) => {
                    assert!((6..8).contains(&at) && version > VERSION, "{at}")
                }
                Err(error) => panic!("{at}: {error}"),
                Ok(recovered) => {
                    assert!(at >= 72 && recovered.identity == identity(1), "{at}");
                    assert!(
                        recovered.durable.bytes() < 262_144
                            || recovered.prologue.len() <= PROLOGUE_PART_BYTES,
                        "{at}"
                    );
                }
            }
        }
    }

    #[test]
    fn records_of_an_older_journal_behind_a_new_head_are_not_read() {
        let disk = Model::default();
        let old = written(&disk);
        let mut new = old.clone();
        let (head, _) = write_head(&identity(2), false);
        new[..head.len()].copy_from_slice(&head);
        let recovered = read(&new).expect("it is one");
        assert_eq!(
            (recovered.identity, recovered.durable.is_empty()),
            (identity(2), true)
        );
    }

    #[test]
    fn a_newer_version_is_named_and_noise_is_none() {
        let mut newer = written(&Model::default());
        newer[7] = 9;
        assert!(matches!(read(&newer), Err(JournalError::Newer(9))));
        assert!(
            read(&newer)
                .expect_err("newer")
                .to_string()
                .contains("version 9")
        );
        assert!(matches!(read(b"EBJRNL"), Err(JournalError::None)));
        assert!(matches!(read(&[0; 4096]), Err(JournalError::None)));
        let mut long = written(&Model::default())[..72].to_vec();
        long.extend([0xff; 100]);
        assert!(
            read(&long).expect("its head is right").durable.is_empty(),
            "a length that nothing can have"
        );
    }
}
