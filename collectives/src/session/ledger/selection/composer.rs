//! From what a root sends of a content back to its spans, as far as they have come.

use super::super::layout::{ChunkSize, SpanPlace};
use super::fragments::FRAGMENT_BYTES;
use super::sections::{HEAD_BYTES, Head, MOST_AHEAD};
use super::{ChunkSet, StretchLedger, StretchPlace, stretches};
use std::collections::VecDeque;
use std::sync::Arc;

/// What has come.
#[derive(Clone, Debug)]
pub enum Composed {
    /// What the chunks of the next stretch hash to: the root waits for word of those that are lacking.
    Ledger(Arc<StretchLedger>),
    /// The next span, with what of it was sent to all.
    Span(PartialSpan),
    /// Nothing comes of this stretch: it was only asked what is lacking.
    Passed(u64),
}

/// A span of which some chunks have come.
#[derive(Clone, Debug)]
pub struct PartialSpan {
    /// Which it is.
    pub place: SpanPlace,
    /// Its ledger, and its content; what has not come is zeros.
    pub bytes: Vec<u8>,
    /// Which of its chunks have come: a bit for each.
    pub here: u64,
    /// The stretch that it is of, and its first chunk there.
    pub stretch: (u64, usize),
    /// Whether it is the last of that stretch.
    pub is_last: bool,
}

#[derive(Clone, Debug)]
enum State {
    /// A section is to begin.
    Begin,
    /// Ledgers are coming, so many bytes of them and the fragments.
    Ledgers { place: StretchPlace, before: u16, bytes: usize },
    /// So many bytes mean nothing.
    Padding(usize),
    /// It is being said which chunks come.
    Set { head: [u8; HEAD_BYTES], bytes: usize },
    /// Chunks of a stretch are coming.
    Chunks(Box<Open>),
}

/// What a section begins.
enum Begun {
    Section(State),
    /// It says that nothing comes of this stretch, and is over.
    Passed(u64),
}

/// A stretch whose spans are put together.
#[derive(Clone, Debug)]
struct Open {
    place: StretchPlace,
    ledger: Option<Arc<StretchLedger>>,
    /// What comes of it.
    set: ChunkSet,
    /// The span that is next.
    span: usize,
    bytes: Vec<u8>,
    /// Chunks of it that are here, or do not come.
    passed: usize,
    /// Bytes of the chunk behind them.
    filled: usize,
}

/// Makes spans of what a root sends. What cannot be read is taken as not sent: those spans have nothing but their
/// places, and all of them is fetched.
#[derive(Clone, Debug)]
pub struct Composer {
    chunk: ChunkSize,
    content_bytes: u64,
    input: Vec<u8>,
    /// What of it has been read.
    at: usize,
    ledgers: VecDeque<Arc<StretchLedger>>,
    next_ledger: u64,
    next_chunks: u64,
    state: State,
    /// Nothing more is read: it has ended, or is not what a root sends.
    ended: bool,
}

impl Composer {
    /// Begins with the first byte of the stream of a content of so many bytes, whose chunks are so long.
    pub fn new(chunk: ChunkSize, content_bytes: u64) -> Composer {
        Composer {
            chunk,
            content_bytes,
            input: Vec::new(),
            at: 0,
            ledgers: VecDeque::new(),
            next_ledger: 0,
            next_chunks: 0,
            state: State::Begin,
            ended: false,
        }
    }

    /// Takes the next bytes of the stream.
    pub fn take(&mut self, bytes: &[u8]) {
        if !self.ended {
            self.input.drain(..std::mem::take(&mut self.at));
            self.input.extend_from_slice(bytes);
        }
    }

    /// That was all.
    pub fn finish(&mut self) {
        self.ended = true;
    }

    /// Stretches below this one need nothing said any more: it is decided what all are sent of them.
    pub fn decided(&self) -> u64 {
        self.next_chunks + u64::from(matches!(self.state, State::Chunks(_)))
    }

