//! The choice `auto` makes, until the measured model makes it.

use super::Via;

/// Streams below this many bytes are cast, longer ones go along the chain.
///
/// A cast reaches everybody with one frame, so short messages need not travel through every host. A chain needs no flooding,
/// which many switches police (storm control), and repairs each loss on the cable it happened on; its cost, one hop's delay for
/// each host, is lost in the transfer time of a stream this long.
pub const AUTO_CAST_BELOW_BYTES: u64 = 4 << 20;

/// The way for a stream of `size` bytes; one of unknown length is taken to be long.
pub fn auto(size: Option<u64>) -> Via {
    if size.is_some_and(|size| size < AUTO_CAST_BELOW_BYTES) { Via::Cast } else { Via::Chain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_streams_are_cast_and_long_or_endless_ones_chained() {
        assert_eq!(auto(Some(0)), Via::Cast);
        assert_eq!(auto(Some(AUTO_CAST_BELOW_BYTES - 1)), Via::Cast);
        assert_eq!(auto(Some(AUTO_CAST_BELOW_BYTES)), Via::Chain);
        assert_eq!(auto(None), Via::Chain);
    }
}
