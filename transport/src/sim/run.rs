//! Main loop of the network simulator: takes one event after the other and calls the hosts.

use super::event::{Control, Event};
use super::fabric::Fabric;
use super::faults::Faults;
use super::host::{Application, Call, Host, LastHop};
use super::network::{CableId, Network, StormControl, SwitchId};
use super::stats::{Outcome, Stats};
use super::wire::unshared;
use crate::{Deadline, Instant, MacAddr, Machine};
use std::fmt;

/// A network with a machine on every host.
///
/// **The order of calls** at a host: the input (a frame or the time), then the application, then
/// [`poll_transmit`](Machine::poll_transmit) as long as the transmit ring has room, then
/// [`poll_timeout`](Machine::poll_timeout). At the start every host is called with
/// [`Instant::START`], in order, unless [`begin_at`](Simulation::begin_at) says otherwise.
pub struct Simulation<M, F> {
    machines: Vec<M>,
    hosts: Vec<Host>,
    fabric: Fabric,
    last_hop: LastHop,
    faults: F,
    controls: Vec<Control>,
    pending_calls: usize,
    events: u64,
    event_limit: u64,
    started: bool,
}

impl<M: Machine, F: Faults> Simulation<M, F> {
    /// Puts `machines[h]` on host h.
    ///
    /// # Panics
    /// If there are not as many machines as hosts.
    pub fn new(network: &Network, machines: Vec<M>, faults: F) -> Self {
        assert_eq!(
            machines.len(),
            network.hosts(),
            "every host needs one machine: pass as many machines as the network has hosts"
        );
        Simulation {
            hosts: (0..machines.len())
                .map(|host| Host::new(network, host))
                .collect(),
            machines,
            fabric: Fabric::new(network),
            last_hop: LastHop::default(),
            faults,
            controls: Vec::new(),
            pending_calls: 0,
            events: 0,
            event_limit: u64::MAX,
            started: false,
        }
    }

    /// Runs until nothing is left to do, or up to and including `until`; may be called again to
    /// continue.
    ///
    /// `application(host, machine, now)` is called after each input of a host: it moves data in and
    /// out of the machine and may return the time of its next call, which replaces the previous
    /// request.
    pub fn run(
        &mut self,
        until: Instant,
        mut application: impl FnMut(usize, &mut M, Instant) -> Option<Instant>,
    ) -> Outcome {
        loop {
            if let Some(outcome) = self.step(until, &mut application) {
                return outcome;
            }
        }
    }

    /// Processes one event, as [`run`](Simulation::run) does, for audits in between; `None` if the
    /// run is not over.
    pub fn step(
        &mut self,
        until: Instant,
        application: &mut impl FnMut(usize, &mut M, Instant) -> Option<Instant>,
    ) -> Option<Outcome> {
        self.start();
        if !self.fabric.is_busy() && self.pending_calls == 0 {
            return Some(Outcome::Quiet { at: self.now() });
        }
        if self.events >= self.event_limit {
            return Some(Outcome::EventLimit { at: self.now() });
        }
        let Some(event) = self.fabric.next_event(until.as_nanos()) else {
            return Some(Outcome::TimeLimit { at: self.now() });
        };
        self.events += 1;
        self.happen(event, application)
    }

    fn start(&mut self) {
        if !self.started {
            self.started = true;
            for host in &self.hosts {
                self.fabric.schedule(0, Event::Start(host.number()));
            }
        }
    }

    fn happen<A: Application<M>>(&mut self, event: Event, application: &mut A) -> Option<Outcome> {
        match event {
            Event::Arrival(wire) => {
                let (host, frame) = self.fabric.arrive(wire)?;
                self.at(host, application, |host, call, last_hop| {
                    if let Some(frame) = last_hop.pass(frame, host, call.fabric, call.faults) {
                        host.receive(frame, call);
                    }
                });
            }
            Event::Late(number) => self.at(
                self.last_hop.host_of(number),
                application,
                |host, call, last_hop| {
                    if let Some(frame) = last_hop.pass_late(number, host, call.fabric, call.faults)
                    {
                        host.receive(frame, call);
                    }
                },
            ),
            Event::Process(host) => {
                self.at(host, application, |host, call, _| host.process_first(call))
            }
            Event::Room(host) => self.at(host, application, |host, call, _| host.use_room(call)),
            Event::Start(host) => self.at(host, application, |host, call, _| host.switch_on(call)),
            Event::Wake(host) => self.at(host, application, |host, call, _| host.serve(call)),
            Event::Timer(host) => {
                return self.at(host, application, |host, call, _| host.look_at_timers(call));
            }
            Event::Control(number) => match self.controls[number as usize] {
                Control::Crash(host) => {
                    self.at(host, application, |host, call, _| host.crash(call.fabric))
                }
                Control::Pause(host) => self.at(host, application, |host, _, _| host.pause()),
                Control::Resume(host) => {
                    self.at(host, application, |host, call, _| host.resume(call))
                }
                Control::Cut(cable) => self.fabric.cut_cable(cable),
                Control::Restore(cable) => self.fabric.restore_cable(cable),
                Control::Restart(host) => {
                    self.at(host, application, |host, call, _| host.restart(call))
                }
                Control::Police(switch, control) => self.fabric.police(switch, control),
            },
        }
        None
    }

    fn at<A, R>(
        &mut self,
        host: u32,
        application: &mut A,
        happening: impl FnOnce(&mut Host, &mut Call<M, A>, &mut LastHop) -> R,
    ) -> R {
        let (host, machine) = (
            &mut self.hosts[host as usize],
            &mut self.machines[host as usize],
        );
        let before = host.wants_call();
        let mut call = Call {
            machine,
            application,
            fabric: &mut self.fabric,
            faults: &mut self.faults,
        };
        let result = happening(host, &mut call, &mut self.last_hop);
        self.pending_calls =
            self.pending_calls + usize::from(host.wants_call()) - usize::from(before);
        result
    }

