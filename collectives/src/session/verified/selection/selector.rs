//! Encoder of a selective stream.

use super::super::encoder::SpanBuffer;
use super::super::layout::{ChunkSize, SpanPlace};
use super::sections::DueSection;
use super::{ChunkSet, Cut, Cutter, Fragment, SectionPart, Sections, StretchPlace};
use parking_lot::Mutex;
use std::sync::Arc;

/// Makes the sections of a content, stretch by stretch.
#[derive(Debug, Clone)]
pub struct Selector {
    sections: Arc<Mutex<Sections>>,
    cutter: Cutter,
    frame_bytes: u64,
}

impl Selector {
    /// Creates a selector for a content of `content_bytes` bytes with chunks of size `chunk`; `cut`
    /// selects how fragments are cut. The stream goes in frames of `frame_bytes` bytes, of which
    /// only whole ones are sent at once.
    pub fn new(chunk: ChunkSize, content_bytes: u64, cut: Cut, frame_bytes: usize) -> Selector {
        let sections = Arc::new(Mutex::new(Sections::new(chunk, content_bytes)));
        Selector { sections, cutter: Cutter::new(cut, chunk), frame_bytes: frame_bytes.max(1) as u64 }
    }

    /// Returns the sections made so far.
    pub fn sections(&self) -> &Arc<Mutex<Sections>> {
        &self.sections
    }

    /// Returns the next section.
    pub fn due(&self) -> DueSection {
        self.sections.lock().due()
    }

    /// Makes the section with the hash lists of the stretch that is due. `next` seals its spans one
    /// after the other, and may reuse the memory of the previous one.
    ///
    /// # Errors
    /// Those of `next`.
    pub fn ledgers<E>(
        &mut self,
        place: &StretchPlace,
        mut next: impl FnMut(&SpanPlace, SpanBuffer) -> Result<SpanBuffer, E>,
    ) -> Result<Vec<u8>, E> {
        let (mut ledgers, mut fragments, mut buffer) = (Vec::new(), Vec::new(), SpanBuffer::default());
        for span in place.spans() {
            buffer = next(&span, buffer)?;
            self.cutter.feed(buffer.content(), |fragment, _| fragments.push(fragment));
            ledgers.extend_from_slice(buffer.ledger());
        }
        let content_bytes = self.sections.lock().content_bytes();
        if place.begin() + place.bytes() == content_bytes {
            self.cutter.finish(|fragment, _| fragments.push(fragment));
        }
        let before = fragments.first().map_or(0, |first: &Fragment| place.begin().saturating_sub(first.offset));
        let parts = self.sections.lock().add_ledgers(before as u16, fragments.len() as u32);
        let Some(SectionPart::Bytes(mut section)) = parts.into_iter().next() else {
            unreachable!("every section has a head")
        };
        section.append(&mut ledgers);
        fragments.iter().for_each(|fragment| fragment.write(&mut section));
        Ok(section)
    }

    /// Makes the padding that lets everything before it be sent, if a choice is pending.
    pub fn padding(&mut self) -> Option<Vec<u8>> {
        match self.sections.lock().pad(self.frame_bytes).pop()? {
            SectionPart::Bytes(bytes) => Some(bytes),
            SectionPart::Whole(_) | SectionPart::Names(_) => None,
        }
    }

    /// Makes the section that skips the stretch that is due: only its want-bitmaps are queried.
    pub fn pass(&mut self) -> Vec<SectionPart> {
        self.sections.lock().pass()
    }

    /// Makes the section with these chunks of the stretch that is due.
    pub fn chunks(&mut self, chunks: ChunkSet) -> Vec<SectionPart> {
        self.sections.lock().add_chunks(chunks)
    }
}
