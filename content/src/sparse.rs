//! Format of a file with holes as a stream: a map of its extents, followed by their data.

use crate::manifest::{Extent, Fault, FileData, ManifestError};
use ethbcast_collectives::session::live::ReadAt;
use std::io;
use std::sync::Arc;

/// First bytes of the stream; the last one is the version of the layout.
const MAGIC: [u8; 8] = *b"EBHOLES\x01";
/// Magic, size of the file, number of extents, BLAKE3 of these, in bytes.
const HEAD_BYTES: usize = 8 + 8 + 4 + 32;
const EXTENT_BYTES: usize = 16;
/// Limit on the extents of a map: beyond it, the smallest holes are sent as zeros.
pub const MAX_EXTENTS: usize = 1 << 16;

/// The extents of a file that has holes, and the file's size.
#[derive(Debug, PartialEq, Eq)]
pub struct Map {
    data: FileData,
    encoded: Vec<u8>,
}

/// A contiguous part of the stream of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The encoded map, from this byte on.
    Map(usize),
    Data(Extent),
}

impl Map {
    /// Creates the map of a file of `bytes` bytes that is zero outside `extents`.
    ///
    /// # Errors
    /// If an extent is empty, begins before the end of the one before it, or ends behind the end of
    /// the file.
    pub fn new(bytes: u64, extents: Vec<Extent>) -> Result<Map, Fault> {
        let extents = joined(extents);
        let body: Vec<u8> = extents
            .iter()
            .flat_map(|extent| [extent.offset.to_be_bytes(), extent.bytes.to_be_bytes()].concat())
            .collect();
        let count = extents.len() as u32;
        let data = FileData::sparse(bytes, extents)?;
        let mut encoded = MAGIC.to_vec();
        encoded.extend(bytes.to_be_bytes());
        encoded.extend(count.to_be_bytes());
        encoded.extend(digest(bytes, &body));
        encoded.extend(body);
        Ok(Map { data, encoded })
    }

    /// The size of the file, in bytes.
    pub fn bytes(&self) -> u64 {
        self.data.bytes()
    }

    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Decodes a map from the beginning of `bytes`, if it is there completely.
    pub fn read(bytes: &[u8]) -> Option<Map> {
        IncomingMap::default().take(bytes).ok()?.1
    }

    pub fn stream_bytes(&self) -> u64 {
        self.encoded.len() as u64 + self.data.data_bytes()
    }

    pub fn at(&self, offset: u64) -> Option<Part> {
        match offset.checked_sub(self.encoded.len() as u64) {
            None => Some(Part::Map(offset as usize)),
            Some(position) => self.data.at(position).map(Part::Data),
        }
    }
}

/// Merges adjacent extents, and those with the smallest holes between them if there are too many.
fn joined(extents: Vec<Extent>) -> Vec<Extent> {
    let (mut extents, mut least_hole) = (extents, 1);
    loop {
        let mut joined: Vec<Extent> = Vec::with_capacity(extents.len());
        for extent in extents {
            match joined.last_mut() {
                Some(last)
                    if extent.offset >= last.offset
                        && extent.offset
                            < (last.offset + last.bytes).saturating_add(least_hole)
                        && extent.offset >= last.offset + last.bytes =>
                {
                    last.bytes = extent.offset - last.offset + extent.bytes;
                }
                _ => joined.push(extent),
            }
        }
        if joined.len() <= MAX_EXTENTS {
            return joined;
        }
        (extents, least_hole) = (joined, least_hole * 2);
    }
}

fn digest(bytes: u64, body: &[u8]) -> [u8; 32] {
    *blake3::Hasher::new()
        .update(&bytes.to_be_bytes())
        .update(body)
        .finalize()
        .as_bytes()
}

/// A map that is being received. Its buffer is bounded, and nothing is decoded before the digest
/// matches.
#[derive(Debug, Default)]
pub struct IncomingMap(Vec<u8>);

impl IncomingMap {
    /// Takes the map's bytes off `bytes`. Returns the rest, and the map once it is complete.
    ///
    /// # Errors
    /// If the map is damaged or impossible.
    pub fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<(&'a [u8], Option<Map>), ManifestError> {
        let rest = self.fill(HEAD_BYTES, bytes);
        if self.0.len() < HEAD_BYTES {
            return Ok((rest, None));
        }
        let number =
            |at: usize| u64::from_be_bytes(self.0[at..at + 8].try_into().expect("so long"));
        let (bytes, count) = (number(8), (number(12) & u64::from(u32::MAX)) as usize);
        if self.0[..8] != MAGIC {
            return Err(ManifestError::whole(Fault::NoManifest));
        }
        if count > MAX_EXTENTS || bytes > i64::MAX as u64 {
            return Err(ManifestError::whole(Fault::Extents));
        }
        let whole = HEAD_BYTES + count * EXTENT_BYTES;
        let rest = self.fill(whole, rest);
        if self.0.len() < whole {
            return Ok((rest, None));
        }
        let (head, body) = self.0.split_at(HEAD_BYTES);
        if head[20..] != digest(bytes, body) {
            return Err(ManifestError::whole(Fault::Digest));
        }
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("so long"));
        let extents = body.chunks_exact(EXTENT_BYTES);
        let extents = extents.map(|pair| Extent {
            offset: number(&pair[..8]),
            bytes: number(&pair[8..]),
        });
        let data = FileData::sparse(bytes, extents).map_err(ManifestError::whole)?;
        Ok((
            rest,
            Some(Map {
                data,
                encoded: std::mem::take(&mut self.0),
            }),
        ))
    }

    fn fill<'a>(&mut self, until: usize, bytes: &'a [u8]) -> &'a [u8] {
        let (now, later) = bytes.split_at(bytes.len().min(until.saturating_sub(self.0.len())));
        self.0.extend_from_slice(now);
        later
    }
}

