//! The shapes of Figures 12 to 16 of Patarasuk 2008: every kind of plan, on topologies (1), (4) and
//! (5), message by message, and a chain in segments of several lengths on the first of them.
//!
//! `cargo run --release -p ethbcast-benches --bin algorithms`, as root, after `cargo build
//! --release -p ethbcast`: writes `docs/results/figures12-16.txt`, `.csv` and an SVG for each
//! topology and for the segments. The labs of all topologies are up together, and each kind of plan
//! is measured on one after the other, so that a machine that gets slower does so for all. The
//! network's costs are probed once, because all topologies have the same cables; so all use the
//! same segments.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ethbcast_benches::bed::Bed;
use ethbcast_benches::chart::{Series, line_chart};
use ethbcast_benches::interrupt::Interrupt;
use ethbcast_benches::payload::scratch;
use ethbcast_benches::perf::{self, Job, Measured, Site};
use ethbcast_benches::program::Program;
use ethbcast_benches::results::{self, verdict};
use ethbcast_benches::segments::Segments;
use ethbcast_benches::shapes::{Claim, claims};
use ethbcast_benches::table::Table;
use ethbcast_benches::units::{copy_seconds, milliseconds, parse_size, size};
use ethbcast_lab::{format_rate, parse_rate};
use ethbcast_planning::model::Calibration;
use ethbcast_planning::plan::Via;

/// Broadcasts of a point at most: a median of more is no better.
const MAX_ITERATIONS: u32 = 15;
const BESIDE_SECONDS: f64 = 0.7;

/// No broadcast takes less than one copy; medians of two loops are compared.
const MIN_COPIES: f64 = 0.99;

/// Measure all ways to send on the papers' test beds, side by side; needs root.
#[derive(Debug, Parser)]
#[command(name = "algorithms")]
struct Arguments {
    /// Test beds.
    #[arg(long, value_delimiter = ',', default_value = "fig9-1,fig9-4,fig9-5", value_name = "NAMES")]
    topologies: Vec<String>,
    /// Rate of every cable: 32 hosts on two cores can carry 25 Mbit/s.
    #[arg(long, default_value = "25mbit", value_name = "RATE", value_parser = parse_rate)]
    rate: u64,
    /// Sizes of the messages.
    #[arg(long, value_delimiter = ',', default_value = "8K,32K,128K,512K,1M", value_parser = parse_size)]
    sizes: Vec<u64>,
    /// Ways to send, in the order of the table's columns.
    #[arg(long, value_delimiter = ',', default_values_t = Via::ALL.iter().copied(), value_name = "VIAS")]
    vias: Vec<Via>,
    /// Segments of the chain in Figure 16, in frames.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,2,4,8,16",
        value_name = "FRAMES",
        value_parser = clap::value_parser!(u64).range(1..=64)
    )]
    segments: Vec<u64>,
    /// Time for the broadcasts of one point, in seconds; three are measured at least, but one that takes over 3 s once.
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    budget: f64,
    /// Leave out what is predicted to take longer than this for one broadcast, in seconds.
    #[arg(long, default_value_t = 15.0, value_name = "SECONDS")]
    longest: f64,
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
    let up = |name: &String| Bed::builtin("algorithms", name, arguments.rate);
    let beds = arguments.topologies.iter().map(up).collect::<anyhow::Result<Vec<_>>>()?;
    let directory = scratch()?;
    let file = directory.path().join("calibration.toml");
    let first = Site { bed: &beds[0], program: &program, calibration: None, interrupt: &interrupt };
    eprintln!("probing");
    let hosts = beds[0].hosts();
    let calibration = perf::calibrate(&first, &[hosts[1].clone(), hosts[hosts.len() - 1].clone()], &file)?;

    let mut points = planned(&arguments, &beds, &calibration)?;
    let broadcasts: f64 =
        points.iter().map(|point| point.predicted * f64::from(point.iterations) + BESIDE_SECONDS).sum();
    eprintln!("{} points: about {:.1} min", points.len(), broadcasts / 60.0);
    for point in points.iter_mut().filter(|point| point.iterations > 0) {
        let site = Site { bed: &beds[point.bed], calibration: Some(&file), ..first };
        let Point { via, size_bytes, iterations, predicted: predicted_seconds, .. } = *point;
        let name = via.to_string();
        let outcome = perf::measure(
            &site,
            &Job { via: &name, preset: "default", size_bytes, iterations, predicted_seconds, pause: Duration::ZERO },
        )?;
        eprintln!("{:<8} {via:<19} {:>5}  {}", arguments.topologies[point.bed], size(size_bytes), words(&outcome));
        point.outcome = Some(outcome);
    }
    eprintln!("segments of a chain on {}", arguments.topologies[0]);
    let segments = Segments::measure(&first, &arguments.sizes, &arguments.segments, directory.path())?;
    let burst_bytes = beds[0].burst_bytes(arguments.rate);
    drop(beds);
    report(&Findings { arguments: &arguments, points, segments, burst_bytes })
}

