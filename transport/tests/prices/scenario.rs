//! Description of one scenario in the tests of cost in frames: its hosts, faults and events.

use crate::case::{Case, Path};
use crate::host::{Clock, Host};
use ethbcast_transport::sim::{Cable, Delivery, Fate, Faults, HostSettings, NoFaults, QueueLimit, RandomFaults};
use ethbcast_transport::wire::{Flags, Frame, Kind, group_mac, parse};
use ethbcast_transport::{Instant, Tuning};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

type Action = Box<dyn Fn(&mut Host, Instant)>;
type Hazard = Box<dyn FnMut(&Delivery<'_>) -> Fate>;

pub struct Step {
    pub at: Instant,
    pub host: usize,
    pub act: Action,
}

pub struct Scenario {
    pub name: String,
    pub case: Case,
    pub hazard: Hazard,
    /// Whether no frame is lost or late and no host leaves, so that nothing may be sent again.
    pub clean: bool,
    pub steps: Vec<Step>,
    pub crashes: Vec<(usize, Instant)>,
    pub pauses: Vec<(usize, Instant, Instant)>,
    pub clocks: BTreeMap<usize, Clock>,
    /// Start of the simulation's clock: late ones make stamps wrap.
    pub begins: Instant,
    pub cables: BTreeMap<usize, Cable>,
    pub settings: HostSettings,
    pub port_queue: QueueLimit,
    /// Interval at which the root gets one more frame; zero for as many as there is room for.
    pub every: Duration,
    /// Number of frames that a host's application takes before it rests, and for how long.
    pub rests: BTreeMap<usize, (u64, Duration)>,
    pub excused: Vec<usize>,
    pub begin_at: BTreeMap<usize, u64>,
    pub non_members: Vec<usize>,
}

pub fn us(micros: u64) -> Instant {
    Instant::START + Duration::from_micros(micros)
}

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
        non_members: Vec::new(),
    }
}

fn hazard(mut faults: impl Faults + 'static) -> Hazard {
    Box::new(move |delivery: &Delivery<'_>| faults.fate(delivery))
}

impl Scenario {
    pub fn faults(self, faults: impl Faults + 'static) -> Scenario {
        Scenario { hazard: hazard(faults), clean: false, ..self }
    }

    pub fn loss(self, part: f64) -> Scenario {
        self.faults(RandomFaults::new(11).loss(part))
    }

    pub fn tuned(mut self, tune: impl Fn(&mut Tuning)) -> Scenario {
        tune(&mut self.case.tuning);
        self
    }

    pub fn by(mut self, tuning: Tuning, slots: u64) -> Scenario {
        self.case.tuning = tuning.with_feed_frames(slots);
        self
    }

    pub fn messages(mut self, frames: u64) -> Scenario {
        self.case.message_frames = frames;
        self
    }

    pub fn then(mut self, micros: u64, host: usize, act: impl Fn(&mut Host, Instant) + 'static) -> Scenario {
        self.clean = false;
        self.steps.push(Step { at: us(micros), host, act: Box::new(act) });
        self
    }

    pub fn crash(mut self, micros: u64, host: usize) -> Scenario {
        self.clean = false;
        self.crashes.push((host, us(micros)));
        self.excuse(host)
    }

    pub fn pause(mut self, host: usize, from_micros: u64, to_micros: u64) -> Scenario {
        self.clean = false;
        self.pauses.push((host, us(from_micros), us(to_micros)));
        self
    }

    pub fn excuse(mut self, host: usize) -> Scenario {
        self.excused.push(host);
        self
    }

    pub fn rests(mut self, host: usize, frames: u64, micros: u64) -> Scenario {
        self.rests.insert(host, (frames, Duration::from_micros(micros)));
        self
    }

    pub fn cable(mut self, host: usize, mbits: u64, micros: u64) -> Scenario {
        self.cables.insert(host, Cable::new(mbits * 1_000_000, Duration::from_micros(micros)));
        self
    }

    pub fn clock(mut self, host: usize, ahead_ms: u64, faster_ppm: i64) -> Scenario {
        self.clocks.insert(host, Clock { ahead_nanos: ahead_ms * 1_000_000, faster_ppm });
        self
    }
}

fn when(
    mut condition: impl FnMut(&Delivery<'_>, &Frame<'_>) -> bool + 'static,
    fate: Fate,
) -> impl FnMut(&Delivery<'_>) -> Fate {
    move |delivery: &Delivery<'_>| {
        let hit = parse(delivery.frame).is_ok_and(|frame| condition(delivery, &frame));
        if hit { fate } else { Fate::Deliver }
    }
}

pub fn both(
    mut first: impl FnMut(&Delivery<'_>) -> Fate + 'static,
    mut second: impl FnMut(&Delivery<'_>) -> Fate + 'static,
) -> impl FnMut(&Delivery<'_>) -> Fate {
    move |delivery: &Delivery<'_>| match first(delivery) {
        Fate::Deliver => second(delivery),
        fate => fate,
    }
}

pub fn lose_new(condition: impl Fn(usize, u64) -> bool + 'static) -> impl FnMut(&Delivery<'_>) -> Fate {
    let new = move |delivery: &Delivery<'_>, frame: &Frame<'_>| {
        let Frame { header, .. } = frame;
        header.kind == Kind::DATA && !header.flags.has(Flags::RESENT) && condition(delivery.to, header.sequence)
    };
    when(new, Fate::Drop)
}

pub fn lose_twice(condition: impl Fn(usize, u64) -> bool + 'static) -> impl FnMut(&Delivery<'_>) -> Fate {
    let mut again = BTreeSet::new();
    let lost = move |delivery: &Delivery<'_>, frame: &Frame<'_>| {
        let (header, to) = (&frame.header, delivery.to);
        let hit = header.kind == Kind::DATA && condition(to, header.sequence);
        hit && (!header.flags.has(Flags::RESENT) || again.insert((to, header.sequence)))
    };
    when(lost, Fate::Drop)
}

pub fn cut_off(host: usize, micros: Range<u64>) -> impl FnMut(&Delivery<'_>) -> Fate {
    let hit = move |delivery: &Delivery<'_>, _: &Frame<'_>| {
        (delivery.to == host || delivery.from == Some(host)) && micros.contains(&delivery.at.as_micros())
    };
    when(hit, Fate::Drop)
}

pub fn deaf(host: usize, micros: Range<u64>) -> impl FnMut(&Delivery<'_>) -> Fate {
    when(move |delivery, _| delivery.to == host && micros.contains(&delivery.at.as_micros()), Fate::Drop)
}

pub fn lose_each(nth: u64, kind: Kind) -> impl FnMut(&Delivery<'_>) -> Fate {
    when(every(nth, kind), Fate::Drop)
}

pub fn delay_each(nth: u64, kind: Kind, late: Duration) -> impl FnMut(&Delivery<'_>) -> Fate {
    when(every(nth, kind), Fate::Delay(late))
}

pub fn repeat_each(nth: u64, kind: Kind, after: Duration) -> impl FnMut(&Delivery<'_>) -> Fate {
    when(every(nth, kind), Fate::Duplicate { after })
}

fn every(nth: u64, kind: Kind) -> impl FnMut(&Delivery<'_>, &Frame<'_>) -> bool {
    let mut count = 0;
    move |_, frame| {
        count += u64::from(frame.header.kind == kind);
        frame.header.kind == kind && count % nth == 0
    }
}
