//! Events and reports of the root.

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

/// A host that is the root of a session.
pub(super) type RootEndpoint = Endpoint<RootConfig, RootEvent>;

/// An event of the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RootEvent {
    /// A receiver joined.
    Joined {
        /// Name of the receiver.
        host: String,
        /// Number of receivers that have joined.
        receivers: usize,
    },
    /// A receiver was turned away.
    Refused {
        /// Name of the receiver.
        host: String,
        /// Address of the receiver.
        mac: MacAddr,
        /// The reason and the remedy.
        text: String,
    },
    /// A receiver that had joined left before the start.
    Left {
        /// Name of the receiver.
        host: String,
        /// The reason.
        text: String,
    },
    /// A host speaks another version of the protocol.
    OtherVersion(OtherBuild),
    /// Frames arrive with this host's own address as their source: another host has the same
    /// address, or the network loops frames back.
    OwnAddress(MacAddr),
    /// Another root wanted to send to the group, and was refused because the group is taken.
    Rival {
        /// Name of the other root.
        host: String,
        /// Address of the other root.
        mac: MacAddr,
    },
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
        /// Number of receivers.
        receivers: usize,
        /// Algorithm by which the bytes travel.
        via: Via,
        /// Size in bytes, if known in advance.
        size: Option<u64>,
        /// Whether only missing chunks are sent.
        selective: bool,
    },
    /// A member holds up the session.
    HeldUp {
        /// Name of the member.
        host: String,
        /// The reason, to be read after the name.
        text: String,
    },
    /// A member was demoted: it is served alone from now on.
    Aside {
        /// Name of the member.
        host: String,
        /// The reason, to be read after the name.
        text: String,
    },
    /// Two members cannot exchange frames, though the root receives from both: both are
    /// served alone from now on.
    Apart {
        /// Name of one member.
        one: String,
        /// Name of the other member.
        other: String,
    },
    /// The main stream continues by another algorithm.
    Rerouted {
        /// The new algorithm.
        via: Via,
        /// The reason.
        text: String,
    },
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
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootFailure {
    /// Too few receivers joined before patience ended.
    #[error("{} of {wanted} receivers joined within {} s{}; start `ethbcast recv` on the missing hosts, or ask for \
             fewer with --min-receivers",
        joined.len(), patience.as_secs_f64(), listed(joined, missing, refused))]
    TooFew {
        /// Receivers that had joined.
        joined: Vec<String>,
        /// Expected hosts that had not joined, if the expected ones are known.
        missing: Vec<String>,
        /// Receivers that were turned away, each with the reason.
        refused: Vec<TurnedAway>,
        /// Number of receivers required.
        wanted: usize,
        /// Longest wait for receivers.
        patience: Duration,
    },
    /// Another root announced a session of this group earlier.
    #[error(
        "{host} ({mac}) sends {offer} to group {group} already: wait until it has ended, or choose another group \
             with -g"
    )]
    GroupTaken {
        /// Name of the other root.
        host: String,
        /// Address of the other root.
        mac: MacAddr,
        /// Description of its source.
        offer: String,
        /// The group.
        group: String,
    },
    /// A plan for these members is impossible.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
}

/// Reason why no plan can be made for the members of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoPlan {
    /// The algorithm cannot be applied to these members.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The saved plan is for other members.
    #[error(transparent)]
    Saved(#[from] SavedPlanError),
    /// The members cannot be put on one switch.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The topology lacks a member.
    #[error("the topology file names no host {host}; add it, or run it with --host NAME as it is spelt there")]
    UnknownHost {
        /// Name of the member.
        host: String,
    },
    /// A cast is asked for where no frame reaches several hosts.
    #[error("by unicast no frame reaches several hosts, so nothing can be cast: choose another way with --via")]
    NoCast,
    /// The plan violates the planner's own invariants.
    #[error("the plan is not sound ({0}); please report this with the topology file")]
    Unsound(Box<CheckReport>),
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
