//! One bit for each slot of a ring.

#[derive(Debug)]
pub(super) struct Bits {
    words: Box<[u64]>,
    mask: u64,
}

impl Bits {
    pub(super) fn new(slots: u64) -> Bits {
        Bits { words: vec![0; slots.div_ceil(64) as usize].into_boxed_slice(), mask: slots - 1 }
    }

    pub(super) fn get(&self, sequence: u64) -> bool {
        let slot = sequence & self.mask;
        self.words[(slot / 64) as usize] >> (slot % 64) & 1 == 1
    }

    pub(super) fn set(&mut self, sequence: u64) {
        let slot = sequence & self.mask;
        self.words[(slot / 64) as usize] |= 1 << (slot % 64);
    }

    pub(super) fn clear(&mut self, sequence: u64) {
        let slot = sequence & self.mask;
        self.words[(slot / 64) as usize] &= !(1 << (slot % 64));
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    pub(super) fn count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}
