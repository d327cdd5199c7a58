//! Benchmark of this project's AF_PACKET sockets against the kernel's other interfaces for raw
//! frames. Each is measured with the same peer.
//!
//! The bench tries every way of receiving beside the port's way of sending, then every way of
//! sending beside the port's way of receiving. On a veth the sender's CPU time includes carrying
//! the frame to the receiver's socket.

use std::fmt;
use std::io::{ErrorKind, IoSliceMut};
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use ethbcast_bench::cluster::{INTERFACE, bring_up_as};
use ethbcast_bench::process::Interrupt;
use ethbcast_bench::report::Table;
use ethbcast_lab::{Lab, LabConfig};
use ethbcast_planning::topology::Topology;
use ethbcast_transport::packet::{Clock, Interface, Port, PortConfig, Waker, drive};
use ethbcast_transport::{Deadline, Instant, MacAddr, Machine, Timer};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, sendto, setsockopt, sockopt};
use nix::time::ClockId;
use pnet::datalink::{self, Channel, DataLinkReceiver, DataLinkSender};

use crate::rings::{
    self, BoundProtocol, ETHER_TYPE, LOOK_EVERY, Receiver, Sender, packet_socket, wait,
};

/// Bytes of an Ethernet header.
pub const HEADER_BYTES: usize = 14;

/// Makes a frame for the bench, from an arbitrary address.
fn frame_to(mac: MacAddr, payload_bytes: usize) -> Vec<u8> {
    let from = [2, 0, 0, 0, 0, 1];
    let header = [&mac.octets()[..], &from, &ETHER_TYPE.octets()].concat();
    [header, vec![0x5a; payload_bytes]].concat()
}

/// Options of the comparison.
#[derive(Clone, Debug, clap::Args)]
pub struct Drivers {
    /// Time that each of them sends, in milliseconds.
    #[arg(long, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(50..=600_000))]
    milliseconds: u64,
    /// MTUs.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1500,9000,65535",
        value_parser = clap::value_parser!(u32).range(576..=65_535)
    )]
    mtu: Vec<u32>,
}

pub fn drivers(arguments: &Drivers, interrupt: &Interrupt) -> anyhow::Result<String> {
    let mut table = Table::under(
        "MTU, receiving, sending, frames/s, Gbit/s, send µs, receive µs, lost %, remark",
    );
    let others = Sending::ALL
        .into_iter()
        .skip(1)
        .map(|sending| (Receiving::Ring, sending));
    let pairs: Vec<_> = Receiving::ALL
        .into_iter()
        .map(|receiving| (receiving, Sending::Port))
        .chain(others)
        .collect();
    for &mtu_bytes in &arguments.mtu {
        let topology = Topology::single_switch(["n0", "n1"].map(String::from))?;
        let name = format!("drivers{}", std::process::id());
        let lab = bring_up_as(LabConfig {
            name,
            mtu_bytes,
            ..LabConfig::new(topology)
        })?;
        for &(receiving, sending) in &pairs {
            interrupt.check()?;
            let time = Duration::from_millis(arguments.milliseconds);
            let (figures, remark) =
                match measure(&lab, receiving, sending, mtu_bytes as usize, time) {
                    Ok(rate) => {
                        let gigabits = rate.frames_per_second * f64::from(mtu_bytes + 14) * 8e-9;
                        let figures = [
                            format!("{:.0}", rate.frames_per_second),
                            format!("{gigabits:.2}"),
                            format!("{:.2}", rate.sender_micros),
                            format!("{:.2}", rate.receiver_micros),
                            format!("{:.1}", rate.lost * 100.0),
                        ];
                        (figures, String::new())
                    }
                    Err(error) => (
                        std::array::from_fn(|_| "-".to_owned()),
                        format!("{error:#}"),
                    ),
                };
            let named = [
                mtu_bytes.to_string(),
                receiving.to_string(),
                sending.to_string(),
            ];
            table.push([&named[..], &figures, &[remark]].concat());
        }
    }
    Ok(format!(
        "{} ms each, one hop:\n\n{}\nframes/s: received; µs: CPU time of the thread for each frame sent or received.\n",
        arguments.milliseconds,
        table.aligned()
    ))
}

