//! One-to-many transfers (*sessions*): a sender (*root*) transmits one stream of bytes to all
//! receivers. It learns the outcome at each.
//!
//! ```text
//! root                                                              receiver
//!
//! Gathering   ── ANNOUNCE to the group, every 100 ms ─────────────► Listening
//!             ◄─────────────────────────── JOIN, every 50–100 ms ── Joining
//!             ── PROBE of full length, to each ───────────────────►
//!             ◄──────────────────────────────────────────── ECHO ──
//!             ── REFUSE ──────────────────────────────────────────► Listening
//!             ◄── LEAVE: it has ended ─────────────────────────────
//!             ── PROBE, up to 50 ms, without a calibration ───────►
//!             ◄────────────────────────────────── ECHO, REPORT ────
//!             ── PROBE to the group, max. 160, before a cast ─────►
//!             ◄──────────────────────────────────────── REPORT ────
//! Running     ── VIEW, in parts, every 50 ms until all are ready ─► Running
//!             ◄───────────────────────────────────────── READY ────
//!             ── DATA, HEARTBEAT along the view's trees ──────────►
//!             ◄─────────────────────────────── ACK to the parent ──
//!             ◄─── STATUS, every 100 ms, both ways ───────────────►
//!             ◄── ORPHAN: a relay cannot serve a child it was given
//!             ◄────────────── DONE, every 50 ms until confirmed ───
//!             ── VERDICT: reports received ───────────────────────►
//! Closing     ── VERDICT (over) or ABORT, three times ────────────► Ended
//! Ended
//! ```
//!
//! [`Root`] and [`Receiver`] are state machines without socket or clock; each owns its end of the
//! stream ([`Blocks`]). The root alone decides who is a member, also by silence. Every change is a
//! new [`View`] with the next number (epoch), from which all hosts derive their parents and
//! children.
//!
//! **Accepted senders.** Frames of another session are ignored, and counted. The root accepts JOIN
//! from any host, and other frames only from the interfaces in its view. A waiting receiver accepts
//! an ANNOUNCE of its group from any host; after that it accepts only frames of the root of its
//! join request, and of the other members of its view only the stream. The root checks a DONE
//! against the stream it sent, and accepts an ORPHAN only from the child's parent. A receiver obeys
//! a REFUSE only if it names the nonce of this run.
//!
//! **Timers.** Each phase has its own, so that none outlives it:
//!
//! | phase | timer | event |
//! |---|---|---|
//! | root: Gathering | announce | the next announcement |
//! | | join | the end of patience, unless the network is being probed; the first admission |
//! | | status | a report to the user about the receivers present |
//! | | path | a full-length frame has not come back |
//! | root: any | answer | the next reply to a non-member |
//! | root: Running | announce | the next announcement, at a fifth of the rate: late hosts learn it |
//! | | view | repetition of a view that is not confirmed by all |
//! | | status | the root's sign of life |
//! | | verdict | a verdict after each batch of reports |
//! | | silence | a member is suspected, then counted as dead |
//! | root: Closing | verdict | repetition of the final message |
//! | receiver: Listening | announce | the end of patience with a root that does not come |
//! | | join | enough time has passed to choose among the announced roots |
//! | receiver: Joining | join | repetition of the join request |
//! | | silence | the root is dead: the receiver listens for another |
//! | receiver: Running | view | confirmation of a view, at a different moment on each host |
//! | | status | the status report |
//! | | verdict | repetition of the final report until it is confirmed |
//! | | leave | a receiver that failed leaves, confirmed or not |
//! | | silence | the root is dead |
//!
//! The streams' own timers come on top while a session runs.

pub mod application;
#[doc(hidden)]
mod blocks;
#[doc(hidden)]
mod endpoint;
mod fetch;
#[doc(hidden)]
mod keyring;
#[doc(hidden)]
mod link_share;
pub mod live;
mod message;
mod receiver;
mod root;
mod throttle;
#[doc(hidden)]
pub mod verified;
#[doc(hidden)]
mod view;

pub use crate::membership::{ControlStats, KeyDifference, OtherBuild, Station, Timing};
#[doc(hidden)]
pub use blocks::Blocks;
#[doc(hidden)]
pub use endpoint::ControlMemory;
pub(crate) use keyring::plain;
#[doc(hidden)]
pub use keyring::{ReceiverKeys, RootKeys};
#[doc(hidden)]
pub use link_share::LinkShare;
pub use live::{
    Cancel, Error, Expected, OneOfTwo, Options, Progress, RateLimit, ReceiveReport, RecvOptions,
    Relay, RelayReport, RunOptions, SendOptions, SendReport, Session, Start, WireOptions,
};
#[doc(hidden)]
pub use live::{History, IncidentKind};
pub use message::{
    Behind, ContentKind, Digest, Done, Fetch, FetchedPiece, FileAttributes, MemberState, Message,
    Needs, Outcome, Packing, Refusal, Stage, Status, Taken, Trailer, Verdict, ViewPart,
};
pub use receiver::{Admission, Arrival, End, Receiver, ReceiverConfig, ReceiverEvent};
pub use root::{
    Carousel, Damage, Lacking, Learnt, MemberReport, NamesError, NoPlan, OnSlow, OtherTraffic,
    Proved, Root, RootConfig, RootEvent, RootFailure, Route, TurnedAway, Wanted, size_class,
};
pub use throttle::Rate;
pub use verified::{ChunkSize, Cut, Form};
pub(crate) use view::Assembler as ViewAssembler;
#[doc(hidden)]
pub use view::{MAX_MEMBERS, MemberRole, SharedViews, View, ViewMember};

#[doc(hidden)]
pub mod kind {
    //! Kinds of a session's frames: 16–25, 29–31, 48 and 51–53 of [`Kind`].

    use ethbcast_transport::wire::Kind;

    pub const ANNOUNCE: Kind = Kind(16);
    pub const JOIN: Kind = Kind(17);
    pub const REFUSE: Kind = Kind(18);
    pub const VIEW: Kind = Kind(19);
    pub const READY: Kind = Kind(20);
    /// Status report of a member; from the root: a sign of life.
    pub const STATUS: Kind = Kind(21);
    pub const DONE: Kind = Kind(22);
    pub const VERDICT: Kind = Kind(23);
    pub const ABORT: Kind = Kind(24);
    pub const ORPHAN: Kind = Kind(25);
    pub const LEAVE: Kind = Kind(29);
    pub const FETCH: Kind = Kind(30);
    pub const PIECE: Kind = Kind(31);
    pub const NEEDS: Kind = Kind(48);
    pub const CHALLENGE: Kind = Kind(51);
    pub const RESPONSE: Kind = Kind(52);
    /// Secret of the group, from the root to a receiver that has sent a join request.
    pub const KEYS: Kind = Kind(53);
}
