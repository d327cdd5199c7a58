//! Tests of a receiver: its replies to queries, and how little it sends to unproved addresses.

use super::*;
use crate::census::{About, CensusQuery, CensusRequest, LastSession, address};
use crate::keys::{ClusterSecrets, ExchangePair, Keys, Secret, Signer};
use crate::measure::kind::ECHO;
use crate::membership::Station;
use crate::session::keyring::{ReceiverKeys, RootKeys};
use crate::session::kind::ANNOUNCE;
use crate::session::receiver::config::ReceiverConfig;
use crate::session::root::{Root, RootConfig, RootEvent, Wanted};
use ethbcast_transport::MacAddr;
use ethbcast_transport::wire::{self, ETHERNET_BYTES, Identity, OVERHEAD_BYTES, PayloadHash, Rank};
use std::sync::Arc;
use std::time::Duration;

const ASKER: MacAddr = MacAddr::new(2, 0, 0, 0, 0, 9);

fn asked(about: Option<About>, seconds: u64) -> Option<CensusReply> {
    let station = Station::new("g", "n1", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
    let config = ReceiverConfig {
        about,
        free_bytes: 77,
        ..ReceiverConfig::new(station.clone(), 1)
    };
    let mut receiver = Receiver::new(Instant::START, config);
    let now = Instant::START + Duration::from_secs(seconds);
    let identity = Station {
        mac: ASKER,
        ..station
    }
    .identity(0, Rank::NONE);
    let question = CensusRequest {
        nonce: 5,
        spread: Duration::from_millis(50),
        group: String::new(),
    }
    .encode();
    let mut frame = vec![0; OVERHEAD_BYTES + question.len()];
    let length = identity.write(&mut frame, address(), &identity.header(WHO), &question);
    receiver.handle_frame(now, &frame[..length]);
    let due = receiver
        .poll_timeout(now)
        .filter(|_| receiver.has_census_query())?;
    assert!(
        due.at <= now + Duration::from_millis(50),
        "within the spread"
    );
    let mut buffer = [0; 1514];
    let length = receiver.poll_transmit(due.at, &mut buffer)?;
    let answer = wire::parse(&buffer[..length]).expect("a frame");
    assert_eq!(
        (answer.header.kind, &buffer[..6]),
        (HERE, &ASKER.octets()[..])
    );
    assert_eq!(receiver.poll_transmit(due.at, &mut [0; 1514]), None, "once");
    CensusReply::decode(answer.payload)
}

/// Returns the bytes of a query, and the reply of a receiver whose names have this length.
fn replied(
    sources_unproved: bool,
    is_padded: bool,
    name_bytes: usize,
) -> (usize, Option<(usize, CensusReply)>) {
    let name = "n".repeat(name_bytes);
    let station = Station::new(&name, &name, MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
    let last = LastSession {
        is_delivered: true,
        source: "s".repeat(100),
        seconds_ago: 10,
    };
    let about = Some(About {
        version: "v".repeat(32),
        last: Some(last),
        ..About::default()
    });
    let config = ReceiverConfig {
        about,
        sources_unproved,
        ..ReceiverConfig::new(station.clone(), 1)
    };
    let mut receiver = Receiver::new(Instant::START, config);
    let identity = Station {
        mac: ASKER,
        ..station
    }
    .identity(0, Rank::NONE);
    let asker = CensusQuery::new(Instant::START, identity, "", Duration::from_secs(1), 5);
    let mut asker = if is_padded { asker.padded() } else { asker };
    let mut buffer = [0; 1514];
    asker.handle_timeout(Instant::START);
    let asked = asker
        .poll_transmit(Instant::START, &mut buffer)
        .expect("it asks");
    receiver.handle_frame(Instant::START, &buffer[..asked]);
    let replied = receiver.poll_transmit(Instant::START + Duration::from_secs(1), &mut buffer);
    let reply = |bytes: usize| {
        let frame = wire::parse(&buffer[..bytes]).expect("a frame");
        (
            bytes - ETHERNET_BYTES,
            CensusReply::decode(frame.payload).expect("a reply"),
        )
    };
    (asked - ETHERNET_BYTES, replied.map(reply))
}

#[test]
fn a_query_from_an_unproved_address_gets_at_most_three_times_its_bytes() {
    for name_bytes in [7, 64] {
        let (_, whole) = replied(false, false, name_bytes);
        let whole = whole.expect("it is on one Ethernet").1;
        assert!(whole.about.version.len() == 32 && whole.about.last.is_some());
        for is_padded in [false, true] {
            let (asked, reply) = replied(true, is_padded, name_bytes);
            let bytes = reply.as_ref().map_or(0, |(bytes, _)| *bytes);
            assert!(bytes <= 3 * asked, "{bytes} for {asked}");
            assert_eq!(
                reply.is_some_and(|(_, reply)| reply == whole),
                is_padded,
                "{name_bytes}"
            );
        }
    }
    let (_, short) = replied(true, false, 7);
    let short = short.expect("without what nothing depends on").1;
    assert!(
        short.about.version.is_empty()
            && short.about.last.is_some_and(|last| last.source.is_empty())
    );
}

/// Returns the bytes of announcements that a receiver gets, one each 100 ms, and those of the
/// frames that it sends in 100 s.
fn heard_and_sent(sources_unproved: bool, announcements: usize) -> (usize, Vec<usize>) {
    let station = Station::new("g", "n1", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
    let config = ReceiverConfig {
        sources_unproved,
        ..ReceiverConfig::new(station.clone(), 1)
    };
    let mut receiver = Receiver::new(Instant::START, config);
    let root = Station {
        mac: ASKER,
        host: "n0".to_owned(),
        ..station
    };
    let (mut root, mut frame) = (
        Root::new(Instant::START, RootConfig::new(root, 7, "file")),
        [0; 1514],
    );
    root.handle_timeout(Instant::START);
    let length = root
        .poll_transmit(Instant::START, &mut frame)
        .expect("its announcement");
    let (mut sent, mut buffer) = (Vec::new(), [0; 1514]);
    for tick in 0..10_000 {
        let now = Instant::START + Duration::from_millis(10 * tick as u64);
        if tick % 10 == 0 && tick / 10 < announcements {
            receiver.handle_frame(now, &frame[..length]);
        }
        receiver.handle_timeout(now);
        sent.extend(
            std::iter::from_fn(|| receiver.poll_transmit(now, &mut buffer))
                .map(|bytes| bytes - ETHERNET_BYTES),
        );
    }
    (announcements * (length - ETHERNET_BYTES), sent)
}

#[test]
fn a_root_whose_address_is_unproved_gets_at_most_three_times_its_bytes_and_one_that_goes_on_enough_of_them()
 {
    for announcements in [1, 2, 5] {
        let (heard, sent) = heard_and_sent(true, announcements);
        let bytes = sent.iter().sum::<usize>();
        assert!(
            !sent.is_empty() && bytes <= 3 * heard,
            "{announcements} of {heard} bytes: {sent:?}"
        );
    }
    let (heard, sent) = heard_and_sent(false, 1);
    assert!(
        sent.iter().sum::<usize>() > 100 * heard,
        "on one Ethernet it is asked for long"
    );
    // What a root that announces itself gets is the same.
    assert_eq!(heard_and_sent(true, 1000), heard_and_sent(false, 1000));
}

/// Returns when a root admits a receiver although its announcement is forged with another session
/// each `every`, from `since` on. A forged one comes after the root's frames of its moment, and
/// before the receiver's deadlines.
fn joined_despite(
    nonce: u64,
    sources_unproved: bool,
    since: Duration,
    every: Duration,
) -> Option<Duration> {
    let station = Station::new("g", "n1", MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
    let config = ReceiverConfig {
        sources_unproved,
        ..ReceiverConfig::new(station.clone(), nonce)
    };
    let mut receiver = Receiver::new(Instant::START, config);
    let station = Station {
        mac: ASKER,
        host: "n0".to_owned(),
        ..station
    };
    let mut root = Root::new(Instant::START, RootConfig::new(station.clone(), 7, "file"));
    let (mut buffer, mut forged, mut forge_at) = ([0; 1514], [0; 1514], Instant::START + since);
    let (mut announced, mut session) = (Vec::new(), 1000);
    for tick in 0..6000 {
        let now = Instant::START + Duration::from_millis(10 * tick);
        root.handle_timeout(now);
        while let Some(length) = root.poll_transmit(now, &mut buffer) {
            receiver.handle_frame(now, &buffer[..length]);
            if announced.is_empty() {
                announced = buffer[..length].to_vec();
            }
        }
        if forge_at <= now {
            (session, forge_at) = (session + 1, now + every);
            let of_root = wire::parse(&announced).expect("the root announces itself first");
            let identity = station.identity(session, Rank::ROOT);
            let header = identity.header(of_root.header.kind);
            let length = identity.write(&mut forged, address(), &header, of_root.payload);
            receiver.handle_frame(now, &forged[..length]);
        }
        if receiver.poll_timeout(now).is_some_and(|due| due.at <= now) {
            receiver.handle_timeout(now);
        }
        while let Some(length) = receiver.poll_transmit(now, &mut buffer) {
            root.handle_frame(now, &buffer[..length]);
        }
        if std::iter::from_fn(|| root.poll_event())
            .any(|event| matches!(event, RootEvent::Joined { .. }))
        {
            return Some(now.since(Instant::START));
        }
    }
    None
}

const NEVER: Duration = Duration::from_secs(3600);

#[test]
fn sessions_forged_in_the_name_of_the_root_that_is_asked_hold_back_no_join_request() {
    let undisturbed = joined_despite(1, true, NEVER, NEVER);
    assert!(undisturbed.is_some());
    let disturbed = joined_despite(
        1,
        true,
        Duration::from_millis(110),
        Duration::from_millis(10),
    );
    assert_eq!(disturbed, undisturbed);
}

#[test]
fn a_receiver_that_hears_several_sessions_of_one_address_soon_asks_the_next_of_them() {
    let every = Duration::from_millis(30);
    let joined: Vec<_> = (1..=20)
        .map(|nonce| joined_despite(nonce, false, Duration::from_millis(10), every))
        .collect();
    assert!(
        joined
            .iter()
            .all(|at| at.is_some_and(|at| at < Duration::from_secs(4))),
        "{joined:?}"
    );
}

/// Returns the bytes that a receiver sends within a second of a frame, and those of the frame.
fn answered(config: ReceiverConfig, frame: &[u8]) -> (usize, usize) {
    let (mut receiver, mut buffer, mut sent) =
        (Receiver::new(Instant::START, config), [0; 1514], 0);
    receiver.handle_frame(Instant::START, frame);
    for now in (0..1000).map(|millis| Instant::START + Duration::from_millis(millis)) {
        sent += receiver
            .poll_transmit(now, &mut buffer)
            .map_or(0, |bytes| bytes - ETHERNET_BYTES);
    }
    (sent, frame.len() - ETHERNET_BYTES)
}

#[test]
fn a_host_with_a_key_whose_address_is_unproved_learns_who_has_none_if_that_takes_three_times_its_bytes_at_most()
 {
    let keys = Keys::new(
        Secret::new([1; 32]),
        Signer::new(&Secret::new([2; 32])),
        "n0",
    )
    .expect("a name");
    for (sources_unproved, host, is_told) in [
        (true, "n1".to_owned(), true),
        (true, "h".repeat(255), false),
        (false, "h".repeat(255), true),
    ] {
        let station = Station::new("g", &host, MacAddr::new(2, 0, 0, 0, 0, 1), 1500);
        let identity = Station {
            mac: ASKER,
            ..station.clone()
        }
        .identity(7, Rank::ROOT);
        let mut secrets = ClusterSecrets::new(Arc::new(keys.clone()));
        let closed = secrets.close(0, identity.header(ANNOUNCE), Vec::new());
        let (guard, header, body) = closed.expect("there is one secret");
        let mut frame = [0; 1514];
        let length =
            Identity { guard, ..identity }.write(&mut frame, station.group_mac, &header, &body);
        let config = ReceiverConfig {
            sources_unproved,
            ..ReceiverConfig::new(station, 1)
        };
        let (sent, heard) = answered(config, &frame[..length]);
        assert_eq!(sent > 0, is_told, "{sent} bytes for {heard}");
        assert!(
            sent <= 3 * heard || !sources_unproved,
            "{sent} bytes for {heard}"
        );
    }
}

#[test]
fn a_receiver_that_has_something_to_say_of_itself_answers_and_another_does_not() {
    let last = LastSession {
        is_delivered: true,
        source: "file".to_owned(),
        seconds_ago: 10,
    };
    let about = About {
        last: Some(last),
        ..About::default()
    };
    let answer = asked(Some(about), 100).expect("it answers");
    assert_eq!(
        (answer.nonce, answer.busy, answer.free_bytes, answer.size),
        (5, Busy::Waiting, Some(77), None)
    );
    assert_eq!(
        answer.about.last.map(|last| last.seconds_ago),
        Some(110),
        "it has waited since"
    );
    assert_eq!(asked(None, 1), None);
}

#[test]
fn a_receiver_with_another_name_than_the_user_s_is_the_host_at_the_address_that_the_name_has() {
    // Over UDP an address ends with that of IPv4.
    let at = |last: u8| MacAddr::new(2, 0, 10, 0, 0, last);
    let joined = |last: u8| {
        let mut station = Station::new("g", "sender", at(1), 1500);
        let hosts = ["storage".to_owned(), "n9".to_owned()].into();
        let named = [(u32::from_be_bytes([10, 0, 0, 2]), "storage".to_owned())].into();
        let mut root = Root::new(
            Instant::START,
            RootConfig {
                hosts,
                named,
                ..RootConfig::new(station.clone(), 7, "file")
            },
        );
        (station.mac, station.host) = (at(last), "node7.lan".to_owned());
        let mut receiver = Receiver::new(Instant::START, ReceiverConfig::new(station, 1));
        let mut buffer = [0; 1514];
        for tick in 0..100 {
            let now = Instant::START + Duration::from_millis(10 * tick);
            root.handle_timeout(now);
            while let Some(length) = root.poll_transmit(now, &mut buffer) {
                receiver.handle_frame(now, &buffer[..length]);
            }
            receiver.handle_timeout(now);
            while let Some(length) = receiver.poll_transmit(now, &mut buffer) {
                root.handle_frame(now, &buffer[..length]);
            }
        }
        std::iter::from_fn(|| root.poll_event()).find_map(|event| match event {
            RootEvent::Joined { host, .. } => Some(Ok(host)),
            RootEvent::Refused { host, .. } => Some(Err(host)),
            _ => None,
        })
    };
    assert_eq!(joined(2), Some(Ok("storage".to_owned())));
    assert_eq!(
        joined(3),
        Some(Err("node7.lan".to_owned())),
        "another address"
    );
}

/// Lets a receiver ask the host at 10.0.0.`sought` for its session, where nothing that is for all
/// arrives. Returns whether it joins, and whether the root has ever sent more than it got before
/// the receiver's first echo.
fn asked_for(sought: u8, source: &str, mtu_bytes: u16, is_keyed: bool) -> (bool, bool) {
    let at = |last: u8| MacAddr::new(2, 0, 10, 0, 0, last);
    let secret = |byte| Secret::new([byte; 32]);
    let keys = Keys::new(secret(1), Signer::new(&secret(2)), "n0").expect("a name");
    let keys = Arc::new(keys);
    let station = Station {
        group_mac: MacAddr::BROADCAST,
        ..Station::new("g", "n0", at(1), mtu_bytes)
    };
    let of_root = is_keyed.then(|| RootKeys {
        keys: Arc::clone(&keys),
        random: [3; 32],
        exchange: ExchangePair::new(secret(4)),
        group: secret(5),
        hash: PayloadHash::Polyval,
        encrypts: true,
    });
    let mut root = Root::new(
        Instant::START,
        RootConfig {
            address_secret: Some(7),
            keys: of_root,
            ..RootConfig::new(station.clone(), 7, source)
        },
    );
    let config = ReceiverConfig {
        sources_unproved: true,
        sought: Some(u32::from_be_bytes([10, 0, 0, sought])),
        keys: is_keyed.then(|| ReceiverKeys {
            keys,
            exchange: ExchangePair::new(secret(6)),
        }),
        ..ReceiverConfig::new(
            Station {
                mac: at(2),
                host: "n1".to_owned(),
                ..station
            },
            1,
        )
    };
    let mut receiver = Receiver::new(Instant::START, config);
    let (mut buffer, mut got, mut sent) = ([0; 9014], 0, 0);
    let (mut is_proved, mut is_amplified) = (false, false);
    for tick in 0..500 {
        let now = Instant::START + Duration::from_millis(10 * tick);
        root.handle_timeout(now);
        while let Some(length) = root.poll_transmit(now, &mut buffer) {
            if buffer[0] & 1 == 1 {
                continue;
            }
            sent += length;
            is_amplified |= sent > got && !is_proved;
            receiver.handle_frame(now, &buffer[..length]);
        }
        receiver.handle_timeout(now);
        while let Some(length) = receiver.poll_transmit(now, &mut buffer) {
            let headers = wire::parse_headers(&buffer[..length])
                .expect("an own frame")
                .0;
            is_proved |= headers.header.kind == ECHO;
            got += length;
            root.handle_frame(now, &buffer[..length]);
        }
        if std::iter::from_fn(|| root.poll_event())
            .any(|event| matches!(event, RootEvent::Joined { mac, .. } if mac == at(2)))
        {
            return (true, is_amplified);
        }
    }
    (false, is_amplified)
}

#[test]
fn a_receiver_asks_the_only_root_it_takes_for_its_session_and_gets_no_more_bytes_than_it_sent() {
    let longest = "s".repeat(255);
    for (source, mtu_bytes) in [("file", 1500), (&longest[..], 1500), ("file", 600)] {
        for is_keyed in [false, true] {
            let asked = asked_for(1, source, mtu_bytes, is_keyed);
            assert_eq!(asked, (true, false), "{mtu_bytes} {is_keyed}");
        }
    }
    assert_eq!(
        asked_for(3, "file", 1500, false),
        (false, false),
        "another host"
    );
}

#[test]
fn a_held_session_waits_beyond_its_patience_and_starts_when_it_is_released() {
    let at = |last: u8| MacAddr::new(2, 0, 0, 0, 0, last);
    let station = Station::new("g", "n0", at(1), 1500);
    let mut root = Root::new(
        Instant::START,
        RootConfig {
            held: true,
            wanted: Wanted::exactly(1),
            ..RootConfig::new(station.clone(), 7, "file")
        },
    );
    let station = Station {
        mac: at(2),
        host: "n1".to_owned(),
        ..station
    };
    let mut receiver = Receiver::new(Instant::START, ReceiverConfig::new(station.clone(), 1));
    let mut buffer = [0; 1514];
    for tick in 0..2000 {
        let now = Instant::START + Duration::from_millis(50 * tick);
        if tick == 1500 {
            // Patience was over long ago: one that leaves is waited for anew.
            assert!(root.is_ready());
            let leave = receiver.final_frame("it restarts").expect("it has joined");
            root.handle_frame(now, &leave);
            receiver = Receiver::new(now, ReceiverConfig::new(station.clone(), 2));
        }
        if tick == 1900 {
            assert!(root.is_ready() && root.view().is_none());
            let due = root.poll_timeout(now).expect("it announces itself");
            assert!(due.at + Duration::from_millis(50) > now, "{due:?}");
            root.release(now);
        }
        root.handle_timeout(now);
        while let Some(length) = root.poll_transmit(now, &mut buffer) {
            receiver.handle_frame(now, &buffer[..length]);
        }
        receiver.handle_timeout(now);
        while let Some(length) = receiver.poll_transmit(now, &mut buffer) {
            root.handle_frame(now, &buffer[..length]);
        }
    }
    assert!(root.view().is_some() && receiver.view().is_some());
}
