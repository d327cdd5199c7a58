//! The operations that `perf` measures.

use clap::ValueEnum;
use std::fmt;

/// An operation.
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
    /// The root's blocks go to their ranks, and a barrier behind it: the root is done before they are there.
    Scatter,
    /// Every rank's block goes to the root.
    Gather,
}

const NAMES: [&str; 6] = ["bcast", "barrier", "sendrecv", "allgather", "scatter", "gather"];

impl Op {
    pub fn heading(self) -> &'static str {
        match self {
            Op::Bcast => "bcast+bar",
            Op::Scatter => "scatter+bar",
            other => NAMES[other as usize],
        }
    }

    /// Returns the guarantee of every iteration beside its time.
    pub fn promise(self) -> &'static str {
        match self {
            Op::Bcast => "every broadcast verified by every rank",
            Op::Barrier => "barriers of the communicator",
            Op::Sendrecv => "to the next rank and from the one before, every message verified by every rank",
            Op::Allgather => "a block from every rank to every rank, every block verified by every rank",
            Op::Scatter => "a block for every rank from the root, verified by each, and a barrier",
            Op::Gather => "a block from every rank to the root, every block verified by it",
        }
    }

    /// Whether the algorithm depends on the network's calibration.
    pub fn is_planned(self) -> bool {
        matches!(self, Op::Bcast | Op::Allgather | Op::Scatter | Op::Gather)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(NAMES[*self as usize])
    }
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
}
