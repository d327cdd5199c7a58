//! Switches that police broadcast: `auto` does not rely on casts over them, and a running cast
//! continues as a chain when they begin.

use ethbcast_collectives::session::{End, Outcome, RootEvent};
use ethbcast_planning::plan::Via;
use ethbcast_tests::session::{Case, GROUP, Played, play, star};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{
    Cable, Delivery, Fate, HostSettings, Network, Random, RandomFaults, StormControl, SwitchSettings,
};
use ethbcast_transport::wire::group_mac;
use std::time::Duration;

const RATE_BITS_PER_SECOND: u64 = 100_000_000;
const RECEIVERS: usize = 7;
const MIB: usize = 1 << 20;
/// A typical setting of an access switch: 500 frames a second, and a burst of five.
const STORM: StormControl = StormControl { frames_per_second: 500, burst_frames: 5 };

/// A session whose root measures first and chooses the kind of plan itself.
fn auto(bytes: usize) -> Case {
    Case { auto: true, mtu_bytes: 1500, ..Case::new(Via::Cast, RECEIVERS, bytes) }.with_feed(1024)
}

fn asked(via: Via, bytes: usize) -> Case {
    Case { auto: false, via, ..auto(bytes) }
}

fn free(case: &Case) -> Network {
    star(case, RATE_BITS_PER_SECOND)
}

fn policed(case: &Case, control: StormControl) -> Network {
    free(case).with_switches(SwitchSettings { storm_control: Some(control), ..SwitchSettings::default() })
}

/// All hosts but the last are on one switch. The last has a switch of its own, which polices for
/// its port alone.
fn with_one_behind(hosts: usize) -> Network {
    let groups = vec![group_mac(GROUP)];
    let settings =
        HostSettings { groups, nic_receive_frames: 4096, nic_transmit_frames: 32, ..HostSettings::default() };
    let cable = Cable::new(RATE_BITS_PER_SECOND, Duration::from_micros(5));
    let mut network = Network::new();
    let [all, one] = [(); 2].map(|()| network.add_switch(SwitchSettings::default()));
    network.connect(all, one, cable).expect("two switches");
    for host in 0..hosts {
        network.add_host(if host + 1 == hosts { one } else { all }, cable, settings.clone());
    }
    network.with_mtu_bytes(1500)
}

fn play_clean(case: &Case, network: &Network, seed: u64, replay: &str) -> Played {
    let played = play(case, network, seed, RandomFaults::new(seed), replay);
    assert!(
        played.fates.iter().all(|&fate| fate == Outcome::Delivered),
        "{replay}: {:?} {:?}",
        played.words,
        played.told
    );
    played
}

fn rerouted_at(played: &Played) -> Option<Duration> {
    let rerouted = |(_, event): &&(Duration, RootEvent)| matches!(event, RootEvent::Rerouted { .. });
    played.told.iter().find(rerouted).map(|&(at, _)| at)
}

#[test]
fn where_broadcast_arrives_it_is_chosen_after_a_tenth_of_a_second() {
    let case = auto(8 * MIB);
    let played = play_clean(&case, &free(&case), 1, "free");
    assert_eq!((played.view.via, rerouted_at(&played)), (Via::Cast, None));
    let asked = asked(Via::Cast, 8 * MIB);
    let known = play_clean(&asked, &free(&asked), 1, "cast, as asked");
    let longer = played.quiet_at.saturating_sub(known.quiet_at);
    println!("probe and ramp take {longer:?}");
    assert!(longer < Duration::from_millis(150) && played.took < known.took.mul_f64(1.02), "{longer:?}");
}

/// Seed `small:252:v5`: the next frame of a ramp at the full rate is due while the card still sends
/// the one before. A timer that had fired already was set again at once, without end.
#[test]
fn a_ramp_waits_for_room_in_a_card_that_holds_one_frame() {
    let groups = vec![group_mac(GROUP)];
    let settings = HostSettings { groups, nic_transmit_frames: 1, ..HostSettings::default() };
    for rate in [3_638_334, 5_000_000, 10_000_000] {
        let case = Case { mtu_bytes: 300, ..auto(MIB / 8) };
        let cable = Cable::new(rate, Duration::from_micros(5));
        let network = Network::star(RECEIVERS + 1, cable, &settings).with_mtu_bytes(300);
        play_clean(&case, &network, 1, "one slot");
    }
}

