//! A session: one root sends a stream of bytes to all receivers that have joined, and learns what became of it at each.
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
//!             ── PROBE, for up to 50 ms, if nobody has measured ──►
//!             ◄────────────────────────────────── ECHO, REPORT ────
//!             ── PROBE to the group, 160 at most, before a cast ──►
//!             ◄──────────────────────────────────────── REPORT ────
//! Running     ── VIEW, in parts, every 50 ms until all are ready ─► Running
//!             ◄───────────────────────────────────────── READY ────
//!             ── DATA, HEARTBEAT along the view's trees ──────────►
//!             ◄─────────────────────────────── ACK to the parent ──
//!             ◄─── STATUS, every 100 ms, both ways ───────────────►
//!             ◄── ORPHAN: a relay cannot serve a child it was given
//!             ◄────────────── DONE, every 50 ms until confirmed ───
//!             ── VERDICT: whose reports are here ─────────────────►
//! Closing     ── VERDICT (over) or ABORT, three times ────────────► Ended
//! Ended
//! ```
//!
//! Two state machines, [`Root`] and [`Receiver`], without socket or clock; each owns its end of the stream
//! ([`Blocks`]). The root alone decides who is a member: it counts silence, and every change is a new [`View`] with the
//! next number (epoch), from which all hosts derive their parents and children.
//!
//! **Who may say what.** Frames of another session count as strangers. The root hears JOIN from everybody, anything
//! else from the interfaces that its view names only. A receiver hears an ANNOUNCE of its group from everybody while it
//! waits; and then the root that it has asked, and of the other members of its view nothing but the stream. The
//! root checks a DONE against what it sent and believes an ORPHAN of the child's parent only; a receiver obeys a REFUSE
//! only if it names this run of it.
//!
//! **Timers.** Each phase has its own, so that none outlives it:
//!
//! | phase | timer | what falls due |
//! |---|---|---|
//! | root: Gathering | announce | the next invitation |
//! | | join | patience with those who ask, unless the network is being probed; the first may be let in |
//! | | status | the user is told who is there |
//! | | path | a frame of full length has not come back |
//! | root: any | answer | the next answer to a host that is no member |
//! | root: Running | announce | the next invitation, five times as rare: who comes too late is told so |
//! | | view | a view that not all have confirmed is repeated |
//! | | status | the root's sign of life |
//! | | verdict | whose reports are here is said after each batch of them |
//! | | silence | a member is suspected, then counted as dead |
//! | root: Closing | verdict | the last word is repeated |
//! | receiver: Listening | announce | patience with a root that does not come |
//! | | join | the roots that were heard are enough to choose from |
//! | receiver: Joining | join | the request to join is repeated |
//! | | silence | the root is dead: the receiver listens for another |
//! | receiver: Running | view | the confirmation of a view, each host at a moment of its own |
//! | | status | the sign of life and the progress |
//! | | verdict | the report is repeated until it is confirmed |
//! | | leave | a receiver that failed goes, confirmed or not |
//! | | silence | the root is dead |
//!
//! The streams' own timers come on top while a session runs.

pub mod application;
mod blocks;
mod control_memory;
mod courtesy;
mod endpoint;
mod fetch;
pub mod kind;
pub mod ledger;
pub mod live;
mod message;
mod other_build;
mod rate;
mod receiver;
mod root;
mod share;
mod spell;
mod throttle;
mod view;

pub use crate::membership::OtherBuild;
pub use crate::membership::Timing;
pub use crate::membership::{ControlStats, Station};
pub use blocks::Blocks;
pub use control_memory::ControlMemory;
pub use live::{
    Cancel, Error, Expected, History, IncidentKind, Options, Progress, RateLimit, ReceiveReport, SendReport, Session,
    Start,
};
pub use message::{
    ContentKind, Digest, Done, Fetch, FileAttributes, MemberState, Message, Needs, Outcome, Packing, Piece, Refusal,
    Stage, Status, Taken, Trailer, Verdict, ViewPart,
};
pub use rate::Rate;
pub use receiver::{Admission, Arrival, End, Receiver, ReceiverConfig, ReceiverEvent};
pub use root::{
    Damage, Lacking, MemberReport, NamesError, NoPlan, OnSlow, Root, RootConfig, RootEvent, RootFailure, Route,
    TurnedAway, Wanted,
};
pub(crate) use spell::Speller;
pub use view::{MAX_MEMBERS, Standing, View, ViewMember};

use ethbcast_transport::wire::{Frame, Kind};

/// Whether a frame belongs to a stream, not to the session's control.
fn is_of_stream(frame: &Frame<'_>) -> bool {
    matches!(frame.header.kind, Kind::DATA | Kind::PARITY | Kind::ACK | Kind::HEARTBEAT)
}
