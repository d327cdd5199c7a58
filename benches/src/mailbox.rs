//! Benchmark of blocking messages between two hosts (network namespaces), against a plain packet
//! socket.

use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use ethbcast_bench::cluster::{INTERFACE, bring_up};
use ethbcast_lab::{Lab, LabGuard};
use ethbcast_transport::messages::{
    Completion, Mailbox, MailboxStats, RecvId, RecvOutcome, SendId, SendOutcome, Settings,
};
use ethbcast_transport::packet::{Clock, Counters, Interface, Port, PortConfig, Shared};
use ethbcast_transport::wire::{self, Guard, Identity, Peer, Rank, StreamId};
use ethbcast_transport::{Alone, MacAddr};
use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrLike, recv,
    sendto, socket,
};
use nix::time::ClockId;
use nix::unistd::Pid;

use crate::drivers::{HEADER_BYTES, Rate};
use crate::rings::ETHER_TYPE;

/// Two hosts on one switch, taken down on drop.
#[derive(Debug)]
pub struct Hop {
    lab: LabGuard,
    hosts: [String; 2],
    macs: [MacAddr; 2],
}

impl Hop {
    pub fn up(bench: &str) -> anyhow::Result<Self> {
        let lab = bring_up(bench, 2, None)?;
        let hosts: [String; 2] = lab
            .hosts()
            .try_into()
            .ok()
            .context("the lab has two hosts")?;
        let mac =
            |host: &str| anyhow::Ok(lab.run_on(host, || Interface::find(Some(INTERFACE)))??.mac);
        let macs = [mac(&hosts[0])?, mac(&hosts[1])?];
        Ok(Self { lab, hosts, macs })
    }

    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Returns the address of host 0 or 1.
    pub fn mac(&self, host: usize) -> MacAddr {
        self.macs[host]
    }

    /// Runs `work` on host 0 or 1, on a thread of its own. Sockets opened there stay on that host.
    pub fn on<T: Send>(
        &self,
        host: usize,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        self.lab.run_on(&self.hosts[host], work)?
    }

    pub fn on_both<T: Send>(
        &self,
        open: impl Fn(usize) -> anyhow::Result<T> + Sync,
    ) -> anyhow::Result<[T; 2]> {
        Ok([self.on(0, || open(0))?, self.on(1, || open(1))?])
    }
}

/// Returns content that differs from message to message and from place to place.
fn content(number: u64, bytes: usize) -> Vec<u8> {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (word ^ word >> 29).to_le_bytes()
    };
    let mut content = Vec::with_capacity(bytes + 8);
    while content.len() < bytes {
        content.extend(next());
    }
    content.truncate(bytes);
    content
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On one CPU: a wake-up is a switch between threads.
    Together,
    /// On two CPUs: a wake-up is an interrupt from one to the other, and both may spin.
    Apart,
    Anywhere,
}

impl Place {
    /// Starts the thread of end 0 or 1, pinned to a processor as this place demands.
    pub fn spawn<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        end: usize,
        work: impl FnOnce() -> anyhow::Result<T> + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, anyhow::Result<T>> {
        scope.spawn(move || {
            match self {
                Place::Together => pin(0)?,
                Place::Apart => pin(end)?,
                Place::Anywhere => {}
            }
            work()
        })
    }
}

fn pin(nth: usize) -> anyhow::Result<()> {
    let this_thread = Pid::from_raw(0);
    let allowed = sched_getaffinity(this_thread)?;
    let mut cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    let cpu = cpus.nth(nth).context("two ends need two CPUs")?;
    let mut only = CpuSet::new();
    only.set(cpu)?;
    Ok(sched_setaffinity(this_thread, &only)?)
}

/// EtherType of the frames: 255, the number of [`SockProtocol::Raw`], in the byte order in which a
/// packet socket takes it. It is unassigned, and the only such one that `nix` has a name for.
const PLAIN_TYPE: u16 = 255_u16.to_be();

/// Way to wait for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    Blocking,
    Spinning,
}

