//! The arguments of `ethbcast lab`.

use super::{decimal, examples, number, whole};
use clap::{Args, Subcommand};
use std::ffi::OsString;

/// `ethbcast lab`.
#[derive(Debug, Args)]
#[command(after_long_help = examples::text("lab"))]
pub struct LabArgs {
    /// Command on the lab.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// The lab's commands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Create the hosts, switches and cables of a lab.
    Up {
        /// Number of hosts on one switch, a topology file, or a test bed of the papers (fig9-1 to fig9-5).
        #[arg(value_name = "TOPOLOGY|N", required_unless_present = "topology")]
        shape: Option<String>,
        /// Topology file, or name of a test bed.
        #[arg(long, value_name = "FILE", conflicts_with = "shape")]
        topology: Option<String>,
        /// Name and cables of the lab.
        #[command(flatten)]
        cables: CableArgs,
    },
    /// Run a command on one host of the lab.
    Exec {
        /// Name of the lab.
        #[arg(long, value_name = "NAME", default_value = ethbcast_lab::DEFAULT_LAB)]
        lab: String,
        /// Host on which the command runs, such as n0.
        host: String,
        /// Command and its arguments, after `--`.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Run a command on every host of the lab at the same time. `{}` in it becomes the host's name.
    Each {
        /// Name of the lab.
        #[arg(long, value_name = "NAME", default_value = ethbcast_lab::DEFAULT_LAB)]
        lab: String,
        /// Leave this host out. May be repeated.
        #[arg(long, value_name = "HOST")]
        except: Vec<String>,
        /// Print the host's name before each line.
        #[arg(short, long)]
        label: bool,
        /// Command and its arguments, after `--`.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Remove a lab, also one that a crash has left incomplete.
    Down {
        /// Name of the lab.
        #[arg(long, value_name = "NAME", default_value = ethbcast_lab::DEFAULT_LAB)]
        lab: String,
        /// Remove all labs of this machine.
        #[arg(long, conflicts_with = "lab")]
        all: bool,
    },
    /// List the labs and their hosts.
    List,
    /// Print the topology file of a test bed of the papers.
    Topology {
        /// Name of the test bed: fig9-1 to fig9-5.
        name: String,
    },
    /// Send a file to 7 hosts by both paths, print a table, and remove the lab.
    Demo {
        /// Size of the file in MiB.
        #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = number(1..=4096_u64))]
        mebibytes: u64,
        /// Number of hosts, the sender included.
        #[arg(long, default_value_t = 8, value_name = "N", value_parser = number(2..=32_u16))]
        hosts: u16,
        /// Rate of every cable.
        #[arg(long, value_name = "RATE", default_value = "100mbit")]
        rate: String,
        /// Fraction of frames lost at every receiver, such as 0.01.
        #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = decimal)]
        loss: f64,
    },
}

/// Name and cables of a lab.
#[derive(Debug, Args)]
pub struct CableArgs {
    /// Name of the lab; several labs need different names.
    #[arg(long, value_name = "NAME", default_value = ethbcast_lab::DEFAULT_LAB)]
    pub lab: String,
    /// Rate of every cable, such as 100mbit. Without it, cables are as fast as this machine.
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// MTU of every interface.
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = whole::<u32>)]
    pub mtu: u32,
    /// Fraction of frames lost at every host, such as 0.01.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0, value_parser = decimal)]
    pub loss: f64,
}
