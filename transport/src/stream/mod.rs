//! One ordered sequence of frames from one origin, through one host: at the root, at a relay, or at a leaf.
//!
//! A [`Stream`] is a [`Feed`] with what fills it (the application at the origin, an intake elsewhere) and what reads it: lanes to
//! children, the cast, wards, the local application. The same structure serves every role; a role is just which parts are there.

mod asking;
mod cast;
mod designated;
mod hearing;
mod intake;
mod lane;
mod listener;
mod marks;
mod memory;
mod nack;
mod output;
mod outstanding;
mod pace;
mod readers;
mod remote;
mod repairs;
mod rhythm;
mod stats;
mod terms;
mod ward;
mod wards;

pub use memory::Memory;
pub use stats::StreamStats;
pub use terms::{Ending, Outlet};

use crate::arq::stamp::Stamps;
use crate::feed::{Feed, ReaderId};
use crate::machine::{Deadline, Timer};
use crate::part::Part;
use crate::time::Instant;
use crate::tuning::Tuning;
use crate::wire::{Ack, Flags, Frame, Identity, Kind, Peer, Reject};
use cast::Cast;
use hearing::Heard;
use intake::{Arrival, Intake};
use lane::Lane;
use marks::Marks;
use wards::Wards;

/// One stream at one host.
#[derive(Debug)]
pub struct Stream {
    identity: Identity,
    /// The low bits of the view number, for the header.
    epoch: u8,
    tuning: Tuning,
    feed: Feed,
    marks: Marks,
    /// What every application here and behind is known to have passed.
    passed: u64,
    stamps: Stamps,
    parent: Option<Peer>,
    intake: Option<Intake>,
    lanes: Vec<Lane>,
    /// The lanes in the order in which they are asked, so that children take turns.
    turns: Vec<usize>,
    cast: Option<Cast>,
    wards: Option<Wards>,
    local: Option<ReaderId>,
    /// Grafted children that need frames which are gone.
    orphans: Vec<u16>,
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
        // A relay must have room for a segment that goes and for one that comes.
        let marks = Marks::new(tuning.feed.segment_frames.clamp(1, feed.slots() / 4));
        let (mut lanes, mut cast, mut wards) = (Vec::new(), None, None);
        match outlet {
            Outlet::Lanes(children) => {
                lanes = children.iter().map(|child| Lane::new(child.rank, child.mac, &mut feed, &tuning)).collect();
            }
            Outlet::Cast { group, listeners } => cast = Some(Cast::new(*group, listeners, &mut feed, &tuning)),
            Outlet::Wards(peers) => wards = Some(Wards::new(peers, &mut feed, &tuning)),
        }
        let turns = (0..lanes.len()).collect();
        Stream {
            identity,
            epoch: 0,
            tuning,
            feed,
            marks,
            passed: 0,
            stamps: Stamps::default(),
            parent,
            intake: None,
            lanes,
            turns,
            cast,
            wards,
            local: None,
            orphans: Vec::new(),
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

    /// Sets the view number that frames carry.
    pub fn set_epoch(&mut self, epoch: u8) {
        self.epoch = epoch;
    }

    /// Appends a frame at the origin; false, and nothing taken, while the feed is full.
    ///
    /// # Panics
    /// If the payload is longer than a frame's, the stream has ended, or this host is not the origin.
    pub fn push(&mut self, payload: &[u8], ending: Ending) -> bool {
        assert!(self.intake.is_none(), "only the origin pushes");
        let taken = self.feed.push(payload, ending == Ending::Stream);
        if let Some(sequence) = taken.filter(|_| matches!(ending, Ending::Message | Ending::Quiet)) {
            self.marks.add(sequence, ending == Ending::Message);
            self.marks.forget_below(self.feed.tail());
        }
        taken.is_some()
    }

    /// The next frame for the local application, and what ends with it; `None` if it has not arrived.
    pub fn peek(&self) -> Option<(&[u8], Ending)> {
        let position = self.feed.position(self.local?);
        (position < self.feed.head()).then(|| (self.feed.payload(position), self.ending(position)))
    }

    fn ending(&self, sequence: u64) -> Ending {
        match sequence {
            last if self.feed.last() == Some(last) => Ending::Stream,
            mark if self.marks.is_reported(mark) => Ending::Message,
            mark if self.marks.has(mark) => Ending::Quiet,
            _ => Ending::None,
        }
    }

    /// The local application is done with the frame that [`peek`](Stream::peek) showed, and the others learn of the room and of
    /// a message that has been passed; what ended with the frame.
    ///
    /// # Panics
    /// If there was none.
    pub fn consume(&mut self, now: Instant) -> Ending {
        let reader = self.local.expect("there is a local reader");
        let position = self.feed.position(reader);
        let ending = self.ending(position);
        self.feed.advance(reader, position + 1);
        self.on_progress(now);
        ending
    }

    fn is_parent(&self, frame: &Frame<'_>) -> bool {
        self.parent.is_some_and(|parent| parent.rank == frame.header.rank && parent.mac == frame.source)
    }

    fn on_data(&mut self, now: Instant, frame: &Frame<'_>) {
        let from_parent = self.is_parent(frame);
        let (header, payload) = (&frame.header, frame.payload);
        let Some(intake) = &mut self.intake else {
            self.stats.strangers += 1;
            return;
        };
        if header.flags.has(Flags::FLUSH) && (self.feed.tail()..self.feed.limit()).contains(&header.sequence) {
            self.marks.add(header.sequence, header.flags.has(Flags::REPORT));
            self.marks.forget_below(self.feed.tail());
        }
        let since_mark = || header.sequence.saturating_sub(self.marks.before(header.sequence));
        let pushed = self.tuning.cast.push_frames.is_some_and(|frames| since_mark() < frames);
        let late = header.sequence < self.feed.highest();
        let new = intake.on_data(now, Arrival { header, payload, from_parent, pushed }, &mut self.feed, &mut self.stats);
        if let Some(wards) = self.wards.as_mut().filter(|_| new) {
            wards.on_data(now, header.sequence, late, &mut self.feed, &self.marks);
        }
    }

    fn on_heartbeat(&mut self, now: Instant, frame: &Frame<'_>) {
        let from_parent = self.is_parent(frame);
        match &mut self.intake {
            Some(intake) if from_parent => {
                self.stats.heartbeats_received += 1;
                intake.on_heartbeat(now, &frame.header, frame.payload);
            }
            // In a cast the root's come by at those, too, who acknowledge to another receiver.
            Some(_) if frame.header.rank == 0 => {}
            _ => self.stats.strangers += 1,
        }
    }

    fn on_ack(&mut self, now: Instant, frame: &Frame<'_>) {
        let Some(ack) = Ack::parse(frame) else {
            self.stats.malformed += 1;
            return;
        };
        let from = Peer { rank: frame.header.rank, mac: frame.source };
        let (feed, newest) = (&mut self.feed, self.stamps.newest());
        let heard = if let Some(cast) = &mut self.cast {
            cast.on_ack(now, from, &ack, newest, feed)
        } else if let Some(wards) = &mut self.wards {
            wards.on_ack(now, from, &ack, newest, feed, &self.marks)
        } else if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.rank == from.rank && lane.mac == from.mac) {
            lane.on_ack(now, &ack, feed, newest)
        } else {
            Heard::Stranger
        };
        match heard {
            Heard::Known => self.stats.acks_received += 1,
            Heard::Forged => self.stats.forged_acks += 1,
            Heard::Stranger => self.stats.strangers += 1,
            Heard::Orphan => {
                self.stats.acks_received += 1;
                self.name_orphan(from.rank);
            }
        }
        self.on_progress(now);
    }

