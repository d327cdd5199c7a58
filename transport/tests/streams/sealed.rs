//! Tests that a relay forwards the original sender's part of a frame unchanged.

use crate::common::guard::guard;
use crate::common::key;
use crate::common::{identity, peer};
use ethbcast_transport::stream::{Ending, Outlet, Stream};
use ethbcast_transport::wire::{self, Frame, Kind, Reject};
use ethbcast_transport::{Instant, Part, Tuning};
use std::time::Duration;

const PAYLOAD_BYTES: usize = 100;
const FRAME_BYTES: usize = 254;

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

fn origin(frames: u64) -> Stream {
    let tuning = Tuning::default().with_feed_frames(frames);
    Stream::origin(identity(0), PAYLOAD_BYTES, &Outlet::Lanes(vec![peer(1)]), tuning)
}

fn receiver(children: Vec<wire::Peer>, frames: u64) -> Stream {
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
