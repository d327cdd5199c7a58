//! Program for fault injection: whole transfers in network namespaces, each with random faults
//! drawn from a seed.
//!
//! `cargo run --release -p ethbcast-tests --bin chaos -- --runs 500`, as root, after `cargo build
//! --release -p ethbcast`. Every failure is printed with the command that plays it again;
//! docs/testing.md says what is judged.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::bail;
use clap::Parser;
use ethbcast_tests::chaos::{Campaign, Class, Scenario, Terms, Verdict};
use ethbcast_tests::lab::Records;
use ethbcast_tests::lab::{Interrupt, Program};
use nix::unistd::Uid;
use serde_json::json;

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Plays transfers by real processes, with one or two faults in each, and checks the outcome.
#[derive(Debug, Parser)]
#[command(name = "chaos")]
struct Arguments {
    /// Number of runs.
    #[arg(long, default_value_t = 100)]
    runs: u64,
    /// Seed of the first run; each further run takes the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only runs whose first trouble is of this class.
    #[arg(long, value_name = "CLASS")]
    only: Option<Class>,
    /// Number of labs that are up at once.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=16))]
    jobs: u64,
    /// Name of the labs; a number follows.
    #[arg(long, default_value = "chaos", value_name = "NAME")]
    lab: String,
    /// Seconds without progress after which the programs put a receiver aside.
    #[arg(long, default_value_t = 4.0)]
    stall: f64,
    /// Seconds they wait for a silent host.
    #[arg(long, default_value_t = 6.0)]
    patience: f64,
    /// Factor by which a run may take longer, on a machine that has other work.
    #[arg(long, default_value_t = 2.0)]
    slack: f64,
    /// List the runs without playing them.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    records: Records,
    /// The program; without it, the one beside this one.
    #[arg(long, value_name = "PATH")]
    ethbcast: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let terms = arguments.terms();
    if arguments
        .seed
        .checked_add(arguments.runs)
        .is_none_or(|end| end == arguments.seed)
    {
        bail!(
            "--seed {} --runs {}: there is none; seeds are the numbers below {}",
            arguments.seed,
            arguments.runs,
            u64::MAX
        );
    }
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
    let interrupt = Interrupt::hold()?;
    let interrupted = AtomicBool::new(false);
    let (lab, terms, only) = (arguments.lab.as_str(), arguments.terms(), arguments.only);
    let campaign = Campaign {
        program: &program,
        lab,
        jobs: arguments.jobs,
        terms,
        only,
        interrupted: &interrupted,
    };
    let results = thread::scope(|scope| {
        let job = scope.spawn(|| {
            campaign.run(arguments.seeds(), |run, result| {
                note(&arguments, run, result)
            })
        });
        while !job.is_finished() {
            if interrupt.check().is_err() {
                interrupted.store(true, Ordering::Relaxed);
            }
            thread::sleep(LOOK_EVERY);
        }
        job.join()
            .unwrap_or_else(|panicked| std::panic::resume_unwind(panicked))
    })?;
    print!("{}", results.tally.text());
    results
        .failures
        .iter()
        .for_each(|failure| println!("\n{failure}"));
    if interrupted.into_inner() {
        bail!("interrupted; the labs have been taken down");
    }
    Ok(if results.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Arguments {
    fn seeds(&self) -> std::ops::Range<u64> {
        self.seed..self.seed + self.runs
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

fn note(arguments: &Arguments, scenario: &Scenario, result: &anyhow::Result<Verdict>) {
    let seed = scenario.seed;
    match result {
        Ok(verdict) => {
            let word = if verdict.wrong.is_empty() {
                "good"
            } else {
                "BAD "
            };
            let wrong = verdict.wrong.join("; ");
            eprintln!(
                "{word} {seed} {:.2} s, {} files; {scenario}; {wrong}",
                verdict.seconds, verdict.exact
            );
            if let Err(error) = write(arguments, scenario, verdict) {
                eprintln!("{error:#}");
            }
        }
        Err(error) => eprintln!("BAD  {seed} could not be played: {error:#}; {scenario}"),
    }
}

fn write(arguments: &Arguments, scenario: &Scenario, verdict: &Verdict) -> anyhow::Result<()> {
    let good = verdict.wrong.is_empty();
    arguments.records.add(|| {
        let classes: Vec<_> = verdict.classes.iter().map(|class| class.name()).collect();
        json!({
            "seed": scenario.seed, "only": scenario.only.map(Class::name), "classes": classes,
            "scenario": scenario.to_string(), "good": good, "wrong": verdict.wrong,
            "seconds": verdict.seconds, "files": verdict.exact, "came": verdict.came,
        })
    })?;
    if good {
        return Ok(());
    }
    let headings = [
        format!("{} {scenario}", scenario.seed),
        verdict.wrong.join("; "),
    ];
    arguments
        .records
        .complain(&headings.each_ref().map(String::as_str), &verdict.said)
}
