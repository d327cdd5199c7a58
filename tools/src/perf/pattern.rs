//! Broadcast data that every rank can compute, different in each iteration.
//!
//! The bytes repeat, so that long messages need little memory and time to generate. A rank that is
//! busy generating sends nothing, and would be taken for dead.

/// Period in bytes, a prime, so that frames of a message rarely begin alike.
const PERIOD: usize = 65_521;
const MAX_LENGTH: usize = 65_536;
/// Offset between consecutive iterations, in bytes.
const SHIFT: usize = 251;

#[derive(Debug)]
pub struct Pattern {
    bytes: Vec<u8>,
    size: usize,
}

impl Pattern {
    pub fn new(size_bytes: u64) -> Pattern {
        let mut state = size_bytes ^ 0x9E37_79B9_7F4A_7C15;
        let mut bytes = Vec::with_capacity(PERIOD + MAX_LENGTH + 8);
        while bytes.len() < PERIOD {
            // xorshift64, sufficient to distinguish frames.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        bytes.truncate(PERIOD);
        bytes.extend_from_within(..MAX_LENGTH.min(PERIOD));
        bytes.extend_from_within(PERIOD..PERIOD + MAX_LENGTH - MAX_LENGTH.min(PERIOD));
        Pattern { bytes, size: size_bytes as usize }
    }

    /// Returns the message of an iteration from byte `at` on, at most 65 536 bytes.
    pub fn rest(&self, iteration: u32, at: usize) -> &[u8] {
        let start = (at + iteration as usize % PERIOD * SHIFT) % PERIOD;
        &self.bytes[start..][..self.size.saturating_sub(at).min(MAX_LENGTH)]
    }

    pub fn fill(&self, iteration: u32, message: &mut [u8]) {
        for (at, part) in (0..).step_by(MAX_LENGTH).zip(message.chunks_mut(MAX_LENGTH)) {
            part.copy_from_slice(self.rest(iteration, at));
        }
    }

    /// Returns the approximate position of the first difference from this iteration's message.
    pub fn mismatch(&self, iteration: u32, message: &[u8]) -> Option<usize> {
        let mut parts = (0..).step_by(MAX_LENGTH).zip(message.chunks(MAX_LENGTH));
        parts.find(|&(at, part)| part != self.rest(iteration, at)).map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_filled_in_is_found_to_be_the_iterations_and_no_other() {
        let (pattern, mut message) = (Pattern::new(200_000), vec![0; 200_000]);
        pattern.fill(4, &mut message);
        assert_eq!((pattern.mismatch(4, &message), pattern.mismatch(5, &message)), (None, Some(0)));
        message[199_999] ^= 1;
        assert_eq!(pattern.mismatch(4, &message), Some(196_608));
    }

    #[test]
    fn every_iteration_has_bytes_of_its_own() {
        let pattern = Pattern::new(1000);
        assert_eq!(pattern.rest(0, 0).len(), 1000);
        assert_eq!(pattern.rest(0, 990).len(), 10);
        assert_ne!(pattern.rest(0, 0), pattern.rest(1, 0));
        assert_eq!(pattern.rest(5, 7), Pattern::new(1000).rest(5, 7));
    }

    #[test]
    fn a_message_is_the_same_in_whatever_pieces_it_is_asked_for() {
        let pattern = Pattern::new(1 << 20);
        let whole: Vec<u8> = (0..1 << 20).map(|at| pattern.rest(3, at)[0]).collect();
        for at in [0, 1, PERIOD - 1, PERIOD, 3 * PERIOD - 10, (1 << 20) - 1] {
            let rest = pattern.rest(3, at);
            assert!(rest.len() == MAX_LENGTH.min((1 << 20) - at) && rest == &whole[at..at + rest.len()], "from {at}");
        }
    }
}
