//! Simulated tests of whole transfers: every pattern of losses, deaths of hosts, many receivers.
//! Random ones are in `swarm`.

use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{
    Carousel, End, Outcome, Receiver, ReceiverConfig, Root, RootConfig, RootFailure, Station,
    Timing, Wanted,
};
use ethbcast_planning::model::{Broadcast, Calibration};
use ethbcast_planning::plan::Via;
use ethbcast_tests::in_full;
use ethbcast_tests::session::{
    Case, Disk, GROUP, Host, Played, Sent, data, hosts, nonce, play, star, turn,
};
use ethbcast_transport::sim::{
    Cable, Delivery, Fate, HostSettings, Network, NoFaults, QueueLimit, Random, RandomFaults,
    Simulation, SwitchSettings, host_mac, script,
};
use ethbcast_transport::wire::{Kind, group_mac, parse};
use ethbcast_transport::{Instant, MacAddr, Tuning};
use std::time::Duration;

const RATE_BITS_PER_SECOND: u64 = 1_000_000_000;

fn case(via: Via, receivers: usize, bytes: usize) -> Case {
    Case::new(via, receivers, bytes)
}

fn all_delivered(played: &Played, case: &Case, replay: &str) {
    assert_eq!(
        played.fates,
        vec![Outcome::Delivered; case.receivers],
        "{replay}"
    );
    // The root's last messages may be lost; delivered bytes stay delivered.
    let content = |end: &Option<End>| matches!(end, Some(End::Confirmed | End::Unconfirmed));
    assert!(
        played.ends.iter().all(content),
        "{replay}: {:?}",
        played.ends
    );
}

/// Plays a session in which the user of `host` cancels it `at` that time after its start; returns
/// how long the host then goes on.
fn goes_on_for(case: &Case, host: usize, at: Duration) -> Duration {
    let (told_at, mut was_told, mut over_at) = (Instant::START + at, false, None);
    let mut simulation = Simulation::new(&star(case, 100_000_000), hosts(case, 1), NoFaults);
    let _others_may_go_on = simulation.run(
        told_at + Duration::from_secs(5),
        |number, participant, now| {
            let is_told =
                number == host && now >= told_at && !std::mem::replace(&mut was_told, true);
            match participant {
                Participant::Root(root, _) if is_told => drop(root.stop_waiting(now, "told")),
                Participant::Receiver(receiver, receiving) if is_told => {
                    receiving.cancel(receiver, now, "told")
                }
                _ => {}
            }
            let again = turn(participant, now);
            let is_over = match participant {
                Participant::Root(root, _) => root.is_over(),
                Participant::Receiver(receiver, _) => receiver.is_over(),
            };
            if number == host && is_over {
                over_at.get_or_insert(now);
            }
            if number == host && !was_told {
                Some(again.map_or(told_at, |again| again.min(told_at)))
            } else {
                again
            }
        },
    );
    over_at
        .unwrap_or_else(|| panic!("host {host} is not over, told after {at:?}"))
        .since(told_at)
}

#[test]
fn a_session_ends_within_a_fifth_of_a_second_when_its_user_says_so() {
    // While it waits for receivers, at its start, and in the middle.
    for millis in [20, 250, 600, 1200] {
        for via in [Via::Chain, Via::Cast] {
            for host in [0, 1, 2] {
                let long = Case {
                    mtu_bytes: 1500,
                    ..case(via, 2, 20_000_000)
                };
                let took = goes_on_for(&long.with_feed(1024), host, Duration::from_millis(millis));
                assert!(
                    took <= Duration::from_millis(200),
                    "{via}: host {host} told after {millis} ms: {took:?}"
                );
            }
        }
    }
}

#[test]
fn every_way_to_lose_some_of_the_first_fourteen_frames_of_a_broadcast_is_survived() {
    for via in [Via::Chain, Via::Cast] {
        let case = case(via, 2, 1000);
        let network = star(&case, RATE_BITS_PER_SECOND);
        for pattern in 0..1_u64 << 14 {
            let stream_frame = |delivery: &Delivery<'_>| {
                parse(delivery.frame).is_ok_and(|frame| {
                    matches!(frame.header.kind, Kind::DATA | Kind::ACK | Kind::HEARTBEAT)
                })
            };
            let replay = format!("{via} pattern {pattern:#x}");
            let played = play(&case, &network, 1, script(pattern, stream_frame), &replay);
            all_delivered(&played, &case, &replay);
            let lost = u64::from(pattern.count_ones());
            let resent = played.totals.data_resent;
            assert!(
                resent <= lost + 4,
                "{replay}: {resent} frames sent again for {lost} losses"
            );
        }
    }
}

