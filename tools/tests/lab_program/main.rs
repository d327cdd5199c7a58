//! Tests of the whole program in network namespaces: transfers, faults, measurements, refusals.
//!
//! The tests need root, and fail without it, because a skipped test would prove nothing.

mod faults;
mod harness;
mod keys;
mod machine;
mod operations;
mod perf;
mod phases;
mod probe;
mod rates;
mod refusals;
mod routes;
mod telling;
mod transfers;
mod trees;
mod udp;
mod udpcast;
