//! Tests of the simulator itself, with machines of a few lines.

mod drivers;
mod faulty;
mod hosts;
mod running;
mod speed;
mod switching;
mod timing;

use std::collections::VecDeque;

use super::{Cable, HostSettings, Network, Simulation, host_mac};
use crate::{Deadline, Instant, MacAddr, Machine};

const GROUP: MacAddr = MacAddr::new(0x03, 0, 0, 0, 0, 1);

const LATE: Instant = Instant::from_nanos(1_000_000_000_000);

#[derive(Clone, Debug, Default, PartialEq)]
struct Postbox {
    outbox: VecDeque<Vec<u8>>,
    inbox: Vec<(Instant, Vec<u8>)>,
    deadline: Option<Deadline>,
    timeouts: Vec<Instant>,
}

impl Postbox {
    fn sending(frames: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Postbox { outbox: frames.into_iter().collect(), ..Postbox::default() }
    }

    fn arrivals(&self) -> Vec<u64> {
        self.inbox.iter().map(|(at, _)| at.as_nanos()).collect()
    }

    fn labels(&self) -> Vec<u8> {
        self.inbox.iter().map(|(_, frame)| frame[14]).collect()
    }
}

impl Machine for Postbox {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.inbox.push((now, frame.to_vec()));
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.timeouts.push(now);
        self.deadline = self.deadline.filter(|deadline| deadline.at > now);
    }

    fn poll_transmit(&mut self, _: Instant, buffer: &mut [u8]) -> Option<usize> {
        let frame = self.outbox.pop_front()?;
        buffer[..frame.len()].copy_from_slice(&frame);
        Some(frame.len())
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        self.deadline
    }
}

fn frame(from: usize, to: MacAddr, label: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![label; length];
    frame[..6].copy_from_slice(&to.octets());
    frame[6..12].copy_from_slice(&host_mac(from).octets());
    frame[12..14].copy_from_slice(&[0x88, 0xB5]);
    frame
}

fn full_frames(from: usize, to: MacAddr, count: u8) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(move |label| frame(from, to, label, 1514))
}

fn postboxes(hosts: usize, senders: impl IntoIterator<Item = Postbox>) -> Vec<Postbox> {
    let mut boxes: Vec<Postbox> = senders.into_iter().collect();
    boxes.resize(hosts, Postbox::default());
    boxes
}

fn star(hosts: usize) -> Network {
    Network::star(hosts, Cable::GIGABIT, &member())
}

fn member() -> HostSettings {
    HostSettings { groups: vec![GROUP], ..HostSettings::default() }
}

fn idle<M>(_: usize, _: &mut M, _: Instant) -> Option<Instant> {
    None
}

fn micros(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

fn settle<F: super::Faults>(simulation: &mut Simulation<Postbox, F>) {
    let outcome = simulation.run(LATE, idle);
    assert!(outcome.is_quiet(), "{outcome:?}");
}
