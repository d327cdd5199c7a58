//! The test runner behind `./test`: runs each test in a process of its own.
//!
//! The runner runs each test of the programs that cargo has built in a process of its own, and ends with
//! one table. Tests are of two kinds by the possible causes of a failure: *deterministic* ones (no
//! clock, no root, no program beside cargo's), and *labs* (targets called `lab_*`: real frames
//! between network namespaces). A lab test that fails is run once more, alone; if it passes then it
//! is listed as "passed alone". A deterministic test is never run again.

mod cell;
mod collect;
mod outcome;
mod schedule;

use anyhow::Context;
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Runs all tests, and ends with a table.
#[derive(Parser, Debug)]
#[command(name = "./test", override_usage = "./test [OPTIONS] [FILTERS]...")]
struct Arguments {
    /// Run only tests whose target and name (`lab_serve::start::…`) contain one of these.
    filters: Vec<String>,
    /// Take the long forms as well: all schedules, deeper worlds, packages, every MPI program.
    #[arg(long)]
    full: bool,
    /// Run the deterministic tests alone: they need no root and no programs.
    #[arg(long)]
    deterministic: bool,
    /// Run this many lab tests beside each other.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// End a test of any kind after this many seconds.
    #[arg(long)]
    deadline: Option<u64>,
    /// File with cargo's messages about the programs it has built.
    #[arg(long, hide = true)]
    targets: PathBuf,
    /// Time that building took, in seconds.
    #[arg(long, hide = true, default_value_t = 0)]
    built_in: u64,
    /// Reason why lab tests are not run; the run then ends red with it.
    #[arg(long, hide = true)]
    without_labs: Option<String>,
}

fn run() -> anyhow::Result<bool> {
    let arguments = Arguments::parse();
    let mut clock = outcome::Clock::start(Duration::from_secs(arguments.built_in));
    let targets = collect::targets(&arguments.targets).context("what cargo has built")?;
    let mut tests = collect::list(&targets, &arguments.filters)?;
    let with_labs = !arguments.deterministic && arguments.without_labs.is_none();
    tests.retain(|test| with_labs || !test.kind.is_lab());
    let long: Vec<_> = tests.extract_if(.., |test| test.is_long() && !arguments.full).map(|test| test.name).collect();
    anyhow::ensure!(!tests.is_empty(), "no test is called so: {}", arguments.filters.join(", "));
    let settings = schedule::Settings {
        jobs: arguments.jobs.into(),
        full: arguments.full,
        deadline: arguments.deadline.map(Duration::from_secs),
        logs: std::path::absolute(arguments.targets.with_file_name("logs"))?,
    };
    let done = schedule::run(tests, &settings, &mut clock)?;
    let not_run = outcome::NotRun { labs: arguments.without_labs.as_deref(), long: &long };
    Ok(outcome::print(&done, &clock, &not_run))
}

fn main() -> ExitCode {
    let begun = Instant::now();
    if let Some(code) = cell::enter() {
        return code;
    }
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("./test: {error:#} (after {} s)", begun.elapsed().as_secs());
            ExitCode::from(2)
        }
    }
}
