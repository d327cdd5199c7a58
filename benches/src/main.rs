//! Program that runs the benchmarks in `docs/results`. It also reproduces tables and figures of
//! published papers.
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
mod rings;
mod scale;
mod tables;

use crate::figures::Runs;
use anyhow::Context;
use clap::{Parser, Subcommand};
use ethbcast_bench::process::{Interrupt, Program};
use ethbcast_bench::report::Table;
use ethbcast_transport::wire::{HEADER_BYTES, OVERHEAD_BYTES};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

/// Make the files of docs/results, from the top of the repository.
#[derive(Debug, Parser)]
#[command(name = "benches")]
struct Arguments {
    /// The program ethbcast; without it, the one beside this program.
    #[arg(long, value_name = "FILE", global = true)]
    ethbcast: Option<PathBuf>,
    /// Folder of the results.
    #[arg(
        long,
        default_value = "docs/results",
        value_name = "FOLDER",
        global = true
    )]
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
    /// Simulate broadcasts to a thousand and to ten thousand receivers.
    Scale(scale::Scale),
    /// Measure an experiment of benches/papers/experiments.toml in labs; needs root.
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
    let names = all
        .iter()
        .map(|one| one.name.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    all.into_iter()
        .find(|one| one.name == name)
        .ok_or(format!("choose one of {names}"))
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
            all(&arguments.out, *write, is_wanted, |name| {
                make(name, &mut runs)
            })
        }
        Command::Make { names } => {
            let mut runs = Runs::new(arguments.ethbcast.as_deref(), &interrupt)?;
            let outputs = names
                .iter()
                .map(|name| make(name, &mut runs)?.publish(&arguments.out));
            let codes = outputs.collect::<anyhow::Result<Vec<_>>>()?;
            Ok(codes
                .into_iter()
                .find(|code| *code != ExitCode::SUCCESS)
                .unwrap_or(ExitCode::SUCCESS))
        }
        Command::Scale(size) => scale::scale(size)?.publish(&arguments.out),
        Command::Lab(lab) => {
            let program = Program::find(arguments.ethbcast.as_deref())?;
            experiments::perform(&lab.experiment, &lab.changes, &program, &interrupt)?
                .publish(&arguments.out)
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
            figures
                .iter()
                .find(|figure| figure.name() == name)
                .context("it is a figure")?
                .draw(runs)
        }
    }
}

struct Output {
    name: String,
    text: String,
    csv: Table,
    /// Contents of more files, by the endings of their names.
    more: Vec<(String, String)>,
    is_met: bool,
}

impl Output {
    fn files(&self) -> Vec<(String, String)> {
        let always = [
            ("txt".to_owned(), self.text.clone()),
            ("csv".to_owned(), self.csv.csv()),
        ];
        let named =
            |(ending, content): (String, String)| (format!("{}.{ending}", self.name), content);
        always
            .into_iter()
            .chain(self.more.iter().cloned())
            .map(named)
            .collect()
    }

