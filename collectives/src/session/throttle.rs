//! Rate limit of a host: a token bucket.
//!
//! Every frame that leaves is charged at the limit's rate, with the length that the kernel counts.
//! Data waits until all earlier frames are paid for. Acknowledgements and control messages, for
//! which others wait, go at once, and later data pays for them. After an idle time or a busy
//! processor the host may catch up by [`DEPTH`], so that within any second it sends at most 1 %
//! above the limit.

use super::low_priority::LowPriority;
use super::rate::Rate;
use ethbcast_transport::wire::Frame;
use ethbcast_transport::{Deadline, Instant, Timer};
use std::time::Duration;

/// Depth of the bucket: time at the limit's rate that may be sent at once after a pause.
pub(super) const DEPTH: Duration = Duration::from_millis(8);

/// Extra wait for the limit, after which several frames are sent: a wake-up costs as much as a
/// handful of frames. The depth makes up for it.
const BATCH_TIME: Duration = Duration::from_micros(200);

/// Interval at which a due event that cannot be sent is checked again.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Shortest Ethernet frame without check sequence, in bytes; shorter ones are padded.
const MIN_FRAME_BYTES: usize = 60;

#[derive(Clone, Debug, Default)]
pub(super) struct Throttle {
    told: Option<Rate>,
    courtesy: Option<LowPriority>,
    rate: Option<Rate>,
    /// Time at which all frames sent are paid for.
    paid_at: Instant,
    /// Fraction of a nanosecond to be paid beyond that, in units of one second divided by the rate.
    rest: u64,
    refused: bool,
    handled: Instant,
}

impl Throttle {
    pub(super) fn set(&mut self, rate: Option<Rate>) {
        if self.told != rate {
            self.told = rate;
            let found = self.courtesy.take().unwrap_or_default();
            self.courtesy = rate.filter(|rate| rate.is_yielding()).map(|_| found);
            self.settle();
        }
    }

    pub(super) fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        if self.courtesy.as_mut().is_some_and(|courtesy| courtesy.on_frame(now, frame)) {
            self.settle();
        }
    }

    fn settle(&mut self) {
        let told = self.told.and_then(Rate::limit).and_then(Rate::new);
        let found = self.courtesy.as_ref().and_then(LowPriority::rate);
        let rate = told.into_iter().chain(found).min();
        if self.rate != rate {
            (self.rate, self.rest) = (rate, 0);
        }
    }

    /// Whether data may leave. If not, [`deadline`](Throttle::deadline) says when to ask again.
    pub(super) fn admits(&mut self, now: Instant) -> bool {
        self.refused = self.rate.is_some() && self.paid_at > now;
        !self.refused
    }

    pub(super) fn spend(&mut self, now: Instant, frame_bytes: usize) {
        self.courtesy.iter_mut().for_each(|courtesy| courtesy.on_sent(frame_bytes));
        let Some(rate) = self.rate else { return };
        let earliest = now - DEPTH;
        if self.paid_at < earliest {
            (self.paid_at, self.rest) = (earliest, 0);
        }
        let bits = frame_bytes.max(MIN_FRAME_BYTES) as u128 * 8;
        let (cost, rate) = (bits * 1_000_000_000 + u128::from(self.rest), u128::from(rate.bits_per_second()));
        self.paid_at += Duration::from_nanos((cost / rate) as u64);
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
            at: if own.at > self.handled { own.at } else { self.handled + CHECK_INTERVAL },
            ..own
        });
        own.into_iter().chain([Deadline { at: self.leave_at(), why: Timer::PACE }]).min()
    }

    fn leave_at(&self) -> Instant {
        self.paid_at + BATCH_TIME
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
            Host { throttle, now: Instant::from_nanos(5 * SECOND_NANOS), sent: Vec::new() }
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
            (found.iter().copied().max().unwrap_or(0), found.iter().copied().min().unwrap_or(0))
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn whoever_always_has_data_sends_the_limit_in_any_second_to_one_percent(
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
        let begin = host.throttle.paid_at;
        (0..1_000_000).for_each(|_| host.send(1514));
        let took = host.throttle.paid_at.since(begin).as_nanos();
        assert_eq!(took, 1514 * 8 * 1_000_000 / 3000);
    }

    #[test]
    fn what_is_due_and_stays_waits_with_the_data_and_what_comes_later_does_not() {
        let mut host = Host::at(1_000_000);
        host.poll(1514, usize::MAX);
        let leave = host.throttle.paid_at + BATCH_TIME;
        let own = |at| Some(Deadline { at, why: Timer::HEARTBEAT });
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
