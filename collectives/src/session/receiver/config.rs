//! Configuration of a receiver, such as which transfers it joins. The events that it reports are
//! here too.

use crate::census::About;
use crate::keys::ContentCipher;
use crate::measure::Processors;
use crate::membership::{OtherBuild, Station, Timing};
use crate::session::endpoint::Endpoint;
use crate::session::keyring::ReceiverKeys;
use crate::session::message::{Behind, ContentKind, HOLDS, Message, Refusal, Trailer};
use crate::session::verified::{ChunkSize, Form};
use crate::session::view::SharedViews;
use ethbcast_planning::plan::Via;
use ethbcast_transport::wire::Rank;
use ethbcast_transport::{MacAddr, Tuning};
use std::time::Duration;

pub(super) type ReceiverEndpoint = Endpoint<ReceiverConfig, ReceiverEvent>;

/// Configuration of a receiver; [`new`](ReceiverConfig::new) fills in defaults for all that has
/// one.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Address, name and group of this host.
    pub station: Station,
    /// Random number that identifies this run.
    pub nonce: u64,
    /// Random number that is never sent, from which liveness challenges are derived.
    /// [`new`](ReceiverConfig::new) derives one from the nonce, so anyone who sees the nonce can
    /// guess it.
    pub secret: u64,
    /// Free space for the data, in bytes.
    pub free_bytes: u64,
    /// Form in which the stream carries the content.
    pub form: Form,
    /// Whether this host may already hold part of the content.
    pub holds: bool,
    /// Processors of this host. If set, it reports processor time per frame to a root that
    /// measures.
    pub processors: Option<Processors>,
    /// Longest wait for a root; `None` for no limit.
    pub patience: Option<Duration>,
    /// Whether to end when the first root refuses, fails or starts without this host; if not,
    /// another is waited for.
    pub once: bool,
    /// Whether a join request is sent only when the user [admits](super::Receiver::admit) the
    /// session.
    pub by_leave: bool,
    /// Whether the wait for that does not count towards `patience`.
    pub leave_takes_long: bool,
    /// Whether frames may come in the name of hosts anywhere, as over UDP: then a root gets no more
    /// than three times the bytes that came from it until it has echoed the nonce.
    pub sources_unproved: bool,
    /// IPv4 address, or what stands for it, of the only host whose announcements count; it is asked for them, by frames
    /// that are longer.
    pub sought: Option<u32>,
    /// Pairs of root and session to ignore, because this host has taken part in them.
    pub had: Vec<(MacAddr, u32)>,
    /// The only content name that this host accepts; `None` accepts any.
    pub expects: Option<String>,
    /// Description of this host for census queries; `None` leaves them unanswered.
    pub about: Option<About>,
    /// Hosts of another network to which this host has passed the content on.
    pub behind: Behind,
    /// Parameters of the transport; the root's view decides the policy.
    pub tuning: Tuning,
    /// Timers of the session.
    pub timing: Timing,
    /// Member lists of this process, if it has many receivers; without, each has its own copy.
    pub views: Option<SharedViews>,
    /// Keys. With keys this host accepts only senders with the same keys; without, only senders
    /// without keys.
    pub keys: Option<ReceiverKeys>,
}

impl ReceiverConfig {
    /// Returns a configuration with unlimited space and no limit on the wait for a root. `nonce`
    /// should be drawn at random.
    pub fn new(station: Station, nonce: u64) -> ReceiverConfig {
        let (form, tuning, timing) = (Form::default(), Tuning::default(), Timing::default());
        let (free_bytes, holds, processors, patience, once) = (u64::MAX, false, None, None, false);
        let (by_leave, leave_takes_long, sources_unproved, had, expects, about, keys) =
            (false, false, false, Vec::new(), None, None, None);
        let sought = None;
        ReceiverConfig {
            station,
            nonce,
            secret: nonce.rotate_left(32),
            free_bytes,
            form,
            holds,
            processors,
            patience,
            once,
            by_leave,
            leave_takes_long,
            sources_unproved,
            sought,
            had,
            expects,
            about,
            behind: Behind::default(),
            tuning,
            timing,
            views: None,
            keys,
        }
    }

    pub(super) fn unexpected(&self, offer: &Message) -> Option<(String, String)> {
        let (expected, Message::Announce { host, source, .. }) = (self.expects.as_ref()?, offer)
        else {
            return None;
        };
        let text = format!("{host} offers {source}, and only {expected} is expected here");
        (source != expected).then(|| (host.clone(), text))
    }

    pub(super) fn request(&self) -> Message {
        let Station {
            group,
            host,
            mtu_bytes,
            ..
        } = &self.station;
        Message::Join {
            nonce: self.nonce,
            group: group.clone(),
            host: host.clone(),
            mtu_bytes: *mtu_bytes,
            free_bytes: self.form.stream_bytes(self.free_bytes),
            features: if self.holds { HOLDS } else { 0 },
        }
    }
}

/// An event of a receiver.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A root was found, and this host sent it a join request.
    Invited {
        host: String,
        source: String,
        size: Option<u64>,
        content: ContentKind,
        /// Chunk length, if the stream has hash lists.
        chunk: ChunkSize,
    },
    /// A session refused this host, ended before it began, or continues without it. Another is
    /// waited for.
    LeftOut { host: String, text: String },
    /// A host speaks another version of the protocol.
    OtherVersion(OtherBuild),
    /// Frames arrive with this host's own address as their source: another host has the same
    /// address, or the network loops frames back.
    OwnAddress(MacAddr),
    /// The host is a member: data will come.
    Started {
        rank: Rank,
        receivers: usize,
        via: Via,
        size: Option<u64>,
        /// Whether only missing chunks are sent.
        selective: bool,
        /// Cipher of the content.
        cipher: ContentCipher,
    },
    /// The root has confirmed the digest verified here: the content may become visible.
    Accepted,
    /// The root has been silent for a while; it is still waited for.
    RootSilent {
        /// Time since the last sign of life.
        silence: Duration,
        /// Time until it counts as dead.
        left: Duration,
    },
    /// The session is over for this host.
    Ended(End),
}

/// Outcome of a session for a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The root has this host's report.
    Confirmed,
    /// The report was sent, but the root fell silent or removed this host before confirming it.
    Unconfirmed,
    /// The root refused this host.
    Refused(Refusal, String),
    /// The root gave up.
    Aborted(String),
    /// The root removed this host.
    Dropped,
    /// The root fell silent.
    RootSilent,
    /// A root was not found in time.
    NobodyThere,
    /// A root ended its session before the start, with this text, and another was not found in time.
    NobodyElse(String),
}

/// Next part of the stream for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// Bytes of the content.
    Bytes(&'a [u8]),
    /// The last bytes of a message.
    Message(&'a [u8]),
    /// The end of the stream, with its length and digest.
    End(Trailer),
}

/// State of admission if the user must permit each join request, as on a host that serves several
/// groups but takes part in a limited number of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A root has neither announced a session nor got a join request.
    None,
    /// A root announces a session; the join request waits for permission.
    Wanted,
    /// A join request has been sent, or this host is in the session.
    Given,
}
