//! Members that are aside: each is served alone, on a stream of its own that begins where it stands.

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

/// Members served at the same time: each takes a feed; the others wait.
const MOST_SIDES: usize = 16;

/// Frames of the main stream for each one of those aside, while both have some: 4 % of the link is theirs.
const MAIN_FRAMES: u32 = 24;

/// How often a member can turn out to stand below where it was said to: READY may be somebody else's, and so may the
/// acknowledgement that contradicts it.
const MOST_RESTARTS: u32 = 8;

/// A member that is served alone.
#[derive(Clone, Debug)]
struct Side {
    rank: Rank,
    /// The frame with which it began.
    first: u64,
    restarts: u32,
    stream: Stream,
}

impl Side {
    /// What of the source it has room for next.
    fn wanted(&self, extent: &Extent) -> Option<Range<u64>> {
        let feed = self.stream.feed();
        let room = feed.limit() - feed.head();
        extent.bytes_of(0, feed.head(), room).filter(|_| room > 0 && feed.last().is_none())
    }

    /// Takes a frame of the member; the frame that it needs, if that lies before all there are here.
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) -> Option<u64> {
        self.stream.handle_frame(now, frame);
        let needed = self.stream.take_orphans().first()?.from;
        (needed < self.first && self.restarts < MOST_RESTARTS).then_some(needed)
    }
}

/// All members that are served alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Sides {
    sides: Vec<Side>,
    /// Who waits to be served, and from which frame on.
    waiting: VecDeque<(Rank, u64)>,
    /// The side whose turn it is.
    turn: usize,
    share: Share<MAIN_FRAMES>,
    /// Frames of sides that have been closed.
    closed: StreamStats,
}

impl Sides {
    /// Whether a member is served.
    pub(super) fn serves(&self, rank: Rank) -> bool {
        self.sides.iter().any(|side| side.rank == rank)
    }

    /// A member is to be served from frame `first` on.
    pub(super) fn invite(&mut self, rank: Rank, first: u64) {
        if !self.serves(rank) && self.waiting.iter().all(|&(waiting, _)| waiting != rank) {
            self.waiting.push_back((rank, first));
        }
    }

    /// Begins to serve those who wait, as many as can be.
    pub(super) fn open(&mut self, identity: Identity, view: &View, tuning: &Tuning) {
        while self.sides.len() < MOST_SIDES
            && let Some((rank, first)) = self.waiting.pop_front()
        {
            log::info!("rank {rank} is served alone from frame {first}");
            self.sides.push(Side { rank, first, restarts: 0, stream: stream(identity, view, rank, first, tuning) });
        }
        self.sides.iter_mut().for_each(|side| side.stream.set_epoch(view.epoch as u8));
    }

    /// Ends to serve all but those of whom this holds.
    pub(super) fn retain(&mut self, keep: impl Fn(Rank) -> bool) {
        self.waiting.retain(|&(rank, _)| keep(rank));
        for side in self.sides.extract_if(.., |side| !keep(side.rank)) {
            self.closed = self.closed + side.stream.stats();
        }
        self.turn = 0;
    }

    /// Frames of all sides so far.
    pub(super) fn stats(&self) -> StreamStats {
        self.sides.iter().fold(self.closed, |sum, side| sum + side.stream.stats())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sides.is_empty()
    }

    /// What of the source is to be read for whom, and from which frame on.
    pub(super) fn wanted(&self, extent: &Extent) -> Option<(Rank, Range<u64>)> {
        // Whoever has least in stock first.
        let open =
            self.sides.iter().filter_map(|side| Some((side.stream.feed().head(), side.rank, side.wanted(extent)?)));
        open.min_by_key(|&(head, ..)| head).map(|(_, rank, wanted)| (rank, wanted))
    }

    /// The same for one member.
    pub(super) fn wanted_by(&self, rank: Rank, extent: &Extent) -> Option<Range<u64>> {
        self.sides.iter().find(|side| side.rank == rank)?.wanted(extent)
    }

    /// Takes what was wanted for a member.
    pub(super) fn supply(&mut self, rank: Rank, bytes: &[u8]) {
        let Some(side) = self.sides.iter_mut().find(|side| side.rank == rank) else { return };
        for payload in bytes.chunks(side.stream.payload_bytes()) {
            assert!(side.stream.push(payload, Ending::None), "no more was wanted than there is room for");
        }
    }

    /// Ends each stream that has come to where the trailer is.
    pub(super) fn finish(&mut self, extent: &Extent) {
        for side in &mut self.sides {
            let feed = side.stream.feed();
            let trailer: Option<Trailer> = extent.trailer_at(0, feed.head()).filter(|_| feed.last().is_none());
            if let Some(trailer) = trailer.filter(|_| feed.head() < feed.limit()) {
                assert!(side.stream.push(&trailer.encode(), Ending::Stream), "there is room");
            }
        }
    }

    /// Takes a frame of a member that is served alone. If it stands below where it was said to, it is served from there
    /// on.
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

    /// A frame of the main stream has been sent.
    pub(super) fn main_sent(&mut self, now: Instant) {
        self.share.main_sent(now);
    }

    /// Whether a side has its turn before the main stream.
    pub(super) fn are_due(&self) -> bool {
        !self.sides.is_empty() && self.share.is_due()
    }

    /// Writes the next frame of a side, if it may go: in its turn, or because the main stream is `over` or idle.
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

/// The stream on which the member `rank` is served alone.
fn stream(identity: Identity, view: &View, rank: Rank, first: u64, tuning: &Tuning) -> Stream {
    alone(Identity { stream: StreamId(FIRST_STREAM | SIDE), ..identity }, view, rank, first, tuning)
}
