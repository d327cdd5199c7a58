//! The arguments of `ethbcast hosts`.

use super::seconds;
use clap::Args;
use ethbcast_transport::wire::EtherType;
use std::path::PathBuf;

/// `ethbcast hosts`.
#[derive(Debug, Args)]
pub struct HostsArgs {
    /// Network interface; without it, the only Ethernet interface that is up, or that of the default route.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// Only receivers of this group; without it, those of all groups.
    #[arg(short, long, value_name = "GROUP")]
    pub group: Option<String>,
    /// EtherType of the frames, in hexadecimal.
    #[arg(long, value_name = "HEX", default_value = "88b5")]
    pub ether_type: EtherType,
    /// How long to listen for answers; with --watch, how often the list is renewed.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub wait: f64,
    /// Renew the list until interrupted.
    #[arg(long)]
    pub watch: bool,
    /// These hosts should be there, such as n[1-31], or those of a file, ^FILE: who is not is named, and the exit code
    /// is 1.
    #[arg(long, value_name = "NODESET")]
    pub expect: Option<String>,
    /// The cluster's switches and hosts, to say on which switch a receiver is.
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// Print a JSON object; with --watch one for each list, on a line of its own.
    #[arg(long)]
    pub json: bool,
}
