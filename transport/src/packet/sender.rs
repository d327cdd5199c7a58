//! The sending half of a port: a staging area, and retries when the kernel has no room.
//!
//! The kernel refuses frames in two ways. EAGAIN: the socket's send buffer is full; POLLOUT reports
//! room. ENOBUFS: the interface's transmit queue dropped the frame; nothing reports room, so we
//! retry after a while ([`Refusals`]). Neither loses a frame, except one refused for too long,
//! which would block all others.

use super::counters::Counters;
use super::error::{DriveError, is_away};
use super::refusals::{Fate, Refusals};
use super::send_buffer::SendBuffer;
use super::staging::Staging;
use super::syscall;
use crate::Instant;
use crate::link::Blocked;
use crate::split_frame::{Kept, SplitFrame};
use crate::wire::ETHERNET_BYTES;
use nix::errno::Errno;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const WARN_AFTER: Duration = Duration::from_secs(1);
const TESTS: usize = 3;
const USUAL_MTU_BYTES: usize = 1500;
const MIN_BYTES: usize = 60;
const MAC_BYTES: usize = 6;
const VLAN_TAG_BYTES: usize = 4;

pub(super) struct Sender {
    staging: Staging,
    backlog: SendBuffer,
    blocked: Option<Blocked>,
    refusals: Refusals,
    warned: bool,
    passes: Option<usize>,
    /// The same as an MTU, for who has no sender at hand; `usize::MAX` while all frames leave.
    first_hop: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flushed {
    pub frames: usize,
    pub away: Option<Errno>,
}

impl Sender {
    pub(super) fn new(mtu_bytes: usize, buffer_bytes: usize) -> Self {
        let staging = Staging::new(mtu_bytes);
        let backlog = SendBuffer::new(staging.frame_bytes(), buffer_bytes);
        let refusals = Refusals::new();
        let first_hop = Arc::new(AtomicUsize::new(usize::MAX));
        Sender { staging, backlog, blocked: None, refusals, warned: false, passes: None, first_hop }
    }

    pub(super) fn frame_bytes(&self) -> usize {
        self.staging.frame_bytes()
    }

    pub(super) fn buffer_bytes(&self) -> usize {
        self.backlog.present_bytes()
    }

    pub(super) fn resize(&mut self, now: Instant) -> Option<usize> {
        self.backlog.resize(now)
    }

    pub(super) fn blocked(&self) -> Option<Blocked> {
        self.blocked
    }

    pub(super) fn writable(&mut self) {
        if self.blocked == Some(Blocked::Room) {
            self.blocked = None;
        }
    }

    pub(super) fn fill(&mut self, write: impl FnMut(&mut [u8]) -> Option<SplitFrame>) {
        self.staging.fill(write);
    }

    pub(super) fn join<'a>(&mut self, payload: impl Fn(Kept) -> &'a [u8]) {
        self.staging.join(payload);
    }

