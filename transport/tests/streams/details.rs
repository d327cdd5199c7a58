//! Tests of one stream at one host, frame by frame. They cover details that simulations of many
//! hosts do not reveal, and runs of consecutive frames that an application reads.

use crate::common::guard::guard;
use crate::common::key::{self, parse};
use crate::common::{identity, peer};
use crate::hosts::at;
use ethbcast_transport::sim::host_mac;
use ethbcast_transport::stream::{Ending, Outlet, Run, Stream};
use ethbcast_transport::wire::{
    AckBody, EtherType, EthernetHeader, Flags, Header, Kind, MacAddr, Rank, group_mac,
};
use ethbcast_transport::{Instant, Part, Tuning};
use std::time::Duration;

pub const PAYLOAD: [u8; 100] = [5; 100];

pub fn origin(outlet: &Outlet, frames: usize) -> Stream {
    let mut stream = Stream::origin(
        identity(0),
        PAYLOAD.len(),
        outlet,
        Tuning::default().with_feed_frames(64),
    );
    (0..frames).for_each(|_| assert!(stream.push(&PAYLOAD, Ending::None), "there is room"));
    stream
}

fn two_lanes() -> Outlet {
    Outlet::Lanes(vec![peer(1), peer(2)])
}

pub fn next(stream: &mut Stream, now: Instant) -> Option<(Header, MacAddr)> {
    let mut buffer = [0; 2000];
    let length = stream.poll_transmit(now, &mut buffer)?;
    let to = MacAddr::new(
        buffer[0], buffer[1], buffer[2], buffer[3], buffer[4], buffer[5],
    );
    Some((
        parse(&buffer[..length])
            .expect("a stream writes frames")
            .header,
        to,
    ))
}

pub fn notify(stream: &mut Stream, now: Instant, from: usize, header: Header, body: &[u8]) {
    let ether_type = EtherType::DEFAULT;
    let link = EthernetHeader {
        source: host_mac(from),
        destination: host_mac(0),
        ether_type,
    };
    stream.handle_frame(
        now,
        &parse(&key::sealed(link, &header, body)).expect("it is one"),
    );
}

/// Acknowledges everything below `cursor`, and beyond it the frames in the bits of `beyond`.
pub fn acknowledge(
    stream: &mut Stream,
    now: Instant,
    from: usize,
    cursor: u64,
    echo: u32,
    beyond: u8,
) {
    let mut body = [0; AckBody::BYTES + 1];
    let ack = AckBody {
        limit: cursor + 64,
        below: cursor,
        consumed: cursor,
        held_us: 0,
    };
    let length = ack.write(cursor, &mut body, 1);
    body[AckBody::BYTES] = beyond;
    let header = Header {
        sequence: cursor,
        stamp: echo,
        ..identity(from).header(Kind::ACK)
    };
    notify(stream, now, from, header, &body[..length]);
}

#[test]
fn frames_carry_the_number_of_the_view() {
    let mut stream = origin(&two_lanes(), 1);
    stream.set_epoch(9);
    assert_eq!(
        next(&mut stream, at(1)).map(|(header, _)| header.epoch),
        Some(9)
    );
}

#[test]
fn children_take_turns_and_the_stream_knows_how_far_the_last_of_them_is() {
    let mut stream = origin(&two_lanes(), 3);
    let mut receivers = Vec::new();
    while let Some((header, to)) = next(&mut stream, at(1)) {
        receivers.push((header.sequence, to));
        assert_eq!(stream.sending().1, receivers.len() as u64 / 2);
    }
    let turns = (0..3).flat_map(|sequence| [(sequence, host_mac(1)), (sequence, host_mac(2))]);
    assert!(receivers.iter().copied().eq(turns), "{receivers:?}");
}

#[test]
fn a_child_whose_turn_has_not_come_is_distinguished_from_one_that_owes_a_reply() {
    let mut stream = origin(&two_lanes(), 3);
    let turns = |stream: &Stream| [1, 2, 3].map(|rank| stream.turn_of(Rank(rank)));
    assert_eq!(
        turns(&stream),
        [Some(0), Some(0), None],
        "the third is no child"
    );
    assert!(next(&mut stream, at(1)).is_some());
    assert_eq!(turns(&stream), [None, Some(0), None]);
    acknowledge(&mut stream, at(2), 1, 1, 0, 0);
    assert_eq!(turns(&stream), [Some(1), Some(0), None]);
    while next(&mut stream, at(3)).is_some() {}
    assert_eq!(turns(&stream), [None; 3]);
}

