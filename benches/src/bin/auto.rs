//! The choices of `auto` beside the best of all suitable plans.
//!
//! `cargo run --release -p ethbcast-benches --bin auto`, as root, after `cargo build --release -p
//! ethbcast`: writes `docs/results/auto.txt`, `.csv` and `.svg`. On the papers' test beds, on one
//! whose switches police broadcast, and on a switch where one host hangs on a slower cable, `auto`
//! and every plan take turns, several rounds of them, so that a machine that gets slower does so
//! for all. The time compared is that until the root knows that all have the message, that of a
//! broadcast and a barrier: at small sizes a program waits for it. Every plan is tried; one that
//! *took* several times as long as the best is not tried again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ethbcast_benches::bed::Bed;
use ethbcast_benches::chart::{Series, line_chart};
use ethbcast_benches::interrupt::Interrupt;
use ethbcast_benches::payload::scratch;
use ethbcast_benches::perf::{self, Job, Site};
use ethbcast_benches::program::Program;
use ethbcast_benches::results::{self, verdict};
use ethbcast_benches::table::{Table, median};
use ethbcast_benches::units::{FRAME_PAYLOAD_BYTES, milliseconds, parse_size, size};
use ethbcast_lab::{format_rate, parse_rate};
use ethbcast_planning::model::Calibration;

/// Plans that can be best; the others send everything more often than one of these on every cable,
/// or along contended ones.
const PLANS: [&str; 7] = ["chain", "binary", "kary=3", "cast", "binomial", "latency", "scatter-allgather"];
/// Suffix of a test bed whose switches police broadcast, with their frames a second and their
/// burst.
const POLICED: &str = ":policed";
const POLICED_FRAMES_PER_SECOND: u32 = 500;
const POLICED_BURST_FRAMES: u32 = 20;
const MIXED: &str = "mixed";
const MIXED_PART: u64 = 4;
const MAX_RATIO: f64 = 1.1;
const SIZES_BYTES: [u64; 4] = [256, 4 << 10, 64 << 10, 1 << 20];
const MORE_SIZES_BYTES: [u64; 3] = [4 << 20, 16 << 20, 64 << 20];
/// Broadcasts of a run at most: below a millisecond, medians of fewer are not comparable.
const MAX_ITERATIONS: u32 = 60;
/// Ratio to the best plan's time from which a plan is not tried again.
const HOPELESS: f64 = 3.0;

/// Compare `auto` with the best of all plans on the papers' test beds; needs root.
#[derive(Debug, Parser)]
#[command(name = "auto")]
struct Arguments {
    /// Test beds: `fig9-1` to `fig9-5`, with `:policed` behind it where switches police broadcast, and `mixed`.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "fig9-1,fig9-4,fig9-5,fig9-4:policed,mixed,mixed:policed",
        value_name = "NAMES"
    )]
    topologies: Vec<String>,
    /// Rate of every cable: 32 hosts on two cores can carry 25 Mbit/s.
    #[arg(long, default_value = "25mbit", value_name = "RATE", value_parser = parse_rate)]
    rate: u64,
    /// Sizes of the messages; without it 256, 4K, 64K and 1M.
    #[arg(long, value_delimiter = ',', value_name = "SIZES", value_parser = parse_size)]
    sizes: Vec<u64>,
    /// Sizes up to 64M.
    #[arg(long, conflicts_with = "sizes")]
    full: bool,
    /// Rounds in which everything takes its turn; long messages get one.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Time for the broadcasts of one turn, in seconds; three are measured at least, but one that takes over 3 s once.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    budget: f64,
    /// Probe each test bed first; without it every session begins with its own short probe, as it does for users.
    #[arg(long)]
    calibrated: bool,
    /// The program ethbcast; without it, the one beside this program.
    #[arg(long, value_name = "FILE")]
    ethbcast: Option<PathBuf>,
    /// Folder for the results.
    #[arg(long, default_value = "docs/results", value_name = "FOLDER")]
    out: PathBuf,
}

