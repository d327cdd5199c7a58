//! What the root's user learns.

use super::damage::Damage;
use super::member_report::MemberReport;
use crate::membership::OtherBuild;
use crate::session::message::Refusal;
use ethbcast_planning::plan::file::SavedPlanError;
use ethbcast_planning::plan::{CheckReport, PlanError, Via};
use ethbcast_planning::topology::{TopologyError, nodeset};
use ethbcast_transport::MacAddr;
use std::time::Duration;

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
        /// Its address.
        mac: MacAddr,
        /// Why, and what to do.
        text: String,
    },
    /// A receiver that had joined has gone before the start.
    Left {
        /// Its name.
        host: String,
        /// Why.
        text: String,
    },
    /// A host speaks another version of the protocol.
    OtherVersion(OtherBuild),
    /// Frames come in with this host's own address as their source: another host has the same one, or the network sends
    /// frames back.
    OwnAddress(MacAddr),
    /// Another root wanted to send to the group, and was told that it is taken.
    Rival {
        /// Its name.
        host: String,
        /// Its address.
        mac: MacAddr,
    },
    /// The root has been waiting for receivers for some time.
    Waiting {
        /// Who is there, in the order of their ranks.
        joined: Vec<String>,
        /// Who is not, if it is known who should be.
        missing: Vec<String>,
        /// How many it takes to start at once.
        wanted: Option<usize>,
    },
    /// All members hold the view: data may flow.
    Started {
        /// How many receivers there are.
        receivers: usize,
        /// How the bytes travel.
        via: Via,
        /// How many bytes, if known in advance.
        size: Option<u64>,
        /// Whether only what somebody lacks is sent.
        selective: bool,
    },
    /// The session is held up by a member.
    HeldUp {
        /// Its name.
        host: String,
        /// What it does, or does not do, to be read after its name.
        text: String,
    },
    /// A member was taken out of the others' way: it is served alone from now on.
    Aside {
        /// Its name.
        host: String,
        /// Why, to be read after its name.
        text: String,
    },
    /// Nothing gets through between two members, though both are heard: both are served alone from now on.
    Apart {
        /// The name of one.
        one: String,
        /// That of the other.
        other: String,
    },
    /// What is sent to all goes another way from now on.
    Rerouted {
        /// Which.
        via: Via,
        /// Why.
        text: String,
    },
    /// Bytes came damaged to some members, and are sent again.
    Damaged(Damage),
    /// A member's fate is known.
    Reported(MemberReport),
    /// Every member's fate is known.
    AllReported,
}

/// A host that was turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnedAway {
    /// Its name.
    pub host: String,
    /// Its address.
    pub mac: MacAddr,
    /// Why.
    pub why: Refusal,
    /// The same in words, and what to do.
    pub text: String,
}

/// Why a session did not come about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RootFailure {
    /// Too few receivers when patience ended.
    #[error("{} of {wanted} receivers joined within {} s{}; start `ethbcast recv` on the missing hosts, or ask for \
             fewer with --min-receivers",
        joined.len(), patience.as_secs_f64(), listed(joined, missing, refused))]
    TooFew {
        /// Who was there.
        joined: Vec<String>,
        /// Who was not, if it is known who should have been.
        missing: Vec<String>,
        /// Who was turned away, and why.
        refused: Vec<TurnedAway>,
        /// How many it takes.
        wanted: usize,
        /// How long the root waited.
        patience: Duration,
    },
    /// Another root has announced a session of the group, and did so first.
    #[error(
        "{host} ({mac}) sends {offer} to group {group} already: wait until it has ended, or choose another group \
             with -g"
    )]
    GroupTaken {
        /// Its name.
        host: String,
        /// Its address.
        mac: MacAddr,
        /// What it sends.
        offer: String,
        /// The group.
        group: String,
    },
    /// No plan can be made for these members.
    #[error(transparent)]
    NoPlan(#[from] NoPlan),
}

/// Why no plan can be made for the members of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoPlan {
    /// There is none of this kind for these members.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The saved plan is for others.
    #[error(transparent)]
    Saved(#[from] SavedPlanError),
    /// The members cannot be put on one switch.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A member that the topology does not have.
    #[error("the topology file names no host {host}; add it, or run it with --host NAME as it is spelt there")]
    UnknownHost {
        /// Its name.
        host: String,
    },
    /// The planner has made a plan that breaks its own rules.
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
    if !refused.is_empty() {
        let refused: Vec<String> =
            refused.iter().map(|away| format!("{} ({}): {}", away.host, away.mac, away.why.words())).collect();
        parts.push(format!("refused {}", refused.join(", ")));
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}
