//! One file transfer in the benchmark by any of the compared tools: started, timed, verified and
//! cleaned up.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ethbcast_lab::Lab;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::cluster::{INTERFACE, address, set_offloads};
use crate::process::{Interrupt, Program, Running};

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

/// Headers of a uftp frame, including IP and UDP, in bytes.
const UFTP_HEADER_BYTES: u32 = 72;
const UFTP_LARGEST_BLOCK_BYTES: u32 = 8800;

const CHAIN_PORT: u16 = 7700;

/// Socket buffers of uftp, which has no flow control: 16 times its default.
const UFTP_BUFFER_BYTES: &str = "4194304";

/// Initial, least and greatest round-trip time of uftp in seconds. Its defaults would make each
/// phase wait seconds for replies that take a millisecond here.
const UFTP_ROUND_TRIP_SECONDS: &str = "0.05:0.01:1";

/// Carrier of our frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    Ethernet,
    Udp,
    /// UDP datagrams of the MTU's size: a veth carries pieces of 64 KiB, a cable does not.
    UdpCut,
}

impl Carrier {
    /// Returns the options of our commands that choose it.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Carrier::Ethernet => &[],
            Carrier::Udp | Carrier::UdpCut => &["--over", "udp"],
        }
    }

    fn words(self) -> &'static str {
        match self {
            Carrier::Ethernet => "",
            Carrier::Udp => " over UDP",
            Carrier::UdpCut => " over UDP, wire-size frames",
        }
    }
}

/// A tool, or one of its algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    Own(&'static str, Carrier),
    Udpcast,
    Uftp,
    /// A TCP connection from each host to the next (`ethbcast tcp-chain`).
    TcpChain,
    /// The TCP chain with frames of the MTU's size: a veth carries segments of 64 KiB, a cable does
    /// not.
    TcpChainCut,
}

impl Tool {
    pub const PEERS: [Tool; 4] = [Tool::Udpcast, Tool::Uftp, Tool::TcpChain, Tool::TcpChainCut];

    pub fn name(self) -> String {
        match self {
            Tool::Own(via, carrier) => format!("ethbcast {via}{}", carrier.words()),
            Tool::Udpcast => "udpcast".to_owned(),
            Tool::Uftp => "uftp".to_owned(),
            Tool::TcpChain => "TCP chain".to_owned(),
            Tool::TcpChainCut => "TCP chain, wire-size frames".to_owned(),
        }
    }

    pub fn missing(self) -> Option<String> {
        let (programs, package) = match self {
            Tool::Own(_, Carrier::Ethernet | Carrier::Udp) | Tool::TcpChain => return None,
            Tool::Udpcast => (&["udp-sender", "udp-receiver"][..], "udpcast"),
            Tool::Uftp => (&["uftp", "uftpd"][..], "uftp"),
            Tool::Own(_, Carrier::UdpCut) | Tool::TcpChainCut => (&["ethtool"][..], "ethtool"),
        };
        let absent = programs.iter().find(|program| !is_installed(program))?;
        Some(format!("no {absent} here: install the package {package}"))
    }

    /// Whether it runs without the offloads of interfaces.
    pub fn is_cut(self) -> bool {
        matches!(self, Tool::TcpChainCut | Tool::Own(_, Carrier::UdpCut))
    }

    /// Whether its receivers end by themselves once they have the file, unlike a daemon.
    pub fn receivers_end(self) -> bool {
        self != Tool::Uftp
    }
}

pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    pub tool: Tool,
    pub lab: &'a Lab,
    /// Rate of the lab's cables, or that of raw frames if they are unshaped, in bits per second.
    pub rate_bits_per_second: u64,
    pub is_shaped: bool,
    pub mtu_bytes: u32,
    pub program: &'a Program,
    pub source: &'a Path,
    /// An empty directory for received files and logs.
    pub directory: &'a Path,
}

