//! Transfers from and to memory, including delta transfers against an older version of the bytes.

use super::content::{Content, Storage, StorageError};
use super::read_again::ReadAt;
use crate::session::message::{Outcome, Trailer};
use crate::session::verified::{
    ChunkSet, HaveSet, HeldContent, Origin, StretchHashes, StretchPlace,
};
use ethbcast_transport::lock::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Cursor, Read};
use std::ops::Range;
use std::sync::Arc;

/// Bytes in memory that a sender reads once, and again where a receiver lacks them.
struct Again<B>(B);

impl<B: AsRef<[u8]> + Send + Sync + 'static> ReadAt for Again<B> {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.0.as_ref().get(offset..));
        rest.unwrap_or_default().read(buffer)
    }
}

impl Content<'static> {
    /// Creates a content of bytes in memory, which are read again if they were lost. Receivers that
    /// have an earlier version ([`receive_over`](super::Session::receive_over)) are sent what has
    /// changed. The bytes may stay in use for a moment after the session.
    pub fn of_memory(bytes: impl AsRef<[u8]> + Clone + Send + Sync + 'static) -> Content<'static> {
        let length = bytes.as_ref().len() as u64;
        Content::of(Cursor::new(bytes.clone()))
            .again_from(Ok(Box::new(Again(bytes))))
            .sized(Some(length))
    }
}

/// Memory with an earlier version of the content: equal chunks stay where they are.
pub(super) struct Version<M>(Mutex<VersionState<M>>);

struct VersionState<M> {
    memory: M,
    filled: usize,
    places: BTreeMap<u64, StretchPlace>,
    /// Length of the content, if it differs from that of the memory.
    other_bytes: Option<u64>,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Version<M> {
    pub(super) fn of(memory: M) -> Version<M> {
        Version(Mutex::new(VersionState {
            memory,
            filled: 0,
            places: BTreeMap::new(),
            other_bytes: None,
        }))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.lock().memory.as_ref().len() as u64
    }

    pub(super) fn into_memory(self) -> M {
        self.0.into_inner().memory
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> VersionState<M> {
    fn chunk(&self, place: &StretchPlace, chunk: usize) -> Option<&[u8]> {
        let begin = usize::try_from(place.chunk_offset(chunk)).ok()?;
        self.memory
            .as_ref()
            .get(begin..begin.checked_add(place.chunk_bytes(chunk))?)
    }

    fn next(&mut self, bytes: usize) -> Result<Range<usize>, StorageError> {
        let (room, place) = (
            self.memory.as_ref().len(),
            self.filled..self.filled.saturating_add(bytes),
        );
        if place.end > room {
            let text = format!(
                "the buffer has {room} bytes, and at least {} come: pass a longer one",
                place.end
            );
            return Err(StorageError::new(Outcome::NoSpace, text));
        }
        self.filled = place.end;
        Ok(place)
    }
}

impl<M> fmt::Debug for Version<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Version")
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]> + Send> HaveSet for Version<M> {
    fn begin(&self, offer: &HeldContent) {
        let mut state = self.0.lock();
        let own_bytes = state.memory.as_ref().len() as u64;
        state.other_bytes = Some(offer.size).filter(|&bytes| bytes != own_bytes);
        state.places.clear();
    }

    fn have(&self, hash_list: &StretchHashes) -> ChunkSet {
        let mut state = self.0.lock();
        let place = *hash_list.place();
        let is_here = |&chunk: &usize| {
            state
                .chunk(&place, chunk)
                .is_some_and(|bytes| hash_list.matches(chunk, bytes))
        };
        let here = (0..hash_list.chunks()).filter(is_here).collect();
        state.places.insert(hash_list.number(), place);
        here
    }

    fn read(&self, stretch: u64, chunk: usize, to: &mut [u8]) -> Option<Origin> {
        let state = self.0.lock();
        to.copy_from_slice(state.chunk(state.places.get(&stretch)?, chunk)?);
        Some(Origin::InPlace)
    }

    fn forget_below(&self, stretch: u64) {
        let mut state = self.0.lock();
        state.places = state.places.split_off(&stretch);
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> Storage for Arc<Version<M>> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let mut state = self.0.lock();
        let place = state.next(bytes.len())?;
        state.memory.as_mut()[place].copy_from_slice(bytes);
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.0.lock().next(bytes.len()).map(drop)
    }

    fn settle(&mut self, _trailer: Trailer) -> Result<(), StorageError> {
        Ok(())
    }

    fn syncs(&self) -> bool {
        false
    }

    fn note(&self) -> String {
        let state = self.0.lock();
        let own_bytes = state.memory.as_ref().len();
        let note =
            |bytes| format!("its earlier version has {own_bytes} bytes, and this one {bytes}");
        state.other_bytes.map(note).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::verified::ChunkSize;

    #[test]
    fn chunks_that_are_equal_stay_and_others_are_written_over_them() {
        const CHUNK: usize = ChunkSize::SHORTEST.bytes();
        let old = vec![1_u8; 3 * CHUNK + 5];
        let new = [&old[..CHUNK], &[2; CHUNK][..], &old[2 * CHUNK..]].concat();
        let version = Arc::new(Version::of(old));
        let offer = HeldContent {
            size: new.len() as u64,
            chunk: ChunkSize::SHORTEST,
            ..HeldContent::default()
        };
        HaveSet::begin(&*version, &offer);
        let place = StretchPlace::of(offer.chunk, 0, offer.size).expect("one stretch");
        let have = version.have(&StretchHashes::of(place, &new, &[]));
        assert_eq!(have.iter().collect::<Vec<_>>(), [0, 2, 3]);
        let mut chunk = vec![0; 5];
        assert_eq!(
            (version.read(0, 3, &mut chunk), &chunk[..]),
            (Some(Origin::InPlace), &[1; 5][..])
        );
        let mut storage = Arc::clone(&version);
        storage.keep(&new[..CHUNK]).expect("there is room");
        storage
            .write(&new[CHUNK..2 * CHUNK])
            .expect("there is room");
        storage.keep(&new[2 * CHUNK..]).expect("there is room");
        let text = storage.write(&[0]).expect_err("it is full").to_string();
        assert!(
            text.contains("49157 bytes, and at least 49158 come"),
            "{text}"
        );
        assert_eq!(
            (storage.note(), version.read(1, 0, &mut chunk)),
            (String::new(), None)
        );
        version.forget_below(1);
        assert_eq!(version.read(0, 3, &mut chunk), None);
        HaveSet::begin(&*version, &HeldContent { size: 7, ..offer });
        assert_eq!(
            storage.note(),
            "its earlier version has 49157 bytes, and this one 7"
        );
        drop(storage);
        assert_eq!(
            Arc::into_inner(version)
                .expect("the last one")
                .into_memory(),
            new
        );
    }
}
