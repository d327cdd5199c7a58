//! Serving a host: its turn, its transmit ring, its timers.

use super::event::Event;
use super::faults::Faults;
use super::frame::unshared;
use super::host::{Condition, Host};
use super::run::{Outcome, Simulation, Turn};
use crate::{Instant, Machine};

impl<M: Machine, F: Faults> Simulation<M, F> {
    /// What follows every input of a running host: the application's turn, sending, and the look at the timers.
    pub(super) fn serve(&mut self, host: u32, turn: &mut impl Turn<M>) {
        let index = host as usize;
        if self.hosts[index].condition != Condition::Running {
            return;
        }
        let now = self.now();
        let appointment = turn(index, &mut self.machines[index], now);
        self.fill_ring(host);
        let deadline = self.machines[index].poll_timeout(now);
        self.change_wishes(index, |state| {
            state.appointment = appointment.map(Instant::as_nanos);
            state.deadline = deadline;
        });
        self.set_alarm(host);
    }

    /// The first call of a host.
    pub(super) fn switch_on(&mut self, host: u32, turn: &mut impl Turn<M>) {
        if self.hosts[host as usize].condition == Condition::Running {
            let now = self.now();
            self.machines[host as usize].handle_timeout(now);
            self.serve(host, turn);
        }
    }

    /// A frame has left a transmit ring that was full.
    pub(super) fn use_room(&mut self, host: u32, turn: &mut impl Turn<M>) {
        self.hosts[host as usize].wants_room = false;
        self.serve(host, turn);
    }

    /// Calls a host if its time has come; if its wish has changed since the event was scheduled, looks again later.
    pub(super) fn look_at_timers(&mut self, host: u32, turn: &mut impl Turn<M>) {
        let now = self.now;
        let state = &mut self.hosts[host as usize];
        state.alarm_rang();
        if state.wish().is_none_or(|wish| wish > now) {
            return self.set_alarm(host);
        }
        let due = state.due_timer(now);
        if state.called_too_often(now) {
            self.live_lock = Some(Outcome::LiveLock { at: Instant::from_nanos(now), host: host as usize, why: due });
        }
        if due.is_some() {
            self.machines[host as usize].handle_timeout(Instant::from_nanos(now));
        }
        self.serve(host, turn);
    }

    /// Changes what a host wants, keeping count of those that want anything.
    pub(super) fn change_wishes(&mut self, host: usize, change: impl FnOnce(&mut Host)) {
        let state = &mut self.hosts[host];
        let before = state.wish().is_some();
        change(state);
        let after = state.wish().is_some();
        self.wishes = self.wishes + usize::from(after) - usize::from(before);
    }

    fn set_alarm(&mut self, host: u32) {
        let now = self.now;
        let state = &mut self.hosts[host as usize];
        let Some(wish) = state.wish() else { return };
        if let Some(at) = state.set_alarm(wish.max(now)) {
            self.fabric.events.push(at, Event::Timer(host));
        }
    }

    /// Moves frames from the machine into the transmit ring until one of them has had enough.
    fn fill_ring(&mut self, host: u32) {
        let now = self.now();
        let state = &mut self.hosts[host as usize];
        let machine = &mut self.machines[host as usize];
        while self.fabric.wire(state.wire).has_room(self.now, 0) {
            let mut frame = self.fabric.pool.take();
            let Some(length) = machine.poll_transmit(now, unshared(&mut frame).buffer_mut()) else {
                return self.fabric.pool.give_back(frame);
            };
            unshared(&mut frame).finish(length, Some(host));
            state.stats.sent_frames += 1;
            state.stats.sent_bytes += frame.length() as u64;
            self.fabric.send(self.now, state.wire, frame);
        }
        if !state.wants_room
            && let Some(at) = self.fabric.wire(state.wire).next_departure()
        {
            state.wants_room = true;
            self.fabric.events.push(at, Event::Room(host));
        }
    }
}
