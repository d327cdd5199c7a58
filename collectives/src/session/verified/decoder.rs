//! Decoder of a stream with interleaved hashes: checks every 64 KiB chunk and returns the content.

use super::hash::{ChunkHash, HashPool, Hashing, Merged, open_hash_list, value_in};
use super::layout::{ChunkSize, Form, HEAD_BYTES, SPAN_BYTES, SpanPlace, amount};
use crate::keys::ContentCipher;
use crate::session::message::Trailer;
use std::ops::Range;
use std::sync::Arc;

/// Maximum number of requests for the same bytes before the content is given up.
pub const MAX_ATTEMPTS: u8 = 3;
/// Maximum number of bytes wanted at a time, the limit of one request.
const MAX_BYTES_WANTED: usize = ChunkSize::LONGEST.bytes();
/// Chunks hashed before they are compared; those behind a damaged one are hashed again with it.
const CHUNKS_AT_A_TIME: usize = 16;
const ALL: u64 = u64::MAX;

/// Range of the content that came damaged, and how often: a chunk, or the whole span if its hash
/// list did (`is_hash_list`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedChunk {
    pub content: Range<u64>,
    pub is_hash_list: bool,
    pub times: u8,
}

impl DamagedChunk {
    fn amount(&self) -> String {
        amount(self.content.end - self.content.start)
    }
}

impl std::fmt::Display for DamagedChunk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (bytes, at) = (self.amount(), self.content.start);
        let hash_list = if self.is_hash_list {
            "the hash list of "
        } else {
            ""
        };
        write!(formatter, "{hash_list}{bytes} at byte {at} came damaged")?;
        if self.times > 1 {
            write!(formatter, " {} times", self.times)
        } else {
            Ok(())
        }
    }
}

/// A span that has been verified.
#[derive(Clone, Debug)]
pub struct DecodedContent {
    span: Vec<u8>,
    place: SpanPlace,
    given: usize,
    own: u64,
}

impl DecodedContent {
    pub fn bytes(&self) -> &[u8] {
        let given = self.given * self.place.chunk_size().bytes();
        &self.span[self.span.len().min(self.place.hash_list_bytes() + given)..]
    }

    /// Returns its chunks, each with whether this receiver already held it.
    pub fn chunks(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let numbered = self
            .bytes()
            .chunks(self.place.chunk_size().bytes())
            .zip(self.given..);
        numbered.map(|(chunk, number)| (chunk, self.own >> number & 1 == 1))
    }

    pub fn into_memory(self) -> Vec<u8> {
        self.span
    }
}

/// A span that is held until all of it is verified; `right` has the hashes of the first chunks,
/// which are. Bitmaps have the chunks that have come or were already held (`here`; the others must
/// be fetched), those already held (`own`), and those in the clear, decrypted or already held
/// (`open`).
#[derive(Clone, Debug)]
struct Held {
    place: SpanPlace,
    span: Vec<u8>,
    hash_list_is_right: bool,
    right: Vec<ChunkHash>,
    given: usize,
    times: u8,
    here: u64,
    own: u64,
    open: u64,
}

/// Verifies spans one after the other. A damaged span is held until the wanted part has come again.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    chunk: ChunkSize,
    spans: u64,
    content_bytes: u64,
    merged: Merged,
    held: Option<Held>,
    early: Early,
    hashing: Hashing,
    cipher: ContentCipher,
    damage: Option<DamagedChunk>,
    failed: Option<String>,
}

impl Decoder {
    pub fn new(chunk: ChunkSize) -> Decoder {
        Decoder {
            chunk,
            ..Decoder::default()
        }
    }

    pub fn hashed_by(self, hash_pool: Arc<dyn HashPool>) -> Decoder {
        Decoder {
            hashing: Hashing::by(hash_pool),
            ..self
        }
    }

    pub fn ciphered(self, cipher: ContentCipher) -> Decoder {
        Decoder {
            chunk: self.chunk.signed(cipher.is_keyed()),
            cipher,
            ..self
        }
    }

    pub(super) fn cipher(&self) -> &ContentCipher {
        &self.cipher
    }

    /// Takes the next span: a whole one, or the last. Its content comes from
    /// [`poll`](Decoder::poll), unless part of it is [wanted](Decoder::wanted).
    ///
    /// # Panics
    /// If a span is held already.
    pub fn take(&mut self, span: Vec<u8>) {
        self.take_partly(span, ALL, 0);
    }

