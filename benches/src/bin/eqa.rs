//! Figures 3 to 5 of the EQA paper: broadcasts of short messages to 2, 4 and 8 hosts by Push-Pull Broadcast (PPBCAST),
//! Simple Broadcast (SBCAST) and MPI.
//!
//! `cargo run --release -p ethbcast-benches --bin eqa`, as root, after `cargo build --release -p ethbcast`: writes
//! `docs/results/eqa.txt`, `.csv` and an SVG for each figure. An unshaped lab, the presets `push-pull` and `paper` of
//! `ethbcast perf --via cast`, Open MPI over TCP in MPICH's place. A time is that of broadcast and barrier less that of
//! the barrier, means of the middle 80 % as in the paper.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Parser;
use ethbcast_benches::bed::Bed;
use ethbcast_benches::chart::{Series, line_chart};
use ethbcast_benches::figures::Said;
use ethbcast_benches::interrupt::Interrupt;
use ethbcast_benches::mpi::{self, Cluster, Loop, Mpi, WARM_UPS};
use ethbcast_benches::perf::{self, Job, Site};
use ethbcast_benches::program::Program;
use ethbcast_benches::results;
use ethbcast_benches::table::Table;
use ethbcast_benches::units::{parse_size, size};

const SYSTEM: u8 = 4;
const SYSTEMS: [(&str, Option<&str>); 3] = [("PPBCAST", Some("push-pull")), ("SBCAST", Some("paper")), ("MPI", None)];
const HOSTS: [usize; 3] = [2, 4, 8];
const FIGURE_4_BYTES: u64 = 256;
const FIGURE_5_BYTES: u64 = 4096;
/// Assumed maximum for an iteration, in seconds, for the time limit of a run.
const SLOWEST_ITERATION_SECONDS: f64 = 0.02;

/// Measure Figures 3 to 5 of the EQA paper in labs of 2, 4 and 8 hosts; needs root.
#[derive(Debug, Parser)]
#[command(name = "eqa")]
struct Arguments {
    /// Sizes of the messages in Figure 3; with 256 and 4K, which Figures 4 and 5 have.
    #[arg(long, value_delimiter = ',', default_value = "4,64,256,860,2K,4K", value_parser = parse_size)]
    sizes: Vec<u64>,
    /// Broadcasts, and barriers alone, of each size; the paper has 500.
    #[arg(long, default_value_t = 300, value_name = "K", value_parser = clap::value_parser!(u32).range(10..=100_000))]
    iterations: u32,
    /// The program ethbcast; without it, the one beside this program.
    #[arg(long, value_name = "FILE")]
    ethbcast: Option<PathBuf>,
    /// Folder for the results.
    #[arg(long, default_value = "docs/results", value_name = "FOLDER")]
    out: PathBuf,
}

struct Point {
    system: &'static str,
    hosts: usize,
    bytes: u64,
    seconds: f64,
}

fn main() -> anyhow::Result<ExitCode> {
    let mut arguments = Arguments::parse();
    arguments.sizes.extend([FIGURE_4_BYTES, FIGURE_5_BYTES]);
    arguments.sizes.sort_unstable();
    arguments.sizes.dedup();
    if let Some(text) = mpi::missing(Mpi::OpenMpi) {
        eprintln!("eqa: {text}");
        return Ok(ExitCode::from(SYSTEM));
    }
    let program = Program::find(arguments.ethbcast.as_deref())?;
    let interrupt = Interrupt::hold()?;
    let mut points = Vec::new();
    for hosts in HOSTS {
        eprintln!("{hosts} hosts");
        let bed = Bed::one_switch("eqa", hosts, None)?;
        let cluster = Cluster::prepare(&bed.lab, Mpi::OpenMpi, 1)?;
        let site = Site { bed: &bed, program: &program, calibration: None, interrupt: &interrupt };
        for (system, preset) in SYSTEMS {
            let seconds = match preset {
                Some(preset) => ours(&arguments, &site, preset)?,
                None => theirs(&arguments, &cluster, &interrupt)?,
            };
            let point = |(&bytes, seconds)| Point { system, hosts, bytes, seconds };
            points.extend(arguments.sizes.iter().zip(seconds).map(point));
        }
    }
    report(&arguments, &points)
}

fn ours(arguments: &Arguments, site: &Site, preset: &str) -> anyhow::Result<Vec<f64>> {
    let measure = |&size_bytes: &u64| {
        let Arguments { iterations, .. } = *arguments;
        let job = Job {
            via: "cast",
            preset,
            size_bytes,
            iterations,
            predicted_seconds: SLOWEST_ITERATION_SECONDS,
            pause: Duration::ZERO,
        };
        let measured = perf::measure(site, &job)?.map_err(|words| anyhow!("ethbcast failed: {words}"))?;
        Ok(measured.broadcasts.middle80 - measured.barriers.middle80)
    };
    arguments.sizes.iter().map(measure).collect()
}

