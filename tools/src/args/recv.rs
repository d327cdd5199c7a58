//! Command-line arguments of `ethbcast recv`.

use super::{HOW, TROUBLE, WHO, WRITTEN, everyday};
use super::{
    KeySourceArgs, PatienceArgs, ProgressArgs, UnusedByReceiver, WireArgs, examples, misplaced,
    number, seconds,
};
use crate::exit::Form;
use crate::rights::user;
use clap::{Arg, Args, ValueEnum};
use ethbcast_collectives::session::Expected;
use ethbcast_content::disk::Accept;
use ethbcast_transport::packet::Over;
use nix::unistd::User;
use std::ffi::OsString;
use std::path::PathBuf;

/// Returns -n, an option of the other side that is often given here, to be refused by name.
fn refused_receivers() -> Arg {
    let refusal = misplaced("recv takes one DEST; the number of receivers is an option of send");
    Arg::new("receivers")
        .short('n')
        .long("receivers")
        .value_name("N")
        .hide(true)
        .value_parser(refusal)
}

#[derive(Debug, Args)]
#[command(
    arg = refused_receivers(),
    mut_args = everyday(&["serve", "max_wait", "dest", "force", "in_place", "interface"]),
    after_help = "all options: ethbcast recv --help",
    after_long_help = examples::text("recv"),
)]
pub struct RecvArgs {
    #[command(flatten)]
    pub serve: ServeArgs,
    /// Sender to ask, by name or IPv4 address, with the carrier unicast: it needs only the number
    /// of its receivers (-n), and no other is accepted. Alias: --sender.
    #[arg(long, alias = "sender", value_name = "HOST", help_heading = WHO)]
    pub from: Option<String>,
    /// Seconds to wait for a sender. Default: for ever.
    ///
    /// With it, an interface that is down or missing and a device DEST that is missing are waited
    /// for as long; without it, they are an error. Alias: --start-timeout.
    #[arg(long, alias = "start-timeout", value_name = "SECONDS", value_parser = seconds, help_heading = WHO)]
    pub max_wait: Option<f64>,
    /// Exit with the reason if a sender refuses this host, gives up, makes a --dry-run or has
    /// started without it. Otherwise recv waits for the next session.
    #[arg(long, help_heading = WHO)]
    pub once: bool,
    /// Accept only data offered under NAME, or with this BLAKE3 digest (64 hex digits, as in
    /// reports). Anything else is refused. Not with --serve, which accepts one session after
    /// another.
    #[arg(long, value_name = "NAME|DIGEST", value_parser = expected, help_heading = WHO)]
    pub expect: Option<Expected>,
    #[command(flatten)]
    pub key: KeySourceArgs,
    /// File, directory or device to write, or `-` for stdout.
    ///
    /// In a directory that exists, the data gets the name under which it was sent.
    #[arg(required_unless_present_any = ["pipe", "file"], help_heading = WRITTEN, display_order = 0)]
    pub dest: Option<OsString>,
    /// Replace DEST if it exists.
    #[arg(short, long, help_heading = WRITTEN)]
    pub force: bool,
    /// Overwrite DEST in place.
    ///
    /// A file is overwritten where it differs; the files of a directory are replaced one by one. No
    /// room for a second copy is needed. Without it, data appears at DEST when it is complete, and
    /// --force replaces what was there.
    #[arg(long, help_heading = WRITTEN)]
    pub in_place: bool,
    /// With --in-place, delete files that the sender does not have.
    #[arg(long, requires = "in_place", help_heading = WRITTEN)]
    pub delete: bool,
    /// Write the data to the stdin of COMMAND, run by `sh -c`, instead of to DEST. COMMAND reads
    /// end of file only when everything is verified; if the transfer fails, it is terminated. If
    /// COMMAND fails, recv exits with its code.
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["force", "in_place", "dest"], help_heading = WRITTEN)]
    pub pipe: Option<String>,
    /// Privileges that the sender may decide about here, with commas between them: owner, setid,
    /// devices, xattrs, xattrs=NAME, unpack, or all, or none. The rest is left out and counted.
    /// Default: owner,setid,unpack; with --serve: unpack.
    ///
    /// owner: owners of files. setid: set-user-id and set-group-id bits. devices: device nodes.
    /// xattrs: extended attributes, but for security.*, trusted.* and system.*, which are named one
    /// by one, such as xattrs=security.capability. unpack: --decompress receivers.
    #[arg(long, value_name = "LIST", help_heading = WRITTEN)]
    pub accept: Option<Accept>,
    /// Older version of the data: a file, block device or directory. Matching parts are not sent.
    /// May be repeated. Without it, DEST is used.
    #[arg(long, value_name = "PATH", help_heading = WRITTEN)]
    pub basis: Vec<PathBuf>,
    /// Write zeros as holes: a file takes no room for them, a device discards them. Holes of the
    /// sender's file are kept in any case.
    #[arg(long, help_heading = WRITTEN)]
    pub sparse: bool,
    /// Write an image even if its partition table was made for another sector size than the
    /// device's, such as 512 bytes on a disk with 4096. Without it, such an image is refused.
    #[arg(long, help_heading = WRITTEN)]
    pub any_sectors: bool,
    /// Run COMMAND with `sh -c` when the data is verified and at DEST. Its environment has
    /// ETHBCAST_PATH, _GROUP, _SOURCE, _BYTES and _BLAKE3.
    #[arg(long, value_name = "COMMAND", help_heading = WRITTEN)]
    pub exec: Option<String>,
    /// Use a packet socket that root has opened with socket(AF_PACKET, SOCK_RAW, 0): its file
    /// descriptor, such as 3. No capability is needed then. With --serve, give one for each group.
    #[arg(long, value_name = "FD", value_parser = number(0..=i32::MAX), help_heading = HOW)]
    pub port_fd: Vec<i32>,
    /// Data to compare with the sender's digest: received (as it was handed to the disk) or read
    /// (also as read back after the sync). Default: read for a block device, otherwise received.
    #[arg(long, value_enum, value_name = "received|read", hide_possible_values = true, help_heading = TROUBLE)]
    pub verify: Option<Verify>,
    /// Delete partial data of an earlier run instead of resuming it, and keep none if this run is
    /// cut off.
    #[arg(long, help_heading = TROUBLE)]
    pub no_resume: bool,
    /// End a session SECONDS after its start, whatever has come; that is kept for the next one.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = TROUBLE)]
    pub max_session_time: Option<f64>,
    /// Priority of this host's frames, 0 to 7, for queueing disciplines; a VLAN interface writes it
    /// into the tag by its egress map (IEEE 802.1p).
    #[arg(long, value_name = "0-7", value_parser = clap::value_parser!(u8).range(0..=7), help_heading = HOW)]
    pub priority: Option<u8>,
    /// Become this user once port, DEST and key are open, with the right to open packet sockets
    /// alone (CAP_NET_RAW). All else needs that user's rights: DEST's directory must be writable
    /// for it. Only root can.
    #[arg(long, value_name = "NAME", value_parser = user, help_heading = HOW)]
    pub user: Option<User>,
    #[command(flatten)]
    pub patience: PatienceArgs,
    #[command(flatten)]
    pub progress: ProgressArgs,
    #[command(flatten)]
    pub wire: WireArgs,
    #[command(flatten)]
    pub unused: UnusedByReceiver,
    /// DEST under udpcast's option name.
    #[arg(long, value_name = "DEST", hide = true, conflicts_with_all = ["dest", "pipe"])]
    file: Option<OsString>,
}