    /// Takes the next whole chunks of a span before its rest has come; the first follows the hash
    /// list. Returns the verified ones, which are not delivered again when [the whole
    /// span](Decoder::take) is taken.
    pub fn take_early(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.early.take(self.chunk, self.spans, bytes, &self.cipher)
    }

    /// Takes a span of which only the chunks in the bitmap `here` are present, like
    /// [`take`](Decoder::take). Chunks in the bitmap `own` are those this receiver already held: if
    /// they are wrong, no other host is to blame. Missing chunks are wanted.
    ///
    /// # Panics
    /// If a span is held already.
    pub fn take_partly(&mut self, span: Vec<u8>, here: u64, own: u64) {
        assert!(self.held.is_none(), "one span is checked at a time");
        let place = SpanPlace::of_stream(self.chunk, self.spans, span.len());
        let Some((place, right)) = place.and_then(|place| Some((place, self.early.end(&place)?)))
        else {
            let at = self.content_bytes;
            self.failed = Some(format!(
                "the data behind byte {at} is not of the form that a sender of files sends: send again"
            ));
            return;
        };
        let (given, hash_list_is_right) = (right.len(), false);
        self.held = Some(Held {
            place,
            span,
            hash_list_is_right,
            right,
            given,
            times: 0,
            here,
            own,
            open: own,
        });
        self.check();
    }

    pub fn poll(&mut self) -> Option<DecodedContent> {
        let Held {
            place,
            span,
            right,
            given,
            own,
            ..
        } = self.held.take_if(|held| held.is_right())?;
        right.iter().for_each(|chunk| self.merged.push(chunk));
        self.spans += 1;
        self.content_bytes += place.content_bytes() as u64;
        Some(DecodedContent {
            span,
            place,
            given,
            own,
        })
    }

    pub fn wanted(&self) -> Option<Range<u64>> {
        let held = self
            .held
            .as_ref()
            .filter(|held| self.failed.is_none() && !held.is_right())?;
        let part = held.part();
        Some(held.place.begin() + part.start as u64..held.place.begin() + part.end as u64)
    }

    /// Whether the wanted range has not come at all; otherwise it came damaged.
    pub fn is_lacking(&self) -> bool {
        self.held.as_ref().is_some_and(Held::lacks)
    }

    /// Takes all wanted bytes, which begin at `at`; they may be damaged again.
    pub fn supply(&mut self, at: u64, bytes: &[u8]) {
        if self.wanted() != Some(at..at + bytes.len() as u64) {
            return;
        }
        let held = self.held.as_mut().expect("something of it is wanted");
        let part = held.part();
        held.span[part].copy_from_slice(bytes);
        if held.hash_list_is_right {
            let chunks = bytes.len().div_ceil(self.chunk.bytes());
            for chunk in (0..chunks).map(|chunk| 1 << (held.right.len() + chunk)) {
                (held.here, held.open) = (held.here | chunk, held.open & !chunk);
            }
        }
        self.check();
    }

    pub fn deny(&mut self, why: &str) {
        if let Some(held) = self.held.as_ref().filter(|held| !held.is_right()) {
            let damage = held.damage();
            self.failed = Some(match held.lacks() {
                false => format!("{damage}, and cannot be fetched again: {why}"),
                true => format!(
                    "{} from byte {} on cannot be fetched: {why}",
                    damage.amount(),
                    damage.content.start
                ),
            });
        }
    }

    fn check(&mut self) {
        let Some(held) = &mut self.held else { return };
        if held.check(&self.hashing, &self.cipher) || held.lacks() {
            return;
        }
        held.times += 1;
        let damage = held.damage();
        if held.times > MAX_ATTEMPTS {
            // A cable changes no byte under a tag.
            let what = if self.cipher.is_keyed() {
                "host"
            } else {
                "host or cable"
            };
            self.failed = Some(format!(
                "{damage}: a {what} on the way is bad; send again without it"
            ));
        }
        self.damage = Some(damage);
    }

    pub fn poll_damage(&mut self) -> Option<DamagedChunk> {
        self.damage.take()
    }

    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    pub fn stream_bytes(&self) -> u64 {
        Form::Verified(self.chunk).stream_bytes(self.content_bytes)
    }

