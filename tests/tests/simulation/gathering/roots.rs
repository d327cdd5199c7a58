//! Two roots of one group, and replayed frames of roots that no longer exist.

use super::scene::{Host, Scene, announce, at, forged, switched_on};
use ethbcast_collectives::measure::kind;
use ethbcast_collectives::session::verified::ChunkSize;
use ethbcast_collectives::session::{
    ContentKind, End, Message, ReceiverConfig, ReceiverEvent, Refusal, RootEvent, Stage, Standing, Station, Timing,
    View, ViewMember, ViewPart, Wanted,
};
use ethbcast_planning::plan::Via;
use ethbcast_transport::sim::{Faults, NoFaults, RandomFaults, Simulation, host_mac};
use ethbcast_transport::wire::{Flags, Header, OVERHEAD_BYTES, Rank, group_mac};
use ethbcast_transport::{MacAddr, Policy};
use std::time::Duration;

#[test]
fn of_two_roots_that_begin_one_after_the_other_the_second_ends_with_the_name_of_the_first() {
    // The first waits, or is in the middle of its transfer.
    for (bytes, wanted, begin) in [(1000, 3, 700), (20_000_000, 2, 260)] {
        let wanted = Wanted { at_least: 2, enough: Some(wanted), patience: Duration::from_secs(3) };
        let scene = Scene::new(1500).root(0, bytes, wanted).root(begin, 500, Wanted::exactly(2)).receivers(2);
        let played = scene.play(switched_on(1, begin), |_| {});
        assert_eq!([2, 3].map(|host| played.has(host)), [Some(0); 2], "{}", played.failure(0));
        let text = played.failure(1);
        assert!(text.starts_with("n0 (") && text.contains("file0") && text.contains("choose another group"), "{text}");
        let asked = RootEvent::Rival { host: "n1".to_owned(), mac: host_mac(1) };
        let told = played.scene.root_events.iter().filter(|(_, host, event)| *host == 0 && *event == asked).count();
        assert_eq!(told, 1, "the first is told of the second");
    }
}

#[test]
fn of_two_roots_that_begin_at_once_one_stays_and_has_all_receivers() {
    for seed in 0..50 {
        let scene = Scene::new(1500).root(seed % 45, 1000, Wanted::exactly(3)).root(0, 500, Wanted::exactly(3));
        let faults = RandomFaults::new(seed).loss(if seed < 25 { 0.0 } else { 0.1 });
        let played = scene.receivers(3).play(faults, |_| {});
        assert_eq!([2, 3, 4].map(|host| played.has(host)), [Some(0); 3], "seed {seed}: {}", played.failure(0));
        assert!(played.failure(1).contains("n0 ("), "seed {seed}: {}", played.failure(1));
    }
}

#[test]
fn invitations_of_a_session_that_is_long_over_keep_nobody_from_a_root_that_is_there() {
    let scene = Scene::new(1500).root(0, 1000, Wanted::exactly(4)).receivers(4);
    let played = scene.play(NoFaults, |simulation| {
        // Frames of five dead roots, ten times a second each, arrive before those of the living
        // root, and at that root, too.
        for number in 0..5_u8 {
            let mac = MacAddr::new(2, 7, 7, 7, 7, number);
            let frame = forged(mac, group_mac("group"), 0xDEAD + u32::from(number), &announce("dead"));
            for tick in 0..300 {
                (0..=4).for_each(|host| simulation.inject(at(tick * 100), host, &frame));
            }
        }
    });
    assert!((1..=4).all(|host| played.has(host) == Some(0)), "{}", played.failure(0));
    let (when, _) = played.told(0, |event| matches!(event, RootEvent::Started { .. })).expect("started");
    assert!(when < Duration::from_secs(20), "{when:?}");
}

/// Session number and nonce of another run.
const OTHERS: (u32, u64) = (0, 9_999);

/// Replays frames of a former session, whose root was host 0, to each of `hosts`, twenty times a
/// second: an ANNOUNCE, a part of a view, a PROBE of this session with this nonce.
fn replay<F: Faults>(simulation: &mut Simulation<Host, F>, hosts: std::ops::RangeInclusive<usize>, said: (u32, u64)) {
    replay_of(simulation, (host_mac(0), 0xDEAD), hosts, said);
}

