//! Tests of a relay that lacks frames: it forwards the others, and reports what delays it.

use crate::common::{identity, peer};
use crate::details::{next, notify};
use crate::hosts::at;
use ethbcast_transport::stream::{Outlet, Stream};
use ethbcast_transport::wire::{AckBody, Flags, Header, Kind, Rank};
use ethbcast_transport::{Instant, Part, Tuning};
use std::time::Duration;

const CHILD: usize = 2;
const PAYLOAD: [u8; 100] = [5; 100];

fn relay(children: &[usize]) -> Stream {
    let outlet = Outlet::Lanes(children.iter().copied().map(peer).collect());
    Stream::receiver(identity(1), PAYLOAD.len(), peer(0), &outlet, Tuning::default().with_feed_frames(64))
}

fn data(relay: &mut Stream, now: Instant, frames: impl IntoIterator<Item = u64>, flags: Flags) {
    for sequence in frames {
        let header = Header { sequence, flags, stamp: now.as_micros() as u32, ..identity(0).header(Kind::DATA) };
        notify(relay, now, 0, header, &PAYLOAD);
    }
}

fn acknowledge(relay: &mut Stream, now: Instant, cursor: u64, limit: u64, echo: u32, bits: &[u8]) {
    let mut bytes = vec![0; AckBody::BYTES + bits.len()];
    let body = AckBody { limit, below: cursor, consumed: cursor, held_us: 0 };
    let length = body.write(cursor, &mut bytes, bits.len());
    bytes[AckBody::BYTES..].copy_from_slice(bits);
    let header = Header { sequence: cursor, stamp: echo, ..identity(CHILD).header(Kind::ACK) };
    notify(relay, now, CHILD, header, &bytes[..length]);
}

fn sent(relay: &mut Stream, now: Instant) -> Vec<(Kind, u64, u32)> {
    let headers = std::iter::from_fn(|| next(relay, now).map(|(header, _)| header));
    headers
        .filter(|header| header.kind != Kind::ACK)
        .map(|header| (header.kind, header.sequence, header.stamp))
        .collect()
}

fn numbers(sent: &[(Kind, u64, u32)]) -> Vec<u64> {
    sent.iter().map(|&(_, sequence, _)| sequence).collect()
}

/// Returns the number of probes of the child in this time; its replies are all equal.
fn questions(relay: &mut Stream, (from, lasts): (Instant, Duration), answer: (u64, u64, &[u8])) -> usize {
    let (mut now, mut questions) = (from, 0);
    while now.since(from) < lasts {
        now += Duration::from_millis(1);
        relay.handle_timeout(now);
        for (kind, _, stamp) in sent(relay, now) {
            assert_eq!(kind, Kind::HEARTBEAT);
            questions += 1;
            acknowledge(relay, now, answer.0, answer.1, stamp, answer.2);
        }
    }
    questions
}

#[test]
fn a_relay_skips_missing_frames_and_sends_them_first_when_they_arrive() {
    let mut relay = relay(&[CHILD]);
    data(&mut relay, at(1), [0, 1, 4, 5], Flags::default());
    assert_eq!(numbers(&sent(&mut relay, at(1))), [0, 1, 4, 5]);
    data(&mut relay, at(2), [3, 6], Flags::default());
    assert_eq!(numbers(&sent(&mut relay, at(2))), [3, 6]);
    data(&mut relay, at(3), [2], Flags::default());
    assert_eq!(numbers(&sent(&mut relay, at(3))), [2]);
    assert_eq!((relay.stats().data_sent, relay.stats().data_resent), (7, 0));
}

/// A stream whose end only its last frame reveals can end before frames that seemed to have come.
#[test]
fn frames_that_never_existed_are_not_sent() {
    let mut relay = relay(&[CHILD]);
    data(&mut relay, at(1), [0, 5], Flags::default());
    assert_eq!(numbers(&sent(&mut relay, at(1))), [0, 5]);
    data(&mut relay, at(2), [4], Flags::default());
    data(&mut relay, at(2), [2, 2], Flags::LAST);
    assert_eq!(numbers(&sent(&mut relay, at(2))), [2], "4 lies behind the end");
    data(&mut relay, at(3), [1], Flags::default());
    let newest = sent(&mut relay, at(3));
    assert_eq!(numbers(&newest), [1]);
    acknowledge(&mut relay, at(4), 3, 60, newest[0].2, &[]);
    assert!(relay.is_settled() && relay.held_up_by().is_none());
}

