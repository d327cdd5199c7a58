//! The segment that costs least: short ones fill the pipeline sooner, long ones pay less for each byte.

use super::calibration::Calibration;
use super::predict::{Job, predict};
use super::shape::Shape;

/// The most frames of a segment: the engine keeps a segment whole at every relay, and this is 1.5 MB of usual frames.
///
/// Atomic plans and blocks have no choice of segment; theirs is the whole message, or all blocks together, up to this.
pub const MAX_ATOMIC_SEGMENT_FRAMES: u64 = 1024;

/// The segment, in bytes, with which a message of `size_bytes` takes least time, and that time in seconds.
///
/// Segments are whole frames or the whole message: 1, 2, 3, 4, 6, 8, 12, 16, … frames. Of equally good ones it is the
/// shortest. The segment of an empty message is one frame. Of a message in blocks the segment is a block.
///
/// # Panics
/// If `frame_payload_bytes` is zero.
pub fn best_segment(shape: &Shape, size_bytes: u64, frame_payload_bytes: u64, calibration: &Calibration) -> (u64, f64) {
    assert!(frame_payload_bytes > 0, "a frame has room");
    let price = |segment_bytes| {
        let job = Job { size_bytes, segment_bytes, frame_payload_bytes };
        (segment_bytes, predict(shape, &job, calibration))
    };
    let cheapest = |best: (u64, f64), next: (u64, f64)| if next.1 < best.1 { next } else { best };
    let segments = segments(shape, size_bytes, frame_payload_bytes);
    segments.into_iter().map(price).reduce(cheapest).expect("there is always a segment to try")
}

/// The segments worth trying, in bytes, from short to long; at least one.
fn segments(shape: &Shape, size_bytes: u64, frame_payload_bytes: u64) -> Vec<u64> {
    let message_frames = size_bytes.div_ceil(frame_payload_bytes).max(1);
    let most = message_frames.min(MAX_ATOMIC_SEGMENT_FRAMES);
    let frames = if shape.via.is_in_blocks() {
        let ranks = shape.ranks as u64;
        vec![message_frames.div_ceil(ranks).min(most_block_frames(ranks)).max(1)]
    } else if shape.via.is_atomic() {
        vec![most]
    } else {
        let shorter = lengths().take_while(|&frames| frames < most);
        shorter.chain([most]).collect()
    };
    let limit = if size_bytes == 0 { frame_payload_bytes } else { size_bytes };
    frames.into_iter().map(|frames| (frames * frame_payload_bytes).min(limit)).collect()
}

/// The longest block the engine deals with its usual feed: a quarter of each stream's, whose slots are a power of two.
fn most_block_frames(ranks: u64) -> u64 {
    let slots = (MAX_ATOMIC_SEGMENT_FRAMES * 4 / ranks.max(1)).max(64);
    (1 << slots.ilog2()) / 4
}

/// 1, 2, 3, 4, 6, 8, 12, …: two to each doubling, near enough for a curve as flat as this one is round its minimum.
fn lengths() -> impl Iterator<Item = u64> {
    let doublings = (1..32).flat_map(|power| [1u64 << power, 3 << (power - 1)]);
    std::iter::once(1).chain(doublings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Via};
    use crate::topology::Topology;

    fn shape(via: Via, ranks: usize) -> Shape {
        let topology = Topology::single_switch((0..ranks).map(|host| format!("n{host}"))).expect("hosts");
        let chain: Vec<Option<usize>> = (0..ranks).map(|rank| rank.checked_sub(1)).collect();
        let star: Vec<Option<usize>> = (0..ranks).map(|rank| (rank > 0).then_some(0)).collect();
        let parents = if matches!(via, Via::Cast | Via::Flat) { star } else { chain };
        let plan = Plan::from_parents(via, 0, &parents).expect("a plan");
        Shape::of(&plan, &topology, &Vec::from_iter(0..ranks))
    }

    #[test]
    fn segments_are_whole_frames_or_the_whole_message() {
        let chain = shape(Via::Chain, 4);
        assert_eq!(segments(&chain, 0, 100), [100]);
        assert_eq!(segments(&chain, 70, 100), [70]);
        assert_eq!(segments(&chain, 100, 100), [100]);
        assert_eq!(segments(&chain, 550, 100), [100, 200, 300, 400, 550]);
        let long = segments(&chain, 1 << 30, 100);
        assert_eq!((long.len(), long.first(), long.last()), (20, Some(&100), Some(&102_400)));
    }

    #[test]
    fn the_atomic_have_no_choice() {
        let flat = shape(Via::Flat, 4);
        assert_eq!(segments(&flat, 550, 100), [550]);
        assert_eq!(segments(&flat, 1 << 30, 100), [102_400]);
    }

    #[test]
    fn a_block_is_a_share_of_the_message_in_whole_frames() {
        let blocks = shape(Via::ScatterAllgather, 8);
        assert_eq!(segments(&blocks, 50, 100), [50]);
        assert_eq!(segments(&blocks, 750, 100), [100]);
        assert_eq!(segments(&blocks, 1700, 100), [300]);
        assert_eq!(segments(&blocks, 1 << 30, 100), [12_800]);
    }
}