impl RecvArgs {
    pub fn settled(mut self) -> RecvArgs {
        self.dest = self.dest.or_else(|| self.file.take());
        self
    }

    /// Returns the privileges that a sender may decide about: few at a receiver that anybody may
    /// send to.
    pub fn accepted(&self) -> Accept {
        let default = || {
            if self.serve.serve {
                Accept::SERVED
            } else {
                Accept::default()
            }
        };
        self.accept.clone().unwrap_or_else(default)
    }

    pub fn form(&self) -> Form {
        self.progress.form(&self.wire)
    }
}

fn expected(text: &str) -> Result<Expected, String> {
    match blake3::Hash::from_hex(text) {
        Ok(digest) => Ok(Expected::Digest(*digest.as_bytes())),
        Err(_) if text.is_empty() => Err("a name, or the 64 digits of a BLAKE3".to_owned()),
        Err(_) => Ok(Expected::Name(text.to_owned())),
    }
}

/// Data that is compared with the digest: the value of `recv --verify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verify {
    /// Received data.
    Received,
    /// Received data, and the same read back.
    Read,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = WHO)]
pub struct ServeArgs {
    /// Keep running and receive one session after another.
    ///
    /// Sessions of several groups run at the same time, into the directory DEST, until SIGTERM.
    /// SIGHUP reloads the configuration. --json prints one object per session, each on its own
    /// line.
    #[arg(long, conflicts_with_all = ["once", "max_wait", "stat_period", "metrics_file", "json_stream"])]
    pub serve: bool,
    /// With --serve, accept these groups, such as images or rack[1-4], instead of the group of -g.
    /// May be repeated.
    #[arg(long, value_name = "GROUPS", requires = "serve")]
    pub allow_group: Vec<String>,
    /// With --serve, second carrier on which the same groups are received at the same time, such as
    /// udp beside raw frames.
    #[arg(long, value_name = "CARRIER", requires = "serve")]
    pub also_over: Option<Over>,
    /// With --serve, largest number of sessions at the same time. Senders of further groups wait.
    #[arg(long, value_name = "N", requires = "serve", default_value_t = 64,
        value_parser = number(1..=1024_u16))]
    pub max_sessions: u16,
}
