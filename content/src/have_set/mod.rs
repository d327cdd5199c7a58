//! The have-set: data on this host that belongs to an incoming content. It is found in place, where
//! an earlier run left it, or in bases at the same offset or, by content-defined chunks, anywhere.
//!
//! Nothing is trusted: a chunk counts as present only if it hashes to its ledger's value when it is
//! looked up, and it is verified again when it is used. A wrong journal or a basis that changes
//! costs only the chunk.

mod basis;
mod found;
mod index;
#[cfg(test)]
mod tests;

pub use basis::BasisError;

use basis::{Basis, read_exactly};
use ethbcast_collectives::session::ContentKind;
use ethbcast_collectives::session::live::ReadAt;
use ethbcast_collectives::session::verified::{
    ChunkSet, Cut, HaveSet, HeldContent, Origin, StretchLedger, StretchPlace,
};
use found::{Found, FoundPart, Located};
use index::{ChunkPlace, Index};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::path::{Path, PathBuf};

/// The data on this host that a content can reuse.
#[derive(Debug)]
pub struct Held {
    bases: RwLock<Vec<Basis>>,
    /// Path of an older version: DEST if no basis was given.
    dest: Option<PathBuf>,
    place: Mutex<InPlace>,
    index: Mutex<Option<Index>>,
    /// Chunks found in stretches that are not written yet.
    found: Mutex<BTreeMap<u64, (StretchPlace, Vec<Found>)>>,
}

#[derive(Default)]
struct InPlace(Option<Box<dyn ReadAt>>);

impl Debug for InPlace {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("InPlace").field(&self.0.is_some()).finish()
    }
}

impl Held {
    /// Opens the given bases. Without any, the entry at `dest` under its own name or the sender's
    /// serves as basis.
    ///
    /// # Errors
    /// If a path cannot be a basis.
    pub fn new(bases: &[PathBuf], dest: Option<PathBuf>) -> Result<Held, BasisError> {
        Ok(Held {
            bases: RwLock::new(bases.iter().map(|path| Basis::open(path)).collect::<Result<_, _>>()?),
            dest: dest.filter(|_| bases.is_empty()),
            place: Mutex::default(),
            index: Mutex::default(),
            found: Mutex::default(),
        })
    }

    fn open_dest(&self, dest: &Path, offer: &HeldContent) {
        let is_tree = offer.content == ContentKind::Tree;
        let named = Path::new(&offer.source).file_name().map(|name| dest.join(name));
        let like = [named, Some(dest.to_owned())].into_iter().flatten().find(|path| {
            path.symlink_metadata().is_ok_and(|there| if is_tree { there.is_dir() } else { there.is_file() })
        });
        let basis = like.map(|path| Basis::open(&path).inspect_err(|error| log::warn!("{error}")));
        *self.bases.write() = basis.and_then(Result::ok).into_iter().collect();
    }

    /// Sets the data that the opened DEST already has in place, if any.
    pub fn opened(&self, there: Option<Box<dyn ReadAt>>) {
        *self.place.lock() = InPlace(there);
    }

    /// Releases everything once the content is complete.
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
                return Found::Parts([FoundPart::whole(ChunkPlace { basis: number, offset }, buffer.len())].into());
            }
        }
        Found::Nowhere
    }

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

fn cut_of(ledger: &StretchLedger) -> Cut {
    let chunk_bytes = ledger.place().chunk_size().bytes() as u64;
    if ledger.fragments().iter().all(|fragment| fragment.offset.is_multiple_of(chunk_bytes)) {
        Cut::Fixed
    } else {
        Cut::ContentDefined
    }
}

impl HaveSet for Held {
    fn begin(&self, offer: &HeldContent) {
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
