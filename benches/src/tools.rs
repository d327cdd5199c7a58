//! The tools that are compared: how each is called on a lab's hosts, and where it puts what it received.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ethbcast_lab::Lab;

use crate::cluster::INTERFACE;
use crate::program::Program;

/// How much of the rate the other tools are told to use, in thousandths; both lose frames in the switch above it.
///
/// udpcast counts all its bytes. uftp counts 1445 bytes of a frame of 1486 (at its block size below): this is 98.7 %.
const UDPCAST_PERMILLE: u64 = 980;
const UFTP_PERMILLE: u64 = 960;

/// uftp's payload per frame: what fits into MTU 1500 with all its headers.
const UFTP_BLOCK_BYTES: &str = "1428";

/// uftp's socket buffers, 16 times its default: it has no flow control.
const UFTP_BUFFER_BYTES: &str = "4194304";

/// uftp's first, least and greatest idea of a round trip, in seconds; with its defaults, each phase would wait seconds
/// for answers that take a millisecond here.
const UFTP_ROUND_TRIP_SECONDS: &str = "0.05:0.01:1";

/// A tool, or one of its ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `ethbcast --via chain`.
    Chain,
    /// `ethbcast --via cast`.
    Cast,
    /// `udp-sender` and `udp-receiver`.
    Udpcast,
    /// `uftp` and `uftpd`.
    Uftp,
}

impl Tool {
    /// All of them, ours first.
    pub const ALL: [Tool; 4] = [Tool::Chain, Tool::Cast, Tool::Udpcast, Tool::Uftp];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Chain => "ethbcast chain",
            Tool::Cast => "ethbcast cast",
            Tool::Udpcast => "udpcast",
            Tool::Uftp => "uftp",
        }
    }

    /// Why it cannot run here, if it cannot.
    pub fn missing(self) -> Option<String> {
        let (programs, package) = match self {
            Tool::Chain | Tool::Cast => return None,
            Tool::Udpcast => (["udp-sender", "udp-receiver"], "udpcast"),
            Tool::Uftp => (["uftp", "uftpd"], "uftp"),
        };
        let absent = programs.into_iter().find(|program| !is_installed(program))?;
        Some(format!("no {absent} here: install the package {package}"))
    }

    /// Whether its receivers end by themselves once they have the file; a daemon stays.
    pub fn receivers_end(self) -> bool {
        self != Tool::Uftp
    }
}

/// Whether a program is where programs are looked for.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// One transfer: who sends what to whom with what.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The tool.
    pub tool: Tool,
    /// The lab; its first host sends to all others.
    pub lab: &'a Lab,
    /// Rate of the lab's cables.
    pub rate_bits_per_second: u64,
    /// The program `ethbcast`.
    pub program: &'a Program,
    /// The file to send.
    pub source: &'a Path,
    /// An empty directory for what is received and for logs.
    pub directory: &'a Path,
}

impl Job<'_> {
    /// The host that sends, and those that receive.
    ///
    /// # Panics
    /// If the lab has no host.
    pub fn hosts(&self) -> (String, Vec<String>) {
        let mut hosts = self.lab.hosts();
        assert!(!hosts.is_empty(), "a lab has hosts");
        let root = hosts.remove(0);
        (root, hosts)
    }

    /// Where a receiver's file will be.
    pub fn received(&self, host: &str) -> PathBuf {
        // uftp keeps the file's name, and so needs a directory per host.
        match (self.tool, self.source.file_name()) {
            (Tool::Uftp, Some(name)) => self.directory.join(host).join(name),
            _ => self.directory.join(host),
        }
    }

    /// The command that receives on a host.
    ///
    /// # Errors
    /// If the host, the program or a directory is not to be had.
    pub fn receiver(&self, number: usize, host: &str) -> anyhow::Result<Command> {
        let received = self.received(host);
        let command = match self.tool {
            Tool::Chain | Tool::Cast => {
                let mut command = self.program.on(self.lab, host, "recv")?;
                command.args(["--quiet", "-i", INTERFACE]).arg(received);
                command
            }
            Tool::Udpcast => {
                let mut command =
                    self.command(host, "udp-receiver", &["--nokbd", "--no-progress", "--interface", INTERFACE])?;
                command.arg("--file").arg(received);
                command
            }
            Tool::Uftp => {
                let directory = self.directory.join(host);
                fs::create_dir(&directory)?;
                // -d: in the foreground. -t: under its final name only when complete.
                let mut command =
                    self.command(host, "uftpd", &["-d", "-t", "-I", INTERFACE, "-B", UFTP_BUFFER_BYTES])?;
                command.args(["-U", &uftp_id(number)]).arg("-D").arg(directory);
                command
            }
        };
        Ok(command)
    }

    /// The command that sends to all receivers, as soon as all are there.
    ///
    /// # Errors
    /// If the host or the program is not to be had.
    pub fn sender(&self) -> anyhow::Result<Command> {
        let (root, receivers) = self.hosts();
        let count = receivers.len().to_string();
        let share = |permille: u64| self.rate_bits_per_second / 1000 * permille;
        let command = match self.tool {
            Tool::Chain | Tool::Cast => {
                let via = if self.tool == Tool::Chain { "chain" } else { "cast" };
                let mut command = self.program.on(self.lab, &root, "send")?;
                command.args(["--quiet", "-i", INTERFACE, "--via", via, "-n", &count]).arg(self.source);
                command
            }
            Tool::Udpcast => {
                let rate = share(UDPCAST_PERMILLE).to_string();
                let fixed = ["--full-duplex", "--nokbd", "--no-progress", "--interface", INTERFACE];
                let mut command = self.command(&root, "udp-sender", &fixed)?;
                command.args(["--min-receivers", &count, "--max-bitrate", &rate]).arg("--file").arg(self.source);
                command
            }
            Tool::Uftp => {
                let rate_kilobits = (share(UFTP_PERMILLE) / 1000).to_string();
                let ids: Vec<String> = (0..receivers.len()).map(uftp_id).collect();
                let fixed =
                    ["-I", INTERFACE, "-b", UFTP_BLOCK_BYTES, "-B", UFTP_BUFFER_BYTES, "-r", UFTP_ROUND_TRIP_SECONDS];
                let mut command = self.command(&root, "uftp", &fixed)?;
                command.args(["-R", &rate_kilobits, "-H", &ids.join(",")]).arg(self.source);
                command
            }
        };
        Ok(command)
    }

    fn command(&self, host: &str, program: &str, arguments: &[impl AsRef<OsStr>]) -> anyhow::Result<Command> {
        let mut command = self.lab.command(host, program)?;
        command.args(arguments);
        Ok(command)
    }
}

/// The identity of a receiver among uftp's: known beforehand, the sender need not wait for others to turn up.
fn uftp_id(number: usize) -> String {
    format!("0x{:08x}", number + 1)
}
