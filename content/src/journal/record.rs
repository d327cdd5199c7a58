//! Encoding of a journal.

use super::{Identity, JournalError, PROLOGUE_PART_BYTES, VERSION};
use std::ops::Range;

/// Hash that chains a record to all records before it.
pub(super) type Seal = [u8; 16];

const MAGIC: &[u8; 6] = b"EBJRNL";
const SEAL_BYTES: usize = size_of::<Seal>();
pub(super) const HEAD_BYTES: usize = 6 + 2 + 4 + 4 + 8 + 32 + SEAL_BYTES;
pub(super) const RECORD_BYTES: usize = PREFIX_BYTES + SEAL_BYTES;
const PREFIX_BYTES: usize = 8;
const DURABLE: u8 = 1;
const PROLOGUE: u8 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Durable(Range<u64>),
    Prologue(Vec<u8>),
}

/// The flag of a head whose data has what was at DEST before.
const HAS_OLD: u32 = 1;
/// Offset of the flags in a head.
const FLAGS_AT: usize = 12;

/// The head of data that `has_old` content, or not, and its seal.
pub(super) fn write_head(identity: &Identity, has_old: bool) -> (Vec<u8>, Seal) {
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
pub(super) fn read_head(head: &[u8]) -> Result<(Identity, bool, Seal), JournalError> {
    let version =
        head.strip_prefix(MAGIC).and_then(|rest| rest.first_chunk()).map(|version| u16::from_be_bytes(*version));
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
    let identity = Identity { bytes, chunk_bytes, content: *body[24..].first_chunk().expect("so long") };
    Ok((identity, flags & HAS_OLD != 0, own))
}

impl Record {
    /// Returns the encoded record that follows one with seal `before`, and its own seal.
    pub(super) fn write(&self, before: &Seal) -> (Vec<u8>, Seal) {
        let (kind, body) = match self {
            Record::Durable(run) => (DURABLE, [run.start.to_be_bytes(), run.end.to_be_bytes()].concat()),
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

    pub(super) fn length(prefix: &[u8]) -> Option<usize> {
        let body_bytes = u32::from_be_bytes(*prefix.first_chunk()?) as usize;
        (body_bytes <= PROLOGUE_PART_BYTES).then_some(PREFIX_BYTES + body_bytes + SEAL_BYTES)
    }

    pub(super) fn read(bytes: &[u8], before: &Seal) -> Option<(Record, Seal)> {
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
    let digest = *blake3::Hasher::new().update(before).update(bytes).finalize().as_bytes();
    *digest.first_chunk().expect("a digest is longer than a seal")
}
