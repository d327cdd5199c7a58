//! Tests of the AF_PACKET driver on real interfaces: veth pairs between network namespaces.
//!
//! The tests need root, and fail without it: a skipped test proves nothing.

mod frames;
mod loops;
mod network;
mod outages;
mod shared;
mod unicast;
