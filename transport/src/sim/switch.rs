//! A simulated learning switch: output port of each frame, and storm control of input ports.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::settings::{PauseFrames, StormControl, SwitchSettings};
use crate::MacAddr;

/// A store-and-forward switch. A port is named by the wire that leaves through it.
#[derive(Debug)]
pub(super) struct Switch {
    ports: Vec<u32>,
    learnt: QuickMap<u32>,
    storm_control: Option<StormControl>,
    pause: Option<PauseFrames>,
    shared_bytes: u64,
    used_bytes: u64,
    /// Flooded frames, each counted once whatever the number of ports: time until they have left,
    /// and bytes.
    flooded: VecDeque<(u64, u64)>,
    buckets: QuickMap<Bucket>,
}

type QuickMap<V> = HashMap<u64, V, BuildHasherDefault<QuickHasher>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarding {
    Port(u32),
    Back,
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

    pub(super) fn pause(&self) -> Option<PauseFrames> {
        self.pause
    }

    /// Reserves room in the shared buffer; false if there is none. `used` returns the bytes in use
    /// except flooded frames.
    pub(super) fn book(&mut self, now: u64, bytes: u64, used: impl FnOnce(&[u32]) -> u64) -> bool {
        if self.shared_bytes == u64::MAX {
            return true;
        }
        // Departed frames are subtracted only when the room seems used up.
        if self.used_bytes + bytes > self.shared_bytes {
            self.flooded.retain(|&(until, _)| until > now);
            let flooded: u64 = self.flooded.iter().map(|(_, bytes)| bytes).sum();
            self.used_bytes = used(&self.ports) + flooded;
        }
        let fits = self.used_bytes + bytes <= self.shared_bytes;
        self.used_bytes += if fits { bytes } else { 0 };
        fits
    }

    pub(super) fn keep(&mut self, until: u64, bytes: u64) {
        if self.shared_bytes < u64::MAX {
            self.flooded.push_back((until, bytes));
        }
    }

    pub(super) fn police(&mut self, storm_control: Option<StormControl>) {
        self.storm_control = storm_control;
        self.buckets.clear();
    }

    pub(super) fn add_port(&mut self, port: u32) {
        self.ports.push(port);
    }

    pub(super) fn port(&self, index: usize) -> Option<u32> {
        self.ports.get(index).copied()
    }

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

    pub(super) fn may_flood(&mut self, now: u64, ingress: u32) -> bool {
        let Some(control) = self.storm_control else {
            return true;
        };
        let bucket = self.buckets.entry(u64::from(ingress));
        bucket.or_insert(Bucket::full(now, control)).take_one(now, control)
    }

    fn learn(&mut self, source: u64, ingress: u32) {
        // Most frames confirm a known address: look up before writing.
        if self.learnt.get(&source) != Some(&ingress) {
            self.learnt.insert(source, ingress);
        }
    }
}

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

/// One multiplication instead of the standard library's keyed hash: a simulated switch needs no
/// protection from attacks.
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
