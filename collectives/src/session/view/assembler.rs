//! Puts the parts of a view together.

use super::View;
use crate::session::message::{Digest, ViewPart};

/// The parts of one view, in whatever order they come.
#[derive(Debug, Default)]
pub(in crate::session) struct Assembler {
    digest: Digest,
    parts: Vec<Option<Vec<u8>>>,
}

impl Assembler {
    /// Takes a part; the view once it is whole and its digest is right. A part of another view forgets those before.
    pub(in crate::session) fn take(&mut self, part: &ViewPart) -> Option<View> {
        if self.digest != part.digest || self.parts.len() != usize::from(part.count) {
            *self = Assembler { digest: part.digest, parts: vec![None; usize::from(part.count)] };
        }
        *self.parts.get_mut(usize::from(part.at))? = Some(part.bytes.clone());
        if self.parts.iter().any(Option::is_none) {
            return None;
        }
        let whole: Vec<u8> = self.parts.iter().flatten().flatten().copied().collect();
        (*blake3::hash(&whole).as_bytes() == self.digest).then(|| View::decode(&whole)).flatten()
    }
}
