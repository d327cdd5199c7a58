//! Timing of a call by either route, as one rank sees it.
//!
//! An untimed barrier of that route precedes each timed call. A call thus has the neighbours that
//! it has in a program all of whose calls use that route, and delays of one route are not counted
//! for the other.

use crate::cost_table::Way;
use std::time::Duration;

pub trait Calls {
    fn barrier(&mut self, way: Way);
    fn call(&mut self, way: Way);
    /// Returns the time since any fixed moment.
    fn now(&self) -> Duration;
}

/// Times of calls, in nanoseconds, by route.
#[derive(Debug, Default)]
pub struct Times([Vec<u64>; 2]);

impl Times {
    /// Makes a pair of calls, by the wire and by the MPI. Routes alternate, so that other load
    /// affects both.
    pub fn take_pair(&mut self, calls: &mut impl Calls) {
        for way in [Way::Wire, Way::Mpi] {
            calls.barrier(way);
            let began = calls.now();
            calls.call(way);
            self.0[way as usize].push((calls.now() - began).as_nanos() as u64);
        }
    }

    /// Returns the median of each route, 0 if there is none. The median ignores calls with a lost
    /// frame or a rank waiting for a processor.
    pub fn medians(mut self) -> [u64; 2] {
        self.0.each_mut().map(|times| {
            times.sort_unstable();
            times.get(times.len() / 2).copied().unwrap_or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds of each wire barrier, wire call and MPI call, in turns.
    struct Network {
        barriers: [u64; 5],
        wire: [u64; 5],
        mpi: [u64; 5],
        made: [usize; 3],
        now: Duration,
    }

    impl Network {
        fn new(barriers: [u64; 5], wire: [u64; 5], mpi: [u64; 5]) -> Network {
            Network { barriers, wire, mpi, made: [0; 3], now: Duration::ZERO }
        }

        fn takes(&mut self, what: usize) {
            let turns = [self.barriers, self.wire, self.mpi][what];
            self.now += Duration::from_millis(turns[self.made[what] % turns.len()]);
            self.made[what] += 1;
        }

        fn medians(mut self) -> [u64; 2] {
            let mut times = Times::default();
            (0..5).for_each(|_| times.take_pair(&mut self));
            times.medians().map(|nanoseconds| nanoseconds / 1_000_000)
        }
    }

    impl Calls for Network {
        fn barrier(&mut self, way: Way) {
            match way {
                Way::Wire => self.takes(0),
                Way::Mpi => self.now += Duration::from_millis(1),
            }
        }

        fn call(&mut self, way: Way) {
            self.takes(if way == Way::Wire { 1 } else { 2 });
        }

        fn now(&self) -> Duration {
            self.now
        }
    }

    #[test]
    fn frames_that_the_wires_barriers_lose_are_no_part_of_the_mpis_price() {
        assert_eq!(Network::new([30, 700, 40, 1300, 35], [31; 5], [3; 5]).medians(), [31, 3]);
    }

    #[test]
    fn a_call_that_went_well_by_chance_or_had_to_wait_by_chance_says_nothing() {
        assert_eq!(Network::new([1; 5], [1, 30, 31, 2, 32], [3, 90, 2, 3, 3]).medians(), [30, 3]);
        assert_eq!(Times::default().medians(), [0, 0]);
    }
}
