//! Receive ring of the packet socket: memory shared with the kernel, one slot per frame
//! (TPACKET_V2).
//!
//! A slot's status word says whether the kernel or we own it; changing the word hands the slot
//! over. So the word is an atomic: acquired before a slot is read, released after. V3, with many
//! frames to a block, is as fast, but shows a partly filled block only after a timeout of 1 ms or
//! more. That is too late for an acknowledgement. Source: kernel documentation,
//! `networking/packet_mmap`.
#![allow(unsafe_code)]

use super::syscall;
use crate::wire::ETHERNET_BYTES;
use libc::tpacket2_hdr;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

const MIN_SLOTS: usize = 64;
const MAX_RING_BYTES: usize = 1 << 30;
const MIN_BLOCK_BYTES: usize = 64 * 1024;
const MIN_BLOCK_SLOTS: usize = 8;
const LINK_HEADER_ROOM_BYTES: usize = 16;

/// Slots and blocks of a ring. A sender's first window at a large MTU fits in `MIN_SLOTS`. A block
/// must be whole pages, and no Linux page is larger than `MIN_BLOCK_BYTES`. No slot crosses blocks,
/// so at most an eighth of a block of `MIN_BLOCK_SLOTS` is unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) slot_bytes: usize,
    block_bytes: usize,
    blocks: usize,
}

impl Geometry {
    pub(super) fn new(mtu_bytes: usize, ring_bytes: usize) -> Self {
        let payload_offset = (libc::TPACKET2_HDRLEN + LINK_HEADER_ROOM_BYTES)
            .next_multiple_of(libc::TPACKET_ALIGNMENT);
        let slot_bytes = (payload_offset + mtu_bytes).next_multiple_of(libc::TPACKET_ALIGNMENT);
        let block_bytes = (slot_bytes * MIN_BLOCK_SLOTS)
            .next_power_of_two()
            .max(MIN_BLOCK_BYTES);
        let least = MIN_SLOTS.div_ceil(block_bytes / slot_bytes);
        let most = MAX_RING_BYTES / block_bytes;
        Geometry {
            slot_bytes,
            block_bytes,
            blocks: (ring_bytes / block_bytes).clamp(least, most.max(least)),
        }
    }

    fn block_slots(&self) -> usize {
        self.block_bytes / self.slot_bytes
    }

    pub(super) fn slots(&self) -> usize {
        self.block_slots() * self.blocks
    }

    pub(super) fn bytes(&self) -> usize {
        self.block_bytes * self.blocks
    }

    fn offset(&self, slot: usize) -> usize {
        let per_block = self.block_slots();
        slot / per_block * self.block_bytes + slot % per_block * self.slot_bytes
    }

    fn request(&self) -> libc::tpacket_req {
        libc::tpacket_req {
            tp_block_size: self.block_bytes as u32,
            tp_block_nr: self.blocks as u32,
            tp_frame_size: self.slot_bytes as u32,
            tp_frame_nr: self.slots() as u32,
        }
    }
}

pub(super) enum SlotContent<'a> {
    Frame(&'a [u8]),
    Truncated,
    VlanTagged,
    /// A frame from or to an address that stands for none of the wire.
    Outside,
    /// A datagram between ports, which is no frame.
    Question,
}

