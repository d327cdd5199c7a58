//! Tens of thousands of forged join requests.

use super::scene::{Scene, at, forged, join};
use ethbcast_collectives::session::{RootEvent, Wanted};
use ethbcast_transport::MacAddr;
use ethbcast_transport::sim::{NoFaults, host_mac};
use std::time::Duration;

fn ghost(number: u64) -> MacAddr {
    let [.., a, b, c, d] = number.to_be_bytes();
    MacAddr::new(2, 9, a, b, c, d)
}

#[test]
fn ten_thousand_forged_requests_before_the_start_take_no_place_and_little_time() {
    // From as many addresses, or from one; the root takes the receivers present after 4 s, or the
    // first three.
    for (addresses, wanted) in [
        (10_000, Wanted { at_least: 1, enough: None, patience: Duration::from_secs(4) }),
        (10_000, Wanted::exactly(3)),
        (1, Wanted::exactly(3)),
    ] {
        let played = Scene::new(1500).root(0, 100_000, wanted).receivers(3).play(NoFaults, |simulation| {
            for number in 0..10_000 {
                let frame = forged(ghost(number % addresses), host_mac(0), 0x1000, &join("ghost", number));
                simulation.inject(at(1 + number / 50), 0, &frame);
            }
        });
        assert!((1..=3).all(|host| played.has(host) == Some(0)), "{addresses}: {}", played.failure(0));
        assert_eq!(played.root(0).reports().count(), 3, "ghosts are no members");
        let (when, _) = played.told(0, |event| matches!(event, RootEvent::Started { .. })).expect("started");
        let limit = wanted.enough.map_or(Duration::from_secs(5), |_| Duration::from_millis(1000));
        assert!(when < limit, "{addresses} addresses: {when:?}");
    }
}

#[test]
fn requests_while_the_session_runs_are_answered_when_there_is_time_and_data_flows_on() {
    let play = |rate: u64| {
        Scene::new(1500).root(0, 20_000_000, Wanted::exactly(3)).receivers(3).play(NoFaults, |simulation| {
            for number in 0..rate * 200 {
                let frame = forged(ghost(number), host_mac(0), 0x1000, &join("ghost", number));
                simulation.inject(at(300) + Duration::from_micros(1000 * number / rate), 0, &frame);
            }
        })
    };
    let (calm, flooded) = (play(0), play(400));
    let took = [&calm, &flooded].map(|played| played.root(0).took());
    assert!((1..=3).all(|host| flooded.has(host) == Some(0)));
    assert!(took[1] < took[0] * 12 / 10, "400 000 requests a second: {took:?}");
    let answers = flooded.root(0).control_stats().sent - calm.root(0).control_stats().sent;
    assert!(answers < 400, "{answers} answers");
}
