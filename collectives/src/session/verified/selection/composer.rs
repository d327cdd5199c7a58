//! Decoder of a delta transfer, which contains only missing 64 KiB chunks.

use super::chunk_set::ChunkSet;
use super::sections::{DueSection, HEAD_BYTES, Head, MAX_AHEAD, SectionPart, Sections};
use super::stretch::{
    Cut, Cutter, FRAGMENT_BYTES, Fragment, HaveSet, HeldContent, Origin, StretchHashes,
    StretchPlace, stretches,
};
use crate::keys::ContentCipher;
use crate::session::message::Needs;
use crate::session::verified::encoder::SpanBuffer;
use crate::session::verified::layout::{ChunkSize, SpanPlace};
use ethbcast_transport::lock::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Output of a [`Composer`]: the hash lists of the next stretch, whose want-bitmap the root waits
/// for; the next span, with the chunks that were sent to all; or a stretch that is not sent,
/// because the root only queries want-bitmaps.
#[derive(Clone, Debug)]
pub enum Composed {
    HashList(Arc<StretchHashes>),
    Span(PartialSpan),
    Passed(u64),
}

/// A span with its hash list and content, where zeros stand for missing chunks. `here` is the
/// bitmap of the chunks that have come; `stretch` is the number of its stretch, and its first chunk
/// there.
#[derive(Clone, Debug)]
pub struct PartialSpan {
    pub place: SpanPlace,
    pub bytes: Vec<u8>,
    pub here: u64,
    pub stretch: (u64, usize),
    pub is_last: bool,
}

#[derive(Clone, Debug)]
enum State {
    Begin,
    HashLists {
        place: StretchPlace,
        before: u16,
        bytes: usize,
    },
    Padding(usize),
    Set {
        head: [u8; HEAD_BYTES],
        bytes: usize,
    },
    Chunks(Box<OpenSection>),
}

enum Begun {
    Section(State),
    Passed(u64),
}

#[derive(Clone, Debug)]
struct OpenSection {
    place: StretchPlace,
    hash_list: Option<Arc<StretchHashes>>,
    set: ChunkSet,
    span: usize,
    bytes: Vec<u8>,
    /// Chunks of the span that are present, or are not sent.
    passed: usize,
    filled: usize,
}

/// Makes spans of a selective stream. Malformed parts count as not sent: their spans have no
/// chunks, and all of their chunks are fetched.
#[derive(Clone, Debug)]
pub struct Composer {
    chunk: ChunkSize,
    content_bytes: u64,
    cipher: ContentCipher,
    input: Vec<u8>,
    at: usize,
    hash_lists: VecDeque<Arc<StretchHashes>>,
    next_hash_list: u64,
    next_chunks: u64,
    state: State,
    ended: bool,
}

impl Composer {
    pub fn new(chunk: ChunkSize, content_bytes: u64) -> Composer {
        Composer {
            chunk,
            content_bytes,
            cipher: ContentCipher::default(),
            input: Vec::new(),
            at: 0,
            hash_lists: VecDeque::new(),
            next_hash_list: 0,
            next_chunks: 0,
            state: State::Begin,
            ended: false,
        }
    }

    pub fn ciphered(self, cipher: &ContentCipher) -> Composer {
        Composer {
            cipher: cipher.clone(),
            ..self
        }
    }

    pub fn take(&mut self, bytes: &[u8]) {
        if !self.ended {
            self.input.drain(..std::mem::take(&mut self.at));
            self.input.extend_from_slice(bytes);
        }
    }

    pub fn finish(&mut self) {
        self.ended = true;
    }

    pub fn decided(&self) -> u64 {
        self.next_chunks + u64::from(matches!(self.state, State::Chunks(_)))
    }

