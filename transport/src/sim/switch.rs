//! A learning switch: which port a frame leaves by, and how many floods an input port may start.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::settings::{PauseFrames, StormControl, SwitchSettings};
use crate::MacAddr;

/// A store-and-forward switch. A port is named by the wire that leaves through it.
#[derive(Debug)]
pub(super) struct Switch {
    /// All ports, in the order in which their cables were added.
    ports: Vec<u32>,
    /// Which port an address is behind.
    learnt: QuickMap<u32>,
    storm_control: Option<StormControl>,
    pause: Option<PauseFrames>,
    /// What all port queues hold together, at most, and no less than they do hold.
    shared_bytes: u64,
    used_bytes: u64,
    /// Flooded frames, which lie there once whatever the number of ports: until when, and their bytes.
    flooded: VecDeque<(u64, u64)>,
    /// By port; one is made when the port first floods.
    buckets: QuickMap<Bucket>,
}

type QuickMap<V> = HashMap<u64, V, BuildHasherDefault<QuickHasher>>;

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarding {
    /// Out of this one port.
    Port(u32),
    /// Nowhere: its destination is behind the port it came from.
    Back,
    /// Out of all other ports.
    Flood,
}

impl Switch {
    pub(super) fn new(settings: &SwitchSettings) -> Self {
        Switch {
            ports: Vec::new(),
            learnt: QuickMap::default(),
            storm_control: settings.storm_control,
            pause: settings.pause,
            shared_bytes: settings.shared_bytes.unwrap_or(u64::MAX),
            used_bytes: 0,
            flooded: VecDeque::new(),
            buckets: QuickMap::default(),
        }
    }

    /// Whether long queues stop those who fill them.
    pub(super) fn pause(&self) -> Option<PauseFrames> {
        self.pause
    }

    /// Books room for a frame in the shared buffer, of which `used` tells how much is in use beside what is flooded;
    /// false if there is none.
    pub(super) fn book(&mut self, now: u64, bytes: u64, used: impl FnOnce(&[u32]) -> u64) -> bool {
        if self.shared_bytes == u64::MAX {
            return true;
        }
        // What has left since is counted only when it matters.
        if self.used_bytes + bytes > self.shared_bytes {
            self.flooded.retain(|&(until, _)| until > now);
            let flooded: u64 = self.flooded.iter().map(|(_, bytes)| bytes).sum();
            self.used_bytes = used(&self.ports) + flooded;
        }
        let fits = self.used_bytes + bytes <= self.shared_bytes;
        self.used_bytes += if fits { bytes } else { 0 };
        fits
    }

    /// A flooded frame for which room has been booked lies there until it has left by the last port.
    pub(super) fn keep(&mut self, until: u64, bytes: u64) {
        if self.shared_bytes < u64::MAX {
            self.flooded.push_back((until, bytes));
        }
    }

    /// Allows another number of floods from now on.
    pub(super) fn police(&mut self, storm_control: Option<StormControl>) {
        self.storm_control = storm_control;
        self.buckets.clear();
    }

    pub(super) fn add_port(&mut self, port: u32) {
        self.ports.push(port);
    }

    /// Port number `index`.
    pub(super) fn port(&self, index: usize) -> Option<u32> {
        self.ports.get(index).copied()
    }

    /// Learns where `source` is and decides where a frame from port `ingress` to `destination` goes.
    pub(super) fn route(&mut self, ingress: u32, source: MacAddr, destination: MacAddr) -> Forwarding {
        self.learn(key(source), ingress);
        if destination.is_multicast() {
            return Forwarding::Flood;
        }
        match self.learnt.get(&key(destination)) {
            Some(&port) if port == ingress => Forwarding::Back,
            Some(&port) => Forwarding::Port(port),
            None => Forwarding::Flood,
        }
    }

    /// Whether port `ingress` may flood one more frame.
    pub(super) fn may_flood(&mut self, now: u64, ingress: u32) -> bool {
        let Some(control) = self.storm_control else {
            return true;
        };
        let bucket = self.buckets.entry(u64::from(ingress));
        bucket.or_insert(Bucket::full(now, control)).take_one(now, control)
    }

    fn learn(&mut self, source: u64, ingress: u32) {
        // Most frames confirm what is known: look before writing.
        if self.learnt.get(&source) != Some(&ingress) {
            self.learnt.insert(source, ingress);
        }
    }
}

/// A token bucket.
#[derive(Debug)]
struct Bucket {
    units: u64,
    filled_at: u64,
}

impl Bucket {
    /// A frame per second adds one unit per nanosecond.
    const UNITS_PER_FRAME: u64 = 1_000_000_000;

    fn full(now: u64, control: StormControl) -> Self {
        Bucket { units: control.burst_frames.saturating_mul(Self::UNITS_PER_FRAME), filled_at: now }
    }

    fn take_one(&mut self, now: u64, control: StormControl) -> bool {
        let gained = (now - self.filled_at).saturating_mul(control.frames_per_second);
        let most = Self::full(now, control).units;
        self.units = self.units.saturating_add(gained).min(most);
        self.filled_at = now;
        match self.units.checked_sub(Self::UNITS_PER_FRAME) {
            Some(rest) => {
                self.units = rest;
                true
            }
            None => false,
        }
    }
}

fn key(address: MacAddr) -> u64 {
    let [a, b, c, d, e, f] = address.octets();
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

/// One multiplication instead of the standard library's keyed hash: nobody attacks a simulated switch.
#[derive(Default)]
struct QuickHasher(u64);

impl Hasher for QuickHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        // The table uses the highest and the lowest bits; a product has its entropy at the top.
        let product = (self.0 ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }
}
