//! Control of a running sender by `ethbcast ctl`: one line over a socket named after the process
//! id.
//!
//! The name is abstract, so that nothing is left of a killed process, and private to the network
//! namespace. Anybody on the host can connect; the kernel's credentials are checked, and only root
//! and the process's own user are served.

use super::limit::{Limit, NO_LIMIT};
use crate::units;
use ethbcast_collectives::session::Rate;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::Uid;
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// Prefix of the socket's name, which the process id follows.
pub const NAME: &str = "ethbcast-send-";
pub const PATIENCE: Duration = Duration::from_secs(1);
const MAX_BYTES: u64 = 64;
/// Command that queries the limit. A number in place of a command sets it, in bits per second.
pub const SHOW: &str = "show";

/// Command that starts the transfer with the present receivers.
pub const START: &str = "start";

pub fn address(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("{NAME}{pid}"))
}

/// Listens on a separate thread until the process ends. Fails if the socket cannot be created.
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

fn answer(mut stream: UnixStream, limit: &Limit) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let peer = Uid::from_raw(getsockopt(&stream, PeerCredentials)?.uid());
    let mut line = String::new();
    (&stream).take(MAX_BYTES).read_to_string(&mut line)?;
    let reply = if peer.is_root() || peer == Uid::effective() {
        said(line.trim(), limit)
    } else {
        "no this sender is another user's: ask as that user, or as root".to_owned()
    };
    stream.write_all(reply.as_bytes())
}

/// Executes a line and returns the reply: `ok` or `no`, with a text.
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
