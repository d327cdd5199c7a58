//! How fast a host sends that gives way to others: as fast as the queues on its ways stay short, the idea of LEDBAT
//! (RFC 6817) with a rate in place of a window.
//!
//! The shortest round trip to a child is the way itself; by what another takes longer, its frames waited in queues,
//! behind its own or others'. While that is less than [`TARGET`] the rate grows, the more slowly the closer it is;
//! beyond, it shrinks in that proportion, down to [`Rate::LOWEST`]. Whoever fills the queue without looking at it, such
//! as TCP or a flow of a fixed rate, gets what it asks for, and this host what is left. Of each period the shortest
//! round trip counts: what hosts take to answer when they are busy is not the network's.

use super::rate::Rate;
use ethbcast_transport::wire::{Frame, Rank};
use ethbcast_transport::{Instant, RoundTrip};
use std::collections::BTreeMap;
use std::time::Duration;

/// So long frames may wait in queues: a switch's port holds some milliseconds.
const TARGET: Duration = Duration::from_millis(1);
/// After so long, and so many answers from somebody, the rate is set anew.
const PERIOD: Duration = Duration::from_millis(20);
const LEAST_ANSWERS: u32 = 3;
/// With fewer answers than that no period lasts longer.
const LONGEST_PERIOD: Duration = Duration::from_millis(200);
/// In a period the rate shrinks to no less than one of so many parts.
const MOST_DECREASE: u32 = 2;
/// With empty queues it grows by one of so many parts.
const INCREASE: u64 = 8;
/// Who has less to send than a third of what it may is not to have more and more.
const UNUSED: u64 = 3;

/// The way to one child.
#[derive(Clone, Debug, Default)]
struct Way {
    trips: RoundTrip,
    /// The shortest round trip ever.
    base: Option<Duration>,
    /// The shortest of this period, and of how many.
    shortest: Option<Duration>,
    answers: u32,
}

/// What a host knows of the queues on its ways, and how fast it sends therefore.
#[derive(Clone, Debug, Default)]
pub(super) struct Courtesy {
    /// By the rank of the child; those who call know that it is one of the view's.
    ways: BTreeMap<Rank, Way>,
    began: Instant,
    /// What has left in this period.
    bits: u64,
    rate: Option<Rate>,
}

impl Courtesy {
    /// How fast it sends; without a rate nothing has been in anybody's way yet.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// A frame has left.
    pub(super) fn on_sent(&mut self, frame_bytes: usize) {
        self.bits += frame_bytes as u64 * 8;
    }

    /// Takes an acknowledgement of a member; whether the rate has been set anew.
    pub(super) fn on_frame(&mut self, now: Instant, frame: &Frame<'_>) -> bool {
        let way = self.ways.entry(frame.header.rank).or_default();
        let Some(trip) = way.trips.sample(now, frame) else { return false };
        way.base = Some(way.base.map_or(trip, |base| base.min(trip)));
        way.shortest = Some(way.shortest.map_or(trip, |shortest| shortest.min(trip)));
        way.answers += 1;
        let (enough, lasts) = (way.answers >= LEAST_ANSWERS, now.since(self.began));
        let is_over = lasts >= PERIOD && enough || lasts >= LONGEST_PERIOD;
        if is_over {
            self.conclude(lasts);
            self.began = now;
        }
        is_over
    }

    /// Ends a period.
    fn conclude(&mut self, lasts: Duration) {
        let waited = self.ways.values().filter_map(|way| Some(way.shortest? - way.base?)).max().unwrap_or_default();
        let bits = std::mem::take(&mut self.bits);
        self.ways.values_mut().for_each(|way| (way.shortest, way.answers) = (None, 0));
        // The first acknowledgement ends what was no period, and a pause is none.
        if lasts >= LONGEST_PERIOD * 2 {
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

/// A rate that has made frames wait for too long.
fn shrunk(rate: u64, waited: Duration) -> u64 {
    let least = rate / u64::from(MOST_DECREASE);
    let part = u128::from(rate) * TARGET.as_nanos() / waited.as_nanos().max(1);
    least.max(part as u64)
}

/// A rate that may be higher.
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
        let mut courtesy = Courtesy::default();
        let wait = |courtesy: &mut Courtesy, shortest: u64, bits: u64| {
            let way = courtesy.ways.entry(Rank(1)).or_default();
            (way.base, way.shortest) = (Some(Duration::from_micros(100)), Some(Duration::from_micros(shortest)));
            courtesy.bits = bits;
            courtesy.conclude(PERIOD);
            courtesy.rate().map(Rate::bits_per_second)
        };
        assert_eq!(wait(&mut courtesy, 300, 2_000_000), None);
        // 100 Mbit/s, and frames that waited for 2 ms.
        assert_eq!(wait(&mut courtesy, 2100, 2_000_000), Some(50_000_000));
        assert_eq!(wait(&mut courtesy, 100, 1_000_000), Some(56_250_000));
        assert_eq!(wait(&mut courtesy, 100, 100_000), Some(56_250_000), "it has nothing to send");
        for _ in 0..20 {
            wait(&mut courtesy, 50_000, 1_000_000);
        }
        assert_eq!(courtesy.rate(), Some(Rate::LOWEST));
    }
}
