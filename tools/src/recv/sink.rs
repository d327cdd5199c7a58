//! The disk thread: writes chunks, digests them, and makes the file visible only when all is verified and on disk.

use super::dest::{Dest, temporary};
use super::part_file::{DiskError, PartFile};
use crate::exit::{Code, WithCode};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use ethbcast_collectives::session::{Digest, Outcome, Trailer};
use ethbcast_transport::packet::Waker;
use parking_lot::Mutex;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::NamedTempFile;

/// Bytes of a chunk: every chunk costs two context switches, which count when seven receivers share two cores.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that may wait for the disk: 8 MiB, 64 ms at 1 Gbit/s; what comes then waits in the feed.
const CHUNKS_WAITING: usize = 8;

/// How long the disk thread may take to end.
const CLOSE_LIMIT: Duration = Duration::from_millis(500);

/// What the disk thread is told.
#[derive(Debug)]
pub enum Order {
    /// The session has begun: get ready for a file of this name and size.
    Begin { source: String, size: Option<u64> },
    /// The next bytes.
    Write(Vec<u8>),
    /// That was all, and this is what it must add up to.
    End(Trailer),
}

/// What became of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concluded {
    /// Delivered, or what went wrong.
    pub outcome: Outcome,
    /// Bytes written.
    pub bytes: u64,
    /// Their BLAKE3.
    pub digest: Digest,
    /// A sentence on a failure.
    pub text: String,
    /// Where the file is.
    pub path: Option<PathBuf>,
}

/// The disk thread's other end.
#[derive(Debug)]
pub struct Sink {
    orders: Option<Sender<Order>>,
    used: Receiver<Vec<u8>>,
    concluded: Arc<Mutex<Option<Concluded>>>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl Sink {
    /// Starts the thread; `waker` is told when a chunk has been written and when all is concluded.
    ///
    /// # Errors
    /// A failure with code 4 if there can be no thread.
    pub fn start(dest: Dest, waker: &Waker) -> anyhow::Result<Sink> {
        let (orders, incoming) = bounded(CHUNKS_WAITING);
        // All buffers are taken, and touched, at once: the peak of a long stream is that of a short one. One more is being
        // written, one being filled.
        let (recycle, used) = bounded(CHUNKS_WAITING + 2);
        (0..CHUNKS_WAITING + 2).try_for_each(|_| recycle.try_send(vec![0; CHUNK_BYTES])).code(Code::System)?;
        let concluded = Arc::new(Mutex::new(None));
        let (slot, waker) = (concluded.clone(), waker.clone());
        let (alive, ended) = bounded::<()>(0);
        let work = move || {
            let _alive = alive;
            let result = Disk::new(dest).run(&incoming, &recycle, &waker);
            *slot.lock() = result;
            waker.wake();
            // Whatever still comes after a failure is thrown away, so that the sender of orders never waits.
            while incoming.recv().is_ok() {}
        };
        std::thread::Builder::new().name("disk".to_owned()).spawn(work).code(Code::System)?;
        Ok(Sink { orders: Some(orders), used, concluded, ended })
    }

    /// Whether two more orders (a last chunk and the end) can be given without waiting.
    pub fn has_room(&self) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.len() + 2 <= CHUNKS_WAITING)
    }

    /// Gives an order; there must be room.
    pub fn order(&self, order: Order) {
        if self.orders.as_ref().is_none_or(|orders| orders.send(order).is_err()) {
            log::debug!("the disk thread has ended");
        }
    }

    /// An empty buffer of a chunk's size.
    pub fn buffer(&self) -> Vec<u8> {
        let mut buffer = self.used.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK_BYTES));
        buffer.clear();
        buffer
    }

    /// Ends the thread and waits for it, so that a temporary file is gone before the process is; not for long, because a disk or
    /// a reader of stdout that is stuck must not keep the user.
    pub fn close(&mut self) {
        self.orders = None;
        if self.ended.recv_timeout(CLOSE_LIMIT) == Err(RecvTimeoutError::Timeout) {
            log::warn!("the disk thread is stuck: what it was writing is given up");
        }
    }

    /// The conclusion, once.
    pub fn concluded(&self) -> Option<Concluded> {
        self.concluded.lock().take()
    }
}

enum Target {
    Stdout(std::io::Stdout),
    File { part: PartFile<NamedTempFile>, path: PathBuf, replace: bool },
}

struct Disk {
    dest: Dest,
    target: Option<Target>,
    hasher: blake3::Hasher,
    bytes: u64,
}

