//! This project's port with its configuration.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ethbcast_transport::packet::{Clock, Interface, Port, PortConfig, Waker, drive};
use ethbcast_transport::{Deadline, Instant, Machine, Timer};

use super::{LOOK_EVERY, Receiver, Sender};
use crate::cluster::INTERFACE;
use crate::ends::ETHER_TYPE;

pub(super) struct PortEnd {
    port: Port,
    is_urgent: bool,
}

impl PortEnd {
    pub(super) fn open(change: impl FnOnce(&mut PortConfig)) -> anyhow::Result<Self> {
        let mut config = PortConfig::new(ETHER_TYPE);
        change(&mut config);
        Ok(Self { port: Port::open(&Interface::find(Some(INTERFACE))?, config)?, is_urgent: false })
    }

    pub(super) fn urgent(self) -> Self {
        Self { is_urgent: true, ..self }
    }

    fn run(mut self, frame: Option<&[u8]>, over: &AtomicBool, count: &AtomicU64) -> anyhow::Result<()> {
        let mut machine = Repeat { frame, is_urgent: self.is_urgent, count, look_at: Instant::START };
        drive(&mut self.port, &mut machine, &Waker::new()?, &Clock::start(), |machine, _| {
            if !over.load(Ordering::Acquire) {
                return ControlFlow::Continue(());
            }
            machine.frame = None;
            ControlFlow::Break(())
        })?;
        Ok(())
    }
}

impl Receiver for PortEnd {
    fn receive(self: Box<Self>, over: &AtomicBool, count: &AtomicU64) -> anyhow::Result<()> {
        self.run(None, over, count)
    }
}

impl Sender for PortEnd {
    fn send(self: Box<Self>, frame: &[u8], over: &AtomicBool, count: &AtomicU64) -> anyhow::Result<()> {
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
        self.count.fetch_add(u64::from(self.frame.is_none()), Ordering::Relaxed);
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
        Some(Deadline { at: self.look_at, why: Timer("look") })
    }

    fn is_urgent(&self) -> bool {
        self.is_urgent
    }
}
