//! Times of a broadcast by the model and by the simulator, beside those in the lab.
//!
//! `cargo run --release -p ethbcast-benches --bin prediction`, as root, after `cargo build
//! --release -p ethbcast`: writes `docs/results/prediction.txt`, `.csv` and `.svg`; with
//! `--unshaped --sizes 64K,1M,16M,64M,512M` it writes `docs/results/prediction-unshaped.*`, where
//! processors are the limit. Hosts are on one switch. `ethbcast probe` measures the network's
//! costs; the bytes that the cables' token buckets pass at once are added (`burst_ns`); model,
//! simulator and session all get this calibration, so that they use the same segments. Short
//! messages are measured more often, because other processes may run between two of their hosts;
//! and the root rests before each, because right behind another a broadcast finds the buckets
//! empty.

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

/// Tolerance of predictions and simulations; [`LONG_TOLERANCE`] from [`LONG_BYTES`] on, on shaped
/// cables.
const TOLERANCE: f64 = 0.15;
const LONG_TOLERANCE: f64 = 0.1;
const LONG_BYTES: u64 = 64 << 10;
/// Share of all results that must be within [`TOLERANCE`].
const MAX_BUSY_SHARE: f64 = 0.95;
/// Broadcasts of a point at most: of messages shorter than [`LONG_BYTES`], and of others.
const MAX_ITERATIONS: [u32; 2] = [301, 25];
/// Rest of the root before each broadcast shorter than [`LONG_BYTES`] on shaped cables: their
/// buckets are full again then, as in the model and the simulator.
const ROOT_PAUSE: Duration = Duration::from_millis(3);
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
    /// Leave the cables as fast as the machine copies; nothing is simulated then.
    #[arg(long, conflicts_with = "rate")]
    unshaped: bool,
    /// Sizes of the messages.
    #[arg(long, value_delimiter = ',', default_value = "1K,2K,4K,8K,64K,256K,1M,4M,16M", value_parser = parse_size)]
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
    /// Folder for the results.
    #[arg(long, default_value = "docs/results", value_name = "FOLDER")]
    out: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let program = Program::find(arguments.ethbcast.as_deref())?;
    let interrupt = Interrupt::hold()?;
    let bed = Bed::one_switch("prediction", arguments.hosts.into(), (!arguments.unshaped).then_some(arguments.rate))?;
    let directory = scratch()?;
    let file = directory.path().join("calibration.toml");
    let site = Site { bed: &bed, program: &program, calibration: None, interrupt: &interrupt };
    eprintln!("probing");
    let mut calibration = perf::calibrate(&site, &bed.hosts()[1..], &file)?;
    if !arguments.unshaped {
        // No probe measures the token bucket's burst; the lab knows it.
        let burst_ns = bed.burst_bytes(arguments.rate) * 8_000_000_000 / arguments.rate;
        calibration = calibration.with_burst_ns(burst_ns)?;
        std::fs::write(&file, calibration.to_toml())?;
    }
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

struct Row {
    via: Via,
    size_bytes: u64,
    measured: Result<Measured, String>,
    simulated: Option<Result<f64, String>>,
    tolerance: f64,
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
        let most = MAX_ITERATIONS[usize::from(size_bytes >= LONG_BYTES)];
        let iterations = perf::iterations(predicted_seconds, arguments.budget, most);
        let pause = if arguments.unshaped || size_bytes >= LONG_BYTES { Duration::ZERO } else { ROOT_PAUSE };
        let name = via.to_string();
        let measured = perf::measure(
            site,
            &Job { via: &name, preset: "default", size_bytes, iterations, predicted_seconds, pause },
        )?;
        // Afterwards: the simulator would take a processor from the lab.
        let simulated =
            if arguments.unshaped { None } else { Some(simulate(site, file, arguments, &name, size_bytes)?) };
        let is_long = !arguments.unshaped && size_bytes >= LONG_BYTES;
        let tolerance = if is_long { LONG_TOLERANCE } else { TOLERANCE };
        Ok(Self { via, size_bytes, measured, simulated, tolerance })
    }

    fn simulated_seconds(&self) -> Option<f64> {
        self.simulated.as_ref()?.as_ref().ok().copied()
    }

    fn failures(&self) -> impl Iterator<Item = String> {
        let simulated = self.simulated.as_ref().and_then(|simulated| simulated.as_ref().err());
        self.measured.as_ref().err().into_iter().chain(simulated).cloned()
    }

    fn ratios(&self) -> [Option<f64>; 2] {
        let measured = self.measured.as_ref().ok();
        let predicted = measured.map(|measured| measured.predicted / measured.broadcast());
        let simulated = measured
            .zip(self.simulated.as_ref().and_then(|simulated| simulated.as_ref().ok()))
            .map(|(measured, seconds)| seconds / measured.broadcast());
        [predicted, simulated]
    }

    fn is_good(&self) -> [bool; 2] {
        self.within(self.tolerance)
    }

    fn within(&self, tolerance: f64) -> [bool; 2] {
        self.ratios().map(|ratio| ratio.is_some_and(|ratio| (ratio - 1.0).abs() <= tolerance))
    }

    fn words(&self) -> String {
        let off = self.ratios().map(|ratio| ratio.map_or("failed".to_owned(), |ratio| percent_off(ratio, 1.0) + " %"));
        let measured =
            self.measured.as_ref().map_or_else(Clone::clone, |measured| milliseconds(measured.broadcast()) + " ms");
        let simulated = self.simulated.as_ref().map_or_else(String::new, |_| format!(", simulated {}", off[1]));
        format!("{measured}, predicted {}{simulated}", off[0])
    }
}

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
    // The measured time ends with the last byte, too: perf has no verdicts.
    Ok(Ok(report["delivered_seconds"].as_f64().context("`ethbcast simulate` reports no delivered_seconds")?))
}

