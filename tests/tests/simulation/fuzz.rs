//! The fuzz targets on any compiler: the corpus that is kept, and for some seconds what chance makes of it.

use ethbcast_tests::fuzz::{Mutator, TARGETS, Target, load};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// For each target.
const SPAN: Duration = Duration::from_millis(1500);

fn give(target: &Target, bytes: &[u8], what: &str) {
    if catch_unwind(AssertUnwindSafe(|| (target.run)(bytes))).is_err() {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = target.name;
        panic!("{what}: echo {hex} | xxd -r -p > input; cargo run -p ethbcast-tests --bin fuzz show {name} input");
    }
}

#[test]
fn the_corpus_and_some_seconds_of_mutations_of_it_find_nothing() {
    // The clock decides how many there are, not which.
    let seed = std::env::var("ETHBCAST_SEED").map_or(1, |seed| seed.parse().expect("ETHBCAST_SEED is a number"));
    for target in TARGETS {
        let corpus = load(&target.corpus()).unwrap_or_else(|why| panic!("{why}"));
        assert!(!corpus.is_empty(), "{} has no corpus", target.name);
        corpus.iter().for_each(|entry| give(&target, &entry.bytes, &format!("{} {}", target.name, entry.name)));
        let (begun, mut made) = (Instant::now(), 0);
        let mut mutator = Mutator::new(&corpus, seed);
        while begun.elapsed() < SPAN {
            made += 1;
            give(&target, &mutator.next_input(), &format!("{}, input {made} of seed {seed}", target.name));
        }
        println!("{:12} {:4} kept, {made} made of them", target.name, corpus.len());
    }
}