/// A failure on the way: what to report.
type Trouble = (Outcome, String);

impl Disk {
    fn new(dest: Dest) -> Disk {
        Disk { dest, target: None, hasher: blake3::Hasher::new(), bytes: 0 }
    }

    /// Works through the orders; `None` if they stopped coming before the end, in which case nothing is left behind.
    fn run(mut self, orders: &Receiver<Order>, recycle: &Sender<Vec<u8>>, waker: &Waker) -> Option<Concluded> {
        loop {
            let result = match orders.recv().ok()? {
                Order::Begin { source, size } => self.begin(&source, size).map(|()| None),
                Order::Write(chunk) => {
                    let result = self.write(&chunk).map(|()| None);
                    drop(recycle.try_send(chunk));
                    waker.wake();
                    result
                }
                Order::End(trailer) => self.end(trailer).map(Some),
            };
            match result {
                Ok(None) => {}
                Ok(Some(path)) => return Some(self.conclusion(Outcome::Delivered, String::new(), path)),
                Err((outcome, text)) => return Some(self.conclusion(outcome, text, None)),
            }
        }
    }

    fn conclusion(&self, outcome: Outcome, text: String, path: Option<PathBuf>) -> Concluded {
        Concluded { outcome, bytes: self.bytes, digest: *self.hasher.finalize().as_bytes(), text, path }
    }

    fn begin(&mut self, source: &str, size: Option<u64>) -> Result<(), Trouble> {
        let free = self.dest.free_bytes();
        if let Some(size) = size.filter(|&size| size > free) {
            return Err((Outcome::NoSpace, format!("no space: {size} bytes to come, {free} free where DEST is")));
        }
        self.target = Some(match self.dest.path(source).map_err(|text| (Outcome::WriteFailed, text))? {
            None => Target::Stdout(std::io::stdout()),
            Some((path, replace)) => {
                let directory = self.dest.directory().unwrap_or(Path::new("."));
                let temporary = temporary(directory).map_err(|error| trouble("create a temporary file", &error))?;
                let part = PartFile::new(temporary).map_err(|failed| disk_trouble(&failed))?;
                Target::File { part, path, replace }
            }
        });
        Ok(())
    }

    fn write(&mut self, chunk: &[u8]) -> Result<(), Trouble> {
        self.hasher.update(chunk);
        self.bytes += chunk.len() as u64;
        match &mut self.target {
            Some(Target::Stdout(out)) => out.write_all(chunk).map_err(|error| trouble("write to stdout", &error)),
            Some(Target::File { part, .. }) => part.write_all(chunk).map_err(|failed| disk_trouble(&failed)),
            None => Err((Outcome::WriteFailed, "data came before the session began".to_owned())),
        }
    }

    /// Verifies, syncs, and makes the file visible, in this order.
    fn end(&mut self, trailer: Trailer) -> Result<Option<PathBuf>, Trouble> {
        let digest = *self.hasher.finalize().as_bytes();
        let damaged = trailer.bytes != self.bytes || trailer.digest != digest;
        let target = self.target.take();
        if damaged {
            let text = format!("the {} bytes received do not match the sender's {} bytes: send again", self.bytes, trailer.bytes);
            return Err((Outcome::Damaged, text));
        }
        match target {
            Some(Target::Stdout(mut out)) => out.flush().map(|()| None).map_err(|error| trouble("write to stdout", &error)),
            Some(Target::File { part, path, replace }) => publish(part, path, replace).map(Some),
            None => Err((Outcome::WriteFailed, "the end came before the session began".to_owned())),
        }
    }
}

/// Makes the file visible, and the directory remember it.
fn publish(part: PartFile<NamedTempFile>, path: PathBuf, replace: bool) -> Result<PathBuf, Trouble> {
    part.publish(&path, replace).map_err(|failed| disk_trouble(&failed))?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(|error| trouble("sync the directory", &error))?;
    Ok(path)
}

fn disk_trouble(failed: &DiskError) -> Trouble {
    trouble(&failed.doing, &failed.error)
}

fn trouble(doing: &str, error: &std::io::Error) -> Trouble {
    let full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge);
    let outcome = if full { Outcome::NoSpace } else { Outcome::WriteFailed };
    let help = match error.kind() {
        _ if full => "; make room or choose another DEST",
        ErrorKind::AlreadyExists => "; remove it, or replace it with --force",
        _ => "",
    };
    (outcome, format!("cannot {doing}: {error}{help}"))
}
