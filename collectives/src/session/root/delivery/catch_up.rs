//! Catch-up streams for receivers that lack data, beside the main stream.

use crate::session::blocks::{Blocks, CATCH_UP, Dealing, FIRST_STREAM, LackingFrame, alone};
use crate::session::message::Trailer;
use crate::session::throttle::Share;
use crate::session::view::View;
use ethbcast_transport::stream::{Ending, LostRange, Stream, StreamStats};
use ethbcast_transport::wire::{Frame, Identity, Rank, StreamId};
use ethbcast_transport::{Deadline, Instant, Part, Tuning, planted};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

const MAX_SIDES: usize = 16;

/// Main-stream frames per catch-up frame while both have some: 4 % of the link is for catch-up
/// streams.
const MAIN_FRAMES: u32 = 24;

/// Maximum number of restarts at an earlier frame: READY may be forged, and so may the
/// acknowledgement that contradicts it.
const MAX_RESTARTS: u32 = 8;

#[derive(Clone, Debug)]
struct CatchUpStream {
    rank: Rank,
    first: u64,
    restarts: u32,
    stream: Stream,
}

impl CatchUpStream {
    fn wanted(&self, extent: &Extent) -> Option<Range<u64>> {
        let feed = self.stream.feed();
        let room = feed.limit() - feed.head();
        extent
            .bytes_of(0, feed.head(), room)
            .filter(|_| room > 0 && feed.last().is_none())
    }

    fn restarts_at(&mut self) -> Option<u64> {
        let needed = self.stream.take_orphans().first()?.from;
        (needed < self.first && self.restarts < MAX_RESTARTS).then_some(needed)
    }
}

#[derive(Clone, Debug, Default)]
pub struct CatchUpStreams {
    sides: Vec<CatchUpStream>,
    waiting: VecDeque<(Rank, u64)>,
    turn: usize,
    share: Share<MAIN_FRAMES>,
    closed: StreamStats,
}

impl CatchUpStreams {
    pub fn serves(&self, rank: Rank) -> bool {
        self.sides.iter().any(|side| side.rank == rank)
    }

    pub fn invite(&mut self, rank: Rank, first: u64) {
        if !self.serves(rank) && self.waiting.iter().all(|&(waiting, _)| waiting != rank) {
            self.waiting.push_back((rank, first));
        }
    }

    pub fn open(&mut self, identity: &Identity, view: &View, tuning: &Tuning) {
        while self.sides.len() < MAX_SIDES
            && let Some((rank, first)) = self.waiting.pop_front()
        {
            log::info!("rank {rank} is served alone from frame {first}");
            self.sides.push(CatchUpStream {
                rank,
                first,
                restarts: 0,
                stream: stream(identity, view, rank, first, tuning),
            });
        }
        self.sides
            .iter_mut()
            .for_each(|side| side.stream.set_epoch(view.epoch as u8));
    }

    pub fn retain(&mut self, keep: impl Fn(Rank) -> bool) {
        self.waiting.retain(|&(rank, _)| keep(rank));
        for side in self.sides.extract_if(.., |side| !keep(side.rank)) {
            self.closed = self.closed + side.stream.stats();
        }
        self.turn = 0;
    }

    pub fn stats(&self) -> StreamStats {
        self.sides
            .iter()
            .fold(self.closed, |sum, side| sum + side.stream.stats())
    }

    pub fn is_empty(&self) -> bool {
        self.sides.is_empty()
    }

    pub fn wanted(&self, extent: &Extent) -> Option<(Rank, Range<u64>)> {
        // The member with the least data in stock comes first.
        let open = self
            .sides
            .iter()
            .filter_map(|side| Some((side.stream.feed().head(), side.rank, side.wanted(extent)?)));
        open.min_by_key(|&(head, ..)| head)
            .map(|(_, rank, wanted)| (rank, wanted))
    }

    pub fn wanted_by(&self, rank: Rank, extent: &Extent) -> Option<Range<u64>> {
        self.sides
            .iter()
            .find(|side| side.rank == rank)?
            .wanted(extent)
    }

    pub fn supply(&mut self, rank: Rank, bytes: &[u8]) {
        let Some(side) = self.sides.iter_mut().find(|side| side.rank == rank) else {
            return;
        };
        for payload in bytes.chunks(side.stream.payload_bytes()) {
            assert!(
                side.stream.push(payload, Ending::None),
                "no more was wanted than there is room for"
            );
        }
    }

    pub fn finish(&mut self, extent: &Extent, end: &[u8]) {
        for side in &mut self.sides {
            let feed = side.stream.feed();
            let trailer: Option<Trailer> = extent
                .trailer_at(0, feed.head())
                .filter(|_| feed.last().is_none());
            if trailer.is_some() && feed.head() < feed.limit() {
                assert!(side.stream.push(end, Ending::Stream), "there is room");
            }
        }
    }

