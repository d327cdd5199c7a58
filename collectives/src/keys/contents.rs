//! Encryption of the transferred content, with keys derived from the transfer's secret. Every key
//! and mask is derived from the session's secret and from the data that it protects. Data that is
//! read again, repeated or relayed therefore uses no key for two different texts.
//!
//! Bodies of control messages are encrypted with AES-256-GCM-SIV (RFC 8452), nonce and associated
//! data from the frame's header. Repeating a nonce reveals only whether two bodies are equal.

use super::schedule::{Secret, SessionName};
use super::signer::{PublicKey, SIGNATURE_BYTES, Signed, Signer};
use aes::Aes256;
use aes_gcm_siv::aead::{AeadInOut, KeyInit};
use aes_gcm_siv::{Aes256GcmSiv, Nonce};
use chacha20::ChaCha20;
use ctr::cipher::{InnerIvInit, KeyIvInit, StreamCipher, StreamCipherSeek};
use ctr::{Ctr64BE, Ctr128BE, CtrCore};
use ethbcast_transport::lock::Mutex;
use ethbcast_transport::messages::MessageCipher;
use ethbcast_transport::planted;
use ethbcast_transport::wire::{PayloadHash, Rank, StreamId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub const SEAL_BYTES: usize = 16;

/// Signatures that a receiver keeps: those of 1 TiB, in some 100 MB.
const MAX_SIGNATURES: usize = 1 << 20;

/// Protection of the content of a session: its cipher, and the signatures on its hash lists. By
/// default there is neither. Seals are of the bytes in the clear, masks are removed as they are put
/// on, and `offset` is where the chunk or span begins in the content.
#[derive(Clone, Default)]
pub struct ContentCipher {
    keys: Option<Arc<ContentKeys>>,
    signatures: Option<Arc<Signatures>>,
}

struct Signatures {
    session: SessionName,
    end: SignatureEnd,
}

enum SignatureEnd {
    Sender(Signer),
    /// A receiver cannot sign. It keeps the last signatures, for receivers that lack them.
    Receiver(PublicKey, Mutex<SeenSignatures>),
}

/// Signatures by the offset of their span.
#[derive(Default)]
struct SeenSignatures(BTreeMap<u64, [u8; SIGNATURE_BYTES]>);

impl SeenSignatures {
    fn insert(&mut self, most: usize, offset: u64, signature: [u8; SIGNATURE_BYTES]) {
        self.0.insert(offset, signature);
        if self.0.len() > most {
            self.0.pop_first();
        }
    }
}

struct ContentKeys {
    is_without_aes: bool,
    content: Secret,
    hash_list_seal: Secret,
    hash_list_mask: Secret,
    section_seal: Secret,
    section_mask: Secret,
    fragment_mask: Secret,
}

impl ContentCipher {
    /// Makes the cipher of a group's secret. Where POLYVAL is slow, AES is, too.
    pub fn new(group: &Secret, hash: PayloadHash) -> ContentCipher {
        let key = |context| Secret::derive(context, &[group.expose()]);
        let keys = ContentKeys {
            is_without_aes: hash == PayloadHash::Poly1305,
            content: key("ethbcast 7 content"),
            hash_list_seal: key("ethbcast 7 ledger seal"),
            hash_list_mask: key("ethbcast 7 ledger mask"),
            section_seal: key("ethbcast 7 section seal"),
            section_mask: key("ethbcast 7 section mask"),
            fragment_mask: key("ethbcast 7 fragment mask"),
        };
        ContentCipher {
            keys: Some(Arc::new(keys)),
            signatures: None,
        }
    }

    pub fn signed_by(self, signer: Signer, session: SessionName) -> ContentCipher {
        self.with(session, SignatureEnd::Sender(signer))
    }

    /// Sets the sender who must have signed the hash lists of this session.
    pub fn sent_by(self, sender: PublicKey, session: SessionName) -> ContentCipher {
        self.with(session, SignatureEnd::Receiver(sender, Mutex::default()))
    }

    fn with(self, session: SessionName, end: SignatureEnd) -> ContentCipher {
        ContentCipher {
            signatures: Some(Arc::new(Signatures { session, end })),
            ..self
        }
    }

    /// Whether the session has keys, so that hash lists and the end of the stream are signed.
    pub fn is_keyed(&self) -> bool {
        self.signatures.is_some()
    }

    /// Returns the signature on a hash list as it is sent, whose span begins at `offset`. A
    /// receiver has only those that it has seen.
    pub fn sign_hash_list(&self, list: &[u8], offset: u64) -> Option<[u8; SIGNATURE_BYTES]> {
        let Signatures { session, end } = self.signatures.as_deref()?;
        match end {
            SignatureEnd::Sender(signer) => {
                Some(signer.sign(Signed::HashList, session, &[&signed_place(offset), list]))
            }
            SignatureEnd::Receiver(_, seen) => seen.lock().0.get(&offset).copied(),
        }
    }

    /// Whether the sender has signed a hash list as it came, whose span begins at `offset`. A
    /// sender believes its own.
    pub fn has_signed_hash_list(
        &self,
        list: &[u8],
        offset: u64,
        signature: &[u8; SIGNATURE_BYTES],
    ) -> bool {
        let Some(Signatures {
            session,
            end: SignatureEnd::Receiver(sender, seen),
        }) = self.signatures.as_deref()
        else {
            return true;
        };
        let is_signed = sender.has_signed(
            Signed::HashList,
            session,
            &[&signed_place(offset), list],
            signature,
        );
        if is_signed {
            seen.lock().insert(MAX_SIGNATURES, offset, *signature);
        }
        is_signed
    }

    /// Whether the content is in the clear.
    pub fn is_none(&self) -> bool {
        self.keys.is_none()
    }

    /// Encrypts or decrypts a chunk, which begins at `offset` and has this chaining value in the
    /// clear.
    pub fn chunk(&self, chaining_value: &[u8; 32], offset: u64, bytes: &mut [u8]) {
        let Some(keys) = &self.keys else { return };
        let place = if planted!("one-key-for-all-chunks") {
            0
        } else {
            offset
        };
        let key = keys.content.keyed(&[chaining_value, &place.to_be_bytes()]);
        if keys.is_without_aes {
            ChaCha20::new(key.expose().into(), &Default::default()).apply_keystream(bytes);
        } else {
            Ctr128BE::<Aes256>::new(key.expose().into(), &Default::default())
                .apply_keystream(bytes);
        }
    }

    pub fn hash_list_seal(&self, list: &[u8], offset: u64) -> Option<[u8; SEAL_BYTES]> {
        Some(first(
            &self
                .keys
                .as_ref()?
                .hash_list_seal
                .keyed(&[list, &offset.to_be_bytes()]),
        ))
    }

    pub fn hash_list_mask(&self, seal: &[u8], offset: u64, values: &mut [u8]) {
        if let Some(keys) = &self.keys {
            mask(&keys.hash_list_mask, &[seal, &offset.to_be_bytes()], values);
        }
    }

    pub fn section_seal(&self, head: &[u8], set: &[u8], stretch: u64) -> Option<[u8; SEAL_BYTES]> {
        Some(first(&self.keys.as_ref()?.section_seal.keyed(&[
            head,
            set,
            &stretch.to_be_bytes(),
        ])))
    }

    pub fn section_mask(&self, seal: &[u8], stretch: u64, set: &mut [u8]) {
        if let Some(keys) = &self.keys {
            mask(&keys.section_mask, &[seal, &stretch.to_be_bytes()], set);
        }
    }

    /// Masks or unmasks the fragments behind the masked hash lists of a stretch. A session makes
    /// them once.
    pub fn fragment_mask(&self, hash_lists: &[u8], stretch: u64, fragments: &mut [u8]) {
        if let Some(keys) = &self.keys {
            mask(
                &keys.fragment_mask,
                &[hash_lists, &stretch.to_be_bytes()],
                fragments,
            );
        }
    }
}

fn signed_place(offset: u64) -> [u8; 8] {
    if planted!("hash-list-without-its-place") {
        [0; 8]
    } else {
        offset.to_be_bytes()
    }
}

fn first(hash: &Secret) -> [u8; SEAL_BYTES] {
    *hash
        .expose()
        .first_chunk()
        .expect("a hash is longer than a seal")
}

fn mask(key: &Secret, of: &[&[u8]], bytes: &mut [u8]) {
    let mut hasher = blake3::Hasher::new_keyed(key.expose());
    of.iter().for_each(|part| {
        hasher.update(part);
    });
    let mut stream = vec![0; bytes.len()];
    hasher.finalize_xof().fill(&mut stream);
    bytes
        .iter_mut()
        .zip(stream)
        .for_each(|(byte, mask)| *byte ^= mask);
}

impl PartialEq for ContentCipher {
    fn eq(&self, other: &ContentCipher) -> bool {
        let content =
            |cipher: &ContentCipher| cipher.keys.as_ref().map(|keys| keys.content.clone());
        let session = |cipher: &ContentCipher| {
            cipher
                .signatures
                .as_ref()
                .map(|signatures| signatures.session)
        };
        session(self) == session(other) && content(self) == content(other)
    }
}

impl Eq for ContentCipher {}

impl fmt::Debug for ContentCipher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.is_none() {
            "ContentCipher(none)"
        } else {
            "ContentCipher(…)"
        })
    }
}