struct Point {
    bed: usize,
    via: Via,
    size_bytes: u64,
    predicted: f64,
    iterations: u32,
    outcome: Option<Result<Measured, String>>,
}

fn planned(arguments: &Arguments, beds: &[Bed], calibration: &Calibration) -> anyhow::Result<Vec<Point>> {
    let mut points = Vec::new();
    for &size_bytes in &arguments.sizes {
        for &via in &arguments.vias {
            for (number, bed) in beds.iter().enumerate() {
                let predicted = bed.predict(via, size_bytes, calibration)?;
                let is_measured = predicted <= arguments.longest;
                let iterations =
                    if is_measured { perf::iterations(predicted, arguments.budget, MAX_ITERATIONS) } else { 0 };
                points.push(Point { bed: number, via, size_bytes, predicted, iterations, outcome: None });
            }
        }
    }
    Ok(points)
}

fn words(outcome: &Result<Measured, String>) -> String {
    match outcome {
        Ok(measured) => format!("{} ms, median of {}", milliseconds(measured.broadcast()), measured.iterations),
        Err(words) => format!("failed: {words}"),
    }
}

struct Findings<'a> {
    arguments: &'a Arguments,
    points: Vec<Point>,
    /// A chain on the first topology, in other segments than the predicted best.
    segments: Segments,
    /// Bytes that a cable's token bucket passes at once.
    burst_bytes: u64,
}

impl Findings<'_> {
    fn at(&self, topology: &str, via: Via, size_bytes: u64) -> Option<&Point> {
        let name = |point: &Point| self.arguments.topologies[point.bed].as_str();
        self.points.iter().find(|point| (name(point), point.via, point.size_bytes) == (topology, via, size_bytes))
    }

    fn seconds(&self, topology: &str, via: Via, size_bytes: u64) -> Option<f64> {
        let outcome = self.at(topology, via, size_bytes)?.outcome.as_ref()?;
        outcome.as_ref().ok().map(Measured::broadcast)
    }

    /// Least time of a message on an idle cable: the bytes that its token bucket passes at once
    /// take none.
    fn copy_seconds(&self, size_bytes: u64) -> f64 {
        copy_seconds(size_bytes, self.arguments.rate) - self.burst_bytes as f64 * 8.0 / self.arguments.rate as f64
    }

    fn least(&self) -> f64 {
        let times =
            self.points.iter().filter_map(|point| Some((point.size_bytes, point.outcome.as_ref()?.as_ref().ok()?)));
        times.map(|(bytes, measured)| measured.broadcast() / self.copy_seconds(bytes)).fold(f64::INFINITY, f64::min)
    }

    fn table(&self, topology: &str, cell: impl Fn(f64, u64) -> String) -> Table {
        let names = self.arguments.vias.iter().map(Via::to_string);
        let heading: Vec<String> =
            ["size", "copy"].map(str::to_owned).into_iter().chain(names).chain(["remarks".to_owned()]).collect();
        let mut table = Table::new(&heading);
        for &size_bytes in &self.arguments.sizes {
            let mut row = vec![size(size_bytes), cell(self.copy_seconds(size_bytes), size_bytes)];
            let time = |&via: &Via| self.seconds(topology, via, size_bytes);
            row.extend(
                self.arguments.vias.iter().map(|via| time(via).map_or("-".to_owned(), |time| cell(time, size_bytes))),
            );
            row.push(self.remarks(topology, size_bytes));
            table.push(row);
        }
        table
    }

    fn remarks(&self, topology: &str, size_bytes: u64) -> String {
        let points = self.arguments.vias.iter().filter_map(|&via| self.at(topology, via, size_bytes));
        points.filter_map(remark).collect::<Vec<_>>().join("; ")
    }

    fn csv(&self) -> Table {
        let mut table = Table::under(
            "topology, via, size_bytes, segment_bytes, iterations, broadcast_seconds, \
             median_with_barrier_seconds, barrier_seconds, predicted_seconds, copy_seconds, remark",
        );
        for point in &self.points {
            let measured = point.outcome.as_ref().and_then(|outcome| outcome.as_ref().ok());
            let time =
                |of: fn(&Measured) -> f64| measured.map_or(String::new(), |measured| format!("{:.6}", of(measured)));
            table.push(vec![
                self.arguments.topologies[point.bed].clone(),
                point.via.to_string(),
                point.size_bytes.to_string(),
                measured.map_or(String::new(), |measured| measured.segment_bytes.to_string()),
                point.iterations.to_string(),
                time(Measured::broadcast),
                time(|measured| measured.median),
                time(|measured| measured.barrier),
                format!("{:.6}", point.predicted),
                format!("{:.6}", self.copy_seconds(point.size_bytes)),
                remark(point).unwrap_or_default(),
            ]);
        }
        table
    }

    fn chart(&self, topology: &str) -> Option<String> {
        let line = |&via: &Via| {
            let sizes = self.arguments.sizes.iter();
            let time = |&size_bytes: &u64| Some((size_bytes, self.seconds(topology, via, size_bytes)?));
            let points = sizes.filter_map(time).map(|(bytes, time)| (bytes as f64, time / self.copy_seconds(bytes)));
            Series::new(via.to_string(), points)
        };
        let drawn = self.arguments.vias.iter().filter(|&&via| via != Via::Flat).map(line);
        let series: Vec<Series> = drawn.filter(|series| !series.points.is_empty()).collect();
        let title = format!("Ways to send on {topology}, cables of {}", format_rate(self.arguments.rate));
        (!series.is_empty()).then(|| line_chart(&title, "bytes", "time / time of one copy on a cable", &series, true))
    }

    fn claims(&self) -> Vec<Claim> {
        claims(&self.arguments.sizes, &self.arguments.topologies, |topology, via, bytes| {
            self.seconds(topology, via, bytes)
        })
    }
}

