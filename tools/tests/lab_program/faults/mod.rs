//! Hosts that die, users that stop them, latecomers and liars: who still gets the file, who says what, and that nothing
//! is left.

mod deaths;
mod garbage;
mod interrupts;
mod latecomers;
mod pauses;
mod vandal;
mod write_back;

use crate::harness::{MEBIBYTE, Session, Site, Transfer, content, one_switch};
use ethbcast_lab::LabConfig;

/// What has arrived somewhere when something happens to the transfer: the middle of it.
const MIDDLE_BYTES: u64 = 4 << 20;

/// Cables on which 16 MiB take 2.8 s, so that there is a middle of the transfer for something to happen in.
fn slow(hosts: usize) -> LabConfig {
    LabConfig { rate_bits_per_second: Some(50_000_000), ..one_switch(hosts) }
}

/// A transfer of 16 MiB from n0 to all others, half way.
fn half_way(site: &Site, via: &'static str, witness: &str) -> Session {
    let session = Transfer::new(site, content(1, 16 * MEBIBYTE)).via(via).start();
    session.wait_for_bytes(witness, MIDDLE_BYTES);
    session
}
