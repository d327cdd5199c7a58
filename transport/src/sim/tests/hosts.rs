//! Tests of rings, paused processes, crashed hosts and cut cables.

use std::time::Duration;

use super::*;
use crate::sim::NoFaults;

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
        assert!(waiting <= departed + 4, "ring overrun at {:?}", simulation.now());
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
    let senders =
        [Postbox::sending(full_frames(0, host_mac(1), 100)), Postbox::sending(full_frames(1, host_mac(0), 100))];
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
fn a_machine_that_never_stops_sending_is_held_by_its_cable() {
    let mut simulation = Simulation::new(&star(2), vec![Flood(true), Flood(false)], NoFaults);
    let outcome = simulation.run(micros(10_000), idle);
    assert!(!outcome.is_quiet());
    // 60 + 24 bytes at 1 Gbit/s: 672 ns each, and a full transmit ring.
    let sent = simulation.stats().hosts[0].sent_frames;
    assert!((10_000_000 / 672..=10_000_000 / 672 + 257).contains(&sent), "{sent}");
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
    Deadline { at, why: crate::Timer::HEARTBEAT }
}
