//! One scenario of the tests of cost in frames: its hosts, faults and events. Runs it, checks every
//! receiver's bytes and counts every frame.

use crate::case::{Case, PAYLOAD_BYTES, Path, payload};
use crate::gaps::Gaps;
use crate::host::{Clock, Host, Peaks, Price, Role, Seen};
use ethbcast_transport::sim::{
    Cable, Delivery, Fate, Faults, HostSettings, Network, NoFaults, Outcome, QueueLimit,
    RandomFaults, Simulation, SwitchSettings,
};
use ethbcast_transport::stream::{Ending, Stream};
use ethbcast_transport::wire::{Flags, Frame, Kind, group_mac, parse};
use ethbcast_transport::{Instant, Tuning};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

const CABLE: (u64, Duration) = (100_000_000, Duration::from_micros(5));
const TURN: Duration = Duration::from_micros(500);

struct World<'a> {
    scenario: &'a Scenario,
    steps: Vec<&'a Step>,
    pushed: u64,
    pushed_at: Vec<Instant>,
    taken: Vec<u64>,
    rested: Vec<Instant>,
    done: Instant,
    delays: (Duration, u64),
    gaps: Gaps,
    seen: Seen,
    peaks: Vec<Peaks>,
}

impl World<'_> {
    fn new(scenario: &Scenario) -> World<'_> {
        let hosts = scenario.case.hosts;
        let mut steps: Vec<&Step> = scenario.steps.iter().collect();
        steps.sort_by_key(|step| step.at);
        World {
            scenario,
            steps,
            pushed: 0,
            pushed_at: Vec::new(),
            taken: (0..hosts)
                .map(|host| scenario.begin_at.get(&host).copied().unwrap_or(0))
                .collect(),
            rested: vec![Instant::START; hosts],
            done: Instant::START,
            delays: (Duration::ZERO, 0),
            gaps: Gaps::default(),
            seen: Seen::default(),
            peaks: vec![Peaks::default(); hosts],
        }
    }

    fn turn(&mut self, host: usize, machine: &mut Host, now: Instant) -> Option<Instant> {
        let name = &self.scenario.name;
        let local = machine.clock.local(now);
        let due = |step: &&Step| step.host == host && step.at <= now;
        while let Some(at) = self.steps.iter().position(due) {
            (self.steps.remove(at).act)(machine, local);
        }
        let step = self
            .steps
            .iter()
            .find(|step| step.host == host)
            .map(|step| step.at);
        for stream in &machine.streams {
            stream
                .audit()
                .unwrap_or_else(|why| panic!("{name}: host {host}: {why}"));
        }
        let orphans = machine
            .streams
            .iter_mut()
            .flat_map(Stream::take_orphans)
            .collect();
        self.gaps.report(orphans);
        let wakes = if host == 0 {
            self.send(machine, now)
        } else {
            self.take(host, machine, now)
        };
        for stream in &machine.streams {
            self.seen.look(local, stream);
            self.peaks[host].look(stream);
        }
        step.into_iter().chain(wakes).min()
    }

    fn send(&mut self, root: &mut Host, now: Instant) -> Option<Instant> {
        let Scenario { case, every, .. } = self.scenario;
        let begun = now.since(self.scenario.begins).as_nanos() as u64;
        let end = if every.is_zero() {
            case.frames
        } else {
            begun / every.as_nanos() as u64 + 1
        };
        case.push(&mut root.streams[0], &mut self.pushed, end);
        self.pushed_at.resize(self.pushed as usize, now);
        for stream in &mut root.streams[1..] {
            let head = |stream: &Stream| stream.feed().head();
            while head(stream) < self.pushed
                && stream.push(&payload(head(stream)), case.ending(head(stream)))
            {}
        }
        let local = root.clock.local(now);
        self.gaps.fill(now, |child, sequence| {
            root.write_again(
                local,
                child,
                (sequence, &payload(sequence)),
                case.ending(sequence),
            );
        });
        let next = self.scenario.begins + *every * self.pushed as u32;
        let pushes = (self.pushed < case.frames && !every.is_zero() && next > now).then_some(next);
        let missing =
            (1..case.hosts).any(|host| self.taken[host] < case.frames && !self.is_excused(host));
        pushes
            .into_iter()
            .chain((!self.scenario.steps.is_empty() && missing).then_some(now + TURN))
            .min()
    }

    fn take(&mut self, host: usize, machine: &mut Host, now: Instant) -> Option<Instant> {
        let Scenario { case, name, .. } = self.scenario;
        let (stream, local) = (&mut machine.streams[0], machine.clock.local(now));
        let last_takes = case
            .last_takes
            .filter(|_| host + 1 == case.hosts)
            .map(|rest| (1, rest));
        let rests = self.scenario.rests.get(&host).copied().or(last_takes);
        let lazy = stream.backlog_frames() < case.lazy_frames && !stream.feed().is_complete();
        if now >= self.rested[host] && !lazy {
            for _ in 0..rests.map_or(u64::MAX, |(most, _)| most) {
                let Some((bytes, ending)) = stream.peek() else {
                    break;
                };
                let sequence = self.taken[host];
                assert_eq!(
                    bytes,
                    payload(sequence),
                    "{name}: host {host}, frame {sequence}"
                );
                let is_last = ending == Ending::Stream;
                assert_eq!(
                    is_last,
                    sequence + 1 == case.frames,
                    "{name}: host {host}, frame {sequence}"
                );
                stream.consume(local);
                self.taken[host] += 1;
                self.delays.0 += now.since(self.pushed_at[sequence as usize]);
                self.delays.1 += 1;
                self.done = now;
                self.rested[host] = rests.map_or(now, |(_, rest)| now + rest);
            }
        }
        (rests.is_some() && stream.peek().is_some()).then_some(self.rested[host])
    }

    fn is_excused(&self, host: usize) -> bool {
        self.scenario.excused.contains(&host)
    }
}