fn replay_of<F: Faults>(
    simulation: &mut Simulation<Host, F>,
    (root, session): (MacAddr, u32),
    hosts: std::ops::RangeInclusive<usize>,
    (test, nonce): (u32, u64),
) {
    let part = ViewPart { epoch: 1, digest: [3; 32], at: 0, count: 2, bytes: vec![5; 40] };
    for (host, tick) in hosts.flat_map(|host| (0..800).map(move |tick| (host, tick))) {
        let invitation = forged(root, group_mac("group"), session, &announce("n0"));
        let view = forged(root, group_mac("group"), session, &Message::View(part.clone()));
        // A ping of 16 bytes that carries the nonce.
        let body = [&[1, 0, 0, 16, 0, 0, 0, 16][..], &nonce.to_be_bytes()].concat();
        let identity = Station::new("group", "n0", root, 1500).identity(session, Rank::ROOT);
        let mut probe = vec![0; OVERHEAD_BYTES + body.len()];
        let header = Header { flags: Flags::LAST, stamp: test, ..identity.header(kind::PROBE) };
        identity.write(&mut probe, host_mac(host), &header, &body);
        let frames = [invitation, probe, view].into_iter().enumerate();
        frames.for_each(|(number, frame)| simulation.inject(at(tick * 50 + number as u64), host, &frame));
    }
}

#[test]
fn a_whole_session_that_is_replayed_keeps_nobody_from_the_next_of_the_same_root() {
    // The old ANNOUNCEs arrive before the new ones, and after each of them.
    let scene = Scene::new(1500).root(300, 1000, Wanted::exactly(3)).receivers(3);
    let played = scene.play(switched_on(0, 300), |simulation| replay(simulation, 1..=3, OTHERS));
    assert_eq!([1, 2, 3].map(|host| played.has(host)), [Some(0); 3], "{}", played.failure(0));
    let (when, _) = played.told(0, |event| matches!(event, RootEvent::Started { .. })).expect("started");
    assert!(when < Duration::from_secs(10), "{when:?}");
}

#[test]
fn whom_only_a_replayed_session_answers_gives_up_when_its_patience_ends() {
    // Also if the dead root had proved its liveness: a proof counts only once.
    for said in [OTHERS, (1 << 31, 78)] {
        let scene = Scene::new(1500)
            .root(45_000, 1000, Wanted { patience: Duration::from_secs(1), ..Wanted::exactly(1) })
            .receivers(1);
        let played = scene.play(NoFaults, |simulation| replay(simulation, 1..=1, said));
        assert_eq!(played.has(1), None);
        let end = played.hosts[1].receiving().and_then(|receiving| receiving.end());
        assert_eq!(end, Some(&End::NobodyThere), "{said:?}");
    }
}

#[test]
fn nor_do_two_such_sessions_keep_it_that_are_asked_in_turn() {
    let scene = Scene::new(1500)
        .root(45_000, 1000, Wanted { patience: Duration::from_secs(1), ..Wanted::exactly(1) })
        .receivers(1);
    let played = scene.play(NoFaults, |simulation| {
        replay(simulation, 1..=1, (1 << 31, 78));
        replay_of(simulation, (host_mac(7), 0xBEEF), 1..=1, (1 << 31, 78));
    });
    let end = played.hosts[1].receiving().and_then(|receiving| receiving.end());
    assert_eq!(end, Some(&End::NobodyThere));
}

