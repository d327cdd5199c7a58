//! Writer of a capture: classic pcap with nanoseconds (draft-ietf-opsawg-pcap), big-endian.

use super::Captured;
use crate::exit::{Code, Failure};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const VERSION: [u16; 2] = [2, 4];
/// Snapshot length in the header, as in tcpdump.
const MAX_BYTES: u32 = 262_144;
const LINKTYPE_ETHERNET: u32 = 1;

pub struct CaptureWriter {
    out: BufWriter<File>,
    path: PathBuf,
}

impl CaptureWriter {
    /// Creates or replaces the file, and writes its header.
    ///
    /// # Errors
    /// A [`Failure`] with code 4.
    pub fn create(path: &Path) -> anyhow::Result<CaptureWriter> {
        let out = File::create(path).map_err(|error| unwritable(path, &error))?;
        let mut writer = CaptureWriter { out: BufWriter::new(out), path: path.to_owned() };
        let [major, minor] = VERSION.map(u32::from);
        let header = [MAGIC_NANOSECONDS, major << 16 | minor, 0, 0, MAX_BYTES, LINKTYPE_ETHERNET];
        writer.words(&header)?;
        Ok(writer)
    }

    pub fn write(&mut self, frame: Captured<'_>) -> anyhow::Result<()> {
        let Captured { at, wire_bytes, bytes } = frame;
        self.words(&[at.as_secs() as u32, at.subsec_nanos(), bytes.len() as u32, wire_bytes as u32])?;
        self.out.write_all(bytes).map_err(|error| unwritable(&self.path, &error))
    }

    /// Flushes and syncs the file.
    ///
    /// # Errors
    /// A [`Failure`] with code 4.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        self.out.flush().map_err(|error| unwritable(&self.path, &error))
    }

    fn words(&mut self, words: &[u32]) -> anyhow::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        self.out.write_all(&bytes).map_err(|error| unwritable(&self.path, &error))
    }
}

fn unwritable(path: &Path, error: &io::Error) -> anyhow::Error {
    Failure::new(Code::System, format!("cannot write {}: {error}; choose another with --write", path.display())).into()
}