#[test]
fn a_broadcast_that_is_policed_from_the_start_is_not_bet_on() {
    let chain = asked(Via::Chain, MIB);
    let chain = play_clean(&chain, &policed(&chain, STORM), 1, "chain, as asked");
    for (frames_per_second, burst_frames) in [(500, 5), (100, 1), (2000, 16), (4000, 8)] {
        let case = auto(MIB);
        let control = StormControl { frames_per_second, burst_frames };
        let played = play_clean(&case, &policed(&case, control), 1, "policed");
        println!("{control:?}: {} in {:?}, a chain {:?}", played.view.via, played.took, chain.took);
        assert_eq!((played.view.via, rerouted_at(&played)), (Via::Chain, None), "{control:?}");
        assert!(played.took < chain.took.mul_f64(1.2), "{:?} of {:?}", played.took, chain.took);
    }
}

/// Faults of an overlay that copies at the sender's end: a frame of host 0 to all takes the time of
/// seven on its cable.
fn head_end() -> impl FnMut(&Delivery<'_>) -> Fate {
    let (mut free_at, mut last) = (0, Vec::new());
    move |delivery| {
        if delivery.from != Some(0) {
            return Fate::Deliver;
        }
        let (now, header) = (delivery.at.as_nanos(), &delivery.frame[..46]);
        if last != header {
            last = header.to_vec();
            let copies = if header[0] & 1 == 1 { RECEIVERS as u64 } else { 1 };
            let bits = (delivery.frame.len() as u64 + 24) * 8;
            free_at = free_at.max(now) + bits * 1_000_000_000 / RATE_BITS_PER_SECOND * copies;
        }
        Fate::Delay(Duration::from_nanos(free_at.saturating_sub(now)))
    }
}

#[test]
fn a_broadcast_that_is_copied_at_the_senders_end_is_not_bet_on() {
    for bytes in [64 << 10, 128 << 10, MIB, 4 * MIB] {
        let taken = |case: &Case| {
            let played = play(case, &free(case), 1, head_end(), "an overlay");
            assert!(played.fates.iter().all(|&fate| fate == Outcome::Delivered), "{:?}", played.words);
            (played.view.via, played.took)
        };
        let [(via, took), (_, chain), (_, cast)] =
            [auto(bytes), asked(Via::Chain, bytes), asked(Via::Cast, bytes)].map(|case| taken(&case));
        println!("{bytes} bytes: {via} in {took:?}, a chain {chain:?}, a cast {cast:?}");
        assert!(via != Via::Cast && took < chain.mul_f64(1.3) && took < cast, "{bytes} bytes: {took:?}");
    }
}

#[test]
fn what_is_too_short_to_be_tried_takes_no_cast_that_a_switch_may_police() {
    for bytes in [64 << 10, 128 << 10] {
        for control in [STORM, StormControl { frames_per_second: 500, burst_frames: 64 }] {
            let case = auto(bytes);
            let [auto, chain] = [case.clone(), asked(Via::Chain, bytes)]
                .map(|case| play_clean(&case, &policed(&case, control), 1, "policed"));
            assert_eq!(auto.view.via, Via::Chain, "{bytes} bytes, {control:?}");
            assert!(auto.took < chain.took.mul_f64(1.3), "{bytes} bytes: {:?} of {:?}", auto.took, chain.took);
        }
    }
}

#[test]
fn who_has_everything_hears_so_where_little_of_what_is_sent_to_all_passes() {
    for seed in 0..12 {
        let case = asked(Via::Cast, MIB);
        let control = StormControl { frames_per_second: [2, 20, 100][seed as usize % 3], burst_frames: 1 };
        let played = play_clean(&case, &policed(&case, control), seed, &format!("seed {seed}"));
        let ends: Vec<_> = played.ends.iter().filter(|end| **end != Some(End::Confirmed)).collect();
        assert!(ends.is_empty(), "seed {seed}: {ends:?} after {:?}", played.took);
    }
}

#[test]
fn one_port_that_polices_is_found_out_by_asking_everybody() {
    let mut case = auto(MIB);
    case.policed = vec![(1, STORM, Duration::ZERO)];
    let played = play_clean(&case, &with_one_behind(RECEIVERS + 1), 1, "one port");
    assert_eq!((played.view.via, played.aside()), (Via::Chain, vec![]));
}

