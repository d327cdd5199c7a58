//! DEST as a storage: a file that becomes visible only when all is verified and on disk, a device, a command, or
//! stdout.

use super::Dest;
use super::device::{Device, Medium};
use super::part_file::{DiskError, PartFile, SettledFile};
use crate::command::{CommandInput, CommandState};
use crate::disk::{Beneath, DiskFile};
use crate::journal::Identity;
use crate::partial::{PartialFile, Resume};
use crate::storage::keep_attributes;
use crate::trouble;
use ethbcast_collectives::session::application::Tally;
use ethbcast_collectives::session::ledger::CHUNK_BYTES;
use ethbcast_collectives::session::live::{Offered, ReadAt, Storage, StorageError};
use ethbcast_collectives::session::{ContentKind, FileAttributes, Outcome, Trailer};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What is shorter is sent again as a whole.
const LEAST_KEPT_BYTES: u64 = 1 << 20;

/// DEST, being written.
pub struct Disk {
    dest: Dest,
    /// Compare with what is read back from the disk, too.
    read_back: bool,
    /// Take up what an earlier run left, and leave what comes of this one.
    resumes: bool,
    /// Somebody looks for what comes.
    is_held: bool,
    /// What is at DEST already and belongs there, for whoever looks for what comes.
    left: Option<File>,
    target: Option<Target>,
    /// A second handle at what is being written, for others that lack it.
    kept: Option<File>,
    /// What the file keeps of the sender's, and a handle to set it by.
    attributes: Option<(File, FileAttributes)>,
    path: Arc<OnceLock<PathBuf>>,
    command: Arc<CommandState>,
}

enum Target {
    Stdout(io::Stdout),
    Command(CommandInput),
    Writing { part: PartFile<Medium>, path: PathBuf, replace: bool },
    Settled { file: SettledFile<Medium>, path: PathBuf, replace: bool },
}

impl Disk {
    /// Whether what an earlier run left is used, and this one leaves something: of a file whose size is known, and so
    /// large that it matters.
    fn resume(&self, offered: &Offered) -> Resume {
        let is_file = matches!(offered.content, ContentKind::File(_));
        match offered.size.filter(|&bytes| self.resumes && is_file && bytes >= LEAST_KEPT_BYTES) {
            Some(bytes) => Resume::From(identity(offered, bytes)),
            None => Resume::Not,
        }
    }

    /// A storage for DEST, and where its file will be when it is visible; `command` learns of the command that DEST is.
    pub fn new(dest: Dest, read_back: bool, command: Arc<CommandState>) -> (Disk, Arc<OnceLock<PathBuf>>) {
        let path = Arc::<OnceLock<PathBuf>>::default();
        let shown = Arc::clone(&path);
        (
            Disk {
                dest,
                read_back,
                resumes: false,
                is_held: false,
                left: None,
                target: None,
                kept: None,
                attributes: None,
                path,
                command,
            },
            shown,
        )
    }

    /// From now on what is at DEST already is shown; if it `resumes`, what comes of this run is left for the next.
    pub fn holding(&mut self, resumes: bool) {
        (self.resumes, self.is_held) = (resumes, true);
    }

    /// What is at DEST already and belongs there.
    pub fn left(&mut self) -> Option<Box<dyn ReadAt>> {
        self.left.take().map(|file| Box::new(file) as Box<dyn ReadAt>)
    }

    /// Opens what the bytes go to.
    fn open(&mut self, offered: &Offered) -> Result<(), StorageError> {
        if let Dest::Command(command) = &self.dest {
            let started = CommandInput::start(command, &offered.source, Arc::clone(&self.command));
            let started = started.map_err(|error| trouble(&format!("run `{command}`"), error))?;
            self.target = Some(Target::Command(started));
            return Ok(());
        }
        let path = self.dest.path(&offered.source).map_err(|text| StorageError::new(Outcome::WriteFailed, text))?;
        self.target = Some(match path {
            None => Target::Stdout(io::stdout()),
            Some((path, replace)) => {
                let medium = self.medium(&path, offered)?;
                self.kept = medium.second_handle().ok();
                if self.is_held && medium.has_some_already().map_err(|error| trouble("look at DEST", error))? {
                    self.left = medium.second_handle().ok();
                }
                if let (ContentKind::File(attributes), Medium::File(file)) = (offered.content, &medium) {
                    let file = DiskFile::try_clone(file.file()).map_err(|error| trouble("open it twice", error))?;
                    self.attributes = Some((file, attributes));
                }
                let part = PartFile::new(medium).map_err(disk_trouble)?;
                Target::Writing { part, path, replace }
            }
        });
        Ok(())
    }