fn theirs(arguments: &Arguments, cluster: &Cluster, interrupt: &Interrupt) -> anyhow::Result<Vec<f64>> {
    let steps = f64::from(arguments.iterations) * 2.0 * arguments.sizes.len() as f64;
    let limit = Duration::from_secs_f64(60.0 + steps * SLOWEST_ITERATION_SECONDS);
    let what = Loop { warm_ups: WARM_UPS, iterations: arguments.iterations, sizes: &arguments.sizes };
    let measured = cluster.measure(&[], what, limit, interrupt)?;
    let measured = measured.map_err(|words| anyhow!("Open MPI failed: {words}"))?;
    Ok(measured.iter().map(|one| one.broadcast.middle80 - one.barrier.middle80).collect())
}

fn at(points: &[Point], system: &str, hosts: usize, bytes: u64) -> anyhow::Result<f64> {
    let point = points.iter().find(|point| (point.system, point.hosts, point.bytes) == (system, hosts, bytes));
    Ok(point.with_context(|| format!("no {system} to {hosts} hosts of {bytes} bytes"))?.seconds)
}

fn said(points: &[Point]) -> anyhow::Result<Vec<Said>> {
    let mut said = Vec::new();
    let figures = [(FIGURE_4_BYTES, "60 %", "16 %", "45 %"), (FIGURE_5_BYTES, "30 %", "12.3 %", "54 %")];
    for (bytes, faster, growth, mpi_growth) in figures {
        let time = |system, hosts| at(points, system, hosts, bytes);
        let words = size(bytes);
        let what = format!("{words} bytes to 8: PPBCAST is {faster} faster than MPICH, MPI / PPBCAST at least");
        said.push(Said::new(what, time("MPI", 8)? / time("PPBCAST", 8)?, 1.3..=f64::INFINITY));
        let grown = |system| Ok::<_, anyhow::Error>(time(system, 8)? / time(system, 2)?);
        let what = format!("{words} bytes: from 2 to 8 PPBCAST grows less ({growth}) than MPICH ({mpi_growth}), by");
        said.push(Said::new(what, grown("PPBCAST")? / grown("MPI")?, 0.0..=1.0));
    }
    Ok(said)
}

fn report(arguments: &Arguments, points: &[Point]) -> anyhow::Result<ExitCode> {
    let names: Vec<String> =
        HOSTS.iter().flat_map(|hosts| SYSTEMS.map(|(name, _)| format!("{name}/{hosts}"))).collect();
    let mut table = Table::new(&[&["bytes".to_owned()][..], &names].concat());
    let mut csv = Table::under("system, hosts, bytes, seconds");
    for &bytes in &arguments.sizes {
        let mut row = vec![size(bytes)];
        for (hosts, (system, _)) in HOSTS.into_iter().flat_map(|hosts| SYSTEMS.map(|system| (hosts, system))) {
            row.push(format!("{:.0}", at(points, system, hosts, bytes)? * 1e6));
        }
        table.push(row);
    }
    for point in points {
        let Point { system, hosts, bytes, seconds } = point;
        csv.push(vec![(*system).to_owned(), hosts.to_string(), bytes.to_string(), format!("{seconds:.9}")]);
    }
    let said = said(points)?;
    let text = format!(
        "Figures 3 to 5 of the EQA paper: broadcast latency in µs on unshaped labs of 2, 4 and 8 hosts, all on {} \
         cores.\nPPBCAST and SBCAST are the presets push-pull and paper of ethbcast, MPI is {} over TCP; {} \
         iterations.\nThe paper: 256 bytes to 8 nodes in 142 µs at 100 Mbit/s.\n\n{}\nWhat the paper says, and what \
         came out here:\n{}",
        std::thread::available_parallelism()?,
        mpi::version(Mpi::OpenMpi)?,
        arguments.iterations,
        table.aligned(),
        said.iter().map(|said| format!("{said}\n")).collect::<String>()
    );
    results::publish(&arguments.out, "eqa", &text, &csv, charts(points))?;
    Ok(results::exit_code(said.iter().all(Said::holds)))
}

fn charts(points: &[Point]) -> Vec<(String, String)> {
    let line = |system: &'static str, hosts: usize| {
        let own = points.iter().filter(move |point| (point.system, point.hosts) == (system, hosts));
        Series::new(format!("{system}/{hosts}"), own.map(|point| (point.bytes as f64, point.seconds.max(0.0) * 1e6)))
    };
    let all: Vec<Series> = HOSTS.iter().flat_map(|&hosts| SYSTEMS.map(|(system, _)| line(system, hosts))).collect();
    let mut files = vec![("3.svg".to_owned(), line_chart("Figure 3: broadcast latency", "bytes", "µs", &all, true))];
    for (number, bytes) in [(4, FIGURE_4_BYTES), (5, FIGURE_5_BYTES)] {
        let over_hosts = |(system, _): (&'static str, Option<&str>)| {
            let own = points.iter().filter(move |point| (point.system, point.bytes) == (system, bytes));
            Series::new(system, own.map(|point| (point.hosts as f64, point.seconds.max(0.0) * 1e6)))
        };
        let title = format!("Figure {number}: broadcast latency of {bytes} bytes");
        let svg = line_chart(&title, "hosts", "µs", &SYSTEMS.map(over_hosts), false);
        files.push((format!("{number}.svg"), svg));
    }
    files
}
