//! Command-line arguments of the commands that look for other hosts: `hosts`, `relay`, `cp`, `ctl`,
//! `probe` and `perf`.

use super::send::rate;
use super::{HOW, MEASURED, PRINTED, WHAT, WHO};
use super::{
    KeySourceArgs, PatienceArgs, ProgressArgs, WireArgs, examples, number, presets, receivers,
    seconds, whole,
};
use crate::perf::Op;
use clap::{Args, Subcommand};
use ethbcast_collectives::Preset;
use ethbcast_collectives::session::Rate;
use ethbcast_planning::parse_size;
use ethbcast_transport::packet::Over;
use ethbcast_transport::wire::EtherType;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct HostsArgs {
    /// Network interface. Default: the only Ethernet interface that is up; if several are, that of
    /// the default route.
    #[arg(short, long, value_name = "IFACE")]
    pub interface: Option<String>,
    /// List only receivers of this group. Default: those of all groups.
    #[arg(short, long, value_name = "GROUP")]
    pub group: Option<String>,
    /// EtherType of the frames, in hexadecimal.
    #[arg(long, value_name = "HEX", default_value = "88b5")]
    pub ether_type: EtherType,
    /// Carrier of the frames, that of the receivers: ethernet, or udp.
    #[arg(long, value_name = "CARRIER", default_value = "ethernet")]
    pub over: Over,
    /// Seconds to wait for answers; with --watch, seconds between two lists.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub wait: f64,
    /// Repeat the list until interrupted.
    #[arg(long)]
    pub watch: bool,
    /// Hosts that should be there, such as n[1-31], or ^FILE for a file of names. Missing ones are
    /// listed, and the exit code is 1.
    #[arg(long, value_name = "NODESET")]
    pub expect: Option<String>,
    /// Topology file with the cluster's switches and hosts, to print the switch of each receiver.
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// Print one JSON object; with --watch, one per list, each on its own line.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub key: KeySourceArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = examples::text("relay"))]
pub struct RelayArgs {
    /// Number of receivers behind this host, on --onto. It joins the sender's session, as one
    /// receiver, as soon as they have joined its own.
    #[arg(short = 'n', long, value_name = "N", value_parser = receivers, required_unless_present = "to",
        help_heading = WHO)]
    pub receivers: Option<u16>,
    /// Relay to these hosts only, such as n[1-31]; with the carrier unicast, names or IPv4
    /// addresses. All are waited for, or -n of them. Alias: --hosts.
    #[arg(long, alias = "hosts", value_name = "NODESET", help_heading = WHO)]
    pub to: Option<String>,
    /// Sender to ask, by name or IPv4 address, as for `recv --from`. Alias: --sender.
    #[arg(long, alias = "sender", value_name = "HOST", help_heading = WHO)]
    pub from: Option<String>,
    /// Seconds to wait for a sender, and then for the receivers. Default: for ever, and 45.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = WHO)]
    pub max_wait: Option<f64>,
    #[command(flatten)]
    pub key: KeySourceArgs,
    /// Network interface of the receivers, such as eth1. The sender is heard on -i.
    #[arg(long, value_name = "IFACE", help_heading = HOW, display_order = 0)]
    pub onto: String,
    /// Carrier of the frames on --onto, if another than that of --over.
    #[arg(long, value_name = "CARRIER", help_heading = HOW)]
    pub onto_over: Option<Over>,
    /// Limit of the sending rate on --onto, as for `send --rate`.
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = HOW)]
    pub rate: Option<Rate>,
    #[command(flatten)]
    pub patience: PatienceArgs,
    #[command(flatten)]
    pub wire: WireArgs,
}

