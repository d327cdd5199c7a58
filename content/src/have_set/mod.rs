//! Data that a receiver already has: partial files and older versions (for delta transfer). It is
//! searched for where an earlier run left it, and in older versions (bases): at the same offset, or
//! anywhere by content-defined chunks.
//!
//! All of it is verified. A chunk counts as present only if its hash is the one in the hash list
//! when it is looked up, and it is verified again when it is used. A wrong journal or a basis that
//! changes costs only the chunk.

#[cfg(test)]
mod tests;

use crate::source::{Selection, Tree, extents_of};
use crate::sparse::{Map, SparseStream};
use ethbcast_collectives::OptionName;
use ethbcast_collectives::lock::{Mutex, RwLock};
use ethbcast_collectives::session::ContentKind;
use ethbcast_collectives::session::live::ReadAt;
use ethbcast_collectives::session::verified::{
    ChunkSet, ChunkSize, Cut, Cutter, Fragment, HaveSet, HeldContent, Origin, StretchHashes,
    StretchPlace, fragment_name,
};
use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
        formatter
            .debug_tuple("InPlace")
            .field(&self.0.is_some())
            .finish()
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
            bases: RwLock::new(
                bases
                    .iter()
                    .map(|path| Basis::open(path))
                    .collect::<Result<_, _>>()?,
            ),
            dest: dest.filter(|_| bases.is_empty()),
            place: Mutex::default(),
            index: Mutex::default(),
            found: Mutex::default(),
        })
    }

    fn open_dest(&self, dest: &Path, offer: &HeldContent) {
        let is_tree = offer.content == ContentKind::Tree;
        let named = Path::new(&offer.source)
            .file_name()
            .map(|name| dest.join(name));
        let like = [named, Some(dest.to_owned())]
            .into_iter()
            .flatten()
            .find(|path| {
                path.symlink_metadata().is_ok_and(|there| {
                    if is_tree {
                        there.is_dir()
                    } else {
                        there.is_file()
                    }
                })
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

    fn is_in_place(&self, hash_list: &StretchHashes, chunk: usize, buffer: &mut [u8]) -> bool {
        let place = self.place.lock();
        let Some(there) = &place.0 else { return false };
        read_exactly(&**there, hash_list.chunk_offset(chunk), buffer)
            && hash_list.matches(chunk, buffer)
    }

    fn at_its_offset(
        &self,
        hash_list: &StretchHashes,
        chunk: usize,
        buffer: &mut Vec<u8>,
    ) -> Found {
        let bases = self.bases.read();
        let offset = hash_list.chunk_offset(chunk);
        buffer.resize(hash_list.chunk_bytes(chunk), 0);
        if self.is_in_place(hash_list, chunk, buffer) {
            return Found::InPlace;
        }
        let end = offset + buffer.len() as u64;
        for (number, basis) in bases
            .iter()
            .enumerate()
            .filter(|(_, basis)| end <= basis.bytes())
        {
            if basis.read(offset, buffer) && hash_list.matches(chunk, buffer) {
                return Found::Parts(
                    [FoundPart::whole(
                        ChunkPlace {
                            basis: number,
                            offset,
                        },
                        buffer.len(),
                    )]
                    .into(),
                );
            }
        }
        Found::Nowhere
    }

    fn look_elsewhere(&self, hash_list: &StretchHashes, found: &mut [Found], buffer: &mut Vec<u8>) {
        let bases = self.bases.read();
        if hash_list.fragments().is_empty() || bases.is_empty() {
            return;
        }
        let mut index = self.index.lock();
        let cut = cut_of(hash_list);
        if index
            .as_ref()
            .is_none_or(|index| cut == Cut::ContentDefined && index.cut() != cut)
        {
            *index = Some(Index::of(&bases, cut, hash_list.place().chunk_size()));
        }
        let located = Located::find(hash_list, index.as_ref().expect("it was just made"), &bases);
        for (chunk, found) in found
            .iter_mut()
            .enumerate()
            .filter(|(_, found)| **found == Found::Nowhere)
        {
            let bytes = hash_list.chunk_bytes(chunk);
            let begin = hash_list.chunk_offset(chunk);
            let Some(parts) = located.parts(&(begin..begin + bytes as u64)) else {
                continue;
            };
            buffer.resize(bytes, 0);
            if read(&parts, &bases, buffer) && hash_list.matches(chunk, buffer) {
                *found = Found::Parts(parts);
            }
        }
    }
}

fn cut_of(hash_list: &StretchHashes) -> Cut {
    let chunk_bytes = hash_list.place().chunk_size().bytes() as u64;
    if hash_list
        .fragments()
        .iter()
        .all(|fragment| fragment.offset.is_multiple_of(chunk_bytes))
    {
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
            self.bases
                .write()
                .iter_mut()
                .for_each(Basis::leave_out_holes);
        }
        self.found.lock().clear();
        *self.index.lock() = None;
    }

    fn have(&self, hash_list: &StretchHashes) -> ChunkSet {
        let mut buffer = Vec::with_capacity(hash_list.place().chunk_size().bytes());
        let mut found: Vec<Found> = (0..hash_list.chunks())
            .map(|chunk| self.at_its_offset(hash_list, chunk, &mut buffer))
            .collect();
        self.look_elsewhere(hash_list, &mut found, &mut buffer);
        let here = (0..found.len())
            .filter(|chunk| found[*chunk] != Found::Nowhere)
            .collect();
        self.found
            .lock()
            .insert(hash_list.number(), (*hash_list.place(), found));
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
            Found::Parts(parts) => {
                read(&parts, &self.bases.read(), to).then_some(Origin::Elsewhere)
            }
        }
    }

    fn forget_below(&self, stretch: u64) {
        let mut found = self.found.lock();
        *found = found.split_off(&stretch);
    }
}

