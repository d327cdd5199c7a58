//! Settings of point-to-point messages, each with its unit, source and reason.

use super::credit::{Credit, INITIAL_BYTES, INITIAL_MESSAGES};
use crate::tuning::Tuning;
use std::time::Duration;

/// Frames that every mailbox can take out of order, and so the most that may be unacknowledged.
/// Part of the protocol; 10 ms at 1 Gbit/s.
pub const SPAN_FRAMES: u64 = 1024;

/// Settings of a mailbox. [`Settings::default`] is what the library uses; [`Settings::paper`] is
/// the EQA paper's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// BTP1: bytes in the first frame of a message that is not pushed whole in one frame. A short
    /// first frame lets the receiver's grant overlap the rest of the push.
    pub btp1_bytes: usize,
    /// BTP2: bytes pushed after the first frame. BTP1 + BTP2 should be what the link carries until
    /// a grant arrives, or the link idles; more would only be copied through the pushed buffer when
    /// the receive is late.
    pub btp2_bytes: usize,
    /// Send queue: most messages whose outcome the application has not yet taken.
    pub send_messages: usize,
    /// Send queue: most bytes of open messages. A single longer message is taken if there is no
    /// other.
    pub send_bytes: usize,
    /// Receive queue: most receives whose outcome the application has not yet taken.
    pub receives: usize,
    /// Pushed buffer: messages waiting for a receive, divided evenly among the peers (at least
    /// [`INITIAL_MESSAGES`] each).
    pub pushed_messages: u64,
    /// Pushed buffer: bytes, divided evenly among the peers (at least [`INITIAL_BYTES`] each).
    pub pushed_bytes: u64,
    /// Silence after which a peer from which an acknowledgement is due is given up.
    pub silent_after: Duration,
    /// Windows, acknowledgements and timeouts, as for streams.
    pub tuning: Tuning,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            // The first frame and twelve more: 18 KB. INITIAL_BYTES have room for that and for
            // short messages behind it, so that a first message is pushed in full. Measured between
            // two hosts of a lab (`messages` of the benches), half a round trip in µs:
            //
            //                            256 B   1 KiB   4 KiB   8 KiB   16 KiB   32 KiB   64 KiB
            //     80 + 780 (the paper)     4.4    16.0    22.5    31.8     47.4     80.6    149.8
            //     frame + 4 frames         4.4     4.7    11.0    25.6     43.8     76.8    146.4
            //     frame + 12 frames        4.4     4.7    11.0    20.2     38.3     76.8    146.6
            //     all of the message       4.4     4.7    11.1    20.1     38.1     71.4    141.1
            //
            // A message that waits for no grant saves 5 to 11 µs; with interrupt moderation 100 µs,
            // in which 1 Gbit/s carries nine frames. Above 18 KB little is left to save, and more
            // would be copied if the receive is late.
            btp1_bytes: 65_535,
            btp2_bytes: 17_232,
            send_messages: 1024,
            send_bytes: 64 << 20,
            receives: 1024,
            pushed_messages: 16_384,
            pushed_bytes: 16 << 20,
            silent_after: Duration::from_secs(10),
            tuning: Tuning::default(),
        }
    }
}

impl Settings {
    /// The EQA paper's numbers: BTP1 80 and BTP2 780 bytes (§4.1), go-back-n with a window of 16 (§3.2).
    pub fn paper() -> Self {
        Settings { btp1_bytes: 80, btp2_bytes: 780, tuning: Tuning::paper(), ..Settings::default() }
    }

    pub(super) fn share(&self, peers: usize) -> Credit {
        let peers = peers.max(1) as u64;
        Credit {
            messages: (self.pushed_messages / peers).max(INITIAL_MESSAGES),
            bytes: (self.pushed_bytes / peers).max(INITIAL_BYTES),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pushed_buffer_is_shared_out_but_nobody_gets_less_than_was_promised() {
        let settings = Settings::default();
        assert_eq!(settings.share(8), Credit { messages: 2048, bytes: 2 << 20 });
        assert_eq!(settings.share(10_000), Credit::INITIAL);
        assert!((1436 + settings.btp2_bytes) as u64 <= INITIAL_BYTES, "the default push fits what may be assumed");
    }
}
