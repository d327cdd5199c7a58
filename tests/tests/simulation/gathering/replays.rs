//! Tests of the time before a session while frames of others, or of former sessions, are replayed.

use super::scene::{Host, Scene, announce, at, forged, switched_on};
use ethbcast_collectives::measure::kind;
use ethbcast_collectives::session::{
    End, Message, ReceiverConfig, ReceiverEvent, RootEvent, Station, Timing, ViewPart, Wanted,
};
use ethbcast_tests::session::first_view;
use ethbcast_transport::MacAddr;
use ethbcast_transport::sim::{Faults, NoFaults, Simulation, host_mac};
use ethbcast_transport::wire::{Flags, Header, OVERHEAD_BYTES, Rank, group_mac};
use std::time::Duration;

#[test]
fn invitations_of_a_session_that_is_long_over_keep_nobody_from_a_root_that_is_there() {
    let scene = Scene::new(1500)
        .root(0, 1000, Wanted::exactly(4))
        .receivers(4);
    let played = scene.play(NoFaults, |simulation| {
        // Frames of five dead roots, ten times a second each, arrive before those of the living
        // root, and at that root, too.
        for number in 0..5_u8 {
            let mac = MacAddr::new(2, 7, 7, 7, 7, number);
            let frame = forged(
                mac,
                group_mac("group"),
                0xDEAD + u32::from(number),
                &announce("dead"),
            );
            for tick in 0..300 {
                (0..=4).for_each(|host| simulation.inject(at(tick * 100), host, &frame));
            }
        }
    });
    assert!(
        (1..=4).all(|host| played.has(host) == Some(0)),
        "{}",
        played.failure(0)
    );
    let (when, _) = played
        .told(0, |event| matches!(event, RootEvent::Started { .. }))
        .expect("started");
    assert!(when < Duration::from_secs(20), "{when:?}");
}

/// Session number and nonce of another run.
const OTHERS: (u32, u64) = (0, 9_999);

/// Replays frames of a former session, whose root was host 0, to each of `hosts`, twenty times a
/// second: an ANNOUNCE, a part of a view, a PROBE of this session with this nonce.
fn replay<F: Faults>(
    simulation: &mut Simulation<Host, F>,
    hosts: std::ops::RangeInclusive<usize>,
    said: (u32, u64),
) {
    replay_of(simulation, (host_mac(0), 0xDEAD), hosts, said);
}

fn replay_of<F: Faults>(
    simulation: &mut Simulation<Host, F>,
    (root, session): (MacAddr, u32),
    hosts: std::ops::RangeInclusive<usize>,
    (test, nonce): (u32, u64),
) {
    let part = ViewPart {
        epoch: 1,
        digest: [3; 32],
        at: 0,
        count: 2,
        bytes: vec![5; 40],
    };
    for (host, tick) in hosts.flat_map(|host| (0..800).map(move |tick| (host, tick))) {
        let invitation = forged(root, group_mac("group"), session, &announce("n0"));
        let view = forged(
            root,
            group_mac("group"),
            session,
            &Message::View(part.clone()),
        );
        // A ping of 16 bytes that carries the nonce.
        let body = [&[1, 0, 0, 16, 0, 0, 0, 16][..], &nonce.to_be_bytes()].concat();
        let identity = Station::new("group", "n0", root, 1500).identity(session, Rank::ROOT);
        let mut probe = vec![0; OVERHEAD_BYTES + body.len()];
        let header = Header {
            flags: Flags::LAST,
            stamp: test,
            ..identity.header(kind::PROBE)
        };
        identity.write(&mut probe, host_mac(host), &header, &body);
        let frames = [invitation, probe, view].into_iter().enumerate();
        frames.for_each(|(number, frame)| {
            simulation.inject(at(tick * 50 + number as u64), host, &frame)
        });
    }
}

