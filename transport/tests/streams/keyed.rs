//! Tests of streams protected by a key: frames without it have no effect, and relays forward frames unchanged.

use crate::common::guard::guard;
use crate::common::{self, identity, key, peer};
use crate::hosts::at;
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{
    EtherType, EthernetHeader, Frame, Guard, Header, Identity, Kind, PayloadHash, Peer, Reject, parse_headers,
};
use ethbcast_transport::{Alone, Instant, Machine, Part, Tuning};

fn keyed(key: u8) -> Guard {
    Guard::keyed(&[key; 32], &[!key; 32], PayloadHash::Polyval)
}

/// A root that has pushed three frames to its child, and the child.
fn pair() -> [Alone<Stream>; 2] {
    let identity = |host| Identity { guard: keyed(1), ..common::identity(host) };
    let tuning = Tuning::default().with_feed_frames(64);
    let mut root = Stream::origin(identity(0), 100, &Outlet::Lanes(vec![peer(1)]), tuning.clone());
    (0..3).for_each(|number| assert!(root.push(&[number; 90], Ending::None), "there is room"));
    let leaf = Stream::receiver(identity(1), 100, peer(0), &Outlet::Lanes(Vec::new()), tuning);
    [root, leaf].map(|stream| Alone::guarded(stream, keyed(1)))
}

fn sent(machine: &mut Alone<Stream>, now: Instant) -> Vec<Vec<u8>> {
    let mut buffer = [0; 300];
    std::iter::from_fn(|| machine.poll_transmit(now, &mut buffer).map(|length| buffer[..length].to_vec())).collect()
}

fn sealed_again(frame: &[u8], guard: &Guard, change: impl Fn(Header) -> Header) -> Vec<u8> {
    let (frame, _) = parse_headers(frame).expect("its headers are there");
    let link = EthernetHeader { source: frame.source, destination: peer(1).mac, ether_type: EtherType::DEFAULT };
    let mut sealed = [&vec![0; guard.overhead_bytes()][..], frame.payload].concat();
    guard.seal(&mut sealed, link, &change(frame.header), frame.payload.len());
    sealed
}

#[test]
fn what_was_altered_or_made_without_the_key_is_counted_and_does_nothing() {
    let [mut root, mut leaf] = pair();
    let frames = sent(&mut root, at(1));
    leaf.handle_frame(at(2), &frames[0]);
    // Each byte: addresses, sender, stamp, flags, tag, number, contents.
    for byte in 0..frames[1].len() {
        let mut altered = frames[1].clone();
        altered[byte] ^= 1;
        leaf.handle_frame(at(2), &altered);
    }
    let stats = leaf.part.stats();
    assert_eq!((stats.malformed, stats.non_members), (frames[1].len() as u64 - 1, 1), "one is of version 6");
    for guard in [keyed(2), Guard::Plain] {
        leaf.handle_frame(at(2), &sealed_again(&frames[1], &guard, |header| header));
    }
    let stats = leaf.part.stats();
    assert_eq!((stats.malformed, stats.non_members), (frames[1].len() as u64, 2));
    assert_eq!((leaf.part.feed().head(), leaf.part.feed().highest(), stats.data_received), (1, 1, 1));
    leaf.handle_frame(at(3), &frames[1]);
    assert_eq!(leaf.part.feed().head(), 2);
}

#[test]
fn a_stamp_of_the_future_needs_the_key_and_what_is_heard_again_counts_once() {
    let [mut root, mut leaf] = pair();
    let frames = sent(&mut root, at(1));
    frames.iter().for_each(|frame| leaf.handle_frame(at(2), frame));
    let later = |header| Header { stamp: u32::MAX / 2, ..header };
    leaf.handle_frame(at(2), &sealed_again(&frames[0], &keyed(2), later));
    (0..10).for_each(|_| leaf.handle_frame(at(2), &frames[0]));
    assert_eq!((leaf.part.stats().malformed, leaf.part.stats().duplicates), (1, 10));
    leaf.handle_timeout(at(9));
    let answers = sent(&mut leaf, at(9));
    let echo = |frame: &[u8]| parse_headers(frame).expect("an answer").0.header.stamp;
    assert_eq!((answers.len(), echo(&answers[0])), (1, echo(&frames[2])), "the newest that its parent has drawn");
    (0..10).for_each(|_| root.handle_frame(at(10), &answers[0]));
    assert_eq!(root.part.cursors(), [(peer(1).rank, 3)]);
    assert_eq!(sent(&mut root, at(11)), Vec::<Vec<u8>>::new(), "nothing is sent again");
}

const PAYLOAD_BYTES: usize = 100;
const FRAME_BYTES: usize = 254;

fn origin(frames: u64) -> Stream {
    let tuning = Tuning::default().with_feed_frames(frames);
    Stream::origin(identity(0), PAYLOAD_BYTES, &Outlet::Lanes(vec![peer(1)]), tuning)
}

fn receiver(children: Vec<Peer>, frames: u64) -> Stream {
    let tuning = Tuning::default().with_feed_frames(frames);
    Stream::receiver(identity(1), PAYLOAD_BYTES, peer(0), &Outlet::Lanes(children), tuning)
}

fn data(stream: &mut Stream, now: Instant) -> Option<Vec<u8>> {
    let mut buffer = [0; FRAME_BYTES];
    while let Some(length) = stream.poll_transmit(now, &mut buffer) {
        let frame = &buffer[..length];
        if frame[17] == Kind::DATA.0 {
            return Some(frame.to_vec());
        }
    }
    None
}

#[test]
fn a_relay_passes_on_what_was_sealed_and_its_checksum_as_they_came() {
    let (mut root, mut relay) = (origin(64), receiver(vec![peer(2)], 64));
    for (number, ending) in [Ending::None, Ending::Message, Ending::Quiet, Ending::Stream].into_iter().enumerate() {
        assert!(root.push(&[number as u8; 90], ending));
        let came = data(&mut root, at(1)).expect("it was pushed");
        let frame = key::parse(&came).expect("sealed");
        relay.handle_frame(at(2), &frame);
        let passed = data(&mut relay, at(3)).expect("it has come");
        let sealed = guard().overhead_bytes() - 14;
        assert_eq!(passed[sealed..], came[sealed..], "what is sealed");
        let frame = key::parse(&passed).expect("sealed").header;
        assert!(frame.flags.has(key::parse(&came).expect("sealed").header.flags), "{frame:?}");
        assert_eq!(key::parse(&passed).expect("sealed").content, key::parse(&came).expect("sealed").content);
    }
}

#[test]
fn a_relay_adds_up_nothing_of_what_it_passes_on() {
    let (mut root, mut relay) = (origin(64), receiver(vec![peer(2)], 64));
    assert!(root.push(&[7; 90], Ending::None));
    let came = data(&mut root, at(1)).expect("it was pushed");
    // As if a byte had changed in the relay's memory after the check.
    let frame = key::parse(&came).expect("sealed");
    relay.handle_frame(at(2), &Frame { content: guard().content(&frame.header, &[8; 90]), ..frame });
    let passed = data(&mut relay, at(3)).expect("it has come");
    assert_eq!(key::parse(&passed).err(), Some(Reject::Damaged), "the next host sees that");
}
