//! The arguments of `ethbcast doctor` and `ethbcast explain`.

use super::WireArgs;
use crate::doctor::Fault;
use clap::Args;
use std::path::PathBuf;

/// `ethbcast doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// What all commands on the wire share.
    #[command(flatten)]
    pub wire: WireArgs,
    /// Where files are to go: is it there, may this user write to it, is there room, and is it fast? 16 MiB are written
    /// to a file without a name to see that.
    #[arg(long, value_name = "PATH")]
    pub dest: Option<PathBuf>,
    /// With --dest: how many bytes are to come, such as 40G; 64M without it.
    #[arg(long, value_name = "BYTES", requires = "dest", value_parser = ethbcast_planning::parse_size)]
    pub size: Option<u64>,
    /// Also measure the way to these hosts, which run `ethbcast probe --answer`; without a name, to all that answer.
    #[arg(long, value_name = "HOST", num_args = 0..)]
    pub peer: Option<Vec<String>>,
    /// Run the commands that are safe to run (an interface is switched on, a directory made), and look again.
    #[arg(long)]
    pub fix: bool,
}

/// `ethbcast explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The code that a refusal or a finding has, such as E-MTU; without it, all are listed.
    #[arg(value_name = "CODE", value_enum, ignore_case = true, hide_possible_values = true)]
    pub code: Option<Fault>,
}
