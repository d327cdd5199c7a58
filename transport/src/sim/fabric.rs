//! Everything between two hosts: wires, switches, and the frames and events that move through them.
//!
//! Cable number c is wire 2c (forward) and wire 2c + 1 (backward); a switch's port is named by the wire that leaves it, so the
//! port a frame came in by is the other wire of the same cable.

use std::rc::Rc;

use super::event::{Event, EventQueue};
use super::frame::{Frame, FramePool, HEADER_BYTES};
use super::network::{Network, Node};
use super::settings::QueueLimit;
use super::stats::CableStats;
use super::switch::{Route, Switch};
use super::wire::{Offered, Wire};

/// See the module's description.
pub(super) struct Fabric {
    pub(super) events: EventQueue,
    pub(super) pool: FramePool,
    wires: Vec<Wire>,
    switches: Vec<Switch>,
}

impl Fabric {
    pub(super) fn new(network: &Network) -> Self {
        let mut switches: Vec<Switch> = network.switches.iter().map(|settings| Switch::new(settings.storm_control)).collect();
        let mut wires = Vec::with_capacity(network.links.len() * 2);
        for link in &network.links {
            for (from, to) in [(0, 1), (1, 0)] {
                if let Node::Switch(switch) = link.ends[from] {
                    switches[switch as usize].ports.push(wires.len() as u32);
                }
                let limit = queue_limit(network, link.ends[from]);
                let to = link.ends[to];
                wires.push(Wire::new(link.cable, to, limit, network.overhead_bytes));
            }
        }
        Fabric { events: EventQueue::new(), pool: FramePool::new(HEADER_BYTES + network.mtu_bytes), wires, switches }
    }

    /// Read and write access to one direction of a cable.
    pub(super) fn wire(&mut self, wire: u32) -> &mut Wire {
        &mut self.wires[wire as usize]
    }

    /// Puts a frame into the queue in front of a wire, or drops it.
    pub(super) fn send(&mut self, now: u64, wire: u32, frame: Rc<Frame>) {
        let port = &mut self.wires[wire as usize];
        match port.offer(now, frame) {
            Offered::Queued => {}
            Offered::First(arrives) => self.events.push(arrives, Event::Arrival(wire)),
            Offered::Full(frame) => {
                port.stats.drops.port_queue += 1;
                self.pool.give_back(frame);
            }
        }
    }

    /// Takes the frame that has arrived at the far end of `wire`; a switch there passes it on, a host gets it returned.
    pub(super) fn arrive(&mut self, now: u64, wire: u32) -> Option<(u32, Rc<Frame>)> {
        let line = &mut self.wires[wire as usize];
        let (frame, next) = line.arrive(now);
        if let Some(next) = next {
            self.events.push(next, Event::Arrival(wire));
        }
        if line.lost(now) {
            line.stats.drops.dead += 1;
            self.pool.give_back(frame);
            return None;
        }
        match line.to {
            Node::Host(host) => Some((host, frame)),
            Node::Switch(switch) => {
                self.forward(now, switch, wire, frame);
                None
            }
        }
    }

    /// The counters of one cable.
    pub(super) fn cable_stats(&self, cable: usize) -> CableStats {
        CableStats { forward: self.wires[cable * 2].stats, backward: self.wires[cable * 2 + 1].stats }
    }

    /// The counters of all cables.
    pub(super) fn stats(&self) -> Vec<CableStats> {
        (0..self.wires.len() / 2).map(|cable| self.cable_stats(cable)).collect()
    }

    fn forward(&mut self, now: u64, switch: u32, from: u32, frame: Rc<Frame>) {
        let ingress = from ^ 1;
        let decider = &mut self.switches[switch as usize];
        match decider.route(ingress, frame.source(), frame.destination()) {
            Route::Port(port) => return self.send(now, port, frame),
            Route::Back => self.wires[from as usize].stats.drops.filter += 1,
            Route::Flood if decider.may_flood(now, ingress) => {
                self.flood(now, switch, ingress, &frame);
            }
            Route::Flood => self.wires[from as usize].stats.drops.storm_control += 1,
        }
        self.pool.give_back(frame);
    }

    fn flood(&mut self, now: u64, switch: u32, ingress: u32, frame: &Rc<Frame>) {
        for port in 0..self.switches[switch as usize].ports.len() {
            let port = self.switches[switch as usize].ports[port];
            if port != ingress {
                self.send(now, port, Rc::clone(frame));
            }
        }
    }
}

/// A host's wire is its card's transmit ring, a switch's wire its port's queue.
fn queue_limit(network: &Network, from: Node) -> QueueLimit {
    match from {
        Node::Switch(switch) => network.switches[switch as usize].port_queue,
        Node::Host(host) => QueueLimit::Frames(network.hosts[host as usize].settings.nic_transmit_frames),
    }
}
