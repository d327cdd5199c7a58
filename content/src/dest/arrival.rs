//! Choice of how received content is stored: as file, device, stdout, command input or directory.

use super::bytes::{ArrivalState, Bytes, too_small};
use super::{Dest, Handling};
use crate::command::{CommandState, Signal};
use crate::disk::{Lack, LeftOut};
use crate::have_set::Held;
use crate::hidden_names::foreign;
use crate::image::unpack;
use crate::source::SEVERAL;
use crate::storage::{Arrived, Target, TreeStorage};
use ethbcast_collectives::OptionName;
use ethbcast_collectives::session::application::Tally;
use ethbcast_collectives::session::live::{OfferCheck, Offered, ReadAt, Storage, StorageError};
use ethbcast_collectives::session::verified::sizes;
use ethbcast_collectives::session::{ContentKind, FileAttributes, Outcome, Packing, Trailer};
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// Storage for DEST for any kind of content.
pub struct Arrival {
    dest: Arc<Dest>,
    /// Storage for bytes; none while a decompressing thread has it.
    bytes: Option<Bytes>,
    unpacking: Option<Unpacking>,
    tree: TreeStorage,
    unpacks: bool,
    is_tree: bool,
    held: Option<Arc<Held>>,
}

/// Results of a transfer at DEST.
pub struct Landed {
    bytes: Arc<ArrivalState>,
    tree: Arc<Arrived>,
    /// Attributes that will be lacking, of which the user was warned before the transfer.
    told: BTreeSet<Lack>,
}

impl Landed {
    pub fn path(&self) -> Option<&PathBuf> {
        self.bytes.path.get().or_else(|| self.tree.path())
    }

    /// Whether a directory is under construction, whose removal takes time.
    pub fn is_building(&self) -> bool {
        self.tree.is_building()
    }

    pub fn command(&self) -> &CommandState {
        &self.bytes.command
    }

    /// Ends pending writes: zeros for a long hole, the input of a command. Returns whether a
    /// command was running.
    pub fn give_up(&self) -> bool {
        self.bytes.is_over.store(true, Ordering::Relaxed);
        self.bytes.command.end(Signal::TERM)
    }

    /// Returns a message with advice if DEST is a mixture of old and new data.
    pub fn broken(&self) -> Option<String> {
        if let Some(path) = self
            .bytes
            .remarks
            .broken
            .get()
            .filter(|_| self.path().is_none())
        {
            return Some(format!(
                "the old file at DEST was partly overwritten: it is in {}, and the next recv to DEST completes it",
                path.display()
            ));
        }
        let path = self.tree.broken()?;
        Some(format!(
            "{} has old and new files, each of them whole: the next recv {} to DEST completes it",
            path.display(),
            OptionName("in-place")
        ))
    }

    /// Returns the omitted files of a directory with the reasons.
    pub fn left_out(&self) -> Vec<String> {
        self.tree.left_out()
    }

    pub fn lacks(&self) -> Vec<String> {
        self.tree.lacks_beside(&self.told)
    }

    pub fn not_accepted(&self) -> LeftOut {
        self.tree.not_accepted()
    }

    /// Returns the replaced directories that could not be removed, and hidden entries of other
    /// users that were left alone, each with path, reason and advice.
    pub fn remains(&self) -> Vec<String> {
        let foreign = self.bytes.remarks.foreign.get().map(|path| foreign(path));
        self.tree.remains().into_iter().chain(foreign).collect()
    }
}

impl Arrival {
    pub fn new(
        dest: impl Into<Arc<Dest>>,
        target: Target,
        handling: Handling,
    ) -> (Arrival, Landed) {
        let (dest, said) = (dest.into(), Arc::<ArrivalState>::default());
        let told = dest.warned_of();
        let bytes = Some(Bytes::new(Arc::clone(&dest), handling, Arc::clone(&said)));
        let unpacks = target.accept.unpack;
        let (tree, arrived) = TreeStorage::new(target, handling.read_back);
        let arrival = Arrival {
            dest,
            bytes,
            unpacking: None,
            tree,
            unpacks,
            is_tree: false,
            held: None,
        };
        (
            arrival,
            Landed {
                bytes: said,
                tree: arrived,
                told,
            },
        )
    }

    /// Looks up the content on this host through `held`. If it `resumes`, an earlier run's data is
    /// used too, and this run's data is left for a later one.
    pub fn holding(mut self, held: &Arc<Held>, resumes: bool) -> Arrival {
        self.bytes
            .iter_mut()
            .for_each(|bytes| bytes.holding(resumes));
        if resumes {
            self.tree.resuming();
        }
        self.held = Some(Arc::clone(held));
        self
    }

