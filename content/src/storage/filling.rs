//! Writing of the files of a directory under construction.

use super::building::Building;
use super::current::Current;
use super::putting::Putting;
use crate::disk::{Directory, DiskFile, Lack, PRIVATE_FILE};
use crate::journal::read_all;
use crate::layout::Verdict;
use crate::manifest::{Entry, Node};
use crate::replay::Trouble;
use ethbcast_collectives::session::live::{StorageError, is_full};
use std::io;
use std::path::Path;
use std::sync::Arc;

const COPY_BYTES: usize = 256 << 10;

impl<D: Directory> Building<D> {
    /// Runs `work`. If the disk is full, the waiting files are put in place first, which frees what
    /// they replace.
    pub(super) fn with_room(&mut self, mut work: impl FnMut(&mut Building<D>) -> io::Result<()>) -> io::Result<()> {
        match work(self) {
            Err(error) if is_full(&error) && self.putting.as_ref().is_some_and(|putting| putting.waiting() > 0) => {
                self.putting.as_mut().map_or(Ok(()), Putting::flush)?;
                work(self)
            }
            done => done,
        }
    }

    pub(super) fn put_data(&mut self, entry: usize, bytes: &[u8], offset: u64, is_new: bool) -> io::Result<()> {
        match self.file.as_ref().expect("it was just made") {
            Current::New(_) if !is_new => return Ok(()),
            Current::New(file) => return file.write_all_at(bytes, offset),
            Current::Same(there) => {
                let mut found = vec![0; bytes.len()];
                if read_all(there, &mut found, offset).is_ok_and(|read| read == bytes.len()) && found == bytes {
                    return Ok(());
                }
            }
        }
        self.renew(entry, offset)?;
        self.put_data(entry, bytes, offset, true)
    }

    fn renew(&mut self, entry: usize, until: u64) -> io::Result<()> {
        let layout = Arc::clone(&self.layout);
        let own = &layout.manifest().entries()[entry];
        let to = self.enter(own.parent)?.create(&own.own_path(), PRIVATE_FILE)?;
        if let Some(Current::Same(from)) = &self.file
            && let Err(error) = copy(from, &to, until)
        {
            drop(self.enter(own.parent)?.remove(&own.own_path()));
            return Err(error);
        }
        self.file = Some(Current::New(to));
        Ok(())
    }

    /// Copies a file in place of a hard link that the file system does not support.
    pub(super) fn copy_other(
        &mut self,
        other: &D,
        first: &Entry,
        parent: Option<u32>,
        own: &Path,
        why: &io::Error,
    ) -> io::Result<()> {
        let layout = Arc::clone(&self.layout);
        let from = other.file(&first.own_path())?;
        let to = self.enter(parent)?.create(own, PRIVATE_FILE)?;
        copy(&from, &to, from.bytes()?)?;
        self.setter.count(Lack::HardLinks, &why.to_string());
        to.set_attributes(self.setter.gives(&first.attributes, layout.manifest()))
    }

    pub(super) fn finish_file(&mut self, entry: usize, verdict: Verdict) -> Result<(), StorageError> {
        let layout = Arc::clone(&self.layout);
        let file = self.file.take().expect("its entry was made");
        let own = &layout.manifest().entries()[entry];
        if verdict != Verdict::Whole {
            let trouble = Trouble { zeros_from: u64::MAX, verdict, why: verdict.text().to_owned() };
            self.troubles.lock().insert(entry, trouble);
            return Ok(());
        }
        let Node::File(data) = &own.node else { return Ok(()) };
        let given = self.setter.gives(&own.attributes, layout.manifest());
        let set = match &file {
            Current::Same(there) => there.set_attributes(given),
            // A hole at the end is not written.
            Current::New(file) if data.extents().is_some() || self.is_taken_up => {
                file.set_bytes(data.bytes()).and_then(|()| file.set_attributes(given))
            }
            Current::New(file) => file.set_attributes(given),
        };
        set.map_err(|error| self.failed("set the attributes of", entry, error))?;
        let put = match (&mut self.putting, &file) {
            (Some(putting), Current::New(_)) => putting.put(entry, data.bytes()),
            (Some(putting), Current::Same(_)) => {
                putting.is_there(entry);
                Ok(())
            }
            (None, _) => Ok(()),
        };
        put.map_err(|error| self.failed("put", entry, error))
    }
}

fn copy<F: DiskFile>(from: &F, to: &F, until: u64) -> io::Result<()> {
    let (mut buffer, mut at) = (vec![0; COPY_BYTES], 0);
    while at < until {
        let most = usize::try_from(until - at).unwrap_or(usize::MAX).min(COPY_BYTES);
        let count @ 1.. = from.read_at(&mut buffer[..most], at)? else { break };
        if buffer[..count].iter().any(|byte| *byte != 0) {
            to.write_all_at(&buffer[..count], at)?;
        }
        at += count as u64;
    }
    to.set_bytes(at)
}
