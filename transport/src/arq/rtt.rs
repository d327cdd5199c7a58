//! Round-trip time and retransmission timeout (RFC 6298, with shorter bounds: a cluster's round
//! trips are below a millisecond).

use crate::tuning::{TimeoutTuning, Tuning};
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    least: Duration,
    initial: Duration,
    prompt: Duration,
    min: Duration,
    max: Duration,
    reorder_max: Duration,
}

/// Tries after which waits get ever longer. With half of all heartbeats or their answers lost, one
/// in 4000 waits takes longer than this.
const PATIENT_TRIES: u32 = 12;
/// Deviations below this are scheduler noise.
const GRANULARITY: Duration = Duration::from_micros(200);

impl Rtt {
    pub fn new(tuning: &Tuning) -> Rtt {
        let TimeoutTuning { initial, prompt, min, max, reorder_max } = tuning.timeout;
        Rtt { smoothed: None, variation: Duration::ZERO, least: Duration::MAX, initial, prompt, min, max, reorder_max }
    }

    /// Takes a sample; α is 1/8, β 1/4.
    pub fn sample(&mut self, sample: Duration) {
        self.least = self.least.min(sample);
        match self.smoothed {
            None => {
                self.smoothed = Some(sample);
                self.variation = sample / 2;
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
                self.smoothed = Some((smoothed * 7 + sample) / 8);
            }
        }
    }

    pub fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    pub fn least(&self) -> Option<Duration> {
        self.smoothed.map(|_| self.least)
    }

    pub fn reordering_max(&self) -> Duration {
        self.reorder_max
    }

    /// Returns the wait for an acknowledgement after `tries` fruitless waits. It doubles up to
    /// eightfold, which gets through heavy loss; it grows further only after long silence.
    pub fn timeout(&self, tries: u32) -> Duration {
        let base = self.smoothed.map_or(self.initial, |smoothed| smoothed + (self.variation * 4).max(GRANULARITY));
        self.doubled(base.max(self.min), tries)
    }

    /// Returns the wait for an acknowledgement that must not be delayed.
    pub fn prompt_timeout(&self, tries: u32) -> Duration {
        let base = self.smoothed.map_or(Duration::ZERO, |smoothed| smoothed + self.variation * 4);
        self.doubled(base.max(self.prompt), tries)
    }

    /// Returns the wait of a sender whose round trips are long because of its own queue: after a
    /// fruitless wait the queue has emptied, and the path is short again.
    pub fn emptied_timeout(&self, tries: u32) -> Duration {
        let again = tries.checked_sub(1).map(|tries| self.empty_timeout(self.min, tries));
        self.timeout(tries).min(again.unwrap_or(self.max))
    }

    /// Returns the wait, `prompt` or delayed, of one of several receivers of the same frames. Once
    /// everything sent is known to have `left`, or after a fruitless wait, the path is short again.
    pub fn shared_timeout(&self, prompt: bool, left: bool, tries: u32) -> Duration {
        let (usual, least) =
            if prompt { (self.prompt_timeout(tries), self.prompt) } else { (self.timeout(tries), self.min) };
        let again = if left { Some(tries) } else { tries.checked_sub(1) };
        usual.min(again.map_or(self.max, |tries| self.empty_timeout(least, tries)))
    }

    fn empty_timeout(&self, least: Duration, tries: u32) -> Duration {
        if self.smoothed.is_none() {
            return self.max;
        }
        self.doubled(self.least.saturating_mul(2).max(least), tries)
    }

    fn doubled(&self, base: Duration, tries: u32) -> Duration {
        let doublings = if planted!("no-backoff") {
            0
        } else if tries < PATIENT_TRIES {
            tries.min(3)
        } else {
            tries - PATIENT_TRIES + 4
        };
        (base * (1 << doublings.min(8))).min(self.max)
    }

    /// Returns the reordering tolerance: how much later another frame must have been sent for its
    /// arrival to prove a loss.
    pub fn reordering(&self) -> Duration {
        self.smoothed.map_or(Duration::ZERO, |smoothed| smoothed / 4).min(self.reorder_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_the_samples_within_its_bounds_and_doubles() {
        let tuning = Tuning::default();
        let mut rtt = Rtt::new(&tuning);
        assert_eq!(rtt.timeout(0), tuning.timeout.initial);
        (0..100).for_each(|_| rtt.sample(Duration::from_micros(50)));
        assert_eq!(rtt.timeout(0), tuning.timeout.min);
        (0..100).for_each(|_| rtt.sample(Duration::from_millis(20)));
        assert!(rtt.timeout(0) >= Duration::from_millis(20) && rtt.timeout(0) < Duration::from_millis(22));
        assert!(rtt.timeout(1) >= Duration::from_millis(40));
        assert_eq!(rtt.timeout(30), tuning.timeout.max);
    }

    #[test]
    fn who_has_waited_in_vain_for_a_long_queue_asks_again_soon() {
        let tuning = Tuning::default();
        let mut rtt = Rtt::new(&tuning);
        assert_eq!([0, 1].map(|tries| rtt.emptied_timeout(tries)), [0, 1].map(|tries| rtt.timeout(tries)));
        rtt.sample(Duration::from_millis(3));
        (0..100).for_each(|_| rtt.sample(Duration::from_millis(50)));
        assert_eq!(rtt.emptied_timeout(0), rtt.timeout(0));
        assert_eq!([1, 2, 3, 4].map(|tries| rtt.emptied_timeout(tries).as_millis()), [6, 12, 24, 48]);
        assert_eq!(rtt.emptied_timeout(30), tuning.timeout.max);
        // Several receive the same frames: one of them reports that the last has left.
        assert_eq!(rtt.shared_timeout(false, false, 0), rtt.timeout(0));
        assert_eq!([0, 1, 2].map(|tries| rtt.shared_timeout(false, true, tries).as_millis()), [6, 12, 24]);
        assert_eq!(rtt.shared_timeout(true, false, 1).as_millis(), 6);
    }

    #[test]
    fn a_sample_counts_an_eighth_and_its_deviation_a_quarter() {
        // RFC 6298 §2: 40 ms, then 80 ms: 45 ms, with a deviation of 20 * 3/4 + 40 / 4 = 25 ms.
        let mut rtt = Rtt::new(&Tuning::default());
        [40, 80].into_iter().for_each(|ms| rtt.sample(Duration::from_millis(ms)));
        assert_eq!(rtt.smoothed(), Some(Duration::from_millis(45)));
        assert_eq!(rtt.prompt_timeout(0), Duration::from_millis(45 + 4 * 25));
    }
}
