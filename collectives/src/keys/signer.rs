//! Signatures by which receivers recognise a sender: Ed25519 (RFC 8032), verified strictly.

use super::schedule::{Secret, SessionName};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use ethbcast_transport::planted;
use std::fmt;

pub const SIGNATURE_BYTES: usize = 64;

/// Kinds of signed messages. No kind's word begins with another kind's, so that signatures cannot
/// be confused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signed {
    Announce,
    View,
    Verdict,
    Abort,
    Status,
    Response,
    Refuse,
    Trailer,
    HashList,
}

impl Signed {
    fn word(self) -> &'static str {
        match self {
            Signed::Announce => "announce",
            Signed::View => "view",
            Signed::Verdict => "verdict",
            Signed::Abort => "abort",
            Signed::Status => "status",
            Signed::Response => "response",
            Signed::Refuse => "refuse",
            Signed::Trailer => "trailer",
            Signed::HashList => "ledger",
        }
    }

    /// Returns the signed bytes: the protocol and the word, the session, and the fields.
    fn message(self, session: &SessionName, fields: &[&[u8]]) -> Vec<u8> {
        let session = if planted!("signatures-without-the-session") {
            &[]
        } else {
            &session.0[..]
        };
        let mut message = [b"ethbcast 7 ", self.word().as_bytes(), session].concat();
        fields
            .iter()
            .for_each(|field| message.extend_from_slice(field));
        message
    }
}

/// The key of a sender. It is zeroized when dropped.
#[derive(Clone)]
pub struct Signer(SigningKey);

impl Signer {
    pub fn new(seed: &Secret) -> Signer {
        Signer(SigningKey::from_bytes(seed.expose()))
    }

    pub fn seed(&self) -> Secret {
        Secret::new(self.0.to_bytes())
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    pub fn sign(
        &self,
        what: Signed,
        session: &SessionName,
        fields: &[&[u8]],
    ) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(&what.message(session, fields)).to_bytes()
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Signer(…)")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads a public key; `None` for bytes that are none, or for which one signature fits many
    /// messages.
    pub fn new(bytes: &[u8; 32]) -> Option<PublicKey> {
        let key = VerifyingKey::from_bytes(bytes).ok()?;
        (!key.is_weak()).then_some(PublicKey(key))
    }

    pub fn bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }

    pub fn has_signed(
        &self,
        what: Signed,
        session: &SessionName,
        fields: &[&[u8]],
        signature: &[u8; SIGNATURE_BYTES],
    ) -> bool {
        let message = what.message(session, fields);
        self.0
            .verify_strict(&message, &Signature::from_bytes(signature))
            .is_ok()
            || planted!("signatures-not-compared")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_kind_session_and_fields_alone() {
        let signer = Signer::new(&Secret::new([5; 32]));
        let [session, other] = [SessionName([1; 32]), SessionName([2; 32])];
        let signature = signer.sign(Signed::View, &session, &[b"epoch", b"digest"]);
        let public = signer.public();
        let holds =
            |what, session: &SessionName, fields: &[&[u8]], signature: &[u8; SIGNATURE_BYTES]| {
                public.has_signed(what, session, fields, signature)
            };
        assert!(holds(Signed::View, &session, &[b"epochdigest"], &signature));
        assert!(!holds(
            Signed::Verdict,
            &session,
            &[b"epochdigest"],
            &signature
        ));
        assert!(!holds(Signed::View, &other, &[b"epochdigest"], &signature));
        assert!(!holds(
            Signed::View,
            &session,
            &[b"epochdigesu"],
            &signature
        ));
        for bit in 0..8 * SIGNATURE_BYTES {
            let mut wrong = signature;
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(
                !holds(Signed::View, &session, &[b"epochdigest"], &wrong),
                "bit {bit}"
            );
        }
        let non_member = Signer::new(&Secret::new([6; 32]));
        assert!(!non_member.public().has_signed(
            Signed::View,
            &session,
            &[b"epochdigest"],
            &signature
        ));
    }

    #[test]
    fn a_key_under_which_anything_is_signed_is_none() {
        let mut neutral = [0; 32];
        neutral[0] = 1;
        assert_eq!(PublicKey::new(&neutral), None);
        assert_eq!(PublicKey::new(&[0; 32]), None);
        let signer = Signer::new(&Secret::new([5; 32]));
        assert_eq!(
            PublicKey::new(signer.public().bytes()),
            Some(signer.public())
        );
        assert_eq!(
            (signer.seed(), format!("{signer:?}").as_str()),
            (Secret::new([5; 32]), "Signer(…)")
        );
    }
}