#[derive(Debug)]
pub struct Plain {
    socket: OwnedFd,
    address: LinkAddr,
}

impl Plain {
    pub fn open() -> anyhow::Result<Self> {
        let mut addresses = getifaddrs()?
            .filter(|entry| entry.interface_name == INTERFACE)
            .filter_map(|entry| entry.address);
        let address = addresses.find(|address| address.family() == Some(AddressFamily::Packet));
        let address = *address
            .as_ref()
            .and_then(|address| address.as_link_addr())
            .context("the lab's host has no interface")?;
        let socket = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::Raw,
        )?;
        Ok(Self { socket, address })
    }

    /// Makes a frame for [`send`](Self::send), from an arbitrary address.
    pub fn frame(to: MacAddr, payload: &[u8]) -> Vec<u8> {
        let from = [2, 0, 0, 0, 0, 1];
        [&to.octets()[..], &from, &PLAIN_TYPE.to_be_bytes(), payload].concat()
    }

    pub fn send(&self, frame: &[u8]) -> anyhow::Result<()> {
        sendto(
            self.socket.as_raw_fd(),
            frame,
            &self.address,
            MsgFlags::empty(),
        )?;
        Ok(())
    }

    /// Waits for the next frame and returns its payload, padding included.
    pub fn receive<'a>(&self, waiting: Waiting, buffer: &'a mut [u8]) -> anyhow::Result<&'a [u8]> {
        let flags = if waiting == Waiting::Spinning {
            MsgFlags::MSG_DONTWAIT
        } else {
            MsgFlags::empty()
        };
        loop {
            match recv(self.socket.as_raw_fd(), buffer, flags) {
                Ok(length) if length >= HEADER_BYTES => return Ok(&buffer[HEADER_BYTES..length]),
                Ok(length) => bail!("a frame of {length} bytes"),
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(errno) => return Err(errno).context("receiving from a packet socket"),
            }
        }
    }
}

const TAG: u32 = 1;
/// Time limit of every call: only an error takes longer.
const LIMIT: Duration = Duration::from_secs(30);

pub struct Post {
    shared: Shared<Alone<Mailbox>>,
    peer: Rank,
}

impl Post {
    pub fn open_both(hop: &Hop, settings: &Settings, spin: Duration) -> anyhow::Result<[Post; 2]> {
        let peers = [0, 1].map(|rank: u16| Peer {
            rank: Rank(rank),
            mac: hop.mac(rank.into()),
        });
        hop.on_both(|host| {
            let interface = Interface::find(Some(INTERFACE))?;
            let identity = Identity {
                session: 7,
                stream: StreamId(0),
                rank: Rank(host as u16),
                mac: interface.mac,
                ether_type: ETHER_TYPE,
                guard: Guard::Plain,
            };
            let mut config = PortConfig::new(ETHER_TYPE);
            config.busy_poll = spin;
            let port = Port::open(&interface, config)?;
            let mailbox = Alone::new(Mailbox::new(
                identity,
                &peers,
                interface.mtu_bytes - wire::HEADER_BYTES,
                settings.clone(),
            ));
            Ok(Post {
                shared: Shared::start(port, mailbox, Clock::start())?,
                peer: Rank(1 - host as u16),
            })
        })
    }

    /// Sends a message; returns when all of it has been passed to the network once.
    pub fn send(&self, message: &Arc<[u8]>) -> anyhow::Result<()> {
        let mut sending: Option<SendId> = None;
        self.until(|mailbox| {
            let id = match sending {
                Some(id) => id,
                None => match mailbox.part.send(self.peer, TAG, Arc::clone(message)) {
                    Ok(id) => *sending.insert(id),
                    // The queue is full: completions of earlier messages make room.
                    Err(_) => return drain(mailbox).map(|()| None),
                },
            };
            Ok(mailbox.part.has_gone(id).then_some(()))
        })
    }

