//! The streams of a session at one host: one, or one for each block where a message travels in blocks.
//!
//! In blocks ([`Via::is_in_blocks`]) frames are dealt to the streams in turn, a block of consecutive frames to each, and every
//! stream has a tree of its own. The reader takes them back in the same turn. A message ends in all streams at once: in the one
//! that carries its last frame by that frame, in the others by an empty one; dealing then starts over with the first stream.

use super::trees::{Tree, trees};
use super::tuned::tuned;
use super::view::View;
use ethbcast_planning::plan::Via;
use ethbcast_transport::stream::{Ending, Memory, Outlet, Stream, StreamStats};
use ethbcast_transport::wire::Frame;
use ethbcast_transport::wire::{Identity, Peer};
use ethbcast_transport::{AuditError, Deadline, Instant, MacAddr, Part, Tuning};
use std::cmp::Reverse;

/// The number of a session's first stream; those of further blocks follow.
const FIRST_STREAM: u16 = 1;

/// What a session's streams have in common at one host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) session: u32,
    pub(super) rank: u16,
    pub(super) mac: MacAddr,
    pub(super) group_mac: MacAddr,
    pub(super) ether_type: u16,
}

/// All streams of a session at one host.
#[derive(Debug)]
pub struct Streams {
    streams: Vec<Stream>,
    /// Frames dealt to one stream before the next has its turn.
    block_frames: u64,
    /// The stream whose turn it is, and how many frames of its block are left.
    turn: usize,
    left: u64,
    /// Streams whose empty end of the message just read has not come by yet.
    fillers: Vec<usize>,
    /// The streams in the order in which they are asked for data.
    turns: Vec<usize>,
}

impl Streams {
    /// The streams of `view` at the host in `place`; the root's if its rank is zero.
    pub(super) fn new(place: Place, view: &View, tuning: &Tuning) -> Streams {
        let mut tuning = tuned(tuning, view, place.rank);
        tuning.feed.segment_frames = u64::from(view.segment_frames.max(1));
        let trees = trees(view);
        if view.via.is_in_blocks() {
            tuning.feed.frames = share_frames(&tuning, trees.len());
        }
        // The view's number and nothing else: who deals and who takes must agree on it, whatever their feeds are.
        let block_frames = if view.via.is_in_blocks() { u64::from(view.segment_frames.max(1)) } else { u64::MAX };
        let streams = trees.iter().zip(FIRST_STREAM..).map(|(tree, number)| open(place, view, tree, number, &tuning));
        let turns = (0..trees.len()).collect();
        let mut streams = Streams { streams: streams.collect(), block_frames, turn: 0, left: block_frames, fillers: vec![], turns };
        streams.set_epoch(view.epoch);
        streams
    }

