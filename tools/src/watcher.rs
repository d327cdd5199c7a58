//! Watchdog process that outlives this one, and notifies the other hosts if it was killed.
//!
//! Members wait through silence, because a switch may restart or a cable be plugged in again. A
//! dead process (killed, out of memory, crashed) need not be waited for: the kernel closes the pipe
//! to its child. The child has an open socket and the prepared frame, and needs nothing more.

use crate::args::WatchArgs;
use crate::exit::{Code, WithCode};
use crate::rights;
use ethbcast_collectives::session::Session;
use ethbcast_collectives::session::live::AbortNotice;
use ethbcast_transport::MacAddr;
use ethbcast_transport::packet::{Addresses, FrameSender, Interface};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{SigSet, Signal};
use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Transmissions of the abort notification, against loss.
const TIMES: u32 = 3;
const PAUSE: Duration = Duration::from_micros(12_500);
/// Longest wait for a link: a card takes 2 to 3 s to negotiate.
const LINK_LIMIT: Duration = Duration::from_secs(5);
/// Room for the addresses of all peers.
const MAX_MESSAGE_BYTES: usize = 1 << 20;
/// Longest wait for the end of a child that has nothing to send, or is sending.
const END_LIMIT: Duration = Duration::from_millis(200);

pub struct Watcher {
    child: Child,
    pipe: Arc<Mutex<Option<ChildStdin>>>,
    /// Whether the child has a notification to send, and may have to wait for a link.
    has_words: Arc<AtomicBool>,
}

impl Watcher {
    /// Starts the child for a session. Returns it with the handle through which it gets the
    /// notification.
    pub fn start(session: &Session) -> io::Result<(Watcher, AbortNotice)> {
        let over = session.over();
        let mut command = Command::new(std::env::current_exe()?);
        command.env_remove("ETHBCAST_KEY");
        // A process group of its own, so that a terminal's Ctrl-C does not reach it.
        command
            .args([
                "watch",
                "--interface",
                &session.interface().name,
                "--over",
                &over.to_string(),
            ])
            .process_group(0);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut pipe = child.stdin.take().expect("it is piped");
        let peers: Vec<String> = session.peers().map(|ip| ip.to_string()).collect();
        pipe.write_all(&encode(peers.join(" ").as_bytes()))?;
        // A stuck child must not block this process.
        fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let pipe = Arc::new(Mutex::new(Some(pipe)));
        let (writer, has_words) = (Arc::clone(&pipe), Arc::new(AtomicBool::new(false)));
        let (has, addresses) = (Arc::clone(&has_words), session.addresses().cloned());
        let abort_notice = AbortNotice::new(move |frame| {
            has.store(frame.is_some(), Ordering::Relaxed);
            if let Some(pipe) = writer.lock().as_mut() {
                let addressed = frame.map(|frame| addressed(addresses.as_ref(), frame));
                drop(pipe.write_all(&encode(&addressed.unwrap_or_default())));
            }
        });
        Ok((
            Watcher {
                child,
                pipe,
                has_words,
            },
            abort_notice,
        ))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.pipe.lock().take());
        let end = Instant::now() + END_LIMIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            sleep(Duration::from_millis(1));
        }
        if self.has_words.load(Ordering::Relaxed) {
            // The child waits for a link and ends by itself.
            return;
        }
        // The child has nothing left to do, and a stopped process would stay forever.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns a frame behind the address of the host that it is for, where that is known, and a line's
/// end.
fn addressed(addresses: Option<&Addresses>, frame: &[u8]) -> Vec<u8> {
    let host = frame
        .first_chunk()
        .and_then(|mac: &[u8; 6]| addresses?.host_of(MacAddr::from(*mac)));
    let host = host.map_or_else(String::new, |host| host.to_string());
    [host.as_bytes(), b"\n", frame].concat()
}

/// Takes an addressed frame apart.
fn parted(addressed: &[u8]) -> Option<(Option<IpAddr>, &[u8])> {
    let end = addressed.iter().position(|&byte| byte == b'\n')?;
    let host = std::str::from_utf8(&addressed[..end]).ok()?;
    Some((host.parse().ok(), &addressed[end + 1..]))
}

/// Encodes the addresses of the peers, or then an addressed frame, for the pipe: the length and the
/// bytes. An empty one withdraws the notification.
fn encode(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_le_bytes()[..], frame].concat()
}

fn decode(pipe: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    pipe.read_exact(&mut length).ok()?;
    let length = u32::from_le_bytes(length) as usize;
    let mut frame = vec![0; Some(length).filter(|&length| length <= MAX_MESSAGE_BYTES)?];
    pipe.read_exact(&mut frame).ok()?;
    Some(frame)
}

pub fn run(args: &WatchArgs) -> anyhow::Result<()> {
    let mut signals = SigSet::empty();
    let unheard = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGTSTP,
    ];
    unheard.into_iter().for_each(|signal| signals.add(signal));
    signals.thread_block().code(Code::System)?;
    let interface = Interface::find_over(Some(&args.interface), args.over).code(Code::System)?;
    let mut sender = FrameSender::open(&interface, args.over).code(Code::System)?;
    // It has its socket, and writes no file.
    rights::give_up_all();
    let mut pipe = io::stdin().lock();
    let peers = decode(&mut pipe).unwrap_or_default();
    let peers = String::from_utf8_lossy(&peers);
    sender.name_peers(peers.split(' ').filter_map(|ip| ip.parse().ok()).collect());
    let mut abort_notice = Vec::new();
    while let Some(frame) = decode(&mut pipe) {
        abort_notice = frame;
    }
    if let Some((host, frame)) = parted(&abort_notice) {
        // A card has no link for a moment after a change of its MTU or address, and would lose the
        // frames.
        let end = Instant::now() + LINK_LIMIT;
        while !sender.has_link() && Instant::now() < end {
            sleep(Duration::from_millis(10));
        }
        for time in 0..TIMES {
            sleep(if time == 0 { Duration::ZERO } else { PAUSE });
            // Failure counts as loss.
            drop(sender.send_to(frame, host));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_frame_counts() {
        let pipe = [
            encode(b"first"),
            encode(b""),
            encode(b"last"),
            encode(b"cut")[..5].to_vec(),
        ]
        .concat();
        let mut pipe = &pipe[..];
        let frames: Vec<_> = std::iter::from_fn(|| decode(&mut pipe)).collect();
        assert_eq!(frames, [&b"first"[..], b"", b"last"]);
        assert_eq!(decode(&mut &[0xff; 9][..]), None, "no frame is that long");
    }

    #[test]
    fn a_frame_goes_with_the_address_of_its_host_if_that_is_known() {
        let frame = [2, 0, 10, 0, 0, 7, b'\n', 0];
        let known = addressed(Some(&Addresses::V4), &frame);
        let host = IpAddr::from([10, 0, 0, 7]);
        assert_eq!(parted(&known), Some((Some(host), &frame[..])));
        assert_eq!(parted(&addressed(None, &frame)), Some((None, &frame[..])));
        assert_eq!(parted(&[]), None, "withdrawn");
    }
}
