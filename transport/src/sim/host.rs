//! What a simulated host is beside its machine: a network card, a process that can be busy, and the wishes to be called.

use std::collections::VecDeque;
use std::rc::Rc;

use super::frame::Frame;
use super::network::Network;
use super::stats::HostStats;
use crate::{Deadline, MacAddr, Timer};

/// How often a host may be called by timers within one moment before the run gives up.
const CALLS_WITHIN_A_MOMENT: u32 = 1_000;

/// Whether a host does anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Running,
    /// Its process stands still; its card goes on until the receive ring is full.
    Paused,
    /// Nothing goes in or out any more.
    Crashed,
}

/// See the module's description.
pub(super) struct Host {
    pub(super) condition: Condition,
    /// The direction of its cable that leaves it.
    pub(super) wire: u32,
    pub(super) groups: Vec<MacAddr>,
    pub(super) stats: HostStats,
    /// Received frames the process has not finished.
    pub(super) ring: VecDeque<Rc<Frame>>,
    pub(super) ring_frames: usize,
    pub(super) per_frame_cost_nanos: u64,
    pub(super) wake_up_nanos: u64,
    /// A `Process` event is scheduled.
    pub(super) busy: bool,
    /// A `Room` event is scheduled.
    pub(super) wants_room: bool,
    /// What the machine has asked for.
    pub(super) deadline: Option<Deadline>,
    /// When the application wants to be called, in nanoseconds.
    pub(super) appointment: Option<u64>,
    mac: MacAddr,
    /// The moments of all scheduled `Timer` events, the next one last.
    alarms: Vec<u64>,
    /// The moment of the last call by a timer, and how many there were within it.
    called: (u64, u32),
}

impl Host {
    pub(super) fn new(network: &Network, index: usize) -> Self {
        let attached = &network.hosts[index];
        let settings = &attached.settings;
        Host {
            condition: Condition::Running,
            wire: attached.cable.index() as u32 * 2,
            groups: settings.groups.clone(),
            stats: HostStats::default(),
            ring: VecDeque::new(),
            ring_frames: settings.nic_receive_frames,
            per_frame_cost_nanos: settings.per_frame_cost.as_nanos() as u64,
            wake_up_nanos: settings.wake_up.as_nanos() as u64,
            busy: false,
            wants_room: false,
            deadline: None,
            appointment: None,
            mac: network.mac_of(index),
            alarms: Vec::new(),
            called: (0, 0),
        }
    }

    /// The filter of its packet socket: own address or one of its groups.
    pub(super) fn wants(&self, destination: MacAddr) -> bool {
        destination == self.mac || self.groups.contains(&destination)
    }

    /// When it has to be called next, by whichever wish comes first.
    pub(super) fn wish(&self) -> Option<u64> {
        let deadline = self.deadline.map(|deadline| deadline.at.as_nanos());
        match (deadline, self.appointment) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether a frame that finds the process idle is handled the moment it arrives.
    pub(super) fn is_instant(&self) -> bool {
        self.per_frame_cost_nanos == 0 && self.wake_up_nanos == 0
    }

    /// Forgets all wishes.
    pub(super) fn fall_silent(&mut self) {
        self.deadline = None;
        self.appointment = None;
    }

    /// The moment for which a `Timer` event is missing, given when the host wants to be called.
    ///
    /// An event that is early enough is left to look again, so a deadline that moves back costs nothing.
    pub(super) fn set_alarm(&mut self, wish: u64) -> Option<u64> {
        if self.alarms.last().is_some_and(|&next| next <= wish) {
            return None;
        }
        self.alarms.push(wish);
        Some(wish)
    }

    /// A `Timer` event has happened: the earliest of those scheduled.
    pub(super) fn alarm_rang(&mut self) {
        self.alarms.pop();
    }

    /// Counts a call by a timer; true if there have been too many without time passing.
    pub(super) fn called_too_often(&mut self, now: u64) -> bool {
        self.called = match self.called {
            (at, calls) if at == now => (at, calls + 1),
            _ => (now, 1),
        };
        self.called.1 > CALLS_WITHIN_A_MOMENT
    }

    /// The machine's timer that is due; `None` if it is the application.
    pub(super) fn due_timer(&self, now: u64) -> Option<Timer> {
        let deadline = self.deadline?;
        (deadline.at.as_nanos() <= now).then_some(deadline.why)
    }
}
