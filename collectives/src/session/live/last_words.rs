//! What another process says for this one if it ends without a word.

use ethbcast_transport::packet::DriveError;
use std::fmt;
use std::sync::Arc;

/// What receivers are told when the whole has taken too long.
pub(super) const TIMED_OUT: &str = "the sender gave up: the session took longer than it may";

/// What a sender's watcher says when its process has gone.
pub(super) const ROOT_ENDED: &str = "the sender's process has ended; start it and this receiver again";
/// The same for a receiver.
pub(super) const RECEIVER_ENDED: &str = "its process has ended";

/// Told the frame that another process, which outlives this one, is to send if this one ends without a word of its own;
/// none once that is not needed any more.
///
/// Silence is waited for; an end that is known costs nobody any time.
#[derive(Clone)]
pub struct LastWords(Arc<Tell>);

type Tell = dyn Fn(Option<&[u8]>) + Send + Sync;

impl LastWords {
    /// Tells `tell`, which is called by the thread that runs the session and must not block.
    pub fn new(tell: impl Fn(Option<&[u8]>) + Send + Sync + 'static) -> LastWords {
        LastWords(Arc::new(tell))
    }
}

impl fmt::Debug for LastWords {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LastWords")
    }
}

/// Keeps what was told last.
#[derive(Debug)]
pub(super) struct Teller {
    last_words: Option<LastWords>,
    told: Option<Vec<u8>>,
}

impl Teller {
    pub(super) fn new(last_words: Option<LastWords>) -> Teller {
        Teller { last_words, told: None }
    }

    /// Tells that there is nothing more to say, or what to say where this host's own interface has ended the session.
    ///
    /// # Errors
    /// That error.
    pub(super) fn tell_end<T>(
        &mut self,
        driven: Result<T, DriveError>,
        why: impl FnOnce(&DriveError) -> Option<Vec<u8>>,
    ) -> Result<T, DriveError> {
        self.tell(|| driven.as_ref().err().and_then(why));
        driven
    }

    /// Tells the present frame, if it is another than before.
    pub(super) fn tell(&mut self, frame: impl FnOnce() -> Option<Vec<u8>>) {
        let Some(LastWords(tell)) = &self.last_words else { return };
        let frame = frame();
        if frame != self.told {
            tell(frame.as_deref());
            self.told = frame;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[test]
    fn only_what_is_new_is_told_and_nobody_is_asked_if_nobody_listens() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&heard);
        let mut teller = Teller::new(Some(LastWords::new(move |frame| list.lock().push(frame.map(<[u8]>::to_vec)))));
        for frame in [None, Some(vec![1]), Some(vec![1]), Some(vec![2]), None, None] {
            teller.tell(|| frame);
        }
        assert_eq!(*heard.lock(), [Some(vec![1]), Some(vec![2]), None]);
        Teller::new(None).tell(|| panic!("nobody listens"));
    }
}