const WARM_UP: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiving {
    /// The port's default: a ring of slots, with naps while frames are dense.
    Ring,
    /// The ring without naps: woken for each frame.
    RingWithoutNaps,
    /// The ring with busy polling for 100 µs before it sleeps.
    RingBusyPoll,
    /// A ring of blocks (TPACKET_V3).
    Blocks,
    /// `recvmmsg` with the default socket buffer.
    Calls,
    /// `recvmmsg` with a buffer as large as the ring.
    CallsLargeBuffer,
    /// `pnet::datalink` with its defaults, the baseline.
    Pnet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    Port,
    /// The port past the queueing discipline.
    PortBypass,
    Calls,
    /// A ring of frames (PACKET_TX_RING).
    Ring,
    /// `pnet::datalink` with its defaults, the baseline.
    Pnet,
}

impl Receiving {
    pub const ALL: [Receiving; 7] = [
        Receiving::Ring,
        Receiving::RingWithoutNaps,
        Receiving::RingBusyPoll,
        Receiving::Blocks,
        Receiving::Calls,
        Receiving::CallsLargeBuffer,
        Receiving::Pnet,
    ];
}

impl Sending {
    pub const ALL: [Sending; 5] = [
        Sending::Port,
        Sending::PortBypass,
        Sending::Calls,
        Sending::Ring,
        Sending::Pnet,
    ];
}

impl fmt::Display for Receiving {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Receiving::Ring => "V2 ring",
            Receiving::RingWithoutNaps => "V2 ring, no naps",
            Receiving::RingBusyPoll => "V2 ring, busy poll",
            Receiving::Blocks => "V3 ring",
            Receiving::Calls => "recvmmsg",
            Receiving::CallsLargeBuffer => "recvmmsg, SO_RCVBUF 8 MiB",
            Receiving::Pnet => "pnet",
        })
    }
}

impl fmt::Display for Sending {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Sending::Port => "sendmmsg",
            Sending::PortBypass => "sendmmsg, qdisc bypass",
            Sending::Calls => "sendto",
            Sending::Ring => "TX ring",
            Sending::Pnet => "pnet",
        })
    }
}

fn open_receiver(how: Receiving) -> anyhow::Result<Box<dyn Receiver>> {
    Ok(match how {
        Receiving::Ring => Box::new(PortEnd::open(|_| {})?),
        Receiving::RingWithoutNaps => Box::new(PortEnd::open(|config| {
            config.receive_coalescing = Duration::ZERO
        })?),
        Receiving::RingBusyPoll => Box::new(PortEnd::open(|_| {})?.urgent()),
        Receiving::Blocks => Box::new(rings::Blocks::open()?),
        Receiving::Calls => Box::new(Calls::open(None)?),
        Receiving::CallsLargeBuffer => Box::new(Calls::open(Some(8 << 20))?),
        Receiving::Pnet => Box::new(PnetEnd::open()?),
    })
}

fn open_sender(how: Sending) -> anyhow::Result<Box<dyn Sender>> {
    Ok(match how {
        Sending::Port => Box::new(PortEnd::open(|_| {})?),
        Sending::PortBypass => Box::new(PortEnd::open(|config| config.qdisc_bypass = true)?),
        Sending::Calls => Box::new(Calls::open(None)?),
        Sending::Ring => Box::new(rings::TransmitRing::open()?),
        Sending::Pnet => Box::new(PnetEnd::open()?),
    })
}

#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Frames per second that arrived.
    pub frames_per_second: f64,
    /// CPU time of the sending thread for each frame sent, in microseconds, including the kernel's
    /// delivery to the other host.
    pub sender_micros: f64,
    /// CPU time of the receiving thread for each frame received, in microseconds.
    pub receiver_micros: f64,
    /// Share of the frames sent that did not arrive.
    pub lost: f64,
}

