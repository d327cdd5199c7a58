//! Locations of the chunks of a stretch on this host.

use super::basis::Basis;
use super::index::{ChunkPlace, Index};
use ethbcast_collectives::session::verified::{Fragment, StretchLedger, fragment_name};
use std::ops::Range;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Found {
    #[default]
    Nowhere,
    InPlace,
    Parts(Box<[FoundPart]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundPart {
    place: ChunkPlace,
    bytes: usize,
}

impl FoundPart {
    pub(super) fn whole(place: ChunkPlace, bytes: usize) -> FoundPart {
        FoundPart { place, bytes }
    }
}

pub(super) fn read(parts: &[FoundPart], bases: &[Basis], to: &mut [u8]) -> bool {
    let mut rest = to;
    for part in parts {
        let Some((now, later)) = rest.split_at_mut_checked(part.bytes) else { return false };
        if !bases[part.place.basis].read(part.place.offset, now) {
            return false;
        }
        rest = later;
    }
    rest.is_empty()
}

/// The content-defined chunks that end in a stretch, with their locations. The first may begin in
/// the stretch before.
#[derive(Debug)]
pub(super) struct Located(Vec<(Fragment, ChunkPlace)>);

impl Located {
    pub(super) fn find(ledger: &StretchLedger, index: &Index, bases: &[Basis]) -> Located {
        let mut places: Vec<Option<ChunkPlace>> =
            ledger.fragments().iter().map(|fragment| index.find(fragment.name)).collect();
        if index.is_partial() {
            try_neighbours(ledger.fragments(), &mut places, bases);
        }
        Located(
            ledger.fragments().iter().zip(places).filter_map(|(fragment, place)| Some((*fragment, place?))).collect(),
        )
    }

    pub(super) fn parts(&self, content: &Range<u64>) -> Option<Box<[FoundPart]>> {
        let end_of = |fragment: &Fragment| fragment.offset + u64::from(fragment.bytes);
        let first = self.0.partition_point(|(fragment, _)| end_of(fragment) <= content.start);
        let (mut at, mut parts) = (content.start, Vec::new());
        for (fragment, place) in &self.0[first..] {
            if fragment.offset > at || at == content.end {
                break;
            }
            let end = end_of(fragment).min(content.end);
            let place = ChunkPlace { offset: place.offset + (at - fragment.offset), ..*place };
            parts.push(FoundPart { place, bytes: (end - at) as usize });
            at = end;
        }
        (at == content.end).then(|| parts.into())
    }
}

/// Tries each unknown content-defined chunk behind the location of its predecessor, then before
/// that of its successor.
fn try_neighbours(fragments: &[Fragment], places: &mut [Option<ChunkPlace>], bases: &[Basis]) {
    let mut buffer = Vec::new();
    let mut is_at = |fragment: &Fragment, place: ChunkPlace| {
        buffer.resize(fragment.bytes as usize, 0);
        bases[place.basis].read(place.offset, &mut buffer) && fragment_name(&buffer) == fragment.name
    };
    for at in 1..fragments.len() {
        let Some(before) = places[at - 1].filter(|_| places[at].is_none()) else { continue };
        let place = ChunkPlace { offset: before.offset + u64::from(fragments[at - 1].bytes), ..before };
        places[at] = Some(place).filter(|place| is_at(&fragments[at], *place));
    }
    for at in (1..fragments.len()).rev() {
        let Some(behind) = places[at].filter(|_| places[at - 1].is_none()) else { continue };
        let offset = behind.offset.checked_sub(u64::from(fragments[at - 1].bytes));
        let place = offset.map(|offset| ChunkPlace { offset, ..behind });
        places[at - 1] = place.filter(|place| is_at(&fragments[at - 1], *place));
    }
}
