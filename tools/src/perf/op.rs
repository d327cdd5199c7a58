//! Collectives that `ethbcast perf` times, and the bytes that they carry.

use clap::ValueEnum;
use std::fmt;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Op {
    /// A broadcast and a barrier behind it; beside it the barrier alone.
    #[default]
    Bcast,
    /// A barrier of the library's communicator.
    Barrier,
    /// Every rank sends to the next and receives from the one before, all at once.
    Sendrecv,
    /// Every rank's block goes to every rank; the size is a block's.
    Allgather,
    /// The root's blocks go to their ranks, and a barrier behind it: the root is done before they
    /// are there.
    Scatter,
    /// Every rank's block goes to the root.
    Gather,
    /// The bytes of all ranks are summed at all ranks.
    Allreduce,
}

const NAMES: [&str; 7] = [
    "bcast",
    "barrier",
    "sendrecv",
    "allgather",
    "scatter",
    "gather",
    "allreduce",
];

impl Op {
    pub fn heading(self) -> &'static str {
        match self {
            Op::Bcast => "bcast+bar",
            Op::Scatter => "scatter+bar",
            other => NAMES[other as usize],
        }
    }

    pub fn promise(self) -> &'static str {
        match self {
            Op::Bcast => "every broadcast verified by every rank",
            Op::Barrier => "barriers of the communicator",
            Op::Sendrecv => {
                "to the next rank and from the one before, every message verified by every rank"
            }
            Op::Allgather => {
                "a block from every rank to every rank, every block verified by every rank"
            }
            Op::Scatter => "a block for every rank from the root, verified by each, and a barrier",
            Op::Gather => "a block from every rank to the root, every block verified by it",
            Op::Allreduce => "sums of every rank's bytes, verified by every rank",
        }
    }

    pub fn is_planned(self) -> bool {
        !matches!(self, Op::Barrier | Op::Sendrecv)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(NAMES[*self as usize])
    }
}

/// Period in bytes, a prime, so that frames of a message rarely begin alike.
const PERIOD: usize = 65_521;
const MAX_LENGTH: usize = 65_536;
/// Offset between consecutive iterations, in bytes.
const SHIFT: usize = 251;

#[derive(Debug)]
pub struct Pattern {
    bytes: Vec<u8>,
    size: usize,
}

impl Pattern {
    pub fn new(size_bytes: u64) -> Pattern {
        let mut state = size_bytes ^ 0x9E37_79B9_7F4A_7C15;
        let mut bytes = Vec::with_capacity(PERIOD + MAX_LENGTH + 8);
        while bytes.len() < PERIOD {
            // xorshift64, sufficient to distinguish frames.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        bytes.truncate(PERIOD);
        bytes.extend_from_within(..MAX_LENGTH.min(PERIOD));
        bytes.extend_from_within(PERIOD..PERIOD + MAX_LENGTH - MAX_LENGTH.min(PERIOD));
        Pattern {
            bytes,
            size: size_bytes as usize,
        }
    }

    /// Returns the message of an iteration from byte `at` on, at most 65 536 bytes.
    pub fn rest(&self, iteration: u32, at: usize) -> &[u8] {
        let start = (at + iteration as usize % PERIOD * SHIFT) % PERIOD;
        &self.bytes[start..][..self.size.saturating_sub(at).min(MAX_LENGTH)]
    }

    pub fn fill(&self, iteration: u32, message: &mut [u8]) {
        for (at, part) in (0..)
            .step_by(MAX_LENGTH)
            .zip(message.chunks_mut(MAX_LENGTH))
        {
            part.copy_from_slice(self.rest(iteration, at));
        }
    }

    /// Returns the approximate position of the first difference from this iteration's message.
    pub fn mismatch(&self, iteration: u32, message: &[u8]) -> Option<usize> {
        let mut parts = (0..).step_by(MAX_LENGTH).zip(message.chunks(MAX_LENGTH));
        parts
            .find(|&(at, part)| part != self.rest(iteration, at))
            .map(|(at, _)| at)
    }
}

/// Statistics of a series of times in seconds; NaN for an empty one.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub mean: f64,
    pub min: f64,
    pub median: f64,
    pub p99: f64,
    /// Mean without the lowest and the highest tenth, as in the EQA paper (§4).
    pub middle80: f64,
}

impl Times {
    pub fn of(durations: &[Duration]) -> Times {
        let mut sorted: Vec<f64> = durations.iter().map(Duration::as_secs_f64).collect();
        sorted.sort_by(f64::total_cmp);
        let tenth = sorted.len() / 10;
        Times {
            mean: mean(&sorted),
            min: quantile(&sorted, 0.0),
            median: quantile(&sorted, 0.5),
            p99: quantile(&sorted, 0.99),
            middle80: mean(&sorted[tenth..sorted.len() - tenth]),
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_as_they_are_written() {
        for &op in Op::value_variants() {
            assert_eq!(Op::from_str(&op.to_string(), false), Ok(op));
        }
    }

    #[test]
    fn a_filled_message_matches_its_iteration_and_no_other() {
        let (pattern, mut message) = (Pattern::new(200_000), vec![0; 200_000]);
        pattern.fill(4, &mut message);
        assert_eq!(
            (pattern.mismatch(4, &message), pattern.mismatch(5, &message)),
            (None, Some(0))
        );
        message[199_999] ^= 1;
        assert_eq!(pattern.mismatch(4, &message), Some(196_608));
    }

    #[test]
    fn every_iteration_has_bytes_of_its_own() {
        let pattern = Pattern::new(1000);
        assert_eq!(pattern.rest(0, 0).len(), 1000);
        assert_eq!(pattern.rest(0, 990).len(), 10);
        assert_ne!(pattern.rest(0, 0), pattern.rest(1, 0));
        assert_eq!(pattern.rest(5, 7), Pattern::new(1000).rest(5, 7));
    }

    #[test]
    fn a_message_is_the_same_in_whatever_pieces_it_is_asked_for() {
        let pattern = Pattern::new(1 << 20);
        let whole: Vec<u8> = (0..1 << 20).map(|at| pattern.rest(3, at)[0]).collect();
        for at in [0, 1, PERIOD - 1, PERIOD, 3 * PERIOD - 10, (1 << 20) - 1] {
            let rest = pattern.rest(3, at);
            assert!(
                rest.len() == MAX_LENGTH.min((1 << 20) - at) && rest == &whole[at..at + rest.len()],
                "from {at}"
            );
        }
    }

    #[test]
    fn quantiles_are_times_that_were_taken_and_the_middle_leaves_out_a_tenth_at_either_end() {
        let mut seconds: Vec<u64> = (1..=20).collect();
        seconds[19] = 1000;
        let durations: Vec<Duration> = seconds.into_iter().rev().map(Duration::from_secs).collect();
        let Times {
            mean,
            min,
            median,
            p99,
            middle80,
        } = Times::of(&durations);
        assert_eq!(
            (mean, min, median, p99, middle80),
            (59.5, 1.0, 10.0, 1000.0, 10.5)
        );
    }

    #[test]
    fn the_figures_of_one_sample_are_its_time_and_of_none_no_numbers() {
        let Times {
            mean,
            min,
            median,
            p99,
            middle80,
        } = Times::of(&[Duration::from_secs(3)]);
        assert_eq!([mean, min, median, p99, middle80], [3.0; 5]);
        assert!(Times::of(&[]).median.is_nan());
    }
}
