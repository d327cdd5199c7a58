//! Tests of the simulator: how its switches forward and drop frames.

use super::*;
use crate::sim::{NetworkError, NoFaults, PauseFrames, QueueLimit, StormControl, SwitchSettings};
use std::time::Duration;

#[test]
fn an_unknown_host_is_flooded_for_until_it_has_spoken() {
    let network = star(4);
    let mut simulation = Simulation::new(&network, postboxes(4, []), NoFaults);
    let mut say = |from: usize, to: usize| {
        simulation
            .machine_mut(from)
            .outbox
            .push_back(frame(from, host_mac(to), 0, 60));
        let now = simulation.now();
        simulation.wake(from, now);
        settle(&mut simulation);
        simulation.stats().drops.filter
    };
    assert_eq!(say(0, 1), 2, "host 1 is unknown: hosts 2 and 3 filter");
    assert_eq!(say(0, 1), 4, "and still is");
    assert_eq!(say(1, 0), 4, "host 0 has spoken");
    assert_eq!(say(0, 1), 4, "now host 1 has, too");
    let copies: Vec<u64> = (0..4)
        .map(|host| {
            simulation.stats().cables[network.cable_of(host).index()]
                .backward
                .frames
        })
        .collect();
    assert_eq!(copies, [1, 3, 2, 2]);
}

#[test]
fn a_group_frame_reaches_every_member_once_and_never_its_sender() {
    let mut network = Network::line(3, 2, Cable::GIGABIT, &member());
    network.host_mut(3).groups.clear();
    let senders = [Postbox::sending([frame(0, GROUP, 9, 200)])];
    let mut simulation = Simulation::new(&network, postboxes(6, senders), NoFaults);
    settle(&mut simulation);
    let received: Vec<usize> = simulation
        .machines()
        .iter()
        .map(|m| m.inbox.len())
        .collect();
    assert_eq!(received, [0, 1, 1, 0, 1, 1]);
    let stats = simulation.stats();
    assert_eq!(stats.drops.filter, 1);
    assert!(
        stats
            .cables
            .iter()
            .all(|cable| cable.forward.frames + cable.backward.frames == 1)
    );
}

#[test]
fn joining_and_leaving_a_group_changes_the_filter() {
    let mut simulation = Simulation::new(&star(2), postboxes(2, []), NoFaults);
    simulation.leave_group(1, GROUP);
    simulation
        .machine_mut(0)
        .outbox
        .push_back(frame(0, GROUP, 1, 60));
    settle(&mut simulation);
    simulation.join_group(1, GROUP);
    simulation
        .machine_mut(0)
        .outbox
        .push_back(frame(0, GROUP, 2, 60));
    simulation.wake(0, simulation.now());
    settle(&mut simulation);
    assert_eq!(simulation.machines()[1].labels(), [2]);
}

fn incast(port_queue: QueueLimit) -> (Network, Simulation<Postbox, NoFaults>) {
    let network = star(3).with_switches(SwitchSettings {
        port_queue,
        ..SwitchSettings::default()
    });
    let senders = [
        Postbox::sending(full_frames(0, host_mac(2), 100)),
        Postbox::sending(full_frames(1, host_mac(2), 100)),
        Postbox::sending([frame(2, host_mac(0), 0, 60)]),
    ];
    let mut simulation = Simulation::new(&network, postboxes(3, senders), NoFaults);
    settle(&mut simulation);
    (network, simulation)
}

#[test]
fn two_into_one_overflows_the_queue_of_that_one_port() {
    let (network, simulation) = incast(QueueLimit::Frames(10));
    let received = simulation.machines()[2].inbox.len();
    let port = simulation.stats().cables[network.cable_of(2).index()].backward;
    // In the time of 100 frames 200 arrive, 100 leave, 10 wait; the last one depends on the ends of
    // the run.
    assert!((109..=111).contains(&received), "{received}");
    assert_eq!(port.drops.port_queue, 200 - received as u64);
    assert_eq!(port.queue_peak_frames, 10);
    assert_eq!(simulation.stats().drops.port_queue, port.drops.port_queue);
}

#[test]
fn a_queue_may_be_limited_in_bytes() {
    let (network, simulation) = incast(QueueLimit::Bytes(10 * 1514 + 1513));
    let port = simulation.stats().cables[network.cable_of(2).index()].backward;
    assert_eq!(port.queue_peak_frames, 10);
    let (_, roomy) = incast(QueueLimit::Bytes(200 * 1514));
    assert_eq!(roomy.machines()[2].inbox.len(), 200);
}

