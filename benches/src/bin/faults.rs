//! Transfers with one trouble each: lost kinds of frames, kills, outages, silences, slow hosts; who
//! has the file in the end, and all reports with their moments.
//!
//! `cargo run --release -p ethbcast-benches --bin faults -- --runs 3 --cells link/ack`, as root,
//! after `cargo build --release -p ethbcast`. Every run has a lab of its own, a star of eight
//! hosts; `--list` names the cells.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use ethbcast_benches::faults::{Cell, Judged, Stage, Summary, Terms, all, play};
use ethbcast_benches::interrupt::Interrupt;
use ethbcast_benches::payload::{make_file, scratch};
use ethbcast_benches::program::Program;
use ethbcast_benches::table::Table;
use ethbcast_lab::parse_rate;
use ethbcast_tests::lab::Records;
use nix::unistd::Uid;

/// Plays transfers with a trouble in each and judges what came of them.
#[derive(Debug, Parser)]
#[command(name = "faults")]
struct Arguments {
    /// Number of runs of each cell.
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// Only cells whose names contain one of these; words in one of them, with blanks between, must all be there.
    #[arg(long, value_name = "WORDS")]
    cells: Vec<String>,
    /// Name the cells and end.
    #[arg(long)]
    list: bool,
    /// Hosts, the sender among them; the cells name n0 to n7.
    #[arg(long, default_value_t = 8)]
    hosts: u16,
    /// MiB to send.
    #[arg(long, default_value_t = 16, value_name = "MIB")]
    size: u64,
    /// Rate of every cable.
    #[arg(long, default_value = "100mbit", value_parser = parse_rate)]
    rate: u64,
    /// Seconds a run may take beyond what its trouble lasts, until it counts as hung.
    #[arg(long, default_value_t = 15.0)]
    limit: f64,
    /// Seed of the first run; each further run takes the next number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Value of --stall, in seconds, where a cell promises less than all and the program knows the option.
    #[arg(long, default_value_t = 2.0)]
    stall: f64,
    /// Value of --patience, in seconds, likewise.
    #[arg(long, default_value_t = 3.0)]
    patience: f64,
    /// More options for `send`, with blanks between.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    send_options: String,
    /// More options for `recv`, with blanks between.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    recv_options: String,
    #[command(flatten)]
    records: Records,
    /// The program; without it, the one beside this bench.
    #[arg(long, value_name = "PATH")]
    ethbcast: Option<PathBuf>,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let program = Program::find(arguments.ethbcast.as_deref())?;
    let terms = Terms { stall: arguments.stall, patience: arguments.patience, known: knows_patience(&program)? };
    let mut cells = all(&terms, arguments.rate);
    cells.retain(|cell| arguments.wants(cell));
    if arguments.list {
        cells.iter().for_each(|cell| println!("{}", cell.name));
        return Ok(ExitCode::SUCCESS);
    }
    if !Uid::effective().is_root() {
        bail!("network namespaces need root: run this bench with `sudo -E`");
    }
    let interrupt = Interrupt::hold()?;
    let directory = scratch()?;
    let (source, source_bytes) = (directory.path().join("source.bin"), arguments.size << 20);
    make_file(&source, source_bytes)?;
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let stage = Stage {
        program: &program,
        source: &source,
        source_bytes,
        directory: directory.path(),
        hosts: arguments.hosts.into(),
        rate_bits_per_second: arguments.rate,
        terms: &terms,
        limit: Duration::from_secs_f64(arguments.limit),
        options: [words(&arguments.send_options), words(&arguments.recv_options)],
        interrupt: &interrupt,
    };
    Campaign { arguments: &arguments, stage, undisturbed: Vec::new(), number: 0 }.run(&cells)
}

impl Arguments {
    fn wants(&self, cell: &Cell) -> bool {
        let fits = |words: &String| words.split_whitespace().all(|word| cell.name.contains(word));
        self.cells.is_empty() || self.cells.iter().any(fits)
    }
}

fn knows_patience(program: &Program) -> anyhow::Result<bool> {
    let help = program.here("send").arg("--help").output().context("asking ethbcast for help")?;
    Ok(String::from_utf8_lossy(&help.stdout).contains("--patience"))
}

struct Campaign<'a> {
    arguments: &'a Arguments,
    stage: Stage<'a>,
    /// Seconds without trouble, by kind of plan and loss.
    undisturbed: Vec<(&'static str, f64, f64)>,
    number: u64,
}

impl Campaign<'_> {
    fn run(&mut self, cells: &[Cell]) -> anyhow::Result<ExitCode> {
        let mut table = Table::under(Summary::HEADING);
        let mut all_good = true;
        for cell in cells {
            let result = self.cell(cell);
            let Ok(summary) = result else {
                print!("{}", table.aligned());
                return result.map(|_| ExitCode::FAILURE);
            };
            all_good &= summary.is_good(cell);
            table.push(summary.row(cell));
        }
        print!("{}", table.aligned());
        Ok(if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn cell(&mut self, cell: &Cell) -> anyhow::Result<Summary> {
        let undisturbed_seconds = self.undisturbed_seconds(cell)?;
        let mut summary = Summary::new(undisturbed_seconds);
        for run in 0..self.arguments.runs {
            let judged = self.play(cell, self.arguments.seed + run)?;
            self.note(cell, &judged, undisturbed_seconds)?;
            summary.push(judged);
        }
        Ok(summary)
    }

    fn play(&mut self, cell: &Cell, seed: u64) -> anyhow::Result<Judged> {
        self.number += 1;
        play(&self.stage, cell, self.number, seed)
    }

    fn undisturbed_seconds(&mut self, cell: &Cell) -> anyhow::Result<f64> {
        let known = self.undisturbed.iter().find(|(via, loss, _)| *via == cell.via && *loss == cell.loss);
        if let Some((.., seconds)) = known {
            return Ok(*seconds);
        }
        let usual = ethbcast_benches::faults::undisturbed(cell.via, cell.loss, self.stage.terms);
        let mut summary = Summary::new(1.0);
        for seed in 0..3 {
            let judged = self.play(&usual, seed)?;
            if !judged.is_good() {
                bail!("even an undisturbed transfer fails:\n{}", judged.said);
            }
            summary.push(judged);
        }
        let seconds = summary.placed_seconds().context("all have it")?;
        self.undisturbed.push((cell.via, cell.loss, seconds));
        Ok(seconds)
    }

    fn note(&self, cell: &Cell, run: &Judged, undisturbed_seconds: f64) -> anyhow::Result<()> {
        let records = &self.arguments.records;
        records.add(|| run.json(cell, undisturbed_seconds))?;
        let verdict = if run.is_good() { "good" } else { "BAD " };
        let mut wrong = Vec::new();
        for (word, hosts) in [("hung", &run.hung), ("lost", &run.lost), ("lies", &run.lies), ("unnamed", &run.unnamed)]
        {
            wrong.extend((!hosts.is_empty()).then(|| format!("{word}: {}", hosts.join(" "))));
        }
        let (name, seconds, exact) = (&cell.name, run.seconds, run.exact.len());
        eprintln!("{verdict} {name} seed {} {seconds:.2} s, {exact} exact; {}", run.seed, wrong.join("; "));
        if run.is_good() {
            return Ok(());
        }
        records.complain(&[&format!("{name} seed {} {}", run.seed, wrong.join("; "))], &run.said)
    }
}
