//! Tuning parameters of the protocol, each with its unit, source and reason.

use crate::wire::MacAddr;
use std::fmt;
use std::time::Duration;
use thiserror::Error;

/// Declares structs with a default value beside each field. For the crates of this workspace.
#[doc(hidden)]
#[macro_export]
macro_rules! with_defaults {
    ($($(#[$about:meta])* $seen:vis struct $name:ident {
        $($(#[$what:meta])* $field_seen:vis $field:ident: $kind:ty = $default:expr,)*
    })*) => {$(
        $(#[$about])*
        $seen struct $name {
            $($(#[$what])* $field_seen $field: $kind,)*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $($field: $default,)* }
            }
        }
    )*};
}

/// Declares a struct whose sum and difference are those of each field.
macro_rules! summed {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$what:meta])* pub $field:ident: $number:ty,)* }) => {
        $(#[$about])*
        pub struct $name {
            $($(#[$what])* pub $field: $number,)*
        }

        impl std::ops::Add for $name {
            type Output = $name;

            fn add(self, other: $name) -> $name {
                $name { $($field: self.$field + other.$field,)* }
            }
        }

        impl std::ops::Sub for $name {
            type Output = $name;

            fn sub(self, earlier: $name) -> $name {
                $name { $($field: self.$field - earlier.$field,)* }
            }
        }
    };
}

/// A parameter that the engine cannot run with, and a valid value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field} = {found}: write {instead}")]
pub struct TuningError {
    field: &'static str,
    found: String,
    instead: String,
}

/// Treatment of out-of-order frames at a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Strict go-back-n: out-of-order frames are dropped, and the sender goes back (EQA §3.2).
    InOrderOnly,
    /// Out-of-order frames are kept, and the sender is notified of the holes.
    #[default]
    HolesAllowed,
}

const ALL_ACKNOWLEDGE: u32 = 16;
const STAGGERED: u32 = 32;
const PARITY_BLOCK_FRAMES: std::ops::RangeInclusive<u64> = 8..=128;
/// Fewest blocks in a feed, so that a block waiting for its end is a small part of it.
const BLOCKS_IN_A_FEED: u64 = 16;
/// Fewest slots of a feed: a relay has room for an outgoing and an incoming segment, with one spare
/// frame for each.
const MIN_FEED_FRAMES: u64 = 4;
const PUSH_BYTES: u64 = 860;

/// Tuning parameters of the engine. [`Tuning::default`] is what the tool uses; [`Tuning::paper`]
/// and [`Tuning::push_pull`] are the EQA paper's protocols.
///
/// Custom values are validated by [`check`](Tuning::check), and by every stream created with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Treatment of out-of-order frames.
    pub policy: Policy,
    /// Shared buffer of a stream.
    pub feed: FeedTuning,
    /// Frames in flight.
    pub window: WindowTuning,
    /// Timeouts of a sender.
    pub timeout: TimeoutTuning,
    /// Acknowledgements of a receiver.
    pub ack: AckTuning,
    /// Acker of a cast, which acknowledges for the others.
    pub designated: DesignatedTuning,
    /// Broadcast frames and their repairs.
    pub cast: CastTuning,
    /// Network of this host, if frames leave it through routers; else `None`. Receivers beyond it
    /// are sent to with congestion control, in windows of a size of their own.
    pub subnet: Option<Subnet>,
}

/// A network of IPv4 over UDP, by the address of one of its hosts and the bits of its prefix. The
/// last four octets of its hosts' addresses are those of IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Address of a host in it.
    pub host: MacAddr,
    /// Bits of the prefix that its hosts have in common.
    pub prefix_bits: u8,
}

impl Subnet {
    /// Whether the host at this address is in it.
    pub fn has(self, host: MacAddr) -> bool {
        let [one, other] = [self.host, host].map(|mac| {
            let [.., a, b, c, d] = mac.octets();
            u32::from_be_bytes([a, b, c, d])
        });
        (one ^ other).leading_zeros() >= u32::from(self.prefix_bits.min(32))
    }
}

