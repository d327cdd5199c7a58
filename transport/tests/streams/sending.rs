//! Tests of a stream sender's list of receivers: added, removed, in flight, or slower than the
//! others. Tests of the parity that it adds while reports of losses never end.

use crate::common::{identity, peer};
use crate::details::{PAYLOAD, acknowledge, next, notify, origin};
use crate::hosts::at;
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::stream::{Ending, Flight, Outlet, Stream};
use ethbcast_transport::wire::{AckBody, Flags, Header, Kind, Parity, Rank, group_mac};
use ethbcast_transport::{Instant, Part, Tuning};
use std::collections::BTreeSet;

fn cast(listeners: &[usize]) -> Outlet {
    Outlet::Cast {
        group: group_mac("test"),
        listeners: listeners.iter().map(|&host| peer(host)).collect(),
    }
}

fn lanes() -> Outlet {
    Outlet::Lanes(vec![peer(1), peer(2)])
}

fn send_all(stream: &mut Stream) {
    while next(stream, at(1)).is_some() {}
}

#[test]
fn frames_in_flight_to_each_reader_are_those_sent_and_not_acknowledged() {
    for outlet in [cast(&[1, 2]), lanes()] {
        let mut stream = origin(&outlet, 10);
        send_all(&mut stream);
        acknowledge(&mut stream, at(2), 1, 4, 0, 0);
        let flights = stream.flights();
        let told = |flight: &Flight| (flight.rank, flight.next, flight.in_flight);
        assert_eq!(
            flights.iter().map(told).collect::<Vec<_>>(),
            [(Rank(1), 10, 6), (Rank(2), 10, 10)],
            "{outlet:?}"
        );
        assert!(
            flights
                .iter()
                .all(|flight| flight.in_flight <= flight.window),
            "{outlet:?}: {flights:?}"
        );
    }
}

#[test]
fn listeners_of_a_cast_have_no_turn_and_no_segment_and_a_host_without_readers_holds_nothing_up() {
    let mut stream = origin(&cast(&[1, 2]), 10);
    assert_eq!(
        (
            stream.turn_of(Rank(1)),
            stream.sending(),
            stream.is_pausing()
        ),
        (None, (false, 0), false)
    );
    send_all(&mut stream);
    assert_eq!(
        (
            stream.turn_of(Rank(1)),
            stream.sending(),
            stream.is_pausing()
        ),
        (None, (false, 10), false)
    );
    let none = origin(&Outlet::Lanes(Vec::new()), 1);
    assert_eq!(
        (none.held_up_by(), none.flights(), none.is_pausing()),
        (None, Vec::new(), false)
    );
}

#[test]
fn a_cast_that_is_crowded_names_the_listener_that_keeps_it_full_and_none_that_does_not() {
    let mut stream = origin(&cast(&[1, 2]), 64);
    for cursor in [32, 64] {
        send_all(&mut stream);
        acknowledge(&mut stream, at(1), 1, cursor, 0, 0);
    }
    send_all(&mut stream);
    assert_eq!(
        (stream.blocked_by(at(2)), stream.held_up_by()),
        (Some(Rank(2)), Some(Rank(2)))
    );
}

#[test]
fn when_the_acker_leaves_its_successor_is_notified_by_a_heartbeat_of_its_own() {
    let tuning = Tuning::push_pull().with_feed_frames(64);
    let mut stream = Stream::origin(identity(0), PAYLOAD.len(), &cast(&[1, 2, 3]), tuning);
    (0..4).for_each(|_| assert!(stream.push(&PAYLOAD, Ending::None), "there is room"));
    send_all(&mut stream);
    acknowledge(&mut stream, at(2), 3, 4, 0, 0);
    stream.remove_reader(at(3), Rank(1));
    let (header, to) = next(&mut stream, at(3)).expect("it is told");
    assert_eq!(
        (header.kind, to),
        (Kind::HEARTBEAT, host_mac(2)),
        "rank 3 is further"
    );
    assert_eq!(next(&mut stream, at(3)), None, "and only it");
}

