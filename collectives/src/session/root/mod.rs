//! The root of a session: invites, decides the view, feeds the stream, collects the verdicts.
//!
//! Here is what its user sees; `start` makes a view of those who joined, `running` keeps it true until all have reported,
//! `clockwork` is the boundary to the driver.

mod clockwork;
mod probing;
mod route;
mod running;
mod start;

pub use route::{ASSUMED_RATE_BITS_PER_SECOND, Route};

use super::blocks::{Place, Streams};
use super::gathering::{Gathering, Wanted};
use super::message::{Digest, Message, Refusal, State, Trailer};
use super::roster::{MemberReport, Roster};
use super::view::View;
use crate::measure::Prober;
use crate::membership::control::{self, ControlQueue};
use crate::membership::timing::Timing;
use crate::membership::{ControlStats, Station};
use ethbcast_planning::model::{Calibration, Choice};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::stream::{Ending, StreamStats};
use ethbcast_transport::{Instant, MacAddr, Tuning};
use std::collections::VecDeque;
use std::time::Duration;

/// How long a root waits for receivers if it is not told otherwise.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a root is told at its creation.
#[derive(Clone, Debug)]
pub struct RootConfig {
    /// Its place on the wire.
    pub station: Station,
    /// The session's number, drawn at random.
    pub session: u32,
    /// What is being sent, for the receivers' information.
    pub source: String,
    /// Bytes in the stream, if known in advance.
    pub size: Option<u64>,
    /// How many receivers, and how long to wait for them.
    pub wanted: Wanted,
    /// How the bytes travel.
    pub route: Route,
    /// What the network costs; without it, that of assumed cables.
    pub calibration: Option<Calibration>,
    /// Whether to measure for up to 50 ms before the start if there is no calibration.
    pub probe: bool,
    /// Decide how to send and end there: nobody is told, so that receivers wait on for a sender.
    pub dry_run: bool,
    /// The cluster; without one all hosts are taken to be on one switch.
    pub topology: Option<Topology>,
    /// The engine's numbers.
    pub tuning: Tuning,
    /// The session's clockwork.
    pub timing: Timing,
}

/// What the root's user wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootEvent {
    /// A receiver joined; so many are there now.
    Joined {
        /// Its name.
        host: String,
        /// How many have joined.
        receivers: usize,
    },
    /// A receiver was turned away.
    Refused {
        /// Its name.
        host: String,
        /// Why, and what to do.
        text: String,
    },
    /// A candidate fell silent before the start.
    Left {
        /// Its name.
        host: String,
    },
    /// All members hold the view: data may flow.
    Started {
        /// How many receivers there are.
        receivers: usize,
    },
    /// A member's fate is known.
    Reported(MemberReport),
    /// Every member's fate is known.
    AllReported,
}

/// Why a session did not come about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootFailure {
    /// Too few receivers when patience ended.
    #[error("{} of {wanted} receivers joined within {} s{}; start `ethbcast recv` on the missing hosts, or ask for fewer with --min-receivers",
        joined.len(), patience.as_secs_f64(), listed(joined, refused))]
    TooFew {
        /// Who was there.
        joined: Vec<String>,
        /// Who was turned away, and why.
        refused: Vec<(String, Refusal)>,
        /// How many it takes.
        wanted: usize,
        /// How long the root waited.
        patience: Duration,
    },
    /// No plan can be made for these members.
    #[error("{0}")]
    NoPlan(String),
}

