//! Events of a receiver.

use crate::membership::OtherBuild;
use crate::session::message::{ContentKind, Refusal, Trailer};
use crate::session::verified::ChunkSize;
use ethbcast_planning::plan::Via;
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::Rank;
use std::time::Duration;

/// An event of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverEvent {
    /// A root was found and sent a join request.
    Invited {
        /// Name of the root.
        host: String,
        /// Description of its source.
        source: String,
        /// Size in bytes, if known in advance.
        size: Option<u64>,
        /// Kind of the content.
        content: ContentKind,
        /// Chunk length, if the stream has hash lists.
        chunk: ChunkSize,
    },
    /// A session refused this host, ended before it began, or continues without it. Another is
    /// waited for.
    LeftOut {
        /// Name of the root.
        host: String,
        /// Description of what happened.
        text: String,
    },
    /// A host speaks another version of the protocol.
    OtherVersion(OtherBuild),
    /// Frames arrive with this host's own address as their source: another host has the same
    /// address, or the network loops frames back.
    OwnAddress(MacAddr),
    /// This host is a member: data will come.
    Started {
        /// This host's rank.
        rank: Rank,
        /// Number of receivers.
        receivers: usize,
        /// Algorithm by which the bytes travel.
        via: Via,
        /// Size in bytes, if known in advance.
        size: Option<u64>,
        /// Whether only missing chunks are sent.
        selective: bool,
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
    /// The report was sent, but the root fell silent or removed this host before it confirmed it.
    Unconfirmed,
    /// The root refused this host.
    Refused(Refusal, String),
    /// The root gave up.
    Aborted(String),
    /// The root removed this host.
    Dropped,
    /// The root fell silent.
    RootSilent,
    /// No root was heard in time.
    NobodyThere,
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
