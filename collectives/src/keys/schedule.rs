//! Key schedule: derives every secret of a transfer from the cluster's secret and both ends' random
//! numbers. They exchange keys by X25519 (RFC 7748), with fresh ones at both ends.

use ethbcast_transport::wire::{Guard, PayloadHash};
use ethbcast_transport::{MacAddr, planted};
use std::fmt;
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};
use zeroize::Zeroize;

/// A secret of 32 bytes. It is zeroized when dropped, never printed, and compared in constant time.
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl Secret {
    pub const fn new(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    pub const fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns BLAKE3's `derive_key` of the parts, one after the other.
    pub fn derive(context: &str, parts: &[&[u8]]) -> Secret {
        finish(blake3::Hasher::new_derive_key(context), parts)
    }

    /// Returns BLAKE3's `keyed_hash` of the parts, one after the other.
    pub fn keyed(&self, parts: &[&[u8]]) -> Secret {
        finish(blake3::Hasher::new_keyed(&self.0), parts)
    }

    pub fn guard(&self, hash: PayloadHash) -> Guard {
        let [tag_key, hash_key] = ["ethbcast 7 tag", "ethbcast 7 hash"]
            .map(|context| Secret::derive(context, &[self.expose()]));
        Guard::keyed(tag_key.expose(), hash_key.expose(), hash)
    }
}

fn finish(mut hasher: blake3::Hasher, parts: &[&[u8]]) -> Secret {
    parts.iter().for_each(|part| {
        hasher.update(part);
    });
    let mut hash = hasher.finalize();
    let secret = Secret(*hash.as_bytes());
    hash.zeroize();
    hasher.zeroize();
    secret
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        // Equality of hashes takes the same time for all.
        blake3::Hash::from_bytes(self.0) == blake3::Hash::from_bytes(other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(…)")
    }
}

/// Properties that together distinguish a session from every other one. Its root draws the bytes
/// `random` and the public key `exchange`; `sender` is the sender's public key.
#[derive(Clone, Copy, Debug)]
pub struct SessionFacts<'a> {
    pub session: u32,
    pub random: &'a [u8; 32],
    pub exchange: &'a [u8; 32],
    pub sender: &'a [u8; 32],
    pub root: MacAddr,
    pub group: &'a str,
}

/// Unique name of a session; the session number is too short to be unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionName(pub [u8; 32]);

impl SessionName {
    pub fn of(facts: &SessionFacts<'_>) -> SessionName {
        let SessionFacts {
            session,
            random,
            exchange,
            sender,
            root,
            group,
        } = *facts;
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(b"ethbcast 7 session")
            .update(&session.to_be_bytes())
            .update(random)
            .update(exchange);
        hasher
            .update(sender)
            .update(&root.octets())
            .update(group.as_bytes());
        SessionName(*hasher.finalize().as_bytes())
    }
}

pub fn request_digest(request: &[u8], source: MacAddr) -> [u8; 32] {
    *blake3::Hasher::new()
        .update(request)
        .update(&source.octets())
        .finalize()
        .as_bytes()
}

/// Returns the secret of a root and one receiver: of the cluster's secret, their exchange, the
/// session, and the [digest](request_digest) of the receiver's request.
pub fn pair_secret(
    cluster: &Secret,
    exchanged: &Secret,
    session: &SessionName,
    request: &[u8; 32],
) -> Secret {
    let exchanged = if planted!("pair-secret-of-the-cluster-alone") {
        cluster
    } else {
        exchanged
    };
    let parts: [&[u8]; 4] = [cluster.expose(), exchanged.expose(), &session.0, request];
    Secret::derive("ethbcast 7 pair", &parts)
}

/// A pair of exchange keys, drawn for one session of a root or one run of a receiver.
#[derive(Clone)]
pub struct ExchangePair {
    secret: Secret,
    public: [u8; 32],
}

impl ExchangePair {
    pub fn new(drawn: Secret) -> ExchangePair {
        let public = x25519(*drawn.expose(), X25519_BASEPOINT_BYTES);
        ExchangePair {
            secret: drawn,
            public,
        }
    }

    pub fn public(&self) -> &[u8; 32] {
        &self.public
    }

    /// Returns the secret shared with the owner of `public`; `None` for a public key that yields
    /// the same secret whatever the own one is (RFC 7748 §6.1).
    pub fn agree(&self, public: &[u8; 32]) -> Option<Secret> {
        let shared = Secret::new(x25519(*self.secret.expose(), *public));
        (shared != Secret::new([0; 32])).then_some(shared)
    }

    /// Returns the nonce of a receiver's run, which is bound to its public exchange key.
    pub fn nonce(public: &[u8; 32]) -> u64 {
        let digest = blake3::hash(public);
        let (first, _) = digest
            .as_bytes()
            .split_first_chunk()
            .expect("a digest has 32 bytes");
        u64::from_be_bytes(*first)
    }
}

impl fmt::Debug for ExchangePair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ExchangePair")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::hex;

    #[test]
    fn a_session_has_another_name_if_any_fact_of_it_differs() {
        let (one, two) = ([1; 32], [2; 32]);
        let root = MacAddr::new(2, 0, 0, 0, 0, 1);
        let facts = SessionFacts {
            session: 7,
            random: &one,
            exchange: &one,
            sender: &one,
            root,
            group: "g",
        };
        let other = [
            SessionFacts {
                session: 8,
                ..facts
            },
            SessionFacts {
                random: &two,
                ..facts
            },
            SessionFacts {
                exchange: &two,
                ..facts
            },
            SessionFacts {
                sender: &two,
                ..facts
            },
            SessionFacts {
                root: MacAddr::new(2, 0, 0, 0, 0, 2),
                ..facts
            },
            SessionFacts {
                group: "h",
                ..facts
            },
        ];
        assert_eq!(SessionName::of(&facts), SessionName::of(&facts));
        assert!(
            other
                .iter()
                .all(|other| SessionName::of(other) != SessionName::of(&facts))
        );
    }

    #[test]
    fn a_pair_shares_a_secret_with_nobody_else() {
        let [cluster, other] = [[1; 32], [2; 32]].map(Secret::new);
        let [here, there] = [1, 2].map(|last| MacAddr::new(2, 0, 0, 0, 0, last));
        let [session, next] = [SessionName([3; 32]), SessionName([4; 32])];
        let request = request_digest(b"join", here);
        let secrets = [
            pair_secret(&cluster, &cluster, &session, &request),
            pair_secret(&other, &cluster, &session, &request),
            pair_secret(&cluster, &other, &session, &request),
            pair_secret(&cluster, &cluster, &next, &request),
            pair_secret(&cluster, &cluster, &session, &request_digest(b"joim", here)),
            pair_secret(
                &cluster,
                &cluster,
                &session,
                &request_digest(b"join", there),
            ),
        ];
        let equal = secrets
            .iter()
            .flat_map(|one| secrets.iter().filter(move |two| one == *two));
        assert_eq!(equal.count(), secrets.len(), "each equals itself alone");
    }

    #[test]
    fn a_secret_is_not_printed() {
        assert_eq!(format!("{:?}", Secret::new([7; 32])), "Secret(…)");
    }

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
