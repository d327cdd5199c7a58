//! An MPI program with and without the drop-in (`--drop-in`), or `ethbcast perf` beside Open MPI,
//! over TCP in one lab and one run: broadcast with a barrier, and the barrier alone.
//!
//! `cargo run --release -p ethbcast-benches --bin mpi -- --drop-in [--rate 100mbit] [--cut]`, as
//! root, after `cargo build --release -p ethbcast-mpi` and `collectives/mpi/build-backends
//! target/release`: writes `docs/results/mpi-drop-in*`.
//!
//! `cargo run --release -p ethbcast-benches --bin mpi`, as root, after `cargo build --release -p
//! ethbcast`: writes `docs/results/mpi.txt` and `.csv`. The two take turns, several rounds of them,
//! so that a machine that gets slower does so for both; each figure is the median of the rounds'.
//! Open MPI does not verify the received bytes, `ethbcast perf` does, on every rank.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use clap::Parser;
use ethbcast_benches::bed::Bed;
use ethbcast_benches::cluster::cut_segments;
use ethbcast_benches::interrupt::Interrupt;
use ethbcast_benches::mpi::drop_in::Comparison;
use ethbcast_benches::mpi::{self, Cluster, Loop, Measured, Mpi, WARM_UPS};
use ethbcast_benches::perf::{self, Job, Site};
use ethbcast_benches::program::Program;
use ethbcast_benches::results::{self, verdict};
use ethbcast_benches::table::Table;
use ethbcast_benches::times::Times;
use ethbcast_benches::units::{parse_size, size};

/// Required speed-up of a broadcast with its barrier, by size in bytes.
const BOUNDS: [(u64, f64); 2] = [(256, 3.0), (4096, 6.0)];
const SHARED_BOUNDS: [(u64, f64); 2] = [(256, 2.0), (64 << 10, 2.0)];
const SYSTEM: u8 = 4;
/// The longest message `ethbcast perf` takes, and well within MPI's counts.
const LONGEST_BYTES: u64 = 1 << 30;
/// Assumed maximum for an iteration, in seconds, for the time limit of a run.
const SLOWEST_ITERATION_SECONDS: f64 = 0.02;

/// Compare `ethbcast perf` with Open MPI over TCP in a lab, unshaped; needs root.
#[derive(Debug, Parser)]
#[command(name = "mpi")]
struct Arguments {
    /// Sizes of the messages.
    #[arg(long, value_delimiter = ',', default_value = "256,4K", value_name = "SIZES", value_parser = measured_size)]
    sizes: Vec<u64>,
    /// Hosts.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=64))]
    hosts: u8,
    /// Ranks on each host; with several, Open MPI also uses its shared memory, and the results are called
    /// `mpi-ranks`.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    ranks_per_host: u8,
    /// Rounds in which both take their turn.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Broadcasts, and barriers alone, of each size; the EQA paper has 500.
    #[arg(long, default_value_t = 500, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    iterations: u32,
    /// Way that `ethbcast` sends.
    #[arg(long, default_value = "auto", value_name = "VIA")]
    via: String,
    /// Have Open MPI's hosts cut TCP's data into frames of 1500 bytes, as a wire carries it; without it they leave that
    /// to the network card, and veth, which has none, carries pieces of up to 64 KiB.
    #[arg(long)]
    cut: bool,
    /// Run the same MPI program with and without the drop-in, by both MPIs.
    #[arg(long)]
    drop_in: bool,
    /// The rate of the cables, with `--drop-in`; without it they are as fast as the machine copies.
    #[arg(long, value_name = "RATE", value_parser = ethbcast_planning::parse_rate, requires = "drop_in")]
    rate: Option<u64>,
    /// The drop-in, its back ends beside it; without it, the one beside this program.
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// The program ethbcast; without it, the one beside this program.
    #[arg(long, value_name = "FILE")]
    ethbcast: Option<PathBuf>,
    /// Folder for the results.
    #[arg(long, default_value = "docs/results", value_name = "FOLDER")]
    out: PathBuf,
}

