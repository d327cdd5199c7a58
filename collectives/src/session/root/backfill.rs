//! Backfill of frames that were lost with a dead relay: the root re-reads and sends them to the
//! members that lack them, until the new parent reports no gap.

use super::rereading::Extent;
use crate::session::blocks::LackingFrame;
use ethbcast_transport::planted;
use ethbcast_transport::stream::{Ending, Orphan};
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Deadline, Instant};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Maximum number of frames sent beyond what a member is known to have.
const WINDOW: u64 = 512;

/// Time after which a re-sent frame that is still reported missing counts as lost.
const AGAIN_AFTER: Duration = Duration::from_millis(25);

/// Time after which a gap that is no longer reported is dropped.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
struct Gap {
    rank: Rank,
    at: usize,
    from: u64,
    to: u64,
    next: u64,
    reported_at: Instant,
    /// Whether the gap was reported more than once: a single report may be forged.
    certain: bool,
    begun_at: Instant,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Backfills {
    gaps: Vec<Gap>,
    ready: VecDeque<(Rank, LackingFrame)>,
}

impl Backfills {
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
            // A gap that begins earlier than reported before: the previous report was wrong.
            (gap.from, gap.next, gap.begun_at) = (from, from, now);
        }
        (gap.to, gap.reported_at, gap.certain) = (to, now, true);
        gap.next = gap.next.max(gap.from);
    }

    pub(super) fn retain(&mut self, keep: impl Fn(Rank) -> bool) {
        self.gaps.retain(|gap| keep(gap.rank));
        self.ready.retain(|&(rank, _)| keep(rank));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    pub(super) fn wanted(&self, extent: &Extent) -> Option<(Rank, usize, Range<u64>)> {
        self.gaps.iter().find_map(|gap| Some((gap.rank, gap.at, self.wanted_for(gap, extent)?)))
    }

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

    pub(super) fn supply(&mut self, rank: Rank, at: usize, bytes: &[u8], payload_bytes: usize) {
        let Some(gap) = self.gaps.iter_mut().find(|gap| (gap.rank, gap.at) == (rank, at)) else { return };
        for payload in bytes.chunks(payload_bytes) {
            let frame = LackingFrame { at, sequence: gap.next, payload: payload.to_vec(), ending: Ending::None };
            self.ready.push_back((rank, frame));
            gap.next += 1 + u64::from(planted!("refill-skips-frames"));
        }
    }

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
