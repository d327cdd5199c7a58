//! What a running sender is told by `ethbcast ctl`: a line over a socket that has the process's number for a name.
//!
//! The name is abstract, so that nothing is left of a process that was killed, and a network namespace's own. Anybody
//! on the host can connect: who is neither root nor the process's user is refused, by what the kernel says of it.

use super::limit::{Limit, NO_LIMIT};
use crate::units;
use ethbcast_collectives::session::Rate;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Uid;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// What the names begin with; the process's number follows.
pub const NAME: &str = "ethbcast-send-";
/// Nobody who is connected is waited for longer.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// No line is longer.
const MOST_BYTES: u64 = 64;
/// What asks for the limit; anything else is a number, the new one in bits per second.
pub const SHOW: &str = "show";

/// What starts it with the receivers that are there.
pub const START: &str = "start";

/// Where a process listens.
pub fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}{pid}"))
}

/// Listens on a thread of its own until the process ends.
///
/// # Errors
/// If the socket cannot be had.
pub fn listen(limit: Limit) -> io::Result<()> {
    let listener = UnixListener::bind_addr(&address(std::process::id())?)?;
    let serve = move || {
        for stream in listener.incoming().flatten() {
            if let Err(error) = answer(stream, &limit) {
                log::debug!("somebody who wanted to say something: {error}");
            }
        }
    };
    std::thread::Builder::new().name("control".to_owned()).spawn(serve).map(drop)
}

/// Reads a line, does what it says, and answers.
fn answer(mut stream: UnixStream, limit: &Limit) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let peer = Uid::from_raw(getsockopt(&stream, PeerCredentials)?.uid());
    let mut line = String::new();
    (&stream).take(MOST_BYTES).read_to_string(&mut line)?;
    let reply = if peer.is_root() || peer == Uid::effective() {
        said(line.trim(), limit)
    } else {
        "no this sender is another user's: ask as that user, or as root".to_owned()
    };
    stream.write_all(reply.as_bytes())
}

/// What comes of a line: `ok` or `no`, and words.
fn said(line: &str, limit: &Limit) -> String {
    if line == START {
        let started = limit.start().map(|receivers| format!("ok starts with {}", crate::units::receivers(receivers)));
        return started.unwrap_or_else(|why| format!("no {why}"));
    }
    let rate = if line == SHOW {
        limit.rate()
    } else {
        match line.parse().ok().and_then(Rate::new) {
            None => return format!("no `{}` is no rate", line.escape_debug()),
            Some(rate) => limit.set(rate),
        }
    };
    match rate {
        Some(rate) => format!("ok {} bit/s: {}", rate.bits_per_second(), units::rate(rate.bits_per_second() as f64)),
        None => format!("no {}", NO_LIMIT),
    }
}
