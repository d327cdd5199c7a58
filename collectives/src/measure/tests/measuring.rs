//! Tests of measured gaps, round trips, rates, MTU and losses, in a simulated network.

use super::*;
use ethbcast_transport::sim::{Delivery, Fate, NoFaults, RandomFaults};
use ethbcast_transport::wire::Rank;

#[test]
fn measured_values_are_those_of_the_cables() {
    for rate in [100_000_000, 1_000_000_000] {
        let (result, took) = measure(
            &star(3, rate),
            ProbeSettings::full(MTU_BYTES),
            &[],
            NoFaults,
        );
        let sizes: Vec<usize> = result.points.iter().map(|point| point.bytes).collect();
        assert_eq!(
            sizes,
            [
                256, 512, 1024, 1468, 2048, 4096, 8192, 16_384, 32_768, 65_536
            ]
        );
        for point in &result.points {
            let (gap, round_trip) = (
                true_gap_nanos(point.bytes, rate),
                true_round_trip_nanos(point.bytes, rate),
            );
            assert_near(
                point.gap_nanos,
                gap,
                0.01,
                &format!("g({}) at {rate} bit/s", point.bytes),
            );
            assert_near(
                point.round_trip_nanos,
                round_trip,
                0.01,
                &format!("RTT({}) at {rate} bit/s", point.bytes),
            );
            assert_eq!(
                point.latency_nanos,
                (point.round_trip_nanos / 2).saturating_sub(point.gap_nanos)
            );
        }
        assert_near(
            result.rate_bits_per_second.expect("measured"),
            rate as f64,
            0.01,
            "rate",
        );
        assert_eq!(result.path_mtu_bytes, Some(MTU_BYTES));
        assert_eq!((result.loss, result.silent.as_slice()), (0.0, &[][..]));
        assert_eq!(result.targets.len(), 2);
        println!("{rate} bit/s: full probe of two hosts in {took:?}");
        assert!(
            Duration::from_secs(1) < took && took < Duration::from_secs(6),
            "{took:?}"
        );
    }
}

fn ticking() -> Duration {
    use std::sync::atomic::{AtomicU64, Ordering};
    static ASKED: AtomicU64 = AtomicU64::new(1);
    Duration::from_micros(ASKED.fetch_add(1, Ordering::Relaxed))
}

#[test]
fn hosts_of_one_computer_share_its_cores_and_all_others_have_their_own() {
    let shared = |computers: [u64; 3]| {
        let lent = |host: usize| Some(Processors::new(ticking, computers[host], 2));
        let settings = ProbeSettings {
            rounds: 1,
            ..ProbeSettings::full(MTU_BYTES)
        };
        let (result, _) = measure_lending(&star(3, 100_000_000), settings, &[], NoFaults, lent);
        assert!(
            result.work.len() > 1 && result.work.iter().all(|point| point.frames > 0),
            "{:?}",
            result.work
        );
        let processing = crate::measure::calibrate(&result)
            .expect("enough")
            .processing()
            .copied();
        (result.shared_cores, processing.expect("told").shared_cores)
    };
    assert_eq!(shared([7, 7, 7]), (2, 2));
    assert_eq!(shared([7, 7, 8]), (0, 0), "one has its own");
    assert_eq!(shared([0, 0, 0]), (0, 0), "nobody says where it is");
    let (untold, _) = measure(
        &star(3, 100_000_000),
        ProbeSettings::short(MTU_BYTES),
        &[],
        NoFaults,
    );
    assert_eq!((untold.shared_cores, untold.work.len()), (0, 0));
}

#[test]
fn a_stream_shows_what_trains_do_where_cables_limit_and_what_it_takes_processors() {
    let lent = |_| Some(Processors::new(ticking, 7, 2));
    let measured = |network: &Network, settings: ProbeSettings| {
        let settings = ProbeSettings {
            rounds: 1,
            ..settings.with_cast(group())
        };
        measure_lending(network, settings, &[], NoFaults, lent).0
    };
    let (network, full) = (star(4, 100_000_000), ProbeSettings::full(MTU_BYTES));
    let result = measured(&network, full.clone());
    let bulk = result.bulk.expect("three streams");
    assert_near(
        bulk.gap_nanos,
        frame_nanos(1468, 100_000_000),
        0.03,
        "a stream's gap",
    );
    assert!(
        bulk.work_nanos.is_some() && bulk.relaying_nanos.is_some() && bulk.casting_nanos.is_some(),
        "{bulk:?}"
    );
    let frame = result
        .points
        .iter()
        .find(|point| point.bytes == 1468)
        .expect("a full frame");
    assert_near(
        frame.gap_nanos,
        frame_nanos(1468, 100_000_000),
        0.005,
        "a train's is told more exactly",
    );
    let processing = *crate::measure::calibrate(&result)
        .expect("enough")
        .processing()
        .expect("told");
    assert_eq!(
        (processing.pass_on_frame_ns, processing.cast_frame_ns),
        (0, 0),
        "cables are what limits"
    );
    let busy = crate::measure::BulkCost {
        work_nanos: Some((bulk.gap_nanos, 1_000)),
        ..bulk
    };
    let busy = crate::measure::calibrate(&ProbeResult {
        bulk: Some(busy),
        ..result
    })
    .expect("enough");
    let processing = *busy.processing().expect("told");
    assert!(
        processing.pass_on_frame_ns > bulk.gap_nanos && processing.cast_frame_ns > 0,
        "{processing:?}"
    );
    let policed = measured(&policed(star(4, 100_000_000), 500, 50), full)
        .bulk
        .expect("three streams");
    assert!(
        policed.relaying_nanos.is_some() && policed.casting_nanos.is_none(),
        "nothing is cast there: {policed:?}"
    );
    assert_eq!(
        measured(&network, ProbeSettings::short(MTU_BYTES)).bulk,
        None
    );
}

