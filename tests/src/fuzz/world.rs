//! A few hosts without a simulator: frames are delivered directly, and an input decides their fate.

use super::script::Script;
use crate::sealing::make_checksum_fit;
use ethbcast_transport::wire::{EtherType, Identity, Kind, Rank, StreamId, parse};
use ethbcast_transport::{Instant, MacAddr, Machine};
use std::collections::VecDeque;
use std::time::Duration;

pub(super) trait Host: Machine {
    fn turn(&mut self, now: Instant);

    fn wrong(&self) -> Option<String>;
}

const MAX_FRAMES: usize = 5000;
const MAX_TIMEOUTS: usize = 1000;
const MAX_HEARD: usize = 24;

pub(super) struct World<H> {
    hosts: Vec<H>,
    macs: Vec<MacAddr>,
    now: Instant,
    under_way: VecDeque<(usize, Vec<u8>)>,
    heard: VecDeque<Vec<u8>>,
}

impl<H: Host> World<H> {
    pub(super) fn new(hosts: Vec<H>, macs: Vec<MacAddr>) -> World<H> {
        World { hosts, macs, now: Instant::START, under_way: VecDeque::new(), heard: VecDeque::new() }
    }

    pub(super) fn host_mut(&mut self, host: usize) -> &mut H {
        &mut self.hosts[host]
    }

    pub(super) fn hosts(&self) -> &[H] {
        &self.hosts
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    /// Lets `passes` elapse, then all hosts send. Of each eight frames those whose bit is set in
    /// `lost` are lost.
    pub(super) fn round(&mut self, passes: Duration, lost: u8) {
        self.now += passes;
        for host in 0..self.hosts.len() {
            self.hosts[host].turn(self.now);
            self.collect(host);
        }
        for (at, (to, frame)) in std::mem::take(&mut self.under_way).into_iter().enumerate() {
            if lost >> (at % 8) & 1 == 0 {
                self.tell(to, &frame);
            }
        }
        for (number, host) in self.hosts.iter().enumerate() {
            if let Some(wrong) = host.wrong() {
                panic!("host {number}: {wrong}");
            }
        }
    }

    fn collect(&mut self, host: usize) {
        let mut buffer = [0; 2048];
        for times in 0..MAX_TIMEOUTS {
            let mut frames = 0;
            while let Some(length) = self.hosts[host].poll_transmit(self.now, &mut buffer) {
                frames += 1;
                assert!(frames < MAX_FRAMES, "host {host} sends without end");
                self.send(host, &buffer[..length]);
            }
            let due = self.hosts[host].poll_timeout(self.now).filter(|deadline| deadline.at <= self.now);
            let Some(due) = due else { return };
            assert!(times + 1 < MAX_TIMEOUTS, "host {host}: a timer that is always due: {due:?}");
            self.hosts[host].handle_timeout(self.now);
            self.hosts[host].turn(self.now);
        }
    }

    fn send(&mut self, from: usize, frame: &[u8]) {
        let to: [u8; 6] = frame[..6].try_into().expect("a frame has an address");
        for (host, mac) in self.macs.iter().enumerate().filter(|&(host, _)| host != from) {
            if mac.octets() == to || to[0] & 1 == 1 {
                self.under_way.push_back((host, frame.to_vec()));
            }
        }
        if self.heard.len() == MAX_HEARD {
            self.heard.pop_front();
        }
        self.heard.push_back(frame.to_vec());
    }

    pub(super) fn tell(&mut self, to: usize, frame: &[u8]) {
        self.hosts[to].handle_frame(self.now, frame);
        self.hosts[to].turn(self.now);
    }

    pub(super) fn tell_forged(&mut self, script: &mut Script<'_>, session: u32, kinds: &[u8]) {
        let (to, from) = (script.below(self.hosts.len()), script.below(self.hosts.len()));
        let (stream, rank) = (StreamId(script.one_of(&[0, 1, 2, 3, 0x4001])), Rank(script.below(4) as u16));
        let identity = Identity { session, stream, rank, mac: self.macs[from], ether_type: EtherType::DEFAULT };
        let mut header = identity.header(Kind(script.one_of(kinds)));
        (header.flags.0, header.epoch) = (script.u8(), script.u8());
        header.sequence = script.near(64);
        header.stamp = script.near(self.now.as_micros()) as u32;
        let length = usize::from(script.u8());
        let body = script.bytes(length);
        let mut frame = [0; 512];
        let length = identity.write(&mut frame, self.macs[to], &header, body);
        self.tell(to, &frame[..length]);
    }

    pub(super) fn tell_again(&mut self, script: &mut Script<'_>) {
        let (to, which) = (script.below(self.hosts.len()), script.below(MAX_HEARD));
        let Some(mut frame) = self.heard.get(which).cloned() else { return };
        for _ in 0..script.below(4) {
            let at = usize::from(script.u16()) % frame.len();
            frame[at] = script.u8();
        }
        let sound = parse(&frame).is_ok();
        make_checksum_fit(&mut frame);
        debug_assert!(!sound || parse(&frame).is_ok());
        self.tell(to, &frame);
    }
}
