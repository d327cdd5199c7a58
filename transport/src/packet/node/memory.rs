//! Memory shared by several processes: a mapped file, read and written as atomic words. What
//! another process writes at any moment is thus a wrong value at most.
//!
//! The protocol in [`Board`], not the types, says who may write which
//! part. The other processes belong to the same user (`place` ensures that) and are trusted to keep
//! to it; offsets and lengths they write are checked against the mapping nevertheless.
//!
//! [`Board`]: super::board::Board
#![allow(unsafe_code)]

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use zerocopy::IntoBytes;

#[derive(Debug)]
pub(super) struct SharedMemory {
    start: NonNull<u8>,
    bytes: NonZeroUsize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is only accessed as atomics.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    pub(super) fn map(file: impl AsFd, bytes: NonZeroUsize) -> nix::Result<SharedMemory> {
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of ours.
        let start = unsafe { mmap(None, bytes, access, MapFlags::MAP_SHARED, file, 0)? }.cast();
        Ok(SharedMemory { start, bytes })
    }

    /// # Panics
    /// If the range is not inside the mapping.
    fn check(&self, at: usize, bytes: usize) {
        assert!(
            at <= self.bytes.get() && bytes <= self.bytes.get() - at,
            "{bytes} bytes at {at} are not inside"
        );
    }

    /// # Panics
    /// If `at` is not inside the mapping, or no multiple of four.
    pub(super) fn word(&self, at: usize) -> &AtomicU32 {
        self.check(at, 4);
        assert!(at.is_multiple_of(4), "a word at {at}");
        // SAFETY: it is inside a mapping that lives as long as `self`, aligned, and only ever
        // accessed as an atomic.
        unsafe { AtomicU32::from_ptr(self.start.add(at).as_ptr().cast()) }
    }

    /// # Panics
    /// If `at` is not inside the mapping, or no multiple of eight.
    pub(super) fn double_word(&self, at: usize) -> &AtomicU64 {
        self.check(at, 8);
        assert!(at.is_multiple_of(8), "a double word at {at}");
        // SAFETY: as for a word.
        unsafe { AtomicU64::from_ptr(self.start.add(at).as_ptr().cast()) }
    }

    /// # Panics
    /// If `count` double words from `at` are not inside the mapping, or `at` is no multiple of
    /// eight.
    fn double_words(&self, at: usize, count: usize) -> &[AtomicU64] {
        self.check(at, 8 * count);
        assert!(at.is_multiple_of(8), "double words at {at}");
        // SAFETY: as for a word.
        unsafe { std::slice::from_raw_parts(self.start.add(at).as_ptr().cast(), count) }
    }

    /// Writes bytes, and zeros up to the next multiple of eight.
    ///
    /// # Panics
    /// If that is not inside the mapping, or `at` is no multiple of eight.
    pub(super) fn write(&self, at: usize, from: &[u8]) {
        let words = self.double_words(at, from.len().div_ceil(8));
        for (word, part) in words.iter().zip(from.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
    }

    /// Passes a copy of bytes to `read`, which another process cannot change meanwhile.
    ///
    /// # Panics
    /// If they are not inside the mapping, or `at` is no multiple of eight.
    pub(super) fn read<R>(&self, at: usize, bytes: usize, read: impl FnOnce(&[u8]) -> R) -> R {
        let words = self.double_words(at, bytes.div_ceil(8));
        let (mut of_a_frame, mut longer) = ([0_u64; 256], Vec::new());
        let copy = if words.len() <= of_a_frame.len() {
            &mut of_a_frame[..words.len()]
        } else {
            longer.resize(words.len(), 0);
            &mut longer[..]
        };
        copy.iter_mut()
            .zip(words)
            .for_each(|(to, word)| *to = word.load(Ordering::Relaxed));
        read(&copy.as_bytes()[..bytes])
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map`, of that length, and every borrow of it has
        // ended.
        let unmapped = unsafe { munmap(self.start.cast(), self.bytes.get()) };
        debug_assert_eq!(unmapped, Ok(()), "the memory was mapped");
    }
}