#[test]
fn every_way_to_lose_some_of_the_first_twelve_control_frames_is_survived() {
    for via in [Via::Chain, Via::Cast] {
        let case = case(via, 2, 300);
        let network = star(&case, RATE_BITS_PER_SECOND);
        for pattern in 0..1_u64 << 12 {
            let control = |delivery: &Delivery<'_>| {
                parse(delivery.frame).is_ok_and(|frame| {
                    !matches!(frame.header.kind, Kind::DATA | Kind::ACK | Kind::HEARTBEAT)
                })
            };
            let replay = format!("{via} control pattern {pattern:#x}");
            let played = play(&case, &network, 1, script(pattern, control), &replay);
            all_delivered(&played, &case, &replay);
        }
    }
}

#[test]
fn an_empty_stream_one_byte_and_the_edges_of_a_frame_all_arrive() {
    for via in [Via::Chain, Via::Cast] {
        for bytes in [0, 1, 267, 268, 269, 536] {
            let case = case(via, 3, bytes);
            let played = play(
                &case,
                &star(&case, RATE_BITS_PER_SECOND),
                3,
                NoFaults,
                &format!("{via} {bytes} bytes"),
            );
            all_delivered(&played, &case, "edges");
            let hops = if via == Via::Chain { 3 } else { 1 };
            // Down a chain a short message is sent in shorter frames.
            let payload_bytes = usize::from(played.view.payload_bytes);
            assert!(
                payload_bytes == 268 || via == Via::Chain,
                "{via}: {payload_bytes} bytes"
            );
            let frames = bytes.div_ceil(payload_bytes) as u64 + 1;
            assert_eq!(
                played.totals.data_sent,
                hops * frames,
                "{via} {bytes} bytes"
            );
        }
    }
}

#[test]
fn when_a_relay_dies_its_parent_serves_its_child_and_the_root_names_the_dead() {
    let mut case = case(Via::Chain, 5, 3_000_000);
    case.crashes = vec![(3, Duration::from_millis(15))];
    let played = play(
        &case,
        &star(&case, 100_000_000),
        5,
        NoFaults,
        "a relay dies",
    );
    let mut expected = vec![Outcome::Delivered; 5];
    expected[2] = Outcome::Silent;
    assert_eq!(played.fates, expected);
    assert!(played.ends[4] == Some(End::Confirmed), "{:?}", played.ends);
    let last = played
        .each_took
        .iter()
        .zip(&played.fates)
        .filter(|(_, fate)| **fate == Outcome::Delivered);
    let last = last.map(|(took, _)| *took).max().unwrap_or_default();
    assert!(last < Duration::from_secs(3), "{last:?}");
}

#[test]
fn frames_that_died_with_a_relay_before_its_child_got_them_are_still_kept_by_its_parent() {
    for seed in 0..20 {
        let mut case = case(Via::Chain, 5, 3_000_000);
        case.tuning = Tuning::default().with_feed_frames(256);
        case.crashes = vec![(3, Duration::from_millis(60 + 7 * seed))];
        // The child loses a third of its frames, so that it lags far behind the relay.
        let faults = RandomFaults::new(seed).loss_at(4, 0.35);
        let replay = format!("a relay dies with a backlog, seed {seed}");
        let played = play(&case, &star(&case, 100_000_000), seed, faults, &replay);
        let mut expected = vec![Outcome::Delivered; 5];
        expected[2] = Outcome::Silent;
        assert_eq!(played.fates, expected, "{replay}");
    }
}

#[test]
fn a_relay_that_leaves_with_frames_still_on_their_way_to_its_child_is_bridged() {
    // The child received more frames from the dead parent than the new parent has sent: its
    // acknowledgements are no forgeries.
    for seed in 0..20 {
        let mut case = case(Via::Chain, 3, 4_000_000);
        case.mtu_bytes = 1500;
        case.tuning = Tuning::default();
        case.gives_up = Some((2, 500_000 + 120_000 * seed as usize));
        let replay = format!("a relay's disk is full, seed {seed}");
        // The relay's frames arrive in bursts, as behind a busy scheduler.
        let in_bursts = |delivery: &Delivery<'_>| match (delivery.from, delivery.to) {
            (Some(2), 3) => Fate::Delay(Duration::from_nanos(
                20_000_000 - delivery.at.as_nanos() % 20_000_000,
            )),
            _ => Fate::Deliver,
        };
        let played = play(&case, &star(&case, 400_000_000), seed, in_bursts, &replay);
        assert_eq!(
            played.fates,
            [Outcome::Delivered, Outcome::NoSpace, Outcome::Delivered],
            "{replay}"
        );
    }
}

