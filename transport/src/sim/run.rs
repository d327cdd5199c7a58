//! The simulation: takes event after event, and lets machines and the test's application act on each.

use std::fmt;

use super::event::{Control, Event};
use super::fabric::Fabric;
use super::faults::Faults;
use super::frame::unshared;
use super::host::{Application, Call, Host};
use super::last_hop::LastHop;
use super::network::{CableId, Network, SwitchId};
use super::outcome::Outcome;
use super::settings::StormControl;
use super::stats::Stats;
use crate::{Deadline, Instant, MacAddr, Machine};

/// A network with a machine on every host.
///
/// **The order of calls** at a host: the input (a frame or the time), then the application, then
/// [`poll_transmit`](Machine::poll_transmit) as long as the transmit ring has room, then
/// [`poll_timeout`](Machine::poll_timeout). At the start every host is called with [`Instant::START`], in order, unless
/// [`begin_at`](Simulation::begin_at) says otherwise.
pub struct Simulation<M, F> {
    machines: Vec<M>,
    hosts: Vec<Host>,
    fabric: Fabric,
    last_hop: LastHop,
    faults: F,
    /// What the test does to the network while it runs, by the number in the `Control` event.
    controls: Vec<Control>,
    /// How many hosts want to be called.
    wishes: usize,
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
            hosts: (0..machines.len()).map(|host| Host::new(network, host)).collect(),
            machines,
            fabric: Fabric::new(network),
            last_hop: LastHop::default(),
            faults,
            controls: Vec::new(),
            wishes: 0,
            events: 0,
            event_limit: u64::MAX,
            started: false,
        }
    }

    /// Runs until nothing is left to do, or up to and including `until`; may be called again to go on.
    ///
    /// `application(host, machine, now)` is called after each input of a host: it moves data in and out of the
    /// machine and may name the moment at which it wants to be called again; each answer replaces the one before.
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

    /// Goes through one event, as [`run`](Simulation::run) does; `None` if the run is not over. For audits in between.
    pub fn step(
        &mut self,
        until: Instant,
        application: &mut impl FnMut(usize, &mut M, Instant) -> Option<Instant>,
    ) -> Option<Outcome> {
        self.start();
        if !self.fabric.is_busy() && self.wishes == 0 {
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
            Event::Late(number) => self.at(self.last_hop.host_of(number), application, |host, call, last_hop| {
                if let Some(frame) = last_hop.pass_late(number, host, call.fabric, call.faults) {
                    host.receive(frame, call);
                }
            }),
            Event::Process(host) => self.at(host, application, |host, call, _| host.process_first(call)),
            Event::Room(host) => self.at(host, application, |host, call, _| host.use_room(call)),
            Event::Start(host) => self.at(host, application, |host, call, _| host.switch_on(call)),
            Event::Wake(host) => self.at(host, application, |host, call, _| host.serve(call)),
            Event::Timer(host) => return self.at(host, application, |host, call, _| host.look_at_timers(call)),
            Event::Control(number) => match self.controls[number as usize] {
                Control::Crash(host) => self.at(host, application, |host, call, _| host.crash(call.fabric)),
                Control::Pause(host) => self.at(host, application, |host, _, _| host.pause()),
                Control::Resume(host) => self.at(host, application, |host, call, _| host.resume(call)),
                Control::Cut(cable) => self.fabric.cut_cable(cable),
                Control::Restore(cable) => self.fabric.restore_cable(cable),
                Control::Restart(host) => self.at(host, application, |host, call, _| host.restart(call)),
                Control::Police(switch, control) => self.fabric.police(switch, control),
            },
        }
        None
    }

    /// Lets something happen at a host, and keeps count of the hosts that want to be called.
    fn at<A, R>(
        &mut self,
        host: u32,
        application: &mut A,
        happening: impl FnOnce(&mut Host, &mut Call<M, A>, &mut LastHop) -> R,
    ) -> R {
        let (host, machine) = (&mut self.hosts[host as usize], &mut self.machines[host as usize]);
        let before = host.wants_call();
        let mut call = Call { machine, application, fabric: &mut self.fabric, faults: &mut self.faults };
        let result = happening(host, &mut call, &mut self.last_hop);
        self.wishes = self.wishes + usize::from(host.wants_call()) - usize::from(before);
        result
    }

    /// Ends a host: its machine is never called again, what it has not sent is lost, what reaches it vanishes.
    ///
    /// This and the other changes are scheduled; a moment that has passed becomes the present. Several at the same
    /// moment happen in the order of the calls, and before the hosts' first calls if that moment is the start.
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

    /// Switches a crashed host on again, with the machine that [`machine_mut`](Simulation::machine_mut) has put there.
    pub fn restart(&mut self, host: usize, at: Instant) {
        self.schedule(at, Control::Restart(host as u32));
    }

    /// Gives a switch another policer, or none.
    pub fn police(&mut self, switch: SwitchId, control: Option<StormControl>, at: Instant) {
        self.schedule(at, Control::Police(switch, control));
    }

    /// Lets the clock begin at `at` instead of [`Instant::START`], for what happens when a counter of time wraps.
    ///
    /// # Panics
    /// If the run has begun.
    pub fn begin_at(&mut self, at: Instant) {
        assert!(!self.started && self.events == 0, "the run has begun: say before when its clock begins");
        self.fabric.begin_at(at);
    }

    /// Calls a host's application at a moment of the test's choosing.
    pub fn wake(&mut self, host: usize, at: Instant) {
        self.fabric.schedule(at.as_nanos(), Event::Wake(host as u32));
    }

    /// Schedules a frame that nobody has sent: it reaches the card of host `to` at `at`, or now if that has passed.
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
        self.last_hop.inject(copy, to as u32, at.as_nanos(), &mut self.fabric);
    }

    fn schedule(&mut self, at: Instant, control: Control) {
        let number = self.controls.len() as u32;
        self.controls.push(control);
        self.fabric.schedule(at.as_nanos(), Event::Control(number));
    }

    /// Makes a host take frames for `group` from now on.
    pub fn join_group(&mut self, host: usize, group: MacAddr) {
        self.hosts[host].join(group);
    }

    /// Makes a host leave frames for `group` alone from now on.
    pub fn leave_group(&mut self, host: usize, group: MacAddr) {
        self.hosts[host].leave(group);
    }

    /// Ends every run after so many events in all; no limit by default.
    pub fn set_event_limit(&mut self, events: u64) {
        self.event_limit = events;
    }

    /// The virtual clock.
    pub fn now(&self) -> Instant {
        self.fabric.instant()
    }

    /// All machines, by host.
    pub fn machines(&self) -> &[M] {
        &self.machines
    }

    /// One machine, to be changed between two runs; [`wake`](Simulation::wake) makes its host take notice.
    pub fn machine_mut(&mut self, host: usize) -> &mut M {
        &mut self.machines[host]
    }

    /// The machines, when the run is over.
    pub fn into_machines(self) -> Vec<M> {
        self.machines
    }

    /// The source of faults, to be changed between two runs.
    pub fn faults_mut(&mut self) -> &mut F {
        &mut self.faults
    }

    /// The machine that wants to be called first, for a run that should have gone quiet and has not.
    pub fn next_deadline(&self) -> Option<(usize, Deadline)> {
        let deadlines = self.hosts.iter().enumerate();
        deadlines.filter_map(|(host, state)| Some((host, state.deadline()?))).min_by_key(|(_, deadline)| *deadline)
    }

    /// A copy of all counters.
    pub fn stats(&self) -> Stats {
        let hosts = self.hosts.iter().map(Host::stats).collect();
        Stats::sum(self.fabric.stats(), hosts, self.fabric.pauses(), self.events)
    }

    /// How many events have happened.
    pub fn events(&self) -> u64 {
        self.events
    }
}

impl<M, F> fmt::Debug for Simulation<M, F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("Simulation");
        fields.field("now", &self.fabric.instant()).field("hosts", &self.hosts.len()).field("events", &self.events);
        fields.finish_non_exhaustive()
    }
}
