//! What this host has already of a content that is about to come: what an earlier run left of it, in its place; and
//! bases, which are like it, at the same offset or, by the names of fragments, anywhere.
//!
//! Nothing is believed: a chunk is here if its bytes hash to what its ledger says when it is asked for, and what is
//! read is checked once more when it is used. So a journal that is wrong, or a basis that changes while it is read,
//! costs the chunk and nothing else.

mod basis;
mod found;
mod index;
#[cfg(test)]
mod tests;

pub use basis::BasisError;

use basis::{Basis, read_exactly};
use ethbcast_collectives::session::ContentKind;
use ethbcast_collectives::session::ledger::{ChunkSet, Cut, HeldOffer, Holdings, Origin, StretchLedger, StretchPlace};
use ethbcast_collectives::session::live::ReadAt;
use found::{Found, Located, Part};
use index::{Index, Place};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::path::{Path, PathBuf};

/// What this host has.
#[derive(Debug)]
pub struct Held {
    /// What is like the content, once it is known which that is.
    bases: RwLock<Vec<Basis>>,
    /// Where an older version of it would be: DEST, if nothing else was given.
    dest: Option<PathBuf>,
    place: Mutex<InPlace>,
    /// The fragments of the bases, once somebody looks for some.
    index: Mutex<Option<Index>>,
    /// Of the stretches that are not written yet.
    found: Mutex<BTreeMap<u64, (StretchPlace, Vec<Found>)>>,
}

/// What an earlier run left where the content will be.
#[derive(Default)]
struct InPlace(Option<Box<dyn ReadAt>>);

impl Debug for InPlace {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("InPlace").field(&self.0.is_some()).finish()
    }
}

impl Held {
    /// What an earlier run left, and these bases; without any, what is at `dest` under its own name or the sender's.
    ///
    /// # Errors
    /// If one of them cannot be a basis.
    pub fn new(bases: &[PathBuf], dest: Option<PathBuf>) -> Result<Held, BasisError> {
        Ok(Held {
            bases: RwLock::new(bases.iter().map(|path| Basis::open(path)).collect::<Result<_, _>>()?),
            dest: dest.filter(|_| bases.is_empty()),
            place: Mutex::default(),
            index: Mutex::default(),
            found: Mutex::default(),
        })
    }

    /// Opens what is at DEST, which this will take the place of.
    fn open_dest(&self, dest: &Path, offer: &HeldOffer) {
        let is_tree = offer.content == ContentKind::Tree;
        let named = Path::new(&offer.source).file_name().map(|name| dest.join(name));
        let like = [named, Some(dest.to_owned())].into_iter().flatten().find(|path| {
            path.symlink_metadata().is_ok_and(|there| if is_tree { there.is_dir() } else { there.is_file() })
        });
        let basis = like.map(|path| Basis::open(&path).inspect_err(|error| log::warn!("{error}")));
        *self.bases.write() = basis.and_then(Result::ok).into_iter().collect();
    }

    /// DEST is open, and this is what it has where the content will be, if it has anything.
    pub fn opened(&self, there: Option<Box<dyn ReadAt>>) {
        *self.place.lock() = InPlace(there);
    }

    /// All is here: nothing is read any more.
    pub fn close(&self) {
        self.bases.write().clear();
        *self.place.lock() = InPlace::default();
        *self.index.lock() = None;
        self.found.lock().clear();
    }

    fn is_in_place(&self, ledger: &StretchLedger, chunk: usize, buffer: &mut [u8]) -> bool {
        let place = self.place.lock();
        let Some(there) = &place.0 else { return false };
        read_exactly(&**there, ledger.chunk_offset(chunk), buffer) && ledger.matches(chunk, buffer)
    }

