//! The loop: takes event after event, and lets machines and the test's application act on each.

use std::rc::Rc;

use super::control::Control;
use super::event::Event;
use super::fabric::Fabric;
use super::faults::Faults;
use super::frame::Frame;
use super::host::Host;
use super::network::{CableId, Network};
use super::stats::{HostStats, Stats};
use crate::{Deadline, Instant, Machine, Timer};

/// Why a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do: no frame under way, no deadline, no appointment.
    Quiet {
        /// When the last thing happened.
        at: Instant,
    },
    /// The next thing happens after the moment the run was to end.
    TimeLimit {
        /// That moment.
        at: Instant,
    },
    /// As many events have happened as [`Simulation::set_event_limit`] allows.
    EventLimit {
        /// When that was.
        at: Instant,
    },
    /// A host has asked again and again to be called at a moment that has come, and time does not pass.
    LiveLock {
        /// When that was.
        at: Instant,
        /// The host.
        host: usize,
        /// The machine's timer; `None` if it is the application that asks.
        why: Option<Timer>,
    },
}

impl Outcome {
    /// Whether nothing was left to do.
    pub fn is_quiet(&self) -> bool {
        matches!(self, Outcome::Quiet { .. })
    }
}

/// The application's turn at a host; see [`Simulation::run`].
pub(super) trait Turn<M>: FnMut(usize, &mut M, Instant) -> Option<Instant> {}

impl<M, T: FnMut(usize, &mut M, Instant) -> Option<Instant>> Turn<M> for T {}

/// A frame on its way outside all wires.
pub(super) struct Late {
    pub(super) host: u32,
    pub(super) frame: Rc<Frame>,
    /// Its fate is still to be decided.
    pub(super) undecided: bool,
}

/// A network with a machine on every host.
///
/// **The order of calls** at a host: the input (a frame or the time), then the application's turn, then
/// [`poll_transmit`](Machine::poll_transmit) as long as the transmit ring has room, then
/// [`poll_timeout`](Machine::poll_timeout). At the start every host is called with [`Instant::START`], in order.
pub struct Simulation<M, F> {
    pub(super) machines: Vec<M>,
    pub(super) faults: F,
    pub(super) fabric: Fabric,
    pub(super) hosts: Vec<Host>,
    pub(super) now: u64,
    /// Deliveries whose fate has been decided.
    pub(super) deliveries: u64,
    /// Frames outside all wires, by the number in their `Late` event, and the numbers out of use.
    pub(super) late: Vec<Option<Late>>,
    pub(super) free_late: Vec<u32>,
    pub(super) controls: Vec<Control>,
    pub(super) live_lock: Option<Outcome>,
    /// How many hosts have a wish to be called.
    pub(super) wishes: usize,
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
        assert_eq!(machines.len(), network.hosts(), "every host needs one machine: pass as many machines as the network has hosts");
        Simulation {
            fabric: Fabric::new(network),
            hosts: (0..machines.len()).map(|host| Host::new(network, host)).collect(),
            machines,
            faults,
            now: 0,
            deliveries: 0,
            late: Vec::new(),
            free_late: Vec::new(),
            controls: Vec::new(),
            live_lock: None,
            wishes: 0,
            events: 0,
            event_limit: u64::MAX,
            started: false,
        }
    }

    /// Runs until nothing is left to do, or up to and including `until`; may be called again to go on.
    ///
    /// `turn(host, machine, now)` is the application: called after each input of a host, it moves data in and out of the
    /// machine and may name the moment at which it wants to be called again; each answer replaces the one before.
    pub fn run(&mut self, until: Instant, mut turn: impl FnMut(usize, &mut M, Instant) -> Option<Instant>) -> Outcome {
        loop {
            if let Some(outcome) = self.step(until, &mut turn) {
                return outcome;
            }
        }
    }

    /// Goes through one event, as [`run`](Simulation::run) does; `None` if the run is not over. For audits in between.
    pub fn step(&mut self, until: Instant, turn: &mut impl FnMut(usize, &mut M, Instant) -> Option<Instant>) -> Option<Outcome> {
        self.start();
        if self.fabric.events.certain() == 0 && self.wishes == 0 {
            return Some(Outcome::Quiet { at: self.now() });
        }
        if self.events >= self.event_limit {
            return Some(Outcome::EventLimit { at: self.now() });
        }
        let Some((at, event)) = self.fabric.events.pop_until(until.as_nanos()) else {
            self.now = self.now.max(until.as_nanos());
            return Some(Outcome::TimeLimit { at: self.now() });
        };
        self.now = at;
        self.events += 1;
        self.happen(event, turn);
        self.live_lock.take()
    }

    fn happen(&mut self, event: Event, turn: &mut impl Turn<M>) {
        match event {
            Event::Arrival(wire) => {
                if let Some((host, frame)) = self.fabric.arrive(self.now, wire) {
                    self.reach_card(host, frame, turn);
                }
            }
            Event::Late(number) => self.reach_card_late(number, turn),
            Event::Process(host) => self.process_first(host, turn),
            Event::Room(host) => self.use_room(host, turn),
            Event::Start(host) => self.switch_on(host, turn),
            Event::Wake(host) => self.serve(host, turn),
            Event::Control(number) => self.change(number, turn),
            Event::Timer(host) => self.look_at_timers(host, turn),
        }
    }

    fn start(&mut self) {
        if !self.started {
            self.started = true;
            for host in 0..self.hosts.len() as u32 {
                self.fabric.events.push(self.now, Event::Start(host));
            }
        }
    }

    /// Ends every run after so many events in all; no limit by default.
    pub fn set_event_limit(&mut self, events: u64) {
        self.event_limit = events;
    }

    /// The virtual clock.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now)
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
        deadlines.filter_map(|(host, state)| Some((host, state.deadline?))).min_by_key(|(_, deadline)| *deadline)
    }

    /// A copy of all counters.
    pub fn stats(&self) -> Stats {
        let hosts = self.hosts.iter().map(|host| host.stats).collect();
        Stats::sum(self.fabric.stats(), hosts, self.events)
    }

    /// The counters of one host.
    pub fn host_stats(&self, host: usize) -> HostStats {
        self.hosts[host].stats
    }

    /// The counters of one cable.
    pub fn cable_stats(&self, cable: CableId) -> super::CableStats {
        self.fabric.cable_stats(cable.index())
    }

    /// How many events have happened.
    pub fn events(&self) -> u64 {
        self.events
    }
}
