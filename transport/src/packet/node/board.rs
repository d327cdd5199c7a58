//! Layout of the shared memory through which processes on one host exchange frames. Each part of it
//! has one writer.
//!
//! The board holds a header; a record for each local port id (the number of a process behind the
//! interface); then, for each id, its frames, each stored once (EQA's buffer), a reader count per
//! frame, and a queue per reader (EQA's local management structure). There are no locks: each word
//! is written by one process, except a frame's reader count, which its producer sets before it
//! queues the frame and which each reader decrements once. A process that is killed at any moment
//! leaves nothing locked.
//!
//! | what | written by |
//! |---|---|
//! | frames, queues' entries and tails | the process with the id |
//! | queues' heads | the reader; for one that is gone, the holder of its id's lock |
//! | an id's record | its process; `asleep` is cleared by the process that wakes it; `GONE` by its lock's holder |

use super::memory::SharedMemory;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

pub(super) const MAX_PROCESSES: usize = 64;
pub(super) const QUEUE_FRAMES: u32 = 512;
const MAX_FRAMES: usize = 1024;
const FRAMES_BYTES: usize = 4 << 20;
const MIN_FRAMES: usize = 64;
const LINE: usize = 64;

const LAYOUT: u64 = 0x6574_6862_6e6f_0001;
const LAYOUT_AT: usize = 0;
const STRIDE_AT: usize = 8;
const GIVEN_AT: usize = 12;
const COMPLETE_AT: usize = 16;
const TEXT_AT: usize = 64;
pub(super) const TEXT_BYTES: usize = 1024;
const PROCESSES_AT: usize = 4096;
const HEADER_BYTES: usize = PROCESSES_AT + MAX_PROCESSES * LINE;

const HEAD_AT: usize = LINE;
const ENTRIES_AT: usize = 2 * LINE;
const QUEUE_BYTES: usize = ENTRIES_AT + 4 * QUEUE_FRAMES as usize;
const FRAME_BITS: u32 = 10;

const _: () = assert!(MAX_FRAMES <= 1 << FRAME_BITS && TEXT_AT + TEXT_BYTES <= PROCESSES_AT);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occupant {
    Nobody,
    Here,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub frame: usize,
    pub bytes: usize,
}

/// Memory that the processes of a node share. Data of different writers lies in different cache
/// lines of `LINE` bytes. Every change of the layout increments `LAYOUT`.
#[derive(Debug)]
pub(super) struct Board {
    memory: SharedMemory,
    stride: usize,
    pub(super) frames: usize,
}

impl Board {
    pub(super) fn stride(frame_bytes: usize) -> usize {
        frame_bytes.next_multiple_of(LINE)
    }

    fn frames(stride: usize) -> usize {
        (FRAMES_BYTES / stride).clamp(MIN_FRAMES, MAX_FRAMES)
    }

    fn area_bytes(stride: usize) -> usize {
        (MAX_PROCESSES * QUEUE_BYTES + Self::frames(stride) * (4 + stride) + LINE)
            .next_multiple_of(4096)
    }

    pub(super) fn file_bytes(stride: usize) -> NonZeroUsize {
        NonZeroUsize::new(HEADER_BYTES + MAX_PROCESSES * Self::area_bytes(stride))
            .expect("a header has bytes")
    }

    pub(super) fn area(stride: usize, port_id: u8) -> Range<usize> {
        let start = HEADER_BYTES + usize::from(port_id) * Self::area_bytes(stride);
        start..start + Self::area_bytes(stride)
    }

    pub(super) fn header() -> Range<usize> {
        0..HEADER_BYTES
    }

    pub(super) fn new(memory: SharedMemory, stride: usize) -> Board {
        Board {
            memory,
            stride,
            frames: Self::frames(stride),
        }
    }

    pub(super) fn is_made(&self) -> bool {
        let (layout, stride) = (
            self.memory.double_word(LAYOUT_AT),
            self.memory.word(STRIDE_AT),
        );
        layout.load(Ordering::Acquire) == LAYOUT
            && stride.load(Ordering::Relaxed) as usize == self.stride
    }

    pub(super) fn make(&self, text: &[u8]) {
        let mut padded = [0; TEXT_BYTES];
        padded[..text.len()].copy_from_slice(text);
        self.memory.write(TEXT_AT, &padded);
        self.memory
            .word(STRIDE_AT)
            .store(self.stride as u32, Ordering::Relaxed);
        self.memory
            .double_word(LAYOUT_AT)
            .store(LAYOUT, Ordering::Release);
    }

    pub(super) fn text(&self) -> Vec<u8> {
        self.memory.read(TEXT_AT, TEXT_BYTES, <[u8]>::to_vec)
    }

    pub(super) fn text_in(header: &[u8]) -> Option<(&[u8], bool)> {
        let text = header.get(TEXT_AT..TEXT_AT + TEXT_BYTES)?;
        Some((text, header[COMPLETE_AT..COMPLETE_AT + 4] != [0; 4]))
    }

    pub(super) fn complete(&self) -> &AtomicU32 {
        self.memory.word(COMPLETE_AT)
    }

    pub(super) fn given(&self) -> u8 {
        self.memory
            .word(GIVEN_AT)
            .load(Ordering::Acquire)
            .min(MAX_PROCESSES as u32) as u8
    }

    fn process_word(&self, port_id: u8, at: usize) -> &AtomicU32 {
        self.memory
            .word(PROCESSES_AT + usize::from(port_id) * LINE + at)
    }