    pub fn content(&self) -> Trailer {
        Trailer {
            bytes: self.content_bytes,
            digest: self.merged.digest(),
        }
    }

    /// Returns the trailer that a stream of these bytes should have. The received trailer is not
    /// protected by a hash: if it differs, it came damaged or bytes are missing, and the root can
    /// tell which from this one.
    pub fn trailer(&self) -> Trailer {
        Trailer {
            bytes: self.stream_bytes(),
            ..self.content()
        }
    }
}

impl Held {
    fn is_right(&self) -> bool {
        self.hash_list_is_right && self.right.len() == self.place.chunks()
    }

    fn is_here(&self, chunk: usize) -> bool {
        self.here >> chunk & 1 == 1
    }

    fn lacks(&self) -> bool {
        self.hash_list_is_right && !self.is_right() && !self.is_here(self.right.len())
    }

    /// Range to check next, from the start of the hash list; if chunks are missing, the range
    /// includes the missing ones that follow.
    fn part(&self) -> Range<usize> {
        if !self.hash_list_is_right {
            return 0..self.place.hash_list_bytes();
        }
        let (first, most) = (
            self.right.len(),
            MAX_BYTES_WANTED / self.place.chunk_size().bytes(),
        );
        let more = (first + 1..self.place.chunks())
            .take_while(|&chunk| self.lacks() && !self.is_here(chunk));
        self.place.chunk(first).start..self.place.chunk(first + more.take(most - 1).count()).end
    }

    /// Verifies from the present part on. Returns false at the first damaged part, which then is
    /// the present one.
    fn check(&mut self, hashing: &Hashing, cipher: &ContentCipher) -> bool {
        if !self.hash_list_is_right {
            if !open_hash_list(
                &self.place,
                &mut self.span[..self.place.hash_list_bytes()],
                cipher,
            ) {
                return false;
            }
            (self.hash_list_is_right, self.times) = (true, 0);
        }
        while self.right.len() < self.place.chunks() {
            if !self.check_some(hashing, cipher) {
                return false;
            }
        }
        true
    }

    fn check_some(&mut self, hashing: &Hashing, cipher: &ContentCipher) -> bool {
        let first = self.right.len();
        let most = self.place.chunks().min(first + CHUNKS_AT_A_TIME);
        let end = (first..most)
            .find(|&number| !self.is_here(number))
            .unwrap_or(most);
        let (hash_list, content) = self.span.split_at_mut(self.place.hash_list_bytes());
        let open = self.open;
        for number in (first..end).filter(|number| open >> number & 1 == 0) {
            let Range { start, end } = self.place.chunk(number);
            let chunk = &mut content[start - hash_list.len()..end - hash_list.len()];
            cipher.chunk(
                value_in(hash_list, number),
                self.place.chunk_offset(number),
                chunk,
            );
            self.open |= 1 << number;
        }
        let (hash_list, _) = self.span.split_at(self.place.hash_list_bytes());
        let chunks = hashing.hash_all(first..end, |number| {
            ChunkHash::in_span(&self.place, number, &self.span)
        });
        for (number, chunk) in (first..end).zip(chunks) {
            if chunk.value() != value_in(hash_list, number) {
                // A wrong chunk that was already held counts as missing.
                let own = self.own & (1 << number);
                (self.here, self.own) = (self.here & !own, self.own & !own);
                return false;
            }
            self.right.push(chunk);
            self.times = 0;
        }
        end > first
    }

    fn damage(&self) -> DamagedChunk {
        let content = if self.hash_list_is_right {
            let chunk = self.place.chunk(self.right.len());
            let from = self.place.chunk_offset(self.right.len());
            from..from + chunk.len() as u64
        } else {
            self.place.content()
        };
        DamagedChunk {
            content,
            is_hash_list: !self.hash_list_is_right,
            times: self.times,
        }
    }
}

/// Returns the place of a span whose hash list begins with these bytes, if they are valid.
pub(super) fn early_place(chunk: ChunkSize, index: u64, hash_list: &[u8]) -> Option<SpanPlace> {
    let bytes = u32::from_be_bytes(*hash_list.get(..HEAD_BYTES)?.first_chunk()?) as usize;
    (1..=SPAN_BYTES)
        .contains(&bytes)
        .then(|| SpanPlace::new(chunk, index, bytes))
}

