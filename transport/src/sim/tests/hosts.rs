//! Tests of the simulator: full receive rings, paused processes, crashed hosts and cut cables.

use super::*;
use crate::Timer;
use crate::sim::{
    Delivery, Departure, Fate, Faults, NoFaults, RandomFaults, Sending, StormControl,
    SwitchSettings, script,
};
use std::time::Duration;

#[test]
fn a_machine_is_asked_for_frames_only_while_its_transmit_ring_has_room() {
    let mut network = star(2);
    network.host_mut(0).nic_transmit_frames = 4;
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 50))];
    let mut simulation = Simulation::new(&network, postboxes(2, senders), NoFaults);
    let mut sent = Vec::new();
    while simulation.step(LATE, &mut idle).is_none() {
        let waiting = 50 - simulation.machines()[0].outbox.len() as u64;
        let departed = simulation.now().as_nanos() / (1538 * 8);
        assert!(
            waiting <= departed + 4,
            "ring overrun at {:?}",
            simulation.now()
        );
        sent.push(waiting);
    }
    assert_eq!(sent[0], 4, "the ring is filled at once");
    assert_eq!(simulation.machines()[1].inbox.len(), 50);
    assert_eq!(simulation.stats().drops.total(), 0);
    let cable = simulation.stats().cables[network.cable_of(0).index()];
    assert_eq!(cable.forward.queue_peak_frames, 4);
}

#[test]
fn a_slow_process_overflows_its_receive_ring() {
    let mut network = star(2);
    network.host_mut(1).per_frame_cost = Duration::from_micros(1_000);
    network.host_mut(1).nic_receive_frames = 8;
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 50))];
    let mut simulation = Simulation::new(&network, postboxes(2, senders), NoFaults);
    settle(&mut simulation);
    // All 50 arrive within 0.7 ms, before the first of them is finished.
    assert_eq!(simulation.machines()[1].labels(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(simulation.stats().hosts[1].drops.nic_ring, 42);
}

#[test]
fn a_paused_host_finds_its_mail_and_its_timer_when_it_goes_on() {
    let mut machines = postboxes(2, [Postbox::sending(full_frames(0, host_mac(1), 3))]);
    machines[1].deadline = Some(deadline(micros(50)));
    let mut simulation = Simulation::new(&star(2), machines, NoFaults);
    simulation.pause(1, micros(10));
    simulation.resume(1, micros(500));
    settle(&mut simulation);
    let host = &simulation.machines()[1];
    assert_eq!(host.timeouts, [Instant::START, micros(500)]);
    assert_eq!(host.labels(), [0, 1, 2]);
    assert_eq!(host.arrivals(), [500_000; 3]);
}

#[test]
fn a_frame_that_arrives_as_a_host_goes_on_does_not_overtake_its_mail() {
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 3))];
    let mut simulation = Simulation::new(&star(2), postboxes(2, senders), NoFaults);
    let third_arrival = Instant::from_nanos(4 * 12_304 + 1_000);
    simulation.pause(1, Instant::START);
    simulation.resume(1, third_arrival);
    settle(&mut simulation);
    assert_eq!(simulation.machines()[1].labels(), [0, 1, 2]);
    assert_eq!(simulation.now(), third_arrival);
}

#[test]
fn a_paused_sender_sends_what_its_card_has_and_the_rest_later() {
    let mut network = star(2);
    network.host_mut(0).nic_transmit_frames = 2;
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 5))];
    let mut simulation = Simulation::new(&network, postboxes(2, senders), NoFaults);
    simulation.pause(0, micros(1));
    simulation.resume(0, micros(1_000));
    settle(&mut simulation);
    let arrivals = simulation.machines()[1].arrivals();
    let early = arrivals.iter().filter(|&&at| at < 1_000_000).count();
    assert_eq!((early, arrivals.len()), (2, 5));
}

#[test]
fn a_host_paused_before_the_start_starts_when_it_goes_on() {
    let mut simulation = Simulation::new(&star(1), postboxes(1, []), NoFaults);
    simulation.pause(0, Instant::START);
    simulation.resume(0, micros(9));
    settle(&mut simulation);
    assert_eq!(simulation.machines()[0].timeouts, [micros(9)]);
}

