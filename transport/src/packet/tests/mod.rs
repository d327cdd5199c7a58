//! The driver on real interfaces: veth pairs between network namespaces. These tests need root.

mod interface;
mod loops;
mod network;
mod receive;
mod script;
mod send;
mod shared;
