//! Frames on the wire under the EQA paper's presets.

use ethbcast_collectives::communicator::Preset;
use ethbcast_tests::communicator::{Case, Step, play};
use ethbcast_transport::sim::{Delivery, Fate};
use ethbcast_transport::wire::{Kind, Rank, parse};

const RANKS: u16 = 4;
const WATCHED: usize = 2;

/// Returns the bytes of a broadcast in each frame, in order; panics if more than the first `pushed`
/// frames are sent before a receiver has answered these.
fn parts(bytes: usize, mtu_bytes: u16, pushed: u64) -> Vec<usize> {
    let mut parts = Vec::new();
    let mut answered = false;
    let watch = |delivery: &Delivery<'_>| {
        let frame = parse(delivery.frame).expect("a frame of the group");
        let header = frame.header;
        answered |= delivery.to == 0 && header.kind == Kind::ACK && header.sequence >= pushed;
        if delivery.to == WATCHED && header.kind == Kind::DATA && header.rank == Rank(0) {
            assert!(header.sequence < pushed || answered, "frame {} is not waited for", header.sequence);
            parts.push(frame.payload.len());
        }
        Fate::Deliver
    };
    let steps = [Step::Broadcast { root: 0, bytes }];
    let case = Case { preset: Preset::PushPull, mtus: vec![mtu_bytes; RANKS.into()], ..Case::new(RANKS, &steps) };
    play(&case, 1, watch, &format!("{bytes} bytes"));
    // The first frame also names the message.
    let head = parts.iter().sum::<usize>() - bytes;
    parts[0] -= head;
    parts
}

#[test]
fn of_4096_bytes_the_papers_860_are_pushed_and_the_rest_is_pulled_in_full_frames() {
    assert_eq!(parts(4096, 1500, 1), [860, 1468, 1468, 300]);
    assert_eq!(parts(861, 1500, 1), [860, 1]);
    assert_eq!(parts(860, 1500, 1), [860]);
    assert_eq!(parts(10, 1500, 1), [10]);
}

#[test]
fn where_frames_are_shorter_it_takes_two_to_push_as_much() {
    let parts = parts(4096, 576, 2);
    assert_eq!((parts[0] + parts[1], parts[2], parts.iter().sum::<usize>()), (860, 544, 4096), "{parts:?}");
}
