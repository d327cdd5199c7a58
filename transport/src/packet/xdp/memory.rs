//! Memory shared with the kernel: chunks in which frames arrive, and two rings. By the fill ring we give it chunks, by
//! the receive ring it gives them back with frames.
//!
//! Each ring has two counters, one written by either side: acquired before entries are read, released after. Source:
//! kernel documentation, `networking/af_xdp`.
#![allow(unsafe_code)]

use super::syscall;
use libc::{c_int, c_void, xdp_desc, xdp_ring_offset};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

const ACCESS: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);

/// A mapping of ours, gone when it is dropped.
struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and its owner is the only one to know it.
unsafe impl Send for Mapping {}

impl Mapping {
    fn of_nothing(bytes: usize) -> nix::Result<Self> {
        let length = NonZeroUsize::new(bytes).expect("there are chunks");
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of ours.
        let at = unsafe { mmap_anonymous(None, length, ACCESS, MapFlags::MAP_PRIVATE)? };
        Ok(Self { at: at.cast(), bytes })
    }

    fn of_socket(fd: BorrowedFd, bytes: usize, offset: libc::off_t) -> nix::Result<Self> {
        let length = NonZeroUsize::new(bytes).expect("a ring has entries");
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of ours.
        let at = unsafe { mmap(None, length, ACCESS, flags, fd, offset)? };
        Ok(Self { at: at.cast(), bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping of `new`, of that length, and every borrow of it has ended.
        let unmapped = unsafe { munmap(self.at.cast(), self.bytes) };
        debug_assert_eq!(unmapped, Ok(()), "it was mapped");
    }
}

/// The chunks of one socket.
pub(super) struct Chunks {
    memory: Mapping,
    chunk_bytes: usize,
}

impl Chunks {
    /// Takes memory, a power of two of bytes for each chunk, and gives it to the socket, which has to go first.
    pub(super) fn register(fd: BorrowedFd, chunks: usize, chunk_bytes: usize) -> nix::Result<Self> {
        let memory = Mapping::of_nothing(chunks * chunk_bytes)?;
        let at = memory.at.as_ptr().cast::<c_void>();
        // SAFETY: the mapping is this type's own and read only where the kernel has said that it is done; the kernel
        // itself holds its pages for as long as the socket is open.
        unsafe { syscall::register(fd, at, memory.bytes, chunk_bytes as u32)? };
        Ok(Self { memory, chunk_bytes })
    }

    /// What is in a chunk; `None` if that is not within the memory.
    pub(super) fn piece(&self, piece: &xdp_desc) -> Option<&[u8]> {
        let (start, bytes) = (usize::try_from(piece.addr).ok()?, piece.len as usize);
        let is_within = start.checked_add(bytes).is_some_and(|end| end <= self.memory.bytes);
        // SAFETY: the bytes are within the mapping (checked above). The kernel has written them before it released the
        // ring's counter, and leaves them alone until the chunk is given to it again, for which `self` is borrowed as
        // mutable by whoever owns both.
        is_within.then(|| unsafe { std::slice::from_raw_parts(self.memory.at.add(start).as_ptr(), bytes) })
    }

    /// The address of the chunk that has this piece.
    pub(super) fn chunk_of(&self, piece: &xdp_desc) -> u64 {
        piece.addr & !(self.chunk_bytes as u64 - 1)
    }
}

/// A ring whose entries are of this type.
struct Ring<T> {
    memory: Mapping,
    offsets: xdp_ring_offset,
    entries: u32,
    _of: std::marker::PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    fn make(
        fd: BorrowedFd,
        option: c_int,
        entries: u32,
        offsets: xdp_ring_offset,
        page: libc::off_t,
    ) -> nix::Result<Self> {
        assert!(entries.is_power_of_two(), "the kernel takes no other");
        syscall::make_ring(fd, option, entries)?;
        let bytes = offsets.desc as usize + entries as usize * size_of::<T>();
        Ok(Self { memory: Mapping::of_socket(fd, bytes, page)?, offsets, entries, _of: std::marker::PhantomData })
    }

    fn counter(&self, offset: u64) -> &AtomicU32 {
        // SAFETY: the kernel has put a counter of four bytes at this offset of the mapping, aligned, which lives as
        // long as `self`, and both sides access it only atomically.
        unsafe { AtomicU32::from_ptr(self.memory.at.add(offset as usize).cast().as_ptr()) }
    }

    fn produced(&self) -> &AtomicU32 {
        self.counter(self.offsets.producer)
    }

    fn consumed(&self) -> &AtomicU32 {
        self.counter(self.offsets.consumer)
    }

    fn entry(&self, number: u32) -> NonNull<T> {
        let at = self.offsets.desc as usize + (number & (self.entries - 1)) as usize * size_of::<T>();
        // SAFETY: the mapping has all entries (see `make`), and this is one of them.
        unsafe { self.memory.at.add(at) }.cast()
    }
}

/// Gives chunks to the kernel.
pub(super) struct FillRing(Ring<u64>);

impl FillRing {
    pub(super) fn make(fd: BorrowedFd, entries: u32, offsets: &libc::xdp_mmap_offsets) -> nix::Result<Self> {
        let page = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        Ring::make(fd, libc::XDP_UMEM_FILL_RING, entries, offsets.fr, page).map(Self)
    }

    /// Gives one chunk. There are never more than entries, so that there is always room.
    pub(super) fn give(&mut self, chunk: u64) {
        // This counter is written here alone.
        let number = self.0.produced().load(Ordering::Relaxed);
        // SAFETY: the entry is ours until the counter says that it is filled, and there is room: as many entries as
        // chunks.
        unsafe { self.0.entry(number).write(chunk) };
        self.0.produced().store(number.wrapping_add(1), Ordering::Release);
    }
}

/// Takes frames from the kernel.
pub(super) struct ReceiveRing(Ring<xdp_desc>);

impl ReceiveRing {
    pub(super) fn make(fd: BorrowedFd, entries: u32, offsets: &libc::xdp_mmap_offsets) -> nix::Result<Self> {
        Ring::make(fd, libc::XDP_RX_RING, entries, offsets.rx, libc::XDP_PGOFF_RX_RING).map(Self)
    }

    /// Whether there is an entry.
    pub(super) fn has_entry(&self) -> bool {
        self.0.produced().load(Ordering::Acquire) != self.0.consumed().load(Ordering::Relaxed)
    }

    /// Takes the oldest entry.
    pub(super) fn take(&mut self) -> Option<xdp_desc> {
        if !self.has_entry() {
            return None;
        }
        // This counter is written here alone.
        let number = self.0.consumed().load(Ordering::Relaxed);
        // SAFETY: the kernel has filled this entry before it released its counter, acquired just now.
        let entry = unsafe { self.0.entry(number).read() };
        self.0.consumed().store(number.wrapping_add(1), Ordering::Release);
        Some(entry)
    }
}
