//! What the local application gives a stream and takes from it.

use super::Stream;
use super::terms::Ending;
use crate::time::Instant;

/// Most frames that the application is shown at a time, and most bytes of more than one. A slow one gives room in such
/// portions: of a feed of 512 frames 64 at a time hide for seconds longer how slow it is.
const MOST_FRAMES: u64 = 16;
const MOST_BYTES: usize = 128 << 10;

/// Frames that have come one after the other, as they lie in the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// Their payloads.
    pub bytes: &'a [u8],
    /// How many they are.
    pub frames: u64,
    /// What ends with the last of them; with none of the others anything does.
    pub ending: Ending,
}

impl Stream {
    /// Appends a frame at the origin; false, and nothing taken, while the feed is full.
    ///
    /// # Panics
    /// If the payload is longer than a frame's, the stream has ended, or this host is not the origin.
    #[must_use = "a frame that was not taken is to be pushed again"]
    pub fn push(&mut self, payload: &[u8], ending: Ending) -> bool {
        assert!(self.intake.is_none(), "only the origin pushes");
        let taken = self.feed.push(payload, ending == Ending::Stream);
        if let (Some(sequence), Ending::Message | Ending::Quiet) = (taken, ending) {
            self.add_boundary(sequence, ending == Ending::Message);
        }
        taken.is_some()
    }

    /// The frame that the local application needs next; without one, the end of what has been pushed.
    pub fn position(&self) -> u64 {
        self.local.map_or(self.feed.head(), |reader| self.feed.position(reader))
    }

    /// The next frame for the local application, and what ends with it; `None` if it has not arrived.
    pub fn peek(&self) -> Option<(&[u8], Ending)> {
        self.peek_run(1).map(|run| (run.bytes, run.ending))
    }

    /// The next frames for the local application, up to `most` and to the first with which something ends; `None` if
    /// the next has not arrived.
    pub fn peek_run(&self, most: u64) -> Option<Run<'_>> {
        let (from, head) = (self.feed.position(self.local?), self.feed.head());
        let ending = (from < head).then(|| self.ending(from))?;
        if ending != Ending::None || most == 1 || from + 1 == head {
            return Some(Run { bytes: self.feed.payload(from), frames: 1, ending });
        }
        let most = most.min(MOST_FRAMES).min((MOST_BYTES / self.payload_bytes().max(1)) as u64).max(1);
        let end = self.feed.last().into_iter().chain(self.boundaries.next(from)).fold(head, u64::min);
        let (bytes, frames) = self.feed.run(from, (end - from).min(most));
        Some(Run { bytes, frames, ending })
    }

    /// The message that the local application reads ends before frame `sequence`: it knows so beforehand.
    pub fn expect_message_end(&mut self, sequence: u64) {
        self.message_end = sequence;
    }

    /// The local application is done with the frame that was [shown](Stream::peek); what ended with it.
    ///
    /// # Panics
    /// If there was none.
    pub fn consume(&mut self, now: Instant) -> Ending {
        self.consume_run(now, 1)
    }

    /// The local application is done with the first `frames` of the [run](Stream::peek_run) that it was shown; what
    /// ended with the last of them.
    ///
    /// # Panics
    /// If they have not arrived, or are none.
    pub fn consume_run(&mut self, now: Instant, frames: u64) -> Ending {
        let reader = self.local.expect("there is a local reader");
        let end = self.feed.position(reader) + frames;
        let ending = self.ending(end - 1);
        self.feed.advance(reader, end);
        self.on_progress(now);
        ending
    }

    /// Frames that have arrived and wait for the local application.
    pub fn backlog_frames(&self) -> u64 {
        self.local.map_or(0, |reader| self.feed.head() - self.feed.position(reader))
    }
}
