//! Rate limit of a sending host: a token bucket.
//!
//! Every frame that leaves is charged at the limit's rate, with the length that the kernel counts.
//! Data waits until all earlier frames are paid for. Acknowledgements and control messages, for
//! which others wait, go at once, and later data pays for them. After an idle time or a busy
//! processor the host may catch up by [`DEPTH`], so that within any second it sends at most 1 %
//! above the limit.

use ethbcast_transport::wire::Rank;
use ethbcast_transport::{Deadline, Instant, Timer, TokenBucket};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

/// Depth of the bucket: time at the limit's rate that may be sent at once after a pause.
pub(super) const DEPTH: Duration = Duration::from_millis(8);

/// Extra wait for the limit, after which several frames are sent: a wake-up costs as much as a
/// handful of frames. The depth of the bucket makes up for it.
const BATCH_TIME: Duration = Duration::from_micros(200);

/// Interval at which a due event that cannot be sent is checked again.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

const MIN_FRAME_BYTES: usize = 60;

#[derive(Clone, Debug, Default)]
pub(super) struct Throttle {
    told: Option<Rate>,
    shared: Option<Rate>,
    low_priority: Option<LowPriority>,
    rate: Option<Rate>,
    bucket: TokenBucket,
    /// Fraction of a nanosecond to be paid beyond the bucket, in units of one second divided by the
    /// rate.
    rest: u64,
    refused: bool,
    handled: Instant,
}

impl Throttle {
    pub(super) fn set(&mut self, rate: Option<Rate>) {
        if self.told != rate {
            self.told = rate;
            let found = self.low_priority.take().unwrap_or_default();
            self.low_priority = rate.filter(|rate| rate.is_yielding()).map(|_| found);
            self.settle();
        }
    }

    pub(super) fn share(&mut self, rate: Option<Rate>) {
        if self.shared != rate {
            self.shared = rate;
            self.settle();
        }
    }

    pub(super) fn on_round_trip(&mut self, now: Instant, rank: Rank, round_trip: Duration) {
        if self
            .low_priority
            .as_mut()
            .is_some_and(|low_priority| low_priority.on_round_trip(now, rank, round_trip))
        {
            self.settle();
        }
    }

    fn settle(&mut self) {
        let told = self.told.and_then(Rate::limit).and_then(Rate::new);
        let found = self.low_priority.as_ref().and_then(LowPriority::rate);
        let rate = told.into_iter().chain(found).chain(self.shared).min();
        if self.rate != rate {
            (self.rate, self.rest) = (rate, 0);
        }
    }

    /// Whether data may leave. If not, [`deadline`](Throttle::deadline) gives the time of the next
    /// check.
    pub(super) fn admits(&mut self, now: Instant) -> bool {
        self.refused = self.rate.is_some() && self.bucket.ready_at(now).is_some();
        !self.refused
    }

    pub(super) fn spend(&mut self, now: Instant, frame_bytes: usize) {
        self.low_priority
            .iter_mut()
            .for_each(|low_priority| low_priority.on_sent(frame_bytes));
        let Some(rate) = self.rate else { return };
        if self.bucket.paid_at() < now - DEPTH {
            self.rest = 0;
        }
        let bits = frame_bytes.max(MIN_FRAME_BYTES) as u128 * 8;
        let (cost, rate) = (
            bits * 1_000_000_000 + u128::from(self.rest),
            u128::from(rate.bits_per_second()),
        );
        self.bucket
            .spend(now, Duration::from_nanos((cost / rate) as u64), DEPTH);
        self.rest = (cost % rate) as u64;
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.handled = now;
        self.refused &= self.leave_at() > now;
    }

    /// Returns the deadline of the machine, whose own next one is `own`. An event that was due, has
    /// been handled and remains can only wait for the limit.
    pub(super) fn deadline(&self, own: Option<Deadline>) -> Option<Deadline> {
        if !self.refused {
            return own;
        }
        let own = own.map(|own| Deadline {
            at: if own.at > self.handled {
                own.at
            } else {
                self.handled + CHECK_INTERVAL
            },
            ..own
        });
        own.into_iter()
            .chain([Deadline {
                at: self.leave_at(),
                why: Timer::PACE,
            }])
            .min()
    }

    fn leave_at(&self) -> Instant {
        self.bucket.paid_at() + BATCH_TIME
    }
}

/// Target queueing delay: a switch's port holds some milliseconds.
const TARGET: Duration = Duration::from_millis(1);
/// Minimum length of a period before the rate is adjusted.
const PERIOD: Duration = Duration::from_millis(20);
/// Minimum number of round trips of one child before the rate is adjusted.
const MIN_ANSWERS: u32 = 3;
const MAX_PERIOD: Duration = Duration::from_millis(200);
const MAX_DECREASE: u32 = 2;
/// Divisor of the rate that gives its growth in a period with empty queues.
const INCREASE: u64 = 8;
/// Divisor of the rate below which sending leaves the rate unused, so that it does not grow.
const UNUSED: u64 = 3;

