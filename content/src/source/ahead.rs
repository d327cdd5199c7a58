//! Small files, read before their turn on several threads: of many of them opening takes longer than reading, and a
//! disk that has to look for each is asked for many at once.

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

/// A file up to this is read before its turn.
const SMALL_BYTES: u64 = 256 << 10;
/// Files and bytes that a thread takes at once.
const BATCH_FILES: usize = 32;
const BATCH_BYTES: u64 = 512 << 10;
/// Batches that are read or wait for their turn: 6 MiB.
const BATCHES_AHEAD: u64 = 12;
const THREADS: usize = 3;

/// Reads the small files of a directory before their turn.
#[derive(Debug)]
pub(super) struct FilesAhead {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The batch whose turn it is, and how many were before it.
    batch: Batch,
    passed: u64,
}

#[derive(Debug)]
struct Shared {
    layout: Arc<Layout>,
    files: SourceFiles,
    allow_changing: bool,
    turns: Mutex<Turns>,
    /// A batch has been read.
    read: Condvar,
    /// A batch has had its turn.
    passed: Condvar,
}

/// Which batches are where.
#[derive(Debug, Default)]
struct Turns {
    /// The next file that nobody has taken, and the number of the next batch.
    next_file: usize,
    next_batch: u64,
    passed: u64,
    read: BTreeMap<u64, Batch>,
    /// There are no more files, or nobody wants them.
    is_over: bool,
}

/// Some files, in order.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Their entries, and where in the bytes they are; none of a file that could not be read whole, or has changed.
    files: Vec<(usize, Option<Range<usize>>)>,
}

/// Whether a file is read before its turn.
pub(super) fn is_small(data: &FileData) -> bool {
    data.extents().is_none() && data.bytes() <= SMALL_BYTES
}

impl FilesAhead {
    /// Begins with the first file. Without threads each file is read when it is its turn.
    pub(super) fn begin(layout: &Arc<Layout>, files: &SourceFiles, allow_changing: bool) -> FilesAhead {
        let shared = Arc::new(Shared {
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

    /// The bytes of a small file whose turn it is, or was last; none if it has to be looked at now, because it could
    /// not be read or has changed. What was before it is forgotten.
    pub(super) fn bytes(&mut self, entry: usize) -> Option<&[u8]> {
        while self.batch.files.last().is_none_or(|(last, _)| *last < entry) {
            self.batch = self.next_batch()?;
        }
        let at = self.batch.files.binary_search_by_key(&entry, |(of, _)| *of).ok()?;
        self.batch.files[at].1.clone().map(|range| &self.batch.bytes[range])
    }

    /// Waits for the next batch; none if there will be none.
    fn next_batch(&mut self) -> Option<Batch> {
        if self.threads.is_empty() {
            return None;
        }
        let mut turns = self.shared.turns.lock();
        turns.passed = self.passed;
        self.shared.passed.notify_all();
        // Whoever takes a batch gives it back, whatever happens to it.
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

/// A batch that a thread has taken, which it gives back in any case.
struct Taken<'a> {
    shared: &'a Shared,
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

impl Shared {
    /// Reads the next batch, once it may; false if there is none.
    fn read_batch(&self) -> bool {
        let Some(mut taken) = self.take() else { return false };
        let entries: Vec<usize> = taken.batch.files.iter().map(|(entry, _)| *entry).collect();
        let open = |&entry: &usize| {
            let file = self.files.open_unchanged(entry, self.allow_changing).ok()?;
            // The disk looks for all of them at once.
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

    /// Takes the next small files, once there is room for them.
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