/// The relay itself lacks what the child does.
#[test]
fn a_child_that_has_all_that_is_here_is_not_asked_and_holds_up_nobody() {
    // It has no more room; it has the end of a message before its middle; or it was grafted, and
    // has as much as its new parent.
    let full = [0xFF, 0xFF, 0xFF, 0x3F];
    for (frames, flags, limit, bits) in
        [(2..40, Flags::default(), 32, &full[..]), (2..3, Flags::FLUSH.with(Flags::REPORT), 65, &[1])]
    {
        let mut relay = relay(&[CHILD]);
        data(&mut relay, at(1), [0], Flags::default());
        data(&mut relay, at(1), frames, flags);
        relay.consume(at(1));
        let newest = sent(&mut relay, at(2)).last().expect("frames go").2;
        acknowledge(&mut relay, at(3), 1, limit, newest, bits);
        assert_eq!(relay.held_up_by(), None, "{bits:?}");
        let asked = questions(&mut relay, (at(3), Duration::from_secs(1)), (1, limit, bits));
        assert_eq!((asked, relay.held_up_by()), (0, None), "{bits:?}");
    }
    let mut relay = relay(&[]);
    data(&mut relay, at(1), [0, 2], Flags::default());
    relay.graft_child(at(1), peer(CHILD));
    let asked = sent(&mut relay, at(2));
    acknowledge(&mut relay, at(3), 1, 65, asked[0].2, &[1]);
    assert_eq!(questions(&mut relay, (at(3), Duration::from_secs(1)), (1, 65, &[1])), 0);
    assert_eq!(relay.held_up_by(), None);
    data(&mut relay, at(2000), [1], Flags::default());
    assert_eq!(numbers(&sent(&mut relay, at(2000))), [1]);
    assert_eq!(relay.stats().data_resent, 0);
}

#[test]
fn a_child_that_needs_what_is_gone_is_asked_also_while_something_is_lacking_here() {
    let mut relay = relay(&[]);
    data(&mut relay, at(1), 0..10, Flags::default());
    while relay.peek().is_some() {
        relay.consume(at(1));
    }
    relay.graft_child(at(1), peer(CHILD));
    data(&mut relay, at(1), [10, 12, 13], Flags::default());
    let asked = sent(&mut relay, at(2)).last().expect("it is asked").2;
    acknowledge(&mut relay, at(3), 6, 70, asked, &[]);
    let newest = sent(&mut relay, at(3)).last().expect("it is served").2;
    let bits = &[0b0110_1000][..];
    acknowledge(&mut relay, at(4), 6, 70, newest, bits);
    assert!(relay.take_orphans().iter().any(|orphan| orphan.rank == Rank(CHILD as u16)));
    let asked = questions(&mut relay, (at(4), Duration::from_secs(3)), (6, 70, bits));
    assert!((5..100).contains(&asked), "asked {asked} times");
}

/// The child hears the frames from the root, so that its acknowledgements to this host all echo one stamp.
#[test]
fn an_old_acknowledgement_of_a_repair_child_takes_back_no_frame() {
    let outlet = Outlet::RepairChildren(vec![peer(CHILD)]);
    let mut parent = Stream::receiver(identity(1), PAYLOAD.len(), peer(0), &outlet, Tuning::default());
    data(&mut parent, at(1), 0..6, Flags::default());
    let (old, new) = (&[0b101][..], &[0b111][..]);
    let repairs = |parent: &mut Stream, now: Instant| -> Vec<u64> {
        let all = sent(parent, now);
        all.iter().filter(|(kind, ..)| *kind == Kind::DATA).map(|&(_, sequence, _)| sequence).collect()
    };
    acknowledge(&mut parent, at(2), 2, 60, 0, old);
    parent.handle_timeout(at(100));
    assert_eq!(repairs(&mut parent, at(100)), [2, 4]);
    for bits in [new, old] {
        acknowledge(&mut parent, at(101), 2, 60, 0, bits);
        parent.handle_timeout(at(200));
        assert_eq!(repairs(&mut parent, at(200)), [], "nothing proves that a repair is lost: {bits:?}");
    }
}
