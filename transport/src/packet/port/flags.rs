//! Flags of an interface that a loop without the port at hand can read.

use super::Port;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

impl Port {
    /// Whether the interface is away.
    pub fn away_flag(&self) -> Arc<AtomicBool> {
        self.outage.flag()
    }

    /// Whether the interface has no link.
    pub fn no_link_flag(&self) -> Arc<AtomicBool> {
        self.carrier.flag()
    }

    /// Whether the interface has another MTU than when the port was opened.
    pub fn other_mtu_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_other_mtu)
    }

    /// The largest MTU that what the interface leads to takes, in bytes; `usize::MAX` while all frames leave.
    pub fn first_hop_flag(&self) -> Arc<AtomicUsize> {
        self.sender.first_hop_flag()
    }
}
