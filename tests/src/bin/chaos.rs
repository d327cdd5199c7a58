//! Whole transfers by the program, in labs, each with one or two troubles drawn from its seed, judged.
//!
//! `cargo run --release -p ethbcast-tests --bin chaos -- --runs 500`, as root, after `cargo build --release -p
//! ethbcast`. Every failure is printed with the command that plays it again; docs/testing.md says what is judged.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use ethbcast_lab::Lab;
use ethbcast_tests::chaos::{Class, Scenario, Stage, Tally, Terms, Verdict, play};
use ethbcast_tests::lab::interrupt::Interrupt;
use ethbcast_tests::lab::program::Program;
use ethbcast_tests::lab::{SharedDirectory, scratch};
use nix::unistd::Uid;
use serde_json::json;

/// How often is looked whether the user wants an end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Plays transfers by real processes, with one or two troubles in each, and judges what came of them.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
struct Arguments {
    /// How many.
    #[arg(long, default_value_t = 100)]
    runs: u64,
    /// Of the first run; the others count on.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only runs whose first trouble is of this class.
    #[arg(long, value_name = "CLASS")]
    only: Option<Class>,
    /// How many labs are up at once.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=16))]
    jobs: u64,
    /// How the labs are called; a number follows.
    #[arg(long, default_value = "chaos", value_name = "NAME")]
    lab: String,
    /// Seconds without progress after which the programs put a receiver aside.
    #[arg(long, default_value_t = 4.0)]
    stall: f64,
    /// Seconds they wait for a silent host.
    #[arg(long, default_value_t = 6.0)]
    patience: f64,
    /// How many times as long as it should a run may take, on a machine that has other work.
    #[arg(long, default_value_t = 2.0)]
    slack: f64,
    /// Print what the runs are, and play none.
    #[arg(long)]
    list: bool,
    /// Add every run to this file, as a line of JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Add all that was said in runs that are not good to this file.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The program; without it, the one beside this one.
    #[arg(long, value_name = "PATH")]
    ethbcast: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let terms = arguments.terms();
    if arguments.list {
        for seed in arguments.seeds() {
            println!("{seed}: {}", Scenario::draw(seed, arguments.only, &terms));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !Uid::effective().is_root() {
        bail!("network namespaces need root: run this with `sudo -E`");
    }
    let program = Program::find(arguments.ethbcast.as_deref())?;
    let running = Lab::list()?;
    for lab in arguments.labs().filter(|lab| running.contains(lab)) {
        bail!(
            "the lab `{lab}` is up: another chaos runs, or was killed; take it down with `ethbcast lab down --lab {lab}`, \
             or choose another name with --lab"
        );
    }
    let interrupt = Interrupt::hold()?;
    let directory = scratch();
    let _shared = SharedDirectory::make(directory.path())?;
    let campaign = Campaign::new(&arguments, &program);
    thread::scope(|scope| {
        let labs: Vec<_> = arguments.labs().collect();
        let jobs: Vec<_> = labs
            .into_iter()
            .map(|lab| {
                let (campaign, directory) = (&campaign, directory.path());
                scope.spawn(move || campaign.work(&lab, directory))
            })
            .collect();
        while !jobs.iter().all(thread::ScopedJoinHandle::is_finished) {
            if interrupt.check().is_err() {
                campaign.interrupted.store(true, Ordering::Relaxed);
            }
            thread::sleep(LOOK_EVERY);
        }
    });
    campaign.end()
}

impl Arguments {
    fn seeds(&self) -> impl Iterator<Item = u64> {
        self.seed..self.seed.saturating_add(self.runs)
    }

    fn labs(&self) -> impl Iterator<Item = String> {
        (0..self.jobs.min(self.runs)).map(|job| format!("{}{job}", self.lab))
    }

    fn terms(&self) -> Terms {
        Terms {
            stall: Duration::from_secs_f64(self.stall),
            patience: Duration::from_secs_f64(self.patience),
            send_wait: Duration::from_secs(4),
            receive_wait: Duration::from_secs(8),
            slack: self.slack,
        }
    }
}

/// All runs.
struct Campaign<'a> {
    arguments: &'a Arguments,
    program: &'a Program,
    terms: Terms,
    next: AtomicU64,
    interrupted: AtomicBool,
    results: Mutex<Results>,
}

#[derive(Default)]
struct Results {
    tally: Tally,
    /// Those that are not good, with the command that plays them again.
    failures: Vec<String>,
}

impl<'a> Campaign<'a> {
    fn new(arguments: &'a Arguments, program: &'a Program) -> Self {
        let (next, interrupted, results) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::default());
        Self { arguments, program, terms: arguments.terms(), next, interrupted, results }
    }

