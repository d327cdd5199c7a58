//! Every number the engine runs on, each with its unit, its source and its reason.

use std::time::Duration;

/// What a receiver does with frames that arrive out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Strict go-back-n: they are thrown away, and the sender goes back (EQA §3.2).
    InOrderOnly,
    /// They are kept, and the sender is told the holes.
    #[default]
    HolesAllowed,
}

/// The most receivers of a cast that all acknowledge alike. DESIGN §8.
const ALL_ACKNOWLEDGE: u32 = 16;
/// The most whose reports of the same loss a short stagger keeps apart. DESIGN §8.
const STAGGERED: u32 = 32;

/// The engine's numbers. [`Tuning::default`] is what the tool runs on; [`Tuning::paper`] and [`Tuning::push_pull`] are the EQA
/// paper's protocols.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Out-of-order frames: kept or thrown away.
    pub policy: Policy,
    /// Slots of a feed (a power of two). Not more than the receive ring has, so that credit alone keeps the ring from overflowing.
    pub feed_frames: u64,
    /// A feed's slots are fewer if they would take more than this many bytes (jumbo frames).
    pub feed_bytes: u64,
    /// Frames in a segment, which a relay has whole before it sends any of it on (Patarasuk 2008 §3.1); a quarter of the feed at most.
    pub segment_frames: u64,
    /// Window of a new lane, in frames. DESIGN §8; enough for 100 Mbit/s at 3 ms.
    pub window_start_frames: u64,
    /// A lane's window never falls below this, so that a link's own losses cannot stop it.
    pub window_min_frames: u64,
    /// A lane's window never grows beyond this.
    pub window_max_frames: u64,
    /// Loss up to this part of a round is taken as the link's own and slows nothing down: plans are contention-free. Above the
    /// worst links there are (30 % in the tests), below what a sender at twice the bottleneck's rate loses.
    pub loss_tolerated_percent: u64,
    /// A receiver acknowledges at least every this many frames. DESIGN §8.
    pub ack_every_frames: u64,
    /// Which of those frames it is, in thousandths, so that the receivers of a cast speak one after the other; `None` if whichever.
    pub ack_turn_permille: Option<u64>,
    /// A receiver acknowledges at most this long after a frame. Below the smallest timeout of a sender.
    pub ack_delay: Duration,
    /// New room is told of at once when it is one of so many parts of the feed: a quarter keeps a sender from standing still.
    pub room_parts: u64,
    /// A gap is reported, and a question answered, this long after it came (staggered among the receivers of a cast).
    pub gap_delay: Duration,
    /// Where so many receivers would report the same loss to one host, reports wait by RFC 5401's back-off instead, so that most
    /// of them are not needed any more; `None` if [`gap_delay`](Tuning::gap_delay) is enough.
    pub backoff_group: Option<u32>,
    /// The longest back-off, in round trips of the group: RFC 5401 §3.2.2's K.
    pub backoff_round_trips: u32,
    /// The round trip of the group, assumed: in RFC 5401 the sender measures and announces it. On switched Ethernet it is two
    /// wake-ups and what waits at the root before a repair: 32 full frames at 1 Gbit/s are 400 µs.
    pub group_round_trip: Duration,
    /// One receiver, the slowest, acknowledges often and the others now and then (DESIGN §8).
    pub designates: bool,
    /// Whether this receiver is the designated one until the root names another.
    pub designated_first: bool,
    /// The designated receiver acknowledges at least every this many frames: enough to keep round trip and credit fresh.
    pub designated_every_frames: u64,
    /// And at most this long after a frame.
    pub designated_delay: Duration,
    /// A receiver that others acknowledge to gives a frame this much time to reach them after itself, before it sends it: more
    /// than the stagger between two ports of a switch, less than a repair is worth waiting for.
    pub ward_tolerance: Duration,
    /// Frames of a message that are pushed at once, before the designated receiver has answered and the rest follows (EQA §3.3);
    /// `None` for Simple Broadcast.
    pub push_frames: Option<u64>,
    /// First timeout of a sender that has no round-trip sample. DESIGN §8.
    pub timeout_initial: Duration,
    /// Shortest timeout of a sender: above `ack_delay`, or every held-back acknowledgement would be asked for.
    pub timeout_min: Duration,
    /// Shortest timeout where the acknowledgement is not to be held back: after the end of a stream, or when credit is used up.
    pub timeout_prompt: Duration,
    /// Longest timeout of a sender.
    pub timeout_max: Duration,
    /// A frame counts as lost only when one sent this much later has arrived, or a quarter of the round trip if less (RFC 8985 §6.2).
    pub reorder_max: Duration,
    /// Repairs a cast may send for each hundred new frames while it has new ones. DESIGN §8: 25 % of the rate.
    pub repair_percent: u64,
    /// How long a cast waits for others to report a loss before it repairs it by unicast: longer than their stagger.
    pub repair_hold: Duration,
    /// New frames between two looks at a cast's loss.
    pub cast_round_frames: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            policy: Policy::HolesAllowed,
            feed_frames: 4096,
            feed_bytes: 16 << 20,
            segment_frames: 1,
            window_start_frames: 32,
            window_min_frames: 16,
            window_max_frames: 4096,
            loss_tolerated_percent: 40,
            ack_every_frames: 16,
            ack_turn_permille: None,
            ack_delay: Duration::from_millis(1),
            room_parts: 4,
            gap_delay: Duration::ZERO,
            backoff_group: None,
            backoff_round_trips: 6,
            group_round_trip: Duration::from_micros(500),
            designates: false,
            designated_first: false,
            designated_every_frames: 64,
            designated_delay: Duration::from_millis(1),
            ward_tolerance: Duration::from_micros(500),
            push_frames: None,
            timeout_initial: Duration::from_millis(10),
            timeout_min: Duration::from_millis(4),
            timeout_prompt: Duration::from_millis(4),
            timeout_max: Duration::from_millis(250),
            reorder_max: Duration::from_millis(1),
            repair_percent: 25,
            repair_hold: Duration::from_micros(500),
            cast_round_frames: 256,
        }
    }
}

