//! Tests of the network simulator itself, with protocol machines of a few lines.
//!
//! The speed of the simulator is printed, not asserted, as it depends on the machine
//! (`--nocapture`, best with `--release`).

mod hosts;
mod switching;

use super::{
    Cable, HostSettings, Network, NoFaults, Outcome, Random, RandomFaults, Simulation, Stats,
    host_mac,
};
use crate::{Deadline, Instant, MacAddr, Machine, Timer};
use std::collections::VecDeque;
use std::time;
use std::time::Duration;

const GROUP: MacAddr = MacAddr::new(0x03, 0, 0, 0, 0, 1);

const LATE: Instant = Instant::from_nanos(1_000_000_000_000);

#[derive(Clone, Debug, Default, PartialEq)]
struct Postbox {
    outbox: VecDeque<Vec<u8>>,
    inbox: Vec<(Instant, Vec<u8>)>,
    deadline: Option<Deadline>,
    timeouts: Vec<Instant>,
}

impl Postbox {
    fn sending(frames: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Postbox {
            outbox: frames.into_iter().collect(),
            ..Postbox::default()
        }
    }

    fn arrivals(&self) -> Vec<u64> {
        self.inbox.iter().map(|(at, _)| at.as_nanos()).collect()
    }

    fn labels(&self) -> Vec<u8> {
        self.inbox.iter().map(|(_, frame)| frame[14]).collect()
    }
}

impl Machine for Postbox {
    fn handle_frame(&mut self, now: Instant, frame: &[u8]) {
        self.inbox.push((now, frame.to_vec()));
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.timeouts.push(now);
        self.deadline = self.deadline.filter(|deadline| deadline.at > now);
    }

    fn poll_transmit(&mut self, _: Instant, buffer: &mut [u8]) -> Option<usize> {
        let frame = self.outbox.pop_front()?;
        buffer[..frame.len()].copy_from_slice(&frame);
        Some(frame.len())
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        self.deadline
    }
}

fn frame(from: usize, to: MacAddr, label: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![label; length];
    frame[..6].copy_from_slice(&to.octets());
    frame[6..12].copy_from_slice(&host_mac(from).octets());
    frame[12..14].copy_from_slice(&[0x88, 0xB5]);
    frame
}

fn full_frames(from: usize, to: MacAddr, count: u8) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(move |label| frame(from, to, label, 1514))
}

fn postboxes(hosts: usize, senders: impl IntoIterator<Item = Postbox>) -> Vec<Postbox> {
    let mut boxes: Vec<Postbox> = senders.into_iter().collect();
    boxes.resize(hosts, Postbox::default());
    boxes
}

fn star(hosts: usize) -> Network {
    Network::star(hosts, Cable::GIGABIT, &member())
}

fn member() -> HostSettings {
    HostSettings {
        groups: vec![GROUP],
        ..HostSettings::default()
    }
}

fn idle<M>(_: usize, _: &mut M, _: Instant) -> Option<Instant> {
    None
}

