//! Simulated tests of the broadcast algorithm chosen where switches limit or copy broadcasts. A
//! transfer also changes to another that proves far faster.

use ethbcast_collectives::session::{End, Outcome, RootEvent};
use ethbcast_planning::plan::Via;
use ethbcast_tests::in_full;
use ethbcast_tests::session::{Case, GROUP, Played, play, star};
use ethbcast_transport::Instant;
use ethbcast_transport::sim::{
    Cable, Delivery, Fate, HostSettings, Network, NoFaults, Random, RandomFaults, StormControl,
    SwitchSettings,
};
use ethbcast_transport::wire::group_mac;
use std::time::Duration;

const RATE_BITS_PER_SECOND: u64 = 100_000_000;
const RECEIVERS: usize = 7;
const MIB: usize = 1 << 20;
/// A typical setting of an access switch: 500 frames a second, and a burst of five.
const STORM: StormControl = StormControl {
    frames_per_second: 500,
    burst_frames: 5,
};

/// A session whose root measures first and chooses the kind of plan itself.
fn auto(bytes: usize) -> Case {
    Case {
        auto: true,
        mtu_bytes: 1500,
        ..Case::new(Via::Cast, RECEIVERS, bytes)
    }
    .with_feed(1024)
}

fn asked(via: Via, bytes: usize) -> Case {
    Case {
        auto: false,
        via,
        ..auto(bytes)
    }
}

fn free(case: &Case) -> Network {
    star(case, RATE_BITS_PER_SECOND)
}

fn policed(case: &Case, control: StormControl) -> Network {
    free(case).with_switches(SwitchSettings {
        storm_control: Some(control),
        ..SwitchSettings::default()
    })
}

/// Two switches, and a cable between them that has a part of the others' rate.
fn two_switches(part: u64, is_on_second: impl Fn(usize) -> bool) -> Network {
    let groups = vec![group_mac(GROUP)];
    let settings = HostSettings {
        groups,
        nic_receive_frames: 4096,
        nic_transmit_frames: 32,
        ..HostSettings::default()
    };
    let cable = |rate| Cable::new(rate, Duration::from_micros(5));
    let mut network = Network::new();
    let switches = [(); 2].map(|()| network.add_switch(SwitchSettings::default()));
    network
        .connect(switches[0], switches[1], cable(RATE_BITS_PER_SECOND / part))
        .expect("two switches");
    for host in 0..=RECEIVERS {
        let switch = switches[usize::from(is_on_second(host))];
        network.add_host(switch, cable(RATE_BITS_PER_SECOND), settings.clone());
    }
    network.with_mtu_bytes(1500)
}

/// Every second host is behind the cable.
fn mixed(part: u64) -> Network {
    two_switches(part, |host| host % 2 == 1)
}

/// The last host has a switch of its own, which polices for its port alone.
fn with_one_behind() -> Network {
    two_switches(1, |host| host == RECEIVERS)
}

fn assert_delivered(played: &Played, replay: &str) {
    let all = played.fates.iter().all(|&fate| fate == Outcome::Delivered);
    assert!(all, "{replay}: {:?} {:?}", played.words, played.told);
}

fn rerouted(played: &Played) -> Vec<(Duration, Via)> {
    let rerouted = |(at, event): &(Duration, RootEvent)| match event {
        RootEvent::Rerouted { via, .. } => Some((*at, *via)),
        _ => None,
    };
    played.told.iter().filter_map(rerouted).collect()
}

fn play_clean(case: &Case, network: &Network, seed: u64, replay: &str) -> Played {
    let played = play(case, network, seed, RandomFaults::new(seed), replay);
    assert_delivered(&played, replay);
    played
}

fn rerouted_at(played: &Played) -> Option<Duration> {
    rerouted(played).first().map(|&(at, _)| at)
}

#[test]
fn where_broadcast_arrives_it_is_chosen_after_a_tenth_of_a_second() {
    let case = auto(8 * MIB);
    let played = play_clean(&case, &free(&case), 1, "free");
    assert_eq!((played.view.via, rerouted_at(&played)), (Via::Cast, None));
    let asked = asked(Via::Cast, 8 * MIB);
    let known = play_clean(&asked, &free(&asked), 1, "cast, as asked");
    let longer = played.quiesced_at.saturating_sub(known.quiesced_at);
    println!("probe and ramp take {longer:?}");
    assert!(
        longer < Duration::from_millis(150) && played.took < known.took.mul_f64(1.02),
        "{longer:?}"
    );
}

