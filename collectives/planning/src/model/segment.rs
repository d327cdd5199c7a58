//! Choice of the segment length of a pipelined broadcast: short ones start relays sooner, long ones
//! cost less.

use super::calibration::Calibration;
use super::predict::{Job, predict};
use super::shape::Shape;
use crate::plan::{MIN_SEGMENT_BYTES, Via};

/// Limit of frames in a segment: the engine keeps a segment whole at every relay. The limit is 1.5
/// MB of usual frames.
///
/// Atomic plans and blocks have no choice of segment: it is the whole message, or all blocks
/// together, up to this limit.
pub const MAX_ATOMIC_SEGMENT_FRAMES: u64 = 1024;

/// Ratio by which partly filled frames must shorten a message's time: each frame has costs that the
/// model omits, and headers on the cable.
const WORTHWHILE_RATIO: f64 = 0.98;

/// Returns the segment, in bytes, with which a message of `size_bytes` takes least time, and that
/// time in seconds.
///
/// Candidates are whole frames, 1, 2, 3, 4, 6, 8, 12, 16, …, and the whole message. In trees that
/// forward frames as they come, frames may also be partly filled: 64, 96, 128, 192, … bytes, as for
/// the chain of 8 KiB among 32 hosts of Patarasuk 2008, Table 3. Of equal ones it is the shortest.
/// The segment of an empty message is one frame, that of a block-wise message a block.
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
    let whole = whole_frames(shape, size_bytes, frame_payload_bytes).into_iter();
    let whole = whole.map(price).reduce(cheapest).expect("there is always a segment to try");
    let parts = parts_of_a_frame(shape, size_bytes, frame_payload_bytes).map(price).reduce(cheapest);
    parts.filter(|part| part.1 < whole.1 * WORTHWHILE_RATIO).unwrap_or(whole)
}

fn parts_of_a_frame(shape: &Shape, size_bytes: u64, frame_payload_bytes: u64) -> impl Iterator<Item = u64> {
    let limit = if size_bytes == 0 { frame_payload_bytes } else { size_bytes.min(frame_payload_bytes) };
    // A cast's frames are not forwarded, so shorter ones do not help.
    let via = shape.via;
    let passed_on = !(via.is_scattered() || via.is_atomic() || via == Via::Cast);
    lengths().map(|times| times * MIN_SEGMENT_BYTES / 2).skip(1).take_while(move |&bytes| passed_on && bytes < limit)
}

fn whole_frames(shape: &Shape, size_bytes: u64, frame_payload_bytes: u64) -> Vec<u64> {
    let message_frames = size_bytes.div_ceil(frame_payload_bytes).max(1);
    let most = message_frames.min(MAX_ATOMIC_SEGMENT_FRAMES);
    let limit = if size_bytes == 0 { frame_payload_bytes } else { size_bytes };
    let whole = |frames: u64| (frames * frame_payload_bytes).min(limit);
    if shape.via.is_scattered() {
        let ranks = shape.ranks as u64;
        return vec![whole(message_frames.div_ceil(ranks).min(most_block_frames(ranks)).max(1))];
    }
    if shape.via.is_atomic() {
        return vec![whole(most)];
    }
    lengths().take_while(|&frames| frames < most).chain([most]).map(whole).collect()
}

/// Returns the longest block that the engine handles with its usual feed: a quarter of each
/// stream's, whose slots are a power of two.
fn most_block_frames(ranks: u64) -> u64 {
    let slots = (MAX_ATOMIC_SEGMENT_FRAMES * 4 / ranks.max(1)).max(64);
    (1 << slots.ilog2()) / 4
}

/// Yields 1, 2, 3, 4, 6, 8, 12, …: two per doubling, which is close enough because the curve is
/// flat at its minimum.
fn lengths() -> impl Iterator<Item = u64> {
    let doublings = (1..32).flat_map(|power| [1u64 << power, 3 << (power - 1)]);
    std::iter::once(1).chain(doublings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
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
        assert_eq!(whole_frames(&chain, 0, 100), [100]);
        assert_eq!(whole_frames(&chain, 70, 100), [70]);
        assert_eq!(whole_frames(&chain, 100, 100), [100]);
        assert_eq!(whole_frames(&chain, 550, 100), [100, 200, 300, 400, 550]);
        let long = whole_frames(&chain, 1 << 30, 100);
        assert_eq!((long.len(), long.first(), long.last()), (20, Some(&100), Some(&102_400)));
    }

    #[test]
    fn segments_are_parts_of_a_frame_where_a_relay_waits_for_them() {
        let parts = |via, size| Vec::from_iter(parts_of_a_frame(&shape(via, 4), size, 1468));
        assert_eq!(parts(Via::Chain, 1 << 30), [64, 96, 128, 192, 256, 384, 512, 768, 1024]);
        assert_eq!(parts(Via::Binary, 0).len(), 9);
        assert_eq!((parts(Via::Chain, 128), parts(Via::Chain, 64)), (vec![64, 96], Vec::new()));
        assert!(parts(Via::Cast, 1 << 30).is_empty() && parts(Via::Flat, 1 << 30).is_empty());
    }

    #[test]
    fn three_children_never_beat_two() {
        // With arbitrarily short segments a higher degree only costs bandwidth (Patarasuk 2008
        // §4.2).
        let topology = Topology::builtin("fig9-4").expect("fig9-4");
        let members = Vec::from_iter(0..topology.hosts().len());
        let shape = |via| {
            let plan = crate::plan::make(via, &topology, 0, &members, &Default::default()).expect("a plan");
            Shape::of(&plan, &topology, &members)
        };
        let (two, three) = (shape(Via::Binary), shape(Via::Kary(3)));
        let calibration = Calibration::assumed(100_000_000, 1468);
        for size_bytes in (10..28).map(|power| 1 << power) {
            let best = |shape| best_segment(shape, size_bytes, 1468, &calibration).1;
            assert!(best(&two) <= best(&three), "{size_bytes} bytes");
        }
    }

    #[test]
    fn the_atomic_have_no_choice() {
        let flat = shape(Via::Flat, 4);
        assert_eq!(whole_frames(&flat, 550, 100), [550]);
        assert_eq!(whole_frames(&flat, 1 << 30, 100), [102_400]);
    }

    #[test]
    fn a_block_is_a_share_of_the_message_in_whole_frames() {
        let blocks = shape(Via::ScatterAllgather, 8);
        assert_eq!(whole_frames(&blocks, 50, 100), [50]);
        assert_eq!(whole_frames(&blocks, 750, 100), [100]);
        assert_eq!(whole_frames(&blocks, 1700, 100), [300]);
        assert_eq!(whole_frames(&blocks, 1 << 30, 100), [12_800]);
    }
}
