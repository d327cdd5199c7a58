//! What DEST's bytes are written to: a file that will have a name, or a device that has one.

use super::device::Device;
use super::part_file::DiskFile;
use super::unnamed_file::UnnamedFile;
use crate::page_cache::{self, LARGE_BYTES};
use rustix::fs::{FallocateFlags, fallocate, fstatfs};
use std::fs::File;
use std::io::{ErrorKind, Result, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes read back at once: enough for BLAKE3 to use wide vectors.
const READ_BYTES: usize = 1 << 20;
/// What statfs(2) calls a file system in memory, which would touch all that it is asked to reserve.
const TMPFS: i64 = 0x0102_1994;

/// What DEST's bytes are written to.
#[derive(Debug)]
pub(super) enum Medium {
    /// A file that will have a name.
    File(UnnamedFile),
    /// A device that has one.
    Device(Device),
}

impl Medium {
    fn file(&self) -> &File {
        match self {
            Medium::File(file) => file.as_file(),
            Medium::Device(device) => device.file(),
        }
    }

    /// Another handle of the same open file.
    pub(super) fn second_handle(&self) -> Result<File> {
        self.file().try_clone()
    }

    /// How many bytes it can ever hold, if that is known.
    pub(super) fn limit(&self) -> Option<u64> {
        if let Medium::Device(device) = self { Some(device.bytes()) } else { None }
    }

    /// Takes the room for so many bytes at once: they lie together, and that there is none is known at once. Where that
    /// cannot be done it is left.
    pub(super) fn reserve(&self, bytes: u64) -> Result<()> {
        let Medium::File(file) = self else { return Ok(()) };
        let file = file.as_file();
        if bytes == 0 || fstatfs(file).is_ok_and(|system| system.f_type == TMPFS) {
            return Ok(());
        }
        match fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes).map_err(std::io::Error::from) {
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => Err(error),
            _ => Ok(()),
        }
    }
}

impl DiskFile for Medium {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Medium::File(file) => file.write_all(bytes),
            Medium::Device(device) => device.write_all(bytes),
        }
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        match self {
            Medium::File(file) => {
                let mut file = file.as_file();
                let end = file.seek(SeekFrom::Current(i64::try_from(bytes).unwrap_or(i64::MAX)))?;
                file.set_len(end)
            }
            Medium::Device(device) => device.skip(bytes),
        }
    }

    fn syncing_handle(&self) -> Result<impl FnMut() -> Result<()> + Send + 'static> {
        let file = self.second_handle()?;
        let mut synced = 0;
        Ok(move || {
            file.sync_data()?;
            synced += super::part_file::SYNC_BYTES;
            if synced > LARGE_BYTES {
                page_cache::forget(&file);
            }
            Ok(())
        })
    }

    fn sync(&mut self) -> Result<()> {
        if let Medium::Device(device) = self {
            log::info!("{} of {} bytes were there before", device.unchanged_bytes(), device.written_bytes());
        }
        self.file().sync_all()
    }

    fn read_back(&mut self, take: impl FnMut(&[u8])) -> Result<()> {
        match self {
            Medium::File(file) => read_back(file.as_file(), u64::MAX, take),
            Medium::Device(device) => read_back(device.file(), device.written_bytes(), take),
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
    // Where it cannot be forgotten (a file system in memory) memory is the disk.
    page_cache::forget(file);
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
