//! UDP instead of raw Ethernet: each frame in one datagram.
//!
//! A datagram is a frame without its Ethernet header. The two addresses in front of the machine's
//! frames stand for addresses of IP with a port ([`address_of`], [`Addresses`]); a port replaces one
//! by the other on the way out and in. Everything else of a [`Port`](super::Port) is the same.
//!
//! A port has two sockets: its own, bound to its host's address and a port of its own, and one for
//! the groups, which it shares with other processes of its host. Nothing here needs a privilege.

mod address;
mod neighbours;
mod sender;
mod sockets;
#[cfg(test)]
mod tests;

pub(super) use address::header_bytes;
pub use address::{
    Over, ParseOverError, address_of, group_address, group_address_of, mac_of, stand_in,
};
pub use neighbours::Addresses;
pub(super) use sender::{DatagramSender, clear_errors, send_once};
pub(super) use sockets::DatagramReceiver;
