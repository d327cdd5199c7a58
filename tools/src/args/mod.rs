//! Command-line arguments of all commands, as the library clap parses them. Each command checks and
//! converts its own.

mod cluster;
mod examples;
mod lab;
mod machine;
mod planning;
mod recv;
mod send;
mod session;
mod spellings;

use crate::exit;
use crate::exit::Form;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Args, Parser, Subcommand};
pub use cluster::{CpArgs, CtlArgs, CtlCommand, HostsArgs, PerfArgs, ProbeArgs, RelayArgs};
use ethbcast_collectives::Preset;
use ethbcast_transport::packet::Over;
use ethbcast_transport::wire::EtherType;
pub use examples::examples;
pub use lab::{BenchArgs, CableArgs, LabArgs, LabCommand, TcpChainArgs};
pub use machine::{
    CompletionsArgs, ConfigArgs, ConfigCommand, DoctorArgs, DumpArgs, ExplainArgs, Launcher,
    ManArgs, MpiEnvArgs, PortArgs,
};
pub use planning::{
    DrawingArgs, ImportArgs, PlanArgs, ReportArgs, SimulateArgs, TopoArgs, TopoCommand,
};
pub use recv::{RecvArgs, Verify};
pub use send::{Decompress, ResumeArgs, SendArgs, TreeArgs};
pub use session::{KeyArgs, KeyCommand, KeySourceArgs, PatienceArgs, ProgressArgs, StallArgs};
pub use spellings::{
    Meaning, Role, UnusedByReceiver, UnusedBySender, meaning, unused, without_use,
};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

/// Copy a file, directory or disk image to all hosts of an Ethernet network at once, over raw
/// frames.
#[derive(Debug, Parser)]
#[command(name = "ethbcast", version, arg_required_else_help = true, after_help = exit::codes())]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send a file, directory, disk image or stdin to all receivers.
    Send(Box<SendArgs>),
    /// Receive data, verify it and write it to DEST.
    Recv(Box<RecvArgs>),
    /// Receive in one network and send it on in another, as it comes.
    Relay(Box<RelayArgs>),
    /// Copy files to named hosts that run `recv --serve`.
    Cp(CpArgs),
    /// Control a send that runs on this host: change its rate limit, or start it.
    Ctl(CtlArgs),
    /// List waiting receivers with group, free disk space and last result.
    Hosts(HostsArgs),
    /// Turn a saved report of send into a web page.
    Report(ReportArgs),
    /// Draw, check or import a topology file.
    Topo(TopoArgs),
    /// Plan a broadcast: sender and receivers of each step, cables, predicted time.
    Plan(PlanArgs),
    /// Measure the network: latency, rate, MTU, loss, broadcast.
    Probe(ProbeArgs),
    /// Run the real protocol in a simulated network of any topology.
    Simulate(SimulateArgs),
    /// Measure broadcast and barrier times; started on every host.
    Perf(PerfArgs),
    /// Measure transfers in a lab on this machine, and other tools with --peers.
    Bench(BenchArgs),
    /// Find problems on this host, and print the commands that fix them.
    Doctor(DoctorArgs),
    /// Explain a problem code, such as E-MTU.
    Explain(ExplainArgs),
    /// Print the frames of a capture file or of an interface.
    Dump(DumpArgs),
    /// Check the configuration file.
    Config(ConfigArgs),
    /// Make, show and change keys: hosts with a key accept only each other's frames.
    Key(KeyArgs),
    /// Create a test cluster of network namespaces on this machine.
    Lab(LabArgs),
    /// Write the man pages, one for each command.
    Man(ManArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Print the command that starts an MPI program with the drop-in library.
    MpiEnv(MpiEnvArgs),
    /// Open packet sockets for processes without CAP_NET_RAW.
    Port(PortArgs),
    /// Run one host of a chain of TCP connections; started by bench.
    #[command(hide = true)]
    TcpChain(TcpChainArgs),
    /// Report the end of a process that was killed; started by send and recv.
    #[command(hide = true)]
    Watch(WatchArgs),
}

impl Cli {
    /// Moves values given under udpcast's option names to their own fields.
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
    pub fn log(&self) -> Option<&Path> {
        match self {
            Command::Send(args) => args.progress.log.as_deref(),
            Command::Recv(args) => args.progress.log.as_deref(),
            Command::Cp(args) => args.progress.log.as_deref(),
            _ => None,
        }
    }