#[test]
fn received_frames_are_counted_by_sender() {
    let mut stream = origin(&two_lanes(), 2);
    while next(&mut stream, at(1)).is_some() {}
    acknowledge(&mut stream, at(2), 1, 1, 0, 0);
    acknowledge(&mut stream, at(2), 2, 1, 0, 0);
    acknowledge(&mut stream, at(2), 3, 1, 0, 0);
    let stats = stream.stats();
    assert_eq!(
        (stats.acks_received, stats.non_members, stats.forged_acks),
        (2, 1, 0)
    );
    acknowledge(&mut stream, at(2), 1, 9, 0, 0);
    assert_eq!(stream.stats().forged_acks, 1);
    notify(&mut stream, at(2), 1, identity(1).header(Kind::ACK), &[]);
    assert_eq!(stream.stats().malformed, 1);
    let mut receiver = receiver();
    let heartbeat = |from: usize| Header {
        stamp: 5,
        ..identity(from).header(Kind::HEARTBEAT)
    };
    [0, 1, 1]
        .into_iter()
        .for_each(|from| notify(&mut receiver, at(1), from, heartbeat(from), &[]));
    assert_eq!(
        (
            receiver.stats().heartbeats_received,
            receiver.stats().non_members
        ),
        (1, 2)
    );
}

fn receiver() -> Stream {
    let tuning = Tuning::default().with_feed_frames(64);
    Stream::receiver(
        identity(2),
        PAYLOAD.len(),
        peer(0),
        &Outlet::Lanes(Vec::new()),
        tuning,
    )
}

fn take(stream: &mut Stream, sequence: u64, flags: Flags) -> Option<Instant> {
    let header = Header {
        sequence,
        flags,
        stamp: 1000 + sequence as u32,
        ..identity(0).header(Kind::DATA)
    };
    notify(stream, at(1), 0, header, &PAYLOAD);
    stream.consume(at(1));
    let due = stream
        .poll_timeout(at(1))
        .expect("an acknowledgement is owed")
        .at;
    stream.handle_timeout(due);
    while next(stream, due).is_some() {}
    stream
        .poll_timeout(due)
        .map(|deadline| Instant::START + deadline.at.since(due))
}

#[test]
fn a_receiver_in_the_middle_of_a_message_reports_its_position_unasked_and_a_complete_one_does_not()
{
    let mut stream = receiver();
    let ack = Tuning::default().ack;
    let silence = if guard().is_keyed() {
        ack.delay * 4 + ack.gap_delay
    } else {
        Duration::from_secs(1)
    };
    let reminds_after = Instant::START + silence;
    assert_eq!(take(&mut stream, 0, Flags::default()), Some(reminds_after));
    assert_eq!(take(&mut stream, 1, Flags::FLUSH), None);
    assert_eq!(take(&mut stream, 2, Flags::default()), Some(reminds_after));
    assert_eq!(take(&mut stream, 3, Flags::LAST), None);
}

#[test]
fn the_reminder_comes_less_and_less_often_up_to_every_sixteen_seconds() {
    let mut stream = receiver();
    take(&mut stream, 0, Flags::default());
    let mut waits = Vec::new();
    let mut now = at(1);
    for _ in 0..20 {
        let due = stream.poll_timeout(now).expect("it goes on").at;
        waits.push(due.since(now).as_millis().div_ceil(1000));
        stream.handle_timeout(due);
        assert_eq!(
            next(&mut stream, due).map(|(header, _)| header.kind),
            Some(Kind::ACK)
        );
        now = due;
    }
    assert!(waits[1..].is_sorted() && waits[19] == 16, "{waits:?}");
}

#[test]
fn a_repair_for_one_listener_of_a_cast_waits_a_moment_for_others_with_the_same_loss() {
    let outlet = Outlet::Cast {
        group: group_mac("test"),
        listeners: vec![peer(1), peer(2)],
    };
    let mut stream = origin(&outlet, 3);
    let mut stamps = Vec::new();
    for ms in 1..=3 {
        stamps.push(next(&mut stream, at(ms)).expect("there is credit").0.stamp);
    }
    // The second has all, the first lacks the frame in the middle.
    acknowledge(&mut stream, at(4), 2, 3, stamps[2], 0);
    acknowledge(&mut stream, at(4), 1, 1, stamps[2], 1);
    assert_eq!(next(&mut stream, at(4)), None);
    let hold = Tuning::default().cast.repair_hold;
    let due = stream.poll_timeout(at(4)).expect("a repair waits").at;
    assert_eq!(due.since(at(4)), hold);
    let (repair, to) = next(&mut stream, due).expect("nobody else has lost it");
    assert_eq!(
        (repair.sequence, to, repair.flags.has(Flags::RESENT)),
        (1, host_mac(1), true)
    );
}