fn listed(joined: &[String], refused: &[(String, Refusal)]) -> String {
    let mut parts = Vec::new();
    if !joined.is_empty() {
        parts.push(joined.join(", "));
    }
    if !refused.is_empty() {
        let refused: Vec<String> = refused.iter().map(|(host, why)| format!("{host}: {}", why.words())).collect();
        parts.push(format!("refused {}", refused.join(", ")));
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

#[derive(Debug)]
enum Phase {
    Gathering(Gathering),
    /// Members hold or are getting their view.
    Running {
        /// All have held the first view: data may flow.
        flowing: bool,
    },
    /// All is known; the last word is repeated.
    Closing {
        /// How many times it is still to be sent.
        left: u32,
    },
    Ended,
}

/// The root's state machine.
#[derive(Debug)]
pub struct Root {
    config: RootConfig,
    phase: Phase,
    view: Option<View>,
    view_digest: Digest,
    prober: Option<Prober>,
    choice: Option<Choice>,
    roster: Roster,
    streams: Option<Streams>,
    outbox: ControlQueue,
    events: VecDeque<RootEvent>,
    failure: Option<RootFailure>,
    stats: ControlStats,
    /// Bytes pushed that do not fill a frame yet.
    partial: Vec<u8>,
    trailer: Option<Trailer>,
    /// What is repeated at the end: the verdict, or that the root gives up.
    last_word: Option<Message>,
    first_data: Option<Instant>,
    last_verdict: Option<Instant>,
    now: Instant,
    began: Instant,
    announce_due: Option<Instant>,
    view_due: Option<Instant>,
    status_due: Option<Instant>,
    verdict_due: Option<Instant>,
}

impl RootConfig {
    /// A root on this place of the wire that sends `source` by the best way it can find, within 30 s, to all who want it, one at
    /// least. `session` is drawn at random.
    pub fn new(station: Station, session: u32, source: &str) -> RootConfig {
        RootConfig {
            station,
            session,
            source: source.to_owned(),
            size: None,
            wanted: Wanted { at_least: 1, enough: None, patience: PATIENCE },
            route: Route::default(),
            calibration: None,
            probe: true,
            dry_run: false,
            topology: None,
            tuning: Tuning::default(),
            timing: Timing::default(),
        }
    }
}

impl Root {
    /// A root that starts inviting at `now`.
    pub fn new(now: Instant, config: RootConfig) -> Root {
        Root {
            phase: Phase::Gathering(Gathering::default()),
            view: None,
            view_digest: [0; 32],
            prober: None,
            choice: None,
            roster: Roster::new(now, 0, &config.timing),
            streams: None,
            outbox: ControlQueue::default(),
            events: VecDeque::new(),
            failure: None,
            stats: ControlStats::default(),
            partial: Vec::new(),
            trailer: None,
            last_word: None,
            first_data: None,
            last_verdict: None,
            now,
            began: now,
            announce_due: Some(now),
            view_due: None,
            status_due: None,
            verdict_due: None,
            config,
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<RootEvent> {
        self.events.pop_front()
    }

    /// Why the session did not come about, if it did not.
    pub fn failure(&self) -> Option<&RootFailure> {
        self.failure.as_ref()
    }

    /// Whether everything has been said: nothing more will be sent.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ended) && self.outbox.is_empty()
    }

    /// The present view, once there is one.
    pub fn view(&self) -> Option<&View> {
        self.view.as_ref()
    }

    /// The plan and what it is predicted to take, once members are there.
    pub fn choice(&self) -> Option<&Choice> {
        self.choice.as_ref()
    }

    /// The root's end of the streams, once members are there.
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

    /// From the first data frame to the last verdict, once all are in.
    pub fn took(&self) -> Duration {
        self.last_verdict.zip(self.first_data).map(|(end, start)| end.since(start)).unwrap_or_default()
    }

    /// How every member fared that is known so far, by rank.
    pub fn reports(&self) -> impl Iterator<Item = &MemberReport> + '_ {
        self.roster.entries.iter().filter_map(|entry| entry.report.as_ref())
    }

    /// What each present member is busy with, by rank.
    pub fn states(&self) -> impl Iterator<Item = (u16, State, u64)> + '_ {
        self.roster.entries.iter().filter(|entry| entry.present).map(|entry| (entry.rank, entry.state, entry.frames))
    }

    /// Whether [`push`](Root::push) can take anything now.
    pub fn wants_data(&self) -> bool {
        let flowing = matches!(self.phase, Phase::Running { flowing: true }) && self.trailer.is_none();
        flowing && self.streams.as_ref().is_some_and(Streams::has_room)
    }

    /// Whether every application has passed all that was pushed; certain to come true after
    /// [`end_message`](Root::end_message).
    pub fn is_passed(&self) -> bool {
        self.streams.as_ref().is_some_and(Streams::is_passed)
    }

    /// Takes as many of `bytes` as there is room for and returns how many. The last of them wait for more, or for an end.
    #[must_use = "what was not taken is to be pushed again"]
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && self.wants_data() {
            let streams = self.streams.as_mut().expect("a root that wants data has streams");
            let payload_bytes = streams.payload_bytes();
            let rest = &bytes[taken..];
            if self.partial.is_empty() && rest.len() > payload_bytes {
                streams.push(&rest[..payload_bytes], Ending::None);
                taken += payload_bytes;
                continue;
            }
            if self.partial.len() == payload_bytes {
                streams.push(&self.partial, Ending::None);
                self.partial.clear();
            }
            let fits = rest.len().min(payload_bytes - self.partial.len());
            self.partial.extend_from_slice(&rest[..fits]);
            taken += fits;
        }
        taken
    }

    /// Ends a message with what was pushed last: its frames go out at once, and [`is_passed`](Root::is_passed) soon says when
    /// every application has passed them. False, and nothing ended, while there is no room.
    #[must_use = "false says that the message has not been ended"]
    pub fn end_message(&mut self) -> bool {
        self.end(Ending::Message)
    }

    /// As [`end_message`](Root::end_message) for a message that nobody waits for: that it was passed will show with what follows.
    #[must_use = "false says that the message has not been ended"]
    pub fn end_message_quietly(&mut self) -> bool {
        self.end(Ending::Quiet)
    }

    fn end(&mut self, ending: Ending) -> bool {
        let ready = self.wants_data();
        if let Some(streams) = self.streams.as_mut().filter(|_| ready) {
            streams.push(&self.partial, ending);
            self.partial.clear();
        }
        ready
    }

    /// Ends the stream: what was pushed has this many bytes and this digest.
    pub fn finish(&mut self, trailer: Trailer) {
        self.trailer = Some(trailer);
        self.flush_end();
    }

    fn flush_end(&mut self) {
        let (Some(trailer), Some(streams)) = (self.trailer, self.streams.as_mut()) else { return };
        if streams.has_end() || (!self.partial.is_empty() && !streams.push(&self.partial, Ending::None)) {
            return;
        }
        self.partial.clear();
        streams.push(&trailer.encode(), Ending::Stream);
    }

    fn place(&self) -> Place {
        let station = &self.config.station;
        let (mac, group_mac, ether_type) = (station.mac, station.group_mac, station.ether_type);
        Place { session: self.config.session, rank: 0, mac, group_mac, ether_type }
    }

    /// Gives up and tells everybody why.
    pub fn abort(&mut self, now: Instant, text: &str) {
        self.now = now;
        if matches!(self.phase, Phase::Closing { .. } | Phase::Ended) {
            return;
        }
        self.close(Message::Abort { text: text.to_owned() });
    }

    /// Says the last word, and will repeat it.
    fn close(&mut self, last_word: Message) {
        self.announce_due = None;
        self.view_due = None;
        self.status_due = None;
        self.last_word = Some(last_word);
        self.phase = Phase::Closing { left: self.config.timing.farewells };
        self.verdict_due = Some(self.now);
    }

    fn epoch(&self) -> u32 {
        self.view.as_ref().map_or(0, |view| view.epoch)
    }

    fn send(&mut self, to: MacAddr, message: &Message) {
        let identity = self.config.station.identity(self.config.session, 0);
        let header = control::header(&identity, message.kind(), self.epoch());
        self.outbox.put(to, header, message.encode());
    }

    fn send_to_group(&mut self, message: &Message) {
        self.send(self.config.station.group_mac, message);
    }
}
