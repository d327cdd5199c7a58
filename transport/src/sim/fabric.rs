//! The simulated network between hosts: wires, switches, the clock, and frames in transit.
//!
//! Cable number c is wire 2c (forward) and wire 2c + 1 (backward). A switch's port is named by the
//! wire that leaves it, so the ingress port of a frame is the other wire of its cable.

use super::event::{Event, EventQueue};
use super::network::{CableId, Network, Node, PauseFrames, StormControl, SwitchId, SwitchSettings};
use super::stats::CableStats;
use super::wire::{FramePool, Offered, SharedFrame, Wire};
use crate::{Instant, MacAddr};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Fabric {
    now: u64,
    events: EventQueue,
    pool: FramePool,
    wires: Vec<Wire>,
    switches: Vec<Switch>,
    pauses: u64,
}

impl Fabric {
    pub(super) fn new(network: &Network) -> Self {
        let mut switches: Vec<Switch> = network.switch_settings().map(Switch::new).collect();
        let mut wires = Vec::with_capacity(network.connections().len() * 2);
        for &([one, other], cable) in network.connections() {
            for ([from, to], rate) in [[one, other], [other, one]]
                .into_iter()
                .zip(cable.rates_bits_per_second())
            {
                if let Node::Switch(switch) = from {
                    switches[switch as usize].add_port(wires.len() as u32);
                }
                wires.push(Wire::new(
                    (cable, rate),
                    [from, to],
                    network.queue_limit(from),
                    network.lengths(),
                ));
            }
        }
        Fabric {
            now: 0,
            events: EventQueue::new(),
            pool: FramePool::new(network.frame_bytes()),
            wires,
            switches,
            pauses: 0,
        }
    }

    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    pub(super) fn schedule(&mut self, at: u64, event: Event) {
        self.events.push(at.max(self.now), event);
    }

    pub(super) fn next_event(&mut self, limit: u64) -> Option<Event> {
        let next = self.events.pop_until(limit);
        self.now = next.map_or(self.now.max(limit), |(at, _)| at);
        next.map(|(_, event)| event)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.events.certain() > 0
    }

    pub(super) fn take_frame(&mut self) -> Rc<SharedFrame> {
        self.pool.take()
    }

    pub(super) fn give_back(&mut self, frame: Rc<SharedFrame>) {
        self.pool.give_back(frame);
    }

    pub(super) fn changed(
        &mut self,
        frame: Rc<SharedFrame>,
        change: impl FnOnce(&mut [u8]),
    ) -> Rc<SharedFrame> {
        let changed = self.pool.changed(&frame, change);
        self.pool.give_back(frame);
        changed
    }

    pub(super) fn has_room(&mut self, wire: u32) -> bool {
        self.wires[wire as usize].has_room(self.now, 0)
    }

    pub(super) fn next_departure(&self, wire: u32) -> Option<u64> {
        self.wires[wire as usize].next_departure()
    }

    pub(super) fn cut(&mut self, wire: u32) {
        self.wires[wire as usize].cut(self.now);
    }

    pub(super) fn restore(&mut self, wire: u32) {
        self.wires[wire as usize].restore(self.now);
    }

    pub(super) fn police(&mut self, switch: SwitchId, control: Option<StormControl>) {
        self.switches[switch.index()].police(control);
    }

    pub(super) fn begin_at(&mut self, at: Instant) {
        self.now = at.as_nanos();
    }

    pub(super) fn cut_cable(&mut self, cable: CableId) {
        self.directions(cable).for_each(|(now, wire)| wire.cut(now));
    }

    pub(super) fn restore_cable(&mut self, cable: CableId) {
        self.directions(cable)
            .for_each(|(now, wire)| wire.restore(now));
    }

    fn directions(&mut self, cable: CableId) -> impl Iterator<Item = (u64, &mut Wire)> {
        let now = self.now;
        self.wires[cable.index() * 2..][..2]
            .iter_mut()
            .map(move |wire| (now, wire))
    }

    pub(super) fn send(&mut self, wire: u32, frame: Rc<SharedFrame>) {
        let has_room = match self.wires[wire as usize].from() {
            Node::Switch(switch) => self.books(switch, frame.length() as u64),
            Node::Host(_) => true,
        };
        self.offer(wire, frame, has_room, false);
    }