#[test]
fn frames_out_of_order_are_discarded_and_counted_where_no_holes_are_allowed() {
    let tuning = Tuning::paper().with_feed_frames(64);
    let mut stream = Stream::receiver(
        identity(2),
        PAYLOAD.len(),
        peer(0),
        &Outlet::Lanes(Vec::new()),
        tuning,
    );
    for sequence in [0, 2, 3, 1] {
        let header = Header {
            sequence,
            stamp: 1000,
            flags: Flags::default(),
            ..identity(0).header(Kind::DATA)
        };
        notify(&mut stream, at(1), 0, header, &PAYLOAD);
    }
    assert_eq!(
        (stream.stats().out_of_order_dropped, stream.feed().head()),
        (2, 2)
    );
}

#[test]
fn frames_beyond_the_known_end_are_malformed() {
    let tuning = Tuning::default().with_feed_frames(64);
    let mut stream = Stream::receiver(
        identity(2),
        PAYLOAD.len(),
        peer(0),
        &Outlet::Lanes(Vec::new()),
        tuning,
    );
    stream.expect_last(2);
    for (sequence, flags) in [
        (3, Flags::default()),
        (1, Flags::LAST),
        (2, Flags::default()),
        (2, Flags::LAST),
    ] {
        let header = Header {
            sequence,
            stamp: 1000,
            flags,
            ..identity(0).header(Kind::DATA)
        };
        notify(&mut stream, at(1), 0, header, &PAYLOAD);
    }
    assert_eq!(
        (stream.stats().malformed, stream.stats().data_received),
        (3, 1)
    );
}

#[test]
fn a_removed_reader_keeps_nothing_and_removing_an_unknown_one_changes_nothing() {
    for outlet in [cast(&[1, 2]), lanes()] {
        let mut stream = origin(&outlet, 10);
        send_all(&mut stream);
        acknowledge(&mut stream, at(2), 1, 10, 0, 0);
        assert_eq!(
            stream.cursors(),
            [(Rank(1), 10), (Rank(2), 0)],
            "{outlet:?}"
        );
        assert_eq!((stream.feed().tail(), stream.is_settled()), (0, false));
        stream.remove_reader(at(3), Rank(9));
        assert_eq!(stream.cursors().len(), 2, "{outlet:?}");
        stream.remove_reader(at(3), Rank(2));
        assert_eq!(
            (stream.cursors(), stream.feed().tail()),
            (vec![(Rank(1), 10)], 10),
            "{outlet:?}"
        );
        assert_eq!(stream.audit(), Ok(()));
        assert!(
            stream.poll_timeout(at(3)).is_none(),
            "{outlet:?}: nobody owes an answer"
        );
    }
}

#[test]
fn a_new_reader_is_probed_first_keeps_present_frames_and_is_added_once() {
    let mut stream = origin(&cast(&[1, 2]), 10);
    send_all(&mut stream);
    for host in [1, 2] {
        acknowledge(&mut stream, at(2), host, 10, 0, 0);
    }
    (0..5).for_each(|_| assert!(stream.push(&PAYLOAD, Ending::None), "there is room"));
    [3, 3]
        .into_iter()
        .for_each(|host| stream.graft_child(at(3), peer(host)));
    assert_eq!(stream.cursors().len(), 3);
    let (header, _) = next(&mut stream, at(3)).expect("it is asked");
    assert_eq!(header.kind, Kind::HEARTBEAT);
    send_all(&mut stream);
    [1, 2]
        .into_iter()
        .for_each(|host| acknowledge(&mut stream, at(4), host, 15, 0, 0));
    assert_eq!(stream.feed().tail(), 10, "it is kept for the new one");
    acknowledge(&mut stream, at(5), 3, 12, 0, 0);
    assert_eq!((stream.feed().tail(), stream.audit()), (12, Ok(())));
}