#[test]
fn a_cast_goes_on_as_a_chain_when_switches_begin_to_police_it() {
    let bytes = 16 * MIB;
    let case = auto(bytes);
    let undisturbed = play_clean(&case, &free(&case), 1, "undisturbed").took;
    for seed in 0..18 {
        let mut case = auto(bytes);
        // At any moment of the transfer, which takes 1.4 s, except near its end.
        let at = Duration::from_millis(450 + 40 * seed);
        let frames_per_second = [50, 500, 1500][seed as usize % 3];
        let control = StormControl { frames_per_second, burst_frames: 20 };
        case.policed = vec![(0, control, at)];
        let played = play_clean(&case, &free(&case), seed, &format!("policed from {at:?} on, seed {seed}"));
        let rerouted = rerouted_at(&played).map(|rerouted| rerouted.saturating_sub(at));
        println!(
            "{control:?} from {at:?} on: {} after {rerouted:?}, {:?} of {undisturbed:?}",
            played.view.via, played.took
        );
        assert_eq!(played.view.via, Via::Chain, "seed {seed}");
        assert!(rerouted.is_some_and(|after| after < Duration::from_millis(1500)), "seed {seed}: {rerouted:?}");
        assert!(played.took < undisturbed.mul_f64(1.1) + Duration::from_millis(1500), "seed {seed}: {:?}", played.took);
    }
}

#[test]
fn and_whoever_dies_or_is_out_meanwhile_is_missed_by_nobody() {
    for seed in 0..30 {
        let mut case = auto(8 * MIB);
        let at = Duration::from_millis(500);
        case.policed = vec![(0, STORM, at)];
        let victim = 1 + seed as usize % RECEIVERS;
        // The first receiver is admitted after 200 ms: from before the switches police until all
        // data goes down the chain.
        case.crashes = vec![(victim, Duration::from_millis(250 + 30 * seed))];
        let loss = (seed % 2) as f64 / 100.0;
        let replay = format!("n{victim} dies, seed {seed}");
        let played = play(&case, &free(&case), seed, RandomFaults::new(seed).loss(loss), &replay);
        for (rank, fate) in (1..).zip(&played.fates) {
            assert!(rank == victim || *fate == Outcome::Delivered, "{replay}: {:?} {:?}", played.fates, played.words);
        }
    }
}

#[test]
fn a_port_that_begins_to_police_costs_its_host_alone() {
    let mut case = auto(16 * MIB);
    let undisturbed = play_clean(&case, &with_one_behind(RECEIVERS + 1), 1, "undisturbed").took;
    case.policed = vec![(1, STORM, Duration::from_millis(600))];
    let played = play_clean(&case, &with_one_behind(RECEIVERS + 1), 1, "one port");
    assert_eq!((played.view.via, played.aside()), (Via::Cast, vec![RECEIVERS]));
    let others = played.each_took[..RECEIVERS - 1].iter().max().expect("there are others");
    println!("others {others:?}, n{RECEIVERS} {:?} of {undisturbed:?}", played.each_took[RECEIVERS - 1]);
    assert!(*others < undisturbed + Duration::from_millis(1500), "{others:?}");
}

#[test]
fn nobody_who_says_odd_things_moves_a_session() {
    // One receiver that loses every second frame of any sender may be demoted.
    let case = auto(8 * MIB);
    let faults = RandomFaults::new(1).loss_at(3, 0.5);
    let odd = play(&case, &free(&case), 1, faults, "one loses half");
    assert!(odd.fates.iter().all(|&fate| fate == Outcome::Delivered), "{:?}", odd.words);
    assert_eq!((odd.view.via, rerouted_at(&odd)), (Via::Cast, None), "{:?}", odd.told);
    // All begin to lose as much as bad cables do: repairs are cheaper than a reroute.
    let mut random = Random::new(1);
    let faults = |delivery: &Delivery<'_>| {
        let lost = delivery.at > Instant::START + Duration::from_millis(450) && random.unit() < 0.03;
        if lost { Fate::Drop } else { Fate::Deliver }
    };
    let lossy = play(&case, &free(&case), 1, faults, "three in a hundred are lost");
    assert!(lossy.fates.iter().all(|&fate| fate == Outcome::Delivered), "{:?}", lossy.words);
    assert_eq!((lossy.view.via, rerouted_at(&lossy)), (Via::Cast, None), "{:?}", lossy.told);
    // A disk that is slow for all kinds of plans is no policer.
    let slow = Case { slow: Some((2, 2_000_000)), ..auto(4 * MIB) };
    let slow = play_clean(&slow, &free(&slow), 1, "a slow disk");
    assert_eq!((slow.view.via, rerouted_at(&slow)), (Via::Cast, None));
}
