//! The command line, literally; what the arguments mean is resolved by the commands.

mod config;
mod cp;
mod doctor;
mod dump;
mod hosts;
mod lab;
mod manual;
mod mpi_env;
mod patience;
mod perf;
mod plan;
mod probe;
mod report;
mod resume;
mod serve;
mod simulate;
mod topo;
mod tree;

use crate::send::StartRule;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use config::{ConfigArgs, ConfigCommand};
pub use cp::CpArgs;
pub use doctor::{DoctorArgs, ExplainArgs};
pub use dump::DumpArgs;
use ethbcast_collectives::Preset;
use ethbcast_collectives::session::Rate;
use ethbcast_transport::wire::EtherType;
pub use hosts::HostsArgs;
pub use lab::{CableArgs, LabArgs, LabCommand};
pub use manual::{CompletionsArgs, ManArgs};
pub use mpi_env::{Launcher, MpiEnvArgs, PortArgs};
pub use patience::{PatienceArgs, StallArgs};
pub use perf::PerfArgs;
pub use plan::PlanArgs;
pub use probe::ProbeArgs;
pub use report::ReportArgs;
pub use resume::ResumeArgs;
pub use serve::ServeArgs;
pub use simulate::SimulateArgs;
use std::ffi::OsString;
use std::path::PathBuf;
pub use topo::{DrawingArgs, ImportArgs, TopoArgs, TopoCommand};
pub use tree::TreeArgs;

/// Put the same bytes on every host of an Ethernet cluster, over raw frames, and lose nothing.
#[derive(Debug, Parser)]
#[command(name = "ethbcast", version, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 all receivers verified; 1 some failed, or doctor found something; 2 usage; 3 \
nobody there, timed out, or the group is taken; 4 system or permission; 5 integrity; 130/143 interrupted.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send a file, a directory or stdin to the receivers of a group.
    Send(Box<SendArgs>),
    /// Receive what is sent to a group.
    Recv(Box<RecvArgs>),
    /// Copy to hosts that serve, by name: those that do not are named, and the others have it.
    Cp(CpArgs),
    /// List who listens: each receiver's host, group, room, and how its last session went.
    Hosts(HostsArgs),
    /// Make a page of a report of send, to keep: plan, course, losses and settings.
    Report(ReportArgs),
    /// Show, check or import a topology.
    Topo(TopoArgs),
    /// Plan a broadcast: who sends to whom, on which cables, in what time.
    Plan(PlanArgs),
    /// Measure the network: gaps, latencies, rate, MTU, broadcast.
    Probe(ProbeArgs),
    /// Run the real engine on any topology in a simulated network.
    Simulate(SimulateArgs),
    /// Measure broadcast and barrier, run on every host.
    Perf(PerfArgs),
    /// Look for what stands in the way on this host, and say the command that mends it.
    Doctor(DoctorArgs),
    /// Say what the code of a finding means.
    Explain(ExplainArgs),
    /// Print the frames of a capture, or of an interface as they come and leave.
    Dump(DumpArgs),
    /// Look whether the configuration file is right.
    Config(ConfigArgs),
    /// A cluster of network namespaces on this machine, to try things on.
    Lab(LabArgs),
    /// Write the man pages, one for each command.
    Man(ManArgs),
    /// Print what a shell needs to complete this program's commands and options.
    Completions(CompletionsArgs),
    /// Print the line that starts an MPI program with the drop-in.
    MpiEnv(MpiEnvArgs),
    /// Hand packet sockets to processes that may not open one.
    Port(PortArgs),
    /// Says that a process has ended which could not say so itself; started by send and recv.
    #[command(hide = true)]
    Watch(WatchArgs),
}

impl Command {
    /// Whether it was asked for an object on stdout at its end, however it ends.
    pub fn ends_with_json(&self) -> bool {
        match self {
            Command::Send(args) => args.wire.json,
            // Whoever reads data there is not to take an object for some.
            Command::Recv(args) => args.wire.json && args.dest.as_ref().is_none_or(|dest| dest != "-"),
            _ => false,
        }
    }
}

/// What `send` and `recv` have in common.
#[derive(Clone, Debug, Args)]
pub struct WireArgs {
    /// Network interface; without it, the only Ethernet interface that is up.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// Name of the session: only sender and receivers of the same group meet.
    #[arg(short, long, value_name = "GROUP", default_value = "ethbcast")]
    pub group: String,
    /// This host's name in reports and topology files; without it, $ETHBCAST_HOST, the network namespace's name, the
    /// hostname, or, where that was never set, a network card's address.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// EtherType of the frames, in hexadecimal.
    #[arg(long, value_name = "HEX", default_value = "88b5")]
    pub ether_type: EtherType,
    /// Print one JSON object on stdout at the end: the outcome, or the failure.
    #[arg(long)]
    pub json: bool,
    /// No progress, no lines but errors and the report.
    #[arg(short, long)]
    pub quiet: bool,
}

