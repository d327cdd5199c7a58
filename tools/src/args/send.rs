//! `ethbcast send`: who is waited for, how the bytes travel, what they are.

use super::{
    PatienceArgs, ProgressArgs, ResumeArgs, StallArgs, TreeArgs, UnusedBySender, WireArgs, presets, receivers, seconds,
};
use crate::exit::Form;
use crate::send::StartRule;
use clap::{Args, ValueEnum};
use ethbcast_collectives::Preset;
use ethbcast_collectives::session::Rate;
use std::ffi::OsString;
use std::path::PathBuf;

/// `ethbcast send`.
#[derive(Debug, Args)]
pub struct SendArgs {
    /// What send and recv share.
    #[command(flatten)]
    pub wire: WireArgs,
    /// How it tells how far it is.
    #[command(flatten)]
    pub progress: ProgressArgs,
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
    /// missing is named. ^FILE is a file of hosts; name@ADDRESS is one of several hosts of a name.
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
    /// With --preset push-pull: push so many bytes before a receiver has answered, in as few frames as carry them; 860
    /// without it, as in the paper.
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
    /// Wait for the receivers, print what would be sent how, and end the session without sending. Where they have some
    /// of it already they are asked what they lack, and wait on.
    #[arg(long)]
    pub dry_run: bool,
    /// The cluster's switches and hosts; without it all hosts are taken to be on one switch.
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// Let no host send more than this, neither this one nor those that hand on: 400mbit, 1gbit, 50MB/s; 400m is
    /// 400mbit. All frames count, with their Ethernet headers. SIGUSR1 raises it by a tenth while it runs, SIGUSR2
    /// lowers it, `ethbcast ctl rate RATE` sets it. --max-bitrate is the same.
    #[arg(long, alias = "max-bitrate", value_name = "RATE", value_parser = rate)]
    pub rate: Option<Rate>,
    /// Give way to what others send: every host sends less where frames wait in queues for more than a millisecond, and
    /// as much as there is room for otherwise. A receiver that gives way is not taken for a slow one.
    #[arg(long)]
    pub nice: bool,
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
    #[arg(long, value_name = "BYTES", value_parser = ethbcast_planning::parse_size)]
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
    /// What is taken and ignored.
    #[command(flatten)]
    pub unused: UnusedBySender,
    /// SOURCE by udpcast's name for it.
    #[arg(long, value_name = "SOURCE", hide = true, conflicts_with_all = ["source", "pipe"])]
    file: Option<OsString>,
    /// What to send: a file, `-` for stdin, or a directory: DIR goes to DEST, or into it under its own name if DEST
    /// exists; DIR/ is what is in it and goes to DEST itself. Several go to one directory, each under its own name.
    #[arg(required_unless_present_any = ["pipe", "file"], conflicts_with = "pipe", num_args = 1..)]
    pub source: Vec<OsString>,
    /// When it starts, by the command line of another program.
    #[arg(skip)]
    pub start_rule: Option<StartRule>,
}

impl SendArgs {
    /// The same with what was spelled as udpcast does.
    pub fn settled(mut self) -> SendArgs {
        self.source.extend(self.file.take());
        self
    }

    /// What programs read on stdout.
    pub fn form(&self) -> Form {
        self.progress.form(&self.wire)
    }
}

/// Who unpacks, by `send --decompress`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Decompress {
    /// The sender.
    Root,
    /// Each receiver.
    Receivers,
}

/// Reads how much a host may send.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    let bits_per_second = ethbcast_planning::parse_rate(text)?;
    Rate::new(bits_per_second)
        .ok_or_else(|| format!("`{text}` is too little: signs of life need some, give at least 1mbit"))
}
