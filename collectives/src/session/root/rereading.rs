//! What of the source is read again, and where it is in the stream.

use crate::session::blocks::Dealing;
use crate::session::message::Trailer;
use ethbcast_transport::wire::Rank;
use std::ops::Range;

/// Bytes that are read again at a time.
const MOST_BYTES: u64 = 128 << 10;

/// A stream of whole frames, as far as it has been sent: where its frames are in the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    dealing: Dealing,
    payload_bytes: u64,
    /// Full frames that have been pushed so far.
    frames: u64,
    /// What the end says, and how many bytes there are before it.
    end: Option<(Trailer, u64)>,
}

impl Extent {
    /// A stream of which so many frames have been pushed; all of them once its end is known.
    pub(super) fn new(dealing: Dealing, payload_bytes: usize, pushed: u64, end: Option<(Trailer, u64)>) -> Extent {
        let payload_bytes = payload_bytes as u64;
        let frames = end.map_or(pushed, |(_, bytes)| bytes.div_ceil(payload_bytes));
        Extent { dealing, payload_bytes, frames, end }
    }

    /// The trailer, if frame `sequence` of the stream at place `at` carries it.
    pub(super) fn trailer_at(&self, at: usize, sequence: u64) -> Option<Trailer> {
        self.end.map(|(trailer, _)| trailer).filter(|_| sequence == self.dealing.of_stream(at, self.frames))
    }

    /// Where frame `sequence` of the stream at place `at`, and at most `frames` that follow it there, are in the
    /// source. None if it has not been sent yet, or is no frame of the source.
    pub(super) fn bytes_of(&self, at: usize, sequence: u64, frames: u64) -> Option<Range<u64>> {
        let whole = self.dealing.in_whole(at, sequence);
        let block = self.dealing.block_frames();
        let in_a_row = (block - sequence % block).min(frames).min((MOST_BYTES / self.payload_bytes).max(1));
        let end = (whole + in_a_row).min(self.frames);
        let bytes = |frame: u64| {
            let at = frame * self.payload_bytes;
            self.end.map_or(at, |(_, bytes)| at.min(bytes))
        };
        (whole < end).then(|| bytes(whole)..bytes(end))
    }
}

/// For whom something is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needy {
    /// One that is aside.
    Aside(Rank),
    /// One that lacks frames of the stream at this place.
    Gap(Rank, usize),
    /// One that has asked for it.
    Fetch(Rank),
}

impl Needy {
    /// Who it is.
    pub(super) fn rank(self) -> Rank {
        let (Needy::Aside(rank) | Needy::Gap(rank, _) | Needy::Fetch(rank)) = self;
        rank
    }
}