    fn check(&self, offered: &Offered) -> Result<(), StorageError> {
        self.dest.check_kind(offered.content, self.unpacks)?;
        let free = self.dest.room_for(offered);
        if let Some(size) = offered.size.filter(|&size| size > free) {
            if let Dest::Device { .. } = &*self.dest {
                return Err(too_small(free, size));
            }
            let [size, free] = sizes(size, free);
            let text = format!(
                "no space: {size} to come, {free} free where DEST is: make room, or choose another"
            );
            return Err(StorageError::new(Outcome::NoSpace, text));
        }
        Ok(())
    }

    fn storage(&mut self) -> &mut dyn Storage {
        if self.is_tree {
            &mut self.tree
        } else {
            self.bytes.as_mut().expect("nothing unpacks into it")
        }
    }

    fn unpack(
        &mut self,
        packing: Packing,
        attributes: FileAttributes,
        offered: &Offered,
    ) -> Result<(), StorageError> {
        let mut bytes = self.bytes.take().expect("nothing unpacks into it");
        bytes.begin(&Offered {
            size: None,
            content: ContentKind::File(attributes),
            ..offered.clone()
        })?;
        let unpacking =
            Unpacking::start(packing, bytes).map_err(|error| crate::trouble("unpack it", error))?;
        self.unpacking = Some(unpacking);
        Ok(())
    }
}

impl Dest {
    /// Creates the check of what an invitation offers, made before this host joins.
    pub fn offer_check(dest: &Arc<Dest>, target: &Target) -> OfferCheck {
        let (dest, target) = (Arc::clone(dest), target.clone());
        OfferCheck::new(move |offered| {
            let refused = dest
                .check_offered(&target, offered)
                .map_err(StorageError::into_parts);
            refused.map_err(|(outcome, text, _)| outcome.status_and_reason(&text).1.to_owned())
        })
    }

    fn check_offered(&self, target: &Target, offered: &Offered) -> Result<(), StorageError> {
        self.check_kind(offered.content, target.accept.unpack)?;
        if offered.content != ContentKind::Tree {
            return self
                .path(&offered.source)
                .map(drop)
                .map_err(StorageError::refused);
        }
        match &*offered.source {
            // Several sources, or one of that name; or a name that may have been escaped.
            source if source == SEVERAL || source.contains('\\') => Ok(()),
            source if source.ends_with('/') => target.check(b""),
            source => target.check(source.as_bytes()),
        }
    }

    fn check_kind(&self, content: ContentKind, unpacks: bool) -> Result<(), StorageError> {
        match content {
            ContentKind::Tree => match self.refusal() {
                Some(text) => Err(StorageError::refused(text)),
                None => Ok(()),
            },
            ContentKind::Packed(..) if !unpacks => Err(StorageError::refused(format_args!(
                "the content must be unpacked here, which is not accepted: have it sent with {} root, or receive with \
                 {} unpack",
                OptionName("decompress"),
                OptionName("accept")
            ))),
            _ => Ok(()),
        }
    }

    fn refusal(&self) -> Option<&'static str> {
        match self {
            Dest::Stdout => Some(
                "a directory comes, which cannot go to stdout: give DEST the name of a directory, or have an archive \
                 sent, `tar c DIR | ethbcast send -`",
            ),
            Dest::Command(_) => Some(
                "a directory comes, which no command takes: give DEST the name of a directory, or have an archive \
                 sent, `tar c DIR | ethbcast send -`",
            ),
            Dest::Device { .. } => {
                Some("a directory comes, which cannot go to a device: choose a directory as DEST")
            }
            Dest::File { .. } | Dest::Directory { .. } => None,
        }
    }
}

impl Storage for Arrival {
    fn begin(&mut self, offered: &Offered) -> Result<(), StorageError> {
        self.is_tree = offered.content == ContentKind::Tree;
        self.check(offered)?;
        if let ContentKind::Packed(packing, attributes) = offered.content {
            return self.unpack(packing, attributes, offered);
        }
        self.storage().begin(offered)?;
        if let Some(held) = &self.held {
            held.opened(if self.is_tree {
                self.tree.left()
            } else {
                self.bytes.as_mut().and_then(Bytes::left)
            });
        }
        Ok(())
    }

