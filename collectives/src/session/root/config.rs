//! What a root is told at its creation.

use crate::Route;
use crate::measure::Processors;
use crate::membership::codec::MAX_NAME_BYTES;
use crate::membership::{Station, Timing};
use crate::session::ledger::Form;
use crate::session::message::{ContentKind, Message, Stage};
use crate::session::rate::Rate;
use ethbcast_planning::model::Calibration;
use ethbcast_planning::topology::Topology;
use ethbcast_transport::Tuning;
use ethbcast_transport::wire::HEADER_BYTES;
use std::collections::BTreeSet;
use std::time::Duration;

/// How many receivers a root wants, and how long it waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Without this many the session fails when patience ends.
    pub at_least: usize,
    /// With this many it starts at once.
    pub enough: Option<usize>,
    /// How long to wait.
    pub patience: Duration,
}

impl Wanted {
    /// How long to wait where nothing else ends it: longer than any machine runs.
    pub const FOREVER: Duration = Duration::from_secs(100 * 365 * 86_400);

    /// Exactly so many, within a minute.
    pub fn exactly(receivers: usize) -> Wanted {
        Wanted { at_least: receivers, enough: Some(receivers), patience: Duration::from_secs(60) }
    }
}

/// Fewer frames are no bet: to try broadcast takes as many.
const BET_FRAMES: u64 = 160;

/// What becomes of a member that is slower than the others and holds them up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnSlow {
    /// It is served alone, beside the others, and finishes after them.
    #[default]
    Demote,
    /// All are as slow as it is.
    Wait,
    /// It is given up.
    Evict,
}

/// Names that the frame which invites receivers cannot carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NamesError {
    /// One is too long.
    #[error("the name {name} has {} bytes: choose one of at most {MAX_NAME_BYTES}", name.len())]
    Long {
        /// The name.
        name: String,
    },
    /// All together are.
    #[error(
        "the names of group, sender and source have {bytes} bytes together, a frame of MTU {mtu_bytes} has room \
             for {room_bytes}: choose shorter ones, or a larger MTU"
    )]
    Together {
        /// What they have, in bytes.
        bytes: usize,
        /// What there is room for, in bytes.
        room_bytes: usize,
        /// The MTU, in bytes.
        mtu_bytes: u16,
    },
}

/// What a root is told at its creation; [`new`](RootConfig::new) has an answer to all that need not be asked.
#[derive(Clone, Debug)]
pub struct RootConfig {
    /// Its place on the wire.
    pub station: Station,
    /// The session's number, drawn at random.
    pub session: u32,
    /// What is being sent, for the receivers' information.
    pub source: String,
    /// Bytes of the content, if known in advance.
    pub size: Option<u64>,
    /// What the content is.
    pub content: ContentKind,
    /// How the stream carries the content.
    pub form: Form,
    /// Whether any part of the content can be had at any time: then only what somebody lacks is sent where receivers
    /// have some of it already.
    pub selects: bool,
    /// How many receivers, and how long to wait for them.
    pub wanted: Wanted,
    /// The only hosts that are let in, if there are any here.
    pub hosts: Vec<String>,
    /// How the bytes travel.
    pub route: Route,
    /// What the network costs; without it, that of assumed cables.
    pub calibration: Option<Calibration>,
    /// Whether to measure for up to 50 ms before the start if there is no calibration, and to try broadcast before it
    /// is chosen for something long, if the calibration does not say whether it arrives.
    pub probe: bool,
    /// This host's processors: then the measurement also finds out what frames take them and a receiver's.
    pub processors: Option<Processors>,
    /// Decide how to send and end there: nobody is told, so that receivers wait on for a sender.
    pub dry_run: bool,
    /// The cluster; without one all hosts are taken to be on one switch.
    pub topology: Option<Topology>,
    /// Whether who asks after the start takes part, from the first byte on, after the others; not in blocks.
    pub late: bool,
    /// What becomes of a slow member.
    pub on_slow: OnSlow,
    /// How much each host may send, all frames counted.
    pub rate: Option<Rate>,
    /// The engine's numbers.
    pub tuning: Tuning,
    /// The session's clockwork.
    pub timing: Timing,
}

