//! Numbers of hosts (ranks) and of streams in frames.

use std::fmt;

/// Number of a host in its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u16);

/// Number of a stream within its session; 0 if there is only one or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

impl Rank {
    /// Rank of a session's root.
    pub const ROOT: Rank = Rank(0);
    /// Rank of a host that is not a member.
    pub const NONE: Rank = Rank(u16::MAX);

    /// Returns its index in a list of all hosts by rank.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the rank `steps` further in the ring of `size` ranks, where 0 follows the last.
    pub const fn ahead(self, steps: u16, size: u16) -> Rank {
        Rank((self.0 + steps) % size)
    }
}

impl StreamId {
    /// Returns its index in a list of all streams by number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl From<u16> for Rank {
    fn from(number: u16) -> Rank {
        Rank(number)
    }
}

impl From<u16> for StreamId {
    fn from(number: u16) -> StreamId {
        StreamId(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_counted_around_the_ring_and_numbers_are_places() {
        assert_eq!([0, 1, 2, 4].map(|steps| Rank(3).ahead(steps, 5)), [3, 4, 0, 2].map(Rank));
        assert_eq!((Rank(7).index(), StreamId(9).index()), (7, 9));
        assert_eq!((Rank::from(7), StreamId::from(9)), (Rank(7), StreamId(9)));
        assert_eq!(format!("{} {}", Rank(7), StreamId(9)), "7 9");
    }
}
