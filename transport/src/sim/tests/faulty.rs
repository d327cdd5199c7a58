//! Tests of the fault source: faults occur at the set rate and do what they claim.

use std::time::Duration;

use super::*;
use crate::sim::{Delivery, Fate, Faults, NoFaults, RandomFaults, script};

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
        assert!((observed as f64 - expected).abs() <= spread, "{observed} of {count} instead of {expected}");
    };

    let lossy = send_under(count, RandomFaults::new(1).loss(0.1));
    near(lossy.stats().hosts[1].drops.fault, 0.1);

    let doubled = send_under(count, RandomFaults::new(2).duplicate(0.2));
    near(doubled.stats().hosts[1].received_frames - u64::from(count), 0.2);

    let corrupt = send_under(count, RandomFaults::new(3).corrupt(0.3));
    let inbox = &corrupt.machines()[1].inbox;
    let wrong = (0u32..).zip(inbox).filter(|(label, (_, bytes))| *bytes != frame(0, host_mac(1), *label as u8, 60));
    // A bit of the destination (6 of 60 bytes) sends the frame into the filter instead.
    let filtered = corrupt.stats().hosts[1].drops.filter;
    assert!(filtered > 400, "{filtered}");
    assert_eq!(inbox.len() as u64 + filtered, u64::from(count));
    assert!(wrong.count() > 0);

    let lossy_for_one = RandomFaults::new(4).loss(1.0).loss_at(1, 0.5);
    near(send_under(count, lossy_for_one).stats().hosts[1].drops.fault, 0.5);
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
    let again = |_: &Delivery<'_>| Fate::Duplicate { after: Duration::from_millis(3) };
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
        let expected: Vec<u8> = (0..12).filter(|label| label % 2 == 1 || pattern >> (label / 2) & 1 == 0).collect();
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
    let senders = [Postbox::sending([frame(0, host_mac(2), 0, 60), frame(0, GROUP, 0, 60)])];
    let mut simulation = Simulation::new(&star(3), postboxes(3, senders), watch);
    simulation.inject(micros(90), 1, &frame(9, GROUP, 0, 14));
    settle(&mut simulation);
    drop(simulation);
    let expected = [(0, Some(0), 2), (1, Some(0), 1), (2, Some(0), 2), (3, None, 1)];
    assert_eq!(seen, expected);
}