#[test]
fn storm_control_lets_a_burst_and_then_a_rate_of_floods_pass() {
    let network = star(3).with_switches(SwitchSettings {
        storm_control: Some(StormControl {
            frames_per_second: 1_000,
            burst_frames: 5,
        }),
        ..SwitchSettings::default()
    });
    let senders = [
        Postbox::default(),
        Postbox::sending([frame(1, GROUP, 0, 60)]),
    ];
    let mut simulation = Simulation::new(&network, postboxes(3, senders), NoFaults);
    let mut sent = 0;
    let outcome = simulation.run(LATE, |host, machine, now| {
        if host != 0 || sent == 100 {
            return None;
        }
        sent += 1;
        let to = if sent % 2 == 0 { GROUP } else { host_mac(2) };
        machine.outbox.push_back(frame(0, to, sent, 60));
        Some(now + Duration::from_micros(100))
    });
    assert!(outcome.is_quiet());
    // Host 0 floods 100 frames in 9.9 ms: 5 at once and one each full millisecond. Host 1 has a
    // bucket of its own.
    assert_eq!(simulation.machines()[2].inbox.len(), 5 + 9 + 1);
    let dropped = simulation.stats().cables[network.cable_of(0).index()]
        .forward
        .drops;
    assert_eq!(dropped.storm_control, 100 - 14);

    // A pause of any length allows only one burst.
    simulation
        .machine_mut(0)
        .outbox
        .extend((0..20).map(|label| frame(0, GROUP, label, 60)));
    simulation.wake(0, micros(1_000_000));
    settle(&mut simulation);
    assert_eq!(simulation.machines()[2].inbox.len(), 15 + 5);
}

#[test]
fn a_frame_to_an_address_behind_its_own_port_goes_nowhere() {
    let network = Network::line(2, 2, Cable::GIGABIT, &member());
    let mut simulation = Simulation::new(&network, postboxes(4, []), NoFaults);
    // Host 0 first sends as host 1: from then on the switches have host 1 behind host 0's port.
    let boxes = [frame(1, host_mac(2), 0, 60), frame(0, host_mac(1), 0, 60)];
    simulation.machine_mut(0).outbox.extend(boxes);
    settle(&mut simulation);
    assert!(simulation.machines()[1].inbox.is_empty());
    let cable = simulation.stats().cables[network.cable_of(0).index()];
    assert_eq!(cable.forward.drops.filter, 1);
}

#[test]
fn switches_must_form_a_tree() {
    let mut network = Network::new();
    let ids: Vec<_> = (0..3)
        .map(|_| network.add_switch(SwitchSettings::default()))
        .collect();
    network.connect(ids[0], ids[1], Cable::GIGABIT).unwrap();
    network.connect(ids[2], ids[1], Cable::GIGABIT).unwrap();
    let refused = network.connect(ids[0], ids[2], Cable::GIGABIT);
    assert_eq!(
        refused,
        Err(NetworkError::Loop {
            first: 0,
            second: 2
        })
    );
    assert!(network.connect(ids[1], ids[1], Cable::GIGABIT).is_err());
}

#[test]
fn ports_that_share_a_buffer_hold_no_more_than_it_has_together() {
    let settings = SwitchSettings {
        shared_bytes: Some(20 * 1514),
        ..SwitchSettings::default()
    };
    let mut network = Network::new();
    let switch = network.add_switch(settings);
    for rate in [1_000_000_000, 1_000_000_000, 10_000_000, 10_000_000] {
        let host = HostSettings {
            groups: vec![GROUP],
            ..HostSettings::default()
        };
        network.add_host(switch, Cable::new(rate, Duration::from_micros(1)), host);
    }
    // Towards two slow hosts, frames are lost except those in the buffer and those that leave
    // meanwhile.
    let senders = [2, 3].map(|to| Postbox::sending(full_frames(to - 2, host_mac(to), 50)));
    let mut simulation = Simulation::new(&network, postboxes(4, senders), NoFaults);
    // These hosts send first; frames before that would be flooded and take room at both ports.
    (2..4).for_each(|host| {
        simulation
            .machine_mut(host)
            .outbox
            .push_back(frame(host, host_mac(0), 0, 60))
    });
    settle(&mut simulation);
    let arrived: usize = simulation.machines()[2..]
        .iter()
        .map(|host| host.inbox.len())
        .sum();
    assert!((8..=26).contains(&arrived), "{arrived}");
}