#[test]
fn a_crashed_host_neither_sends_nor_receives_nor_wakes() {
    let senders = [
        Postbox::sending(full_frames(0, host_mac(1), 100)),
        Postbox::sending(full_frames(1, host_mac(0), 100)),
    ];
    let mut machines = postboxes(2, senders);
    machines[1].deadline = Some(deadline(micros(900)));
    let mut simulation = Simulation::new(&star(2), machines, NoFaults);
    simulation.crash(1, micros(200));
    settle(&mut simulation);
    // A frame takes 12.304 µs: by 200 µs 16 have left host 1, and 15 have reached it over two
    // cables with 1 µs of delay.
    assert_eq!(simulation.machines()[0].inbox.len(), 16);
    assert_eq!(simulation.machines()[1].inbox.len(), 15);
    assert_eq!(simulation.machines()[1].timeouts, [Instant::START]);
    let dead = simulation.stats().drops.dead;
    let received = simulation.stats().received_frames;
    assert_eq!(dead + received, 200);
}

#[test]
fn a_cut_cable_loses_what_leaves_while_it_is_cut() {
    let network = star(2);
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 100))];
    let mut simulation = Simulation::new(&network, postboxes(2, senders), NoFaults);
    // Frame n (from 1) leaves at n times 12.304 µs: the eighth is just delivered, the sixteenth
    // just lost.
    simulation.cut(network.cable_of(0), Instant::from_nanos(8 * 12_304));
    simulation.restore(network.cable_of(0), Instant::from_nanos(16 * 12_304));
    settle(&mut simulation);
    let labels = simulation.machines()[1].labels();
    let expected: Vec<u8> = (0..100).filter(|label| !(8..16).contains(label)).collect();
    assert_eq!(labels, expected);
    let cable = simulation.stats().cables[network.cable_of(0).index()];
    assert_eq!(cable.forward.drops.dead, 8);
}

#[test]
fn a_cable_carries_each_direction_at_its_own_rate() {
    // The second host receives at a tenth of the rate at which it sends.
    let mut network = star(1);
    let switch = network.switches().next().expect("a star has a switch");
    network.add_host(
        switch,
        Cable::GIGABIT.with_backward_rate(100_000_000),
        member(),
    );
    let both = [0, 1].map(|host| Postbox::sending(full_frames(host, host_mac(1 - host), 11)));
    let mut simulation = Simulation::new(&network, postboxes(2, both), NoFaults);
    settle(&mut simulation);
    let lasts = |host: usize| {
        let arrivals = simulation.machines()[host].arrivals();
        arrivals[10] - arrivals[0]
    };
    assert_eq!([lasts(0), lasts(1)], [123_040, 1_230_400]);
}

#[test]
fn a_machine_that_never_stops_sending_is_held_by_its_cable() {
    let mut simulation = Simulation::new(&star(2), vec![Flood(true), Flood(false)], NoFaults);
    let outcome = simulation.run(micros(10_000), idle);
    assert!(!outcome.is_quiet());
    // 60 + 24 bytes at 1 Gbit/s: 672 ns each, and a full transmit ring.
    let sent = simulation.stats().hosts[0].sent_frames;
    assert!(
        (10_000_000 / 672..=10_000_000 / 672 + 257).contains(&sent),
        "{sent}"
    );
}

struct Flood(bool);

impl Machine for Flood {
    fn handle_frame(&mut self, _: Instant, _: &[u8]) {}

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, _: Instant, buffer: &mut [u8]) -> Option<usize> {
        let frame = frame(0, host_mac(1), 0, 60);
        buffer[..60].copy_from_slice(&frame);
        self.0.then_some(60)
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Deadline> {
        None
    }
}

fn deadline(at: Instant) -> Deadline {
    Deadline {
        at,
        why: crate::Timer::HEARTBEAT,
    }
}

#[derive(Default)]
struct Stubborn {
    asked: u64,
    refused: Vec<u8>,
}

impl Faults for Stubborn {
    fn fate(&mut self, _: &Delivery<'_>) -> Fate {
        Fate::Deliver
    }

    fn sending(&mut self, departure: &Departure<'_>) -> Sending {
        self.asked += 1;
        if !self.asked.is_multiple_of(3) {
            return Sending::Taken;
        }
        self.refused.push(departure.frame[14]);
        Sending::NoRoom(Duration::from_micros(100))
    }
}

#[test]
fn a_frame_that_the_kernel_has_no_room_for_leaves_later_and_in_its_place() {
    let mut network = star(2);
    network.host_mut(0).nic_transmit_frames = 2;
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 12))];
    let mut simulation = Simulation::new(&network, postboxes(2, senders), Stubborn::default());
    settle(&mut simulation);
    assert_eq!(
        simulation.machines()[1].labels(),
        (0..12).collect::<Vec<u8>>()
    );
    assert_eq!(simulation.faults_mut().refused, [2, 5, 8, 11]);
    let arrivals = simulation.machines()[1].arrivals();
    assert!(
        arrivals[2] >= 100_000 && arrivals[11] >= 400_000,
        "{arrivals:?}"
    );
    assert_eq!(simulation.stats().hosts[0].sent_frames, 12);
}

