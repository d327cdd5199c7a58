//! Maps keyed by the fingerprints of states.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(super) type Prints<V> = HashMap<u64, V, BuildHasherDefault<AsIs>>;

#[derive(Debug, Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("a fingerprint is a number");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}