#[test]
fn where_processors_do_not_tell_a_stream_shows_its_gap_and_changes_nothing() {
    let mut network = star(2, 1_000_000_000);
    network.host_mut(0).per_sent_frame_cost = Duration::from_micros(30);
    let (result, _) = measure(&network, ProbeSettings::full(MTU_BYTES), &[], NoFaults);
    let bulk = result.bulk.expect("a stream");
    assert_near(bulk.gap_nanos, 30_000.0, 0.1, "a stream's gap");
    let frame = result
        .points
        .iter()
        .find(|point| point.bytes == 1468)
        .expect("a full frame");
    assert_near(frame.gap_nanos, 30_000.0, 0.01, "a train's");
    assert_eq!(
        (bulk.relaying_nanos, bulk.work_nanos, bulk.casting_nanos),
        (None, None, None),
        "nobody tells"
    );
}

#[test]
fn loss_is_counted_and_spoils_nothing() {
    let rate = 100_000_000;
    for (loss, seed) in [(0.01, 1), (0.01, 2), (0.1, 3), (0.1, 4), (0.1, 5)] {
        let (result, took) = measure(
            &star(3, rate),
            ProbeSettings::full(MTU_BYTES),
            &[],
            RandomFaults::new(seed).loss(loss),
        );
        println!("{loss} loss: {:.4} found in {took:?}", result.loss);
        assert!(
            (result.loss / loss - 1.0).abs() < 0.2,
            "{} of {loss}",
            result.loss
        );
        assert_eq!((result.points.len(), result.silent.len()), (10, 0));
        for point in &result.points {
            assert_near(
                point.gap_nanos,
                true_gap_nanos(point.bytes, rate),
                0.05,
                &format!("g({})", point.bytes),
            );
            assert_near(
                point.round_trip_nanos,
                true_round_trip_nanos(point.bytes, rate),
                0.05,
                &format!("RTT({})", point.bytes),
            );
        }
        assert_eq!(result.path_mtu_bytes, Some(MTU_BYTES));
    }
}

#[test]
fn reordered_and_doubled_frames_are_lived_with() {
    let rate = 100_000_000;
    let faults = RandomFaults::new(3)
        .duplicate(0.02)
        .reorder(0.02, Duration::from_millis(1))
        .corrupt(0.001);
    let (result, _) = measure(&star(2, rate), ProbeSettings::full(MTU_BYTES), &[], faults);
    for point in &result.points {
        assert_near(
            point.gap_nanos,
            true_gap_nanos(point.bytes, rate),
            0.1,
            &format!("g({})", point.bytes),
        );
    }
    assert!(result.loss < 0.01, "{}", result.loss);
}

#[test]
fn a_host_that_answers_nothing_is_named_and_costs_half_a_second() {
    let (result, took) = measure(
        &star(4, 100_000_000),
        ProbeSettings::full(MTU_BYTES),
        &[2],
        NoFaults,
    );
    assert_eq!(result.silent, [Rank(2)]);
    let ranks: Vec<Rank> = result
        .targets
        .iter()
        .map(|target| target.peer.rank)
        .collect();
    assert_eq!(ranks, [Rank(1), Rank(3)]);
    assert_eq!(result.points.len(), 10);
    assert!(took < Duration::from_millis(5500), "{took:?}");
}

