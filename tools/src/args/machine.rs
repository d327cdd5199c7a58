//! Command-line arguments of commands on this machine alone: `doctor`, `explain`, `dump`, `config`,
//! `man`, `completions`, `mpi-env`, `port`.

use super::{KeySourceArgs, WireArgs, whole};
use crate::doctor::Fault;
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::{Error, ErrorKind};
use clap::{Arg, Args, Command, Subcommand, ValueEnum};
use clap_complete::Shell;
use ethbcast_transport::wire::EtherType;
use std::ffi::OsStr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub wire: WireArgs,
    #[command(flatten)]
    pub key: KeySourceArgs,
    /// Check a destination: whether it exists, is writable, has room and is fast. 16 MiB are
    /// written to an unnamed file.
    #[arg(long, value_name = "PATH")]
    pub dest: Option<PathBuf>,
    /// With --dest, room that is needed, such as 40G. Default: 64M.
    #[arg(long, value_name = "BYTES", requires = "dest", value_parser = ethbcast_planning::parse_size)]
    pub size: Option<u64>,
    /// Also measure the path to these hosts, which run `ethbcast probe --answer`. Without a name,
    /// all that answer.
    #[arg(long, value_name = "HOST", num_args = 0..)]
    pub peer: Option<Vec<String>>,
    /// Run the fixes that are safe (switch an interface on, create a directory), and check again.
    #[arg(long)]
    pub fix: bool,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Code of a message, such as E-MTU. Without it, all codes are listed.
    #[arg(value_name = "CODE", ignore_case = true, hide_possible_values = true, value_parser = CodeParser)]
    pub code: Option<Fault>,
}

/// Parser of a code. The possible values are for completions; a mistake does not list all of them.
#[derive(Clone, Debug)]
struct CodeParser;

impl TypedValueParser for CodeParser {
    type Value = Fault;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Fault, Error> {
        EnumValueParser::<Fault>::new()
            .parse_ref(command, arg, value)
            .map_err(|_| {
                let text = format!(
                    "there is no code {}: `ethbcast explain` lists them\n",
                    value.display()
                );
                Error::raw(ErrorKind::ValueValidation, text).with_cmd(command)
            })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        EnumValueParser::<Fault>::new()
            .possible_values()
            .map(|values| Box::new(values.collect::<Vec<_>>().into_iter()) as _)
    }
}

#[derive(Debug, Args)]
pub struct DumpArgs {
    /// Capture file of tcpdump or Wireshark, pcap or pcapng; `-` is stdin.
    #[arg(
        value_name = "FILE",
        required_unless_present = "interface",
        conflicts_with = "interface"
    )]
    pub file: Option<PathBuf>,
    /// Print frames that arrive and leave on this interface, until interrupted. It is not put into
    /// promiscuous mode, so only frames to and from this host and its groups are seen.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// With -i, group whose multicast frames the card accepts. May be repeated.
    #[arg(
        short,
        long,
        value_name = "GROUP",
        default_value = "ethbcast",
        requires = "interface"
    )]
    pub group: Vec<String>,
    /// EtherType of the frames, in hexadecimal. Others are skipped.
    #[arg(long, value_name = "HEX", default_value = "88b5")]
    pub ether_type: EtherType,
    /// Stop after N frames.
    #[arg(short, long, value_name = "N", value_parser = whole::<u64>)]
    pub count: Option<u64>,
    /// Also write the frames to FILE as a capture (pcap with nanoseconds), for later or for
    /// Wireshark.
    #[arg(short, long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Decrypt messages of sessions whose secrets are in FILE, as `--key-log` of `send` or `recv`
    /// has written it. --write writes their frames as they would be without a key, for Wireshark.
    #[arg(long, value_name = "FILE")]
    pub key_log: Option<PathBuf>,
    /// Print one JSON object per frame, each on its own line.
    #[arg(long)]
    pub json: bool,
    /// Print only the summary.
    #[arg(short, long)]
    pub quiet: bool,
}

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// List the errors of a configuration file, with the options that may be meant. With errors,
    /// the exit code is 2.
    Check {
        /// File to check. Default: $ETHBCAST_CONFIG, or /etc/ethbcast/ethbcast.toml.
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory for the pages. It is created if it is missing; files of the same name are
    /// replaced. `man -l FILE` shows a page.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that reads the script. For bash: `ethbcast completions bash >
    /// /etc/bash_completion.d/ethbcast`.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

#[derive(Debug, Args)]
pub struct MpiEnvArgs {
    /// Print only the command of this launcher, without a heading.
    #[arg(long, value_name = "LAUNCHER")]
    pub launcher: Option<Launcher>,
    /// Drop-in library. Default: the one next to this program or in ../lib.
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// Network interface of every host. Default: the only Ethernet interface that is up.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// Unix socket of `ethbcast port --serve` on every host, for ranks without CAP_NET_RAW.
    #[arg(long, value_name = "SOCKET")]
    pub port: Option<PathBuf>,
    /// Let rank 0 print at the end which calls used ethbcast.
    #[arg(long)]
    pub stats: bool,
}

/// Program that starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Launcher {
    /// Open MPI's mpirun.
    Openmpi,
    /// MPICH's and Intel MPI's mpiexec.
    Hydra,
    /// Slurm's srun.
    Srun,
}

#[derive(Debug, Args)]
pub struct PortArgs {
    /// Unix socket over which processes get packet sockets. It is created, and removed at the end.
    /// The packet sockets receive only frames of ethbcast's EtherType, but any process that may
    /// connect may send any frame: give the socket a group of its own.
    #[arg(long, value_name = "SOCKET", required = true)]
    pub serve: PathBuf,
    /// Permissions of the Unix socket, in octal: they decide who may connect.
    #[arg(long, value_name = "MODE", default_value = "660", value_parser = mode)]
    pub mode: u32,
    /// Group of the Unix socket, by number.
    #[arg(long, value_name = "GID", value_parser = whole::<u32>)]
    pub gid: Option<u32>,
    /// EtherType of the frames, in hexadecimal.
    #[arg(long, value_name = "HEX", default_value = "88b5")]
    pub ether_type: EtherType,
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| format!("{text} is no mode: give one such as 660"))
}
