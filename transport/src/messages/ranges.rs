//! Set of the byte ranges of a message that have arrived, each counted once.

use std::collections::BTreeMap;

/// Ranges of bytes that neither touch nor overlap; a single one as long as parts arrive in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    ends: BTreeMap<u64, u64>,
    bytes: u64,
}

impl Ranges {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn add(&mut self, mut start: u64, mut end: u64) {
        while let Some((&from, &to)) = self.ends.range(..=end).next_back()
            && to >= start
        {
            self.ends.remove(&from);
            self.bytes -= to - from;
            (start, end) = (start.min(from), end.max(to));
        }
        if start < end {
            self.ends.insert(start, end);
            self.bytes += end - start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_once_in_whatever_pieces_and_order_they_come() {
        let mut pieces = Vec::new();
        for seed in 1..200_u64 {
            let (mut ranges, mut model) = (Ranges::default(), [false; 64]);
            pieces.clear();
            for step in 1..12_u64 {
                let start = (seed.wrapping_mul(step * 0x9E37_79B9) >> 7) & 63;
                let end = (start + ((seed * step * 7) & 15)).min(64);
                pieces.push((start, end));
                ranges.add(start, end);
                model[start as usize..end as usize].fill(true);
                assert_eq!(ranges.bytes(), model.iter().filter(|&&there| there).count() as u64, "{pieces:?}");
            }
        }
        let mut ordered = Ranges::default();
        (0..100).for_each(|part| ordered.add(part * 10, part * 10 + 10));
        assert_eq!((ordered.bytes(), ordered.ends.len()), (1000, 1));
    }
}
