//! A stream: a sequence of frames from one host to many, at its sender, a relay or a receiver.
//!
//! A [`Stream`] is a [`Feed`] with a writer (the application at the origin, an intake elsewhere)
//! and readers: children served by unicast (*lanes*), receivers of a broadcast (*cast*), receivers
//! that this host only repairs (*repair children*), the local application. The parts that are
//! present make the role.

mod application;
mod boundaries;
mod cast;
mod intake;
mod lane;
mod lanes;
mod readers;
mod terms;

pub use application::Run;
pub use readers::LostRange;
pub use terms::{Ending, Flight, Memory, Outlet, StreamStats};

use crate::arq::stamp::{Stamp, Stamps};
use crate::feed::{Feed, ReaderId};
use crate::machine::{AuditError, Deadline, Kept, Part, SplitFrame, Timer};
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{
    Ack, Flags, Frame, Header, Identity, Kind, MacAddr, Parity, Peer, Rank, Reject, StreamId,
};
use boundaries::Boundaries;
use cast::{Cast, RepairChildren};
use intake::{AckState, Intake, Received, Upstream};
use lanes::Lanes;
use readers::{
    AckContext, BackPressure, Departure, LostRanges, Outgoing, ReaderState, Readers, Trouble,
};
use std::time::Duration;

/// Length from which a message is bulk: the number of frames per wake-up matters more than the
/// latency of each.
const BULK_FRAMES: u64 = 64;

fn readers_of(outlet: &Outlet, feed: &mut Feed, tuning: &Tuning) -> Box<dyn Readers> {
    match outlet {
        Outlet::Lanes(children) => Box::new(Lanes::new(children, feed, tuning)),
        Outlet::Cast { group, listeners } => Box::new(Cast::new(*group, listeners, feed, tuning)),
        Outlet::RepairChildren(peers) => Box::new(RepairChildren::new(peers, feed, tuning)),
    }
}

/// One stream at one host: a feed with its writer and its readers.
#[derive(Clone, Debug)]
pub struct Stream {
    identity: Identity,
    epoch: u8,
    tuning: Tuning,
    feed: Feed,
    boundaries: Boundaries,
    consumed: u64,
    stamps: Stamps,
    upstream: Upstream,
    intake: Option<Intake>,
    readers: Box<dyn Readers>,
    local: Option<ReaderId>,
    message_end: u64,
    orphans: LostRanges,
    crowding: BackPressure,
    stats: StreamStats,
}

impl Stream {
    /// Creates the origin of a stream whose frames carry up to `payload_bytes`.
    ///
    /// # Panics
    /// If [`Tuning::check`] finds a wrong number.
    pub fn origin(
        identity: Identity,
        payload_bytes: usize,
        outlet: &Outlet,
        tuning: Tuning,
    ) -> Stream {
        Stream::new(identity, payload_bytes, None, outlet, tuning)
    }

    /// Creates an origin that serves `child` alone from frame `first` on, in place of another
    /// stream number. It probes the child first. The next frame to push is always the feed's
    /// [`head`](Feed::head). If the child lacks frames below `first` it becomes an [`LostRange`].
    ///
    /// # Panics
    /// If [`Tuning::check`] finds a wrong number.
    pub fn origin_at(
        identity: Identity,
        payload_bytes: usize,
        first: u64,
        child: Peer,
        tuning: Tuning,
    ) -> Stream {
        let mut stream = Stream::new(
            identity,
            payload_bytes,
            None,
            &Outlet::Lanes(Vec::new()),
            tuning,
        );
        stream.feed.skip_to(first);
        stream.readers = Box::new(Lanes::alone(child, &mut stream.feed, &stream.tuning));
        stream
    }

    /// Creates a receiver that forwards the stream to `outlet` and to the local application.
    ///
    /// # Panics
    /// If [`Tuning::check`] finds a wrong number.
    pub fn receiver(
        identity: Identity,
        payload_bytes: usize,
        parent: Peer,
        outlet: &Outlet,
        tuning: Tuning,
    ) -> Stream {
        let mut stream = Stream::new(identity, payload_bytes, Some(parent), outlet, tuning);
        stream.intake = Some(Intake::new(&stream.identity, &stream.tuning));
        stream.local = stream.feed.add_reader(0);
        stream
    }

