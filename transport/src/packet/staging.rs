//! The frames that wait to be handed to the kernel.

use super::syscall::SEND_MANY_FRAMES;
use crate::wire::ETHERNET_BYTES;
use std::io::IoSlice;

/// Memory for staged frames at a large MTU: with more, one call to the kernel would keep us from the receive ring for
/// long.
const LARGE_MTU_BYTES: usize = 1 << 20;
/// Fewest frames, whatever the MTU.
const MIN_FRAMES: usize = 8;

/// Buffers for a batch of frames, taken once and used over and over.
pub(super) struct Staging {
    memory: Box<[u8]>,
    frame_bytes: usize,
    /// Lengths in bytes of the staged frames; those before `sent` have left.
    lengths: Vec<usize>,
    sent: usize,
    capacity: usize,
}

impl Staging {
    /// Room for a batch of frames of up to `mtu_bytes` payload.
    pub(super) fn new(mtu_bytes: usize) -> Self {
        let frame_bytes = ETHERNET_BYTES + mtu_bytes;
        let capacity = (LARGE_MTU_BYTES / frame_bytes).clamp(MIN_FRAMES, SEND_MANY_FRAMES);
        Staging {
            memory: vec![0; capacity * frame_bytes].into_boxed_slice(),
            frame_bytes,
            lengths: Vec::with_capacity(capacity),
            sent: 0,
            capacity,
        }
    }

    /// The largest frame it takes, Ethernet header included.
    pub(super) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// Whether every staged frame has left.
    pub(super) fn is_empty(&self) -> bool {
        self.sent == self.lengths.len()
    }

    /// Takes what `write` writes, up to a batch; does nothing unless empty.
    pub(super) fn fill(&mut self, mut write: impl FnMut(&mut [u8]) -> Option<usize>) {
        if !self.is_empty() {
            return;
        }
        self.lengths.clear();
        self.sent = 0;
        for buffer in self.memory.chunks_exact_mut(self.frame_bytes).take(self.capacity) {
            let Some(length) = write(buffer) else { break };
            assert!(length <= buffer.len(), "a machine wrote {length} bytes into {}", buffer.len());
            self.lengths.push(length);
        }
    }

    /// Lends the waiting frames, oldest first.
    pub(super) fn waiting<R>(&self, send: impl FnOnce(&[IoSlice]) -> R) -> R {
        let mut slices = [IoSlice::new(&[]); SEND_MANY_FRAMES];
        let frames = self.memory.chunks_exact(self.frame_bytes).zip(&self.lengths).skip(self.sent);
        let mut count = 0;
        for (slot, (buffer, &length)) in slices.iter_mut().zip(frames) {
            *slot = IoSlice::new(&buffer[..length]);
            count += 1;
        }
        send(&slices[..count])
    }

    /// Forgets the `count` oldest waiting frames and returns their bytes.
    pub(super) fn remove(&mut self, count: usize) -> usize {
        let gone = &self.lengths[self.sent..self.sent + count];
        self.sent += count;
        gone.iter().sum()
    }
}
