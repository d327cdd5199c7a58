//! Tests of measuring broadcast: at full rate, policed by a switch (storm control), or unknown.

use super::*;
use crate::measure::{CastFinding, Unicast};
use ethbcast_transport::Timer;
use ethbcast_transport::sim::{Delivery, Fate, NoFaults, RandomFaults};

fn full() -> ProbeSettings {
    ProbeSettings::full(MTU_BYTES).with_cast(group())
}

#[test]
fn a_switch_without_storm_control_is_left_in_peace() {
    for rate in [25_000_000, 100_000_000, 1_000_000_000] {
        let (result, took) = measure(&star(4, rate), full(), &[], NoFaults);
        assert_eq!(result.cast, CastFinding::FullRate, "{rate} bit/s");
        println!("{rate} bit/s: full probe of three hosts with broadcast in {took:?}");
    }
}

#[test]
fn the_knee_of_a_policed_switch_is_found_within_a_fifth() {
    for (rate, frames_per_second, burst_frames) in [
        (100_000_000, 500, 10),
        (100_000_000, 2_000, 50),
        (100_000_000, 6_000, 100),
        (1_000_000_000, 1_000, 100),
        (1_000_000_000, 10_000, 100),
        (1_000_000_000, 50_000, 500),
    ] {
        let network = policed(star(4, rate), frames_per_second, burst_frames);
        let (result, _) = measure(&network, full(), &[], NoFaults);
        let CastFinding::Policed {
            threshold_frames_per_second,
        } = result.cast
        else {
            panic!(
                "{frames_per_second} frames/s at {rate} bit/s: {:?}",
                result.cast
            )
        };
        println!(
            "{rate} bit/s, policed at {frames_per_second} frames/s: found {threshold_frames_per_second}"
        );
        assert_near(
            threshold_frames_per_second,
            frames_per_second as f64,
            0.2,
            &format!("knee at {rate} bit/s"),
        );
        assert_eq!(result.loss, 0.0, "unicast is not policed");
    }
}

fn ramp(rate_bits_per_second: u64, loss: f64) -> ProbeSettings {
    let frame_gap = Duration::from_nanos(frame_nanos(MTU_BYTES - 32, rate_bits_per_second) as u64);
    ProbeSettings::ramp(MTU_BYTES, group(), Unicast { frame_gap, loss })
}

#[test]
fn a_gentle_ramp_decides_in_a_tenth_of_a_second() {
    for rate in [
        10_000_000,
        25_000_000,
        100_000_000,
        1_000_000_000,
        10_000_000_000,
    ] {
        let (result, took) = measure(&star(8, rate), ramp(rate, 0.0), &[], NoFaults);
        println!("{rate} bit/s: ramp of seven hosts in {took:?}");
        assert_eq!(result.cast, CastFinding::FullRate, "{rate} bit/s");
        assert!(
            took < Duration::from_millis(if rate < 25_000_000 { 300 } else { 140 }),
            "{took:?}"
        );
    }
    let (result, took) = measure(
        &star(8, 100_000_000),
        ramp(100_000_000, 0.0),
        &[3],
        NoFaults,
    );
    assert!(
        result.cast == CastFinding::FullRate && took < Duration::from_millis(360),
        "n3 is deaf: {took:?}"
    );
}

/// A driver looks at its clock once before it polls for frames, and again before it sleeps. A ramp
/// whose next frame came due in between slept for the rest of its time.
#[test]
fn a_frame_that_comes_due_between_two_looks_at_the_clock_is_not_slept_through() {
    let targets = vec![Peer {
        rank: Rank(1),
        mac: host_mac(1),
    }];
    let mut prober = Prober::new(
        Instant::START,
        identity(0),
        targets,
        ramp(1_000_000_000, 0.0),
    );
    let (mut now, mut buffer) = (Instant::START, [0; 2048]);
    for frame in 0..30 {
        assert!(
            prober.poll_transmit(now, &mut buffer).is_some(),
            "frame {frame}"
        );
        assert_eq!(prober.poll_transmit(now, &mut buffer), None);
        let due = prober.poll_timeout(now).expect("the next frame");
        assert_eq!((due.why, due.at > now), (Timer::PACE, true));
        now = due.at + Duration::from_micros(5);
        assert_eq!(
            prober.poll_timeout(now),
            Some(due),
            "nobody has told it that this moment has come"
        );
        prober.handle_timeout(now);
        let end = prober.poll_timeout(now).expect("it ends");
        assert!(
            end.at > now + Duration::from_millis(500),
            "it waits for room in the card: {end:?}"
        );
    }
}

#[test]
fn a_gentle_ramp_ends_at_the_first_sign_of_policing() {
    for (rate, frames_per_second, burst_frames) in [
        (100_000_000, 100, 1),
        (100_000_000, 500, 5),
        (100_000_000, 2_000, 10),
        (100_000_000, 4_000, 10),
        (1_000_000_000, 1_000, 10),
        (1_000_000_000, 20_000, 10),
    ] {
        let network = policed(star(4, rate), frames_per_second, burst_frames);
        let (result, took) = measure(&network, ramp(rate, 0.0), &[], NoFaults);
        let CastFinding::Policed {
            threshold_frames_per_second,
        } = result.cast
        else {
            panic!(
                "{frames_per_second} frames/s at {rate} bit/s: {:?}",
                result.cast
            )
        };
        println!(
            "{rate} bit/s, policed at {frames_per_second} frames/s: {threshold_frames_per_second} in {took:?}"
        );
        assert!(took < Duration::from_millis(130), "{took:?}");
    }
}

