//! A simulated host in the tests of cost in frames: its streams, its clock, and counts of its
//! frames.

use ethbcast_transport::sim::host_mac;
use ethbcast_transport::stream::{Ending, Stream};
use ethbcast_transport::wire::{self, Flags, Kind};
use ethbcast_transport::{Deadline, Instant, Machine, Part};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    pub ahead_nanos: u64,
    /// Drift in parts per million; positive if it runs fast.
    pub faster_ppm: i64,
}

impl Clock {
    pub fn local(self, at: Instant) -> Instant {
        let nanos = i128::from(at.as_nanos());
        Instant::from_nanos(self.ahead_nanos + (nanos + nanos * i128::from(self.faster_ppm) / 1_000_000) as u64)
    }

    fn global(self, local: Instant) -> Instant {
        let nanos = i128::from(local.as_nanos().saturating_sub(self.ahead_nanos));
        let mut at = Instant::from_nanos((nanos * 1_000_000 / i128::from(1_000_000 + self.faster_ppm)) as u64);
        while self.local(at) < local {
            at = Instant::from_nanos(at.as_nanos() + 1);
        }
        at
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub new_to_one: u64,
    pub new_to_all: u64,
    pub again_to_one: u64,
    pub again_to_all: u64,
    pub acks: u64,
    pub asked_one: u64,
    pub asked_all: u64,
    pub urgent: u64,
}

impl Sent {
    fn count(&mut self, frame: &[u8]) {
        let to_all = frame[0] & 1 == 1;
        let header = wire::parse(frame).expect("a stream's frame").header;
        let again = header.flags.has(Flags::RESENT);
        *match (header.kind, again, to_all) {
            (Kind::DATA, false, false) => &mut self.new_to_one,
            (Kind::DATA, false, true) => &mut self.new_to_all,
            (Kind::DATA, true, false) => &mut self.again_to_one,
            (Kind::DATA, true, true) => &mut self.again_to_all,
            (Kind::HEARTBEAT, _, false) => &mut self.asked_one,
            (Kind::HEARTBEAT, _, true) => &mut self.asked_all,
            _ => &mut self.acks,
        } += 1;
        self.urgent += u64::from(header.kind == Kind::DATA && header.flags.has(Flags::ACK_NOW));
    }

    pub fn figures(&self) -> [u64; 8] {
        let Sent { new_to_one, new_to_all, again_to_one, again_to_all, acks, asked_one, asked_all, urgent } = *self;
        [new_to_one, new_to_all, again_to_one, again_to_all, acks, asked_one, asked_all, urgent]
    }
}

pub struct Host {
    pub streams: Vec<Stream>,
    pub clock: Clock,
    pub sent: Sent,
    outbox: VecDeque<Vec<u8>>,
}

impl Host {
    pub fn new(stream: Stream, clock: Clock) -> Host {
        Host { streams: vec![stream], clock, sent: Sent::default(), outbox: VecDeque::new() }
    }

    pub fn write_again(&mut self, now: Instant, to: usize, (sequence, payload): (u64, &[u8]), ending: Ending) {
        let mut buffer = vec![0; 2000];
        let stream = self.streams.last_mut().expect("a host has a stream");
        let length = stream.write_again(now, &mut buffer, host_mac(to), (sequence, payload, ending));
        buffer.truncate(length);
        self.outbox.push_back(buffer);
    }
}

impl Machine for Host {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        let now = self.clock.local(now);
        match wire::parse(frame) {
            Ok(frame) => self.streams.iter_mut().for_each(|stream| stream.handle_frame(now, &frame)),
            Err(reject) => self.streams[0].handle_reject(reject),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let now = self.clock.local(now);
        self.streams.iter_mut().for_each(|stream| stream.handle_timeout(now));
    }

    fn poll_transmit(&mut self, now: Instant, buffer: &mut [u8]) -> Option<usize> {
        let now = self.clock.local(now);
        let length = match self.outbox.pop_front() {
            Some(frame) => {
                buffer[..frame.len()].copy_from_slice(&frame);
                frame.len()
            }
            None => self.streams.iter_mut().find_map(|stream| stream.poll_transmit(now, buffer))?,
        };
        self.sent.count(&buffer[..length]);
        Some(length)
    }

    fn poll_timeout(&self, now: Instant) -> Option<Deadline> {
        let local = self.clock.local(now);
        let deadline = self.streams.iter().filter_map(|stream| stream.poll_timeout(local)).min()?;
        Some(Deadline { at: self.clock.global(deadline.at), ..deadline })
    }
}
