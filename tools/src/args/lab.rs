//! The arguments of `ethbcast lab`.

use clap::{Args, Subcommand};
use std::ffi::OsString;

/// `ethbcast lab`.
#[derive(Debug, Args)]
pub struct LabArgs {
    /// What to do with the lab.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// The lab's commands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Bring a lab up.
    Up {
        /// Number of hosts on one switch, a topology file, or a test bed of the papers (fig9-1 … fig9-5).
        #[arg(value_name = "TOPOLOGY|N", required_unless_present = "topology")]
        shape: Option<String>,
        /// A topology file, or a test bed by name.
        #[arg(long, value_name = "FILE", conflicts_with = "shape")]
        topology: Option<String>,
        /// The lab's cables and name.
        #[command(flatten)]
        cables: CableArgs,
    },
    /// Run a command on one host of the lab.
    Exec {
        /// Name of the lab.
        #[arg(long, value_name = "NAME", default_value = ethbcast_lab::DEFAULT_LAB)]
        lab: String,
        /// The host.
        host: String,
        /// The command and its arguments, after `--`.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Run a command on every host of the lab at once; `{}` in it stands for the host's name.
    Each {
        /// Name of the lab.
        #[arg(long, value_name = "NAME", default_value = ethbcast_lab::DEFAULT_LAB)]
        lab: String,
        /// Leave this host out; may be given several times.
        #[arg(long, value_name = "HOST")]
        except: Vec<String>,
        /// Put the host's name before each line.
        #[arg(short, long)]
        label: bool,
        /// The command and its arguments, after `--`.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Take a lab down, whole or what a crash left of it.
    Down {
        /// Name of the lab.
        #[arg(long, value_name = "NAME", default_value = ethbcast_lab::DEFAULT_LAB)]
        lab: String,
        /// All labs of this machine.
        #[arg(long, conflicts_with = "lab")]
        all: bool,
    },
    /// List the labs that are up and their hosts.
    List,
    /// Print the topology file of a test bed (fig9-1 … fig9-5).
    Topology {
        /// Its name.
        name: String,
    },
    /// 8 hosts at 100 Mbit/s, a 64 MiB file by both paths, a table, and everything cleaned up.
    Demo {
        /// MiB to send.
        #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=4096))]
        mebibytes: u64,
        /// Hosts, the sender included.
        #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=32))]
        hosts: u16,
        /// Rate of every cable.
        #[arg(long, default_value = "100mbit")]
        rate: String,
        /// Share of frames lost at every receiver.
        #[arg(long, default_value_t = 0.0)]
        loss: f64,
    },
}

/// What the cables of a lab are like.
#[derive(Debug, Args)]
pub struct CableArgs {
    /// Name of the lab, to have several.
    #[arg(long, value_name = "NAME", default_value = ethbcast_lab::DEFAULT_LAB)]
    pub lab: String,
    /// Rate of every cable, such as 100mbit; without it, as fast as the machine copies.
    #[arg(long)]
    pub rate: Option<String>,
    /// MTU of every interface, in bytes.
    #[arg(long, default_value_t = 1500)]
    pub mtu: u32,
    /// Share of frames lost at every host, such as 0.01.
    #[arg(long, default_value_t = 0.0)]
    pub loss: f64,
}