    pub fn receive(&self, most: usize) -> anyhow::Result<Vec<u8>> {
        let mut posted: Option<RecvId> = None;
        self.until(|mailbox| {
            if posted.is_none() {
                posted = Some(mailbox.part.recv(self.peer, TAG, most)?);
            }
            while let Some(completion) = mailbox.part.poll_completion() {
                if let Some(bytes) = received(completion)? {
                    return Ok(Some(bytes));
                }
            }
            Ok(None)
        })
    }

    /// Receives messages of `bytes` bytes, with `ahead` receives posted at a time, and passes each
    /// to `take` until that returns enough.
    pub fn receive_many(
        &self,
        bytes: usize,
        ahead: usize,
        mut take: impl FnMut(Vec<u8>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let mut posted = 0;
        loop {
            let message = self.until(|mailbox| {
                while posted < ahead {
                    mailbox.part.recv(self.peer, TAG, bytes)?;
                    posted += 1;
                }
                while let Some(completion) = mailbox.part.poll_completion() {
                    if let Some(bytes) = received(completion)? {
                        posted -= 1;
                        return Ok(Some(bytes));
                    }
                }
                Ok(None)
            })?;
            if !take(message)? {
                return Ok(());
            }
        }
    }

    pub fn settle(&self) -> anyhow::Result<()> {
        self.until(|mailbox| {
            drain(mailbox)?;
            Ok(mailbox.part.is_idle().then_some(()))
        })
    }

    pub fn counted(&self) -> anyhow::Result<(MailboxStats, Counters)> {
        Ok((
            self.shared.with(|mailbox, _| mailbox.part.stats())?,
            self.shared.counters(),
        ))
    }

    fn until<T>(
        &self,
        mut turn: impl FnMut(&mut Alone<Mailbox>) -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let deadline = self.shared.now() + LIMIT;
        let ended = self.shared.wait(Some(deadline), |mailbox, _| {
            match turn(mailbox).transpose() {
                Some(value) => ControlFlow::Break(value),
                None => ControlFlow::Continue(()),
            }
        })?;
        ended.context("a message was on its way for 30 s")?
    }
}

fn drain(mailbox: &mut Alone<Mailbox>) -> anyhow::Result<()> {
    while let Some(completion) = mailbox.part.poll_completion() {
        ensure!(
            received(completion)?.is_none(),
            "a message that nobody waits for"
        );
    }
    Ok(())
}

fn received(completion: Completion) -> anyhow::Result<Option<Vec<u8>>> {
    match completion {
        Completion::Send {
            outcome: SendOutcome::Sent,
            ..
        } => Ok(None),
        Completion::Recv {
            outcome: RecvOutcome::Received { bytes },
            ..
        } => Ok(Some(bytes)),
        other => anyhow::bail!("{other:?}"),
    }
}

const WARM_UP: u64 = 200;

/// Returns the times of `count` round trips by plain packet sockets.
pub fn plain_trips(
    hop: &Hop,
    place: Place,
    bytes: usize,
    count: u64,
    waiting: Waiting,
) -> anyhow::Result<Vec<Duration>> {
    let [here, there] = hop.on_both(|_| Plain::open())?;
    let count = count + WARM_UP;
    let ask = || {
        let mut buffer = [0; 2048];
        let one = |number| {
            let frame = Plain::frame(hop.mac(1), &content(number, bytes));
            let begin = Instant::now();
            here.send(&frame)?;
            let payload = here.receive(waiting, &mut buffer)?;
            let time = begin.elapsed();
            ensure!(
                payload == &frame[HEADER_BYTES..],
                "a frame came back changed"
            );
            Ok(time)
        };
        (0..count).map(one).skip(WARM_UP as usize).collect()
    };
    let echo = || {
        let mut buffer = [0; 2048];
        for _ in 0..count {
            let payload = there.receive(waiting, &mut buffer)?;
            there.send(&Plain::frame(hop.mac(0), payload))?;
        }
        anyhow::Ok(())
    };
    both(place, ask, echo)
}

/// Returns the times of `count` round trips of messages, by blocking calls that busy-poll for up to
/// `spin` before they sleep.
pub fn message_trips(
    hop: &Hop,
    place: Place,
    settings: &Settings,
    bytes: usize,
    count: u64,
    spin: Duration,
) -> anyhow::Result<Vec<Duration>> {
    let [here, there] = Post::open_both(hop, settings, spin)?;
    let count = count + WARM_UP;
    let ask = || {
        let one = |number| {
            let message: Arc<[u8]> = content(number, bytes).into();
            let begin = Instant::now();
            here.send(&message)?;
            let back = here.receive(bytes)?;
            let time = begin.elapsed();
            ensure!(back[..] == message[..], "a message came back changed");
            Ok(time)
        };
        let times = (0..count).map(one).skip(WARM_UP as usize).collect();
        here.settle()?;
        times
    };
    let echo = || {
        for _ in 0..count {
            let message = there.receive(bytes)?;
            there.send(&message.into())?;
        }
        there.settle()
    };
    both(place, ask, echo)
}

fn both<T: Send>(
    place: Place,
    ask: impl FnOnce() -> anyhow::Result<T> + Send,
    echo: impl FnOnce() -> anyhow::Result<()> + Send,
) -> anyhow::Result<T> {
    thread::scope(|scope| {
        let echo = place.spawn(scope, 1, echo);
        let ask = place.spawn(scope, 0, ask);
        let asked = ask.join().expect("who asks does not panic");
        echo.join().expect("the echo does not panic")?;
        asked
    })
}

/// Number of different messages in a stream.
const VARIETY: u64 = 8;
const AHEAD: usize = 4;

fn timed<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, Duration)> {
    let clock = || ClockId::CLOCK_THREAD_CPUTIME_ID.now().map(Duration::from);
    let before = clock()?;
    let result = work()?;
    Ok((result, clock()? - before))
}

