//! Kernels without room, timers with slack, hosts that are switched on again, clocks that begin late.

use std::time::Duration;

use super::*;
use crate::Timer;
use crate::sim::{Delivery, Departure, Fate, Faults, NoFaults, Sending, StormControl, SwitchSettings};

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
    assert_eq!(simulation.machines()[1].labels(), (0..12).collect::<Vec<u8>>());
    assert_eq!(simulation.faults_mut().refused, [2, 5, 8, 11]);
    let arrivals = simulation.machines()[1].arrivals();
    assert!(arrivals[2] >= 100_000 && arrivals[11] >= 400_000, "{arrivals:?}");
    assert_eq!(simulation.stats().hosts[0].sent_frames, 12);
}

#[test]
fn timers_with_slack_ring_at_the_next_of_their_moments() {
    let mut network = star(1);
    network.host_mut(0).timer_slack = Duration::from_micros(70);
    let machine = Postbox { deadline: Some(Deadline { at: micros(100), why: Timer("test") }), ..Postbox::default() };
    let mut simulation = Simulation::new(&network, vec![machine], NoFaults);
    settle(&mut simulation);
    assert_eq!(simulation.machines()[0].timeouts, [Instant::START, micros(140)]);
}

#[test]
fn a_crashed_host_that_is_switched_on_again_has_lost_its_mail_and_hears_what_comes_then() {
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
    let outcome = simulation.run(begins + Duration::from_secs(1), |_, _: &mut Postbox, _| None);
    assert!(outcome.is_quiet());
    assert_eq!(simulation.machines()[0].timeouts, [begins]);
    assert!(simulation.machines()[1].arrivals().iter().all(|&at| at > begins.as_nanos()));
}

#[test]
fn a_policer_can_be_taken_away() {
    let control = StormControl { frames_per_second: 10, burst_frames: 1 };
    let network = star(2).with_switches(SwitchSettings { storm_control: Some(control), ..SwitchSettings::default() });
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
