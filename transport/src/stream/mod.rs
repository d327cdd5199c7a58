//! One ordered sequence of frames from one origin, through one host: at the root, at a relay, or at a leaf.
//!
//! A [`Stream`] is a [`Feed`] with what fills it (the application at the origin, an intake elsewhere) and what reads
//! it: lanes to children, the cast, repair children, the local application. A role is just which parts are there.

mod application;
mod boundaries;
mod cast;
mod crowding;
mod intake;
mod lane;
mod lanes;
mod memory;
mod origins;
mod orphan;
mod outgoing;
mod parity;
mod part;
mod readers;
mod rerouting;
mod stats;
mod terms;
mod transmissions;
mod upstream;

pub use application::Run;
pub use memory::Memory;
pub use orphan::Orphan;
pub use stats::StreamStats;
pub use terms::{Ending, Flight, Outlet};

use crate::arq::stamp::{Stamp, Stamps};
use crate::audit::AuditError;
use crate::feed::{Feed, ReaderId};
use crate::split_frame::{Kept, SplitFrame};
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, Flags, Frame, Header, Identity, Kind, MacAddr, OVERHEAD_BYTES, Peer, Rank};
use boundaries::Boundaries;
use cast::{Cast, RepairChildren};
use crowding::Crowding;
use intake::{Intake, Received, Standing};
use lanes::Lanes;
use orphan::Orphans;
use outgoing::{Departure, Outgoing};
use readers::Readers;
use upstream::Upstream;

/// Returns those whom `outlet` names, with nothing sent to them yet.
fn readers_of(outlet: &Outlet, feed: &mut Feed, tuning: &Tuning) -> Box<dyn Readers> {
    match outlet {
        Outlet::Lanes(children) => Box::new(Lanes::new(children, feed, tuning)),
        Outlet::Cast { group, listeners } => Box::new(Cast::new(*group, listeners, feed, tuning)),
        Outlet::RepairChildren(peers) => Box::new(RepairChildren::new(peers, feed, tuning)),
    }
}

/// One stream at one host.
#[derive(Clone, Debug)]
pub struct Stream {
    identity: Identity,
    /// The low bits of the view number, for the header.
    epoch: u8,
    tuning: Tuning,
    feed: Feed,
    boundaries: Boundaries,
    /// What every application here and behind is known to have consumed.
    consumed: u64,
    stamps: Stamps,
    upstream: Upstream,
    intake: Option<Intake>,
    readers: Box<dyn Readers>,
    local: Option<ReaderId>,
    /// Where the application knows that the message it reads ends.
    message_end: u64,
    orphans: Orphans,
    crowding: Crowding,
    stats: StreamStats,
}

impl Stream {
    /// The origin of a stream whose frames carry up to `payload_bytes`.
    ///
    /// # Panics
    /// If [`Tuning::check`] finds a wrong number.
    pub fn origin(identity: Identity, payload_bytes: usize, outlet: &Outlet, tuning: Tuning) -> Stream {
        Stream::new(identity, payload_bytes, None, outlet, tuning)
    }

    /// An origin that serves `child` alone, from frame `first` on, as another stream did under another number so far.
    /// It asks the child first where it stands. To be pushed is always the feed's [`head`](Feed::head). What the child
    /// lacks below `first` makes it an [`Orphan`].
    ///
    /// # Panics
    /// If [`Tuning::check`] finds a wrong number.
    pub fn origin_at(identity: Identity, payload_bytes: usize, first: u64, child: Peer, tuning: Tuning) -> Stream {
        let mut stream = Stream::new(identity, payload_bytes, None, &Outlet::Lanes(Vec::new()), tuning);
        stream.feed.skip_to(first);
        stream.readers = Box::new(Lanes::alone(child, &mut stream.feed, &stream.tuning));
        stream
    }

    /// A receiver of a stream, which hands it on to `outlet` and to the local application.
    ///
    /// # Panics
    /// If [`Tuning::check`] finds a wrong number.
    pub fn receiver(identity: Identity, payload_bytes: usize, parent: Peer, outlet: &Outlet, tuning: Tuning) -> Stream {
        let mut stream = Stream::new(identity, payload_bytes, Some(parent), outlet, tuning);
        stream.intake = Some(Intake::new(identity, &stream.tuning));
        stream.local = stream.feed.add_reader(0);
        stream
    }

