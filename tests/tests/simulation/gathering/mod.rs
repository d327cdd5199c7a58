//! Simulated tests of a transfer's start: admission of receivers under floods, replays and several
//! senders.

mod replays;
mod scene;

use ethbcast_collectives::session::application::{Collected, Participant, Receiving};
use ethbcast_collectives::session::verified::ChunkSize;
use ethbcast_collectives::session::{
    Admission, ContentKind, End, Message, Outcome, Receiver, ReceiverConfig, ReceiverEvent,
    Refusal, RootConfig, RootEvent, Stage, Wanted,
};
use ethbcast_transport::MacAddr;
use ethbcast_transport::sim::{
    Delivery, Fate, Faults, NoFaults, RandomFaults, Simulation, host_mac,
};
use ethbcast_transport::wire::{Frame, Kind, group_mac, parse};
use scene::{GatheringPlay, Host, Scene, announce, at, forged, join, run_until, switched_on};
use std::time::Duration;

/// A receiver without room at first: the admission hook sets the space.
fn by_leave(config: ReceiverConfig) -> ReceiverConfig {
    ReceiverConfig {
        by_leave: true,
        free_bytes: 0,
        ..config
    }
}

fn receiver(simulation: &mut Simulation<Host, NoFaults>, host: usize) -> &mut Receiver {
    let Participant::Receiver(receiver, _) = simulation.machine_mut(host) else {
        panic!("a receiver")
    };
    receiver
}

#[test]
fn a_receiver_that_needs_leave_asks_when_it_has_it_and_says_the_room_of_that_moment() {
    let wanted = Wanted {
        at_least: 1,
        enough: Some(1),
        patience: Duration::from_secs(20),
    };
    let scene = Scene::new(1500)
        .root(0, 5000, wanted)
        .receivers_with(1, by_leave);
    let played = scene.play(NoFaults, |simulation| {
        run_until(simulation, 2000);
        assert_eq!(receiver(simulation, 1).admission(), Admission::Wanted);
        receiver(simulation, 1).set_free_bytes(100);
        receiver(simulation, 1).admit(at(2000));
        simulation.wake(1, at(2000));
        run_until(simulation, 2100);
        assert_eq!(
            receiver(simulation, 1).admission(),
            Admission::None,
            "turned away, it gives its leave back"
        );
        run_until(simulation, 9000);
        assert_eq!(
            receiver(simulation, 1).admission(),
            Admission::Wanted,
            "the root still invites"
        );
        receiver(simulation, 1).set_free_bytes(1 << 20);
        receiver(simulation, 1).admit(at(9000));
        simulation.wake(1, at(9000));
    });
    assert_eq!(played.has(1), Some(0), "{}", played.failure(0));
    assert!(
        played.left_out(1).is_empty() || played.left_out(1)[0].contains("room"),
        "{:?}",
        played.left_out(1)
    );
    let (when, _) = played
        .told(0, |event| matches!(event, RootEvent::Started { .. }))
        .expect("started");
    assert!(when >= Duration::from_secs(9), "{when:?}");
}

#[test]
fn who_cannot_hold_what_is_offered_does_not_join_and_the_root_says_why() {
    let wanted = Wanted {
        at_least: 1,
        enough: Some(1),
        patience: Duration::from_secs(3),
    };
    let played = Scene::new(1500)
        .root(0, 1000, wanted)
        .receivers(2)
        .play(NoFaults, |simulation| {
            decline_once_asked(simulation, 1);
        });
    // The other one takes the only place.
    assert_eq!(
        (played.has(1), played.has(2)),
        (None, Some(0)),
        "{}",
        played.failure(0)
    );
    let away: Vec<_> = played
        .root(0)
        .turned_away()
        .map(|away| (away.why, &*away.text))
        .collect();
    assert_eq!(away.len(), 1, "{away:?}");
    assert!(
        away[0].0 == Refusal::Declined && away[0].1.ends_with(" says: DEST exists"),
        "{away:?}"
    );
    let started = played
        .told(0, |event| matches!(event, RootEvent::Started { .. }))
        .expect("started");
    assert!(
        started.0 < wanted.patience,
        "nobody waits for it: {started:?}"
    );
}