#[derive(Debug, Args)]
#[command(after_long_help = examples::text("cp"))]
pub struct CpArgs {
    /// Destination hosts, such as n[1-31], rack[1-4]n[0-9], ^FILE (a file of host names) or @group
    /// (a group of ClusterShell). Without it and without HOSTS:, those of the Slurm job
    /// (SLURM_JOB_NODELIST).
    #[arg(short = 'w', long, value_name = "NODESET", help_heading = WHO)]
    pub nodes: Option<String>,
    /// Seconds to look for hosts that run `recv --serve`, and then to wait for them to join.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds, help_heading = WHO)]
    pub max_wait: f64,
    #[command(flatten)]
    pub key: KeySourceArgs,
    /// With a key, leave contents in the clear, with them the names in a directory; reports are
    /// encrypted.
    #[arg(long, conflicts_with = "no_key", help_heading = WHO)]
    pub auth_only: bool,
    /// Files and directories to copy, and the destination: `n[1-31]:` or `n[1-31]:NAME`. With -w or
    /// in a Slurm job NAME is enough, or nothing. Several sources keep their names; the destination
    /// is then `n[1-31]:` (or `:`), and the hosts run `recv --serve --in-place`.
    #[arg(required = true, num_args = 1.., value_names = ["SOURCE", "HOSTS:NAME"], help_heading = WHAT,
        display_order = 0)]
    pub paths: Vec<OsString>,
    /// Accepted for sbcast and cp: modes and times are always kept.
    #[arg(short = 'p', long, help_heading = WHAT)]
    pub preserve: bool,
    /// Accepted for sbcast and cp: the hosts decide whether files are replaced (`recv --serve
    /// --force`).
    #[arg(short = 'f', long, help_heading = WHAT)]
    pub force: bool,
    /// Topology file with the cluster's switches and hosts. Without it, all hosts are assumed to be
    /// on one switch.
    #[arg(long, value_name = "FILE", help_heading = HOW)]
    pub topology: Option<PathBuf>,
    /// Broadcast algorithm: auto, or another value of `send --via`.
    #[arg(long, value_name = "VIA", default_value = "auto", help_heading = HOW)]
    pub via: String,
    /// Limit of each host's sending rate, such as 400mbit, as for `send`.
    #[arg(long, value_name = "RATE", help_heading = HOW)]
    pub rate: Option<String>,
    /// Yield to other traffic, as for `send`.
    #[arg(long, help_heading = HOW)]
    pub nice: bool,
    /// Leave nothing to other traffic, as for `send`.
    #[arg(long, conflicts_with = "nice", help_heading = HOW)]
    pub greedy: bool,
    /// Accepted for sbcast and clush: the broadcast algorithm decides how many hosts are sent to at
    /// once.
    #[arg(short = 'F', long, value_name = "N", value_parser = whole::<u32>, help_heading = HOW)]
    pub fanout: Option<u32>,
    #[command(flatten)]
    pub progress: ProgressArgs,
    #[command(flatten)]
    pub wire: WireArgs,
}

#[derive(Debug, Args)]
pub struct CtlArgs {
    /// Process id of the `ethbcast send` or `cp`. Default: the only one on this host, or in this
    /// network namespace.
    #[arg(long, value_name = "PID", value_parser = whole::<u32>)]
    pub pid: Option<u32>,
    #[command(subcommand)]
    pub command: CtlCommand,
}

#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// Set the rate limit of a sender that was started with --rate. Forwarding hosts follow a
    /// moment later.
    Rate {
        /// New limit, such as 400mbit.
        #[arg(value_parser = rate)]
        rate: Rate,
    },
    /// Print the rate limit.
    Show,
    /// Start with the receivers that have joined, without waiting for those of -n, --hosts or
    /// --max-wait.
    Start,
}

#[derive(Debug, Args)]
#[command(after_long_help = examples::text("probe"))]
pub struct ProbeArgs {
    #[command(flatten)]
    pub key: KeySourceArgs,
    /// Answer the probes of other hosts, until interrupted or for --max-wait seconds.
    #[arg(long, conflicts_with_all = ["receivers", "out", "update", "hosts"], help_heading = WHO)]
    pub answer: bool,
    /// Hosts to measure. Default: all that answer.
    #[arg(value_name = "HOST", help_heading = WHO, display_order = 0)]
    pub hosts: Vec<String>,
    /// Start as soon as N hosts have answered. Fewer within --max-wait is a failure.
    #[arg(short = 'n', long, value_name = "N", value_parser = receivers, help_heading = WHO)]
    pub receivers: Option<u16>,
    /// Seconds to look for hosts that answer (default: 5), or with --answer to keep answering
    /// (default: for ever).
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = WHO)]
    pub max_wait: Option<f64>,
    /// Find the switches between the hosts, and write a topology file to --out or stdout. Hosts
    /// send flows of 10 ms, two at a time; two flows that share a cable slow each other down. The
    /// network should be idle.
    #[arg(long, conflicts_with_all = ["answer", "update"], help_heading = MEASURED)]
    pub discover: bool,
    #[command(flatten)]
    pub wire: WireArgs,
    /// Write the calibration to FILE, for `send --calibration` and `plan --calibration`. With
    /// --discover, write the topology.
    #[arg(long, value_name = "FILE", help_heading = PRINTED)]
    pub out: Option<PathBuf>,
    /// Update the calibration in FILE: values of the hosts measured now are replaced, those of
    /// other hosts kept. Values of the network as a whole are replaced if all hosts in FILE are
    /// measured again.
    #[arg(long, value_name = "FILE", conflicts_with = "out", help_heading = PRINTED)]
    pub update: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_long_help = examples::text("perf"))]
