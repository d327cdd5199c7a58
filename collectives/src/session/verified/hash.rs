//! BLAKE3 hashes of chunks, and the digest of the whole content made from them.

use super::layout::{HEAD_BYTES, SEAL_BYTES, SIGNATURE_BYTES, SpanPlace, VALUE_BYTES};
use crate::keys::ContentCipher;
use crate::session::message::Digest;
use blake3::Hasher;
use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use ethbcast_transport::planted;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// Hash of a chunk: its BLAKE3 chaining value. The first chunk also has the digest of a content
/// that consists of it only (`alone`).
#[derive(Clone, Copy, Debug)]
pub struct ChunkHash {
    value: [u8; VALUE_BYTES],
    alone: Option<Digest>,
}

impl ChunkHash {
    pub(super) fn of(offset: u64, bytes: &[u8]) -> ChunkHash {
        let mut hasher = Hasher::new();
        hasher.set_input_offset(offset).update(bytes);
        let alone = (offset == 0).then(|| *hasher.finalize().as_bytes());
        ChunkHash {
            value: hasher.finalize_non_root(),
            alone,
        }
    }

    pub(super) fn in_span(place: &SpanPlace, number: usize, span: &[u8]) -> ChunkHash {
        ChunkHash::of(place.chunk_offset(number), &span[place.chunk(number)])
    }

    pub(super) fn value(&self) -> &[u8; VALUE_BYTES] {
        &self.value
    }
}

/// Merges chunks into the digest of the whole: the part of BLAKE3's tree above them.
#[derive(Clone, Debug, Default)]
pub(super) struct Merged {
    stack: Vec<[u8; VALUE_BYTES]>,
    chunks: u64,
    alone: Option<Digest>,
}

impl Merged {
    pub(super) fn push(&mut self, chunk: &ChunkHash) {
        // Two subtrees of equal size are merged only when more follows: until then they may be the
        // root's children.
        while self.stack.len() > self.chunks.count_ones() as usize {
            let (right, left) = (
                self.stack.pop().expect("counted"),
                self.stack.pop().expect("counted"),
            );
            self.stack
                .push(merge_subtrees_non_root(&left, &right, Mode::Hash));
        }
        self.stack.push(chunk.value);
        self.alone = self.alone.or(chunk.alone);
        self.chunks += 1;
    }

    pub(super) fn digest(&self) -> Digest {
        let Some((last, others)) = self.stack.split_last() else {
            return *blake3::hash(&[]).as_bytes();
        };
        let Some((first, between)) = others.split_first() else {
            return self.alone.expect("the only one is the first");
        };
        let right = between.iter().rev().fold(*last, |right, left| {
            merge_subtrees_non_root(left, &right, Mode::Hash)
        });
        *merge_subtrees_root(first, &right, Mode::Hash).as_bytes()
    }
}

pub(super) fn write_hash_list(
    place: &SpanPlace,
    chunks: &[ChunkHash],
    hash_list: &mut [u8],
    cipher: &ContentCipher,
) {
    let bytes = u32::try_from(place.content_bytes()).expect("a span is small");
    hash_list[..4].copy_from_slice(&bytes.to_be_bytes());
    hash_list[4..HEAD_BYTES].fill(0);
    for (to, chunk) in hash_list[HEAD_BYTES..]
        .chunks_exact_mut(VALUE_BYTES)
        .zip(chunks)
    {
        to.copy_from_slice(&chunk.value);
    }
    let (list, end) = hash_list.split_at_mut(place.list_bytes());
    end[..SEAL_BYTES].copy_from_slice(&seal(place, list, cipher));
    mask(place, hash_list, cipher);
    let (sealed, signature) = hash_list.split_at_mut(place.list_bytes() + SEAL_BYTES);
    if !signature.is_empty() {
        // A receiver that lacks a list that no host can sign requests it again.
        signature.copy_from_slice(
            &cipher
                .sign_hash_list(sealed, place.content_begin())
                .unwrap_or([0; SIGNATURE_BYTES]),
        );
    }
}

/// Lifts the mask of a hash list; false if it is not as its sender made it, and then it stays as it
/// came. Nothing of a span is believed before.
pub(super) fn open_hash_list(
    place: &SpanPlace,
    hash_list: &mut [u8],
    cipher: &ContentCipher,
) -> bool {
    if !is_signed(place, hash_list, cipher) {
        return false;
    }
    mask(place, hash_list, cipher);
    let (list, end) = hash_list.split_at(place.list_bytes());
    let (bytes, zero) = list[..HEAD_BYTES].split_at(4);
    let is_right = bytes == (place.content_bytes() as u32).to_be_bytes()
        && zero == [0; 4]
        && end[..SEAL_BYTES] == seal(place, list, cipher);
    if !is_right {
        mask(place, hash_list, cipher);
    }
    is_right
}

fn is_signed(place: &SpanPlace, hash_list: &[u8], cipher: &ContentCipher) -> bool {
    let (sealed, signature) = hash_list.split_at(place.list_bytes() + SEAL_BYTES);
    match signature.first_chunk::<SIGNATURE_BYTES>() {
        Some(signature) => {
            planted!("ledger-signature-not-compared")
                || cipher.has_signed_hash_list(sealed, place.content_begin(), signature)
        }
        None => !cipher.is_keyed(),
    }
}

fn mask(place: &SpanPlace, hash_list: &mut [u8], cipher: &ContentCipher) {
    let (list, end) = hash_list.split_at_mut(place.list_bytes());
    cipher.hash_list_mask(
        &end[..SEAL_BYTES],
        place.content_begin(),
        &mut list[HEAD_BYTES..],
    );
}

pub(super) fn value_in(hash_list: &[u8], number: usize) -> &[u8; VALUE_BYTES] {
    hash_list[HEAD_BYTES + number * VALUE_BYTES..]
        .first_chunk()
        .expect("the list has it")
}

fn seal(place: &SpanPlace, list: &[u8], cipher: &ContentCipher) -> [u8; SEAL_BYTES] {
    if let Some(seal) = cipher.hash_list_seal(list, place.content_begin()) {
        return seal;
    }
    let mut hasher = Hasher::new();
    hasher
        .update(list)
        .update(&place.content_begin().to_be_bytes());
    let digest = hasher.finalize();
    *digest
        .as_bytes()
        .first_chunk()
        .expect("a digest is longer than a seal")
}

pub trait HashPool: Debug + Send + Sync {
    fn hash_all(
        &self,
        chunks: Range<usize>,
        hash: &(dyn Fn(usize) -> ChunkHash + Sync),
    ) -> Vec<ChunkHash>;
}

/// Hashes one chunk after the other on the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct Alone;

impl HashPool for Alone {
    fn hash_all(
        &self,
        chunks: Range<usize>,
        hash: &(dyn Fn(usize) -> ChunkHash + Sync),
    ) -> Vec<ChunkHash> {
        chunks.map(hash).collect()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Hashing(Arc<dyn HashPool>);

impl Default for Hashing {
    fn default() -> Hashing {
        Hashing(Arc::new(Alone))
    }
}

impl Hashing {
    pub(super) fn by(hash_pool: Arc<dyn HashPool>) -> Hashing {
        Hashing(hash_pool)
    }

    pub(super) fn hash_all(
        &self,
        chunks: Range<usize>,
        hash: impl Fn(usize) -> ChunkHash + Sync,
    ) -> impl Iterator<Item = ChunkHash> {
        self.0.hash_all(chunks, &hash).into_iter()
    }
}