    /// The longest payload of one frame, in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.streams[0].payload_bytes()
    }

    /// Frames that have arrived in order and wait for the application.
    pub fn backlog_frames(&self) -> u64 {
        self.streams.iter().map(Stream::backlog_frames).sum()
    }

    /// Frames that were pushed or have arrived in order.
    pub fn frames(&self) -> u64 {
        self.streams.iter().map(|stream| stream.feed().head()).sum()
    }

    /// Frames there is room for, in all feeds together.
    pub fn slots(&self) -> u64 {
        self.streams.iter().map(|stream| stream.feed().slots()).sum()
    }

    /// What has been sent and received so far.
    pub fn stats(&self) -> StreamStats {
        self.streams.iter().map(Stream::stats).fold(StreamStats::default(), |sum, stats| sum + stats)
    }

    /// The bytes of all streams' structures.
    pub fn memory(&self) -> Memory {
        self.streams.iter().map(Stream::memory).fold(Memory::default(), |sum, one| sum + one)
    }

    /// Whether every remote reader has acknowledged the whole stream.
    pub fn is_settled(&self) -> bool {
        self.streams.iter().all(Stream::is_settled)
    }

    /// Whether every application has passed all that was pushed; certain to come true after the end of a message.
    pub fn is_passed(&self) -> bool {
        self.streams.iter().all(|stream| stream.passed() == stream.feed().head())
    }

    /// Whether somebody waits for each frame.
    pub(super) fn is_urgent(&self) -> bool {
        self.streams.iter().any(Stream::is_urgent)
    }

    /// Recomputes the counts of every feed; a sentence that names the first disagreement.
    ///
    /// # Errors
    /// That sentence.
    pub fn audit(&self) -> Result<(), AuditError> {
        self.streams.iter().try_for_each(Stream::audit)
    }

    pub(super) fn set_epoch(&mut self, epoch: u32) {
        self.streams.iter_mut().for_each(|stream| stream.set_epoch(epoch as u8));
    }

    /// Whether the next frame can be pushed, whatever it ends.
    pub(super) fn has_room(&self) -> bool {
        let room = |stream: &Stream| stream.feed().head() < stream.feed().limit();
        self.streams.iter().all(room)
    }

    /// Whether the end of the stream has been pushed or has arrived.
    pub(super) fn has_end(&self) -> bool {
        self.streams[self.turn].feed().last().is_some()
    }

    /// Appends a frame at the root; false, and nothing taken, while there is no room.
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
        assert!(self.streams[self.turn].push(payload, ending), "there was room");
        self.left -= 1;
        match ending {
            Ending::None if self.left > 0 => {}
            Ending::None => self.next_turn(),
            Ending::Message | Ending::Quiet => {
                let others = (0..self.streams.len()).filter(|&at| at != self.turn);
                others.for_each(|at| assert!(self.streams[at].push(&[], ending), "there was room in all"));
                self.start_over();
            }
            // Whoever reads finds the trailer where its turn is; the others end alike, so that all are complete.
            Ending::Stream => {
                let others = (0..self.streams.len()).filter(|&at| at != self.turn);
                others.for_each(|at| assert!(self.streams[at].push(payload, ending), "there was room in all"));
            }
        }
        true
    }

    fn next_turn(&mut self) {
        self.turn = (self.turn + 1) % self.streams.len();
        self.left = self.block_frames;
    }

    fn start_over(&mut self) {
        self.turn = 0;
        self.left = self.block_frames;
    }

    /// The next frame for the application.
    pub(super) fn peek(&self) -> Option<(&[u8], Ending)> {
        if self.fillers.is_empty() { self.streams[self.turn].peek() } else { None }
    }

    /// The application is done with the frame that [`peek`](Streams::peek) showed; what ended with it.
    pub(super) fn consume(&mut self, now: Instant) -> Ending {
        let ending = self.streams[self.turn].consume(now);
        self.left -= 1;
        if ending != Ending::None {
            self.fillers = (0..self.streams.len()).filter(|&at| at != self.turn).collect();
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

    pub(super) fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        let at = usize::from(frame.header.stream.wrapping_sub(FIRST_STREAM));
        let Some(stream) = self.streams.get_mut(at) else { return };
        stream.handle_frame(now, frame);
        if !self.fillers.is_empty() {
            self.skip_fillers(now);
        }
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.streams.iter_mut().for_each(|stream| stream.handle_timeout(now));
    }

    /// Writes the next frame: acknowledgements of all streams first, then the block that is on its way.
    pub(super) fn poll(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        if let Some(length) = self.streams.iter_mut().find_map(|stream| stream.poll_ack(now, buffer)) {
            return Some(length);
        }
        if self.streams.len() > 1 {
            // The block that is halfway first, so that one after the other is whole; then that of the rank with the longest way
            // to go: down the binomial tree the high ranks hang below all others.
            let streams = &self.streams;
            self.turns.sort_by_cached_key(|&at| {
                let (halfway, next) = streams[at].sending();
                (!halfway, next, Reverse(at))
            });
        }
        for &at in &self.turns {
            if let Some(length) = self.streams[at].poll_data(now, buffer) {
                return Some(length);
            }
            // Who shared the link with a block would only delay both.
            if self.streams[at].is_pausing() {
                return None;
            }
        }
        None
    }

    pub(super) fn deadline(&self, now: Instant) -> Option<Deadline> {
        self.streams.iter().filter_map(|stream| stream.poll_timeout(now)).min()
    }

    pub(super) fn take_orphans(&mut self) -> Vec<u16> {
        self.streams.iter_mut().flat_map(Stream::take_orphans).collect()
    }

    /// Brings parents and children in line with a new view in which ranks have gone.
    pub(super) fn reshape(&mut self, now: Instant, rank: u16, view: &View) {
        for (stream, tree) in self.streams.iter_mut().zip(trees(view)) {
            if let Some(parent) = tree.parent(rank) {
                stream.set_parent(peer(view, parent));
            }
            // New children first: what a dead child was keeping here is what its own children may still need.
            tree.children(rank).into_iter().for_each(|child| stream.graft_child(now, peer(view, child)));
            let gone: Vec<u16> = stream
                .cursors()
                .into_iter()
                .map(|(reader, _)| reader)
                .filter(|&reader| tree.parent(reader) != Some(rank))
                .collect();
            gone.into_iter().for_each(|reader| stream.remove_reader(now, reader));
        }
        self.set_epoch(view.epoch);
    }
}

/// The slots of each feed if all of so many streams together are to take the memory of one.
fn share_frames(tuning: &Tuning, streams: usize) -> u64 {
    let share = (tuning.feed.frames / streams as u64).max(64);
    1 << share.ilog2()
}

/// The longest block the root deals: what a relay can hold whole, in a feed like the root's own.
pub(super) fn most_block_frames(tuning: &Tuning, streams: usize) -> u64 {
    share_frames(tuning, streams) / 4
}

fn peer(view: &View, rank: u16) -> Peer {
    Peer { rank, mac: view.members[usize::from(rank)].mac }
}

fn open(place: Place, view: &View, tree: &Tree<'_>, number: u16, tuning: &Tuning) -> Stream {
    let Place { session, rank, mac, group_mac, ether_type } = place;
    let identity = Identity { session, stream: number, rank, mac, ether_type };
    let children: Vec<Peer> = tree.children(rank).into_iter().map(|child| peer(view, child)).collect();
    let outlet = match view.via {
        Via::Cast if rank == 0 => Outlet::Cast { group: group_mac, listeners: children },
        Via::Cast => Outlet::RepairChildren(children),
        _ => Outlet::Lanes(children),
    };
    let payload_bytes = usize::from(view.payload_bytes);
    match tree.parent(rank) {
        Some(parent) => Stream::receiver(identity, payload_bytes, peer(view, parent), &outlet, tuning.clone()),
        None => Stream::origin(identity, payload_bytes, &outlet, tuning.clone()),
    }
}
