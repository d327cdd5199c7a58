//! Division of a transfer's frames among several streams, each with its own broadcast tree (or one
//! stream for all).
//!
//! Block algorithms ([`Via::is_in_blocks`](ethbcast_planning::plan::Via::is_in_blocks)) have
//! several: frames are distributed to the streams in turn, a block of consecutive frames to each,
//! and every stream has a tree of its own. The reader takes them in the same order. A message ends
//! in all streams at once: in the one with its last frame by that frame, in the others by an empty
//! one. Distribution then starts over with the first stream.

mod stream;

pub(super) use stream::{CATCH_UP, Dealing, FIRST_STREAM, alone, most_block_frames};

use super::view::{MemberRole, View};
use ethbcast_planning::plan::Via;
use ethbcast_transport::stream::{Ending, LostRange, Memory, Run, Stream, StreamStats};
use ethbcast_transport::wire::{Frame, Guard, Identity, Kind, Rank, StreamId};
use ethbcast_transport::{
    AuditError, Deadline, Instant, Kept, MacAddr, Part, SplitFrame, Tuning, planted,
};
use std::cmp::Reverse;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LackingFrame {
    pub at: usize,
    pub sequence: u64,
    pub payload: Vec<u8>,
    pub ending: Ending,
}

/// Streams of a session at one host. `dealing` follows from the view alone, so that root and
/// receivers agree whatever their feeds; `turn` is the stream whose turn it is, with the frames
/// left of its block; `fillers` are the streams whose empty end of the message just read has not
/// come yet.
#[derive(Clone, Debug)]
pub struct Blocks {
    streams: Vec<Stream>,
    dealing: Dealing,
    is_demoted: bool,
    identity: Identity,
    group_mac: MacAddr,
    way: (Via, u32),
    tuning: Tuning,
    turn: usize,
    left: u64,
    fillers: Vec<usize>,
    turns: Vec<usize>,
    consumed_at: Option<Instant>,
}

impl Blocks {
    pub(super) fn new(
        identity: Identity,
        group_mac: MacAddr,
        view: &View,
        tuning: &Tuning,
    ) -> Blocks {
        let own = tuning.clone();
        let mut tuning = stream::in_segments(tuning, view, &identity);
        if view.via.is_in_blocks() {
            tuning.feed.frames = stream::share_frames(&tuning, view.via.trees(view.members.len()));
        }
        let open = |(tree, number)| {
            stream::open(
                Identity {
                    stream: number,
                    ..identity.clone()
                },
                group_mac,
                view,
                tree,
                &tuning,
            )
        };
        let streams: Vec<Stream> = view
            .trees()
            .iter()
            .zip((FIRST_STREAM..).map(StreamId))
            .map(open)
            .collect();
        let dealing = Dealing::new(view);
        let turns = (0..streams.len()).collect();
        let mut blocks = Blocks {
            streams,
            dealing,
            is_demoted: false,
            identity,
            group_mac,
            way: (view.via, view.segment_frames),
            tuning: own,
            turn: 0,
            left: dealing.block_frames(),
            fillers: Vec::new(),
            turns,
            consumed_at: None,
        };
        blocks.set_epoch(view.epoch);
        if view.members[blocks.identity.rank.index()].standing == MemberRole::Demoted {
            blocks.demote(Instant::START, view);
        }
        blocks
    }

    pub(super) fn guard(&self) -> &Guard {
        &self.identity.guard
    }

    pub fn payload_bytes(&self) -> usize {
        self.streams[0].payload_bytes()
    }

    pub fn backlog_frames(&self) -> u64 {
        self.streams.iter().map(Stream::backlog_frames).sum()
    }

    /// Returns the number of frames pushed, or arrived in order.
    pub fn frames(&self) -> u64 {
        self.streams.iter().map(|stream| stream.feed().head()).sum()
    }

    pub(super) fn frames_sent(&self) -> u64 {
        self.streams
            .iter()
            .map(|stream| stream.sending().1.min(stream.feed().head()))
            .sum()
    }

    pub(super) fn frames_of(&self, at: usize) -> u64 {
        self.streams[at].feed().head()
    }

    pub(super) fn reached_of(&self, at: usize) -> u64 {
        self.streams[at].feed().highest()
    }

    /// Returns the capacity of all feeds, in frames.
    pub fn slots(&self) -> u64 {
        self.streams
            .iter()
            .map(|stream| stream.feed().slots())
            .sum()
    }

