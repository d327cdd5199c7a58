//! Abort notification by another process, in case this one ends without its own.

use ethbcast_transport::packet::DriveError;
use std::fmt;
use std::sync::Arc;

pub(super) const TIMED_OUT: &str = "the sender gave up: the session took longer than it may";

pub(super) const ROOT_ENDED: &str = "the sender's process has ended; start it and this receiver again";
pub(super) const RECEIVER_ENDED: &str = "its process has ended";

/// Callback that gets the frame which another process, one that outlives this one, must send if
/// this one ends without notice; `None` once that is not needed any more.
///
/// Peers wait for a silent host; a notification saves them that time.
#[derive(Clone)]
pub struct AbortNotice(Arc<Tell>);

type Tell = dyn Fn(Option<&[u8]>) + Send + Sync;

impl AbortNotice {
    /// Creates it from `tell`, which is called by the session's thread and must not block.
    pub fn new(tell: impl Fn(Option<&[u8]>) + Send + Sync + 'static) -> AbortNotice {
        AbortNotice(Arc::new(tell))
    }
}

impl fmt::Debug for AbortNotice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LastWords")
    }
}

#[derive(Debug)]
pub(super) struct AbortNotifier {
    last_words: Option<AbortNotice>,
    told: Option<Vec<u8>>,
}

impl AbortNotifier {
    pub(super) fn new(last_words: Option<AbortNotice>) -> AbortNotifier {
        AbortNotifier { last_words, told: None }
    }

    /// Reports that no frame is needed any more, or which one if this host's own interface has
    /// ended the session.
    ///
    /// # Errors
    /// That error.
    pub(super) fn finish<T>(
        &mut self,
        driven: Result<T, DriveError>,
        why: impl FnOnce(&DriveError) -> Option<Vec<u8>>,
    ) -> Result<T, DriveError> {
        self.update(|| driven.as_ref().err().and_then(why));
        driven
    }

    pub(super) fn update(&mut self, frame: impl FnOnce() -> Option<Vec<u8>>) {
        let Some(AbortNotice(tell)) = &self.last_words else { return };
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
        let mut teller =
            AbortNotifier::new(Some(AbortNotice::new(move |frame| list.lock().push(frame.map(<[u8]>::to_vec)))));
        for frame in [None, Some(vec![1]), Some(vec![1]), Some(vec![2]), None, None] {
            teller.update(|| frame);
        }
        assert_eq!(*heard.lock(), [Some(vec![1]), Some(vec![2]), None]);
        AbortNotifier::new(None).update(|| panic!("nobody listens"));
    }
}
