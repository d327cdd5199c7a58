//! A block device as DEST: what comes is written over what it has, which cannot be taken back.

use super::DestError;
use super::in_use::users;
use nix::libc;
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// What is compared with what the device has, and left out if it is the same, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Zeros that are written where nothing else is made of them, in bytes.
static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];
/// A hole of a device begins and ends between its blocks, whatever their size is, in bytes.
const HOLE_BORDER: u64 = PIECE_BYTES as u64;

/// A block device that nobody else uses, as long as this is there.
#[derive(Debug)]
pub struct Device {
    file: File,
    bytes: u64,
    /// Where the next bytes go.
    at: u64,
    present: Present,
    unchanged_bytes: u64,
}

impl Device {
    /// Opens it for this process alone: the kernel lets nobody mount it meanwhile.
    ///
    /// # Errors
    /// If it is used already, and by what, or may not be written.
    pub(super) fn open(path: &Path) -> std::result::Result<Device, DestError> {
        let name = path.display();
        let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(path);
        let users = users(path);
        if !users.is_empty() {
            return Err(DestError(format!("DEST {name} is {}", users.join("; it is "))));
        }
        let cannot = |error: Error| {
            let help = match error.kind() {
                ErrorKind::ResourceBusy => "somebody uses it: end that",
                ErrorKind::ReadOnlyFilesystem => "it is read-only (`blockdev --setrw`)",
                _ => "choose another DEST",
            };
            DestError(format!("cannot write to the device {name}: {error}; {help}"))
        };
        let mut file = opened.map_err(cannot)?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(cannot)?;
        file.rewind().map_err(cannot)?;
        Ok(Device::new(file, bytes))
    }

    fn new(file: File, bytes: u64) -> Device {
        Device { file, bytes, at: 0, present: Present::default(), unchanged_bytes: 0 }
    }

    /// How many bytes it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same device, to be written from its beginning.
    pub(super) fn again(&self) -> Result<Device> {
        Ok(Device::new(self.file.try_clone()?, self.bytes))
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// How much has been written, or was there before.
    pub(super) fn written_bytes(&self) -> u64 {
        self.at
    }

    /// How much of that was there before.
    pub(super) fn unchanged_bytes(&self) -> u64 {
        self.unchanged_bytes
    }

    /// Puts all of `bytes` behind what is there; what the device has already is not written again.
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.check_room(bytes.len() as u64)?;
        let mut unwritten = 0;
        let mut at = 0;
        while at < bytes.len() {
            let offset = self.at + at as u64;
            let to_border = PIECE_BYTES - (offset % PIECE_BYTES as u64) as usize;
            let end = bytes.len().min(at + to_border);
            if self.present.is(&self.file, offset, &bytes[at..end]) {
                self.file.write_all_at(&bytes[unwritten..at], self.at + unwritten as u64)?;
                self.unchanged_bytes += (end - at) as u64;
                unwritten = end;
            }
            at = end;
        }
        self.file.write_all_at(&bytes[unwritten..], self.at + unwritten as u64)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Makes so many bytes read as zeros: the device forgets what it has there, or is told to write them itself.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<()> {
        self.check_room(bytes)?;
        let end = self.at + bytes;
        let (from, to) = (self.at.next_multiple_of(HOLE_BORDER), end / HOLE_BORDER * HOLE_BORDER);
        if from < to && self.forget(from, to - from).is_ok() {
            self.write_zeros(from)?;
            self.at = to;
        }
        self.write_zeros(end)
    }

    fn forget(&self, offset: u64, bytes: u64) -> Result<()> {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let zero = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, punch, offset, bytes).or_else(|_| fallocate(&self.file, zero, offset, bytes))?)
    }

    fn write_zeros(&mut self, until: u64) -> Result<()> {
        while self.at < until {
            let count = (until - self.at).min(PIECE_BYTES as u64) as usize;
            self.write_all(&ZEROS[..count])?;
        }
        Ok(())
    }

    fn check_room(&self, bytes: u64) -> Result<()> {
        if bytes <= self.bytes - self.at {
            return Ok(());
        }
        let text = format!("the device holds {} bytes, and more come", self.bytes);
        Err(Error::new(ErrorKind::StorageFull, text))
    }
}

