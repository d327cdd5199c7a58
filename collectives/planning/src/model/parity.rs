//! Amount of parity (forward error correction) in a broadcast: each block of frames gets what the
//! receiver with the most losses needs.

/// Frames of a block, if a feed holds many such blocks.
const BLOCK_FRAMES: u64 = 128;
/// Shortest block for which parity is sent.
const MIN_FRAMES: u64 = 8;
/// Fewest blocks in a feed.
const BLOCKS_IN_A_FEED: u64 = 16;
/// Largest feed, in bytes.
const FEED_BYTES: u64 = 16 << 20;
/// Probability below which cases are ignored.
const UNLIKELY: f64 = 1e-6;

pub(super) fn block_frames(frame_payload_bytes: u64) -> Option<u64> {
    let slots = 1 << (FEED_BYTES / frame_payload_bytes.max(1)).max(1).ilog2();
    Some(BLOCK_FRAMES.min(slots / BLOCKS_IN_A_FEED)).filter(|&block| block >= MIN_FRAMES)
}

/// Returns the expected number of parity frames of a block until each of `receivers` has as many
/// frames as the block has, if each loses a share of `loss` of all frames.
///
/// A single receiver gives a negative binomial distribution; the maximum over all counts.
pub(super) fn expected_frames(block: u64, receivers: usize, loss: f64) -> f64 {
    let mut exactly = (1.0 - loss).powi(block as i32);
    let (mut at_most, mut expected) = (exactly, 0.0);
    for parity in 0..block {
        let somebody_needs_more = 1.0 - at_most.min(1.0).powi(receivers as i32);
        if somebody_needs_more < UNLIKELY {
            break;
        }
        expected += somebody_needs_more;
        exactly *= loss * (block + parity) as f64 / (parity + 1) as f64;
        at_most += exactly;
    }
    expected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_as_long_as_a_sixteenth_of_a_feed_allows() {
        assert_eq!([1468, 8936, 65_503, 1 << 22].map(block_frames), [Some(128), Some(64), Some(16), None]);
    }

    #[test]
    fn parity_is_what_the_one_needs_that_loses_most() {
        assert_eq!(expected_frames(128, 7, 0.0), 0.0);
        // With one receiver: a share of p, and p of that again.
        assert!((expected_frames(128, 1, 0.1) - 128.0 / 9.0).abs() < 1e-3, "{}", expected_frames(128, 1, 0.1));
        // Blocks of 64, to seven receivers and to a thousand.
        let times = |block, receivers, loss| 1.0 + expected_frames(block, receivers, loss) / block as f64;
        let found = [(64, 7, 0.01), (64, 7, 0.1), (64, 1000, 0.001)]
            .map(|(block, receivers, loss)| (times(block, receivers, loss) * 1000.0).round() as u64);
        assert_eq!(found, [1029, 1174, 1030]);
    }
}