#[test]
fn a_refusal_whose_frames_are_lost_is_said_again_before_or_after_the_start() {
    for (lost, count) in [(Kind(17), 2), (Kind(29), 1), (Kind(29), 2), (Kind(29), 3)] {
        let mut left = count;
        let loses = move |delivery: &Delivery<'_>| {
            let is_of_it =
                |frame: Frame<'_>| frame.header.kind == lost && frame.source == host_mac(1);
            let drops = left > 0 && delivery.to == 0 && parse(delivery.frame).is_ok_and(is_of_it);
            left -= usize::from(drops);
            if drops { Fate::Drop } else { Fate::Deliver }
        };
        let wanted = Wanted {
            at_least: 1,
            enough: Some(2),
            patience: Duration::from_millis(400),
        };
        let scene = Scene::new(1500).root(0, 1000, wanted).receivers(2);
        let played = scene.play(loses, |simulation| decline_once_asked(simulation, 1));
        assert_eq!(
            (played.has(1), played.has(2)),
            (None, Some(0)),
            "{}",
            played.failure(0)
        );
        let away = played
            .root(0)
            .turned_away()
            .map(|away| (away.why, &*away.text));
        let reports = played
            .root(0)
            .reports()
            .map(|one| one.outcome.status_and_reason(&one.text));
        let heard = away
            .filter(|one| *one == (Refusal::Declined, "n1 says: DEST exists"))
            .count()
            + reports
                .filter(|one| *one == (Outcome::REFUSED, "DEST exists"))
                .count();
        assert!(
            heard == 1 || count == 3,
            "{count} of {lost:?} were lost, and {heard} were heard"
        );
    }
}

#[test]
fn those_who_decline_are_not_waited_for_if_all_are_known_and_are_not_called_missing() {
    let hosts = ["n1", "n2"].map(str::to_owned).to_vec();
    for at_least in [1, 2] {
        let wanted = Wanted {
            at_least,
            enough: Some(2),
            patience: within(20),
        };
        let config = |config| RootConfig {
            wanted,
            hosts: hosts.clone(),
            ..config
        };
        let scene = Scene::new(1500).root_with(0, 1000, config).receivers(2);
        let played = scene.play(NoFaults, |simulation| decline_once_asked(simulation, 1));
        let started = played
            .told(0, |event| matches!(event, RootEvent::Started { .. }))
            .map(|(when, _)| when);
        match at_least {
            1 => assert!(started.is_some_and(|when| when < within(2)), "{started:?}"),
            _ => assert!(started.is_none()),
        }
        let text = "1 of 2 receivers joined within 20 s (n2; refused n1 (02:eb:00:00:00:01): cannot hold it; n1 says: \
                    DEST exists); mend that and send again, or";
        assert!(
            at_least == 1 || played.failure(0).starts_with(text),
            "{}",
            played.failure(0)
        );
    }
}

#[test]
fn who_comes_late_and_cannot_hold_what_is_offered_has_refused_it_and_not_died() {
    let late = |config| RootConfig {
        wanted: Wanted::exactly(1),
        late: true,
        ..config
    };
    let scene = Scene::new(1500).root_with(0, 80_000_000, late).receivers(2);
    let played = scene.play(switched_on(2, 260), |simulation| {
        decline_once_asked(simulation, 2)
    });
    assert_eq!(
        (played.has(1), played.has(2)),
        (Some(0), None),
        "{}",
        played.failure(0)
    );
    let said: Vec<_> = played
        .root(0)
        .reports()
        .map(|one| one.outcome.status_and_reason(&one.text))
        .collect();
    assert_eq!(said[1], (Outcome::REFUSED, "DEST exists"), "{said:?}");
}

