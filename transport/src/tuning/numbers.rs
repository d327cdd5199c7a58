//! Groups of tuning parameters with their defaults.

use std::time::Duration;

with_defaults! {
    /// Buffer of a stream.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FeedTuning {
        /// Slots of a feed (a power of two). At most those of the receive ring, so that credit
        /// alone keeps the ring from overflowing.
        pub frames: u64 = 4096,
        /// Memory limit of a feed in bytes, which reduces its slots (jumbo frames).
        pub bytes: u64 = 16 << 20,
        /// Frames in a segment, which a relay receives completely before it forwards any of it
        /// (Patarasuk 2008 §3.1); at most a quarter of the feed.
        pub segment_frames: u64 = 1,
    }

    /// Window of a sender, in frames.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct WindowTuning {
        /// Window of a new sender; enough for 100 Mbit/s at 3 ms.
        pub start_frames: u64 = 32,
        /// Smallest window, so that a link's own losses cannot stop the sender.
        pub min_frames: u64 = 16,
        /// Largest window.
        pub max_frames: u64 = 4096,
        /// Loss in a round that is taken as the link's own and slows nothing down, as plans are
        /// contention-free. Above the worst links there are (30 % in the tests), below the loss of
        /// a sender at twice the bottleneck's rate.
        pub loss_tolerated_percent: u64 = 40,
    }

    /// Timeouts of a sender.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TimeoutTuning {
        /// First timeout of a sender that has no round-trip sample.
        pub initial: Duration = Duration::from_millis(10),
        /// Shortest timeout: above `ack.delay`, or every delayed acknowledgement would be probed
        /// for.
        pub min: Duration = Duration::from_millis(4),
        /// Shortest timeout if the acknowledgement must not be delayed: after the end of a stream,
        /// or when credit is used up.
        pub prompt: Duration = Duration::from_millis(4),
        /// Longest timeout.
        pub max: Duration = Duration::from_millis(250),
        /// Reordering tolerance: a frame counts as lost only when one sent this much later has
        /// arrived, or a quarter of the round trip if less (RFC 8985 §6.2).
        pub reorder_max: Duration = Duration::from_millis(1),
    }

    /// Acknowledgements of a receiver.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AckTuning {
        /// Most frames per acknowledgement.
        pub every_frames: u64 = 16,
        /// Position of the acknowledged frame in a round, in thousandths, so that the receivers of
        /// a cast acknowledge one after the other; `None` for any.
        pub turn_permille: Option<u64> = None,
        /// Longest delay of an acknowledgement after a frame. Below the shortest timeout of a
        /// sender.
        pub delay: Duration = Duration::from_millis(1),
        /// Divisor of the feed: new room is announced at once when this part of it is free. A
        /// quarter keeps a sender from stalling.
        pub room_parts: u64 = 4,
        /// Delay of a gap's report, and of the answer to a heartbeat (staggered among the receivers
        /// of a cast).
        pub gap_delay: Duration = Duration::ZERO,
        /// Receivers that would report one loss to one host, if their reports use RFC 5401's
        /// back-off, which makes most of them unnecessary; `None` if `gap_delay` is enough.
        pub backoff_group: Option<u32> = None,
        /// Longest back-off, in round trips of the group: RFC 5401 §3.2.2's K.
        pub backoff_round_trips: u32 = 6,
        /// Assumed round trip of the group: in RFC 5401 the sender measures and announces it. On
        /// switched Ethernet it is two wake-ups and the queue in front of a repair at the root: 32
        /// full frames at 1 Gbit/s are 400 µs.
        pub group_round_trip: Duration = Duration::from_micros(500),
    }

    /// Sending end of a cast, and hosts that repair in its place.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CastTuning {
        /// Frames of a message that are pushed at once, before the acker has answered and the rest
        /// follows (EQA §3.3); `None` for Simple Broadcast.
        pub push_frames: Option<u64> = None,
        /// Bytes of the message in the pushed frames, if it is to be cut there: the paper's BTP1 +
        /// BTP2. `None` if these frames are as full as all others.
        pub push_bytes: Option<u64> = None,
        /// Repairs that a cast may send per hundred new frames while it has new ones: a quarter of
        /// the rate.
        pub repair_percent: u64 = 25,
        /// Wait for other reports of a loss before it is repaired by unicast: longer than the
        /// reports' stagger.
        pub repair_hold: Duration = Duration::from_micros(500),
        /// Frames of a block, for which parity is sent to all if several receivers have lost
        /// different ones: a power of two from 8 to 128, and at most a sixteenth of the feed; 0 for
        /// no parity. Longer blocks take less parity for a given loss, more time until they are
        /// whole, and more work per recovered frame: 128 is worth it if several receivers lose
        /// frames independently.
        pub parity_block_frames: u64 = 128,
        /// New frames between two evaluations of a cast's loss.
        pub round_frames: u64 = 256,
        /// Time that a repair parent gives a frame to reach its children after itself, before it
        /// sends it: more than the stagger between two ports of a switch, less than a repair is
        /// worth waiting for.
        pub arrival_tolerance: Duration = Duration::from_micros(500),
    }

    /// The acker: the slowest receiver acknowledges often and the others now and then.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DesignatedTuning {
        /// Whether there is an acker; pushing needs one in any case.
        pub enabled: bool = false,
        /// Whether this receiver is the acker until the root names another.
        pub first: bool = false,
        /// Most frames per acknowledgement of the acker: enough to keep round trip and credit
        /// fresh.
        pub every_frames: u64 = 64,
        /// Longest delay of its acknowledgement after a frame.
        pub delay: Duration = Duration::from_millis(1),
    }
}

impl WindowTuning {
    /// Returns strict go-back-n's window of 16 (EQA §3.2).
    pub fn paper() -> Self {
        WindowTuning { start_frames: 16, min_frames: 16, max_frames: 16, ..WindowTuning::default() }
    }
}
