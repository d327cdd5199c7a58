//! Control socket of a running sender, to which `ethbcast ctl` connects.
//!
//! The name is abstract, so that a killed process leaves nothing behind, and private to the network
//! namespace. Any process on the host can connect, and any can take a name first: both ends check
//! the kernel's credentials of the other. Only root and the process's own user are served.

use super::GIVEN_UP;
use crate::exit::{Code, WithCode};
use crate::progress::Bar;
use crate::signals::Interrupt;
use crate::{session, signals, units};
use ethbcast_collectives::session::{Rate, RateLimit, SendOptions, Session, Start};
use ethbcast_planning::HIGHEST_RATE_BITS_PER_SECOND;
use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, getsockopt, recv, socket,
};
use nix::unistd::Uid;
use std::io;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

/// Prefix of the socket's name, which the process id follows.
pub const NAME: &str = "ethbcast-send-";
/// Longest time for a whole request, and for a whole reply.
const PATIENCE: Duration = Duration::from_secs(1);
const REPLY_LIMIT: Duration = Duration::from_secs(2);
const MAX_BYTES: usize = 1024;
/// Reply to a user who may not control this process; `ethbcast ctl` prints it for a process of
/// another user.
pub const FOREIGN: &str = "this sender is another user's: ask as that user, or as root";
/// Command that queries the limit. A number in place of a command sets it, in bits per second.
pub const SHOW: &str = "show";

pub const START: &str = "start";

fn name(pid: u32) -> String {
    format!("{NAME}{pid}")
}

/// Connects to a sender and returns the user of the listening process. Fails at once if it accepts
/// no connection.
pub fn call(pid: u32) -> io::Result<(UnixStream, Uid)> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(
        socket.as_raw_fd(),
        &UnixAddr::new_abstract(name(pid).as_bytes())?,
    )?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    let user = Uid::from_raw(getsockopt(&stream, PeerCredentials)?.uid());
    Ok((stream, user))
}

pub fn is_trusted(user: Uid) -> bool {
    user.is_root() || user == Uid::effective()
}

pub fn request(mut stream: UnixStream, line: &str) -> io::Result<String> {
    // A process that refuses does not wait for the line.
    drop(
        stream
            .write_all(line.as_bytes())
            .and_then(|()| stream.shutdown(std::net::Shutdown::Write)),
    );
    read_all(&stream, REPLY_LIMIT)
}

/// Reads a text to its end within `limit`: the kernel applies the limit of a receive that waits for
/// all bytes to the whole call, however slowly they come.
fn read_all(stream: &UnixStream, limit: Duration) -> io::Result<String> {
    stream.set_read_timeout(Some(limit))?;
    let mut text = [0; MAX_BYTES];
    let bytes = recv(stream.as_raw_fd(), &mut text, MsgFlags::MSG_WAITALL)?;
    match recv(stream.as_raw_fd(), &mut [0], MsgFlags::MSG_DONTWAIT) {
        // The other end was closed, possibly with a line that it has not read.
        Ok(0) | Err(Errno::ECONNRESET) => Ok(String::from_utf8_lossy(&text[..bytes]).into_owned()),
        _ => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Listens on a separate thread until the process ends. Fails if the socket cannot be created.
pub fn listen(limit: Limit) -> io::Result<()> {
    let listener =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name(std::process::id()))?)?;
    let serve = move || {
        for stream in listener.incoming().flatten() {
            let user = getsockopt(&stream, PeerCredentials).map(|peer| Uid::from_raw(peer.uid()));
            let answered = user
                .map_err(io::Error::from)
                .and_then(|user| reply(stream, user, |line| said(line, &limit)));
            if let Err(error) = answered {
                log::debug!("a control connection: {error}");
            }
        }
    };
    std::thread::Builder::new()
        .name("control".to_owned())
        .spawn(serve)
        .map(drop)
}

/// Answers one request. Nothing is read from a user who is not served, who therefore delays no
/// other.
fn reply(mut stream: UnixStream, user: Uid, said: impl FnOnce(&str) -> String) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let reply = if is_trusted(user) {
        said(read_all(&stream, PATIENCE)?.trim())
    } else {
        format!("no {FOREIGN}")
    };
    stream.write_all(reply.as_bytes())
}

/// Executes a line and returns the reply: `ok` or `no`, with a text.
fn said(line: &str, limit: &Limit) -> String {
    if line == START {
        let started = limit
            .start()
            .map(|receivers| format!("ok starts with {}", crate::units::receivers(receivers)));
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
        Some(rate) => format!(
            "ok {} bit/s: {}",
            rate.bits_per_second(),
            units::rate(rate.bits_per_second() as f64)
        ),
        None => format!("no {}", NO_LIMIT),
    }
}

pub const NO_LIMIT: &str =
    "there is no rate limit to change: start with one, such as --rate 400mbit";

#[derive(Clone)]
pub struct Limit {
    limit: Option<RateLimit>,
    start: Option<Start>,
    bar: Arc<Bar>,
}