#[test]
fn what_was_declined_of_one_root_concerns_no_other() {
    let mut receiving = Receiving::new(Collected::default());
    let invited = |source: &str| ReceiverEvent::Invited {
        host: "n0".to_owned(),
        source: source.to_owned(),
        size: None,
        content: ContentKind::Stream,
        chunk: ChunkSize::default(),
    };
    receiving.handle_event(at(0), invited("old"));
    receiving.decline(
        at(0),
        Outcome::WriteFailed,
        format!("{}: DEST exists", Outcome::REFUSED),
    );
    assert!(receiving.verdict().is_some());
    receiving.handle_event(at(1), invited("new"));
    assert!(receiving.verdict().is_none());
}

/// Makes a receiver decline what it is asked for.
fn decline_once_asked<F: Faults>(simulation: &mut Simulation<Host, F>, host: usize) {
    let mut millis = 0;
    loop {
        let Participant::Receiver(one, receiving) = simulation.machine_mut(host) else {
            panic!("a receiver")
        };
        if one.asked().is_some() {
            receiving.decline(
                at(millis),
                Outcome::WriteFailed,
                format!("{}: DEST exists", Outcome::REFUSED),
            );
            receiving.turn(one, at(millis));
            return simulation.wake(host, at(millis));
        }
        millis += 1;
        run_until(simulation, millis);
    }
}

#[test]
fn leave_for_a_root_that_has_gone_meanwhile_is_given_back() {
    let wanted = Wanted {
        at_least: 1,
        enough: Some(1),
        patience: Duration::from_secs(2),
    };
    let scene = Scene::new(1500)
        .root(0, 1000, wanted)
        .receivers_with(1, by_leave);
    let played = scene.play(NoFaults, |simulation| {
        run_until(simulation, 1000);
        assert_eq!(receiver(simulation, 1).admission(), Admission::Wanted);
        run_until(simulation, 10_000);
        receiver(simulation, 1).admit(at(10_000));
        simulation.wake(1, at(10_000));
        run_until(simulation, 10_100);
        assert_eq!(receiver(simulation, 1).admission(), Admission::None);
    });
    assert_eq!(played.has(1), None);
}

#[test]
fn a_session_that_was_had_is_not_asked_for_again_and_the_next_of_the_same_root_is() {
    let wanted = || Wanted {
        at_least: 1,
        enough: Some(1),
        patience: Duration::from_secs(3),
    };
    let had = |config: ReceiverConfig| ReceiverConfig {
        had: vec![(host_mac(0), 0x1000)],
        ..config
    };
    let played = Scene::new(1500)
        .root(0, 1000, wanted())
        .receivers_with(1, had)
        .play(NoFaults, |_| {});
    assert!(
        played.failure(0).contains("0 of 1 receivers joined"),
        "{}",
        played.failure(0)
    );
    assert_eq!((played.has(1), played.left_out(1).len()), (None, 0));
    let other = |config: ReceiverConfig| ReceiverConfig {
        had: vec![(host_mac(0), 0x0fff)],
        ..config
    };
    let played = Scene::new(1500)
        .root(0, 1000, wanted())
        .receivers_with(1, other)
        .play(NoFaults, |_| {});
    assert_eq!(played.has(1), Some(0));
}