fn machines(scenario: &Scenario) -> Vec<Host> {
    let non_members = &scenario.non_members;
    let host = |host: usize| {
        let mut stream = scenario.case.stream(host);
        for &non_member in non_members {
            stream.remove_reader(Instant::START, crate::case::peer(non_member).rank);
        }
        if let Some(&first) = scenario.begin_at.get(&host) {
            stream.begin_at(first);
        }
        Host::new(
            stream,
            scenario.clocks.get(&host).copied().unwrap_or_default(),
        )
    };
    (0..scenario.case.hosts).map(host).collect()
}

pub fn play(mut scenario: Scenario) -> Price {
    let never = Box::new(|_: &ethbcast_transport::sim::Delivery<'_>| {
        unreachable!("the simulation has the hazard")
    });
    let hazard = std::mem::replace(&mut scenario.hazard, never);
    let hosts = scenario.case.hosts;
    let mut network = Network::new();
    let switch = network.add_switch(SwitchSettings {
        port_queue: scenario.port_queue,
        ..SwitchSettings::default()
    });
    for host in 0..hosts {
        let cable = scenario
            .cables
            .get(&host)
            .copied()
            .unwrap_or(Cable::new(CABLE.0, CABLE.1));
        network.add_host(switch, cable, scenario.settings.clone());
    }
    let mut simulation = Simulation::new(&network, machines(&scenario), hazard);
    simulation.begin_at(scenario.begins);
    simulation.set_event_limit(400_000);
    scenario
        .crashes
        .iter()
        .for_each(|&(host, at)| simulation.crash(host, at));
    scenario.pauses.iter().for_each(|&(host, from, to)| {
        simulation.pause(host, from);
        simulation.resume(host, to);
    });
    let mut world = World::new(&scenario);
    let until = scenario.begins + Duration::from_secs(60);
    let outcome = simulation.run(until, |host, machine, now| world.turn(host, machine, now));
    let (name, taken) = (&scenario.name, &world.taken);
    let Outcome::Quiet { at } = outcome else {
        panic!("{name}: {outcome:?}, taken {taken:?}")
    };
    for (host, &taken) in taken
        .iter()
        .enumerate()
        .skip(1)
        .filter(|&(host, _)| !world.is_excused(host))
    {
        assert_eq!(
            taken, scenario.case.frames,
            "{name}: host {host} has not everything"
        );
    }
    let (mut root, mut relays, mut leaves) = (Role::default(), Role::default(), Role::default());
    for (host, machine) in simulation.machines().iter().enumerate() {
        let has_children =
            (1..hosts).any(|child| child != host && scenario.case.parent(child) == host);
        let role = match host {
            0 => &mut root,
            _ if has_children => &mut relays,
            _ => &mut leaves,
        };
        role.add(machine, &world.peaks[host]);
    }
    let stats = simulation.stats();
    let lost = simulation.machines()[0].streams[0]
        .lost()
        .iter()
        .map(|&(_, lost)| lost)
        .sum();
    Price {
        done: world.done.since(scenario.begins),
        quiet: at.since(scenario.begins),
        delays: world.delays,
        frames: stats.sent_frames,
        bytes: stats.sent_bytes,
        lost,
        orphans: world.gaps.reported(),
        seen: world.seen,
        root,
        relays,
        leaves,
    }
}