/// Random access to the stream of a file with holes.
#[derive(Debug)]
pub struct SparseStream<F> {
    map: Arc<Map>,
    file: F,
}

impl<F: ReadAt> SparseStream<F> {
    pub fn new(map: Arc<Map>, file: F) -> SparseStream<F> {
        SparseStream { map, file }
    }
}

impl<F: ReadAt> ReadAt for SparseStream<F> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match self.map.at(offset) {
            None => Ok(0),
            Some(Part::Map(at)) => {
                let rest = &self.map.encoded[at..];
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                Ok(count)
            }
            Some(Part::Data(Extent { offset, bytes })) => {
                let most = usize::try_from(bytes)
                    .unwrap_or(usize::MAX)
                    .min(buffer.len());
                match self.file.read_at(&mut buffer[..most], offset)? {
                    0 if most > 0 => Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "it has become shorter",
                    )),
                    count => Ok(count),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn extent(offset: u64, bytes: u64) -> Extent {
        Extent { offset, bytes }
    }

    #[test]
    fn a_map_comes_out_as_it_went_in_however_it_is_cut_and_a_forged_one_does_not() {
        let map =
            Map::new(1 << 40, vec![extent(4096, 100), extent(1 << 39, 1 << 20)]).expect("sound");
        assert_eq!(map.stream_bytes(), 52 + 32 + 100 + (1 << 20));
        for piece in [1, 7, 1000] {
            let (mut incoming, mut left, mut whole) =
                (IncomingMap::default(), map.encoded.len(), None);
            for bytes in [&map.encoded[..], b"data"].concat().chunks(piece) {
                if whole.is_none() {
                    let (rest, came) = incoming.take(bytes).expect("honest");
                    (left, whole) = (left - (bytes.len() - rest.len()), came);
                }
            }
            assert_eq!((left, whole.as_ref()), (0, Some(&map)));
        }
        for at in 0..map.encoded.len() {
            let mut forged = map.encoded.clone();
            forged[at] ^= 1;
            let taken = IncomingMap::default().take(&forged);
            assert!(!matches!(taken, Ok((_, Some(_)))), "byte {at}");
        }
        let mut endless = map.encoded.clone();
        endless[16..20].fill(0xff);
        assert!(
            IncomingMap::default().take(&endless).is_err(),
            "a number alone takes no memory"
        );
    }

    #[test]
    fn extents_that_cannot_be_are_refused_and_too_many_are_joined_over_their_smallest_holes() {
        for wrong in [
            vec![extent(0, 0)],
            vec![extent(9, 2)],
            vec![extent(5, 2), extent(3, 1)],
            vec![extent(u64::MAX, 2)],
        ] {
            assert!(Map::new(10, wrong).is_err());
        }
        let many = (0..200_000_u64)
            .map(|at| extent(at * 100 + at % 7, 50))
            .collect();
        let map = Map::new(1 << 30, many).expect("sound");
        assert!(
            map.data
                .extents()
                .is_some_and(|extents| extents.len() <= MAX_EXTENTS)
        );
        assert_eq!(
            map.at(map.encoded.len() as u64)
                .map(|part| matches!(part, Part::Data(_))),
            Some(true)
        );
    }

    #[test]
    fn the_stream_of_a_terabyte_that_is_almost_empty_is_its_data() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 40)
            .and_then(|()| file.write_all_at(b"data", 1 << 39))
            .expect("holes take no room");
        let map = Arc::new(Map::new(1 << 40, vec![extent(1 << 39, 4)]).expect("sound"));
        let stream: SparseStream<File> = SparseStream::new(Arc::clone(&map), file);
        let (mut all, mut buffer) = (Vec::new(), [0; 10]);
        while let Ok(count @ 1..) = stream.read_at(&mut buffer, all.len() as u64) {
            all.extend_from_slice(&buffer[..count]);
        }
        assert_eq!(all, [&map.encoded[..], b"data"].concat());
    }
}
