//! Benchmark that compares ethbcast with other tools. All send the same bytes to the same hosts in
//! network namespaces, and are timed from outside. `ethbcast bench` is its short form.
//!
//! [`Options`] select the measurements and [`run()`] performs them. For each number of receivers,
//! MTU and rate a lab comes up, raw frames are timed in it ([`cluster`]), then every tool at every
//! loss and size. Sizes up to [`MAX_MESSAGE`](report::MAX_MESSAGE) are broadcasts in memory, each
//! followed by a barrier ([`perf`] and [`mpi`]); larger ones are files ([`transfer`]). The result
//! is a [`report::Report`], which [`page`] presents, too.

#![expect(
    missing_docs,
    reason = "nobody but this tree uses it: names that say it need no comment"
)]

pub mod cluster;
pub mod mpi;
pub mod page;
pub mod perf;
pub mod process;
pub mod report;
mod run;
pub mod transfer;

pub use run::{CARRIERS, Options, WAYS, run};
