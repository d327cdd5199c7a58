//! The program on the hosts of a lab: transfers by every algorithm, faults, measurements, and
//! refusals.
//!
//! These tests need root, and fail without it, because a skipped test would prove nothing.

mod bench;
mod demo;
mod discover;
mod faults;
mod harness;
mod lab;
mod machine;
mod names;
mod nodes;
mod operations;
mod perf;
mod presets;
mod printing;
mod probe;
mod programs;
mod rates;
mod readme;
mod refusals;
mod reports;
mod routes;
mod telling;
mod transfers;
mod trees;
mod udpcast;
