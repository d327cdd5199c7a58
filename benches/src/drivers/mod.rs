//! Ways of sending and receiving frames: the port's own and others, over one hop, each beside a
//! fixed other end.

mod plain;
mod port;
mod rings;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use ethbcast_lab::Lab;
use ethbcast_transport::packet::Interface;
use nix::time::ClockId;

use crate::cluster::INTERFACE;
use crate::ends::frame_to;

const WARM_UP: Duration = Duration::from_millis(200);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A way to receive frames.
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
}

/// A way to send frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    Port,
    /// The port past the queueing discipline.
    PortBypass,
    Calls,
    /// A ring of frames (PACKET_TX_RING).
    Ring,
}

impl Receiving {
    pub const ALL: [Receiving; 6] = [
        Receiving::Ring,
        Receiving::RingWithoutNaps,
        Receiving::RingBusyPoll,
        Receiving::Blocks,
        Receiving::Calls,
        Receiving::CallsLargeBuffer,
    ];
}

impl Sending {
    pub const ALL: [Sending; 4] = [Sending::Port, Sending::PortBypass, Sending::Calls, Sending::Ring];
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
        })
    }
}

trait Receiver: Send {
    fn receive(self: Box<Self>, over: &AtomicBool, count: &AtomicU64) -> anyhow::Result<()>;
}

trait Sender: Send {
    fn send(self: Box<Self>, frame: &[u8], over: &AtomicBool, count: &AtomicU64) -> anyhow::Result<()>;
}

fn open_receiver(how: Receiving) -> anyhow::Result<Box<dyn Receiver>> {
    Ok(match how {
        Receiving::Ring => Box::new(port::PortEnd::open(|_| {})?),
        Receiving::RingWithoutNaps => {
            Box::new(port::PortEnd::open(|config| config.receive_coalescing = Duration::ZERO)?)
        }
        Receiving::RingBusyPoll => Box::new(port::PortEnd::open(|_| {})?.urgent()),
        Receiving::Blocks => Box::new(rings::Blocks::open()?),
        Receiving::Calls => Box::new(plain::Calls::open(None)?),
        Receiving::CallsLargeBuffer => Box::new(plain::Calls::open(Some(8 << 20))?),
    })
}

fn open_sender(how: Sending) -> anyhow::Result<Box<dyn Sender>> {
    Ok(match how {
        Sending::Port => Box::new(port::PortEnd::open(|_| {})?),
        Sending::PortBypass => Box::new(port::PortEnd::open(|config| config.qdisc_bypass = true)?),
        Sending::Calls => Box::new(plain::Calls::open(None)?),
        Sending::Ring => Box::new(rings::TransmitRing::open()?),
    })
}

/// Result of a run over the hop.
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

/// Sends frames of this MTU from the lab's first host to its second for a time.
///
/// # Errors
/// Fails if an end cannot be opened, or fails.
pub fn measure(
    lab: &Lab,
    receiving: Receiving,
    sending: Sending,
    mtu_bytes: usize,
    time: Duration,
) -> anyhow::Result<Rate> {
    let hosts = lab.hosts();
    let (from, to) = (hosts.first().context("a lab has hosts")?, hosts.get(1).context("and a second one")?);
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
        let (began, before) = (Instant::now(), received.load(Ordering::Relaxed));
        thread::sleep(time);
        let (seconds, after) = (began.elapsed().as_secs_f64(), received.load(Ordering::Relaxed));
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
