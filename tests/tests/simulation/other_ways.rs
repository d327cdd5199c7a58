//! Simulated tests of a change of broadcast algorithm during a transfer, away from a slow one.

use crate::rates::head_end;
use ethbcast_collectives::session::{Outcome, RootEvent};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, GROUP, Played, play, star};
use ethbcast_transport::sim::{Cable, HostSettings, Network, NoFaults, SwitchSettings};
use ethbcast_transport::wire::group_mac;
use std::time::Duration;

const RATE_BITS_PER_SECOND: u64 = 100_000_000;
const RECEIVERS: usize = 7;
const MIB: usize = 1 << 20;

/// A session whose root measures first and chooses the kind of plan itself.
fn auto(bytes: usize) -> Case {
    Case { auto: true, mtu_bytes: 1500, ..Case::new(Via::Cast, RECEIVERS, bytes) }.with_feed(1024)
}

fn asked(via: Via, bytes: usize) -> Case {
    Case { auto: false, via, ..auto(bytes) }
}

fn rerouted(played: &Played) -> Vec<(Duration, Via)> {
    let rerouted = |(at, event): &(Duration, RootEvent)| match event {
        RootEvent::Rerouted { via, .. } => Some((*at, *via)),
        _ => None,
    };
    played.told.iter().filter_map(rerouted).collect()
}

fn assert_delivered(played: &Played, replay: &str) {
    let all = played.fates.iter().all(|&fate| fate == Outcome::Delivered);
    assert!(all, "{replay}: {:?} {:?}", played.words, played.told);
}

#[test]
fn a_cast_that_is_copied_at_the_senders_end_goes_on_as_a_chain() {
    let case = auto(16 * MIB);
    let free = star(&case, RATE_BITS_PER_SECOND);
    for from in [500, 800, 1000].map(Duration::from_millis) {
        let played = play(&case, &free, 1, head_end(from), "an overlay");
        assert_delivered(&played, "an overlay");
        println!("copied from {from:?} on: {:?} after {:?}", rerouted(&played), played.took);
        let [(at, Via::Chain)] = rerouted(&played)[..] else { panic!("{:?}", played.told) };
        assert!(at < from + Duration::from_secs(3), "{at:?}");
        assert!(played.took < Duration::from_secs(6), "{:?}, 10 s by cast", played.took);
    }
    let asked = asked(Via::Cast, 16 * MIB);
    let stays = play(&asked, &free, 1, head_end(Duration::from_millis(500)), "as asked");
    assert_eq!(rerouted(&stays), []);
}

/// Two switches with every second host on each, and a cable between them that has a part of the
/// others' rate.
fn two_switches(part: u64) -> Network {
    let groups = vec![group_mac(GROUP)];
    let settings =
        HostSettings { groups, nic_receive_frames: 4096, nic_transmit_frames: 32, ..HostSettings::default() };
    let cable = |rate| Cable::new(rate, Duration::from_micros(5));
    let mut network = Network::new();
    let switches = [(); 2].map(|()| network.add_switch(SwitchSettings::default()));
    network.connect(switches[0], switches[1], cable(RATE_BITS_PER_SECOND / part)).expect("two switches");
    for host in 0..=RECEIVERS {
        network.add_host(switches[host % 2], cable(RATE_BITS_PER_SECOND), settings.clone());
    }
    network.with_mtu_bytes(1500)
}

#[test]
fn a_chain_that_crosses_a_slow_cable_again_and_again_goes_on_as_a_cast() {
    let network = two_switches(4);
    let [auto, chain] =
        [auto(16 * MIB), asked(Via::Chain, 16 * MIB)].map(|case| play(&case, &network, 1, NoFaults, "two switches"));
    println!("{:?} after {:?}, a chain {:?}", rerouted(&auto), auto.took, chain.took);
    assert_delivered(&auto, "two switches");
    // Its cast seems to be policed, and the chain proves slower than it was.
    let ways: Vec<Via> = rerouted(&auto).into_iter().map(|(_, via)| via).collect();
    assert_eq!(ways, [Via::Chain, Via::Cast], "{:?}", auto.told);
    assert!(auto.took < chain.took.mul_f64(0.75), "{:?} of {:?}", auto.took, chain.took);
}

#[test]
fn whatever_else_is_slow_changes_no_way() {
    for case in [auto(4 * MIB), Case { slow: Some((2, 2_000_000)), ..auto(4 * MIB) }] {
        for rate in [RATE_BITS_PER_SECOND, 10_000_000] {
            let played = play(&case, &star(&case, rate), 1, NoFaults, "even");
            assert_delivered(&played, "even");
            assert_eq!(rerouted(&played), [], "{rate} bit/s");
        }
    }
}

#[test]
fn a_host_that_falls_silent_is_not_taken_for_a_slow_network() {
    let dead_after = [Duration::from_millis(1500), Duration::from_secs(5)];
    for (victim, dead) in [(4, dead_after[0]), (4, dead_after[1]), (1, dead_after[1]), (RECEIVERS, dead_after[1])] {
        let mut case = auto(16 * MIB);
        case.timing = case.timing.with_dead(dead).expect("within its bounds");
        case.crashes = vec![(victim, Duration::from_millis(700))];
        let played = play(&case, &star(&case, RATE_BITS_PER_SECOND), 1, NoFaults, "a silent host");
        let others = (1..).zip(&played.fates).all(|(rank, fate)| rank == victim || *fate == Outcome::Delivered);
        assert!(others, "n{victim} dies: {:?} {:?}", played.words, played.told);
        assert_eq!((played.view.via, rerouted(&played)), (Via::Cast, vec![]), "n{victim} dies, {dead:?}");
    }
}

#[test]
fn a_host_that_falls_silent_in_a_chain_makes_no_cast_of_it() {
    for victim in [1, 4, RECEIVERS] {
        let mut case = auto(16 * MIB);
        case.timing = case.timing.with_dead(Duration::from_secs(5)).expect("within its bounds");
        let undisturbed = play(&case, &two_switches(1), 1, head_end(Duration::ZERO), "undisturbed");
        case.crashes = vec![(victim, undisturbed.took / 2)];
        let played = play(&case, &two_switches(1), 1, head_end(Duration::ZERO), "a silent host");
        assert_eq!(rerouted(&played), rerouted(&undisturbed), "n{victim} dies: {:?}", played.told);
    }
}
