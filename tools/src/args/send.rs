//! Command-line arguments of `ethbcast send`.

use super::{HOW, PRINTED, TROUBLE, WHAT, WHO, everyday};
use super::{
    KeySourceArgs, PatienceArgs, ProgressArgs, StallArgs, UnusedBySender, WireArgs, examples,
    presets, receivers, seconds, whole,
};
use crate::exit::Form;
use crate::rights::user;
use crate::send::StartRule;
use clap::{Args, ValueEnum};
use ethbcast_collectives::Preset;
use ethbcast_collectives::session::verified::{ChunkSize, Cut};
use ethbcast_collectives::session::{ContentKind, Rate};
use nix::unistd::User;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(
    mut_args = everyday(&["receivers", "hosts", "source", "interface", "topology", "rate"]),
    after_help = "all options: ethbcast send --help",
    after_long_help = examples::text("send"),
)]
pub struct SendArgs {
    /// Start as soon as N receivers have joined.
    ///
    /// Fewer within --max-wait is a failure, unless --min-receivers allows it. Without -n,
    /// --min-receivers and --hosts, send lists on a terminal who joins, and starts when you press
    /// Enter.
    #[arg(short = 'n', long, value_name = "N", value_parser = receivers, help_heading = WHO)]
    pub receivers: Option<u16>,
    /// Send to these hosts only, such as n[1-31].
    ///
    /// The transfer starts as soon as all of them (or -n of them) have joined. Missing hosts are
    /// listed. ^FILE reads host names from a file; name@ADDRESS selects one of several hosts with
    /// the same name.
    #[arg(long, value_name = "NODESET", help_heading = WHO)]
    pub hosts: Option<String>,
    /// After --max-wait, start if at least N receivers have joined.
    #[arg(long, value_name = "N", requires = "max_wait", value_parser = receivers, help_heading = WHO)]
    pub min_receivers: Option<u16>,
    /// Seconds to wait for receivers. Default: 60.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = WHO)]
    pub max_wait: Option<f64>,
    /// Accept receivers that join after the start. Each is served separately and finishes after the
    /// others.
    #[arg(long, help_heading = WHO)]
    pub late: bool,
    /// Send in rounds, to receivers that come over minutes.
    ///
    /// The first round begins with one receiver (or --min-receivers); who comes during a round takes
    /// part in the next. That one begins when -n receivers in all have come, or nobody has for
    /// --linger. The carousel ends when -n have everything, or nobody is left to begin with.
    #[arg(long, conflicts_with_all = ["late", "dry_run", "plan"], help_heading = WHO)]
    pub carousel: bool,
    /// With --carousel, seconds without a newcomer after which the next round begins, or all ends.
    /// Default: 60.
    #[arg(long, value_name = "SECONDS", requires = "carousel", value_parser = seconds, help_heading = WHO)]
    pub linger: Option<f64>,
    #[command(flatten)]
    pub key: KeySourceArgs,
    /// With a key, leave contents in the clear, with them the names in a directory; reports are
    /// encrypted.
    #[arg(long, conflicts_with = "no_key", help_heading = WHO)]
    pub auth_only: bool,
    /// File or directory to send, or `-` for stdin.
    ///
    /// DIR is sent to DEST, or to DEST/DIR if DEST exists; DIR/ sends the content of DIR to DEST
    /// itself. Several sources go to one directory, each under its own name.
    #[arg(
        required_unless_present_any = ["pipe", "file"], conflicts_with = "pipe", num_args = 1.., help_heading = WHAT,
        display_order = 0
    )]
    pub source: Vec<OsString>,
    /// Offer SOURCE, a file or stdin, under NAME. A receiver that writes into a directory uses this
    /// name.
    #[arg(long = "as", value_name = "NAME", help_heading = WHAT)]
    pub name: Option<String>,
    /// Send the output of COMMAND, run by `sh -c`. If COMMAND fails, the run fails and no receiver
    /// keeps anything.
    #[arg(long, value_name = "COMMAND", help_heading = WHAT)]
    pub pipe: Option<String>,
    /// Expected length of stdin or of the output of --pipe. It is announced to receivers and used
    /// for planning; a different length is an error.
    #[arg(long, value_name = "BYTES", value_parser = ethbcast_planning::parse_size, help_heading = WHAT)]
    pub size: Option<u64>,
    /// Decompress SOURCE (gzip, xz or zstd, detected by its first bytes; qcow2 at the root only):
    /// once at the root, or at each receiver, so that fewer bytes are sent.
    #[arg(long, value_enum, value_name = "root|receivers", hide_possible_values = true, help_heading = WHAT)]
    pub decompress: Option<Decompress>,
    /// Send a file that is being written to, up to the length it had at the start.
    #[arg(long, help_heading = WHAT)]
    pub allow_changing: bool,
    /// Run COMMAND with `sh -c` when all receivers have verified the data. Its environment has
    /// ETHBCAST_GROUP, _SOURCE, _BYTES, _BLAKE3 and _RECEIVERS.
    #[arg(long, value_name = "COMMAND", help_heading = WHAT)]
    pub exec_after: Option<String>,
    #[command(flatten)]
    pub tree: TreeArgs,
    /// Topology file with the cluster's switches and hosts.
    ///
    /// Plans then send the data over no cable twice. Without it, all hosts are assumed to be on one
    /// switch.
    #[arg(long, value_name = "FILE", help_heading = HOW)]
    pub topology: Option<PathBuf>,
    /// Limit of each host's sending rate, such as 400mbit.
    ///
    /// The limit holds for this host and for hosts that forward: 400mbit (or 400m), 1gbit, 50MB/s.
    /// Whole frames count, Ethernet headers included. `ethbcast ctl rate RATE` changes it while
    /// send runs; SIGUSR1 raises it by a tenth, SIGUSR2 lowers it. Alias: --max-bitrate.
    #[arg(long, alias = "max-bitrate", value_name = "RATE", value_parser = rate, help_heading = HOW)]
    pub rate: Option<Rate>,
    /// Yield to other traffic: every host lowers its rate while its frames queue for more than 1
    /// ms. A receiver that yields does not count as slow.
    #[arg(long, help_heading = HOW)]
    pub nice: bool,
    /// Leave nothing to other traffic. Without it, other traffic on a host's link gets what it
    /// wants, up to half of the link.
    #[arg(long, conflicts_with = "nice", help_heading = HOW)]
    pub greedy: bool,
    /// Broadcast algorithm: auto (least predicted time), chain, binary, kary=K, cast, flat,
    /// binomial, scatter-allgather, recursive-doubling, chain-unaware, binary-unaware, latency,
    /// two-tree or binary-best.
    #[arg(long, value_name = "VIA", default_value = "auto", help_heading = HOW)]
    pub via: String,
    /// Protocol of --via cast: default (repairs the gaps that receivers report), paper (Simple
    /// Broadcast of the EQA paper: strict go-back-N, window 16) or push-pull (its Push-Pull
    /// Broadcast: the first frames at once, the rest when a receiver has answered).
    #[arg(long, value_name = "PRESET", value_parser = presets(), default_value_t, hide_possible_values = true,
        help_heading = HOW)]
    pub preset: Preset,
    /// With --preset push-pull, bytes to send before a receiver has answered, in as few frames as
    /// possible. Default: 860, as in the paper.
    #[arg(long, value_name = "BYTES", value_parser = ethbcast_planning::parse_size, help_heading = HOW)]
    pub push_bytes: Option<u64>,
    /// Print the plan and end the session without sending. Receivers that hold part of the data
    /// report what they lack, and keep waiting.
    #[arg(long, help_heading = HOW)]
    pub dry_run: bool,
    /// Run a plan saved by `ethbcast plan --out`. With --topology it is checked first, and refused
    /// if several hosts would send over one cable at the same time.
    #[arg(long, value_name = "FILE", conflicts_with = "via", help_heading = HOW)]
    pub plan: Option<PathBuf>,
    /// Run the plan even if several hosts send over one cable at the same time.
    #[arg(long, requires = "plan", help_heading = HOW)]
    pub allow_contention: bool,
    /// Network costs measured by `ethbcast probe --out`. Without it, a short probe runs before the
    /// start.
    #[arg(long, value_name = "FILE", help_heading = HOW)]
    pub calibration: Option<PathBuf>,
    /// Do not probe before the start. Without --calibration, cables of 1 Gbit/s are assumed.
    #[arg(long, help_heading = HOW)]
    pub no_probe: bool,
    /// Neither use nor keep what transfers learn of the network: costs of frames, loss, slow hosts
    /// and ways. It is in the user's cache, by hosts and interface, for 30 days.
    #[arg(long, help_heading = HOW)]
    pub no_cache: bool,
    /// Priority of this host's frames, 0 to 7, for queueing disciplines; a VLAN interface writes it
    /// into the tag by its egress map (IEEE 802.1p).
    #[arg(long, value_name = "0-7", value_parser = clap::value_parser!(u8).range(0..=7), help_heading = HOW)]
    pub priority: Option<u8>,
    /// Send frames for this MTU instead of the interface's.
    #[arg(long, value_name = "BYTES", value_parser = whole::<u32>, help_heading = HOW)]
    pub mtu: Option<u32>,
    /// Become this user once port, SOURCE and key are open, with the right to open packet sockets
    /// alone (CAP_NET_RAW). All else needs that user's rights: it must be able to read a directory.
    /// Only root can.
    #[arg(long, value_name = "NAME", value_parser = user, help_heading = HOW)]
    pub user: Option<User>,
    #[command(flatten)]
    pub patience: PatienceArgs,
    #[command(flatten)]
    pub stall: StallArgs,
    #[command(flatten)]
    pub resume: ResumeArgs,
    #[command(flatten)]
    pub progress: ProgressArgs,
    #[command(flatten)]
    pub wire: WireArgs,
    #[command(flatten)]
    pub unused: UnusedBySender,
    /// SOURCE under udpcast's option name.
    #[arg(long, value_name = "SOURCE", hide = true, conflicts_with_all = ["source", "pipe"])]
    file: Option<OsString>,
    /// Start rule of another program's command line.
    #[arg(skip)]
    pub start_rule: Option<StartRule>,
}

