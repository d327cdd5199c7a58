//! A block device as DEST: what comes is written over what it has, which cannot be taken back.

use super::part_file::WrittenFile;
use crate::disk::{Beneath, DiskFile};
use crate::partial::{PartialFile, read_back};
use nix::libc;
use std::fs::{File, OpenOptions};
use std::io::{Result, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A block device that nobody else uses.
pub struct Device {
    file: File,
    written_bytes: u64,
}

impl Device {
    /// Opens it for this process alone.
    ///
    /// # Errors
    /// If it is mounted or used otherwise (EBUSY), or may not be written.
    pub fn open(path: &Path) -> Result<Device> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(path)?;
        Ok(Device { file, written_bytes: 0 })
    }

    /// How many bytes it holds.
    ///
    /// # Errors
    /// If it has no size.
    pub fn bytes(&mut self) -> Result<u64> {
        let bytes = self.file.seek(SeekFrom::End(0))?;
        self.file.rewind()?;
        Ok(bytes)
    }
}

/// What DEST's bytes are written to.
pub enum Medium {
    /// A file that will have a name.
    File(PartialFile<Beneath>),
    /// A device that has one.
    Device(Device),
}

impl Medium {
    /// Another handle of the same open file.
    ///
    /// # Errors
    /// The system's.
    pub fn second_handle(&self) -> Result<File> {
        match self {
            Medium::File(file) => DiskFile::try_clone(file.file()),
            Medium::Device(device) => DiskFile::try_clone(&device.file),
        }
    }

    /// Whether something is there that may be what comes; memory forgets what the disk does not have of it.
    ///
    /// # Errors
    /// The system's, also of writing back what was written before.
    pub fn has_some_already(&self) -> Result<bool> {
        match self {
            Medium::File(file) => Ok(file.is_kept() && file.file().bytes()? > 0),
            Medium::Device(device) => {
                DiskFile::sync_data(&device.file)?;
                device.file.forget()?;
                Ok(true)
            }
        }
    }
}

impl WrittenFile for Medium {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Medium::File(file) => file.write_all(bytes),
            Medium::Device(device) => {
                device.written_bytes += bytes.len() as u64;
                device.file.write_all(bytes)
            }
        }
    }

    fn keep(&mut self, bytes: u64) -> Result<()> {
        match self {
            Medium::File(file) => file.keep(bytes),
            Medium::Device(device) => {
                device.written_bytes += bytes;
                device.file.seek(SeekFrom::Start(device.written_bytes)).map(drop)
            }
        }
    }

    fn syncing_handle(&self) -> Result<impl FnMut() -> Result<()> + Send + 'static> {
        Ok(match self {
            Medium::File(file) => Box::new(file.syncing_handle()?) as Box<dyn FnMut() -> Result<()> + Send>,
            Medium::Device(device) => {
                let file = DiskFile::try_clone(&device.file)?;
                Box::new(move || DiskFile::sync_data(&file))
            }
        })
    }

    fn sync(&mut self) -> Result<()> {
        match self {
            Medium::File(file) => file.sync(),
            Medium::Device(device) => device.file.sync_all(),
        }
    }

    fn read_back(&mut self, take: impl FnMut(&[u8])) -> Result<()> {
        match self {
            Medium::File(file) => file.read_back(take),
            Medium::Device(device) => read_back(&device.file, device.written_bytes, take),
        }
    }

    fn name(&mut self, path: &Path, replace: bool) -> Result<()> {
        if let Medium::File(file) = self { file.name(path, replace) } else { Ok(()) }
    }

    fn sync_name(&mut self, path: &Path) -> Result<()> {
        if let Medium::File(file) = self { file.sync_name(path) } else { Ok(()) }
    }
}