#[test]
fn a_receiver_that_used_up_its_credit_announces_new_credit_at_once() {
    let mut stream = receiver();
    for sequence in 0..64 {
        let header = Header {
            sequence,
            stamp: 1000,
            ..identity(0).header(Kind::DATA)
        };
        notify(&mut stream, at(1), 0, header, &PAYLOAD);
    }
    while next(&mut stream, at(1)).is_some() {}
    let due = stream
        .poll_timeout(at(1))
        .map_or(at(2), |deadline| deadline.at);
    stream.handle_timeout(due);
    while next(&mut stream, due).is_some() {}
    stream.consume(due);
    let due_again = stream.poll_timeout(due).expect("it has to say so").at;
    assert!(
        due_again < due + Duration::from_millis(1),
        "{:?}",
        due_again.since(due)
    );
}

#[test]
fn frames_in_flight_are_urgent_until_consumed_and_the_middle_of_a_long_message_is_not() {
    let mut stream = origin(&Outlet::Lanes(vec![peer(1)]), 0);
    for frame in 0..64 {
        assert!(
            stream.push(
                &PAYLOAD,
                if frame == 9 {
                    Ending::Message
                } else {
                    Ending::None
                }
            ),
            "there is room"
        );
    }
    let mut now = at(1);
    for cursor in [32, 64] {
        while next(&mut stream, now).is_some() {}
        assert!(stream.is_urgent(), "{cursor}");
        now += Duration::from_millis(1);
        acknowledge(
            &mut stream,
            now,
            1,
            cursor,
            (now.as_micros() - 1000) as u32,
            0,
        );
    }
    (64..74).for_each(|_| assert!(stream.push(&PAYLOAD, Ending::None), "there is room"));
    while next(&mut stream, now).is_some() {}
    assert!(stream.is_urgent(), "all of it is under way");
    acknowledge(&mut stream, now, 1, 74, 0, 0);
    assert_eq!((stream.consumed(), stream.is_urgent()), (74, false));
}

#[test]
fn no_more_is_on_its_way_to_a_child_than_its_window() {
    let mut tuning = Tuning::default().with_feed_frames(64);
    (
        tuning.window.start_frames,
        tuning.window.min_frames,
        tuning.window.max_frames,
    ) = (4, 4, 4);
    let mut stream = Stream::origin(
        identity(0),
        PAYLOAD.len(),
        &Outlet::Lanes(vec![peer(1)]),
        tuning,
    );
    (0..64).for_each(|_| assert!(stream.push(&PAYLOAD, Ending::None), "there is room"));
    for cursor in [0, 1, 4, 8] {
        if cursor > 0 {
            acknowledge(&mut stream, at(1), 1, cursor, 0, 0);
        }
        while next(&mut stream, at(1)).is_some() {}
        assert_eq!(stream.sending().1, cursor + 4);
    }
}

#[test]
fn a_gap_is_reported_once_and_counted() {
    let mut stream = receiver();
    for sequence in [0, 2] {
        let header = Header {
            sequence,
            stamp: 1000 + sequence as u32,
            ..identity(0).header(Kind::DATA)
        };
        notify(&mut stream, at(1), 0, header, &PAYLOAD);
    }
    while let Some(due) = stream
        .poll_timeout(at(1))
        .map(|deadline| deadline.at)
        .filter(|&due| due < at(900))
    {
        stream.handle_timeout(due);
        while next(&mut stream, due).is_some() {}
    }
    assert_eq!(stream.stats().nacks_sent, 1);
}

fn leaf() -> Stream {
    let none = Outlet::Lanes(Vec::new());
    Stream::receiver(
        identity(1),
        2,
        peer(0),
        &none,
        Tuning::default().with_feed_frames(64),
    )
}

