//! What a receiver is told at its creation.

use crate::census::About;
use crate::measure::Processors;
use crate::membership::{Station, Timing};
use crate::session::ledger::Form;
use crate::session::message::{HOLDS, Message};
use ethbcast_transport::{MacAddr, Tuning};
use std::time::Duration;

/// What a receiver is told at its creation; [`new`](ReceiverConfig::new) has an answer to all that need not be asked.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Its place on the wire.
    pub station: Station,
    /// A random number that names this run.
    pub nonce: u64,
    /// Another, which is never told: what comes of it proves that the root lives. [`new`](ReceiverConfig::new) takes
    /// one that follows from the nonce, which whoever hears that can guess.
    pub secret: u64,
    /// Room for the data, in bytes.
    pub free_bytes: u64,
    /// How the stream carries the data.
    pub form: Form,
    /// Whether this host may have some of what is sent already.
    pub holds: bool,
    /// This host's processors: then it tells a root that measures what frames take them.
    pub processors: Option<Processors>,
    /// How long to wait for a root; `None` for as long as it takes.
    pub patience: Option<Duration>,
    /// End when the first root says no, gives up or starts without this host; if not, another is waited for.
    pub once: bool,
    /// A root is asked only when the user [admits](super::Receiver::admit) its session.
    pub by_leave: bool,
    /// Roots and sessions that this host has had: their invitations say nothing to it.
    pub had: Vec<(MacAddr, u32)>,
    /// The only name of a content that this host takes, if there is one; without it, any.
    pub expects: Option<String>,
    /// What this host says of itself to those who ask who listens; without it, it does not answer them.
    pub about: Option<About>,
    /// The engine's numbers; the root's view decides the policy.
    pub tuning: Tuning,
    /// The session's clockwork.
    pub timing: Timing,
}

impl ReceiverConfig {
    /// A receiver that has room for everything and waits for a root as long as it takes. `nonce` is drawn at random.
    pub fn new(station: Station, nonce: u64) -> ReceiverConfig {
        let (form, tuning, timing) = (Form::default(), Tuning::default(), Timing::default());
        let (free_bytes, holds, processors, patience, once) = (u64::MAX, false, None, None, false);
        let (by_leave, had, expects, about) = (false, Vec::new(), None, None);
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
            had,
            expects,
            about,
            tuning,
            timing,
        }
    }

    /// Who offers something else than what is expected, and that in words.
    pub(super) fn unexpected(&self, offer: &Message) -> Option<(String, String)> {
        let (expected, Message::Announce { host, source, .. }) = (self.expects.as_ref()?, offer) else { return None };
        let text = format!("{host} offers {source}, and only {expected} is expected here");
        (source != expected).then(|| (host.clone(), text))
    }

    /// What asks a root to take this host in.
    pub(super) fn request(&self) -> Message {
        let Station { group, host, mtu_bytes, .. } = &self.station;
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
