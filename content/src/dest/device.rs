//! Storage of received bytes on a block device, whose old content is overwritten.

use super::DestError;
use super::in_use::{is_read_only, takes_partitions, users};
use super::kind::{Kind, Open, PIECE_BYTES, Present, SYNC_BYTES, ZEROS, at};
use crate::disk::DiskFile;
use crate::syncer::{LARGE_BYTES, Pace, Syncer};
use ethbcast_collectives::OptionName;
use ethbcast_collectives::session::FileAttributes;
use ethbcast_collectives::session::live::{ReadAt, StorageError};
use ethbcast_collectives::session::verified::mebibytes;
use rustix::fs::ioctl_blksszget;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Alignment of holes on a device in bytes, a multiple of any block size.
const HOLE_BORDER: u64 = PIECE_BYTES as u64;

/// A block device that this process has open exclusively.
#[derive(Debug)]
pub struct Device {
    file: File,
    bytes: u64,
    sector_bytes: u64,
}

impl Device {
    /// Opens the device exclusively, so that it cannot be mounted meanwhile. Fails with its users
    /// if it is in use, or if it is not writable.
    pub(super) fn open(path: &Path) -> std::result::Result<Device, DestError> {
        let name = path.display();
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_EXCL)
            .open(path);
        free(path)?;
        let cannot = |error: Error| {
            let help = match error.kind() {
                ErrorKind::ResourceBusy => "another process uses it: end that",
                ErrorKind::ReadOnlyFilesystem => "it is read-only (`blockdev --setrw`)",
                _ => "choose another DEST",
            };
            DestError(format!(
                "cannot write to the device {name}: {error}; {help}"
            ))
        };
        let mut file = opened.map_err(cannot)?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(cannot)?;
        file.rewind().map_err(cannot)?;
        let sector_bytes = ioctl_blksszget(&file)
            .map_err(|error| cannot(error.into()))?
            .into();
        Ok(Device {
            file,
            bytes,
            sector_bytes,
        })
    }

    /// Checks a device given as DEST, and returns its size in bytes.
    ///
    /// # Errors
    /// If it is in use, with its users, or not writable.
    pub fn look(path: &Path) -> std::result::Result<u64, DestError> {
        free(path)?;
        let cannot = |error: Error| {
            DestError(format!(
                "cannot read the device {}: {error}",
                path.display()
            ))
        };
        File::open(path)
            .and_then(|mut file| file.seek(SeekFrom::End(0)))
            .map_err(cannot)
    }

    /// Whether this is a whole disk with a partition table that the kernel may not have read yet.
    pub fn has_new_partitions(&self) -> bool {
        let mut head = [0; 520];
        let read = crate::journal::read_all(&self.file, &mut head, 0).unwrap_or(0);
        let has_table =
            read == head.len() && (head[510..512] == [0x55, 0xaa] || &head[512..] == b"EFI PART");
        has_table
            && self
                .file
                .metadata()
                .is_ok_and(|there| takes_partitions(there.rdev()))
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn writing(&self, path: &Path) -> Result<DeviceDest<File>> {
        let pace = Pace::Every(SYNC_BYTES);
        DeviceDest::new(
            self.file.try_clone()?,
            self.bytes,
            self.sector_bytes,
            path.to_owned(),
            pace,
        )
    }
}

fn free(path: &Path) -> std::result::Result<(), DestError> {
    let (name, users) = (path.display(), users(path));
    if !users.is_empty() {
        return Err(DestError(format!(
            "DEST {name} is {}",
            users.join("; it is ")
        )));
    }
    if path
        .metadata()
        .is_ok_and(|there| is_read_only(there.rdev()))
    {
        return Err(DestError(format!(
            "the device {name} is read-only: `blockdev --setrw {name}`, if it can be written, or choose another DEST"
        )));
    }
    Ok(())
}

#[derive(Debug)]
pub(super) struct DeviceDest<F: DiskFile> {
    file: F,
    bytes: u64,
    sector_bytes: u64,
    path: PathBuf,
    at: u64,
    present: Present,
    syncer: Syncer,
}