/// Whether a device has something already. Where nothing was the same for long, only one piece in so many is looked at:
/// reading costs, too.
#[derive(Debug, Default)]
struct Present {
    buffer: Vec<u8>,
    /// Pieces in a row that were not the same.
    different: u32,
}

impl Present {
    const LOOKS: u32 = 64;
    const THEN_ONE_IN: u64 = 16;

    fn is(&mut self, file: &File, offset: u64, bytes: &[u8]) -> bool {
        let number = offset / PIECE_BYTES as u64;
        if self.different >= Present::LOOKS && !number.is_multiple_of(Present::THEN_ONE_IN) {
            return false;
        }
        self.buffer.resize(bytes.len(), 0);
        let is_same = file.read_exact_at(&mut self.buffer, offset).is_ok() && self.buffer == bytes;
        self.different = if is_same { 0 } else { self.different.saturating_add(1) };
        is_same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in place of a device: it is written, read and made to forget alike.
    fn device(bytes: &[u8]) -> Device {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(bytes, 0).expect("room");
        Device::new(file, bytes.len() as u64)
    }

    fn pattern(bytes: usize, seed: u8) -> Vec<u8> {
        (0..bytes).map(|at| (at / 100) as u8 ^ seed).collect()
    }

    #[test]
    fn what_is_there_already_is_not_written_and_the_rest_is() {
        let old = pattern(40 * PIECE_BYTES, 1);
        let mut new = old.clone();
        new[3 * PIECE_BYTES + 5] ^= 1;
        new[20 * PIECE_BYTES..22 * PIECE_BYTES].fill(9);
        let mut device = device(&old);
        // In pieces that do not end where the device's do.
        new.chunks(1_000_003).for_each(|bytes| device.write_all(bytes).expect("room"));
        let mut found = vec![0; new.len()];
        device.file.read_exact_at(&mut found, 0).expect("so many");
        assert!(found == new);
        assert_eq!(device.unchanged_bytes(), 37 * PIECE_BYTES as u64);
    }

    #[test]
    fn an_image_that_is_all_new_is_soon_not_compared_any_more_and_one_that_is_old_again_is() {
        let mut present = Present::default();
        let old = device(&pattern(200 * PIECE_BYTES, 1));
        let other = pattern(PIECE_BYTES, 77);
        let mut same = |number: u64, bytes: &[u8]| present.is(&old.file, number * PIECE_BYTES as u64, bytes);
        assert!((0..64).all(|number| !same(number, &other)));
        let mut own = vec![0; PIECE_BYTES];
        old.file.read_exact_at(&mut own, 65 * PIECE_BYTES as u64).expect("so many");
        assert!(!same(65, &own), "it is not looked at");
        old.file.read_exact_at(&mut own, 80 * PIECE_BYTES as u64).expect("so many");
        assert!(same(80, &own) && !same(81, &other), "one in sixteen is, and then all are");
    }

    #[test]
    fn holes_read_as_zeros_and_more_than_it_holds_is_an_error_before_anything_is_written() {
        let mut device = device(&pattern(8 * PIECE_BYTES, 3));
        device.write_all(&[7; 100]).expect("room");
        device.skip(5 * PIECE_BYTES as u64).expect("room");
        device.write_all(&[7; 100]).expect("room");
        let mut found = vec![1; 8 * PIECE_BYTES];
        device.file.read_exact_at(&mut found, 0).expect("so many");
        let hole = 100..5 * PIECE_BYTES + 100;
        assert!(found[..100] == [7; 100] && found[hole.clone()].iter().all(|&byte| byte == 0));
        assert!(found[hole.end..hole.end + 100] == [7; 100]);
        let error = device.write_all(&pattern(4 * PIECE_BYTES, 5)).expect_err("too many");
        assert!(error.kind() == ErrorKind::StorageFull && error.to_string().contains("holds 524288 bytes"), "{error}");
    }
}
