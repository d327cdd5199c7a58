//! A test network (*lab*) on one machine: network namespaces as hosts, bridges as switches, shaped
//! cables.
//!
//! Every host is a namespace `ethbcast-<lab>-<host>` with `lo` and `eth0`. All switches are bridges
//! in one more namespace, `ethbcast-<lab>-switches`, never in the machine's own. Cables are veth
//! pairs, shaped at both ends by tbf; loss is an nftables rule where frames reach a host. The names
//! are the only state: any process can find and remove a lab by them, also after a crash.
//!
//! The lab runs `ip`, `tc` and `nft` in batches, and needs root. It does not delay or reorder
//! frames; the simulator does.
//!
//! ```no_run
//! use ethbcast_planning::topology::Topology;
//! use ethbcast_lab::{LabConfig, LabGuard};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = LabConfig::new(Topology::builtin("fig9-4").expect("one of the test beds"));
//! config.rate_bits_per_second = Some(ethbcast_lab::parse_rate("100mbit")?);
//! let lab = LabGuard::up(&config)?;
//! let status = lab.command("n0", "ip")?.args(["link", "show", "eth0"]).status()?;
//! assert!(status.success());
//! # Ok(())
//! # }
//! ```

#![expect(
    missing_docs,
    reason = "nobody but this tree uses it: names that say it need no comment"
)]

mod config;
mod error;
mod faults;
mod lab;
mod names;
mod netns;
mod program;
mod script;

pub use config::{LabConfig, format_rate, parse_rate, parse_rate_or_unlimited};
pub use error::LabError;
pub use faults::LinkFault;
pub use lab::{Detour, HostCounters};
pub use lab::{Lab, LabGuard, Removed};
pub use names::DEFAULT_LAB;