    /// Recomputes the feed's counts; a sentence that names the first disagreement.
    pub fn audit(&self) -> Result<(), String> {
        self.feed.audit()
    }
}

impl Part for Stream {
    /// Takes a frame; one of another session or stream is ignored.
    fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        if frame.header.session != self.identity.session {
            self.stats.strangers += 1;
            return;
        }
        if frame.header.stream != self.identity.stream {
            return;
        }
        match frame.header.kind {
            Kind::DATA => self.on_data(now, frame),
            Kind::HEARTBEAT => self.on_heartbeat(now, frame),
            Kind::ACK => self.on_ack(now, frame),
            _ => {}
        }
    }

    fn handle_reject(&mut self, _reject: Reject) {
        self.stats.malformed += 1;
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(intake) = &mut self.intake {
            intake.on_timeout(now, &self.feed, &mut self.stats);
        }
        self.lanes.iter_mut().for_each(|lane| lane.on_timeout(now));
        if let Some(cast) = &mut self.cast {
            cast.on_timeout(now, &self.feed);
        }
        if let Some(wards) = &mut self.wards {
            wards.on_timeout(now, &self.feed);
        }
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.next_frame(now, buffer)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let ack = self.intake.as_ref().and_then(Intake::due).map(|at| Deadline { at, why: Timer::ACK });
        let (cast, wards) = (self.cast.as_ref(), self.wards.as_ref());
        let lanes = self.lanes.iter().filter_map(Lane::due);
        let heartbeat = lanes.chain(cast.and_then(Cast::due)).chain(wards.and_then(|wards| wards.due(now))).min();
        let heartbeat = heartbeat.map(|at| Deadline { at, why: Timer::HEARTBEAT });
        let pace = cast.and_then(|cast| cast.held_until(now, &self.feed, &self.marks)).map(|at| Deadline { at, why: Timer::PACE });
        [ack, heartbeat, pace].into_iter().flatten().min()
    }

    fn is_urgent(&self) -> bool {
        self.is_awaited()
    }
}
