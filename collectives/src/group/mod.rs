//! Sessions (DESIGN §6): `ANNOUNCE` → `JOIN` → `VIEW` → stream → `DONE` → `VERDICT`.
//!
//! Two state machines, [`Root`] and [`Receiver`], without socket or clock; each owns its end of the stream. The root alone decides
//! who is a member: it counts silence, and every change is a new view that all hosts derive their parents and children from.

mod codec;
mod gathering;
mod message;
mod post;
mod receiver;
mod root;
mod roster;
mod streams;
mod timing;
mod trees;
mod tuned;
mod view;

pub use gathering::Wanted;
pub use message::{Digest, Message, Outcome, Refusal, State, Trailer};
pub use post::{ControlStats, Station};
pub use receiver::{Arrival, End, Receiver, ReceiverConfig, ReceiverEvent};
pub use root::{ASSUMED_RATE_BITS_PER_SECOND, Root, RootConfig, RootEvent, RootFailure, Route};
pub use roster::MemberReport;
pub use streams::Streams;
pub use timing::Timing;
pub use view::{MAX_MEMBERS, Member, View};