impl Job<'_> {
    pub fn hosts(&self) -> (String, Vec<String>) {
        let mut hosts = self.lab.hosts();
        assert!(!hosts.is_empty(), "a lab has hosts");
        let root = hosts.remove(0);
        (root, hosts)
    }

    pub fn received(&self, host: &str) -> PathBuf {
        // uftp keeps the file's name, and needs a directory for each host.
        match (self.tool, self.source.file_name()) {
            (Tool::Uftp, Some(name)) => self.directory.join(host).join(name),
            _ => self.directory.join(host),
        }
    }

    pub fn receiver(&self, number: usize, host: &str) -> anyhow::Result<Command> {
        let received = self.received(host);
        let command = match self.tool {
            Tool::Own(_, carrier) => {
                let mut command = self.program.on(self.lab, host, "recv")?;
                command
                    .args(["--quiet", "-i", INTERFACE])
                    .args(carrier.options())
                    .arg(received);
                command
            }
            Tool::Udpcast => {
                let mut command = self.command(
                    host,
                    "udp-receiver",
                    &["--nokbd", "--no-progress", "--interface", INTERFACE],
                )?;
                command.arg("--file").arg(received);
                command
            }
            Tool::Uftp => {
                let directory = self.directory.join(host);
                fs::create_dir(&directory)?;
                // -d: in the foreground. -t: under its final name only when complete.
                let mut command = self.command(
                    host,
                    "uftpd",
                    &["-d", "-t", "-I", INTERFACE, "-B", UFTP_BUFFER_BYTES],
                )?;
                command
                    .args(["-U", &uftp_id(number)])
                    .arg("-D")
                    .arg(directory);
                command
            }
            Tool::TcpChain | Tool::TcpChainCut => {
                let mut command = self.program.on(self.lab, host, "tcp-chain")?;
                command
                    .args(["--listen", &CHAIN_PORT.to_string(), "--file"])
                    .arg(received);
                // Host 0 sends, so that this one is `number + 1`.
                let is_last = number + 2 == self.lab.hosts().len();
                command.args(
                    (!is_last).then(|| format!("--next={}:{CHAIN_PORT}", address(number + 2))),
                );
                command
            }
        };
        Ok(command)
    }

    /// Returns the command that sends to all receivers once they are present.
    pub fn sender(&self) -> anyhow::Result<Command> {
        let (root, receivers) = self.hosts();
        let count = receivers.len().to_string();
        let share = |permille: u64| self.rate_bits_per_second / 1000 * permille;
        let command = match self.tool {
            Tool::Own(via, carrier) => {
                let mut command = self.program.on(self.lab, &root, "send")?;
                command
                    .args(["--quiet", "-i", INTERFACE, "--via", via, "-n", &count])
                    .args(carrier.options())
                    .arg(self.source);
                command
            }
            Tool::Udpcast => {
                let rate = self
                    .is_shaped
                    .then(|| format!("--max-bitrate={}", share(UDPCAST_PERMILLE)));
                let fixed = [
                    "--full-duplex",
                    "--nokbd",
                    "--no-progress",
                    "--interface",
                    INTERFACE,
                ];
                let mut command = self.command(&root, "udp-sender", &fixed)?;
                command
                    .args(["--min-receivers", &count])
                    .args(rate)
                    .arg("--file")
                    .arg(self.source);
                command
            }
            Tool::Uftp => {
                let permille = if self.is_shaped {
                    UFTP_PERMILLE
                } else {
                    UFTP_UNSHAPED_PERMILLE
                };
                let rate_kilobits = (share(permille) / 1000).to_string();
                let block = (self.mtu_bytes - UFTP_HEADER_BYTES)
                    .min(UFTP_LARGEST_BLOCK_BYTES)
                    .to_string();
                let ids: Vec<String> = (0..receivers.len()).map(uftp_id).collect();
                let fixed = [
                    "-I",
                    INTERFACE,
                    "-b",
                    &block,
                    "-B",
                    UFTP_BUFFER_BYTES,
                    "-r",
                    UFTP_ROUND_TRIP_SECONDS,
                ];
                let mut command = self.command(&root, "uftp", &fixed)?;
                command
                    .args(["-R", &rate_kilobits, "-H", &ids.join(",")])
                    .arg(self.source);
                command
            }
            Tool::TcpChain | Tool::TcpChainCut => {
                let mut command = self.program.on(self.lab, &root, "tcp-chain")?;
                command
                    .arg(format!("--next={}:{CHAIN_PORT}", address(1)))
                    .arg("--file")
                    .arg(self.source);
                command
            }
        };
        Ok(command)
    }

    fn command(
        &self,
        host: &str,
        program: &str,
        arguments: &[impl AsRef<OsStr>],
    ) -> anyhow::Result<Command> {
        let mut command = self.lab.command(host, program)?;
        command.args(arguments);
        Ok(command)
    }
}

