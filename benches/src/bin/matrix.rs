//! `ethbcast bench` in its long form: every kind of plan and every other tool with 1 to 31
//! receivers, 256 B to 1 GiB, MTU 1500, 9000 and 65535, without loss to 10 %, shaped and not.
//!
//! `cargo run --release -p ethbcast-benches --bin matrix -- --out DIR`, as root. All of it takes
//! many hours; each of its lists can be given shorter. An impossible combination (too many copies
//! of too large a file) is marked in its row.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ethbcast_bench::options::{Options, WAYS};
use ethbcast_bench::{json, page, text};
use ethbcast_benches::interrupt::Interrupt;
use ethbcast_benches::results::{exit_code, publish};
use ethbcast_benches::units::parse_size;
use ethbcast_lab::{LabError, parse_rate_or_unlimited};

/// Measure everything, beside all other tools that are installed; needs root.
#[derive(Debug, Parser)]
#[command(name = "matrix")]
struct Arguments {
    /// Folder for matrix.txt, .csv, .json and .html.
    #[arg(long, default_value = "target/matrix", value_name = "DIR")]
    out: PathBuf,
    /// Ways of ours.
    #[arg(long, value_delimiter = ',', value_parser = WAYS, default_value = "chain,cast,binary,binomial,flat")]
    ways: Vec<String>,
    /// Receivers.
    #[arg(long, value_delimiter = ',', default_value = "1,3,7,15,31")]
    receivers: Vec<u16>,
    /// Sizes.
    #[arg(long, value_delimiter = ',', value_parser = parse_size, default_value = "256,4K,64K,1M,16M,128M,1G")]
    sizes: Vec<u64>,
    /// MTUs.
    #[arg(long, value_delimiter = ',', default_value = "1500,9000,65535")]
    mtu: Vec<u32>,
    /// Shares of frames lost at every host.
    #[arg(long, value_delimiter = ',', default_value = "0,0.001,0.01,0.1")]
    loss: Vec<f64>,
    /// Rates of the cables; `unlimited` for as fast as the machine copies.
    #[arg(long, value_delimiter = ',', value_parser = rate, default_value = "100mbit,unlimited")]
    rate: Vec<Rate>,
    /// Broadcasts of a message that are timed.
    #[arg(long, default_value_t = 100)]
    iterations: u32,
    /// Transfers of a file that are timed.
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Leave the other tools out.
    #[arg(long)]
    no_peers: bool,
    /// The program ethbcast; without it, the one beside this program.
    #[arg(long, value_name = "FILE")]
    ethbcast: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug)]
struct Rate(Option<u64>);

fn rate(text: &str) -> Result<Rate, LabError> {
    parse_rate_or_unlimited(text).map(Rate)
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let options = Options {
        ways: WAYS.into_iter().filter(|way| arguments.ways.iter().any(|wanted| wanted == way)).collect(),
        receivers: arguments.receivers,
        sizes: arguments.sizes,
        mtus: arguments.mtu,
        losses: arguments.loss,
        rates: arguments.rate.iter().map(|rate| rate.0).collect(),
        peers: !arguments.no_peers,
        iterations: arguments.iterations,
        runs: arguments.runs,
        raw_time: Duration::from_secs(1),
        program: arguments.ethbcast,
        ..Options::short(format!("matrix{}", std::process::id()))
    };
    let interrupt = Interrupt::hold()?;
    let report = ethbcast_bench::run(&options, &interrupt, &mut |line| eprintln!("{line}"))?;
    let more = [("json", json::json(&report).to_string()), ("html", page::page(&report))];
    let more = more.map(|(ending, content)| (ending.to_owned(), content));
    publish(&arguments.out, "matrix", &(text::text(&report) + "\n"), &text::table(&report), more)?;
    Ok(exit_code(report.all_verified()))
}