    fn new(
        identity: Identity,
        payload_bytes: usize,
        parent: Option<Peer>,
        outlet: &Outlet,
        tuning: Tuning,
    ) -> Stream {
        tuning.assert_valid();
        let mut feed = Feed::new(tuning.feed_frames_for(payload_bytes), payload_bytes);
        let readers = readers_of(outlet, &mut feed, &tuning);
        Stream {
            identity,
            epoch: 0,
            boundaries: Boundaries::new(tuning.feed.segment_frames.min(feed.slots() / 4)), // One goes, one comes.
            tuning,
            feed,
            consumed: 0,
            stamps: Stamps::default(),
            upstream: Upstream::new(parent),
            intake: None,
            readers,
            local: None,
            message_end: 0,
            orphans: LostRanges::default(),
            crowding: BackPressure::default(),
            stats: StreamStats::default(),
        }
    }

    /// Returns the counters of this stream.
    pub fn stats(&self) -> StreamStats {
        self.stats
    }

    #[doc(hidden)]
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Returns the longest payload of one frame, in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.feed.payload_bytes()
    }

    /// Makes a receiver begin at frame `first` and need nothing before it.
    ///
    /// # Panics
    /// If any frame has arrived.
    pub fn begin_at(&mut self, first: u64) {
        self.feed.skip_to(first);
    }

    /// Sets the view number that frames carry.
    pub fn set_epoch(&mut self, epoch: u8) {
        self.epoch = epoch;
    }

    fn add_boundary(&mut self, sequence: u64, report: bool) {
        self.boundaries.add(sequence, report);
        self.boundaries.forget_below(self.feed.tail());
    }

    fn ending(&self, sequence: u64) -> Ending {
        if self.feed.last() == Some(sequence) {
            Ending::Stream
        } else {
            self.boundaries.ending(sequence)
        }
    }

    /// Handles a reader that moved, or a stream whose turn may be nearer: the parent may have to be
    /// notified of new room.
    pub fn on_progress(&mut self, now: Instant) {
        self.consumed = self
            .consumed
            .max(self.readers.frontier().consumed.min(self.position()));
        let (standing, flushed) = (
            self.standing(),
            self.boundaries.reported_before(self.consumed),
        );
        if let Some(intake) = &mut self.intake {
            intake.on_progress(now, &self.feed, standing, flushed);
        }
    }

    /// Returns the frame below which every application here and behind has consumed; it may lag
    /// until a message ends.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    fn standing(&self) -> AckState {
        let (head, frontier) = (self.feed.head(), self.readers.frontier());
        let limit = self.feed.limit().min(frontier.limit).max(head);
        AckState {
            below: frontier.below.min(head),
            consumed: self.consumed.min(head),
            limit,
        }
    }

    /// Whether every remote reader has acknowledged everything pushed or received.
    pub fn is_settled(&self) -> bool {
        self.feed.is_complete()
            && self
                .cursors()
                .iter()
                .all(|&(_, cursor)| cursor == self.feed.head())
    }

    fn states(&self) -> impl Iterator<Item = ReaderState> {
        self.readers.states(&self.feed).into_iter()
    }

    /// Returns every remote reader's rank and cursor.
    pub fn cursors(&self) -> Vec<(Rank, u64)> {
        self.states()
            .map(|reader| (reader.rank, reader.cursor))
            .collect()
    }

    #[doc(hidden)]
    pub fn flights(&self) -> Vec<Flight> {
        self.states().filter_map(|reader| reader.flight).collect()
    }

    /// Stops serving the reader `rank` and frees what only it needed.
    pub fn remove_reader(&mut self, now: Instant, rank: Rank) {
        self.readers.remove(now, rank, &mut self.feed);
        self.orphans.note(rank, None);
        self.on_progress(now);
    }

    /// Serves a child that another host served until now, in the same way as this host's other
    /// children.
    pub fn graft_child(&mut self, now: Instant, child: Peer) {
        self.readers.graft(now, child, &mut self.feed, &self.tuning);
    }

    /// Returns the children that need freed frames, to be sent by
    /// [`write_again`](Stream::write_again), each with the newest range shown since the last call.
    #[doc(hidden)]
    pub fn take_orphans(&mut self) -> Vec<LostRange> {
        self.orphans.take()
    }

    /// Returns the remote reader that holds up this stream: one that keeps the feed full, else the
    /// one whose reply has been due longest (meaningful only after a while without progress).
    pub fn held_up_by(&self) -> Option<Rank> {
        // The time of the blame does not matter.
        self.readers
            .blamed(Instant::START, &self.feed, Trouble::HeldUp)
    }

    /// Returns a child that has been probed repeatedly and from which no frame was ever received;
    /// `None` for a cast, which all receive.
    pub fn mute(&self, now: Instant) -> Option<Rank> {
        self.readers.blamed(now, &self.feed, Trouble::Mute)
    }

    /// Returns the next frame for a child that has acknowledged everything sent and has room for
    /// more, so that it waits for its turn here. `None` for a listener of a cast.
    pub fn turn_of(&self, child: Rank) -> Option<u64> {
        self.states().find(|reader| reader.rank == child)?.turn
    }

    /// Returns the remote reader that keeps the feed full; `None` while this host's own link is
    /// the limit.
    pub fn blocked_by(&self, now: Instant) -> Option<Rank> {
        self.crowding.by(now, &self.feed, self.readers.as_ref())
    }

    /// Takes frames from another parent from now on, and acknowledges to it.
    pub fn set_parent(&mut self, parent: Peer) {
        if self.upstream.set_parent(parent)
            && let Some(intake) = &mut self.intake
        {
            intake.forget_parent();
        }
    }

    /// Sets the origin, whose data frames are taken beside the parent's.
    pub fn set_origin(&mut self, origin: Peer) {
        self.upstream.set_origin(origin);
    }

    /// Sets the stream's last frame: later frames are rejected, and so is any other frame marked as
    /// the last.
    pub fn expect_last(&mut self, sequence: u64) {
        self.feed.expect_last(sequence);
    }

    /// Returns whether a child is in the middle of a segment, and the lowest frame not yet sent to
    /// every child.
    pub fn sending(&self) -> (bool, u64) {
        let sending = self.readers.sending(&self.feed, &self.boundaries);
        (sending.halfway, sending.next)
    }

    /// Whether a child is in the middle of a segment and waits for its acknowledgement to go on.
    pub fn is_pausing(&self) -> bool {
        self.readers.sending(&self.feed, &self.boundaries).pausing
    }

    /// Stops sending new frames and repairs losses by unicast, until [`reroute`](Stream::reroute)
    /// gives new readers.
    pub fn retire(&mut self) {
        self.readers.retire();
    }

    /// Whether every reader, and every host behind it, has received everything sent.
    pub fn is_level(&self) -> bool {
        self.everywhere() == self.sending().1.min(self.feed.head())
    }

    /// Returns one past the last frame that all readers and every host behind them have received.
    /// The feed may keep more.
    pub fn everywhere(&self) -> u64 {
        self.readers.everywhere(&self.feed)
    }

    /// Returns the number of lost frames of a cast on the way to each listener, as far as known.
    pub fn lost(&self) -> Vec<(Rank, u64)> {
        self.states()
            .filter_map(|reader| Some((reader.rank, reader.lost?)))
            .collect()
    }

    /// Continues with the readers of `outlet` and other tuning. Everything in the feed is kept
    /// until each reader has reported its cursor; segments are counted anew. The feed's own
    /// settings in `tuning` are ignored.
    ///
    /// # Panics
    /// If [`Tuning::check`] finds a wrong number.
    pub fn reroute(&mut self, now: Instant, outlet: &Outlet, tuning: Tuning) {
        tuning.assert_valid();
        self.boundaries
            .set_segment(tuning.feed.segment_frames.min(self.feed.slots() / 4));
        self.tuning = tuning;
        let tail = self.feed.tail();
        // Until the new readers stand here nothing is freed.
        let held = self
            .feed
            .add_reader(tail)
            .expect("the tail can always be read");
        self.cursors()
            .into_iter()
            .for_each(|(rank, _)| self.remove_reader(now, rank));
        self.readers = readers_of(&outlet.without_peers(), &mut self.feed, &self.tuning);
        for &peer in outlet.peers() {
            self.graft_child(now, peer);
        }
        self.feed.remove_reader(held);
        if let Some(intake) = &mut self.intake {
            *intake = Intake::new(&self.identity, &self.tuning);
        }
    }

    /// Continues a receiver under another stream number, served alone by an
    /// [`origin_at`](Stream::origin_at). Feed, cursor and the application's position stay; its
    /// readers are removed.
    pub fn set_number(&mut self, now: Instant, number: StreamId) {
        self.identity.stream = number;
        self.cursors()
            .into_iter()
            .for_each(|(rank, _)| self.remove_reader(now, rank));
        self.tuning = self.tuning.alone();
        if let Some(intake) = &mut self.intake {
            *intake = Intake::new(&self.identity, &self.tuning);
        }
    }

    /// Writes an acknowledgement into `buffer` if one is due.
    pub fn poll_ack(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let to = if planted!("reply-to-the-wrong-address") {
            self.identity.mac
        } else {
            self.upstream.parent?.mac
        };
        let more = self.boundaries.expect_more(&self.feed);
        let ready = self
            .intake
            .as_mut()?
            .is_ready(now, &self.feed, more, &mut self.stats);
        let standing = ready.then(|| self.standing())?;
        let body = self.identity.payload_of(buffer);
        let (length, echo) = self
            .intake
            .as_mut()?
            .acknowledge(now, &self.feed, standing, body);
        self.stats.acks_sent += 1;
        Some(self.identity.seal(
            buffer,
            to,
            &self.header(Kind::ACK, Flags::default(), self.feed.head(), echo),
            length,
        ))
    }

    fn write(
        &mut self,
        buffer: &mut [u8],
        Departure {
            outgoing,
            to,
            stamp,
        }: Departure,
    ) -> SplitFrame {
        SplitFrame::whole(match outgoing {
            Outgoing::Heartbeat {
                highest,
                designated,
            } => {
                self.stats.heartbeats_sent += 1;
                let header = self.header(Kind::HEARTBEAT, Flags::default(), highest, stamp);
                let rank = designated.map(|rank| rank.0.to_be_bytes());
                self.identity.write(
                    buffer,
                    to,
                    &header,
                    rank.as_ref().map_or(&[][..], |rank| &rank[..]),
                )
            }
            Outgoing::Data {
                sequence,
                again,
                urgent,
            } => {
                *(if again {
                    &mut self.stats.data_resent
                } else {
                    &mut self.stats.data_sent
                }) += 1;
                let flags = Outgoing::flags(sequence, again, urgent, &self.feed, &self.boundaries);
                let header = self.header(Kind::DATA, flags, sequence, stamp);
                let content = self.feed.content(&header, &self.identity.guard);
                let kept = Kept {
                    stream: header.stream.0,
                    sequence,
                    bytes: self.feed.payload(sequence).len(),
                };
                let written_bytes = self
                    .identity
                    .seal_around(buffer, to, &header, kept.bytes, content)
                    - kept.bytes;
                return SplitFrame {
                    written_bytes,
                    kept: Some(kept),
                };
            }
            Outgoing::Parity { parity, urgent } => {
                self.write_parity(buffer, to, parity, urgent, stamp)
            }
        })
    }

    fn write_parity(
        &mut self,
        buffer: &mut [u8],
        to: MacAddr,
        parity: Parity,
        urgent: bool,
        stamp: Stamp,
    ) -> usize {
        self.stats.data_resent += 1;
        self.stats.parity_sent += 1;
        let flags = if urgent {
            parity.flags().with(Flags::ACK_NOW)
        } else {
            parity.flags()
        };
        let (header, bytes) = (
            self.header(Kind::PARITY, flags, parity.sequence(), stamp),
            self.payload_bytes(),
        );
        self.feed.write_parity(
            &parity.frames(),
            parity.index(),
            &mut self.identity.payload_of(buffer)[..bytes],
        );
        self.identity.seal(buffer, to, &header, bytes)
    }

    /// Writes a frame (number, payload, boundary) for `to`, which lacks it, whether the feed has it
    /// or not; returns its length.
    #[doc(hidden)]
    pub fn write_again(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        to: MacAddr,
        frame: (u64, &[u8], Ending),
    ) -> usize {
        let (sequence, payload, ending) = frame;
        self.stats.data_resent += 1;
        let stamp = self.stamps.draw(now);
        let header = self.header(
            Kind::DATA,
            ending.flags().with(Flags::RESENT),
            sequence,
            stamp,
        );
        self.identity.write(buffer, to, &header, payload)
    }

    fn header(&self, kind: Kind, flags: Flags, sequence: u64, stamp: Stamp) -> Header {
        Header {
            epoch: self.epoch,
            flags,
            sequence,
            stamp: stamp.0,
            ..self.identity.header(kind)
        }
    }

    fn on_data(&mut self, now: Instant, frame: &Frame<'_>) {
        let from_parent = self.upstream.is_parent(frame);
        let known = from_parent || self.upstream.is_origin(frame);
        let Some(intake) = self.intake.as_mut().filter(|_| known) else {
            return self.stats.non_members += 1;
        };
        let (header, payload) = (&frame.header, frame.payload);
        let offset = || {
            header
                .sequence
                .saturating_sub(self.boundaries.before(header.sequence))
        };
        let pushed = self
            .tuning
            .cast
            .push_frames
            .is_some_and(|frames| offset() < frames);
        let received = Received {
            header,
            payload,
            from_parent,
            pushed,
        };
        let late = header.sequence < self.feed.highest();
        if intake.on_data(now, received, &mut self.feed, &mut self.stats) {
            self.feed.keep_content(header, frame.content);
            if header.flags.has(Flags::FLUSH) {
                self.add_boundary(header.sequence, header.flags.has(Flags::REPORT));
            }
            self.readers
                .on_data(now, header.sequence, late, &mut self.feed, &self.boundaries);
            self.recover(now, header.sequence);
        }
    }

    fn on_parity(&mut self, now: Instant, frame: &Frame<'_>) {
        let from_parent = self.upstream.is_parent(frame);
        let known = from_parent || self.upstream.is_origin(frame);
        let Some(intake) = self.intake.as_mut().filter(|_| known) else {
            return self.stats.non_members += 1;
        };
        let parity =
            Parity::of(&frame.header).filter(|parity| self.boundaries.has_none(parity.frames()));
        let Some(parity) = parity else {
            return self.stats.malformed += 1;
        };
        let received = Received {
            header: &frame.header,
            payload: frame.payload,
            from_parent,
            pushed: false,
        };
        if intake.on_parity(now, received, parity, &mut self.feed, &mut self.stats) {
            self.recover(now, parity.frames().start);
        }
    }

    fn recover(&mut self, now: Instant, sequence: u64) {
        for recovered in self.feed.recover(sequence) {
            self.stats.data_received += 1;
            self.stats.data_repaired += 1;
            self.stats.data_recovered += 1;
            self.readers
                .on_data(now, recovered, true, &mut self.feed, &self.boundaries);
        }
    }

    fn on_heartbeat(&mut self, now: Instant, frame: &Frame<'_>) {
        match &mut self.intake {
            Some(intake) if self.upstream.is_parent(frame) => {
                self.stats.heartbeats_received += 1;
                intake.on_heartbeat(now, &frame.header, frame.payload);
            }
            // In a cast the origin's frames also reach receivers that acknowledge to another
            // receiver.
            Some(_) if self.upstream.is_origin(frame) => {}
            _ => self.stats.non_members += 1,
        }
    }

    fn on_ack(&mut self, now: Instant, frame: &Frame<'_>) -> Option<Duration> {
        let Some(ack) = Ack::parse(frame) else {
            self.stats.malformed += 1;
            return None;
        };
        let from = Peer {
            rank: frame.header.rank,
            mac: frame.source,
        };
        let (newest, feed, boundaries) = (self.stamps.newest(), &mut self.feed, &self.boundaries);
        let mut round_trip = None;
        let found = self.readers.on_ack(AckContext {
            now,
            from,
            ack: &ack,
            newest,
            feed,
            boundaries,
            round_trip: &mut round_trip,
        });
        if let Some(gap) = found.gap().filter(|_| !planted!("orphan-not-told")) {
            self.orphans.note(from.rank, gap);
        }
        *found.counter(&mut self.stats) += 1;
        self.on_progress(now);
        round_trip
    }

    /// Takes a frame like [`handle_frame`](Part::handle_frame). Returns the round trip to its
    /// sender that a new acknowledgement of this host's frames shows, without the time for which it
    /// was delayed.
    pub fn take_frame(&mut self, now: Instant, frame: &Frame<'_>) -> Option<Duration> {
        if frame.header.session != self.identity.session {
            self.stats.non_members += 1;
            return None;
        }
        if frame.header.stream != self.identity.stream {
            return None;
        }
        match frame.header.kind {
            Kind::DATA => self.on_data(now, frame),
            Kind::PARITY => self.on_parity(now, frame),
            Kind::HEARTBEAT => self.on_heartbeat(now, frame),
            Kind::ACK => return self.on_ack(now, frame),
            _ => {}
        }
        None
    }

    #[doc(hidden)]
    pub fn memory(&self) -> Memory {
        let stream_bytes = size_of::<Stream>() + self.boundaries.bytes() + self.orphans.bytes();
        Memory {
            stream_bytes,
            ..Memory::of_feed(&self.feed)
        } + self.readers.memory()
    }

    /// Recomputes the feed's counts.
    ///
    /// # Errors
    /// The first count that differs.
    #[doc(hidden)]
    pub fn audit(&self) -> Result<(), AuditError> {
        self.feed.audit()
    }
}

