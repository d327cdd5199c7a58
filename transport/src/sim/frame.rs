//! Simulated frames in flight: one copy shared by all cables that carry it.

use std::rc::Rc;

use crate::MacAddr;
use crate::wire::ETHERNET_BYTES;

pub(super) const MINIMUM_BYTES: usize = 60;

/// A frame; flooding copies the [`Rc`] around it, never the bytes.
#[derive(Debug)]
pub(super) struct SharedFrame {
    buffer: Box<[u8]>,
    length: usize,
    origin: Option<u32>,
}

impl SharedFrame {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn origin(&self) -> Option<u32> {
        self.origin
    }

    pub(super) fn destination(&self) -> MacAddr {
        self.address(0)
    }

    pub(super) fn source(&self) -> MacAddr {
        self.address(6)
    }

    fn address(&self, at: usize) -> MacAddr {
        let b = &self.buffer[at..at + 6];
        MacAddr::new(b[0], b[1], b[2], b[3], b[4], b[5])
    }

    pub(super) fn buffer_mut(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Declares the first `length` bytes to be the frame and pads them.
    ///
    /// # Panics
    /// If there is no whole header or the frame is longer than the link allows: the machine has
    /// broken its contract.
    pub(super) fn finish(&mut self, length: usize, origin: Option<u32>) {
        let longest = self.buffer.len();
        assert!(
            (ETHERNET_BYTES..=longest).contains(&length),
            "a frame of {length} bytes was written to a link that takes {ETHERNET_BYTES} to {longest}: \
             write the whole header and at most 14 bytes + MTU"
        );
        self.length = length.max(MINIMUM_BYTES).min(longest);
        self.buffer[length..self.length].fill(0);
        self.origin = origin;
    }
}

#[derive(Debug)]
pub(super) struct FramePool {
    unused: Vec<Rc<SharedFrame>>,
    frame_bytes: usize,
}

impl FramePool {
    pub(super) fn new(frame_bytes: usize) -> Self {
        FramePool {
            unused: Vec::new(),
            frame_bytes,
        }
    }

    pub(super) fn take(&mut self) -> Rc<SharedFrame> {
        self.unused.pop().unwrap_or_else(|| {
            Rc::new(SharedFrame {
                buffer: vec![0; self.frame_bytes].into_boxed_slice(),
                length: 0,
                origin: None,
            })
        })
    }

    pub(super) fn changed(
        &mut self,
        frame: &SharedFrame,
        change: impl FnOnce(&mut [u8]),
    ) -> Rc<SharedFrame> {
        let mut copy = self.take();
        let changed = unshared(&mut copy);
        changed.buffer[..frame.length].copy_from_slice(frame.bytes());
        changed.length = frame.length;
        changed.origin = frame.origin;
        change(&mut changed.buffer[..frame.length]);
        copy
    }

    pub(super) fn give_back(&mut self, frame: Rc<SharedFrame>) {
        if Rc::strong_count(&frame) == 1 {
            self.unused.push(frame);
        }
    }
}

pub(super) fn unshared(frame: &mut Rc<SharedFrame>) -> &mut SharedFrame {
    Rc::get_mut(frame).expect("a frame from the pool has one holder")
}
