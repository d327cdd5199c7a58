//! Length and digest of a stream.

use crate::session::{Digest, Done, Outcome, Trailer};

/// Error of a stream whose received bytes differ from those sent, in content or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {received} bytes received do not match the sender's {sent} bytes: send again")]
pub struct Mismatch {
    received: u64,
    sent: u64,
}

/// Counts and digests (BLAKE3) the bytes of a stream, at either end.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    bytes: u64,
    hasher: blake3::Hasher,
}

impl Tally {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the BLAKE3 digest of all bytes.
    pub fn digest(&self) -> Digest {
        *self.hasher.finalize().as_bytes()
    }

    /// Returns the trailer of a stream of these bytes.
    pub fn trailer(&self) -> Trailer {
        Trailer { bytes: self.bytes, digest: self.digest() }
    }

    /// Checks that these are the bytes that the sender announced.
    ///
    /// # Errors
    /// If they are not.
    pub fn verify(&self, trailer: Trailer) -> Result<(), Mismatch> {
        if trailer == self.trailer() {
            return Ok(());
        }
        Err(Mismatch { received: self.bytes, sent: trailer.bytes })
    }

    /// Creates a verdict on these bytes.
    pub fn verdict(&self, outcome: Outcome, text: impl Into<String>) -> Done {
        Done { outcome, bytes: self.bytes, digest: self.digest(), text: text.into() }
    }
}