fn micros(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

fn settle<F: super::Faults>(simulation: &mut Simulation<Postbox, F>) {
    let outcome = simulation.run(LATE, idle);
    assert!(outcome.is_quiet(), "{outcome:?}");
}

#[test]
fn a_simulation_without_work_is_quiet_at_the_start() {
    let mut simulation = Simulation::new(&star(3), postboxes(3, []), NoFaults);
    let outcome = simulation.run(LATE, idle);
    assert_eq!(outcome, Outcome::Quiet { at: Instant::START });
    assert_eq!(simulation.stats().events, 3, "one call for each host");
}

#[test]
fn a_deadline_keeps_the_run_going_until_it_has_passed() {
    let mut machines = postboxes(1, []);
    machines[0].deadline = deadline(micros(80));
    let mut simulation = Simulation::new(&star(1), machines, NoFaults);
    let early = simulation.run(micros(79), idle);
    assert_eq!(early, Outcome::TimeLimit { at: micros(79) });
    assert_eq!(
        simulation.next_deadline(),
        deadline(micros(80)).map(|deadline| (0, deadline))
    );
    let late = simulation.run(micros(80), idle);
    assert_eq!(late, Outcome::Quiet { at: micros(80) });
    assert_eq!(
        simulation.machines()[0].timeouts,
        [Instant::START, micros(80)]
    );
}

#[test]
fn a_cancelled_timer_does_not_put_off_the_quiet() {
    let mut machines = postboxes(2, [Postbox::sending([frame(0, host_mac(1), 0, 60)])]);
    machines[1].deadline = deadline(micros(5_000));
    let mut simulation = Simulation::new(&star(2), machines, NoFaults);
    let outcome = simulation.run(LATE, |_, machine, _| {
        if !machine.inbox.is_empty() {
            machine.deadline = None;
        }
        None
    });
    let arrival = simulation.machines()[1].inbox[0].0;
    assert_eq!(outcome, Outcome::Quiet { at: arrival });
}

#[test]
fn deadlines_may_move_either_way() {
    const STEPS: u64 = 30;
    for seed in 0..200 {
        let mut random = Random::new(seed);
        // Every 10 µs the deadline is replaced by another, up to 100 µs away; it fires only if it
        // comes before its replacement.
        let plan: Vec<u64> = (0..STEPS)
            .map(|step| step * 10 + 10 * random.below(10) + 5)
            .collect();
        let step_of = |at: u64| (at / 10).min(STEPS - 1);
        let fires = (0..STEPS).filter(|&step| step_of(plan[step as usize]) == step);
        let expected: Vec<u64> = [0]
            .into_iter()
            .chain(fires.map(|step| plan[step as usize]))
            .collect();

        let mut simulation = Simulation::new(&star(1), postboxes(1, []), NoFaults);
        (1..STEPS).for_each(|step| simulation.wake(0, micros(step * 10)));
        let mut turns = 0;
        let outcome = simulation.run(LATE, |_, machine, now| {
            turns += 1;
            let step = now.as_micros() / 10;
            if now.as_micros() % 10 == 0 && step < STEPS {
                machine.deadline = deadline(micros(plan[step as usize]));
            }
            None
        });
        assert!(outcome.is_quiet(), "{outcome:?}");
        let timeouts = simulation.machines()[0].timeouts.iter();
        assert_eq!(
            timeouts.map(|at| at.as_micros()).collect::<Vec<_>>(),
            expected,
            "seed {seed}"
        );
        assert_eq!(
            turns,
            STEPS as usize + expected.len() - 1,
            "nobody is called for a deadline that was replaced"
        );
    }
}

#[test]
fn the_past_cannot_be_changed() {
    let mut simulation = Simulation::new(&star(1), postboxes(1, []), NoFaults);
    simulation.wake(0, micros(500));
    assert_eq!(
        simulation.run(micros(200), idle),
        Outcome::TimeLimit { at: micros(200) }
    );
    simulation.wake(0, micros(50));
    simulation.inject(micros(60), 0, &frame(0, GROUP, 0, 60));
    let mut calls = Vec::new();
    let outcome = simulation.run(LATE, |_, _, now| {
        calls.push(now.as_micros());
        None
    });
    assert!(outcome.is_quiet(), "{outcome:?}");
    assert_eq!(calls, [200, 200, 500]);
}

#[test]
fn an_application_is_called_when_it_wants_to_be() {
    let mut simulation = Simulation::new(&star(1), postboxes(1, []), NoFaults);
    let mut calls = Vec::new();
    let outcome = simulation.run(LATE, |_, _, now| {
        calls.push(now.as_micros());
        (calls.len() < 4).then(|| now + Duration::from_micros(25))
    });
    assert_eq!(outcome, Outcome::Quiet { at: micros(75) });
    assert_eq!(calls, [0, 25, 50, 75]);
    let machine = &simulation.machines()[0];
    assert_eq!(
        machine.timeouts,
        [Instant::START],
        "no timer of its own was due"
    );
}

#[test]
fn a_run_can_be_bounded_in_events() {
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 100))];
    let mut simulation = Simulation::new(&star(2), postboxes(2, senders), NoFaults);
    simulation.set_event_limit(40);
    let outcome = simulation.run(LATE, idle);
    assert_eq!(
        outcome,
        Outcome::EventLimit {
            at: simulation.now()
        }
    );
    simulation.set_event_limit(u64::MAX);
    settle(&mut simulation);
    assert_eq!(simulation.machines()[1].inbox.len(), 100);
}

#[test]
fn a_deadline_that_never_moves_on_is_a_live_lock_and_is_named() {
    struct Impatient;

    impl Machine for Impatient {
        fn handle_frame(&mut self, _: Instant, _: &[u8]) {}
        fn handle_timeout(&mut self, _: Instant) {}
        fn poll_transmit(&mut self, _: Instant, _: &mut [u8]) -> Option<usize> {
            None
        }
        fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
            deadline(micros(3))
        }
    }

    let mut simulation = Simulation::new(&star(1), vec![Impatient], NoFaults);
    let expected = Outcome::LiveLock {
        at: micros(3),
        host: 0,
        why: Some(Timer::HEARTBEAT),
    };
    assert_eq!(simulation.run(LATE, idle), expected);
    assert!(simulation.events() < 2_000);
}

#[test]
fn an_application_that_never_waits_is_a_live_lock_too() {
    let mut simulation = Simulation::new(&star(2), postboxes(2, []), NoFaults);
    let outcome = simulation.run(LATE, |host, _, now| (host == 1).then_some(now));
    let expected = Outcome::LiveLock {
        at: Instant::START,
        host: 1,
        why: None,
    };
    assert_eq!(outcome, expected);
}

