//! One ordered sequence of frames from one origin, through one host: at the root, at a relay, or at a leaf.
//!
//! A [`Stream`] is a [`Feed`] with what fills it (the application at the origin, an intake elsewhere) and what reads it: lanes to
//! children, the cast, the local application. The same structure serves every role; a role is just which parts are there.

mod cast;
mod intake;
mod lane;
mod listener;
mod lone;
mod marks;
mod memory;
mod output;
mod pace;
mod stats;
mod window;

pub use lone::Lone;
pub use memory::Memory;
pub use stats::StreamStats;

use crate::feed::{Feed, ReaderId};
use crate::machine::{Deadline, Timer};
use crate::time::Instant;
use crate::timing::{rtt, stamp};
use crate::tuning::Tuning;
use crate::wire::{Ack, Flags, Frame, Kind};
use cast::Cast;
use intake::Intake;
use lane::Lane;
use marks::Marks;
use pnet::util::MacAddr;
use stamp::Stamps;

/// A host as a stream knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its rank in the group.
    pub rank: u16,
    /// Its interface.
    pub mac: MacAddr,
}

/// What every frame of a stream says about its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The session, drawn at random by its root.
    pub session: u32,
    /// The stream within the session.
    pub stream: u16,
    /// The own rank.
    pub rank: u16,
    /// The own interface.
    pub mac: MacAddr,
    /// The EtherType in use.
    pub ether_type: u16,
}

/// Who reads this host's feed over the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlet {
    /// Children, each by unicast, in sending order; none for a leaf.
    Lanes(Vec<Peer>),
    /// All of them at once through the group address.
    Cast {
        /// The group address.
        group: MacAddr,
        /// The receivers.
        listeners: Vec<Peer>,
    },
}

/// What ends with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// Nothing: more follows.
    #[default]
    None,
    /// A message that nobody waits for: its passing will show with what follows.
    Quiet,
    /// A message. The frame goes out without waiting for its segment to fill, and [`Stream::passed`] soon says when every
    /// application has passed it.
    Message,
    /// The stream.
    Stream,
}

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
    local: Option<ReaderId>,
    /// Grafted children that need frames which are gone.
    orphans: Vec<u16>,
    stats: StreamStats,
}

impl Stream {
    /// The origin of a stream whose frames carry up to `payload_bytes`.
    pub fn origin(identity: Identity, payload_bytes: usize, outlet: &Outlet, tuning: Tuning) -> Stream {
        Stream::new(identity, payload_bytes, None, outlet, tuning)
    }

    /// A receiver of a stream, which hands it on to `outlet` and to the local application.
    pub fn receiver(identity: Identity, payload_bytes: usize, parent: Peer, outlet: &Outlet, tuning: Tuning) -> Stream {
        let mut stream = Stream::new(identity, payload_bytes, Some(parent), outlet, tuning);
        stream.intake = Some(Intake::new(&stream.tuning));
        stream.local = stream.feed.add_reader(0);
        stream
    }

    fn new(identity: Identity, payload_bytes: usize, parent: Option<Peer>, outlet: &Outlet, tuning: Tuning) -> Stream {
        let mut feed = Feed::new(tuning.feed_frames_for(payload_bytes), payload_bytes);
        // A relay must have room for a segment that goes and for one that comes.
        let marks = Marks::new(tuning.segment_frames.clamp(1, feed.slots() / 4));
        let (mut lanes, mut cast) = (Vec::new(), None);
        match outlet {
            Outlet::Lanes(children) => {
                lanes = children.iter().map(|child| Lane::new(child.rank, child.mac, &mut feed, &tuning)).collect();
            }
            Outlet::Cast { group, listeners } => {
                let members: Vec<_> = listeners.iter().map(|peer| (peer.rank, peer.mac)).collect();
                cast = Some(Cast::new(*group, &members, &mut feed, &tuning));
            }
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

    /// The local application is done with the frame that [`peek`](Stream::peek) showed.
    ///
    /// # Panics
    /// If there was none.
    pub fn consume(&mut self) {
        let reader = self.local.expect("there is a local reader");
        self.feed.advance(reader, self.feed.position(reader) + 1);
    }

    /// Lets the local application's progress be known, after one or more [`consume`](Stream::consume)s.
    pub fn drained(&mut self, now: Instant) {
        self.passed = self.passed.max(self.count_passed());
        let (below, flushed) = (self.below(), self.marks.reported_before(self.passed));
        if let Some(intake) = &mut self.intake {
            intake.on_drained(now, &self.feed, below, flushed);
        }
    }

    /// Every application here and behind has passed the frames below this. It is certain to grow at the end of a message
    /// ([`Ending::Message`]); in between it may lag.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    fn count_passed(&self) -> u64 {
        let here = self.local.map_or(self.feed.head(), |reader| self.feed.position(reader));
        let lanes = self.lanes.iter().map(Lane::passed);
        lanes.chain(self.cast.as_ref().map(Cast::passed)).min().unwrap_or(u64::MAX).min(here)
    }

    /// The lowest cursor of this host and the children it serves.
    fn below(&self) -> u64 {
        self.lanes.iter().map(Lane::cursor).min().unwrap_or(u64::MAX).min(self.feed.head())
    }

    /// Frames that have arrived and wait for the local application.
    pub fn backlog_frames(&self) -> u64 {
        self.local.map_or(0, |reader| self.feed.head() - self.feed.position(reader))
    }

    /// Whether everything that has been pushed or received is acknowledged by every remote reader.
    pub fn is_settled(&self) -> bool {
        let mut cursors =
            self.lanes.iter().map(Lane::cursor).chain(self.cast.iter().flat_map(|cast| cast.cursors().map(|(_, cursor)| cursor)));
        self.feed.is_complete() && cursors.all(|cursor| cursor == self.feed.head())
    }

    /// Every remote reader's rank and cursor.
    pub fn cursors(&self) -> Vec<(u16, u64)> {
        let lanes = self.lanes.iter().map(|lane| (lane.rank, lane.cursor()));
        lanes.chain(self.cast.iter().flat_map(Cast::cursors)).collect()
    }

    /// Stops serving the reader `rank`: what only it needed is freed.
    pub fn remove_reader(&mut self, now: Instant, rank: u16) {
        if let Some(at) = self.lanes.iter().position(|lane| lane.rank == rank) {
            let lane = self.lanes.remove(at);
            self.feed.remove_reader(lane.reader());
            self.turns = (0..self.lanes.len()).collect();
        }
        if let Some(cast) = &mut self.cast {
            cast.remove(now, rank, &mut self.feed);
        }
        self.drained(now);
    }

    /// Serves a child that another host served until now.
    pub fn graft_child(&mut self, now: Instant, child: Peer) {
        if self.lanes.iter().all(|lane| lane.rank != child.rank) {
            self.turns.push(self.lanes.len());
            self.lanes.push(Lane::graft(now, child.rank, child.mac, &mut self.feed, &self.tuning));
        }
    }

    /// Ranks that were grafted here and need frames which nobody keeps any more.
    pub fn take_orphans(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.orphans)
    }