impl Tuning {
    /// Returns the EQA paper's Simple Broadcast: strict go-back-n with a window of 16 (§3.2).
    pub fn paper() -> Self {
        let ack = AckTuning {
            every_frames: 4,
            ..AckTuning::default()
        };
        Tuning {
            policy: Policy::InOrderOnly,
            window: WindowTuning::paper(),
            ack,
            ..Tuning::default()
        }
    }

    /// Returns the EQA paper's Push-Pull Broadcast (§3.3): Simple Broadcast, but the first frame of
    /// each message is pushed and acknowledged by one receiver; the rest follows as all give
    /// credit. BTP₁ + BTP₂ = 860 bytes are pushed (§4.1).
    pub fn push_pull() -> Self {
        let designated = DesignatedTuning {
            every_frames: 4,
            ..DesignatedTuning::default()
        };
        let mut tuning = Tuning {
            designated,
            ..Tuning::paper()
        }
        .with_push_frames(Some(1));
        tuning.cast.push_bytes = Some(PUSH_BYTES);
        tuning
    }

    /// Sets the slots of a feed.
    #[must_use]
    pub fn with_feed_frames(mut self, frames: u64) -> Tuning {
        self.feed.frames = frames;
        self
    }

    /// Sets the pushed frames of a message.
    #[must_use]
    pub fn with_push_frames(mut self, frames: Option<u64>) -> Tuning {
        self.cast.push_frames = frames;
        self
    }

    /// Sets the pushed bytes of a message, if any are pushed. Frames carry up to `payload_bytes`;
    /// the first has `head_bytes` in front of the message.
    #[must_use]
    pub fn with_push_bytes(
        mut self,
        bytes: u64,
        payload_bytes: usize,
        head_bytes: usize,
    ) -> Tuning {
        if self.cast.push_frames.is_some() {
            let frames = bytes
                .saturating_add(head_bytes as u64)
                .div_ceil(payload_bytes.max(1) as u64);
            (self.cast.push_frames, self.cast.push_bytes) = (Some(frames.max(1)), Some(bytes));
        }
        self
    }