    /// Writes all files into a folder, which is created if necessary, and prints the text.
    fn publish(&self, folder: &Path) -> anyhow::Result<ExitCode> {
        write(folder, &self.files())?;
        print!("{}", self.text);
        Ok(if self.is_met {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

fn write(folder: &Path, files: &[(String, String)]) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, content) in files {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Results that are the same on every machine, made by `benches make`; all files whose names begin
/// so.
pub const COMPUTED: [&str; 13] = [
    "table1",
    "table3",
    "table4",
    "memory",
    "figure5",
    "figure11",
    "figure12",
    "figures13-14",
    "figure15",
    "figure16",
    "figure17",
    "figure18",
    "mateescu4",
];

/// Results that were measured or took long, and their commands. `benches` is `cargo run --release
/// -p ethbcast-benches --`.
const MEASURED: [(&str, &str); 23] = [
    (
        "auto",
        "benches lab auto --rate 10mbit --rounds 2 --budget 0.5",
    ),
    (
        "ceiling",
        "ethbcast bench --sizes 512M --receivers 1,7 --mtu 1500,9000,65535 --loss 0 --rate unlimited",
    ),
    ("drivers", "benches drivers --milliseconds 400"),
    (
        "efficiency",
        "ETHBCAST_ACCEPT=1 cargo test -p ethbcast-transport --test efficiency",
    ),
    ("eqa", "benches lab eqa --iterations 1000"),
    ("field", "tests/field/run"),
    (
        "figures12-16",
        "benches lab figures12-16 --rate 10mbit --sizes 32K,128K,512K --budget 0.8 --longest 8",
    ),
    ("flame-", "benches/labs flames"),
    ("messages", "benches messages"),
    ("mpi", "benches lab mpi --rounds 5"),
    ("mpi-drop-in-8", "benches lab mpi-drop-in-8"),
    ("mpi-drop-in-100mbit-8", "benches lab mpi-drop-in-100mbit-8"),
    ("mpi-ranks", "benches lab mpi-ranks"),
    ("mpi_conformance", "tests/neighbours/mpi"),
    ("mutants", "tests/mutation: docs/testing.md"),
    (
        "neighbours",
        "the scripts of tests/neighbours: docs/testing.md",
    ),
    ("neighbours-", "tests/neighbours/NAME"),
    (
        "peers-512m",
        "ethbcast bench --peers --sizes 512M --receivers 7 --loss 0 --rate unlimited --runs 3",
    ),
    (
        "peers-messages",
        "ethbcast bench --peers --sizes 256,4K,64K,1M --receivers 7 --loss 0 --rate unlimited",
    ),
    ("prediction", "benches lab prediction --budget 1"),
    (
        "prediction-unshaped",
        "benches lab prediction-unshaped --budget 2",
    ),
    ("scale", "benches scale"),
    ("testing", "the long forms of the tests: docs/testing.md"),
];

/// Makes every computed result again and reports which files differ; lists the others with their
/// age and command. With `is_written` the files that differ are replaced.
fn all(
    folder: &Path,
    is_written: bool,
    is_wanted: impl Fn(&str) -> bool,
    mut make: impl FnMut(&str) -> anyhow::Result<Output>,
) -> anyhow::Result<ExitCode> {
    let mut stale = 0;
    for name in COMPUTED.into_iter().filter(|name| is_wanted(name)) {
        let files = make(name)?.files();
        let differs = |file: &&(String, String)| {
            fs::read_to_string(folder.join(&file.0)).ok().as_ref() != Some(&file.1)
        };
        let changed: Vec<(String, String)> = files.iter().filter(differs).cloned().collect();
        stale += changed.len();
        let words: Vec<&str> = changed.iter().map(|(name, _)| name.as_str()).collect();
        match (changed.is_empty(), is_written) {
            (true, _) => println!("{name}: {} files as they are made now", files.len()),
            (false, true) => println!("{name}: written anew: {}", words.join(", ")),
            (false, false) => println!("{name}: STALE: {}", words.join(", ")),
        }
        if is_written {
            write(folder, &changed)?;
        }
    }
    let mut table = Table::new(&["measured", "last changed", "command"]);
    for (name, command) in MEASURED {
        for file in own_files(folder, name)? {
            table.push(vec![
                file.clone(),
                age(&folder.join(file)),
                command.to_owned(),
            ]);
        }
    }
    println!("\n{}", table.aligned());
    println!(
        "computed files that are as they are made now: {}",
        verdict(stale == 0 || is_written)
    );
    Ok(if stale == 0 || is_written {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Returns the names of a result's files, without those of a longer name that begins alike.
fn own_files(folder: &Path, name: &str) -> anyhow::Result<Vec<String>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_own = |file: &String| {
        file.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('.') || name.ends_with('-'))
    };
    let mut own: Vec<String> = names.filter(is_own).collect();
    own.sort();
    Ok(own)
}

fn age(file: &Path) -> String {
    let output = process::Command::new("git")
        .args(["log", "-1", "--format=%cs %h", "--"])
        .arg(file)
        .output();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default();
    if text.is_empty() {
        "not committed".to_owned()
    } else {
        text
    }
}

/// Bytes of a message that one frame carries at the lab's MTU of 1500.
pub const FRAME_PAYLOAD_BYTES: u64 = 1500 - HEADER_BYTES as u64;

/// Reads a size above zero in `ethbcast`'s notation.
fn parse_size(text: &str) -> Result<u64, String> {
    match ethbcast_planning::parse_size(text)? {
        0 => Err(format!("`{text}` is no size to measure: write one above 0")),
        bytes => Ok(bytes),
    }
}

/// Formats a size for [`parse_size`], in the largest unit that needs no fraction.
fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

/// Formats seconds as milliseconds, with three significant digits.
fn milliseconds(seconds: f64) -> String {
    let value = seconds * 1e3;
    let decimals = match value.abs() {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Returns the word for a bound that was met, or not.
fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

/// Returns the seconds that one copy of a message in full frames occupies a cable, with Ethernet
/// headers as the lab counts them: the least time of any plan, T(msize) of the papers.
fn copy_seconds(bytes: u64, rate_bits_per_second: u64) -> f64 {
    let frame_bytes = bytes + bytes.div_ceil(FRAME_PAYLOAD_BYTES) * OVERHEAD_BYTES as u64;
    frame_bytes as f64 * 8.0 / rate_bits_per_second as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_has_one_command_and_every_command_a_result() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/results");
        let all = COMPUTED.into_iter().chain(MEASURED.map(|(name, _)| name));
        let mut owned: Vec<String> = Vec::new();
        for name in all {
            let own = own_files(&folder, name).expect("the folder is there");
            assert!(!own.is_empty(), "{name} has no file");
            owned.extend(own);
        }
        owned.sort();
        let mut files: Vec<String> = fs::read_dir(&folder)
            .expect("the folder is there")
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .into_string()
                    .expect("UTF-8")
            })
            .collect();
        files.sort();
        assert_eq!(owned, files);
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for text in ["1", "1500", "8K", "96K", "1M", "64M"] {
            assert_eq!(parse_size(text).map(size).as_deref(), Ok(text));
        }
        assert_eq!(parse_size("1024k"), Ok(1 << 20));
        for text in ["", "K", "0", "-1", "1.5X", "99999999999999M"] {
            assert!(
                parse_size(text)
                    .is_err_and(|error| error.starts_with(&format!("`{text}` is no size"))),
                "{text}"
            );
        }
    }

    #[test]
    fn times_have_the_digits_that_count_and_a_copy_is_all_its_frames() {
        assert_eq!(
            [0.000_123_4, 0.022_18, 0.346_02, 10.7].map(milliseconds),
            ["0.12", "22.2", "346", "10700"]
        );
        assert_eq!(
            [copy_seconds(1468, 8), copy_seconds(1469, 8)],
            [1514.0, 1469.0 + 92.0]
        );
    }
}