impl SendArgs {
    pub fn settled(mut self) -> SendArgs {
        self.source.extend(self.file.take());
        self
    }

    pub fn form(&self) -> Form {
        self.progress.form(&self.wire)
    }
}

/// Hosts that decompress: the value of `send --decompress`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Decompress {
    /// The sender.
    Root,
    /// Each receiver.
    Receivers,
}

pub(super) fn rate(text: &str) -> Result<Rate, String> {
    text.parse()
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Method by which receivers find parts of an older version at another offset: fixed (whole
    /// chunks, as in images), cdc (content-defined chunks, as in archives and directories) or none.
    /// Default: cdc for directories and sparse files, otherwise fixed.
    #[arg(long, value_enum, value_name = "fixed|cdc|none", hide_possible_values = true, help_heading = WHAT)]
    pub delta: Option<Delta>,
    /// Chunk size for checking, repair and comparison with an older version: 16K, 32K, 64K or 128K.
    /// Smaller chunks resend less if changes are scattered; hashes add 0.2 % at 16K and 0.05 % at
    /// 64K.
    #[arg(long, value_name = "BYTES", value_parser = chunk, default_value = "64K", help_heading = WHAT)]
    pub chunk: ChunkSize,
    /// Send again to the hosts of the last run in --report. Complete receivers verify what they
    /// have, the others get the rest.
    #[arg(long, requires = "report", conflicts_with_all = ["hosts", "only_missing"], help_heading = TROUBLE)]
    pub resume: bool,
    /// Send only to those hosts of the last run in --report that have not verified everything.
    #[arg(long, requires = "report", conflicts_with = "hosts", help_heading = TROUBLE)]
    pub only_missing: bool,
    /// Write the report to FILE: a web page if its name ends in .html, otherwise the object of
    /// --json. --resume and --only-missing read the last run's report from FILE first.
    #[arg(long, value_name = "FILE", help_heading = PRINTED)]
    pub report: Option<PathBuf>,
}

fn chunk(text: &str) -> Result<ChunkSize, String> {
    text.parse()
}

/// Method of finding moved data: the value of `send --delta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Delta {
    /// Whole chunks.
    Fixed,
    /// Content-defined chunks.
    Cdc,
    /// Only data that has not moved.
    None,
}

