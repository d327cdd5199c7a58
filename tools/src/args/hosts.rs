//! The arguments of `ethbcast hosts`.

use super::seconds;
use clap::Args;
use ethbcast_transport::wire::EtherType;
use std::path::PathBuf;

/// `ethbcast hosts`.
#[derive(Debug, Args)]
pub struct HostsArgs {
    /// Network interface. Default: the only Ethernet interface that is up; if several are, that of the default route.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// List only receivers of this group. Default: those of all groups.
    #[arg(short, long, value_name = "GROUP")]
    pub group: Option<String>,
    /// EtherType of the frames, in hexadecimal.
    #[arg(long, value_name = "HEX", default_value = "88b5")]
    pub ether_type: EtherType,
    /// Seconds to wait for answers; with --watch, seconds between two lists.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub wait: f64,
    /// Repeat the list until interrupted.
    #[arg(long)]
    pub watch: bool,
    /// Hosts that should be there, such as n[1-31], or ^FILE for a file of names. Missing ones are listed, and the exit
    /// code is 1.
    #[arg(long, value_name = "NODESET")]
    pub expect: Option<String>,
    /// Topology file with the cluster's switches and hosts, to print the switch of each receiver.
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// Print one JSON object; with --watch, one per list, each on its own line.
    #[arg(long)]
    pub json: bool,
}
