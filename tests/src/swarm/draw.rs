//! Random values drawn from a seed.

use ethbcast_transport::sim::Random;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Draw {
    random: Random,
}

impl Draw {
    /// Starts the sequence of `seed` for one `purpose`; sequences of different purposes are
    /// unrelated.
    pub fn new(seed: u64, purpose: u64) -> Draw {
        Draw { random: Random::new(seed.wrapping_add(purpose << 56).wrapping_add(0x5157_4152_4D00)) }
    }

    /// Draws a number from `low` up to and including `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.random.below(high - low + 1)
    }

    /// Draws a number from `low` to `high`, evenly distributed over the logarithm.
    pub fn log(&mut self, low: u64, high: u64) -> u64 {
        let (from, to) = ((low.max(1) as f64).ln(), (high as f64 + 1.0).ln());
        ((from + (to - from) * self.random.unit()).exp() as u64).clamp(low, high)
    }

    pub fn index(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        self.random.chance(probability)
    }

    pub fn share(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random.unit()
    }

    pub fn micros(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_micros(self.log(low, high))
    }

    pub fn bits(&mut self) -> u64 {
        self.random.next_u64()
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.random.fill(&mut bytes);
        bytes
    }
}
