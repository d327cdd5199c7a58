//! The report about one receiver.

use crate::session::message::{Digest, Done, Outcome, Taken};
use crate::session::verified::Form;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

/// The report about one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// Host name.
    pub host: String,
    /// Rank in the group.
    pub rank: Rank,
    /// Outcome of its transfer.
    pub outcome: Outcome,
    /// Bytes it received, by its own report.
    pub bytes: u64,
    /// BLAKE3 digest of what it received.
    pub digest: Digest,
    /// Its own description of a failure.
    pub text: String,
    /// Time from the first data frame to its outcome; zero if there was no data.
    pub took: Duration,
    /// Reception counters, if it sent them: frames lost on the way to it, whoever sent them.
    pub taken: Option<Taken>,
}

impl MemberReport {
    pub(super) fn new(host: &str, rank: Rank, done: Done, form: Form, took: Duration) -> MemberReport {
        let Done { outcome, bytes, digest, text } = done;
        let says_nothing = text.is_empty() && outcome != Outcome::Delivered;
        let text = if says_nothing { "it does not say why".to_owned() } else { text };
        let (host, bytes) = (host.to_owned(), form.content_bytes(bytes));
        MemberReport { host, rank, outcome, bytes, digest, text, took, taken: None }
    }
}