#[test]
fn the_second_of_two_roots_ends_with_the_name_of_the_first() {
    // The first waits, or is in the middle of its transfer.
    for (bytes, wanted, begin) in [(1000, 3, 700), (20_000_000, 2, 260)] {
        let wanted = Wanted {
            at_least: 2,
            enough: Some(wanted),
            patience: Duration::from_secs(3),
        };
        let scene = Scene::new(1500)
            .root(0, bytes, wanted)
            .root(begin, 500, Wanted::exactly(2))
            .receivers(2);
        let played = scene.play(switched_on(1, begin), |_| {});
        assert_eq!(
            [2, 3].map(|host| played.has(host)),
            [Some(0); 2],
            "{}",
            played.failure(0)
        );
        let text = played.failure(1);
        assert!(
            text.starts_with("n0 (")
                && text.contains("file0")
                && text.contains("choose another group"),
            "{text}"
        );
        let asked = RootEvent::CompetingSender {
            host: "n1".to_owned(),
            mac: host_mac(1),
        };
        let told = played
            .scene
            .root_events
            .iter()
            .filter(|(_, host, event)| *host == 0 && *event == asked)
            .count();
        assert_eq!(told, 1, "the first is told of the second");
    }
}

#[test]
fn one_of_two_roots_that_begin_at_once_stays_and_gets_all_receivers() {
    for seed in 0..50 {
        let scene = Scene::new(1500)
            .root(seed % 45, 1000, Wanted::exactly(3))
            .root(0, 500, Wanted::exactly(3));
        let faults = RandomFaults::new(seed).loss(if seed < 25 { 0.0 } else { 0.1 });
        let played = scene.receivers(3).play(faults, |_| {});
        assert_eq!(
            [2, 3, 4].map(|host| played.has(host)),
            [Some(0); 3],
            "seed {seed}: {}",
            played.failure(0)
        );
        assert!(
            played.failure(1).contains("n0 ("),
            "seed {seed}: {}",
            played.failure(1)
        );
    }
}

#[test]
fn a_repeated_reason_is_reported_once() {
    // The receiver lacks room for one session, and the other is full.
    let wanted = Wanted {
        patience: Duration::from_secs(25),
        ..Wanted::exactly(2)
    };
    let scene = Scene::new(1500).root(0, 1000, wanted);
    let scene = scene.receivers_with(1, |config| ReceiverConfig {
        free_bytes: 10,
        ..config
    });
    let played = scene.play(NoFaults, |simulation| {
        let (other, session) = (host_mac(7), 0xBEEF);
        let late = Message::Refuse {
            nonce: 78,
            why: Refusal::Late,
            text: "the session is full".to_owned(),
        };
        for tick in 60..400_u64 {
            simulation.inject(
                at(tick * 50),
                1,
                &forged(other, group_mac("group"), session, &announce("n7")),
            );
            simulation.inject(
                at(tick * 50 + 25),
                1,
                &forged(other, host_mac(1), session, &late),
            );
        }
    });
    let full = played
        .left_out(1)
        .iter()
        .filter(|text| text.contains("full"))
        .count();
    assert!((1..=8).contains(&full), "{:?}", played.left_out(1));
}

#[test]
fn a_receiver_without_room_that_comes_too_late_ends_for_want_of_room() {
    let wanted = Wanted {
        at_least: 1,
        patience: Duration::from_secs(3),
        ..Wanted::exactly(2)
    };
    let scene = Scene::new(1500).root(0, 1000, wanted).receivers(1);
    let scene = scene.receivers_with(1, |config| ReceiverConfig {
        free_bytes: 10,
        ..config
    });
    let played = scene.play(NoFaults, |simulation| {
        // Another root announces that its session is running.
        let Message::Announce {
            group,
            host,
            source,
            size,
            content,
            chunk,
            mtu_bytes,
            age_millis,
            ..
        } = announce("n0")
        else {
            unreachable!("an invitation")
        };
        let stage = Stage::Started;
        let runs = Message::Announce {
            group,
            host,
            source,
            size,
            content,
            chunk,
            mtu_bytes,
            age_millis,
            stage,
        };
        simulation.inject(
            at(3500),
            2,
            &forged(host_mac(7), group_mac("group"), 0x7000, &runs),
        );
    });
    assert_eq!(
        (played.has(1), played.has(2)),
        (Some(0), None),
        "{}",
        played.failure(0)
    );
    let late = |event: &ReceiverEvent| matches!(event, ReceiverEvent::LeftOut { text, .. } if text.contains("running"));
    assert!(
        played
            .scene
            .receiver_events
            .iter()
            .any(|(_, host, event)| *host == 2 && late(event)),
        "it came too late"
    );
    let end = played.hosts[2]
        .receiving()
        .and_then(|receiving| receiving.end());
    assert!(
        matches!(end, Some(End::Refused(Refusal::NoSpace, _))),
        "{end:?}"
    );
}

