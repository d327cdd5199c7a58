//! Runs one scenario of the tests of cost in frames: checks every receiver's bytes and counts every
//! frame.

use crate::case::{PAYLOAD_BYTES, payload};
use crate::gaps::Gaps;
use crate::host::{Host, Peaks, Price, Role, Seen};
use crate::scenario::{Scenario, Step};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{Cable, Network, Outcome, Simulation, SwitchSettings};
use ethbcast_transport::stream::{Ending, Stream};
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
            taken: (0..hosts).map(|host| scenario.begin_at.get(&host).copied().unwrap_or(0)).collect(),
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
        let step = self.steps.iter().find(|step| step.host == host).map(|step| step.at);
        for stream in &machine.streams {
            stream.audit().unwrap_or_else(|why| panic!("{name}: host {host}: {why}"));
        }
        let orphans = machine.streams.iter_mut().flat_map(Stream::take_orphans).collect();
        self.gaps.report(orphans);
        let wakes = if host == 0 { self.send(machine, now) } else { self.take(host, machine, now) };
        for stream in &machine.streams {
            self.seen.look(local, stream);
            self.peaks[host].look(stream);
        }
        step.into_iter().chain(wakes).min()
    }

    fn send(&mut self, root: &mut Host, now: Instant) -> Option<Instant> {
        let Scenario { case, every, .. } = self.scenario;
        let begun = now.since(self.scenario.begins).as_nanos() as u64;
        let end = if every.is_zero() { case.frames } else { begun / every.as_nanos() as u64 + 1 };
        case.push(&mut root.streams[0], &mut self.pushed, end);
        self.pushed_at.resize(self.pushed as usize, now);
        for stream in &mut root.streams[1..] {
            let head = |stream: &Stream| stream.feed().head();
            while head(stream) < self.pushed && stream.push(&payload(head(stream)), case.ending(head(stream))) {}
        }
        let local = root.clock.local(now);
        self.gaps.fill(now, |child, sequence| {
            root.write_again(local, child, (sequence, &payload(sequence)), case.ending(sequence));
        });
        let next = self.scenario.begins + *every * self.pushed as u32;
        let pushes = (self.pushed < case.frames && !every.is_zero() && next > now).then_some(next);
        let missing = (1..case.hosts).any(|host| self.taken[host] < case.frames && !self.is_excused(host));
        pushes.into_iter().chain((!self.scenario.steps.is_empty() && missing).then_some(now + TURN)).min()
    }

    fn take(&mut self, host: usize, machine: &mut Host, now: Instant) -> Option<Instant> {
        let Scenario { case, name, .. } = self.scenario;
        let (stream, local) = (&mut machine.streams[0], machine.clock.local(now));
        let last_takes = case.last_takes.filter(|_| host + 1 == case.hosts).map(|rest| (1, rest));
        let rests = self.scenario.rests.get(&host).copied().or(last_takes);
        let lazy = stream.backlog_frames() < case.lazy_frames && !stream.feed().is_complete();
        if now >= self.rested[host] && !lazy {
            for _ in 0..rests.map_or(u64::MAX, |(most, _)| most) {
                let Some((bytes, ending)) = stream.peek() else { break };
                let sequence = self.taken[host];
                assert_eq!(bytes, payload(sequence), "{name}: host {host}, frame {sequence}");
                let is_last = ending == Ending::Stream;
                assert_eq!(is_last, sequence + 1 == case.frames, "{name}: host {host}, frame {sequence}");
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
        Host::new(stream, scenario.clocks.get(&host).copied().unwrap_or_default())
    };
    (0..scenario.case.hosts).map(host).collect()
}

pub fn play(mut scenario: Scenario) -> Price {
    let never = Box::new(|_: &ethbcast_transport::sim::Delivery<'_>| unreachable!("the simulation has the hazard"));
    let hazard = std::mem::replace(&mut scenario.hazard, never);
    let hosts = scenario.case.hosts;
    let mut network = Network::new();
    let switch = network.add_switch(SwitchSettings { port_queue: scenario.port_queue, ..SwitchSettings::default() });
    for host in 0..hosts {
        let cable = scenario.cables.get(&host).copied().unwrap_or(Cable::new(CABLE.0, CABLE.1));
        network.add_host(switch, cable, scenario.settings.clone());
    }
    let mut simulation = Simulation::new(&network, machines(&scenario), hazard);
    simulation.begin_at(scenario.begins);
    simulation.set_event_limit(400_000);
    scenario.crashes.iter().for_each(|&(host, at)| simulation.crash(host, at));
    scenario.pauses.iter().for_each(|&(host, from, to)| {
        simulation.pause(host, from);
        simulation.resume(host, to);
    });
    let mut world = World::new(&scenario);
    let until = scenario.begins + Duration::from_secs(60);
    let outcome = simulation.run(until, |host, machine, now| world.turn(host, machine, now));
    let (name, taken) = (&scenario.name, &world.taken);
    let Outcome::Quiet { at } = outcome else { panic!("{name}: {outcome:?}, taken {taken:?}") };
    for (host, &taken) in taken.iter().enumerate().skip(1).filter(|&(host, _)| !world.is_excused(host)) {
        assert_eq!(taken, scenario.case.frames, "{name}: host {host} has not everything");
    }
    let (mut root, mut relays, mut leaves) = (Role::default(), Role::default(), Role::default());
    for (host, machine) in simulation.machines().iter().enumerate() {
        let has_children = (1..hosts).any(|child| child != host && scenario.case.parent(child) == host);
        let role = match host {
            0 => &mut root,
            _ if has_children => &mut relays,
            _ => &mut leaves,
        };
        role.add(machine, &world.peaks[host]);
    }
    let stats = simulation.stats();
    let lost = simulation.machines()[0].streams[0].lost().iter().map(|&(_, lost)| lost).sum();
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
    let identity = ethbcast_transport::wire::Identity { stream: CATCH_UP, ..crate::case::identity(0) };
    let tuning = ethbcast_transport::Tuning::default().with_feed_frames(64);
    root.streams.push(Stream::origin_at(identity, PAYLOAD_BYTES, first, crate::case::peer(host), tuning));
}

pub const CATCH_UP: ethbcast_transport::wire::StreamId = ethbcast_transport::wire::StreamId(0x4001);
