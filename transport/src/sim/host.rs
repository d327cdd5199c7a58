//! A simulated host: a network card with two rings, a processor that can be busy, and the protocol
//! machine.

use super::event::Event;
use super::fabric::Fabric;
use super::faults::{Delivery, Departure, Fate, Faults, Sending};
use super::network::{Network, PauseFrames};
use super::stats::{HostStats, Outcome};
use super::wire::{SharedFrame, unshared};
use crate::{Deadline, Instant, MacAddr, Machine, Timer, wire};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

pub(super) trait Application<M>: FnMut(usize, &mut M, Instant) -> Option<Instant> {}

impl<M, A: FnMut(usize, &mut M, Instant) -> Option<Instant>> Application<M> for A {}

pub(super) struct Call<'a, M, A> {
    pub machine: &'a mut M,
    pub application: &'a mut A,
    pub fabric: &'a mut Fabric,
    pub faults: &'a mut dyn Faults,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cost {
    frame_nanos: u64,
    byte_picos: u64,
}

impl Cost {
    fn new(frame: Duration, byte_picos: u64) -> Self {
        Cost {
            frame_nanos: frame.as_nanos() as u64,
            byte_picos,
        }
    }

    fn is_nothing(self) -> bool {
        self.frame_nanos == 0 && self.byte_picos == 0
    }