fn ghost(number: u64) -> MacAddr {
    let [.., a, b, c, d] = number.to_be_bytes();
    MacAddr::new(2, 9, a, b, c, d)
}

#[test]
fn ten_thousand_forged_requests_before_the_start_take_no_place_and_little_time() {
    // From as many addresses, or from one; the root takes the receivers present after 4 s, or the
    // first three.
    for (addresses, wanted) in [
        (
            10_000,
            Wanted {
                at_least: 1,
                enough: None,
                patience: Duration::from_secs(4),
            },
        ),
        (10_000, Wanted::exactly(3)),
        (1, Wanted::exactly(3)),
    ] {
        let played =
            Scene::new(1500)
                .root(0, 100_000, wanted)
                .receivers(3)
                .play(NoFaults, |simulation| {
                    for number in 0..10_000 {
                        let frame = forged(
                            ghost(number % addresses),
                            host_mac(0),
                            0x1000,
                            &join("ghost", number),
                        );
                        simulation.inject(at(1 + number / 50), 0, &frame);
                    }
                });
        assert!(
            (1..=3).all(|host| played.has(host) == Some(0)),
            "{addresses}: {}",
            played.failure(0)
        );
        assert_eq!(played.root(0).reports().count(), 3, "ghosts are no members");
        let (when, _) = played
            .told(0, |event| matches!(event, RootEvent::Started { .. }))
            .expect("started");
        let limit = wanted
            .enough
            .map_or(Duration::from_secs(5), |_| Duration::from_millis(1000));
        assert!(when < limit, "{addresses} addresses: {when:?}");
    }
}

#[test]
fn requests_while_the_session_runs_are_answered_when_there_is_time_and_data_flows_on() {
    let play = |rate: u64| {
        Scene::new(1500)
            .root(0, 20_000_000, Wanted::exactly(3))
            .receivers(3)
            .play(NoFaults, |simulation| {
                for number in 0..rate * 200 {
                    let frame = forged(ghost(number), host_mac(0), 0x1000, &join("ghost", number));
                    simulation.inject(
                        at(300) + Duration::from_micros(1000 * number / rate),
                        0,
                        &frame,
                    );
                }
            })
    };
    let (calm, flooded) = (play(0), play(400));
    let took = [&calm, &flooded].map(|played| played.root(0).took());
    assert!((1..=3).all(|host| flooded.has(host) == Some(0)));
    assert!(
        took[1] < took[0] * 12 / 10,
        "400 000 requests a second: {took:?}"
    );
    let answers = flooded.root(0).control_stats().sent - calm.root(0).control_stats().sent;
    assert!(answers < 400, "{answers} answers");
}

