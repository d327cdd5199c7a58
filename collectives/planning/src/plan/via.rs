//! Names of the broadcast algorithms, on the command line (`--via`) and in frames.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Broadcast algorithm: the route of one message's bytes. `auto` is not among them: it stands for a
/// choice of one.
///
/// The type is not `non_exhaustive`, so that the compiler reports code that gives each route a
/// number on the wire when a route is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Via {
    /// Unicast from host to host in depth-first switch order (Patarasuk 2008 §4.1.1, Algorithm 1).
    Chain,
    /// A contention-free tree of up to two children each (Patarasuk 2008 §4.1.2, Algorithm 2).
    Binary,
    /// A contention-free tree of up to this many children each, 2 to 64 (Patarasuk 2008 §4.1.2, the
    /// extension).
    Kary(u8),
    /// The lowest contention-free binary tree that a search of bounded time finds, never higher
    /// than [`Binary`]'s: Algorithm 2 keeps to one depth-first line of the hosts, and others can be
    /// lower.
    ///
    /// [`Binary`]: Self::Binary
    BinaryBest,
    /// One broadcast frame that the switches replicate, repaired by unicast (EQA).
    Cast,
    /// The root sends the whole message to one host after the other (Patarasuk 2008 §3.1).
    Flat,
    /// The hypercube's tree, the whole message at each step (Patarasuk 2008 §3.1, as MPICH does
    /// it).
    Binomial,
    /// A block to each rank down the binomial tree, then blocks around a ring (Patarasuk 2008 §3.1,
    /// as MPICH does it).
    ScatterAllgather,
    /// A block to each rank down the binomial tree, then pairs exchange their blocks, doubling them
    /// (as MPICH does it).
    RecursiveDoubling,
    /// A chain in rank order that ignores switches (Patarasuk 2008 §5.2).
    ChainUnaware,
    /// A complete binary tree in rank order that ignores switches (Patarasuk 2008 §5.2).
    BinaryUnaware,
    /// The tree of least latency by injection times and edge weights (Mateescu and Taylor §3).
    Latency,
    /// Two binary trees, each for one half of the message, in which every host sends as much as it
    /// receives (Sanders, Speck and Träff 2009).
    TwoTree,
}

impl Via {
    /// Routes of the papers, in the order messages list them; `Kary` stands here with 3 children.
    pub const ALL: &[Self] = &[
        Self::Chain,
        Self::Binary,
        Self::Kary(3),
        Self::Cast,
        Self::Flat,
        Self::Binomial,
        Self::ScatterAllgather,
        Self::RecursiveDoubling,
        Self::ChainUnaware,
        Self::BinaryUnaware,
        Self::Latency,
        Self::TwoTree,
    ];

    /// Returns all routes: those of the papers, and [`BinaryBest`](Self::BinaryBest).
    pub fn every() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().chain([Self::BinaryBest])
    }

    /// Range of children that `kary=K` takes.
    pub const KARY_CHILDREN: std::ops::RangeInclusive<u8> = 2..=64;

    const fn stem(self) -> &'static str {
        match self {
            Self::Chain => "chain",
            Self::Binary => "binary",
            Self::Kary(_) => "kary",
            Self::BinaryBest => "binary-best",
            Self::Cast => "cast",
            Self::Flat => "flat",
            Self::Binomial => "binomial",
            Self::ScatterAllgather => "scatter-allgather",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::ChainUnaware => "chain-unaware",
            Self::BinaryUnaware => "binary-unaware",
            Self::Latency => "latency",
            Self::TwoTree => "two-tree",
        }
    }

    /// Whether the plan depends on the switches.
    pub const fn is_topology_aware(self) -> bool {
        self.is_contention_free() || matches!(self, Self::Latency)
    }

    /// Whether no two senders of its plans ever share a cable, except each for one half of the
    /// message.
    pub const fn is_contention_free(self) -> bool {
        matches!(
            self,
            Self::Chain | Self::Binary | Self::BinaryBest | Self::Kary(_) | Self::TwoTree
        )
    }

    /// Whether the message is one segment by definition: a host has all of it before it forwards
    /// any.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::Flat | Self::Binomial | Self::Latency)
    }

    /// Whether the message travels in blocks, each along a tree of its own.
    pub const fn is_in_blocks(self) -> bool {
        self.is_scattered() || matches!(self, Self::TwoTree)
    }

    /// Whether there is a block for each rank, which gets to that rank first.
    pub const fn is_scattered(self) -> bool {
        matches!(self, Self::ScatterAllgather | Self::RecursiveDoubling)
    }

    /// Returns the number of blocks, each with a tree of its own; 1 if the message is whole.
    pub const fn trees(self, ranks: usize) -> usize {
        match self {
            Self::ScatterAllgather | Self::RecursiveDoubling => ranks,
            Self::TwoTree => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kary(children) => formatter.pad(&format!("kary={children}")),
            via => formatter.pad(via.stem()),
        }
    }
}

/// Error: a name is no [`Via`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UnknownVia {
    /// An unknown name.
    #[error("`{0}` is no way to send; use one of: {list}", list = valid_names())]
    Name(String),
    /// The number of children of `kary`, as it was given, is missing or out of range.
    #[error("`{0}` needs a number of children from {low} to {high}; use for example \
             kary=3", low = Via::KARY_CHILDREN.start(), high = Via::KARY_CHILDREN.end())]
    Children(String),
}

impl FromStr for Via {
    type Err = UnknownVia;

    fn from_str(name: &str) -> Result<Self, UnknownVia> {
        let (stem, number) = name
            .split_once('=')
            .map_or((name, None), |(stem, number)| (stem, Some(number)));
        let known = Self::every()
            .find(|via| via.stem() == stem)
            .ok_or_else(|| UnknownVia::Name(name.to_string()))?;
        match (known, number) {
            (Self::Kary(_), number) => {
                let children = number
                    .and_then(|number| number.parse().ok())
                    .filter(|k| Self::KARY_CHILDREN.contains(k));
                children
                    .map(Self::Kary)
                    .ok_or_else(|| UnknownVia::Children(name.to_string()))
            }
            (via, None) => Ok(via),
            (_, Some(_)) => Err(UnknownVia::Name(name.to_string())),
        }
    }
}

fn valid_names() -> String {
    let name = |via: Via| {
        if matches!(via, Via::Kary(_)) {
            "kary=K".to_string()
        } else {
            via.to_string()
        }
    };
    Via::every().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for via in Via::every() {
            assert_eq!(via.to_string().parse(), Ok(via));
        }
        assert_eq!("kary=64".parse(), Ok(Via::Kary(64)));
        assert_eq!(format!("[{:>6}]", Via::Cast), "[  cast]");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_valid_ones() {
        for name in ["binaries", "auto", "Chain", "", "chain=2"] {
            let error = name.parse::<Via>().expect_err(name);
            let list = "chain, binary, kary=K, cast, flat, binomial, scatter-allgather, recursive-doubling, \
                        chain-unaware, \
                        binary-unaware, latency, two-tree, binary-best";
            assert_eq!(
                error.to_string(),
                format!("`{name}` is no way to send; use one of: {list}")
            );
        }
    }

    #[test]
    fn kary_wants_a_number_of_children() {
        for name in ["kary", "kary=", "kary=1", "kary=65", "kary=x"] {
            let error = name.parse::<Via>().expect_err(name);
            assert_eq!(
                error.to_string(),
                format!("`{name}` needs a number of children from 2 to 64; use for example kary=3")
            );
        }
    }
}