    pub fn form(&self) -> Form {
        match self {
            Command::Send(args) => args.form(),
            // Stdout carries the received data there.
            Command::Recv(args) if args.dest.as_ref().is_some_and(|dest| dest == "-") => {
                Form::Lines
            }
            Command::Recv(args) => args.form(),
            Command::Cp(args) => args.progress.form(&args.wire),
            Command::Relay(args) if args.wire.json => Form::Object,
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

#[derive(Clone, Debug, Args)]
pub struct WireArgs {
    /// Name of the session. A sender and receivers of the same group meet.
    #[arg(short, long, value_name = "GROUP", default_value = "ethbcast", help_heading = WHO)]
    pub group: String,
    /// Name of this host in reports and topology files. Default: $ETHBCAST_HOST, the network
    /// namespace's name, the host name, or a network card's address if the host name was never set.
    #[arg(long, value_name = "NAME", help_heading = WHO)]
    pub host: Option<String>,
    /// Network interface, such as eth0.
    ///
    /// An interface name, alternative name, MAC address, IP address or network (10.1.0.0/16), or
    /// the value of BOOTIF=. Default: the only Ethernet interface that is up; if several are, that
    /// of the default route. Two, as eth0,eth1, for `send` and `recv`: data go by both.
    #[arg(short, long, value_name = "IFACE", help_heading = HOW, display_order = 0)]
    pub interface: Option<String>,
    /// EtherType of the frames, in hexadecimal.
    #[arg(long, value_name = "HEX", default_value = "88b5", help_heading = HOW)]
    pub ether_type: EtherType,
    /// Carrier of the frames, the same on all hosts: ethernet (raw frames), udp (needs no right;
    /// IPv6 where the interface has no IPv4), or unicast (UDP to single hosts, also behind routers:
    /// a sender's --hosts or a receiver's --from are names or IP addresses). With udp:PORT or
    /// unicast:PORT, from 49152 on, that is this process's own port.
    #[arg(long, value_name = "CARRIER", default_value = "ethernet", help_heading = HOW)]
    pub over: Over,
    /// Time to live of frames over udp: with more than 1, on all hosts, they pass routers that pass
    /// multicast on. Nothing controls congestion there.
    #[arg(long, value_name = "HOPS", default_value_t = 1, value_parser = number(1..=u8::MAX), help_heading = HOW)]
    pub ttl: u8,
    /// Print one JSON object on stdout at the end: the outcome, or the failure.
    #[arg(long, help_heading = PRINTED)]
    pub json: bool,
    /// Print errors only: no progress, and no report but that of --json. Alias: --no-progress.
    #[arg(short, long, alias = "no-progress", help_heading = PRINTED)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Interface of the session.
    #[arg(long, value_name = "IFACE")]
    pub interface: String,
    /// Carrier of its frames.
    #[arg(long, value_name = "CARRIER")]
    pub over: Over,
}

fn presets() -> impl TypedValueParser<Value = Preset> {
    PossibleValuesParser::new(Preset::ALL.map(Preset::name))
        .map(|name| name.parse::<Preset>().expect("other names do not pass"))
}

fn receivers(text: &str) -> Result<u16, String> {
    number(1..=65534)(text)
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && (0.0..=1e9).contains(&value) => Ok(value),
        _ => Err("expected a number of seconds, such as 30 or 0.5".to_owned()),
    }
}

fn number<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Copy + Send + Sync + 'static,
{
    move |text| {
        let value = text.parse().ok().filter(|value| range.contains(value));
        value.ok_or_else(|| {
            format!(
                "expected a whole number from {} to {}",
                range.start(),
                range.end()
            )
        })
    }
}

/// Parses a whole number, negative only where the type is signed.
fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| "expected a whole number".to_owned())
}

fn decimal(text: &str) -> Result<f64, String> {
    text.parse()
        .map_err(|_| "expected a number, such as 0.01".to_owned())
}

/// Returns the refusal of an option that belongs to another command.
fn misplaced(
    why: &'static str,
) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    move |_| Err(why.to_owned())
}

const WHO: &str = "Who takes part";
const WHAT: &str = "What is sent";
const WRITTEN: &str = "What is written";
const MEASURED: &str = "What is measured";
const HOW: &str = "How it travels";
const TROUBLE: &str = "When something goes wrong";
const PRINTED: &str = "What is printed";

/// Hides every option from `-h` except those with an id in `shown`.
fn everyday(shown: &'static [&'static str]) -> impl Fn(Arg) -> Arg {
    |arg| {
        let is_shown = shown.contains(&arg.get_id().as_str());
        if is_shown {
            arg
        } else {
            arg.hide_short_help(true)
        }
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
