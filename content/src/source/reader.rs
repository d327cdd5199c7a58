//! Reader that returns a directory's stream from beginning to end.

use crate::layout::{Layout, OpenEntry, Piece, Trouble, Troubles, Verdict};
use crate::manifest::FileData;
use crate::syncer::Passing;
use ethbcast_collectives::OptionName;
use ethbcast_collectives::lock::{Condvar, Mutex};
use ethbcast_collectives::session::live::ReadAt;
use rustix::fs::{Advice, OFlags, fadvise};
use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Reads the stream of a directory. Its length is always the listed one: missing data is replaced
/// by zeros.
#[derive(Debug)]
pub struct TreeReader {
    layout: Arc<Layout>,
    encoded: Arc<Vec<u8>>,
    files: SourceFiles,
    troubles: Troubles,
    allow_changing: bool,
    position: u64,
    open: Option<(usize, File)>,
    ahead: Option<FilesAhead>,
}

impl TreeReader {
    pub(super) fn new(
        layout: Arc<Layout>,
        encoded: Arc<Vec<u8>>,
        files: SourceFiles,
        troubles: Troubles,
        allow_changing: bool,
    ) -> TreeReader {
        TreeReader {
            layout,
            encoded,
            files,
            troubles,
            allow_changing,
            position: 0,
            open: None,
            ahead: None,
        }
    }

    fn ahead(&mut self, entry: usize) -> Option<&[u8]> {
        self.layout.data(entry).filter(|data| is_small(data))?;
        let begin = || FilesAhead::begin(&self.layout, &self.files, self.allow_changing);
        self.ahead.get_or_insert_with(begin).bytes(entry)
    }

    fn read_data(&mut self, entry: usize, offset: u64, buffer: &mut [u8]) -> usize {
        if let Some(bytes) = self.ahead(entry) {
            buffer.copy_from_slice(&bytes[offset as usize..][..buffer.len()]);
            return buffer.len();
        }
        if !self.troubles.lock().contains_key(&entry) {
            match self.try_read(entry, offset, buffer) {
                Ok(count) => return count,
                Err((verdict, why)) => self.note(entry, offset, verdict, why),
            }
        }
        buffer.fill(0);
        buffer.len()
    }

    fn try_read(
        &mut self,
        entry: usize,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, (Verdict, String)> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != entry) {
            self.open = Some((
                entry,
                self.files.open_unchanged(entry, self.allow_changing)?,
            ));
        }
        let (_, file) = self.open.as_ref().expect("it was just opened");
        loop {
            match FileExt::read_at(file, buffer, offset) {
                Ok(0) => {
                    return Err((
                        Verdict::Changed,
                        format!("it has become shorter, {offset} bytes"),
                    ));
                }
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err((Verdict::Lost, error.to_string())),
            }
        }
    }

    fn judge(&mut self, entry: usize) -> Verdict {
        if self.ahead(entry).is_some() {
            return Verdict::Whole;
        }
        let file = self
            .open
            .take()
            .filter(|(open, _)| *open == entry)
            .map(|(_, file)| file);
        if let Some(trouble) = self.troubles.lock().get(&entry) {
            return trouble.verdict;
        }
        if self.allow_changing {
            return Verdict::Whole;
        }
        match self.files.check(entry, file.as_ref()) {
            Ok(()) => Verdict::Whole,
            Err((verdict, why)) => {
                self.note(entry, u64::MAX, verdict, why);
                verdict
            }
        }
    }

    fn note(&mut self, entry: usize, zeros_from: u64, verdict: Verdict, why: String) {
        log::warn!(
            "{} {}: {why}",
            self.files.path(entry).display(),
            verdict.text()
        );
        self.troubles.lock().insert(
            entry,
            Trouble {
                zeros_from,
                verdict,
                why,
            },
        );
    }
}

