//! Children that need frames which this host has freed; another host has to send them.

use crate::wire::Rank;

/// A child that lacks frames below those its parent keeps: another host has to send `from..to`; the
/// parent serves it from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The child.
    pub rank: Rank,
    /// First frame it lacks.
    pub from: u64,
    /// One past the last frame of the gap within its credit.
    pub to: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Orphans {
    news: Vec<Orphan>,
}

impl Orphans {
    pub(super) fn note(&mut self, rank: Rank, gap: Option<Orphan>) {
        self.news.retain(|orphan| orphan.rank != rank);
        self.news.extend(gap);
    }

    pub(super) fn take(&mut self) -> Vec<Orphan> {
        std::mem::take(&mut self.news)
    }

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
