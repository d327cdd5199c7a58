//! Content with hashes between its data (*verified stream*): receivers can verify each 64 KiB
//! chunk. The *hash list* of a span stands before the span's chunks. A receiver verifies each chunk
//! as it comes, and requests a damaged one again. The hashes are nodes of BLAKE3's own tree, so
//! they add up to the digest of the whole, and no host hashes a byte twice.
//!
//! ```text
//! content   │ span 0, 1 MiB                                 │ span 1               │ … │ span n, what is left │
//! stream    │ hash list │ chunk 0, 64 KiB │ … │ chunk 15    │ hash list │ chunk …  │ … │ hash list │ chunk …  │
//! hash list │ u32 content bytes of the span │ u32 0 │ 32 bytes for each of its chunks │ 16 bytes: seal      │
//! ```
//!
//! A chunk has 64 KiB, unless the sender announces another [`ChunkSize`]: chunks of 16 KiB detect
//! changes at a finer grain, with four times the hash lists.
//!
//! A chunk's 32 bytes are its BLAKE3 chaining value at its offset in the content (the BLAKE3 paper
//! §2.1; [`blake3::hazmat`]). The seal is the first 16 bytes of BLAKE3 over the hash list before it
//! and the span's offset in the content (u64), so that a damaged hash list is detected before it is
//! used. With keys the sender's signature follows it ([`ChunkSize::signed`]), so that no relay can
//! make one: nothing of a span is shown before its list is the sender's. All spans but the last are
//! whole, so all positions can be computed ([`SpanPlace`], [`Form`]).
//!
//! The module has no thread, clock or file (a [`HashPool`] of threads may be lent). [`Encoder`] and
//! [`SpanBuffer`] make the stream, [`Decoder`] verifies it, [`Spans`] reassembles spans, [`Recent`]
//! keeps the last ones sent. [`SpanSource`] and [`SelectedSender`] stand between a content and its
//! session, [`SpanSink`] and [`VerifiedReceiver`] between a session and its storage: on hosts on
//! threads, in simulations ([`VerifiedSource`], [`Checked`]) in the session's turns.

mod decoder;
mod encoder;
mod hash;
mod layout;
mod receiver;
mod selection;
mod sender;
mod span_sink;
mod span_source;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::encoded;

pub use decoder::Spans;
pub use decoder::{DamagedChunk, DecodedContent, Decoder, MAX_ATTEMPTS};
pub use encoder::{Encoder, Recent, SpanBuffer};
pub use hash::{Alone, ChunkHash, HashPool};
pub use layout::{CHUNK_BYTES, ChunkSize, Form, SPAN_BYTES, SpanPlace, mebibytes, sizes};
pub(in crate::session) use layout::{amount, overlap};
pub use receiver::{Offered, Order, ReceiverOutput, ReceiverState, RightSpan, VerifiedReceiver};
pub(in crate::session) use selection::MAX_AHEAD;
pub use selection::{
    ChunkSet, Completed, Completer, Completion, Composed, Composer, Cut, Cutter, DueSection,
    Fragment, HaveSet, HeldContent, MAX_STRETCH_BYTES, Origin, PartialSpan, STRETCH_CHUNKS,
    SectionPart, Sections, Selector, StretchHashes, StretchPlace, fragment_name, stretches,
};
pub use sender::{Manner, Selected, SelectedInput, SelectedSender};
#[cfg(test)]
pub(in crate::session) use span_sink::EARLY_AFTER;
pub use span_sink::{Backend, SpanSink};
pub use span_sink::{Checked, InTurns};
pub use span_source::{Brought, InputQueue, SpanSource};
pub use span_source::{ReadInTurns, VerifiedSource};