    /// Where a chunk is at its own offset.
    fn at_its_offset(&self, ledger: &StretchLedger, chunk: usize, buffer: &mut Vec<u8>) -> Found {
        let bases = self.bases.read();
        let offset = ledger.chunk_offset(chunk);
        buffer.resize(ledger.chunk_bytes(chunk), 0);
        if self.is_in_place(ledger, chunk, buffer) {
            return Found::InPlace;
        }
        let end = offset + buffer.len() as u64;
        for (number, basis) in bases.iter().enumerate().filter(|(_, basis)| end <= basis.bytes()) {
            if basis.read(offset, buffer) && ledger.matches(chunk, buffer) {
                return Found::Parts([Part::whole(Place { basis: number, offset }, buffer.len())].into());
            }
        }
        Found::Nowhere
    }

    /// Looks anywhere for the chunks that were not found.
    fn look_elsewhere(&self, ledger: &StretchLedger, found: &mut [Found], buffer: &mut Vec<u8>) {
        let bases = self.bases.read();
        if ledger.fragments().is_empty() || bases.is_empty() {
            return;
        }
        let mut index = self.index.lock();
        let cut = cut_of(ledger);
        if index.as_ref().is_none_or(|index| cut == Cut::ContentDefined && index.cut() != cut) {
            *index = Some(Index::of(&bases, cut, ledger.place().chunk_size()));
        }
        let located = Located::find(ledger, index.as_ref().expect("it was just made"), &bases);
        for (chunk, found) in found.iter_mut().enumerate().filter(|(_, found)| **found == Found::Nowhere) {
            let bytes = ledger.chunk_bytes(chunk);
            let begin = ledger.chunk_offset(chunk);
            let Some(parts) = located.parts(&(begin..begin + bytes as u64)) else { continue };
            buffer.resize(bytes, 0);
            if found::read(&parts, &bases, buffer) && ledger.matches(chunk, buffer) {
                *found = Found::Parts(parts);
            }
        }
    }
}

/// How the fragments of a stretch were cut.
fn cut_of(ledger: &StretchLedger) -> Cut {
    let chunk_bytes = ledger.place().chunk_size().bytes() as u64;
    if ledger.fragments().iter().all(|fragment| fragment.offset.is_multiple_of(chunk_bytes)) {
        Cut::Fixed
    } else {
        Cut::ContentDefined
    }
}

impl Holdings for Held {
    fn begin(&self, offer: &HeldOffer) {
        if let Some(dest) = &self.dest {
            self.open_dest(dest, offer);
        }
        if let ContentKind::Sparse(_) = offer.content {
            self.bases.write().iter_mut().for_each(Basis::leave_out_holes);
        }
        self.found.lock().clear();
        *self.index.lock() = None;
    }

    fn have(&self, ledger: &StretchLedger) -> ChunkSet {
        let mut buffer = Vec::with_capacity(ledger.place().chunk_size().bytes());
        let mut found: Vec<Found> =
            (0..ledger.chunks()).map(|chunk| self.at_its_offset(ledger, chunk, &mut buffer)).collect();
        self.look_elsewhere(ledger, &mut found, &mut buffer);
        let here = (0..found.len()).filter(|chunk| found[*chunk] != Found::Nowhere).collect();
        self.found.lock().insert(ledger.number(), (*ledger.place(), found));
        here
    }

    fn read(&self, stretch: u64, chunk: usize, to: &mut [u8]) -> Option<Origin> {
        let (offset, found) = {
            let found = self.found.lock();
            let (place, found) = found.get(&stretch)?;
            (place.chunk_offset(chunk), found.get(chunk)?.clone())
        };
        match found {
            Found::Nowhere => None,
            Found::InPlace => {
                let place = self.place.lock();
                let there = place.0.as_ref()?;
                read_exactly(&**there, offset, to).then_some(Origin::InPlace)
            }
            Found::Parts(parts) => found::read(&parts, &self.bases.read(), to).then_some(Origin::Elsewhere),
        }
    }

    fn forget_below(&self, stretch: u64) {
        let mut found = self.found.lock();
        *found = found.split_off(&stretch);
    }
}