/// `ethbcast send`.
#[derive(Debug, Args)]
pub struct SendArgs {
    /// What send and recv share.
    #[command(flatten)]
    pub wire: WireArgs,
    /// How long to wait for whoever is silent.
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// How long to bear with whoever makes no progress.
    #[command(flatten)]
    pub stall: StallArgs,
    /// Start as soon as N receivers have joined; fewer within --max-wait is a failure, unless --min-receivers will do.
    /// With neither of these nor --hosts, send lists on a terminal who joins, and starts at Enter.
    #[arg(short = 'n', long, value_name = "N", value_parser = receivers())]
    pub receivers: Option<u16>,
    /// After --max-wait, start with whoever is there if they are at least N.
    #[arg(long, value_name = "N", requires = "max_wait", value_parser = receivers())]
    pub min_receivers: Option<u16>,
    /// Send to these hosts, such as n[1-31], and to no others: start as soon as all are there (or -n of them). Who is
    /// missing is named.
    #[arg(long, value_name = "NODESET")]
    pub hosts: Option<String>,
    /// Let receivers take part that come after the start: each is served beside the others, and after them.
    #[arg(long)]
    pub late: bool,
    /// How long to wait for receivers; 60 seconds without it.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub max_wait: Option<f64>,
    /// How the bytes travel: auto (the least predicted time), chain, binary, kary=K, cast, flat, binomial,
    /// scatter-allgather, recursive-doubling, chain-unaware, binary-unaware, latency or binary-best.
    #[arg(long, value_name = "VIA", default_value = "auto")]
    pub via: String,
    /// The protocol of a cast, with --via cast: default fills the holes receivers name; paper and push-pull are the EQA
    /// paper's Simple Broadcast (strict go-back-n, window 16) and Push-Pull Broadcast (the first frames at once, the
    /// rest when a receiver has answered).
    #[arg(long, value_name = "PRESET", value_parser = presets(), default_value_t, hide_possible_values = true)]
    pub preset: Preset,
    /// With --preset push-pull: push so many bytes of a message, in whole frames, before a receiver has answered; one
    /// frame without it, for the paper's 860.
    #[arg(long, value_name = "BYTES", value_parser = ethbcast_planning::parse_size)]
    pub push_bytes: Option<u64>,
    /// Run a plan that `ethbcast plan --out` saved. With --topology it is judged first, and refused if several hosts
    /// send over one cable at a time.
    #[arg(long, value_name = "FILE", conflicts_with = "via")]
    pub plan: Option<PathBuf>,
    /// Run the plan even if several hosts send over one cable at a time.
    #[arg(long, requires = "plan")]
    pub allow_contention: bool,
    /// What the network costs, as `ethbcast probe --out` writes it; without it a short probe runs before the start.
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    /// Do not probe: assume cables of 1 Gbit/s unless there is a calibration.
    #[arg(long)]
    pub no_probe: bool,
    /// Wait for the receivers, print what would be sent how, and end the session without sending.
    #[arg(long)]
    pub dry_run: bool,
    /// The cluster's switches and hosts; without it all hosts are taken to be on one switch.
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// Let no host send more than this, neither this one nor those that hand on: 400mbit, 1gbit, 50MB/s; 400m is
    /// 400mbit. All frames count, with their Ethernet headers. SIGUSR1 raises it by a tenth while it runs, SIGUSR2
    /// lowers it.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<Rate>,
    /// Send frames for this MTU instead of the interface's.
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u32>,
    /// Offer SOURCE, a file or stdin, under this name: a receiver that takes it into a directory calls it so.
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// Send a file that is written to meanwhile as it comes, as many bytes as it has at first.
    #[arg(long)]
    pub allow_changing: bool,
    /// Send what this command writes, run by `sh -c`; if it fails, the run fails and nobody keeps a part.
    #[arg(long, value_name = "COMMAND")]
    pub pipe: Option<String>,
    /// How many bytes stdin or the command has, so that the way is chosen by it and receivers know it; other than so
    /// many are an error.
    #[arg(long, value_name = "BYTES")]
    pub size: Option<u64>,
    /// Unpack SOURCE (gzip, xz, zstd, told by its first bytes; qcow2, at the root only): once here, so that what is
    /// sent is the image, or at each receiver, so that less is sent.
    #[arg(long, value_enum, value_name = "root|receivers", hide_possible_values = true)]
    pub decompress: Option<Decompress>,
    /// Run this by `sh -c` when all receivers have verified the bytes, with ETHBCAST_GROUP, _SOURCE, _BYTES, _BLAKE3
    /// and _RECEIVERS in its environment.
    #[arg(long, value_name = "COMMAND")]
    pub exec_after: Option<String>,
    /// What receivers have already.
    #[command(flatten)]
    pub resume: ResumeArgs,
    /// What of a directory is sent.
    #[command(flatten)]
    pub tree: TreeArgs,
    /// What to send: a file, `-` for stdin, or a directory: DIR goes to DEST, or into it under its own name if DEST
    /// exists; DIR/ is what is in it and goes to DEST itself. Several go to one directory, each under its own name.
    #[arg(required_unless_present = "pipe", conflicts_with = "pipe", num_args = 1..)]
    pub source: Vec<OsString>,
    /// When it starts, by the command line of another program.
    #[arg(skip)]
    pub start_rule: Option<StartRule>,
}

