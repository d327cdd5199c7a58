//! What a scenario of the price list is: who has the frames from whom, what goes wrong, and what happens meanwhile.

use crate::case::{Case, Path};
use crate::host::{Clock, Host};
use ethbcast_transport::sim::{Cable, Delivery, Fate, Faults, HostSettings, NoFaults, QueueLimit, RandomFaults};
use ethbcast_transport::wire::group_mac;
use ethbcast_transport::{Instant, Tuning};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the session above a stream does to it.
type Action = Box<dyn Fn(&mut Host, Instant)>;
/// What becomes of each frame.
type Hazard = Box<dyn FnMut(&Delivery<'_>) -> Fate>;

/// Something that happens at a host.
pub struct Step {
    pub at: Instant,
    pub host: usize,
    pub act: Action,
}

/// See the module's description.
pub struct Scenario {
    pub name: String,
    pub case: Case,
    pub hazard: Hazard,
    /// Nothing is lost, late or said to go: nothing may be sent again.
    pub clean: bool,
    pub steps: Vec<Step>,
    pub crashes: Vec<(usize, Instant)>,
    pub pauses: Vec<(usize, Instant, Instant)>,
    pub clocks: BTreeMap<usize, Clock>,
    /// When the simulation's clock begins: stamps wrap later.
    pub begins: Instant,
    pub cables: BTreeMap<usize, Cable>,
    pub settings: HostSettings,
    /// In front of each port of the switch.
    pub port_queue: QueueLimit,
    /// The root has one more frame each time so much has passed; at once what there is room for if zero.
    pub every: Duration,
    /// By host: its application takes so many frames and then rests for so long.
    pub rests: BTreeMap<usize, (u64, Duration)>,
    /// Who need not have everything in the end.
    pub excused: Vec<usize>,
    /// The first frame that a host needs.
    pub begin_at: BTreeMap<usize, u64>,
    /// Of whom nobody knows at the beginning.
    pub strangers: Vec<usize>,
}

/// A moment in microseconds.
pub fn us(micros: u64) -> Instant {
    Instant::START + Duration::from_micros(micros)
}

/// A broadcast by `path` of so many frames with feeds of 64 slots and nothing wrong.
pub fn scenario(name: &str, path: Path, hosts: usize, frames: u64) -> Scenario {
    let tuning = Tuning::default().with_feed_frames(64);
    let settings = HostSettings { groups: vec![group_mac("test")], ..HostSettings::default() };
    Scenario {
        name: format!("{path:?} of {hosts}, {frames} frames: {name}"),
        case: Case { path, hosts, frames, tuning, lazy_frames: 0, last_takes: None, message_frames: 0 },
        hazard: hazard(NoFaults),
        clean: true,
        steps: Vec::new(),
        crashes: Vec::new(),
        pauses: Vec::new(),
        clocks: BTreeMap::new(),
        begins: Instant::START,
        cables: BTreeMap::new(),
        settings,
        port_queue: QueueLimit::Frames(512),
        every: Duration::ZERO,
        rests: BTreeMap::new(),
        excused: Vec::new(),
        begin_at: BTreeMap::new(),
        strangers: Vec::new(),
    }
}

fn hazard(mut faults: impl Faults + 'static) -> Hazard {
    Box::new(move |delivery: &Delivery<'_>| faults.fate(delivery))
}

impl Scenario {
    /// Frames suffer these faults.
    pub fn faults(self, faults: impl Faults + 'static) -> Scenario {
        Scenario { hazard: hazard(faults), clean: false, ..self }
    }

    /// Such a part of all deliveries is lost, always the same.
    pub fn loss(self, part: f64) -> Scenario {
        self.faults(RandomFaults::new(11).loss(part))
    }

    /// Other numbers of the engine.
    pub fn tuned(mut self, tune: impl Fn(&mut Tuning)) -> Scenario {
        tune(&mut self.case.tuning);
        self
    }

    /// Another protocol, with so many slots.
    pub fn by(mut self, tuning: Tuning, slots: u64) -> Scenario {
        self.case.tuning = tuning.with_feed_frames(slots);
        self
    }

    /// Messages of so many frames, each awaited before the next.
    pub fn messages(mut self, frames: u64) -> Scenario {
        self.case.message_frames = frames;
        self
    }

    /// Something happens at a host after so many microseconds; what is sent again may have that cause.
    pub fn then(mut self, micros: u64, host: usize, act: impl Fn(&mut Host, Instant) + 'static) -> Scenario {
        self.clean = false;
        self.steps.push(Step { at: us(micros), host, act: Box::new(act) });
        self
    }

    /// A host is gone for good after so many microseconds.
    pub fn crash(mut self, micros: u64, host: usize) -> Scenario {
        self.clean = false;
        self.crashes.push((host, us(micros)));
        self.excuse(host)
    }

    /// A host stands still.
    pub fn pause(mut self, host: usize, from_micros: u64, to_micros: u64) -> Scenario {
        self.clean = false;
        self.pauses.push((host, us(from_micros), us(to_micros)));
        self
    }

    /// A host need not have everything.
    pub fn excuse(mut self, host: usize) -> Scenario {
        self.excused.push(host);
        self
    }

    /// A host's application takes so many frames and rests.
    pub fn rests(mut self, host: usize, frames: u64, micros: u64) -> Scenario {
        self.rests.insert(host, (frames, Duration::from_micros(micros)));
        self
    }

    /// A host has a cable of so many Mbit/s and microseconds.
    pub fn cable(mut self, host: usize, mbits: u64, micros: u64) -> Scenario {
        self.cables.insert(host, Cable::new(mbits * 1_000_000, Duration::from_micros(micros)));
        self
    }

    /// A host's clock is so many milliseconds ahead and runs faster by so many parts in a million.
    pub fn clock(mut self, host: usize, ahead_ms: u64, faster_ppm: i64) -> Scenario {
        self.clocks.insert(host, Clock { ahead_nanos: ahead_ms * 1_000_000, faster_ppm });
        self
    }
}