#[derive(Clone, Debug, Default)]
struct PathDelay {
    base: Option<Duration>,
    shortest: Option<Duration>,
    answers: u32,
}

/// Low-priority rate control: the rate follows the queueing delay, the idea of LEDBAT (RFC 6817)
/// with a rate in place of a window.
///
/// The shortest round trip to a child is the path itself; the excess of others is queueing delay,
/// behind this host's frames or those of others. Below [`TARGET`] the rate grows, more slowly as
/// the delay approaches it; above, the rate shrinks in proportion, down to [`Rate::LOWEST`].
/// Traffic that fills the queue regardless, such as TCP or a flow of a fixed rate, gets what it
/// demands, and this host the rest. The shortest round trip of each period counts, so that the
/// response time of busy hosts is not mistaken for the network's.
#[derive(Clone, Debug, Default)]
pub(super) struct LowPriority {
    /// Paths by rank of the child, which callers have checked.
    ways: BTreeMap<Rank, PathDelay>,
    began: Instant,
    bits: u64,
    rate: Option<Rate>,
}

impl LowPriority {
    pub(super) fn rate(&self) -> Option<Rate> {
        self.rate
    }

    pub(super) fn on_sent(&mut self, frame_bytes: usize) {
        self.bits += frame_bytes as u64 * 8;
    }

    pub(super) fn on_round_trip(&mut self, now: Instant, rank: Rank, trip: Duration) -> bool {
        let way = self.ways.entry(rank).or_default();
        way.base = Some(way.base.map_or(trip, |base| base.min(trip)));
        way.shortest = Some(way.shortest.map_or(trip, |shortest| shortest.min(trip)));
        way.answers += 1;
        let (enough, lasts) = (way.answers >= MIN_ANSWERS, now.since(self.began));
        let is_over = lasts >= PERIOD && enough || lasts >= MAX_PERIOD;
        if is_over {
            self.conclude(lasts);
            self.began = now;
        }
        is_over
    }

    fn conclude(&mut self, lasts: Duration) {
        let waited = self
            .ways
            .values()
            .filter_map(|way| Some(way.shortest? - way.base?))
            .max()
            .unwrap_or_default();
        let bits = std::mem::take(&mut self.bits);
        self.ways
            .values_mut()
            .for_each(|way| (way.shortest, way.answers) = (None, 0));
        // The first acknowledgement ends no real period, and a pause is none either.
        if lasts >= MAX_PERIOD * 2 {
            return;
        }
        let sent = (u128::from(bits) * 1_000_000_000 / lasts.as_nanos().max(1)) as u64;
        let rate = match self.rate.map(Rate::bits_per_second) {
            None if waited <= TARGET => return,
            None => shrunk(sent, waited),
            Some(rate) if waited > TARGET => shrunk(rate.min(sent.saturating_mul(2)), waited),
            Some(rate) if sent < rate / UNUSED => rate,
            Some(rate) => grown(rate, waited),
        };
        self.rate = Some(Rate::new(rate).unwrap_or(Rate::LOWEST));
    }
}

fn shrunk(rate: u64, waited: Duration) -> u64 {
    let least = rate / u64::from(MAX_DECREASE);
    let part = u128::from(rate) * TARGET.as_nanos() / waited.as_nanos().max(1);
    least.max(part as u64)
}

fn grown(rate: u64, waited: Duration) -> u64 {
    let left = TARGET.saturating_sub(waited).as_nanos() as u64;
    let more = (rate / INCREASE).saturating_mul(left) / TARGET.as_nanos() as u64;
    rate.saturating_add(more)
        .min(Rate::HIGHEST.bits_per_second())
}

/// Lowest limit, in bits per second: below it, control messages alone would fill the rate.
const LOWEST_BITS_PER_SECOND: u64 = 1_000_000;

/// Flag bit in the encoded rate: low-priority mode. The other bits are the limit; all set means no
/// limit.
const YIELDING: u64 = 1 << 63;

/// Rate limit of each host of a session, and whether it uses low-priority rate control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(NonZeroU64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        Rate::new(ethbcast_planning::parse_rate(text)?).ok_or_else(|| {
            format!("`{text}` is too little: signs of life need some, give at least 1mbit")
        })
    }
}

impl Rate {
    /// Lowest limit: 1 Mbit/s.
    pub const LOWEST: Rate = Rate(NonZeroU64::new(LOWEST_BITS_PER_SECOND).unwrap());

    /// Highest value, which means no limit.
    pub const HIGHEST: Rate = Rate(NonZeroU64::new(YIELDING - 1).unwrap());

