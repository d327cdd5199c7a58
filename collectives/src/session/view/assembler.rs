//! Reassembly of views from their parts.

use super::View;
use crate::session::message::{Digest, ViewPart};
use ethbcast_transport::planted;
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of views collected at the same time: a stray part does not discard the others.
const VIEWS: usize = 4;

/// Maximum length of a view in bytes: 65 535 members with names of 42 bytes.
const MAX_VIEW_BYTES: usize = 4 << 20;

#[derive(Clone, Debug, Default)]
pub(in crate::session) struct Assembler {
    views: VecDeque<Parts>,
}

#[derive(Clone, Debug)]
struct Parts {
    digest: Digest,
    count: u16,
    parts: BTreeMap<u16, Vec<u8>>,
}

impl Assembler {
    pub(in crate::session) fn bytes(&self) -> usize {
        self.views.iter().flat_map(|view| view.parts.values()).map(Vec::len).sum()
    }

    pub(in crate::session) fn take(&mut self, part: &ViewPart) -> Option<View> {
        if part.at >= part.count || usize::from(part.count) * part.bytes.len() > MAX_VIEW_BYTES {
            return None;
        }
        let of_same = |parts: &Parts| parts.digest == part.digest && parts.count == part.count;
        let known = self.views.iter().position(of_same).and_then(|at| self.views.remove(at));
        let mut view =
            known.unwrap_or_else(|| Parts { digest: part.digest, count: part.count, parts: BTreeMap::new() });
        view.parts.insert(part.at, part.bytes.clone());
        if view.parts.len() < usize::from(view.count) {
            self.views.push_back(view);
            if self.views.len() > VIEWS {
                self.views.pop_front();
            }
            return None;
        }
        let whole: Vec<u8> = view.parts.into_values().flatten().collect();
        (*blake3::hash(&whole).as_bytes() == view.digest || planted!("view-digest-not-compared"))
            .then(|| View::decode(&whole))
            .flatten()
    }
}