/// Seed `small:252:v5`: the next frame of a ramp at the full rate is due while the card still sends
/// the one before. A timer that had fired already was set again at once, without end.
#[test]
fn a_ramp_waits_for_room_in_a_card_that_holds_one_frame() {
    let groups = vec![group_mac(GROUP)];
    let settings = HostSettings {
        groups,
        nic_transmit_frames: 1,
        ..HostSettings::default()
    };
    for rate in [3_638_334, 5_000_000, 10_000_000] {
        let case = Case {
            mtu_bytes: 300,
            ..auto(MIB / 8)
        };
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
        let control = StormControl {
            frames_per_second,
            burst_frames,
        };
        let played = play_clean(&case, &policed(&case, control), 1, "policed");
        println!(
            "{control:?}: {} in {:?}, a chain {:?}",
            played.view.via, played.took, chain.took
        );
        assert_eq!(
            (played.view.via, rerouted_at(&played)),
            (Via::Chain, None),
            "{control:?}"
        );
        assert!(
            played.took < chain.took.mul_f64(1.2),
            "{:?} of {:?}",
            played.took,
            chain.took
        );
    }
}

/// Faults of an overlay that copies at the sender's end from a moment on: a frame of host 0 to all
/// then takes the time of seven on its cable.
fn head_end(from: Duration) -> impl FnMut(&Delivery<'_>) -> Fate {
    let (mut free_at, mut last) = (0, Vec::new());
    move |delivery| {
        if delivery.from != Some(0) || delivery.at < Instant::START + from {
            return Fate::Deliver;
        }
        let (now, header) = (delivery.at.as_nanos(), &delivery.frame[..46]);
        if last != header {
            last = header.to_vec();
            let copies = if header[0] & 1 == 1 {
                RECEIVERS as u64
            } else {
                1
            };
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
            let played = play(case, &free(case), 1, head_end(Duration::ZERO), "an overlay");
            assert_delivered(&played, "an overlay");
            (played.view.via, played.took)
        };
        let [(via, took), (_, chain), (_, cast)] = [
            auto(bytes),
            asked(Via::Chain, bytes),
            asked(Via::Cast, bytes),
        ]
        .map(|case| taken(&case));
        println!("{bytes} bytes: {via} in {took:?}, a chain {chain:?}, a cast {cast:?}");
        assert!(
            via != Via::Cast && took < chain.mul_f64(1.3) && took < cast,
            "{bytes} bytes: {took:?}"
        );
    }
}

#[test]
fn contents_too_short_for_a_trial_use_no_cast_that_a_switch_may_police() {
    for bytes in [64 << 10, 128 << 10] {
        for control in [
            STORM,
            StormControl {
                frames_per_second: 500,
                burst_frames: 64,
            },
        ] {
            let case = auto(bytes);
            let [auto, chain] = [case.clone(), asked(Via::Chain, bytes)]
                .map(|case| play_clean(&case, &policed(&case, control), 1, "policed"));
            assert_ne!(auto.view.via, Via::Cast, "{bytes} bytes, {control:?}");
            assert!(
                auto.took < chain.took.mul_f64(1.3),
                "{bytes} bytes: {:?} of {:?}",
                auto.took,
                chain.took
            );
        }
    }
}

#[test]
fn who_has_everything_hears_so_where_little_of_what_is_sent_to_all_passes() {
    for seed in 0..12 {
        let case = asked(Via::Cast, MIB);
        let control = StormControl {
            frames_per_second: [2, 20, 100][seed as usize % 3],
            burst_frames: 1,
        };
        let played = play_clean(
            &case,
            &policed(&case, control),
            seed,
            &format!("seed {seed}"),
        );
        let ends: Vec<_> = played
            .ends
            .iter()
            .filter(|end| **end != Some(End::Confirmed))
            .collect();
        assert!(
            ends.is_empty(),
            "seed {seed}: {ends:?} after {:?}",
            played.took
        );
    }
}

#[test]
fn a_single_policing_port_is_found_by_probing_all_receivers() {
    let mut case = auto(MIB);
    case.policed = vec![(1, STORM, Duration::ZERO)];
    let played = play_clean(&case, &with_one_behind(), 1, "one port");
    assert_eq!((played.view.via, played.demoted()), (Via::Chain, vec![]));
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
        let control = StormControl {
            frames_per_second,
            burst_frames: 20,
        };
        case.policed = vec![(0, control, at)];
        let played = play_clean(
            &case,
            &free(&case),
            seed,
            &format!("policed from {at:?} on, seed {seed}"),
        );
        let rerouted = rerouted_at(&played).map(|rerouted| rerouted.saturating_sub(at));
        println!(
            "{control:?} from {at:?} on: {} after {rerouted:?}, {:?} of {undisturbed:?}",
            played.view.via, played.took
        );
        assert_eq!(played.view.via, Via::Chain, "seed {seed}");
        assert!(
            rerouted.is_some_and(|after| after < Duration::from_millis(1500)),
            "seed {seed}: {rerouted:?}"
        );
        assert!(
            played.took < undisturbed.mul_f64(1.1) + Duration::from_millis(1500),
            "seed {seed}: {:?}",
            played.took
        );
    }
}