    /// Returns the next complete output; `memory` supplies memory for a span.
    pub fn poll(&mut self, mut memory: impl FnMut() -> Vec<u8>) -> Option<Composed> {
        loop {
            match &mut self.state {
                State::Chunks(open) => {
                    let input = &self.input[self.at..];
                    let (span, taken) =
                        open.go_on(if self.ended { None } else { Some(input) }, &mut memory);
                    self.at += taken;
                    let done = open.is_done();
                    if done {
                        (self.state, self.next_chunks) = (State::Begin, self.next_chunks + 1);
                    }
                    match span {
                        Some(span) => return Some(Composed::Span(span)),
                        None if !done => return None,
                        None => {}
                    }
                }
                _ if self.ended => self.state = self.without_data()?,
                State::HashLists {
                    place,
                    before,
                    bytes,
                } => {
                    let hash_list = self.input[self.at..].get(..*bytes)?;
                    self.at += *bytes;
                    let hash_list = Arc::new(StretchHashes::read(
                        *place,
                        u64::from(*before),
                        hash_list,
                        &self.cipher,
                    ));
                    (self.state, self.next_hash_list) = (State::Begin, self.next_hash_list + 1);
                    self.hash_lists.push_back(Arc::clone(&hash_list));
                    return Some(Composed::HashList(hash_list));
                }
                State::Padding(left) => {
                    let count = (*left).min(self.input.len() - self.at);
                    (self.at, *left) = (self.at + count, *left - count);
                    if *left > 0 {
                        return None;
                    }
                    self.state = State::Begin;
                }
                State::Begin => {
                    let head = *self.input[self.at..].first_chunk()?;
                    self.at += HEAD_BYTES;
                    match self.begin(&head) {
                        Some(Begun::Section(state)) => self.state = state,
                        Some(Begun::Passed(stretch)) => {
                            self.hash_lists.pop_front();
                            self.next_chunks += 1;
                            return Some(Composed::Passed(stretch));
                        }
                        None => self.give_up(),
                    }
                }
                State::Set { head, bytes } => {
                    let (head, bytes) = (*head, *bytes);
                    let set = self.input[self.at..].get(..bytes)?.to_vec();
                    self.at += bytes;
                    match self.open(&head, &set) {
                        Some(open) => self.state = State::Chunks(Box::new(open)),
                        None => self.give_up(),
                    }
                }
            }
        }
    }

    fn begin(&self, head: &[u8; HEAD_BYTES]) -> Option<Begun> {
        let is_sealed = |stretch| head[8..] == Head::seal(head, &[], stretch, &self.cipher);
        let state = match Head::read(head)? {
            Head::HashLists { before, fragments } => {
                let place = self.place(self.next_hash_list)?;
                let sound =
                    is_sealed(place.number()) && self.next_hash_list < self.next_chunks + MAX_AHEAD;
                let bytes = place.hash_list_bytes() + fragments as usize * FRAGMENT_BYTES;
                sound.then_some(State::HashLists {
                    place,
                    before,
                    bytes,
                })
            }
            Head::Chunks { set_bytes } => Some(State::Set {
                head: *head,
                bytes: set_bytes.into(),
            }),
            Head::Padding { bytes } => {
                is_sealed(self.next_chunks).then_some(State::Padding(bytes as usize))
            }
            Head::Passed => {
                let sound = is_sealed(self.next_chunks) && !self.hash_lists.is_empty();
                return sound.then_some(Begun::Passed(self.next_chunks));
            }
        };
        state.map(Begun::Section)
    }

    fn open(&mut self, head: &[u8; HEAD_BYTES], set: &[u8]) -> Option<OpenSection> {
        let place = self.place(self.next_chunks)?;
        let mut set = set.to_vec();
        self.cipher
            .section_mask(&head[8..], place.number(), &mut set);
        let sound = head[8..] == Head::seal(head, &set, place.number(), &self.cipher)
            && !self.hash_lists.is_empty();
        let set = ChunkSet::read(place.chunks(), &set).filter(|_| sound)?;
        Some(OpenSection::new(place, self.hash_lists.pop_front(), set))
    }

    fn without_data(&mut self) -> Option<State> {
        let place = self.place(self.next_chunks)?;
        Some(State::Chunks(Box::new(OpenSection::new(
            place,
            self.hash_lists.pop_front(),
            ChunkSet::default(),
        ))))
    }

    fn place(&self, stretch: u64) -> Option<StretchPlace> {
        StretchPlace::of(self.chunk, stretch, self.content_bytes)
    }

    fn give_up(&mut self) {
        log::warn!(
            "what came of stretch {} on is not what a sender sends: it is fetched",
            self.next_chunks
        );
        (self.ended, self.at) = (true, 0);
        self.input = Vec::new();
    }

    pub fn is_done(&self) -> bool {
        self.next_chunks == stretches(self.chunk, self.content_bytes)
    }
}

