//! What is said beside partial data, so that it can be taken up again: of which content it is, and which bytes of it
//! are on the disk.
//!
//! ```text
//! head      6 EBJRNL │ u16 version, 1 │ u32 chunk bytes │ u32 flags │ u64 bytes │ 32 content │ 16 seal
//! flags     1 the data was at DEST, and is written over: nothing else may have what it still has of the old content
//! record    u32 bytes of its body │ u8 kind │ 3 zeros │ body │ 16 seal
//! kinds     1 these bytes are on the disk: u64 begin, u64 end
//!           2 the next bytes of a directory's list of files, or of where a file has data
//! ```
//!
//! Numbers are big-endian. A seal is the first 16 bytes of BLAKE3 over what stands before it in its head or record,
//! behind the seal before: a record counts only if all before it do, so a torn tail, and whatever an older journal left
//! behind it, are noticed. A record is written when the data that it speaks of has been synced. A claim that is wrong
//! all the same costs the chunk: each is checked before it is believed.

mod record;
#[cfg(test)]
mod tests;

use crate::disk::DiskFile;
use crate::runs::Runs;
use ethbcast_collectives::session::live::Offered;
use record::{HEAD_BYTES, RECORD_BYTES, Record, Seal, read_head, write_head};
use std::io;
use std::ops::Range;

/// The version that is written, and the only one that is read.
pub const VERSION: u16 = 1;
/// The longest list of files that is kept.
const MOST_PROLOGUE_BYTES: usize = 257 << 20;
/// Bytes of a list of files in one record.
const PROLOGUE_PART_BYTES: usize = 1 << 20;

/// Which content partial data is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// How long it is, in bytes.
    pub bytes: u64,
    /// The bytes of its chunks.
    pub chunk_bytes: u32,
    /// What it was offered as: a digest of that.
    pub content: [u8; 32],
}

impl Identity {
    /// Whether both are of one content, whatever chunks it was sent in: those that come are looked for.
    pub(crate) fn is_of_same(&self, other: &Identity) -> bool {
        (self.bytes, self.content) == (other.bytes, other.content)
    }

    /// Of what is offered, which has so many bytes.
    pub(crate) fn of(offered: &Offered, bytes: u64) -> Identity {
        let text = format!("{:?} {:?} {bytes}", offered.source, offered.content);
        Identity {
            bytes,
            chunk_bytes: offered.chunk.bytes() as u32,
            content: *blake3::hash(text.as_bytes()).as_bytes(),
        }
    }
}

/// What a journal said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Of which content.
    pub identity: Identity,
    /// What was on the disk.
    pub durable: Runs,
    /// The list of files, or where a file has data, as far as it was kept.
    pub prologue: Vec<u8>,
    /// The data was at DEST: it may have the only remains of what that was.
    pub has_old: bool,
}

/// Why a journal says nothing.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It was cut off before it said anything, or something else stands there.
    #[error("it is none, or its beginning is damaged")]
    None,
    /// Another build wrote it.
    #[error("it is of version {0}, this build reads {VERSION}")]
    Newer(u16),
    /// It cannot be read or written.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// What a user is told of a journal that only a newer build can read.
pub(crate) fn newer(version: u16) -> io::Error {
    io::Error::other(format!(
        "what an earlier run left has a journal of version {version}, and this build reads {VERSION}: receive with the \
         build that left it, or remove it with --no-resume"
    ))
}

/// A journal that is written.
#[derive(Debug)]
pub struct Journal<F> {
    file: F,
    identity: Identity,
    has_old: bool,
    end: u64,
    seal: Seal,
}

impl<F: DiskFile> Journal<F> {
    /// Begins one in a file, whatever was in it.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(file: F, identity: &Identity) -> io::Result<Journal<F>> {
        Journal::begin_over(file, identity, false)
    }

    /// The same of data that `has_old` content, or not.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn begin_over(file: F, identity: &Identity, has_old: bool) -> io::Result<Journal<F>> {
        // At no moment is there less than a head, where there was one: that it has old content is not forgotten.
        file.set_bytes(HEAD_BYTES as u64)?;
        let (head, seal) = write_head(identity, has_old);
        file.write_all_at(&head, 0)?;
        Ok(Journal { file, identity: identity.clone(), has_old, end: head.len() as u64, seal })
    }

    /// Goes on with what a file has, behind the last record that is whole.
    ///
    /// # Errors
    /// If it says nothing, or cannot be read.
    pub fn take_up(file: F) -> Result<(Journal<F>, Recovered), JournalError> {
        let (recovered, end, seal) = recover(&file)?;
        file.set_bytes(end)?;
        Ok((Journal { file, identity: recovered.identity.clone(), has_old: recovered.has_old, end, seal }, recovered))
    }

    /// Says that these bytes of the content are on the disk, which they must be.
    ///
    /// # Errors
    /// The system's.
    pub fn claim(&mut self, run: &Range<u64>) -> io::Result<()> {
        self.append(&Record::Durable(run.clone()))
    }

    /// Keeps the list of files.
    ///
    /// # Errors
    /// The system's.
    pub fn keep_prologue(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(PROLOGUE_PART_BYTES).try_for_each(|part| self.append(&Record::Prologue(part.to_vec())))
    }

    /// Keeps this instead of what was kept before it, and forgets what was said of bytes if there was something.
    ///
    /// # Errors
    /// The system's.
    pub fn replace_prologue(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.end > HEAD_BYTES as u64 {
            let (head, seal) = write_head(&self.identity, self.has_old);
            self.file.set_bytes(head.len() as u64)?;
            (self.end, self.seal) = (head.len() as u64, seal);
        }
        self.keep_prologue(bytes)
    }

    /// Waits until all of it is on the disk.
    ///
    /// # Errors
    /// The system's.
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

/// Whether a journal says that its data has old content.
pub(crate) fn has_old<F: DiskFile>(file: &F) -> io::Result<bool> {
    let mut head = [0; HEAD_BYTES];
    let read = read_all(file, &mut head, 0)?;
    Ok(read_head(&head[..read]).is_ok_and(|(_, has_old, _)| has_old))
}

/// What the whole records of a journal say, where they end, and the last seal.
fn recover<F: DiskFile>(file: &F) -> Result<(Recovered, u64, Seal), JournalError> {
    let mut head = [0; HEAD_BYTES];
    let read = read_all(file, &mut head, 0)?;
    let (identity, has_old, mut seal) = read_head(&head[..read])?;
    let mut recovered = Recovered { identity, has_old, ..Recovered::default() };
    let mut end = HEAD_BYTES as u64;
    let mut buffer = Vec::new();
    loop {
        buffer.resize(RECORD_BYTES, 0);
        if read_all(file, &mut buffer, end)? < RECORD_BYTES {
            break;
        }
        let Some(bytes) = Record::length(&buffer) else { break };
        buffer.resize(bytes, 0);
        if read_all(file, &mut buffer, end)? < bytes {
            break;
        }
        let Some((record, next)) = Record::read(&buffer, &seal) else { break };
        match record {
            Record::Durable(run) => recovered.durable.insert(run),
            Record::Prologue(part) if recovered.prologue.len() + part.len() > MOST_PROLOGUE_BYTES => break,
            Record::Prologue(part) => recovered.prologue.extend_from_slice(&part),
        }
        (end, seal) = (end + bytes as u64, next);
    }
    Ok((recovered, end, seal))
}

/// Reads until the buffer is full or there is no more; how much that was.
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
