//! The command line, literally; what the arguments mean is resolved by the commands.

mod bench;
mod config;
mod cp;
mod ctl;
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
mod progress;
mod recv;
mod report;
mod resume;
mod send;
mod serve;
mod simulate;
mod spellings;
mod topo;
mod tree;

use crate::exit::{self, Form};
pub use bench::{BenchArgs, TcpChainArgs};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
pub use config::{ConfigArgs, ConfigCommand};
pub use cp::CpArgs;
pub use ctl::{CtlArgs, CtlCommand};
pub use doctor::{DoctorArgs, ExplainArgs};
pub use dump::DumpArgs;
use ethbcast_collectives::Preset;
use ethbcast_transport::wire::EtherType;
pub use hosts::HostsArgs;
pub use lab::{CableArgs, LabArgs, LabCommand};
pub use manual::{CompletionsArgs, ManArgs};
pub use mpi_env::{Launcher, MpiEnvArgs, PortArgs};
pub use patience::{PatienceArgs, StallArgs};
pub use perf::PerfArgs;
pub use plan::PlanArgs;
pub use probe::ProbeArgs;
pub use progress::ProgressArgs;
pub use recv::{RecvArgs, Verify};
pub use report::ReportArgs;
pub use resume::ResumeArgs;
pub use send::{Decompress, SendArgs};
pub use serve::ServeArgs;
pub use simulate::SimulateArgs;
pub use spellings::{Meaning, Role, UnusedByReceiver, UnusedBySender, meaning, unused, without_use};
use std::path::Path;
pub use topo::{DrawingArgs, ImportArgs, TopoArgs, TopoCommand};
pub use tree::TreeArgs;

/// Put the same bytes on every host of an Ethernet cluster, over raw frames, and lose nothing.
#[derive(Debug, Parser)]
#[command(name = "ethbcast", version, arg_required_else_help = true, after_help = exit::codes())]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send a file, a directory or stdin to the receivers of a group.
    Send(Box<SendArgs>),
    /// Receive what is sent to a group.
    Recv(Box<RecvArgs>),
    /// Copy to hosts that serve, by name: those that do not are named, and the others have it.
    Cp(CpArgs),
    /// Tell a sender that runs on this host something: another rate limit.
    Ctl(CtlArgs),
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
    /// Measure ways, receivers, sizes and loss in a lab on this machine, beside other tools with --peers.
    Bench(BenchArgs),
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
    /// One host of a chain of TCP connections; started by bench.
    #[command(hide = true)]
    TcpChain(TcpChainArgs),
    /// Says that a process has ended which could not say so itself; started by send and recv.
    #[command(hide = true)]
    Watch(WatchArgs),
}

impl Cli {
    /// The same with what was spelled as udpcast does.
    pub fn settled(self) -> Cli {
        let command = match self.command {
            Command::Send(args) => Command::Send(Box::new(args.settled())),
            Command::Recv(args) => Command::Recv(Box::new(args.settled())),
            other => other,
        };
        Cli { command }
    }
}

impl Command {
    /// The file to which is added what is logged, if it is named.
    pub fn log(&self) -> Option<&Path> {
        match self {
            Command::Send(args) => args.progress.log.as_deref(),
            Command::Recv(args) => args.progress.log.as_deref(),
            Command::Cp(args) => args.progress.log.as_deref(),
            _ => None,
        }
    }

    /// What programs read on stdout, however it ends.
    pub fn form(&self) -> Form {
        match self {
            Command::Send(args) => args.form(),
            // Whoever reads data there is not to take an object for some.
            Command::Recv(args) if args.dest.as_ref().is_some_and(|dest| dest == "-") => Form::Lines,
            Command::Recv(args) => args.form(),
            Command::Cp(args) => args.progress.form(&args.wire),
            Command::Hosts(args) if args.json && !args.watch => Form::Object,
            Command::Plan(args) if args.json => Form::Object,
            Command::Simulate(args) if args.json => Form::Object,
            Command::Probe(args) if args.wire.json && !args.answer => Form::Object,
            Command::Doctor(args) if args.wire.json => Form::Object,
            Command::Bench(args) if args.json => Form::Object,
            _ => Form::Lines,
        }
    }
}

/// What `send` and `recv` have in common.
#[derive(Clone, Debug, Args)]
pub struct WireArgs {
    /// Network interface: its name, an alternative name, its MAC or an IP address, or the value of BOOTIF=; without it,
    /// the only Ethernet interface that is up, or that of the default route.
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
    /// No progress, and no lines but errors: of the report nothing but what --json prints or --report keeps;
    /// --no-progress is the same.
    #[arg(short, long, alias = "no-progress")]
    pub quiet: bool,
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
