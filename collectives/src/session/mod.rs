//! Sessions (DESIGN §6): `ANNOUNCE` → `JOIN` → `VIEW` → stream → `DONE` → `VERDICT`.
//!
//! Two state machines, [`Root`] and [`Receiver`], without socket or clock; each owns its end of the stream. The root alone decides
//! who is a member: it counts silence, and every change is a new view that all hosts derive their parents and children from.

pub mod application;
mod blocks;
mod gathering;
pub mod kind;
pub mod live;
mod message;
mod receiver;
mod root;
mod roster;
mod trees;
mod tuned;
mod view;

pub use crate::membership::Timing;
pub use crate::membership::{ControlStats, Station};
pub use blocks::Streams;
pub use live::{Cancel, Error, Options, Progress, ReceiveReport, SendReport, Session};
pub use gathering::Wanted;
pub use message::{Digest, Message, Outcome, Refusal, State, Trailer};
pub use receiver::{Arrival, End, Receiver, ReceiverConfig, ReceiverEvent};
pub use root::{ASSUMED_RATE_BITS_PER_SECOND, Root, RootConfig, RootEvent, RootFailure, Route};
pub use roster::MemberReport;
pub use view::{MAX_MEMBERS, Member, View};