impl<F: DiskFile> DeviceDest<F> {
    fn new(
        file: F,
        bytes: u64,
        sector_bytes: u64,
        path: PathBuf,
        pace: Pace,
    ) -> Result<DeviceDest<F>> {
        let (syncing, mut synced) = (file.try_clone()?, 0);
        let syncer = Syncer::start(pace, move || {
            syncing.sync_data()?;
            synced += SYNC_BYTES;
            if synced > LARGE_BYTES {
                syncing.forget()
            } else {
                Ok(())
            }
        })?;
        Ok(DeviceDest {
            file,
            bytes,
            sector_bytes,
            path,
            at: 0,
            present: Present::default(),
            syncer,
        })
    }

    /// Writes the next bytes, except for pieces that the device has already.
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.check_room(bytes.len() as u64)?;
        self.present.write(&self.file, self.at, bytes, || Ok(()))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Makes the next `bytes` bytes zero, by discarding or by writing.
    fn skip_all(&mut self, bytes: u64) -> Result<()> {
        self.check_room(bytes)?;
        let end = self.at + bytes;
        let (from, to) = (
            self.at.next_multiple_of(HOLE_BORDER),
            end / HOLE_BORDER * HOLE_BORDER,
        );
        if from < to && self.file.punch(from..to).is_ok() {
            self.write_zeros(from)?;
            self.at = to;
        }
        self.write_zeros(end)
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
        let text = format!("the device holds {}, and more come", mebibytes(self.bytes));
        Err(Error::new(ErrorKind::StorageFull, text))
    }

    fn heed(
        &mut self,
        doing: &str,
        done: Result<()>,
        bytes: u64,
    ) -> std::result::Result<(), StorageError> {
        Ok(self.syncer.on_written(done, bytes).map_err(at(doing))?)
    }
}

impl<F: DiskFile> Kind for DeviceDest<F> {
    fn limit(&self) -> Option<u64> {
        Some(self.bytes)
    }

    fn sector_bytes(&self) -> Option<u64> {
        Some(self.sector_bytes)
    }

    fn handle(&self) -> Option<Box<dyn ReadAt>> {
        Some(Box::new(Open(self.file.try_clone().ok()?)))
    }

    fn has_some(&mut self) -> Result<bool> {
        self.file.sync_data().and_then(|()| self.file.forget())?;
        Ok(true)
    }

    fn write(&mut self, bytes: &[u8]) -> std::result::Result<(), StorageError> {
        let written = self.write_all(bytes);
        self.heed("write", written, bytes.len() as u64)
    }

    fn keep(&mut self, bytes: u64) -> std::result::Result<(), StorageError> {
        let kept = self.check_room(bytes);
        self.present.found_bytes += bytes;
        self.at += bytes;
        self.heed("write", kept, bytes)
    }

    fn skip(&mut self, bytes: u64) -> std::result::Result<(), StorageError> {
        let skipped = self.skip_all(bytes);
        self.heed("leave a hole", skipped, 0)
    }

    fn settle(
        &mut self,
        _attributes: Option<FileAttributes>,
    ) -> std::result::Result<(), StorageError> {
        // Permissions of a device are its administrator's decision.
        log::info!(
            "{} of {} bytes were there before",
            self.present.found_bytes,
            self.at
        );
        let synced = self.syncer.finish().and_then(|()| self.file.sync());
        Ok(synced.map_err(at("sync"))?)
    }

    fn forget(&self) -> Result<()> {
        self.file.forget()
    }

    fn put(&mut self) -> (Option<PathBuf>, std::result::Result<(), StorageError>) {
        (Some(self.path.clone()), Ok(()))
    }
}

const HEAD_BYTES: usize = 4096 + 8;
const GPT: &[u8] = b"EFI PART";
const MBR: [u8; 2] = [0x55, 0xaa];
const ENTRIES: std::ops::Range<usize> = 446..510;
const ENTRY_BYTES: usize = 16;
/// Partition type of the protective entry in front of a GPT.
const PROTECTIVE: u8 = 0xee;

/// Fails if the partition table of the image that begins with `head` is made for other sectors than
/// the device's, which have `own` bytes.
pub(super) fn check_sectors(
    own: u64,
    head: &[u8],
    image_bytes: u64,
) -> std::result::Result<(), StorageError> {
    match made_for(head, image_bytes) {
        Some(made) if made != own => Err(StorageError::refused(format!(
            "the image has a partition table for sectors of {made} bytes, but DEST has sectors of {own}: no machine \
             would find its partitions; nothing was written: send an image for such sectors, or write it all the same \
             with {}",
            OptionName("any-sectors")
        ))),
        _ => Ok(()),
    }
}