    /// What has become whole; `memory` gives memory for a span.
    pub fn poll(&mut self, mut memory: impl FnMut() -> Vec<u8>) -> Option<Composed> {
        loop {
            match &mut self.state {
                State::Chunks(open) => {
                    let input = &self.input[self.at..];
                    let (span, taken) = open.go_on(if self.ended { None } else { Some(input) }, &mut memory);
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
                State::Ledgers { place, before, bytes } => {
                    let ledger = self.input[self.at..].get(..*bytes)?;
                    self.at += *bytes;
                    let ledger = Arc::new(StretchLedger::read(*place, u64::from(*before), ledger));
                    (self.state, self.next_ledger) = (State::Begin, self.next_ledger + 1);
                    self.ledgers.push_back(Arc::clone(&ledger));
                    return Some(Composed::Ledger(ledger));
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
                            self.ledgers.pop_front();
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

    /// A section that begins so; none if none can.
    fn begin(&self, head: &[u8; HEAD_BYTES]) -> Option<Begun> {
        let is_sealed = |stretch| head[8..] == Head::seal(head, &[], stretch);
        let state = match Head::read(head)? {
            Head::Ledgers { before, fragments } => {
                let place = self.place(self.next_ledger)?;
                let sound = is_sealed(place.number()) && self.next_ledger < self.next_chunks + MOST_AHEAD;
                let bytes = place.ledger_bytes() + fragments as usize * FRAGMENT_BYTES;
                sound.then_some(State::Ledgers { place, before, bytes })
            }
            Head::Chunks { set_bytes } => Some(State::Set { head: *head, bytes: set_bytes.into() }),
            Head::Padding { bytes } => is_sealed(self.next_chunks).then_some(State::Padding(bytes as usize)),
            Head::Passed => {
                let sound = is_sealed(self.next_chunks) && !self.ledgers.is_empty();
                return sound.then_some(Begun::Passed(self.next_chunks));
            }
        };
        state.map(Begun::Section)
    }

    /// The next stretch, of which this comes; none if it cannot.
    fn open(&mut self, head: &[u8; HEAD_BYTES], set: &[u8]) -> Option<Open> {
        let place = self.place(self.next_chunks)?;
        let sound = head[8..] == Head::seal(head, set, place.number()) && !self.ledgers.is_empty();
        let set = ChunkSet::read(place.chunks(), set).filter(|_| sound)?;
        Some(Open::new(place, self.ledgers.pop_front(), set))
    }

    /// The next stretch, when nothing more comes of it.
    fn without_data(&mut self) -> Option<State> {
        let place = self.place(self.next_chunks)?;
        Some(State::Chunks(Box::new(Open::new(place, self.ledgers.pop_front(), ChunkSet::default()))))
    }

    fn place(&self, stretch: u64) -> Option<StretchPlace> {
        StretchPlace::of(self.chunk, stretch, self.content_bytes)
    }

    fn give_up(&mut self) {
        log::warn!("what came of stretch {} on is not what a sender sends: it is fetched", self.next_chunks);
        (self.ended, self.at) = (true, 0);
        self.input = Vec::new();
    }

    /// Whether all spans have been given.
    pub fn is_done(&self) -> bool {
        self.next_chunks == stretches(self.chunk, self.content_bytes)
    }
}

impl Open {
    fn new(place: StretchPlace, ledger: Option<Arc<StretchLedger>>, set: ChunkSet) -> Open {
        Open { place, ledger, set, span: 0, bytes: Vec::new(), passed: 0, filled: 0 }
    }

    fn is_done(&self) -> bool {
        self.span * self.place.chunk_size().in_span() >= self.place.chunks()
    }

    /// Goes on with what has come, or without what has not if nothing more comes; the next span if it is whole, and how
    /// many bytes were taken.
    fn go_on(&mut self, input: Option<&[u8]>, memory: &mut impl FnMut() -> Vec<u8>) -> (Option<PartialSpan>, usize) {
        let first = self.span * self.place.chunk_size().in_span();
        let (place, _) = self.place.span_of(first);
        if self.bytes.is_empty() {
            self.bytes = memory();
            self.bytes.clear();
            self.bytes.extend_from_slice(self.ledger.as_ref().map_or(&[], |ledger| ledger.ledger(self.span)));
            self.bytes.resize(place.bytes(), 0);
        }
        let mut taken = 0;
        while self.passed < place.chunks() {
            if self.set.contains(first + self.passed) {
                let Some(input) = input else {
                    // It was to come, and does not.
                    (first + self.passed..first + place.chunks()).for_each(|chunk| self.set.remove(chunk));
                    continue;
                };
                let to = place.chunk(self.passed);
                let count = (to.len() - self.filled).min(input.len() - taken);
                self.bytes[to.start + self.filled..][..count].copy_from_slice(&input[taken..][..count]);
                (taken, self.filled) = (taken + count, self.filled + count);
                if self.filled < to.len() {
                    return (None, taken);
                }
            }
            (self.passed, self.filled) = (self.passed + 1, 0);
        }
        let here = (0..place.chunks()).filter(|&chunk| self.set.contains(first + chunk)).map(|chunk| 1 << chunk).sum();
        let (bytes, stretch) = (std::mem::take(&mut self.bytes), (self.place.number(), first));
        (self.span, self.passed) = (self.span + 1, 0);
        (Some(PartialSpan { place, bytes, here, stretch, is_last: self.is_done() }), taken)
    }
}
