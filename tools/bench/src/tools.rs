//! The compared tools: their commands on a lab's hosts and the location of received files.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ethbcast_lab::Lab;

use crate::cluster::{INTERFACE, address};
use crate::program::Program;

/// Part of the cable rate that the other tools are configured with, in thousandths. Above it the
/// switch drops their frames.
///
/// udpcast counts all bytes of its frames. uftp counts 1445 bytes of a frame of 1486 (at its block
/// size below), so that its value amounts to 98.7 %.
const UDPCAST_PERMILLE: u64 = 980;
const UFTP_PERMILLE: u64 = 960;
/// Part of the raw frames' rate that uftp is configured with on unshaped cables, in thousandths. It
/// sends without flow control, and every overflow costs it another pass. udpcast waits for its
/// receivers and needs no rate.
const UFTP_UNSHAPED_PERMILLE: u64 = 500;

/// Headers of a uftp frame including IP and UDP, and its largest block, in bytes.
const UFTP_HEADER_BYTES: u32 = 72;
const UFTP_LARGEST_BLOCK_BYTES: u32 = 8800;

/// TCP port of the chain's hosts.
const CHAIN_PORT: u16 = 7700;

/// Socket buffers of uftp, which has no flow control: 16 times its default.
const UFTP_BUFFER_BYTES: &str = "4194304";

/// Initial, least and greatest round-trip time of uftp in seconds. Its defaults would make each
/// phase wait seconds for replies that take a millisecond here.
const UFTP_ROUND_TRIP_SECONDS: &str = "0.05:0.01:1";

/// A tool, or one of its algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `ethbcast` with this `--via`.
    Own(&'static str),
    /// `udp-sender` and `udp-receiver`.
    Udpcast,
    /// `uftp` and `uftpd`.
    Uftp,
    /// A TCP connection from each host to the next (`ethbcast tcp-chain`).
    TcpChain,
    /// The TCP chain with frames of the MTU's size: a veth carries segments of 64 KiB, a cable does
    /// not.
    TcpChainCut,
}

impl Tool {
    /// All tools, ethbcast first.
    pub const ALL: [Tool; 6] =
        [Tool::Own("chain"), Tool::Own("cast"), Tool::Udpcast, Tool::Uftp, Tool::TcpChain, Tool::TcpChainCut];
    /// The tools other than ethbcast.
    pub const PEERS: [Tool; 4] = [Tool::Udpcast, Tool::Uftp, Tool::TcpChain, Tool::TcpChainCut];

    /// Returns the name in the table.
    pub fn name(self) -> String {
        match self {
            Tool::Own(via) => format!("ethbcast {via}"),
            Tool::Udpcast => "udpcast".to_owned(),
            Tool::Uftp => "uftp".to_owned(),
            Tool::TcpChain => "TCP chain".to_owned(),
            Tool::TcpChainCut => "TCP chain, wire-size frames".to_owned(),
        }
    }

    /// Returns the reason why the tool cannot run here, if there is one.
    pub fn missing(self) -> Option<String> {
        let (programs, package) = match self {
            Tool::Own(_) | Tool::TcpChain => return None,
            Tool::Udpcast => (&["udp-sender", "udp-receiver"][..], "udpcast"),
            Tool::Uftp => (&["uftp", "uftpd"][..], "uftp"),
            Tool::TcpChainCut => (&["ethtool"][..], "ethtool"),
        };
        let absent = programs.iter().find(|program| !is_installed(program))?;
        Some(format!("no {absent} here: install the package {package}"))
    }

    /// Whether its receivers end by themselves once they have the file, unlike a daemon.
    pub fn receivers_end(self) -> bool {
        self != Tool::Uftp
    }
}

/// Whether a program is on the search path.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Parameters of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Tool to run.
    pub tool: Tool,
    /// The lab, whose first host sends to all others.
    pub lab: &'a Lab,
    /// Rate of the lab's cables, or that of raw frames if they are unshaped, in bits per second.
    pub rate_bits_per_second: u64,
    /// Whether the cables are shaped to that rate.
    pub is_shaped: bool,
    /// The MTU of the lab's interfaces.
    pub mtu_bytes: u32,
    /// The program `ethbcast`.
    pub program: &'a Program,
    /// The file to send.
    pub source: &'a Path,
    /// An empty directory for received files and logs.
    pub directory: &'a Path,
}