/// Returns the id of a uftp receiver. Fixed ids save the sender the wait for unknown receivers.
fn uftp_id(number: usize) -> String {
    format!("0x{:08x}", number + 1)
}

/// Wait for receivers to start before the sender does.
const HEAD_START: Duration = Duration::from_millis(700);

/// Longest wait for the receivers' end after the sender's.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// Polling interval: 0.1 % of 5 s.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Bytes that a sender may send before data begins; what exceeds them belongs to the file.
const BULK_BYTES: u64 = 64 << 10;

#[derive(Clone, Debug)]
pub enum Outcome {
    Finished(Finished),
    Failed(String),
}

/// Times of a transfer that finished: `data_seconds` from the first data on the sender's cable to
/// the sender's end, `whole_seconds` from its start, with the discovery of receivers; and the
/// processor time of all its programs, user and system. A veth carries a frame within its sender's
/// system call.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    pub data_seconds: f64,
    pub whole_seconds: f64,
    pub verified: usize,
    pub processor_seconds: f64,
}

pub fn run(job: &Job, limit: Duration, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let is_cut = job.tool.is_cut();
    if is_cut {
        set_offloads(job.lab, false)?;
    }
    let before = spent_by_children()?;
    // All programs have ended here, so that their processor time is known.
    let outcome = run_programs(job, limit, interrupt)?;
    let processor_seconds = spent_by_children()? - before;
    if is_cut {
        set_offloads(job.lab, true)?;
    }
    Ok(match outcome {
        Outcome::Finished(finished) => Outcome::Finished(Finished {
            processor_seconds,
            ..finished
        }),
        failed => failed,
    })
}

/// Returns the processor time of all programs that this process has started and waited for, in
/// seconds.
fn spent_by_children() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok((usage.user_time() + usage.system_time()).num_microseconds() as f64 * 1e-6)
}

fn run_programs(job: &Job, limit: Duration, interrupt: &Interrupt) -> anyhow::Result<Outcome> {
    let (root, hosts) = job.hosts();
    let start =
        |host: &str, command| Running::start(format!("{} on {host}", job.tool.name()), command);
    let mut receivers = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        receivers.push(start(host, job.receiver(number, host)?)?);
    }
    pause(HEAD_START, interrupt)?;

    let (sent_before_bytes, _) = job.lab.sent_bytes(&root)?;
    let started = Instant::now();
    let mut sender = start(&root, job.sender()?)?;
    let mut data_started = None;
    let sent = loop {
        if let Some(sent) = sender.ended()? {
            break sent;
        }
        if started.elapsed() > limit {
            return Ok(Outcome::Failed(format!(
                "not finished after {:.0} s",
                limit.as_secs_f64()
            )));
        }
        if data_started.is_none() {
            data_started = first_data(job, &root, sent_before_bytes)?;
        }
        pause(LOOK_EVERY, interrupt)?;
    };
    let ended = Instant::now();
    if let Err(words) = sent {
        return Ok(Outcome::Failed(words));
    }
    if job.tool.receivers_end() {
        receivers
            .iter_mut()
            .try_for_each(|receiver| receiver.wait(AFTERWARDS, interrupt).map(drop))?;
    }
    Ok(Outcome::Finished(Finished {
        data_seconds: (ended - data_started.unwrap_or(started).max(started)).as_secs_f64(),
        whole_seconds: (ended - started).as_secs_f64(),
        verified: hosts.iter().filter(|host| is_verified(job, host)).count(),
        processor_seconds: 0.0,
    }))
}

