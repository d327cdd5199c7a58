//! Hosts that die, users that stop them, latecomers and liars: who still gets the file, who says what, and that nothing
//! is left.

mod corruption;
mod deaths;
mod flood;
mod garbage;
mod interrupts;
mod latecomers;
mod links;
mod outages;
mod pauses;
mod readers;
mod vandal;
mod write_back;

use crate::harness::{MEBIBYTE, Session, Site, Transfer, content, one_switch};
use ethbcast_lab::LabConfig;

/// What has arrived somewhere when something happens to the transfer: the middle of it.
const MIDDLE_BYTES: u64 = 4 << 20;

/// Cables on which 16 MiB take 2.8 s, so that there is a middle of the transfer for something to happen in.
pub fn slow(hosts: usize) -> LabConfig {
    LabConfig { rate_bits_per_second: Some(50_000_000), ..one_switch(hosts) }
}

/// The host in trouble: in the middle of a chain from n0 to n5.
const CULPRIT: &str = "n3";
/// A quarter of what [`twelve_mebibytes`] sends.
const QUARTER_BYTES: u64 = 3 << 20;

/// Six hosts on cables on which 12 MiB take 1 s, little enough for other tests beside them.
fn relays() -> LabConfig {
    LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(6) }
}

/// A transfer from n0 to all others of more than the hosts on the way and their credit hold.
fn twelve_mebibytes<'a>(site: &'a Site, via: &'static str) -> Transfer<'a> {
    Transfer::new(site, content(11, 12 * MEBIBYTE)).via(via)
}

/// The same, and it does not wait long for anybody.
fn impatient<'a>(site: &'a Site, via: &'static str) -> Transfer<'a> {
    let transfer = twelve_mebibytes(site, via).send_option("--stall").send_option("2");
    transfer.both_options("--patience", "3")
}

/// A transfer of 16 MiB from n0 to all others.
fn sixteen_mebibytes<'a>(site: &'a Site, via: &'static str) -> Transfer<'a> {
    Transfer::new(site, content(1, 16 * MEBIBYTE)).via(via)
}

/// The same, half way.
pub fn half_way(site: &Site, via: &'static str, witness: &str) -> Session {
    begun(sixteen_mebibytes(site, via), witness)
}

/// A transfer of which the witness has a quarter or so.
fn begun(transfer: Transfer<'_>, witness: &str) -> Session {
    let session = transfer.start();
    session.wait_for_bytes(witness, MIDDLE_BYTES);
    session
}