fn within(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_thousand_receivers_are_checked_and_let_in_within_a_second() {
    let played = Scene::new(1500)
        .root(0, 3000, Wanted::exactly(1000))
        .receivers(1000)
        .play(NoFaults, |_| {});
    let (when, _) = played
        .told(0, |event| matches!(event, RootEvent::Started { .. }))
        .expect("started");
    assert!(when < Duration::from_secs(1), "{when:?}");
    assert_eq!(
        played
            .root(0)
            .reports()
            .filter(|report| report.outcome == Outcome::Delivered)
            .count(),
        1000
    );
}

#[test]
fn a_host_behind_a_smaller_mtu_is_refused_by_name_and_the_others_get_everything() {
    let wanted = Wanted {
        at_least: 2,
        enough: Some(3),
        patience: within(4),
    };
    let small = |delivery: &Delivery<'_>| {
        if delivery.to == 3 && delivery.frame.len() > 1514 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    };
    let played = Scene::new(9000)
        .root(0, 300_000, wanted)
        .receivers(3)
        .play(small, |_| {});
    assert_eq!(
        [1, 2, 3].map(|host| played.has(host)),
        [Some(0), Some(0), None]
    );
    let (when, event) = played
        .told(0, |event| matches!(event, RootEvent::Refused { .. }))
        .expect("refused");
    assert!(when < Duration::from_secs(2), "{when:?}");
    let RootEvent::Refused { host, text, .. } = event else {
        unreachable!("asked for")
    };
    assert!(
        host == "n3" && text.contains("control frames arrive, frames of 9014 bytes do not"),
        "{text}"
    );
    assert!(
        played
            .left_out(3)
            .iter()
            .any(|text| text.contains("smaller MTU on the way")),
        "{:?}",
        played.left_out(3)
    );
}

#[test]
fn a_host_cut_off_by_the_roots_own_first_hop_is_refused_with_that_reason() {
    let wanted = Wanted {
        patience: within(4),
        ..Wanted::exactly(1)
    };
    let long = |delivery: &Delivery<'_>| {
        if delivery.from == Some(0) && delivery.frame.len() > 1514 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    };
    let scene = Scene::new(9000)
        .root(0, 300_000, wanted)
        .with_first_hop(1500);
    let played = scene.receivers(1).play(long, |_| {});
    let own =
        "n0 itself sends no frames of 9014 bytes, whatever the way to n1: send with --mtu 1500";
    let RootEvent::Refused { text, .. } = played
        .told(0, |event| matches!(event, RootEvent::Refused { .. }))
        .expect("refused")
        .1
    else {
        unreachable!("asked for")
    };
    assert!(text.starts_with(own), "{text}");
    assert!(
        played.left_out(1).iter().any(|text| text.contains(own)),
        "{:?}",
        played.left_out(1)
    );
}

#[test]
fn all_receivers_join_though_every_third_frame_is_lost() {
    for seed in 0..20 {
        let faults = RandomFaults::new(seed).loss(0.3);
        let played = Scene::new(1500)
            .root(0, 20_000, Wanted::exactly(8))
            .receivers(8)
            .play(faults, |_| {});
        assert!(
            (1..=8).all(|host| played.has(host) == Some(0)),
            "seed {seed}: {}",
            played.failure(0)
        );
    }
}

#[test]
fn missing_named_hosts_are_reported_and_others_are_refused_with_the_reason() {
    let hosts = ["n1", "n2", "n4"].map(str::to_owned).to_vec();
    let wanted = Wanted {
        at_least: 3,
        enough: Some(3),
        patience: within(4),
    };
    let scene = Scene::new(1500).root_with(0, 1000, |config| RootConfig {
        wanted,
        hosts: hosts.clone(),
        ..config
    });
    let played = scene.receivers(3).play(NoFaults, |_| {});
    let text = played.failure(0);
    assert!(
        text.contains("2 of 3")
            && text.contains("(n[1-2]; not n4; refused n3 (02:eb:00:00:00:03): not asked for)"),
        "{text}"
    );
    let (when, event) = played
        .told(0, |event| matches!(event, RootEvent::Waiting { .. }))
        .expect("said");
    let RootEvent::Waiting {
        joined,
        missing,
        wanted,
    } = event
    else {
        unreachable!("asked for")
    };
    assert_eq!(
        (joined.join(" "), missing.join(" "), *wanted),
        ("n1 n2".to_owned(), "n4".to_owned(), Some(3))
    );
    assert_eq!(when, Duration::from_secs(2));
    assert!(
        played.left_out(3)[0].contains("n3 is not among them"),
        "{:?}",
        played.left_out(3)
    );
}

