//! The making of what is sent where receivers have some of a content: ledgers ahead of the chunks that were chosen.
//!
//! [`SelectedSender`] does one step at a time and takes what it needs of the content from a [`SelectedInput`], which
//! may block: on hosts a thread drives it, in simulations the session's own turn. The session's side of it is
//! [`SpanSource`](super::SpanSource).

use super::encoder::SpanBuffer;
use super::layout::{ChunkSize, Form, SpanPlace};
use super::selection::{ChunkSet, Cut, Due, SectionPart, Sections, Selector};
use crate::session::Trailer;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a part, roughly.
const PART_BYTES: usize = 1 << 20;

/// How a content is selected.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// How long its chunks are.
    pub chunk: ChunkSize,
    /// How its fragments are named.
    pub cut: Cut,
    /// The bytes of a frame.
    pub frame_bytes: usize,
    /// Whether it is only asked what is lacking, and nothing sent.
    pub only_asks: bool,
}

/// A content that is selected.
pub trait SelectedInput {
    /// Why it cannot be read.
    type Error;

    /// Returns the next span, sealed; all of them are asked for in order, and `used` is memory that is free again.
    ///
    /// # Errors
    /// If it cannot be read.
    fn span(&mut self, place: &SpanPlace, used: SpanBuffer) -> Result<SpanBuffer, Self::Error>;

    /// Fills `to` with the content from byte `offset` on.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&mut self, to: &mut [u8], offset: u64) -> Result<(), Self::Error>;

    /// Returns what all spans add up to.
    ///
    /// # Errors
    /// If there are others behind them.
    fn end(&mut self) -> Result<Trailer, Self::Error>;
}

/// What comes next of what somebody lacks.
#[derive(Debug)]
pub enum Selected {
    /// These bytes of the stream.
    Part(Vec<u8>),
    /// Nothing before it is [chosen](SelectedSender::choose) what is sent of the next stretch.
    NeedsChoice,
    /// That was all.
    End(Trailer),
    /// All was asked, and nothing is sent.
    Asked,
}

/// Makes the stream of which only what somebody lacks is sent.
#[derive(Debug)]
pub struct SelectedSender {
    selector: Selector,
    form: Form,
    only_asks: bool,
    /// What is sent of the stretches that are next.
    chosen: VecDeque<ChunkSet>,
    /// What is left of the section that is being made.
    left: VecDeque<SectionPart>,
}

impl SelectedSender {
    /// Returns one of a content of so many bytes.
    pub fn new(content_bytes: u64, manner: Manner) -> SelectedSender {
        let Manner { chunk, cut, frame_bytes, only_asks } = manner;
        let selector = Selector::new(chunk, content_bytes, cut, frame_bytes);
        SelectedSender {
            selector,
            form: Form::Ledgered(chunk),
            only_asks,
            chosen: VecDeque::new(),
            left: VecDeque::new(),
        }
    }

    /// What has been made so far: whoever reads it again looks there.
    pub fn sections(&self) -> &Arc<Mutex<Sections>> {
        self.selector.sections()
    }

    /// These chunks are sent of the next stretch of which nothing was chosen yet.
    pub fn choose(&mut self, chunks: ChunkSet) {
        self.chosen.push_back(chunks);
    }

    /// Makes what comes next.
    ///
    /// # Errors
    /// Those of `input`.
    pub fn next<I: SelectedInput>(&mut self, input: &mut I) -> Result<Selected, I::Error> {
        loop {
            if let Some(part) = self.rest_of_section(input)? {
                return Ok(Selected::Part(part));
            }
            match self.selector.due() {
                // It is asked at once what is lacking of it.
                Due::Ledgers(place) => {
                    return self.selector.ledgers(&place, |place, used| input.span(place, used)).map(Selected::Part);
                }
                Due::Chunks(_) => match self.chosen.pop_front() {
                    Some(_) if self.only_asks => self.left = self.selector.pass().into(),
                    Some(chunks) => self.left = self.selector.chunks(chunks).into(),
                    // What was made goes, whole frame or not: it is answered.
                    None => return Ok(self.selector.padding().map_or(Selected::NeedsChoice, Selected::Part)),
                },
                Due::End => {
                    let trailer = input.end()?;
                    return Ok(if self.only_asks { Selected::Asked } else { Selected::End(trailer) });
                }
            }
        }
    }

    /// Makes a part of what is left of a section; none if nothing is.
    fn rest_of_section<I: SelectedInput>(&mut self, input: &mut I) -> Result<Option<Vec<u8>>, I::Error> {
        let whole_bytes = self.form.stream_bytes(self.selector.sections().lock().content_bytes());
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
                }
                None => break,
            }
        }
        Ok((!bytes.is_empty()).then_some(bytes))
    }
}
