//! Selective transfer of a content of which receivers already hold part: only missing chunks are
//! sent (docs/protocol/content.md §7.13).
//!
//! The content is divided into **stretches** of 1024 chunks, 64 MiB at most. The hash lists of a
//! stretch precede its chunks. Receivers compare them with their [`HaveSet`] and send
//! want-bitmaps. Chunks that two or more receivers lack go to all, once; a chunk that only one
//! lacks is fetched by it. [`Sections`] is the root's order of all this with its positions in the
//! stream; [`Composer`] turns it back into spans.

mod chunk_set;
mod completer;
mod composer;
mod fragments;
mod have_set;
mod sections;
mod selector;
mod stretch;

pub use chunk_set::{ChunkSet, STRETCH_CHUNKS};
pub use completer::{Completed, Completer, Completion};
pub use composer::{Composed, Composer, PartialSpan};
pub use fragments::{Cut, Cutter, Fragment, name as fragment_name};
pub use have_set::{HaveSet, HeldContent, Origin};
pub(in crate::session) use sections::MAX_AHEAD;
pub use sections::{DueSection, SectionPart, Sections};
pub use selector::Selector;
pub use stretch::{MAX_STRETCH_BYTES, StretchLedger, StretchPlace, stretches};

#[cfg(test)]
mod tests;