    pub fn stats(&self) -> StreamStats {
        self.streams
            .iter()
            .map(Stream::stats)
            .fold(StreamStats::default(), |sum, stats| sum + stats)
    }

    pub fn memory(&self) -> Memory {
        self.streams
            .iter()
            .map(Stream::memory)
            .fold(Memory::default(), |sum, one| sum + one)
    }

    pub fn streams(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter()
    }

    /// Whether every application has consumed all that was pushed; guaranteed to become true after
    /// the end of a message.
    pub fn is_consumed(&self) -> bool {
        self.streams
            .iter()
            .all(|stream| stream.consumed() == stream.feed().head())
    }

    /// Recomputes the reader counts of every feed.
    ///
    /// # Errors
    /// The first count that differs.
    pub fn audit(&self) -> Result<(), AuditError> {
        let mut streams = self.streams.iter().zip((FIRST_STREAM..).map(StreamId));
        streams.try_for_each(|(stream, number)| {
            stream
                .audit()
                .map_err(|error| error.within(format_args!("stream {number}")))
        })
    }

    pub(super) fn set_epoch(&mut self, epoch: u32) {
        self.streams
            .iter_mut()
            .for_each(|stream| stream.set_epoch(epoch as u8));
    }

    pub(super) fn has_room(&self) -> bool {
        self.streams
            .iter()
            .all(|stream| stream.feed().head() < stream.feed().limit())
    }

    pub(super) fn has_end(&self) -> bool {
        self.streams[self.turn].feed().last().is_some()
    }

    pub(super) fn push(&mut self, payload: &[u8], ending: Ending) -> bool {
        let room = if ending == Ending::None {
            let feed = self.streams[self.turn].feed();
            feed.head() < feed.limit()
        } else {
            self.has_room()
        };
        if !room {
            return false;
        }
        assert!(
            self.streams[self.turn].push(payload, ending),
            "there was room"
        );
        self.left -= 1;
        match ending {
            Ending::None if self.left > 0 => {}
            Ending::None => self.next_turn(),
            Ending::Message | Ending::Quiet => {
                let others = (0..self.streams.len()).filter(|&at| at != self.turn);
                others.for_each(|at| {
                    assert!(self.streams[at].push(&[], ending), "there was room in all")
                });
                self.start_over();
            }
            // A reader finds the trailer in the stream whose turn it is; the others carry it too,
            // so that all end.
            Ending::Stream => {
                let others = (0..self.streams.len()).filter(|&at| at != self.turn);
                others.for_each(|at| {
                    assert!(
                        self.streams[at].push(payload, ending),
                        "there was room in all"
                    )
                });
            }
        }
        true
    }

    fn next_turn(&mut self) {
        (self.turn, self.left) = (
            (self.turn + 1) % self.streams.len(),
            self.dealing.block_frames(),
        );
    }

    fn start_over(&mut self) {
        (self.turn, self.left) = (0, self.dealing.block_frames());
    }