    /// Validates the parameters.
    ///
    /// # Errors
    /// The first invalid field, and a valid value.
    pub fn check(&self) -> Result<(), TuningError> {
        let Tuning {
            feed,
            window,
            timeout,
            ack,
            designated,
            cast,
            ..
        } = self;
        let slots = feed
            .frames
            .clamp(MIN_FEED_FRAMES, 1 << 62)
            .next_power_of_two();
        let (start, min, max) = (window.start_frames, window.min_frames, window.max_frames);
        let tolerated = window.loss_tolerated_percent;
        let fits = |time: Duration| !time.is_zero() && time <= timeout.max;
        let above_zero = "more than 0 s, or a sender never stops asking";
        let up_to_max = &format!("more than 0 s and at most timeout.max, {:?}", timeout.max);
        let permille = ack.turn_permille;
        let block = cast.parity_block_frames;
        let is_block =
            block == 0 || block.is_power_of_two() && PARITY_BLOCK_FRAMES.contains(&block);
        // Field, value, whether it is valid, and the valid values.
        let rules: [(_, &dyn fmt::Debug, _, &dyn fmt::Display); 17] = [
            (
                "feed.frames",
                &feed.frames,
                slots == feed.frames,
                &format!("a power of two, such as {slots}"),
            ),
            (
                "feed.segment_frames",
                &feed.segment_frames,
                feed.segment_frames > 0,
                &"at least 1",
            ),
            ("window.min_frames", &min, min > 0, &"at least 1"),
            (
                "window.min_frames",
                &min,
                min <= max,
                &format!("at most window.max_frames, which is {max}"),
            ),
            (
                "window.start_frames",
                &start,
                (min..=max).contains(&start),
                &format!("{min} to {max}"),
            ),
            (
                "window.loss_tolerated_percent",
                &tolerated,
                tolerated <= 100,
                &"0 to 100",
            ),
            (
                "timeout.max",
                &timeout.max,
                !timeout.max.is_zero(),
                &above_zero,
            ),
            (
                "timeout.initial",
                &timeout.initial,
                fits(timeout.initial),
                up_to_max,
            ),
            ("timeout.min", &timeout.min, fits(timeout.min), up_to_max),
            (
                "timeout.prompt",
                &timeout.prompt,
                fits(timeout.prompt),
                up_to_max,
            ),
            (
                "ack.every_frames",
                &ack.every_frames,
                ack.every_frames > 0,
                &"at least 1",
            ),
            (
                "ack.turn_permille",
                &permille,
                permille.is_none_or(|permille| permille < 1000),
                &"None, or 0 to 999",
            ),
            (
                "ack.room_parts",
                &ack.room_parts,
                ack.room_parts > 0,
                &"at least 1",
            ),
            (
                "designated.every_frames",
                &designated.every_frames,
                designated.every_frames > 0,
                &"at least 1",
            ),
            (
                "cast.push_frames",
                &cast.push_frames,
                cast.push_frames != Some(0),
                &"None, or at least Some(1)",
            ),
            (
                "cast.parity_block_frames",
                &block,
                is_block,
                &"0, or a power of two from 8 to 128",
            ),
            (
                "cast.round_frames",
                &cast.round_frames,
                cast.round_frames > 0,
                &"at least 1",
            ),
        ];
        let wrong = rules.into_iter().find(|(_, _, holds, _)| !holds);
        wrong.map_or(Ok(()), |(field, found, _, instead)| {
            Err(TuningError {
                field,
                found: format!("{found:?}"),
                instead: instead.to_string(),
            })
        })
    }

    pub(crate) fn assert_valid(&self) {
        if let Err(error) = self.check() {
            panic!("wrong tuning: {error}");
        }
    }

    pub(crate) fn designates(&self) -> bool {
        self.designated.enabled || self.cast.push_frames.is_some()
    }

    pub(crate) fn strict_window(&self) -> u64 {
        if self.policy == Policy::InOrderOnly {
            self.window.max_frames
        } else {
            u64::MAX
        }
    }

    pub(crate) fn block_frames_for(&self, slots: u64) -> Option<u64> {
        let block = self.cast.parity_block_frames.min(slots / BLOCKS_IN_A_FEED);
        let takes_any = self.policy == Policy::HolesAllowed && self.cast.push_frames.is_none();
        Some(block).filter(|block| takes_any && PARITY_BLOCK_FRAMES.contains(block))
    }

    /// Returns the parameters of a receiver of a cast, one of `siblings` that acknowledge to one
    /// host, at index `position`. Up to 16 siblings all acknowledge; the more there are, the more
    /// rarely and the more staggered, so that at full speed their parent receives about one
    /// acknowledgement for every 32 frames. With more than 16 the slowest acknowledges for all, and
    /// the others when half of the feed has come. With more than 32, loss reports are backed off.
    ///
    /// Strict go-back-n cannot wait: every receiver acknowledges as often as it would alone.
    pub fn for_cast(&self, siblings: usize, position: usize) -> Tuning {
        let mut tuning = self.clone();
        let siblings = siblings.max(1) as u32;
        let spread = siblings.div_ceil(8);
        let strict = self.policy == Policy::InOrderOnly;
        let Tuning {
            timeout,
            ack,
            designated,
            ..
        } = &mut tuning;
        // Strict go-back-n: acknowledgements are as prompt as ever, and a lost tail stops every
        // receiver; only their stagger is added.
        let min = if strict {
            timeout.min + Duration::from_micros(200) * spread
        } else {
            timeout.min * 2 * spread
        };
        timeout.min = min.min(timeout.max);
        timeout.prompt = if siblings > ALL_ACKNOWLEDGE {
            (timeout.prompt * 2).min(timeout.max)
        } else {
            timeout.min
        };
        // A step of 37 spreads neighbours over the 100 µs.
        ack.gap_delay = Duration::from_micros(position as u64 * 37 % 100) * spread;
        ack.backoff_group = (siblings > STAGGERED).then_some(siblings);
        designated.first = position == 0;
        if !strict {
            ack.delay *= 2 * spread;
            ack.every_frames = (u64::from(siblings) * 32).clamp(ack.every_frames, 512);
            if siblings > ALL_ACKNOWLEDGE {
                designated.enabled = true;
                ack.room_parts = 2;
                ack.turn_permille = Some(turn(siblings, position));
                ack.every_frames = self.feed.frames / 2;
            }
        }
        tuning
    }