/// A host on a slow cable gets little of any train, and shows nothing about broadcast.
#[test]
fn a_gentle_ramp_finds_policing_beside_hosts_on_slow_cables() {
    for slow in [&[5][..], &[1, 5], &[1, 3, 5, 6]] {
        for policing in [Some((500, 20)), None] {
            let (mut network, settings) = (
                star(0, 25_000_000),
                HostSettings {
                    groups: vec![group()],
                    ..<_>::default()
                },
            );
            let switch = network.switches().next().expect("a star has one");
            for host in 0..8 {
                let rate = if slow.contains(&host) {
                    6_250_000
                } else {
                    25_000_000
                };
                network.add_host(switch, Cable::new(rate, DELAY), settings.clone());
            }
            let network = match policing {
                Some((frames_per_second, burst_frames)) => {
                    policed(network, frames_per_second, burst_frames)
                }
                None => network,
            };
            let (result, took) = measure(&network, ramp(25_000_000, 0.0), &[], NoFaults);
            let is_policed = matches!(result.cast, CastFinding::Policed { .. });
            assert_eq!(
                is_policed,
                policing.is_some(),
                "{slow:?}, {policing:?}: {:?} in {took:?}",
                result.cast
            );
            assert!(
                took < Duration::from_secs(2),
                "{slow:?}, {policing:?}: {took:?}"
            );
        }
    }
}

/// Delays frames of host 0 behind those before them: one to the group takes the time of `copies`.
fn head_end(rate_bits_per_second: u64, copies: u64) -> impl FnMut(&Delivery<'_>) -> Fate {
    let (mut free_at, mut last) = (0, Vec::new());
    move |delivery| {
        if delivery.from != Some(0) {
            return Fate::Deliver;
        }
        let (now, to, header) = (
            delivery.at.as_nanos(),
            &delivery.frame[..6],
            &delivery.frame[..46],
        );
        if last != header {
            last = header.to_vec();
            let copies = if to[0] & 1 == 1 { copies } else { 1 };
            let wire_bytes = delivery.frame.len() as u64 + 24;
            free_at =
                free_at.max(now) + wire_bytes * 8 * 1_000_000_000 / rate_bits_per_second * copies;
        }
        Fate::Delay(Duration::from_nanos(free_at.saturating_sub(now)))
    }
}

#[test]
fn copied_or_slow_broadcast_is_distinguished_from_full_rate() {
    for rate in [25_000_000, 100_000_000, 1_000_000_000] {
        for settings in [ramp(rate, 0.0), full()] {
            let found = |copies| {
                measure(
                    &star(8, rate),
                    settings.clone(),
                    &[],
                    head_end(rate, copies),
                )
                .0
                .cast
            };
            assert_eq!(found(1), CastFinding::FullRate, "{rate} bit/s");
            let many = if settings.unicast.is_some() && rate >= 100_000_000 {
                30
            } else {
                4
            };
            for (copies, expected) in [(7, true), (3, false), (many, false)] {
                let CastFinding::Slower {
                    frames_per_second,
                    times,
                    is_copied,
                } = found(copies)
                else {
                    panic!("{copies} copies at {rate} bit/s: {:?}", found(copies))
                };
                println!(
                    "{rate} bit/s, {copies} copies: {times:.2} times, {frames_per_second} frames/s"
                );
                assert!(
                    is_copied == expected && times > copies as f64 * 0.6,
                    "{rate} bit/s, {copies}: {times}"
                );
            }
        }
    }
}

#[test]
fn a_gentle_ramp_takes_no_loss_for_policing() {
    let mistaken = |loss: f64| {
        let wrong = |&seed: &u64| {
            let (result, _) = measure(
                &star(8, 100_000_000),
                ramp(100_000_000, loss),
                &[],
                RandomFaults::new(seed).loss(loss),
            );
            result.cast != CastFinding::FullRate
        };
        (0..200).filter(wrong).count()
    };
    let mistaken = [0.01, 0.05, 0.1].map(mistaken);
    println!("taken for policing, of 200 each: {mistaken:?}");
    assert_eq!(mistaken[..2], [0, 0]);
    assert!(mistaken[2] <= 4, "{mistaken:?}");
}

#[test]
fn loss_that_strikes_unicast_as_well_is_not_taken_for_storm_control() {
    for loss in [0.01, 0.1, 0.3] {
        let (result, _) = measure(
            &star(4, 100_000_000),
            full(),
            &[],
            RandomFaults::new(11).loss(loss),
        );
        assert_eq!(result.cast, CastFinding::FullRate, "{loss}");
    }
}

#[test]
fn a_receiver_that_is_slow_for_unicast_too_is_not_taken_for_storm_control() {
    let mut network = star(3, 100_000_000);
    network.host_mut(2).per_frame_cost = Duration::from_micros(200);
    let (result, _) = measure(&network, full(), &[], NoFaults);
    assert_eq!(result.cast, CastFinding::FullRate, "{result:?}");
}

#[test]
fn hosts_that_do_not_listen_to_the_group_get_no_frames_of_it() {
    let mut network = star(3, 100_000_000);
    (0..3).for_each(|host| network.host_mut(host).groups.clear());
    let (result, _) = measure(&network, full(), &[], NoFaults);
    assert_eq!(
        result.cast,
        CastFinding::Policed {
            threshold_frames_per_second: 0
        }
    );
}

#[test]
fn broadcast_is_left_out_unless_asked_for() {
    let (result, _) = measure(
        &star(2, 100_000_000),
        ProbeSettings::full(MTU_BYTES),
        &[],
        NoFaults,
    );
    assert_eq!(result.cast, CastFinding::NotMeasured);
}
