//! What the root tells the others at the start of a session: the first message.

/// The terms of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Bytes of each broadcast.
    pub size_bytes: u64,
    /// Broadcasts.
    pub iterations: u32,
    /// Sessions that follow this one.
    pub remaining: u32,
}

impl Terms {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    /// The message.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.size_bytes.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.iterations.to_be_bytes());
        bytes[12..].copy_from_slice(&self.remaining.to_be_bytes());
        bytes
    }

    /// Reads the message; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Terms> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let (size, rest) = bytes.split_first_chunk::<8>()?;
        let (iterations, rest) = rest.split_first_chunk::<4>()?;
        let remaining = rest.first_chunk::<4>()?;
        Some(Terms {
            size_bytes: u64::from_be_bytes(*size),
            iterations: u32::from_be_bytes(*iterations),
            remaining: u32::from_be_bytes(*remaining),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_as_they_are_written() {
        let terms = Terms { size_bytes: 1 << 33, iterations: 20, remaining: 3 };
        assert_eq!(Terms::decode(&terms.encode()), Some(terms));
        assert_eq!(Terms::decode(&terms.encode()[1..]), None);
    }
}
