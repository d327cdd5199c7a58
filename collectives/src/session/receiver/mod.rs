//! A receiver of a session: answers an invitation, takes and relays the stream, says what became of it.
//!
//! Here is what its user sees; `member` follows the root's views, `clockwork` is the boundary to the driver.

mod clockwork;
mod member;

use super::blocks::Streams;
use super::message::{Digest, Message, Outcome, Refusal, Trailer};
use super::view::{Assembler, View};
use crate::measure::Responder;
use crate::membership::control::{self, ControlQueue};
use crate::membership::timing::{Timing, turn};
use crate::membership::{ControlStats, Station};
use ethbcast_planning::plan::Via;
use ethbcast_transport::stream::{Ending, StreamStats};
use ethbcast_transport::wire::Header;
use ethbcast_transport::{Instant, MacAddr, Tuning};
use std::collections::VecDeque;
use std::time::Duration;

/// What a receiver is told at its creation.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Its place on the wire.
    pub station: Station,
    /// A random number that names this run.
    pub nonce: u64,
    /// Room for the data, in bytes.
    pub free_bytes: u64,
    /// How long to wait for a root; `None` for as long as it takes.
    pub patience: Option<Duration>,
    /// The engine's numbers; the root's view decides the policy.
    pub tuning: Tuning,
    /// The session's clockwork.
    pub timing: Timing,
}

/// What the receiver's user wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A root was found and asked.
    Invited {
        /// The root's name.
        host: String,
        /// What it offers.
        source: String,
        /// Its bytes, if known in advance.
        size: Option<u64>,
    },
    /// This host is a member: data will come.
    Started {
        /// This host's rank.
        rank: u16,
        /// How many receivers there are.
        receivers: usize,
        /// How the bytes travel.
        via: Via,
        /// How many bytes, if known in advance.
        size: Option<u64>,
    },
    /// The session is over for this host.
    Ended(End),
}

/// How a session ended for a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The root has this host's verdict.
    Confirmed,
    /// The verdict was given, but the root fell silent or gave this host up before it confirmed it.
    Unconfirmed,
    /// The root turned this host away.
    Refused(Refusal, String),
    /// The root gave up.
    Aborted(String),
    /// The root took this host off the list.
    Dropped,
    /// The root fell silent.
    RootSilent,
    /// No root was heard of in time.
    NobodyThere,
}

/// What the stream holds for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// The next bytes.
    Bytes(&'a [u8]),
    /// The last bytes of a message.
    Message(&'a [u8]),
    /// The end: what all bytes must add up to.
    End(Trailer),
}

#[derive(Debug)]
enum Phase {
    Listening,
    Joining,
    Running,
    Ended,
}

/// The root as this host knows it.
#[derive(Clone, Debug)]
struct Known {
    mac: MacAddr,
    session: u32,
    heard_at: Instant,
}

/// The receiver's state machine.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    phase: Phase,
    root: Option<Known>,
    view: Option<View>,
    view_digest: Digest,
    rank: u16,
    assembler: Assembler,
    /// Answers the root's short probe before there is a view.
    responder: Responder,
    streams: Option<Streams>,
    ended: bool,
    outbox: ControlQueue,
    events: VecDeque<ReceiverEvent>,
    stats: ControlStats,
    verdict: Option<Message>,
    confirmed: bool,
    leaving_until: Option<Instant>,
    now: Instant,
    began: Instant,
    join_due: Option<Instant>,
    ready_due: Option<Instant>,
    status_due: Option<Instant>,
    done_due: Option<Instant>,
}

impl ReceiverConfig {
    /// A receiver on this place of the wire, named by a random `nonce`: it has room for everything and waits for a root as long as it
    /// takes.
    pub fn new(station: Station, nonce: u64) -> ReceiverConfig {
        let (tuning, timing) = (Tuning::default(), Timing::default());
        ReceiverConfig { station, nonce, free_bytes: u64::MAX, patience: None, tuning, timing }
    }
}