/// Returns the moment of the first data, if it has passed. It is computed from the bytes sent
/// since, because a cable is fully used from then on.
fn first_data(job: &Job, root: &str, sent_before_bytes: u64) -> anyhow::Result<Option<Instant>> {
    let (sent_bytes, now) = job.lab.sent_bytes(root)?;
    let data_bytes = sent_bytes.saturating_sub(sent_before_bytes);
    let ago = Duration::from_secs_f64(data_bytes as f64 * 8.0 / job.rate_bits_per_second as f64);
    Ok((data_bytes > BULK_BYTES).then(|| now.checked_sub(ago).unwrap_or(now)))
}

fn is_verified(job: &Job, host: &str) -> bool {
    same_bytes(job.source, &job.received(host)).unwrap_or(false)
}

fn pause(time: Duration, interrupt: &Interrupt) -> anyhow::Result<()> {
    std::thread::sleep(time);
    interrupt.check()
}

const COMPARED_BYTES: usize = 1 << 20;

/// Creates a directory that is removed with its contents. It is in memory if possible, because the
/// bench measures networks and all hosts share one disk.
pub fn scratch() -> io::Result<tempfile::TempDir> {
    let builder = |parent: &Path| {
        tempfile::Builder::new()
            .prefix("ethbcast-bench-")
            .tempdir_in(parent)
    };
    builder(Path::new("/dev/shm")).or_else(|_| builder(&std::env::temp_dir()))
}

/// Writes a file of `bytes` pseudorandom bytes, which are equal in every run. Misplaced blocks are
/// detected.
pub fn make_file(path: &Path, bytes: u64) -> io::Result<()> {
    let mut stream = blake3::Hasher::new()
        .update(b"ethbcast bench")
        .finalize_xof();
    let mut file = BufWriter::with_capacity(COMPARED_BYTES, File::create(path)?);
    io::copy(&mut Read::by_ref(&mut stream).take(bytes), &mut file)?;
    file.flush()
}

pub fn same_bytes(left: &Path, right: &Path) -> io::Result<bool> {
    let (mut left, mut right) = (File::open(left)?, File::open(right)?);
    if left.metadata()?.len() != right.metadata()?.len() {
        return Ok(false);
    }
    let (mut ours, mut theirs) = (vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
    loop {
        let count = left.read(&mut ours)?;
        if count == 0 {
            return Ok(true);
        }
        right.read_exact(&mut theirs[..count])?;
        if ours[..count] != theirs[..count] {
            return Ok(false);
        }
    }
}

/// Bytes read before they are forwarded, the most that a socket returns at once.
const BLOCK_BYTES: usize = 256 << 10;
/// Longest wait for the next host to listen.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// Byte that confirms completion of a host and of all behind it to its predecessor.
const DONE: u8 = 1;

/// A host of the chain: the port to listen on for the previous one (the first reads the file
/// instead), the address of the next, and the file to send or to write.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    pub listen: Option<u16>,
    pub next: Option<SocketAddr>,
    pub file: &'a Path,
}