pub fn measure(
    lab: &Lab,
    receiving: Receiving,
    sending: Sending,
    mtu_bytes: usize,
    time: Duration,
) -> anyhow::Result<Rate> {
    let hosts = lab.hosts();
    let (from, to) = (
        hosts.first().context("a lab has hosts")?,
        hosts.get(1).context("and a second one")?,
    );
    let mac = lab.run_on(to, || Interface::find(Some(INTERFACE)))??.mac;
    let receiver = lab.run_on(to, || open_receiver(receiving))??;
    let sender = lab.run_on(from, || open_sender(sending))??;
    let frame = frame_to(mac, mtu_bytes);
    let (sent, received) = (AtomicU64::new(0), AtomicU64::new(0));
    let (over, all_over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let receiver = scope.spawn(|| timed(&received, || receiver.receive(&all_over, &received)));
        let sender = scope.spawn(|| timed(&sent, || sender.send(&frame, &over, &sent)));
        thread::sleep(WARM_UP);
        let (began, before) = (std::time::Instant::now(), received.load(Ordering::Relaxed));
        thread::sleep(time);
        let (seconds, after) = (
            began.elapsed().as_secs_f64(),
            received.load(Ordering::Relaxed),
        );
        over.store(true, Ordering::Release);
        let sender_micros = sender.join().expect("an end does not panic")?;
        // Frames in flight still arrive.
        thread::sleep(LOOK_EVERY * 2);
        all_over.store(true, Ordering::Release);
        let receiver_micros = receiver.join().expect("an end does not panic")?;
        let [sent, received] = [&sent, &received].map(|count| count.load(Ordering::Relaxed) as f64);
        Ok(Rate {
            frames_per_second: (after - before) as f64 / seconds,
            sender_micros,
            receiver_micros,
            lost: 1.0 - received / sent.max(1.0),
        })
    })
}

fn timed(count: &AtomicU64, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let clock = || ClockId::CLOCK_THREAD_CPUTIME_ID.now().map(Duration::from);
    let before = clock()?;
    work()?;
    Ok((clock()? - before).as_secs_f64() * 1e6 / count.load(Ordering::Relaxed).max(1) as f64)
}

struct PortEnd {
    port: Port,
    is_urgent: bool,
}

impl PortEnd {
    fn open(change: impl FnOnce(&mut PortConfig)) -> anyhow::Result<Self> {
        let mut config = PortConfig::new(ETHER_TYPE);
        change(&mut config);
        Ok(Self {
            port: Port::open(&Interface::find(Some(INTERFACE))?, config)?,
            is_urgent: false,
        })
    }

    fn urgent(self) -> Self {
        Self {
            is_urgent: true,
            ..self
        }
    }

    fn run(
        mut self,
        frame: Option<&[u8]>,
        over: &AtomicBool,
        count: &AtomicU64,
    ) -> anyhow::Result<()> {
        let mut machine = Repeat {
            frame,
            is_urgent: self.is_urgent,
            count,
            look_at: Instant::START,
        };
        drive(
            &mut self.port,
            &mut machine,
            &Waker::new()?,
            &Clock::start(),
            |machine, _| {
                if !over.load(Ordering::Acquire) {
                    return ControlFlow::Continue(());
                }
                machine.frame = None;
                ControlFlow::Break(())
            },
        )?;
        Ok(())
    }
}

impl Receiver for PortEnd {
    fn receive(self: Box<Self>, over: &AtomicBool, count: &AtomicU64) -> anyhow::Result<()> {
        self.run(None, over, count)
    }
}

impl Sender for PortEnd {
    fn send(
        self: Box<Self>,
        frame: &[u8],
        over: &AtomicBool,
        count: &AtomicU64,
    ) -> anyhow::Result<()> {
        self.run(Some(frame), over, count)
    }
}

struct Repeat<'a> {
    frame: Option<&'a [u8]>,
    is_urgent: bool,
    count: &'a AtomicU64,
    look_at: Instant,
}

impl Machine for Repeat<'_> {
    fn handle_frame(&mut self, _: Instant, _: &[u8]) {
        self.count
            .fetch_add(u64::from(self.frame.is_none()), Ordering::Relaxed);
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
        }
    }

    fn poll_transmit(&mut self, _: Instant, buffer: &mut [u8]) -> Option<usize> {
        let frame = self.frame?;
        buffer[..frame.len()].copy_from_slice(frame);
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(frame.len())
    }

    fn poll_timeout(&self, _: Instant) -> Option<Deadline> {
        Some(Deadline {
            at: self.look_at,
            why: Timer("look"),
        })
    }

    fn is_urgent(&self) -> bool {
        self.is_urgent
    }
}