#[test]
fn timers_with_slack_ring_at_the_next_of_their_moments() {
    let mut network = star(1);
    network.host_mut(0).timer_slack = Duration::from_micros(70);
    let machine = Postbox {
        deadline: Some(Deadline {
            at: micros(100),
            why: Timer("test"),
        }),
        ..Postbox::default()
    };
    let mut simulation = Simulation::new(&network, vec![machine], NoFaults);
    settle(&mut simulation);
    assert_eq!(
        simulation.machines()[0].timeouts,
        [Instant::START, micros(140)]
    );
}

#[test]
fn a_crashed_host_that_restarts_has_lost_its_queued_frames_and_receives_later_ones() {
    let mut machines = postboxes(2, []);
    machines[0].outbox = full_frames(0, host_mac(1), 1).collect();
    let mut simulation = Simulation::new(&star(2), machines, NoFaults);
    simulation.crash(1, Instant::START);
    settle(&mut simulation);
    assert!(simulation.machines()[1].inbox.is_empty());
    *simulation.machine_mut(1) = Postbox::sending(full_frames(1, host_mac(0), 2));
    simulation.machine_mut(0).outbox = full_frames(0, host_mac(1), 3).collect();
    let now = simulation.now();
    simulation.restart(1, now);
    simulation.wake(0, now);
    settle(&mut simulation);
    assert_eq!(simulation.machines()[1].labels(), [0, 1, 2]);
    assert_eq!(simulation.machines()[0].labels(), [0, 1]);
}

#[test]
fn a_clock_can_begin_anywhere() {
    let begins = Instant::from_nanos(u64::from(u32::MAX) * 1_000);
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 2))];
    let mut simulation = Simulation::new(&star(2), postboxes(2, senders), NoFaults);
    simulation.begin_at(begins);
    let outcome = simulation.run(begins + Duration::from_secs(1), |_, _: &mut Postbox, _| {
        None
    });
    assert!(outcome.is_quiet());
    assert_eq!(simulation.machines()[0].timeouts, [begins]);
    assert!(
        simulation.machines()[1]
            .arrivals()
            .iter()
            .all(|&at| at > begins.as_nanos())
    );
}

#[test]
fn a_policer_can_be_taken_away() {
    let control = StormControl {
        frames_per_second: 10,
        burst_frames: 1,
    };
    let network = star(2).with_switches(SwitchSettings {
        storm_control: Some(control),
        ..SwitchSettings::default()
    });
    let senders = [Postbox::sending(full_frames(0, GROUP, 3))];
    let mut simulation = Simulation::new(&network, postboxes(2, senders), NoFaults);
    settle(&mut simulation);
    assert_eq!(simulation.machines()[1].labels(), [0]);
    let now = simulation.now();
    simulation.police(network.switches().next().expect("one"), None, now);
    simulation.machine_mut(0).outbox = full_frames(0, GROUP, 3).collect();
    simulation.wake(0, now + Duration::from_nanos(1));
    settle(&mut simulation);
    assert_eq!(simulation.machines()[1].labels(), [0, 0, 1, 2]);
}

fn send_under<F: Faults>(count: u32, faults: F) -> Simulation<Postbox, F> {
    let frames = (0..count).map(|label| frame(0, host_mac(1), label as u8, 60));
    let senders = [Postbox::sending(frames)];
    let mut simulation = Simulation::new(&star(2), postboxes(2, senders), faults);
    settle(&mut simulation);
    simulation
}

fn overtaken(labels: &[u8]) -> usize {
    labels.windows(2).filter(|pair| pair[1] < pair[0]).count()
}

