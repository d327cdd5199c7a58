//! Tests of arrival times.

use std::time::Duration;

use super::*;
use crate::sim::{NoFaults, SwitchSettings};

const FULL_FRAME_NANOS: u64 = (1514 + 24) * 8;

#[test]
fn one_frame_is_sent_twice_and_travels_twice() {
    let senders = [Postbox::sending([frame(0, host_mac(1), 7, 1514)])];
    let mut simulation = Simulation::new(&star(2), postboxes(2, senders), NoFaults);
    settle(&mut simulation);
    let expected = 2 * (FULL_FRAME_NANOS + 500);
    assert_eq!(simulation.machines()[1].arrivals(), [expected]);
    assert_eq!(simulation.now(), Instant::from_nanos(expected));
}

#[test]
fn a_slow_cable_after_a_fast_one_sets_the_pace() {
    let mut network = Network::new().with_overhead_bytes(0);
    let switch = network.add_switch(SwitchSettings::default());
    let fast = Cable::new(10_000_000_000, Duration::from_nanos(100));
    let slow = Cable::new(1_000_000_000, Duration::from_nanos(3_000));
    network.add_host(switch, fast, member());
    network.add_host(switch, slow, member());
    let frames = (0..3).map(|label| frame(0, host_mac(1), label, 1000));
    let mut simulation = Simulation::new(&network, postboxes(2, [Postbox::sending(frames)]), NoFaults);
    settle(&mut simulation);
    let first = 800 + 100 + 8_000 + 3_000;
    assert_eq!(simulation.machines()[1].arrivals(), [first, first + 8_000, first + 16_000]);
}

#[test]
fn a_rate_that_is_no_divisor_of_a_second_is_kept_exactly() {
    let cable = Cable::new(7_000_000_000, Duration::ZERO);
    let network = Network::star(2, cable, &member());
    let frames = (0..7).flat_map(|_| full_frames(0, host_mac(1), 100));
    let mut simulation = Simulation::new(&network, postboxes(2, [Postbox::sending(frames)]), NoFaults);
    settle(&mut simulation);
    let arrivals = simulation.machines()[1].arrivals();
    // 700 frames of 12304 bits at 7 Gbit/s, and the second hop of the last one.
    assert_eq!(*arrivals.last().unwrap(), 100 * 12_304 + 12_304 / 7);
}

#[test]
fn short_frames_are_padded_with_zeros_whatever_their_buffer_held() {
    let network = star(2);
    let senders = [Postbox::sending([frame(0, host_mac(1), 0xAA, 1514)])];
    let mut simulation = Simulation::new(&network, postboxes(2, senders), NoFaults);
    settle(&mut simulation);
    simulation.machine_mut(0).outbox.push_back(frame(0, host_mac(1), 0xBB, 20));
    simulation.wake(0, Instant::START);
    settle(&mut simulation);
    let short = &simulation.machines()[1].inbox[1].1;
    assert_eq!(short.len(), 60);
    assert!(short[14..20].iter().all(|&byte| byte == 0xBB));
    assert!(short[20..].iter().all(|&byte| byte == 0));
    assert_eq!(simulation.stats().hosts[0].sent_bytes, 1514 + 60);
}

#[test]
fn both_directions_of_a_cable_run_at_full_rate() {
    let count = 200;
    let senders =
        [Postbox::sending(full_frames(0, host_mac(1), count)), Postbox::sending(full_frames(1, host_mac(0), count))];
    let mut simulation = Simulation::new(&star(2), postboxes(2, senders), NoFaults);
    settle(&mut simulation);
    let last = 500 * 2 + FULL_FRAME_NANOS * (u64::from(count) + 1);
    for machine in simulation.machines() {
        assert_eq!(machine.inbox.len(), usize::from(count));
        assert_eq!(*machine.arrivals().last().unwrap(), last);
    }
}

#[test]
fn a_process_takes_its_time_for_each_frame() {
    let mut network = star(2);
    network.host_mut(1).per_frame_cost = Duration::from_micros(20);
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 3))];
    let mut simulation = Simulation::new(&network, postboxes(2, senders), NoFaults);
    settle(&mut simulation);
    let first = 2 * (FULL_FRAME_NANOS + 500) + 20_000;
    assert_eq!(simulation.machines()[1].arrivals(), [first, first + 20_000, first + 40_000]);
}