#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Frames with bytes of messages, without repetitions.
    pub rate: Rate,
    pub bytes_per_second: f64,
    /// Statistics of the sender's mailbox and port.
    pub sender: (MailboxStats, Counters),
    /// Statistics of the receiver's mailbox and port.
    pub receiver: (MailboxStats, Counters),
}

/// Sends messages for a time, to posted receives, and checks every byte.
pub fn stream(hop: &Hop, bytes: usize, time: Duration, spin: Duration) -> anyhow::Result<Passed> {
    let [here, there] = Post::open_both(hop, &Settings::default(), spin)?;
    let variety: Vec<Arc<[u8]>> = (0..VARIETY)
        .map(|number| content(number, bytes).into())
        .collect();
    let receive = || {
        let mut number = 0;
        there.receive_many(bytes, AHEAD, |message| {
            if message.is_empty() {
                return Ok(false);
            }
            ensure!(
                message[..] == variety[number % variety.len()][..],
                "message {number} arrived changed"
            );
            number += 1;
            Ok(true)
        })
    };
    let send = || {
        let (begin, mut sent) = (Instant::now(), 0_usize);
        while begin.elapsed() < time {
            here.send(&variety[sent % variety.len()])?;
            sent += 1;
        }
        here.send(&Arc::from([]))?;
        here.settle()?;
        Ok((sent, begin.elapsed()))
    };
    let ((sent, time), sender_cpu, receiver_cpu) = thread::scope(|scope| {
        let receiver = scope.spawn(|| timed(receive));
        let (sent, sender_cpu) = scope
            .spawn(|| timed(send))
            .join()
            .expect("the sender does not panic")?;
        let ((), receiver_cpu) = receiver.join().expect("the receiver does not panic")?;
        anyhow::Ok((sent, sender_cpu, receiver_cpu))
    })?;
    let (sender, receiver) = (here.counted()?, there.counted()?);
    let frames = sender.0.pushes_sent + sender.0.pulls_sent;
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / frames.max(1) as f64;
    let rate = Rate {
        frames_per_second: frames as f64 / time.as_secs_f64(),
        sender_micros: micros(sender_cpu),
        receiver_micros: micros(receiver_cpu),
        lost: 0.0,
    };
    Ok(Passed {
        rate,
        bytes_per_second: (sent * bytes) as f64 / time.as_secs_f64(),
        sender,
        receiver,
    })
}
