//! The arguments of `ethbcast doctor` and `ethbcast explain`.

use clap::Args;
use ethbcast_transport::wire::EtherType;
use std::path::PathBuf;

/// `ethbcast doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Network interface; without it, the only Ethernet interface that is up.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// EtherType of the frames, in hexadecimal.
    #[arg(long, value_name = "HEX", default_value = "88b5")]
    pub ether_type: EtherType,
    /// Where files are to go: is it there, may this user write to it, is there room?
    #[arg(long, value_name = "PATH")]
    pub dest: Option<PathBuf>,
    /// With --dest: how many bytes are to come, such as 40G; 64M without it.
    #[arg(long, value_name = "BYTES", requires = "dest", value_parser = ethbcast_planning::parse_size)]
    pub size: Option<u64>,
    /// Print one JSON object on stdout.
    #[arg(long)]
    pub json: bool,
}

/// `ethbcast explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The code of a finding, such as E-MTU; without it, all are listed.
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
}
