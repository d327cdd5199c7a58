//! One bit for each slot of a ring, or for each frame of an acknowledgement.

pub(crate) fn get(bitmap: &[u8], bit: u64) -> bool {
    bitmap.get((bit / 8) as usize).is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
}

#[derive(Clone, Debug)]
pub(crate) struct Bits {
    words: Box<[u64]>,
    mask: u64,
}

impl Bits {
    pub(crate) fn new(slots: u64) -> Bits {
        Bits { words: vec![0; slots.div_ceil(64) as usize].into_boxed_slice(), mask: slots - 1 }
    }

    pub(crate) fn get(&self, sequence: u64) -> bool {
        let slot = sequence & self.mask;
        self.words[(slot / 64) as usize] >> (slot % 64) & 1 == 1
    }

    pub(crate) fn set(&mut self, sequence: u64) {
        let slot = sequence & self.mask;
        self.words[(slot / 64) as usize] |= 1 << (slot % 64);
    }

    pub(crate) fn clear(&mut self, sequence: u64) {
        let slot = sequence & self.mask;
        self.words[(slot / 64) as usize] &= !(1 << (slot % 64));
    }

    /// Returns the lowest marked number in `from..end`, which must not be longer than the ring.
    pub(crate) fn first(&self, from: u64, end: u64) -> Option<u64> {
        let mut at = from;
        while at < end {
            let slot = at & self.mask;
            let rest = self.words[(slot / 64) as usize] >> (slot % 64);
            if rest != 0 {
                let found = at + u64::from(rest.trailing_zeros());
                return (found < end).then_some(found);
            }
            // Continue at the next machine word, or at the beginning of the ring.
            at += (64 - slot % 64).min(self.mask + 1 - slot);
        }
        None
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    pub(crate) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mark_is_found_in_any_part_of_the_ring_and_around_its_end() {
        for slots in [16, 64, 256] {
            for (begin, mark) in (0..slots * 3).flat_map(|begin| (begin..begin + slots).map(move |mark| (begin, mark)))
            {
                let mut bits = Bits::new(slots);
                bits.set(mark);
                assert_eq!(bits.first(begin, begin + slots), Some(mark), "{slots} slots from {begin}");
                assert_eq!(bits.first(begin, mark), None, "{slots} slots from {begin}");
            }
        }
    }
}
