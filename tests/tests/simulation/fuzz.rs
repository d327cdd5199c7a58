//! The fuzz targets on any compiler: the kept corpus, and random mutations of it.

use ethbcast_tests::fuzz::{Mutator, TARGETS, Target, load};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Mutations for each decoder target: half a second or so of each.
const DECODED: u32 = 100_000;
const PLAYED: u32 = 500;

fn give(target: &Target, bytes: &[u8], what: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_err() {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = target.name;
        panic!("{what}: echo {hex} | xxd -r -p > input; cargo run -p ethbcast-tests --bin fuzz show {name} input");
    }
}

#[test]
fn the_corpus_and_some_mutations_of_it_find_nothing() {
    let seed = std::env::var("ETHBCAST_SEED").map_or(1, |seed| seed.parse().expect("ETHBCAST_SEED is a number"));
    for target in TARGETS {
        let corpus = load(&target.corpus()).unwrap_or_else(|why| panic!("{why}"));
        assert!(!corpus.is_empty(), "{} has no corpus", target.name);
        corpus.iter().for_each(|entry| give(&target, &entry.bytes, &format!("{} {}", target.name, entry.name)));
        let made = if ["packed", "session", "group"].contains(&target.name) { PLAYED } else { DECODED };
        let mut mutator = Mutator::new(&corpus, seed);
        for made in 1..=made {
            give(&target, &mutator.next_input(), &format!("{}, input {made} of seed {seed}", target.name));
        }
        println!("{:12} {:4} kept, {made} made of them", target.name, corpus.len());
    }
}
