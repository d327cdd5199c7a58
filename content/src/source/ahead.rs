//! Read-ahead of small files on several threads: opening many of them takes longer than reading,
//! and the disk can order its seeks among concurrent requests.

use super::SourceFiles;
use crate::layout::Layout;
use crate::manifest::FileData;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::JoinHandle;

const SMALL_BYTES: u64 = 256 << 10;
const BATCH_FILES: usize = 32;
const BATCH_BYTES: u64 = 512 << 10;
/// Batches that are read or waiting: 6 MiB.
const BATCHES_AHEAD: u64 = 12;
const THREADS: usize = 3;

#[derive(Debug)]
pub(super) struct FilesAhead {
    shared: Arc<AheadQueue>,
    threads: Vec<JoinHandle<()>>,
    batch: Batch,
    passed: u64,
}

#[derive(Debug)]
struct AheadQueue {
    layout: Arc<Layout>,
    files: SourceFiles,
    allow_changing: bool,
    turns: Mutex<Turns>,
    read: Condvar,
    passed: Condvar,
}

#[derive(Debug, Default)]
struct Turns {
    next_file: usize,
    next_batch: u64,
    passed: u64,
    read: BTreeMap<u64, Batch>,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Entry of each file and the range of its bytes; none if the file could not be read whole or
    /// has changed.
    files: Vec<(usize, Option<Range<usize>>)>,
}

pub(super) fn is_small(data: &FileData) -> bool {
    data.extents().is_none() && data.bytes() <= SMALL_BYTES
}

impl FilesAhead {
    /// Starts at the first file. If no thread can be started, each file is read when its bytes are
    /// due.
    pub(super) fn begin(layout: &Arc<Layout>, files: &SourceFiles, allow_changing: bool) -> FilesAhead {
        let shared = Arc::new(AheadQueue {
            layout: Arc::clone(layout),
            files: files.clone(),
            allow_changing,
            turns: Mutex::default(),
            read: Condvar::new(),
            passed: Condvar::new(),
        });
        let thread = |_| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name("files".to_owned()).spawn(move || while shared.read_batch() {}).ok()
        };
        let threads = (0..THREADS).filter_map(thread).collect();
        FilesAhead { shared, threads, batch: Batch::default(), passed: 0 }
    }

    /// Returns the bytes of a small file that is due, and drops those before it. None if the file
    /// could not be read ahead or has changed, so that it must be read now.
    pub(super) fn bytes(&mut self, entry: usize) -> Option<&[u8]> {
        while self.batch.files.last().is_none_or(|(last, _)| *last < entry) {
            self.batch = self.next_batch()?;
        }
        let at = self.batch.files.binary_search_by_key(&entry, |(of, _)| *of).ok()?;
        self.batch.files[at].1.clone().map(|range| &self.batch.bytes[range])
    }

    fn next_batch(&mut self) -> Option<Batch> {
        if self.threads.is_empty() {
            return None;
        }
        let mut turns = self.shared.turns.lock();
        turns.passed = self.passed;
        self.shared.passed.notify_all();
        // `Taken` hands the batch over even if the thread panics.
        let batch = loop {
            match turns.read.remove(&self.passed) {
                Some(batch) => break batch,
                None if turns.is_over && self.passed >= turns.next_batch => return None,
                None => self.shared.read.wait(&mut turns),
            }
        };
        self.passed += 1;
        Some(batch)
    }
}

impl Drop for FilesAhead {
    fn drop(&mut self) {
        self.shared.turns.lock().is_over = true;
        self.shared.passed.notify_all();
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// A batch in a thread's hands, which is handed over on drop.
struct Taken<'a> {
    shared: &'a AheadQueue,
    number: u64,
    batch: Batch,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut turns = self.shared.turns.lock();
        turns.read.insert(self.number, std::mem::take(&mut self.batch));
        self.shared.read.notify_all();
    }
}

impl AheadQueue {
    fn read_batch(&self) -> bool {
        let Some(mut taken) = self.take() else { return false };
        let entries: Vec<usize> = taken.batch.files.iter().map(|(entry, _)| *entry).collect();
        let open = |&entry: &usize| {
            let file = self.files.open_unchanged(entry, self.allow_changing).ok()?;
            // All files are requested before any is read, so that the disk can order its seeks.
            posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_WILLNEED).ok();
            Some(file)
        };
        let open: Vec<Option<File>> = entries.iter().map(open).collect();
        for (number, file) in open.into_iter().enumerate() {
            let begin = taken.batch.bytes.len();
            let end = begin + self.layout.data(entries[number]).map_or(0, |data| data.bytes() as usize);
            taken.batch.bytes.resize(end, 0);
            let is_whole = file.is_some_and(|file| {
                file.read_exact_at(&mut taken.batch.bytes[begin..end], 0).is_ok()
                    && (self.allow_changing || self.files.check(entries[number], Some(&file)).is_ok())
            });
            taken.batch.files[number].1 = is_whole.then_some(begin..end);
        }
        true
    }

    fn take(&self) -> Option<Taken<'_>> {
        let mut turns = self.turns.lock();
        while !turns.is_over && turns.next_batch >= turns.passed + BATCHES_AHEAD {
            self.passed.wait(&mut turns);
        }
        let (mut batch, mut bytes) = (Batch::default(), 0);
        while !turns.is_over && batch.files.len() < BATCH_FILES && bytes < BATCH_BYTES {
            let Some(entry) = self.layout.file(turns.next_file) else { break };
            turns.next_file += 1;
            if let Some(data) = self.layout.data(entry).filter(|data| is_small(data)) {
                bytes += data.bytes();
                batch.files.push((entry, None));
            }
        }
        if batch.files.is_empty() {
            turns.is_over = true;
            self.read.notify_all();
            return None;
        }
        let number = turns.next_batch;
        turns.next_batch += 1;
        Some(Taken { shared: self, number, batch })
    }
}
