//! The arguments of `ethbcast bench`, and of the chain of TCP connections beside it.

use super::{decimal, number, whole};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use ethbcast_bench::WAYS;
use ethbcast_lab::parse_rate_or_unlimited;
use ethbcast_planning::parse_size;
use std::net::SocketAddr;
use std::path::PathBuf;

/// `ethbcast bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Measure other tools as well, if they are installed: udpcast, UFTP, a chain of TCP connections, Open MPI, MPICH.
    #[arg(long)]
    pub peers: bool,
    /// Broadcast algorithms: values of `send --via`.
    #[arg(long, value_name = "VIA", value_delimiter = ',', value_parser = ways(), default_value = "chain,cast")]
    pub ways: Vec<&'static str>,
    /// Sizes of a broadcast, 1 to 1G. Up to 1M, data is in memory and a barrier follows each broadcast; larger ones are
    /// files.
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

fn ways() -> impl TypedValueParser<Value = &'static str> {
    PossibleValuesParser::new(WAYS)
        .map(|name| WAYS.into_iter().find(|way| *way == name).expect("other names do not pass"))
}

/// `ethbcast tcp-chain`.
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
