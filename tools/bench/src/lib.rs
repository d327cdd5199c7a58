//! Benchmark of ethbcast and other tools, which send the same bytes to the same hosts of a lab of
//! network namespaces and are timed from outside. `ethbcast bench` is its short form, `benches/`
//! its long one.
//!
//! [`options`] select the measurements and [`run()`] performs them. For each number of receivers,
//! MTU and rate a lab comes up, raw frames are timed in it ([`raw`]), then every tool at every loss
//! and size. Sizes up to [`MAX_MESSAGE`] are broadcasts in memory, each followed by a barrier
//! ([`messages`] and [`mpi`]); larger ones are files ([`transfer`], by the [`tools`]). The result
//! is a [`report::Report`], which [`text`], [`json`] and [`page`] present.
//!
//! [`MAX_MESSAGE`]: options::MAX_MESSAGE

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
