//! Frames that wait to be submitted to the kernel.

use super::syscall::SEND_MANY_FRAMES;
use crate::split_frame::{Kept, SplitFrame};
use crate::wire::ETHERNET_BYTES;
use std::io::IoSlice;

/// Memory for staged frames at a large MTU: with more, one call to the kernel would delay the
/// receive ring for long.
const LARGE_MTU_BYTES: usize = 1 << 20;
const MIN_FRAMES: usize = 8;

pub(super) struct Staging {
    memory: Box<[u8]>,
    frame_bytes: usize,
    frames: Vec<SplitFrame>,
    sent: usize,
    capacity: usize,
}

impl Staging {
    pub(super) fn new(mtu_bytes: usize) -> Self {
        let frame_bytes = ETHERNET_BYTES + mtu_bytes;
        let capacity = (LARGE_MTU_BYTES / frame_bytes).clamp(MIN_FRAMES, SEND_MANY_FRAMES);
        Staging {
            memory: vec![0; capacity * frame_bytes].into_boxed_slice(),
            frame_bytes,
            frames: Vec::with_capacity(capacity),
            sent: 0,
            capacity,
        }
    }

    pub(super) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.frames.len()
    }

    pub(super) fn fill(&mut self, mut write: impl FnMut(&mut [u8]) -> Option<SplitFrame>) {
        if !self.is_empty() {
            return;
        }
        self.frames.clear();
        self.sent = 0;
        for buffer in self.memory.chunks_exact_mut(self.frame_bytes).take(self.capacity) {
            let Some(frame) = write(buffer) else { break };
            assert!(frame.bytes() <= buffer.len(), "a machine wrote {} bytes into {}", frame.bytes(), buffer.len());
            self.frames.push(frame);
        }
    }

    pub(super) fn join<'a>(&mut self, payload: impl Fn(Kept) -> &'a [u8]) {
        let buffers = self.memory.chunks_exact_mut(self.frame_bytes);
        for (buffer, frame) in buffers.zip(&mut self.frames).skip(self.sent) {
            *frame = SplitFrame::whole(frame.join(buffer, &payload));
        }
    }

    pub(super) fn waiting<'a, 'b: 'a, R>(
        &'a self,
        most: usize,
        payload: impl Fn(Kept) -> &'b [u8],
        send: impl FnOnce(&[[IoSlice<'a>; 2]]) -> R,
    ) -> R {
        let mut slices = [[IoSlice::new(&[]); 2]; SEND_MANY_FRAMES];
        let frames = self.memory.chunks_exact(self.frame_bytes).zip(&self.frames).skip(self.sent).take(most);
        let mut count = 0;
        for (slot, (buffer, frame)) in slices.iter_mut().zip(frames) {
            let rest = frame.kept.map_or(&[][..], &payload);
            *slot = [IoSlice::new(&buffer[..frame.written_bytes]), IoSlice::new(rest)];
            count += 1;
        }
        send(&slices[..count])
    }

    pub(super) fn lengths(&self) -> impl Iterator<Item = usize> + '_ {
        self.frames[self.sent..].iter().map(SplitFrame::bytes)
    }

    pub(super) fn oldest_bytes(&self) -> usize {
        self.lengths().next().unwrap_or_default()
    }

    pub(super) fn header(&self) -> [u8; ETHERNET_BYTES] {
        std::array::from_fn(|at| self.memory[at])
    }

    pub(super) fn remove(&mut self, count: usize) -> usize {
        let gone = &self.frames[self.sent..self.sent + count];
        self.sent += count;
        gone.iter().map(SplitFrame::bytes).sum()
    }
}