#[test]
fn the_last_of_several_children_crowds_a_feed_that_is_three_quarters_full_if_all_was_sent_lately() {
    let mut stream = origin(&lanes(), 64);
    assert_eq!(stream.blocked_by(at(1)), None, "nothing has been sent");
    for cursor in [32, 64] {
        send_all(&mut stream);
        acknowledge(&mut stream, at(1), 1, cursor, 0, 0);
    }
    send_all(&mut stream);
    assert_eq!(stream.blocked_by(at(2)), Some(Rank(2)));
    assert_eq!(
        stream.blocked_by(at(252)),
        None,
        "by now it is the link that is busy"
    );
    acknowledge(&mut stream, at(2), 2, 16, 0, 0);
    assert_eq!(stream.blocked_by(at(2)), Some(Rank(2)));
}

#[test]
fn frames_that_came_before_that_do_not_fit_and_that_there_is_no_room_for_are_counted() {
    let tuning = Tuning::default().with_feed_frames(64);
    let mut stream = Stream::receiver(
        identity(2),
        PAYLOAD.len(),
        peer(0),
        &Outlet::Lanes(Vec::new()),
        tuning,
    );
    let data = |sequence| Header {
        sequence,
        stamp: 1000,
        ..identity(0).header(Kind::DATA)
    };
    for sequence in [0, 0, 0, 64, 65, 66] {
        notify(&mut stream, at(1), 0, data(sequence), &PAYLOAD);
    }
    notify(&mut stream, at(1), 0, data(1), &[0; 101]);
    notify(&mut stream, at(1), 0, data(1), &[0; 101]);
    notify(&mut stream, at(1), 5, data(1), &PAYLOAD);
    notify(&mut stream, at(1), 5, data(1), &PAYLOAD);
    let stats = stream.stats();
    assert_eq!(
        (stats.data_received, stats.duplicates, stats.beyond_credit),
        (1, 2, 3),
        "{stats:?}"
    );
    assert_eq!((stats.malformed, stats.non_members), (2, 2), "{stats:?}");
}

const SLOTS: u64 = 256;
const BLOCK_FRAMES: u64 = 16;
const REPORT_BYTES: usize = 1000;

fn root() -> Stream {
    let outlet = Outlet::Cast {
        group: group_mac("test"),
        listeners: [1, 2].map(peer).to_vec(),
    };
    let tuning = Tuning::default().with_feed_frames(SLOTS);
    let mut stream = Stream::origin(identity(0), PAYLOAD.len(), &outlet, tuning);
    (0..SLOTS).for_each(|_| assert!(stream.push(&PAYLOAD, Ending::None), "there is room"));
    stream
}

/// Reports from two receivers, which have each lost every second frame, with none in common.
fn report(stream: &mut Stream, now: Instant, echo: u32) {
    for (from, cursor) in [(1, 0), (2, 1)] {
        let mut body = [0x55; AckBody::BYTES + REPORT_BYTES];
        let length = AckBody {
            limit: SLOTS,
            below: 0,
            consumed: 0,
            held_us: 0,
        }
        .write(cursor, &mut body, REPORT_BYTES);
        let header = Header {
            sequence: cursor,
            stamp: echo,
            ..identity(from).header(Kind::ACK)
        };
        notify(stream, now, from, header, &body[..length]);
    }
}

#[test]
fn losses_reported_for_ever_bring_all_parity_of_a_block_once_and_no_more() {
    let mut stream = root();
    let (mut echo, mut sent) = (0, Vec::new());
    for round in 0..2000 {
        while let Some((header, _)) = next(&mut stream, at(1 + round * 2000)) {
            sent.push(header);
            echo = header.stamp;
        }
        report(&mut stream, at(1000 + round * 2000), echo);
    }
    let parity: Vec<Parity> = sent
        .iter()
        .filter(|header| header.kind == Kind::PARITY)
        .filter_map(Parity::of)
        .collect();
    let different: BTreeSet<u64> = parity.iter().map(Parity::sequence).collect();
    assert!(
        parity
            .iter()
            .all(|parity| parity.frames().end - parity.frames().start == BLOCK_FRAMES)
    );
    assert_eq!(different.len(), parity.len(), "none goes twice");
    let whole = different
        .iter()
        .filter(|&&sequence| sequence < BLOCK_FRAMES)
        .count() as u64;
    assert!(
        (BLOCK_FRAMES / 2..=BLOCK_FRAMES).contains(&whole),
        "of the first block, half of which is lost: {whole}"
    );
}