fn table(rows: &[Row]) -> Table {
    let mut table =
        Table::under("via, size, segment, measured, of, barrier, predicted, off %, within, simulated, off %, within");
    for row in rows {
        let measured = row.measured.as_ref().ok();
        let cell = |of: &dyn Fn(&Measured) -> String| measured.map_or("-".to_owned(), of);
        let off = row.ratios().map(|ratio| ratio.map_or("-".to_owned(), |ratio| percent_off(ratio, 1.0)));
        let tried = [true, row.simulated.is_some()];
        let within = tried.map(|tried| if tried { verdict } else { |_| "-" });
        let [predicted, simulated] = row.is_good();
        let within = [within[0](predicted).to_owned(), within[1](simulated).to_owned()];
        let [[predicted_off, simulated_off], [predicted_good, simulated_good]] = [off, within];
        table.push(vec![
            row.via.to_string(),
            size(row.size_bytes),
            cell(&|measured| measured.segment_bytes.to_string()),
            cell(&|measured| milliseconds(measured.broadcast())),
            cell(&|measured| measured.iterations.to_string()),
            cell(&|measured| milliseconds(measured.barriers.median)),
            cell(&|measured| milliseconds(measured.predicted)),
            predicted_off,
            predicted_good,
            row.simulated_seconds().map_or("-".to_owned(), milliseconds),
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
        let failures = row.failures();
        table.push(vec![
            row.via.to_string(),
            row.size_bytes.to_string(),
            cell(&|measured| measured.segment_bytes.to_string()),
            cell(&|measured| measured.iterations.to_string()),
            cell(&|measured| format!("{:.6}", measured.broadcast())),
            cell(&|measured| format!("{:.6}", measured.barriers.median)),
            cell(&|measured| format!("{:.6}", measured.predicted)),
            row.simulated_seconds().map_or(String::new(), |seconds| format!("{seconds:.6}")),
            failures.collect::<Vec<_>>().join("; "),
        ]);
    }
    table
}

fn chart(arguments: &Arguments, rows: &[Row]) -> Option<String> {
    let line = |(which, what): (usize, &str), via: Via| {
        let of_via = rows.iter().filter(|row| row.via == via);
        // On a busy machine a barrier alone may take longer than one behind a broadcast: there is
        // no ratio then.
        let points =
            of_via.filter_map(|row| Some((row.size_bytes as f64, row.ratios()[which].filter(|&it| it > 0.0)?)));
        Series::new(format!("{via} {what}"), points)
    };
    let kinds = [(0, "predicted"), (1, "simulated")].into_iter();
    let series = kinds.flat_map(|kind| arguments.vias.iter().map(move |&via| line(kind, via)));
    let series: Vec<Series> = series.filter(|series| !series.points.is_empty()).collect();
    let title = format!("{} hosts on one switch, {}", arguments.hosts, cables(arguments));
    (!series.is_empty()).then(|| line_chart(&title, "bytes", "expected time / measured time", &series, true))
}

fn cables(arguments: &Arguments) -> String {
    if arguments.unshaped { "unshaped cables".to_owned() } else { format!("cables of {}", format_rate(arguments.rate)) }
}

fn summary(rows: &[Row], which: usize, what: &str) -> (bool, String) {
    let all = rows.len();
    let count = |counts: &dyn Fn(&&Row) -> bool| rows.iter().filter(counts).count();
    let close = count(&|row| row.within(TOLERANCE)[which]);
    let (long, long_close) = (
        count(&|row| row.tolerance < TOLERANCE),
        count(&|row| row.tolerance < TOLERANCE && row.within(row.tolerance)[which]),
    );
    let off = rows.iter().filter_map(|row| row.ratios()[which]).map(|ratio| (ratio - 1.0).abs());
    let furthest = off.fold(0.0, f64::max) * 100.0;
    let is_met = close as f64 >= all as f64 * MAX_BUSY_SHARE && long_close == long;
    let mut text = format!(
        "{what}: {close} of {all} within {:.0} % of measured ({:.0} % of them have to be)",
        TOLERANCE * 100.0,
        MAX_BUSY_SHARE * 100.0
    );
    if long > 0 {
        let (least, bound) = (size(LONG_BYTES), LONG_TOLERANCE * 100.0);
        text += &format!(", {long_close} of {long} from {least} on within {bound:.0} % (all have to be)");
    }
    (is_met, format!("{text}, the furthest {furthest:.1} % off: {}\n", verdict(is_met)))
}

fn report(arguments: &Arguments, rows: &[Row]) -> anyhow::Result<ExitCode> {
    let (predicted_met, predicted) = summary(rows, 0, "predicted");
    let (simulated_met, simulated) =
        if arguments.unshaped { (true, String::new()) } else { summary(rows, 1, "simulated") };
    let text = format!(
        "{} hosts on one switch, {}: what the model predicts and the simulator simulates beside what is measured, in \
         ms.\n\
         Measured: the median of so many broadcasts and barriers, less that of a barrier alone.\n\n{}\n\
         {predicted}{simulated}",
        arguments.hosts,
        cables(arguments),
        table(rows).aligned(),
    );
    let name = if arguments.unshaped { "prediction-unshaped" } else { "prediction" };
    let svg = chart(arguments, rows).map(|svg| ("svg".to_owned(), svg));
    results::publish(&arguments.out, name, &text, &csv(rows), svg)?;
    rows.iter().flat_map(Row::failures).for_each(|words| println!("failed: {words}"));
    Ok(results::exit_code(predicted_met && simulated_met))
}
