//! Size of a socket's send buffer in the kernel: a few milliseconds' worth of a slow link, not
//! more.
//!
//! Frames wait in the kernel in the order they were submitted, acknowledgements behind data. On a
//! link slower than the host, a send buffer of fixed size is a long queue (220 frames are 27 ms at
//! 100 Mbit/s), and delays a relay's repairs by as much. So the drain rate of a full buffer is
//! measured, and the buffer is sized by time, as byte queue limits do in drivers.

use crate::Instant;
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use std::os::fd::OwnedFd;
use std::time::Duration;

const HOLD: Duration = Duration::from_millis(4);
const INTERVAL: Duration = Duration::from_millis(20);
const START_FRAMES: usize = 32;
const MIN_BUFFERED_FRAMES: usize = 8;
pub(super) const CHARGE_BYTES: usize = 790;

/// Send buffer of a socket. It has room for the frames of `HOLD`: half of it is left when the
/// kernel reports room again, which must outlast the wake-up of a busy host. The kernel charges
/// `CHARGE_BYTES` for a frame beside its own (1514 bytes are charged as 2304). `set_bytes` is the
/// size that the socket has.
#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    frame_bytes: usize,
    max_bytes: usize,
    pub(super) present_bytes: usize,
    /// Bytes of frames that the kernel keeps for hosts it does not find: they take room, but no
    /// time of the link.
    pub(super) held_bytes: usize,
    set_bytes: usize,
    since: Instant,
    sent_bytes: u64,
    blocked: bool,
}

impl SendBuffer {
    pub(super) fn new(frame_bytes: usize, max_bytes: usize) -> SendBuffer {
        let mut backlog = SendBuffer {
            frame_bytes,
            max_bytes,
            ..SendBuffer::default()
        };
        backlog.present_bytes = backlog.buffer(START_FRAMES);
        backlog.set_bytes = backlog.present_bytes;
        backlog
    }

    fn buffer(&self, frames: usize) -> usize {
        let charge = self.frame_bytes + CHARGE_BYTES;
        (frames * charge / 2).clamp(
            MIN_BUFFERED_FRAMES * charge / 2,
            self.max_bytes.max(MIN_BUFFERED_FRAMES * charge / 2),
        )
    }

    pub(super) fn sent(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    pub(super) fn blocked(&mut self) {
        self.blocked |= self.held_bytes == 0;
    }

    /// Returns the size that the socket shall get, if that is another.
    pub(super) fn resize(&mut self, now: Instant) -> Option<usize> {
        self.follow_link(now);
        // The kernel reports room when half of the buffer is free, and gives twice what it is asked
        // for.
        let wanted = self.present_bytes + self.held_bytes;
        (wanted != self.set_bytes).then(|| {
            self.set_bytes = wanted;
            wanted
        })
    }

    fn follow_link(&mut self, now: Instant) {
        let interval = now.since(self.since);
        if interval < INTERVAL {
            return;
        }
        let (sent, blocked) = (self.sent_bytes, self.blocked);
        (self.since, self.sent_bytes, self.blocked) = (now, 0, false);
        // The link's rate shows only if the buffer was full and the interval had no long pause.
        if !blocked || interval > INTERVAL * 5 {
            return;
        }
        let held_bytes = sent as f64 * HOLD.as_secs_f64() / interval.as_secs_f64();
        let wanted = self.buffer((held_bytes / self.frame_bytes as f64).ceil() as usize);
        if wanted.abs_diff(self.present_bytes) * 4 > self.present_bytes {
            self.present_bytes = wanted;
        }
    }
}

/// Sets the send buffer; only CAP_NET_ADMIN may exceed the system's limit, others get that limit.
/// Returns the size, as the kernel counts it, if it is a smaller one.
pub(super) fn set_send_buffer(socket: &OwnedFd, bytes: usize) -> nix::Result<Option<usize>> {
    setsockopt(socket, sockopt::SndBufForce, &bytes)
        .or_else(|_| setsockopt(socket, sockopt::SndBuf, &bytes))?;
    // The kernel gives twice what it is asked for.
    Ok(Some(getsockopt(socket, sockopt::SndBuf)?).filter(|&given| given < 2 * bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled_frames(bytes_per_second: u64, blocked: bool) -> usize {
        let mut backlog = SendBuffer::new(1514, 256 << 10);
        for round in 1..=200 {
            backlog.sent(bytes_per_second / 1000);
            if blocked {
                backlog.blocked();
            }
            backlog.resize(Instant::from_nanos(round * 1_000_000));
        }
        backlog.present_bytes * 2 / (1514 + CHARGE_BYTES)
    }

    #[test]
    fn the_buffer_holds_four_milliseconds_of_a_link_that_blocks() {
        assert_eq!(settled_frames(3_125_000, true), 9, "25 Mbit/s");
        assert_eq!(
            settled_frames(300_000, true),
            MIN_BUFFERED_FRAMES,
            "2.4 Mbit/s"
        );
        assert!(
            (32..=34).contains(&settled_frames(12_500_000, true)),
            "100 Mbit/s"
        );
        assert_eq!(
            settled_frames(125_000_000, true),
            227,
            "1 Gbit/s: all that was allowed"
        );
    }

    #[test]
    fn a_link_that_never_blocks_leaves_the_buffer_alone() {
        assert_eq!(settled_frames(1_000_000, false), START_FRAMES);
    }

    #[test]
    fn frames_for_absent_hosts_say_nothing_of_the_links_rate_and_get_room_of_their_own() {
        let mut backlog = SendBuffer {
            held_bytes: 50_000,
            ..SendBuffer::new(1514, 256 << 10)
        };
        let present_bytes = backlog.present_bytes;
        for round in 1..=100 {
            backlog.sent(10);
            backlog.blocked();
            let first = (round == 1).then_some(present_bytes + 50_000);
            assert_eq!(
                backlog.resize(Instant::from_nanos(round * 1_000_000)),
                first
            );
        }
        backlog.held_bytes = 0;
        assert_eq!(
            backlog.resize(Instant::from_nanos(101_000_000)),
            Some(present_bytes)
        );
    }
}