/// Limit on indexed chunks: 16 MiB of memory. Beyond it every second one is dropped, then every
/// fourth, and so on; the dropped ones are found through their neighbours.
const MAX_FRAGMENTS: usize = 1 << 20;
const READ_BYTES: usize = 1 << 20;
/// Bits of a place that hold its offset; the bits above hold the basis number.
const OFFSET_BITS: u32 = 56;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChunkPlace {
    pub basis: usize,
    pub offset: u64,
}

#[derive(Debug)]
struct Index {
    cut: Cut,
    places: Vec<(u64, u64)>,
    /// Mask of hash bits: hashes with any of them set are not indexed.
    left_out: u64,
}

impl Index {
    /// Reads all bases once and indexes them, cut as a content with this chunk size is.
    fn of(bases: &[Basis], cut: Cut, chunk: ChunkSize) -> Index {
        Index::with_room(bases, (cut, chunk), MAX_FRAGMENTS)
    }

    fn with_room(bases: &[Basis], (cut, chunk): (Cut, ChunkSize), most_fragments: usize) -> Index {
        let mut index = Index {
            cut,
            places: Vec::with_capacity(most_fragments + 1),
            left_out: 0,
        };
        for (number, basis) in bases.iter().enumerate() {
            let mut cutter = Cutter::new(cut, chunk);
            let mut found =
                |fragment: Fragment, _: &[u8]| index.add(number, &fragment, most_fragments);
            basis.read_through(READ_BYTES, |bytes| cutter.feed(bytes, &mut found));
            cutter.finish(&mut found);
        }
        index.places.sort_unstable();
        index.places.dedup_by_key(|(name, _)| *name);
        index
    }

    fn add(&mut self, basis: usize, fragment: &Fragment, most_fragments: usize) {
        let name = u64::from_be_bytes(fragment.name);
        if name & self.left_out != 0 {
            return;
        }
        self.places
            .push((name, (basis as u64) << OFFSET_BITS | fragment.offset));
        if self.places.len() > most_fragments {
            // Repeated chunks, of which images have many, are kept once.
            self.places.sort_unstable();
            self.places.dedup_by_key(|(name, _)| *name);
            while self.places.len() > most_fragments / 2 {
                self.left_out = self.left_out << 1 | 1;
                self.places.retain(|(name, _)| name & self.left_out == 0);
            }
        }
    }

    fn cut(&self) -> Cut {
        self.cut
    }

    fn is_partial(&self) -> bool {
        self.left_out != 0
    }

    fn find(&self, name: [u8; 8]) -> Option<ChunkPlace> {
        let name = u64::from_be_bytes(name);
        let at = self
            .places
            .binary_search_by_key(&name, |(name, _)| *name)
            .ok()?;
        let place = self.places[at].1;
        let basis = (place >> OFFSET_BITS) as usize;
        Some(ChunkPlace {
            basis,
            offset: place & ((1 << OFFSET_BITS) - 1),
        })
    }
}

/// Reason why a path cannot be a basis.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Debug, thiserror::Error)]
pub enum BasisError {
    #[error(
        "cannot read the basis {}: {error}; give {} what is there, or leave it out",
        .path.display(), OptionName("basis")
    )]
    Unreadable { path: PathBuf, error: io::Error },
    /// The path is not a file, block device or directory.
    #[error(
        "the basis {} is no file, block device or directory: give {} one",
        .path.display(), OptionName("basis")
    )]
    NoPositions { path: PathBuf },
}

/// Readable bytes that may change at any time, as all that is found in them is verified.
struct Basis {
    content: Box<dyn ReadAt>,
    bytes: u64,
    /// The underlying file, as long as its holes may still be left out.
    file: Option<File>,
}