#[test]
fn who_was_told_of_a_view_that_there_is_not_waits_for_the_root_that_gathers() {
    // For much longer than a root may owe a liveness proof.
    let scene = Scene::new(1500).root(0, 1000, Wanted { patience: Duration::from_secs(20), ..Wanted::exactly(2) });
    let timing = Timing { patience: Duration::from_secs(1), ..Timing::default() };
    let scene = scene.receivers_with(1, |config| ReceiverConfig { timing, ..config }).receivers(1);
    let played = scene.play(switched_on(2, 15_000), |simulation| {
        let member = |rank: u16| ViewMember {
            host: format!("n{rank}"),
            mac: host_mac(rank.into()),
            nonce: if rank == 0 { 0 } else { 77 + u64::from(rank) },
            parent: rank.checked_sub(1).map(Rank),
            order: 0,
            standing: Standing::InPlace,
        };
        let view = View {
            epoch: 1,
            via: Via::Chain,
            segment_frames: 1,
            policy: Policy::HolesAllowed,
            push_frames: None,
            payload_bytes: 1468,
            size: Some(1000),
            content: ContentKind::Stream,
            chunk: ChunkSize::default(),
            selective: false,
            rate: None,
            members: (0..2).map(member).collect(),
        };
        let part = ViewPart { epoch: 1, digest: view.digest(), at: 0, count: 1, bytes: view.encode() };
        simulation.inject(at(1000), 1, &forged(host_mac(0), group_mac("group"), 0x1000, &Message::View(part)));
    });
    let started = |event: &ReceiverEvent| matches!(event, ReceiverEvent::Started { .. });
    let first = played.scene.receiver_events.iter().find(|(_, host, event)| *host == 1 && started(event));
    assert!(first.is_some_and(|(when, ..)| *when < Duration::from_secs(2)), "it believed the view: {first:?}");
    assert_eq!([1, 2].map(|host| played.has(host)), [Some(0); 2], "{}", played.failure(0));
}

#[test]
fn a_reason_that_comes_again_and_again_is_told_once() {
    // The receiver lacks room for the one, and the other is full.
    let wanted = Wanted { patience: Duration::from_secs(25), ..Wanted::exactly(2) };
    let scene = Scene::new(1500).root(0, 1000, wanted);
    let scene = scene.receivers_with(1, |config| ReceiverConfig { free_bytes: 10, ..config });
    let played = scene.play(NoFaults, |simulation| {
        let (other, session) = (host_mac(7), 0xBEEF);
        let late = Message::Refuse { nonce: 78, why: Refusal::Late, text: "the session is full".to_owned() };
        for tick in 60..400_u64 {
            simulation.inject(at(tick * 50), 1, &forged(other, group_mac("group"), session, &announce("n7")));
            simulation.inject(at(tick * 50 + 25), 1, &forged(other, host_mac(1), session, &late));
        }
    });
    let full = played.left_out(1).iter().filter(|text| text.contains("full")).count();
    assert!((1..=8).contains(&full), "{:?}", played.left_out(1));
}

#[test]
fn who_has_no_room_and_then_comes_too_late_ends_for_want_of_room() {
    let wanted = Wanted { at_least: 1, patience: Duration::from_secs(3), ..Wanted::exactly(2) };
    let scene = Scene::new(1500).root(0, 1000, wanted).receivers(1);
    let scene = scene.receivers_with(1, |config| ReceiverConfig { free_bytes: 10, ..config });
    let played = scene.play(NoFaults, |simulation| {
        // Another root announces that its session is running.
        let Message::Announce { group, host, source, size, content, chunk, mtu_bytes, age_millis, .. } = announce("n0")
        else {
            unreachable!("an invitation")
        };
        let stage = Stage::Started;
        let runs = Message::Announce { group, host, source, size, content, chunk, mtu_bytes, age_millis, stage };
        simulation.inject(at(3500), 2, &forged(host_mac(7), group_mac("group"), 0x7000, &runs));
    });
    assert_eq!((played.has(1), played.has(2)), (Some(0), None), "{}", played.failure(0));
    let late = |event: &ReceiverEvent| matches!(event, ReceiverEvent::LeftOut { text, .. } if text.contains("running"));
    assert!(played.scene.receiver_events.iter().any(|(_, host, event)| *host == 2 && late(event)), "it came too late");
    let end = played.hosts[2].receiving().and_then(|receiving| receiving.end());
    assert!(matches!(end, Some(End::Refused(Refusal::NoSpace, _))), "{end:?}");
}

#[test]
fn a_replayed_invitation_of_its_own_does_not_end_a_root() {
    let played = Scene::new(1500).root(0, 1000, Wanted::exactly(1)).receivers(1).play(NoFaults, |simulation| {
        let frame = forged(host_mac(0), group_mac("group"), 0xDEAD, &announce("n0"));
        simulation.inject(at(50), 0, &frame);
    });
    assert_eq!(played.has(1), Some(0), "{}", played.failure(0));
}