pub(super) struct Ring {
    memory: NonNull<u8>,
    geometry: Geometry,
    /// Offset of every slot: looked up per frame, as a division would cost more than everything
    /// else.
    offsets: Box<[usize]>,
    next_slot: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and `Ring` is the only one to know
// it.
unsafe impl Send for Ring {}

impl Ring {
    pub(super) fn create(socket: BorrowedFd, geometry: Geometry) -> nix::Result<Self> {
        syscall::set_receive_ring(
            socket,
            libc::tpacket_versions::TPACKET_V2,
            &geometry.request(),
        )?;
        let length = NonZeroUsize::new(geometry.bytes()).expect("a ring has at least one block");
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of ours.
        let memory = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, socket, 0)? }.cast();
        let offsets = (0..geometry.slots())
            .map(|slot| geometry.offset(slot))
            .collect();
        Ok(Ring {
            memory,
            geometry,
            offsets,
            next_slot: 0,
        })
    }

    pub(super) fn has_arrival(&self) -> bool {
        self.next_status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Passes the oldest arrival to `take`, in place, then releases its slot; `None` if nothing has
    /// arrived.
    pub(super) fn receive<R>(&mut self, take: impl FnOnce(SlotContent<'_>) -> R) -> Option<R> {
        let status = self.next_status();
        let seen = status.load(Ordering::Acquire);
        if seen & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let result = take(self.arrival(self.next_header(), seen));
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next_slot = if self.next_slot + 1 == self.offsets.len() {
            0
        } else {
            self.next_slot + 1
        };
        Some(result)
    }

    fn next_header(&self) -> NonNull<tpacket2_hdr> {
        // SAFETY: every offset is that of a slot inside the mapping.
        unsafe { self.memory.add(self.offsets[self.next_slot]) }.cast()
    }

    fn next_status(&self) -> &AtomicU32 {
        // SAFETY: a slot begins with its status word, aligned to 16 bytes and mapped as long as
        // `self`; once the socket has its ring, the kernel and we access the word only atomically.
        unsafe { AtomicU32::from_ptr(self.next_header().as_ptr().cast()) }
    }

    fn arrival(&self, header: NonNull<tpacket2_hdr>, status: u32) -> SlotContent<'_> {
        let at = header.as_ptr();
        // SAFETY: the slot is ours, so nobody writes to it; any bytes make valid integers. No
        // reference to the whole header is made, for the status word is the kernel's to look at.
        let (length, stored, start) = unsafe { ((*at).tp_len, (*at).tp_snaplen, (*at).tp_mac) };
        let (stored, start) = (stored as usize, usize::from(start));
        let in_slot = start + stored <= self.geometry.slot_bytes;
        if length as usize > stored || stored < ETHERNET_BYTES || !in_slot {
            return SlotContent::Truncated;
        }
        if status & libc::TP_STATUS_VLAN_VALID != 0 {
            return SlotContent::VlanTagged;
        }
        // SAFETY: the bytes lie inside the slot (checked above), the kernel has written them before
        // it released the status word, and leaves them alone until `receive` gives the slot back,
        // when this borrow has ended.
        SlotContent::Frame(unsafe {
            std::slice::from_raw_parts(at.cast::<u8>().add(start), stored)
        })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `create`, of that length, and every borrow of it has
        // ended.
        let unmapped = unsafe { munmap(self.memory.cast(), self.geometry.bytes()) };
        debug_assert_eq!(unmapped, Ok(()), "the ring was mapped");
    }
}

#[cfg(test)]
mod tests {
    use super::Geometry;

    #[test]
    fn every_ring_has_slots_for_its_mtu_and_wastes_little() {
        for mtu_bytes in [68, 576, 1500, 4000, 9000, 16_000, 65_535] {
            for ring_bytes in [0, 1 << 16, 8 << 20, 64 << 20, usize::MAX] {
                let ring = Geometry::new(mtu_bytes, ring_bytes);
                assert!(
                    ring.slots() >= 64 && ring.bytes() <= 1 << 30,
                    "{mtu_bytes} {ring:?}"
                );
                assert!(
                    ring.slot_bytes >= 80 + mtu_bytes && ring.slot_bytes.is_multiple_of(16),
                    "{mtu_bytes} {ring:?}"
                );
                assert!(
                    ring.block_bytes.is_power_of_two() && ring.block_bytes >= 1 << 16,
                    "{mtu_bytes} {ring:?}"
                );
                let used_bytes = ring.slots() * ring.slot_bytes;
                assert!(used_bytes * 8 >= ring.bytes() * 7, "{mtu_bytes} {ring:?}");
            }
        }
        assert_eq!(Geometry::new(1500, 8 << 20).slots(), 5248);
        assert_eq!(Geometry::new(65_535, 8 << 20).slots(), 120);
    }
}