pub fn serve_alone(root: &mut Host, host: usize, first: u64) {
    let identity = ethbcast_transport::wire::Identity {
        stream: CATCH_UP,
        ..crate::case::identity(0)
    };
    let tuning = ethbcast_transport::Tuning::default().with_feed_frames(64);
    root.streams.push(Stream::origin_at(
        identity,
        PAYLOAD_BYTES,
        first,
        crate::case::peer(host),
        tuning,
    ));
}

pub const CATCH_UP: ethbcast_transport::wire::StreamId = ethbcast_transport::wire::StreamId(0x4001);

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
    let settings = HostSettings {
        groups: vec![group_mac("test")],
        ..HostSettings::default()
    };
    Scenario {
        name: format!("{path:?} of {hosts}, {frames} frames: {name}"),
        case: Case {
            path,
            hosts,
            frames,
            tuning,
            lazy_frames: 0,
            last_takes: None,
            message_frames: 0,
        },
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
        Scenario {
            hazard: hazard(faults),
            clean: false,
            ..self
        }
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

    pub fn then(
        mut self,
        micros: u64,
        host: usize,
        act: impl Fn(&mut Host, Instant) + 'static,
    ) -> Scenario {
        self.clean = false;
        self.steps.push(Step {
            at: us(micros),
            host,
            act: Box::new(act),
        });
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
        self.rests
            .insert(host, (frames, Duration::from_micros(micros)));
        self
    }

    pub fn cable(mut self, host: usize, mbits: u64, micros: u64) -> Scenario {
        self.cables.insert(
            host,
            Cable::new(mbits * 1_000_000, Duration::from_micros(micros)),
        );
        self
    }

    pub fn clock(mut self, host: usize, ahead_ms: u64, faster_ppm: i64) -> Scenario {
        self.clocks.insert(
            host,
            Clock {
                ahead_nanos: ahead_ms * 1_000_000,
                faster_ppm,
            },
        );
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

pub fn lose_new(
    condition: impl Fn(usize, u64) -> bool + 'static,
) -> impl FnMut(&Delivery<'_>) -> Fate {
    let new = move |delivery: &Delivery<'_>, frame: &Frame<'_>| {
        let Frame { header, .. } = frame;
        header.kind == Kind::DATA
            && !header.flags.has(Flags::RESENT)
            && condition(delivery.to, header.sequence)
    };
    when(new, Fate::Drop)
}

pub fn lose_twice(
    condition: impl Fn(usize, u64) -> bool + 'static,
) -> impl FnMut(&Delivery<'_>) -> Fate {
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
        (delivery.to == host || delivery.from == Some(host))
            && micros.contains(&delivery.at.as_micros())
    };
    when(hit, Fate::Drop)
}

pub fn deaf(host: usize, micros: Range<u64>) -> impl FnMut(&Delivery<'_>) -> Fate {
    when(
        move |delivery, _| delivery.to == host && micros.contains(&delivery.at.as_micros()),
        Fate::Drop,
    )
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