impl Read for TreeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let fits = |bytes: u64| {
            usize::try_from(bytes)
                .unwrap_or(usize::MAX)
                .min(buffer.len())
        };
        let count = match self.layout.at(self.position) {
            None => 0,
            Some(Piece::Manifest { at, bytes }) => {
                let count = fits(bytes);
                buffer[..count].copy_from_slice(&self.encoded[at..at + count]);
                count
            }
            Some(Piece::Data {
                entry,
                offset,
                bytes,
            }) => {
                let count = fits(bytes);
                self.read_data(entry, offset, &mut buffer[..count])
            }
            Some(Piece::Verdict { entry }) => {
                buffer[0] = self.judge(entry).byte();
                1
            }
        };
        self.position += count as u64;
        Ok(count)
    }
}

/// Paths and stamps of the files that are sent.
#[derive(Clone, Debug)]
pub struct SourceFiles(Arc<OpenedEntry>);

#[derive(Debug)]
struct OpenedEntry {
    /// Entries of the SOURCEs with their paths; all other entries are below one of them.
    bases: Vec<(u32, PathBuf)>,
    layout: Arc<Layout>,
    stamps: Vec<(u32, Stamp)>,
}

impl SourceFiles {
    pub(super) fn new(
        bases: Vec<(u32, PathBuf)>,
        layout: Arc<Layout>,
        stamps: Vec<(u32, Stamp)>,
    ) -> SourceFiles {
        SourceFiles(Arc::new(OpenedEntry {
            bases,
            layout,
            stamps,
        }))
    }

    pub(super) fn path(&self, entry: usize) -> PathBuf {
        let OpenedEntry { bases, layout, .. } = &*self.0;
        let entries = layout.manifest().entries();
        let base = |at: usize| {
            bases
                .iter()
                .find(|(of, _)| *of as usize == at)
                .map(|(_, path)| path)
        };
        let (mut names, mut at) = (Vec::new(), entry);
        let mut path = loop {
            if let Some(base) = base(at) {
                break base.clone();
            }
            let Some(parent) = entries[at].parent else {
                break PathBuf::new();
            };
            names.push(crate::name::path(&entries[at].name));
            at = parent as usize;
        };
        path.extend(names.iter().rev());
        path
    }

    /// Opens the file of an entry if it is unchanged, or returns the verdict for receivers and the
    /// reason in words.
    pub(super) fn open_unchanged(
        &self,
        entry: usize,
        allow_changing: bool,
    ) -> Result<File, (Verdict, String)> {
        let lost = |error: io::Error| (Verdict::Lost, error.to_string());
        let file = open(&self.path(entry)).map_err(lost)?;
        let metadata = file.metadata().map_err(lost)?;
        // A listed file may have been replaced by a fifo, which must not block.
        if !metadata.is_file() {
            return Err((Verdict::Lost, "it is no file any more".to_owned()));
        }
        match self
            .stamp(entry)
            .difference(&Stamp::of(&metadata))
            .filter(|_| !allow_changing)
        {
            Some(difference) => Err((Verdict::Changed, difference)),
            None => Ok(file),
        }
    }

    /// Checks that the file of an entry, and the file under its name, are unchanged, or returns the
    /// verdict for receivers and the reason in words. `file` is the open file; none if it has no
    /// data.
    pub(super) fn check(&self, entry: usize, file: Option<&File>) -> Result<(), (Verdict, String)> {
        let lost = |error: io::Error| (Verdict::Lost, error.to_string());
        let (path, before) = (self.path(entry), self.stamp(entry));
        let named = path.symlink_metadata().map_err(lost)?;
        let open = file.map(File::metadata).transpose().map_err(lost)?;
        let differs = [Some(named), open]
            .into_iter()
            .flatten()
            .find_map(|after| before.difference(&Stamp::of(&after)));
        differs.map_or(Ok(()), |difference| Err((Verdict::Changed, difference)))
    }

    fn stamp(&self, entry: usize) -> Stamp {
        let stamps = &self.0.stamps;
        let at = stamps
            .binary_search_by_key(&(entry as u32), |(of, _)| *of)
            .expect("every file has one");
        stamps[at].1
    }
}

