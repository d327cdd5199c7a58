//! Command-line arguments of `ethbcast lab` (test networks) and `ethbcast bench`.

use super::{decimal, examples, number, whole};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use ethbcast_bench::{CARRIERS, WAYS};
use ethbcast_lab::parse_rate_or_unlimited;
use ethbcast_planning::parse_size;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_long_help = examples::text("lab"))]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Create the hosts, switches and cables of a lab.
    Up {
        /// Number of hosts on one switch, a topology file, or a test bed of the papers (fig9-1 to
        /// fig9-5).
        #[arg(value_name = "TOPOLOGY|N", required_unless_present = "topology")]
        shape: Option<String>,
        /// Topology file, or name of a test bed.
        #[arg(long, value_name = "FILE", conflicts_with = "shape")]
        topology: Option<String>,
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

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Measure other tools as well, if they are installed: udpcast, UFTP, a chain of TCP
    /// connections, Open MPI, MPICH.
    #[arg(long)]
    pub peers: bool,
    /// Broadcast algorithms: values of `send --via`.
    #[arg(long, value_name = "VIA", value_delimiter = ',', value_parser = one_of(&WAYS), default_value = "chain,cast")]
    pub ways: Vec<&'static str>,
    /// Carriers of our frames. UDP is measured as the interfaces take it, in pieces of 64 KiB, and
    /// in frames of the MTU's size.
    #[arg(long, value_name = "CARRIER", value_delimiter = ',', value_parser = one_of(&CARRIERS),
        default_value = "ethernet")]
    pub over: Vec<&'static str>,
    /// Sizes of a broadcast, 1 to 1G. Up to 1M, data is in memory and a barrier follows each
    /// broadcast; larger ones are files.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_size, default_value = "4K,1M,16M")]
    pub sizes: Vec<u64>,
    /// Numbers of receivers, 1 to 63.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = whole::<u16>, default_value = "3,7")]
    pub receivers: Vec<u16>,
    /// MTUs of the interfaces, 576 to 65535.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = whole::<u32>, default_value = "1500")]
    pub mtu: Vec<u32>,
    /// Fractions of frames lost at every host.
    #[arg(long, value_name = "FRACTION", value_delimiter = ',', value_parser = decimal, default_value = "0,0.01")]
    pub loss: Vec<f64>,
    /// Rates of all cables, such as 100mbit; `unlimited` means as fast as this machine.
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = rate, default_value = "100mbit")]
    pub rate: Vec<Rate>,
    /// Number of timed broadcasts from memory.
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = number(1..=100_000_u32))]
    pub iterations: u32,
    /// Number of timed transfers of a file.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = number(1..=1000_u32))]
    pub runs: u32,
    /// Time limit of one run, in seconds. Default: ten times what the cables need, at least 30.
    #[arg(long, value_name = "SECONDS", value_parser = super::seconds)]
    pub limit: Option<f64>,
    /// Print one JSON object on stdout instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Also write a web page with charts to FILE.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// A rate in bits per second; `None` for as fast as the machine copies.
#[derive(Clone, Copy, Debug)]
pub struct Rate(pub Option<u64>);

fn rate(text: &str) -> Result<Rate, ethbcast_lab::LabError> {
    parse_rate_or_unlimited(text).map(Rate)
}

fn one_of(names: &'static [&'static str]) -> impl TypedValueParser<Value = &'static str> {
    PossibleValuesParser::new(names).map(|given| {
        *names
            .iter()
            .find(|name| **name == given)
            .expect("other names do not pass")
    })
}

#[derive(Debug, Args)]
pub struct TcpChainArgs {
    /// Port to which the previous host connects. Without it, this host has the file.
    #[arg(long, value_name = "PORT", value_parser = whole::<u16>)]
    pub listen: Option<u16>,
    /// Next host; the last has none.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub next: Option<SocketAddr>,
    /// File to send, or to write.
    #[arg(long, value_name = "FILE")]
    pub file: PathBuf,
}
