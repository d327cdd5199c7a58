//! A machine that does what a test has written down, and notes what happens to it.

use super::network::ETHER_TYPE;
use ethbcast_transport::packet::Port;
use ethbcast_transport::{Deadline, Instant, Link, MacAddr, Machine, Timer};
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Duration;

/// When a loop gives up, by its own clock: what has not come by then never comes.
pub const GIVES_UP: Instant = Instant::from_nanos(60_000_000_000);

/// Frames to send and timers to run, on one side; frames and timeouts that came, on the other.
#[derive(Default)]
pub struct Script {
    pub outgoing: VecDeque<Vec<u8>>,
    pub received: Vec<Vec<u8>>,
    /// Fires then, and again every `period` if there is one.
    pub deadline: Option<Instant>,
    pub period: Option<Duration>,
    /// How late each timeout came.
    pub lateness: Vec<Duration>,
    /// Somebody waits for each frame.
    pub urgent: bool,
}

impl Script {
    /// A script that sends `frames`.
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
        // A loop that only waits for what never comes has a turn, too.
        let at = self.deadline.map_or(GIVES_UP, |at| at.min(GIVES_UP));
        Some(Deadline { at, why: Timer::HEARTBEAT })
    }

    fn is_urgent(&self) -> bool {
        self.urgent
    }
}

/// Whether a loop goes on: until it is over, and not for ever.
pub fn until(is_over: bool, now: Instant) -> ControlFlow<()> {
    if is_over || now >= GIVES_UP { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// A frame of the tests' EtherType from nobody in particular; its number and then zeros are the payload.
pub fn frame(to: MacAddr, number: u32, payload_bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; payload_bytes];
    let digits = payload_bytes.min(4);
    payload[..digits].copy_from_slice(&number.to_be_bytes()[4 - digits..]);
    raw_frame(to, &ETHER_TYPE.octets(), &payload)
}

/// A frame with anything behind the addresses.
pub fn raw_frame(to: MacAddr, types: &[u8], payload: &[u8]) -> Vec<u8> {
    let from = [2, 0, 0, 0, 0, 9];
    [&to.octets()[..], &from, types, payload].concat()
}

/// Numbers of the frames made by [`frame`].
pub fn numbers(frames: &[Vec<u8>]) -> Vec<u32> {
    let number = |frame: &Vec<u8>| u32::from_be_bytes(frame[14..18].try_into().expect("four bytes"));
    frames.iter().map(number).collect()
}

/// Sends frames over a port that has room for them.
pub fn send(port: &mut Port, frames: impl IntoIterator<Item = Vec<u8>>) {
    let mut script = Script::sending(frames);
    while port.transmit(Instant::START, &mut script).expect("the interface is up").frames > 0 {}
    assert!(script.outgoing.is_empty(), "the kernel had no room for {} frames", script.outgoing.len());
}

/// How long nothing comes once all has come, also where a kernel that has other work hands frames on late.
const QUIET_MILLIS: u32 = 100;
/// How long nothing comes where nothing is to come.
const NOTHING_MILLIS: u32 = 1000;

/// Takes what has arrived, until nothing more comes for a while.
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
