//! A disk that fails at every call, and forgets what it failed to write as Linux does.

use super::*;
use parking_lot::Mutex;
use std::sync::Arc;

/// What the disk holds of one file, behind a page cache that reports a write-back error once.
#[derive(Debug, Default)]
struct Model {
    /// Calls so far, and which one fails.
    calls: u32,
    fails_at: Option<u32>,
    /// After so many bytes written, the kernel writes back by itself and fails.
    write_back_fails_after: Option<usize>,
    cached: Vec<u8>,
    /// How much of the cache is clean: on the disk, or believed to be.
    clean: usize,
    on_disk: Vec<u8>,
    /// A write-back error that no sync has reported yet.
    unreported: bool,
    named: bool,
}

impl Model {
    fn call(&mut self) -> Result<()> {
        self.calls += 1;
        if self.fails_at == Some(self.calls) { Err(Error::from_raw_os_error(5)) } else { Ok(()) }
    }

    /// Writes back what is dirty, or loses it; either way it is clean afterwards.
    fn write_back(&mut self, fails: bool) {
        let dirty = self.cached[self.clean..].to_vec();
        self.on_disk.extend(if fails { vec![0; dirty.len()] } else { dirty });
        self.clean = self.cached.len();
        self.unreported |= fails;
    }

    fn sync(&mut self) -> Result<()> {
        let result = self.call();
        self.write_back(result.is_err());
        if std::mem::take(&mut self.unreported) { Err(Error::from_raw_os_error(5)) } else { Ok(()) }
    }
}

#[derive(Clone, Default)]
struct ModelFile(Arc<Mutex<Model>>);

impl WrittenFile for ModelFile {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        let mut model = self.0.lock();
        model.call()?;
        model.cached.extend_from_slice(bytes);
        if model.write_back_fails_after.is_some_and(|after| model.cached.len() >= after) {
            model.write_back_fails_after = None;
            model.write_back(true);
        }
        Ok(())
    }

    fn keep(&mut self, _bytes: u64) -> Result<()> {
        unreachable!("nothing is there before")
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.write_all(&vec![0; bytes as usize])
    }

    fn syncing_handle(&self) -> Result<impl FnMut() -> Result<()> + Send + 'static> {
        self.0.lock().call()?;
        let model = self.0.clone();
        Ok(move || model.lock().sync())
    }

    fn end(&mut self, _attributes: Option<FileAttributes>) -> Result<()> {
        self.0.lock().sync()
    }

    fn read_back(&mut self, mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut model = self.0.lock();
        model.call()?;
        take(&model.on_disk);
        Ok(())
    }

    fn name(&mut self, _path: &Path, _replace: bool) -> Result<()> {
        let mut model = self.0.lock();
        model.call()?;
        model.named = true;
        Ok(())
    }

    fn sync_name(&mut self, _path: &Path) -> Result<()> {
        self.0.lock().call()
    }
}

/// Enough chunks for three early syncs.
const CHUNKS: usize = 14;
const CHUNK_BYTES: usize = 2 << 20;

/// Writes a whole file; what it failed with, if it did, and what the disk came to.
fn run(model: Model) -> (Option<DiskError>, Arc<Mutex<Model>>) {
    let file = ModelFile(Arc::new(Mutex::new(model)));
    let model = file.0.clone();
    let chunks = (0..CHUNKS).map(|chunk| vec![chunk as u8 + 1; CHUNK_BYTES]);
    let written = PartFile::new(file).and_then(|mut part| {
        // Whoever goes on after an error is not believed either.
        let results: Vec<_> = chunks.map(|chunk| part.write_all(&chunk)).collect();
        let first = results.into_iter().find_map(std::result::Result::err);
        let published = part.settle(None).and_then(|mut file| {
            let mut read = Vec::new();
            file.read_back(|bytes| read.extend_from_slice(bytes))?;
            assert!(is_content(&read), "what is on the disk is what was written");
            file.publish(Path::new("file"), false)
        });
        published.and(first.map_or(Ok(()), Err))
    });
    (written.err(), model)
}

fn is_whole(model: &Model) -> bool {
    is_content(&model.on_disk)
}

fn is_content(bytes: &[u8]) -> bool {
    let expected = (0..CHUNKS).flat_map(|chunk| std::iter::repeat_n(chunk as u8 + 1, CHUNK_BYTES));
    bytes.iter().copied().eq(expected)
}

#[test]
fn whichever_call_fails_what_succeeds_is_on_the_disk() {
    let (failed, model) = run(Model::default());
    let calls = model.lock().calls;
    assert!(failed.is_none() && is_whole(&model.lock()) && model.lock().named);
    assert!(calls >= CHUNKS as u32 + 5, "handle, writes, an early sync, last sync, reading, name, directory: {calls}");
    for fails_at in 1..=calls {
        let (failed, model) = run(Model { fails_at: Some(fails_at), ..Model::default() });
        let model = model.lock();
        // The number of early syncs depends on the threads: a call that never came did not fail.
        assert_eq!(failed.is_some(), model.calls >= fails_at, "call {fails_at} of {}", model.calls);
        assert!(failed.is_some() || is_whole(&model), "call {fails_at}: verified, and not on the disk");
        // What is said of the name is true: it stays only if nothing but its directory's sync failed.
        assert_eq!(failed.is_none_or(|failed| failed.in_place), model.named, "call {fails_at}");
        assert!(!model.named || is_whole(&model), "call {fails_at}: visible, and not on the disk");
    }
}

#[test]
fn a_file_whose_writing_back_failed_never_gets_its_name_whichever_sync_was_told() {
    for after in (1..=CHUNKS).map(|chunks| chunks * CHUNK_BYTES) {
        let (failed, model) = run(Model { write_back_fails_after: Some(after), ..Model::default() });
        let model = model.lock();
        assert!(failed.is_some() && !model.named, "the kernel lost bytes before {after} and the file was shown");
        assert!(!is_whole(&model), "the model lost nothing");
    }
}