/// Returns the sector size of an image's partition table in bytes, or none if there is no table or
/// it is valid for both sizes. A master boot record is certain to count in 512 bytes only if its
/// partitions would exceed the image in sectors of 4096 bytes.
fn made_for(head: &[u8], image_bytes: u64) -> Option<u64> {
    let has = |at: usize| head.get(at..at + GPT.len()) == Some(GPT);
    match (has(512), has(4096)) {
        (true, false) => return Some(512),
        (false, true) => return Some(4096),
        (true, true) => return None,
        (false, false) => {}
    }
    if head.get(ENTRIES.end..ENTRIES.end + MBR.len()) != Some(&MBR[..]) || head.len() < HEAD_BYTES {
        return None;
    }
    let entries: Vec<&[u8]> = head[ENTRIES].chunks(ENTRY_BYTES).collect();
    // A file system's boot sector has the signature too, but program code at that offset.
    let is_table = entries
        .iter()
        .all(|entry| matches!(entry[0], 0 | 0x80) && entry[4] != PROTECTIVE);
    let number = |entry: &[u8], at: usize| {
        u64::from(u32::from_le_bytes(
            [0, 1, 2, 3].map(|byte| entry[at + byte]),
        ))
    };
    let used = entries.iter().filter(|entry| entry[4] != 0);
    let end = used
        .map(|entry| number(entry, 8) + number(entry, 12))
        .max()
        .filter(|_| is_table)?;
    (end * 512 <= image_bytes && end * 4096 > image_bytes).then_some(512)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::model::{Abilities, Errors, Inode, Listing, Model, Walked, World, walk};
    use crate::disk::{COMMON_FILE, Directory};

    #[test]
    fn holes_read_as_zeros_and_more_than_it_holds_is_an_error_before_anything_is_written() {
        // A plain file behaves like a device here.
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&[3; 8 * PIECE_BYTES], 0).expect("room");
        let again = file.try_clone().expect("open");
        let (bytes, pace) = (8 * PIECE_BYTES as u64, Pace::Every(SYNC_BYTES));
        let mut device =
            DeviceDest::new(file, bytes, 512, PathBuf::from("device"), pace).expect("a thread");
        device.write_all(&[7; 100]).expect("room");
        device.skip_all(5 * PIECE_BYTES as u64).expect("room");
        device.write_all(&[7; 100]).expect("room");
        let mut found = vec![1; 8 * PIECE_BYTES];
        crate::journal::read_all(&again, &mut found, 0).expect("so many");
        let hole = 100..5 * PIECE_BYTES + 100;
        assert!(found[..100] == [7; 100] && found[hole.clone()].iter().all(|&byte| byte == 0));
        assert!(found[hole.end..hole.end + 100] == [7; 100]);
        let error = device
            .write_all(&[5; 4 * PIECE_BYTES])
            .expect_err("too many");
        assert!(
            error.kind() == ErrorKind::StorageFull
                && error.to_string().contains("holds 524288 bytes,"),
            "{error}"
        );
    }

    #[test]
    fn room_is_said_in_the_unit_that_fits_it() {
        for (bytes, shown) in [
            (1000, "1000 bytes"),
            (5 << 20, "5.00 MiB"),
            (3 << 30, "3072.00 MiB"),
        ] {
            let file = tempfile::tempfile().expect("a file");
            let device = DeviceDest::new(
                file,
                bytes,
                512,
                PathBuf::from("device"),
                Pace::Every(SYNC_BYTES),
            );
            let error = device
                .expect("a thread")
                .check_room(bytes + 1)
                .expect_err("one byte more");
            assert_eq!(
                error.to_string(),
                format!("the device holds {shown}, and more come")
            );
        }
    }

    /// Pieces of a device by what they are filled with.
    fn filled(pieces: &[u8]) -> Vec<u8> {
        pieces
            .iter()
            .flat_map(|&byte| vec![byte; PIECE_BYTES])
            .collect()
    }

    fn model(content: &[u8]) -> Model {
        let disk = Model::default();
        let file = disk
            .root()
            .create(Path::new("device"), COMMON_FILE)
            .expect("a free name");
        file.write_all_at(content, 0)
            .and_then(|()| disk.root().sync_file_system())
            .expect("room");
        Model::of(disk.current())
    }

    /// Writes the image, with zeros as holes. Pieces that are present are kept if `keeps`, else
    /// compared.
    fn receive(disk: &Model, image: &[u8], keeps: bool) -> std::result::Result<(), StorageError> {
        let failed = |error| crate::trouble("begin", error);
        let file = disk.root().file(Path::new("device")).map_err(failed)?;
        let (bytes, pace) = (
            file.bytes().map_err(failed)?,
            Pace::AtOnce(2 * PIECE_BYTES as u64),
        );
        let mut device =
            DeviceDest::new(file, bytes, 512, PathBuf::from("device"), pace).map_err(failed)?;
        assert!(device.has_some().map_err(failed)?, "it may have a part");
        let there = device.handle().expect("it can be read");
        for (at, piece) in image.chunks(PIECE_BYTES).enumerate() {
            let mut found = vec![0; piece.len()];
            let read = there.read_at(&mut found, (at * PIECE_BYTES) as u64);
            match piece {
                _ if keeps && found == piece && read.is_ok_and(|read| read == piece.len()) => {
                    device.keep(piece.len() as u64)?
                }
                [0, ..] => device.skip(piece.len() as u64)?,
                _ => device.write(piece)?,
            }
        }
        device.settle(None)?;
        let mut read = vec![0; image.len()];
        let again = device
            .forget()
            .and_then(|()| crate::journal::read_all(&device.file, &mut read, 0));
        again.map_err(at("read back"))?;
        assert!(read == image, "what is on the disk is what was written");
        device.put().1
    }

    /// A device of six pieces, an image of four and a half, and the device after that image was
    /// written.
    fn images() -> (Vec<u8>, Vec<u8>, Vec<u8>) {
        let (old, mut image) = (filled(&[1, 2, 3, 4, 5, 6]), filled(&[11, 2, 0, 14, 15]));
        image.truncate(4 * PIECE_BYTES + PIECE_BYTES / 2);
        let new = [&image, &old[image.len()..]].concat();
        (old, image, new)
    }

    #[test]
    fn whenever_the_machine_stops_or_a_call_fails_the_next_run_ends_right_and_the_rest_of_the_device_is_as_it_was()
     {
        let (old, image, new) = images();
        for keeps in [false, true] {
            let disk = model(&old).remembering();
            receive(&disk, &image, keeps).expect("it does not fail");
            assert!(
                disk.durable().file("device") == Some(&new),
                "written, and not on the disk"
            );
            for moment in disk.moments() {
                for crashed in moment.crashes().into_iter().chain([moment.kill()]) {
                    let there = crashed.file("device").expect("there");
                    assert!(
                        there.len() == old.len() && there[image.len()..] == old[image.len()..],
                        "{}",
                        moment.after
                    );
                    let again = Model::of(crashed);
                    receive(&again, &image, keeps)
                        .unwrap_or_else(|error| panic!("after {}: {error}", moment.after));
                    assert!(
                        again.durable().file("device") == Some(&new),
                        "after {}",
                        moment.after
                    );
                }
            }
            for errno in [libc::EIO, libc::ENOSPC, libc::EROFS] {
                for call in 1..=disk.calls() {
                    let when = format!("call {call} fails with {errno}");
                    let disk = model(&old).failing_at(call, errno);
                    if receive(&disk, &image, keeps).is_ok() {
                        assert!(
                            disk.durable().file("device") == Some(&new),
                            "{when}: written, and not on the disk"
                        );
                    }
                    receive(&disk, &image, keeps)
                        .unwrap_or_else(|error| panic!("{when}, then: {error}"));
                    assert!(
                        disk.durable().file("device") == Some(&new),
                        "{when}: what memory had was believed"
                    );
                }
            }
        }
    }

    #[test]
    fn a_device_whose_writing_back_failed_is_never_called_written_whichever_sync_was_told() {
        let (old, image, new) = images();
        for keeps in [false, true] {
            // Two pieces and a half differ and are no hole.
            for after in (1..5 * PIECE_BYTES / 2).step_by(PIECE_BYTES / 4) {
                let disk = model(&old).losing_after(after);
                receive(&disk, &image, keeps).expect_err("the kernel lost bytes");
                receive(&disk, &image, keeps).expect("what memory has is not believed");
                assert!(disk.durable().file("device") == Some(&new), "{after}");
            }
        }
    }

    struct DeviceWalk {
        keeps: bool,
    }

    impl Walked for DeviceWalk {
        const DEST: &str = "device";

        fn start(&self) -> World {
            model(&images().0).current()
        }

        fn systems(&self) -> Vec<(String, Abilities)> {
            let lacking = Abilities {
                no_holes: true,
                ..Abilities::default()
            };
            vec![
                ("all it should".to_owned(), Abilities::default()),
                ("no holes".to_owned(), lacking),
            ]
        }

        fn receive(&self, disk: &Model) -> std::result::Result<bool, String> {
            receive(disk, &images().1, self.keeps)
                .map(|()| true)
                .map_err(|error| error.to_string())
        }

        fn found(&self, there: &World, _abilities: &Abilities) -> Listing {
            let bytes = there.file("device").map(<[u8]>::to_vec).unwrap_or_default();
            vec![(
                "device".into(),
                Inode::File {
                    bytes,
                    attributes: String::new(),
                },
            )]
        }

        /// Each half of a piece is old or new, and the rest of the device is as it was.
        fn is_whole(&self, there: &Listing, old: &Listing, new: &Listing) -> bool {
            let bytes = |listing: &Listing| match &listing[0].1 {
                Inode::File { bytes, .. } => bytes.clone(),
                _ => Vec::new(),
            };
            let [there, old, new] = [there, old, new].map(bytes);
            let halves = there
                .chunks(PIECE_BYTES / 2)
                .zip(old.chunks(PIECE_BYTES / 2))
                .zip(new.chunks(PIECE_BYTES / 2));
            there.len() == old.len()
                && halves
                    .into_iter()
                    .all(|((there, old), new)| there == old || there == new)
        }
    }

    #[test]
    fn a_device_has_old_and_new_pieces_after_a_crash_or_a_refusal_at_any_step() {
        for keeps in [false, true] {
            let walked = walk(&DeviceWalk { keeps }, Errors::All);
            println!("{walked:?}");
            assert!(
                walked.systems == 2 && walked.crashes >= 20 && walked.refusals > 300,
                "{walked:?}"
            );
        }
    }

    fn head(gpt_at: Option<usize>, partition: Option<(u32, u32)>) -> Vec<u8> {
        let mut head = vec![0; 8192];
        head[510..512].copy_from_slice(&MBR);
        if let Some(at) = gpt_at {
            head[at..at + 8].copy_from_slice(GPT);
            head[446 + 4] = PROTECTIVE;
        }
        if let Some((begin, sectors)) = partition {
            head[446 + 4] = 0x83;
            head[446 + 8..446 + 12].copy_from_slice(&begin.to_le_bytes());
            head[446 + 12..446 + 16].copy_from_slice(&sectors.to_le_bytes());
        }
        head
    }

    #[test]
    fn the_sectors_of_a_table_are_known_by_where_it_stands_or_by_where_its_partitions_would_end() {
        let mebibyte = 1 << 20;
        assert_eq!(made_for(&head(Some(512), None), mebibyte), Some(512));
        assert_eq!(made_for(&head(Some(4096), None), mebibyte), Some(4096));
        assert_eq!(
            made_for(&head(None, Some((256, 1792))), mebibyte),
            Some(512)
        );
        assert_eq!(
            made_for(&head(None, Some((16, 64))), mebibyte),
            None,
            "it may be of both"
        );
        assert_eq!(
            made_for(&head(None, None), mebibyte),
            None,
            "nothing is in it"
        );
        let mut boot_sector = head(None, Some((256, 1792)));
        boot_sector[446 + 16] = 0xe8;
        assert_eq!(made_for(&boot_sector, mebibyte), None, "it is a program");
        assert_eq!(
            (made_for(&[0; 8192], mebibyte), made_for(&[], mebibyte)),
            (None, None)
        );
    }
}
