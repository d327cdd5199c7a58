//! What DEST's bytes are written to: a file that will have a name, or a device that has one.

use super::device::Device;
use super::part_file::WrittenFile;
use crate::disk::Beneath;
use crate::page_cache::{self, LARGE_BYTES};
use crate::partial::{PartialFile, read_back};
use ethbcast_collectives::session::FileAttributes;
use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use std::fs::File;
use std::io::{ErrorKind, Result};
use std::path::Path;

/// What statfs(2) calls a file system in memory, which would touch all that it is asked to reserve.
const TMPFS: u64 = 0x0102_1994;

/// What DEST's bytes are written to.
#[derive(Debug)]
pub(super) enum Medium {
    /// A file that will have a name.
    File(PartialFile<Beneath>),
    /// A device that has one.
    Device(Device),
}

impl Medium {
    fn file(&self) -> &File {
        match self {
            Medium::File(file) => file.file(),
            Medium::Device(device) => device.file(),
        }
    }

    /// Another handle of the same open file.
    pub(super) fn second_handle(&self) -> Result<File> {
        self.file().try_clone()
    }

    /// Whether something is there that may be what comes; memory forgets what the disk does not have of it.
    ///
    /// # Errors
    /// The system's, also of writing back what was written before.
    pub(super) fn has_some_already(&self) -> Result<bool> {
        match self {
            Medium::File(file) => Ok(file.is_kept() && file.file().metadata()?.len() > 0),
            Medium::Device(device) => {
                device.file().sync_data()?;
                page_cache::forget(device.file());
                Ok(true)
            }
        }
    }

    /// What the run before kept of where its bytes belong.
    pub(super) fn prologue(&self) -> &[u8] {
        if let Medium::File(file) = self { file.prologue() } else { &[] }
    }

    /// How many bytes it can ever hold, if that is known.
    pub(super) fn limit(&self) -> Option<u64> {
        if let Medium::Device(device) = self { Some(device.bytes()) } else { None }
    }

    /// Takes the room for so many bytes at once: they lie together, and that there is none is known at once. Where that
    /// cannot be done it is left.
    pub(super) fn reserve(&self, bytes: u64) -> Result<()> {
        let Medium::File(file) = self else { return Ok(()) };
        let file = file.file();
        if bytes == 0 || fstatfs(file).is_ok_and(|system| system.f_type as u64 == TMPFS) {
            return Ok(());
        }
        match fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes).map_err(std::io::Error::from) {
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => Err(error),
            _ => Ok(()),
        }
    }
}

impl WrittenFile for Medium {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Medium::File(file) => file.write_all(bytes),
            Medium::Device(device) => device.write_all(bytes),
        }
    }

    fn keep(&mut self, bytes: u64) -> Result<()> {
        match self {
            Medium::File(file) => file.keep(bytes),
            Medium::Device(device) => device.keep(bytes),
        }
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        match self {
            Medium::File(file) => file.skip(bytes),
            Medium::Device(device) => device.skip(bytes),
        }
    }

    fn keep_prologue(&mut self, bytes: &[u8]) {
        if let Medium::File(file) = self {
            file.keep_prologue(bytes);
        }
    }

    fn syncing_handle(&self) -> Result<impl FnMut() -> Result<()> + Send + 'static> {
        let file = self.second_handle()?;
        let mut sync: Box<dyn FnMut() -> Result<()> + Send> = match self {
            Medium::File(file) => Box::new(file.syncing_handle()?),
            Medium::Device(device) => {
                let file = device.file().try_clone()?;
                Box::new(move || file.sync_data())
            }
        };
        let mut synced = 0;
        Ok(move || {
            sync()?;
            synced += super::part_file::SYNC_BYTES;
            if synced > LARGE_BYTES {
                page_cache::forget(&file);
            }
            Ok(())
        })
    }

    fn end(&mut self, attributes: Option<FileAttributes>) -> Result<()> {
        if let Medium::Device(device) = self {
            log::info!("{} of {} bytes were there before", device.unchanged_bytes(), device.written_bytes());
        }
        match self {
            Medium::File(file) => file.end(attributes),
            // Who may read a device is for its host to say.
            Medium::Device(device) => device.file().sync_all(),
        }
    }

    fn read_back(&mut self, take: impl FnMut(&[u8])) -> Result<()> {
        match self {
            Medium::File(file) => file.read_back(take),
            Medium::Device(device) => read_back(device.file(), device.written_bytes(), take),
        }
    }

    fn name(&mut self, path: &Path, replace: bool) -> Result<()> {
        if let Medium::File(file) = self { file.name(path, replace) } else { Ok(()) }
    }

    fn sync_name(&mut self, path: &Path) -> Result<()> {
        if let Medium::File(file) = self { file.sync_name(path) } else { Ok(()) }
    }
}