    fn offer(&mut self, wire: u32, frame: Rc<SharedFrame>, has_room: bool, flooded: bool) {
        let port = &mut self.wires[wire as usize];
        match if has_room {
            port.offer(self.now, frame, flooded)
        } else {
            Offered::Full(frame)
        } {
            Offered::Queued => {}
            Offered::First(arrives) => self.events.push(arrives, Event::Arrival(wire)),
            Offered::Full(frame) => {
                port.drops_mut().port_queue += 1;
                self.pool.give_back(frame);
            }
        }
    }

    fn books(&mut self, switch: u32, bytes: u64) -> bool {
        let (now, wires) = (self.now, &mut self.wires);
        let used = |ports: &[u32]| {
            ports
                .iter()
                .map(|&port| wires[port as usize].queue(now).0)
                .sum()
        };
        self.switches[switch as usize].book(now, bytes, used)
    }

    pub(super) fn pauses(&self) -> u64 {
        self.pauses
    }

    pub(super) fn hold(&mut self, wire: u32, lasts: Duration) {
        self.pauses += 1;
        let until = (self.instant() + lasts).as_nanos();
        self.wires[wire as usize].hold(self.now, until);
    }

    fn pause(&mut self, switch: u32, from: u32, port: u32) {
        if let Some(pause) = self.switches[switch as usize].pause()
            && self.wires[port as usize].queue(self.now).1 >= pause.high_frames
        {
            self.hold(from, pause.lasts);
        }
    }

    pub(super) fn arrive(&mut self, wire: u32) -> Option<(u32, Rc<SharedFrame>)> {
        let line = &mut self.wires[wire as usize];
        if let Some(later) = line.held_up(self.now) {
            self.events.push(later, Event::Arrival(wire));
            return None;
        }
        let (frame, next) = line.arrive(self.now);
        if let Some(next) = next {
            self.events.push(next, Event::Arrival(wire));
        }
        if line.lost(self.now) {
            line.drops_mut().dead += 1;
            self.pool.give_back(frame);
            return None;
        }
        match line.to() {
            Node::Host(host) => Some((host, frame)),
            Node::Switch(switch) => {
                self.forward(switch, wire, frame);
                None
            }
        }
    }

    pub(super) fn stats(&self) -> Vec<CableStats> {
        let both = |wires: &[Wire]| CableStats {
            forward: wires[0].stats(),
            backward: wires[1].stats(),
        };
        self.wires.chunks_exact(2).map(both).collect()
    }

    fn forward(&mut self, switch: u32, from: u32, frame: Rc<SharedFrame>) {
        let ingress = from ^ 1;
        let decider = &mut self.switches[switch as usize];
        match decider.route(ingress, frame.source(), frame.destination()) {
            Forwarding::Port(port) => {
                self.send(port, frame);
                return self.pause(switch, from, port);
            }
            Forwarding::Back => self.wires[from as usize].drops_mut().filter += 1,
            Forwarding::Flood if decider.may_flood(self.now, ingress) => {
                self.flood(switch, ingress, &frame)
            }
            Forwarding::Flood => self.wires[from as usize].drops_mut().storm_control += 1,
        }
        self.pool.give_back(frame);
    }

    fn flood(&mut self, switch: u32, ingress: u32, frame: &Rc<SharedFrame>) {
        let has_room = self.books(switch, frame.length() as u64);
        let (mut index, mut until) = (0, self.now);
        while let Some(port) = self.switches[switch as usize].port(index) {
            if port != ingress {
                self.offer(port, Rc::clone(frame), has_room, true);
                until = until.max(self.wires[port as usize].last_departure().unwrap_or(0));
                self.pause(switch, ingress ^ 1, port);
            }
            index += 1;
        }
        if has_room {
            self.switches[switch as usize].keep(until, frame.length() as u64);
        }
    }
}

/// A store-and-forward switch. A port is named by the wire that leaves through it. `flooded` frames
/// count once each, whatever the number of ports: time until they have left, and bytes.
#[derive(Debug)]
pub(super) struct Switch {
    ports: Vec<u32>,
    learnt: QuickMap<u32>,
    storm_control: Option<StormControl>,
    pause: Option<PauseFrames>,
    shared_bytes: u64,
    used_bytes: u64,
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

    pub(super) fn route(
        &mut self,
        ingress: u32,
        source: MacAddr,
        destination: MacAddr,
    ) -> Forwarding {
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
        bucket
            .or_insert(Bucket::full(now, control))
            .take_one(now, control)
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
        Bucket {
            units: control.burst_frames.saturating_mul(Self::UNITS_PER_FRAME),
            filled_at: now,
        }
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
