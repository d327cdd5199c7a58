//! Sending end of a delta transfer: hash lists first, then only the chunks that receivers lack.
//!
//! [`SelectedSender`] does one step at a time and reads the content through a [`SelectedInput`],
//! which may block: on hosts a thread drives it, in simulations the session's own turn. The
//! session's side is [`SpanSource`](super::SpanSource).

use super::encoder::SpanBuffer;
use super::hash::ChunkHash;
use super::layout::{ChunkSize, Form, SpanPlace};
use super::selection::{ChunkSet, Cut, DueSection, SectionPart, Sections, Selector};
use crate::keys::ContentCipher;
use crate::session::message::Trailer;
use ethbcast_transport::lock::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

const PART_BYTES: usize = 1 << 20;

/// Manner of sending in frames of `frame_bytes` bytes of payload. With `requests_only` want-bitmaps
/// are queried and nothing is sent.
#[derive(Clone, Debug)]
pub struct Manner {
    pub chunk: ChunkSize,
    pub cipher: ContentCipher,
    pub cut: Cut,
    pub frame_bytes: usize,
    pub requests_only: bool,
}

pub trait SelectedInput {
    type Error;

    /// Returns the next span, sealed. All spans are requested in order; `used` is memory for reuse.
    ///
    /// # Errors
    /// If it cannot be read.
    fn span(&mut self, place: &SpanPlace, used: SpanBuffer) -> Result<SpanBuffer, Self::Error>;

    /// Fills `to` with the content from byte `offset` on.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&mut self, to: &mut [u8], offset: u64) -> Result<(), Self::Error>;

    /// Returns length and digest of all spans.
    ///
    /// # Errors
    /// If there are further spans.
    fn end(&mut self) -> Result<Trailer, Self::Error>;
}

#[derive(Debug)]
pub enum Selected {
    Part(Vec<u8>),
    /// Pending: the chunks to send of the next stretch must be [chosen](SelectedSender::choose).
    NeedsChoice,
    End(Trailer),
    /// The end of a query: all want-bitmaps were requested, and nothing is sent.
    Asked,
}

#[derive(Debug)]
pub struct SelectedSender {
    selector: Selector,
    form: Form,
    cipher: ContentCipher,
    requests_only: bool,
    chosen: VecDeque<ChunkSet>,
    left: VecDeque<SectionPart>,
}

impl SelectedSender {
    pub fn new(content_bytes: u64, manner: Manner) -> SelectedSender {
        let Manner {
            chunk,
            cipher,
            cut,
            frame_bytes,
            requests_only,
        } = manner;
        let selector = Selector::new(chunk, content_bytes, cut, frame_bytes).ciphered(&cipher);
        SelectedSender {
            selector,
            form: Form::Verified(chunk),
            cipher,
            requests_only,
            chosen: VecDeque::new(),
            left: VecDeque::new(),
        }
    }

    /// Returns the sections made so far, with which the stream can be re-read.
    pub fn sections(&self) -> &Arc<Mutex<Sections>> {
        self.selector.sections()
    }

    pub fn choose(&mut self, chunks: ChunkSet) {
        self.chosen.push_back(chunks);
    }

    /// Makes the next output.
    ///
    /// # Errors
    /// Those of `input`.
    pub fn next<I: SelectedInput>(&mut self, input: &mut I) -> Result<Selected, I::Error> {
        loop {
            if let Some(part) = self.rest_of_section(input)? {
                return Ok(Selected::Part(part));
            }
            match self.selector.due() {
                // Its want-bitmaps are requested at once.
                DueSection::HashLists(place) => {
                    return self
                        .selector
                        .hash_lists(&place, |place, used| input.span(place, used))
                        .map(Selected::Part);
                }
                DueSection::Chunks(_) => match self.chosen.pop_front() {
                    Some(_) if self.requests_only => self.left = self.selector.pass().into(),
                    Some(chunks) => self.left = self.selector.chunks(chunks).into(),
                    // The bytes made so far are sent, whole frame or not, because receivers reply
                    // to them.
                    None => {
                        return Ok(self
                            .selector
                            .padding()
                            .map_or(Selected::NeedsChoice, Selected::Part));
                    }
                },
                DueSection::End => {
                    let trailer = input.end()?;
                    return Ok(if self.requests_only {
                        Selected::Asked
                    } else {
                        Selected::End(trailer)
                    });
                }
            }
        }
    }

    fn rest_of_section<I: SelectedInput>(
        &mut self,
        input: &mut I,
    ) -> Result<Option<Vec<u8>>, I::Error> {
        let whole_bytes = self
            .form
            .stream_bytes(self.selector.sections().lock().content_bytes());
        let mut bytes = Vec::new();
        while bytes.len() < PART_BYTES {
            match self.left.pop_front() {
                Some(SectionPart::Bytes(part)) => bytes.extend(part),
                Some(SectionPart::Names(count)) => bytes.resize(bytes.len() + count as usize, 0),
                Some(SectionPart::Whole(range)) => {
                    let (content, _) = self.form.content_of(&range, whole_bytes);
                    let begin = bytes.len();
                    bytes.resize(begin + (content.end - content.start) as usize, 0);
                    input.read(&mut bytes[begin..], content.start)?;
                    if !self.cipher.is_none() {
                        // A chunk, whose key follows from what it has now.
                        let hash = ChunkHash::of(content.start, &bytes[begin..]);
                        self.cipher
                            .chunk(hash.value(), content.start, &mut bytes[begin..]);
                    }
                }
                None => break,
            }
        }
        Ok((!bytes.is_empty()).then_some(bytes))
    }
}