    /// Sends waiting frames until none is left, the kernel has no room or the interface is away;
    /// `payload` supplies payloads that are not staged.
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
            let run = self.leading(now);
            if run == 0 {
                self.give_up(counters);
                continue;
            }
            match self.staging.waiting(run, payload, |waiting| syscall::send_many(socket, waiting)) {
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
                // A momentary lack of memory, handled alike.
                Err(Errno::ENOBUFS | Errno::ENOMEM) => {
                    counters.send_no_buffers += 1;
                    self.refused(interface, now, counters);
                }
                Err(Errno::EMSGSIZE) => return Err(self.longer_than_mtu(interface)),
                Err(errno) if is_away(errno) => return Ok(Flushed { frames, away: Some(errno) }),
                Err(errno) => return Err(DriveError::new(interface, "send", errno)),
            }
        }
        self.look_for_length(socket, interface);
        Ok(Flushed { frames, away: None })
    }

    fn may_try(&self, now: Instant) -> bool {
        match self.blocked {
            None => true,
            Some(Blocked::Room) => false,
            Some(Blocked::Until(retry_at)) => now >= retry_at,
        }
    }

    fn leading(&self, now: Instant) -> usize {
        let Some(too_long) = self.refusals.too_long() else { return usize::MAX };
        if self.refusals.spares(now, self.staging.oldest_bytes()) {
            return 0;
        }
        1 + self.staging.lengths().skip(1).take_while(|&bytes| bytes < too_long.bytes).count()
    }

    fn took(&mut self, sent: usize, counters: &mut Counters) {
        counters.send_batches += 1;
        counters.frames_sent += sent as u64;
        self.refusals.left(self.staging.lengths().take(sent).max().unwrap_or_default());
        let bytes = self.staging.remove(sent) as u64;
        counters.bytes_sent += bytes;
        self.backlog.sent(bytes);
        self.blocked = None;
    }

    fn refused(&mut self, interface: &str, now: Instant, counters: &mut Counters) {
        match self.refusals.refused(now, self.staging.oldest_bytes()) {
            Fate::Retry(at) => self.blocked = Some(Blocked::Until(at)),
            Fate::GiveUp => self.give_up(counters),
        }
        if !self.warned && self.refusals.lasts(now) >= WARN_AFTER {
            self.warned = true;
            log::warn!(
                "the transmit queue of {interface} has taken no frame for {} s: see `tc -s qdisc show dev {interface}` \
                 (a token bucket smaller than one frame never lets it pass)",
                WARN_AFTER.as_secs()
            );
        }
    }

    fn give_up(&mut self, counters: &mut Counters) {
        counters.frames_given_up += 1;
        self.staging.remove(1);
        self.blocked = None;
    }

    fn look_for_length(&mut self, socket: BorrowedFd, interface: &str) {
        let Some(too_long) = self.refusals.too_long() else { return self.note_passing(None) };
        if self.passes.is_some() {
            return;
        }
        let Some(passes) = largest_passing(socket, &self.staging.header(), too_long.bytes) else {
            return self.refusals.forgive();
        };
        self.note_passing(Some(passes));
        self.refusals.narrow(passes);
        log::warn!("{}", self.first_hop(interface, passes));
    }

    fn note_passing(&mut self, passes: Option<usize>) {
        self.passes = passes;
        self.first_hop.store(passes.map_or(usize::MAX, mtu_of), Ordering::Relaxed);
    }

    /// The largest MTU that the first hop takes, in bytes: a flag that follows it.
    pub(super) fn first_hop_flag(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.first_hop)
    }

    pub(super) fn forget_refusals(&mut self) {
        self.refusals = Refusals::new();
        self.note_passing(None);
    }

    pub(super) fn trouble(&self, now: Instant, interface: &str) -> Option<(DriveError, Duration)> {
        if let (Some(too_long), Some(passes)) = (self.refusals.too_long(), self.passes) {
            return Some((self.first_hop(interface, passes), too_long.lasts));
        }
        let lasts = Some(self.refusals.lasts(now)).filter(|&lasts| lasts >= WARN_AFTER)?;
        Some((DriveError::NothingLeaves { interface: interface.to_owned(), lasts }, lasts))
    }

    fn first_hop(&self, interface: &str, passes: usize) -> DriveError {
        let mtu_bytes = self.frame_bytes() - ETHERNET_BYTES;
        DriveError::FirstHop { interface: interface.to_owned(), mtu_bytes, passes: mtu_of(passes) }
    }

    fn longer_than_mtu(&self, interface: &str) -> DriveError {
        DriveError::FrameTooLong { interface: interface.to_owned(), frame_bytes: self.staging.oldest_bytes() }
    }
}

/// The MTU, in bytes, whose frames pass where those of so many bytes do: a veth takes as much more than its MTU as a
/// VLAN tag has, and what follows does not.
pub(super) fn mtu_of(passes: usize) -> usize {
    passes.saturating_sub(ETHERNET_BYTES + VLAN_TAG_BYTES)
}

/// Finds the longest frame in bytes that leaves if one of `refused_bytes` was refused, zero if none
/// does; `None` if that length leaves now. Test frames are addressed to this host, so they go no
/// further than the next switch.
pub(super) fn largest_passing(
    socket: BorrowedFd,
    header: &[u8; ETHERNET_BYTES],
    refused_bytes: usize,
) -> Option<usize> {
    let mut frame = vec![0; refused_bytes.max(MIN_BYTES)];
    let (source, rest) = (&header[MAC_BYTES..2 * MAC_BYTES], &header[MAC_BYTES..]);
    frame[..MAC_BYTES].copy_from_slice(source);
    frame[MAC_BYTES..ETHERNET_BYTES].copy_from_slice(rest);
    let leaves = |bytes: usize| {
        let one = [[IoSlice::new(&frame[..bytes]), IoSlice::new(&[])]];
        // A full queue refuses short frames as well, so each length is tried several times.
        (0..TESTS).any(|_| syscall::send_many(socket, &one).is_ok())
    };
    let (mut passes, mut fails, mut tried) = (0_usize, refused_bytes + 1, refused_bytes);
    while passes + 1 < fails && tried >= MIN_BYTES {
        *(if leaves(tried) { &mut passes } else { &mut fails }) = tried;
        let usual = Some(ETHERNET_BYTES + USUAL_MTU_BYTES).filter(|&bytes| passes == 0 && bytes < fails);
        tried = usual.unwrap_or(passes.midpoint(fails));
    }
    (passes < refused_bytes).then_some(passes)
}
