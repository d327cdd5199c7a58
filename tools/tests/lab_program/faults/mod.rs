//! Dying, interrupted, late and lying hosts: the others get the file, the cause is reported, and
//! nothing is left behind.

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

/// Bytes at some receiver when the fault occurs, in the middle of the transfer.
const MIDDLE_BYTES: u64 = 4 << 20;

/// Cables on which 16 MiB take 2.8 s, long enough for a fault in the middle.
pub fn slow(hosts: usize) -> LabConfig {
    LabConfig { rate_bits_per_second: Some(50_000_000), ..one_switch(hosts) }
}

/// Faulty host, in the middle of a chain from n0 to n5.
const CULPRIT: &str = "n3";
/// A quarter of the content of [`twelve_mebibytes`].
const QUARTER_BYTES: u64 = 3 << 20;

/// Six hosts on cables on which 12 MiB take 1 s, a load that permits concurrent tests.
fn relays() -> LabConfig {
    LabConfig { rate_bits_per_second: Some(100_000_000), ..one_switch(6) }
}

/// Creates a transfer from n0 to all others that exceeds the buffers and credit on the way.
fn twelve_mebibytes<'a>(site: &'a Site, via: &'static str) -> Transfer<'a> {
    Transfer::new(site, content(11, 12 * MEBIBYTE)).via(via)
}

/// Creates such a transfer with a short patience.
fn impatient<'a>(site: &'a Site, via: &'static str) -> Transfer<'a> {
    let transfer = twelve_mebibytes(site, via).send_option("--stall").send_option("2");
    transfer.both_options("--patience", "3")
}

/// Creates a transfer of 16 MiB from n0 to all others.
fn sixteen_mebibytes<'a>(site: &'a Site, via: &'static str) -> Transfer<'a> {
    Transfer::new(site, content(1, 16 * MEBIBYTE)).via(via)
}

/// Starts such a transfer and waits for its middle.
pub fn half_way(site: &Site, via: &'static str, witness: &str) -> Session {
    begun(sixteen_mebibytes(site, via), witness)
}

/// Starts a transfer and waits until the witness has a quarter of it.
fn begun(transfer: Transfer<'_>, witness: &str) -> Session {
    let session = transfer.start();
    session.wait_for_bytes(witness, MIDDLE_BYTES);
    session
}
