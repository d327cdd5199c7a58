//! How a receiver fared, for the report.

use crate::session::ledger::Form;
use crate::session::message::{Digest, Done, Outcome, Taken};
use ethbcast_transport::wire::Rank;
use std::time::Duration;

/// How one receiver fared, for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// Host name.
    pub host: String,
    /// Rank in the group.
    pub rank: Rank,
    /// What became of it.
    pub outcome: Outcome,
    /// Bytes it received, as it reported them.
    pub bytes: u64,
    /// BLAKE3 of what it received.
    pub digest: Digest,
    /// Its own words on a failure.
    pub text: String,
    /// From the first data frame to its verdict; zero if there was no data.
    pub took: Duration,
    /// How its frames came, if it said so: what was lost on the way to it, whoever sent it.
    pub taken: Option<Taken>,
}

impl MemberReport {
    /// What became of a member, by its own words or the root's.
    pub(super) fn new(host: &str, rank: Rank, done: Done, form: Form, took: Duration) -> MemberReport {
        let Done { outcome, bytes, digest, text } = done;
        let says_nothing = text.is_empty() && outcome != Outcome::Delivered;
        let text = if says_nothing { "it does not say why".to_owned() } else { text };
        let (host, bytes) = (host.to_owned(), form.content_bytes(bytes));
        MemberReport { host, rank, outcome, bytes, digest, text, took, taken: None }
    }
}