#[test]
fn a_shared_buffer_holds_a_flooded_frame_once_however_many_ports_it_leaves_by() {
    let settings = SwitchSettings {
        shared_bytes: Some(2 * 1514),
        ..SwitchSettings::default()
    };
    let mut network = Network::new();
    let switch = network.add_switch(settings);
    for _ in 0..40 {
        let host = HostSettings {
            groups: vec![GROUP],
            ..HostSettings::default()
        };
        network.add_host(
            switch,
            Cable::new(100_000_000, Duration::from_micros(1)),
            host,
        );
    }
    let senders = [0, 1, 2].map(|host| Postbox::sending(full_frames(host, GROUP, 1)));
    let mut simulation = Simulation::new(&network, postboxes(40, senders), NoFaults);
    settle(&mut simulation);
    // Three at once: two of them fit, at all ports or at none.
    assert!(
        simulation.machines()[3..]
            .iter()
            .all(|host| host.inbox.len() == 2)
    );
}

#[test]
fn pause_frames_stop_the_sender_that_fills_a_queue_and_nothing_is_lost() {
    let pause = PauseFrames {
        high_frames: 4,
        lasts: Duration::from_micros(500),
    };
    let settings = SwitchSettings {
        pause: Some(pause),
        port_queue: QueueLimit::Frames(8),
        ..SwitchSettings::default()
    };
    let mut network = Network::new();
    let switch = network.add_switch(settings);
    for rate in [1_000_000_000, 100_000_000] {
        network.add_host(
            switch,
            Cable::new(rate, Duration::from_micros(1)),
            HostSettings::default(),
        );
    }
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 60))];
    let mut simulation = Simulation::new(&network, postboxes(2, senders), NoFaults);
    settle(&mut simulation);
    let stats = simulation.stats();
    assert_eq!(
        simulation.machines()[1].labels(),
        (0..60).collect::<Vec<u8>>()
    );
    assert!(stats.drops.total() == 0 && stats.pauses > 5, "{stats:?}");
}

#[test]
fn a_host_whose_ring_fills_stops_the_switch() {
    let mut network = star(2);
    let host = network.host_mut(1);
    (host.per_frame_cost, host.nic_receive_frames) = (Duration::from_micros(100), 8);
    host.pause = Some(PauseFrames {
        high_frames: 4,
        lasts: Duration::from_micros(300),
    });
    let senders = [Postbox::sending(full_frames(0, host_mac(1), 60))];
    let mut simulation = Simulation::new(&network, postboxes(2, senders), NoFaults);
    settle(&mut simulation);
    assert_eq!(simulation.machines()[1].inbox.len(), 60);
    assert_eq!(simulation.stats().drops.total(), 0);
}

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
    let mut simulation =
        Simulation::new(&network, postboxes(2, [Postbox::sending(frames)]), NoFaults);
    settle(&mut simulation);
    let first = 800 + 100 + 8_000 + 3_000;
    assert_eq!(
        simulation.machines()[1].arrivals(),
        [first, first + 8_000, first + 16_000]
    );
}

#[test]
fn a_rate_that_is_no_divisor_of_a_second_is_kept_exactly() {
    let cable = Cable::new(7_000_000_000, Duration::ZERO);
    let network = Network::star(2, cable, &member());
    let frames = (0..7).flat_map(|_| full_frames(0, host_mac(1), 100));
    let mut simulation =
        Simulation::new(&network, postboxes(2, [Postbox::sending(frames)]), NoFaults);
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
    simulation
        .machine_mut(0)
        .outbox
        .push_back(frame(0, host_mac(1), 0xBB, 20));
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
    let senders = [
        Postbox::sending(full_frames(0, host_mac(1), count)),
        Postbox::sending(full_frames(1, host_mac(0), count)),
    ];
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
    assert_eq!(
        simulation.machines()[1].arrivals(),
        [first, first + 20_000, first + 40_000]
    );
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
    assert_eq!(
        simulation.machines()[1].arrivals(),
        [first, first + sent, first + 2 * sent]
    );
    // A frame that arrives while the process sends waits until it is done.
    let mut network = star(2);
    (0..2).for_each(|host| network.host_mut(host).per_sent_frame_cost = Duration::from_micros(100));
    let both = [0, 1].map(|host| Postbox::sending(full_frames(host, host_mac(1 - host), 1)));
    let mut simulation = Simulation::new(&network, postboxes(2, both), NoFaults);
    simulation
        .machine_mut(1)
        .outbox
        .extend(full_frames(1, host_mac(0), 1));
    settle(&mut simulation);
    assert_eq!(
        simulation.machines()[1].arrivals(),
        [200_000],
        "its second frame comes first"
    );
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
    // The second and the third arrive 12 and 25 µs after the first; the fourth finds the process
    // asleep again.
    let fourth = 2 * (FULL_FRAME_NANOS + 500) + 3 * FULL_FRAME_NANOS + 31_000;
    assert_eq!(
        simulation.machines()[1].arrivals(),
        [first, first + 1_000, first + 2_000, fourth]
    );
}

