//! A block device as DEST: what comes is written over what it has, which cannot be taken back.

use super::part_file::DiskFile;
use super::unnamed_file::UnnamedFile;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::libc;
use std::fs::{File, OpenOptions};
use std::io::{Result, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Bytes read back at once: enough for BLAKE3 to use wide vectors.
const READ_BYTES: usize = 1 << 20;

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
    File(UnnamedFile),
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
            Medium::File(file) => file.as_file().try_clone(),
            Medium::Device(device) => device.file.try_clone(),
        }
    }
}

impl DiskFile for Medium {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Medium::File(file) => file.write_all(bytes),
            Medium::Device(device) => {
                device.written_bytes += bytes.len() as u64;
                device.file.write_all(bytes)
            }
        }
    }

    fn syncing_handle(&self) -> Result<impl FnMut() -> Result<()> + Send + 'static> {
        let file = self.second_handle()?;
        Ok(move || file.sync_data())
    }

    fn sync(&mut self) -> Result<()> {
        match self {
            Medium::File(file) => file.as_file().sync_all(),
            Medium::Device(device) => device.file.sync_all(),
        }
    }

    fn read_back(&mut self, take: impl FnMut(&[u8])) -> Result<()> {
        match self {
            Medium::File(file) => read_back(file.as_file(), u64::MAX, take),
            Medium::Device(device) => read_back(&device.file, device.written_bytes, take),
        }
    }

    fn name(&mut self, path: &Path, replace: bool) -> Result<()> {
        if let Medium::File(file) = self { file.name(path, replace) } else { Ok(()) }
    }

    fn sync_name(&mut self, path: &Path) -> Result<()> {
        if let Medium::Device(_) = self {
            return Ok(());
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(directory)?.sync_all()
    }
}

/// The first `bytes` bytes of what was synced, or all if there are fewer, as the disk has them.
fn read_back(file: &File, bytes: u64, mut take: impl FnMut(&[u8])) -> Result<()> {
    // Memory forgets what is on the disk; where it cannot (a file system in memory) it is the disk.
    posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    let mut buffer = vec![0; READ_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let most = usize::try_from(bytes - offset).unwrap_or(usize::MAX).min(READ_BYTES);
        match file.read_at(&mut buffer[..most], offset)? {
            0 => break,
            count => {
                take(&buffer[..count]);
                offset += count as u64;
            }
        }
    }
    Ok(())
}