    /// Ranks this host serves by lanes.
    pub fn children(&self) -> impl Iterator<Item = u16> + '_ {
        self.lanes.iter().map(|lane| lane.rank)
    }

    /// Takes frames from another parent from now on.
    pub fn set_parent(&mut self, parent: Peer) {
        if self.parent != Some(parent) {
            self.parent = Some(parent);
            if let Some(intake) = &mut self.intake {
                intake.forget_parent();
            }
        }
    }

    /// Takes a frame of this session that has been parsed; one of another stream is ignored.
    pub fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        if frame.header.stream != self.identity.stream {
            return;
        }
        match frame.header.kind {
            Kind::Data => self.on_data(now, frame),
            Kind::Heartbeat => self.on_heartbeat(now, frame),
            Kind::Ack => self.on_ack(now, frame),
            _ => {}
        }
    }

    fn is_parent(&self, frame: &Frame<'_>) -> bool {
        self.parent.is_some_and(|parent| parent.rank == frame.header.rank && parent.mac == frame.source)
    }

    fn on_data(&mut self, now: Instant, frame: &Frame<'_>) {
        let from_parent = self.is_parent(frame);
        let Some(intake) = &mut self.intake else {
            self.stats.strangers += 1;
            return;
        };
        if frame.header.flags.has(Flags::FLUSH) && (self.feed.tail()..self.feed.limit()).contains(&frame.header.sequence) {
            self.marks.add(frame.header.sequence, frame.header.flags.has(Flags::REPORT));
            self.marks.forget_below(self.feed.tail());
        }
        intake.on_data(now, from_parent, &frame.header, frame.payload, &mut self.feed, &mut self.stats);
    }

    fn on_heartbeat(&mut self, now: Instant, frame: &Frame<'_>) {
        let from_parent = self.is_parent(frame);
        match &mut self.intake {
            Some(intake) if from_parent => {
                self.stats.heartbeats_received += 1;
                intake.on_heartbeat(now, &frame.header);
            }
            _ => self.stats.strangers += 1,
        }
    }

    fn on_ack(&mut self, now: Instant, frame: &Frame<'_>) {
        let Some(ack) = Ack::parse(frame) else {
            self.stats.malformed += 1;
            return;
        };
        let rank = frame.header.rank;
        if let Some(cast) = &mut self.cast {
            cast.on_ack(now, rank, &ack, &mut self.feed, &self.stamps, &mut self.stats);
        } else if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.rank == rank && lane.mac == frame.source) {
            lane.on_ack(now, &ack, &mut self.feed, &self.stamps, &mut self.stats);
            if lane.is_orphaned() && !self.orphans.contains(&rank) {
                self.orphans.push(rank);
            }
        } else {
            self.stats.strangers += 1;
        }
        self.drained(now);
    }

    /// Lets time pass.
    pub fn on_timeout(&mut self, now: Instant) {
        if let Some(intake) = &mut self.intake {
            intake.on_timeout(now);
        }
        self.lanes.iter_mut().for_each(|lane| lane.on_timeout(now));
        if let Some(cast) = &mut self.cast {
            cast.on_timeout(now);
        }
    }

    /// When and why to call [`on_timeout`](Stream::on_timeout) and [`poll`](Stream::poll) again.
    pub fn deadline(&self, now: Instant) -> Option<Deadline> {
        let ack = self.intake.as_ref().and_then(Intake::due).map(|at| Deadline { at, why: Timer::Ack });
        let lanes = self.lanes.iter().filter_map(Lane::due);
        let heartbeat = lanes.chain(self.cast.as_ref().and_then(Cast::due)).min().map(|at| Deadline { at, why: Timer::Heartbeat });
        let pace = self.cast.as_ref().and_then(|cast| cast.held_until(now, &self.feed)).map(|at| Deadline { at, why: Timer::Pace });
        [ack, heartbeat, pace].into_iter().flatten().min()
    }

    /// Recomputes the feed's counts; a sentence that names the first disagreement.
    pub fn audit(&self) -> Result<(), String> {
        self.feed.audit()
    }
}