/// A cast to many receivers, of which above 16 most acknowledge to another receiver.
fn crowd(receivers: usize, bytes: usize) -> Case {
    Case {
        tuning: Tuning::default().with_feed_frames(256),
        ..case(Via::Cast, receivers, bytes)
    }
}

#[test]
fn casts_to_many_receivers_deliver_whatever_gets_lost() {
    for (seed, receivers, loss) in [
        (1, 17, 0.05),
        (2, 40, 0.01),
        (3, 16, 0.01),
        (4, 129, 0.0),
        (5, 150, 0.001),
        (6, 150, 0.05),
    ] {
        let case = crowd(receivers, 150_000);
        let replay = format!("{receivers} receivers, loss {loss}");
        let faults = RandomFaults::new(seed)
            .loss(loss)
            .duplicate(0.01)
            .reorder(0.01, Duration::from_micros(300));
        let played = play(
            &case,
            &star(&case, RATE_BITS_PER_SECOND),
            seed,
            faults,
            &replay,
        );
        all_delivered(&played, &case, &replay);
        assert_eq!(played.totals.forged_acks, 0, "{replay}");
        let hops = receivers as f64 * (case.bytes / 268 + 2) as f64;
        let budget = hops * (loss + 0.01) * 1.3 + 20.0;
        assert!(
            (played.totals.data_resent as f64) < budget,
            "{replay}: {} frames sent again",
            played.totals.data_resent
        );
    }
}

#[test]
fn when_receivers_die_that_others_acknowledge_to_their_repair_children_get_everything() {
    // Of 140, ranks 13 to 24 acknowledge to rank 1 and 25 to 36 to rank 2. Of 300, ranks 9 to 16
    // acknowledge to rank 1 and 73 to 80 to rank 9, whose parent and grandparent die at once.
    for (seed, receivers, dead) in [
        (1, 140, vec![2]),
        (2, 140, vec![1, 2]),
        (3, 140, vec![2, 25]),
        (4, 140, vec![11, 12, 140]),
        (5, 300, vec![1, 9]),
    ]
    .into_iter()
    .take(in_full(4, 5))
    {
        let bad = if receivers == 140 { 24 } else { 75 };
        let mut case = crowd(receivers, 1_500_000);
        case.crashes = dead
            .iter()
            .map(|&host| (host, Duration::from_millis(90 + 3 * seed)))
            .collect();
        let replay = format!("ranks {dead:?} die");
        // One repair child has a bad cable, so that many frames are kept for it alone. The session
        // begins without losses: all die in the middle of the stream.
        let mut random = Random::new(seed);
        let faults = |delivery: &Delivery<'_>| {
            let data = parse(delivery.frame)
                .is_ok_and(|frame| matches!(frame.header.kind, Kind::DATA | Kind::ACK));
            let loss = if delivery.to == bad { 0.35 } else { 0.001 };
            if data && random.chance(loss) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        };
        let played = play(&case, &star(&case, 100_000_000), seed, faults, &replay);
        assert!(
            played.took > Duration::from_millis(1500),
            "{replay}: the others wait until the silent ones are given up"
        );
        let mut expected = vec![Outcome::Delivered; receivers];
        dead.iter()
            .for_each(|&host| expected[host - 1] = Outcome::Silent);
        assert_eq!(played.fates, expected, "{replay}");
    }
}

/// All hosts send at one moment and the last frame is dropped; repetitions in step would lose it
/// each time.
#[test]
fn a_switch_whose_port_holds_few_frames_keeps_nobody_out() {
    for (via, receivers) in [Via::Cast, Via::Chain]
        .into_iter()
        .flat_map(|via| [13, 40].map(|count| (via, count)))
    {
        let case = case(via, receivers, 4000);
        let port_queue = QueueLimit::Frames(4);
        let network = star(&case, 100_000_000).with_switches(SwitchSettings {
            port_queue,
            ..SwitchSettings::default()
        });
        let replay = format!("{via} to {receivers} through a port of four frames");
        let played = play(&case, &network, 1, NoFaults, &replay);
        all_delivered(&played, &case, &replay);
        assert!(
            played.quiesced_at < Duration::from_secs(3),
            "{replay}: {:?}",
            played.quiesced_at
        );
    }
}