    pub(super) fn peek(&self) -> Option<Run<'_>> {
        if self.fillers.is_empty() {
            self.streams[self.turn].peek_run(self.left)
        } else {
            None
        }
    }

    pub(super) fn consume(&mut self, now: Instant, frames: u64) -> Ending {
        self.consumed_at = Some(now);
        let ending = self.streams[self.turn].consume_run(now, frames);
        self.left -= if planted!("block-never-ends") {
            0
        } else {
            frames
        };
        if ending != Ending::None {
            self.fillers = (0..self.streams.len())
                .filter(|&at| at != self.turn)
                .collect();
            if ending != Ending::Stream {
                self.start_over();
            }
            self.skip_fillers(now);
        } else if self.left == 0 {
            self.next_turn();
        }
        ending
    }

    fn skip_fillers(&mut self, now: Instant) {
        let streams = &mut self.streams;
        self.fillers.retain(|&at| {
            let there = streams[at].peek().is_some();
            if there {
                streams[at].consume(now);
            }
            !there
        });
    }

    fn settle_consumed(&mut self) {
        if let Some(at) = self.consumed_at.take().filter(|_| self.streams.len() > 1) {
            self.streams
                .iter_mut()
                .for_each(|stream| stream.on_progress(at));
        }
    }

    pub(super) fn poll_ack(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.settle_consumed();
        self.streams
            .iter_mut()
            .find_map(|stream| stream.poll_ack(now, buffer))
    }

    /// Takes a frame; returns the round trip that it shows ([`Stream::take_frame`]).
    pub(super) fn take_frame(&mut self, now: Instant, frame: &Frame<'_>) -> Option<Duration> {
        self.settle_consumed();
        let at = self.place_followed(frame.header.stream)?;
        let round_trip = self.streams[at].take_frame(now, frame);
        if !self.fillers.is_empty() {
            self.skip_fillers(now);
        }
        round_trip
    }

    /// Takes the frames that children lack and this host has freed, with their stream; an
    /// acknowledgement may reveal them.
    pub(super) fn orphans_after(&mut self, frame: &Frame<'_>) -> Vec<(StreamId, LostRange)> {
        let shows = frame.header.kind == Kind::ACK;
        let numbered = self
            .streams
            .iter_mut()
            .filter(|_| shows)
            .zip((FIRST_STREAM..).map(StreamId));
        numbered
            .flat_map(|(stream, number)| {
                stream
                    .take_orphans()
                    .into_iter()
                    .map(move |gap| (number, gap))
            })
            .collect()
    }

    pub(super) fn place(&self, number: StreamId) -> Option<usize> {
        Some(usize::from(number.0.wrapping_sub(FIRST_STREAM))).filter(|&at| at < self.streams.len())
    }

    fn place_followed(&self, number: StreamId) -> Option<usize> {
        self.place(StreamId(
            number.0 ^ if self.is_demoted { CATCH_UP } else { 0 },
        ))
    }

    pub(super) fn kept(&self, sequence: u64) -> Option<(u64, &[u8])> {
        let feed = self.streams[0].feed();
        let sequence = sequence.max(feed.tail());
        feed.keeps(sequence)
            .then(|| (sequence, feed.payload(sequence)))
    }

    pub(super) fn dealing(&self) -> Dealing {
        self.dealing
    }

    pub(super) fn held_up_by(&self) -> Option<Rank> {
        self.streams.iter().find_map(Stream::held_up_by)
    }

    /// Whether `rank`, which reports `arrived` frames, has acknowledged all that this host sent it
    /// and waits for its next turn. False if it gets frames by several streams.
    pub(super) fn waits_for_turn(&self, rank: Rank, arrived: u64) -> bool {
        matches!(&self.streams[..], [stream] if stream.turn_of(rank).is_some_and(|next| next <= arrived))
    }

    /// Returns the child that takes frames more slowly than this host could send.
    pub(super) fn blocked_by(&self, now: Instant) -> Option<Rank> {
        self.streams
            .iter()
            .find_map(|stream| stream.blocked_by(now))
    }

    /// Returns the child from which no frame was ever received.
    pub(super) fn mute(&self, now: Instant) -> Option<Rank> {
        self.streams.iter().find_map(|stream| stream.mute(now))
    }

    pub(super) fn is_full(&self) -> bool {
        self.streams
            .iter()
            .any(|stream| stream.feed().head() >= stream.feed().limit())
    }

    pub(super) fn is_settled(&self) -> bool {
        self.streams.iter().all(Stream::is_settled)
    }

    pub(super) fn write_again(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        to: MacAddr,
        frame: &LackingFrame,
    ) -> usize {
        let LackingFrame {
            at,
            sequence,
            payload,
            ending,
        } = frame;
        self.streams[*at].write_again(now, buffer, to, (*sequence, payload, *ending))
    }

    pub(in crate::session) fn retire(&mut self) {
        self.streams.iter_mut().for_each(Stream::retire);
    }

    pub(in crate::session) fn is_level(&self) -> bool {
        self.streams.iter().all(Stream::is_level)
    }

    pub(in crate::session) fn frames_everywhere(&self) -> u64 {
        self.streams.iter().map(Stream::everywhere).sum()
    }

    pub(in crate::session) fn cursors(&self) -> Vec<(Rank, u64)> {
        self.streams.iter().flat_map(Stream::cursors).collect()
    }

    pub(in crate::session) fn lost(&self) -> Vec<(Rank, u64)> {
        self.streams.iter().flat_map(Stream::lost).collect()
    }

    fn reroute(&mut self, now: Instant, rank: Rank, view: &View) {
        let way = (view.via, view.segment_frames);
        let [stream] = &mut self.streams[..] else {
            return;
        };
        if std::mem::replace(&mut self.way, way) != way {
            let outlet = stream::outlet(rank, self.group_mac, view, &view.trees()[0]);
            stream.reroute(
                now,
                &outlet,
                stream::in_segments(&self.tuning, view, &self.identity),
            );
        }
    }

    pub(in crate::session) fn reshape(&mut self, now: Instant, rank: Rank, view: &View) {
        // The streams of blocks are gone once this host is demoted: the root serves it alone in any
        // case.
        let stays = self.is_demoted && view.via.is_in_blocks();
        if stays || view.members[rank.index()].standing == MemberRole::Demoted {
            self.demote(now, view);
        } else {
            self.step_back(now);
            self.reroute(now, rank, view);
            self.follow_trees(now, rank, view);
        }
        self.set_epoch(view.epoch);
    }

    fn demote(&mut self, now: Instant, view: &View) {
        if std::mem::replace(&mut self.is_demoted, true) {
            return;
        }
        let number = StreamId(FIRST_STREAM | CATCH_UP);
        if let [stream] = &mut self.streams[..] {
            stream.set_parent(view.peer(Rank::ROOT));
            return stream.set_number(now, number);
        }
        // Frames that came out of order come again: the root serves one stream, with all frames in
        // order.
        let first = self
            .dealing
            .in_whole(self.turn, self.streams[self.turn].position());
        let identity = Identity {
            stream: number,
            ..self.identity.clone()
        };
        self.streams = vec![stream::received_alone(identity, view, first, &self.tuning)];
        (self.dealing, self.turns, self.fillers) = (Dealing::single(), vec![0], Vec::new());
        self.start_over();
    }

    /// Continues on the main stream, because the view that demoted this host was forged.
    fn step_back(&mut self, now: Instant) {
        if std::mem::take(&mut self.is_demoted) {
            for (stream, number) in self.streams.iter_mut().zip(FIRST_STREAM..) {
                stream.set_number(now, StreamId(number));
            }
        }
    }

    fn follow_trees(&mut self, now: Instant, rank: Rank, view: &View) {
        for (stream, tree) in self.streams.iter_mut().zip(view.trees()) {
            if let Some(parent) = tree.parent(rank) {
                stream.set_parent(view.peer(parent));
            }
            // New children first: frames kept here for a dead child may be needed by its children.
            tree.children(rank)
                .into_iter()
                .for_each(|child| stream.graft_child(now, view.peer(child)));
            let served =
                |reader: &Rank| tree.parent(*reader) == Some(rank) || planted!("sent-to-the-dead");
            let readers = stream.cursors().into_iter().map(|(reader, _)| reader);
            let gone: Vec<Rank> = readers.filter(|reader| !served(reader)).collect();
            gone.into_iter()
                .for_each(|reader| stream.remove_reader(now, reader));
        }
    }
}