impl Tuning {
    /// The EQA paper's Simple Broadcast: strict go-back-n with a window of 16 (§3.2).
    pub fn paper() -> Self {
        Tuning {
            policy: Policy::InOrderOnly,
            window_start_frames: 16,
            window_min_frames: 16,
            window_max_frames: 16,
            ack_every_frames: 4,
            ..Tuning::default()
        }
    }

    /// The EQA paper's Push-Pull Broadcast (§3.3): as Simple Broadcast, but of each message nine frames are pushed, which one
    /// receiver answers; the rest follows as all grant credit. Nine are what messages between two hosts push as well.
    pub fn push_pull() -> Self {
        Tuning { push_frames: Some(9), designated_every_frames: 4, ..Tuning::paper() }
    }

    /// The same numbers for one receiver of a cast that acknowledges to the same host as `siblings` receivers in all, at
    /// `position` among them, from 0 (DESIGN §8). Up to 16 all acknowledge, rarer and staggered as they grow in number, so that at
    /// full speed their parent hears about one for every 32 frames; above 16 the slowest does so for all, and the others speak when
    /// half of the feed has come. Above 32 reports of losses are backed off.
    ///
    /// Strict go-back-n cannot wait: everybody acknowledges, as often as it would alone.
    pub fn for_cast(&self, siblings: usize, position: usize) -> Tuning {
        let mut tuning = self.clone();
        let siblings = siblings.max(1) as u32;
        let spread = siblings.div_ceil(8);
        let strict = self.policy == Policy::InOrderOnly;
        // Strict: acknowledgements are as prompt as ever, and a lost tail stops everybody; only their stagger comes on top.
        if strict {
            tuning.timeout_min += Duration::from_micros(200) * spread;
        } else {
            tuning.timeout_min *= 2 * spread;
        }
        tuning.timeout_prompt = if siblings > ALL_ACKNOWLEDGE { tuning.timeout_prompt * 2 } else { tuning.timeout_min };
        // A step of 37 spreads neighbours over the 100 µs.
        tuning.gap_delay = Duration::from_micros(position as u64 * 37 % 100) * spread;
        tuning.designated_first = position == 0;
        tuning.backoff_group = (siblings > STAGGERED).then_some(siblings);
        if !strict {
            tuning.ack_delay *= 2 * spread;
            tuning.ack_every_frames = (u64::from(siblings) * 32).clamp(tuning.ack_every_frames, 512);
            if siblings > ALL_ACKNOWLEDGE {
                tuning.designates = true;
                tuning.room_parts = 2;
                tuning.ack_turn_permille = Some(turn(siblings, position));
                tuning.ack_every_frames = self.feed_frames / 2;
            }
        }
        tuning
    }

    /// The same numbers for one receiver of a cast to `receivers` in all, among which an ack tree lies: as
    /// [`for_cast`](Tuning::for_cast) for its siblings, but everybody acknowledges an eighth of the feed at a time, so that three
    /// levels of the tree hold back less than half of it.
    pub fn for_ack_tree(&self, receivers: usize, siblings: usize, position: usize) -> Tuning {
        let mut tuning = self.for_cast(siblings, position);
        tuning.designates = false;
        tuning.room_parts = self.room_parts;
        tuning.ack_turn_permille = Some(turn(siblings as u32, position));
        tuning.timeout_prompt = self.timeout_prompt;
        tuning.ack_every_frames = (self.feed_frames / 8).max(self.ack_every_frames);
        tuning.backoff_group = (receivers > STAGGERED as usize).then_some(siblings.max(1) as u32);
        tuning
    }

    /// Slots of a feed whose frames carry up to `payload_bytes`: a power of two within both limits, at least 64.
    pub fn feed_frames_for(&self, payload_bytes: usize) -> u64 {
        let affordable = (self.feed_bytes / payload_bytes.max(1) as u64).max(64);
        let affordable = 1 << affordable.ilog2();
        affordable.min(self.feed_frames)
    }
}

/// The turn of one of so many, in thousandths of a round.
fn turn(siblings: u32, position: usize) -> u64 {
    position as u64 * 1000 / u64::from(siblings.max(1)) % 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feed_is_bounded_in_frames_and_in_bytes() {
        let tuning = Tuning::default();
        assert_eq!(tuning.feed_frames_for(1468), 4096);
        assert_eq!(tuning.feed_frames_for(65_503), 256);
        assert_eq!(tuning.feed_frames_for(1 << 24), 64);
    }
}
