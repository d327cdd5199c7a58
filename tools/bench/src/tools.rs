//! The tools that are compared: how each is called on a lab's hosts, and where it puts what it received.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ethbcast_lab::Lab;

use crate::cluster::{INTERFACE, address};
use crate::program::Program;

/// How much of the rate the other tools are told to use, in thousandths; both lose frames in the switch above it.
///
/// udpcast counts all its bytes. uftp counts 1445 bytes of a frame of 1486 (at its block size below): this is 98.7 %.
const UDPCAST_PERMILLE: u64 = 980;
const UFTP_PERMILLE: u64 = 960;
/// Where nothing is shaped, uftp is told half of what raw frames reach: it sends blindly, and every frame that finds a
/// buffer full costs it another pass. udpcast is told nothing there: it waits for its receivers.
const UFTP_UNSHAPED_PERMILLE: u64 = 500;

/// uftp's headers of a frame, IP and UDP included, and the largest block it takes.
const UFTP_HEADER_BYTES: u32 = 72;
const UFTP_LARGEST_BLOCK_BYTES: u32 = 8800;

/// Where a host of the TCP chain listens.
const CHAIN_PORT: u16 = 7700;

/// uftp's socket buffers, 16 times its default: it has no flow control.
const UFTP_BUFFER_BYTES: &str = "4194304";

/// uftp's first, least and greatest idea of a round trip, in seconds; with its defaults, each phase would wait seconds
/// for answers that take a millisecond here.
const UFTP_ROUND_TRIP_SECONDS: &str = "0.05:0.01:1";

/// A tool, or one of its ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `ethbcast --via` this.
    Own(&'static str),
    /// `udp-sender` and `udp-receiver`.
    Udpcast,
    /// `uftp` and `uftpd`.
    Uftp,
    /// One TCP connection from each host to the next (`ethbcast tcp-chain`).
    TcpChain,
    /// The same with frames as Ethernet carries them: a veth passes pieces of 64 KiB whole, a cable does not.
    TcpChainCut,
}

impl Tool {
    /// All of them, ours first by the two ways that are compared.
    pub const ALL: [Tool; 6] =
        [Tool::Own("chain"), Tool::Own("cast"), Tool::Udpcast, Tool::Uftp, Tool::TcpChain, Tool::TcpChainCut];
    /// Those that are not ours.
    pub const PEERS: [Tool; 4] = [Tool::Udpcast, Tool::Uftp, Tool::TcpChain, Tool::TcpChainCut];

    /// Its name in the table.
    pub fn name(self) -> String {
        match self {
            Tool::Own(via) => format!("ethbcast {via}"),
            Tool::Udpcast => "udpcast".to_owned(),
            Tool::Uftp => "uftp".to_owned(),
            Tool::TcpChain => "TCP chain".to_owned(),
            Tool::TcpChainCut => "TCP chain, wire-size frames".to_owned(),
        }
    }

    /// Why it cannot run here, if it cannot.
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
    /// What a cable of the lab carries: its rate or, where nothing is shaped, what raw frames reach.
    pub rate_bits_per_second: u64,
    /// Whether the cables have that rate.
    pub is_shaped: bool,
    /// The MTU of the lab's interfaces.
    pub mtu_bytes: u32,
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

    /// The command that sends to all receivers, as soon as all are there.
    ///
    /// # Errors
    /// If the host or the program is not to be had.
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

/// The identity of a receiver among uftp's: known beforehand, the sender need not wait for others to turn up.
fn uftp_id(number: usize) -> String {
    format!("0x{:08x}", number + 1)
}