impl Part for Blocks {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        self.take_frame(now, frame);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.settle_consumed();
        self.streams
            .iter_mut()
            .for_each(|stream| stream.handle_timeout(now));
    }

    /// Writes acknowledgements of all streams first, then the current block.
    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        if let Some(length) = self.poll_ack(now, buffer) {
            return Some(SplitFrame::whole(length));
        }
        if self.streams.len() > 1 {
            // The unfinished block goes first, so that blocks are completed one after the other;
            // then the block of the rank with the longest path: in the binomial tree the high ranks
            // are below all others.
            let streams = &self.streams;
            self.turns.sort_by_cached_key(|&at| {
                let (halfway, next) = streams[at].sending();
                (!halfway, next, Reverse(at))
            });
        }
        for &at in &self.turns {
            let frame = self.streams[at].poll_transmit_split(now, buffer);
            if frame.is_some() {
                return frame;
            }
            // Two blocks on the link at once would only delay each other, unless they go different
            // ways.
            if self.way.0.is_scattered() && self.streams[at].is_pausing() {
                return None;
            }
        }
        None
    }

    /// # Panics
    /// If `kept` belongs to no stream that this host sends, or is no longer kept.
    fn payload(&self, kept: Kept) -> &[u8] {
        let at = self
            .place_followed(StreamId(kept.stream))
            .expect("what has been written is of one of these");
        self.streams[at].payload(kept)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        self.streams
            .iter()
            .filter_map(|stream| stream.poll_timeout(now))
            .min()
    }

    fn is_urgent(&self) -> bool {
        self.streams.iter().any(Stream::is_urgent)
    }
}
