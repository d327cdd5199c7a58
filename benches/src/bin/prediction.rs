//! What the model and the simulator say a broadcast takes, beside what it takes in the lab.
//!
//! `cargo run --release -p ethbcast-benches --bin prediction`, as root, after `cargo build --release -p ethbcast`:
//! writes `docs/results/prediction.txt`, `.csv` and `.svg`. Hosts on one switch; `ethbcast probe` measures what the
//! network costs, and model, simulator and session are all given that calibration, so that they speak of the same
//! segments.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use ethbcast_benches::bed::Bed;
use ethbcast_benches::chart::{Series, line_chart};
use ethbcast_benches::interrupt::Interrupt;
use ethbcast_benches::payload::scratch;
use ethbcast_benches::perf::{self, Job, Measured, Site};
use ethbcast_benches::program::Program;
use ethbcast_benches::results::{self, verdict};
use ethbcast_benches::running::Running;
use ethbcast_benches::table::Table;
use ethbcast_benches::units::{milliseconds, parse_size, percent_off, size};
use ethbcast_lab::{format_rate, parse_rate};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::Via;
use serde_json::Value;

/// How far from the measured time a prediction or a simulation may be.
const TOLERANCE: f64 = 0.1;
/// Broadcasts of a point at most.
const MOST_ITERATIONS: u32 = 25;
/// How long a simulation may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Compare predicted, simulated and measured times of broadcasts in a lab; needs root.
#[derive(Debug, Parser)]
#[command(name = "prediction")]
struct Arguments {
    /// Hosts, the root included.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=64))]
    hosts: u8,
    /// Rate of every cable.
    #[arg(long, default_value = "100mbit", value_name = "RATE", value_parser = parse_rate)]
    rate: u64,
    /// Sizes of the messages.
    #[arg(long, value_delimiter = ',', default_value = "64K,256K,1M,4M,16M", value_parser = parse_size)]
    sizes: Vec<u64>,
    /// Ways to send.
    #[arg(long, value_delimiter = ',', default_value = "chain,binary,cast,flat,binomial", value_name = "VIAS")]
    vias: Vec<Via>,
    /// Time for the broadcasts of one point, in seconds; three are measured at least, but one that takes over 3 s once.
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    budget: f64,
    /// The program ethbcast; without it, the one beside this program.
    #[arg(long, value_name = "FILE")]
    ethbcast: Option<PathBuf>,
    /// Where the results go.
    #[arg(long, default_value = "docs/results", value_name = "FOLDER")]
    out: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let program = Program::find(arguments.ethbcast.as_deref())?;
    let interrupt = Interrupt::hold()?;
    let bed = Bed::one_switch("prediction", arguments.hosts.into(), Some(arguments.rate))?;
    let directory = scratch()?;
    let file = directory.path().join("calibration.toml");
    let site = Site { bed: &bed, program: &program, calibration: None, interrupt: &interrupt };
    eprintln!("probing");
    let calibration = perf::calibrate(&site, &bed.hosts()[1..], &file)?;
    let site = Site { calibration: Some(&file), ..site };

    let mut rows = Vec::new();
    for &via in &arguments.vias {
        for &size_bytes in &arguments.sizes {
            let row = Row::measure(&site, &file, &calibration, &arguments, via, size_bytes)?;
            eprintln!("{:<9} {:>5}  {}", row.via, size(size_bytes), row.words());
            rows.push(row);
        }
    }
    drop(bed);
    report(&arguments, &rows)
}

/// One way to send and one size.
struct Row {
    via: Via,
    size_bytes: u64,
    /// What was measured, or why that failed.
    measured: Result<Measured, String>,
    /// Seconds the simulator took, or why it failed.
    simulated: Result<f64, String>,
}

impl Row {
    fn measure(
        site: &Site,
        file: &Path,
        calibration: &Calibration,
        arguments: &Arguments,
        via: Via,
        size_bytes: u64,
    ) -> anyhow::Result<Self> {
        let predicted_seconds = site.bed.predict(via, size_bytes, calibration)?;
        let iterations = perf::iterations(predicted_seconds, arguments.budget, MOST_ITERATIONS);
        let name = via.to_string();
        let measured = perf::measure(site, &Job { via: &name, size_bytes, iterations, predicted_seconds })?;
        // Afterwards: the simulator would take a processor from the lab.
        let simulated = simulate(site, file, arguments, &name, size_bytes)?;
        Ok(Self { via, size_bytes, measured, simulated })
    }

    /// Predicted and simulated over measured time; `None` of what failed.
    fn ratios(&self) -> [Option<f64>; 2] {
        let measured = self.measured.as_ref().ok();
        let predicted = measured.map(|measured| measured.predicted / measured.broadcast());
        let simulated =
            measured.zip(self.simulated.as_ref().ok()).map(|(measured, seconds)| seconds / measured.broadcast());
        [predicted, simulated]
    }

    fn is_good(&self) -> [bool; 2] {
        self.ratios().map(|ratio| ratio.is_some_and(|ratio| (ratio - 1.0).abs() <= TOLERANCE))
    }

    fn words(&self) -> String {
        let off = self.ratios().map(|ratio| ratio.map_or("failed".to_owned(), |ratio| percent_off(ratio, 1.0) + " %"));
        let measured =
            self.measured.as_ref().map_or_else(Clone::clone, |measured| milliseconds(measured.broadcast()) + " ms");
        format!("{measured}, predicted {}, simulated {}", off[0], off[1])
    }
}