fn measured_size(text: &str) -> Result<u64, String> {
    let too_long = || format!("{text} is more than can be measured: choose at most {}", size(LONGEST_BYTES));
    parse_size(text).and_then(|bytes| Some(bytes).filter(|&bytes| bytes <= LONGEST_BYTES).ok_or_else(too_long))
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let needed = if arguments.drop_in { &Mpi::ALL[..] } else { &[Mpi::OpenMpi] };
    if let Some(text) = needed.iter().find_map(|mpi| mpi::missing(*mpi)) {
        eprintln!("mpi: {text}");
        return Ok(ExitCode::from(SYSTEM));
    }
    if arguments.drop_in {
        return with_and_without(&arguments);
    }
    let program = Program::find(arguments.ethbcast.as_deref())?;
    let interrupt = Interrupt::hold()?;
    let load = load_average()?;
    let bed = Bed::one_switch("mpi", arguments.hosts.into(), None)?;
    if arguments.cut {
        cut_segments(&bed.lab)?;
    }
    let cluster = Cluster::prepare(&bed.lab, Mpi::OpenMpi, arguments.ranks_per_host.into())?;
    let site = Site { bed: &bed, program: &program, calibration: None, interrupt: &interrupt };
    let mut points: Vec<Point> = arguments.sizes.iter().map(|&size_bytes| Point::new(size_bytes)).collect();
    for round in 1..=arguments.runs {
        eprintln!("round {round} of {}", arguments.runs);
        take_turns(&arguments, &cluster, &site, &mut points)?;
    }
    drop(cluster);
    drop(bed);
    report(&arguments, &load, &points)
}

fn with_and_without(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::hold()?;
    let load = load_average()?;
    let bed = Bed::one_switch("mpi", arguments.hosts.into(), arguments.rate)?;
    if arguments.cut {
        cut_segments(&bed.lab)?;
    }
    let beside = std::env::current_exe()?.with_file_name("libethbcast_mpi.so");
    let comparison = Comparison {
        lab: &bed.lab,
        rate_bits_per_second: arguments.rate,
        sizes: &arguments.sizes,
        runs: arguments.runs,
        iterations: arguments.iterations,
        library: arguments.library.clone().unwrap_or(beside).canonicalize().context("looking for the drop-in")?,
    };
    let cables = arguments.rate.map_or("unshaped".to_owned(), |rate| format!("at {} Mbit/s", rate / 1_000_000));
    let mut text = format!(
        "An MPI program (MPI_Bcast, MPI_Barrier) over TCP, {} ranks on {} hosts of a lab {cables}{}: alone, with\n\
         LD_PRELOAD=libethbcast_mpi.so, and with it where it may not run (refused, as a multiple of alone). Medians\n\
         of {} rounds, in ms; x copy: multiples of the time of one copy on a cable. The machine's load was {load}\n\
         before.\n\n",
        arguments.hosts,
        arguments.hosts,
        if arguments.cut { ", TCP cut to frames of 1500 bytes" } else { "" },
        arguments.runs,
    );
    let (mut csv, mut all_met) = (Comparison::csv(), true);
    for mpi in Mpi::ALL {
        let (figures, is_met) = comparison.report(mpi, &comparison.measure(mpi, &interrupt)?, &mut csv)?;
        text += &figures;
        all_met &= is_met;
    }
    let shaped = arguments.rate.map_or(String::new(), |rate| format!("-{}mbit", rate / 1_000_000));
    let name = format!("mpi-drop-in{shaped}-{}{}", arguments.hosts, if arguments.cut { "-cut" } else { "" });
    results::publish(&arguments.out, &name, &text, &csv, [])?;
    Ok(results::exit_code(all_met))
}