impl RootConfig {
    /// A root that waits 30 s for receivers, one at least, and sends `source` to all who have joined, by the way of
    /// least predicted time. `session` is drawn at random.
    pub fn new(station: Station, session: u32, source: &str) -> RootConfig {
        RootConfig {
            station,
            session,
            source: source.to_owned(),
            size: None,
            content: ContentKind::default(),
            form: Form::default(),
            selects: false,
            wanted: Wanted { at_least: 1, enough: None, patience: Duration::from_secs(30) },
            hosts: Vec::new(),
            route: Route::default(),
            calibration: None,
            probe: true,
            processors: None,
            dry_run: false,
            topology: None,
            late: false,
            on_slow: OnSlow::default(),
            rate: None,
            tuning: Tuning::default(),
            timing: Timing::default(),
        }
    }

    /// Checks that the names fit into the frame that invites receivers: they travel whole or not at all.
    ///
    /// # Errors
    /// Which do not.
    pub fn check_names(&self) -> Result<(), NamesError> {
        let Station { group, host, mtu_bytes, .. } = &self.station;
        let names = [group, host, &self.source];
        if let Some(name) = names.into_iter().find(|name| name.len() > MAX_NAME_BYTES) {
            return Err(NamesError::Long { name: name.clone() });
        }
        let (_, body) = self.invitation(Stage::Gathering, Duration::ZERO).encode();
        let bytes = names.into_iter().map(String::len).sum();
        let room_bytes = usize::from(*mtu_bytes) - HEADER_BYTES - (body.len() - bytes);
        if bytes <= room_bytes {
            return Ok(());
        }
        Err(NamesError::Together { bytes, room_bytes, mtu_bytes: *mtu_bytes })
    }

    /// Bytes of the stream, if known in advance.
    pub(super) fn stream_size(&self) -> Option<u64> {
        self.size.map(|bytes| self.form.stream_bytes(bytes))
    }

    /// Whether it may be chosen to cast more than trying broadcast takes.
    pub(super) fn may_bet_on_cast(&self) -> bool {
        let least = BET_FRAMES * u64::from(self.station.payload_bytes());
        matches!(self.route, Route::Auto) && self.size.is_none_or(|size| size >= least)
    }

    /// The hosts that have to be there, if they are known by name.
    pub(super) fn expected_hosts(&self) -> Vec<String> {
        if !self.hosts.is_empty() {
            // Whoever is named twice is lacking once.
            let mut named = BTreeSet::new();
            return self.hosts.iter().filter(|host| named.insert(*host)).cloned().collect();
        }
        let others = |topology: &Topology| {
            let own = topology.host_named(&self.station.host);
            let others = topology.hosts().iter().enumerate().filter(|(at, _)| Some(*at) != own);
            others.map(|(_, name)| name.clone()).collect::<Vec<_>>()
        };
        let all = self.topology.as_ref().map(others).unwrap_or_default();
        if self.wanted.enough.unwrap_or(self.wanted.at_least) == all.len() { all } else { Vec::new() }
    }

    /// How far a session that has started is for those who were not there.
    pub(super) fn stage(&self) -> Stage {
        if self.late { Stage::LateWelcome } else { Stage::Started }
    }

    /// What tells receivers of the session, which has been announced for `age`.
    pub(super) fn invitation(&self, stage: Stage, age: Duration) -> Message {
        let Station { group, host, mtu_bytes, .. } = &self.station;
        Message::Announce {
            group: group.clone(),
            host: host.clone(),
            source: self.source.clone(),
            size: self.stream_size(),
            content: self.content,
            chunk: self.form.chunk(),
            mtu_bytes: *mtu_bytes,
            stage,
            age_millis: u32::try_from(age.as_millis()).unwrap_or(u32::MAX),
        }
    }
}
