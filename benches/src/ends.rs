//! Two drivers for frames on a host with one interface: this project's AF_PACKET driver and
//! `pnet::datalink`.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ethbcast_transport::packet::{Clock, Interface, Port, PortConfig, Waker, drive};
use ethbcast_transport::wire::EtherType;
use ethbcast_transport::{Deadline, MacAddr, Machine};
use pnet::datalink::{self, Channel, DataLinkReceiver, DataLinkSender};

use crate::cluster::INTERFACE;

/// A local experimental EtherType (IEEE 802), other than the tool's.
pub(crate) const ETHER_TYPE: EtherType = EtherType::new(0x88b6);

/// Bytes of an Ethernet header.
pub const HEADER_BYTES: usize = 14;

const READ_TIMEOUT: Duration = Duration::from_millis(20);

/// A driver: both of its ends.
pub trait End: Sized {
    /// Opens an end on this thread's host.
    ///
    /// # Errors
    /// Fails if there is no interface, or if the kernel refuses the socket.
    fn open() -> anyhow::Result<Self>;
    /// Sends copies of a frame for a time, as fast as it can; returns their number.
    ///
    /// # Errors
    /// Fails if the interface does.
    fn send(self, frame: &[u8], time: Duration) -> anyhow::Result<u64>;
    /// Counts arriving frames made by [`frame_to`] until `over` is set.
    ///
    /// # Errors
    /// Fails if the interface does.
    fn receive(self, over: &AtomicBool) -> anyhow::Result<u64>;
}

/// Makes a frame for the bench, from an arbitrary address.
pub fn frame_to(mac: MacAddr, payload_bytes: usize) -> Vec<u8> {
    let from = [2, 0, 0, 0, 0, 1];
    let header = [&mac.octets()[..], &from, &ETHER_TYPE.octets()].concat();
    debug_assert_eq!(header.len(), HEADER_BYTES);
    [header, vec![0x5a; payload_bytes]].concat()
}

/// Whether a frame is the bench's. The port filters frames already; pnet passes every frame.
fn is_ours(frame: &[u8]) -> bool {
    frame.get(HEADER_BYTES - 2..HEADER_BYTES) == Some(&ETHER_TYPE.octets())
}

pub struct OurEnd(Port);

#[derive(Default)]
struct Repeat<'a> {
    frame: &'a [u8],
    sent: u64,
    received: u64,
}

impl Machine for Repeat<'_> {
    fn handle_frame(&mut self, _: ethbcast_transport::Instant, frame: &[u8]) {
        self.received += u64::from(is_ours(frame));
    }

    fn handle_timeout(&mut self, _: ethbcast_transport::Instant) {}

    fn poll_transmit(&mut self, _: ethbcast_transport::Instant, buffer: &mut [u8]) -> Option<usize> {
        if self.frame.is_empty() {
            return None;
        }
        buffer[..self.frame.len()].copy_from_slice(self.frame);
        self.sent += 1;
        Some(self.frame.len())
    }

    fn poll_timeout(&self, _now: ethbcast_transport::Instant) -> Option<Deadline> {
        None
    }
}

impl End for OurEnd {
    fn open() -> anyhow::Result<Self> {
        Ok(Self(Port::open(&Interface::find(Some(INTERFACE))?, PortConfig::new(ETHER_TYPE))?))
    }

    fn send(mut self, frame: &[u8], time: Duration) -> anyhow::Result<u64> {
        let mut machine = Repeat { frame, ..Repeat::default() };
        let end = ethbcast_transport::Instant::START + time;
        drive(&mut self.0, &mut machine, &Waker::new()?, &Clock::start(), |machine, now| {
            if now < end {
                return ControlFlow::Continue(());
            }
            machine.frame = &[];
            ControlFlow::Break(())
        })?;
        Ok(self.0.counters().frames_sent)
    }

    fn receive(mut self, over: &AtomicBool) -> anyhow::Result<u64> {
        let mut machine = Repeat::default();
        let (port, waker) = (&mut self.0, Waker::new()?);
        thread::scope(|scope| {
            // On another thread, as in a program; it sleeps, and its time is not counted.
            scope.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    thread::sleep(READ_TIMEOUT);
                }
                waker.wake();
            });
            drive(port, &mut machine, &waker, &Clock::start(), |_, _| match over.load(Ordering::Acquire) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            })
        })?;
        Ok(machine.received)
    }
}

/// The baseline, with pnet's defaults.
pub struct PnetEnd {
    sender: Box<dyn DataLinkSender>,
    receiver: Box<dyn DataLinkReceiver>,
}

impl End for PnetEnd {
    fn open() -> anyhow::Result<Self> {
        let interface = datalink::interfaces().into_iter().find(|interface| interface.name == INTERFACE);
        let interface = interface.context("the lab's host has no interface")?;
        let config = datalink::Config { read_timeout: Some(READ_TIMEOUT), ..datalink::Config::default() };
        match datalink::channel(&interface, config)? {
            Channel::Ethernet(sender, receiver) => Ok(Self { sender, receiver }),
            _ => bail!("pnet opened a channel that is not for Ethernet frames"),
        }
    }

    fn send(mut self, frame: &[u8], time: Duration) -> anyhow::Result<u64> {
        let end = Instant::now() + time;
        let mut sent = 0;
        while Instant::now() < end {
            self.sender.send_to(frame, None).context("pnet refused the frame")??;
            sent += 1;
        }
        Ok(sent)
    }

    fn receive(mut self, over: &AtomicBool) -> anyhow::Result<u64> {
        let mut received = 0;
        while !over.load(Ordering::Acquire) {
            match self.receiver.next() {
                Ok(frame) => received += u64::from(is_ours(frame)),
                Err(error) if error.kind() == ErrorKind::TimedOut => {}
                Err(error) => return Err(error).context("receiving through pnet"),
            }
        }
        Ok(received)
    }
}