#[test]
fn a_process_does_one_thing_after_the_other() {
    let mut network = star(2);
    let host = network.host_mut(0);
    (host.per_sent_frame_cost, host.per_sent_byte_cost_picos) = (Duration::from_micros(10), 10_000);
    let host = network.host_mut(1);
    (host.per_frame_cost, host.per_byte_cost_picos) = (Duration::from_micros(1), 2_000);
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 3))];
    let mut simulation = Simulation::new(&network, postboxes(2, senders), NoFaults);
    settle(&mut simulation);
    let (sent, received) = (10_000 + 10 * 1514, 1_000 + 2 * 1514);
    let first = sent + 2 * (FULL_FRAME_NANOS + 500) + received;
    assert_eq!(simulation.machines()[1].arrivals(), [first, first + sent, first + 2 * sent]);
    // A frame that arrives while the process sends waits until it is done.
    let mut network = star(2);
    (0..2).for_each(|host| network.host_mut(host).per_sent_frame_cost = Duration::from_micros(100));
    let both = [0, 1].map(|host| Postbox::sending(full_frames(host, host_mac(1 - host), 1)));
    let mut simulation = Simulation::new(&network, postboxes(2, both), NoFaults);
    simulation.machine_mut(1).outbox.extend(full_frames(1, host_mac(0), 1));
    settle(&mut simulation);
    assert_eq!(simulation.machines()[1].arrivals(), [200_000], "its second frame comes first");
}

#[test]
fn an_idle_process_wakes_up_late_and_finds_what_has_come_meanwhile() {
    let mut network = star(2);
    network.host_mut(1).wake_up = Duration::from_micros(30);
    network.host_mut(1).per_frame_cost = Duration::from_micros(1);
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 4))];
    let mut simulation = Simulation::new(&network, postboxes(2, senders), NoFaults);
    settle(&mut simulation);
    let first = 2 * (FULL_FRAME_NANOS + 500) + 31_000;
    // The second and the third arrive 12 and 25 µs after the first; the fourth finds the process asleep again.
    let fourth = 2 * (FULL_FRAME_NANOS + 500) + 3 * FULL_FRAME_NANOS + 31_000;
    assert_eq!(simulation.machines()[1].arrivals(), [first, first + 1_000, first + 2_000, fourth]);
}

#[test]
fn a_process_that_sends_is_awake_and_one_that_sleeps_through_arrivals_still_sends() {
    let network = |count| {
        let mut network = star(2);
        let host = network.host_mut(1);
        (host.wake_up, host.per_frame_cost) = (Duration::from_millis(1), Duration::from_micros(1));
        host.per_sent_frame_cost = Duration::from_micros(20);
        let both =
            [Postbox::sending(full_frames(0, host_mac(1), 1)), Postbox::sending(full_frames(1, host_mac(0), count))];
        let mut simulation = Simulation::new(&network, postboxes(2, both), NoFaults);
        settle(&mut simulation);
        simulation
    };
    let arrives = 2 * (FULL_FRAME_NANOS + 500);
    // The first is being sent when the frame comes, and the process checks the ring when it is
    // done.
    assert_eq!(network(2).machines()[1].arrivals(), [40_000 + 1_000]);
    // It has nothing to send any more and sleeps: only this frame is noticed late.
    let mut simulation = network(1);
    assert_eq!(simulation.machines()[1].arrivals(), [arrives + 1_000_000 + 1_000]);
    let again = simulation.now() + Duration::from_millis(5);
    simulation.machine_mut(0).outbox.extend(full_frames(0, host_mac(1), 1));
    simulation.wake(0, again);
    simulation.machine_mut(1).outbox.extend(full_frames(1, host_mac(0), 1));
    simulation.wake(1, again + Duration::from_micros(100));
    settle(&mut simulation);
    let sent_at = (again + Duration::from_micros(100)).as_nanos() + 20_000;
    assert_eq!(simulation.machines()[0].arrivals().last(), Some(&(sent_at + arrives)), "sent while it sleeps");
}

#[test]
fn a_token_bucket_lets_a_burst_pass_and_then_keeps_the_rate() {
    let cable = Cable::new(8_000_000_000, Duration::ZERO).with_burst_bytes(3_000);
    let network = Network::star(2, cable, &member()).with_overhead_bytes(0);
    let frames = (0..6).map(|label| frame(0, host_mac(1), label, 1000));
    let mut simulation = Simulation::new(&network, postboxes(2, [Postbox::sending(frames)]), NoFaults);
    settle(&mut simulation);
    // A byte takes 1 ns; the switch's port has a bucket of its own, which such arrivals never
    // empty.
    assert_eq!(simulation.machines()[1].arrivals(), [0, 0, 0, 1_000, 2_000, 3_000]);
    let late = Instant::from_nanos(5_000);
    simulation.machine_mut(0).outbox.extend((0..4).map(|label| frame(0, host_mac(1), label, 1000)));
    simulation.wake(0, late);
    settle(&mut simulation);
    // 2 000 ns after the last departure the bucket holds two frames again.
    assert_eq!(simulation.machines()[1].arrivals()[6..], [5_000, 5_000, 6_000, 7_000]);
}
