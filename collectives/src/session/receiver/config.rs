//! The configuration of a receiver.

use crate::census::About;
use crate::measure::Processors;
use crate::membership::{Station, Timing};
use crate::session::message::{HOLDS, Message};
use crate::session::verified::Form;
use ethbcast_transport::{MacAddr, Tuning};
use std::time::Duration;

/// Configuration of a receiver; [`new`](ReceiverConfig::new) fills in defaults for all that has
/// one.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Address, name and group of this host.
    pub station: Station,
    /// Random number that identifies this run.
    pub nonce: u64,
    /// Random number that is never sent; liveness challenges are derived from it.
    /// [`new`](ReceiverConfig::new) derives one from the nonce, which anyone who receives the nonce
    /// can guess.
    pub secret: u64,
    /// Free space for the data, in bytes.
    pub free_bytes: u64,
    /// Form in which the stream carries the content.
    pub form: Form,
    /// Whether this host may already hold part of the content.
    pub holds: bool,
    /// This host's processors. If set, it reports processor time per frame to a root that measures.
    pub processors: Option<Processors>,
    /// Longest wait for a root; `None` for no limit.
    pub patience: Option<Duration>,
    /// Whether to end when the first root refuses, gives up or starts without this host; if not,
    /// another is waited for.
    pub once: bool,
    /// Whether a join request is sent only when the user [admits](super::Receiver::admit) the
    /// session.
    pub by_leave: bool,
    /// Pairs of root and session to ignore, because this host has taken part in them.
    pub had: Vec<(MacAddr, u32)>,
    /// The only content name that this host accepts; `None` accepts any.
    pub expects: Option<String>,
    /// Description of this host for queries about listening hosts; `None` leaves them unanswered.
    pub about: Option<About>,
    /// Parameters of the transport; the root's view decides the policy.
    pub tuning: Tuning,
    /// Timers of the session.
    pub timing: Timing,
}

impl ReceiverConfig {
    /// Returns a configuration with unlimited space and no limit on the wait for a root. `nonce`
    /// should be drawn at random.
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

    pub(super) fn unexpected(&self, offer: &Message) -> Option<(String, String)> {
        let (expected, Message::Announce { host, source, .. }) = (self.expects.as_ref()?, offer) else { return None };
        let text = format!("{host} offers {source}, and only {expected} is expected here");
        (source != expected).then(|| (host.clone(), text))
    }

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
