//! A test network (*lab*) on one machine: network namespaces as hosts, bridges as switches, shaped
//! cables.
//!
//! Every host is a namespace `ethbcast-<lab>-<host>` with `lo` and `eth0`. All switches are bridges in
//! one more namespace, `ethbcast-<lab>-switches`, never in the machine's own. Cables are veth pairs,
//! shaped at both ends by tbf; loss is an nftables rule where frames reach a host. The names are the
//! only state: any process can find and remove a lab by them, also after a crash.
//!
//! The lab runs `ip`, `tc` and `nft` in batches, and needs root. It does not delay or reorder frames;
//! the simulator does.
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

#![expect(missing_docs, reason = "nobody but this tree uses it: names that say it need no comment")]

mod config;
mod counters;
mod detour;
mod down;
mod error;
mod faults;
mod interrupt;
mod lab;
mod names;
mod netns;
mod processes;
mod program;
mod rate;
mod script;
mod up;

pub use config::LabConfig;
pub use counters::HostCounters;
pub use detour::Detour;
pub use down::Removed;
pub use error::LabError;
pub use faults::LinkFault;
pub use lab::{Lab, LabGuard};
pub use names::DEFAULT_LAB;
pub use rate::{format_rate, parse_rate, parse_rate_or_unlimited};