#[test]
fn long_sessions_under_heavy_loss_keep_moving() {
    // A pacing rule that counted each loss once per acknowledgement slowed such a cast down to a
    // frame every 100 ms.
    for via in [Via::Chain, Via::Cast] {
        for (seed, loss) in [(1, 0.1), (2, 0.3)] {
            let case = Case {
                mtu_bytes: 1500,
                tuning: Tuning::default(),
                ..case(via, 7, 4 << 20)
            };
            let replay = format!("{via}, loss {loss}");
            let played = play(
                &case,
                &star(&case, 100_000_000),
                seed,
                RandomFaults::new(seed).loss(loss),
                &replay,
            );
            all_delivered(&played, &case, &replay);
            let limit = case.bytes as f64 * 8.0 / 1e8 * 1538.0 / 1468.0;
            let ratio = played.took.as_secs_f64() / limit;
            println!(
                "{replay}: {ratio:.2} of the wire limit, {} sent, {} again",
                played.totals.data_sent, played.totals.data_resent
            );
            // A cast to 7 receivers needs about 1 + 7p/(1-p) frames for each.
            assert!(
                ratio < 1.6 + 8.0 * loss / (1.0 - loss),
                "{replay}: {ratio:.2} of the wire limit"
            );
        }
    }
}

#[test]
fn a_receiver_behind_a_slow_cable_slows_a_cast_down_to_its_rate_and_no_further() {
    let case = Case {
        mtu_bytes: 1500,
        tuning: Tuning::default(),
        ..case(Via::Cast, 3, 4 << 20)
    };
    let settings = HostSettings {
        groups: vec![group_mac(GROUP)],
        nic_receive_frames: 4096,
        ..HostSettings::default()
    };
    let mut network = Network::new();
    let switch = network.add_switch(SwitchSettings {
        port_queue: QueueLimit::Frames(64),
        ..SwitchSettings::default()
    });
    for rate in [1_000_000_000, 1_000_000_000, 100_000_000, 1_000_000_000] {
        network.add_host(
            switch,
            Cable::new(rate, Duration::from_micros(5)),
            settings.clone(),
        );
    }
    let played = play(&case, &network, 1, NoFaults, "slow cable");
    all_delivered(&played, &case, "slow cable");
    let limit = case.bytes as f64 * 8.0 / 1e8 * 1538.0 / 1468.0;
    let ratio = played.took.as_secs_f64() / limit;
    println!(
        "slow cable: {ratio:.2} of its limit, {} sent, {} again",
        played.totals.data_sent, played.totals.data_resent
    );
    assert!(ratio < 1.6, "{ratio:.2} of the slow cable's limit");
    assert!(
        played.totals.data_resent < played.totals.data_sent,
        "{} frames sent again",
        played.totals.data_resent
    );
}

fn station() -> Station {
    Station::new("g", "n0", MacAddr::new(2, 0, 0, 0, 0, 1), 1500)
}

#[test]
#[should_panic(expected = "window.min_frames")]
fn a_root_is_not_made_with_numbers_that_its_streams_cannot_run_on() {
    let mut config = RootConfig::new(station(), 1, "numbers");
    config.tuning.window.min_frames = 0;
    Root::new(Instant::START, config);
}

#[test]
#[should_panic(expected = "window.min_frames")]
fn a_receiver_is_not_made_with_numbers_that_its_streams_cannot_run_on() {
    let mut config = ReceiverConfig::new(station(), 1);
    config.tuning.window.min_frames = 0;
    Receiver::new(Instant::START, config);
}

