//! Random mutations of inputs, for use without a fuzzer.

use super::Entry;
use ethbcast_transport::sim::Random;

const MAX_BYTES: usize = 4096;

const EDGES: [u64; 8] = [0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, u64::MAX];

/// Mutates the inputs of a corpus.
#[derive(Debug)]
pub struct Mutator<'a> {
    corpus: &'a [Entry],
    random: Random,
}

impl Mutator<'_> {
    /// Creates a mutator whose results depend on `seed` only.
    pub fn new(corpus: &[Entry], seed: u64) -> Mutator<'_> {
        Mutator { corpus, random: Random::new(seed) }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound.max(1) as u64) as usize
    }

    fn one_of_all(&mut self) -> &[u8] {
        let at = self.below(self.corpus.len());
        self.corpus.get(at).map_or(&[], |entry| &entry.bytes)
    }

    pub fn next_input(&mut self) -> Vec<u8> {
        let mut bytes = self.one_of_all().to_vec();
        for _ in 0..1 + self.below(6) {
            self.change(&mut bytes);
        }
        bytes.truncate(MAX_BYTES);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let (at, byte) = (self.below(bytes.len()), self.random.next_u64() as u8);
        let end = (at + 1 + self.below(16)).min(bytes.len());
        match self.below(7) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << (byte % 8),
            1 if !bytes.is_empty() => bytes[at] = byte,
            2 if !bytes.is_empty() => drop(bytes.drain(at..end)),
            3 if !bytes.is_empty() => {
                let copy = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            4 => {
                let other = self.one_of_all().to_vec();
                let from = self.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from.min(other.len())..]);
            }
            5 => {
                let edge = EDGES[self.below(EDGES.len())].to_be_bytes();
                let width = [1, 2, 4, 8][self.below(4)];
                for (place, &value) in bytes.iter_mut().skip(at).zip(&edge[8 - width..]) {
                    *place = value;
                }
            }
            _ => bytes.insert(at.min(bytes.len()), byte),
        }
    }
}
