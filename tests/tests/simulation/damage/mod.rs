//! Bytes damaged in frames with a valid checksum: they are detected, fetched again and repaired,
//! and the hop is named.

mod hops;
mod ledgers;
mod pipes;
mod scene;