/// Returns the load average of the last minute: on a busy machine ranks also wait for other
/// processes, most of all Open MPI's.
fn load_average() -> anyhow::Result<String> {
    let text = fs::read_to_string("/proc/loadavg").context("reading /proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

struct Point {
    size_bytes: u64,
    vias: Vec<String>,
    ours: Vec<Measured>,
    theirs: Vec<Measured>,
}

fn take_turns(arguments: &Arguments, cluster: &Cluster, site: &Site, points: &mut [Point]) -> anyhow::Result<()> {
    let Arguments { sizes, iterations, via, .. } = arguments;
    let steps = f64::from(*iterations) * 2.0 * sizes.len() as f64;
    let limit = Duration::from_secs_f64(60.0 + steps * SLOWEST_ITERATION_SECONDS);
    let theirs = cluster
        .measure(&[], Loop { warm_ups: WARM_UPS, iterations: *iterations, sizes }, limit, site.interrupt)?
        .map_err(|words| anyhow!("Open MPI failed: {words}"))?;
    for (point, theirs) in points.iter_mut().zip(theirs) {
        point.theirs.push(theirs);
    }
    for point in points {
        let job = Job {
            via,
            preset: "default",
            size_bytes: point.size_bytes,
            iterations: *iterations,
            predicted_seconds: SLOWEST_ITERATION_SECONDS,
            pause: Duration::ZERO,
        };
        let ours = perf::measure_ranks(site, &job, arguments.ranks_per_host.into())?
            .map_err(|words| anyhow!("ethbcast failed: {words}"))?;
        if !point.vias.contains(&ours.via) {
            point.vias.push(ours.via);
        }
        point.ours.push(Measured { broadcast: ours.broadcasts, barrier: ours.barriers });
    }
    Ok(())
}

impl Point {
    fn new(size_bytes: u64) -> Self {
        Self { size_bytes, vias: Vec::new(), ours: Vec::new(), theirs: Vec::new() }
    }

    fn times(&self, what: fn(&Measured) -> Times) -> (Times, Times) {
        let median = |rounds: &[Measured]| Times::median_of(&rounds.iter().map(what).collect::<Vec<_>>());
        (median(&self.theirs).expect("there is a round"), median(&self.ours).expect("there is a round"))
    }

    fn rows(&self) -> [(&'static str, (Times, Times)); 2] {
        [("broadcast + barrier", self.times(|round| round.broadcast)), ("barrier", self.times(|round| round.barrier))]
    }

    /// Returns the bound on their time over ours for this size, if any, and the measured ratio.
    fn bound(&self, bounds: &[(u64, f64)]) -> Option<(f64, f64)> {
        let &(_, bound) = bounds.iter().find(|(size_bytes, _)| *size_bytes == self.size_bytes)?;
        let (theirs, ours) = self.times(|round| round.broadcast);
        Some((bound, theirs.middle80 / ours.middle80))
    }
}

fn table(points: &[Point]) -> Table {
    let heading = ["size", "middle80", "median", "p99", "ours middle80", "median", "p99", "ratio", "what, via"];
    let mut table = Table::new(&heading);
    for point in points {
        for (what, (theirs, ours)) in point.rows() {
            let figures =
                |times: Times| [times.middle80, times.median, times.p99].map(|seconds| format!("{:.1}", seconds * 1e6));
            let ratio = format!("{:.2}", theirs.middle80 / ours.middle80);
            let what = format!("{what}, {}", point.vias.join(" or "));
            let mut cells = vec![size(point.size_bytes)];
            cells.extend(figures(theirs));
            cells.extend(figures(ours));
            cells.extend([ratio, what]);
            table.push(cells);
        }
    }
    table
}

fn csv(points: &[Point]) -> Table {
    let heading =
        ["what", "size_bytes", "round", "program", "via", "middle80_seconds", "median_seconds", "p99_seconds"];
    let mut table = Table::new(&heading);
    for point in points {
        for (program, via, rounds) in
            [("openmpi", String::new(), &point.theirs), ("ethbcast", point.vias.join(" or "), &point.ours)]
        {
            for (round, measured) in rounds.iter().enumerate() {
                for (what, times) in [("broadcast + barrier", measured.broadcast), ("barrier", measured.barrier)] {
                    let figures = [times.middle80, times.median, times.p99].map(|seconds| format!("{seconds:.9}"));
                    let round = (round + 1).to_string();
                    let mut cells =
                        vec![what.to_owned(), point.size_bytes.to_string(), round, program.to_owned(), via.clone()];
                    cells.extend(figures);
                    table.push(cells);
                }
            }
        }
    }
    table
}

fn report(arguments: &Arguments, load: &str, points: &[Point]) -> anyhow::Result<ExitCode> {
    let is_shared = arguments.ranks_per_host > 1;
    let (name, bounds) = if is_shared { ("mpi-ranks", SHARED_BOUNDS) } else { ("mpi", BOUNDS) };
    let cores = std::thread::available_parallelism()?;
    let pieces =
        if arguments.cut { "frames of 1500 bytes" } else { "pieces of up to 64 KiB, which veth carries whole" };
    let mut text = format!(
        "Broadcast with a barrier behind it, and barriers alone, {} hosts of one unshaped lab with {} on each, \
         {cores} cores for all. First\n\
         {} over TCP{}, sent in {pieces}; then ethbcast perf --via {}, in frames\n\
         of 1500 bytes. {} iterations of each, medians of {} rounds, in µs; ratios of the means of the middle 80 %.\n\
         Open MPI yields when idle (mpi_yield_when_idle 1): a rank that spins keeps its core from the one it waits \
         for.\n\
         The machine's load was {load} before; what else runs slows Open MPI more than ethbcast.\n\n{}\n",
        arguments.hosts,
        if is_shared { format!("{} ranks", arguments.ranks_per_host) } else { "one rank".to_owned() },
        mpi::version(Mpi::OpenMpi)?,
        if is_shared { " and its shared memory" } else { "" },
        arguments.via,
        arguments.iterations,
        arguments.runs,
        table(points).aligned(),
    );
    let mut all_met = true;
    for (point, (bound, ratio)) in points.iter().filter_map(|point| Some((point, point.bound(&bounds)?))) {
        all_met &= ratio >= bound;
        let size = size(point.size_bytes);
        text += &format!(
            "broadcast + barrier, {size} bytes: {ratio:.2} times as fast (at least {bound:.0}): {}\n",
            verdict(ratio >= bound)
        );
    }
    results::publish(&arguments.out, name, &text, &csv(points), [])?;
    Ok(results::exit_code(all_met))
}