    /// Handles a frame of a demoted member. If the member is behind the stream's first frame, the
    /// stream restarts there. Returns the round trip that the frame shows.
    pub fn take_frame(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        identity: &Identity,
        view: &View,
        tuning: &Tuning,
    ) -> Option<Duration> {
        let side = self
            .sides
            .iter_mut()
            .find(|side| side.rank == frame.header.rank)?;
        let round_trip = side.stream.take_frame(now, frame);
        if let Some(first) = side.restarts_at() {
            log::info!(
                "rank {} is served alone from frame {first} on, not {}",
                side.rank,
                side.first
            );
            self.closed = self.closed + side.stream.stats();
            side.stream = stream(identity, view, side.rank, first, tuning);
            side.stream.set_epoch(view.epoch as u8);
            (side.first, side.restarts) = (first, side.restarts + 1);
        }
        round_trip
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        self.sides
            .iter_mut()
            .for_each(|side| side.stream.handle_timeout(now));
    }

    pub fn main_sent(&mut self, now: Instant) {
        self.share.main_sent(now);
    }

    pub fn are_due(&self) -> bool {
        !self.sides.is_empty() && self.share.is_due()
    }

    pub fn poll_transmit(&mut self, now: Instant, over: bool, buffer: &mut [u8]) -> Option<usize> {
        if self.sides.is_empty() || !(over || self.share.may_go(now)) {
            return None;
        }
        let count = self.sides.len();
        let turns = (0..count).map(|step| (self.turn + step) % count);
        let (at, length) = turns.into_iter().find_map(|at| {
            let length = self.sides[at].stream.poll_transmit(now, buffer)?;
            Some((at, length))
        })?;
        self.turn = (at + 1) % count;
        self.share.take();
        Some(length)
    }

    pub fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let idle = self.share.free_at(now).filter(|_| !self.sides.is_empty());
        let idle = idle.map(|at| crate::membership::timers::Wait::CatchUp.at(at));
        self.sides
            .iter()
            .filter_map(|side| side.stream.poll_timeout(now))
            .chain(idle)
            .min()
    }
}

fn stream(identity: &Identity, view: &View, rank: Rank, first: u64, tuning: &Tuning) -> Stream {
    alone(
        Identity {
            stream: StreamId(FIRST_STREAM | CATCH_UP),
            ..identity.clone()
        },
        view,
        rank,
        first,
        tuning,
    )
}

const GAP_WINDOW: u64 = 512;

const GAP_AGAIN_AFTER: Duration = Duration::from_millis(25);

const GAP_FORGOTTEN_AFTER: Duration = Duration::from_secs(2);

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
pub struct Backfills {
    gaps: Vec<Gap>,
    ready: VecDeque<(Rank, LackingFrame)>,
}

impl Backfills {
    pub fn report(&mut self, now: Instant, at: usize, orphan: LostRange) {
        let LostRange { rank, from, to } = orphan;
        let Some(gap) = self
            .gaps
            .iter_mut()
            .find(|gap| (gap.rank, gap.at) == (rank, at))
        else {
            log::info!("rank {rank} lacks frames {from} to {to}, which are read again");
            self.gaps.push(Gap {
                rank,
                at,
                from,
                to,
                next: from,
                reported_at: now,
                certain: false,
                begun_at: now,
            });
            return;
        };
        if from > gap.from {
            (gap.from, gap.begun_at) = (from, now);
        } else if now.since(gap.begun_at) >= GAP_AGAIN_AFTER {
            // A gap that begins earlier than reported before: the previous report was wrong.
            (gap.from, gap.next, gap.begun_at) = (from, from, now);
        }
        (gap.to, gap.reported_at, gap.certain) = (to, now, true);
        gap.next = gap.next.max(gap.from);
    }

    pub fn retain(&mut self, keep: impl Fn(Rank) -> bool) {
        self.gaps.retain(|gap| keep(gap.rank));
        self.ready.retain(|&(rank, _)| keep(rank));
    }

    pub fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }

    pub fn wanted(&self, extent: &Extent) -> Option<(Rank, usize, Range<u64>)> {
        self.gaps
            .iter()
            .find_map(|gap| Some((gap.rank, gap.at, self.wanted_for(gap, extent)?)))
    }

    pub fn wanted_by(&self, rank: Rank, at: usize, extent: &Extent) -> Option<Range<u64>> {
        let gap = self
            .gaps
            .iter()
            .find(|gap| (gap.rank, gap.at) == (rank, at))?;
        self.wanted_for(gap, extent)
    }

    fn wanted_for(&self, gap: &Gap, extent: &Extent) -> Option<Range<u64>> {
        let room = gap.certain && self.ready.len() < GAP_WINDOW as usize;
        let end = gap.to.min(gap.from + GAP_WINDOW);
        let frames = end
            .checked_sub(gap.next)
            .filter(|&frames| frames > 0 && room)?;
        extent.bytes_of(gap.at, gap.next, frames)
    }

    pub fn supply(&mut self, rank: Rank, at: usize, bytes: &[u8], payload_bytes: usize) {
        let Some(gap) = self
            .gaps
            .iter_mut()
            .find(|gap| (gap.rank, gap.at) == (rank, at))
        else {
            return;
        };
        for payload in bytes.chunks(payload_bytes) {
            let frame = LackingFrame {
                at,
                sequence: gap.next,
                payload: payload.to_vec(),
                ending: Ending::None,
            };
            self.ready.push_back((rank, frame));
            gap.next += 1 + u64::from(planted!("refill-skips-frames"));
        }
    }

    pub fn finish(&mut self, extent: &Extent, end: &[u8]) {
        for gap in &mut self.gaps {
            if gap.certain && gap.next < gap.to && extent.trailer_at(gap.at, gap.next).is_some() {
                let (at, sequence, payload) = (gap.at, gap.next, end.to_vec());
                self.ready.push_back((
                    gap.rank,
                    LackingFrame {
                        at,
                        sequence,
                        payload,
                        ending: Ending::Stream,
                    },
                ));
                gap.next += 1;
            }
        }
    }

    pub fn poll(&mut self) -> Option<(Rank, LackingFrame)> {
        self.ready.pop_front()
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        self.gaps
            .retain(|gap| now.since(gap.reported_at) < GAP_FORGOTTEN_AFTER);
    }

    pub fn poll_timeout(&self) -> Option<Deadline> {
        let forgotten = self
            .gaps
            .iter()
            .map(|gap| gap.reported_at + GAP_FORGOTTEN_AFTER)
            .min();
        forgotten.map(|at| crate::membership::timers::Wait::CatchUp.at(at))
    }
}

