//! Settings of point-to-point messages. The counters and results that the user reads are here too.

use super::credit::{Credit, INITIAL_BYTES, INITIAL_MESSAGES};
use crate::tuning::Tuning;
use crate::wire::Rank;
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// Frames that every mailbox can take out of order, and so the most that may be unacknowledged.
/// Part of the protocol; 10 ms at 1 Gbit/s.
pub const SPAN_FRAMES: u64 = 1024;

/// Encryption of the contents of messages by a key stream that depends on their place alone: what
/// encrypts them decrypts them, too.
pub trait MessageCipher: fmt::Debug + Send + Sync {
    /// Encrypts or decrypts `bytes` of a message, which begin at `offset`. The message has this
    /// number among those that the first of `ranks` sends to the second.
    fn apply(&self, ranks: [Rank; 2], message: u64, offset: u64, bytes: &mut [u8]);
}

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
    /// The EQA paper's numbers: BTP1 80 and BTP2 780 bytes (§4.1), go-back-n with a window of 16
    /// (§3.2).
    pub fn paper() -> Self {
        Settings {
            btp1_bytes: 80,
            btp2_bytes: 780,
            tuning: Tuning::paper(),
            ..Settings::default()
        }
    }

    pub(super) fn share(&self, peers: usize) -> Credit {
        let peers = peers.max(1) as u64;
        Credit {
            messages: (self.pushed_messages / peers).max(INITIAL_MESSAGES),
            bytes: (self.pushed_bytes / peers).max(INITIAL_BYTES),
        }
    }
}

summed! {
    /// Counters of a mailbox; all in frames.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct MailboxStats {
        /// Pushed parts sent for the first time.
        pub pushes_sent: u64,
        /// Pulled parts sent for the first time.
        pub pulls_sent: u64,
        /// Notes sent for the first time.
        pub notes_sent: u64,
        /// Frames of these kinds sent again.
        pub resent: u64,
        /// Receipts sent.
        pub receipts_sent: u64,
        /// Requests for a receipt sent.
        pub asks_sent: u64,
        /// Parts and notes received and used.
        pub received: u64,
        /// Parts and notes that had already arrived.
        pub duplicates: u64,
        /// Parts and notes out of order, too far ahead, or beyond the room.
        pub beyond_credit: u64,
        /// Acknowledgements, grants and refusals of messages never sent.
        pub forged_acks: u64,
        /// Frames of another session, or from a host that is no peer or has been given up.
        pub non_members: u64,
        /// Frames whose body did not parse or contradicts an earlier one.
        pub malformed: u64,
    }
}

summed! {
    /// Memory of a mailbox or of its part for one peer.
    ///
    /// A buffer shared by several sends counts once for each in `send_message_bytes`; the send
    /// queue counts without its messages. The pushed buffer has the messages that wait for a
    /// receive, `destination_bytes` are those of receives being filled. The bookkeeping is of
    /// arriving messages and of unacknowledged frames, whose payloads are in the send queue;
    /// `peer_bytes` is the fixed part for each peer.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    #[doc(hidden)]
    pub struct MailboxMemory {
        pub send_message_bytes: usize,
        pub send_queue_bytes: usize,
        pub receive_queue_bytes: usize,
        pub pushed_bytes: usize,
        pub pushed_messages: usize,
        pub destination_bytes: usize,
        pub bookkeeping_bytes: usize,
        pub peer_bytes: usize,
    }
}

/// Handle of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendId(u64);

/// Handle of a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecvId(u64);

impl SendId {
    pub(super) fn new(number: u64) -> SendId {
        SendId(number)
    }
}

impl RecvId {
    pub(super) fn new(number: u64) -> RecvId {
        RecvId(number)
    }
}

/// End of a send or a receive; each has exactly one, unless it was cancelled.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    Send { id: SendId, outcome: SendOutcome },
    Recv { id: RecvId, outcome: RecvOutcome },
}

/// Outcome of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The other host has the whole message: in the receive's destination or, if none was posted
    /// yet, in its pushed buffer.
    Sent,
    /// The other host does not want the rest: the receive's buffer was too short, or its deadline
    /// passed before the message was complete.
    Refused,
    /// The deadline has passed; the message is withdrawn.
    TimedOut,
    /// The other host has left or is silent.
    PeerGone,
}

/// Outcome of a receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecvOutcome {
    /// The message has arrived.
    Received {
        /// Contents of the message.
        bytes: Vec<u8>,
    },
    /// The message is longer than the receive allows; it has been dropped.
    TooShort {
        /// Length of the message.
        message_bytes: u64,
    },
    /// The sender has withdrawn an incomplete message: its deadline passed, or it was cancelled.
    Withdrawn,
    /// The deadline has passed. A message that had begun to arrive is lost, and its sender is
    /// notified.
    TimedOut,
    /// The other host has left or is silent, and no message of this tag has arrived.
    PeerGone,
}

/// Reason why a message is not taken.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    #[error("there is no rank {rank} among {ranks}: send to a rank from 0 to {}", ranks - 1)]
    NoSuchRank { rank: Rank, ranks: usize },
    #[error("rank {rank} has left or is silent: send to those who are left")]
    PeerGone { rank: Rank },
    #[error(
        "the send queue holds {messages} messages of {bytes} bytes: take the outcomes of earlier sends, then send again"
    )]
    QueueFull { messages: usize, bytes: usize },
}

/// Reason why a receive is not posted.
#[expect(missing_docs, reason = "names of fields say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecvError {
    #[error("there is no rank {rank} among {ranks}: receive from a rank from 0 to {}", ranks - 1)]
    NoSuchRank { rank: Rank, ranks: usize },
    #[error(
        "the receive queue holds {receives} receives: take the outcomes of earlier ones, then receive again"
    )]
    QueueFull { receives: usize },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pushed_buffer_is_shared_out_but_nobody_gets_less_than_was_promised() {
        let settings = Settings::default();
        assert_eq!(
            settings.share(8),
            Credit {
                messages: 2048,
                bytes: 2 << 20
            }
        );
        assert_eq!(settings.share(10_000), Credit::INITIAL);
        assert!(
            (1436 + settings.btp2_bytes) as u64 <= INITIAL_BYTES,
            "the default push fits what may be assumed"
        );
    }
}
