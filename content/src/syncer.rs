//! Background fsync of received data, so that the last sync is short.
//!
//! A write-back error is reported once to each open file description (fsync(2)): after a failed
//! sync the kernel marks the lost pages clean, and the next sync of that file succeeds. So the
//! first failed sync of any thread decides, and the results of later calls are ignored.

use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io::{self, Error, Read, Result};
use std::num::NonZeroU64;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Syncs on a thread of its own after a number of written bytes, until the first error.
#[derive(Debug)]
pub struct Syncer {
    way: Option<Way>,
    every_bytes: u64,
    unsynced_bytes: u64,
}

enum Way {
    Thread {
        told: Option<SyncSender<()>>,
        thread: Option<JoinHandle<Result<()>>>,
    },
    #[cfg(test)]
    AtOnce {
        sync: Box<dyn FnMut() -> Result<()> + Send>,
        ended: Option<Result<()>>,
    },
}

impl std::fmt::Debug for Way {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Way")
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// Syncs on a separate thread, after each such number of bytes.
    Every(u64),
    /// Syncs on the writing thread, after each such number of bytes.
    #[cfg(test)]
    AtOnce(u64),
}

impl Syncer {
    pub(crate) fn start(
        pace: Pace,
        mut sync: impl FnMut() -> Result<()> + Send + 'static,
    ) -> Result<Syncer> {
        let (way, every_bytes) = match pace {
            Pace::Every(bytes) => {
                let (told, rounds) = sync_channel::<()>(1);
                let work = move || rounds.iter().try_for_each(|()| sync());
                let thread = std::thread::Builder::new()
                    .name("sync".to_owned())
                    .spawn(work)?;
                (
                    Way::Thread {
                        told: Some(told),
                        thread: Some(thread),
                    },
                    bytes,
                )
            }
            #[cfg(test)]
            Pace::AtOnce(bytes) => (
                Way::AtOnce {
                    sync: Box::new(sync),
                    ended: None,
                },
                bytes,
            ),
        };
        Ok(Syncer {
            way: Some(way),
            every_bytes,
            unsynced_bytes: 0,
        })
    }

    /// Records `bytes` further bytes if the write succeeded, and requests a sync when enough have
    /// accumulated.
    ///
    /// # Errors
    /// The error of this write, or of an earlier write or sync; every later call fails as well.
    pub fn on_written(&mut self, written: Result<()>, bytes: u64) -> Result<()> {
        self.check()?;
        if let Err(error) = written {
            self.way = None;
            return Err(error);
        }
        self.unsynced_bytes += bytes;
        if self.unsynced_bytes >= self.every_bytes && self.request_sync() {
            self.unsynced_bytes = 0;
        }
        self.check()
    }

    /// Requests a sync; false if one runs and another is queued already.
    pub fn request_sync(&mut self) -> bool {
        self.way.as_mut().is_some_and(Way::notify)
    }

    /// Checks that no write or sync has failed.
    ///
    /// # Errors
    /// The error of the failed sync at the first call, a general one later.
    pub fn check(&mut self) -> Result<()> {
        match self.way.take_if(|way| way.has_ended()) {
            Some(ended) => Err(ended.finish().err().unwrap_or_else(lost)),
            None if self.way.is_none() => Err(lost()),
            None => Ok(()),
        }
    }

    /// Waits for the sync that is running, which may consume an error that a later sync would miss.
    ///
    /// # Errors
    /// The first error of any sync.
    pub fn finish(&mut self) -> Result<()> {
        self.way.take().map_or_else(|| Err(lost()), Way::finish)
    }
}

/// Error of every call after the first failed write or sync.
fn lost() -> Error {
    Error::other("an earlier write or sync failed")
}

impl Way {
    fn notify(&mut self) -> bool {
        match self {
            Way::Thread { told, .. } => told.as_ref().is_some_and(|told| told.try_send(()).is_ok()),
            #[cfg(test)]
            Way::AtOnce { sync, ended } => {
                *ended = ended.take().or_else(|| sync().err().map(Err));
                true
            }
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Way::Thread { thread, .. } => thread.as_ref().is_none_or(JoinHandle::is_finished),
            #[cfg(test)]
            Way::AtOnce { ended, .. } => ended.is_some(),
        }
    }

    fn finish(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        match self {
            Way::Thread { told, thread } => {
                drop(told.take());
                let panicked = |_| Err(Error::other("the syncing thread panicked"));
                thread
                    .take()
                    .map_or(Ok(()), |thread| thread.join().unwrap_or_else(panicked))
            }
            #[cfg(test)]
            Way::AtOnce { ended, .. } => ended.take().unwrap_or(Ok(())),
        }
    }
}

impl Drop for Way {
    /// Waits for the thread, so that its file is closed and unlocked before the caller goes on.
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// Size above which the pages behind the current position are dropped from the page cache.
pub const LARGE_BYTES: u64 = 1 << 30;
/// Bytes behind the read position that stay cached for receivers that need a retransmission, and
/// are then dropped at once.
const BEHIND_BYTES: u64 = 64 << 20;

/// Drops a file's clean pages from the page cache.
pub fn forget(file: &File) {
    advise(file, 0, 0, Advice::DontNeed);
}

fn advise(file: &File, offset: u64, bytes: u64, advice: Advice) {
    // Only advice: errors are ignored.
    fadvise(file, offset, NonZeroU64::new(bytes), advice).ok();
}

/// A file that is read sequentially to its end.
#[derive(Debug)]
pub struct Passing {
    file: File,
    is_large: bool,
    at: u64,
    forgotten: u64,
}

impl Passing {
    /// Reads a file of `bytes` bytes from position `at` on.
    pub fn new(file: File, at: u64, bytes: u64) -> Passing {
        advise(&file, at, 0, Advice::Sequential);
        Passing {
            file,
            is_large: bytes > LARGE_BYTES,
            at,
            forgotten: at,
        }
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Read for Passing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.at += count as u64;
        let forgettable = self.at.saturating_sub(self.forgotten);
        if self.is_large && forgettable >= 2 * BEHIND_BYTES {
            advise(&self.file, self.forgotten, BEHIND_BYTES, Advice::DontNeed);
            self.forgotten += BEHIND_BYTES;
        }
        Ok(count)
    }
}