impl Debug for Basis {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Basis")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Basis {
    fn open(path: &Path) -> Result<Basis, BasisError> {
        let unreadable = |error| BasisError::Unreadable {
            path: path.to_owned(),
            error,
        };
        let kind = path.metadata().map_err(unreadable)?.file_type();
        if kind.is_dir() {
            // Listed as a sender would list it, so that equal data is at equal or nearby offsets.
            let selection = Selection {
                one_file_system: true,
                ..Selection::default()
            };
            let tree = Tree::list(&[path.join("")], &selection)
                .map_err(|error| unreadable(io::Error::other(error.to_string())))?;
            return Ok(Basis {
                bytes: tree.bytes(),
                content: Box::new(tree.again()),
                file: None,
            });
        }
        if !kind.is_file() && !kind.is_block_device() {
            return Err(BasisError::NoPositions {
                path: path.to_owned(),
            });
        }
        let mut file = File::open(path).map_err(unreadable)?;
        let bytes = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
        let again = file.try_clone().ok().filter(|_| kind.is_file());
        Ok(Basis {
            bytes,
            content: Box::new(file),
            file: again,
        })
    }

    /// Presents a file with holes as a sender would send it, for an incoming file with holes.
    fn leave_out_holes(&mut self) {
        let Some(file) = self.file.take() else { return };
        let map =
            extents_of(&file, self.bytes).and_then(|extents| Map::new(self.bytes, extents).ok());
        if let Some(map) = map {
            self.bytes = map.stream_bytes();
            self.content = Box::new(SparseStream::new(Arc::new(map), file));
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `to` from `offset` on; false at the end of the basis or after an error.
    fn read(&self, offset: u64, to: &mut [u8]) -> bool {
        read_exactly(&*self.content, offset, to)
    }

    fn read_through(&self, part_bytes: usize, mut take: impl FnMut(&[u8])) {
        let mut buffer = vec![0; part_bytes];
        let mut at = 0;
        while at < self.bytes {
            match self.content.read_at(&mut buffer, at) {
                Ok(0) => break,
                Ok(count) => {
                    take(&buffer[..count]);
                    at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    log::warn!(
                        "a basis cannot be read from byte {at} on ({error}): what is behind is not used"
                    );
                    break;
                }
            }
        }
    }
}

fn read_exactly(from: &dyn ReadAt, offset: u64, to: &mut [u8]) -> bool {
    let mut read = 0;
    while read < to.len() {
        match from.read_at(&mut to[read..], offset + read as u64) {
            Ok(0) => return false,
            Ok(count) => read += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Found {
    #[default]
    Nowhere,
    InPlace,
    Parts(Box<[FoundPart]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FoundPart {
    place: ChunkPlace,
    bytes: usize,
}

impl FoundPart {
    fn whole(place: ChunkPlace, bytes: usize) -> FoundPart {
        FoundPart { place, bytes }
    }
}

fn read(parts: &[FoundPart], bases: &[Basis], to: &mut [u8]) -> bool {
    let mut rest = to;
    for part in parts {
        let Some((now, later)) = rest.split_at_mut_checked(part.bytes) else {
            return false;
        };
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
struct Located(Vec<(Fragment, ChunkPlace)>);

impl Located {
    fn find(hash_list: &StretchHashes, index: &Index, bases: &[Basis]) -> Located {
        let mut places: Vec<Option<ChunkPlace>> = hash_list
            .fragments()
            .iter()
            .map(|fragment| index.find(fragment.name))
            .collect();
        if index.is_partial() {
            try_neighbours(hash_list.fragments(), &mut places, bases);
        }
        Located(
            hash_list
                .fragments()
                .iter()
                .zip(places)
                .filter_map(|(fragment, place)| Some((*fragment, place?)))
                .collect(),
        )
    }

    fn parts(&self, content: &Range<u64>) -> Option<Box<[FoundPart]>> {
        let end_of = |fragment: &Fragment| fragment.offset + u64::from(fragment.bytes);
        let first = self
            .0
            .partition_point(|(fragment, _)| end_of(fragment) <= content.start);
        let (mut at, mut parts) = (content.start, Vec::new());
        for (fragment, place) in &self.0[first..] {
            if fragment.offset > at || at == content.end {
                break;
            }
            let end = end_of(fragment).min(content.end);
            let place = ChunkPlace {
                offset: place.offset + (at - fragment.offset),
                ..*place
            };
            parts.push(FoundPart {
                place,
                bytes: (end - at) as usize,
            });
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
        bases[place.basis].read(place.offset, &mut buffer)
            && fragment_name(&buffer) == fragment.name
    };
    for at in 1..fragments.len() {
        let Some(before) = places[at - 1].filter(|_| places[at].is_none()) else {
            continue;
        };
        let place = ChunkPlace {
            offset: before.offset + u64::from(fragments[at - 1].bytes),
            ..before
        };
        places[at] = Some(place).filter(|place| is_at(&fragments[at], *place));
    }
    for at in (1..fragments.len()).rev() {
        let Some(behind) = places[at].filter(|_| places[at - 1].is_none()) else {
            continue;
        };
        let offset = behind
            .offset
            .checked_sub(u64::from(fragments[at - 1].bytes));
        let place = offset.map(|offset| ChunkPlace { offset, ..behind });
        places[at - 1] = place.filter(|place| is_at(&fragments[at - 1], *place));
    }
}
