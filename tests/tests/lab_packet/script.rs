//! A machine that follows a test's script and records its events.

use super::network::ETHER_TYPE;
use ethbcast_transport::packet::Port;
use ethbcast_transport::{Deadline, Instant, Link, MacAddr, Machine, Timer};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

/// Moment, by a loop's own clock, at which it gives up.
pub const GIVES_UP: Instant = Instant::from_nanos(60_000_000_000);

#[derive(Default)]
pub struct Script {
    pub outgoing: VecDeque<Vec<u8>>,
    pub received: Vec<Vec<u8>>,
    /// Fires then, and again every `period` if set.
    pub deadline: Option<Instant>,
    pub period: Option<Duration>,
    pub lateness: Vec<Duration>,
    pub urgent: bool,
}

impl Script {
    pub fn sending(frames: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Script { outgoing: frames.into_iter().collect(), ..Script::default() }
    }
}

impl Machine for Script {
    fn handle_frame(&mut self, _now: Instant, frame: &[u8]) {
        self.received.push(frame.to_vec());
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(at) = self.deadline.filter(|&at| at <= now) {
            self.lateness.push(now.since(at));
            self.deadline = self.period.map(|period| now + period);
        }
    }

    fn poll_transmit(&mut self, _now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let frame = self.outgoing.pop_front()?;
        buffer[..frame.len()].copy_from_slice(&frame);
        Some(frame.len())
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        // A loop without other deadlines has a turn, too.
        let at = self.deadline.map_or(GIVES_UP, |at| at.min(GIVES_UP));
        Some(Deadline { at, why: Timer::HEARTBEAT })
    }

    fn is_urgent(&self) -> bool {
        self.urgent
    }
}

pub fn until(is_over: bool, now: Instant) -> ControlFlow<()> {
    if is_over || now >= GIVES_UP { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// A frame of the tests' EtherType from an arbitrary address; its payload is its number and then
/// zeros.
pub fn frame(to: MacAddr, number: u32, payload_bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; payload_bytes];
    let digits = payload_bytes.min(4);
    payload[..digits].copy_from_slice(&number.to_be_bytes()[4 - digits..]);
    raw_frame(to, &ETHER_TYPE.octets(), &payload)
}

pub fn raw_frame(to: MacAddr, types: &[u8], payload: &[u8]) -> Vec<u8> {
    let from = [2, 0, 0, 0, 0, 9];
    [&to.octets()[..], &from, types, payload].concat()
}

pub fn numbers(frames: &[Vec<u8>]) -> Vec<u32> {
    let number = |frame: &Vec<u8>| u32::from_be_bytes(frame[14..18].try_into().expect("four bytes"));
    frames.iter().map(number).collect()
}

pub fn send(port: &mut Port, frames: impl IntoIterator<Item = Vec<u8>>) {
    let mut script = Script::sending(frames);
    while port.transmit(Instant::START, &mut script).expect("the interface is up").frames > 0 {}
    assert!(script.outgoing.is_empty(), "the kernel had no room for {} frames", script.outgoing.len());
}

/// Idle time after which all frames have arrived, with a margin for a kernel that has other work.
const QUIET_MILLIS: u32 = 100;
/// Idle time after which no frame is expected at all.
const NOTHING_MILLIS: u32 = 1000;

pub fn collect(port: &mut Port) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut quiet = 0;
    while quiet < if frames.is_empty() { NOTHING_MILLIS } else { QUIET_MILLIS } {
        if port.receive(|frame| frames.push(frame.to_vec())) == 0 {
            std::thread::sleep(Duration::from_millis(1));
            quiet += 1;
        } else {
            quiet = 0;
        }
    }
    frames
}