#[test]
fn parity_that_is_asked_for_leaves_new_frames_their_share() {
    let mut stream = root();
    let (mut echo, credit) = (
        0,
        AckBody {
            limit: SLOTS,
            below: 0,
            consumed: 0,
            held_us: 0,
        },
    );
    for from in [1, 2] {
        let mut body = [0; AckBody::BYTES];
        let length = credit.write(0, &mut body, 0);
        notify(
            &mut stream,
            at(1),
            from,
            identity(from).header(Kind::ACK),
            &body[..length],
        );
    }
    for _ in 0..SLOTS / 2 {
        echo = next(&mut stream, at(1)).expect("there is credit").0.stamp;
    }
    report(&mut stream, at(1000), echo);
    let (mut new, mut others) = (0, 0);
    while new < SLOTS / 2 {
        // Later than any report would have come.
        let (header, _) = next(&mut stream, at(100_000)).expect("there are new frames");
        let is_new = header.kind == Kind::DATA && header.sequence >= SLOTS / 2;
        *(if is_new { &mut new } else { &mut others }) += 1;
    }
    let share = new * Tuning::default().cast.repair_percent / 100;
    assert!(
        (1..=share + 32).contains(&others),
        "{others} others beside {new} new frames"
    );
}

/// The tail stands in the middle of a block when repair children of a complete receiver are
/// adopted. Frames pushed meanwhile take the slots of the block's first frames, which are not
/// needed.
#[test]
fn no_parity_is_made_of_freed_frames() {
    const SENT: u64 = 32;
    let outlet = Outlet::Cast {
        group: group_mac("test"),
        listeners: vec![peer(1)],
    };
    let mut stream = Stream::origin(
        identity(0),
        PAYLOAD.len(),
        &outlet,
        Tuning::default().with_feed_frames(SLOTS),
    );
    (0..SENT).for_each(|_| assert!(stream.push(&PAYLOAD, Ending::None), "there is room"));
    let (mut echo, mut parity) = (0, 0);
    // Bits are frames from the one after the cursor on.
    let ack = |stream: &mut Stream, now, echo, from, cursor, below, bitmap: u32| {
        let mut body = [0; AckBody::BYTES + 4];
        body[AckBody::BYTES..].copy_from_slice(&bitmap.to_le_bytes());
        let length = AckBody {
            limit: 2 * SLOTS,
            below,
            consumed: 0,
            held_us: 0,
        }
        .write(cursor, &mut body, 4);
        let header = Header {
            sequence: cursor,
            stamp: echo,
            ..identity(from).header(Kind::ACK)
        };
        notify(stream, at(now), from, header, &body[..length]);
    };
    while let Some((header, _)) = next(&mut stream, at(1)) {
        echo = header.stamp;
    }
    ack(&mut stream, 1000, echo, 1, SENT, 5, 0);
    assert_eq!(
        stream.feed().tail(),
        5,
        "for the wards, who acknowledge to 1"
    );
    [2, 3]
        .into_iter()
        .for_each(|ward| stream.graft_child(at(1000), peer(ward)));
    stream.remove_reader(at(1000), peer(1).rank);
    while let Some((header, _)) = next(&mut stream, at(2000)) {
        echo = header.stamp;
    }
    ack(&mut stream, 3000, echo, 2, 6, 6, !0b10);
    ack(&mut stream, 3000, echo, 3, 7, 7, !0b10);
    for round in 0..4000 {
        let now = 3000 + 10 * round;
        while let Some((header, _)) = next(&mut stream, at(now)) {
            let of_first = Parity::of(&header).is_some_and(|parity| parity.frames().start == 0);
            parity += u64::from(of_first);
            assert!(
                !of_first || !stream.feed().has(SLOTS),
                "parity of a block of which frames are gone"
            );
            if of_first {
                while stream.push(&PAYLOAD, Ending::None) {}
                assert!(stream.feed().has(SLOTS + 4), "the slot of frame 4");
            }
        }
    }
    assert_eq!(parity, 1, "the first of two");
}
