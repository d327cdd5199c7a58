//! Reordering tolerance on the path to one receiver: it grows with observed reordering and falls
//! back without (RFC 8985 §6.2, whose window grows by a quarter of the round trip at a time and
//! falls back after 16 recoveries; here the reordering itself is measured, as every frame has a
//! stamp).

use crate::time::Instant;
use std::time::Duration;

/// Rounds for which the largest value counts at least; it counts for at most twice as many.
const ROUNDS: u32 = 16;

#[derive(Clone, Debug)]
pub(crate) struct Disorder {
    present: Duration,
    before: Duration,
    rounds: u32,
    round_ends: Instant,
    most: Duration,
}

impl Disorder {
    pub(crate) fn new(most: Duration) -> Disorder {
        Disorder { present: Duration::ZERO, before: Duration::ZERO, rounds: 0, round_ends: Instant::START, most }
    }

    pub(crate) fn note(&mut self, later: Duration) {
        self.present = self.present.max(later).min(self.most);
    }

    pub(crate) fn on_echo(&mut self, now: Instant, round_trip: Duration) {
        if now < self.round_ends {
            return;
        }
        self.round_ends = now + round_trip.max(self.largest());
        self.rounds += 1;
        if self.rounds > ROUNDS {
            (self.before, self.present, self.rounds) = (self.present, Duration::ZERO, 0);
        }
    }

    pub(crate) fn tolerance(&self) -> Duration {
        (self.largest() * 5 / 4).min(self.most)
    }

    fn largest(&self) -> Duration {
        self.present.max(self.before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn the_largest_of_late_counts_and_is_forgotten_after_some_rounds_without() {
        let mut disorder = Disorder::new(ms(250));
        let mut now = Instant::START;
        let mut rounds = |disorder: &mut Disorder, count: u32, seen: Option<u64>| {
            for _ in 0..count {
                now += ms(20);
                seen.into_iter().for_each(|seen| disorder.note(ms(seen)));
                disorder.on_echo(now, ms(1));
            }
        };
        rounds(&mut disorder, 40, None);
        assert_eq!(disorder.tolerance(), Duration::ZERO);
        rounds(&mut disorder, 1, Some(8));
        rounds(&mut disorder, 1, Some(16));
        rounds(&mut disorder, 1, Some(4));
        assert_eq!(disorder.tolerance(), ms(20));
        rounds(&mut disorder, 200, Some(12));
        assert_eq!(disorder.tolerance(), ms(15), "what is seen again and again stays");
        rounds(&mut disorder, ROUNDS - 1, None);
        assert_eq!(disorder.tolerance(), ms(15));
        rounds(&mut disorder, ROUNDS + 2, None);
        assert_eq!(disorder.tolerance(), Duration::ZERO);
        rounds(&mut disorder, 1, Some(10_000));
        assert_eq!(disorder.tolerance(), ms(250));
    }

    #[test]
    fn a_round_takes_a_round_trip_however_many_echoes_it_has() {
        let mut disorder = Disorder::new(ms(250));
        disorder.note(ms(8));
        for step in 0..u64::from(ROUNDS) * 20 {
            disorder.on_echo(Instant::START + ms(step), ms(20));
            assert_eq!(disorder.tolerance(), ms(10), "after {step} ms");
        }
    }
}
