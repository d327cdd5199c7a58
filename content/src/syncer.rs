//! Syncing what has been written so far, while more is being written: the last sync has little left to do then.

use std::io::{Error, Result};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// The thread that syncs what has been written so far whenever it is told to; it ends with the first error.
#[derive(Debug)]
pub struct Syncer {
    told: SyncSender<()>,
    thread: JoinHandle<Result<()>>,
}

impl Syncer {
    /// Starts it; `sync` waits until all that was written is on the disk.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(mut sync: impl FnMut() -> Result<()> + Send + 'static) -> Result<Syncer> {
        let (told, rounds) = sync_channel::<()>(1);
        let work = move || rounds.iter().try_for_each(|()| sync());
        let thread = std::thread::Builder::new().name("sync".to_owned()).spawn(work)?;
        Ok(Syncer { told, thread })
    }

    /// Tells it to sync; whether it was not busy with two rounds already.
    pub fn tell(&self) -> bool {
        self.told.try_send(()).is_ok()
    }

    /// Whether it has ended, which it does only with an error.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the sync that is under way; what the syncs came to.
    ///
    /// # Errors
    /// The first error of all syncs.
    pub fn finish(self) -> Result<()> {
        drop(self.told);
        self.thread.join().unwrap_or_else(|_| Err(Error::other("the syncing thread panicked")))
    }
}