    /// Returns the parameters of a receiver of a cast to `receivers` in all, under an ack tree.
    /// They are those of [`for_cast`](Tuning::for_cast) for its siblings, but every receiver
    /// acknowledges an eighth of the feed at a time. Three levels of the tree thus hold back less
    /// than half of the feed.
    pub fn for_ack_tree(&self, receivers: usize, siblings: usize, position: usize) -> Tuning {
        let mut tuning = self.for_cast(siblings, position);
        tuning.designated.enabled = false;
        tuning.timeout.prompt = self.timeout.prompt;
        let ack = &mut tuning.ack;
        ack.room_parts = self.ack.room_parts;
        ack.turn_permille = Some(turn(siblings as u32, position));
        ack.every_frames = (self.feed.frames / 8).max(self.ack.every_frames);
        ack.backoff_group = (receivers > STAGGERED as usize).then_some(siblings.max(1) as u32);
        tuning
    }

    /// Returns the parameters of a former receiver of a cast that has its own stream now: it
    /// acknowledges only for itself, and without stagger.
    pub(crate) fn alone(&self) -> Tuning {
        let every_frames = self.ack.every_frames.min(AckTuning::default().every_frames);
        let ack = AckTuning {
            every_frames,
            ..AckTuning::default()
        };
        let cast = CastTuning {
            push_frames: None,
            ..self.cast.clone()
        };
        Tuning {
            ack,
            cast,
            designated: DesignatedTuning::default(),
            ..self.clone()
        }
    }

    /// Returns the slots of a feed whose frames carry up to `payload_bytes`: a power of two within
    /// both limits, at least 64.
    pub fn feed_frames_for(&self, payload_bytes: usize) -> u64 {
        let affordable = (self.feed.bytes / payload_bytes.max(1) as u64).max(64);
        self.feed.frames.min(1 << affordable.ilog2())
    }
}

