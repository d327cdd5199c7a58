//! Children that need frames which this host has freed: somebody else has to send them.

use crate::wire::Rank;

/// A child that lacks frames below what its parent keeps: frames `from..to` are to come from another host. The parent
/// serves it from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The child.
    pub rank: Rank,
    /// The first frame it lacks.
    pub from: u64,
    /// One past the last of them that its credit allows.
    pub to: u64,
}

/// The newest gap of each child, until somebody takes the news.
#[derive(Clone, Debug, Default)]
pub(super) struct Orphans {
    news: Vec<Orphan>,
}

impl Orphans {
    /// An acknowledgement of `rank` has shown this gap, or that there is none.
    pub(super) fn note(&mut self, rank: Rank, gap: Option<Orphan>) {
        self.news.retain(|orphan| orphan.rank != rank);
        self.news.extend(gap);
    }

    /// The gaps that acknowledgements have shown since the last call.
    pub(super) fn take(&mut self) -> Vec<Orphan> {
        std::mem::take(&mut self.news)
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.news.capacity() * size_of::<Orphan>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_child_the_newest_gap_is_news() {
        let gap = |rank, from| Orphan { rank: Rank(rank), from, to: 9 };
        let mut orphans = Orphans::default();
        [gap(1, 3), gap(2, 4), gap(3, 5), gap(2, 6)].into_iter().for_each(|gap| orphans.note(gap.rank, Some(gap)));
        orphans.note(Rank(3), None);
        assert_eq!(orphans.take(), [gap(1, 3), gap(2, 6)]);
    }
}