impl Arguments {
    fn sizes(&self) -> Vec<u64> {
        match (self.sizes.as_slice(), self.full) {
            ([], true) => [SIZES_BYTES.as_slice(), &MORE_SIZES_BYTES].concat(),
            ([], false) => SIZES_BYTES.to_vec(),
            (sizes, _) => sizes.to_vec(),
        }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let program = Program::find(arguments.ethbcast.as_deref())?;
    let interrupt = Interrupt::hold()?;
    let directory = scratch()?;
    let mut contests = Vec::new();
    for name in &arguments.topologies {
        let bed = bed(name, arguments.rate, directory.path())?;
        let mut site = Site { bed: &bed, program: &program, calibration: None, interrupt: &interrupt };
        let file = directory.path().join(format!("{name}.calibration.toml"));
        let assumed = Calibration::assumed(arguments.rate, FRAME_PAYLOAD_BYTES);
        let assumed = match name.ends_with(POLICED) {
            true => assumed.with_cast_max(POLICED_FRAMES_PER_SECOND.into())?,
            false => assumed,
        };
        let calibration =
            if arguments.calibrated { perf::calibrate(&site, &bed.hosts()[1..3], &file)? } else { assumed };
        site.calibration = arguments.calibrated.then_some(file.as_path());
        for size_bytes in arguments.sizes() {
            let contest = Contest::hold(&site, name, size_bytes, &calibration, &arguments)?;
            eprintln!("{name} {:>5}  {}", size(size_bytes), contest.words());
            contests.push(contest);
        }
    }
    report(&arguments, &contests)
}

fn bed(name: &str, rate: u64, directory: &Path) -> anyhow::Result<Bed> {
    let place = name.trim_end_matches(POLICED);
    let bed = if place == MIXED {
        let file = directory.join("mixed.toml");
        let slower = format_rate(rate / MIXED_PART);
        let hosts = "[[switch]]\nname = \"s0\"\nhosts = \"n[0-7]\"\n";
        std::fs::write(&file, format!("schema = 1\n{hosts}\n[[host]]\nname = \"n5\"\nrate = \"{slower}\"\n"))?;
        Bed::of_file("auto", &file, rate)?
    } else {
        Bed::builtin("auto", place, rate)?
    };
    if name.ends_with(POLICED) {
        bed.police(POLICED_FRAMES_PER_SECOND, POLICED_BURST_FRAMES)?;
    }
    Ok(bed)
}

struct Entry {
    name: &'static str,
    predicted: f64,
    medians: Vec<f64>,
    barriers: Vec<f64>,
    vias: Vec<String>,
    failure: Option<String>,
}

impl Entry {
    fn seconds(&self) -> Option<f64> {
        median(self.medians.clone()).filter(|_| self.failure.is_none())
    }
}

struct Contest {
    topology: String,
    size_bytes: u64,
    iterations: u32,
    entries: Vec<Entry>,
}

impl Contest {
    fn hold(
        site: &Site,
        topology: &str,
        size_bytes: u64,
        calibration: &Calibration,
        arguments: &Arguments,
    ) -> anyhow::Result<Self> {
        let entry =
            |name, predicted| Entry { name, predicted, medians: vec![], barriers: vec![], vias: vec![], failure: None };
        let price = |name: &&'static str| Ok(entry(*name, site.bed.predict(name.parse()?, size_bytes, calibration)?));
        let plans = PLANS.iter().map(price).collect::<anyhow::Result<Vec<Entry>>>()?;
        let least = plans.iter().map(|plan| plan.predicted).fold(f64::INFINITY, f64::min);
        let mut entries = vec![entry("auto", least)];
        entries.extend(plans);

        // An equal number for all: medians of more are steadier.
        let iterations = perf::iterations(least, arguments.budget, MAX_ITERATIONS);
        let rounds = if least > perf::LONG_SECONDS { 1 } else { arguments.rounds };
        for _ in 0..rounds {
            // The measured times, not the predicted ones, decide which plans get another round.
            let best = entries[1..].iter().filter_map(Entry::seconds).fold(f64::INFINITY, f64::min);
            let is_hopeless = |entry: &Entry| entry.seconds().is_some_and(|seconds| seconds > HOPELESS * best);
            for entry in entries.iter_mut().filter(|entry| entry.name == "auto" || !is_hopeless(entry)) {
                let iterations = if entry.predicted > perf::LONG_SECONDS { 1 } else { iterations };
                let job = Job {
                    via: entry.name,
                    preset: "default",
                    size_bytes,
                    iterations,
                    predicted_seconds: entry.predicted,
                    pause: Duration::ZERO,
                };
                match perf::measure(site, &job)? {
                    Err(words) => entry.failure = Some(format!("{} failed: {words}", entry.name)),
                    Ok(measured) => {
                        entry.medians.push(measured.median);
                        entry.barriers.push(measured.barrier);
                        entry.vias.extend((!entry.vias.contains(&measured.via)).then_some(measured.via));
                    }
                }
            }
        }
        Ok(Self { topology: topology.to_owned(), size_bytes, iterations, entries })
    }

    fn best(&self) -> Option<(&str, f64)> {
        let times = self.entries[1..].iter().filter_map(|entry| Some((entry.name, entry.seconds()?)));
        times.min_by(|left, right| left.1.total_cmp(&right.1))
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.entries[0].seconds()? / self.best()?.1)
    }

    fn is_good(&self) -> bool {
        let failed = self.entries.iter().any(|entry| entry.failure.is_some());
        !failed && self.ratio().is_some_and(|ratio| ratio <= MAX_RATIO)
    }

