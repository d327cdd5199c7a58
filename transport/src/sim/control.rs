//! What a test does to the network while it runs: hosts pause and crash, cables are cut, groups change.

use super::event::Event;
use super::faults::Faults;
use super::host::{Condition, Host};
use super::network::CableId;
use super::run::{Simulation, Turn};
use crate::{Instant, MacAddr, Machine};

/// A scheduled change.
#[derive(Clone, Copy)]
pub(super) enum Control {
    Crash(u32),
    Pause(u32),
    Resume(u32),
    Cut(CableId),
    Restore(CableId),
}

/// All of these are scheduled; a moment that has passed becomes the present. Several at the same moment happen in the order of
/// the calls, and before the hosts' first calls if that moment is the start.
impl<M: Machine, F: Faults> Simulation<M, F> {
    /// Ends a host: its machine is never called again, what it has not sent is lost, what reaches it vanishes.
    pub fn crash(&mut self, host: usize, at: Instant) {
        self.schedule(at, Control::Crash(host as u32));
    }

    /// Stops a host's process: its card goes on sending what it has, and receiving until the ring is full.
    pub fn pause(&mut self, host: usize, at: Instant) {
        self.schedule(at, Control::Pause(host as u32));
    }

    /// Lets a paused host go on: first with what has fallen due, then with the frames in its receive ring.
    pub fn resume(&mut self, host: usize, at: Instant) {
        self.schedule(at, Control::Resume(host as u32));
    }

    /// Cuts a cable: frames whose last bit has not left by then are lost, in both directions.
    pub fn cut(&mut self, cable: CableId, at: Instant) {
        self.schedule(at, Control::Cut(cable));
    }

    /// Puts a cut cable together again; frames that waited in the queues before it and leave from now on arrive.
    pub fn restore(&mut self, cable: CableId, at: Instant) {
        self.schedule(at, Control::Restore(cable));
    }

    /// Calls a host's application at a moment of the test's choosing.
    pub fn wake(&mut self, host: usize, at: Instant) {
        let at = at.as_nanos().max(self.now);
        self.fabric.events.push(at, Event::Wake(host as u32));
    }

    /// Makes a host take frames for `group` from now on.
    pub fn join_group(&mut self, host: usize, group: MacAddr) {
        let groups = &mut self.hosts[host].groups;
        if !groups.contains(&group) {
            groups.push(group);
        }
    }

    /// Makes a host leave frames for `group` alone from now on.
    pub fn leave_group(&mut self, host: usize, group: MacAddr) {
        self.hosts[host].groups.retain(|&member| member != group);
    }

    fn schedule(&mut self, at: Instant, control: Control) {
        let number = self.controls.len() as u32;
        self.controls.push(control);
        let at = at.as_nanos().max(self.now);
        self.fabric.events.push(at, Event::Control(number));
    }

    /// Makes a scheduled change.
    pub(super) fn change(&mut self, number: u32, turn: &mut impl Turn<M>) {
        match self.controls[number as usize] {
            Control::Crash(host) => self.crash_now(host),
            Control::Pause(host) => self.pause_now(host),
            Control::Resume(host) => self.resume_now(host, turn),
            Control::Cut(cable) => {
                for wire in wires(cable) {
                    self.fabric.wire(wire).cut(self.now);
                }
            }
            Control::Restore(cable) => {
                for wire in wires(cable) {
                    self.fabric.wire(wire).restore(self.now);
                }
            }
        }
    }

    fn crash_now(&mut self, host: u32) {
        let index = host as usize;
        self.change_wishes(index, Host::fall_silent);
        let state = &mut self.hosts[index];
        state.condition = Condition::Crashed;
        state.stats.drops.dead += state.ring.len() as u64;
        for frame in state.ring.drain(..) {
            self.fabric.pool.give_back(frame);
        }
        self.fabric.wire(state.wire).cut(self.now);
    }

    fn pause_now(&mut self, host: u32) {
        let index = host as usize;
        if self.hosts[index].condition == Condition::Running {
            self.change_wishes(index, Host::fall_silent);
            self.hosts[index].condition = Condition::Paused;
        }
    }

    fn resume_now(&mut self, host: u32, turn: &mut impl Turn<M>) {
        if self.hosts[host as usize].condition == Condition::Paused {
            self.hosts[host as usize].condition = Condition::Running;
            self.begin_processing(host, false);
            self.switch_on(host, turn);
        }
    }
}

/// Both directions of a cable.
fn wires(cable: CableId) -> [u32; 2] {
    let forward = cable.index() as u32 * 2;
    [forward, forward + 1]
}
