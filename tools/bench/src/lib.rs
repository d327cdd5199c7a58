//! The same bytes to the same hosts by ethbcast and by other tools, in a lab of network namespaces, timed alike from
//! outside: `ethbcast bench` in its short form, `benches/` in its long one.
//!
//! [`options`] says what is measured and [`run()`] measures it: for each number of receivers, MTU and rate a lab comes
//! up, raw frames are timed in it ([`raw`]), then every tool at every loss and size. Sizes up to [`LONGEST_MESSAGE`]
//! are broadcasts with a barrier behind each, in memory ([`messages`] and [`mpi`]); larger ones are files
//! ([`transfer`], by the [`tools`]). What was measured is a [`report::Report`], of which [`text`], [`json`] and
//! [`page`] make something to read.
//!
//! [`LONGEST_MESSAGE`]: options::LONGEST_MESSAGE

pub mod chart;
pub mod cluster;
pub mod interrupt;
pub mod json;
pub mod messages;
pub mod mpi;
pub mod options;
pub mod page;
pub mod payload;
mod peers;
pub mod program;
pub mod raw;
pub mod report;
mod run;
pub mod running;
pub mod table;
pub mod tcp_chain;
pub mod text;
pub mod times;
pub mod tools;
pub mod transfer;

pub use run::run;
