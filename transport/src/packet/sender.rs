//! The sending half of a port: a staging area, and what to do when the kernel has no room.
//!
//! The kernel says no in two ways. EAGAIN: the socket's send buffer is full; it will tell when there is room again
//! (POLLOUT). ENOBUFS: the interface's transmit queue threw the frame away; it tells nobody when there is room, so we
//! ask again after a while. Neither loses a frame.

use super::counters::Counters;
use super::error::{DriveError, is_away};
use super::send_buffer::SendBuffer;
use super::staging::Staging;
use super::syscall;
use crate::Instant;
use crate::link::Blocked;
use crate::split_frame::{Kept, SplitFrame};
use nix::errno::Errno;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// First wait after a full transmit queue: 17 frames of 1500 bytes at 1 Gbit/s.
const BACK_OFF_MIN: Duration = Duration::from_micros(200);
/// Longest wait after a full transmit queue; a retry costs some 2 µs, so this is 0.2 % of a core.
const BACK_OFF_MAX: Duration = Duration::from_millis(1);
/// A transmit queue that takes nothing for so long deserves a warning.
const WARN_AFTER: Duration = Duration::from_secs(1);

/// Sends frames in order, and keeps those the kernel does not take.
pub(super) struct Sender {
    staging: Staging,
    backlog: SendBuffer,
    blocked: Option<Blocked>,
    back_off: Duration,
    /// Since when the transmit queue has taken nothing.
    refused_since: Option<Instant>,
    warned: bool,
}

/// What came of sending the frames that wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flushed {
    /// How many left.
    pub frames: usize,
    /// Why the rest stays, if the interface is away.
    pub away: Option<Errno>,
}

impl Sender {
    /// A sender of frames of up to `mtu_bytes` payload, with a send buffer of `buffer_bytes` at most.
    pub(super) fn new(mtu_bytes: usize, buffer_bytes: usize) -> Self {
        let staging = Staging::new(mtu_bytes);
        let backlog = SendBuffer::new(staging.frame_bytes(), buffer_bytes);
        Sender { staging, backlog, blocked: None, back_off: BACK_OFF_MIN, refused_since: None, warned: false }
    }

    /// The largest frame, Ethernet header included.
    pub(super) fn frame_bytes(&self) -> usize {
        self.staging.frame_bytes()
    }

    /// The `SO_SNDBUF` to begin with.
    pub(super) fn buffer_bytes(&self) -> usize {
        self.backlog.present_bytes()
    }

    /// A new `SO_SNDBUF`, if the link's rate asks for one.
    pub(super) fn resize(&mut self, now: Instant) -> Option<usize> {
        self.backlog.resize(now)
    }

    /// What it waits for before it tries to send again.
    pub(super) fn blocked(&self) -> Option<Blocked> {
        self.blocked
    }

    /// Takes note of POLLOUT.
    pub(super) fn writable(&mut self) {
        if self.blocked == Some(Blocked::Room) {
            self.blocked = None;
        }
    }

    /// Stages what `write` writes, unless frames are waiting already.
    pub(super) fn fill(&mut self, write: impl FnMut(&mut [u8]) -> Option<SplitFrame>) {
        self.staging.fill(write);
    }

    /// Takes the payloads that waiting frames lack, as `payload` lends them.
    pub(super) fn join<'a>(&mut self, payload: impl Fn(Kept) -> &'a [u8]) {
        self.staging.join(payload);
    }

    /// Sends waiting frames until none is left, the kernel has no room or the interface is away; `payload` lends what
    /// they lack.
    pub(super) fn flush<'a>(
        &mut self,
        socket: BorrowedFd,
        interface: &str,
        now: Instant,
        counters: &mut Counters,
        payload: &impl Fn(Kept) -> &'a [u8],
    ) -> Result<Flushed, DriveError> {
        let mut frames = 0;
        while !self.staging.is_empty() && self.may_try(now) {
            match self.staging.waiting(payload, |waiting| syscall::send_many(socket, waiting)) {
                Ok(sent) => {
                    frames += sent;
                    self.took(sent, counters);
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    counters.send_would_block += 1;
                    self.backlog.blocked();
                    self.blocked = Some(Blocked::Room);
                }
                // Out of memory for a moment: the answer is the same.
                Err(Errno::ENOBUFS | Errno::ENOMEM) => {
                    counters.send_no_buffers += 1;
                    self.refused(interface, now);
                }
                Err(Errno::EMSGSIZE) => return Err(self.too_long(interface)),
                Err(errno) if is_away(errno) => return Ok(Flushed { frames, away: Some(errno) }),
                Err(errno) => return Err(DriveError::new(interface, "send", errno)),
            }
        }
        Ok(Flushed { frames, away: None })
    }

    fn may_try(&self, now: Instant) -> bool {
        match self.blocked {
            None => true,
            Some(Blocked::Room) => false,
            Some(Blocked::Until(retry_at)) => now >= retry_at,
        }
    }

    fn took(&mut self, sent: usize, counters: &mut Counters) {
        counters.send_batches += 1;
        counters.frames_sent += sent as u64;
        let bytes = self.staging.remove(sent) as u64;
        counters.bytes_sent += bytes;
        self.backlog.sent(bytes);
        self.blocked = None;
        self.back_off = BACK_OFF_MIN;
        self.refused_since = None;
    }

    fn refused(&mut self, interface: &str, now: Instant) {
        self.blocked = Some(Blocked::Until(now + self.back_off));
        self.back_off = (self.back_off * 2).min(BACK_OFF_MAX);
        let since = *self.refused_since.get_or_insert(now);
        if !self.warned && now.since(since) >= WARN_AFTER {
            self.warned = true;
            log::warn!(
                "the transmit queue of {interface} has taken no frame for {} s: see `tc -s qdisc show dev {interface}` \
                 (a token bucket smaller than one frame never lets it pass)",
                WARN_AFTER.as_secs()
            );
        }
    }

    fn too_long(&self, interface: &str) -> DriveError {
        DriveError::FrameTooLong { interface: interface.to_owned(), frame_bytes: self.staging.oldest_bytes() }
    }
}
