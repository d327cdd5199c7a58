//! Tests of reading and sending several consecutive frames at once from a stream's buffer.

use crate::common::key::parse;
use crate::common::{identity, peer};
use crate::details::{origin, tell};
use crate::hosts::at;
use ethbcast_transport::stream::{Ending, Outlet, Run, Stream};
use ethbcast_transport::wire::{Flags, Header, Kind, Rank};
use ethbcast_transport::{Part, Tuning};

fn leaf() -> Stream {
    let none = Outlet::Lanes(Vec::new());
    Stream::receiver(identity(1), 2, peer(0), &none, Tuning::default().with_feed_frames(64))
}

/// Delivers frame `sequence`; its payload is its number twice, or once if a message ends with it.
fn come(leaf: &mut Stream, sequence: u64, flags: Flags) {
    let header = Header { sequence, flags, stamp: 1, ..identity(0).header(Kind::DATA) };
    let payload = [sequence as u8; 2];
    tell(leaf, at(1), 0, header, &payload[usize::from(flags != Flags::default())..]);
}

fn shown(leaf: &mut Stream, most: u64) -> Vec<(u64, u8, u8, Ending)> {
    let mut runs = Vec::new();
    while let Some(Run { bytes, frames, ending }) = leaf.peek_run(most) {
        runs.push((frames, bytes[0], bytes[bytes.len() - 1], ending));
        assert_eq!(leaf.consume_run(at(2), frames), ending);
    }
    runs
}

#[test]
fn a_run_goes_up_to_what_is_lacking_the_end_of_a_message_and_the_edge_of_the_feed() {
    let mut leaf = leaf();
    (0..10).filter(|&sequence| sequence != 7).for_each(|sequence| {
        let flags = if sequence == 4 { Flags::FLUSH.with(Flags::REPORT) } else { Flags::default() };
        come(&mut leaf, sequence, flags);
    });
    let runs = shown(&mut leaf, u64::MAX);
    assert_eq!(runs, [(4, 0, 3, Ending::None), (1, 4, 4, Ending::Message), (2, 5, 6, Ending::None)]);
    (7..60).for_each(|sequence| come(&mut leaf, sequence, Flags::default()));
    let runs = shown(&mut leaf, u64::MAX);
    assert_eq!(runs.iter().map(|run| run.0).collect::<Vec<_>>(), [16, 16, 16, 5], "no more at a time");
    assert_eq!((runs[0].1, runs[3].2), (7, 59));
    (60..70).for_each(|sequence| come(&mut leaf, sequence, Flags::default()));
    come(&mut leaf, 70, Flags::LAST);
    let runs = shown(&mut leaf, u64::MAX);
    assert_eq!(runs, [(4, 60, 63, Ending::None), (6, 64, 69, Ending::None), (1, 70, 70, Ending::Stream)]);
    assert_eq!((leaf.consumed(), leaf.backlog_frames(), leaf.peek_run(1)), (71, 0, None));
}

#[test]
fn a_frame_in_two_pieces_is_the_frame_in_one() {
    let outlet = Outlet::Lanes(vec![peer(1)]);
    let (mut whole, mut split) = (origin(&outlet, 3), origin(&outlet, 3));
    let (mut one, mut two) = ([0xaa; 2000], [0x55; 2000]);
    let mut frames = 0;
    while let Some(length) = whole.poll_transmit(at(1), &mut one) {
        let frame = split.poll_transmit_split(at(1), &mut two).expect("the same");
        let kept = frame.kept.expect("the feed has the payload");
        assert_eq!((frame.bytes(), kept.sequence, kept.stream), (length, frames, identity(0).stream.0));
        two[frame.written_bytes..length].copy_from_slice(split.payload(kept));
        assert_eq!(one[..length], two[..length]);
        assert_eq!(parse(&two[..length]).expect("sealed").header.rank, Rank::ROOT);
        frames += 1;
    }
    assert_eq!((frames, split.poll_transmit_split(at(1), &mut two)), (3, None));
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
    assert!(!urgent_after(199..210, None), "and who expected less than comes is patient again");
}