impl OpenSection {
    fn new(
        place: StretchPlace,
        hash_list: Option<Arc<StretchHashes>>,
        set: ChunkSet,
    ) -> OpenSection {
        OpenSection {
            place,
            hash_list,
            set,
            span: 0,
            bytes: Vec::new(),
            passed: 0,
            filled: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.span * self.place.chunk_size().in_span() >= self.place.chunks()
    }

    /// Continues with `input`, or without missing chunks if there will be no more. Returns the next
    /// span if it is complete, and the number of bytes taken.
    fn go_on(
        &mut self,
        input: Option<&[u8]>,
        memory: &mut impl FnMut() -> Vec<u8>,
    ) -> (Option<PartialSpan>, usize) {
        let first = self.span * self.place.chunk_size().in_span();
        let (place, _) = self.place.span_of(first);
        if self.bytes.is_empty() {
            self.bytes = memory();
            self.bytes.clear();
            self.bytes.extend_from_slice(
                self.hash_list
                    .as_ref()
                    .map_or(&[], |hash_list| hash_list.hash_list(self.span)),
            );
            self.bytes.resize(place.bytes(), 0);
        }
        let mut taken = 0;
        while self.passed < place.chunks() {
            if self.set.contains(first + self.passed) {
                let Some(input) = input else {
                    // An announced chunk was not sent.
                    (first + self.passed..first + place.chunks())
                        .for_each(|chunk| self.set.remove(chunk));
                    continue;
                };
                let to = place.chunk(self.passed);
                let count = (to.len() - self.filled).min(input.len() - taken);
                self.bytes[to.start + self.filled..][..count]
                    .copy_from_slice(&input[taken..][..count]);
                (taken, self.filled) = (taken + count, self.filled + count);
                if self.filled < to.len() {
                    return (None, taken);
                }
            }
            (self.passed, self.filled) = (self.passed + 1, 0);
        }
        let here = (0..place.chunks())
            .filter(|&chunk| self.set.contains(first + chunk))
            .map(|chunk| 1 << chunk)
            .sum();
        let (bytes, stretch) = (
            std::mem::take(&mut self.bytes),
            (self.place.number(), first),
        );
        (self.span, self.passed) = (self.span + 1, 0);
        (
            Some(PartialSpan {
                place,
                bytes,
                here,
                stretch,
                is_last: self.is_done(),
            }),
            taken,
        )
    }
}

#[derive(Debug, Clone)]
pub struct Selector {
    sections: Arc<Mutex<Sections>>,
    cutter: Cutter,
    frame_bytes: u64,
    cipher: ContentCipher,
}

impl Selector {
    /// Creates a selector for a content of `content_bytes` bytes with chunks of size `chunk`; `cut`
    /// selects how fragments are cut. The stream goes in frames of `frame_bytes` bytes, of which
    /// only whole ones are sent at once.
    pub fn new(chunk: ChunkSize, content_bytes: u64, cut: Cut, frame_bytes: usize) -> Selector {
        let sections = Arc::new(Mutex::new(Sections::new(chunk, content_bytes)));
        let (cutter, frame_bytes) = (Cutter::new(cut, chunk), frame_bytes.max(1) as u64);
        Selector {
            sections,
            cutter,
            frame_bytes,
            cipher: ContentCipher::default(),
        }
    }

    pub fn ciphered(self, cipher: &ContentCipher) -> Selector {
        self.sections.lock().set_cipher(cipher.clone());
        Selector {
            cipher: cipher.clone(),
            ..self
        }
    }

    pub fn sections(&self) -> &Arc<Mutex<Sections>> {
        &self.sections
    }

    pub fn due(&self) -> DueSection {
        self.sections.lock().due()
    }

    /// Makes the section with the hash lists of the stretch that is due. `next` seals its spans one
    /// after the other, and may reuse the memory of the previous one.
    ///
    /// # Errors
    /// Those of `next`.
    pub fn hash_lists<E>(
        &mut self,
        place: &StretchPlace,
        mut next: impl FnMut(&SpanPlace, SpanBuffer) -> Result<SpanBuffer, E>,
    ) -> Result<Vec<u8>, E> {
        let (mut hash_lists, mut fragments, mut buffer) =
            (Vec::new(), Vec::new(), SpanBuffer::default());
        for span in place.spans() {
            buffer = next(&span, buffer)?;
            buffer.open_content(&span, &self.cipher);
            self.cutter
                .feed(buffer.content(), |fragment, _| fragments.push(fragment));
            hash_lists.extend_from_slice(buffer.hash_list());
        }
        let content_bytes = self.sections.lock().content_bytes();
        if place.begin() + place.bytes() == content_bytes {
            self.cutter.finish(|fragment, _| fragments.push(fragment));
        }
        let before = fragments.first().map_or(0, |first: &Fragment| {
            place.begin().saturating_sub(first.offset)
        });
        let parts = self
            .sections
            .lock()
            .add_hash_lists(before as u16, fragments.len() as u32);
        let Some(SectionPart::Bytes(mut section)) = parts.into_iter().next() else {
            unreachable!("every section has a head")
        };
        let mut names = Vec::new();
        fragments
            .iter()
            .for_each(|fragment| fragment.write(&mut names));
        self.cipher
            .fragment_mask(&hash_lists, place.number(), &mut names);
        section.append(&mut hash_lists);
        section.append(&mut names);
        Ok(section)
    }

