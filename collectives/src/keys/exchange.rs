//! Key exchange between sender and receiver of a transfer: X25519 (RFC 7748) with fresh keys at
//! both ends.

use super::schedule::Secret;
use std::fmt;
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

/// A pair of exchange keys, drawn for one session of a root or one run of a receiver.
#[derive(Clone)]
pub struct ExchangePair {
    secret: Secret,
    public: [u8; 32],
}

impl ExchangePair {
    pub fn new(drawn: Secret) -> ExchangePair {
        let public = x25519(*drawn.expose(), X25519_BASEPOINT_BYTES);
        ExchangePair { secret: drawn, public }
    }

    pub fn public(&self) -> &[u8; 32] {
        &self.public
    }

    /// Returns the secret shared with the owner of `public`; `None` for a public key that yields the same secret
    /// whatever the own one is (RFC 7748 §6.1).
    pub fn agree(&self, public: &[u8; 32]) -> Option<Secret> {
        let shared = Secret::new(x25519(*self.secret.expose(), *public));
        (shared != Secret::new([0; 32])).then_some(shared)
    }

    /// Returns the nonce of a receiver's run, which is bound to its public exchange key.
    pub fn nonce(public: &[u8; 32]) -> u64 {
        let digest = blake3::hash(public);
        let (first, _) = digest.as_bytes().split_first_chunk().expect("a digest has 32 bytes");
        u64::from_be_bytes(*first)
    }
}

impl fmt::Debug for ExchangePair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ExchangePair").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::hex;
    use super::*;

    #[test]
    fn both_ends_compute_the_same_by_rfc_7748() {
        let bytes = |digits| *hex::read(digits).expect("digits");
        let bob = bytes("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        let public = bytes("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
        let [alice, bob] = [[7; 32], bob].map(|drawn| ExchangePair::new(Secret::new(drawn)));
        assert_eq!(bob.public(), &public);
        let shared = alice.agree(bob.public());
        assert!(shared.is_some() && shared == bob.agree(alice.public()));
        assert_ne!(shared, bob.agree(bob.public()));
    }

    #[test]
    fn a_public_key_that_decides_the_result_is_refused() {
        let pair = ExchangePair::new(Secret::new([9; 32]));
        let mut one = [0; 32];
        assert_eq!(pair.agree(&one), None);
        one[0] = 1;
        assert_eq!(pair.agree(&one), None);
    }
}