fn remark(point: &Point) -> Option<String> {
    match &point.outcome {
        Some(Ok(_)) => None,
        Some(Err(words)) => Some(format!("{} failed: {words}", point.via)),
        None => Some(format!("{} left out, {:.0} s predicted", point.via, point.predicted)),
    }
}

fn report(findings: &Findings) -> anyhow::Result<ExitCode> {
    let Arguments { topologies, rate, out, .. } = findings.arguments;
    let mut text = format!(
        "All ways to send side by side, cables of {}: the shapes of Figures 12 to 16 of Patarasuk 2008.\n\
         Median of a broadcast and barrier less that of a barrier, in ms; copy: a cable's time for the message once, \
         less\n\
         what its token bucket lets pass at once ({} bytes).\n",
        format_rate(*rate),
        findings.burst_bytes
    );
    for topology in topologies {
        let table = findings.table(topology, |seconds, _| milliseconds(seconds));
        text += &format!("\n{topology}\n{}", table.aligned());
    }
    text += "\nThe same in copies of the message:\n";
    for topology in topologies {
        let in_copies = |seconds: f64, bytes| format!("{:.2}", seconds / findings.copy_seconds(bytes));
        text += &format!("\n{topology}\n{}", findings.table(topology, in_copies).aligned());
    }
    let (least, is_met) = (findings.least(), findings.least() >= MIN_COPIES);
    text += &format!("\nThe least of all is {least:.3} copies (at least {MIN_COPIES}): {}\n", verdict(is_met));
    let claims = findings.claims();
    if !claims.is_empty() {
        let lines: String = claims.iter().map(|claim| format!("{claim}\n")).collect();
        text += &format!(
            "\nWhere a message has more frames than there are hosts (a shorter one is all beginning):\n{lines}"
        );
    }
    text += &format!(
        "\nA chain on {} in segments of several lengths (Figure 16), first data frame to last verdict, median of \
         3:\n\n{}",
        topologies[0],
        findings.segments.table().aligned()
    );
    let charts = topologies.iter().filter_map(|name| Some((format!("{name}.svg"), findings.chart(name)?)));
    let mut files: Vec<_> = charts.collect();
    files.push(("segments.csv".to_owned(), findings.segments.table().csv()));
    let title = format!("A chain on {}, cables of {}", topologies[0], format_rate(*rate));
    let chart = findings.segments.chart(&title, |bytes| findings.copy_seconds(bytes));
    files.extend(chart.map(|svg| ("segments.svg".to_owned(), svg)));
    results::publish(out, "figures12-16", &text, &findings.csv(), files)?;
    let failed = findings.points.iter().any(|point| matches!(point.outcome, Some(Err(_))));
    let good = is_met && !failed && findings.segments.is_complete() && claims.iter().all(Claim::holds);
    Ok(results::exit_code(good))
}
