//! The reader thread: reads SOURCE ahead of the stream and digests it on the way.

use crate::exit::{Code, Failure, WithCode};
use crossbeam::channel::{Receiver, Sender, bounded};
use ethbcast_collectives::session::Trailer;
use ethbcast_transport::packet::Waker;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Bytes read at once: large enough for BLAKE3 to use wide vectors, small enough to start quickly.
const CHUNK_BYTES: usize = 256 << 10;
/// Chunks read ahead: 2 MiB.
const CHUNKS_AHEAD: usize = 8;

/// What the reader thread hands over.
#[derive(Debug)]
pub enum Chunk {
    /// The next bytes.
    Bytes(Vec<u8>),
    /// All has been read.
    End(Trailer),
    /// Reading failed; the sentence says how.
    Failed(String),
}

/// SOURCE, being read.
#[derive(Debug)]
pub struct Source {
    /// The file's own name, for receivers that were given a directory.
    pub name: String,
    /// Its size, if known in advance.
    pub size: Option<u64>,
    chunks: Receiver<Chunk>,
    used: Sender<Vec<u8>>,
}

impl Source {
    /// Opens SOURCE and starts reading; `waker` is told of every chunk.
    ///
    /// # Errors
    /// A [`Failure`]: 4 if it is missing or unreadable, 2 if it is a directory.
    pub fn open(source: &OsStr, waker: &Waker) -> anyhow::Result<Source> {
        let path = Path::new(source);
        let (input, name, size): (Box<dyn Read + Send>, _, _) = if source == "-" {
            (Box::new(std::io::stdin()), "stdin".to_owned(), None)
        } else {
            let (file, size) = open_file(path)?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            (Box::new(file), name, size)
        };
        let (to_machine, chunks) = bounded(CHUNKS_AHEAD);
        let (used, recycled) = bounded(CHUNKS_AHEAD);
        let reader = Reader { input, size, path: path.display().to_string(), to_machine, recycled, waker: waker.clone() };
        std::thread::Builder::new().name("reader".to_owned()).spawn(move || reader.run()).code(Code::System)?;
        Ok(Source { name, size, chunks, used })
    }

    /// The next chunk, if it has been read already.
    pub fn next(&self) -> Option<Chunk> {
        self.chunks.try_recv().ok()
    }

    /// Gives a used buffer back.
    pub fn recycle(&self, buffer: Vec<u8>) {
        // A reader that has ended needs no buffers: dropping this one is right.
        drop(self.used.try_send(buffer));
    }
}

fn open_file(path: &Path) -> anyhow::Result<(File, Option<u64>)> {
    let cannot = |error: std::io::Error| Failure::new(Code::System, format!("cannot read SOURCE {}: {error}", path.display()));
    let file = File::open(path).map_err(cannot)?;
    let metadata = file.metadata().map_err(cannot)?;
    if metadata.is_dir() {
        let name = path.display();
        let text = format!("SOURCE {name} is a directory: send it as an archive, `tar c {name} | ethbcast send -`");
        return Err(Failure::new(Code::Usage, text).into());
    }
    // A device or a pipe says 0.
    let size = metadata.is_file().then_some(metadata.len());
    Ok((file, size))
}

struct Reader {
    input: Box<dyn Read + Send>,
    size: Option<u64>,
    path: String,
    to_machine: Sender<Chunk>,
    recycled: Receiver<Vec<u8>>,
    waker: Waker,
}

impl Reader {
    fn run(mut self) {
        let mut hasher = blake3::Hasher::new();
        let mut bytes = 0;
        loop {
            let mut buffer = self.recycled.try_recv().unwrap_or_default();
            buffer.resize(CHUNK_BYTES, 0);
            let chunk = match self.fill(&mut buffer) {
                Ok(0) => self.end(bytes, &hasher),
                Ok(count) => {
                    buffer.truncate(count);
                    hasher.update(&buffer);
                    bytes += count as u64;
                    Chunk::Bytes(buffer)
                }
                Err(error) => Chunk::Failed(format!("reading SOURCE {} failed after {bytes} bytes: {error}", self.path)),
            };
            let more = matches!(chunk, Chunk::Bytes(_));
            // The other end is gone once the session is over.
            if self.to_machine.send(chunk).is_err() || !more {
                self.waker.wake();
                return;
            }
            self.waker.wake();
        }
    }

    fn end(&self, bytes: u64, hasher: &blake3::Hasher) -> Chunk {
        match self.size {
            Some(size) if size != bytes => Chunk::Failed(format!(
                "SOURCE {} changed while it was read: {size} bytes at first, {bytes} in the end; send it again",
                self.path
            )),
            _ => Chunk::End(Trailer { bytes, digest: *hasher.finalize().as_bytes() }),
        }
    }

    /// Reads what there is: a full chunk of a file, whatever has come of a pipe.
    fn fill(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.input.read(buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}