impl Link<'_> {
    pub fn run(&self) -> io::Result<()> {
        let mut before = match self.listen {
            Some(port) => Some(
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))?
                    .accept()?
                    .0,
            ),
            None => None,
        };
        let mut next = self.next.map(connect).transpose()?;
        match &mut before {
            Some(before) => {
                let mut file = File::create(self.file)?;
                pass(before, &mut next, Some(&mut file))?;
            }
            None => pass(&mut File::open(self.file)?, &mut next, None)?,
        }
        if let Some(next) = &mut next {
            next.shutdown(std::net::Shutdown::Write)?;
            let mut word = [0];
            next.read_exact(&mut word)?;
            if word != [DONE] {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "the next host of the chain sent something else",
                ));
            }
        }
        before.map_or(Ok(()), |mut before| before.write_all(&[DONE]))
    }
}

fn pass(
    from: &mut impl Read,
    next: &mut Option<TcpStream>,
    mut keep: Option<&mut File>,
) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    loop {
        let bytes = match from.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        // The next host first, because its data has the longest way to go.
        if let Some(next) = next {
            next.write_all(&block[..bytes])?;
        }
        if let Some(file) = &mut keep {
            file.write_all(&block[..bytes])?;
        }
    }
}

fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let deadline = Instant::now() + CONNECT_WITHIN;
    loop {
        match TcpStream::connect(to) {
            Err(_) if Instant::now() < deadline => thread::sleep(CONNECT_AGAIN_AFTER),
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_or_one_byte_makes_files_differ() {
        let directory = scratch().expect("a directory");
        let (left, right) = (
            directory.path().join("left"),
            directory.path().join("right"),
        );
        make_file(&left, 3_000_001).expect("a file");
        make_file(&right, 3_000_001).expect("a file");
        assert!(same_bytes(&left, &right).expect("readable"));

        let mut bytes = std::fs::read(&right).expect("readable");
        bytes[2_999_999] ^= 1;
        std::fs::write(&right, &bytes).expect("writable");
        assert!(!same_bytes(&left, &right).expect("readable"), "one bit");

        make_file(&right, 3_000_000).expect("a file");
        assert!(
            !same_bytes(&left, &right).expect("readable"),
            "one byte less"
        );
        assert!(same_bytes(&left, &directory.path().join("missing")).is_err());
    }

    #[test]
    fn all_hosts_of_a_chain_have_the_bytes_when_the_first_has_ended() {
        let directory = tempfile::tempdir().expect("a directory");
        let bytes: Vec<u8> = (0..3 * BLOCK_BYTES + 17)
            .map(|at| (at * 7 % 251) as u8)
            .collect();
        let source = directory.path().join("source");
        std::fs::write(&source, &bytes).expect("writable");
        // Two free ports, chosen by the kernel.
        let ports = [(); 2].map(|()| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            listener.local_addr().expect("bound").port()
        });
        let to = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let files = ["middle", "last"].map(|name| directory.path().join(name));
        thread::scope(|scope| {
            let last = Link {
                listen: Some(ports[1]),
                next: None,
                file: &files[1],
            };
            let middle = Link {
                listen: Some(ports[0]),
                next: Some(to(ports[1])),
                file: &files[0],
            };
            let others = [last, middle].map(|link| scope.spawn(move || link.run()));
            Link {
                listen: None,
                next: Some(to(ports[0])),
                file: &source,
            }
            .run()
            .expect("the chain holds");
            for file in &files {
                assert_eq!(
                    std::fs::read(file).expect("received"),
                    bytes,
                    "{}",
                    file.display()
                );
            }
            others
                .into_iter()
                .for_each(|other| other.join().expect("no panic").expect("the chain holds"));
        });
    }

    #[test]
    fn a_chain_whose_last_host_dies_is_not_reported_as_done() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let next = Some(listener.local_addr().expect("bound"));
        let file = tempfile::NamedTempFile::new().expect("a file");
        thread::scope(|scope| {
            scope.spawn(|| drop(listener.accept()));
            assert!(
                Link {
                    listen: None,
                    next,
                    file: file.path()
                }
                .run()
                .is_err()
            );
        });
    }
}
