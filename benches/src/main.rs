//! Program that runs the benchmarks in `docs/results`. It also reproduces tables and figures of published papers.
//!
//! `make` computes or simulates: its results are equal on every machine. `lab`, `drivers` and
//! `messages` measure in labs of network namespaces (`ethbcast-lab`), so they need root and leave
//! nothing behind. `all`, or `benches/all`, makes everything that is computed once more, and says
//! which files of `docs/results` are stale. Transfers beside other tools are `ethbcast bench`.

mod beds;
mod drivers;
mod experiments;
mod figure5;
mod figures;
mod mailbox;
mod memory;
mod messages;
mod panel;
mod results;
mod rings;
mod scale;
mod tables;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use ethbcast_bench::process::{Interrupt, Program};

use crate::figures::Runs;
use crate::results::{COMPUTED, Output};

/// Make the files of docs/results, from the top of the repository.
#[derive(Debug, Parser)]
#[command(name = "benches")]
struct Arguments {
    /// The program ethbcast; without it, the one beside this program.
    #[arg(long, value_name = "FILE", global = true)]
    ethbcast: Option<PathBuf>,
    /// Folder of the results.
    #[arg(long, default_value = "docs/results", value_name = "FOLDER", global = true)]
    out: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare all results with what the tree makes now; exit code 1 if a computed one is stale.
    All {
        /// Replace stale results.
        #[arg(long)]
        write: bool,
        /// Only these.
        #[arg(long, value_delimiter = ',', value_parser = COMPUTED)]
        only: Vec<String>,
    },
    /// Compute or simulate results that are equal on every machine.
    Make {
        #[arg(required = true, value_parser = COMPUTED)]
        names: Vec<String>,
    },
    /// Simulate casts to a thousand receivers.
    Scale(scale::Scale),
    /// Measure an experiment of experiments.toml in labs; needs root.
    Lab(Box<Lab>),
    /// Compare ways of moving frames over one veth hop; needs root.
    Drivers(drivers::Drivers),
    /// Measure round trips and throughput of messages beside the raw socket's; needs root.
    Messages(messages::Messages),
}

#[derive(Debug, clap::Args)]
struct Lab {
    #[arg(value_parser = experiment)]
    experiment: experiments::Experiment,
    #[command(flatten)]
    changes: experiments::Changes,
}

fn experiment(name: &str) -> Result<experiments::Experiment, String> {
    let all = experiments::experiments();
    let names = all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    all.into_iter().find(|one| one.name == name).ok_or(format!("choose one of {names}"))
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let interrupt = Interrupt::hold()?;
    let text = |name: &str, text: String| {
        let path = arguments.out.join(format!("{name}.txt"));
        fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        print!("{text}");
        Ok(ExitCode::SUCCESS)
    };
    match &arguments.command {
        Command::All { write, only } => {
            let is_wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
            let mut runs = Runs::new(arguments.ethbcast.as_deref(), &interrupt)?;
            results::all(&arguments.out, *write, is_wanted, |name| make(name, &mut runs))
        }
        Command::Make { names } => {
            let mut runs = Runs::new(arguments.ethbcast.as_deref(), &interrupt)?;
            let outputs = names.iter().map(|name| make(name, &mut runs)?.publish(&arguments.out));
            let codes = outputs.collect::<anyhow::Result<Vec<_>>>()?;
            Ok(codes.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS))
        }
        Command::Scale(size) => scale::scale(size)?.publish(&arguments.out),
        Command::Lab(lab) => {
            let program = Program::find(arguments.ethbcast.as_deref())?;
            experiments::perform(&lab.experiment, &lab.changes, &program, &interrupt)?.publish(&arguments.out)
        }
        Command::Drivers(options) => text("drivers", drivers::drivers(options, &interrupt)?),
        Command::Messages(options) => text("messages", messages::messages(options, &interrupt)?),
    }
}

/// Makes a computed result.
fn make(name: &str, runs: &mut Runs) -> anyhow::Result<Output> {
    eprintln!("{name}");
    match name {
        "table1" => tables::table_1(),
        "table3" => tables::table_3(),
        "table4" => tables::table_4(),
        "memory" => memory::memory(),
        "figure5" => figure5::figure_5(),
        name => {
            let figures = figures::figures();
            figures.iter().find(|figure| figure.name() == name).context("it is a figure")?.draw(runs)
        }
    }
}