#[test]
fn when_the_first_two_relays_die_who_lacks_what_they_had_is_lost_and_the_session_ends() {
    let mut lost = 0;
    for seed in 0..150 {
        let (stall, patience) = (Duration::from_secs(2), Duration::ZERO);
        let timing = Timing {
            stall,
            patience,
            ..Timing::default()
        };
        let mut case = Case {
            timing,
            mtu_bytes: 1500,
            pipe: true,
            ..Case::new(Via::Chain, 4, 1_200_000)
        };
        let at = Duration::from_millis(50 + seed / 3);
        case.crashes = vec![(1, at), (2, at)];
        let replay = format!("two relays of a pipe die, seed {seed}");
        let played = play(
            &case,
            &star(&case, 100_000_000),
            seed,
            RandomFaults::new(seed).loss(0.04),
            &replay,
        );
        let ends =
            |fate: &Outcome| matches!(fate, Outcome::Delivered | Outcome::Lost | Outcome::Silent);
        assert!(
            played.fates.iter().all(ends),
            "{replay}: {:?} {:?}",
            played.fates,
            played.words
        );
        lost += played.fates[2..]
            .iter()
            .filter(|&&fate| fate == Outcome::Lost)
            .count();
    }
    assert!(lost > 5, "{lost} were lost: the case is hardly met");
}

/// Receivers of a carousel, and the moment when each comes.
struct Room {
    case: Case,
    comes: Vec<Duration>,
    /// A host whose process is started again at a moment, with nothing of what it had.
    restarts: Option<(usize, Duration)>,
}

struct RoundsPlayed {
    /// Hosts that got everything in each round.
    rounds: Vec<Vec<String>>,
    failure: Option<RootFailure>,
    /// Copies of the content that left the root, all frames counted.
    copies: f64,
}

impl Room {
    /// 30 hosts at 100 Mbit/s, of which `first` are there at once; the last comes after three times
    /// the duration of a transfer.
    fn new(first: usize) -> Room {
        let case = Case {
            mtu_bytes: 1500,
            ..Case::new(Via::Cast, 30, 6_000_000).with_feed(1024)
        };
        let transfer = Duration::from_secs_f64(case.bytes as f64 * 8.0 / 1e8);
        let late = case.receivers - first;
        let after = |at: usize| transfer * 3 * at as u32 / late as u32;
        let comes = vec![Duration::ZERO; first].into_iter();
        Room {
            comes: comes.chain((1..=late).map(after)).collect(),
            case,
            restarts: None,
        }
    }

    fn root(&self, now: Instant, carousel: &Carousel, round: usize) -> Host {
        // Probes would be a tenth of so short a content.
        let calibration = Calibration::assumed(100_000_000, 1468);
        let config = RootConfig {
            calibration: calibration.with_broadcast(Broadcast::FullRate).ok(),
            size: Some(self.case.bytes as u64),
            tuning: self.case.tuning.clone(),
            timing: self.case.timing,
            ..RootConfig::new(station_of(0), 1000 + round as u32, "room")
        };
        let root = Root::new(now, config.in_round(carousel));
        Participant::root(root, Sent::new(data(self.case.bytes, 1), false))
    }

    fn receiver(&self, now: Instant, host: usize, run: u64) -> Host {
        let config = ReceiverConfig {
            tuning: self.case.tuning.clone(),
            timing: self.case.timing,
            patience: Some(Duration::from_secs(60)),
            ..ReceiverConfig::new(station_of(host), nonce(run, host))
        };
        Participant::receiver(Receiver::new(now, config), Disk::default())
    }

    fn play(&self, mut carousel: Carousel, replay: &str) -> RoundsPlayed {
        let network = star(&self.case, 100_000_000);
        let start = Instant::START;
        let receivers = (1..=self.case.receivers).map(|host| self.receiver(start, host, 1 << 32));
        let hosts = std::iter::once(self.root(start, &carousel, 0)).chain(receivers);
        let mut simulation = Simulation::new(&network, hosts.collect(), NoFaults);
        simulation.set_event_limit(20_000_000);
        for (host, &comes) in (1..).zip(&self.comes) {
            simulation.pause(host, start);
            simulation.resume(host, start + comes);
        }
        for &(host, at) in &self.case.crashes {
            simulation.crash(host, start + at);
        }
        let (mut rounds, mut failure, mut restarts) = (Vec::new(), None, self.restarts);
        let quiet = simulation.run(start + Duration::from_secs(120), |number, host, now| {
            if restarts
                .take_if(|&mut (who, at)| who == number && now >= start + at)
                .is_some()
            {
                *host = self.receiver(now, number, 2 << 32);
            }
            let again = turn(host, now);
            if let Participant::Root(root, _) = host
                && root.is_over()
                && failure.is_none()
            {
                failure = root.failure().cloned();
                let delivered: Vec<(MacAddr, String)> = root
                    .delivered()
                    .map(|(mac, host)| (mac, host.to_owned()))
                    .collect();
                if failure.is_none() {
                    rounds.push(delivered.iter().map(|(_, host)| host.clone()).collect());
                }
                if failure.is_none() && carousel.take(delivered) {
                    *host = self.root(now, &carousel, rounds.len());
                    return turn(host, now);
                }
            }
            again
        });
        assert!(quiet.is_quiet(), "{replay}: {quiet:?}");
        let sent = data(self.case.bytes, 1);
        for (number, host) in simulation.machines().iter().enumerate().skip(1) {
            let receiving = host.receiving().expect("all but the root receive");
            let has_all = receiving.sink().is_published() && receiving.sink().bytes() == sent;
            let dies = self.case.crashes.iter().any(|&(dies, _)| dies == number);
            assert!(
                has_all || dies,
                "{replay}: n{number}: {:?}",
                receiving.end()
            );
        }
        let cable = simulation.stats().cables[network.cable_of(0).index()];
        RoundsPlayed {
            rounds,
            failure,
            copies: cable.forward.bytes as f64 / self.case.bytes as f64,
        }
    }
}

