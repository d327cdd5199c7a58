//! What the receiver's user learns.

use crate::membership::OtherBuild;
use crate::session::ledger::ChunkSize;
use crate::session::message::{ContentKind, Refusal, Trailer};
use ethbcast_planning::plan::Via;
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

/// What the receiver's user wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A root was found and asked.
    Invited {
        /// The root's name.
        host: String,
        /// What it offers.
        source: String,
        /// Its bytes, if known in advance.
        size: Option<u64>,
        /// What they are.
        content: ContentKind,
        /// How long its chunks are, if its stream has ledgers.
        chunk: ChunkSize,
    },
    /// A session has turned this host away, ended before it began, or goes on without it. Another is waited for.
    LeftOut {
        /// The root's name.
        host: String,
        /// What happened.
        text: String,
    },
    /// A host speaks another version of the protocol.
    OtherVersion(OtherBuild),
    /// Frames come in with this host's own address as their source: another host has the same one, or the network sends
    /// frames back.
    OwnAddress(MacAddr),
    /// This host is a member: data will come.
    Started {
        /// This host's rank.
        rank: Rank,
        /// How many receivers there are.
        receivers: usize,
        /// How the bytes travel.
        via: Via,
        /// How many bytes, if known in advance.
        size: Option<u64>,
        /// Whether only what somebody lacks is sent.
        selective: bool,
    },
    /// The root has confirmed that what was verified here is what it sent: it may become visible.
    Accepted,
    /// Nothing was heard of the root for so long; it is waited for on.
    RootSilent {
        /// How long it has been silent.
        silence: Duration,
        /// How much longer it is waited for.
        left: Duration,
    },
    /// The session is over for this host.
    Ended(End),
}

/// How a session ended for a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The root has this host's report.
    Confirmed,
    /// The report was given, but the root fell silent or gave this host up before it confirmed it.
    Unconfirmed,
    /// The root turned this host away.
    Refused(Refusal, String),
    /// The root gave up.
    Aborted(String),
    /// The root took this host off the list.
    Dropped,
    /// The root fell silent.
    RootSilent,
    /// No root was heard of in time.
    NobodyThere,
}

/// What the stream holds for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    /// The next bytes.
    Bytes(&'a [u8]),
    /// The last bytes of a message.
    Message(&'a [u8]),
    /// The end: what all bytes must add up to.
    End(Trailer),
}