#[test]
fn random_faults_happen_at_their_probability() {
    let count = 20_000;
    let near = |observed: u64, probability: f64| {
        let expected = probability * f64::from(count);
        let spread = 5.0 * (expected * (1.0 - probability)).sqrt();
        assert!(
            (observed as f64 - expected).abs() <= spread,
            "{observed} of {count} instead of {expected}"
        );
    };

    let lossy = send_under(count, RandomFaults::new(1).loss(0.1));
    near(lossy.stats().hosts[1].drops.fault, 0.1);

    let doubled = send_under(count, RandomFaults::new(2).duplicate(0.2));
    near(
        doubled.stats().hosts[1].received_frames - u64::from(count),
        0.2,
    );

    let corrupt = send_under(count, RandomFaults::new(3).corrupt(0.3));
    let inbox = &corrupt.machines()[1].inbox;
    let wrong = (0u32..)
        .zip(inbox)
        .filter(|(label, (_, bytes))| *bytes != frame(0, host_mac(1), *label as u8, 60));
    // A bit of the destination (6 of 60 bytes) sends the frame into the filter instead.
    let filtered = corrupt.stats().hosts[1].drops.filter;
    assert!(filtered > 400, "{filtered}");
    assert_eq!(inbox.len() as u64 + filtered, u64::from(count));
    assert!(wrong.count() > 0);

    let lossy_for_one = RandomFaults::new(4).loss(1.0).loss_at(1, 0.5);
    near(
        send_under(count, lossy_for_one).stats().hosts[1]
            .drops
            .fault,
        0.5,
    );
}

#[test]
fn a_corrupted_frame_differs_in_exactly_one_bit() {
    let flip = |_: &Delivery<'_>| Fate::Corrupt { bit: 8 * 20 + 3 };
    let simulation = send_under(1, flip);
    let mut expected = frame(0, host_mac(1), 0, 60);
    expected[20] ^= 8;
    assert_eq!(simulation.machines()[1].inbox[0].1, expected);
}

#[test]
fn a_corrupted_copy_leaves_the_frames_of_other_receivers_alone() {
    let only_first = |delivery: &Delivery<'_>| match delivery.to {
        1 => Fate::Corrupt { bit: 8 * 14 },
        _ => Fate::Deliver,
    };
    let senders = [Postbox::sending([frame(0, GROUP, 6, 60)])];
    let mut simulation = Simulation::new(&star(4), postboxes(4, senders), only_first);
    settle(&mut simulation);
    let labels = simulation.machines()[1..].iter().map(|m| m.labels()[0]);
    assert_eq!(labels.collect::<Vec<_>>(), [7, 6, 6]);
}

#[test]
fn delayed_frames_are_overtaken_and_all_arrive() {
    let in_order = send_under(200, NoFaults);
    assert_eq!(overtaken(&in_order.machines()[1].labels()), 0);
    let faults = RandomFaults::new(5).reorder(0.2, Duration::from_micros(20));
    let mixed = send_under(200, faults);
    let labels = mixed.machines()[1].labels();
    assert!(overtaken(&labels) > 20, "{labels:?}");
    let mut sorted = labels.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..200).collect::<Vec<u8>>());
}

#[test]
fn a_duplicate_can_come_much_later() {
    let again = |_: &Delivery<'_>| Fate::Duplicate {
        after: Duration::from_millis(3),
    };
    let simulation = send_under(1, again);
    let arrivals = simulation.machines()[1].arrivals();
    assert_eq!(arrivals[1] - arrivals[0], 3_000_000);
    assert_eq!(arrivals.len(), 2, "a duplicate is not doubled again");
}

#[test]
fn a_script_goes_through_every_loss_pattern() {
    for pattern in 0..16 {
        // Only every second frame matches; bit 4 and higher bits are never used.
        let even = |delivery: &Delivery<'_>| delivery.frame[14] & 1 == 0;
        let simulation = send_under(12, script(pattern, even));
        let expected: Vec<u8> = (0..12)
            .filter(|label| label % 2 == 1 || pattern >> (label / 2) & 1 == 0)
            .collect();
        assert_eq!(simulation.machines()[1].labels(), expected, "{pattern:04b}");
    }
}

#[test]
fn faults_see_only_what_the_host_wants_and_in_order() {
    let mut seen = Vec::new();
    let watch = |delivery: &Delivery<'_>| {
        seen.push((delivery.ordinal, delivery.from, delivery.to));
        Fate::Deliver
    };
    let senders = [Postbox::sending([
        frame(0, host_mac(2), 0, 60),
        frame(0, GROUP, 0, 60),
    ])];
    let mut simulation = Simulation::new(&star(3), postboxes(3, senders), watch);
    simulation.inject(micros(90), 1, &frame(9, GROUP, 0, 14));
    settle(&mut simulation);
    drop(simulation);
    let expected = [
        (0, Some(0), 2),
        (1, Some(0), 1),
        (2, Some(0), 2),
        (3, None, 1),
    ];
    assert_eq!(seen, expected);
}
