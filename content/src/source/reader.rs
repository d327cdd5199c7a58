//! Sequential reader of the stream of a directory.

use super::SourceFiles;
use super::ahead::{FilesAhead, is_small};
use crate::layout::{Layout, Piece, Verdict};
use crate::replay::{Trouble, Troubles};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

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
        TreeReader { layout, encoded, files, troubles, allow_changing, position: 0, open: None, ahead: None }
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

    fn try_read(&mut self, entry: usize, offset: u64, buffer: &mut [u8]) -> Result<usize, (Verdict, String)> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != entry) {
            self.open = Some((entry, self.files.open_unchanged(entry, self.allow_changing)?));
        }
        let (_, file) = self.open.as_ref().expect("it was just opened");
        loop {
            match file.read_at(buffer, offset) {
                Ok(0) => return Err((Verdict::Changed, format!("it has become shorter, {offset} bytes"))),
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
        let file = self.open.take().filter(|(open, _)| *open == entry).map(|(_, file)| file);
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
        log::warn!("{} {}: {why}", self.files.path(entry).display(), verdict.text());
        self.troubles.lock().insert(entry, Trouble { zeros_from, verdict, why });
    }
}

impl Read for TreeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let fits = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX).min(buffer.len());
        let count = match self.layout.at(self.position) {
            None => 0,
            Some(Piece::Manifest { at, bytes }) => {
                let count = fits(bytes);
                buffer[..count].copy_from_slice(&self.encoded[at..at + count]);
                count
            }
            Some(Piece::Data { entry, offset, bytes }) => {
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