impl OpenEntry for SourceFiles {
    type File = File;

    fn open(&self, entry: usize) -> io::Result<File> {
        open(&self.path(entry))
    }
}

/// Opens a file without following a symbolic link and without blocking on a fifo.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    OpenOptions::new()
        .read(true)
        .custom_flags(flags as i32)
        .open(path)
}

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
    pub(super) fn begin(
        layout: &Arc<Layout>,
        files: &SourceFiles,
        allow_changing: bool,
    ) -> FilesAhead {
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
            std::thread::Builder::new()
                .name("files".to_owned())
                .spawn(move || while shared.read_batch() {})
                .ok()
        };
        let threads = (0..THREADS).filter_map(thread).collect();
        FilesAhead {
            shared,
            threads,
            batch: Batch::default(),
            passed: 0,
        }
    }

    /// Returns the bytes of a small file that is due, and drops those before it. None if the file
    /// could not be read ahead or has changed, so that it must be read now.
    pub(super) fn bytes(&mut self, entry: usize) -> Option<&[u8]> {
        while self
            .batch
            .files
            .last()
            .is_none_or(|(last, _)| *last < entry)
        {
            self.batch = self.next_batch()?;
        }
        let at = self
            .batch
            .files
            .binary_search_by_key(&entry, |(of, _)| *of)
            .ok()?;
        self.batch.files[at]
            .1
            .clone()
            .map(|range| &self.batch.bytes[range])
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
        turns
            .read
            .insert(self.number, std::mem::take(&mut self.batch));
        self.shared.read.notify_all();
    }
}

