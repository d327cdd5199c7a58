//! The journal beside partial data, which lets a later run resume: it names the content and lists
//! the bytes that are on the disk.
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

mod record;
#[cfg(test)]
mod tests;

use crate::disk::DiskFile;
use crate::runs::Runs;
use ethbcast_collectives::session::live::Offered;
use record::{HEAD_BYTES, RECORD_BYTES, Record, Seal, read_head, write_head};
use std::io;
use std::ops::Range;

/// Version of the format, the only one that is read.
pub const VERSION: u16 = 1;
const MAX_PROLOGUE_BYTES: usize = 257 << 20;
const PROLOGUE_PART_BYTES: usize = 1 << 20;

/// Identity of a content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Length, in bytes.
    pub bytes: u64,
    /// Bytes of a chunk.
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

/// State recovered from a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Identity of the content.
    pub identity: Identity,
    /// Bytes that were on the disk.
    pub durable: Runs,
    /// List of files or map of extents, as far as it was kept.
    pub prologue: Vec<u8>,
    /// The data was at DEST: it may have the only remains of what that was.
    pub has_old: bool,
}

/// Reason why nothing can be recovered from a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The head is damaged or incomplete, or the file is not a journal.
    #[error("it is none, or its beginning is damaged")]
    None,
    /// A newer version wrote it.
    #[error("it is of version {0}, this build reads {VERSION}")]
    Newer(u16),
    /// A read or write error.
    #[error(transparent)]
    System(#[from] io::Error),
}

pub(crate) fn newer(version: u16) -> io::Error {
    io::Error::other(format!(
        "what an earlier run left has a journal of version {version}, and this build reads {VERSION}: receive with the \
         build that left it, or remove it with --no-resume"
    ))
}

/// A journal open for writing.
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

    /// Recovers the journal in `file` and continues behind its last valid record.
    ///
    /// # Errors
    /// If nothing can be recovered, or the file cannot be read.
    pub fn take_up(file: F) -> Result<(Journal<F>, Recovered), JournalError> {
        let (recovered, end, seal) = recover(&file)?;
        file.set_bytes(end)?;
        Ok((Journal { file, identity: recovered.identity.clone(), has_old: recovered.has_old, end, seal }, recovered))
    }

    /// Records that `run` is on the disk. The caller must have synced it.
    pub fn claim(&mut self, run: &Range<u64>) -> io::Result<()> {
        self.append(&Record::Durable(run.clone()))
    }

    /// Appends the list of files.
    pub fn keep_prologue(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(PROLOGUE_PART_BYTES).try_for_each(|part| self.append(&Record::Prologue(part.to_vec())))
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

    /// Syncs the journal to the disk.
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
            Record::Prologue(part) if recovered.prologue.len() + part.len() > MAX_PROLOGUE_BYTES => break,
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
