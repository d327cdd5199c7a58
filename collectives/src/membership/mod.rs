//! Common parts of transfers (sessions) and communicators: liveness of hosts, control messages,
//! timers.

pub(crate) mod ack_tree;
pub(crate) mod codec;
pub mod live;
pub(crate) mod presence;
pub(crate) mod station;
pub(crate) mod timers;

pub use codec::is_shown;
pub use live::host;
pub use station::{
    ControlStats, KeyDifference, MAX_GROUP_BYTES, MIN_MTU_BYTES, OtherBuild, Station,
};
pub use timers::Timing;
