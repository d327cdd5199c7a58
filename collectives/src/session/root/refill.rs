//! Frames that died with a relay: the root reads them again and sends them to whoever lacks them, until its new parent
//! reports no gap any more.

use super::rereading::Extent;
use crate::session::blocks::LackingFrame;
use ethbcast_transport::planted;
use ethbcast_transport::stream::{Ending, Orphan};
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Deadline, Instant};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Frames beyond what a member is known to have that are sent without hearing of it.
const WINDOW: u64 = 512;

/// What was sent and is still reported missing after so long is lost.
const AGAIN_AFTER: Duration = Duration::from_millis(25);

/// A gap that nobody has reported for so long is none.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(2);

/// A member's gap.
#[derive(Clone, Debug)]
struct Gap {
    rank: Rank,
    /// The place of the stream that lacks them.
    at: usize,
    from: u64,
    to: u64,
    /// The next frame to be read.
    next: u64,
    reported_at: Instant,
    /// Whether it was reported more than once: one word of it may be anybody's.
    certain: bool,
    /// When the gap became smaller, or was gone through from its beginning.
    begun_at: Instant,
}

/// All gaps that are being filled.
#[derive(Clone, Debug, Default)]
pub(super) struct Refills {
    gaps: Vec<Gap>,
    /// Frames that are ready to go, and to whom.
    ready: VecDeque<(Rank, LackingFrame)>,
}

impl Refills {
    /// A member lacks frames of the stream at place `at`.
    pub(super) fn report(&mut self, now: Instant, at: usize, orphan: Orphan) {
        let Orphan { rank, from, to } = orphan;
        let Some(gap) = self.gaps.iter_mut().find(|gap| (gap.rank, gap.at) == (rank, at)) else {
            log::info!("rank {rank} lacks frames {from} to {to}, which are read again");
            self.gaps.push(Gap { rank, at, from, to, next: from, reported_at: now, certain: false, begun_at: now });
            return;
        };
        if from > gap.from {
            (gap.from, gap.begun_at) = (from, now);
        } else if now.since(gap.begun_at) >= AGAIN_AFTER {
            // If it begins further down, what was said before was not true.
            (gap.from, gap.next, gap.begun_at) = (from, from, now);
        }
        (gap.to, gap.reported_at, gap.certain) = (to, now, true);
        gap.next = gap.next.max(gap.from);
    }

    /// Forgets the gaps of all but those of whom this holds.
    pub(super) fn retain(&mut self, keep: impl Fn(Rank) -> bool) {
        self.gaps.retain(|gap| keep(gap.rank));
        self.ready.retain(|&(rank, _)| keep(rank));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    /// What of the source is to be read: for whom, in which stream, and where it is.
    pub(super) fn wanted(&self, extent: &Extent) -> Option<(Rank, usize, Range<u64>)> {
        self.gaps.iter().find_map(|gap| Some((gap.rank, gap.at, self.wanted_for(gap, extent)?)))
    }

    /// The same for one member and stream.
    pub(super) fn wanted_by(&self, rank: Rank, at: usize, extent: &Extent) -> Option<Range<u64>> {
        let gap = self.gaps.iter().find(|gap| (gap.rank, gap.at) == (rank, at))?;
        self.wanted_for(gap, extent)
    }

    fn wanted_for(&self, gap: &Gap, extent: &Extent) -> Option<Range<u64>> {
        let room = gap.certain && self.ready.len() < WINDOW as usize;
        let end = gap.to.min(gap.from + WINDOW);
        let frames = end.checked_sub(gap.next).filter(|&frames| frames > 0 && room)?;
        extent.bytes_of(gap.at, gap.next, frames)
    }

    /// Takes what was wanted.
    pub(super) fn supply(&mut self, rank: Rank, at: usize, bytes: &[u8], payload_bytes: usize) {
        let Some(gap) = self.gaps.iter_mut().find(|gap| (gap.rank, gap.at) == (rank, at)) else { return };
        for payload in bytes.chunks(payload_bytes) {
            let frame = LackingFrame { at, sequence: gap.next, payload: payload.to_vec(), ending: Ending::None };
            self.ready.push_back((rank, frame));
            gap.next += 1 + u64::from(planted!("refill-skips-frames"));
        }
    }

    /// Queues the stream's end where that is what is lacking.
    pub(super) fn finish(&mut self, extent: &Extent) {
        for gap in &mut self.gaps {
            if gap.certain
                && gap.next < gap.to
                && let Some(trailer) = extent.trailer_at(gap.at, gap.next)
            {
                let (at, sequence, payload) = (gap.at, gap.next, trailer.encode());
                self.ready.push_back((gap.rank, LackingFrame { at, sequence, payload, ending: Ending::Stream }));
                gap.next += 1;
            }
        }
    }

    /// The next frame to be sent.
    pub(super) fn poll(&mut self) -> Option<(Rank, LackingFrame)> {
        self.ready.pop_front()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.gaps.retain(|gap| now.since(gap.reported_at) < FORGOTTEN_AFTER);
    }

    pub(super) fn poll_timeout(&self) -> Option<Deadline> {
        let forgotten = self.gaps.iter().map(|gap| gap.reported_at + FORGOTTEN_AFTER).min();
        forgotten.map(|at| crate::membership::timers::Wait::Side.at(at))
    }
}