    fn words(&self) -> String {
        let chosen = self.entries[0].vias.join(" or ");
        let (best, ratio) = (self.best().map_or("none", |best| best.0), self.ratio());
        ratio.map_or("failed".to_owned(), |ratio| format!("auto ({chosen}) / best ({best}): {ratio:.3}"))
    }

    fn remarks(&self) -> String {
        let remark = |entry: &Entry| entry.failure.clone();
        self.entries.iter().filter_map(remark).collect::<Vec<_>>().join("; ")
    }
}

fn table(contests: &[Contest]) -> Table {
    let fixed = ["topology", "size", "of", "auto is", "auto"];
    let mut table = Table::new(&[&fixed[..], &PLANS, &["best", "ratio", "verdict", "remarks"]].concat());
    for contest in contests {
        let mut row = vec![contest.topology.clone(), size(contest.size_bytes), contest.iterations.to_string()];
        row.push(contest.entries[0].vias.join(" or "));
        row.extend(contest.entries.iter().map(|entry| entry.seconds().map_or("-".to_owned(), milliseconds)));
        row.push(contest.best().map_or("-", |best| best.0).to_owned());
        row.push(contest.ratio().map_or("-".to_owned(), |ratio| format!("{ratio:.3}")));
        row.push(verdict(contest.is_good()).to_owned());
        row.push(contest.remarks());
        table.push(row);
    }
    table
}

fn csv(contests: &[Contest]) -> Table {
    let mut table = Table::under(
        "topology, size_bytes, contestant, travelled, iterations, rounds, seconds, least_round_seconds, \
         greatest_round_seconds, barrier_seconds, predicted_seconds, failure",
    );
    for contest in contests {
        for entry in &contest.entries {
            let number = |value: Option<f64>| value.map_or(String::new(), |seconds| format!("{seconds:.6}"));
            let rounds = || entry.medians.iter().copied();
            table.push(vec![
                contest.topology.clone(),
                contest.size_bytes.to_string(),
                entry.name.to_owned(),
                entry.vias.join(" or "),
                contest.iterations.to_string(),
                entry.medians.len().to_string(),
                number(entry.seconds()),
                number(rounds().reduce(f64::min)),
                number(rounds().reduce(f64::max)),
                number(median(entry.barriers.clone())),
                format!("{:.6}", entry.predicted),
                entry.failure.clone().unwrap_or_default(),
            ]);
        }
    }
    table
}

fn chart(arguments: &Arguments, contests: &[Contest]) -> Option<String> {
    let line = |name: &String| {
        let here = contests.iter().filter(|contest| contest.topology == *name);
        Series::new(name, here.filter_map(|contest| Some((contest.size_bytes as f64, contest.ratio()?))))
    };
    let mut series: Vec<Series> =
        arguments.topologies.iter().map(line).filter(|series| !series.points.is_empty()).collect();
    let sizes = || series.iter().flat_map(|series| &series.points).map(|point| point.0);
    let ends = [sizes().reduce(f64::min)?, sizes().reduce(f64::max)?];
    series.push(Series::new("at most", ends.map(|end| (end, MAX_RATIO))));
    let title = format!("auto beside the best plan, cables of {}", format_rate(arguments.rate));
    Some(line_chart(&title, "bytes", "time of auto / time of the best plan", &series, true))
}

fn wins(contests: &[Contest]) -> String {
    let won = |plan: &&str| {
        let cases = contests.iter().filter(|contest| contest.best().is_some_and(|(best, _)| best == *plan));
        let cases: Vec<String> =
            cases.map(|contest| format!("{} at {}", contest.topology, size(contest.size_bytes))).collect();
        (!cases.is_empty()).then(|| format!("{plan}: {}\n", cases.join(", ")))
    };
    PLANS.iter().filter_map(won).collect()
}

fn report(arguments: &Arguments, contests: &[Contest]) -> anyhow::Result<ExitCode> {
    let good = contests.iter().filter(|contest| contest.is_good()).count();
    let worst = contests.iter().filter_map(Contest::ratio).fold(0.0, f64::max);
    let text = format!(
        "auto beside all plans that can be best, cables of {}, {}: medians of a broadcast and barrier, in ms.\n\
         Everything takes its turn, {} rounds (long messages: one) of so many broadcasts; the median of the rounds' \
         medians.\n\n{}\n\
         The fastest, and where:\n{}\n\
         {good} of {} within {MAX_RATIO:.2} times the best plan, the worst {worst:.3}: {}\n",
        format_rate(arguments.rate),
        if arguments.calibrated { "calibrated by a probe beforehand" } else { "a short probe in every session" },
        arguments.rounds,
        table(contests).aligned(),
        wins(contests),
        contests.len(),
        verdict(good == contests.len()),
    );
    let svg = chart(arguments, contests).map(|svg| ("svg".to_owned(), svg));
    results::publish(&arguments.out, "auto", &text, &csv(contests), svg)?;
    Ok(results::exit_code(good == contests.len()))
}