#[test]
fn a_wait_for_receivers_is_reported_ever_less_often() {
    let wanted = Wanted {
        at_least: 3,
        enough: Some(3),
        patience: within(50),
    };
    let played = Scene::new(1500)
        .root(0, 1000, wanted)
        .receivers(1)
        .play(NoFaults, |_| {});
    let times: Vec<u64> = played.all_told(0, |event| matches!(event, RootEvent::Waiting { .. }));
    assert_eq!(times, [2, 4, 8, 16, 32], "seconds");
}

#[test]
fn a_session_starts_with_the_wanted_number_or_with_fewer_when_the_wait_is_over() {
    let wanted = |enough| Wanted {
        at_least: 2,
        enough: Some(enough),
        patience: within(3),
    };
    let started = |played: &GatheringPlay| {
        played
            .told(0, |event| matches!(event, RootEvent::Started { .. }))
            .map(|(when, _)| when)
    };
    // Long enough for the fourth to send its request meanwhile.
    let soon = Scene::new(1500)
        .root(0, 20_000_000, wanted(3))
        .receivers(4)
        .play(NoFaults, |_| {});
    assert!(started(&soon).is_some_and(|when| when < Duration::from_millis(300)));
    let late = Scene::new(1500)
        .root(0, 1000, wanted(5))
        .receivers(4)
        .play(NoFaults, |_| {});
    assert!(started(&late).is_some_and(|when| when >= within(3)));
    assert!((1..=4).all(|host| late.has(host) == Some(0)));
    // The fourth was one too many: both ends know the reason.
    let away: Vec<_> = soon.root(0).turned_away().collect();
    assert_eq!((away.len(), away[0].why), (1, Refusal::Late));
    assert_eq!(
        away[0].text,
        format!(
            "the session started with 3 of 3 wanted before {} had joined",
            away[0].host
        )
    );
    let out: Vec<usize> = (1..=4).filter(|&host| soon.has(host).is_none()).collect();
    assert_eq!(soon.left_out(out[0]), [away[0].text.as_str()]);
}

#[test]
fn the_user_starts_with_those_who_are_there() {
    let wanted = Wanted {
        at_least: 1,
        enough: None,
        patience: Wanted::FOREVER,
    };
    let played = Scene::new(1500)
        .root(0, 1000, wanted)
        .receivers(3)
        .play(NoFaults, |simulation| {
            run_until(simulation, 5000);
            let Participant::Root(root, _) = simulation.machine_mut(0) else {
                panic!("a root")
            };
            assert_eq!(root.view(), None);
            root.start_now(at(5000));
            simulation.wake(0, at(5001));
        });
    assert!((1..=3).all(|host| played.has(host) == Some(0)));
}

#[test]
fn a_candidate_that_ends_frees_its_place_at_once() {
    let wanted = Wanted {
        at_least: 3,
        enough: Some(3),
        patience: within(4),
    };
    let played = Scene::new(1500)
        .root(0, 1000, wanted)
        .receivers(2)
        .play(NoFaults, |simulation| {
            run_until(simulation, 1000);
            let Participant::Receiver(receiver, _) = simulation.machine_mut(1) else {
                panic!("a receiver")
            };
            let final_frame = receiver.final_frame("killed").expect("it has asked");
            simulation.crash(1, at(1000));
            simulation.inject(at(1001), 0, &final_frame);
        });
    // Events of the first second were not kept.
    let (when, event) = played
        .told(0, |event| matches!(event, RootEvent::Left { .. }))
        .expect("gone");
    assert_eq!(when, Duration::from_millis(1001));
    let is_right =
        matches!(event, RootEvent::Left { host, text, .. } if host == "n1" && text == "killed");
    assert!(is_right, "{event:?}");
    assert!(
        played.failure(0).contains("1 of 3 receivers joined"),
        "{}",
        played.failure(0)
    );
}

