//! Receiving at a host: address filter, faults, receive ring, and the process that takes time for each frame.

use std::rc::Rc;
use std::time::Duration;

use super::event::Event;
use super::faults::{Delivery, Fate, Faults};
use super::frame::{Frame, unshared};
use super::host::Condition;
use super::run::{Late, Simulation, Turn};
use crate::{Instant, Machine};

impl<M: Machine, F: Faults> Simulation<M, F> {
    /// Schedules a frame that nobody has sent: it reaches the card of host `to` at `at`, or now if that has passed.
    ///
    /// # Panics
    /// If the frame has no whole header or is longer than 14 bytes + MTU.
    pub fn inject(&mut self, at: Instant, to: usize, frame: &[u8]) {
        let mut copy = self.fabric.pool.take();
        let writable = unshared(&mut copy);
        let buffer = writable.buffer_mut();
        assert!(
            frame.len() <= buffer.len(),
            "a frame of {} bytes does not fit this network: inject at most 14 bytes + MTU, or raise the MTU",
            frame.len()
        );
        buffer[..frame.len()].copy_from_slice(frame);
        writable.finish(frame.len(), None);
        let late = Late { host: to as u32, frame: copy, undecided: true };
        self.hold_back(at.as_nanos(), late);
    }

    /// A frame has come over the cable.
    pub(super) fn reach_card(&mut self, host: u32, frame: Rc<Frame>, turn: &mut impl Turn<M>) {
        if !self.passes_filter(host, &frame) {
            return self.fabric.pool.give_back(frame);
        }
        let delivery = Delivery {
            from: frame.origin().map(|origin| origin as usize),
            to: host as usize,
            at: Instant::from_nanos(self.now),
            ordinal: self.deliveries,
            frame: frame.bytes(),
        };
        self.deliveries += 1;
        match self.faults.fate(&delivery) {
            Fate::Deliver => self.enter_ring(host, frame, turn),
            Fate::Drop => {
                self.hosts[host as usize].stats.drops.fault += 1;
                self.fabric.pool.give_back(frame);
            }
            Fate::Duplicate { after } => {
                self.postpone(host, Rc::clone(&frame), after);
                self.enter_ring(host, frame, turn);
            }
            Fate::Delay(by) => self.postpone(host, frame, by),
            Fate::Corrupt { bit } => {
                let changed = self.fabric.pool.flipped(&frame, bit);
                self.fabric.pool.give_back(frame);
                self.pass_undisturbed(host, changed, turn);
            }
        }
    }

    /// A frame held back or made up reaches the card.
    pub(super) fn reach_card_late(&mut self, number: u32, turn: &mut impl Turn<M>) {
        let late = self.late[number as usize].take().expect("a late frame is kept until its event happens");
        self.free_late.push(number);
        if late.undecided {
            self.reach_card(late.host, late.frame, turn);
        } else {
            self.pass_undisturbed(late.host, late.frame, turn);
        }
    }

    /// The process has finished the first frame of the receive ring.
    pub(super) fn process_first(&mut self, host: u32, turn: &mut impl Turn<M>) {
        let state = &mut self.hosts[host as usize];
        state.busy = false;
        if state.condition != Condition::Running {
            return;
        }
        if let Some(frame) = state.ring.pop_front() {
            self.begin_processing(host, false);
            self.hand_over(host, frame, turn);
        }
    }

    /// Makes the process of a running host work on its receive ring, after waking up if it is `asleep`.
    pub(super) fn begin_processing(&mut self, host: u32, asleep: bool) {
        let state = &mut self.hosts[host as usize];
        if !state.busy && !state.ring.is_empty() {
            state.busy = true;
            let wake_up_nanos = if asleep { state.wake_up_nanos } else { 0 };
            let done = self.now.saturating_add(wake_up_nanos).saturating_add(state.per_frame_cost_nanos);
            self.fabric.events.push(done, Event::Process(host));
        }
    }

    /// Delivers a frame whose fate is decided.
    fn pass_undisturbed(&mut self, host: u32, frame: Rc<Frame>, turn: &mut impl Turn<M>) {
        if self.passes_filter(host, &frame) {
            self.enter_ring(host, frame, turn);
        } else {
            self.fabric.pool.give_back(frame);
        }
    }

    /// Whether a frame is for this host, and the host there to take it; counts it otherwise.
    fn passes_filter(&mut self, host: u32, frame: &Frame) -> bool {
        let state = &mut self.hosts[host as usize];
        if state.condition == Condition::Crashed {
            state.stats.drops.dead += 1;
            return false;
        }
        let wanted = state.wants(frame.destination());
        state.stats.drops.filter += u64::from(!wanted);
        wanted
    }

    fn enter_ring(&mut self, host: u32, frame: Rc<Frame>, turn: &mut impl Turn<M>) {
        let state = &mut self.hosts[host as usize];
        let running = state.condition == Condition::Running;
        if running && state.is_instant() && state.ring.is_empty() {
            return self.hand_over(host, frame, turn);
        }
        if state.ring.len() >= state.ring_frames {
            state.stats.drops.nic_ring += 1;
            return self.fabric.pool.give_back(frame);
        }
        state.ring.push_back(frame);
        if running {
            self.begin_processing(host, true);
        }
    }

    fn hand_over(&mut self, host: u32, frame: Rc<Frame>, turn: &mut impl Turn<M>) {
        let stats = &mut self.hosts[host as usize].stats;
        stats.received_frames += 1;
        stats.received_bytes += frame.length() as u64;
        let now = Instant::from_nanos(self.now);
        self.machines[host as usize].handle_frame(now, frame.bytes());
        self.fabric.pool.give_back(frame);
        self.serve(host, turn);
    }

    fn postpone(&mut self, host: u32, frame: Rc<Frame>, by: Duration) {
        let at = (Instant::from_nanos(self.now) + by).as_nanos();
        let late = Late { host, frame, undecided: false };
        self.hold_back(at, late);
    }

    fn hold_back(&mut self, at: u64, late: Late) {
        let number = self.free_late.pop().unwrap_or_else(|| {
            self.late.push(None);
            self.late.len() as u32 - 1
        });
        self.late[number as usize] = Some(late);
        self.fabric.events.push(at.max(self.now), Event::Late(number));
    }
}