pub struct PerfArgs {
    #[command(flatten)]
    pub key: KeySourceArgs,
    /// Number of ranks, this one included.
    #[arg(short = 'n', long, value_name = "RANKS", value_parser = number(2..=u16::MAX),
        help_heading = WHO)]
    pub ranks: u16,
    /// Make this host the root, which broadcasts, measures and reports. Exactly one host is the
    /// root.
    #[arg(long, help_heading = WHO)]
    pub root: bool,
    /// Seconds to wait for the other ranks.
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = seconds, help_heading = WHO)]
    pub max_wait: f64,
    /// Operation to time: bcast (and a barrier), barrier, sendrecv (to the next rank and from the
    /// previous one), allgather, scatter (and a barrier), gather or allreduce (sums of bytes).
    #[arg(long, value_name = "OP", value_enum, default_value_t, hide_possible_values = true, help_heading = MEASURED)]
    pub op: Op,
    /// Message sizes, such as 256,4K,1M. For allgather, scatter and gather: the size of one block.
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_size, default_value = "256,4K,64K,1M",
        help_heading = MEASURED)]
    pub sizes: Vec<u64>,
    /// Iterations for each size.
    #[arg(long, value_name = "K", default_value_t = 20, value_parser = number(1..=1_000_000_u32),
        help_heading = MEASURED)]
    pub iterations: u32,
    /// Seconds to pause before each timed broadcast and barrier, as a program that computes in
    /// between does. Token buckets fill up meanwhile. Root only.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = MEASURED)]
    pub pause: Option<f64>,
    /// Broadcast algorithm: auto, or another value of `send --via` such as chain, binary, kary=3 or
    /// cast. Root only.
    #[arg(long, value_name = "VIA", default_value = "auto", help_heading = HOW)]
    pub via: String,
    /// Broadcast along a plan that `ethbcast plan --out` saved for these hosts. With --topology it
    /// is checked first. Root only.
    #[arg(long, value_name = "FILE", conflicts_with = "via", help_heading = HOW)]
    pub plan: Option<PathBuf>,
    /// Run the plan even if several hosts send over one cable at the same time.
    #[arg(long, requires = "plan", help_heading = HOW)]
    pub allow_contention: bool,
    /// Protocol of --via cast: default, paper or push-pull, as for `send`. All ranks need the same.
    #[arg(long, value_name = "PRESET", value_parser = presets(), default_value_t, hide_possible_values = true,
        help_heading = HOW)]
    pub preset: Preset,
    /// Send no broadcast frames, as where switches police them: broadcasts use trees, allgathers a
    /// ring. Root only.
    #[arg(long, help_heading = HOW)]
    pub no_casts: bool,
    /// Topology file with the cluster's switches and hosts. Without it, all hosts are assumed to be
    /// on one switch. Root only.
    #[arg(long, value_name = "FILE", help_heading = HOW)]
    pub topology: Option<PathBuf>,
    /// Network costs measured by `ethbcast probe --out`. Root only.
    #[arg(long, value_name = "FILE", help_heading = HOW)]
    pub calibration: Option<PathBuf>,
    /// Do not probe before the start. Without --calibration, cables of 1 Gbit/s are assumed.
    #[arg(long, help_heading = HOW)]
    pub no_probe: bool,
    #[command(flatten)]
    pub wire: WireArgs,
}
