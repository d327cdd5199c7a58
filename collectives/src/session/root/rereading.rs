//! Positions in the source of frames that are sent again.

use crate::session::blocks::Dealing;
use crate::session::message::Trailer;
use ethbcast_transport::wire::Rank;
use std::ops::Range;

const MAX_BYTES: u64 = 128 << 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    dealing: Dealing,
    payload_bytes: u64,
    frames: u64,
    end: Option<(Trailer, u64)>,
}

impl Extent {
    pub(super) fn new(dealing: Dealing, payload_bytes: usize, pushed: u64, end: Option<(Trailer, u64)>) -> Extent {
        let payload_bytes = payload_bytes as u64;
        let frames = end.map_or(pushed, |(_, bytes)| bytes.div_ceil(payload_bytes));
        Extent { dealing, payload_bytes, frames, end }
    }

    pub(super) fn trailer_at(&self, at: usize, sequence: u64) -> Option<Trailer> {
        self.end.map(|(trailer, _)| trailer).filter(|_| sequence == self.dealing.of_stream(at, self.frames))
    }

    /// Returns the range in the source of frame `sequence` of the stream with index `at`, and of up
    /// to `frames` that follow it there. `None` if the frame has not been sent yet, or is not part
    /// of the source.
    pub(super) fn bytes_of(&self, at: usize, sequence: u64, frames: u64) -> Option<Range<u64>> {
        let whole = self.dealing.in_whole(at, sequence);
        let block = self.dealing.block_frames();
        let in_a_row = (block - sequence % block).min(frames).min((MAX_BYTES / self.payload_bytes).max(1));
        let end = (whole + in_a_row).min(self.frames);
        let bytes = |frame: u64| {
            let at = frame * self.payload_bytes;
            self.end.map_or(at, |(_, bytes)| at.min(bytes))
        };
        (whole < end).then(|| bytes(whole)..bytes(end))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needy {
    Aside(Rank),
    Gap(Rank, usize),
    Fetch(Rank),
}

impl Needy {
    pub(super) fn rank(self) -> Rank {
        let (Needy::Aside(rank) | Needy::Gap(rank, _) | Needy::Fetch(rank)) = self;
        rank
    }
}
