//! Catch-up streams: each demoted member is served alone, on a stream that begins where the member
//! is.

use super::rereading::Extent;
use crate::session::blocks::{FIRST_STREAM, SIDE, alone};
use crate::session::message::Trailer;
use crate::session::share::Share;
use crate::session::view::View;
use ethbcast_transport::stream::{Ending, Stream, StreamStats};
use ethbcast_transport::wire::{Frame, Identity, Rank, StreamId};
use ethbcast_transport::{Deadline, Instant, Part, Tuning};
use std::collections::VecDeque;
use std::ops::Range;

/// Maximum number of catch-up streams at a time, as each takes a feed; further members wait.
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
        extent.bytes_of(0, feed.head(), room).filter(|_| room > 0 && feed.last().is_none())
    }

    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) -> Option<u64> {
        self.stream.handle_frame(now, frame);
        let needed = self.stream.take_orphans().first()?.from;
        (needed < self.first && self.restarts < MAX_RESTARTS).then_some(needed)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct CatchUpStreams {
    sides: Vec<CatchUpStream>,
    waiting: VecDeque<(Rank, u64)>,
    turn: usize,
    share: Share<MAIN_FRAMES>,
    closed: StreamStats,
}

impl CatchUpStreams {
    pub(super) fn serves(&self, rank: Rank) -> bool {
        self.sides.iter().any(|side| side.rank == rank)
    }

    pub(super) fn invite(&mut self, rank: Rank, first: u64) {
        if !self.serves(rank) && self.waiting.iter().all(|&(waiting, _)| waiting != rank) {
            self.waiting.push_back((rank, first));
        }
    }

    pub(super) fn open(&mut self, identity: Identity, view: &View, tuning: &Tuning) {
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
        self.sides.iter_mut().for_each(|side| side.stream.set_epoch(view.epoch as u8));
    }

    pub(super) fn retain(&mut self, keep: impl Fn(Rank) -> bool) {
        self.waiting.retain(|&(rank, _)| keep(rank));
        for side in self.sides.extract_if(.., |side| !keep(side.rank)) {
            self.closed = self.closed + side.stream.stats();
        }
        self.turn = 0;
    }

    pub(super) fn stats(&self) -> StreamStats {
        self.sides.iter().fold(self.closed, |sum, side| sum + side.stream.stats())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sides.is_empty()
    }

    pub(super) fn wanted(&self, extent: &Extent) -> Option<(Rank, Range<u64>)> {
        // The member with the least in stock comes first.
        let open =
            self.sides.iter().filter_map(|side| Some((side.stream.feed().head(), side.rank, side.wanted(extent)?)));
        open.min_by_key(|&(head, ..)| head).map(|(_, rank, wanted)| (rank, wanted))
    }

    pub(super) fn wanted_by(&self, rank: Rank, extent: &Extent) -> Option<Range<u64>> {
        self.sides.iter().find(|side| side.rank == rank)?.wanted(extent)
    }

    pub(super) fn supply(&mut self, rank: Rank, bytes: &[u8]) {
        let Some(side) = self.sides.iter_mut().find(|side| side.rank == rank) else { return };
        for payload in bytes.chunks(side.stream.payload_bytes()) {
            assert!(side.stream.push(payload, Ending::None), "no more was wanted than there is room for");
        }
    }

    pub(super) fn finish(&mut self, extent: &Extent) {
        for side in &mut self.sides {
            let feed = side.stream.feed();
            let trailer: Option<Trailer> = extent.trailer_at(0, feed.head()).filter(|_| feed.last().is_none());
            if let Some(trailer) = trailer.filter(|_| feed.head() < feed.limit()) {
                assert!(side.stream.push(&trailer.encode(), Ending::Stream), "there is room");
            }
        }
    }

    /// Handles a frame of a demoted member. If the member is behind the stream's first frame, the
    /// stream restarts there.
    pub(super) fn handle_frame(
        &mut self,
        now: Instant,
        frame: &Frame<'_>,
        identity: Identity,
        view: &View,
        tuning: &Tuning,
    ) {
        let Some(side) = self.sides.iter_mut().find(|side| side.rank == frame.header.rank) else { return };
        if let Some(first) = side.handle_frame(now, frame) {
            log::info!("rank {} is served alone from frame {first} on, not {}", side.rank, side.first);
            self.closed = self.closed + side.stream.stats();
            side.stream = stream(identity, view, side.rank, first, tuning);
            side.stream.set_epoch(view.epoch as u8);
            (side.first, side.restarts) = (first, side.restarts + 1);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.sides.iter_mut().for_each(|side| side.stream.handle_timeout(now));
    }

    pub(super) fn main_sent(&mut self, now: Instant) {
        self.share.main_sent(now);
    }

    pub(super) fn are_due(&self) -> bool {
        !self.sides.is_empty() && self.share.is_due()
    }

    pub(super) fn poll_transmit(&mut self, now: Instant, over: bool, buffer: &mut [u8]) -> Option<usize> {
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

    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let idle = self.share.free_at(now).filter(|_| !self.sides.is_empty());
        let idle = idle.map(|at| crate::membership::timers::Wait::Side.at(at));
        self.sides.iter().filter_map(|side| side.stream.poll_timeout(now)).chain(idle).min()
    }
}

fn stream(identity: Identity, view: &View, rank: Rank, first: u64, tuning: &Tuning) -> Stream {
    alone(Identity { stream: StreamId(FIRST_STREAM | SIDE), ..identity }, view, rank, first, tuning)
}