impl Receiver {
    /// A receiver that listens from `now` on.
    pub fn new(now: Instant, config: ReceiverConfig) -> Receiver {
        let station = &config.station;
        let identity = station.identity(0, Header::NO_RANK);
        let responder = Responder::new(identity, usize::from(station.mtu_bytes), None);
        Receiver {
            config,
            responder,
            phase: Phase::Listening,
            root: None,
            view: None,
            view_digest: [0; 32],
            rank: Header::NO_RANK,
            assembler: Assembler::default(),
            streams: None,
            ended: false,
            outbox: ControlQueue::default(),
            events: VecDeque::new(),
            stats: ControlStats::default(),
            verdict: None,
            confirmed: false,
            leaving_until: None,
            now,
            began: now,
            join_due: None,
            ready_due: None,
            status_due: None,
            done_due: None,
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.events.pop_front()
    }

    /// Whether everything has been said: nothing more will be sent.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ended) && self.outbox.is_empty()
    }

    /// This host's end of the streams, once it is a member.
    pub fn streams(&self) -> Option<&Streams> {
        self.streams.as_ref()
    }

    /// Frames of the streams so far.
    pub fn stream_stats(&self) -> StreamStats {
        self.streams.as_ref().map(Streams::stats).unwrap_or_default()
    }

    /// Control frames so far.
    pub fn control_stats(&self) -> ControlStats {
        self.stats
    }

    /// This host's rank, once it is a member.
    pub fn rank(&self) -> Option<u16> {
        self.view.is_some().then_some(self.rank)
    }

    /// The present view, once this host is a member.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// What has arrived and not been consumed.
    pub fn peek(&self) -> Option<Arrival<'_>> {
        Some(match self.streams.as_ref()?.peek()? {
            (payload, Ending::None) => Arrival::Bytes(payload),
            (payload, Ending::Message | Ending::Quiet) => Arrival::Message(payload),
            (payload, Ending::Stream) => {
                Arrival::End(Trailer::decode(payload).unwrap_or(Trailer { bytes: u64::MAX, digest: [0; 32] }))
            }
        })
    }

    /// The application is done with what [`peek`](Receiver::peek) showed; what ended with it. The others learn of the room and of
    /// messages consumed by the frames that follow.
    ///
    /// # Panics
    /// If it showed nothing.
    pub fn consume(&mut self, now: Instant) -> Ending {
        let ending = self.streams.as_mut().expect("something was shown").consume(now);
        self.ended |= ending == Ending::Stream;
        ending
    }

    /// The application's verdict on what it received. Anything but [`Outcome::Delivered`] makes this host leave the session.
    pub fn conclude(&mut self, now: Instant, outcome: Outcome, bytes: u64, digest: Digest, text: &str) {
        self.now = now;
        if self.verdict.is_some() || !matches!(self.phase, Phase::Running) {
            self.leave_early(outcome);
            return;
        }
        self.verdict = Some(Message::Done { outcome, bytes, digest, text: text.to_owned() });
        self.done_due = Some(now + self.turn());
        if outcome != Outcome::Delivered {
            // Long enough for the root to answer and the others to take over; not so long that a user waits.
            self.leaving_until = Some(now + self.config.timing.status * 5);
        }
    }

    fn leave_early(&mut self, outcome: Outcome) {
        if outcome == Outcome::Interrupted {
            self.end(End::Dropped);
        }
    }

    fn end(&mut self, end: End) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        log::debug!("session ended: {end:?}");
        self.phase = Phase::Ended;
        self.join_due = None;
        self.ready_due = None;
        self.status_due = None;
        self.done_due = None;
        self.leaving_until = None;
        self.events.push_back(ReceiverEvent::Ended(end));
    }

    /// How long to wait with what all members say at the same moment.
    fn turn(&self) -> Duration {
        turn(self.rank, self.view.as_ref().map_or(0, |view| view.members.len()))
    }

    fn send(&mut self, message: &Message) {
        let Some(root) = &self.root else { return };
        let epoch = self.view.as_ref().map_or(0, |view| view.epoch);
        let identity = self.config.station.identity(root.session, self.rank);
        self.outbox.put(root.mac, control::header(&identity, message.kind(), epoch), message.encode());
    }
}
