//! Frames to the group address: at full rate, policed, or unknown.

use super::*;
use crate::measure::CastFinding;
use ethbcast_transport::sim::{NoFaults, RandomFaults};

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
        let CastFinding::Policed { knee_frames_per_second } = result.cast else {
            panic!("{frames_per_second} frames/s at {rate} bit/s: {:?}", result.cast)
        };
        println!("{rate} bit/s, policed at {frames_per_second} frames/s: found {knee_frames_per_second}");
        assert_near(knee_frames_per_second, frames_per_second as f64, 0.2, &format!("knee at {rate} bit/s"));
        assert_eq!(result.loss, 0.0, "unicast is not policed");
    }
}

#[test]
fn loss_that_strikes_unicast_as_well_is_not_taken_for_storm_control() {
    for loss in [0.01, 0.1, 0.3] {
        let (result, _) = measure(&star(4, 100_000_000), full(), &[], RandomFaults::new(11).loss(loss));
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
fn hosts_that_do_not_listen_to_the_group_hear_nothing_of_it() {
    let mut network = star(3, 100_000_000);
    (0..3).for_each(|host| network.host_mut(host).groups.clear());
    let (result, _) = measure(&network, full(), &[], NoFaults);
    assert_eq!(result.cast, CastFinding::Policed { knee_frames_per_second: 0 });
}

#[test]
fn broadcast_is_left_out_unless_asked_for() {
    let (result, _) = measure(&star(2, 100_000_000), ProbeSettings::full(MTU_BYTES), &[], NoFaults);
    assert_eq!(result.cast, CastFinding::NotMeasured);
}
