//! Encryption of a control message's body: AES-256-GCM-SIV (RFC 8452), nonce and associated data
//! from the frame's header. Repeating a nonce reveals only whether two bodies are equal.

use super::schedule::Secret;
use aes_gcm_siv::aead::{AeadInOut, KeyInit};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};
use std::fmt;

/// Bytes by which a veiled body is longer.
pub const VEIL_BYTES: usize = 16;

/// Identity of a control message, to which its veil is bound; its counter `sequence` has 48 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VeilContext {
    pub kind: u8,
    pub session: u32,
    pub rank: u16,
    pub sequence: u64,
}

impl VeilContext {
    fn nonce(self) -> Nonce {
        let [a, b, c, d] = self.session.to_be_bytes();
        let [e, f] = self.rank.to_be_bytes();
        let [_, _, g, h, i, j, k, l] = self.sequence.to_be_bytes();
        Nonce::from([a, b, c, d, e, f, g, h, i, j, k, l])
    }
}

/// Encryption (veil) of control messages under one secret.
#[derive(Clone)]
pub struct Veil(Aes256GcmSiv);

impl Veil {
    pub fn new(secret: &Secret) -> Veil {
        let key = Secret::derive("ethbcast 7 veil", &[secret.expose()]);
        Veil(Aes256GcmSiv::new(key.expose().into()))
    }

    pub fn put(&self, context: VeilContext, body: &mut Vec<u8>) {
        self.0.encrypt_in_place(&context.nonce(), &[context.kind], body).expect("a body is shorter than 2^36 bytes");
    }

    /// Removes the veil of a body; `None` if the body or its context has changed.
    pub fn lift(&self, context: VeilContext, body: &[u8]) -> Option<Vec<u8>> {
        let mut body = body.to_vec();
        self.0.decrypt_in_place(&context.nonce(), &[context.kind], &mut body).ok()?;
        Some(body)
    }
}

impl fmt::Debug for Veil {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Veil(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_veiled_body_is_read_at_its_place_by_its_secret_alone() {
        let [veil, other] = [[1; 32], [2; 32]].map(|bytes| Veil::new(&Secret::new(bytes)));
        let context = VeilContext { kind: 24, session: 7, rank: 1, sequence: 5 };
        let mut body = b"what is said".to_vec();
        veil.put(context, &mut body);
        assert_eq!(body.len(), 12 + VEIL_BYTES);
        assert_eq!(veil.lift(context, &body).as_deref(), Some(&b"what is said"[..]));
        assert_eq!(other.lift(context, &body), None);
        let elsewhere = [
            VeilContext { kind: 23, ..context },
            VeilContext { session: 8, ..context },
            VeilContext { rank: 2, ..context },
            VeilContext { sequence: 6, ..context },
        ];
        assert!(elsewhere.iter().all(|context| veil.lift(*context, &body).is_none()));
        for bit in 0..8 * body.len() {
            let mut wrong = body.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(veil.lift(context, &wrong), None, "bit {bit}");
        }
        assert_eq!(veil.lift(context, &body[..VEIL_BYTES - 1]), None, "cut");
    }

    #[test]
    fn at_a_place_that_comes_twice_only_equal_bodies_look_equal() {
        let veil = Veil::new(&Secret::new([1; 32]));
        let context = VeilContext { kind: 24, session: 7, rank: 1, sequence: 5 };
        let veiled = |body: &[u8]| {
            let mut body = body.to_vec();
            veil.put(context, &mut body);
            body
        };
        let (one, two) = (veiled(&[0; 64]), veiled(&[1; 64]));
        let sum: Vec<u8> = one.iter().zip(&two).map(|(one, two)| one ^ two).collect();
        assert_ne!(sum[..64], [1; 64], "no key stream is used twice");
        assert_eq!(one, veiled(&[0; 64]));
    }
}