const OF_STREAM: u8 = 1;
const OF_MESSAGE: u8 = 2;
const BLOCK_BYTES: u64 = 16;

/// Encryption of what a group's ranks send each other: AES-256 in counter mode. Each block of the
/// key stream is for one place: 16 bytes of a frame of a stream, or of a message from one rank to
/// another. At each place there is one text, whatever is repeated, since a group's secret is its
/// own, and neither streams nor messages are numbered anew.
pub struct RankCipher(Aes256);

impl RankCipher {
    /// Makes the cipher of a group's secret.
    pub fn new(group: &Secret) -> RankCipher {
        let key = Secret::derive("ethbcast 7 ranks content", &[group.expose()]);
        RankCipher(Aes256::new(key.expose().into()))
    }

    /// Encrypts or decrypts bytes of frame `sequence` of a stream, which begin at `offset` in it.
    pub fn frame(&self, stream: StreamId, sequence: u64, offset: u64, bytes: &mut [u8]) {
        self.apply_at(OF_STREAM, [stream.0, 0], sequence, offset, bytes);
    }

    fn apply_at(&self, what: u8, of: [u16; 2], number: u64, offset: u64, bytes: &mut [u8]) {
        let first_block = offset / BLOCK_BYTES;
        let [[a, b], [c, d]] = of.map(u16::to_be_bytes);
        let [_, _, e, f, g, h, i, j] = number.to_be_bytes();
        // 40 bits for blocks are 16 TiB.
        let [.., k, l, m, n, o] = first_block.to_be_bytes();
        let counter = [what, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o];
        let mut stream = Ctr64BE::from_core(CtrCore::inner_iv_init(&self.0, &counter.into()));
        stream.seek(offset % BLOCK_BYTES);
        stream.apply_keystream(bytes);
    }
}

