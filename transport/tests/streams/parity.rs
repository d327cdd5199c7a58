//! Tests of the parity that a sender adds while reports of losses never end.

use crate::common::{identity, peer};
use crate::details::{PAYLOAD, next, notify};
use crate::hosts::at;
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{AckBody, Header, Kind, Parity, group_mac};
use ethbcast_transport::{Instant, Tuning};
use std::collections::BTreeSet;

const SLOTS: u64 = 256;
const BLOCK_FRAMES: u64 = 16;
const REPORT_BYTES: usize = 1000;

fn root() -> Stream {
    let outlet = Outlet::Cast { group: group_mac("test"), listeners: [1, 2].map(peer).to_vec() };
    let tuning = Tuning::default().with_feed_frames(SLOTS);
    let mut stream = Stream::origin(identity(0), PAYLOAD.len(), &outlet, tuning);
    (0..SLOTS).for_each(|_| assert!(stream.push(&PAYLOAD, Ending::None), "there is room"));
    stream
}

/// Reports from two receivers, which have each lost every second frame, with none in common.
fn report(stream: &mut Stream, now: Instant, echo: u32) {
    for (from, cursor) in [(1, 0), (2, 1)] {
        let mut body = [0x55; AckBody::BYTES + REPORT_BYTES];
        let length = AckBody { limit: SLOTS, below: 0, consumed: 0, held_us: 0 }.write(cursor, &mut body, REPORT_BYTES);
        let header = Header { sequence: cursor, stamp: echo, ..identity(from).header(Kind::ACK) };
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
    let parity: Vec<Parity> = sent.iter().filter(|header| header.kind == Kind::PARITY).filter_map(Parity::of).collect();
    let different: BTreeSet<u64> = parity.iter().map(Parity::sequence).collect();
    assert!(parity.iter().all(|parity| parity.frames().end - parity.frames().start == BLOCK_FRAMES));
    assert_eq!(different.len(), parity.len(), "none goes twice");
    let whole = different.iter().filter(|&&sequence| sequence < BLOCK_FRAMES).count() as u64;
    assert!((BLOCK_FRAMES / 2..=BLOCK_FRAMES).contains(&whole), "of the first block, half of which is lost: {whole}");
}

#[test]
fn parity_that_is_asked_for_leaves_new_frames_their_share() {
    let mut stream = root();
    let (mut echo, credit) = (0, AckBody { limit: SLOTS, below: 0, consumed: 0, held_us: 0 });
    for from in [1, 2] {
        let mut body = [0; AckBody::BYTES];
        let length = credit.write(0, &mut body, 0);
        notify(&mut stream, at(1), from, identity(from).header(Kind::ACK), &body[..length]);
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
    assert!((1..=share + 32).contains(&others), "{others} others beside {new} new frames");
}

/// The tail stands in the middle of a block when repair children of a complete receiver are
/// adopted. Frames pushed meanwhile take the slots of the block's first frames, which are not
/// needed.
#[test]
fn no_parity_is_made_of_freed_frames() {
    const SENT: u64 = 32;
    let outlet = Outlet::Cast { group: group_mac("test"), listeners: vec![peer(1)] };
    let mut stream = Stream::origin(identity(0), PAYLOAD.len(), &outlet, Tuning::default().with_feed_frames(SLOTS));
    (0..SENT).for_each(|_| assert!(stream.push(&PAYLOAD, Ending::None), "there is room"));
    let (mut echo, mut parity) = (0, 0);
    // Bits are frames from the one after the cursor on.
    let ack = |stream: &mut Stream, now, echo, from, cursor, below, bitmap: u32| {
        let mut body = [0; AckBody::BYTES + 4];
        body[AckBody::BYTES..].copy_from_slice(&bitmap.to_le_bytes());
        let length = AckBody { limit: 2 * SLOTS, below, consumed: 0, held_us: 0 }.write(cursor, &mut body, 4);
        let header = Header { sequence: cursor, stamp: echo, ..identity(from).header(Kind::ACK) };
        notify(stream, at(now), from, header, &body[..length]);
    };
    while let Some((header, _)) = next(&mut stream, at(1)) {
        echo = header.stamp;
    }
    ack(&mut stream, 1000, echo, 1, SENT, 5, 0);
    assert_eq!(stream.feed().tail(), 5, "for the wards, who acknowledge to 1");
    [2, 3].into_iter().for_each(|ward| stream.graft_child(at(1000), peer(ward)));
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
            assert!(!of_first || !stream.feed().has(SLOTS), "parity of a block of which frames are gone");
            if of_first {
                while stream.push(&PAYLOAD, Ending::None) {}
                assert!(stream.feed().has(SLOTS + 4), "the slot of frame 4");
            }
        }
    }
    assert_eq!(parity, 1, "the first of two");
}