#[test]
fn deaths_and_absences_beside_policed_broadcast_delay_no_other_receiver() {
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
        let played = play(
            &case,
            &free(&case),
            seed,
            RandomFaults::new(seed).loss(loss),
            &replay,
        );
        for (rank, fate) in (1..).zip(&played.fates) {
            assert!(
                rank == victim || *fate == Outcome::Delivered,
                "{replay}: {:?} {:?}",
                played.fates,
                played.words
            );
        }
    }
}

#[test]
fn a_port_that_begins_to_police_costs_its_host_alone() {
    let mut case = auto(16 * MIB);
    let undisturbed = play_clean(&case, &with_one_behind(), 1, "undisturbed").took;
    case.policed = vec![(1, STORM, Duration::from_millis(600))];
    let played = play_clean(&case, &with_one_behind(), 1, "one port");
    assert_eq!(
        (played.view.via, played.demoted()),
        (Via::Cast, vec![RECEIVERS])
    );
    let others = played.each_took[..RECEIVERS - 1]
        .iter()
        .max()
        .expect("there are others");
    println!(
        "others {others:?}, n{RECEIVERS} {:?} of {undisturbed:?}",
        played.each_took[RECEIVERS - 1]
    );
    assert!(
        *others < undisturbed + Duration::from_millis(1500),
        "{others:?}"
    );
}

#[test]
fn a_receiver_with_odd_reports_does_not_reroute_a_session() {
    // One receiver that loses every second frame of any sender may be demoted.
    let case = auto(8 * MIB);
    let faults = RandomFaults::new(1).loss_at(3, 0.5);
    let odd = play(&case, &free(&case), 1, faults, "one loses half");
    assert_delivered(&odd, "one loses half");
    assert_eq!(
        (odd.view.via, rerouted_at(&odd)),
        (Via::Cast, None),
        "{:?}",
        odd.told
    );
    // All begin to lose as much as bad cables do: repairs are cheaper than a reroute.
    let mut random = Random::new(1);
    let faults = |delivery: &Delivery<'_>| {
        let lost =
            delivery.at > Instant::START + Duration::from_millis(450) && random.unit() < 0.03;
        if lost { Fate::Drop } else { Fate::Deliver }
    };
    let lossy = play(
        &case,
        &free(&case),
        1,
        faults,
        "three in a hundred are lost",
    );
    assert_delivered(&lossy, "three in a hundred are lost");
    assert_eq!(
        (lossy.view.via, rerouted_at(&lossy)),
        (Via::Cast, None),
        "{:?}",
        lossy.told
    );
    // A disk that is slow for all kinds of plans is no policer.
    let slow = Case {
        slow: Some((2, 2_000_000)),
        ..auto(4 * MIB)
    };
    let slow = play_clean(&slow, &free(&slow), 1, "a slow disk");
    assert_eq!((slow.view.via, rerouted_at(&slow)), (Via::Cast, None));
}

#[test]
fn a_cast_that_is_copied_at_the_senders_end_goes_on_as_a_chain() {
    let case = auto(16 * MIB);
    let free = free(&case);
    for from in [500, 800, 1000].map(Duration::from_millis) {
        let played = play(&case, &free, 1, head_end(from), "an overlay");
        assert_delivered(&played, "an overlay");
        println!(
            "copied from {from:?} on: {:?} after {:?}",
            rerouted(&played),
            played.took
        );
        let [(at, Via::Chain)] = rerouted(&played)[..] else {
            panic!("{:?}", played.told)
        };
        assert!(at < from + Duration::from_secs(3), "{at:?}");
        assert!(
            played.took < Duration::from_secs(6),
            "{:?}, 10 s by cast",
            played.took
        );
    }
    let asked = asked(Via::Cast, 16 * MIB);
    let stays = play(
        &asked,
        &free,
        1,
        head_end(Duration::from_millis(500)),
        "as asked",
    );
    assert_eq!(rerouted(&stays), []);
}

