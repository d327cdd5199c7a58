//! Low-priority rate control: the rate follows the queueing delay, the idea of LEDBAT (RFC 6817)
//! with a rate in place of a window.
//!
//! The shortest round trip to a child is the path itself; the excess of others is queueing delay,
//! behind this host's frames or those of others. Below [`TARGET`] the rate grows, more slowly the
//! closer the delay is; above it, the rate shrinks in proportion, down to [`Rate::LOWEST`]. Traffic
//! that fills the queue regardless, such as TCP or a flow of a fixed rate, gets what it demands,
//! and this host the rest. The shortest round trip of each period counts, so that the response time
//! of busy hosts is not taken for the network's.

use super::rate::Rate;
use ethbcast_transport::wire::{Frame, Rank};
use ethbcast_transport::{Instant, RoundTrip};
use std::collections::BTreeMap;
use std::time::Duration;

/// Target queueing delay: a switch's port holds some milliseconds.
const TARGET: Duration = Duration::from_millis(1);
/// Minimum length of a period, and the round trips of one child it takes, before the rate is
/// adjusted.
const PERIOD: Duration = Duration::from_millis(20);
const MIN_ANSWERS: u32 = 3;
/// Maximum length of a period, even with fewer round trips.
const MAX_PERIOD: Duration = Duration::from_millis(200);
/// Maximum divisor of the rate in one period.
const MAX_DECREASE: u32 = 2;
/// Divisor of the rate that gives its growth in a period with empty queues.
const INCREASE: u64 = 8;
/// Divisor of the rate below which sending leaves it unused: then it does not grow.
const UNUSED: u64 = 3;

#[derive(Clone, Debug, Default)]
struct PathDelay {
    trips: RoundTrip,
    base: Option<Duration>,
    shortest: Option<Duration>,
    answers: u32,
}

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

    pub(super) fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) -> bool {
        let way = self.ways.entry(frame.header.rank).or_default();
        let Some(trip) = way.trips.sample(now, frame) else { return false };
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
        let waited = self.ways.values().filter_map(|way| Some(way.shortest? - way.base?)).max().unwrap_or_default();
        let bits = std::mem::take(&mut self.bits);
        self.ways.values_mut().for_each(|way| (way.shortest, way.answers) = (None, 0));
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
    rate.saturating_add(more).min(Rate::HIGHEST.bits_per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_grows_the_slower_and_shrinks_the_faster_the_longer_frames_wait() {
        let micros = Duration::from_micros;
        assert_eq!([0, 500, 1000].map(|waited| grown(800, micros(waited))), [900, 850, 800]);
        assert_eq!([1000, 1250, 5000].map(|waited| shrunk(1000, micros(waited))), [1000, 800, 500]);
        assert_eq!(grown(u64::MAX / 2, Duration::ZERO), Rate::HIGHEST.bits_per_second());
    }

    #[test]
    fn who_is_in_nobodys_way_has_no_rate_and_a_queue_gives_one() {
        let mut courtesy = LowPriority::default();
        let wait = |courtesy: &mut LowPriority, shortest: u64, bits: u64| {
            let way = courtesy.ways.entry(Rank(1)).or_default();
            (way.base, way.shortest) = (Some(Duration::from_micros(100)), Some(Duration::from_micros(shortest)));
            courtesy.bits = bits;
            courtesy.conclude(PERIOD);
            courtesy.rate().map(Rate::bits_per_second)
        };
        assert_eq!(wait(&mut courtesy, 300, 2_000_000), None);
        // The rate is 100 Mbit/s, and frames waited for 2 ms.
        assert_eq!(wait(&mut courtesy, 2100, 2_000_000), Some(50_000_000));
        assert_eq!(wait(&mut courtesy, 100, 1_000_000), Some(56_250_000));
        assert_eq!(wait(&mut courtesy, 100, 100_000), Some(56_250_000), "it has nothing to send");
        for _ in 0..20 {
            wait(&mut courtesy, 50_000, 1_000_000);
        }
        assert_eq!(courtesy.rate(), Some(Rate::LOWEST));
    }
}
