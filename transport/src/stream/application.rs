//! The application's calls on a stream: write at the sender, read and consume at a receiver.

use super::Stream;
use super::terms::Ending;
use crate::time::Instant;

/// Most frames per run. An application's credit lags by a run: of a feed of 512 frames, runs of 64
/// would hide for seconds how slow it is.
const MAX_FRAMES: u64 = 16;
const MAX_BYTES: usize = 128 << 10;

/// Consecutive frames that have arrived, as they lie in the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run<'a> {
    /// Payloads of all frames, back to back.
    pub bytes: &'a [u8],
    /// Number of frames.
    pub frames: u64,
    /// Boundary after the last frame; no earlier frame of the run has one.
    pub ending: Ending,
}

impl Stream {
    /// Appends a frame at the origin. Returns false, and takes nothing, while the feed is full.
    ///
    /// # Panics
    /// If the payload is longer than a frame's, the stream has ended, or this host is not the
    /// origin.
    #[must_use = "a frame that was not taken is to be pushed again"]
    pub fn push(&mut self, payload: &[u8], ending: Ending) -> bool {
        assert!(self.intake.is_none(), "only the origin pushes");
        let taken = self.feed.push(payload, ending == Ending::Stream);
        if let (Some(sequence), Ending::Message | Ending::Quiet) = (taken, ending) {
            self.add_boundary(sequence, ending == Ending::Message);
        }
        taken.is_some()
    }

    /// Whether the feed has room for a frame at the origin.
    pub fn has_room(&self) -> bool {
        self.feed.head() < self.feed.limit()
    }

    /// Returns the number of the frame that the local application reads next; without a local
    /// reader, the end of what has been pushed.
    pub fn position(&self) -> u64 {
        self.local
            .map_or(self.feed.head(), |reader| self.feed.position(reader))
    }

    /// Returns the next frame for the local application and the boundary after it; `None` if it has
    /// not arrived.
    pub fn peek(&self) -> Option<(&[u8], Ending)> {
        self.peek_run(1).map(|run| (run.bytes, run.ending))
    }

    /// Returns the next frames for the local application: up to `most`, and up to the first one
    /// with a boundary. `None` if the next frame has not arrived.
    pub fn peek_run(&self, most: u64) -> Option<Run<'_>> {
        let (from, head) = (self.feed.position(self.local?), self.feed.head());
        let ending = (from < head).then(|| self.ending(from))?;
        if ending != Ending::None || most == 1 || from + 1 == head {
            return Some(Run {
                bytes: self.feed.payload(from),
                frames: 1,
                ending,
            });
        }
        let most = most
            .min(MAX_FRAMES)
            .min((MAX_BYTES / self.payload_bytes().max(1)) as u64)
            .max(1);
        let end = self
            .feed
            .last()
            .into_iter()
            .chain(self.boundaries.next(from))
            .fold(head, u64::min);
        let (bytes, frames) = self.feed.run(from, (end - from).min(most));
        Some(Run {
            bytes,
            frames,
            ending,
        })
    }

    /// Announces that the message being read ends before frame `sequence`, if the application knows
    /// the length in advance.
    pub fn expect_message_end(&mut self, sequence: u64) {
        self.message_end = sequence;
    }

    /// Releases the frame that [`peek`](Stream::peek) returned; returns the boundary after it.
    ///
    /// # Panics
    /// If there was none.
    pub fn consume(&mut self, now: Instant) -> Ending {
        self.consume_run(now, 1)
    }

    /// Releases the first `frames` of the run that [`peek_run`](Stream::peek_run) returned; returns
    /// the boundary after the last of them.
    ///
    /// # Panics
    /// If they have not arrived, or `frames` is zero.
    pub fn consume_run(&mut self, now: Instant, frames: u64) -> Ending {
        let reader = self.local.expect("there is a local reader");
        let end = self.feed.position(reader) + frames;
        let ending = self.ending(end - 1);
        self.feed.advance(reader, end);
        self.on_progress(now);
        ending
    }

    /// Returns the number of frames that have arrived and wait for the local application.
    pub fn backlog_frames(&self) -> u64 {
        self.local
            .map_or(0, |reader| self.feed.head() - self.feed.position(reader))
    }
}