#[test]
fn a_chain_that_crosses_a_slow_cable_again_and_again_goes_on_as_a_cast() {
    let network = mixed(4);
    let [auto, chain] = [auto(16 * MIB), asked(Via::Chain, 16 * MIB)]
        .map(|case| play(&case, &network, 1, NoFaults, "two switches"));
    println!(
        "{:?} after {:?}, a chain {:?}",
        rerouted(&auto),
        auto.took,
        chain.took
    );
    assert_delivered(&auto, "two switches");
    // Its cast seems to be policed, and the chain proves slower than it was.
    let ways: Vec<Via> = rerouted(&auto).into_iter().map(|(_, via)| via).collect();
    assert_eq!(ways, [Via::Chain, Via::Cast], "{:?}", auto.told);
    assert!(
        auto.took < chain.took.mul_f64(0.75),
        "{:?} of {:?}",
        auto.took,
        chain.took
    );
}

/// A network where casts are policed, and the cable between two switches has a part of the others'
/// rate.
fn mixed_without_casts(bytes: usize) -> Case {
    let control = StormControl {
        frames_per_second: 60,
        burst_frames: 5,
    };
    Case {
        policed: [0, 1]
            .map(|switch| (switch, control, Duration::ZERO))
            .into(),
        ..auto(bytes)
    }
    .with_feed(256)
}

#[test]
fn a_chain_that_crosses_a_slow_cable_again_and_again_goes_on_as_another_where_nothing_is_cast() {
    for (seed, part) in (1..).zip(in_full(&[4, 8][..], &[4, 8, 3]).iter().copied()) {
        let case = mixed_without_casts(64 * MIB / part as usize * 4);
        // Each frame crosses the slow cable once.
        let frames = case.bytes.div_ceil(1468) as u64;
        let best =
            Duration::from_nanos(frames * 1538 * 8_000 / (RATE_BITS_PER_SECOND / 1_000_000) * part);
        let auto = play(&case, &mixed(part), seed, NoFaults, "an untold cable");
        assert_delivered(&auto, "an untold cable");
        println!(
            "1/{part}: {:?} after {:?}, the best {:?}, {:?}",
            rerouted(&auto),
            auto.took,
            best,
            auto.demoted()
        );
        let ways: Vec<Via> = rerouted(&auto).into_iter().map(|(_, via)| via).collect();
        assert_eq!(ways, [Via::Chain], "{:?}", auto.told);
        assert!(
            auto.took < best.mul_f64(1.3),
            "1/{part}: {:?} of {best:?}",
            auto.took
        );
    }
}

#[test]
fn no_tree_is_changed_where_no_cable_is_slow() {
    for seed in 0..in_full(6, 24) {
        let case = mixed_without_casts(8 * MIB);
        let loss = (seed % 3) as f64 / 100.0;
        let faults = RandomFaults::new(seed).loss(loss);
        let replay = format!("seed {seed}");
        let played = play(&case, &mixed(1), seed, faults, &replay);
        assert_delivered(&played, &replay);
        assert_eq!(
            (played.view.epoch, rerouted(&played)),
            (1, vec![]),
            "{replay}: {:?}",
            played.told
        );
    }
}

#[test]
fn whatever_else_is_slow_changes_no_way() {
    for case in [
        auto(4 * MIB),
        Case {
            slow: Some((2, 2_000_000)),
            ..auto(4 * MIB)
        },
    ] {
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
    for (victim, dead) in [
        (4, dead_after[0]),
        (4, dead_after[1]),
        (1, dead_after[1]),
        (RECEIVERS, dead_after[1]),
    ] {
        let mut case = auto(16 * MIB);
        case.timing = case.timing.with_dead(dead).expect("within its bounds");
        case.crashes = vec![(victim, Duration::from_millis(700))];
        let played = play(&case, &free(&case), 1, NoFaults, "a silent host");
        let others = (1..)
            .zip(&played.fates)
            .all(|(rank, fate)| rank == victim || *fate == Outcome::Delivered);
        assert!(
            others,
            "n{victim} dies: {:?} {:?}",
            played.words, played.told
        );
        assert_eq!(
            (played.view.via, rerouted(&played)),
            (Via::Cast, vec![]),
            "n{victim} dies, {dead:?}"
        );
    }
}

#[test]
fn a_host_that_falls_silent_in_a_chain_makes_no_cast_of_it() {
    for victim in [1, 4, RECEIVERS] {
        let mut case = auto(16 * MIB);
        case.timing = case
            .timing
            .with_dead(Duration::from_secs(5))
            .expect("within its bounds");
        let undisturbed = play(&case, &mixed(1), 1, head_end(Duration::ZERO), "undisturbed");
        case.crashes = vec![(victim, undisturbed.took / 2)];
        let played = play(
            &case,
            &mixed(1),
            1,
            head_end(Duration::ZERO),
            "a silent host",
        );
        assert_eq!(
            rerouted(&played),
            rerouted(&undisturbed),
            "n{victim} dies: {:?}",
            played.told
        );
    }
}
