//! One direction of a simulated cable, with the queue and the transmitter in front of it, and the
//! frames in flight: one copy shared by all cables that carry it.
//!
//! A transmitter serves its queue in order at a fixed rate, so the arrival time of a frame is known
//! when it is queued: one event per frame and hop. Only the first frame of a wire is in the event
//! queue, which keeps that small.

use super::network::{Cable, Lengths, MINIMUM_BYTES, Node, QueueLimit};
use super::stats::{DirectionStats, Drops};
use crate::MacAddr;
use crate::wire::ETHERNET_BYTES;
use std::collections::VecDeque;
use std::rc::Rc;

#[derive(Debug)]
struct InFlight {
    begins: u64,
    arrives: u64,
    frame: Rc<SharedFrame>,
    flooded: bool,
}

/// One direction of a cable. Frames `in_flight` wait, are being sent or are in flight, in this
/// order from the back. At `free_at` the transmitter has sent, or with a token bucket paid for,
/// everything queued; `fraction` is the rounding remainder of that time, in units of 1 / rate
/// nanoseconds, so that rounding does not change the rate.
///
/// Frames whose last bit leaves after the first and not after the second time of the `outage` are
/// lost.
#[derive(Debug)]
pub(super) struct Wire {
    from: Node,
    to: Node,
    stats: DirectionStats,
    rate_bits_per_second: u64,
    delay_nanos: u64,
    burst_nanos: u64,
    lengths: Lengths,
    limit: QueueLimit,
    in_flight: VecDeque<InFlight>,
    left: usize,
    queued_bytes: u64,
    own_bytes: u64,
    free_at: u64,
    fraction: u64,
    outage: (u64, u64),
}

pub(super) enum Offered {
    Queued,
    First(u64),
    Full(Rc<SharedFrame>),
}

impl Wire {
    pub(super) fn new(
        (cable, rate_bits_per_second): (Cable, u64),
        [from, to]: [Node; 2],
        limit: QueueLimit,
        lengths: Lengths,
    ) -> Self {
        Wire {
            from,
            to,
            stats: DirectionStats::default(),
            rate_bits_per_second,
            delay_nanos: cable.delay().as_nanos() as u64,
            burst_nanos: (u128::from(cable.burst_bytes()) * 8_000_000_000
                / u128::from(rate_bits_per_second)) as u64,
            lengths,
            limit,
            in_flight: VecDeque::new(),
            left: 0,
            queued_bytes: 0,
            own_bytes: 0,
            free_at: 0,
            fraction: 0,
            outage: (u64::MAX, u64::MAX),
        }
    }

    pub(super) fn from(&self) -> Node {
        self.from
    }

    pub(super) fn to(&self) -> Node {
        self.to
    }

    pub(super) fn stats(&self) -> DirectionStats {
        self.stats
    }

    pub(super) fn drops_mut(&mut self) -> &mut Drops {
        &mut self.stats.drops
    }

    pub(super) fn offer(&mut self, now: u64, frame: Rc<SharedFrame>, flooded: bool) -> Offered {
        if !self.has_room(now, frame.length()) {
            return Offered::Full(frame);
        }
        let (begins, leaves) = self.transmit(now, frame.length());
        let arrives = leaves + self.delay_nanos;
        self.queued_bytes += frame.length() as u64;
        self.own_bytes += if flooded { 0 } else { frame.length() as u64 };
        self.stats.frames += 1;
        self.stats.bytes += frame.length() as u64;
        self.in_flight.push_back(InFlight {
            begins,
            arrives,
            frame,
            flooded,
        });
        self.stats.queue_peak_frames = self.stats.queue_peak_frames.max(self.queued_frames());
        match self.in_flight.len() {
            1 => Offered::First(arrives),
            _ => Offered::Queued,
        }
    }

    pub(super) fn held_up(&self, now: u64) -> Option<u64> {
        self.in_flight
            .front()
            .map(|first| first.arrives)
            .filter(|&arrives| arrives > now)
    }

    pub(super) fn hold(&mut self, now: u64, until: u64) {
        let waiting = self
            .in_flight
            .iter()
            .position(|one| one.begins >= now)
            .unwrap_or(self.in_flight.len());
        let begins = self
            .in_flight
            .get(waiting)
            .map_or(self.free_at, |one| one.begins);
        let by = until.saturating_sub(begins);
        self.free_at = (self.free_at + by).max(until);
        for held in self.in_flight.range_mut(waiting..) {
            (held.begins, held.arrives) = (held.begins + by, held.arrives + by);
        }
    }

    pub(super) fn queue(&mut self, now: u64) -> (u64, usize) {
        self.settle(now);
        (self.own_bytes, self.queued_frames())
    }

    pub(super) fn last_departure(&self) -> Option<u64> {
        self.in_flight
            .back()
            .map(|last| last.arrives - self.delay_nanos)
    }

    pub(super) fn arrive(&mut self, now: u64) -> (Rc<SharedFrame>, Option<u64>) {
        self.settle(now);
        let first = self
            .in_flight
            .pop_front()
            .expect("an arrival is scheduled only for a wire that carries a frame");
        self.left -= 1;
        (first.frame, self.in_flight.front().map(|next| next.arrives))
    }

    pub(super) fn has_room(&mut self, now: u64, frame_bytes: usize) -> bool {
        self.settle(now);
        match self.limit {
            QueueLimit::Frames(limit) => self.queued_frames() < limit,
            QueueLimit::Bytes(limit) => {
                self.queued_frames() == 0 || self.queued_bytes + frame_bytes as u64 <= limit
            }
        }
    }

    pub(super) fn next_departure(&self) -> Option<u64> {
        let first = self.in_flight.get(self.left)?;
        Some(first.arrives - self.delay_nanos)
    }

    pub(super) fn cut(&mut self, now: u64) {
        if !self.is_cut() {
            self.outage = (now, u64::MAX);
        }
    }

    pub(super) fn restore(&mut self, now: u64) {
        if self.is_cut() {
            self.outage.1 = now;
        }
    }

    pub(super) fn lost(&self, now: u64) -> bool {
        let left_at = now - self.delay_nanos;
        self.outage.0 < left_at && left_at <= self.outage.1
    }

    fn is_cut(&self) -> bool {
        self.outage.0 < u64::MAX && self.outage.1 == u64::MAX
    }

    fn queued_frames(&self) -> usize {
        self.in_flight.len() - self.left
    }

    fn transmit(&mut self, now: u64, frame_bytes: usize) -> (u64, u64) {
        if self.free_at < now {
            self.free_at = now;
            self.fraction = 0;
        }
        let begins = self.free_at.saturating_sub(self.burst_nanos).max(now);
        let bits = self.lengths.of(frame_bytes) as u64 * 8;
        let numerator = bits * 1_000_000_000 + self.fraction;
        self.free_at += numerator / self.rate_bits_per_second;
        self.fraction = numerator % self.rate_bits_per_second;
        // A full bucket pays in advance.
        (
            begins,
            self.free_at.saturating_sub(self.burst_nanos).max(now),
        )
    }

    fn settle(&mut self, now: u64) {
        while let Some(first) = self.in_flight.get(self.left)
            && first.arrives - self.delay_nanos <= now
        {
            self.queued_bytes -= first.frame.length() as u64;
            self.own_bytes -= if first.flooded {
                0
            } else {
                first.frame.length() as u64
            };
            self.left += 1;
        }
    }
}

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
