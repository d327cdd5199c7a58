//! Shared parts of sessions and communicators: presence of members, control messages, timers.

pub(crate) mod ack_tree;
pub(crate) mod codec;
pub(crate) mod control;
pub mod live;
pub(crate) mod other_build;
pub(crate) mod presence;
pub(crate) mod station;
pub(crate) mod timers;
pub(crate) mod timing;

pub use codec::is_shown;
pub use live::host;
pub use other_build::OtherBuild;
pub use station::{ControlStats, MAX_GROUP_BYTES, MIN_MTU_BYTES, Station};
pub use timing::Timing;