/// `ethbcast recv`.
#[derive(Debug, Args)]
pub struct RecvArgs {
    /// What send and recv share.
    #[command(flatten)]
    pub wire: WireArgs,
    /// How long to wait for a silent sender.
    #[command(flatten)]
    pub patience: PatienceArgs,
    /// Whether it stays.
    #[command(flatten)]
    pub serve: ServeArgs,
    /// A packet socket that root has opened, socket(AF_PACKET, SOCK_RAW, 0), and left open for this program: its
    /// number, such as 3. With it no permission is needed. With --serve, once for each group.
    #[arg(long, value_name = "FD", value_parser = clap::value_parser!(i32).range(0..))]
    pub port_fd: Vec<i32>,
    /// Replace DEST if it exists.
    #[arg(short, long)]
    pub force: bool,
    /// What is compared with the sender's digest: the bytes as they were received and handed to the disk, or also the
    /// file as it is read back after it was synced, which is the default for a block device.
    #[arg(long, value_enum, value_name = "received|read", hide_possible_values = true)]
    pub verify: Option<Verify>,
    /// Make holes of zeros: room that a file does not take, blocks that a device forgets. Holes at the sender are holes
    /// again also without it.
    #[arg(long)]
    pub sparse: bool,
    /// Give up if no sender takes this host within this time; without it, wait for ever.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub max_wait: Option<f64>,
    /// End with the reason when a sender turns this host away, gives up or has started without it; without it, wait for
    /// the next session.
    #[arg(long)]
    pub once: bool,
    /// Put the files of a directory one by one into the directory that is there, each over the one of its name; without
    /// it the directory appears whole, and with --force takes the place of the one that is there.
    #[arg(long)]
    pub in_place: bool,
    /// With --in-place: remove what the sender does not have.
    #[arg(long, requires = "in_place")]
    pub delete: bool,
    /// Something like what comes, such as an older version of it: a file, a block device or a directory. What is the
    /// same there is not sent. May be given several times; without it, what is at DEST.
    #[arg(long, value_name = "PATH")]
    pub basis: Vec<PathBuf>,
    /// Do not take up what an earlier run left, but remove it, and leave nothing when this one is cut off.
    #[arg(long)]
    pub no_resume: bool,
    /// Run this by `sh -c` when all is verified and at DEST, with ETHBCAST_PATH, _GROUP, _SOURCE, _BYTES and _BLAKE3 in
    /// its environment.
    #[arg(long, value_name = "COMMAND")]
    pub exec: Option<String>,
    /// Feed this command, run by `sh -c`, instead of writing DEST: it reads the bytes on its stdin, and sees their end
    /// only when all have come and are verified; if the transfer fails, it is ended. If it fails, its exit code is this
    /// program's.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["force", "in_place", "dest"])]
    pub pipe: Option<String>,
    /// File or directory to write, or a directory to put it into under its own name; `-` is stdout.
    #[arg(required_unless_present = "pipe")]
    pub dest: Option<OsString>,
}

/// Who unpacks, by `send --decompress`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Decompress {
    /// The sender.
    Root,
    /// Each receiver.
    Receivers,
}

/// What `recv --verify` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verify {
    /// What came.
    Received,
    /// What came, and what is read back.
    Read,
}

/// `ethbcast watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// The interface of the session.
    #[arg(long, value_name = "IFACE")]
    pub interface: String,
}

/// Reads the name of a protocol.
fn presets() -> impl TypedValueParser<Value = Preset> {
    PossibleValuesParser::new(Preset::ALL.map(Preset::name))
        .map(|name| name.parse::<Preset>().expect("other names do not pass"))
}

/// Reads how many receivers there are.
fn receivers() -> impl TypedValueParser<Value = u16> {
    clap::value_parser!(u16).range(1..65535)
}

/// Reads how much a host may send.
fn rate(text: &str) -> Result<Rate, String> {
    let bits_per_second = ethbcast_planning::parse_rate(text)?;
    Rate::new(bits_per_second)
        .ok_or_else(|| format!("`{text}` is too little: signs of life need some, give at least 1mbit"))
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && (0.0..=1e9).contains(&value) => Ok(value),
        _ => Err("expected a number of seconds, such as 30 or 0.5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
