//! A content of which the receivers have some already: only what somebody lacks is sent
//! (docs/protocol/content.md §7.13).
//!
//! The content goes in **stretches** of 1024 chunks, 64 MiB at most. Ahead of their data come the ledgers of all spans
//! of a stretch; receivers compare them with their [`Holdings`] and say which chunks they lack; what two or more lack
//! is sent to all, once, and what a single one lacks it fetches. [`Sections`] is the root's order of all that and where
//! it is in the stream; [`Composer`] makes spans of it again.

mod chunk_set;
mod completer;
mod composer;
mod fragments;
mod holdings;
mod sections;
mod selector;
mod stretch;

pub use chunk_set::{ChunkSet, STRETCH_CHUNKS};
pub use completer::{Completed, Completer, Completion};
pub use composer::{Composed, Composer, PartialSpan};
pub use fragments::{Cut, Cutter, Fragment, name as fragment_name};
pub use holdings::{HeldOffer, Holdings, Origin};
pub(in crate::session) use sections::MOST_AHEAD;
pub use sections::{Due, SectionPart, Sections};
pub use selector::Selector;
pub use stretch::{MOST_STRETCH_BYTES, StretchLedger, StretchPlace, stretches};

#[cfg(test)]
mod tests;