impl ResumeArgs {
    /// Returns the chunking for this kind of content. In a concatenation of files, offsets are no
    /// multiples of the chunk size, so content-defined chunks are the default there.
    pub fn cut(&self, content: ContentKind) -> Cut {
        let is_gathered = matches!(content, ContentKind::Tree | ContentKind::Sparse(_));
        self.delta
            .unwrap_or(if is_gathered {
                Delta::Cdc
            } else {
                Delta::Fixed
            })
            .into()
    }
}

impl From<Delta> for Cut {
    fn from(delta: Delta) -> Cut {
        match delta {
            Delta::Fixed => Cut::Fixed,
            Delta::Cdc => Cut::ContentDefined,
            Delta::None => Cut::None,
        }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = WHAT)]
pub struct TreeArgs {
    /// Leave out files that match PATTERN, as in .gitignore: `*.o`, `/build/`, `!keep.o`. May be
    /// repeated.
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Leave out files that match the patterns in FILE, one per line. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub exclude_from: Vec<PathBuf>,
    /// Send the data of files that match PATTERN first, as for --exclude. May be repeated: those of
    /// the first pattern come first. `recv --in-place` puts them into DEST while others still come.
    #[arg(long, value_name = "PATTERN")]
    pub order: Vec<String>,
    /// Send owner and group of each file by name. Receivers that run as root apply them.
    #[arg(long)]
    pub owner: bool,
    /// Send owner and group of each file by number. Receivers that run as root apply them.
    #[arg(long)]
    pub numeric: bool,
    /// Send extended attributes.
    #[arg(long)]
    pub xattrs: bool,
    /// Send device nodes, FIFOs and sockets. Without it, they are refused.
    #[arg(long)]
    pub devices: bool,
    /// Follow symbolic links that lead out of SOURCE: send their targets instead of the links.
    #[arg(long)]
    pub follow: bool,
    /// Stay on the file system of SOURCE. A mount point below it is sent as an empty directory.
    #[arg(long)]
    pub one_file_system: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_chunk_lengths_are_refused_with_the_four_valid_ones() {
        for (text, bytes) in [
            ("16K", 16 << 10),
            ("32768", 32 << 10),
            ("64k", 64 << 10),
            ("128KiB", 128 << 10),
        ] {
            assert_eq!(chunk(text).map(ChunkSize::bytes), Ok(bytes), "{text}");
        }
        for text in ["8K", "48K", "256K", "1G", "0"] {
            let told = chunk(text).expect_err("no such chunk");
            assert!(
                told.contains("16K, 32K, 64K or 128K") && told.contains("give one of these"),
                "{told}"
            );
        }
        assert!(chunk("many").is_err_and(|told| told.contains("`many` is no size")));
    }
}