/// Delivers frame `sequence`; its payload is its number twice, or once if a message ends with it.
fn come(leaf: &mut Stream, sequence: u64, flags: Flags) {
    let header = Header {
        sequence,
        flags,
        stamp: 1,
        ..identity(0).header(Kind::DATA)
    };
    let payload = [sequence as u8; 2];
    notify(
        leaf,
        at(1),
        0,
        header,
        &payload[usize::from(flags != Flags::default())..],
    );
}

fn shown(leaf: &mut Stream, most: u64) -> Vec<(u64, u8, u8, Ending)> {
    let mut runs = Vec::new();
    while let Some(Run {
        bytes,
        frames,
        ending,
    }) = leaf.peek_run(most)
    {
        runs.push((frames, bytes[0], bytes[bytes.len() - 1], ending));
        assert_eq!(leaf.consume_run(at(2), frames), ending);
    }
    runs
}

#[test]
fn a_run_goes_up_to_what_is_lacking_the_end_of_a_message_and_the_edge_of_the_feed() {
    let mut leaf = leaf();
    (0..10)
        .filter(|&sequence| sequence != 7)
        .for_each(|sequence| {
            let flags = if sequence == 4 {
                Flags::FLUSH.with(Flags::REPORT)
            } else {
                Flags::default()
            };
            come(&mut leaf, sequence, flags);
        });
    let runs = shown(&mut leaf, u64::MAX);
    assert_eq!(
        runs,
        [
            (4, 0, 3, Ending::None),
            (1, 4, 4, Ending::Message),
            (2, 5, 6, Ending::None)
        ]
    );
    (7..60).for_each(|sequence| come(&mut leaf, sequence, Flags::default()));
    let runs = shown(&mut leaf, u64::MAX);
    assert_eq!(
        runs.iter().map(|run| run.0).collect::<Vec<_>>(),
        [16, 16, 16, 5],
        "no more at a time"
    );
    assert_eq!((runs[0].1, runs[3].2), (7, 59));
    (60..70).for_each(|sequence| come(&mut leaf, sequence, Flags::default()));
    come(&mut leaf, 70, Flags::LAST);
    let runs = shown(&mut leaf, u64::MAX);
    assert_eq!(
        runs,
        [
            (4, 60, 63, Ending::None),
            (6, 64, 69, Ending::None),
            (1, 70, 70, Ending::Stream)
        ]
    );
    assert_eq!(
        (leaf.consumed(), leaf.backlog_frames(), leaf.peek_run(1)),
        (71, 0, None)
    );
}

#[test]
fn a_frame_in_two_pieces_is_the_frame_in_one() {
    let outlet = Outlet::Lanes(vec![peer(1)]);
    let (mut whole, mut split) = (origin(&outlet, 3), origin(&outlet, 3));
    let (mut one, mut two) = ([0xaa; 2000], [0x55; 2000]);
    let mut frames = 0;
    while let Some(length) = whole.poll_transmit(at(1), &mut one) {
        let frame = split
            .poll_transmit_split(at(1), &mut two)
            .expect("the same");
        let kept = frame.kept.expect("the feed has the payload");
        assert_eq!(
            (frame.bytes(), kept.sequence, kept.stream),
            (length, frames, identity(0).stream.0)
        );
        two[frame.written_bytes..length].copy_from_slice(split.payload(kept));
        assert_eq!(one[..length], two[..length]);
        assert_eq!(
            parse(&two[..length]).expect("sealed").header.rank,
            Rank::ROOT
        );
        frames += 1;
    }
    assert_eq!(
        (frames, split.poll_transmit_split(at(1), &mut two)),
        (3, None)
    );
}

#[test]
fn bulk_is_waited_for_near_an_end_that_the_application_knows() {
    let mut leaf = leaf();
    let mut urgent_after = |frames: std::ops::Range<u64>, end: Option<u64>| {
        frames.for_each(|sequence| {
            come(&mut leaf, sequence, Flags::default());
            shown(&mut leaf, u64::MAX);
        });
        end.into_iter().for_each(|end| leaf.expect_message_end(end));
        leaf.is_urgent()
    };
    assert!(urgent_after(0..63, None), "the beginning of a message");
    assert!(!urgent_after(63..64, None), "bulk");
    assert!(!urgent_after(64..100, Some(200)), "whose end is far");
    assert!(!urgent_after(100..136, None));
    assert!(urgent_after(136..137, None), "63 frames are lacking");
    assert!(urgent_after(137..199, None));
    assert!(
        !urgent_after(199..210, None),
        "and who expected less than comes is patient again"
    );
}
