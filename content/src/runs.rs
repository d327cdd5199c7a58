//! Sets of byte ranges.

use std::ops::Range;

/// Limit on the ranges that are kept, 1 MiB of memory. Data written in order is one range; of data
/// written in more pieces, further ranges are dropped.
const MAX_RUNS: usize = 64 << 10;

/// A set of bytes as sorted ranges that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs(Vec<Range<u64>>);

impl Runs {
    /// Adds a range, or drops it if the set would exceed its limit.
    pub fn insert(&mut self, run: Range<u64>) {
        if run.is_empty() {
            return;
        }
        let from = self.0.partition_point(|known| known.end < run.start);
        let to = self.0.partition_point(|known| known.start <= run.end);
        if from == to && self.0.len() == MAX_RUNS {
            return;
        }
        let touched = &self.0[from..to];
        let begin = touched.first().map_or(run.start, |first| first.start.min(run.start));
        let end = touched.last().map_or(run.end, |last| last.end.max(run.end));
        self.0.splice(from..to, std::iter::once(begin..end));
    }

    /// Whether the set contains all of `run`.
    pub fn contains(&self, run: &Range<u64>) -> bool {
        let at = self.0.partition_point(|known| known.end < run.end);
        run.is_empty() || self.0.get(at).is_some_and(|known| known.start <= run.start)
    }

    /// Returns the ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.0.iter()
    }

    /// Returns the number of bytes in the set.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|run| run.end - run.start).sum()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_have_what_was_put_in_and_never_touch(runs in prop::collection::vec((0..60_u64, 0..9_u64), 0..30)) {
            let (mut set, mut known) = (Runs::default(), [false; 80]);
            for (begin, bytes) in runs {
                set.insert(begin..begin + bytes);
                (begin..begin + bytes).for_each(|at| known[at as usize] = true);
            }
            prop_assert!(set.0.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!(set.bytes(), known.iter().filter(|known| **known).count() as u64);
            for begin in 0..70_u64 {
                for end in begin..70 {
                    let all = known[begin as usize..end as usize].iter().all(|known| *known);
                    prop_assert_eq!(set.contains(&(begin..end)), all, "{}..{}", begin, end);
                }
            }
        }
    }

    #[test]
    fn however_a_content_is_written_what_is_known_of_it_is_bounded() {
        let mut set = Runs::default();
        (0..200_000_u64).for_each(|at| set.insert(2 * at..2 * at + 1));
        assert_eq!(set.0.len(), MAX_RUNS);
        set.insert(0..400_000);
        assert!(set.contains(&(0..400_000)) && set.0.len() == 1);
    }
}