impl Limit {
    pub fn new((limit, start): (Option<RateLimit>, Option<Start>), bar: &Arc<Bar>) -> Limit {
        Limit {
            limit,
            start,
            bar: Arc::clone(bar),
        }
    }

    pub fn print_none(&self) {
        self.bar.line(NO_LIMIT.to_owned());
    }

    pub fn rate(&self) -> Option<Rate> {
        self.limit
            .as_ref()
            .map(RateLimit::rate)
            .filter(|rate| rate.limit().is_some())
    }

    pub fn set(&self, rate: Rate) -> Option<Rate> {
        let (limit, before) = (self.limit.as_ref()?, self.rate()?);
        limit.set(if before.is_yielding() {
            rate.yielding()
        } else {
            rate
        });
        self.bar.line(format!(
            "the rate limit is {} now",
            units::rate(rate.bits_per_second() as f64)
        ));
        Some(rate)
    }

    /// Starts with the present receivers and returns their number, or the reason why not.
    pub fn start(&self) -> Result<usize, &'static str> {
        let start = self.start.as_ref().ok_or("it starts at once")?;
        match (self.bar.has_started(), self.bar.joined()) {
            (true, _) => Err("it has started already"),
            (false, 0) => Err("nobody has joined yet"),
            (false, joined) => {
                start.now();
                self.bar.line(format!(
                    "started by `ethbcast ctl start`, with {}",
                    crate::units::receivers(joined)
                ));
                Ok(joined)
            }
        }
    }
}

const RAISE: Signal = Signal::SIGUSR1;
const LOWER: Signal = Signal::SIGUSR2;

/// Opens the session's port as [`open`](session::open()) does, and lets signals and `ethbcast ctl`
/// change the rate limit.
pub fn open(
    group: &str,
    options: &SendOptions,
    bar: &Arc<Bar>,
) -> anyhow::Result<(Session, Interrupt)> {
    // Blocked before the first thread starts, which would otherwise receive a signal and end the
    // process.
    signals::block(&[RAISE, LOWER]).code(Code::System)?;
    let opened = session::open(group, options, GIVEN_UP)?;
    let limit = Limit::new((options.rate.clone(), options.start.clone()), bar);
    heed(limit.clone()).code(Code::System)?;
    // Without the socket, signals still work.
    if let Err(error) = listen(limit) {
        log::warn!("`ethbcast ctl` will not reach this process: {error}");
    }
    Ok(opened)
}

/// Changes the limit at each signal with a message, or explains how to set a limit.
fn heed(limit: Limit) -> io::Result<()> {
    signals::listen(&[RAISE, LOWER], move |signal| {
        let changed = limit
            .rate()
            .and_then(|rate| limit.set(changed(rate, signal == RAISE)));
        if changed.is_none() {
            limit.print_none();
        }
    })
}

fn changed(rate: Rate, raise: bool) -> Rate {
    let tenth = rate.bits_per_second() / 10;
    let bits = if raise {
        rate.bits_per_second() + tenth
    } else {
        rate.bits_per_second() - tenth
    };
    Rate::new(bits.min(HIGHEST_RATE_BITS_PER_SECOND)).unwrap_or(Rate::LOWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_is_not_served_is_answered_without_being_waited_for() {
        let (client, server) = UnixStream::pair().expect("sockets");
        let non_member = Uid::from_raw(Uid::effective().as_raw() + 1);
        // The client sends nothing, and does not end.
        reply(server, non_member, |_| unreachable!("nothing is asked")).expect("answered");
        assert_eq!(
            read_all(&client, REPLY_LIMIT).expect("a reply"),
            format!("no {FOREIGN}")
        );
    }

    #[test]
    fn a_request_is_one_whole_line_in_time_and_an_answer_survives_what_was_not_read() {
        let (mut client, server) = UnixStream::pair().expect("sockets");
        client.write_all(b"4000000").expect("a part of a number");
        let answered = reply(server, Uid::effective(), |_| unreachable!("it may go on"));
        assert_eq!(
            answered.map_err(|error| error.kind()),
            Err(io::ErrorKind::TimedOut)
        );
        let (client, server) = UnixStream::pair().expect("sockets");
        let asked = std::thread::spawn(move || request(client, SHOW));
        reply(server, Uid::effective(), |line| format!("ok {line}")).expect("answered");
        assert_eq!(asked.join().expect("no panic").expect("a reply"), "ok show");
    }

    #[test]
    fn a_limit_goes_up_and_down_by_a_tenth_between_the_lowest_and_the_highest() {
        let rate = |bits| Rate::new(bits).expect("above the lowest");
        assert_eq!(changed(rate(400_000_000), true), rate(440_000_000));
        assert_eq!(changed(rate(400_000_000), false), rate(360_000_000));
        assert_eq!(changed(rate(1_050_000), false), Rate::LOWEST);
        assert_eq!(
            changed(rate(HIGHEST_RATE_BITS_PER_SECOND), true),
            rate(HIGHEST_RATE_BITS_PER_SECOND)
        );
    }
}