#[test]
fn a_process_that_sends_is_awake_and_one_that_sleeps_through_arrivals_still_sends() {
    let network = |count| {
        let mut network = star(2);
        let host = network.host_mut(1);
        (host.wake_up, host.per_frame_cost) = (Duration::from_millis(1), Duration::from_micros(1));
        host.per_sent_frame_cost = Duration::from_micros(20);
        let both = [
            Postbox::sending(full_frames(0, host_mac(1), 1)),
            Postbox::sending(full_frames(1, host_mac(0), count)),
        ];
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
    assert_eq!(
        simulation.machines()[1].arrivals(),
        [arrives + 1_000_000 + 1_000]
    );
    let again = simulation.now() + Duration::from_millis(5);
    simulation
        .machine_mut(0)
        .outbox
        .extend(full_frames(0, host_mac(1), 1));
    simulation.wake(0, again);
    simulation
        .machine_mut(1)
        .outbox
        .extend(full_frames(1, host_mac(0), 1));
    simulation.wake(1, again + Duration::from_micros(100));
    settle(&mut simulation);
    let sent_at = (again + Duration::from_micros(100)).as_nanos() + 20_000;
    assert_eq!(
        simulation.machines()[0].arrivals().last(),
        Some(&(sent_at + arrives)),
        "sent while it sleeps"
    );
}

#[test]
fn frames_of_a_length_and_more_take_the_time_of_long_ones_and_shorter_ones_their_own() {
    let cable = Cable::new(8_000_000_000, Duration::ZERO);
    let network = Network::star(2, cable, &member())
        .with_overhead_bytes(10)
        .with_long_frames(100, 1_000);
    let lengths = [99, 100, 1_200];
    let frames = (0..)
        .zip(lengths)
        .map(|(label, bytes)| frame(0, host_mac(1), label, bytes));
    let mut simulation =
        Simulation::new(&network, postboxes(2, [Postbox::sending(frames)]), NoFaults);
    settle(&mut simulation);
    // A byte takes 1 ns on each of the two cables; the long frame leaves the host last.
    assert_eq!(
        simulation.machines()[1].arrivals(),
        [2 * 109, 109 + 2 * 1_000, 109 + 1_000 + 2 * 1_210]
    );
}

#[test]
fn a_token_bucket_lets_a_burst_pass_and_then_keeps_the_rate() {
    let cable = Cable::new(8_000_000_000, Duration::ZERO).with_burst_bytes(3_000);
    let network = Network::star(2, cable, &member()).with_overhead_bytes(0);
    let frames = (0..6).map(|label| frame(0, host_mac(1), label, 1000));
    let mut simulation =
        Simulation::new(&network, postboxes(2, [Postbox::sending(frames)]), NoFaults);
    settle(&mut simulation);
    // A byte takes 1 ns; the switch's port has a bucket of its own, which such arrivals never
    // empty.
    assert_eq!(
        simulation.machines()[1].arrivals(),
        [0, 0, 0, 1_000, 2_000, 3_000]
    );
    let late = Instant::from_nanos(5_000);
    simulation
        .machine_mut(0)
        .outbox
        .extend((0..4).map(|label| frame(0, host_mac(1), label, 1000)));
    simulation.wake(0, late);
    settle(&mut simulation);
    // 2 000 ns after the last departure the bucket holds two frames again.
    assert_eq!(
        simulation.machines()[1].arrivals()[6..],
        [5_000, 5_000, 6_000, 7_000]
    );
}
