//! The arguments of `ethbcast dump`.

use clap::Args;
use ethbcast_transport::wire::EtherType;
use std::path::PathBuf;

/// `ethbcast dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// The capture: pcap (either byte order, microseconds or nanoseconds) or pcapng, as tcpdump and Wireshark write it;
    /// `-` is stdin.
    #[arg(value_name = "FILE", required_unless_present = "interface", conflicts_with = "interface")]
    pub file: Option<PathBuf>,
    /// Print what comes and leaves on this interface, until interrupted. It is not made promiscuous: a switch sends
    /// this host what is for it and its groups.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// With -i: the group whose frames the card is to take in. May be given several times.
    #[arg(short, long, value_name = "GROUP", default_value = "ethbcast", requires = "interface")]
    pub group: Vec<String>,
    /// EtherType of the frames, in hexadecimal; others are passed over.
    #[arg(long, value_name = "HEX", default_value = "88b5")]
    pub ether_type: EtherType,
    /// End after so many frames.
    #[arg(short, long, value_name = "N")]
    pub count: Option<u64>,
    /// Write the frames to this file, too, as a capture (pcap, nanoseconds): for later, or for Wireshark.
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Print a JSON object for each frame, on a line of its own.
    #[arg(long)]
    pub json: bool,
    /// Print no frames, only the summary.
    #[arg(short, long)]
    pub quiet: bool,
}