fn station_of(host: usize) -> Station {
    Station::new(GROUP, &format!("n{host}"), host_mac(host), 1500)
}

fn first_of(receivers: usize, expected: Option<usize>) -> Wanted {
    Wanted {
        at_least: receivers,
        enough: expected,
        patience: Duration::from_secs(20),
    }
}

#[test]
fn thirty_hosts_that_come_over_three_transfers_cost_the_root_two_copies() {
    let linger = Duration::from_millis(1500);
    for expected in [Some(30), None] {
        let replay = format!("expected {expected:?}");
        let carousel = Carousel::new(first_of(1, expected), linger);
        let played = Room::new(1).play(carousel, &replay);
        let counts: Vec<usize> = played.rounds.iter().map(Vec::len).collect();
        let [first, second] = counts[..] else {
            panic!("{replay}: {counts:?}")
        };
        assert!(first < 10 && first + second == 30, "{replay}: {counts:?}");
        assert!(
            (2.0..=2.2).contains(&played.copies),
            "{replay}: {} copies",
            played.copies
        );
        // Without a number it ends because nobody comes any more.
        assert_eq!(played.failure.is_some(), expected.is_none(), "{replay}");
    }
}

#[test]
fn a_host_that_leaves_a_carousel_and_comes_back_takes_part_in_the_next_round() {
    let room = Room {
        restarts: Some((2, Duration::from_millis(400))),
        ..Room::new(3)
    };
    let carousel = Carousel::new(first_of(3, Some(30)), Duration::from_secs(5));
    let played = room.play(carousel, "n2 is started again");
    let in_round = |round: usize| played.rounds[round].iter().any(|host| host == "n2");
    assert_eq!(played.rounds.len(), 2, "{:?}", played.rounds);
    assert!(!in_round(0) && in_round(1), "{:?}", played.rounds);
    assert!(played.copies <= 2.2, "{} copies", played.copies);
}

#[test]
fn a_carousel_ends_without_a_host_that_died_and_when_nobody_comes_at_all() {
    let timing = Timing {
        patience: Duration::from_secs(1),
        ..Timing::default()
    };
    let mut room = Room::new(3);
    (room.case.timing, room.case.crashes) = (timing, vec![(2, Duration::from_millis(400))]);
    let carousel = Carousel::new(first_of(3, Some(30)), Duration::from_secs(2));
    let played = room.play(carousel, "n2 dies");
    let served: Vec<&String> = played.rounds.iter().flatten().collect();
    assert_eq!((played.rounds.len(), served.len()), (2, 29), "{served:?}");
    assert!(served.iter().all(|host| *host != "n2"), "{served:?}");
    let Some(RootFailure::TooFew { joined, .. }) = played.failure else {
        panic!("it waits for n2 in vain: {:?}", played.failure)
    };
    assert_eq!(joined, [""; 0]);
    // Nobody comes.
    let mut room = Room::new(1);
    (room.case.receivers, room.comes) = (0, Vec::new());
    let carousel = Carousel::new(first_of(1, Some(30)), Duration::from_secs(2));
    let played = room.play(carousel, "nobody");
    assert_eq!(played.rounds, [[""; 0]; 0]);
    assert!(matches!(
        played.failure,
        Some(RootFailure::TooFew { wanted: 30, .. })
    ));
}