fn turn(siblings: u32, position: usize) -> u64 {
    position as u64 * 1000 / u64::from(siblings.max(1)) % 1000
}

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
        /// Delay of a gap's report, and of the reply to a heartbeat (staggered among the receivers
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
        /// Frames of a message that are pushed at once, before the acker has replied and the rest
        /// follows (EQA §3.3); `None` for Simple Broadcast.
        pub push_frames: Option<u64> = None,
        /// Bytes of the message in the pushed frames, if it is cut there: the paper's BTP1 +
        /// BTP2. `None` if these frames are as full as all others.
        pub push_bytes: Option<u64> = None,
        /// Repairs that a cast may send per hundred new frames while it has new ones: a quarter of
        /// the rate.
        pub repair_percent: u64 = 25,
        /// Wait for other reports of a loss before it is repaired by unicast: longer than the
        /// reports' stagger.
        pub repair_hold: Duration = Duration::from_micros(500),
        /// Frames of a block: a power of two from 8 to 128, and at most a sixteenth of the feed; 0
        /// for no parity. If several receivers have lost different frames of a block, its parity is
        /// sent to all. Longer blocks take less parity for a given loss, more time until they are
        /// complete, and more work per recovered frame: 128 is worth it if several receivers lose
        /// frames independently.
        pub parity_block_frames: u64 = 128,
        /// New frames between two evaluations of a cast's loss.
        pub round_frames: u64 = 256,
        /// Time after a frame's arrival here in which it may still reach the repair children; only
        /// then is it repaired. More than the stagger between two ports of a switch, less than a
        /// repair is worth waiting for.
        pub arrival_tolerance: Duration = Duration::from_micros(500),
    }

    /// The acker: the slowest receiver acknowledges often and the others rarely.
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
        WindowTuning {
            start_frames: 16,
            min_frames: 16,
            max_frames: 16,
            ..WindowTuning::default()
        }
    }
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

    #[test]
    fn the_default_tuning_and_those_derived_from_it_are_valid() {
        for tuning in [Tuning::default(), Tuning::paper(), Tuning::push_pull()] {
            assert_eq!(tuning.check(), Ok(()));
            for siblings in [1, 16, 17, 128, 10_000] {
                assert_eq!(
                    tuning.for_cast(siblings, siblings - 1).check(),
                    Ok(()),
                    "{siblings}"
                );
                assert_eq!(
                    tuning.for_ack_tree(10_000, siblings, siblings - 1).check(),
                    Ok(()),
                    "{siblings}"
                );
            }
        }
    }

    #[test]
    fn a_network_has_the_hosts_that_share_its_prefix() {
        let mac = |ip: [u8; 4]| MacAddr::new(6, 9, ip[0], ip[1], ip[2], ip[3]);
        let has = |prefix_bits, ip| {
            let host = MacAddr::new(2, 0, 10, 1, 2, 3);
            Subnet { host, prefix_bits }.has(mac(ip))
        };
        assert!(has(24, [10, 1, 2, 250]) && !has(24, [10, 1, 3, 3]));
        assert!(has(23, [10, 1, 3, 3]) && !has(23, [10, 1, 4, 3]));
        assert!(has(32, [10, 1, 2, 3]) && !has(32, [10, 1, 2, 2]));
        assert!(has(0, [192, 168, 0, 1]) && has(255, [10, 1, 2, 3]));
    }

    #[test]
    fn a_wrong_number_is_named_with_what_to_write() {
        let changed = |change: fn(&mut Tuning)| {
            let mut tuning = Tuning::default();
            change(&mut tuning);
            tuning.check().expect_err("a wrong number").to_string()
        };
        assert_eq!(
            changed(|tuning| tuning.feed.frames = 1000),
            "feed.frames = 1000: write a power of two, such as 1024"
        );
        assert_eq!(
            changed(|tuning| tuning.feed.frames = 0),
            "feed.frames = 0: write a power of two, such as 4"
        );
        assert_eq!(
            changed(|tuning| tuning.feed.frames = u64::MAX)
                .split(':')
                .next(),
            Some("feed.frames = 18446744073709551615")
        );
        let above = "window.min_frames = 5000: write at most window.max_frames, which is 4096";
        assert_eq!(changed(|tuning| tuning.window.min_frames = 5000), above);
        assert_eq!(
            changed(|tuning| tuning.cast.round_frames = 0),
            "cast.round_frames = 0: write at least 1"
        );
        let wrong: [fn(&mut Tuning); 10] = [
            |tuning| tuning.feed.segment_frames = 0,
            |tuning| tuning.window.start_frames = 1,
            |tuning| tuning.window.min_frames = 0,
            |tuning| tuning.window.loss_tolerated_percent = 101,
            |tuning| tuning.timeout.min = Duration::from_secs(1),
            |tuning| tuning.timeout.max = Duration::ZERO,
            |tuning| tuning.ack.every_frames = 0,
            |tuning| tuning.ack.room_parts = 0,
            |tuning| tuning.ack.turn_permille = Some(1000),
            |tuning| tuning.cast.push_frames = Some(0),
        ];
        wrong.into_iter().for_each(|change| {
            assert!(changed(change).contains(": write "), "{}", changed(change))
        });
    }
}