    /// Plays runs in one lab until there are no more.
    fn work(&self, lab: &str, directory: &std::path::Path) {
        let stage = Stage { program: self.program, directory, lab, terms: self.terms, interrupted: &self.interrupted };
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.arguments.runs || self.interrupted.load(Ordering::Relaxed) {
                return;
            }
            let scenario = Scenario::draw(self.arguments.seed + number, self.arguments.only, &self.terms);
            let result = play(&stage, &scenario);
            if self.interrupted.load(Ordering::Relaxed) {
                return;
            }
            self.note(&scenario, result);
        }
    }

    /// Writes a run down as soon as it is over: a campaign may be cut off.
    fn note(&self, scenario: &Scenario, result: anyhow::Result<Verdict>) {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let seed = scenario.seed;
        match result {
            Ok(verdict) => {
                results.tally.add(&verdict);
                let word = if verdict.wrong.is_empty() { "good" } else { "BAD " };
                let wrong = verdict.wrong.join("; ");
                eprintln!("{word} {seed} {:.2} s, {} files; {scenario}; {wrong}", verdict.seconds, verdict.exact);
                if !verdict.wrong.is_empty() {
                    results.failures.push(format!("{}\n    {scenario}\n    {wrong}", scenario.replay()));
                }
                if let Err(error) = self.write(scenario, &verdict) {
                    results.failures.push(format!("{error:#}"));
                }
            }
            Err(error) => {
                eprintln!("BAD  {seed} could not be played: {error:#}; {scenario}");
                results.failures.push(format!("{}\n    {scenario}\n    {error:#}", scenario.replay()));
            }
        }
    }

    fn write(&self, scenario: &Scenario, verdict: &Verdict) -> anyhow::Result<()> {
        if let Some(path) = &self.arguments.json {
            let classes: Vec<_> = verdict.classes.iter().map(|class| class.name()).collect();
            let line = json!({
                "seed": scenario.seed, "only": scenario.only.map(Class::name), "classes": classes,
                "scenario": scenario.to_string(), "good": verdict.wrong.is_empty(), "wrong": verdict.wrong,
                "seconds": verdict.seconds, "files": verdict.exact, "came": verdict.came,
            });
            writeln!(appended(path)?, "{line}")?;
        }
        if let (Some(path), false) = (&self.arguments.log, verdict.wrong.is_empty()) {
            let wrong = verdict.wrong.join("; ");
            writeln!(appended(path)?, "== {} {scenario}\n== {wrong}\n{}", scenario.seed, verdict.said)?;
        }
        Ok(())
    }

    /// Prints the table, and what failed.
    fn end(self) -> anyhow::Result<ExitCode> {
        let results = self.results.into_inner().unwrap_or_else(PoisonError::into_inner);
        print!("{}", results.tally.text());
        let (runs, good) = results.tally.counts();
        for failure in &results.failures {
            println!("\n{failure}");
        }
        if self.interrupted.into_inner() {
            bail!("interrupted after {runs} runs; the labs have been taken down");
        }
        let all_good = results.failures.is_empty() && good == runs;
        Ok(if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn appended(path: &PathBuf) -> anyhow::Result<File> {
    OpenOptions::new().create(true).append(true).open(path).with_context(|| format!("opening {}", path.display()))
}