    fn new(identity: Identity, payload_bytes: usize, parent: Option<Peer>, outlet: &Outlet, tuning: Tuning) -> Stream {
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
            orphans: Orphans::default(),
            crowding: Crowding::default(),
            stats: StreamStats::default(),
        }
    }

    /// What has been sent and received so far.
    pub fn stats(&self) -> StreamStats {
        self.stats
    }

    /// The buffer behind the stream.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// The longest payload of one frame, in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.feed.payload_bytes()
    }

    /// A receiver needs nothing before frame `first`: it begins there.
    ///
    /// # Panics
    /// If anything has come.
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
        self.readers.on_boundary();
    }

    fn ending(&self, sequence: u64) -> Ending {
        if self.feed.last() == Some(sequence) { Ending::Stream } else { self.boundaries.ending(sequence) }
    }

    /// A reader has moved, or this stream's turn may have come nearer: the parent may have to be told of room.
    pub fn on_progress(&mut self, now: Instant) {
        self.consumed = self.consumed.max(self.readers.consumed().min(self.position()));
        let (standing, flushed) = (self.standing(), self.boundaries.reported_before(self.consumed));
        if let Some(intake) = &mut self.intake {
            intake.on_progress(now, &self.feed, standing, flushed);
        }
    }

    /// Every application here and behind has consumed the frames below this; it may lag until a message ends.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// What the parent is told beside this host's own cursor.
    fn standing(&self) -> Standing {
        let head = self.feed.head();
        let limit = self.feed.limit().min(self.readers.limit()).max(head);
        Standing { below: self.readers.below().min(head), consumed: self.consumed.min(head), limit }
    }

    /// Whether everything that has been pushed or received is acknowledged by every remote reader.
    pub fn is_settled(&self) -> bool {
        self.feed.is_complete() && self.cursors().iter().all(|&(_, cursor)| cursor == self.feed.head())
    }

    /// Every remote reader's rank and cursor.
    pub fn cursors(&self) -> Vec<(Rank, u64)> {
        self.readers.cursors()
    }

    /// What is on its way to each remote reader that gets new frames from here.
    pub fn flights(&self) -> Vec<Flight> {
        self.readers.flights()
    }

    /// Stops serving the reader `rank`: what only it needed is freed.
    pub fn remove_reader(&mut self, now: Instant, rank: Rank) {
        self.readers.remove(now, rank, &mut self.feed);
        self.orphans.note(rank, None);
        self.on_progress(now);
    }

    /// Serves a child that another host served until now, in the way this host serves its others.
    pub fn graft_child(&mut self, now: Instant, child: Peer) {
        self.readers.graft(now, child, &mut self.feed, &self.tuning);
    }

    /// The children that need frames which are gone here, to be [written again](Stream::write_again), each with the
    /// newest range shown since the last call.
    pub fn take_orphans(&mut self) -> Vec<Orphan> {
        self.orphans.take()
    }

    /// The remote reader for which this stream cannot go on: who keeps the feed full; else who has owed an answer for
    /// longest, which means nothing before nothing has moved for a while.
    pub fn held_up_by(&self) -> Option<Rank> {
        self.readers.held_up_by(&self.feed)
    }

    /// A child of which nothing was ever heard, though it has been asked again and again; none where all hear a cast.
    pub fn mute(&self, now: Instant) -> Option<Rank> {
        self.readers.mute(now, &self.feed)
    }

    /// The next frame of a child that has answered for all before it and has room for more: only this host can move it
    /// on, when its turn comes. Nothing for whoever hears a cast.
    pub fn turn_of(&self, child: Rank) -> Option<u64> {
        self.readers.turn_of(child, &self.feed)
    }

    /// The remote reader for which the feed is crowded; nobody, while it is this host's own link that is busy.
    pub fn blocked_by(&self, now: Instant) -> Option<Rank> {
        self.crowding.by(now, &self.feed, self.readers.as_ref())
    }

    /// Takes frames from another parent from now on, or acknowledges to it.
    pub fn set_parent(&mut self, parent: Peer) {
        if self.upstream.set_parent(parent)
            && let Some(intake) = &mut self.intake
        {
            intake.forget_parent();
        }
    }

    /// Names the origin: its data frames are taken, too.
    pub fn set_origin(&mut self, origin: Peer) {
        self.upstream.set_origin(origin);
    }

    /// The stream is known to end with frame `sequence`: none is taken beyond, and no other as the last.
    pub fn expect_last(&mut self, sequence: u64) {
        self.feed.expect_last(sequence);
    }

    /// Whether a child is in the middle of a segment, and the lowest frame that a child has not been sent yet.
    pub fn sending(&self) -> (bool, u64) {
        self.readers.sending(&self.boundaries)
    }

    /// Whether a child is in the middle of a segment, which goes on as soon as it has acknowledged some of it.
    pub fn is_pausing(&self) -> bool {
        self.readers.is_pausing(&self.feed, &self.boundaries)
    }

    /// Writes an acknowledgement into `buffer` if one is due.
    pub fn poll_ack(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let to = if planted!("reply-to-the-wrong-address") { self.identity.mac } else { self.upstream.parent()?.mac };
        let more = self.boundaries.expect_more(&self.feed);
        let ready = self.intake.as_mut()?.is_ready(now, &self.feed, more, &mut self.stats);
        let standing = ready.then(|| self.standing())?;
        let body = &mut buffer[OVERHEAD_BYTES..];
        let (length, echo) = self.intake.as_mut()?.acknowledge(now, &self.feed, standing, body);
        self.stats.acks_sent += 1;
        Some(self.identity.seal(buffer, to, &self.header(Kind::ACK, Flags::default(), self.feed.head(), echo), length))
    }

    fn write(&mut self, buffer: &mut [u8], Departure { outgoing, to, stamp }: Departure) -> SplitFrame {
        SplitFrame::whole(match outgoing {
            Outgoing::Heartbeat { highest, designated } => {
                self.stats.heartbeats_sent += 1;
                let header = self.header(Kind::HEARTBEAT, Flags::default(), highest, stamp);
                let rank = designated.map(|rank| rank.0.to_be_bytes());
                self.identity.write(buffer, to, &header, rank.as_ref().map_or(&[][..], |rank| &rank[..]))
            }
            Outgoing::Data { sequence, again, urgent } => {
                *(if again { &mut self.stats.data_resent } else { &mut self.stats.data_sent }) += 1;
                let flags = Outgoing::flags(sequence, again, urgent, &self.feed, &self.boundaries);
                let header = self.header(Kind::DATA, flags, sequence, stamp);
                let content = self.feed.content(&header);
                let kept = Kept { stream: header.stream.0, sequence, bytes: self.feed.payload(sequence).len() };
                let written_bytes = self.identity.seal_around(buffer, to, &header, kept.bytes, content) - kept.bytes;
                return SplitFrame { written_bytes, kept: Some(kept) };
            }
            Outgoing::Parity { parity, urgent } => self.write_parity(buffer, to, parity, urgent, stamp),
        })
    }

    /// Writes a frame (number, payload, what ends with it) for `to`, who lacks it, in the feed or not; its length.
    pub fn write_again(&mut self, now: Instant, buffer: &mut [u8], to: MacAddr, frame: (u64, &[u8], Ending)) -> usize {
        let (sequence, payload, ending) = frame;
        self.stats.data_resent += 1;
        let stamp = self.stamps.draw(now);
        let header = self.header(Kind::DATA, ending.flags().with(Flags::RESENT), sequence, stamp);
        self.identity.write(buffer, to, &header, payload)
    }

    fn header(&self, kind: Kind, flags: Flags, sequence: u64, stamp: Stamp) -> Header {
        Header { epoch: self.epoch, flags, sequence, stamp: stamp.0, ..self.identity.header(kind) }
    }

    /// Takes a data frame of the parent or the origin. What it says of messages counts only with its payload.
    fn on_data(&mut self, now: Instant, frame: &Frame<'_>) {
        let from_parent = self.upstream.is_parent(frame);
        let known = from_parent || self.upstream.is_origin(frame);
        let Some(intake) = self.intake.as_mut().filter(|_| known) else { return self.stats.strangers += 1 };
        let (header, payload) = (&frame.header, frame.payload);
        let offset = || header.sequence.saturating_sub(self.boundaries.before(header.sequence));
        let pushed = self.tuning.cast.push_frames.is_some_and(|frames| offset() < frames);
        let received = Received { header, payload, from_parent, pushed };
        let late = header.sequence < self.feed.highest();
        if intake.on_data(now, received, &mut self.feed, &mut self.stats) {
            self.feed.keep_content(header, frame.content);
            if header.flags.has(Flags::FLUSH) {
                self.add_boundary(header.sequence, header.flags.has(Flags::REPORT));
            }
            self.readers.on_data(now, header.sequence, late, &mut self.feed, &self.boundaries);
            self.recover(now, header.sequence);
        }
    }

    fn on_heartbeat(&mut self, now: Instant, frame: &Frame<'_>) {
        match &mut self.intake {
            Some(intake) if self.upstream.is_parent(frame) => {
                self.stats.heartbeats_received += 1;
                intake.on_heartbeat(now, &frame.header, frame.payload);
            }
            // In a cast the origin's come by at those, too, who acknowledge to another receiver.
            Some(_) if self.upstream.is_origin(frame) => {}
            _ => self.stats.strangers += 1,
        }
    }

    fn on_ack(&mut self, now: Instant, frame: &Frame<'_>) {
        let Some(ack) = Ack::parse(frame) else { return self.stats.malformed += 1 };
        let from = Peer { rank: frame.header.rank, mac: frame.source };
        let found = self.readers.on_ack(now, from, &ack, self.stamps.newest(), &mut self.feed, &self.boundaries);
        if let Some(gap) = found.gap().filter(|_| !planted!("orphan-not-told")) {
            self.orphans.note(from.rank, gap);
        }
        *found.counter(&mut self.stats) += 1;
        self.on_progress(now);
    }

    /// The bytes of each of the stream's structures.
    pub fn memory(&self) -> Memory {
        let stream_bytes = size_of::<Stream>() + self.boundaries.bytes() + self.orphans.bytes();
        Memory { stream_bytes, ..Memory::of_feed(&self.feed) } + self.readers.memory()
    }

    /// Recomputes the feed's counts.
    ///
    /// # Errors
    /// The first disagreement.
    pub fn audit(&self) -> Result<(), AuditError> {
        self.feed.audit()
    }
}
