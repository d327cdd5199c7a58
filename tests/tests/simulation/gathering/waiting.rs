//! Receivers that a root waits for and admits, and the replies to the others.

use super::scene::{Played, Scene, at, forged, join, run_until, switched_on};
use ethbcast_collectives::session::application::Participant;
use ethbcast_collectives::session::{Outcome, Refusal, RootConfig, RootEvent, Wanted};
use ethbcast_transport::sim::{Delivery, Fate, NoFaults, RandomFaults, host_mac};
use std::time::Duration;

fn within(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_thousand_receivers_are_checked_and_let_in_within_a_second() {
    let played = Scene::new(1500).root(0, 3000, Wanted::exactly(1000)).receivers(1000).play(NoFaults, |_| {});
    let (when, _) = played.told(0, |event| matches!(event, RootEvent::Started { .. })).expect("started");
    assert!(when < Duration::from_secs(1), "{when:?}");
    assert_eq!(played.root(0).reports().filter(|report| report.outcome == Outcome::Delivered).count(), 1000);
}

#[test]
fn a_host_behind_a_smaller_mtu_is_refused_by_name_and_the_others_get_everything() {
    let wanted = Wanted { at_least: 2, enough: Some(3), patience: within(4) };
    let small = |delivery: &Delivery<'_>| {
        if delivery.to == 3 && delivery.frame.len() > 1514 { Fate::Drop } else { Fate::Deliver }
    };
    let played = Scene::new(9000).root(0, 300_000, wanted).receivers(3).play(small, |_| {});
    assert_eq!([1, 2, 3].map(|host| played.has(host)), [Some(0), Some(0), None]);
    let (when, event) = played.told(0, |event| matches!(event, RootEvent::Refused { .. })).expect("refused");
    assert!(when < Duration::from_secs(2), "{when:?}");
    let RootEvent::Refused { host, text, .. } = event else { unreachable!("asked for") };
    assert!(host == "n3" && text.contains("control frames arrive, frames of 9014 bytes do not"), "{text}");
    assert!(played.left_out(3).iter().any(|text| text.contains("smaller MTU on the way")), "{:?}", played.left_out(3));
}

#[test]
fn a_host_that_the_roots_own_first_hop_keeps_apart_is_told_so() {
    let wanted = Wanted { patience: within(4), ..Wanted::exactly(1) };
    let long = |delivery: &Delivery<'_>| {
        if delivery.from == Some(0) && delivery.frame.len() > 1514 { Fate::Drop } else { Fate::Deliver }
    };
    let scene = Scene::new(9000).root(0, 300_000, wanted).with_first_hop(1500);
    let played = scene.receivers(1).play(long, |_| {});
    let own = "n0 itself sends no frames of 9014 bytes, whatever the way to n1: send with --mtu 1500";
    let RootEvent::Refused { text, .. } =
        played.told(0, |event| matches!(event, RootEvent::Refused { .. })).expect("refused").1
    else {
        unreachable!("asked for")
    };
    assert!(text.starts_with(own), "{text}");
    assert!(played.left_out(1).iter().any(|text| text.contains(own)), "{:?}", played.left_out(1));
}

#[test]
fn everybody_gets_in_though_every_third_frame_is_lost() {
    for seed in 0..20 {
        let faults = RandomFaults::new(seed).loss(0.3);
        let played = Scene::new(1500).root(0, 20_000, Wanted::exactly(8)).receivers(8).play(faults, |_| {});
        assert!((1..=8).all(|host| played.has(host) == Some(0)), "seed {seed}: {}", played.failure(0));
    }
}

#[test]
fn of_those_who_are_named_who_is_missing_is_said_and_others_are_told_why_not() {
    let hosts = ["n1", "n2", "n4"].map(str::to_owned).to_vec();
    let wanted = Wanted { at_least: 3, enough: Some(3), patience: within(4) };
    let scene = Scene::new(1500).root_with(0, 1000, |config| RootConfig { wanted, hosts: hosts.clone(), ..config });
    let played = scene.receivers(3).play(NoFaults, |_| {});
    let text = played.failure(0);
    assert!(
        text.contains("2 of 3") && text.contains("(n[1-2]; not n4; refused n3 (02:eb:00:00:00:03): not asked for)"),
        "{text}"
    );
    let (when, event) = played.told(0, |event| matches!(event, RootEvent::Waiting { .. })).expect("said");
    let RootEvent::Waiting { joined, missing, wanted } = event else { unreachable!("asked for") };
    assert_eq!((joined.join(" "), missing.join(" "), *wanted), ("n1 n2".to_owned(), "n4".to_owned(), Some(3)));
    assert_eq!(when, Duration::from_secs(2));
    assert!(played.left_out(3)[0].contains("n3 is none"), "{:?}", played.left_out(3));
}

