//! How many bytes a stream has had, and their digest.

use crate::session::{Digest, Done, Outcome, Trailer};

/// What has been received is not what was sent: other bytes, or another number of them.
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

    /// How many bytes there were.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The BLAKE3 of all of them.
    pub fn digest(&self) -> Digest {
        *self.hasher.finalize().as_bytes()
    }

    /// What the end of a stream of these bytes says.
    pub fn trailer(&self) -> Trailer {
        Trailer { bytes: self.bytes, digest: self.digest() }
    }

    /// Whether these are the bytes that the sender meant.
    ///
    /// # Errors
    /// If they are not.
    pub fn verify(&self, trailer: Trailer) -> Result<(), Mismatch> {
        if trailer == self.trailer() {
            return Ok(());
        }
        Err(Mismatch { received: self.bytes, sent: trailer.bytes })
    }

    /// A verdict on these bytes.
    pub fn verdict(&self, outcome: Outcome, text: impl Into<String>) -> Done {
        Done { outcome, bytes: self.bytes, digest: self.digest(), text: text.into() }
    }
}
