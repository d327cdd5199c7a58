//! `ethbcast recv`: whom it waits for, and where the bytes go.

use super::{PatienceArgs, ProgressArgs, ServeArgs, UnusedByReceiver, WireArgs, seconds};
use crate::exit::Form;
use clap::{Args, ValueEnum};
use ethbcast_collectives::session::Expected;
use std::ffi::OsString;
use std::path::PathBuf;

/// `ethbcast recv`.
#[derive(Debug, Args)]
pub struct RecvArgs {
    /// What send and recv share.
    #[command(flatten)]
    pub wire: WireArgs,
    /// How it tells how far it is.
    #[command(flatten)]
    pub progress: ProgressArgs,
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
    /// Give up if no sender takes this host within this time, and wait as long for an interface that is down or not yet
    /// there, and for a device as DEST that is not; without it, wait for ever for a sender alone. --start-timeout is
    /// the same.
    #[arg(long, alias = "start-timeout", value_name = "SECONDS", value_parser = seconds)]
    pub max_wait: Option<f64>,
    /// Take only what is offered under this name, or has this BLAKE3 (64 digits, as reports have it), and refuse
    /// anything else. Not with --serve, which takes one thing after the other.
    #[arg(long, value_name = "NAME|DIGEST", value_parser = expected)]
    pub expect: Option<Expected>,
    /// End with the reason when a sender turns this host away, gives up or has started without it; without it, wait for
    /// the next session.
    #[arg(long)]
    pub once: bool,
    /// Change what is there, within the room there is: write over a file; put the files of a directory one by one into
    /// the directory that is there, each over the one of its name. What is the same is left alone. Without it what
    /// comes appears whole, and with --force takes the place of what is there.
    #[arg(long)]
    pub in_place: bool,
    /// With --in-place: remove what the sender does not have.
    #[arg(long, requires = "in_place")]
    pub delete: bool,
    /// Write an image to a device whose sectors are not those for which its partition table is made, such as one for
    /// 512 bytes to a disk with 4096; without it, it is refused.
    #[arg(long)]
    pub any_sectors: bool,
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
    /// What is taken and ignored.
    #[command(flatten)]
    pub unused: UnusedByReceiver,
    /// DEST by udpcast's name for it.
    #[arg(long, value_name = "DEST", hide = true, conflicts_with_all = ["dest", "pipe"])]
    file: Option<OsString>,
    /// File or directory to write, or a directory to put it into under its own name; `-` is stdout.
    #[arg(required_unless_present_any = ["pipe", "file"])]
    pub dest: Option<OsString>,
}

impl RecvArgs {
    /// The same with what was spelled as udpcast does.
    pub fn settled(mut self) -> RecvArgs {
        self.dest = self.dest.or_else(|| self.file.take());
        self
    }

    /// What programs read on stdout.
    pub fn form(&self) -> Form {
        self.progress.form(&self.wire)
    }
}

/// Reads what a receiver expects.
fn expected(text: &str) -> Result<Expected, String> {
    match blake3::Hash::from_hex(text) {
        Ok(digest) => Ok(Expected::Digest(*digest.as_bytes())),
        Err(_) if text.is_empty() => Err("a name, or the 64 digits of a BLAKE3".to_owned()),
        Err(_) => Ok(Expected::Name(text.to_owned())),
    }
}

/// What `recv --verify` compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verify {
    /// What came.
    Received,
    /// What came, and what is read back.
    Read,
}
