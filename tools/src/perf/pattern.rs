//! What is broadcast: bytes that every rank can tell, different in each iteration.

/// How far apart two iterations look into the pattern, at most.
const SHIFTS: usize = 251;

/// The bytes of all iterations of one size.
#[derive(Debug)]
pub struct Pattern {
    bytes: Vec<u8>,
    size: usize,
}

impl Pattern {
    /// The pattern for messages of `size_bytes`.
    pub fn new(size_bytes: u64) -> Pattern {
        let size = size_bytes as usize;
        let mut state = size_bytes ^ 0x9E37_79B9_7F4A_7C15;
        let mut bytes = Vec::with_capacity(size + SHIFTS + 8);
        while bytes.len() < size + SHIFTS {
            // xorshift64: good enough that no frame is mistaken for another.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        Pattern { bytes, size }
    }

    /// The message of one iteration.
    pub fn message(&self, iteration: u32) -> &[u8] {
        &self.bytes[iteration as usize % SHIFTS..][..self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_iteration_has_bytes_of_its_own() {
        let pattern = Pattern::new(1000);
        assert_eq!(pattern.message(0).len(), 1000);
        assert_ne!(pattern.message(0), pattern.message(1));
        assert_eq!(pattern.message(5), Pattern::new(1000).message(5));
    }
}