fn eventful(seed: u64, duplicate: f64) -> (Vec<Postbox>, Stats, Outcome) {
    let mut network = Network::line(3, 3, Cable::GIGABIT, &member());
    network.host_mut(4).per_frame_cost = Duration::from_micros(30);
    let faults = RandomFaults::new(seed)
        .loss(0.1)
        .duplicate(duplicate)
        .reorder(0.1, Duration::from_micros(300))
        .corrupt(0.1);
    let mut simulation = Simulation::new(&network, postboxes(9, []), faults);
    simulation.crash(7, micros(400));
    simulation.pause(3, micros(100));
    simulation.resume(3, micros(2_000));
    simulation.cut(network.cable_of(5), micros(600));
    let mut random = Random::new(seed);
    let outcome = simulation.run(LATE, |host, machine, now| {
        let to = match random.below(4) {
            0 => GROUP,
            _ => host_mac(random.below(9) as usize),
        };
        let length = 14 + random.below(1_501) as usize;
        if now < micros(5_000) {
            machine
                .outbox
                .push_back(frame(host, to, random.next_u64() as u8, length.max(15)));
        }
        (now < micros(5_000)).then(|| now + Duration::from_nanos(random.below(200_000)))
    });
    let stats = simulation.stats();
    (simulation.into_machines(), stats, outcome)
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..5 {
        let first = eventful(seed, 0.1);
        assert!(first.2.is_quiet());
        assert!(first.1.received_frames > 500, "{:?}", first.1);
        assert!(
            first == eventful(seed, 0.1),
            "seed {seed} differs from itself"
        );
        assert!(first.1 != eventful(seed + 100, 0.1).1);
    }
}

#[test]
fn every_frame_is_accounted_for() {
    for seed in 0..50 {
        let (machines, stats, _) = eventful(seed, 0.0);
        assert!(stats.drops.dead > 0 && stats.drops.filter > 0 && stats.drops.fault > 0);
        // Hosts were added switch by switch, and after the first switch the cable to the one before
        // comes first.
        for (host, machine) in machines.iter().enumerate() {
            let counted = stats.hosts[host];
            let cable = stats.cables[host + host / 3];
            assert_eq!(cable.forward.frames, counted.sent_frames);
            let arrived = cable.backward.frames - cable.backward.drops.dead;
            assert_eq!(
                arrived,
                counted.received_frames + counted.drops.total(),
                "host {host}, seed {seed}"
            );
            assert_eq!(counted.received_frames, machine.inbox.len() as u64);
        }
    }
}

fn deadline(at: Instant) -> Option<Deadline> {
    Some(Deadline {
        at,
        why: Timer::HEARTBEAT,
    })
}

struct Load {
    left: u32,
    answers: bool,
    frame: Vec<u8>,
}

impl Machine for Load {
    fn handle_frame(&mut self, _: Instant, _: &[u8]) {
        self.left += u32::from(self.answers);
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, _: Instant, buffer: &mut [u8]) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        buffer[..self.frame.len()].copy_from_slice(&self.frame);
        Some(self.frame.len())
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        None
    }
}

fn cast(hosts: usize, frames: u32) -> Vec<Load> {
    (0..hosts)
        .map(|host| Load {
            left: if host == 0 { frames } else { 0 },
            answers: false,
            frame: frame(host, GROUP, 0, 1514),
        })
        .collect()
}

/// Host 0 sends to host 1, which sends on to host 2, and so on; all others send one frame of their
/// own, so that switches learn their addresses.
fn chain(hosts: usize, frames: u32) -> Vec<Load> {
    (0..hosts)
        .map(|host| Load {
            left: if host == 0 { frames } else { 1 },
            answers: host > 0 && host + 1 < hosts,
            frame: frame(host, host_mac((host + 1) % hosts), 0, 1514),
        })
        .collect()
}

fn measure(what: &str, network: &Network, machines: impl Fn() -> Vec<Load>, runs: u32) {
    let started = time::Instant::now();
    let (mut events, mut received) = (0, 0);
    for _ in 0..runs {
        let mut simulation = Simulation::new(network, machines(), NoFaults);
        assert!(simulation.run(LATE, idle).is_quiet());
        let stats = simulation.stats();
        assert_eq!(stats.drops.harmful(), 0, "{:?}", stats.drops);
        events += stats.events;
        received += stats.received_frames;
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{what}: {events} events, {received} deliveries in {seconds:.3} s: {:.2} million events/s",
        events as f64 / seconds / 1e6
    );
}

#[test]
fn how_many_events_per_second() {
    measure("small runs, 8 hosts", &star(8), || cast(8, 20), 2_000);
    measure("cast, 16 hosts", &star(16), || cast(16, 20_000), 1);
    let line = Network::line(4, 4, Cable::GIGABIT, &member());
    measure("chain, 16 hosts", &line, || chain(16, 10_000), 1);
    measure("cast, 10000 hosts", &star(10_000), || cast(10_000, 50), 1);
    let wide = Network::line(20, 20, Cable::GIGABIT, &member());
    measure("chain, 400 hosts", &wide, || chain(400, 1_000), 1);
}
