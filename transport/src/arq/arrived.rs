//! Set of the frame numbers that have arrived: all below a number, and a bitmap of those beyond it.

#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    beyond: Bits,
    head: u64,
    highest: u64,
}

impl Arrived {
    pub(crate) fn new(span: u64) -> Arrived {
        Arrived { beyond: Bits::new(span), head: 0, highest: 0 }
    }

    /// Counts all frames below `first` as arrived. `first` must not be below the head, and nothing
    /// beyond the head may have arrived.
    pub(crate) fn skip_to(&mut self, first: u64) {
        assert!(self.head == self.highest && self.head <= first, "only what is in order can go on elsewhere");
        (self.head, self.highest) = (first, first);
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    pub(crate) fn has(&self, sequence: u64) -> bool {
        sequence < self.head || (sequence < self.highest && self.beyond.get(sequence))
    }

    /// Records frame `sequence`, which must be new and less than a span beyond the head.
    pub(crate) fn insert(&mut self, sequence: u64) {
        self.beyond.set(sequence);
        self.highest = self.highest.max(sequence + 1);
        while self.head < self.highest && self.beyond.get(self.head) {
            self.beyond.clear(self.head);
            self.head += 1;
        }
    }

    /// Forgets the frames from `end` on, which must be beyond the head.
    pub(crate) fn forget_from(&mut self, end: u64) {
        (end..self.highest).for_each(|sequence| self.beyond.clear(sequence));
        self.highest = self.highest.min(end);
    }

    /// Writes the arrivals beyond the head into `bitmap` (bit `i` is frame `head + 1 + i`); returns
    /// the bytes used.
    pub(crate) fn write_holes(&self, bitmap: &mut [u8]) -> usize {
        let first = self.head + 1 + u64::from(planted!("holes-off-by-one"));
        let used = (self.highest.saturating_sub(first).div_ceil(8) as usize).min(bitmap.len());
        for (at, byte) in bitmap[..used].iter_mut().enumerate() {
            let first = first + at as u64 * 8;
            *byte = (0..8)
                .filter(|bit| self.has(first + bit) || planted!("hole-never-reported"))
                .fold(0, |byte, bit| byte | 1 << bit);
        }
        used
    }

    pub(crate) fn bytes(&self) -> usize {
        self.beyond.bytes()
    }

    pub(crate) fn count(&self) -> (u64, u64) {
        let within = (self.head + 1..self.highest).filter(|&sequence| self.beyond.get(sequence)).count();
        (self.beyond.count(), within as u64)
    }
}

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
    fn holes_are_written_as_they_are_read() {
        for wraps in [0, 60, 1000] {
            let mut arrived = Arrived::new(64);
            (0..wraps).for_each(|sequence| arrived.insert(sequence));
            let present = [2, 3, 9, 17, 30].map(|ahead| wraps + ahead);
            present.into_iter().for_each(|sequence| arrived.insert(sequence));
            let mut bitmap = [0xFF; 16];
            assert_eq!((arrived.head(), arrived.highest(), arrived.write_holes(&mut bitmap)), (wraps, wraps + 31, 4));
            let read = (0..32).filter(|&bit| get(&bitmap[..4], bit)).map(|bit| wraps + 1 + bit);
            assert!(read.eq(present), "{bitmap:?}");
            assert!(!get(&bitmap[..4], 32), "what is not told has not arrived");
            assert_eq!(arrived.write_holes(&mut bitmap[..1]), 1);
            assert_eq!(arrived.count(), (5, 5));
        }
    }

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