#[test]
fn the_absence_of_responders_is_found_soon() {
    let (result, took) = measure(
        &star(3, 100_000_000),
        ProbeSettings::full(MTU_BYTES),
        &[1, 2],
        NoFaults,
    );
    assert_eq!(result.silent, [Rank(1), Rank(2)]);
    assert!(
        result.points.is_empty()
            && result.rate_bits_per_second.is_none()
            && result.path_mtu_bytes.is_none()
    );
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn a_host_that_dies_while_it_is_measured_is_named() {
    let network = star(3, 100_000_000);
    let dead_from = Instant::from_nanos(1_000_000_000);
    let faults = move |delivery: &Delivery<'_>| match delivery.to {
        2 if delivery.at > dead_from => Fate::Drop,
        _ => Fate::Deliver,
    };
    let (result, took) = measure(&network, ProbeSettings::full(MTU_BYTES), &[], faults);
    assert_eq!(result.silent, [Rank(2)]);
    assert_eq!(result.targets.len(), 1);
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_host_that_pauses_has_no_smaller_mtu() {
    // No echo of the first full frames comes back.
    let mut long = 0;
    let faults = move |delivery: &Delivery<'_>| {
        let is_long = delivery.to == 1 && delivery.frame.len() == MTU_BYTES + 14;
        long += usize::from(is_long);
        if is_long && long <= 4 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    };
    let (result, _) = measure(
        &star(2, 100_000_000),
        ProbeSettings::full(MTU_BYTES),
        &[],
        faults,
    );
    assert_eq!(result.path_mtu_bytes, Some(MTU_BYTES));
}

#[test]
fn the_largest_frame_that_passes_is_found_to_the_byte() {
    for limit in [1500, 1499, 1442, 577, 576] {
        let faults = move |delivery: &Delivery<'_>| match delivery.frame.len() > limit + 14 {
            true => Fate::Drop,
            false => Fate::Deliver,
        };
        let (result, _) = measure(
            &star(3, 100_000_000),
            ProbeSettings::full(MTU_BYTES),
            &[],
            faults,
        );
        assert_eq!(result.path_mtu_bytes, Some(limit));
        // Everything else is measured with frames that pass.
        assert_eq!((result.points.len(), result.loss), (10, 0.0), "{limit}");
        assert!(
            result.points.iter().any(|point| point.bytes == limit - 32),
            "a full frame is one of the sizes: {result:?}"
        );
    }
}

#[test]
fn a_shaper_that_lets_a_burst_pass_does_not_hide_the_rate() {
    // A fast cable to the switch and a slow one behind it: a train's first frames queue up in the
    // switch.
    let settings = HostSettings::default();
    let mut network = Network::new();
    let switch = network.add_switch(SwitchSettings::default());
    network.add_host(switch, Cable::GIGABIT, settings.clone());
    network.add_host(switch, Cable::new(50_000_000, DELAY), settings);
    let (result, _) = measure(&network, ProbeSettings::full(MTU_BYTES), &[], NoFaults);
    assert_near(
        result.rate_bits_per_second.expect("measured"),
        50e6,
        0.02,
        "rate",
    );
    for point in &result.points {
        assert_near(
            point.gap_nanos,
            true_gap_nanos(point.bytes, 50_000_000),
            0.03,
            &format!("g({})", point.bytes),
        );
    }
    assert_eq!(
        result.loss, 0.0,
        "the window is smaller than the switch's queue"
    );
}

#[test]
fn a_receiver_slower_than_its_link_sets_the_gap() {
    let mut network = star(2, 1_000_000_000);
    network.host_mut(1).per_frame_cost = Duration::from_micros(20);
    let (result, _) = measure(&network, ProbeSettings::full(MTU_BYTES), &[], NoFaults);
    for point in result.points.iter().filter(|point| point.bytes >= 1468) {
        let truth = payloads(point.bytes).len() as f64 * 20_000.0;
        assert_near(point.gap_nanos, truth, 0.05, &format!("g({})", point.bytes));
    }
    assert!(result.points.is_sorted_by_key(|point| point.gap_nanos));
    assert!(
        result.loss < 0.001,
        "the window fits the receive ring: {}",
        result.loss
    );
}