    /// Makes the padding that completes a frame, so that everything before it is sent, if a choice
    /// is pending.
    pub fn padding(&mut self) -> Option<Vec<u8>> {
        match self.sections.lock().pad(self.frame_bytes).pop()? {
            SectionPart::Bytes(bytes) => Some(bytes),
            SectionPart::Whole(_) | SectionPart::Names(_) => None,
        }
    }

    pub fn pass(&mut self) -> Vec<SectionPart> {
        self.sections.lock().pass()
    }

    pub fn chunks(&mut self, chunks: ChunkSet) -> Vec<SectionPart> {
        self.sections.lock().add_chunks(chunks)
    }
}

/// A span, hash list and content, with the chunks present; the others must be fetched. Bitmaps have
/// the chunks present (`here`), those that this receiver already held (`own`), and those of them
/// that are in place.
#[derive(Clone, Debug)]
pub struct Completed {
    pub span: Vec<u8>,
    pub here: u64,
    pub own: u64,
    pub in_place: u64,
}

#[derive(Clone, Debug)]
pub enum Completion {
    /// Want-bitmap of the next stretch whose hash lists have come. It must be sent at once, because
    /// the root waits for it.
    Needs(Needs),
    Span(Completed),
    Passed,
}

/// Makes spans of received chunks and chunks already held, and lists missing chunks.
#[derive(Clone, Debug)]
pub struct Completer {
    composer: Composer,
    holdings: Option<Arc<dyn HaveSet>>,
    have: BTreeMap<u64, ChunkSet>,
}

impl Completer {
    pub fn new(
        offer: &HeldContent,
        holdings: Option<Arc<dyn HaveSet>>,
        cipher: &ContentCipher,
    ) -> Completer {
        holdings.iter().for_each(|holdings| holdings.begin(offer));
        let composer = Composer::new(offer.chunk, offer.size).ciphered(cipher);
        Completer {
            composer,
            holdings,
            have: BTreeMap::new(),
        }
    }

    pub fn take(&mut self, bytes: &[u8]) {
        self.composer.take(bytes);
    }

    pub fn finish(&mut self) {
        self.composer.finish();
    }

    pub fn is_done(&self) -> bool {
        self.composer.is_done()
    }

    pub fn decided(&self) -> u64 {
        self.composer.decided()
    }

    /// Returns the next output; `memory` supplies memory for a span. It reads chunks already held,
    /// so it may block on their disk.
    pub fn poll(&mut self, memory: impl FnMut() -> Vec<u8>) -> Option<Completion> {
        match self.composer.poll(memory)? {
            Composed::HashList(hash_list) => {
                let all = ChunkSet::first(hash_list.chunks());
                let have = self
                    .holdings
                    .as_ref()
                    .map_or(ChunkSet::default(), |holdings| holdings.have(&hash_list));
                let have = have.and(&all);
                self.have.insert(hash_list.number(), have);
                let mut set = Vec::new();
                all.without(&have).write(hash_list.chunks(), &mut set);
                Some(Completion::Needs(Needs {
                    stretch: hash_list.number(),
                    set,
                }))
            }
            Composed::Span(span) => Some(Completion::Span(self.complete(span))),
            Composed::Passed(stretch) => {
                self.forget(stretch);
                Some(Completion::Passed)
            }
        }
    }

    fn complete(&mut self, span: PartialSpan) -> Completed {
        let PartialSpan {
            place,
            bytes,
            here,
            stretch: (stretch, first),
            is_last,
        } = span;
        let mut completed = Completed {
            span: bytes,
            here,
            own: 0,
            in_place: 0,
        };
        let have = self.have.get(&stretch).copied().unwrap_or_default();
        for chunk in (0..place.chunks())
            .filter(|&chunk| here >> chunk & 1 == 0 && have.contains(first + chunk))
        {
            let to = &mut completed.span[place.chunk(chunk)];
            let Some(origin) = self
                .holdings
                .as_ref()
                .and_then(|own| own.read(stretch, first + chunk, to))
            else {
                continue;
            };
            completed.own |= 1 << chunk;
            completed.in_place |= u64::from(origin == Origin::InPlace) << chunk;
        }
        completed.here |= completed.own;
        if is_last {
            self.forget(stretch);
        }
        completed
    }

    fn forget(&mut self, stretch: u64) {
        self.have.remove(&stretch);
        self.holdings
            .iter()
            .for_each(|holdings| holdings.forget_below(stretch + 1));
    }
}
