//! The root of a session: invites, decides the view, feeds the stream, collects the verdicts.
//!
//! Here is what its user sees; `start` makes a view of those who joined, `running` keeps it true until all have reported,
//! `clockwork` is the boundary to the driver.

mod clockwork;
mod running;
mod start;

use super::gathering::{Gathering, Wanted};
use super::message::{Digest, Message, Refusal, State, Trailer};
use super::post::{ControlStats, Outbox, Station};
use super::roster::{MemberReport, Roster};
use super::timing::Timing;
use super::view::View;
use crate::plan::Via;
use crate::topology::Topology;
use ethbcast_transport::stream::{Stream, StreamStats};
use ethbcast_transport::{Instant, MacAddr, Tuning};
use std::collections::VecDeque;
use std::time::Duration;

/// The number of the only stream a session has so far.
pub(super) const STREAM: u16 = 1;

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
    pub via: Via,
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
    roster: Roster,
    stream: Option<Stream>,
    outbox: Outbox,
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

impl Root {
    /// A root that starts inviting at `now`.
    pub fn new(now: Instant, config: RootConfig) -> Root {
        Root {
            phase: Phase::Gathering(Gathering::default()),
            view: None,
            view_digest: [0; 32],
            roster: Roster::default(),
            stream: None,
            outbox: Outbox::default(),
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

    /// The root's end of the stream, once members are there.
    pub fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }

    /// Frames of the stream so far.
    pub fn stream_stats(&self) -> StreamStats {
        self.stream.as_ref().map(Stream::stats).unwrap_or_default()
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
        flowing && self.stream.as_ref().is_some_and(|stream| stream.feed().head() < stream.feed().limit())
    }

    /// Takes as many of `bytes` as there is room for and returns how many.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        if !self.wants_data() {
            return 0;
        }
        let stream = self.stream.as_mut().expect("a root that wants data has a stream");
        let payload_bytes = stream.payload_bytes();
        let mut taken = 0;
        if !self.partial.is_empty() {
            taken = (payload_bytes - self.partial.len()).min(bytes.len());
            self.partial.extend_from_slice(&bytes[..taken]);
            if self.partial.len() == payload_bytes {
                if !stream.push(&self.partial, false) {
                    self.partial.truncate(payload_bytes - taken);
                    return 0;
                }
                self.partial.clear();
            }
        }
        while bytes.len() - taken >= payload_bytes {
            if !stream.push(&bytes[taken..taken + payload_bytes], false) {
                return taken;
            }
            taken += payload_bytes;
        }
        if self.partial.is_empty() {
            self.partial.extend_from_slice(&bytes[taken..]);
            taken = bytes.len();
        }
        taken
    }

    /// Ends the stream: what was pushed has this many bytes and this digest.
    pub fn finish(&mut self, trailer: Trailer) {
        self.trailer = Some(trailer);
        self.flush_end();
    }

    fn flush_end(&mut self) {
        let (Some(trailer), Some(stream)) = (self.trailer, self.stream.as_mut()) else { return };
        if stream.feed().last().is_some() || (!self.partial.is_empty() && !stream.push(&self.partial, false)) {
            return;
        }
        self.partial.clear();
        stream.push(&trailer.encode(), true);
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
        let epoch = self.epoch();
        self.outbox.put(to, self.config.session, 0, epoch, message);
    }

    fn send_to_group(&mut self, message: &Message) {
        self.send(self.config.station.group_mac, message);
    }
}