#[test]
fn a_host_left_out_of_one_session_joins_the_next() {
    let wanted = Wanted {
        at_least: 3,
        enough: Some(3),
        patience: within(2),
    };
    let scene = Scene::new(1500)
        .root(0, 1000, wanted)
        .root(5000, 2000, Wanted::exactly(2))
        .receivers(2);
    // The second root's host is switched on when the first root has given up.
    let played = scene.play(switched_on(1, 5000), |_| {});
    assert!(
        played.failure(0).contains("2 of 3"),
        "{}",
        played.failure(0)
    );
    for host in [2, 3] {
        assert_eq!(played.has(host), Some(1), "{}", played.failure(1));
        assert!(
            played.left_out(host)[0].contains("the sender gave up"),
            "{:?}",
            played.left_out(host)
        );
    }
}

/// Regression: a dry run ended without a word: its receivers ended with "the sender fell silent".
#[test]
fn receivers_are_told_of_a_dry_run_and_wait_on_for_the_transfer() {
    let scene = |once: bool| {
        Scene::new(1500)
            .root_with(0, 1000, |config| RootConfig {
                wanted: Wanted::exactly(2),
                dry_run: true,
                ..config
            })
            .receivers_with(2, move |config| ReceiverConfig { once, ..config })
    };
    let end_of = |played: &GatheringPlay, host: usize| {
        played.hosts[host]
            .receiving()
            .and_then(|receiving| receiving.end().cloned())
    };
    let is_told = |text: &str| text.contains("--dry-run");
    let alone = scene(false).play(NoFaults, |_| {});
    assert_eq!(alone.failure(0), "");
    let once = scene(true).play(NoFaults, |_| {});
    for host in [1, 2] {
        assert!(
            matches!(alone.left_out(host)[..], [text] if is_told(text)),
            "{:?}",
            alone.left_out(host)
        );
        let end = end_of(&alone, host);
        assert!(
            matches!(&end, Some(End::NobodyElse(text)) if is_told(text)),
            "{end:?}"
        );
        let end = end_of(&once, host);
        assert!(
            matches!(&end, Some(End::Aborted(text)) if is_told(text)),
            "{end:?}"
        );
    }
    // The second sender's host is switched on when the dry run is over.
    let followed = scene(false)
        .root(5000, 2000, Wanted::exactly(2))
        .play(switched_on(3, 5000), |_| {});
    assert_eq!(
        [1, 2].map(|host| followed.has(host)),
        [Some(3); 2],
        "{}",
        followed.failure(3)
    );
}

#[test]
fn a_restarted_member_is_gone_at_once_and_its_new_run_gets_a_reply() {
    let scene = Scene::new(1500)
        .root(0, 60_000_000, Wanted::exactly(3))
        .receivers(3);
    let played = scene.play(NoFaults, |simulation| {
        run_until(simulation, 350);
        simulation.crash(2, at(350));
        for tick in 0..3 {
            simulation.inject(
                at(500 + tick * 400),
                0,
                &forged(host_mac(2), host_mac(0), 0x1000, &join("n2", 4711)),
            );
        }
    });
    let reported =
        |event: &RootEvent| matches!(event, RootEvent::Reported(report) if report.host == "n2");
    let (when, event) = played.told(0, reported).expect("reported");
    let RootEvent::Reported(report) = event else {
        unreachable!("asked for")
    };
    assert_eq!(
        (report.outcome, report.text.as_str()),
        (Outcome::Died, "its receiver was started again")
    );
    assert!(when < Duration::from_millis(1000), "{when:?}");
    assert_eq!([1, 3].map(|host| played.has(host)), [Some(0); 2]);
    let away: Vec<_> = played
        .root(0)
        .turned_away()
        .map(|away| away.text.as_str())
        .collect();
    assert_eq!(
        away,
        ["the session started with 3 of 3 wanted before n2 had joined"]
    );
}