    /// Crashes a host: its machine is never called again, its unsent frames are lost, arriving
    /// frames vanish.
    ///
    /// Like all changes this one is scheduled; a time in the past becomes the present. Changes at
    /// one time happen in the order of the calls, and before the hosts' first calls if that time is
    /// the start.
    pub fn crash(&mut self, host: usize, at: Instant) {
        self.schedule(at, Control::Crash(host as u32));
    }

    /// Stops a host's process: its card continues to send what it has, and to receive until the
    /// ring is full.
    pub fn pause(&mut self, host: usize, at: Instant) {
        self.schedule(at, Control::Pause(host as u32));
    }

    /// Continues a paused host: first with due timers, then with the frames in its receive ring.
    pub fn resume(&mut self, host: usize, at: Instant) {
        self.schedule(at, Control::Resume(host as u32));
    }

    /// Cuts a cable: frames in both directions whose last bit has not left by `at` are lost.
    pub fn cut(&mut self, cable: CableId, at: Instant) {
        self.schedule(at, Control::Cut(cable));
    }

    /// Repairs a cut cable; queued frames that leave from then on arrive.
    pub fn restore(&mut self, cable: CableId, at: Instant) {
        self.schedule(at, Control::Restore(cable));
    }

    /// Restarts a crashed host, with the machine set by [`machine_mut`](Simulation::machine_mut).
    pub fn restart(&mut self, host: usize, at: Instant) {
        self.schedule(at, Control::Restart(host as u32));
    }

    /// Replaces the policer of a switch; `None` removes it.
    pub fn police(&mut self, switch: SwitchId, control: Option<StormControl>, at: Instant) {
        self.schedule(at, Control::Police(switch, control));
    }

    /// Starts the clock at `at` instead of [`Instant::START`], to test time counters that wrap.
    ///
    /// # Panics
    /// If the run has begun.
    pub fn begin_at(&mut self, at: Instant) {
        assert!(
            !self.started && self.events == 0,
            "the run has begun: say before when its clock begins"
        );
        self.fabric.begin_at(at);
    }

    /// Calls a host's application at `at`.
    pub fn wake(&mut self, host: usize, at: Instant) {
        self.fabric
            .schedule(at.as_nanos(), Event::Wake(host as u32));
    }

    /// Schedules a frame without a sender: it reaches the card of host `to` at `at`, or now if that
    /// has passed.
    ///
    /// # Panics
    /// If the frame has no whole header or is longer than 14 bytes + MTU.
    pub fn inject(&mut self, at: Instant, to: usize, frame: &[u8]) {
        let mut copy = self.fabric.take_frame();
        let writable = unshared(&mut copy);
        let buffer = writable.buffer_mut();
        assert!(
            frame.len() <= buffer.len(),
            "a frame of {} bytes does not fit this network: inject at most 14 bytes + MTU, or raise the MTU",
            frame.len()
        );
        buffer[..frame.len()].copy_from_slice(frame);
        writable.finish(frame.len(), None);
        self.last_hop
            .inject(copy, to as u32, at.as_nanos(), &mut self.fabric);
    }

    fn schedule(&mut self, at: Instant, control: Control) {
        let number = self.controls.len() as u32;
        self.controls.push(control);
        self.fabric.schedule(at.as_nanos(), Event::Control(number));
    }

    /// Makes a host accept frames for `group` from now on.
    pub fn join_group(&mut self, host: usize, group: MacAddr) {
        self.hosts[host].join(group);
    }

    /// Makes a host ignore frames for `group` from now on.
    pub fn leave_group(&mut self, host: usize, group: MacAddr) {
        self.hosts[host].leave(group);
    }

    /// Ends every run after `events` events in all; no limit by default.
    pub fn set_event_limit(&mut self, events: u64) {
        self.event_limit = events;
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.fabric.instant()
    }

    /// Returns all machines, by host.
    pub fn machines(&self) -> &[M] {
        &self.machines
    }

    /// Returns one machine for modification between two runs; [`wake`](Simulation::wake) makes its
    /// host react.
    pub fn machine_mut(&mut self, host: usize) -> &mut M {
        &mut self.machines[host]
    }

    /// Returns the machines after the run.
    pub fn into_machines(self) -> Vec<M> {
        self.machines
    }

    /// Returns the source of faults for modification between two runs.
    pub fn faults_mut(&mut self) -> &mut F {
        &mut self.faults
    }

    /// Returns the machine with the earliest deadline, to diagnose a run that has not quiesced.
    pub fn next_deadline(&self) -> Option<(usize, Deadline)> {
        let deadlines = self.hosts.iter().enumerate();
        deadlines
            .filter_map(|(host, state)| Some((host, state.deadline()?)))
            .min_by_key(|(_, deadline)| *deadline)
    }

    /// Returns a copy of all counters.
    pub fn stats(&self) -> Stats {
        let hosts = self.hosts.iter().map(Host::stats).collect();
        Stats::sum(
            self.fabric.stats(),
            hosts,
            self.fabric.pauses(),
            self.events,
        )
    }

    /// Returns the number of events so far.
    pub fn events(&self) -> u64 {
        self.events
    }
}

impl<M, F> fmt::Debug for Simulation<M, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Simulation");
        fields
            .field("now", &self.fabric.instant())
            .field("hosts", &self.hosts.len())
            .field("events", &self.events);
        fields.finish_non_exhaustive()
    }
}
