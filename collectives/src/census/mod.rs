//! Discovery of listening receivers (*census*): a broadcast query, and their replies.
//!
//! The asking host sends WHO to an address on which every receiver listens, whatever its group.
//! Each replies with HERE: its name, its group, its activity, and how its last session ended.
//! Replies are spread in time, so that five hundred do not arrive at once. Since frames get lost, a
//! query is repeated, and receivers reply again. Replies are unauthenticated, and nothing is
//! decided by them.

pub mod kind;
mod message;
mod query;

pub(crate) use message::spell;
pub use message::{About, Busy, CensusReply, CensusRequest, LastSession};
pub use query::CensusResponder;
pub use query::{CensusQuery, Present};

use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::group_mac;

/// Returns the address on which every receiver listens. Its group name is too long for users to
/// configure.
pub fn address() -> MacAddr {
    group_mac(&"census".repeat(11))
}

#[cfg(test)]
mod tests;