    fn of(self, frame: &SharedFrame) -> u64 {
        self.frame_nanos
            .saturating_add((frame.length() as u64).saturating_mul(self.byte_picos) / 1000)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Running,
    Paused,
    Crashed,
}

#[derive(Debug)]
pub(super) struct Host {
    number: u32,
    condition: Condition,
    mac: MacAddr,
    groups: Vec<MacAddr>,
    wire: u32,
    stats: HostStats,
    ring: VecDeque<Rc<SharedFrame>>,
    ring_frames: usize,
    receiving: Cost,
    sending: Cost,
    wake_up_nanos: u64,
    busy_until: u64,
    busy: bool,
    /// Whether that event marks the process's wake-up, instead of the end of its work on a frame.
    waking: bool,
    wants_room: bool,
    refused: Option<(Rc<SharedFrame>, u64)>,
    timer_slack_nanos: u64,
    pause: Option<PauseFrames>,
    pending_timers: TimerRequests,
}

impl Host {
    pub(super) fn new(network: &Network, index: usize) -> Self {
        let settings = network.settings_of(index);
        Host {
            number: index as u32,
            condition: Condition::Running,
            mac: network.mac_of(index),
            groups: settings.groups.clone(),
            wire: network.cable_of(index).index() as u32 * 2,
            stats: HostStats::default(),
            ring: VecDeque::new(),
            ring_frames: settings.nic_receive_frames,
            receiving: Cost::new(settings.per_frame_cost, settings.per_byte_cost_picos),
            sending: Cost::new(
                settings.per_sent_frame_cost,
                settings.per_sent_byte_cost_picos,
            ),
            busy_until: 0,
            wake_up_nanos: settings.wake_up.as_nanos() as u64,
            busy: false,
            waking: false,
            wants_room: false,
            refused: None,
            timer_slack_nanos: settings.timer_slack.as_nanos() as u64,
            pause: settings.pause,
            pending_timers: TimerRequests::default(),
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn stats(&self) -> HostStats {
        self.stats
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.pending_timers.deadline()
    }

    pub(super) fn wants_call(&self) -> bool {
        self.pending_timers.next().is_some()
    }

    pub(super) fn join(&mut self, group: MacAddr) {
        if !self.groups.contains(&group) {
            self.groups.push(group);
        }
    }

    pub(super) fn leave(&mut self, group: MacAddr) {
        self.groups.retain(|&member| member != group);
    }

    pub(super) fn filter(
        &mut self,
        frame: Rc<SharedFrame>,
        fabric: &mut Fabric,
    ) -> Option<Rc<SharedFrame>> {
        let destination = frame.destination();
        if self.condition == Condition::Crashed {
            self.stats.drops.dead += 1;
        } else if destination == self.mac || self.groups.contains(&destination) {
            return Some(frame);
        } else {
            self.stats.drops.filter += 1;
        }
        fabric.give_back(frame);
        None
    }

    pub(super) fn lose(&mut self, frame: Rc<SharedFrame>, fabric: &mut Fabric) {
        self.stats.drops.fault += 1;
        fabric.give_back(frame);
    }

    pub(super) fn receive<M: Machine, A: Application<M>>(
        &mut self,
        frame: Rc<SharedFrame>,
        call: &mut Call<M, A>,
    ) {
        let running = self.condition == Condition::Running;
        let instant =
            self.receiving.is_nothing() && self.sending.is_nothing() && self.wake_up_nanos == 0;
        if running && instant && self.ring.is_empty() {
            return self.hand_over(frame, call);
        }
        if self.ring.len() >= self.ring_frames {
            self.stats.drops.nic_ring += 1;
            return call.fabric.give_back(frame);
        }
        self.ring.push_back(frame);
        if let Some(pause) = self
            .pause
            .filter(|pause| self.ring.len() >= pause.high_frames)
        {
            call.fabric.hold(self.wire ^ 1, pause.lasts);
        }
        if running {
            self.begin_processing(self.wake_up_nanos, call.fabric);
        }
    }

    pub(super) fn process_first<M: Machine, A: Application<M>>(&mut self, call: &mut Call<M, A>) {
        self.busy = false;
        if std::mem::take(&mut self.waking) {
            if self.condition == Condition::Running {
                self.begin_processing(0, call.fabric);
            }
            return;
        }
        if self.condition == Condition::Running
            && let Some(frame) = self.ring.pop_front()
        {
            self.begin_processing(0, call.fabric);
            self.hand_over(frame, call);
        }
    }

    /// Starts the process on its receive ring, if it is idle, after `wake_up_nanos`.
    ///
    /// A process that is sending is awake: it checks the ring when it is done. While it sleeps
    /// through arrivals its processor is free to send.
    fn begin_processing(&mut self, wake_up_nanos: u64, fabric: &mut Fabric) {
        if let (false, Some(frame)) = (self.busy, self.ring.front()) {
            self.busy = true;
            let (now, cost) = (fabric.now(), self.receiving.of(frame));
            let (awake, sends_take_time) = (self.busy_until > now, !self.sending.is_nothing());
            let next = match wake_up_nanos {
                0 => self.work(now, cost),
                _ if awake => self.work(now, cost),
                _ if sends_take_time => {
                    self.waking = true;
                    now.saturating_add(wake_up_nanos)
                }
                _ => self.work(now.saturating_add(wake_up_nanos), cost),
            };
            fabric.schedule(next, Event::Process(self.number));
        }
    }

    fn work(&mut self, from: u64, cost_nanos: u64) -> u64 {
        let done = from.max(self.busy_until).saturating_add(cost_nanos);
        if !self.sending.is_nothing() {
            self.busy_until = done;
        }
        done
    }

    fn hand_over<M: Machine, A: Application<M>>(
        &mut self,
        frame: Rc<SharedFrame>,
        call: &mut Call<M, A>,
    ) {
        self.stats.received_frames += 1;
        self.stats.received_bytes += frame.length() as u64;
        call.machine
            .handle_frame(call.fabric.instant(), frame.bytes());
        call.fabric.give_back(frame);
        self.serve(call);
    }

    pub(super) fn switch_on<M: Machine, A: Application<M>>(&mut self, call: &mut Call<M, A>) {
        if self.condition == Condition::Running {
            call.machine.handle_timeout(call.fabric.instant());
            self.serve(call);
        }
    }

    pub(super) fn serve<M: Machine, A: Application<M>>(&mut self, call: &mut Call<M, A>) {
        if self.condition != Condition::Running {
            return;
        }
        let now = call.fabric.instant();
        let appointment = (call.application)(self.number as usize, call.machine, now);
        self.fill_ring(call);
        self.pending_timers
            .set(call.machine.poll_timeout(now), appointment);
        self.set_alarm(call.fabric);
    }

    fn fill_ring<M: Machine, A>(&mut self, call: &mut Call<M, A>) {
        if !self.retry(call.fabric) {
            return;
        }
        while call.fabric.has_room(self.wire) {
            let mut frame = call.fabric.take_frame();
            let Some(length) = call
                .machine
                .poll_transmit(call.fabric.instant(), unshared(&mut frame).buffer_mut())
            else {
                return call.fabric.give_back(frame);
            };
            unshared(&mut frame).finish(length, Some(self.number));
            let departure = Departure {
                from: self.number as usize,
                at: call.fabric.instant(),
                frame: frame.bytes(),
            };
            if let Sending::NoRoom(lasts) = call.faults.sending(&departure) {
                let until = (call.fabric.instant() + lasts).as_nanos();
                self.refused = Some((frame, until));
                return call.fabric.schedule(until, Event::Room(self.number));
            }
            if !self.sending.is_nothing() {
                let done = self.work(call.fabric.now(), self.sending.of(&frame));
                self.refused = Some((frame, done));
                return call.fabric.schedule(done, Event::Room(self.number));
            }
            self.send(frame, call.fabric);
        }
        if !self.wants_room
            && let Some(at) = call.fabric.next_departure(self.wire)
        {
            self.wants_room = true;
            call.fabric.schedule(at, Event::Room(self.number));
        }
    }

    fn retry(&mut self, fabric: &mut Fabric) -> bool {
        let now = fabric.now();
        let Some((_, until)) = &mut self.refused else {
            return true;
        };
        if now < *until {
            return false;
        }
        if !fabric.has_room(self.wire) {
            *until = fabric
                .next_departure(self.wire)
                .map_or(now + 1, |at| at.max(now + 1));
            fabric.schedule(*until, Event::Room(self.number));
            return false;
        }
        if let Some((frame, _)) = self.refused.take() {
            self.send(frame, fabric);
        }
        true
    }

    fn send(&mut self, frame: Rc<SharedFrame>, fabric: &mut Fabric) {
        self.stats.sent_frames += 1;
        self.stats.sent_bytes += frame.length() as u64;
        fabric.send(self.wire, frame);
    }

    pub(super) fn use_room<M: Machine, A: Application<M>>(&mut self, call: &mut Call<M, A>) {
        self.wants_room = false;
        self.serve(call);
    }

    /// Calls the machine if its timer is due; if the request has changed since the event was
    /// scheduled, sets the alarm anew. Returns an outcome if timers fire endlessly without time
    /// passing.
    pub(super) fn look_at_timers<M: Machine, A: Application<M>>(
        &mut self,
        call: &mut Call<M, A>,
    ) -> Option<Outcome> {
        let (now, at) = (call.fabric.now(), call.fabric.instant());
        if !self.pending_timers.alarm_rang(now) {
            self.set_alarm(call.fabric);
            return None;
        }
        let (why, too_often) = (
            self.pending_timers.due_timer(now),
            self.pending_timers.called_too_often(now),
        );
        if why.is_some() {
            call.machine.handle_timeout(at);
        }
        self.serve(call);
        too_often.then_some(Outcome::LiveLock {
            at,
            host: self.number as usize,
            why,
        })
    }

    fn set_alarm(&mut self, fabric: &mut Fabric) {
        if let Some(at) = self
            .pending_timers
            .missing_alarm(fabric.now(), self.timer_slack_nanos)
        {
            fabric.schedule(at, Event::Timer(self.number));
        }
    }

    pub(super) fn crash(&mut self, fabric: &mut Fabric) {
        self.pending_timers.set(None, None);
        self.condition = Condition::Crashed;
        self.stats.drops.dead += self.ring.len() as u64;
        let refused = self.refused.take().map(|(frame, _)| frame);
        for frame in self.ring.drain(..).chain(refused) {
            fabric.give_back(frame);
        }
        fabric.cut(self.wire);
    }

    pub(super) fn restart<M: Machine, A: Application<M>>(&mut self, call: &mut Call<M, A>) {
        if self.condition == Condition::Crashed {
            self.condition = Condition::Running;
            call.fabric.restore(self.wire);
            self.switch_on(call);
        }
    }

    pub(super) fn pause(&mut self) {
        if self.condition == Condition::Running {
            self.pending_timers.set(None, None);
            self.condition = Condition::Paused;
        }
    }

    pub(super) fn resume<M: Machine, A: Application<M>>(&mut self, call: &mut Call<M, A>) {
        if self.condition == Condition::Paused {
            self.condition = Condition::Running;
            self.begin_processing(0, call.fabric);
            self.switch_on(call);
        }
    }
}

const CALLS_WITHIN_A_MOMENT: u32 = 1_000;

#[derive(Debug, Default)]
pub(super) struct TimerRequests {
    deadline: Option<Deadline>,
    appointment: Option<u64>,
    alarms: Vec<u64>,
    called: (u64, u32),
}

impl TimerRequests {
    pub(super) fn set(&mut self, deadline: Option<Deadline>, appointment: Option<Instant>) {
        (self.deadline, self.appointment) = (deadline, appointment.map(Instant::as_nanos));
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    pub(super) fn next(&self) -> Option<u64> {
        let deadline = self.deadline.map(|deadline| deadline.at.as_nanos());
        match (deadline, self.appointment) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Returns the time for which a `Timer` event has to be scheduled, if one is missing.
    ///
    /// An earlier event is kept and checks again when it fires, so a deadline that moves back costs
    /// nothing. With `slack` the time is rounded up to a multiple of it.
    pub(super) fn missing_alarm(&mut self, now: u64, slack: u64) -> Option<u64> {
        let next = self.next()?.max(now);
        let next = next.checked_next_multiple_of(slack.max(1)).unwrap_or(next);
        if self.alarms.last().is_some_and(|&alarm| alarm <= next) {
            return None;
        }
        self.alarms.push(next);
        Some(next)
    }

    pub(super) fn alarm_rang(&mut self, now: u64) -> bool {
        self.alarms.pop();
        self.next().is_some_and(|next| next <= now)
    }

    pub(super) fn called_too_often(&mut self, now: u64) -> bool {
        self.called = match self.called {
            (at, calls) if at == now => (at, calls + 1),
            _ => (now, 1),
        };
        self.called.1 > CALLS_WITHIN_A_MOMENT
    }

    pub(super) fn due_timer(&self, now: u64) -> Option<Timer> {
        let deadline = self.deadline?;
        (deadline.at.as_nanos() <= now).then_some(deadline.why)
    }
}

#[derive(Debug)]
struct Late {
    host: u32,
    frame: Rc<SharedFrame>,
    undecided: bool,
}

#[derive(Debug, Default)]
pub(super) struct LastHop {
    deliveries: u64,
    late: Vec<Option<Late>>,
    unused: Vec<u32>,
}

impl LastHop {
    pub(super) fn pass(
        &mut self,
        frame: Rc<SharedFrame>,
        host: &mut Host,
        fabric: &mut Fabric,
        faults: &mut dyn Faults,
    ) -> Option<Rc<SharedFrame>> {
        let frame = host.filter(frame, fabric)?;
        match self.fate(&frame, host, fabric, faults) {
            Fate::Deliver => Some(frame),
            Fate::Drop => {
                host.lose(frame, fabric);
                None
            }
            Fate::Duplicate { after } => {
                self.postpone(Rc::clone(&frame), host, after, fabric);
                Some(frame)
            }
            Fate::Delay(by) => {
                self.postpone(frame, host, by, fabric);
                None
            }
            Fate::Corrupt { bit } => {
                let changed = fabric.changed(frame, |frame| {
                    frame[bit / 8 % frame.len()] ^= 1 << (bit % 8)
                });
                host.filter(changed, fabric)
            }
            Fate::Damage { byte } => Some(fabric.changed(frame, |frame| wire::damage(frame, byte))),
        }
    }

    pub(super) fn host_of(&self, number: u32) -> u32 {
        self.late[number as usize]
            .as_ref()
            .expect("a late frame is kept until its event happens")
            .host
    }

    pub(super) fn pass_late(
        &mut self,
        number: u32,
        host: &mut Host,
        fabric: &mut Fabric,
        faults: &mut dyn Faults,
    ) -> Option<Rc<SharedFrame>> {
        let late = self.late[number as usize]
            .take()
            .expect("a late frame is kept until its event happens");
        self.unused.push(number);
        if late.undecided {
            self.pass(late.frame, host, fabric, faults)
        } else {
            host.filter(late.frame, fabric)
        }
    }

    pub(super) fn inject(
        &mut self,
        frame: Rc<SharedFrame>,
        host: u32,
        at: u64,
        fabric: &mut Fabric,
    ) {
        self.hold_back(
            Late {
                host,
                frame,
                undecided: true,
            },
            at,
            fabric,
        );
    }

    fn fate(
        &mut self,
        frame: &SharedFrame,
        host: &Host,
        fabric: &Fabric,
        faults: &mut dyn Faults,
    ) -> Fate {
        let delivery = Delivery {
            from: frame.origin().map(|origin| origin as usize),
            to: host.number() as usize,
            at: fabric.instant(),
            ordinal: self.deliveries,
            frame: frame.bytes(),
        };
        self.deliveries += 1;
        faults.fate(&delivery)
    }

    fn postpone(&mut self, frame: Rc<SharedFrame>, host: &Host, by: Duration, fabric: &mut Fabric) {
        let at = (fabric.instant() + by).as_nanos();
        self.hold_back(
            Late {
                host: host.number(),
                frame,
                undecided: false,
            },
            at,
            fabric,
        );
    }

    fn hold_back(&mut self, late: Late, at: u64, fabric: &mut Fabric) {
        let number = self.unused.pop().unwrap_or_else(|| {
            self.late.push(None);
            self.late.len() as u32 - 1
        });
        self.late[number as usize] = Some(late);
        fabric.schedule(at, Event::Late(number));
    }
}
