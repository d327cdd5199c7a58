//! The test runner behind `./test`: runs each test in a process of its own.
//!
//! The runner runs each test of the programs that cargo has built in a process of its own, and ends
//! with one table. Tests are of two kinds by the possible causes of a failure: *deterministic* ones
//! (no clock, no root, no program beside cargo's), and *labs* (targets called `lab_*`: real frames
//! between network namespaces). A lab test that fails is run once more, alone; if it passes then it
//! is listed as "passed alone". A deterministic test is never run again.

mod cell;
mod outcome;
mod schedule;

use anyhow::{Context, bail};
use clap::Parser;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
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
    let targets = targets(&arguments.targets).context("what cargo has built")?;
    let mut tests = list(&targets, &arguments.filters)?;
    let with_labs = !arguments.deterministic && arguments.without_labs.is_none();
    tests.retain(|test| with_labs || !test.kind.is_lab());
    let long: Vec<_> = tests
        .extract_if(.., |test| test.is_long() && !arguments.full)
        .map(|test| test.name)
        .collect();
    anyhow::ensure!(
        !tests.is_empty(),
        "no test is called so: {}",
        arguments.filters.join(", ")
    );
    let settings = schedule::Settings {
        jobs: arguments.jobs.into(),
        full: arguments.full,
        deadline: arguments.deadline.map(Duration::from_secs),
        logs: std::path::absolute(arguments.targets.with_file_name("logs"))?,
    };
    let done = schedule::run(tests, &settings, &mut clock)?;
    let not_run = outcome::NotRun {
        labs: arguments.without_labs.as_deref(),
        long: &long,
    };
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

/// Possible causes of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Deterministic,
    /// The machine, too: real frames, processes and disks.
    Lab,
}

impl Kind {
    fn is_lab(self) -> bool {
        self == Self::Lab
    }
}

const FULL: &str = "::full::";

#[derive(Clone, Debug)]
struct Target {
    /// Names of the crate and the target, `ethbcast::lab_serve`.
    name: String,
    program: PathBuf,
    package: PathBuf,
    kind: Kind,
}

#[derive(Clone, Debug)]
struct Test {
    name: String,
    kind: Kind,
    command: Vec<String>,
    directory: PathBuf,
}

impl Test {
    fn is_long(&self) -> bool {
        self.name.contains(FULL)
    }
}

/// Returns the test programs that cargo has built, from its messages (`--message-format=json`).
fn targets(messages: &Path) -> anyhow::Result<Vec<Target>> {
    let text =
        fs::read_to_string(messages).with_context(|| format!("reading {}", messages.display()))?;
    let mut targets = Vec::new();
    for line in text.lines() {
        targets.extend(target(
            &serde_json::from_str(line).context("a message of cargo's")?,
        ));
    }
    targets.sort_by(|one: &Target, other| one.name.cmp(&other.name));
    Ok(targets)
}

fn target(message: &Value) -> Option<Target> {
    let is_test = message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    let program = message["executable"].as_str().filter(|_| is_test)?;
    let target = message["target"]["name"].as_str()?;
    let package = PathBuf::from(message["manifest_path"].as_str()?)
        .parent()?
        .to_owned();
    let crate_name = message["package_id"]
        .as_str()?
        .rsplit(['/', '#'])
        .find(|part| !part.starts_with('0'))?;
    let crate_name = crate_name.split('@').next()?;
    let is_bin = message["target"]["kind"][0] == "bin";
    let name = match (is_bin, target.replace('_', "-") == crate_name) {
        (true, _) => format!("{crate_name}::bin"),
        (false, true) => crate_name.to_owned(),
        (false, false) => format!("{crate_name}::{target}"),
    };
    let kind = if target.starts_with("lab_") {
        Kind::Lab
    } else {
        Kind::Deterministic
    };
    Some(Target {
        name,
        program: program.into(),
        package,
        kind,
    })
}

/// Lists the tests in these programs, and the examples in the documentation as one test, that match
/// a filter.
fn list(targets: &[Target], filters: &[String]) -> anyhow::Result<Vec<Test>> {
    let mut tests = vec![documentation()?];
    for target in targets {
        let output = Command::new(&target.program)
            .args(["--list", "--format", "terse"])
            .output();
        let output = output.with_context(|| format!("starting {}", target.program.display()))?;
        if !output.status.success() {
            bail!(
                "{} does not list its tests:\n{}",
                target.name,
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let text = String::from_utf8(output.stdout).context("names of tests")?;
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        tests.extend(names.map(|name| Test {
            name: format!("{}::{name}", target.name),
            kind: target.kind,
            command: vec![
                target.program.display().to_string(),
                name.into(),
                "--exact".into(),
                "--nocapture".into(),
                "--test-threads=1".into(),
            ],
            directory: target.package.clone(),
        }));
    }
    tests.retain(|test| {
        filters.is_empty() || filters.iter().any(|filter| test.name.contains(filter))
    });
    Ok(tests)
}

/// The examples in the documentation, which rustdoc builds and runs.
fn documentation() -> anyhow::Result<Test> {
    let arguments = ["test", "--workspace", "--locked", "--doc", "--quiet"].map(str::to_owned);
    Ok(Test {
        name: "documentation::examples".into(),
        kind: Kind::Deterministic,
        command: [cargo()].into_iter().chain(arguments).collect(),
        directory: std::env::current_dir()?,
    })
}

fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}
