//! Transfers of one file to the same hosts, by ethbcast and by other tools, with and without loss.
//!
//! `cargo run --release -p ethbcast-benches --bin compare`, as root. All tools are timed from
//! outside and alike; see [`Finished`] for the counts.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ethbcast_benches::cluster::{bring_up, give_addresses, set_loss};
use ethbcast_benches::interrupt::Interrupt;
use ethbcast_benches::payload::{make_file, scratch};
use ethbcast_benches::program::Program;
use ethbcast_benches::table::{Table, median};
use ethbcast_benches::tools::{Job, Tool};
use ethbcast_benches::transfer::{self, Finished, Outcome};
use ethbcast_lab::{Lab, format_rate, parse_rate};

const MTU_BYTES: u32 = 1500;
/// Bytes of a full frame; the next constant is ethbcast's payload of it.
const FRAME_BYTES: f64 = 1514.0;
const PAYLOAD_BYTES: f64 = 1468.0;

/// Factor on the wire time of a transfer, and the least limit in seconds, unless --limit is given.
const PATIENCE: f64 = 10.0;
const MIN_LIMIT_SECONDS: f64 = 30.0;

/// Compare ethbcast with other tools in a lab of network namespaces; needs root.
#[derive(Debug, Parser)]
#[command(name = "compare")]
struct Arguments {
    /// Size of the file, in MiB.
    #[arg(long, default_value_t = 64, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=4096))]
    mebibytes: u64,
    /// Hosts, the sender included.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=64))]
    hosts: u8,
    /// Rate of every cable.
    #[arg(long, default_value = "100mbit", value_name = "RATE", value_parser = parse_rate)]
    rate: u64,
    /// Shares of frames lost at every host, one series of runs each.
    #[arg(
        long,
        default_values_t = [0.0, 0.01],
        value_delimiter = ',',
        num_args = 1..,
        value_name = "SHARE",
        value_parser = share
    )]
    loss: Vec<f64>,
    /// Runs of each; the table has their median.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Longest time for one run, in seconds; without it, ten times what the wire needs, 30 s at least.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// The program ethbcast; without it, the one beside this program.
    #[arg(long, value_name = "FILE")]
    ethbcast: Option<PathBuf>,
    /// Print CSV instead of the table.
    #[arg(long)]
    csv: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let program = Program::find(arguments.ethbcast.as_deref())?;
    let interrupt = Interrupt::hold()?;
    let lab = bring_up("compare", arguments.hosts.into(), Some(arguments.rate))?;
    give_addresses(&lab)?;
    let directory = scratch()?;
    let source = directory.path().join("source.bin");
    make_file(&source, arguments.mebibytes << 20)?;
    let bench = Bench { arguments: &arguments, program: &program, lab: &lab, source: &source, interrupt: &interrupt };

    let mut table = Table::new(&["tool", "loss", "seconds", "x wire", "whole s", "CPU s/GiB", "verified", "remark"]);
    let mut all_verified = true;
    for &loss in &arguments.loss {
        set_loss(&lab, loss)?;
        for tool in Tool::ALL {
            let series = bench.series(tool, loss)?;
            all_verified &= series.is_verified(bench.receivers());
            table.push(bench.row(tool, loss, &series));
        }
    }
    bench.print(&table);
    Ok(if all_verified { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Bench<'a> {
    arguments: &'a Arguments,
    program: &'a Program,
    lab: &'a Lab,
    source: &'a Path,
    interrupt: &'a Interrupt,
}

enum Series {
    Missing(String),
    Failed(String),
    Finished(Finished),
}

impl Series {
    fn is_verified(&self, receivers: usize) -> bool {
        match self {
            Series::Missing(_) => true,
            Series::Failed(_) => false,
            Series::Finished(finished) => finished.verified == receivers,
        }
    }
}

impl Bench<'_> {
    fn receivers(&self) -> usize {
        usize::from(self.arguments.hosts) - 1
    }

    fn wire_seconds(&self) -> f64 {
        let bits = (self.arguments.mebibytes << 20) as f64 * 8.0;
        bits / self.arguments.rate as f64 * FRAME_BYTES / PAYLOAD_BYTES
    }

    fn limit(&self) -> Duration {
        let default = (self.wire_seconds() * PATIENCE).max(MIN_LIMIT_SECONDS);
        Duration::from_secs_f64(self.arguments.limit.map_or(default, f64::from))
    }

    fn series(&self, tool: Tool, loss: f64) -> anyhow::Result<Series> {
        if let Some(reason) = tool.missing() {
            return Ok(Series::Missing(reason));
        }
        let mut runs = Vec::new();
        for run in 1..=self.arguments.runs {
            eprintln!("{} at loss {loss}, run {run} of {}", tool.name(), self.arguments.runs);
            match self.run(tool)? {
                Outcome::Failed(reason) => return Ok(Series::Failed(reason)),
                Outcome::Finished(finished) => runs.push(finished),
            }
        }
        let middle = |figure: fn(&Finished) -> f64| {
            median(runs.iter().map(figure).collect()).expect("there is at least one run")
        };
        Ok(Series::Finished(Finished {
            data_seconds: middle(|run| run.data_seconds),
            whole_seconds: middle(|run| run.whole_seconds),
            verified: runs.iter().map(|run| run.verified).min().expect("there is at least one run"),
            processor_seconds: middle(|run| run.processor_seconds),
        }))
    }

    fn run(&self, tool: Tool) -> anyhow::Result<Outcome> {
        let directory = scratch()?;
        let job = Job {
            tool,
            lab: self.lab,
            rate_bits_per_second: self.arguments.rate,
            is_shaped: true,
            mtu_bytes: MTU_BYTES,
            program: self.program,
            source: self.source,
            directory: directory.path(),
        };
        transfer::run(&job, self.limit(), self.interrupt)
    }

    fn row(&self, tool: Tool, loss: f64, series: &Series) -> Vec<String> {
        let dash = || "-".to_owned();
        let (figures, remark) = match series {
            Series::Missing(reason) | Series::Failed(reason) => (std::array::from_fn(|_| dash()), reason.as_str()),
            Series::Finished(finished) => {
                let times = finished.data_seconds / self.wire_seconds();
                let verified = format!("{}/{}", finished.verified, self.receivers());
                let seconds = [finished.data_seconds, finished.whole_seconds].map(|seconds| format!("{seconds:.3}"));
                let [data, whole] = seconds;
                let remark =
                    if finished.verified == self.receivers() { "" } else { "the others' bytes are not the source's" };
                let gibibytes = self.arguments.mebibytes as f64 / 1024.0 * self.receivers() as f64;
                let cost = format!("{:.2}", finished.processor_seconds / gibibytes);
                ([data, format!("{times:.3}"), whole, cost, verified], remark)
            }
        };
        let mut row = vec![tool.name(), loss.to_string()];
        row.extend(figures);
        row.push(remark.to_owned());
        row
    }

    fn print(&self, table: &Table) {
        if self.arguments.csv {
            print!("{}", table.csv());
            return;
        }
        let Arguments { mebibytes, rate, runs, .. } = self.arguments;
        println!(
            "{mebibytes} MiB to {} receivers at {}, median of {runs}:\n\n{}",
            self.receivers(),
            format_rate(*rate),
            table.aligned()
        );
        println!(
            "seconds: first data on the sender's cable until the sender has ended; whole: from the sender's start; \
             CPU: all its programs, for each GiB at a receiver."
        );
        println!(
            "wire: {:.3} s, the file in frames of {FRAME_BYTES} bytes, {PAYLOAD_BYTES} of them payload.",
            self.wire_seconds()
        );
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(share),
        _ => Err("expected a share from 0 to below 1, such as 0.01".to_owned()),
    }
}