impl MessageCipher for RankCipher {
    fn apply(&self, [from, to]: [Rank; 2], message: u64, offset: u64, bytes: &mut [u8]) {
        self.apply_at(OF_MESSAGE, [from.0, to.0], message, offset, bytes);
    }
}

impl fmt::Debug for RankCipher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RankCipher(…)")
    }
}

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
        self.0
            .encrypt_in_place(&context.nonce(), &[context.kind], body)
            .expect("a body is shorter than 2^36 bytes");
    }

    /// Removes the veil of a body; `None` if the body or its context has changed.
    pub fn lift(&self, context: VeilContext, body: &[u8]) -> Option<Vec<u8>> {
        let mut body = body.to_vec();
        self.0
            .decrypt_in_place(&context.nonce(), &[context.kind], &mut body)
            .ok()?;
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
    use std::collections::BTreeSet;

    const VALUE: [u8; 32] = [3; 32];

    #[test]
    fn the_last_signatures_of_an_endless_stream_are_kept() {
        let mut seen = SeenSignatures::default();
        (0..12).for_each(|offset| seen.insert(9, offset, [0; SIGNATURE_BYTES]));
        assert_eq!(
            seen.0.into_keys().collect::<Vec<_>>(),
            (3..12).collect::<Vec<_>>()
        );
    }

    #[test]
    fn chunks_are_read_by_value_place_and_secret_alone() {
        for hash in [PayloadHash::Polyval, PayloadHash::Poly1305] {
            let [cipher, other] =
                [[1; 32], [2; 32]].map(|bytes| ContentCipher::new(&Secret::new(bytes), hash));
            let sealed = |cipher: &ContentCipher, value: &[u8; 32], offset| {
                let mut bytes = vec![7; 1000];
                cipher.chunk(value, offset, &mut bytes);
                bytes
            };
            let one = sealed(&cipher, &VALUE, 65536);
            assert_ne!(one, [7; 1000]);
            for others in [
                sealed(&other, &VALUE, 65536),
                sealed(&cipher, &[4; 32], 65536),
                sealed(&cipher, &VALUE, 0),
            ] {
                let equal = one
                    .iter()
                    .zip(&others)
                    .filter(|(one, other)| one == other)
                    .count();
                assert!(equal < 40, "{equal} bytes are the same");
            }
            let mut back = one;
            cipher.chunk(&VALUE, 65536, &mut back);
            assert_eq!(back, [7; 1000]);
        }
    }

    #[test]
    fn masks_follow_from_the_seal_and_the_place_and_none_changes_nothing() {
        let cipher = ContentCipher::new(&Secret::new([1; 32]), PayloadHash::Polyval);
        let seal = cipher.hash_list_seal(b"list", 7).expect("there is a key");
        assert_ne!(cipher.hash_list_seal(b"list", 8), Some(seal));
        assert_ne!(cipher.section_seal(b"li", b"st", 7), Some(seal));
        let masked = |by: &dyn Fn(&mut [u8])| {
            let mut bytes = [0; 64];
            by(&mut bytes);
            bytes
        };
        let masks = [
            masked(&|bytes| cipher.hash_list_mask(&seal, 7, bytes)),
            masked(&|bytes| cipher.hash_list_mask(&seal, 8, bytes)),
            masked(&|bytes| cipher.hash_list_mask(&[0; 16], 7, bytes)),
            masked(&|bytes| cipher.section_mask(&seal, 7, bytes)),
            masked(&|bytes| cipher.fragment_mask(&seal, 7, bytes)),
            masked(&|bytes| ContentCipher::default().hash_list_mask(&seal, 7, bytes)),
        ];
        let unlike: std::collections::BTreeSet<_> = masks.iter().collect();
        assert!(unlike.len() == masks.len() && masks[5] == [0; 64]);
        assert_eq!(format!("{cipher:?}"), "ContentCipher(…)");
    }

    #[test]
    fn only_the_sender_signs_a_hash_list_and_a_receiver_repeats_what_it_has_seen() {
        let (signer, session) = (Signer::new(&Secret::new([5; 32])), SessionName([1; 32]));
        let sender = ContentCipher::default().signed_by(signer.clone(), session);
        let receiver = || ContentCipher::default().sent_by(signer.public(), session);
        let signature = sender.sign_hash_list(b"list", 3).expect("it is the sender");
        let member = receiver();
        assert!(
            !member.has_signed_hash_list(b"lisu", 3, &signature)
                && !member.has_signed_hash_list(b"list", 4, &signature)
        );
        assert_eq!(member.sign_hash_list(b"list", 3), None);
        let elsewhere = ContentCipher::default().sent_by(signer.public(), SessionName([2; 32]));
        assert!(!elsewhere.has_signed_hash_list(b"list", 3, &signature));
        assert!(member.has_signed_hash_list(b"list", 3, &signature));
        assert_eq!(
            [2, 3, 4].map(|at| member.sign_hash_list(b"", at)),
            [None, Some(signature), None]
        );
    }

    #[test]
    fn no_two_places_of_a_group_share_a_block_and_each_is_read_by_itself() {
        let (cipher, mut blocks) = (RankCipher::new(&Secret::new([1; 32])), BTreeSet::new());
        let mut note = |by: &dyn Fn(&mut [u8])| {
            let mut bytes = [0; 64];
            by(&mut bytes);
            for block in bytes.chunks(16) {
                assert!(blocks.insert(block.to_vec()), "twice");
            }
        };
        for number in [0, 1, 256, (1 << 48) - 1] {
            for one in [0, 1, 2, 256, 0xFFFF] {
                note(&|bytes| cipher.frame(StreamId(one), number, 0, bytes));
                for two in [0, 1, 2, 256] {
                    for offset in [0, 64, 1 << 36, (1 << 37) + 64] {
                        let ranks = [Rank(one), Rank(two)];
                        note(&|bytes| cipher.apply(ranks, number, offset, bytes));
                    }
                }
            }
        }
        let mut other = [0; 16];
        RankCipher::new(&Secret::new([2; 32])).frame(StreamId(0), 0, 0, &mut other);
        assert!(!blocks.contains(&other[..]));
        // In parts, across the end of a counter of 32 bits.
        let (at, mut whole, mut parts) = ((1 << 36) - 50, [7; 100], [7; 100]);
        let ranks = [Rank(1), Rank(2)];
        cipher.apply(ranks, 3, at, &mut whole);
        for range in [0..21, 21..50, 50..100] {
            cipher.apply(ranks, 3, at + range.start as u64, &mut parts[range]);
        }
        assert_eq!(whole, parts);
        assert_eq!(format!("{cipher:?}"), "RankCipher(…)");
    }

    #[test]
    fn a_veiled_body_is_read_at_its_place_by_its_secret_alone() {
        let [veil, other] = [[1; 32], [2; 32]].map(|bytes| Veil::new(&Secret::new(bytes)));
        let context = VeilContext {
            kind: 24,
            session: 7,
            rank: 1,
            sequence: 5,
        };
        let mut body = b"what is said".to_vec();
        veil.put(context, &mut body);
        assert_eq!(body.len(), 12 + VEIL_BYTES);
        assert_eq!(
            veil.lift(context, &body).as_deref(),
            Some(&b"what is said"[..])
        );
        assert_eq!(other.lift(context, &body), None);
        let elsewhere = [
            VeilContext {
                kind: 23,
                ..context
            },
            VeilContext {
                session: 8,
                ..context
            },
            VeilContext { rank: 2, ..context },
            VeilContext {
                sequence: 6,
                ..context
            },
        ];
        assert!(
            elsewhere
                .iter()
                .all(|context| veil.lift(*context, &body).is_none())
        );
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
        let context = VeilContext {
            kind: 24,
            session: 7,
            rank: 1,
            sequence: 5,
        };
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
