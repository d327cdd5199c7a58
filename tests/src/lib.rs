//! Test helpers: simulated transfers and communicators, and processes on hosts in network
//! namespaces.

#![expect(
    missing_docs,
    reason = "nobody but this tree uses it: names that say it need no comment"
)]

pub mod chaos;
pub mod communicator;
pub mod fuzz;
pub mod lab;
pub mod mutants;
pub mod session;
pub mod soak;
pub mod swarm;
pub mod traffic;
pub mod worlds;

/// Returns the first of two sizes of a test, or the second in `./test --full`.
pub fn in_full<T>(gate: T, full: T) -> T {
    if std::env::var_os("ETHBCAST_FULL").is_some() {
        full
    } else {
        gate
    }
}
