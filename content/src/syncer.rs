//! Syncing what has been written so far, while more is being written: the last sync has little left to do then.

use std::io::{Error, Result};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Syncs what has been written so far whenever it is told to, on a thread of its own; it ends with the first error.
#[derive(Debug)]
pub struct Syncer(Way);

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

impl Syncer {
    /// Starts it; `sync` waits until all that was written is on the disk.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn start(mut sync: impl FnMut() -> Result<()> + Send + 'static) -> Result<Syncer> {
        let (told, rounds) = sync_channel::<()>(1);
        let work = move || rounds.iter().try_for_each(|()| sync());
        let thread = std::thread::Builder::new().name("sync".to_owned()).spawn(work)?;
        Ok(Syncer(Way::Thread { told: Some(told), thread: Some(thread) }))
    }

    /// One without a thread: who tells it waits.
    #[cfg(test)]
    pub(crate) fn at_once(sync: impl FnMut() -> Result<()> + Send + 'static) -> Syncer {
        Syncer(Way::AtOnce { sync: Box::new(sync), ended: None })
    }

    /// Tells it to sync; whether it was not busy with two rounds already.
    pub fn tell(&mut self) -> bool {
        match &mut self.0 {
            Way::Thread { told, .. } => told.as_ref().is_some_and(|told| told.try_send(()).is_ok()),
            #[cfg(test)]
            Way::AtOnce { sync, ended } => {
                *ended = ended.take().or_else(|| sync().err().map(Err));
                true
            }
        }
    }

    /// Whether it has ended, which it does only with an error.
    pub fn has_ended(&self) -> bool {
        match &self.0 {
            Way::Thread { thread, .. } => thread.as_ref().is_none_or(JoinHandle::is_finished),
            #[cfg(test)]
            Way::AtOnce { ended, .. } => ended.is_some(),
        }
    }

    /// Waits for the sync that is under way; what the syncs came to.
    ///
    /// # Errors
    /// The first error of all syncs.
    pub fn finish(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        match &mut self.0 {
            Way::Thread { told, thread } => {
                drop(told.take());
                let panicked = |_| Err(Error::other("the syncing thread panicked"));
                thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(panicked))
            }
            #[cfg(test)]
            Way::AtOnce { ended, .. } => ended.take().unwrap_or(Ok(())),
        }
    }
}

impl Drop for Syncer {
    /// What it syncs is closed, and unlocked, before anybody goes on.
    fn drop(&mut self) {
        drop(self.end());
    }
}
