//! The arguments of `ethbcast dump`.

use super::whole;
use clap::Args;
use ethbcast_transport::wire::EtherType;
use std::path::PathBuf;

/// `ethbcast dump`.
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// Capture file of tcpdump or Wireshark, pcap or pcapng; `-` is stdin.
    #[arg(value_name = "FILE", required_unless_present = "interface", conflicts_with = "interface")]
    pub file: Option<PathBuf>,
    /// Print frames that arrive and leave on this interface, until interrupted. It is not put into promiscuous mode, so
    /// only frames to and from this host and its groups are seen.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// With -i, group whose multicast frames the card accepts. May be repeated.
    #[arg(short, long, value_name = "GROUP", default_value = "ethbcast", requires = "interface")]
    pub group: Vec<String>,
    /// EtherType of the frames, in hexadecimal. Others are skipped.
    #[arg(long, value_name = "HEX", default_value = "88b5")]
    pub ether_type: EtherType,
    /// Stop after N frames.
    #[arg(short, long, value_name = "N", value_parser = whole::<u64>)]
    pub count: Option<u64>,
    /// Also write the frames to FILE as a capture (pcap with nanoseconds), for later or for Wireshark.
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Print one JSON object per frame, each on its own line.
    #[arg(long)]
    pub json: bool,
    /// Print only the summary.
    #[arg(short, long)]
    pub quiet: bool,
}
