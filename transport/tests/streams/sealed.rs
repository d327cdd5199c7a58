//! What the origin of a frame has sealed goes on as it is, and the application takes frames in runs.

use crate::common::{identity, peer};
use ethbcast_transport::stream::{Ending, Outlet, Run, Stream};
use ethbcast_transport::wire::{self, ContentChecksum, Frame, Kind, OVERHEAD_BYTES, Reject};
use ethbcast_transport::{Instant, Part, Tuning};
use proptest::prelude::*;
use std::time::Duration;

const PAYLOAD_BYTES: usize = 100;
const FRAME_BYTES: usize = OVERHEAD_BYTES + 200;

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

/// The next frame of data that a stream sends.
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
        let frame = wire::parse(&came).expect("sealed");
        relay.handle_frame(at(2), &frame);
        let passed = data(&mut relay, at(3)).expect("it has come");
        assert_eq!(passed[32..], came[32..], "what is sealed");
        let frame = wire::parse(&passed).expect("sealed").header;
        assert!(frame.flags.has(wire::parse(&came).expect("sealed").header.flags), "{frame:?}");
        assert_eq!(wire::parse(&passed).expect("sealed").content, wire::parse(&came).expect("sealed").content);
    }
}

#[test]
fn a_relay_adds_up_nothing_of_what_it_passes_on() {
    let (mut root, mut relay) = (origin(64), receiver(vec![peer(2)], 64));
    assert!(root.push(&[7; 90], Ending::None));
    let came = data(&mut root, at(1)).expect("it was pushed");
    // As if a byte of it had changed in the relay's memory after it was checked.
    let frame = wire::parse(&came).expect("sealed");
    relay.handle_frame(at(2), &Frame { content: ContentChecksum::of(&frame.header, &[8; 90]), ..frame });
    let passed = data(&mut relay, at(3)).expect("it has come");
    assert_eq!(wire::parse(&passed).err(), Some(Reject::Damaged), "the next host sees that");
}

/// Carries all that two streams have to say to each other.
fn exchange(root: &mut Stream, leaf: &mut Stream, now: Instant) {
    let mut buffer = [0; FRAME_BYTES];
    for stream in [&mut *root, &mut *leaf] {
        stream.handle_timeout(now);
    }
    let mut quiet = false;
    while !quiet {
        quiet = true;
        for at_root in [true, false] {
            let (from, to) = if at_root { (&mut *root, &mut *leaf) } else { (&mut *leaf, &mut *root) };
            while let Some(length) = from.poll_transmit(now, &mut buffer) {
                to.handle_frame(now, &wire::parse(&buffer[..length]).expect("sealed"));
                quiet = false;
            }
        }
    }
}

/// Everything that a stream shows, and what ends where, in so large steps at most.
fn take(stream: &mut Stream, now: Instant, most_frames: u64, taken: &mut Vec<u8>, ends: &mut Vec<(usize, Ending)>) {
    while let Some(Run { bytes, frames, ending }) = stream.peek_run(most_frames) {
        assert!((1..=most_frames).contains(&frames) && bytes.len() <= frames as usize * PAYLOAD_BYTES);
        assert!(ending != Ending::Stream || frames == 1, "the end is a run of its own");
        taken.extend_from_slice(bytes);
        if ending != Ending::None {
            ends.push((taken.len(), ending));
        }
        assert_eq!(stream.consume_run(now, frames), ending);
    }
}

proptest! {
    #[test]
    fn runs_are_what_single_frames_would_be(
        frames in prop::collection::vec((prop::sample::select(vec![100_usize, 100, 100, 100, 7, 0]), 0..12_u8), 1..60),
        most_frames in 1..9_u64, pause in 1..12_usize,
    ) {
        // A feed of eight slots: its memory ends in the middle of runs.
        let (mut root, mut leaf) = (origin(8), receiver(Vec::new(), 8));
        let (mut sent, mut sent_ends, mut taken, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut now = at(1);
        for (number, (bytes, kind)) in frames.iter().enumerate() {
            let ending = match kind {
                _ if number + 1 == frames.len() => Ending::Stream,
                0 => Ending::Message,
                1 => Ending::Quiet,
                _ => Ending::None,
            };
            let payload = vec![number as u8; *bytes];
            while !root.push(&payload, ending) {
                now += Duration::from_millis(50);
                exchange(&mut root, &mut leaf, now);
                take(&mut leaf, now, most_frames, &mut taken, &mut ends);
            }
            sent.extend_from_slice(&payload);
            if ending != Ending::None {
                sent_ends.push((sent.len(), ending));
            }
            exchange(&mut root, &mut leaf, now);
            if number % pause == 0 {
                take(&mut leaf, now, most_frames, &mut taken, &mut ends);
            }
        }
        for _ in 0..20 {
            now += Duration::from_millis(50);
            exchange(&mut root, &mut leaf, now);
            take(&mut leaf, now, most_frames, &mut taken, &mut ends);
        }
        prop_assert!(taken == sent, "{} of {} bytes", taken.len(), sent.len());
        prop_assert_eq!(ends, sent_ends);
        prop_assert_eq!(leaf.audit(), Ok(()));
    }
}
