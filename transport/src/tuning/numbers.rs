//! The numbers, in groups: what they mean, and their defaults.

use std::time::Duration;

with_defaults! {
    /// How much a stream keeps.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FeedTuning {
        /// Slots of a feed (a power of two). Not more than the receive ring has, so that credit alone keeps the ring
        /// from overflowing.
        pub frames: u64 = 4096,
        /// A feed's slots are fewer if they would take more than this many bytes (jumbo frames).
        pub bytes: u64 = 16 << 20,
        /// Frames in a segment, which a relay has whole before it sends any of it on (Patarasuk 2008 §3.1); a quarter
        /// of the feed at most.
        pub segment_frames: u64 = 1,
    }

    /// The window of a sender, in frames.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct WindowTuning {
        /// A new sender's window; enough for 100 Mbit/s at 3 ms.
        pub start_frames: u64 = 32,
        /// A window never falls below this, so that a link's own losses cannot stop it.
        pub min_frames: u64 = 16,
        /// A window never grows beyond this.
        pub max_frames: u64 = 4096,
        /// Loss up to this part of a round is taken as the link's own and slows nothing down: plans are
        /// contention-free. Above the worst links there are (30 % in the tests), below what a sender at twice the
        /// bottleneck's rate loses.
        pub loss_tolerated_percent: u64 = 40,
    }

    /// The timeouts of a sender.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TimeoutTuning {
        /// First timeout of a sender that has no round-trip sample.
        pub initial: Duration = Duration::from_millis(10),
        /// Shortest timeout: above `ack.delay`, or every held-back acknowledgement would be asked for.
        pub min: Duration = Duration::from_millis(4),
        /// Shortest timeout where the acknowledgement is not to be held back: after the end of a stream, or when credit
        /// is used up.
        pub prompt: Duration = Duration::from_millis(4),
        /// Longest timeout.
        pub max: Duration = Duration::from_millis(250),
        /// A frame counts as lost only when one sent this much later has arrived, or a quarter of the round trip if
        /// less (RFC 8985 §6.2).
        pub reorder_max: Duration = Duration::from_millis(1),
    }

    /// The acknowledgements of a receiver.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AckTuning {
        /// At least every this many frames.
        pub every_frames: u64 = 16,
        /// Which of those frames it is, in thousandths, so that the receivers of a cast speak one after the other;
        /// `None` if whichever.
        pub turn_permille: Option<u64> = None,
        /// At most this long after a frame. Below the smallest timeout of a sender.
        pub delay: Duration = Duration::from_millis(1),
        /// New room is told of at once when it is one of so many parts of the feed: a quarter keeps a sender from
        /// standing still.
        pub room_parts: u64 = 4,
        /// A gap is reported, and a question answered, this long after it came (staggered among the receivers of a
        /// cast).
        pub gap_delay: Duration = Duration::ZERO,
        /// Where so many receivers would report the same loss to one host, reports wait by RFC 5401's back-off instead,
        /// so that most of them are not needed any more; `None` if `gap_delay` is enough.
        pub backoff_group: Option<u32> = None,
        /// The longest back-off, in round trips of the group: RFC 5401 §3.2.2's K.
        pub backoff_round_trips: u32 = 6,
        /// The round trip of the group, assumed: in RFC 5401 the sender measures and announces it. On switched Ethernet
        /// it is two wake-ups and what waits at the root before a repair: 32 full frames at 1 Gbit/s are 400 µs.
        pub group_round_trip: Duration = Duration::from_micros(500),
    }

    /// The sending end of a cast, and those who repair in its place.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CastTuning {
        /// Frames of a message that are pushed at once, before the designated receiver has answered and the rest
        /// follows (EQA §3.3); `None` for Simple Broadcast.
        pub push_frames: Option<u64> = None,
        /// How many bytes of the message are in those frames, if whoever cuts it into frames is to cut it there: the
        /// paper's BTP1 + BTP2. `None` if they are as full as all others.
        pub push_bytes: Option<u64> = None,
        /// Repairs a cast may send for each hundred new frames while it has new ones: a quarter of the rate.
        pub repair_percent: u64 = 25,
        /// How long a cast waits for others to report a loss before it repairs it by unicast: longer than their
        /// stagger.
        pub repair_hold: Duration = Duration::from_micros(500),
        /// Frames of a block of which several have lost different ones, so that parity frames go to all of them: a
        /// power of two from 8 to 128, and a sixteenth of the feed at most; 0 for no parity. Longer blocks take less
        /// parity for the same loss, more time until they are whole, and more work for each frame that comes back: 128
        /// is worth it where several receivers lose frames each for itself.
        pub parity_block_frames: u64 = 128,
        /// New frames between two looks at a cast's loss.
        pub round_frames: u64 = 256,
        /// A receiver that others acknowledge to gives a frame this much time to reach them after itself, before it
        /// sends it: more than the stagger between two ports of a switch, less than a repair is worth waiting for.
        pub arrival_tolerance: Duration = Duration::from_micros(500),
    }

    /// The designated receiver: one, the slowest, acknowledges often and the others now and then.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct DesignatedTuning {
        /// Whether there is one; pushing needs one in any case.
        pub enabled: bool = false,
        /// Whether this receiver is the designated one until the root names another.
        pub first: bool = false,
        /// It acknowledges at least every this many frames: enough to keep round trip and credit fresh.
        pub every_frames: u64 = 64,
        /// And at most this long after a frame.
        pub delay: Duration = Duration::from_millis(1),
    }
}

impl WindowTuning {
    /// Strict go-back-n's window of 16 (EQA §3.2).
    pub fn paper() -> Self {
        WindowTuning { start_frames: 16, min_frames: 16, max_frames: 16, ..WindowTuning::default() }
    }
}