#[test]
fn a_short_probe_ends_within_its_budgets_whatever_happens() {
    let budget = Duration::from_millis(50);
    for rate in [1_000_000_000, 100_000_000, 25_000_000, 1_000_000] {
        for (loss, deaf) in [
            (0.0, &[][..]),
            (0.1, &[]),
            (0.9, &[]),
            (0.0, &[1]),
            (0.0, &[1, 2, 3]),
        ] {
            let network = star(4, rate);
            let (result, took) = measure(
                &network,
                ProbeSettings::short(MTU_BYTES),
                deaf,
                RandomFaults::new(5).loss(loss),
            );
            // Hosts that measured too little exceed it: if links are slow or lose much, or no host
            // replies.
            let is_quick = deaf.is_empty()
                && (loss == 0.0 && rate >= 25_000_000 || loss <= 0.1 && rate >= 100_000_000);
            let most = if is_quick {
                budget
            } else {
                ProbeSettings::short(MTU_BYTES).slow_budget
            };
            assert!(
                took <= most,
                "{took:?} at {rate} bit/s, loss {loss}, deaf {deaf:?}"
            );
            if rate >= 100_000_000 && loss == 0.0 && deaf.is_empty() {
                let sizes: Vec<usize> = result.points.iter().map(|point| point.bytes).collect();
                assert_eq!(sizes, [64, 1468, 8 * 1468]);
                for point in &result.points {
                    let (gap, round_trip) = (
                        true_gap_nanos(point.bytes, rate),
                        true_round_trip_nanos(point.bytes, rate),
                    );
                    assert_near(
                        point.gap_nanos,
                        gap,
                        0.03,
                        &format!("g({}) at {rate} bit/s", point.bytes),
                    );
                    assert_near(
                        point.round_trip_nanos,
                        round_trip,
                        0.03,
                        &format!("RTT({}) at {rate} bit/s", point.bytes),
                    );
                }
                println!("{rate} bit/s: short probe of three hosts in {took:?}");
            }
            for &rank in deaf {
                assert!(result.silent.contains(&Rank(rank as u16)), "{result:?}");
            }
        }
    }
}

#[test]
fn a_short_probe_measures_links_from_64_kbit_per_second_on() {
    for rate in [
        64_000, 128_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000,
    ] {
        let (result, took) = measure(
            &star(2, rate),
            ProbeSettings::short(MTU_BYTES),
            &[],
            NoFaults,
        );
        let frames = took.as_nanos() as f64 / frame_nanos(MTU_BYTES - 32, rate);
        println!(
            "{rate} bit/s: {took:?}, the time of {frames:.0} full frames, spread {}",
            result.spread
        );
        assert_near(
            result.rate_bits_per_second.expect("measured"),
            rate as f64,
            0.03,
            "rate",
        );
        assert!(
            result.points.len() >= 2 && (frames < 25.0 || took <= Duration::from_millis(200)),
            "{took:?}: {result:?}"
        );
        let calibration = crate::measure::calibrate(&result).expect("enough");
        assert!(calibration.spread() <= 1.0, "{}", calibration.spread());
    }
    // A slow cable behind a fast one, as a shaper in front of a switch's port.
    let mut network = star(1, 100_000_000);
    let switch = network.switches().next().expect("a star has one");
    network.add_host(switch, Cable::new(256_000, DELAY), HostSettings::default());
    let (result, _) = measure(&network, ProbeSettings::short(MTU_BYTES), &[], NoFaults);
    assert_near(
        result.rate_bits_per_second.expect("measured"),
        256e3,
        0.05,
        "rate behind a switch",
    );
}

/// A receiver whose processor is taken away for 8 ms at times, as beside busy loops.
#[test]
fn a_probe_of_a_busy_host_says_that_it_is_not_sure() {
    let spread = |stolen: bool| {
        let mut begun = 0;
        let faults = move |delivery: &Delivery<'_>| {
            // Frames that arrive in the first 8 of 20 ms are seen at the end of these.
            let within = delivery.at.as_nanos() % 20_000_000;
            begun += 1;
            let late = (8_000_000_u64).saturating_sub(within);
            if stolen && late > 0 && begun > 12 {
                Fate::Delay(Duration::from_nanos(late))
            } else {
                Fate::Deliver
            }
        };
        measure(
            &star(2, 100_000_000),
            ProbeSettings::short(MTU_BYTES),
            &[],
            faults,
        )
        .0
        .spread
    };
    let [quiet, busy] = [false, true].map(spread);
    println!("spread of a quiet host {quiet:.2}, of a busy one {busy:.2}");
    assert!(quiet == 0.0 && busy > 0.2, "{quiet} {busy}");
}

#[test]
fn two_probers_of_one_session_do_not_mistake_each_others_answers() {
    let network = star(2, 100_000_000);
    let peer = Peer {
        rank: Rank(1),
        mac: host_mac(1),
    };
    let begin = |at: Instant| {
        Host::Prober(Box::new(Prober::new(
            at,
            identity(0),
            vec![peer],
            ProbeSettings::short(MTU_BYTES),
        )))
    };
    let mut simulation = Simulation::new(
        &network,
        [begin(Instant::START), Host::Responder(responder(1))]
            .map(Alone::new)
            .into(),
        NoFaults,
    );
    for round in 1..=3 {
        assert!(
            simulation
                .run(Instant::from_nanos(round * 1_000_000_000), |_, _, _| None)
                .is_quiet()
        );
        let Host::Prober(prober) = &simulation.machine_mut(0).part else {
            unreachable!("host 0 is the prober")
        };
        assert_eq!(prober.result().points.len(), 3, "round {round}");
        let now = simulation.now();
        simulation.machine_mut(0).part = begin(now);
        simulation.wake(0, now);
    }
}