impl AheadQueue {
    fn read_batch(&self) -> bool {
        let Some(mut taken) = self.take() else {
            return false;
        };
        let entries: Vec<usize> = taken.batch.files.iter().map(|(entry, _)| *entry).collect();
        let open = |&entry: &usize| {
            let file = self.files.open_unchanged(entry, self.allow_changing).ok()?;
            // All files are requested before any is read, so that the disk can order its seeks.
            fadvise(&file, 0, None, Advice::WillNeed).ok();
            Some(file)
        };
        let open: Vec<Option<File>> = entries.iter().map(open).collect();
        for (number, file) in open.into_iter().enumerate() {
            let begin = taken.batch.bytes.len();
            let end = begin
                + self
                    .layout
                    .data(entries[number])
                    .map_or(0, |data| data.bytes() as usize);
            taken.batch.bytes.resize(end, 0);
            let is_whole = file.is_some_and(|file| {
                file.read_exact_at(&mut taken.batch.bytes[begin..end], 0)
                    .is_ok()
                    && (self.allow_changing
                        || self.files.check(entries[number], Some(&file)).is_ok())
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
            let Some(entry) = self.layout.file(turns.next_file) else {
                break;
            };
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
        Some(Taken {
            shared: self,
            number,
            batch,
        })
    }
}

#[derive(Debug)]
pub struct Unchanged {
    path: PathBuf,
    before: Stamp,
}

/// Attributes that change with a file's content, or when another file takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    /// Seconds and nanoseconds of the last status change, which a user cannot set back.
    changed: (i64, i64),
}

impl Stamp {
    pub fn of(file: &Metadata) -> Stamp {
        Stamp {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    /// Returns the attribute that differs in `after`, in words.
    pub fn difference(&self, after: &Stamp) -> Option<String> {
        Some(match after {
            after if (after.device, after.inode) != (self.device, self.inode) => {
                "another file has taken its place".to_owned()
            }
            after if after.bytes != self.bytes => {
                format!("{} bytes at first, {} in the end", self.bytes, after.bytes)
            }
            after if after.modified != self.modified => "it was written to".to_owned(),
            after if after.changed != self.changed => "its state has changed (ctime)".to_owned(),
            _ => return None,
        })
    }
}

impl Unchanged {
    pub fn new(path: &Path, opened: &Metadata) -> Unchanged {
        Unchanged {
            path: path.to_owned(),
            before: Stamp::of(opened),
        }
    }

    /// Checks that the open file, and the file under its name, are unchanged.
    ///
    /// # Errors
    /// The difference, in words.
    pub fn check(&self, file: &File) -> io::Result<()> {
        let difference = match (
            self.before.difference(&Stamp::of(&file.metadata()?)),
            self.path.metadata(),
        ) {
            (Some(difference), _) => difference,
            (None, Ok(named)) => match self.before.difference(&Stamp::of(&named)) {
                Some(difference) => difference,
                None => return Ok(()),
            },
            (None, Err(error)) => format!("it is no longer under its name ({error})"),
        };
        Err(io::Error::other(format!(
            "it changed while it was sent: {difference}; send it again when it is at rest, or as it comes with {}",
            OptionName("allow-changing")
        )))
    }
}

/// Reader of a whole file that reports the end only if the file is unchanged.
#[derive(Debug)]
pub struct WholeFile {
    file: Passing,
    unchanged: Unchanged,
}

impl WholeFile {
    pub fn new(file: Passing, unchanged: Unchanged) -> WholeFile {
        WholeFile { file, unchanged }
    }
}

impl Read for WholeFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            self.unchanged.check(self.file.file())?;
        }
        Ok(count)
    }
}

/// Random access to a file that fails once the file has changed: the bytes would no longer match
/// the digest that was sent, and receivers would report corruption by the network.
#[derive(Debug)]
pub struct UnchangedAt<P> {
    positions: P,
    watched: Option<(File, Unchanged)>,
}

impl<P> UnchangedAt<P> {
    pub fn new(positions: P, watched: Option<(File, Unchanged)>) -> UnchangedAt<P> {
        UnchangedAt { positions, watched }
    }
}

impl<P: ReadAt> ReadAt for UnchangedAt<P> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.positions.read_at(buffer, offset)?;
        if let Some((file, unchanged)) = &self.watched {
            unchanged.check(file)?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    fn read_while(change: impl Fn(&Path)) -> Result<usize, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("source");
        fs::write(&path, [7; 100_000]).expect("room");
        let file = File::open(&path).expect("it is there");
        let unchanged = Unchanged::new(&path, &file.metadata().expect("open"));
        let mut whole = WholeFile::new(Passing::new(file, 0, 100_000), unchanged);
        whole.read_exact(&mut [0; 50_000]).expect("half of it");
        // The kernel's file timestamps advance every few milliseconds only.
        std::thread::sleep(Duration::from_millis(20));
        change(&path);
        whole
            .read_to_end(&mut Vec::new())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn every_change_of_a_file_is_reported_and_reading_changes_nothing() {
        assert_eq!(read_while(|_| {}), Ok(50_000));
        let told = |change: fn(&Path)| read_while(change).expect_err("it changed");
        let same_size = told(|path| fs::write(path, [8; 100_000]).expect("room"));
        assert!(
            same_size.contains("written to") && same_size.contains("with allow-changing"),
            "{same_size}"
        );
        assert!(
            told(|path| fs::write(path, [8; 100]).expect("room"))
                .contains("100000 bytes at first, 100 in the end")
        );
        let set_back = told(|path| {
            let before = fs::metadata(path)
                .and_then(|file| file.modified())
                .expect("a time");
            fs::write(path, [8; 100_000]).expect("room");
            File::options()
                .write(true)
                .open(path)
                .and_then(|file| file.set_modified(before))
                .expect("ours");
        });
        assert!(set_back.contains("ctime"), "{set_back}");
        assert!(told(|path| fs::remove_file(path).expect("ours")).contains("ctime"));
        let replaced = told(|path| {
            fs::hard_link(path, path.with_extension("old")).expect("room");
            fs::write(path.with_extension("new"), [8; 100_000]).expect("room");
            fs::rename(path.with_extension("new"), path).expect("ours");
        });
        assert!(replaced.contains("changed while it was sent"), "{replaced}");
    }
}