/// Runs the simulator on the lab's likeness.
fn simulate(
    site: &Site,
    file: &Path,
    arguments: &Arguments,
    via: &str,
    size_bytes: u64,
) -> anyhow::Result<Result<f64, String>> {
    let mut command = site.program.here("simulate");
    command.args(["--lab", "--json", "--hosts", &arguments.hosts.to_string(), "--rate", &format_rate(arguments.rate)]);
    command.args(["--via", via, "--size", &size_bytes.to_string()]).arg("--calibration").arg(file);
    let report = match Running::start("ethbcast simulate", command)?.wait(PATIENCE, site.interrupt)? {
        Ok(report) => report,
        Err(words) => return Ok(Err(words)),
    };
    let report: Value = serde_json::from_str(&report).context("`ethbcast simulate` printed no JSON")?;
    // What is measured ends with the last byte, too: perf has no verdicts.
    Ok(Ok(report["delivered_seconds"].as_f64().context("`ethbcast simulate` reports no delivered_seconds")?))
}

fn table(rows: &[Row]) -> Table {
    let mut table =
        Table::under("via, size, segment, measured, of, barrier, predicted, off %, within, simulated, off %, within");
    for row in rows {
        let measured = row.measured.as_ref().ok();
        let cell = |of: &dyn Fn(&Measured) -> String| measured.map_or("-".to_owned(), of);
        let off = row.ratios().map(|ratio| ratio.map_or("-".to_owned(), |ratio| percent_off(ratio, 1.0)));
        let within = row.is_good().map(|good| verdict(good).to_owned());
        let [[predicted_off, simulated_off], [predicted_good, simulated_good]] = [off, within];
        table.push(vec![
            row.via.to_string(),
            size(row.size_bytes),
            cell(&|measured| measured.segment_bytes.to_string()),
            cell(&|measured| milliseconds(measured.broadcast())),
            cell(&|measured| measured.iterations.to_string()),
            cell(&|measured| milliseconds(measured.barrier)),
            cell(&|measured| milliseconds(measured.predicted)),
            predicted_off,
            predicted_good,
            row.simulated.as_ref().map_or("-".to_owned(), |&seconds| milliseconds(seconds)),
            simulated_off,
            simulated_good,
        ]);
    }
    table
}

fn csv(rows: &[Row]) -> Table {
    let mut table = Table::under(
        "via, size_bytes, segment_bytes, iterations, measured_seconds, barrier_seconds, predicted_seconds, \
         simulated_seconds, remark",
    );
    for row in rows {
        let measured = row.measured.as_ref().ok();
        let cell = |of: &dyn Fn(&Measured) -> String| measured.map_or(String::new(), of);
        let failures = [row.measured.as_ref().err(), row.simulated.as_ref().err()];
        table.push(vec![
            row.via.to_string(),
            row.size_bytes.to_string(),
            cell(&|measured| measured.segment_bytes.to_string()),
            cell(&|measured| measured.iterations.to_string()),
            cell(&|measured| format!("{:.6}", measured.broadcast())),
            cell(&|measured| format!("{:.6}", measured.barrier)),
            cell(&|measured| format!("{:.6}", measured.predicted)),
            row.simulated.as_ref().map_or(String::new(), |seconds| format!("{seconds:.6}")),
            failures.into_iter().flatten().cloned().collect::<Vec<_>>().join("; "),
        ]);
    }
    table
}

/// Predicted and simulated over measured time, a line for each way to send.
fn chart(arguments: &Arguments, rows: &[Row]) -> Option<String> {
    let line = |(which, what): (usize, &str), via: Via| {
        let of_via = rows.iter().filter(|row| row.via == via);
        let points = of_via.filter_map(|row| Some((row.size_bytes as f64, row.ratios()[which]?)));
        Series::new(format!("{via} {what}"), points)
    };
    let kinds = [(0, "predicted"), (1, "simulated")].into_iter();
    let series = kinds.flat_map(|kind| arguments.vias.iter().map(move |&via| line(kind, via)));
    let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    let title = format!("{} hosts on one switch, cables of {}", arguments.hosts, format_rate(arguments.rate));
    (!series.is_empty()).then(|| line_chart(&title, "bytes", "expected time / measured time", &series, true))
}

/// Writes and prints everything; a failure if something failed or is off by more than it may be.
fn report(arguments: &Arguments, rows: &[Row]) -> anyhow::Result<ExitCode> {
    let good = |which: usize| rows.iter().filter(|row| row.is_good()[which]).count();
    let furthest = |which: usize| {
        let off = rows.iter().filter_map(|row| row.ratios()[which]).map(|ratio| (ratio - 1.0).abs());
        off.fold(0.0, f64::max) * 100.0
    };
    let summary = |which: usize, what: &str| {
        let (good, all) = (good(which), rows.len());
        let bound = TOLERANCE * 100.0;
        format!(
            "{what}: {good} of {all} within {bound:.0} % of measured, the furthest {:.1} % off: {}\n",
            furthest(which),
            verdict(good == all)
        )
    };
    let text = format!(
        "{} hosts on one switch, cables of {}: what the model predicts and the simulator simulates beside what is \
         measured, in ms.\n\
         Measured: the median of so many broadcasts and barriers, less the mean of a barrier alone.\n\n{}\n{}{}",
        arguments.hosts,
        format_rate(arguments.rate),
        table(rows).aligned(),
        summary(0, "predicted"),
        summary(1, "simulated"),
    );
    let svg = chart(arguments, rows).map(|svg| ("svg".to_owned(), svg));
    results::publish(&arguments.out, "prediction", &text, &csv(rows), svg)?;
    let failures = rows.iter().flat_map(|row| [row.measured.as_ref().err(), row.simulated.as_ref().err()]).flatten();
    failures.for_each(|words| println!("failed: {words}"));
    Ok(results::exit_code(good(0) == rows.len() && good(1) == rows.len()))
}