    pub(super) fn occupant(&self, port_id: u8) -> Occupant {
        match self.process_word(port_id, 0).load(Ordering::Acquire) {
            0 => Occupant::Nobody,
            1 => Occupant::Here,
            _ => Occupant::Gone,
        }
    }

    pub(super) fn occupy(&self, port_id: u8, nonce: u64) {
        self.nonce_word(port_id).store(nonce, Ordering::Relaxed);
        self.asleep(port_id).store(0, Ordering::Relaxed);
        self.process_word(port_id, 0).store(1, Ordering::Release);
        self.memory
            .word(GIVEN_AT)
            .fetch_max(u32::from(port_id) + 1, Ordering::AcqRel);
    }

    pub(super) fn vacate(&self, port_id: u8) {
        self.process_word(port_id, 0).store(2, Ordering::Release);
    }

    fn nonce_word(&self, port_id: u8) -> &AtomicU64 {
        self.memory
            .double_word(PROCESSES_AT + usize::from(port_id) * LINE + 8)
    }

    pub(super) fn nonce(&self, port_id: u8) -> u64 {
        self.nonce_word(port_id).load(Ordering::Relaxed)
    }

    pub(super) fn asleep(&self, port_id: u8) -> &AtomicU32 {
        self.process_word(port_id, 4)
    }

    fn queue(&self, from: u8, to: u8, at: usize) -> &AtomicU32 {
        self.memory
            .word(Self::area(self.stride, from).start + usize::from(to) * QUEUE_BYTES + at)
    }

    pub(super) fn tail(&self, from: u8, to: u8) -> &AtomicU32 {
        self.queue(from, to, 0)
    }

    fn head(&self, from: u8, to: u8) -> &AtomicU32 {
        self.queue(from, to, HEAD_AT)
    }

    pub(super) fn waiting(&self, from: u8, to: u8) -> u32 {
        let head = self.head(from, to).load(Ordering::Acquire);
        self.tail(from, to)
            .load(Ordering::Acquire)
            .wrapping_sub(head)
    }

    pub(super) fn has_arrival(&self, to: u8) -> bool {
        (0..self.given()).any(|from| from != to && self.waiting(from, to) > 0)
    }

    /// Marks a thread as asleep; false, and not marked, if a frame is waiting.
    pub(super) fn fall_asleep(&self, port_id: u8, thread: u32) -> bool {
        self.asleep(port_id).fetch_or(1 << thread, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let may = !self.has_arrival(port_id);
        if !may {
            self.awake(port_id, thread);
        }
        may
    }

    pub(super) fn awake(&self, port_id: u8, thread: u32) {
        self.asleep(port_id)
            .fetch_and(!(1 << thread), Ordering::SeqCst);
    }

    /// Whether the caller must wake the process with this id after filling a queue; true for only
    /// one caller.
    pub(super) fn takes_waking(&self, port_id: u8) -> bool {
        fence(Ordering::SeqCst);
        let asleep = self.asleep(port_id);
        asleep.load(Ordering::SeqCst) != 0 && asleep.swap(0, Ordering::SeqCst) != 0
    }

    fn frames_at(&self, from: u8) -> usize {
        Self::area(self.stride, from).start + MAX_PROCESSES * QUEUE_BYTES
    }

    pub(super) fn readers(&self, from: u8, frame: usize) -> &AtomicU32 {
        self.memory.word(self.frames_at(from) + 4 * frame)
    }

    fn frame_at(&self, from: u8, frame: usize) -> usize {
        (self.frames_at(from) + 4 * self.frames).next_multiple_of(LINE) + frame * self.stride
    }

    pub(super) fn frame_bytes(&self) -> usize {
        self.stride
    }

    pub(super) fn store(&self, from: u8, frame: usize, bytes: &[u8]) {
        self.memory.write(self.frame_at(from, frame), bytes);
    }

    pub(super) fn put(&self, from: u8, to: u8, entry: Entry) -> bool {
        if self.waiting(from, to) >= QUEUE_FRAMES {
            return false;
        }
        let tail = self.tail(from, to).load(Ordering::Relaxed);
        let word = entry.frame as u32 | (entry.bytes as u32) << FRAME_BITS;
        self.queue(from, to, ENTRIES_AT + 4 * (tail % QUEUE_FRAMES) as usize)
            .store(word, Ordering::Relaxed);
        self.tail(from, to)
            .store(tail.wrapping_add(1), Ordering::Release);
        true
    }

    pub(super) fn take(&self, from: u8, to: u8, read: impl FnOnce(&[u8])) -> bool {
        let waiting = self.waiting(from, to);
        if waiting == 0 {
            return false;
        }
        let head = self.head(from, to).load(Ordering::Relaxed);
        let word = self
            .queue(from, to, ENTRIES_AT + 4 * (head % QUEUE_FRAMES) as usize)
            .load(Ordering::Relaxed);
        let entry = Entry {
            frame: (word & ((1 << FRAME_BITS) - 1)) as usize,
            bytes: (word >> FRAME_BITS) as usize,
        };
        let fits =
            waiting <= QUEUE_FRAMES && entry.frame < self.frames && entry.bytes <= self.stride;
        if fits {
            self.memory
                .read(self.frame_at(from, entry.frame), entry.bytes, read);
            self.readers(from, entry.frame)
                .fetch_sub(1, Ordering::AcqRel);
        }
        // A queue cannot hold as many as a false tail says: all of it is passed over at once.
        let taken = if waiting <= QUEUE_FRAMES { 1 } else { waiting };
        self.head(from, to)
            .store(head.wrapping_add(taken), Ordering::Release);
        true
    }
}
