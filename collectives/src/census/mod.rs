//! Who listens: a question to all receivers of an Ethernet, and their answers.
//!
//! Whoever asks sends WHO to an address that every receiver hears, whatever its group, and each answers with HERE: its
//! name, its group, what it is busy with, how its last session went. Answers come at moments of their own, so that five
//! hundred do not come at once; a question is repeated, and whoever has answered it does so again, as frames get lost.
//! Nothing is decided by it: an answer is what a host says of itself, and anybody may say anything.

mod answerer;
mod asker;
pub mod kind;
mod message;
mod spell;

pub use answerer::Answerer;
pub use asker::{Asker, Present};
pub use message::{About, Answer, Busy, LastSession, Question};
pub(crate) use spell::spell;

use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::group_mac;

/// The address that every receiver hears: that of a group whose name no user can give, as it is too long.
pub fn address() -> MacAddr {
    group_mac(&"census".repeat(11))
}

#[cfg(test)]
mod tests;