    fn kept(&mut self) -> Option<Box<dyn ReadAt>> {
        if self.unpacking.is_some() {
            None
        } else {
            self.storage().kept()
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        match &mut self.unpacking {
            Some(unpacking) => unpacking.write(bytes),
            None => self.storage().write(bytes),
        }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        match &mut self.unpacking {
            Some(unpacking) => unpacking.write(bytes),
            None => self.storage().keep(bytes),
        }
    }

    fn settle(&mut self, trailer: Trailer) -> Result<(), StorageError> {
        let Some(mut unpacking) = self.unpacking.take() else {
            return self.storage().settle(trailer);
        };
        let Unpacked { bytes, content } = unpacking.finish()?;
        self.bytes.insert(bytes).settle(content)
    }

    fn syncs(&self) -> bool {
        // Compressed content is decompressed to a disk.
        if self.is_tree {
            self.tree.syncs()
        } else {
            self.bytes.as_ref().is_none_or(Storage::syncs)
        }
    }

    fn note(&self) -> String {
        self.tree.note()
    }

    fn publish(&mut self) -> Result<(), StorageError> {
        // Some file systems cannot remove open files.
        if let Some(held) = &self.held {
            held.close();
        }
        self.storage().publish()
    }
}

const PIECES_WAITING: usize = 4;
const WRITE_BYTES: usize = 1 << 20;

pub(super) struct Unpacking {
    pieces: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<Result<Unpacked, StorageError>>>,
}

/// DEST after decompression, with the trailer of the compressed bytes.
pub(super) struct Unpacked {
    pub bytes: Bytes,
    pub content: Trailer,
}

impl Unpacking {
    pub(super) fn start(packing: Packing, bytes: Bytes) -> io::Result<Unpacking> {
        let (pieces, packed) = sync_channel(PIECES_WAITING);
        let packed = Packed {
            pieces: packed,
            piece: Vec::new(),
            taken: 0,
            has_ended: false,
        };
        let work = move || work(packing, packed, bytes);
        let thread = thread::Builder::new()
            .name("unpack".to_owned())
            .spawn(work)?;
        Ok(Unpacking {
            pieces: Some(pieces),
            thread: Some(thread),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let pieces = self.pieces.as_ref().expect("nothing comes after the end");
        match pieces.send(bytes.to_vec()) {
            Ok(()) => Ok(()),
            // The thread ended early; its result has the reason.
            Err(_) => self.finish().map(drop),
        }
    }

    pub(super) fn finish(&mut self) -> Result<Unpacked, StorageError> {
        // Without this, the input would count as truncated.
        if let Some(pieces) = self.pieces.take() {
            drop(pieces.send(Vec::new()));
        }
        let ended = self.thread.take().map(JoinHandle::join);
        let panicked = || StorageError::new(Outcome::WriteFailed, "the unpacking thread panicked");
        ended.ok_or_else(panicked)?.map_err(|_| panicked())?
    }
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        self.pieces = None;
        // Unfinished data is removed before the caller goes on.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

fn work(packing: Packing, packed: Packed, mut bytes: Bytes) -> Result<Unpacked, StorageError> {
    let mut unpacked = unpack(packing, packed);
    let (mut tally, mut buffer) = (Tally::default(), vec![0; WRITE_BYTES]);
    loop {
        let mut count = 0;
        while count < buffer.len() {
            match unpacked.read(&mut buffer[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let word = packing.name();
                    let text = format!(
                        "the received data cannot be unpacked as {word}: {error}; check SOURCE with `{word} -t`"
                    );
                    return Err(StorageError::new(Outcome::Damaged, text));
                }
            }
        }
        if count == 0 {
            let content = tally.trailer();
            return Ok(Unpacked { bytes, content });
        }
        bytes.check_room(tally.bytes())?;
        tally.add(&buffer[..count]);
        bytes.write(&buffer[..count])?;
    }
}

struct Packed {
    pieces: Receiver<Vec<u8>>,
    piece: Vec<u8>,
    taken: usize,
    has_ended: bool,
}

impl Read for Packed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.piece.len() && !self.has_ended {
            let cut_off =
                |_| io::Error::new(io::ErrorKind::ConnectionAborted, "the rest does not come");
            self.piece = self.pieces.recv().map_err(cut_off)?;
            (self.taken, self.has_ended) = (0, self.piece.is_empty());
        }
        let count = buffer.len().min(self.piece.len() - self.taken);
        buffer[..count].copy_from_slice(&self.piece[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}
