//! Faults of the machine during a transfer: of SOURCE, the disk, the interface and the process.

mod cut_off;
mod devices;
mod disks;
mod full;
mod in_place;
mod memory;
mod outage;
mod part_files;
mod reading_back;
mod resuming;
mod source;
mod watcher;

use crate::harness::one_switch;
use ethbcast_lab::LabConfig;

/// Cables on which 16 MiB take 2.8 s, long enough for a fault in the middle.
fn slow(hosts: usize) -> LabConfig {
    LabConfig { rate_bits_per_second: Some(50_000_000), ..one_switch(hosts) }
}