const MAX_EXTENT_BYTES: u64 = 128 << 10;

#[derive(Clone, Copy, Debug)]
pub struct Extent {
    dealing: Dealing,
    payload_bytes: u64,
    frames: u64,
    end: Option<(Trailer, u64)>,
}

impl Extent {
    pub fn new(
        dealing: Dealing,
        payload_bytes: usize,
        pushed: u64,
        end: Option<(Trailer, u64)>,
    ) -> Extent {
        let payload_bytes = payload_bytes as u64;
        let frames = end.map_or(pushed, |(_, bytes)| bytes.div_ceil(payload_bytes));
        Extent {
            dealing,
            payload_bytes,
            frames,
            end,
        }
    }

    pub fn trailer_at(&self, at: usize, sequence: u64) -> Option<Trailer> {
        self.end
            .map(|(trailer, _)| trailer)
            .filter(|_| sequence == self.dealing.of_stream(at, self.frames))
    }

    /// Returns the range in the source of frame `sequence` of the stream with index `at`, and of up
    /// to `frames` that follow it there. `None` if the frame has not been sent yet, or is not part
    /// of the source.
    pub fn bytes_of(&self, at: usize, sequence: u64, frames: u64) -> Option<Range<u64>> {
        let whole = self.dealing.in_whole(at, sequence);
        let block = self.dealing.block_frames();
        let in_a_row = (block - sequence % block)
            .min(frames)
            .min((MAX_EXTENT_BYTES / self.payload_bytes).max(1));
        let end = (whole + in_a_row).min(self.frames);
        let bytes = |frame: u64| {
            let at = frame * self.payload_bytes;
            self.end.map_or(at, |(_, bytes)| at.min(bytes))
        };
        (whole < end).then(|| bytes(whole)..bytes(end))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needy {
    Demoted(Rank),
    Gap(Rank, usize),
    Fetch(Rank),
}

impl Needy {
    pub fn rank(self) -> Rank {
        let (Needy::Demoted(rank) | Needy::Gap(rank, _) | Needy::Fetch(rank)) = self;
        rank
    }
}

const MAX_TRIALS: u32 = 3;

#[derive(Clone, Debug)]
struct Rest {
    to: Rank,
    next: u64,
    end: u64,
}

/// Probe transfers to a member behind a suspected straggler: the root sends it frames that it needs
/// anyway. If the first relay has been slow from the beginning, nothing else shows that the others
/// are not. Few are made, as each sends up to one feed of frames that also arrive another way.
#[derive(Clone, Debug, Default)]
pub struct RateTrials {
    rest: Option<Rest>,
    begun: u32,
    sent: u64,
}

impl RateTrials {
    pub fn begin(&mut self, blocks: &Blocks, to: Rank, arrived: u64) {
        if self.rest.is_none() && self.begun < MAX_TRIALS {
            log::info!("rank {to} is tried: how fast can it take frames?");
            self.begun += 1;
            // The last frame may be the stream's end.
            self.rest = Some(Rest {
                to,
                next: arrived,
                end: blocks.frames().saturating_sub(1),
            });
        }
    }

    pub fn end(&mut self) {
        self.rest = None;
    }

    pub fn sent(&self) -> u64 {
        self.sent
    }

    pub fn poll(&mut self, blocks: &Blocks) -> Option<(Rank, LackingFrame)> {
        let rest = self.rest.as_mut()?;
        let kept = blocks
            .kept(rest.next)
            .filter(|&(sequence, _)| sequence < rest.end);
        let Some((sequence, payload)) = kept else {
            self.rest = None;
            return None;
        };
        rest.next = sequence + 1;
        self.sent += 1;
        Some((
            rest.to,
            LackingFrame {
                at: 0,
                sequence,
                payload: payload.to_vec(),
                ending: Ending::None,
            },
        ))
    }
}