    fn medium(&self, path: &Path, offered: &Offered) -> Result<Medium, StorageError> {
        if let Dest::Device { .. } = self.dest {
            let device = Device::open(path).map_err(|error| trouble("open the device for this process alone", error));
            return device.map(Medium::Device);
        }
        let directory = self.dest.directory().unwrap_or(Path::new("."));
        let name = path.file_name().unwrap_or_default();
        let holder = Beneath::open(directory).map_err(|error| trouble("open the directory of DEST", error))?;
        let file = PartialFile::begin(Arc::new(holder), directory, name, &self.resume(offered));
        file.map(Medium::File).map_err(|error| trouble("begin a hidden file beside DEST", error))
    }
}

/// What is offered, so that the next run knows whether it is the same.
fn identity(offered: &Offered, bytes: u64) -> Identity {
    let text = format!("{:?} {:?}", offered.source, offered.content);
    Identity { bytes, chunk_bytes: CHUNK_BYTES as u32, content: *blake3::hash(text.as_bytes()).as_bytes() }
}

impl Storage for Disk {
    fn begin(&mut self, offered: &Offered) -> Result<(), StorageError> {
        self.open(offered)
    }

    fn syncs(&self) -> bool {
        !matches!(self.target, Some(Target::Stdout(_)))
    }

    fn kept(&mut self) -> Option<Box<dyn ReadAt>> {
        self.kept.take().map(|file| Box::new(file) as Box<dyn ReadAt>)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        match self.target.as_mut() {
            Some(Target::Writing { part, .. }) => part.keep(bytes.len() as u64).map_err(disk_trouble),
            _ => self.write(bytes),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        match self.target.as_mut().expect("data comes when the session has begun") {
            Target::Stdout(out) => out.write_all(bytes).map_err(|error| trouble("write to stdout", error)),
            Target::Command(command) => command.write_all(bytes).map_err(command_trouble),
            Target::Writing { part, .. } => part.write_all(bytes).map_err(disk_trouble),
            Target::Settled { .. } => panic!("nothing comes after the end"),
        }
    }

    fn settle(&mut self, trailer: Trailer) -> Result<(), StorageError> {
        self.target = Some(match self.target.take().expect("the end comes when the session has begun") {
            Target::Stdout(mut out) => {
                out.flush().map_err(|error| trouble("write to stdout", error))?;
                Target::Stdout(out)
            }
            Target::Command(mut command) => {
                command.finish().map_err(command_trouble)?;
                Target::Command(command)
            }
            Target::Writing { part, path, replace } => {
                if let Some((file, attributes)) = self.attributes.take() {
                    keep_attributes(&file, attributes).map_err(|error| trouble("set mode and time", error))?;
                }
                let mut file = part.settle().map_err(disk_trouble)?;
                if self.read_back {
                    compare(&mut file, trailer)?;
                }
                Target::Settled { file, path, replace }
            }
            settled @ Target::Settled { .. } => settled,
        });
        Ok(())
    }

    fn publish(&mut self) -> Result<(), StorageError> {
        if let Some(Target::Settled { file, path, replace }) = self.target.take() {
            let published = file.publish(&path, replace);
            if published.as_ref().err().is_none_or(|failed| failed.in_place) {
                self.path.get_or_init(|| path);
            }
            published.map_err(disk_trouble)?;
        }
        Ok(())
    }
}

/// Fails unless what is read back from the disk is what the sender has.
fn compare(file: &mut SettledFile<Medium>, trailer: Trailer) -> Result<(), StorageError> {
    let mut tally = Tally::default();
    file.read_back(|bytes| tally.add(bytes)).map_err(disk_trouble)?;
    tally.verify(trailer).map_err(|_| {
        let text = "what is read back from the disk is not what was written to it: the disk, its cable or the memory \
                    is bad, or somebody else has written to it; choose another DEST";
        StorageError::new(Outcome::Damaged, text)
    })
}

/// What a command came to, in words that need no others.
fn command_trouble(error: io::Error) -> StorageError {
    StorageError::new(Outcome::WriteFailed, error.to_string())
}

/// What went wrong at a file, with what is true of it and what to do.
fn disk_trouble(failed: DiskError) -> StorageError {
    if failed.in_place {
        let help = "; the file is in place and whole, but a crash may take its name away: sync the disk, or send again";
        return StorageError::system(&failed.doing, failed.error, help);
    }
    trouble(&failed.doing, failed.error)
}