const BATCH: usize = 64;
const FRAME_BYTES: usize = 65_535 + 14;

struct Calls {
    socket: OwnedFd,
}

impl Calls {
    fn open(buffer_bytes: Option<usize>) -> anyhow::Result<Self> {
        let (socket, interface) = packet_socket()?;
        if let Some(bytes) = buffer_bytes {
            setsockopt(&socket, sockopt::RcvBufForce, &bytes)
                .context("setting the receive buffer")?;
        }
        BoundProtocol::Ours.bind(&socket, interface)?;
        Ok(Self { socket })
    }
}

impl Receiver for Calls {
    fn receive(self: Box<Self>, over: &AtomicBool, count: &AtomicU64) -> anyhow::Result<()> {
        let count = |frames| _ = count.fetch_add(frames, Ordering::Relaxed);
        let mut memory = vec![0; BATCH * FRAME_BYTES];
        let mut headers = MultiHeaders::<()>::preallocate(BATCH, None);
        while !over.load(Ordering::Acquire) {
            let mut places: Vec<_> = memory
                .chunks_exact_mut(FRAME_BYTES)
                .map(|place| [IoSliceMut::new(place)])
                .collect();
            let number = self.socket.as_raw_fd();
            let received = recvmmsg(
                number,
                &mut headers,
                places.iter_mut(),
                MsgFlags::MSG_DONTWAIT,
                None,
            );
            match received.map(Iterator::count) {
                Ok(frames) => count(frames as u64),
                Err(Errno::EAGAIN) => wait(&self.socket)?,
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno).context("receiving"),
            }
        }
        Ok(())
    }
}

impl Sender for Calls {
    fn send(
        self: Box<Self>,
        frame: &[u8],
        over: &AtomicBool,
        count: &AtomicU64,
    ) -> anyhow::Result<()> {
        let count = |frames| _ = count.fetch_add(frames, Ordering::Relaxed);
        while !over.load(Ordering::Acquire) {
            // The socket is bound to the interface; the frame has the addresses.
            match sendto(self.socket.as_raw_fd(), frame, &(), MsgFlags::empty()) {
                Ok(_) => count(1),
                Err(Errno::ENOBUFS | Errno::EINTR) => {}
                Err(errno) => return Err(errno).context("sending"),
            }
        }
        Ok(())
    }
}

struct PnetEnd {
    sender: Box<dyn DataLinkSender>,
    receiver: Box<dyn DataLinkReceiver>,
}

impl PnetEnd {
    fn open() -> anyhow::Result<Self> {
        let interface = datalink::interfaces()
            .into_iter()
            .find(|interface| interface.name == INTERFACE);
        let interface = interface.context("the lab's host has no interface")?;
        let config = datalink::Config {
            read_timeout: Some(LOOK_EVERY),
            ..datalink::Config::default()
        };
        match datalink::channel(&interface, config)? {
            Channel::Ethernet(sender, receiver) => Ok(Self { sender, receiver }),
            _ => bail!("pnet opened a channel that is not for Ethernet frames"),
        }
    }
}

impl Receiver for PnetEnd {
    fn receive(mut self: Box<Self>, over: &AtomicBool, count: &AtomicU64) -> anyhow::Result<()> {
        while !over.load(Ordering::Acquire) {
            match self.receiver.next() {
                // It passes every frame, also those of others.
                Ok(frame)
                    if frame.get(HEADER_BYTES - 2..HEADER_BYTES) == Some(&ETHER_TYPE.octets()) =>
                {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                Err(error) => return Err(error).context("receiving through pnet"),
            }
        }
        Ok(())
    }
}

impl Sender for PnetEnd {
    fn send(
        mut self: Box<Self>,
        frame: &[u8],
        over: &AtomicBool,
        count: &AtomicU64,
    ) -> anyhow::Result<()> {
        while !over.load(Ordering::Acquire) {
            self.sender
                .send_to(frame, None)
                .context("pnet refused the frame")??;
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
