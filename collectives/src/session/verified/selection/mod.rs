//! Delta transfer: only those 64 KiB chunks are sent that some receiver lacks
//! (docs/protocol/content.md §7.13).
//!
//! The content is divided into **stretches** of 1024 chunks, 64 MiB at most. The hash lists of a
//! stretch precede its chunks. Receivers compare them with their [`HaveSet`] and send
//! want-bitmaps. Chunks that two or more receivers lack go to all, once; a chunk that only one
//! lacks is fetched by it. [`Sections`] is the root's order of all this with its positions in the
//! stream; [`Composer`] turns it back into spans.

mod chunk_set;
mod composer;
mod sections;
mod stretch;

pub use chunk_set::{ChunkSet, STRETCH_CHUNKS};
pub use composer::{Completed, Completer, Completion, Composed, Composer, PartialSpan, Selector};
pub(in crate::session) use sections::MAX_AHEAD;
pub use sections::{DueSection, SectionPart, Sections};
pub use stretch::{
    Cut, Cutter, Fragment, HaveSet, HeldContent, MAX_STRETCH_BYTES, Origin, StretchHashes,
    StretchPlace, name as fragment_name, stretches,
};

#[cfg(test)]
mod tests;