    /// Creates a limit in bits per second, with Ethernet headers, without preamble, check sequence
    /// and gap. `None` if it is out of range.
    pub const fn new(bits_per_second: u64) -> Option<Rate> {
        match Rate::from_number(bits_per_second) {
            Some(rate) if !rate.is_yielding() => Some(rate),
            _ => None,
        }
    }

    /// Returns this limit with low-priority rate control.
    pub fn yielding(self) -> Rate {
        Rate(self.0 | YIELDING)
    }

    /// Whether low-priority rate control is on: a host then sends less if frames queue.
    pub const fn is_yielding(self) -> bool {
        self.0.get() & YIELDING != 0
    }

    /// Returns the limit in bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0.get() & !YIELDING
    }

    /// Returns the limit in bits per second, if there is one.
    pub fn limit(self) -> Option<u64> {
        Some(self.bits_per_second()).filter(|&bits| bits != Rate::HIGHEST.bits_per_second())
    }

    /// Limit and flag as one number, which older builds read as a high limit.
    pub(super) const fn number(self) -> u64 {
        self.0.get()
    }

    pub(super) const fn from_number(number: u64) -> Option<Rate> {
        match NonZeroU64::new(number) {
            Some(rate) if number & !YIELDING >= LOWEST_BITS_PER_SECOND => Some(Rate(rate)),
            _ => None,
        }
    }

    pub(super) fn time_of(self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(self.bits_per_second());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Maximum number of unused turns that count later.
const MAX_SAVED: u32 = 32;

/// Time without main-stream frames after which another host must be the bottleneck, and the link
/// counts as free.
const IDLE: Duration = Duration::from_millis(5);

/// Share of the traffic beside the main stream: one frame per `MAIN_FRAMES` of the main stream,
/// while both have some.
#[derive(Clone, Debug, Default)]
pub(super) struct Share<const MAIN_FRAMES: u32> {
    saved: u32,
    main_at: Instant,
}

impl<const MAIN_FRAMES: u32> Share<MAIN_FRAMES> {
    pub(super) fn main_sent(&mut self, now: Instant) {
        self.main_at = now;
        self.saved = (self.saved + 1).min(MAX_SAVED * MAIN_FRAMES);
    }

    pub(super) fn is_due(&self) -> bool {
        self.saved >= MAIN_FRAMES
    }

    pub(super) fn may_go(&self, now: Instant) -> bool {
        self.is_due() || self.main_at + IDLE <= now
    }

    pub(super) fn take(&mut self) {
        self.saved = self.saved.saturating_sub(MAIN_FRAMES);
    }

    pub(super) fn free_at(&self, now: Instant) -> Option<Instant> {
        Some(self.main_at + IDLE).filter(|&at| at > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND_NANOS: u64 = 1_000_000_000;

    struct Host {
        throttle: Throttle,
        now: Instant,
        sent: Vec<(Instant, usize)>,
    }

    impl Host {
        fn at(rate: u64) -> Host {
            let mut throttle = Throttle::default();
            throttle.set(Rate::new(rate));
            Host {
                throttle,
                now: Instant::from_nanos(5 * SECOND_NANOS),
                sent: Vec::new(),
            }
        }

        fn poll(&mut self, frame_bytes: usize, most: usize) {
            self.throttle.handle_timeout(self.now);
            for _ in 0..most {
                if !self.throttle.admits(self.now) {
                    break;
                }
                self.send(frame_bytes);
            }
        }

        fn send(&mut self, frame_bytes: usize) {
            self.throttle.spend(self.now, frame_bytes);
            self.sent.push((self.now, frame_bytes.max(MIN_FRAME_BYTES)));
        }

        fn sleep(&mut self, late: Duration) {
            let deadline = self.throttle.deadline(None).expect("data waits");
            self.now = self.now.max(deadline.at) + late;
        }

        fn bits_of_any_second(&self) -> (u64, u64) {
            let end = self.now - Duration::from_secs(1);
            let mut to = 0;
            let mut within = 0;
            let mut found = Vec::new();
            for (from, &(begin, bytes)) in self.sent.iter().enumerate() {
                while to < self.sent.len() && self.sent[to].0 < begin + Duration::from_secs(1) {
                    within += self.sent[to].1 as u64 * 8;
                    to += 1;
                }
                // The fewest are those of a second that begins just behind a burst.
                if begin <= end && (from == 0 || self.sent[from - 1].0 < begin) {
                    found.push(within);
                }
                within -= bytes as u64 * 8;
            }
            (
                found.iter().copied().max().unwrap_or(0),
                found.iter().copied().min().unwrap_or(0),
            )
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_busy_sender_keeps_the_limit_in_any_second_within_one_percent(
            rate in prop::sample::select(vec![1_000_003_u64, 10_000_000, 99_999_989, 400_000_000, 2_500_000_000]),
            frame_bytes in prop::sample::select(vec![84_usize, 346, 1514, 9014]),
            // The sleeper comes late, sometimes by more than the limit allows to catch up.
            lateness in prop::collection::vec(0_u64..6_000_000, 1..40),
            control in prop::collection::vec(20_usize..200, 0..20),
        ) {
            let mut host = Host::at(rate);
            let mut turn = 0;
            while host.now < Instant::from_nanos(7 * SECOND_NANOS + SECOND_NANOS / 2) {
                host.poll(frame_bytes, usize::MAX);
                if let Some(&bytes) = control.get(turn) {
                    host.send(bytes);
                }
                host.sleep(Duration::from_nanos(lateness[turn % lateness.len()]));
                turn += 1;
            }
            let (most, fewest) = host.bits_of_any_second();
            let frame_bits = frame_bytes as u64 * 8;
            let control_bits: u64 = control.iter().map(|&bytes| bytes.max(MIN_FRAME_BYTES) as u64 * 8).sum();
            prop_assert!(most <= rate + rate / 100 + frame_bits + control_bits, "{most} of {rate}");
            prop_assert!(fewest + frame_bits * 2 >= rate - rate / 100 - rate * 6 / 1000, "{fewest} of {rate}");
        }
    }

    #[test]
    fn without_a_limit_nothing_is_held_back_and_no_timer_is_set() {
        let mut throttle = Throttle::default();
        (0..1000).for_each(|_| throttle.spend(Instant::START, 1514));
        assert!(throttle.admits(Instant::START));
        assert_eq!(throttle.deadline(None), None);
    }

    #[test]
    fn odd_rates_lose_nothing_to_rounding() {
        // At 3 Tbit/s a frame takes 4.04 ns.
        let mut host = Host::at(3_000_000_000_000);
        host.poll(1514, 1);
        let begin = host.throttle.bucket.paid_at();
        (0..1_000_000).for_each(|_| host.send(1514));
        let took = host.throttle.bucket.paid_at().since(begin).as_nanos();
        assert_eq!(took, 1514 * 8 * 1_000_000 / 3000);
    }

    #[test]
    fn deadlines_already_due_wait_with_the_data_and_later_ones_do_not() {
        let mut host = Host::at(1_000_000);
        host.poll(1514, usize::MAX);
        let leave = host.throttle.bucket.paid_at() + BATCH_TIME;
        let own = |at| {
            Some(Deadline {
                at,
                why: Timer::HEARTBEAT,
            })
        };
        assert_eq!(
            host.throttle.deadline(own(host.now)).map(|next| next.at),
            Some(leave.min(host.now + CHECK_INTERVAL))
        );
        let soon = host.now + Duration::from_micros(1);
        assert_eq!(host.throttle.deadline(own(soon)), own(soon));
        host.throttle.handle_timeout(leave);
        assert_eq!(host.throttle.deadline(None), None, "it is polled now");
    }
}

#[cfg(test)]
mod low_priority_tests {
    use super::*;

    #[test]
    fn a_rate_grows_the_slower_and_shrinks_the_faster_the_longer_frames_wait() {
        let micros = Duration::from_micros;
        assert_eq!(
            [0, 500, 1000].map(|waited| grown(800, micros(waited))),
            [900, 850, 800]
        );
        assert_eq!(
            [1000, 1250, 5000].map(|waited| shrunk(1000, micros(waited))),
            [1000, 800, 500]
        );
        assert_eq!(
            grown(u64::MAX / 2, Duration::ZERO),
            Rate::HIGHEST.bits_per_second()
        );
    }

    #[test]
    fn a_low_priority_sender_without_queues_has_no_rate_and_a_queue_sets_one() {
        let mut low_priority = LowPriority::default();
        let wait = |low_priority: &mut LowPriority, shortest: u64, bits: u64| {
            let way = low_priority.ways.entry(Rank(1)).or_default();
            (way.base, way.shortest) = (
                Some(Duration::from_micros(100)),
                Some(Duration::from_micros(shortest)),
            );
            low_priority.bits = bits;
            low_priority.conclude(PERIOD);
            low_priority.rate().map(Rate::bits_per_second)
        };
        assert_eq!(wait(&mut low_priority, 300, 2_000_000), None);
        // The rate is 100 Mbit/s, and frames waited for 2 ms.
        assert_eq!(wait(&mut low_priority, 2100, 2_000_000), Some(50_000_000));
        assert_eq!(wait(&mut low_priority, 100, 1_000_000), Some(56_250_000));
        assert_eq!(
            wait(&mut low_priority, 100, 100_000),
            Some(56_250_000),
            "it has nothing to send"
        );
        for _ in 0..20 {
            wait(&mut low_priority, 50_000, 1_000_000);
        }
        assert_eq!(low_priority.rate(), Some(Rate::LOWEST));
    }
}
