//! How often hosts speak, and how long they wait for each other.

use ethbcast_transport::wire::Rank;
use ethbcast_transport::with_defaults;
use std::time::Duration;

with_defaults! {
    /// Periods and patience of a session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Timing {
        /// Between two invitations of the root.
        pub announce: Duration = Duration::from_millis(100),
        /// Between two requests to join; also what keeps a candidate on the root's list.
        pub join: Duration = Duration::from_millis(100),
        /// Between two repetitions of a view that not all members have confirmed.
        pub view: Duration = Duration::from_millis(50),
        /// Between two signs of life.
        pub status: Duration = Duration::from_millis(100),
        /// Silence after which a member is suspected (a warning in the log).
        pub suspect: Duration = Duration::from_millis(300),
        /// Silence after which a member is put out of the others' way.
        pub dead: Duration = Duration::from_millis(1500),
        /// Silence after which, before the start, who asks to join or who invites is forgotten.
        pub forgotten: Duration = Duration::from_millis(1500),
        /// How long whoever is silent is waited for beyond that: a switch that relearns, a cable that was pulled.
        pub patience: Duration = Duration::from_secs(30),
        /// Time without progress, of a member that is heard, after which it is put out of the others' way.
        pub stall: Duration = Duration::from_secs(10),
        /// How long a member may sync or verify what it has received.
        pub sync: Duration = Duration::from_secs(120),
        /// Time for which a member may hold up the others before it is put out of their way.
        pub slow: Duration = Duration::from_secs(2),
        /// Between two repetitions of a verdict.
        pub verdict: Duration = Duration::from_millis(50),
        /// How often the root repeats that the session is over, or has been given up.
        pub farewells: u32 = 3,
    }
}

/// Between two repetitions of what all should hear soon: why a group cannot go on, or a good-bye.
pub(crate) const HURRY: Duration = Duration::from_micros(12_500);

/// Between two repetitions of a member's word that its part is over, which counts when it is said twice.
pub(crate) const CLAIM_PERIOD: Duration = HURRY;

/// Up to so many receivers a switch's port holds what they say at the same moment, also where all ports share little.
const AT_ONCE: usize = 16;
/// Above, a short frame's time at 100 Mbit/s lies between one and the next, so that the root's port does not overflow.
const BETWEEN: Duration = Duration::from_micros(20);

/// How long a member of so many waits with what all of them say at the same moment.
pub(crate) fn turn(rank: Rank, members: usize) -> Duration {
    if members <= AT_ONCE { Duration::ZERO } else { BETWEEN * u32::from(rank.0) }
}

/// A part of `period` that differs from one `seed` to the next, for those who have no rank yet.
pub(crate) fn jitter(period: Duration, seed: u64) -> Duration {
    // Fibonacci hashing (Knuth 6.4): the upper bits of the product depend on all of the seed.
    period * (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as u32 / 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thousand_say_comes_one_after_the_other_and_what_ten_say_at_once() {
        assert_eq!((turn(Rank(9), 10), turn(Rank(999), 1000)), (Duration::ZERO, Duration::from_micros(19_980)));
        let period = Duration::from_millis(50);
        let early = (0..1000).filter(|&nonce| jitter(period, nonce) < period / 4).count();
        assert!(
            (200..300).contains(&early) && (0..1000).all(|nonce| jitter(period, nonce) < period),
            "{early} of 1000"
        );
    }
}