#[test]
fn as_soon_as_so_many_are_there_or_with_fewer_when_the_wait_is_over() {
    let wanted = |enough| Wanted { at_least: 2, enough: Some(enough), patience: within(3) };
    let started =
        |played: &Played| played.told(0, |event| matches!(event, RootEvent::Started { .. })).map(|(when, _)| when);
    // Long enough for the fourth to send its request meanwhile.
    let soon = Scene::new(1500).root(0, 20_000_000, wanted(3)).receivers(4).play(NoFaults, |_| {});
    assert!(started(&soon).is_some_and(|when| when < Duration::from_millis(300)));
    let late = Scene::new(1500).root(0, 1000, wanted(5)).receivers(4).play(NoFaults, |_| {});
    assert!(started(&late).is_some_and(|when| when >= within(3)));
    assert!((1..=4).all(|host| late.has(host) == Some(0)));
    // The fourth was one too many: both ends know the reason.
    let away: Vec<_> = soon.root(0).turned_away().collect();
    assert_eq!((away.len(), away[0].why), (1, Refusal::Late));
    assert_eq!(away[0].text, format!("the session started with 3 of 3 wanted before {} asked", away[0].host));
    let out: Vec<usize> = (1..=4).filter(|&host| soon.has(host).is_none()).collect();
    assert_eq!(soon.left_out(out[0]), [away[0].text.as_str()]);
}

#[test]
fn the_user_starts_with_those_who_are_there() {
    let wanted = Wanted { at_least: 1, enough: None, patience: Wanted::FOREVER };
    let played = Scene::new(1500).root(0, 1000, wanted).receivers(3).play(NoFaults, |simulation| {
        run_until(simulation, 5000);
        let Participant::Root(root, _) = simulation.machine_mut(0) else { panic!("a root") };
        assert_eq!(root.view(), None);
        root.start_now(at(5000));
        simulation.wake(0, at(5001));
    });
    assert!((1..=3).all(|host| played.has(host) == Some(0)));
}

#[test]
fn a_candidate_that_ends_frees_its_place_at_once() {
    let wanted = Wanted { at_least: 3, enough: Some(3), patience: within(4) };
    let played = Scene::new(1500).root(0, 1000, wanted).receivers(2).play(NoFaults, |simulation| {
        run_until(simulation, 1000);
        let Participant::Receiver(receiver, _) = simulation.machine_mut(1) else { panic!("a receiver") };
        let farewell = receiver.farewell("killed").expect("it has asked");
        simulation.crash(1, at(1000));
        simulation.inject(at(1001), 0, &farewell);
    });
    // Events of the first second were not kept.
    let (when, event) = played.told(0, |event| matches!(event, RootEvent::Left { .. })).expect("gone");
    assert_eq!(
        (when, event),
        (Duration::from_millis(1001), &RootEvent::Left { host: "n1".into(), text: "killed".into() })
    );
    assert!(played.failure(0).contains("1 of 3 receivers joined"), "{}", played.failure(0));
}

#[test]
fn who_was_left_out_of_one_session_gets_the_next() {
    let wanted = Wanted { at_least: 3, enough: Some(3), patience: within(2) };
    let scene = Scene::new(1500).root(0, 1000, wanted).root(5000, 2000, Wanted::exactly(2)).receivers(2);
    // The second root's host is switched on when the first root has given up.
    let played = scene.play(switched_on(1, 5000), |_| {});
    assert!(played.failure(0).contains("2 of 3"), "{}", played.failure(0));
    for host in [2, 3] {
        assert_eq!(played.has(host), Some(1), "{}", played.failure(1));
        assert!(played.left_out(host)[0].contains("the sender gave up"), "{:?}", played.left_out(host));
    }
}

#[test]
fn a_member_that_was_started_again_is_gone_at_once_and_its_new_self_is_told() {
    let scene = Scene::new(1500).root(0, 60_000_000, Wanted::exactly(3)).receivers(3);
    let played = scene.play(NoFaults, |simulation| {
        run_until(simulation, 350);
        simulation.crash(2, at(350));
        for tick in 0..3 {
            simulation.inject(at(500 + tick * 400), 0, &forged(host_mac(2), host_mac(0), 0x1000, &join("n2", 4711)));
        }
    });
    let reported = |event: &RootEvent| matches!(event, RootEvent::Reported(report) if report.host == "n2");
    let (when, event) = played.told(0, reported).expect("reported");
    let RootEvent::Reported(report) = event else { unreachable!("asked for") };
    assert_eq!((report.outcome, report.text.as_str()), (Outcome::Died, "its receiver was started again"));
    assert!(when < Duration::from_millis(1000), "{when:?}");
    assert_eq!([1, 3].map(|host| played.has(host)), [Some(0); 2]);
    let away: Vec<_> = played.root(0).turned_away().map(|away| away.text.as_str()).collect();
    assert_eq!(away, ["the session started with 3 of 3 wanted before n2 asked"]);
}