#[derive(Clone, Debug, Default)]
pub(super) struct Early {
    hash_list: Vec<u8>,
    came: usize,
    right: Vec<ChunkHash>,
}

impl Early {
    /// Takes the next whole chunks of span `index`; the first follows the hash list. Returns the
    /// verified ones, up to the first that is damaged.
    pub(super) fn take(
        &mut self,
        size: ChunkSize,
        index: u64,
        bytes: &[u8],
        cipher: &ContentCipher,
    ) -> Vec<u8> {
        let mut rest = bytes;
        if self.came == 0 {
            let Some(whole) = early_place(size, index, bytes)
                .filter(|place| place.hash_list_bytes() <= bytes.len())
            else {
                return Vec::new();
            };
            let (hash_list, content) = bytes.split_at(whole.hash_list_bytes());
            let mut hash_list = hash_list.to_vec();
            if open_hash_list(&whole, &mut hash_list, cipher) {
                self.hash_list = hash_list;
            }
            rest = content;
        }
        let (before, first) = (self.right.len(), self.came);
        self.came += rest.len() / size.bytes();
        let place = early_place(size, index, &self.hash_list).filter(|_| before == first);
        let Some(place) = place else {
            return Vec::new();
        };
        let mut right = rest.to_vec();
        for (number, chunk) in (first..place.chunks()).zip(right.chunks_exact_mut(size.bytes())) {
            let value = value_in(&self.hash_list, number);
            cipher.chunk(value, place.chunk_offset(number), chunk);
            let hash = ChunkHash::of(place.chunk_offset(number), chunk);
            if hash.value() != value {
                break;
            }
            self.right.push(hash);
        }
        right.truncate((self.right.len() - before) * size.bytes());
        right
    }

    /// Ends the span, which is complete and at this place. Returns the hashes of its chunks that
    /// were delivered early; `None` if its hash list described another span.
    pub(super) fn end(&mut self, is_at: &SpanPlace) -> Option<Vec<ChunkHash>> {
        let Early {
            hash_list, right, ..
        } = std::mem::take(self);
        (right.is_empty()
            || early_place(is_at.chunk_size(), is_at.index(), &hash_list) == Some(*is_at))
        .then_some(right)
    }
}

/// Collects the bytes of a stream until a span with its hash list is complete.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    chunk: ChunkSize,
    span: Vec<u8>,
    shown: usize,
}

impl Spans {
    /// Bytes of the longest span, for which the memory given to [`begin`](Spans::begin) should have
    /// room.
    pub const MAX_BYTES: usize = ChunkSize::SHORTEST.signed(true).whole_bytes();

    pub fn new(chunk: ChunkSize) -> Spans {
        Spans {
            chunk,
            ..Spans::default()
        }
    }

    /// Whether the next span is empty, so that it needs memory from [`begin`](Spans::begin).
    pub fn is_empty(&self) -> bool {
        self.span.is_empty()
    }

    pub fn begin(&mut self, mut memory: Vec<u8>) {
        debug_assert!(self.is_empty());
        memory.clear();
        self.span = memory;
    }

    /// Takes the bytes that belong to this span and returns the rest.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (own, rest) =
            bytes.split_at(bytes.len().min(self.chunk.whole_bytes() - self.span.len()));
        self.span.extend_from_slice(own);
        rest
    }

    pub fn is_whole(&self) -> bool {
        self.span.len() == self.chunk.whole_bytes()
    }

    /// Returns the whole chunks of the span that were not returned yet, the first behind the hash
    /// list; empty if there are none.
    pub fn whole_chunks(&mut self) -> &[u8] {
        let hash_list_bytes = early_place(self.chunk, 0, &self.span)
            .map_or(usize::MAX, |place| place.hash_list_bytes());
        let chunks = self.span.len().saturating_sub(hash_list_bytes) / self.chunk.bytes();
        if chunks == 0 {
            return &[];
        }
        let end = hash_list_bytes + chunks * self.chunk.bytes();
        &self.span[std::mem::replace(&mut self.shown, end)..end]
    }

    /// Ends the span, whole or the last of the stream, and returns it.
    pub fn end(&mut self) -> Vec<u8> {
        self.shown = 0;
        std::mem::take(&mut self.span)
    }
}
