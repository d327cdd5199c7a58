//! Events that a transfer's sender reports, and its final results.

use super::config::RootConfig;
use super::repair::wants::Damage;
use crate::membership::OtherBuild;
use crate::session::endpoint::Endpoint;
use crate::session::message::{Digest, Done, Outcome, Refusal, Taken};
use crate::session::verified::Form;
use ethbcast_planning::plan::file::SavedPlanError;
use ethbcast_planning::plan::{CheckReport, PlanError, Via};
use ethbcast_planning::topology::{TopologyError, nodeset};
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

pub(super) type RootEndpoint = Endpoint<RootConfig, RootEvent>;

/// An event of the root.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootEvent {
    /// A receiver joined.
    Joined { host: String, receivers: usize },
    /// A receiver was turned away.
    Refused { host: String, mac: MacAddr, text: String },
    /// A receiver that had joined left before the start.
    Left { host: String, text: String },
    /// A host speaks another version of the protocol.
    OtherVersion(OtherBuild),
    /// Frames arrive with this host's own address as their source: another host has the same
    /// address, or the network loops frames back.
    OwnAddress(MacAddr),
    /// Another root wanted to send to the group, and was refused because the group is taken.
    Rival { host: String, mac: MacAddr },
    /// Periodic report while the root waits for receivers.
    Waiting {
        /// Receivers that have joined, in rank order.
        joined: Vec<String>,
        /// Expected hosts that have not joined, if the expected ones are known.
        missing: Vec<String>,
        /// Number of receivers with which the session starts at once.
        wanted: Option<usize>,
    },
    /// All members have confirmed the view: data may flow.
    Started {
        receivers: usize,
        via: Via,
        size: Option<u64>,
        /// Whether only missing chunks are sent.
        selective: bool,
    },
    /// A member holds up the session.
    HeldUp {
        host: String,
        /// The reason, to be read after the name.
        text: String,
    },
    /// A member was demoted: it is served alone from now on.
    Aside {
        host: String,
        /// The reason, to be read after the name.
        text: String,
    },
    /// Two members cannot exchange frames, though the root receives from both: both are
    /// served alone from now on.
    Apart { one: String, other: String },
    /// The main stream continues by another algorithm.
    Rerouted { via: Via, text: String },
    /// Bytes came damaged to some members and are sent again.
    Damaged(Damage),
    /// The outcome of a member is known.
    Reported(MemberReport),
    /// The outcome of every member is known.
    AllReported,
}

/// A host that was turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnedAway {
    /// Host name.
    pub host: String,
    /// Address of the host.
    pub mac: MacAddr,
    /// Category of the reason.
    pub why: Refusal,
    /// The reason in words, and the remedy.
    pub text: String,
}

/// Reason why a session did not start.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootFailure {
    #[error("{} of {wanted} receivers joined within {} s{}; {}, or ask for fewer with --min-receivers",
        joined.len(), patience.as_secs_f64(), listed(joined, missing, refused),
        remedy(missing.is_empty() && joined.len() + refused.len() >= *wanted && !refused.is_empty()))]
    TooFew {
        joined: Vec<String>,
        /// Expected hosts that had not joined, if the expected ones are known.
        missing: Vec<String>,
        refused: Vec<TurnedAway>,
        wanted: usize,
        patience: Duration,
    },
    #[error(
        "{host} ({mac}) sends {offer} to group {group} already: wait until it has ended, or choose another group \
             with -g"
    )]
    GroupTaken { host: String, mac: MacAddr, offer: String, group: String },
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
}

/// Reason why no plan can be made for the members of a session.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoPlan {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Saved(#[from] SavedPlanError),
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error("the topology file names no host {host}; add it, or run it with --host NAME as it is spelt there")]
    UnknownHost { host: String },
    /// A cast is asked for where no frame reaches several hosts.
    #[error("by unicast no frame reaches several hosts, so nothing can be cast: choose another way with --via")]
    NoCast,
    /// The plan violates the planner's own invariants.
    #[error("the plan is not sound ({0}); please report this with the topology file")]
    Unsound(Box<CheckReport>),
}

fn remedy(all_asked: bool) -> &'static str {
    if all_asked { "mend that and send again" } else { "start `ethbcast recv` on the missing hosts" }
}

fn listed(joined: &[String], missing: &[String], refused: &[TurnedAway]) -> String {
    let mut parts = Vec::new();
    if !joined.is_empty() {
        parts.push(nodeset::fold(joined));
    }
    if !missing.is_empty() {
        parts.push(format!("not {}", nodeset::fold(missing)));
    }
    let first = refused.iter().find(|away| away.why == Refusal::Declined);
    if !refused.is_empty() {
        let refused: Vec<String> =
            refused.iter().map(|away| format!("{} ({}): {}", away.host, away.mac, away.why.words())).collect();
        parts.push(format!("refused {}", refused.join(", ")));
    }
    // The others' reasons were events.
    parts.extend(first.map(|away| away.text.clone()));
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

/// The report about one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// Host name.
    pub host: String,
    /// Rank in the group.
    pub rank: Rank,
    /// Outcome of its transfer.
    pub outcome: Outcome,
    /// Bytes received, by the member's own report.
    pub bytes: u64,
    /// BLAKE3 digest of the received bytes.
    pub digest: Digest,
    /// The member's description of a failure.
    pub text: String,
    /// Time from the first data frame to the outcome; zero if there was no data.
    pub took: Duration,
    /// Reception counters, if the member sent them: frames lost on the way to it, from any sender.
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