impl Part for Stream {
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        self.take_frame(now, frame);
    }

    fn handle_reject(&mut self, reject: Reject) {
        *(if reject.is_non_member() {
            &mut self.stats.non_members
        } else {
            &mut self.stats.malformed
        }) += 1;
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(intake) = &mut self.intake {
            intake.on_timeout(now, &self.feed, &mut self.stats);
        }
        self.readers.on_timeout(now, &self.feed);
    }

    fn poll_transmit_split(&mut self, now: Instant, buffer: &mut [u8]) -> Option<SplitFrame> {
        if let Some(length) = self.poll_ack(now, buffer) {
            return Some(SplitFrame::whole(length));
        }
        let departure =
            self.readers
                .poll_transmit(now, &self.feed, &self.boundaries, &mut self.stamps);
        if departure.is_none() {
            self.crowding.spent(now);
        }
        departure.map(|departure| self.write(buffer, departure))
    }

    fn payload(&self, kept: Kept) -> &[u8] {
        self.feed.payload(kept.sequence)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let ack = self
            .intake
            .as_ref()
            .and_then(Intake::due)
            .map(|at| Deadline {
                at,
                why: Timer::ACK,
            });
        [
            ack,
            self.readers.poll_timeout(now, &self.feed, &self.boundaries),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn is_urgent(&self) -> bool {
        let (head, began) = (self.feed.head(), self.boundaries.before(self.feed.head()));
        let ends = || began > 0 && self.sending().1 >= head && self.consumed < head;
        let is_near_end = || head < self.message_end && self.message_end - head < BULK_FRAMES;
        !self.feed.is_complete() && (head - began < BULK_FRAMES || is_near_end() || ends())
    }
}