#[test]
fn a_whole_session_that_is_replayed_keeps_nobody_from_the_next_of_the_same_root() {
    // The old ANNOUNCEs arrive before the new ones, and after each of them.
    let scene = Scene::new(1500)
        .root(300, 1000, Wanted::exactly(3))
        .receivers(3);
    let played = scene.play(switched_on(0, 300), |simulation| {
        replay(simulation, 1..=3, OTHERS)
    });
    assert_eq!(
        [1, 2, 3].map(|host| played.has(host)),
        [Some(0); 3],
        "{}",
        played.failure(0)
    );
    let (when, _) = played
        .told(0, |event| matches!(event, RootEvent::Started { .. }))
        .expect("started");
    assert!(when < Duration::from_secs(10), "{when:?}");
}

#[test]
fn whom_only_a_replayed_session_answers_gives_up_when_its_patience_ends() {
    // The same holds if the dead root had proved its liveness: the proof holds the receiver only
    // while it is replayed.
    for said in [OTHERS, (1 << 31, 78)] {
        let scene = Scene::new(1500)
            .root(
                45_000,
                1000,
                Wanted {
                    patience: Duration::from_secs(1),
                    ..Wanted::exactly(1)
                },
            )
            .receivers(1);
        let played = scene.play(NoFaults, |simulation| replay(simulation, 1..=1, said));
        assert_eq!(played.has(1), None);
        let end = played.hosts[1]
            .receiving()
            .and_then(|receiving| receiving.end());
        assert_eq!(end, Some(&End::NobodyThere), "{said:?}");
    }
}

#[test]
fn two_replayed_sessions_asked_in_turn_do_not_keep_a_receiver() {
    let scene = Scene::new(1500)
        .root(
            45_000,
            1000,
            Wanted {
                patience: Duration::from_secs(1),
                ..Wanted::exactly(1)
            },
        )
        .receivers(1);
    let played = scene.play(NoFaults, |simulation| {
        replay(simulation, 1..=1, (1 << 31, 78));
        replay_of(simulation, (host_mac(7), 0xBEEF), 1..=1, (1 << 31, 78));
    });
    let end = played.hosts[1]
        .receiving()
        .and_then(|receiving| receiving.end());
    assert_eq!(end, Some(&End::NobodyThere));
}

#[test]
fn a_receiver_with_a_forged_view_waits_for_the_root_that_gathers() {
    // The duration is much longer than a root may take for a liveness proof.
    let scene = Scene::new(1500).root(
        0,
        1000,
        Wanted {
            patience: Duration::from_secs(20),
            ..Wanted::exactly(2)
        },
    );
    let timing = Timing {
        patience: Duration::from_secs(1),
        ..Timing::default()
    };
    let scene = scene
        .receivers_with(1, |config| ReceiverConfig { timing, ..config })
        .receivers(1);
    let played = scene.play(switched_on(2, 15_000), |simulation| {
        let view = first_view([(host_mac(0), 0), (host_mac(1), 78)], 1000);
        let part = ViewPart {
            epoch: 1,
            digest: view.digest(),
            at: 0,
            count: 1,
            bytes: view.encode(),
        };
        simulation.inject(
            at(1000),
            1,
            &forged(
                host_mac(0),
                group_mac("group"),
                0x1000,
                &Message::View(part),
            ),
        );
    });
    let started = |event: &ReceiverEvent| matches!(event, ReceiverEvent::Started { .. });
    let first = played
        .scene
        .receiver_events
        .iter()
        .find(|(_, host, event)| *host == 1 && started(event));
    assert!(
        first.is_some_and(|(when, ..)| *when < Duration::from_secs(2)),
        "it believed the view: {first:?}"
    );
    assert_eq!(
        [1, 2].map(|host| played.has(host)),
        [Some(0); 2],
        "{}",
        played.failure(0)
    );
}

#[test]
fn a_replayed_invitation_of_its_own_does_not_end_a_root() {
    let played = Scene::new(1500)
        .root(0, 1000, Wanted::exactly(1))
        .receivers(1)
        .play(NoFaults, |simulation| {
            let frame = forged(host_mac(0), group_mac("group"), 0xDEAD, &announce("n0"));
            simulation.inject(at(50), 0, &frame);
        });
    assert_eq!(played.has(1), Some(0), "{}", played.failure(0));
}
