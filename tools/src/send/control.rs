//! Control socket of a running sender, and `ethbcast ctl`, which connects to it: shows or changes the
//! rate limit, or starts the transfer.
//!
//! The name is abstract, so that a killed process leaves nothing behind, and private to the network
//! namespace. Any process on the host can connect, and any can take a name first: both ends check
//! the kernel's credentials of the other. Only root and the process's own user are served.

use super::GIVEN_UP;
use crate::args::{CtlArgs, CtlCommand};
use crate::exit::{Code, Failure, WithCode, fail, one_line, report};
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
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

/// Prefix of the socket's name, which the process id follows.
const NAME: &str = "ethbcast-send-";
/// Longest time for a whole request, and for a whole reply.
const PATIENCE: Duration = Duration::from_secs(1);
const REPLY_LIMIT: Duration = Duration::from_secs(2);
const MAX_BYTES: usize = 1024;
/// Reply to a user who may not control this process; `ethbcast ctl` prints it for a process of
/// another user.
const FOREIGN: &str = "this sender is another user's: ask as that user, or as root";
/// Command that queries the limit. A number in place of a command sets it, in bits per second.
const SHOW: &str = "show";

const START: &str = "start";

fn name(pid: u32) -> String {
    format!("{NAME}{pid}")
}

/// Connects to a sender and returns the user of the listening process. Fails at once if it accepts
/// no connection.
fn call(pid: u32) -> io::Result<(UnixStream, Uid)> {
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

fn is_trusted(user: Uid) -> bool {
    user.is_root() || user == Uid::effective()
}

fn request(mut stream: UnixStream, line: &str) -> io::Result<String> {
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
fn listen(limit: Limit) -> io::Result<()> {
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

/// Runs `ethbcast ctl`.
pub fn run(args: &CtlArgs) -> anyhow::Result<()> {
    let pid = args.pid.map_or_else(only_one, Ok)?;
    let line = match args.command {
        CtlCommand::Show => SHOW.to_owned(),
        CtlCommand::Start => START.to_owned(),
        CtlCommand::Rate { rate } => rate.bits_per_second().to_string(),
    };
    let (stream, user) = call(pid).map_err(|error| {
        Failure::new(
            Code::Nobody,
            format!("no `ethbcast send` of process {pid} listens here ({error})"),
        )
    })?;
    if !is_trusted(user) && !Uid::effective().is_root() {
        return fail(Code::Usage, format!("process {pid}: {FOREIGN}"));
    }
    // Another program that has taken the name may reply anything.
    let reply = request(stream, &line).map_err(|error| {
        Failure::new(
            Code::System,
            format!("process {pid} did not answer completely ({error})"),
        )
    })?;
    let reply = one_line(&reply);
    match reply.split_once(' ') {
        Some(("ok", text)) => report(&format!("process {pid}: {text}")),
        Some(("no", why)) => fail(Code::Usage, format!("process {pid}: {why}")),
        _ => fail(Code::System, format!("process {pid} sent an invalid reply")),
    }
}

/// Returns the only sender of this network namespace or, if there are several, the only one of this
/// user's or of root's: a name that another user has taken does not hide it.
fn only_one() -> anyhow::Result<u32> {
    let table = fs::read_to_string("/proc/net/unix").code(Code::System)?;
    let all = senders(&table);
    let own: Vec<u32> = all
        .iter()
        .copied()
        .filter(|&pid| call(pid).is_ok_and(|(_, user)| is_trusted(user)))
        .collect();
    match (&all[..], &own[..]) {
        (&[one], _) | (_, &[one]) => Ok(one),
        ([], _) => fail(
            Code::Nobody,
            format!(
                "no `ethbcast send` runs in this network namespace{}",
                elsewhere()
            ),
        ),
        _ => fail(
            Code::Usage,
            format!("several senders run here: say which with --pid, one of {all:?}"),
        ),
    }
}

fn elsewhere() -> String {
    let own = fs::read_link("/proc/self/ns/net").ok();
    let mut seen = BTreeSet::from_iter(own);
    let mut found = Vec::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for pid in processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()) {
        // Each namespace is examined once.
        if !fs::read_link(format!("/proc/{pid}/ns/net"))
            .is_ok_and(|namespace| seen.insert(namespace))
        {
            continue;
        }
        let table = fs::read_to_string(format!("/proc/{pid}/net/unix")).unwrap_or_default();
        let way = || {
            name_of(pid).map_or_else(
                || format!("nsenter -n -t {pid}"),
                |name| format!("ip netns exec {name}"),
            )
        };
        found.extend(
            senders(&table)
                .into_iter()
                .map(|sender| format!("process {sender} (`{} …`)", way())),
        );
    }
    if found.is_empty() {
        ": start one".to_owned()
    } else {
        format!("; in another: {}", found.join(", "))
    }
}

fn name_of(pid: u32) -> Option<String> {
    let own = fs::metadata(format!("/proc/{pid}/ns/net")).ok()?;
    let is_own = |entry: &fs::DirEntry| {
        entry
            .metadata()
            .is_ok_and(|other| (other.ino(), other.dev()) == (own.ino(), own.dev()))
    };
    let entry = fs::read_dir("/run/netns").ok()?.flatten().find(is_own)?;
    entry.file_name().into_string().ok()
}

fn senders(table: &str) -> Vec<u32> {
    let numbers = table
        .lines()
        .filter_map(|line| line.rsplit_once(&format!("@{NAME}"))?.1.trim().parse().ok());
    let mut all: Vec<u32> = numbers.collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_known_by_their_sockets_each_once() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 12 @ethbcast-send-4711\n\
                     0000000000000000: 00000003 00000000 00000000 0001 03 13 @ethbcast-send-4711\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 14 /run/x@y\n\
                     0000000000000000: 00000002 00000000 00010000 0001 01 15 @ethbcast-send-12\n";
        assert_eq!(senders(table), [12, 4711]);
    }

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
