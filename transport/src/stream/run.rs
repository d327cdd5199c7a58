//! Frames that the local application takes in one go, because they lie in one piece.

use super::{Ending, Stream};
use crate::time::Instant;

/// Frames in a row for the local application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// Their payloads, one behind the other.
    pub bytes: &'a [u8],
    /// How many they are.
    pub frames: u64,
    /// What ends with the last; nothing ends with those before it.
    pub ending: Ending,
}

impl Stream {
    /// The next frames for the local application, `most_frames` of them at most, that lie in one piece in the feed:
    /// where a message or the feed's memory ends, or a frame is shorter than the others, so does the run. The end of
    /// the stream is one of its own. `None` if nothing has arrived.
    pub fn peek_run(&self, most_frames: u64) -> Option<Run<'_>> {
        let position = self.feed.position(self.local?);
        let head = self.feed.head();
        let last = self.feed.last().filter(|last| *last > position).unwrap_or(head);
        let end = self.boundaries.end_of_run(position, head.min(last)).min(position.saturating_add(most_frames.max(1)));
        (position < end).then(|| {
            let (bytes, frames) = self.feed.run(position..end);
            Run { bytes, frames, ending: self.ending(position + frames - 1) }
        })
    }

    /// The local application is done with so many frames of those that [`peek_run`](Stream::peek_run) showed; what
    /// ended with the last of them.
    ///
    /// # Panics
    /// If so many have not arrived.
    pub fn consume_run(&mut self, now: Instant, frames: u64) -> Ending {
        let reader = self.local.expect("there is a local reader");
        let end = self.feed.position(reader) + frames;
        let ending = self.ending(end - 1);
        self.feed.advance(reader, end);
        self.on_progress(now);
        ending
    }
}