impl Job<'_> {
    /// Returns the sending host and the receiving ones.
    ///
    /// # Panics
    /// If the lab has no host.
    pub fn hosts(&self) -> (String, Vec<String>) {
        let mut hosts = self.lab.hosts();
        assert!(!hosts.is_empty(), "a lab has hosts");
        let root = hosts.remove(0);
        (root, hosts)
    }

    /// Returns the path of a receiver's file.
    pub fn received(&self, host: &str) -> PathBuf {
        // uftp keeps the file's name, and needs a directory for each host.
        match (self.tool, self.source.file_name()) {
            (Tool::Uftp, Some(name)) => self.directory.join(host).join(name),
            _ => self.directory.join(host),
        }
    }

    /// Returns the command that receives on a host.
    ///
    /// # Errors
    /// If the host or the program does not exist, or a directory cannot be created.
    pub fn receiver(&self, number: usize, host: &str) -> anyhow::Result<Command> {
        let received = self.received(host);
        let command = match self.tool {
            Tool::Own(_) => {
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
            Tool::TcpChain | Tool::TcpChainCut => {
                let mut command = self.program.on(self.lab, host, "tcp-chain")?;
                command.args(["--listen", &CHAIN_PORT.to_string(), "--file"]).arg(received);
                // Host 0 sends, so that this one is `number + 1`.
                let is_last = number + 2 == self.lab.hosts().len();
                command.args((!is_last).then(|| format!("--next={}:{CHAIN_PORT}", address(number + 2))));
                command
            }
        };
        Ok(command)
    }

    /// Returns the command that sends to all receivers once they are present.
    ///
    /// # Errors
    /// If the host or the program does not exist.
    pub fn sender(&self) -> anyhow::Result<Command> {
        let (root, receivers) = self.hosts();
        let count = receivers.len().to_string();
        let share = |permille: u64| self.rate_bits_per_second / 1000 * permille;
        let command = match self.tool {
            Tool::Own(via) => {
                let mut command = self.program.on(self.lab, &root, "send")?;
                command.args(["--quiet", "-i", INTERFACE, "--via", via, "-n", &count]).arg(self.source);
                command
            }
            Tool::Udpcast => {
                let rate = self.is_shaped.then(|| format!("--max-bitrate={}", share(UDPCAST_PERMILLE)));
                let fixed = ["--full-duplex", "--nokbd", "--no-progress", "--interface", INTERFACE];
                let mut command = self.command(&root, "udp-sender", &fixed)?;
                command.args(["--min-receivers", &count]).args(rate).arg("--file").arg(self.source);
                command
            }
            Tool::Uftp => {
                let permille = if self.is_shaped { UFTP_PERMILLE } else { UFTP_UNSHAPED_PERMILLE };
                let rate_kilobits = (share(permille) / 1000).to_string();
                let block = (self.mtu_bytes - UFTP_HEADER_BYTES).min(UFTP_LARGEST_BLOCK_BYTES).to_string();
                let ids: Vec<String> = (0..receivers.len()).map(uftp_id).collect();
                let fixed = ["-I", INTERFACE, "-b", &block, "-B", UFTP_BUFFER_BYTES, "-r", UFTP_ROUND_TRIP_SECONDS];
                let mut command = self.command(&root, "uftp", &fixed)?;
                command.args(["-R", &rate_kilobits, "-H", &ids.join(",")]).arg(self.source);
                command
            }
            Tool::TcpChain | Tool::TcpChainCut => {
                let mut command = self.program.on(self.lab, &root, "tcp-chain")?;
                command.arg(format!("--next={}:{CHAIN_PORT}", address(1))).arg("--file").arg(self.source);
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

/// Returns the id of a uftp receiver. Fixed ids save the sender the wait for unknown receivers.
fn uftp_id(number: usize) -> String {
    format!("0x{:08x}", number + 1)
}
